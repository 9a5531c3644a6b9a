/* SPDX-License-Identifier: BSD-3-Clause */
/* The local transport: every operation, and every error with what both sides see of it. */
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

#define REMOTE (ONE_ACCESS_REMOTE_READ | ONE_ACCESS_REMOTE_WRITE | ONE_ACCESS_REMOTE_ATOMIC)
#define LONG (5 * LOCAL_CHUNK + 777)

struct world {
	struct app app[2];
	struct ring send[2], recv[2], conn[2], async[2];
	struct pair pair[2];
	struct memory memory[2]; /* all rights */
};
static struct world w;

static int
setup(void **state)
{
	for (int i = 0; i < 2; i++) {
		app_start(&w.app[i]);
		ring_new(&w.app[i], CQ_LOG2, &w.async[i], NULL);
		ring_new(&w.app[i], CQ_LOG2, &w.send[i], w.async[i].cq);
		ring_new(&w.app[i], CQ_LOG2, &w.recv[i], w.async[i].cq);
		ring_new(&w.app[i], CQ_LOG2, &w.conn[i], w.async[i].cq);
		pair_new(&w.app[i], &w.send[i], &w.recv[i], &w.conn[i], &w.async[i], &w.pair[i]);
		memory_new(&w.app[i], ONE_ACCESS_ALL, LONG, &w.memory[i]);
	}
	for (int i = 0; i < 2; i++)
		pair_connect(&w.pair[i], &w.pair[!i], RC_RTS, true);
	return 0;
}

static int
teardown(void **state)
{
	for (int i = 0; i < 2; i++) {
		pair_end(&w.pair[i]);
		ring_end(&w.send[i]);
		ring_end(&w.recv[i]);
		ring_end(&w.conn[i]);
		ring_end(&w.async[i]);
		memory_end(&w.memory[i]);
		app_end(&w.app[i]);
	}
	turn(2);
	assert_null(engine.reap);
	return 0;
}

static void
fill(struct memory *memory, size_t len, uint32_t seed)
{
	for (size_t i = 0; i < len; i++)
		memory->bytes[i] = (uint8_t)((seed = seed * 1103515245 + 12345) >> 16);
}

static void
assert_state(int side, enum one_qp_state expected)
{
	assert_int_equal(atomic_load(&w.pair[side].shm->state), expected);
}

/* Both sides broke; nothing more completes on what is flushed. */
static void
assert_both_broken(void)
{
	TURN_UNTIL(w.pair[0].failed == 1 && w.pair[1].failed == 1);
	assert_int_equal(w.pair[0].error, RC_ERROR_REQUESTER);
	assert_int_equal(w.pair[1].error, RC_ERROR_RESPONDER);
	assert_state(0, ONE_QP_ERROR);
	assert_state(1, ONE_QP_ERROR);
}

static void
test_write(void **state)
{
	static const uint32_t lengths[] = {1, 3, 8, 64, 4096, LOCAL_CHUNK, LOCAL_CHUNK + 1, LONG};

	for (size_t i = 0; i < RTE_DIM(lengths); i++) {
		fill(&w.memory[0], LONG, (uint32_t)i);
		memset(w.memory[1].bytes, 0, LONG);
		post_write(&w.pair[0], &w.memory[0], &w.memory[1], lengths[i], 100 + i);
		expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 100 + i);
		assert_memory_equal(w.memory[0].bytes, w.memory[1].bytes, lengths[i]);
		if (lengths[i] < LONG)
			assert_int_equal(w.memory[1].bytes[lengths[i]], 0);
	}
	expect_none(&w.recv[1]);
	assert_int_equal(atomic_load(&w.pair[0].shm->sq_done), RTE_DIM(lengths));
}

static void
test_write_is_cut(void **state)
{
	/* While a long message is under way, a short one of another queue pair gets through. */
	struct pair more[2];

	for (int i = 0; i < 2; i++)
		pair_new(&w.app[i], &w.recv[i], NULL, NULL, NULL, &more[i]);
	for (int i = 0; i < 2; i++)
		pair_connect(&more[i], &more[!i], RC_RTS, true);
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], LONG, 1);
	turn(2);
	post_write(&more[0], &w.memory[0], &w.memory[1], 8, 2);
	for (int i = 0; i < 3; i++) {
		struct one_cqe cqe;

		turn(1);
		if (ring_poll(&w.recv[0], &cqe)) {
			assert_int_equal(cqe.cookie, 2);
			assert_false(ring_poll(&w.send[0], &cqe));
			goto done;
		}
	}
	fail_msg("the short message waited");
done:
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	pair_end(&more[0]);
	pair_end(&more[1]);
}

static void
test_inline_and_flags(void **state)
{
	static const uint8_t flags[] = {0, ONE_WQE_SUPPRESS, ONE_WQE_UNSIGNALED, ONE_WQE_SOLICITED};
	struct one_cqe cqe;

	for (uint32_t i = 0; i < RTE_DIM(flags); i++) {
		struct one_wqe *wqe = pair_send(&w.pair[0]);

		wqe->op = ONE_OP_WRITE;
		wqe->flags = ONE_WQE_INLINE | flags[i];
		wqe->inline_len = 11;
		wqe->length = 11;
		wqe->remote_addr = w.memory[1].region.va + 16 * i;
		wqe->rkey = w.memory[1].region.key;
		wqe->cookie = i;
		memcpy(wqe->inline_data, "hello there", 11);
		pair_commit_send(&w.pair[0]);
	}
	TURN_UNTIL(atomic_load(&w.pair[0].shm->sq_done) == RTE_DIM(flags));
	for (uint32_t i = 0; i < RTE_DIM(flags); i++) {
		assert_memory_equal(w.memory[1].bytes + 16 * i, "hello there\0", 12);
		if (flags[i] == ONE_WQE_SUPPRESS)
			continue;
		assert_true(ring_poll(&w.send[0], &cqe));
		assert_int_equal(cqe.cookie, i);
		assert_int_equal(cqe.flags, flags[i] == ONE_WQE_UNSIGNALED ? 0 : ONE_CQE_NOTIFY);
		assert_int_equal(cqe.op, ONE_OP_WRITE);
		assert_int_equal(cqe.length, 11);
		assert_int_equal(cqe.object, w.pair[0].id);
	}
	assert_false(ring_poll(&w.send[0], &cqe));
}

static void
test_gather_to_scatter(void **state)
{
	/* Eight pieces of uneven length, one of them empty, into three. */
	static const uint32_t out[8] = {1, 70000, 0, 33, 5, 4096, 17, 900}, in[3] = {70001, 10, 200000};
	struct one_wqe *wqe = pair_recv(&w.pair[1]);
	struct one_wqe_ext *ext = (struct one_wqe_ext *)&w.pair[1].rq[1];
	uint64_t from = w.memory[0].region.va, to = w.memory[1].region.va;
	uint32_t sum = 0;
	struct one_cqe cqe;

	fill(&w.memory[0], LONG, 7);
	wqe->op = ONE_OP_RECV;
	wqe->num_sge = 3;
	wqe->length = in[0] + in[1] + in[2];
	wqe->sge = (struct one_sge){.addr = to, .len = in[0], .lkey = w.memory[1].region.key};
	for (uint32_t i = 1; i < 3; i++) {
		to += in[i - 1];
		ext->sge[i - 1] = (struct one_sge){.addr = to, .len = in[i], .lkey = w.memory[1].region.key};
	}
	pair_commit_recv(&w.pair[1]);
	wqe = pair_send(&w.pair[0]);
	wqe->op = ONE_OP_SEND;
	wqe->num_sge = 8;
	for (uint32_t i = 0; i < 8; i++) {
		struct one_sge sge = {.addr = from + sum, .len = out[i], .lkey = w.memory[0].region.key};

		if (out[i] == 0)
			sge.lkey = 0; /* not looked at */
		ext = (struct one_wqe_ext *)&w.pair[0].sq[1 + (i + 2) / 3 - 1];
		if (i == 0)
			wqe->sge = sge;
		else
			((struct one_wqe_ext *)&w.pair[0].sq[1 + (i - 1) / 3])->sge[(i - 1) % 3] = sge;
		sum += out[i];
	}
	wqe->length = sum;
	pair_commit_send(&w.pair[0]);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 0);
	TURN_UNTIL(ring_poll(&w.recv[1], &cqe));
	assert_int_equal(cqe.length, sum);
	assert_memory_equal(w.memory[0].bytes, w.memory[1].bytes, sum);
	assert_int_equal(atomic_load(&w.pair[0].shm->sq_head), 4);
	assert_int_equal(atomic_load(&w.pair[1].shm->rq_head), 2);
}

static void
test_read(void **state)
{
	static const uint32_t lengths[] = {1, 8, 5000, LONG};

	for (size_t i = 0; i < RTE_DIM(lengths); i++) {
		struct one_wqe *wqe = pair_send(&w.pair[0]);

		fill(&w.memory[1], LONG, (uint32_t)i + 50);
		memset(w.memory[0].bytes, 0, LONG);
		wqe->op = ONE_OP_READ;
		wqe->num_sge = 1;
		wqe->length = lengths[i];
		wqe->cookie = i;
		wqe->remote_addr = w.memory[1].region.va;
		wqe->rkey = w.memory[1].region.key;
		/* The buffer may be longer than what is asked for. */
		wqe->sge = (struct one_sge){
			.addr = w.memory[0].region.va, .len = LONG, .lkey = w.memory[0].region.key};
		pair_commit_send(&w.pair[0]);
		expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, i);
		assert_memory_equal(w.memory[0].bytes, w.memory[1].bytes, lengths[i]);
		if (lengths[i] < LONG)
			assert_int_equal(w.memory[0].bytes[lengths[i]], 0);
	}
}

static void
test_immediate(void **state)
{
	static const uint8_t ops[] = {ONE_OP_SEND_IMM, ONE_OP_WRITE_IMM};
	struct one_cqe cqe;

	for (int i = 0; i < 2; i++) {
		struct one_wqe *wqe;

		post_recv(&w.pair[1], &w.memory[1], 64, 900 + (uint64_t)i);
		wqe = pair_send(&w.pair[0]);
		wqe->op = ops[i];
		wqe->flags = ONE_WQE_INLINE;
		wqe->inline_len = 4;
		wqe->length = 4;
		wqe->imm = 0xdeadbeef;
		wqe->remote_addr = w.memory[1].region.va + 1000;
		wqe->rkey = w.memory[1].region.key;
		memcpy(wqe->inline_data, "ping", 4);
		pair_commit_send(&w.pair[0]);
		TURN_UNTIL(ring_poll(&w.recv[1], &cqe));
		assert_int_equal(cqe.type, i == 0 ? ONE_CQE_RECV : ONE_CQE_RECV_WRITE_IMM);
		assert_int_equal(cqe.imm, 0xdeadbeef);
		assert_int_equal(cqe.flags, ONE_CQE_IMM | ONE_CQE_NOTIFY);
		assert_int_equal(cqe.length, 4);
		assert_int_equal(cqe.cookie, 900 + i);
		expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 0);
		assert_memory_equal(w.memory[1].bytes + (i == 0 ? 0 : 1000), "ping", 4);
	}
}

static void
test_atomics(void **state)
{
	uint64_t *target = (uint64_t *)w.memory[1].bytes, *result = (uint64_t *)w.memory[0].bytes;

	target[2] = 40;
	for (int i = 0; i < 3; i++) {
		struct one_wqe *wqe = pair_send(&w.pair[0]);

		wqe->op = i == 0 ? ONE_OP_FETCH_ADD : ONE_OP_CMP_SWAP;
		wqe->num_sge = 1;
		wqe->length = 42; /* low half of what is compared with */
		wqe->cookie = (uint64_t)i;
		wqe->remote_addr = w.memory[1].region.va + 16;
		wqe->rkey = w.memory[1].region.key;
		wqe->atomic.result = (struct one_sge){.addr = w.memory[0].region.va + 8 * (uint64_t)i,
						      .len = 8,
						      .lkey = w.memory[0].region.key};
		wqe->atomic.add_or_swap = i == 0 ? 2 : 99;
		pair_commit_send(&w.pair[0]);
		expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, (uint64_t)i);
	}
	assert_int_equal(result[0], 40); /* added 2 */
	assert_int_equal(result[1], 42); /* swapped */
	assert_int_equal(result[2], 99); /* did not compare */
	assert_int_equal(target[2], 99);
}

static void
test_send_waits_for_receive(void **state)
{
	fill(&w.memory[0], 100, 3);
	post_send(&w.pair[0], &w.memory[0], 100, 5);
	expect_none(&w.send[0]);
	assert_int_equal(w.pair[0].failed, 0);
	post_recv(&w.pair[1], &w.memory[1], 200, 6);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 5);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_SUCCESS, 6);
	assert_memory_equal(w.memory[0].bytes, w.memory[1].bytes, 100);
}

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
	/* A key of another zone: the request fails at home, the peer notices nothing by itself. */
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

/* Remote keys that must be refused. */
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
	assert_false(ring_poll(&w.async[1], &cqe)); /* the flushed receive tells */
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
	/* Only the last chunk is outside: nothing at all may be written. */
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
	post_write(&w.pair[0], &w.memory[0], &w.memory[0], 8, 1); /* a key of the wrong side */
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
	wqe->flags = ONE_WQE_SUPPRESS; /* errors are told all the same */
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

static void
test_zero_length(void **state)
{
	struct one_wqe *wqe = pair_send(&w.pair[0]);

	/* Nothing is written, so the key is not looked at; the receive is used all the same. */
	wqe->op = ONE_OP_WRITE_IMM;
	wqe->imm = 7;
	pair_commit_send(&w.pair[0]);
	post_recv(&w.pair[1], &w.memory[1], 8, 2);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 0);
	expect(&w.recv[1], ONE_CQE_RECV_WRITE_IMM, ONE_STATUS_SUCCESS, 2);
	post_recv(&w.pair[1], &w.memory[1], 8, 3);
	wqe = pair_send(&w.pair[0]);
	wqe->op = ONE_OP_SEND;
	pair_commit_send(&w.pair[0]);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_SUCCESS, 3);
}

static void
post_send_inv(uint32_t key)
{
	struct one_wqe *wqe = pair_send(&w.pair[0]);

	wqe->op = ONE_OP_SEND_INV;
	wqe->imm = key;
	pair_commit_send(&w.pair[0]);
}

static void
test_invalidate(void **state)
{
	struct memory window;
	struct one_cqe cqe;

	memory_new(&w.app[1], REMOTE, 64, &window);
	window.region.window = true;
	post_write(&w.pair[0], &w.memory[0], &window, 8, 1);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	post_recv(&w.pair[1], &w.memory[1], 8, 2);
	post_send_inv(window.region.key);
	TURN_UNTIL(ring_poll(&w.recv[1], &cqe));
	assert_int_equal(cqe.flags & ~ONE_CQE_NOTIFY, ONE_CQE_INV);
	assert_int_equal(cqe.imm, window.region.key);
	assert_null(mem_lookup(engine.mem, window.region.key));
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 0);
	post_write(&w.pair[0], &w.memory[0], &window, 8, 3);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_REMOTE_ACCESS, 3);
	memory_end(&window);
}

static void
test_invalidate_what_is_no_window(void **state)
{
	post_recv(&w.pair[1], &w.memory[1], 8, 2);
	post_send_inv(w.memory[1].region.key);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_LOCAL_QP, 2);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_REMOTE_INVALID, 0);
	assert_non_null(mem_lookup(engine.mem, w.memory[1].region.key));
	assert_both_broken();
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
	const struct work *work;
	struct one_cqe cqe;

	post_bind(1);
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 8, 2);
	TURN_UNTIL(w.pair[0].binds == 1);
	expect_none(&w.send[0]); /* what comes after a bind waits for it */
	work = engine_qp_bind_work(w.pair[0].qp);
	assert_int_equal(work->rkey, 0x1234);
	assert_int_equal(work->sge[0].len, 64);
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
test_bind_flushed(void **state)
{
	struct one_cqe cqe;

	post_bind(1);
	TURN_UNTIL(w.pair[0].binds == 1);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.pair[0].qp}), 0);
	expect(&w.send[0], ONE_CQE_BIND, ONE_STATUS_FLUSHED, 1);
	assert_true(command((struct engine_command){
			    .type = ENGINE_QP_BIND_DONE, .qp = w.pair[0].qp, .ok = true}) < 0);
	expect_none(&w.send[0]);
	/* One that comes later is flushed from the ring, and tells its window all the same. */
	post_bind(2);
	TURN_UNTIL(ring_poll(&w.send[0], &cqe));
	assert_int_equal(cqe.type, ONE_CQE_BIND);
	assert_int_equal(cqe.status, ONE_STATUS_FLUSHED);
	assert_int_equal(cqe.imm, 0x1234);
}

static void
test_peer_vanishes(void **state)
{
	struct pair gone;

	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.pair[1].qp}), 0);
	gone = w.pair[1];
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 8, 1);
	expect_none(&w.send[0]); /* control may still say that it was a disconnection */
	assert_int_equal(gone.failed, 0);
	TURN_UNTIL(w.pair[0].failed == 1);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_RETRY_EXCEEDED, 1);
}

static void
test_established_by_first_message(void **state)
{
	struct one_cqe cqe;

	for (int i = 0; i < 2; i++)
		assert_int_equal(
			command((struct engine_command){.type = ENGINE_QP_RESET, .qp = w.pair[i].qp}), 0);
	pair_connect(&w.pair[1], &w.pair[0], RC_RTR, true);
	assert_state(1, ONE_QP_CONNECTING);
	pair_connect(&w.pair[0], &w.pair[1], RC_RTS, true);
	post_recv(&w.pair[1], &w.memory[1], 8, 2);
	post_send(&w.pair[0], &w.memory[0], 8, 1);
	TURN_UNTIL(w.pair[1].established == 1);
	assert_true(ring_poll(&w.conn[1], &cqe));
	assert_int_equal(cqe.type, ONE_CQE_CONNECT);
	assert_int_equal(cqe.status, ONE_CONN_ESTABLISHED);
	assert_state(1, ONE_QP_CONNECTED);
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_SUCCESS, 2);
	/* The control thread says the same a moment later: it is not told twice. */
	assert_int_equal(command((struct engine_command){
				 .type = ENGINE_QP_RTS,
				 .qp = w.pair[1].qp,
				 .event = {.type = ONE_CQE_CONNECT, .status = ONE_CONN_ESTABLISHED}}),
			 0);
	expect_none(&w.conn[1]);
}

static void
test_drain(void **state)
{
	/* A message that cannot go on keeps the queue pair from being drained. */
	post_send(&w.pair[0], &w.memory[0], 8, 1);
	turn(10);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_DRAIN, .qp = w.pair[0].qp}), 0);
	turn(200);
	assert_int_equal(w.pair[0].drained, 0);
	post_recv(&w.pair[1], &w.memory[1], 8, 2);
	TURN_UNTIL(w.pair[0].drained == 1);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	turn(100);
	assert_int_equal(w.pair[0].drained, 1);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_write),
		T(test_write_is_cut),
		T(test_inline_and_flags),
		T(test_gather_to_scatter),
		T(test_read),
		T(test_immediate),
		T(test_atomics),
		T(test_send_waits_for_receive),
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
		T(test_zero_length),
		T(test_invalidate),
		T(test_invalidate_what_is_no_window),
		T(test_bind),
		T(test_bind_flushed),
		T(test_peer_vanishes),
		T(test_established_by_first_message),
		T(test_drain),
	};

	return cmocka_run_group_tests(tests, group_start, group_stop);
}
