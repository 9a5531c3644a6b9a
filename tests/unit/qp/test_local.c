/* SPDX-License-Identifier: BSD-3-Clause */
/* The local transport: every operation, between mapped memory and memory of bounced access. */
#include <unistd.h>

#include "local.h"

static const bool is_local = true;

#include "either.h"

static void
copies_begin(int i)
{
	const struct copier_place place = {.arena_fd = w.app[i].arena_fd, .wake_fd = -1};
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t offset = app_alloc(&w.app[i], sizeof(struct one_copies) + page);

	w.offset = offset = (offset + page - 1) / page * page;
	w.bounce[i] = engine_client_bounce(w.app[i].client, offset);
	assert_non_null(w.bounce[i]);
	w.copier[i] = copying_start(&place, offset, &w.all[i]);
	w.memory[i].region.base = NULL;
	w.memory[i].region.bounce = w.bounce[i];
}

/* Bit i of *state is set if the memory of application i is for bounced access. */
static int
setup_reached(void **state)
{
	setup(state);
	for (int i = 0; i < 2; i++) {
		w.bounce[i] = NULL;
		if (((uintptr_t)*state >> i & 1) != 0)
			copies_begin(i);
	}
	return 0;
}

static int
teardown_reached(void **state)
{
	uint64_t bytes = 0;

	for (int i = 0; i < 2; i++) {
		if (w.bounce[i] == NULL)
			continue;
		bytes += bounce_bytes(w.bounce[i]);
		copier_stop(w.copier[i]);
	}
	assert_true(bytes > 0);
	return teardown(state);
}

static void
test_write(void **state)
{
	static const uint32_t lengths[] = {1, 3, 8, 64, 4096, LOCAL_CHUNK_ALONE, LOCAL_CHUNK_ALONE + 1, LONG};

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
	/* Eight pieces of unequal length, one of them empty, are sent into three. */
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
			sge.lkey = 0; /* the key of an empty piece is not checked */
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
		/* The buffer may be longer than the requested length. */
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
		wqe->length = 42; /* low half of the compare operand */
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
	assert_int_equal(result[0], 40); /* before the addition of 2 */
	assert_int_equal(result[1], 42); /* before the swap */
	assert_int_equal(result[2], 99); /* comparison failed */
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
test_zero_length(void **state)
{
	struct one_wqe *wqe = pair_send(&w.pair[0]);

	/* An empty write checks no key, but consumes a receive. */
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
	/* The statuses are those of the RC transport. */
	expect(&w.recv[1], ONE_CQE_RECV, ONE_STATUS_LOCAL_PROTECTION, 2);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_REMOTE_OPERATION, 0);
	assert_non_null(mem_lookup(engine.mem, w.memory[1].region.key));
	assert_both_broken();
}

/* A late report of a finished bounced access does not end the wait for the bind. */
static void
test_bind_and_a_late_copy(void **state)
{
	post_bind(1);
	TURN_UNTIL(w.pair[0].binds == 1);
	qp_bounced(engine.core[0], w.pair[0].qp);
	turn(100);
	assert_int_equal(w.pair[0].binds, 1);
	assert_int_equal(
		command((struct engine_command){.type = ENGINE_QP_BIND_DONE, .qp = w.pair[0].qp, .ok = true}),
		0);
	expect(&w.send[0], ONE_CQE_BIND, ONE_STATUS_SUCCESS, 1);
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
	/*
	 * A bind posted to a flushed queue pair is flushed from the ring, and its completion names its
	 * window.
	 */
	post_bind(2);
	TURN_UNTIL(ring_poll(&w.send[0], &cqe));
	assert_int_equal(cqe.type, ONE_CQE_BIND);
	assert_int_equal(cqe.status, ONE_STATUS_FLUSHED);
	assert_int_equal(cqe.imm, 0x1234);
}

/* A request posted before a disconnect begins even if the core has not seen it when the command arrives. */
static void
test_posted_before_the_end(void **state)
{
	w.memory[0].bytes[0] = 0xa5;
	w.memory[1].bytes[0] = 0;
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 8, 1);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.pair[0].qp}), 0);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	assert_int_equal(w.memory[1].bytes[0], 0xa5);
}

static void
test_peer_vanishes(void **state)
{
	struct pair gone;

	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = w.pair[1].qp}), 0);
	gone = w.pair[1];
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 8, 1);
	expect_none(&w.send[0]); /* the control thread may still report a disconnect */
	assert_int_equal(gone.failed, 0);
	TURN_UNTIL(w.pair[0].failed == 1);
	expect(&w.send[0], ONE_CQE_SEND, ONE_STATUS_RETRY_EXCEEDED, 1);
}

static void
test_drain(void **state)
{
	/* The queue pair is not drained while a message cannot go on. */
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

/* A forged answer to a bounced access ends the attachment. The peer's attachment goes on. */
static void
test_forged_answer(void **state)
{
	struct one_copy_answer *answer;

	copies_begin(0);
	copier_stop(w.copier[0]);
	answer = ((struct one_copies *)(w.app[0].arena + w.offset))->answer;
	post_write(&w.pair[0], &w.memory[0], &w.memory[1], 64, 1);
	TURN_UNTIL(bounce_since(w.bounce[0]) != 0);
	answer[0].sequence = 1;
	atomic_store(&answer[0].phase, 1);
	TURN_UNTIL(w.app[0].faults == 1);
	assert_int_equal(w.app[0].fault, ONE_FAULT_RING);
	assert_int_equal(atomic_load(&w.app[0].header->fault), ONE_FAULT_RING);
	assert_int_equal(w.app[1].faults, 0);
	expect_none(&w.send[0]);
}

#define REACHED(f, whose) \
	cmocka_unit_test_prestate_setup_teardown(f, setup_reached, teardown_reached, (void *)whose)
#define EACH_REACHED(f) REACHED(f, 1), REACHED(f, 2), REACHED(f, 3)

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
		T(test_receive_longer_than_its_region),
		T(test_zero_length),
		T(test_invalidate),
		T(test_invalidate_what_is_no_window),
		T(test_bind),
		T(test_bind_and_a_late_copy),
		T(test_bind_flushed),
		T(test_posted_before_the_end),
		T(test_peer_vanishes),
		T(test_established_by_first_message),
		T(test_out_of_band),
		T(test_drain),
		T(test_forged_answer),
		EACH_REACHED(test_write),
		EACH_REACHED(test_gather_to_scatter),
		EACH_REACHED(test_read),
		REACHED(test_immediate, 2),
		REACHED(test_immediate, 3),
		EACH_REACHED(test_atomics),
	};

	return cmocka_run_group_tests(tests, group_start, group_stop);
}
