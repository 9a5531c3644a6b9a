/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs on shared rings: doorbells, the hot list, flushing, resetting, hostile rings, memory use. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixture.h"
#include "dataplane/mem/guard.h"

#define IDLE 300

static struct app app;
static struct ring sends, recvs, conn;
static struct pair pair, other;
static struct memory memory;

static int
setup(void **state)
{
	app_start(&app);
	ring_new(&app, CQ_LOG2, &sends, NULL);
	ring_new(&app, CQ_LOG2, &recvs, NULL);
	ring_new(&app, CQ_LOG2, &conn, NULL);
	pair_new(&app, &sends, &recvs, &conn, NULL, &pair);
	pair_new(&app, &sends, &recvs, &conn, NULL, &other);
	memory_new(&app, ONE_ACCESS_ALL, 4096, &memory);
	return 0;
}

static int
teardown(void **state)
{
	pair_end(&pair);
	pair_end(&other);
	ring_end(&sends);
	ring_end(&recvs);
	ring_end(&conn);
	memory_end(&memory);
	app_end(&app);
	return 0;
}

static void
connect_both(void)
{
	pair_connect(&pair, &other, RC_RTS, true);
	pair_connect(&other, &pair, RC_RTS, true);
}

static void
test_memory_of_an_idle_queue_pair(void **state)
{
	assert_true(sizeof(struct engine_qp) + rc_qp_size() <= 4096);
}

/*
 * In an out-of-band connection the requester may not know whether its peer is on the same core: the core
 * finds out.
 */
static void
test_local_out_of_band(void **state)
{
	struct engine_connection c = connection_to(&pair, &other, RC_RTR, true);

	c.out_of_band = true;
	c.rc.peer_qpn = other.qpn ^ 1;
	assert_int_equal(
		command((struct engine_command){
			.type = ENGINE_QP_CONNECT, .client = app.client, .qp = pair.qp, .connection = c}),
		0);
	assert_int_equal(pair.qp->transport, QP_LOOP);
	c = connection_to(&other, &pair, RC_RTR, true);
	c.out_of_band = true;
	assert_int_equal(
		command((struct engine_command){
			.type = ENGINE_QP_CONNECT, .client = app.client, .qp = other.qp, .connection = c}),
		0);
	assert_int_equal(other.qp->transport, QP_LOCAL);
}

static void
expect_state(enum rc_state state)
{
	assert_int_equal(pair.qp->state, state);
	assert_int_equal(rc_state(pair.qp->rc), state);
}

/* The core and the transport have the same state, also if the queue pair ends before it was connected. */
static void
test_one_state(void **state)
{
	const struct engine_command flush = {.type = ENGINE_QP_FLUSH, .qp = pair.qp};
	const struct engine_command reset = {.type = ENGINE_QP_RESET, .qp = pair.qp};

	expect_state(RC_RESET);
	assert_int_equal(command(flush), 0);
	expect_state(RC_ERROR);
	assert_int_equal(command(reset), 0);
	expect_state(RC_RESET);
	pair_connect(&pair, &other, RC_RTR, false);
	expect_state(RC_RTR);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_RTS, .qp = pair.qp}), 0);
	expect_state(RC_RTS);
	assert_int_equal(command(flush), 0);
	expect_state(RC_ERROR);
	assert_int_equal(command(reset), 0);
	expect_state(RC_RESET);
}

static void
test_unconnected_is_left_alone(void **state)
{
	struct one_cqe cqe;

	post_write(&pair, &memory, &memory, 8, 1);
	expect_none(&sends);
	/* The doorbell was consumed; connecting polls the ring by itself. */
	connect_both();
	TURN_UNTIL(ring_poll(&sends, &cqe));
	assert_int_equal(cqe.cookie, 1);
}

static void
test_goes_cold_and_comes_back(void **state)
{
	connect_both();
	for (uint64_t i = 0; i < 3; i++) {
		TURN_UNTIL(engine.core[0]->hot_count == 0);
		post_write(&pair, &memory, &memory, 8, i);
		expect(&sends, ONE_CQE_SEND, ONE_STATUS_SUCCESS, i);
		assert_true(engine.core[0]->hot_count > 0);
	}
}

static void
test_no_post_is_lost(void **state)
{
	/* Posts at every number of loops around the moment when the queue pair leaves the hot list. */
	connect_both();
	for (uint32_t pause = 0; pause < 3 * CORE_EMPTY_LOOKS; pause++) {
		post_write(&pair, &memory, &memory, 8, pause);
		expect(&sends, ONE_CQE_SEND, ONE_STATUS_SUCCESS, pause);
		turn(pause);
	}
}

static void
test_all_slots(void **state)
{
	uint64_t next = 0, seen = 0;

	/* Several laps, with the ring always as full as allowed. */
	connect_both();
	while (seen < 1000) {
		struct one_cqe cqe;

		while (next - seen < MAX_WR)
			post_write(&pair, &memory, &memory, 8, next++);
		turn(1);
		while (ring_poll(&sends, &cqe)) {
			assert_int_equal(cqe.cookie, seen);
			seen++;
			/* A slot may be reused once its completion has been polled. */
			assert_true((int32_t)(atomic_load(&pair.shm->sq_done) - (uint32_t)seen) >= 0);
			assert_true((int32_t)(atomic_load(&pair.shm->sq_head) - (uint32_t)seen) >= 0);
		}
	}
	assert_int_equal(app.faults, 0);
}

static void
test_flush_order(void **state)
{
	struct one_cqe cqe;

	connect_both();
	for (uint64_t i = 0; i < 5; i++)
		post_recv(&pair, &memory, 8, 100 + i);
	for (uint64_t i = 0; i < 3; i++)
		post_send(&pair, &memory, 8, i); /* no receive is posted */
	turn(20);
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_FLUSH,
				 .qp = pair.qp,
				 .event = {.type = ONE_CQE_CONNECT, .status = ONE_CONN_DISCONNECTED}}),
			 0);
	for (uint64_t i = 0; i < 3; i++) {
		assert_true(ring_poll(&sends, &cqe));
		assert_int_equal(cqe.cookie, i);
		assert_int_equal(cqe.status, ONE_STATUS_FLUSHED);
		assert_int_equal(cqe.flags, ONE_CQE_NOTIFY | ONE_CQE_SOLICITED); /* as for errors */
	}
	for (uint64_t i = 0; i < 5; i++) {
		assert_true(ring_poll(&recvs, &cqe));
		assert_int_equal(cqe.cookie, 100 + i);
		assert_int_equal(cqe.status, ONE_STATUS_FLUSHED);
	}
	assert_true(ring_poll(&conn, &cqe));
	assert_int_equal(cqe.status, ONE_CONN_DISCONNECTED);
	assert_int_equal(atomic_load(&pair.shm->state), ONE_QP_ERROR);
	assert_int_equal(atomic_load(&pair.shm->sq_done), 3);
	assert_int_equal(atomic_load(&pair.shm->rq_done), 5);
	assert_int_equal(pair.failed, 0);
	/* Work posted after the flush is flushed, too, from both rings. */
	post_recv(&pair, &memory, 8, 200);
	expect(&recvs, ONE_CQE_RECV, ONE_STATUS_FLUSHED, 200);
	post_write(&pair, &memory, &memory, 8, 201);
	expect(&sends, ONE_CQE_SEND, ONE_STATUS_FLUSHED, 201);
}

/* The control thread's flush arrives after the queue pair broke by itself: the event is BROKEN. */
static void
test_flush_after_breaking(void **state)
{
	const struct engine_command flush = {
		.type = ENGINE_QP_FLUSH,
		.qp = pair.qp,
		.event = {.type = ONE_CQE_CONNECT, .status = ONE_CONN_DISCONNECTED},
		.status_if_broken = ONE_CONN_BROKEN};
	struct memory bad = memory;
	struct one_cqe cqe;

	connect_both();
	bad.region.key ^= 0x100;
	post_write(&pair, &memory, &bad, 8, 1);
	expect(&sends, ONE_CQE_SEND, ONE_STATUS_REMOTE_ACCESS, 1);
	assert_int_equal(command(flush), 0);
	assert_true(ring_poll(&conn, &cqe));
	assert_int_equal(cqe.status, ONE_CONN_BROKEN);
}

/* A graceful disconnect begins after the queue pair broke by itself and before anyone was notified. */
static void
test_closing_after_breaking(void **state)
{
	struct memory bad = memory;

	connect_both();
	bad.region.key ^= 0x100;
	post_write(&pair, &memory, &bad, 8, 1);
	expect(&sends, ONE_CQE_SEND, ONE_STATUS_REMOTE_ACCESS, 1);
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_STATE, .qp = pair.qp, .state = ONE_QP_CLOSING}),
			 0);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_DRAIN, .qp = pair.qp}), 0);
	assert_int_equal(atomic_load(&pair.shm->state), ONE_QP_ERROR);
}

static void
test_flush_unconnected(void **state)
{
	post_recv(&pair, &memory, 8, 1);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = pair.qp}), 0);
	expect(&recvs, ONE_CQE_RECV, ONE_STATUS_FLUSHED, 1);
	expect_none(&conn);
}

static void
test_reset(void **state)
{
	connect_both();
	post_recv(&pair, &memory, 8, 1);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = pair.qp}), 0);
	expect(&recvs, ONE_CQE_RECV, ONE_STATUS_FLUSHED, 1);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_RESET, .qp = pair.qp}), 0);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_RESET, .qp = other.qp}), 0);
	assert_int_equal(atomic_load(&pair.shm->state), ONE_QP_IDLE);
	/* A receive posted now stays; a send is dropped. */
	post_recv(&pair, &memory, 8, 2);
	post_write(&pair, &memory, &memory, 8, 3);
	expect_none(&recvs);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_RESET, .qp = pair.qp}), 0);
	assert_int_equal(atomic_load(&pair.shm->sq_done), 1);
	assert_int_equal(atomic_load(&pair.shm->sq_head), 1);
	assert_int_equal(atomic_load(&pair.shm->rq_done), 1);
	connect_both();
	expect_none(&sends);
	post_send(&other, &memory, 8, 4);
	expect(&recvs, ONE_CQE_RECV, ONE_STATUS_SUCCESS, 2);
	expect(&sends, ONE_CQE_SEND, ONE_STATUS_SUCCESS, 4);
}

static void
test_solicited(void **state)
{
	const struct engine_qp_config config = {.pz = app.pz,
						.send_cq = sends.cq,
						.recv_cq = recvs.cq,
						.conn_cq = conn.cq,
						.recv_solicited = true};
	struct one_cqe cqe;

	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_MODIFY, .qp = other.qp, .qp_config = config}),
			 0);
	connect_both();
	for (int i = 0; i < 2; i++) {
		struct one_wqe *wqe;

		post_recv(&other, &memory, 8, 1);
		wqe = pair_send(&pair);
		wqe->op = ONE_OP_SEND;
		wqe->flags = i == 0 ? 0 : ONE_WQE_SOLICITED;
		pair_commit_send(&pair);
		TURN_UNTIL(ring_poll(&recvs, &cqe));
		assert_int_equal(cqe.flags, i == 0 ? 0 : ONE_CQE_NOTIFY | ONE_CQE_SOLICITED);
	}
	assert_true(command((struct engine_command){
			    .type = ENGINE_QP_MODIFY, .qp = other.qp, .qp_config = config}) < 0);
}

static void
test_streams_that_are_not_reported(void **state)
{
	const struct engine_qp_config config = {.pz = app.pz, .recv_cq = recvs.cq};

	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_MODIFY, .qp = pair.qp, .qp_config = config}),
			 0);
	connect_both();
	post_write(&pair, &memory, &memory, 8, 1);
	TURN_UNTIL(atomic_load(&pair.shm->sq_done) == 1);
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_FLUSH,
				 .qp = pair.qp,
				 .event = {.type = ONE_CQE_CONNECT, .status = ONE_CONN_BROKEN}}),
			 0);
	expect_none(&conn);
}

static void
test_more_than_max_send_wr(void **state)
{
	connect_both();
	for (uint64_t i = 0; i <= MAX_WR; i++)
		post_send(&pair, &memory, 8, i); /* no receive: none completes */
	turn(100);
	assert_int_equal(app.faults, 0); /* the surplus is still in the ring */
	for (uint32_t i = 0; i < 2; i++)
		post_recv(&other, &memory, 8, i);
	turn(100);
	assert_int_equal(app.faults, 0); /* and then there is room for it */
}

/* RC accepts many requests at once, so the core sees too many. */
static void
test_fault_by_overrun(void **state)
{
	struct engine_connection c = connection_to(&pair, &other, RC_RTS, false);

	c.rc.timeout = 8;
	c.rc.retry_count = 7;
	assert_int_equal(
		command((struct engine_command){.type = ENGINE_QP_CONNECT, .qp = pair.qp, .connection = c}),
		0);
	/* The peer is not connected, so nothing is acknowledged. */
	post_write(&pair, &memory, &memory, 8, 0);
	TURN_UNTIL(engine.core[0]->timers > 0);
	for (uint64_t i = 1; i <= MAX_WR; i++)
		post_write(&pair, &memory, &memory, 8, i);
	TURN_UNTIL(app.faults == 1);
	assert_int_equal(app.fault, ONE_FAULT_RING);
	turn(100);
	assert_int_equal(app.faults, 1);
	assert_int_equal(engine.core[0]->hot_count, 0);
	/* After the fault nothing is retransmitted, nor does a timer stay armed for retransmission. */
	TURN_UNTIL(engine.core[0]->timers == 0);
	expect_none(&sends);
}

static void
test_extension_slots_missing(void **state)
{
	struct one_wqe *wqe = pair_send(&pair);

	connect_both();
	wqe->op = ONE_OP_SEND;
	wqe->num_sge = 5;
	wqe->cookie = 9;
	/* Only the first slot has its phase: a correct library never does this. */
	atomic_store(&wqe->phase, one_ring_phase(0, RING_LOG2));
	one_doorbell_ring(app.doorbells, pair.doorbell);
	expect(&sends, ONE_CQE_SEND, ONE_STATUS_LOCAL_QP, 9);
	TURN_UNTIL(pair.failed == 1);
}

static void
test_doorbells_of_nobody(void **state)
{
	for (uint32_t i = 0; i < ONE_QPS_MAX; i++)
		one_doorbell_ring(app.doorbells, i);
	turn(10);
	assert_int_equal(app.faults, 0);
	connect_both();
	post_write(&pair, &memory, &memory, 8, 1);
	expect(&sends, ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
}

static void
test_many_idle(void **state)
{
	static struct pair idle[IDLE];

	connect_both();
	for (uint32_t i = 0; i < IDLE; i++)
		pair_new(&app, &sends, &recvs, &conn, NULL, &idle[i]);
	for (uint32_t i = 0; i < IDLE; i += 2) {
		pair_connect(&idle[i], &idle[i + 1], RC_RTS, true);
		pair_connect(&idle[i + 1], &idle[i], RC_RTS, true);
	}
	TURN_UNTIL(engine.core[0]->hot_count == 0);
	for (uint32_t i = 0; i < IDLE; i++) {
		post_write(&idle[i], &memory, &memory, 8, i);
		expect(&sends, ONE_CQE_SEND, ONE_STATUS_SUCCESS, i);
	}
	TURN_UNTIL(engine.core[0]->hot_count == 0);
	for (uint32_t i = 0; i < IDLE; i++)
		pair_end(&idle[i]);
}

static void
test_numbers(void **state)
{
	uint32_t gone = pair.qpn;
	struct pair again;

	assert_ptr_equal(engine_qp_find(pair.qpn), pair.qp);
	assert_null(engine_qp_find(pair.qpn ^ (1u << 20))); /* same slot of the table, another QPN */
	for (uint32_t i = 0; i < 1000; i++) {
		uint32_t qpn = engine_qpn_new();

		assert_true(qpn > 1 && qpn < 0xffffff);
		assert_true(qpn != pair.qpn && qpn != other.qpn);
	}
	pair_new(&app, NULL, NULL, NULL, NULL, &again);
	pair_end(&again);
	assert_null(engine_qp_find(again.qpn));
	assert_ptr_equal(engine_qp_find(gone), pair.qp);
}

static void
test_places_refused(void **state)
{
	const struct engine_qp_config good = {.qpn = engine_qpn_new(),
					      .shm = 8192,
					      .sq = 16384,
					      .rq = 32768,
					      .sq_log2 = 4,
					      .rq_log2 = 4,
					      .doorbell = 9};
	struct engine_qp_config bad[6];
	struct engine_qp *qp;

	for (size_t i = 0; i < RTE_DIM(bad); i++)
		bad[i] = good;
	bad[0].doorbell = ONE_QPS_MAX;
	bad[1].sq = ONE_ARENA_SIZE - 64;
	bad[2].rq_log2 = ONE_RING_LOG2_MAX + 1;
	bad[3].shm = 8200;
	bad[4].port = 1;
	bad[5].qpn = pair.qpn;
	for (size_t i = 0; i < RTE_DIM(bad); i++)
		assert_null(engine_qp_new(app.client, &bad[i]));
	qp = engine_qp_new(app.client, &good);
	assert_non_null(qp);
	engine_qp_free(qp);
}

static void
test_truncated_mapping(void **state)
{
	int fd = memfd_create("truncated", 0), guard;
	struct memory *target = &memory;
	uint8_t *bytes;
	void *owner = &app;

	/* cmocka installs its own signal handlers for each test, so install ours again. */
	assert_int_equal(guard_init(engine_event_fd()), 0);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 65536), 0);
	bytes = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(bytes != MAP_FAILED);
	guard = engine_guard_add(bytes, 65536, owner);
	assert_true(guard > 0);
	target->region.base = bytes;
	connect_both();
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_null(engine_guard_fault());
	post_write(&pair, target, target, 8, 1);
	expect(&sends, ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1); /* to a zero page */
	assert_ptr_equal(engine_guard_fault(), owner);
	assert_null(engine_guard_fault());
	engine_guard_unmapped(engine_guard_remove(guard));
	munmap(bytes, 65536);
	close(fd);
	guard_fini();
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_memory_of_an_idle_queue_pair),
		T(test_one_state),
		T(test_local_out_of_band),
		T(test_unconnected_is_left_alone),
		T(test_goes_cold_and_comes_back),
		T(test_no_post_is_lost),
		T(test_all_slots),
		T(test_flush_order),
		T(test_flush_after_breaking),
		T(test_closing_after_breaking),
		T(test_flush_unconnected),
		T(test_reset),
		T(test_solicited),
		T(test_streams_that_are_not_reported),
		T(test_more_than_max_send_wr),
		T(test_fault_by_overrun),
		T(test_extension_slots_missing),
		T(test_doorbells_of_nobody),
		T(test_many_idle),
		T(test_numbers),
		T(test_places_refused),
		T(test_truncated_mapping),
	};

	return cmocka_run_group_tests(tests, group_start, group_stop);
}
