/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Datagrams into memory of bounced access: several receives wait for the copy thread at once, and complete in
 * the order of the receive queue, however they end. The queue pair sends to itself, and the test starts its
 * copy thread when needed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fixture.h"
#include "tests/copying.h"
#include "dataplane/engine/takeover.h"

#define QKEY 0x11111111u
#define AH_ID 0x30007u
#define LEN 64u /* of a receive, in bytes */
#define RECEIVES (ONE_COPIES + 8u)

struct world {
	struct app app;
	struct ring send, recv;
	struct pair pair;
	struct engine_ah *ah;
	struct memory memory[RECEIVES];
	struct copier *copier;
	struct copied all;
	uint64_t copies; /* offset of struct one_copies in the arena */
	uint64_t cookie;
};
static struct world w;

static void
start(void)
{
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_DATAGRAM,
							 .qp = w.pair.qp,
							 .datagram = {.state = RC_RTR, .qkey = QKEY}}),
			 0);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_DATAGRAM,
							 .qp = w.pair.qp,
							 .datagram = {.state = RC_RTS, .qkey = QKEY}}),
			 0);
}

static int
setup(void **unused)
{
	struct wire_addr here = {.gid = {[10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = 1}};
	struct engine_ah_config config = {
		.id = AH_ID, .path = {.src = here, .dst = here, .udp_src_port = 0xc123, .ttl = 64}};
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	memset(&w, 0, sizeof(w));
	app_start(&w.app);
	w.copies = app_alloc(&w.app, sizeof(struct one_copies) + page);
	w.copies = (w.copies + page - 1) / page * page;
	assert_non_null(engine_client_bounce(w.app.client, w.copies));
	ring_new(&w.app, CQ_LOG2, &w.send, NULL);
	ring_new(&w.app, CQ_LOG2, &w.recv, NULL);
	pair_new_ud(&w.app, &w.send, &w.recv, NULL, &w.pair);
	for (uint32_t i = 0; i < RECEIVES; i++) {
		memory_new(&w.app, ONE_ACCESS_ALL, LEN, &w.memory[i]);
		w.memory[i].region.bounce = engine_client_bounce(w.app.client, w.copies);
		w.memory[i].region.base = NULL;
	}
	config.pz = w.app.pz;
	w.ah = engine_ah_new(w.app.client, &config);
	assert_non_null(w.ah);
	start();
	return 0;
}

static int
teardown(void **unused)
{
	pair_end(&w.pair);
	if (w.copier != NULL)
		copier_stop(w.copier);
	engine_ah_free(w.app.client, w.ah);
	ring_end(&w.send);
	ring_end(&w.recv);
	for (uint32_t i = 0; i < RECEIVES; i++)
		memory_end(&w.memory[i]);
	app_end(&w.app);
	turn(2);
	assert_null(engine.reap);
	return 0;
}

/* Start the copy thread. */
static void
copy(void)
{
	const struct copier_place place = {.arena_fd = w.app.arena_fd, .wake_fd = -1};

	w.copier = copying_start(&place, w.copies, &w.all);
}

static struct engine_stats *
stats(void)
{
	return &engine.core[0]->stats;
}

/* Post receive `i`; its cookie names its memory. */
static void
post(uint32_t i)
{
	post_recv(&w.pair, &w.memory[i], LEN, i);
}

/* Send a datagram of five bytes, the first of them `first`; it has arrived on return. */
static void
send_one(uint8_t first)
{
	struct one_wqe *wqe = pair_send(&w.pair);

	wqe->op = ONE_OP_SEND;
	wqe->flags = ONE_WQE_INLINE;
	wqe->length = 5;
	wqe->inline_len = 5;
	wqe->inline_data[0] = first;
	wqe->cookie = ++w.cookie;
	wqe->remote_addr = one_ud_to(AH_ID, w.pair.qpn);
	wqe->rkey = QKEY;
	pair_commit_send(&w.pair);
	expect(&w.send, ONE_CQE_SEND, ONE_STATUS_SUCCESS, w.cookie);
	turn(10);
}

/* The next completion is of receive `i`, which holds the datagram that begins with `first`. */
static void
expect_received(uint32_t i, uint8_t first)
{
	expect(&w.recv, ONE_CQE_RECV, ONE_STATUS_SUCCESS, i);
	assert_int_equal(w.memory[i].bytes[20], 0x45); /* the IP header */
	assert_int_equal(w.memory[i].bytes[ONE_UD_GRH], first);
}

static uint32_t
num_bounced(void)
{
	return w.pair.qp->rq_taken - w.pair.qp->rq_done - w.pair.qp->recv_taken;
}

/* Datagrams arrive until all accesses are in use; further ones are dropped. */
static void
test_burst(void **unused)
{
	uint64_t busy = stats()->ud_drop[ENGINE_UD_BUSY], came = stats()->ud_received;

	for (uint32_t i = 0; i < ONE_COPIES + 4; i++)
		post(i);
	for (uint32_t i = 0; i < ONE_COPIES + 3; i++)
		send_one((uint8_t)(100 + i));
	assert_int_equal(num_bounced(), ONE_COPIES);
	assert_int_equal(stats()->ud_drop[ENGINE_UD_BUSY], busy + 3);
	expect_none(&w.recv);
	copy();
	for (uint32_t i = 0; i < ONE_COPIES; i++)
		expect_received(i, (uint8_t)(100 + i));
	expect_none(&w.recv);
	assert_int_equal(stats()->ud_received, came + ONE_COPIES);
	/* The dropped datagrams consumed no receive. */
	send_one(1);
	expect_received(ONE_COPIES, 1);
}

/* A send proceeds although receives of the same queue pair have all the accesses. */
static void
test_send_among_them(void **unused)
{
	struct one_wqe *wqe;

	for (uint32_t i = 0; i < ONE_COPIES + 4; i++)
		post(i);
	for (uint32_t i = 0; i < ONE_COPIES; i++)
		send_one((uint8_t)i);
	wqe = pair_send(&w.pair);
	w.memory[RECEIVES - 1].bytes[0] = 77;
	wqe->op = ONE_OP_SEND;
	wqe->num_sge = 1;
	wqe->length = 5;
	wqe->cookie = 4711;
	wqe->remote_addr = one_ud_to(AH_ID, w.pair.qpn);
	wqe->rkey = QKEY;
	wqe->sge = (struct one_sge){w.memory[RECEIVES - 1].region.va, 5, w.memory[RECEIVES - 1].region.key};
	pair_commit_send(&w.pair);
	turn(10);
	expect_none(&w.send);
	copy();
	expect(&w.send, ONE_CQE_SEND, ONE_STATUS_SUCCESS, 4711);
	for (uint32_t i = 0; i < ONE_COPIES; i++)
		expect_received(i, (uint8_t)i);
	expect_received(ONE_COPIES, 77);
}

/* Receives without bounced access do not overtake: mapped memory, a receive too short, an invalid one. */
static void
test_no_overtaking(void **unused)
{
	uint64_t busy = stats()->ud_drop[ENGINE_UD_BUSY], length = stats()->ud_drop[ENGINE_UD_LENGTH];

	w.memory[1].region.base = w.memory[1].bytes;
	post(0);
	post(1);
	post_recv(&w.pair, &w.memory[2], ONE_UD_GRH + 4, 2);
	send_one(1);
	send_one(2);
	send_one(3);
	assert_int_equal(stats()->ud_drop[ENGINE_UD_BUSY], busy + 2);
	assert_int_equal(w.memory[1].bytes[ONE_UD_GRH], 0);
	expect_none(&w.recv);
	copy();
	expect_received(0, 1);
	send_one(4);
	expect_received(1, 4);
	send_one(5);
	assert_int_equal(stats()->ud_drop[ENGINE_UD_LENGTH], length + 1);
	expect_none(&w.recv);
}

static void
test_wrong_behind(void **unused)
{
	post(0);
	post(1);
	w.memory[2].region.key ^= 1;
	post(2);
	w.memory[2].region.key ^= 1;
	post(3);
	for (uint8_t i = 0; i < 4; i++)
		send_one(i);
	expect_none(&w.recv);
	copy();
	expect_received(0, 0);
	expect_received(1, 1);
	expect_none(&w.recv);
	send_one(9);
	expect(&w.recv, ONE_CQE_RECV, ONE_STATUS_LOCAL_PROTECTION, 2);
	expect(&w.recv, ONE_CQE_RECV, ONE_STATUS_FLUSHED, 3);
	expect_none(&w.recv);
}

/* A key is removed meanwhile: its receive fails, and the ones after it are flushed. */
static void
test_key_removed(void **unused)
{
	for (uint32_t i = 0; i < 5; i++)
		post(i);
	for (uint8_t i = 0; i < 4; i++)
		send_one(i);
	assert_int_equal(num_bounced(), 4);
	mem_remove(engine.mem, w.memory[1].region.key);
	copy();
	expect_received(0, 0);
	expect(&w.recv, ONE_CQE_RECV, ONE_STATUS_LOCAL_PROTECTION, 1);
	for (uint32_t i = 2; i < 5; i++)
		expect(&w.recv, ONE_CQE_RECV, ONE_STATUS_FLUSHED, i);
	TURN_UNTIL(w.pair.failed == 1);
	expect_none(&w.recv);
	assert_int_equal(w.pair.qp->rq_taken, w.pair.qp->rq_done);
	mem_publish(engine.mem, &w.memory[1].region); /* for teardown */
}

/*
 * Receives that wait for a copy, one too short for its datagram, and one in the ring are each flushed once,
 * in order.
 */
static void
test_flush(void **unused)
{
	for (uint32_t i = 0; i < 3; i++)
		post(i);
	post_recv(&w.pair, &w.memory[3], ONE_UD_GRH, 3);
	post(4);
	for (uint8_t i = 0; i < 4; i++)
		send_one(i);
	assert_int_equal(num_bounced(), 3);
	assert_true(w.pair.qp->recv_taken);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.pair.qp}), 0);
	for (uint32_t i = 0; i < 5; i++)
		expect(&w.recv, ONE_CQE_RECV, ONE_STATUS_FLUSHED, i);
	copy();
	TURN_UNTIL(bounce_since(engine_client_bounce(w.app.client, w.copies)) == 0);
	expect_none(&w.recv);
	assert_int_equal(w.pair.qp->rq_taken, w.pair.qp->rq_done);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(w.memory[i].bytes[20], 0); /* a flushed receive's access is not begun */
}

/* A reset drops the waiting receives, and all accesses are free for later ones. */
static void
test_reset(void **unused)
{
	for (uint32_t i = 0; i < ONE_COPIES + 2; i++)
		post(i);
	for (uint8_t i = 0; i < ONE_COPIES; i++)
		send_one(i);
	assert_int_equal(num_bounced(), ONE_COPIES);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_RESET, .qp = w.pair.qp}), 0);
	assert_int_equal(num_bounced(), 0);
	copy();
	TURN_UNTIL(bounce_since(engine_client_bounce(w.app.client, w.copies)) == 0);
	expect_none(&w.recv);
	start();
	send_one(9);
	expect_received(ONE_COPIES, 9);
	send_one(10);
	expect_received(ONE_COPIES + 1, 10);
}

/* Teardown removes the queue pair, and then the application, while accesses are outstanding. */
static void
test_removed(void **unused)
{
	for (uint32_t i = 0; i < 5; i++)
		post(i);
	for (uint8_t i = 0; i < 5; i++)
		send_one(i);
	assert_int_equal(num_bounced(), 5);
	expect_none(&w.recv);
}

/* No take-over begins while datagrams are in staging memory, which no record holds. */
static void
test_frozen(void **unused)
{
	struct engine_move *move;

	post(0);
	assert_int_equal(engine_qp_freeze(w.pair.qp, &move), 0);
	assert_null(move);
	send_one(1);
	assert_int_equal(num_bounced(), 1);
	assert_int_equal(engine_qp_freeze(w.pair.qp, &move), -EAGAIN);
	copy();
	expect_received(0, 1);
	assert_int_equal(engine_qp_freeze(w.pair.qp, &move), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_burst),        T(test_send_among_them), T(test_no_overtaking),
		T(test_wrong_behind), T(test_key_removed),     T(test_flush),
		T(test_reset),        T(test_removed),         T(test_frozen),
	};

	return cmocka_run_group_tests(tests, group_start, group_stop);
}
