/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The local transport in the middle of a message: changes of either end while a bounced access is
 * outstanding. The test answers the accesses itself.
 */
#include <errno.h>

#include "dataplane/qp/move.h"
#include "local.h"

static struct one_copies *copies[2];
static uint32_t answered[2];

/* The memory of both sides is for bounced access. */
static int
setup_bounced(void **state)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	setup(state);
	for (int i = 0; i < 2; i++) {
		uint64_t offset = app_alloc(&w.app[i], sizeof(struct one_copies) + page);

		offset = (offset + page - 1) / page * page;
		w.bounce[i] = engine_client_bounce(w.app[i].client, offset);
		assert_non_null(w.bounce[i]);
		copies[i] = (struct one_copies *)(w.app[i].arena + offset);
		answered[i] = 0;
		w.memory[i].region.base = NULL;
		w.memory[i].region.bounce = w.bounce[i];
	}
	return 0;
}

/* Wait for the next access to the memory of one side. */
static const struct one_copy_request *
asked(int side)
{
	TURN_UNTIL(bounce_since(w.bounce[side]) != 0);
	return &copies[side]->request[answered[side] % ONE_COPIES];
}

/* Carry an access out as a copy thread does. */
static void
answer(int side)
{
	const struct one_copy_request *request = asked(side);
	struct one_copy_answer *to = &copies[side]->answer[answered[side] % ONE_COPIES];
	uint8_t *there = (uint8_t *)(uintptr_t)request->span[0].addr;
	uint32_t len = request->span[0].len; /* 0: cancelled meanwhile */

	if (request->op == ONE_COPY_OUT && len != 0)
		memcpy(copies[side]->slot[request->slot], there, len);
	else if (len != 0)
		memcpy(there, copies[side]->slot[request->slot], len);
	to->sequence = answered[side];
	to->error = 0;
	atomic_store(&to->phase, one_ring_phase(answered[side]++, ONE_COPY_LOG2));
}

/*
 * A key is republished for another place while data is on its way to the old place. The current message
 * completes there, and the next one goes to the new place.
 */
static void
test_key_names_another_place(void **state)
{
	for (int mapped = 0; mapped < 2; mapped++) {
		struct mem_region again = w.memory[1].region;
		uint8_t *bytes = w.memory[1].bytes;

		fill(&w.memory[0], 64, 5);
		memset(bytes, 0, 8192);
		post_write(&w.pair[0], &w.memory[0], &w.memory[1], 64, 1);
		answer(0);
		asked(1);
		again.shift -= 4096;
		if (mapped)
			again.base = bytes + 4096;
		mem_publish(engine.mem, &again);
		answer(1);
		expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
		assert_memory_equal(bytes, w.memory[0].bytes, 64);
		assert_int_equal(bytes[4096], 0);
		post_write(&w.pair[0], &w.memory[0], &w.memory[1], 64, 2);
		answer(0);
		if (!mapped)
			answer(1);
		expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 2);
		assert_memory_equal(bytes + 4096, w.memory[0].bytes, 64);
		mem_publish(engine.mem, &w.memory[1].region);
		turn(2); /* until no core uses the other entry */
	}
}

/* When the target has gone, the initiator gets an error. */
static void
test_target_leaves(void **state)
{
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 64, 1);
	answer(0);
	asked(1);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.pair[1].qp}), 0);
	answer(1);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_RETRY_EXCEEDED, 1);
}

/* A target that is reset in the middle of a message and connected again receives the whole message. */
static void
test_target_begins_again(void **state)
{
	fill(&w.memory[0], LONG, 9);
	post_recv(&w.pair[1], &w.memory[1], LONG, 1);
	post_recv(&w.pair[1], &w.memory[1], LONG, 2);
	post_send(&w.pair[0], &w.memory[0], LONG, 3);
	TURN_UNTIL(w.pair[0].qp->moved > 0);
	assert_true(w.pair[0].qp->moved < LONG);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_RESET, .qp = w.pair[1].qp}), 0);
	memset(w.memory[1].bytes, 0, LONG);
	pair_connect(&w.pair[1], &w.pair[0], RC_RTS, true);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_SUCCESS, 2);
	assert_memory_equal(w.memory[1].bytes, w.memory[0].bytes, LONG);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 3);
}

/* In out-of-band connections the ACK timeout limits how long the peer's queue pair may be missing. */
static void
test_peer_comes_late(void **state)
{
	struct engine_connection c = connection_to(&w.pair[0], &w.pair[1], RC_RTS, true);

	c.out_of_band = true;
	c.rc.timeout = 18; /* 8.6 s: eight timeouts */
	for (int i = 0; i < 2; i++)
		assert_int_equal(
			command((struct engine_command){.type = ENGINE_QP_RESET, .qp = w.pair[i].qp}), 0);
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_CONNECT, .qp = w.pair[0].qp, .connection = c}),
			 0);
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 8, 1);
	for (int i = 0; i < 2000; i++)
		turn_for(4000000);
	expect_none(&w.send[0]);
	pair_connect(&w.pair[1], &w.pair[0], RC_RTR, true);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.pair[1].qp}), 0);
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 8, 2);
	for (int i = 0; i < 2200; i++)
		turn_for(4000000);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_RETRY_EXCEEDED, 2);
}

static void
post_bind(uint64_t cookie)
{
	struct one_wqe *wqe = pair_send(&w.pair[1]);

	wqe->op = ONE_OP_BIND;
	wqe->num_sge = 1;
	wqe->length = 0;
	wqe->rkey = 0x1234;
	wqe->cookie = cookie;
	wqe->sge = (struct one_sge){.addr = 0};
	pair_commit_send(&w.pair[1]);
}

static void
bound(bool ok, bool copied)
{
	assert_int_equal(
		command((struct engine_command){
			.type = ENGINE_QP_BIND_DONE, .qp = w.pair[1].qp, .ok = ok, .copies = copied}),
		0);
}

/*
 * When a bind that takes memory from its window completes, the copy thread accesses the memory no more: the
 * bind waits for outstanding copies. A bind that fails, or that takes no memory from its window, does not
 * wait.
 */
static void
test_bind_waits_for_copies(void **state)
{
	for (int i = 0; i < 3; i++) {
		post_write(&w.pair[0], &w.memory[0], &w.memory[1], 64, 1);
		answer(0);
		asked(1);
		post_bind(2);
		TURN_UNTIL(w.pair[1].binds == (uint32_t)i + 1);
		bound(i != 2, i != 1);
		if (i == 0) {
			turn(1000);
			expect_none(&w.send[1]);
			assert_int_equal(command((struct engine_command){.type = ENGINE_QP_BIND_DONE,
									 .qp = w.pair[1].qp,
									 .ok = true}),
					 -EALREADY);
			answer(1);
		}
		expect(&w.send[1], ONE_CQE_BIND, i == 2 ? ONE_STATUS_BIND_FAILED : ONE_STATUS_SUCCESS, 2);
		if (i == 1)
			answer(1);
		if (i != 2)
			expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	}
}

/* A bind that is flushed while it waits for copies completes only once. */
static void
test_bind_settling_flushed(void **state)
{
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 64, 1);
	answer(0);
	asked(1);
	post_bind(2);
	TURN_UNTIL(w.pair[1].binds == 1);
	bound(true, true);
	assert_false(TAILQ_EMPTY(&engine.core[0]->quiescing));
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.pair[1].qp}), 0);
	expect(&w.send[1], ONE_CQE_BIND, ONE_STATUS_FLUSHED, 2);
	assert_true(TAILQ_EMPTY(&engine.core[0]->quiescing));
	answer(1);
	turn(100);
	expect_none(&w.send[1]);
}

/* Freezes one end, and thaws it at once. */
static int
try_move(int side)
{
	struct engine_qp *qp = w.pair[side].qp;
	const struct engine_qp_config config = {.send_cq = qp->send_cq,
						.recv_cq = qp->recv_cq,
						.conn_cq = qp->conn_cq,
						.async_cq = qp->async_cq};
	struct engine_move *move = engine_move_new(qp, qp->client, &config);
	int error = qp_freeze(engine.core[0], move);

	if (error == 0)
		assert_int_equal(qp_thaw(engine.core[0], move), 0);
	engine_move_free(move);
	return error;
}

/* No end moves while memory is written; bytes that were being read are read again. */
static void
test_moves_between_stores(void **state)
{
	fill(&w.memory[0], 64, 3);
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 64, 1);
	asked(0);
	assert_int_equal(try_move(0), 0);
	assert_int_equal(try_move(1), 0);
	answer(0);
	answer(0);
	asked(1);
	assert_int_equal(try_move(0), -EAGAIN);
	assert_int_equal(try_move(1), -EAGAIN);
	answer(1);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	assert_memory_equal(w.memory[1].bytes, w.memory[0].bytes, 64);
	assert_int_equal(try_move(1), 0);
}

#define P(f) cmocka_unit_test_setup_teardown(f, setup_bounced, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		P(test_key_names_another_place), P(test_target_leaves),        P(test_bind_waits_for_copies),
		P(test_bind_settling_flushed),   P(test_moves_between_stores), T(test_target_begins_again),
		T(test_peer_comes_late),
	};

	return cmocka_run_group_tests(tests, group_start, group_stop);
}
