/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounced access: queue pairs wait for the copy thread of the application, keep their order, and go on. */
#include <sched.h>
#include <time.h>

#include "harness.h"
#include "tests/copying.h"
#include "tests/stuck.h"

#define OK ONE_STATUS_SUCCESS

struct process {
	struct copying c;
	struct pair *pair;
};

static void
wake(void *context, void *user)
{
	struct process *process = context;
	struct end *end = user;

	rc_resume(end->qp, process->pair->now);
}

static void
process_open(struct process *process, struct pair *pair)
{
	copying_open(&process->c);
	process->pair = pair;
}

static void
process_close(struct process *process)
{
	bounce_detach(process->c.bounce, wake, process);
	assert_int_equal(process->c.faults, 0);
	copying_close(&process->c);
}

/* Make all memory of this end subject to bounced access by the process. */
static void
end_unmap(struct process *process, struct end *end)
{
	end->local.va = end->remote.va = (uint64_t)(uintptr_t)end->area;
	end->local.base = end->remote.base = NULL;
	end->local.bounce = end->remote.bounce = process->c.bounce;
}

/* Run until `a` and `b` have this many completions. The time advances only when nothing else progresses. */
static void
run_until(struct process *process, uint32_t a, uint32_t b)
{
	struct pair *p = process->pair;

	while (p->a.num_done < a || p->b.num_done < b) {
		pump(p);
		if (!LIST_EMPTY(&process->c.list))
			bounce_poll(&process->c.list, wake, process);
		else if (p->last_moved == 0)
			run_timer(p);
		sched_yield();
	}
	assert_int_equal(p->a.num_done, a);
	assert_int_equal(p->b.num_done, b);
	assert_int_equal(p->a.failures + p->b.failures, 0);
}

static bool
lose_some(struct pair *pair, struct end *from, const struct frame *frame)
{
	return pair->counter++ % 7 == 3;
}

/* `which`: bits for the ends whose memory is for bounced access. `selective`: lose frames, and retransmit
 * only those. */
static void
everything(int which, bool selective)
{
	const struct pair_options options = {.selective = selective};
	struct pair *p = pair_new(&options);
	struct process process;
	struct work work;
	uint64_t word;

	if (selective)
		p->lose = lose_some;
	process_open(&process, p);
	fill(p->a.area, 60000, 1);
	fill(p->b.area + 100000, 60000, 2);
	memset(p->b.area + 300000, 0, 8);
	if (which & 1)
		end_unmap(&process, &p->a);
	if (which & 2)
		end_unmap(&process, &p->b);

	post_recv(&p->b, 100, 200000, 5000);
	post_recv(&p->b, 101, 210000, 10);
	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 5000, 100);
	post_simple(p, &p->a, ONE_OP_SEND, 2, 0, 5000, 0);
	post_simple(p, &p->a, ONE_OP_READ, 3, 200000, 5000, 100000);
	work = make_work(&p->a, ONE_OP_FETCH_ADD, 4, 300000, 8, 300000);
	work.add_or_swap = 41;
	post(p, &p->a, &work);
	post(p, &p->a, &work);
	work = make_work(&p->a, ONE_OP_CMP_SWAP, 5, 300008, 8, 300000);
	work.compare = 82;
	work.add_or_swap = 7;
	post(p, &p->a, &work);
	post_simple(p, &p->a, ONE_OP_WRITE, 6, 0, 60000, 400000);
	work = make_work(&p->a, ONE_OP_WRITE_IMM, 7, 10, 1500, 500000);
	post(p, &p->a, &work);
	post_simple(p, &p->a, ONE_OP_READ, 8, 400000, 60000, 100000);
	run_until(&process, 9, 2);

	for (uint32_t i = 0; i < 9; i++) {
		static const uint64_t cookies[] = {1, 2, 3, 4, 4, 5, 6, 7, 8};

		assert_int_equal(p->a.done[i].cookie, cookies[i]);
		assert_int_equal(p->a.done[i].status, OK);
	}
	expect_done(&p->b, 0, 100, ONE_CQE_RECV, OK, 5000);
	expect_done(&p->b, 1, 101, ONE_CQE_RECV_WRITE_IMM, OK, 1500);
	assert_memory_equal(p->b.area + 100, p->a.area, 5000);
	assert_memory_equal(p->b.area + 200000, p->a.area, 5000);
	assert_memory_equal(p->a.area + 200000, p->b.area + 100000, 5000);
	memcpy(&word, p->b.area + 300000, 8);
	assert_int_equal(word, 7);
	memcpy(&word, p->a.area + 300000, 8);
	assert_int_equal(word, 41);
	memcpy(&word, p->a.area + 300008, 8);
	assert_int_equal(word, 82);
	assert_memory_equal(p->b.area + 400000, p->a.area, 60000);
	assert_memory_equal(p->b.area + 500000, p->a.area + 10, 1500);
	assert_memory_equal(p->a.area + 400000, p->b.area + 100000, 60000);
	if (selective)
		assert_true(p->b.env.rc.counter[RC_COUNT_HELD] > 0);
	pair_free(p);
	process_close(&process);
}

static void
test_everything(void **state)
{
	for (int which = 1; which < 4; which++)
		everything(which, false);
}

/* Held requests are executed, and held responses placed, by bounced access, too. */
static void
test_selective_repeat(void **state)
{
	for (int which = 1; which < 4; which++)
		everything(which, true);
}

/* A list of mapped sges and sges of bounced access, as the destination of a SEND. */
static void
test_lists(void **state)
{
	struct pair *p = pair_new(NULL);
	struct process process;
	struct mem_region far;
	struct work work;
	struct recv_work *recv;

	process_open(&process, p);
	fill(p->a.area, 5000, 5);
	far = p->b.local;
	far.key += 0x300;
	far.va = (uint64_t)(uintptr_t)p->b.area;
	far.base = NULL;
	far.bounce = process.c.bounce;
	mem_publish(p->mem, &far);
	recv = post_recv(&p->b, 1, 0, 1000);
	recv->num_sge = 3;
	recv->length = 3000;
	recv->sge[1] = (struct one_sge){.addr = far.va + 50000, .len = 1500, .lkey = far.key};
	recv->sge[2] = recv->sge[0];
	recv->sge[2].addr += 60000;
	recv->sge[2].len = 500;
	work = make_work(&p->a, ONE_OP_SEND, 2, 0, 3000, 0);
	post(p, &p->a, &work);
	run_until(&process, 1, 1);
	assert_memory_equal(p->b.area, p->a.area, 1000);
	assert_memory_equal(p->b.area + 50000, p->a.area + 1000, 1500);
	assert_memory_equal(p->b.area + 60000, p->a.area + 2500, 500);
	pair_free(p);
	process_close(&process);
}

/* B's memory does not answer: A's packets are dropped or time out, nothing at B completes, and no call
 * blocks. When the memory answers at last, all work completes as after a delay. */
static void
test_stuck(void **state)
{
	static const uint8_t ops[] = {ONE_OP_WRITE, ONE_OP_SEND, ONE_OP_READ, ONE_OP_FETCH_ADD};

	for (size_t o = 0; o < sizeof(ops); o++) {
		struct pair *p = pair_new(NULL);
		struct process process;
		struct stuck stuck;
		uint64_t before;

		if (!stuck_open(&stuck, NULL, 4)) {
			pair_free(p);
			print_message("this user may not have others wait: not tested\n");
			skip();
		}
		process_open(&process, p);
		p->b.local.va = p->b.remote.va = (uint64_t)(uintptr_t)stuck.memory;
		p->b.local.length = p->b.remote.length = stuck.len;
		p->b.local.base = p->b.remote.base = NULL;
		p->b.local.bounce = p->b.remote.bounce = process.c.bounce;
		fill(p->a.area, 5000, 9);
		post_recv(&p->b, 1, 0, 5000);
		post_simple(p, &p->a, ops[o], 1, 0, ops[o] == ONE_OP_FETCH_ADD ? 8 : 5000, 0);
		before = p->now;
		for (int i = 0; i < 20; i++) {
			pump(p);
			if (!LIST_EMPTY(&process.c.list))
				bounce_poll(&process.c.list, wake, &process);
			assert_false(rc_wants_output(p->b.qp)); /* waits without polling */
			if (p->now - before < 100 * MS)
				run_timer(p);
		}
		assert_int_equal(p->a.num_done + p->b.num_done, 0);
		assert_int_equal(p->a.failures + p->b.failures, 0);
		stuck_answer(&stuck);
		run_until(&process, 1, ops[o] == ONE_OP_SEND);
		expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, ops[o] == ONE_OP_FETCH_ADD ? 8 : 5000);
		if (ops[o] == ONE_OP_WRITE || ops[o] == ONE_OP_SEND)
			assert_memory_equal(stuck.memory, p->a.area, 5000);
		pair_free(p);
		process_close(&process);
		stuck_close(&stuck);
	}
}

/* An end does not count the delay of its own memory as silence of its peer. */
static void
test_own_memory_is_stuck(void **state)
{
	static const uint8_t ops[] = {ONE_OP_WRITE, ONE_OP_READ};

	for (size_t o = 0; o < sizeof(ops); o++) {
		const struct pair_options options = {.timeout = 10}; /* 34 ms: eight timeouts */
		struct pair *p = pair_new(&options);
		struct process process;
		struct stuck stuck;
		struct work work;

		if (!stuck_open(&stuck, NULL, 4)) {
			pair_free(p);
			skip();
		}
		process_open(&process, p);
		work = make_work(&p->a, ops[o], 1, 0, 2048, 0);
		work.num_sge = 2;
		work.sge[0].len = 1024;
		work.sge[1] = (struct one_sge){
			.addr = (uint64_t)(uintptr_t)stuck.memory, .len = 1024, .lkey = p->a.remote.key};
		p->a.remote.va = work.sge[1].addr;
		p->a.remote.length = stuck.len;
		p->a.remote.access = ONE_ACCESS_LOCAL_READ | ONE_ACCESS_LOCAL_WRITE;
		p->a.remote.base = NULL;
		p->a.remote.bounce = process.c.bounce;
		post(p, &p->a, &work);
		for (uint64_t until = p->now + 500 * MS; p->now < until;) {
			pump(p);
			if (!LIST_EMPTY(&process.c.list))
				bounce_poll(&process.c.list, wake, &process);
			if (!run_timer(p))
				p->now += MS;
		}
		assert_int_equal(p->a.num_done, 0);
		assert_int_equal(p->a.env.rc.counter[RC_COUNT_RETRANSMIT], 0);
		stuck_answer(&stuck);
		run_until(&process, 1, 0);
		expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, 2048);
		pair_free(p);
		process_close(&process);
		stuck_close(&stuck);
	}
}

/* During a bounced access its key is removed, or its connection ends. */
static void
test_ends(void **state)
{
	for (int how = 0; how < 4; how++) {
		struct pair *p = pair_new(NULL);
		struct process process;
		struct stuck stuck;

		if (!stuck_open(&stuck, NULL, 4)) {
			pair_free(p);
			skip();
		}
		process_open(&process, p);
		p->b.remote.va = (uint64_t)(uintptr_t)stuck.memory;
		p->b.remote.base = NULL;
		p->b.remote.bounce = process.c.bounce;
		post_simple(p, &p->a, how & 1 ? ONE_OP_READ : ONE_OP_WRITE, 1, 0, 100, 0);
		pump(p);
		if (how < 2)
			mem_remove(p->mem, p->b.remote.key);
		else
			rc_flush(p->b.qp);
		stuck_answer(&stuck);
		while (!LIST_EMPTY(&process.c.list))
			bounce_poll(&process.c.list, wake, &process);
		pump(p);
		if (how < 2)
			expect_done(&p->a, 0, 1, ONE_CQE_SEND, ONE_STATUS_REMOTE_ACCESS, 0);
		else
			assert_int_equal(p->a.num_done, 0);
		pair_free(p);
		process_close(&process);
		stuck_close(&stuck);
	}
}

/* Start a copy thread of the process again. */
static void
copy_again(struct process *process)
{
	const struct copier_place place = {.arena_fd = process->c.arena_fd, .wake_fd = -1};

	process->c.copier = copying_start(&place, COPYING_PAGE, &process->c.all);
}

/* While B's memory does not answer, B accepts many messages, acknowledges none, completes no receive, and
 * sends no response to a READ of the written range. */
static void
test_under_way(void **state)
{
	struct pair *p = pair_new(NULL);
	struct process process;
	uint32_t before;

	process_open(&process, p);
	copying_stop(&process.c);
	end_unmap(&process, &p->b);
	fill(p->a.area, 5000, 3);
	post_recv(&p->b, 1, 100000, 500);
	before = bounce_mark(process.c.bounce);
	for (uint32_t i = 0; i < 10; i++)
		post_simple(p, &p->a, ONE_OP_WRITE, i, 0, 500, 1000 * i);
	post_simple(p, &p->a, ONE_OP_SEND, 10, 0, 500, 0);
	post_simple(p, &p->a, ONE_OP_READ, 11, 200000, 500, 9000);
	pump(p);
	bounce_poll(&process.c.list, wake, &process);
	pump(p);
	assert_int_equal(bounce_mark(process.c.bounce) - before, 11);
	assert_int_equal(p->a.num_done + p->b.num_done, 0);
	copy_again(&process);
	run_until(&process, 12, 1);
	assert_memory_equal(p->b.area + 100000, p->a.area, 500);
	assert_memory_equal(p->a.area + 200000, p->a.area, 500);
	pair_free(p);
	process_close(&process);
}

/* A request is refused while earlier ones wait for their copies: the earlier ones succeed. */
static void
test_refused_behind(void **state)
{
	struct pair *p = pair_new(NULL);
	struct process process;
	struct work work;

	process_open(&process, p);
	copying_stop(&process.c);
	end_unmap(&process, &p->b);
	fill(p->a.area, 5000, 4);
	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 5000, 0);
	work = make_work(&p->a, ONE_OP_WRITE, 2, 0, 500, 0);
	work.rkey ^= 1;
	post(p, &p->a, &work);
	pump(p);
	assert_int_equal(p->a.num_done, 0);
	copy_again(&process);
	while (p->a.num_done < 2) {
		pump(p);
		if (!LIST_EMPTY(&process.c.list))
			bounce_poll(&process.c.list, wake, &process);
		else if (p->last_moved == 0)
			run_timer(p);
		sched_yield();
	}
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, 5000);
	expect_done(&p->a, 1, 2, ONE_CQE_SEND, ONE_STATUS_REMOTE_ACCESS, 0);
	assert_memory_equal(p->b.area, p->a.area, 5000);
	pair_free(p);
	process_close(&process);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_everything),
		cmocka_unit_test(test_selective_repeat),
		cmocka_unit_test(test_lists),
		cmocka_unit_test(test_under_way),
		cmocka_unit_test(test_refused_behind),
		cmocka_unit_test(test_stuck),
		cmocka_unit_test(test_own_memory_is_stuck),
		cmocka_unit_test(test_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
