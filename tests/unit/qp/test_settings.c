/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Settings of a queue pair in use: its peer's rights, and whether requests are begun (SQD); with a peer on
 * the same core and one on another.
 */
#include "fixture.h"

enum { HERE = 1, THERE };

static struct app app[2];
static struct ring sends[3], recvs, conn, async;
static struct pair pair[3]; /* the queue pair under test, and its peers */
static struct memory memory[2];

static int
setup(void **state)
{
	for (int i = 0; i < 2; i++) {
		app_start(&app[i]);
		memory_new(&app[i], ONE_ACCESS_ALL, 4096, &memory[i]);
	}
	ring_new(&app[0], CQ_LOG2, &async, NULL);
	ring_new(&app[0], CQ_LOG2, &recvs, NULL);
	ring_new(&app[0], CQ_LOG2, &conn, NULL);
	for (int i = 0; i < 3; i++) {
		struct app *owner = &app[i == THERE];

		ring_new(owner, CQ_LOG2, &sends[i], NULL);
		pair_new(owner, &sends[i], i == THERE ? &sends[i] : &recvs, i == THERE ? &sends[i] : &conn,
			 i == 0 ? &async : NULL, &pair[i]);
	}
	return 0;
}

static int
teardown(void **state)
{
	for (int i = 0; i < 3; i++) {
		pair_end(&pair[i]);
		ring_end(&sends[i]);
	}
	ring_end(&recvs);
	ring_end(&conn);
	ring_end(&async);
	for (int i = 0; i < 2; i++) {
		memory_end(&memory[i]);
		app_end(&app[i]);
	}
	return 0;
}

static void
connect_to(int peer)
{
	pair_connect(&pair[0], &pair[peer], RC_RTS, peer == HERE);
	pair_connect(&pair[peer], &pair[0], RC_RTS, peer == HERE);
}

static int
set(int i, struct one_qp_settings settings)
{
	return command(
		(struct engine_command){.type = ENGINE_QP_SET, .qp = pair[i].qp, .settings = settings});
}

static int
stop(bool stopped, bool notify)
{
	return set(0, (struct one_qp_settings){
			      .given = ONE_QP_SET_STOPPED, .stopped = stopped, .notify = notify});
}

static void
expect_drained(void)
{
	struct one_cqe cqe;

	TURN_UNTIL(ring_poll(&async, &cqe));
	assert_int_equal(cqe.type, ONE_CQE_ASYNC);
	assert_int_equal(cqe.status, ONE_ASYNC_SQ_DRAINED);
	assert_int_equal(cqe.object, pair[0].id);
	assert_int_equal(atomic_load(&pair[0].shm->sq_draining), 0);
	expect_none(&async); /* only one event */
}

/*
 * The first request is under way when the queue pair is stopped, since its peer has no receive. The second is
 * not begun.
 */
static void
stopped_at_work(int peer)
{
	connect_to(peer);
	post_send(&pair[0], &memory[0], 8, 1);
	TURN_UNTIL(pair[0].qp->sq_taken == 1);
	assert_int_equal(stop(true, true), 0);
	post_write(&pair[0], &memory[0], &memory[peer == THERE], 8, 2);
	expect_none(&sends[0]);
	expect_none(&async);
	assert_int_equal(atomic_load(&pair[0].shm->sq_draining), 1);
	post_recv(&pair[peer], &memory[peer == THERE], 8, 3);
	expect(&sends[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	expect_drained();
	expect_none(&sends[0]);
	assert_int_equal(stop(true, true), 0); /* already stopped: no event */
	expect_none(&async);
	assert_int_equal(stop(false, false), 0);
	expect(&sends[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 2);
	/* With nothing outstanding the event is raised at once, or not at all, as requested. */
	assert_int_equal(stop(true, true), 0);
	expect_drained();
	assert_int_equal(stop(false, false), 0);
	assert_int_equal(stop(true, false), 0);
	assert_int_equal(atomic_load(&pair[0].shm->sq_draining), 0);
	expect_none(&async);
	/* Requests that wait are flushed with the rest. */
	post_write(&pair[0], &memory[0], &memory[peer == THERE], 8, 4);
	expect_none(&sends[0]);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = pair[0].qp}), 0);
	expect(&sends[0], ONE_CQE_SEND, ONE_STATUS_FLUSHED, 4);
	assert_int_equal(stop(true, false), -ENOTCONN);
}

static void
test_stopped_here(void **state)
{
	stopped_at_work(HERE);
}

static void
test_stopped_there(void **state)
{
	stopped_at_work(THERE);
}

/* A drain for a disconnect resumes a stopped queue pair, which cannot be stopped again before its end. */
static void
test_stopped_and_drained(void **state)
{
	connect_to(THERE);
	assert_int_equal(stop(true, false), 0);
	post_send(&pair[0], &memory[0], 8, 1);
	expect_none(&sends[0]);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_DRAIN, .qp = pair[0].qp}), 0);
	assert_int_equal(stop(true, false), -ENOTCONN);
	assert_int_equal(pair[0].drained, 0);
	post_recv(&pair[THERE], &memory[1], 8, 2);
	expect(&sends[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	TURN_UNTIL(pair[0].drained == 1);
}

static void
rights(int peer)
{
	connect_to(peer);
	post_write(&pair[peer], &memory[peer == THERE], &memory[0], 8, 1);
	expect(&sends[peer], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	assert_int_equal(set(0, (struct one_qp_settings){.given = ONE_QP_SET_ACCESS,
							 .access = ONE_ACCESS_REMOTE_READ}),
			 0);
	post_write(&pair[peer], &memory[peer == THERE], &memory[0], 8, 2);
	expect(&sends[peer], ONE_CQE_SEND, ONE_STATUS_REMOTE_INVALID, 2);
}

static void
test_rights_here(void **state)
{
	rights(HERE);
}

static void
test_rights_there(void **state)
{
	rights(THERE);
}

static void
test_unconnected(void **state)
{
	assert_int_equal(stop(true, true), -ENOTCONN);
	expect_none(&async);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_stopped_here), T(test_stopped_there), T(test_stopped_and_drained),
		T(test_rights_here),  T(test_rights_there),  T(test_unconnected),
	};

	return cmocka_run_group_tests(tests, group_start_two, group_stop);
}
