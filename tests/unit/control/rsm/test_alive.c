/* SPDX-License-Identifier: BSD-3-Clause */
/* Keep-alive between data planes (control/rsm/alive.c); the test is the wire. A sender that has not seen the
 * query cannot answer it, whatever address it uses. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "control/rsm/rsm.h"

#define PEER_INCARNATION 0x1122334455667788ull
#define METHOD 3
#define TRANSACTION 8
#define INCARNATION 44

struct control control;
int control_logtype;

static struct config config = {.keepalive_ms = 1000};
static struct engine_port_info info = {.num_addrs = 1, .addr = {{{[10] = 0xff, 0xff, 192, 0, 2, 1}}}};
static struct path_port port = {.info = &info};
static const struct wire_addr peer = {{[10] = 0xff, 0xff, 192, 0, 2, 2}};
static struct cm_path from_peer;
static uint8_t sent[CM_MAD_LEN];
static uint32_t num_sent, num_sent_known, num_suspected, transport_heard;
static struct conn *ended[8];
static uint32_t num_ended;
static uint64_t next_random = 1000, away;

/* ---- functions of other rooms ---- */

uint64_t
control_random(void)
{
	return next_random += 2;
}

uint64_t
engine_clock(void)
{
	return control.now - away;
}

struct path_port *
path_own(const struct wire_addr *addr)
{
	return NULL;
}

void
path_send_mad(struct path_port *by, const struct cm_path *path, const uint8_t mad[CM_MAD_LEN])
{
	assert_ptr_equal(by, &port);
	assert_memory_equal(&path->dst, &peer, sizeof(peer));
	memcpy(sent, mad, sizeof(sent));
	num_sent++;
}

void
path_send_mad_known(struct path_port *by, const struct cm_path *path, const uint8_t mac[6],
		    const uint8_t mad[CM_MAD_LEN])
{
	assert_memory_equal(mac, "\x02\0\0\0\0\x07", 6);
	num_sent_known++;
	path_send_mad(by, path, mad);
}

void
path_suspect(struct path_user *user)
{
	num_suspected++;
}

uint32_t
engine_qp_heard(const struct engine_qp *qp)
{
	return transport_heard;
}

void
conn_end(struct conn *conn, enum one_conn_event event, enum rsm_error rsm, bool notify_peer)
{
	ended[num_ended++] = conn;
	host_unwatch(conn);
}

const char *
addr_text(const struct wire_addr *addr)
{
	return "peer";
}

/* ---- the wire ---- */

static void
put64(uint8_t *at, uint64_t value)
{
	for (int i = 7; i >= 0; i--, value >>= 8)
		at[i] = (uint8_t)value;
}

/* Advances time until the next query is sent. */
static void
until_asked(void)
{
	uint32_t before = num_sent;

	while (num_sent == before && num_ended == 0) {
		control.now = hosts_deadline();
		hosts_poll();
	}
}

static void
answer(const uint8_t question[CM_MAD_LEN], uint64_t incarnation)
{
	uint8_t mad[CM_MAD_LEN];

	memcpy(mad, question, sizeof(mad));
	mad[METHOD] = 0x81;
	put64(&mad[INCARNATION], incarnation);
	assert_true(host_mad(&port, &from_peer, mad));
}

static int
setup(void **state)
{
	struct conn *conn = calloc(1, sizeof(*conn));

	memset(&control, 0, sizeof(control));
	control.config = &config;
	control.incarnation = 77;
	control.now = NS_PER_S;
	from_peer = (struct cm_path){.src = info.addr[0], .dst = peer};
	num_sent = num_sent_known = num_suspected = num_ended = 0;
	away = 0;
	conn->port = &port;
	conn->path = from_peer;
	assert_int_equal(host_watch(conn, PEER_INCARNATION), 0);
	*state = conn;
	return 0;
}

static int
teardown(void **state)
{
	host_unwatch(*state);
	hosts_poll();
	assert_int_equal(hosts_deadline(), NEVER);
	free(*state);
	return 0;
}

/* ---- tests ---- */

static void
test_answered(void **state)
{
	for (int i = 0; i < 100; i++) {
		until_asked();
		assert_int_equal(num_ended, 0);
		answer(sent, PEER_INCARNATION);
	}
}

static void
test_late(void **state)
{
	uint8_t first[CM_MAD_LEN];

	/* Each answer arrives after two later queries. */
	until_asked();
	for (int i = 0; i < 50; i++) {
		memcpy(first, sent, sizeof(first));
		until_asked();
		until_asked();
		answer(first, PEER_INCARNATION);
		assert_int_equal(num_ended, 0);
	}
}

static void
test_silent(void **state)
{
	uint64_t began = control.now;

	while (num_ended == 0)
		until_asked();
	assert_ptr_equal(ended[0], *state);
	assert_true(num_suspected > 0); /* the neighbour was suspected first */
	assert_in_range(control.now - began, NS_PER_S / 2, NS_PER_S);
}

/* Other processes use the core's processor most of the time: only the core's own time counts. */
static void
test_away(void **state)
{
	uint64_t began = engine_clock();

	until_asked();
	for (int i = 0; i < 100; i++) {
		assert_int_equal(num_ended, 0);
		control.now += NS_PER_S;
		away += NS_PER_S - 4 * NS_PER_MS;
		hosts_poll();
	}
	assert_int_equal(num_sent, (engine_clock() - began) / (NS_PER_S / 5));
	while (num_ended == 0)
		until_asked();
	assert_in_range(engine_clock() - began, NS_PER_S / 2, NS_PER_S + NS_PER_S / 50);
}

/* The control thread does not poll continuously while the core's clock stands still. */
static void
test_stopped(void **state)
{
	until_asked();
	control.now += NS_PER_S / 5 - 1;
	assert_in_range(hosts_deadline() - control.now, NS_PER_MS, 20 * NS_PER_MS);
	assert_int_equal(num_sent, 1);
}

/* Answers are lost, but packets of a connection arrive. When those end, too, the peer is lost. */
static void
test_heard(void **state)
{
	struct conn *conn = *state;
	struct qp qp = {0};
	uint64_t began;

	conn->qp = &qp;
	transport_heard = 5;
	for (int i = 0; i < 100; i++) {
		until_asked();
		transport_heard += i % 2; /* packets arrive now and then */
		assert_int_equal(num_ended, 0);
	}
	began = control.now;
	while (num_ended == 0)
		until_asked();
	assert_in_range(control.now - began, NS_PER_S / 2, NS_PER_S + NS_PER_S / 2);
	conn->qp = NULL;
}

/* The table of neighbours may have lost the peer: then the connections' MAC is used. */
static void
test_known_way(void **state)
{
	struct conn *conn = *state;

	until_asked();
	assert_int_equal(num_sent, 1);
	assert_int_equal(num_sent_known, 0); /* the connection has no MAC yet */
	memcpy(conn->mac, "\x02\0\0\0\0\x07", 6);
	until_asked();
	assert_int_equal(num_sent_known, 1);
	sent[METHOD] = 0x01; /* a query of the peer */
	assert_true(host_mad(&port, &from_peer, sent));
	assert_int_equal(num_sent_known, 2);
	assert_int_equal(num_sent, 3);
}

static void
test_restarted(void **state)
{
	until_asked();
	answer(sent, PEER_INCARNATION + 1);
	assert_int_equal(num_ended, 1);
	assert_ptr_equal(ended[0], *state);
}

/* The peer is lost although this answer arrives after each query. */
static void
not_kept_alive_by(const uint8_t *mad)
{
	while (num_ended == 0) {
		until_asked();
		answer(mad, PEER_INCARNATION);
	}
	assert_int_equal(num_ended, 1);
}

/* An answer to no query of ours shows neither that the peer restarted nor that it lives. */
static void
test_forged(void **state)
{
	uint8_t mad[CM_MAD_LEN];

	until_asked();
	memcpy(mad, sent, sizeof(mad));
	for (uint64_t guess = 0; guess < 4; guess++) {
		memcpy(&mad[TRANSACTION], &guess, sizeof(guess)); /* ids of no query, or of others */
		answer(mad, PEER_INCARNATION + 1);
		assert_int_equal(num_ended, 0);
	}
	not_kept_alive_by(mad);
}

/* An answer that was received already shows nothing, either. */
static void
test_repeated(void **state)
{
	uint8_t mad[CM_MAD_LEN];

	until_asked();
	memcpy(mad, sent, sizeof(mad));
	answer(mad, PEER_INCARNATION);
	answer(mad, PEER_INCARNATION + 1);
	assert_int_equal(num_ended, 0);
	not_kept_alive_by(mad);
}

static void
test_asked(void **state)
{
	uint8_t mad[CM_MAD_LEN];

	until_asked();
	memcpy(mad, sent, sizeof(mad));
	put64(&mad[TRANSACTION], 0x0102030405060708ull);
	put64(&mad[INCARNATION], PEER_INCARNATION);
	num_sent = 0;
	assert_true(host_mad(&port, &from_peer, mad));
	assert_int_equal(num_sent, 1);
	assert_int_equal(sent[METHOD], 0x81);
	assert_memory_equal(&sent[TRANSACTION], &mad[TRANSACTION], 8);
	mad[1] ^= 1; /* another management class: the connection manager's */
	assert_false(host_mad(&port, &from_peer, mad));
	assert_int_equal(num_sent, 1);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_answered),  TEST(test_late),     TEST(test_silent),  TEST(test_restarted),
		TEST(test_forged),    TEST(test_repeated), TEST(test_asked),   TEST(test_heard),
		TEST(test_known_way), TEST(test_away),     TEST(test_stopped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
