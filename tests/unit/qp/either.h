/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cases for both transports: between queue pairs of one core, which the setup has connected, and of two,
 * which it has not.  Include this after a world `w` and `is_local`.
 */
#ifndef TESTS_UNIT_ENGINE_EITHER_H
#define TESTS_UNIT_ENGINE_EITHER_H

static void
connect_both(void)
{
	for (int i = 0; i < 2 && !is_local; i++)
		pair_connect(&w.pair[i], &w.pair[!i], RC_RTS, false);
}

static void
disconnect_both(void)
{
	for (int i = 0; i < 2 && is_local; i++)
		assert_int_equal(
			command((struct engine_command){.type = ENGINE_QP_RESET, .qp = w.pair[i].qp}), 0);
}

/* A receive may name more memory than its region has, if the message needs less, also for several packets. */
static void
test_receive_longer_than_its_region(void **state)
{
	struct memory little;

	memory_new(&w.app[1], ONE_ACCESS_ALL, 10000, &little);
	connect_both();
	post_recv(&w.pair[1], &little, 20000, 1);
	post_recv(&w.pair[1], &little, 20000, 2);
	post_send(&w.pair[0], &w.memory[0], 10000, 3);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 3);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_SUCCESS, 1);
	assert_memory_equal(little.bytes, w.memory[0].bytes, 10000);
	post_send(&w.pair[0], &w.memory[0], 10001, 4);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_REMOTE_OPERATION, 4);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_LOCAL_PROTECTION, 2);
	memory_end(&little);
}

static void
post_bind(uint64_t cookie)
{
	struct one_wqe *wqe = pair_send(&w.pair[0]);

	wqe->op = ONE_OP_BIND;
	wqe->num_sge = 1;
	wqe->length = ONE_ACCESS_REMOTE_WRITE;
	wqe->rkey = 0x1234;
	wqe->cookie = cookie;
	wqe->sge = (struct one_sge){.addr = w.memory[0].region.va, .len = 64, .lkey = w.memory[0].region.key};
	pair_commit_send(&w.pair[0]);
}

static void
test_bind(void **state)
{
	const struct engine_bind *bind;
	struct one_cqe cqe;

	connect_both();
	post_bind(1);
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 8, 2);
	TURN_UNTIL(w.pair[0].binds == 1);
	expect_none(&w.send[0]); /* requests after a bind wait for it */
	bind = engine_qp_bind(w.pair[0].qp);
	assert_int_equal(bind->key, 0x1234);
	assert_int_equal(bind->length, 64);
	assert_int_equal(
		command((struct engine_command){.type = ENGINE_QP_BIND_DONE, .qp = w.pair[0].qp, .ok = true}),
		0);
	assert_true(ring_poll(&w.send[0], &cqe));
	assert_int_equal(cqe.type, ONE_CQE_BIND);
	assert_int_equal(cqe.imm, 0x1234);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 2);
	post_bind(3);
	TURN_UNTIL(w.pair[0].binds == 2);
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_BIND_DONE, .qp = w.pair[0].qp, .ok = false}),
			 0);
	expect(&w.send[0], ONE_CQE_BIND, ONE_STATUS_BIND_FAILED, 3);
	TURN_UNTIL(w.pair[0].failed == 1);
}

static void
test_established_by_first_message(void **state)
{
	struct one_cqe cqe;

	disconnect_both();
	pair_connect(&w.pair[1], &w.pair[0], RC_RTR, is_local);
	assert_int_equal(atomic_load(&w.pair[1].shm->state), ONE_QP_CONNECTING);
	pair_connect(&w.pair[0], &w.pair[1], RC_RTS, is_local);
	post_recv(&w.pair[1], &w.memory[1], 64, 2);
	post_write(&w.pair[1], &w.memory[1], &w.memory[0], 8, 7); /* waits for RTS */
	expect_none(&w.send[1]);
	post_send(&w.pair[0], &w.memory[0], 8, 1);
	TURN_UNTIL(w.pair[1].established == 1);
	assert_true(ring_poll(&w.conn[1], &cqe));
	assert_int_equal(cqe.type, ONE_CQE_CONNECT);
	assert_int_equal(cqe.status, ONE_CONN_ESTABLISHED);
	assert_int_equal(atomic_load(&w.pair[1].shm->state), ONE_QP_CONNECTED);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_SUCCESS, 2);
	expect(&w.send[1], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 7);
	/* The later report by the control thread raises no second event. */
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_RTS,
				 .qp = w.pair[1].qp,
				 .event = {.type = ONE_CQE_CONNECT, .status = ONE_CONN_ESTABLISHED}}),
			 0);
	expect_none(&w.conn[1]);
}

/*
 * After an out-of-band connection, a queue pair responds from RTR on. It sends requests only from RTS on,
 * whatever has arrived before.
 */
static void
test_out_of_band(void **state)
{
	struct engine_connection rtr = connection_to(&w.pair[1], &w.pair[0], RC_RTR, is_local);
	const struct rc_attr whole = rtr.rc;

	disconnect_both();
	/* The attributes that only a requester needs are set at RTS. */
	rtr.out_of_band = true;
	rtr.rc.send_psn = rtr.rc.rd_atomic_out = rtr.rc.timeout = rtr.rc.retry_count = rtr.rc.rnr_retry = 0;
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_CONNECT, .qp = w.pair[1].qp, .connection = rtr}),
			 0);
	pair_connect(&w.pair[0], &w.pair[1], RC_RTS, is_local);
	post_recv(&w.pair[1], &w.memory[1], 64, 2);
	post_write(&w.pair[1], &w.memory[1], &w.memory[0], 8, 7);
	post_send(&w.pair[0], &w.memory[0], 8, 1);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_SUCCESS, 2);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	turn(20);
	expect_none(&w.send[1]);
	expect_none(&w.conn[1]);
	assert_int_equal(w.pair[1].established, 0);
	assert_int_equal(atomic_load(&w.pair[1].shm->state), ONE_QP_CONNECTING);
	rtr.rc = whole;
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_RTS, .qp = w.pair[1].qp, .connection = rtr}),
			 0);
	assert_int_equal(atomic_load(&w.pair[1].shm->state), ONE_QP_CONNECTED);
	expect(&w.send[1], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 7);
	expect_none(&w.conn[1]);
}

#endif
