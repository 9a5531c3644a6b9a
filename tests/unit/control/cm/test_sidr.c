/* SPDX-License-Identifier: BSD-3-Clause */
/* Service ID resolution between two hosts in virtual time: loss, duplicates, refusals, floods, and messages
 * that no correct peer sends. */
#include <string.h>

#include "tests/unit/unit.h"
#include "control/cm/cm_mad.h"
#include "control/cm/sidr.h"

#define INTERVAL 1000u
#define RETRIES 8u
#define MAX_REQUESTS 16u
#define SERVICE SIDR_SERVICE_UDP(7174)

struct host {
	struct sidr_env env; /* first */
	struct sidr *sidr;
	struct wire_addr addr;
	bool listens;
	/* events reported to it */
	uint32_t requested, answered, silent;
	struct sidr_query *query;
	struct sidr_remote remote;
	void *user;
	/* last MAD sent */
	uint32_t sent;
	uint8_t mad[CM_MAD_LEN];
};

static struct host host[2];
static uint64_t now, seed;

static void
on_send(struct sidr_env *env, const struct cm_path *path, const uint8_t mad[CM_MAD_LEN])
{
	struct host *from = (struct host *)(void *)env;

	from->sent++;
	memcpy(from->mad, mad, CM_MAD_LEN);
}

static bool
on_event(struct sidr_env *env, enum sidr_event_type type, struct sidr_query *query,
	 const struct sidr_remote *remote)
{
	struct host *at = (struct host *)(void *)env;

	if (type == SIDR_REQUESTED && !at->listens)
		return false;
	at->requested += type == SIDR_REQUESTED;
	at->answered += type == SIDR_ANSWERED;
	at->silent += type == SIDR_SILENCE;
	at->query = query;
	at->user = sidr_user(query);
	if (remote != NULL)
		at->remote = *remote;
	return true;
}

static uint64_t
on_random(struct sidr_env *env)
{
	seed = seed * 6364136223846793005ull + 1442695040888963407ull;
	return seed >> 16;
}

static int
setup(void **state)
{
	memset(host, 0, sizeof(host));
	now = 0;
	for (int i = 0; i < 2; i++) {
		host[i].env = (struct sidr_env){.send = on_send,
						.event = on_event,
						.random = on_random,
						.retry_interval = INTERVAL,
						.max_retries = RETRIES,
						.max_requests = MAX_REQUESTS};
		host[i].listens = true;
		host[i].addr = (struct wire_addr){
			.gid = {[10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = (uint8_t)(i + 1)}};
		host[i].sidr = sidr_new(&host[i].env);
		assert_non_null(host[i].sidr);
	}
	return 0;
}

static int
teardown(void **state)
{
	for (int i = 0; i < 2; i++)
		sidr_free(host[i].sidr);
	return 0;
}

static struct cm_path
path_from(int i)
{
	return (struct cm_path){.src = host[i].addr, .dst = host[!i].addr};
}

static struct sidr_query *
ask(void)
{
	const struct cm_path path = path_from(0);
	struct sidr_query *query = sidr_ask(host[0].sidr, &path, SERVICE, 40000, "hello", 5, &now, now);

	assert_non_null(query);
	return query;
}

/* Delivers the last MAD of host `i` to the other host. */
static bool
deliver(int i)
{
	const struct cm_path path = path_from(!i);

	return sidr_input(host[!i].sidr, &path, host[i].mad, now);
}

static void
answer(uint32_t qpn)
{
	sidr_answer(host[1].query, SIDR_SUCCESS, qpn, 0x01234567, "welcome", 7, now);
}

static void
test_answer(void **state)
{
	ask();
	assert_true(deliver(0));
	assert_int_equal(host[1].requested, 1);
	assert_int_equal(host[1].remote.service_id, SERVICE);
	assert_int_equal(host[1].remote.ip_port, 40000);
	assert_memory_equal(host[1].remote.private_data, "hello", 5);
	assert_memory_equal(&host[1].remote.path.dst, &host[0].addr, 16);
	answer(0x24);
	assert_true(deliver(1));
	assert_int_equal(host[0].answered, 1);
	assert_ptr_equal(host[0].user, &now);
	assert_int_equal(host[0].remote.status, SIDR_SUCCESS);
	assert_int_equal(host[0].remote.qpn, 0x24);
	assert_int_equal(host[0].remote.qkey, 0x01234567);
	assert_memory_equal(host[0].remote.private_data, "welcome", 7);
	/* A duplicate of the answer is not reported. */
	assert_true(deliver(1));
	assert_int_equal(host[0].answered, 1);
	assert_int_equal(sidr_deadline(host[0].sidr), CM_NEVER);
	/* The answering side forgets the query after a time. */
	now = sidr_deadline(host[1].sidr);
	sidr_timeout(host[1].sidr, now);
	assert_int_equal(sidr_deadline(host[1].sidr), CM_NEVER);
}

/* The MADs are byte for byte those of Linux (rdma_cm over Soft-RoCE). */
static void
test_on_the_wire(void **state)
{
	static const uint8_t req[] = {
		0x01, 0x07, 0x02, 0x03, 0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
		0,    0,    0x00, 0x17, 0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
		0xff, 0xff, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x11, 0x1c, 0x06, 0x00, 0x40,
		0x9c, 0x40, 0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
		0xc0, 0x00, 0x02, 0x01, 0,    0,    0,    0,    0,    0,    0,    0,    0,    0,
		0,    0,    0xc0, 0x00, 0x02, 0x02, 'h',  'e',  'l',  'l',  'o',  0,
	};
	static const uint8_t rep[] = {
		0x01, 0x07, 0x02, 0x03, 0,    0,    0,    0,    0,    0,    0,    0,
		0,    0,    0,    0,    0x00, 0x18, 0,    0,    0,    0,    0,    0,
		0,    0,    0,    0,    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x24, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x01, 0x11, 0x1c, 0x06, 0x01, 0x23, 0x45, 0x67,
	};
	uint8_t mad[CM_MAD_LEN];

	ask();
	memcpy(mad, host[0].mad, sizeof(mad));
	memset(mad + 8, 0, 8);  /* transaction id, */
	memset(mad + 24, 0, 4); /* and request id differ */
	assert_memory_equal(mad, req, sizeof(req));
	deliver(0);
	answer(0x24);
	memcpy(mad, host[1].mad, sizeof(mad));
	memset(mad + 8, 0, 8);
	memset(mad + 24, 0, 4);
	assert_memory_equal(mad, rep, sizeof(rep));
	assert_memory_equal(mad + 24 + 96, "welcome", 7);
}

static void
test_loss(void **state)
{
	uint32_t sent;

	ask();
	/* The first REQ is lost; the second arrives. */
	now = sidr_deadline(host[0].sidr);
	sidr_timeout(host[0].sidr, now);
	assert_int_equal(host[0].sent, 2);
	deliver(0);
	/* Duplicates are not reported. Before the answer they are ignored; afterwards the answer is
	 * repeated. */
	deliver(0);
	answer(0x24);
	sent = host[1].sent;
	deliver(0);
	assert_int_equal(host[1].requested, 1);
	assert_int_equal(host[1].sent, sent + 1);
	deliver(1);
	assert_int_equal(host[0].answered, 1);
}

static void
test_silence(void **state)
{
	ask();
	for (uint32_t i = 0; i <= RETRIES; i++) {
		assert_int_equal(host[0].silent, 0);
		now = sidr_deadline(host[0].sidr);
		sidr_timeout(host[0].sidr, now);
	}
	assert_int_equal(host[0].silent, 1);
	assert_int_equal(host[0].sent, RETRIES + 1);
	assert_int_equal(sidr_deadline(host[0].sidr), CM_NEVER);
}

static void
test_refusals(void **state)
{
	ask();
	host[1].listens = false;
	deliver(0);
	deliver(1);
	assert_int_equal(host[0].remote.status, SIDR_UNSUPPORTED);
	host[1].listens = true;
	ask();
	deliver(0);
	sidr_answer(host[1].query, SIDR_REJECT, 0, 0, NULL, 0, now);
	deliver(1);
	assert_int_equal(host[0].answered, 2);
	assert_int_equal(host[0].remote.status, SIDR_REJECT);
	/* An answer that names QP1, the queue pair of management, is refused. */
	ask();
	deliver(0);
	answer(1);
	deliver(1);
	assert_int_equal(host[0].remote.status, SIDR_NO_QP);
	/* The query is given up, so its answer is not reported. */
	sidr_give_up(ask());
	deliver(0);
	answer(0x24);
	deliver(1);
	assert_int_equal(host[0].answered, 3);
}

/* Requests with addresses that are not the packet's, and with other versions and services. */
static void
test_wrong_requests(void **state)
{
	static const struct {
		uint32_t at;
		uint8_t value;
		uint8_t status;
	} wrong[] = {
		{24 + 12, 2, SIDR_UNSUPPORTED},                            /* service */
		{24 + 13, 6, SIDR_UNSUPPORTED},                            /* TCP's port space */
		{40, 1, SIDR_REJECT},                                      /* version of the IP header */
		{41, 0x50, SIDR_REJECT},        {40 + 19, 9, SIDR_REJECT}, /* source */
		{40 + 35, 9, SIDR_REJECT},                                 /* destination */
	};
	uint8_t good[CM_MAD_LEN];

	ask();
	memcpy(good, host[0].mad, sizeof(good));
	for (uint32_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		memcpy(host[0].mad, good, sizeof(good));
		host[0].mad[wrong[i].at] = wrong[i].value;
		host[0].mad[27] = (uint8_t)(good[27] + 1 + i); /* another request id */
		deliver(0);
		assert_int_equal(host[1].mad[28], wrong[i].status);
		assert_int_equal(host[1].requested, 0);
	}
	/* MADs of other management classes, and other attributes, are not handled. */
	memcpy(host[0].mad, good, sizeof(good));
	host[0].mad[1] = 8;
	assert_false(deliver(0));
	memcpy(host[0].mad, good, sizeof(good));
	host[0].mad[17] = 0x10;
	assert_false(deliver(0));
	/* Request id 0 is ignored. */
	memcpy(host[0].mad, good, sizeof(good));
	memset(host[0].mad + 24, 0, 4);
	deliver(0);
	assert_int_equal(host[1].requested, 0);
}

/* Forged answers: to another query, from another host, from a sender that has not seen the query. */
static void
test_forged_answers(void **state)
{
	struct cm_path from = path_from(0);
	uint8_t good[CM_MAD_LEN];

	ask();
	deliver(0);
	answer(0x24);
	memcpy(good, host[1].mad, sizeof(good));
	host[1].mad[27] ^= 1;
	deliver(1);
	memcpy(host[1].mad, good, sizeof(good));
	host[1].mad[15] ^= 1;
	deliver(1);
	memcpy(host[1].mad, good, sizeof(good));
	from.dst.gid[15] = 7;
	sidr_input(host[0].sidr, &from, good, now);
	assert_int_equal(host[0].answered, 0);
	deliver(1);
	assert_int_equal(host[0].answered, 1);
}

static void
test_flood(void **state)
{
	uint8_t good[CM_MAD_LEN];

	ask();
	memcpy(good, host[0].mad, sizeof(good));
	for (uint32_t i = 0; i < 10 * MAX_REQUESTS; i++) {
		memcpy(host[0].mad, good, sizeof(good));
		host[0].mad[26] = (uint8_t)(i >> 8);
		host[0].mad[27] = (uint8_t)i;
		host[0].mad[25] = 0x77;
		deliver(0);
	}
	assert_int_equal(host[1].requested, MAX_REQUESTS);
	/* Unanswered queries make room for others once their senders have given up. */
	now += 128 * INTERVAL;
	sidr_timeout(host[1].sidr, now);
	ask();
	deliver(0);
	assert_int_equal(host[1].requested, MAX_REQUESTS + 1);
	answer(0x24);
	deliver(1);
	assert_int_equal(host[0].answered, 1);
	now += 128 * INTERVAL;
	sidr_timeout(host[1].sidr, now);
	/* Refused queries do not accumulate either. */
	host[1].listens = false;
	teardown(NULL);
	setup(NULL);
	host[1].listens = false;
	for (uint32_t i = 0; i < 10 * MAX_REQUESTS; i++) {
		memcpy(host[0].mad, good, sizeof(good));
		host[0].mad[26] = (uint8_t)(i >> 8);
		host[0].mad[27] = (uint8_t)i;
		host[0].mad[25] = 0x77;
		deliver(0);
		sidr_timeout(host[1].sidr, now);
	}
	assert_int_equal(host[1].sent, 10 * MAX_REQUESTS);
	now += 1000 * INTERVAL;
	sidr_timeout(host[1].sidr, now);
	assert_int_equal(sidr_deadline(host[1].sidr), CM_NEVER);
}

static void
test_noise(void **state)
{
	ask();
	for (int i = 0; i < 20000; i++) {
		const struct cm_path path = path_from(i & 1);
		uint8_t mad[CM_MAD_LEN];

		for (uint32_t j = 0; j < sizeof(mad); j++)
			mad[j] = (uint8_t)on_random(&host[0].env);
		memcpy(mad, "\x01\x07\x02\x03", 4);
		mad[16] = 0;
		mad[17] = i & 2 ? 0x17 : 0x18;
		sidr_input(host[i & 1].sidr, &path, mad, now);
		now += 100;
		sidr_timeout(host[i & 1].sidr, now);
	}
	assert_int_equal(host[0].answered, 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_answer),         T(test_on_the_wire), T(test_loss),
		T(test_silence),        T(test_refusals),    T(test_wrong_requests),
		T(test_forged_answers), T(test_flood),       T(test_noise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
