/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues: several queue pairs take receives from one ring, by both transports. */
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

#define PAIRS 3
#define LEN 64

static struct world {
	struct app app;
	struct ring send, recv[PAIRS], conn, async;
	struct pair from[PAIRS], to[PAIRS];
	struct engine_srq *srq;
	struct one_srq_shm *shm;
	struct one_wqe *rq;
	uint32_t log2, tail, posted;
	struct memory out, in;
} w;

static int
setup(void **state)
{
	struct engine_srq_config config = {.id = 4711, .log2 = RING_LOG2, .lanes = engine.num_cores};

	memset(&w, 0, sizeof(w));
	w.log2 = RING_LOG2;
	app_start(&w.app);
	ring_new(&w.app, CQ_LOG2, &w.async, NULL);
	ring_new(&w.app, CQ_LOG2, &w.send, NULL);
	ring_new(&w.app, CQ_LOG2, &w.conn, NULL);
	config.shm = app_alloc(&w.app, one_srq_shm_size(engine.num_cores));
	config.rq = app_alloc(&w.app, sizeof(struct one_wqe) << RING_LOG2);
	config.async_cq = w.async.cq;
	w.shm = (struct one_srq_shm *)(w.app.arena + config.shm);
	w.rq = (struct one_wqe *)(w.app.arena + config.rq);
	w.srq = engine_srq_new(w.app.client, &config);
	assert_non_null(w.srq);
	assert_int_equal(command((struct engine_command){.type = ENGINE_SRQ_ADD, .srq = w.srq}), 0);
	for (int i = 0; i < PAIRS; i++) {
		ring_new(&w.app, CQ_LOG2, &w.recv[i], NULL);
		pair_new(&w.app, &w.send, NULL, &w.conn, NULL, &w.from[i]);
		pair_new_shared(&w.app, NULL, &w.recv[i], &w.conn, NULL, w.srq, &w.to[i]);
	}
	memory_new(&w.app, ONE_ACCESS_ALL, 1 << 20, &w.out);
	memory_new(&w.app, ONE_ACCESS_ALL, 1 << 20, &w.in);
	return 0;
}

static int
teardown(void **state)
{
	for (int i = 0; i < PAIRS; i++) {
		pair_end(&w.from[i]);
		pair_end(&w.to[i]);
		ring_end(&w.recv[i]);
	}
	assert_int_equal(command((struct engine_command){.type = ENGINE_SRQ_REMOVE, .srq = w.srq}), 0);
	engine_srq_free(w.srq);
	ring_end(&w.send);
	ring_end(&w.conn);
	ring_end(&w.async);
	memory_end(&w.out);
	memory_end(&w.in);
	app_end(&w.app);
	turn(2);
	assert_null(engine.reap);
	return 0;
}

static void
connect_all(bool local)
{
	for (int i = 0; i < PAIRS; i++) {
		pair_connect(&w.from[i], &w.to[i], RC_RTS, local);
		pair_connect(&w.to[i], &w.from[i], RC_RTS, local);
	}
}

/* Post a receive of `len` bytes at the place that `cookie` selects. */
static void
post(uint64_t cookie, uint32_t len)
{
	struct one_wqe *wqe = &w.rq[one_ring_slot(w.tail, w.log2)];

	memset(wqe, 0, offsetof(struct one_wqe, phase));
	wqe->op = ONE_OP_RECV;
	wqe->num_sge = 1;
	wqe->length = len;
	wqe->cookie = cookie;
	wqe->sge =
		(struct one_sge){.addr = w.in.region.va + cookie * LEN, .len = len, .lkey = w.in.region.key};
	atomic_store_explicit(&w.shm->posted, ++w.posted, memory_order_relaxed);
	atomic_store_explicit(&wqe->phase, one_ring_phase(w.tail, w.log2), memory_order_release);
	w.tail++;
}

/*
 * Like one_srq_resize(): waiting receives are copied under their indices, and the slots after them are empty.
 */
static void
fill_longer(const struct one_srq_shm *shm, struct one_wqe *ring)
{
	uint32_t head = atomic_load(&shm->lane[0].head);

	for (uint32_t i = head; i != head + (2u << RING_LOG2); i++) {
		struct one_wqe *slot = &ring[one_ring_slot(i, RING_LOG2 + 1)];
		uint8_t phase = one_ring_phase(i, RING_LOG2 + 1);

		if (i - head < w.tail - head)
			memcpy(slot, &w.rq[one_ring_slot(i, RING_LOG2)], offsetof(struct one_wqe, phase));
		atomic_store(&slot->phase, i - head < w.tail - head ? phase : !phase);
	}
}

static void
set_limit(uint32_t limit)
{
	assert_int_equal(
		command((struct engine_command){.type = ENGINE_SRQ_LIMIT, .srq = w.srq, .limit = limit}), 0);
}

static void
shared(bool local)
{
	uint32_t sent[PAIRS] = {0}, seen = 0;
	bool used[16] = {false};

	connect_all(local);
	/* Several laps. A slot belongs to the core until its head has passed the slot. */
	for (uint32_t round = 0; round < 30; round++) {
		memset(used, 0, sizeof(used));
		for (uint32_t i = 0; i < 12; i++)
			post(i, LEN);
		for (uint32_t i = 0; i < 12; i++) {
			w.out.bytes[i] = (uint8_t)(round * 12 + i);
			post_send(&w.from[i % PAIRS], &w.out, LEN, i);
			expect(&w.send, ONE_CQE_SEND, ONE_STATUS_SUCCESS, i);
			sent[i % PAIRS]++;
		}
		for (int i = 0; i < PAIRS; i++) {
			struct one_cqe cqe;

			for (uint32_t n = 0; n < 4; n++) {
				TURN_UNTIL(ring_poll(&w.recv[i], &cqe));
				assert_int_equal(cqe.status, ONE_STATUS_SUCCESS);
				assert_int_equal(cqe.object, w.to[i].id);
				assert_int_equal(cqe.flags & ONE_CQE_NOTIFY, ONE_CQE_NOTIFY);
				assert_int_equal(cqe.length, LEN);
				assert_true(cqe.cookie < 12 && !used[cqe.cookie]);
				used[cqe.cookie] = true;
				seen++;
			}
			expect_none(&w.recv[i]);
			assert_int_equal(atomic_load(&w.to[i].shm->rq_done), sent[i]);
			assert_int_equal(atomic_load(&w.to[i].shm->rq_head), sent[i]);
		}
		assert_int_equal(atomic_load(&w.shm->lane[0].taken), seen);
		assert_int_equal(atomic_load(&w.shm->lane[0].done), seen);
		assert_int_equal(atomic_load(&w.shm->lane[0].head), w.tail);
	}
	assert_int_equal(w.app.faults, 0);
}

static void
test_shared_local(void **state)
{
	shared(true);
}

static void
test_shared_wire(void **state)
{
	shared(false);
}

static void
empty(bool local)
{
	connect_all(local);
	post_send(&w.from[1], &w.out, LEN, 5);
	expect_none(&w.send);
	post(3, LEN);
	expect(&w.send, ONE_CQE_SEND, ONE_STATUS_SUCCESS, 5);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_SUCCESS, 3);
}

static void
test_empty_local(void **state)
{
	empty(true);
}

static void
test_empty_wire(void **state)
{
	empty(false);
}

static void
test_limit(void **state)
{
	connect_all(true);
	for (uint32_t i = 0; i < 4; i++)
		post(i, LEN);
	set_limit(3);
	expect_none(&w.async);
	post_send(&w.from[0], &w.out, LEN, 0);
	expect(&w.send, ONE_CQE_SEND, ONE_STATUS_SUCCESS, 0);
	expect_none(&w.async); /* 3 are not below the limit of 3 */
	post_send(&w.from[1], &w.out, LEN, 1);
	expect(&w.async, ONE_CQE_ASYNC, ONE_ASYNC_SRQ_LIMIT, 0);
	post_send(&w.from[2], &w.out, LEN, 2);
	expect_none(&w.async); /* only one event */
	set_limit(1);
	expect_none(&w.async);
	set_limit(2); /* one receive is left: the event is raised at once */
	expect(&w.async, ONE_CQE_ASYNC, ONE_ASYNC_SRQ_LIMIT, 0);
	set_limit(1);
	set_limit(0);
	post_send(&w.from[2], &w.out, LEN, 3);
	expect_none(&w.async);
}

static void
test_limit_names_the_queue(void **state)
{
	struct one_cqe cqe;

	set_limit(1);
	TURN_UNTIL(ring_poll(&w.async, &cqe));
	assert_int_equal(cqe.object, 4711);
	assert_int_equal(cqe.flags, ONE_CQE_NOTIFY);
}

static void
test_what_is_left_stays(void **state)
{
	const struct engine_command flush = {.type = ENGINE_QP_FLUSH, .qp = w.to[0].qp};

	connect_all(true);
	post(0, LEN);
	post(1, LEN);
	assert_int_equal(command(flush), 0);
	expect_none(&w.recv[0]);
	assert_int_equal(atomic_load(&w.shm->lane[0].taken), 0);
	post_send(&w.from[1], &w.out, LEN, 7);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_SUCCESS, 0);
}

/* Begin a message longer than one loop copies, so that a queue pair holds its receive. */
static void
begin_long(void)
{
	connect_all(true);
	post(0, 5 * LOCAL_CHUNK_ALONE);
	post(1, LEN);
	post_send(&w.from[0], &w.out, 5 * LOCAL_CHUNK_ALONE, 7);
	TURN_UNTIL(atomic_load(&w.shm->lane[0].taken) == 1);
	assert_int_equal(atomic_load(&w.shm->lane[0].done), 0);
	assert_int_equal(atomic_load(&w.to[0].shm->rq_head), 1);
	assert_int_equal(atomic_load(&w.to[0].shm->rq_done), 0);
}

static void
test_what_is_taken_is_flushed(void **state)
{
	begin_long();
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.to[0].qp}), 0);
	expect(&w.recv[0], ONE_CQE_RECV, ONE_STATUS_FLUSHED, 0);
	expect_none(&w.recv[0]);
	assert_int_equal(atomic_load(&w.shm->lane[0].done), 1);
	assert_int_equal(atomic_load(&w.shm->lane[0].taken), 1);
}

static void
test_removal_gives_the_place_back(void **state)
{
	begin_long();
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_REMOVE, .qp = w.to[0].qp}), 0);
	assert_int_equal(atomic_load(&w.shm->lane[0].done), 1);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_ADD, .qp = w.to[0].qp}), 0);
}

static void
test_too_short(void **state)
{
	connect_all(false);
	post(0, LEN - 1);
	post(1, LEN);
	post_send(&w.from[0], &w.out, LEN, 7);
	expect(&w.send, ONE_CQE_SEND, ONE_STATUS_REMOTE_INVALID, 7);
	expect(&w.recv[0], ONE_CQE_RECV, ONE_STATUS_LOCAL_LENGTH, 0);
	expect_none(&w.recv[0]);
	/* The other queue pairs go on. */
	post_send(&w.from[2], &w.out, LEN, 8);
	expect(&w.recv[2], ONE_CQE_RECV, ONE_STATUS_SUCCESS, 1);
}

static void
ask_for_end(int i, bool asked)
{
	const struct engine_qp_config config = {.pz = w.app.pz,
						.recv_cq = w.recv[i].cq,
						.conn_cq = w.conn.cq,
						.async_cq = w.async.cq,
						.notify_end = asked};

	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_MODIFY, .qp = w.to[i].qp, .qp_config = config}),
			 0);
}

static void
expect_end(int i)
{
	struct one_cqe cqe;

	TURN_UNTIL(ring_poll(&w.async, &cqe));
	assert_int_equal(cqe.type, ONE_CQE_ASYNC);
	assert_int_equal(cqe.status, ONE_ASYNC_QP_ERROR);
	assert_int_equal(cqe.object, w.to[i].id);
	expect_none(&w.async);
}

static void
test_tells_its_end(void **state)
{
	struct engine_command flush = {.type = ENGINE_QP_FLUSH};

	ask_for_end(0, true);
	ask_for_end(1, true);
	ask_for_end(2, false);
	/* A queue pair without a connection reports no end. */
	flush.qp = w.to[0].qp;
	assert_int_equal(command(flush), 0);
	expect_none(&w.async);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_RESET, .qp = w.to[0].qp}), 0);
	connect_all(false);
	flush.qp = w.to[2].qp;
	assert_int_equal(command(flush), 0);
	expect_none(&w.async);
	flush.qp = w.to[0].qp;
	assert_int_equal(command(flush), 0);
	expect_end(0);
	assert_int_equal(command(flush), 0);
	expect_none(&w.async); /* only one event */
	/* A queue pair breaks: its completion precedes the event. */
	post(0, LEN - 1);
	post_send(&w.from[1], &w.out, LEN, 7);
	expect_end(1);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_LOCAL_LENGTH, 0);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.to[1].qp}), 0);
	expect_none(&w.async);
}

static void
test_malformed(void **state)
{
	connect_all(true);
	post(0, LEN);
	w.rq[0].length = LEN + 1;
	post_send(&w.from[0], &w.out, LEN, 7);
	expect(&w.recv[0], ONE_CQE_RECV, ONE_STATUS_LOCAL_QP, 0);
	expect(&w.send, ONE_CQE_SEND, ONE_STATUS_REMOTE_OPERATION, 7);
}

static void
test_places_refused(void **state)
{
	struct engine_srq_config config = {.shm = 0, .rq = ONE_ARENA_SIZE / 2, .log2 = 4, .lanes = 1};

	assert_null(engine_srq_new(w.app.client, &config));
	config.shm = ONE_ARENA_SIZE - 64;
	assert_null(engine_srq_new(w.app.client, &config));
	config.shm = ONE_ARENA_SIZE / 4;
	config.rq = 0;
	assert_null(engine_srq_new(w.app.client, &config));
	config.rq = ONE_ARENA_SIZE - 64;
	assert_null(engine_srq_new(w.app.client, &config));
	config.rq = ONE_ARENA_SIZE / 2;
	config.log2 = ONE_RING_LOG2_MAX + 1;
	assert_null(engine_srq_new(w.app.client, &config));
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static void
send_to_all(uint32_t first, uint32_t count)
{
	struct one_cqe cqe;

	for (uint32_t i = first; i < first + count; i++) {
		post_send(&w.from[i % PAIRS], &w.out, LEN, i);
		expect(&w.send, ONE_CQE_SEND, ONE_STATUS_SUCCESS, i);
		TURN_UNTIL(ring_poll(&w.recv[i % PAIRS], &cqe));
		assert_int_equal(cqe.status, ONE_STATUS_SUCCESS);
		assert_int_equal(cqe.cookie, i);
	}
}

/*
 * A longer ring replaces the shared queue's ring: waiting receives are in it, and later ones are posted to
 * it.
 */
static void
test_longer_ring(void **state)
{
	struct engine_srq_config config = {.id = 4712, .log2 = RING_LOG2 + 1, .lanes = engine.num_cores};
	uint32_t before = (1u << RING_LOG2) - 3; /* near the end of a lap */
	struct engine_srq *longer;
	struct one_wqe *ring;

	connect_all(true);
	for (uint32_t i = 0; i < before; i++) {
		post(i, LEN);
		send_to_all(i, 1);
	}
	for (uint32_t i = 0; i < 6; i++)
		post(before + i, LEN);
	send_to_all(before, 1);
	config.shm = app_alloc(&w.app, one_srq_shm_size(engine.num_cores));
	config.rq = app_alloc(&w.app, sizeof(struct one_wqe) << config.log2);
	ring = (struct one_wqe *)(w.app.arena + config.rq);
	longer = engine_srq_new(w.app.client, &config);
	assert_non_null(longer);
	assert_int_equal(command((struct engine_command){.type = ENGINE_SRQ_ADD, .srq = longer}), 0);
	fill_longer(w.shm, ring);
	assert_int_equal(
		command((struct engine_command){.type = ENGINE_SRQ_SWAP, .srq = w.srq, .other_srq = longer}),
		0);
	memset(w.rq, 0xff, sizeof(*w.rq) << RING_LOG2); /* the old ring is read no more */
	assert_int_equal(command((struct engine_command){.type = ENGINE_SRQ_REMOVE, .srq = longer}), 0);
	engine_srq_free(longer);
	send_to_all(before + 1, 5);
	w.rq = ring;
	w.log2 = config.log2;
	for (uint32_t i = before + 6; i < before + 6 + (4u << RING_LOG2); i++) {
		post(i, LEN);
		send_to_all(i, 1);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_shared_local),
		T(test_shared_wire),
		T(test_empty_local),
		T(test_empty_wire),
		T(test_limit),
		T(test_limit_names_the_queue),
		T(test_what_is_left_stays),
		T(test_what_is_taken_is_flushed),
		T(test_removal_gives_the_place_back),
		T(test_too_short),
		T(test_tells_its_end),
		T(test_malformed),
		T(test_places_refused),
		T(test_longer_ring),
	};

	return cmocka_run_group_tests(tests, group_start, group_stop);
}
