/* SPDX-License-Identifier: BSD-3-Clause */
/* The local transport: every error, and its effect on both sides. */
#include "local.h"

static void
test_rnr_exceeded(void **state)
{
	struct engine_connection c = connection_to(&w.pair[0], &w.pair[1], RC_RTS, true);

	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.pair[0].qp}), 0);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_RESET, .qp = w.pair[0].qp}), 0);
	c.rc.rnr_retry = 2;
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_CONNECT, .qp = w.pair[0].qp, .connection = c}),
			 0);
	post_send(&w.pair[0], &w.memory[0], 100, 5);
	post_send(&w.pair[0], &w.memory[0], 100, 6);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_RNR_EXCEEDED, 5);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_FLUSHED, 6);
	TURN_UNTIL(w.pair[0].failed == 1);
	assert_int_equal(w.pair[1].failed, 0);
	assert_state(0, ONE_QP_ERROR);
	assert_state(1, ONE_QP_CONNECTED);
}

static void
test_local_key(void **state)
{
	/* A key of another protection zone fails the request locally. The peer notices nothing. */
	post_recv(&w.pair[1], &w.memory[1], 64, 1);
	post_write(&w.pair[0], &w.memory[1], &w.memory[1], 8, 2);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_LOCAL_PROTECTION, 2);
	TURN_UNTIL(w.pair[0].failed == 1);
	assert_int_equal(w.pair[0].error, RC_ERROR_REQUESTER);
	expect_none(&w.recv[1]);
	assert_int_equal(w.pair[1].failed, 0);
}

static void
test_read_needs_local_write(void **state)
{
	struct one_wqe *wqe = pair_send(&w.pair[0]);
	struct memory only_read;

	memory_new(&w.app[0], ONE_ACCESS_LOCAL_READ, 64, &only_read);
	wqe->op = ONE_OP_READ;
	wqe->num_sge = 1;
	wqe->length = 8;
	wqe->remote_addr = w.memory[1].region.va;
	wqe->rkey = w.memory[1].region.key;
	wqe->sge = (struct one_sge){.addr = only_read.region.va, .len = 8, .lkey = only_read.region.key};
	pair_commit_send(&w.pair[0]);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_LOCAL_PROTECTION, 0);
	memory_end(&only_read);
}

/* Post a write whose remote key must be refused. */
static void
refused_write(struct memory *target, uint64_t offset, uint32_t len, uint32_t key)
{
	struct one_wqe *wqe = pair_send(&w.pair[0]);
	struct one_cqe cqe;

	wqe->op = ONE_OP_WRITE;
	wqe->num_sge = 1;
	wqe->length = len;
	wqe->cookie = 3;
	wqe->remote_addr = target->region.va + offset;
	wqe->rkey = key;
	wqe->sge =
		(struct one_sge){.addr = w.memory[0].region.va, .len = len, .lkey = w.memory[0].region.key};
	pair_commit_send(&w.pair[0]);
	post_recv(&w.pair[1], &w.memory[1], 64, 4);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_REMOTE_ACCESS, 3);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_FLUSHED, 4);
	assert_both_broken();
	assert_false(ring_poll(&w.async[1], &cqe)); /* the flushed receive reports the error */
}

static void
test_remote_key_unknown(void **state)
{
	refused_write(&w.memory[1], 0, 8, w.memory[1].region.key ^ 0xff);
}

static void
test_remote_key_of_other_zone(void **state)
{
	refused_write(&w.memory[0], 0, 8, w.memory[0].region.key);
}

static void
test_remote_range(void **state)
{
	refused_write(&w.memory[1], LONG - 7, 8, w.memory[1].region.key);
}

static void
test_remote_range_wraps(void **state)
{
	refused_write(&w.memory[1], UINT64_MAX - w.memory[1].region.va - 3, 8, w.memory[1].region.key);
}

static void
test_remote_range_of_long_message(void **state)
{
	/* Only the last chunk is outside the region, but nothing at all may be written. */
	fill(&w.memory[0], LONG, 1);
	refused_write(&w.memory[1], 1, LONG, w.memory[1].region.key);
	for (uint32_t i = 0; i < LONG; i++)
		assert_int_equal(w.memory[1].bytes[i], 0);
}

static void
test_remote_right(void **state)
{
	struct memory only_read;

	memory_new(&w.app[1], ONE_ACCESS_REMOTE_READ | ONE_ACCESS_LOCAL_WRITE, 64, &only_read);
	refused_write(&only_read, 0, 8, only_read.region.key);
	memory_end(&only_read);
}

static void
test_key_of_other_queue_pair(void **state)
{
	struct memory window;

	memory_new(&w.app[1], REMOTE, 64, &window);
	window.region.qpn = w.pair[1].qpn + 1;
	refused_write(&window, 0, 8, window.region.key);
	memory_end(&window);
}

static void
test_key_of_this_queue_pair(void **state)
{
	struct memory window;

	memory_new(&w.app[1], REMOTE, 64, &window);
	window.region.qpn = w.pair[1].qpn;
	post_write(&w.pair[0], &w.memory[0], &window, 8, 1);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	memory_end(&window);
}

static void
test_key_removed_on_the_way(void **state)
{
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], LONG, 1);
	TURN_UNTIL(w.pair[0].qp->moved > 0);
	mem_remove(engine.mem, w.memory[1].region.key);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_REMOTE_ACCESS, 1);
	assert_both_broken();
}

static void
test_async_error_when_nothing_outstanding(void **state)
{
	post_write(&w.pair[0], &w.memory[0], &w.memory[0], 8, 1); /* a key of the wrong application */
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_REMOTE_ACCESS, 1);
	expect(&w.async[1], ONE_CQE_ASYNC, ONE_ASYNC_QP_ERROR, 0);
	expect_none(&w.async[0]);
}

static void
test_queue_pair_right(void **state)
{
	struct engine_connection c = connection_to(&w.pair[1], &w.pair[0], RC_RTS, true);

	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_RESET, .qp = w.pair[1].qp}), 0);
	c.rc.access = ONE_ACCESS_REMOTE_READ;
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_CONNECT, .qp = w.pair[1].qp, .connection = c}),
			 0);
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 8, 1);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_REMOTE_INVALID, 1);
	assert_both_broken();
}

static void
test_message_longer_than_receive(void **state)
{
	post_recv(&w.pair[1], &w.memory[1], 99, 1);
	post_recv(&w.pair[1], &w.memory[1], 200, 2);
	post_send(&w.pair[0], &w.memory[0], 100, 3);
	post_send(&w.pair[0], &w.memory[0], 100, 4);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_LOCAL_LENGTH, 1);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_FLUSHED, 2);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_REMOTE_INVALID, 3);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_FLUSHED, 4);
	assert_both_broken();
	assert_int_equal(atomic_load(&w.pair[1].shm->rq_done), 2);
}

static void
test_receive_with_bad_key(void **state)
{
	post_recv(&w.pair[1], &w.memory[0], 200, 1);
	post_send(&w.pair[0], &w.memory[0], 100, 3);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_LOCAL_PROTECTION, 1);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_REMOTE_OPERATION, 3);
	assert_both_broken();
}

static void
test_malformed_receive(void **state)
{
	struct one_wqe *wqe = pair_recv(&w.pair[1]);

	wqe->op = ONE_OP_SEND;
	wqe->cookie = 1;
	pair_commit_recv(&w.pair[1]);
	post_send(&w.pair[0], &w.memory[0], 100, 3);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_LOCAL_QP, 1);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_REMOTE_OPERATION, 3);
}

static void
test_malformed_send(void **state)
{
	struct one_wqe *wqe = pair_send(&w.pair[0]);

	wqe->op = 99;
	wqe->cookie = 1;
	wqe->flags = ONE_WQE_SUPPRESS; /* errors are reported nevertheless */
	pair_commit_send(&w.pair[0]);
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 8, 2);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_LOCAL_QP, 1);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_FLUSHED, 2);
	TURN_UNTIL(w.pair[0].failed == 1);
	assert_int_equal(w.app[0].faults, 0);
}

static void
test_misaligned_atomic(void **state)
{
	struct one_wqe *wqe = pair_send(&w.pair[0]);

	wqe->op = ONE_OP_FETCH_ADD;
	wqe->num_sge = 1;
	wqe->remote_addr = w.memory[1].region.va + 4;
	wqe->rkey = w.memory[1].region.key;
	wqe->atomic.result =
		(struct one_sge){.addr = w.memory[0].region.va, .len = 8, .lkey = w.memory[0].region.key};
	pair_commit_send(&w.pair[0]);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_REMOTE_INVALID, 0);
	assert_both_broken();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_rnr_exceeded),
		T(test_local_key),
		T(test_read_needs_local_write),
		T(test_remote_key_unknown),
		T(test_remote_key_of_other_zone),
		T(test_remote_range),
		T(test_remote_range_wraps),
		T(test_remote_range_of_long_message),
		T(test_remote_right),
		T(test_key_of_other_queue_pair),
		T(test_key_of_this_queue_pair),
		T(test_key_removed_on_the_way),
		T(test_async_error_when_nothing_outstanding),
		T(test_queue_pair_right),
		T(test_message_longer_than_receive),
		T(test_receive_with_bad_key),
		T(test_malformed_receive),
		T(test_malformed_send),
		T(test_misaligned_atomic),
	};

	return cmocka_run_group_tests(tests, group_start, group_stop);
}
