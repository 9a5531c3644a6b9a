/* SPDX-License-Identifier: BSD-3-Clause */
/* Yielding of the processor by a core, and what the core learns from it. */
#include <pthread.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/rseq.h>

#include "fixture.h"

enum { FEW = 2, MANY = 20 };

static struct core *core;

/* Replaces the kernel's calls. */
static struct {
	uint32_t calls,
		every; /* every n-th call gives the processor to another thread, and takes no time; 0: none */
	uint64_t takes; /* cycles of any other call */
	long switches;
} kernel;

int
sched_yield(void)
{
	uint64_t until = rte_rdtsc() + kernel.takes;

	kernel.calls++;
	if (kernel.every != 0 && kernel.calls % kernel.every == 0)
		kernel.switches++;
	else
		while (rte_rdtsc() < until)
			;
	return 0;
}

int
getrusage(__rusage_who_t who, struct rusage *usage)
{
	*usage = (struct rusage){.ru_nivcsw = kernel.switches};
	return 0;
}

static void
begin(enum one_idle how)
{
	fixture_start(1, how);
	core = engine.core[0];
}

/*
 * Run idle_wait() after a loop that did `done`; returns whether it yielded. The time before teaches nothing.
 */
static bool
gives(uint32_t done)
{
	core->loop_at = core->idle_at = rte_rdtsc();
	core->gave = false;
	idle_wait(core, done);
	return core->gave;
}

/* Set the state after a yield: nobody else wanted the processor, or somebody did. */
static void
set(bool shared)
{
	core->shared = shared;
	core->gave_at = rte_rdtsc();
	core->give_after = 1ull << 62; /* decades, however slow this machine is */
	core->takes = 0;
}

static void
test_shared(void **state)
{
	begin(ONE_IDLE_YIELD);
	set(true);
	assert_true(gives(0));
	/* After little work somebody probably waits for its effect: yield, */
	assert_true(gives(1));
	assert_true(gives(FEW));
	/* after much work more will follow: do not yield, */
	assert_false(gives(MANY));
	/* after unfinished work neither. */
	core->drr.clients = 1;
	assert_false(gives(FEW));
	assert_true(gives(0));
	core->drr.clients = 0;
	core->tx[0].count = 1;
	assert_false(gives(FEW));
	core->tx[0].count = 0;
	assert_true(gives(FEW));
	fixture_stop();
}

static void
test_alone(void **state)
{
	begin(ONE_IDLE_YIELD);
	set(false);
	assert_false(gives(0));
	assert_false(gives(FEW));
	core->gave_at -= core->give_after;
	assert_false(gives(FEW));
	assert_true(gives(0));
	assert_false(gives(0));
	fixture_stop();
}

static void
test_receivers(void **state)
{
	begin(ONE_IDLE_YIELD);
	for (int shared = 0; shared < 2; shared++) {
		set(shared);
		core->takes = CORE_TAKES - 1;
		assert_false(gives(MANY));
		core->takes = CORE_TAKES;
		assert_true(gives(MANY));
		/* The receivers have had their time slice. */
		core->loop_at = rte_rdtsc();
		idle_wait(core, MANY);
		assert_false(gives(MANY));
	}
	fixture_stop();
}

static void
test_others_give_nothing_away(void **state)
{
	begin(ONE_IDLE_SPIN);
	set(true);
	core->takes = CORE_TAKES;
	core->gave_at -= core->give_after;
	assert_false(gives(0) || gives(FEW) || gives(MANY));
	fixture_stop();
}

/* Simulate a yield of `cycles`, and the loop after it. */
static bool
learns(uint64_t cycles)
{
	core->gave = true;
	core->loop_at = rte_rdtsc();
	core->gave_at = core->idle_at = core->loop_at - cycles;
	idle_wait(core, MANY);
	return core->shared;
}

static void
test_learns(void **state)
{
	uint64_t least;

	begin(ONE_IDLE_YIELD);
	set(false);
	least = core->least;
	assert_true(least > 0);
	assert_false(learns(2 * least));
	assert_true(learns(2 * least + 1));
	assert_true(learns(100 * least));
	assert_int_equal(core->least, least);
	/* A shorter yield lowers the minimum. */
	assert_false(learns(least / 4));
	assert_int_equal(core->least, least / 4);
	assert_true(learns(least));
	fixture_stop();
}

/*
 * The core's loop takes no time here: the time away counts as idle, whatever the core did before and after.
 */
static void
test_times(void **state)
{
	uint64_t busy;

	begin(ONE_IDLE_YIELD);
	set(false);
	busy = core->stats.busy_cycles;
	learns(1ull << 40);
	assert_true(core->stats.idle_cycles >= 1ull << 40);
	assert_true(core->stats.busy_cycles - busy < 1ull << 40);
	fixture_stop();
}

/*
 * Repeated yields while another thread comes and goes: the calls are counted, and the duration of each is
 * given.
 */
static void
test_finds_out(void **state)
{
	static const struct {
		uint64_t leasts, give_after; /* before this loop */
		bool gives;
	} loops[] = {
		{1, 0, true},             /* alone; a yield is due */
		{1, UINT64_MAX, false},   /* alone; no yield is due */
		{1, 0, true},             /* another thread has come, */
		{100, UINT64_MAX, true},  /* holds the processor, */
		{3, UINT64_MAX, true},    /* holds it for a moment, */
		{1, UINT64_MAX, false},   /* has gone */
		{100, UINT64_MAX, false}, /* without a yield nothing is learned */
	};
	uint64_t least;

	begin(ONE_IDLE_YIELD);
	set(false);
	least = core->least;
	for (size_t i = 0; i < RTE_DIM(loops); i++) {
		core->give_after = loops[i].give_after;
		core->loop_at = core->gave_at + loops[i].leasts * least;
		kernel.calls = 0;
		idle_wait(core, 0);
		assert_int_equal(kernel.calls, loops[i].gives);
	}
	fixture_stop();
}

/*
 * The call is slow on this processor. A call that gave the processor away does not count as a measurement,
 * however short.
 */
static void
test_measures(void **state)
{
	begin(ONE_IDLE_YIELD);
	kernel.takes = 20 * core->least;
	kernel.every = 2;
	idle_begin(core);
	assert_true(core->least >= kernel.takes);
	/* If every call gives the processor away, the initial assumption stays. */
	core->least = 7;
	kernel.every = 1;
	idle_begin(core);
	assert_int_equal(core->least, 7);
	kernel.takes = kernel.every = 0;
	fixture_stop();
}

/* ---- before a core sleeps ---- */

static void
begin_to_sleep(void)
{
	begin(ONE_IDLE_SLEEP);
	rte_rcu_qsbr_thread_register(engine.rcu, core->lcore);
	rte_rcu_qsbr_thread_online(engine.rcu, core->lcore);
	core->poll_least = 1ull << 61; /* far longer than the calls of this test */
	core->poll_most = 1ull << 62;
	core->poll_for = core->poll_least;
	set(false);
}

static void
end_of_sleep(void)
{
	rte_rcu_qsbr_thread_offline(engine.rcu, core->lcore);
	rte_rcu_qsbr_thread_unregister(engine.rcu, core->lcore);
	fixture_stop();
}

/* Run a loop without work after `polled_in_vain` cycles of such loops; returns whether the core slept. */
static bool
sleeps_after(uint64_t looked)
{
	uint64_t before = core->stats.sleeps;

	core->polled_in_vain = looked;
	gives(0);
	return core->stats.sleeps > before;
}

/* Find work `silence` cycles after the last work. */
static void
finds_after(uint64_t silence)
{
	core->found_at = 0;
	core->loop_at = core->idle_at = silence;
	core->gave = false;
	idle_wait(core, MANY);
}

static void
test_looks_on_for_a_while(void **state)
{
	begin_to_sleep();
	assert_false(sleeps_after(0));
	assert_false(sleeps_after(core->poll_least / 2));
	assert_true(sleeps_after(core->poll_least));
	/* Time in which others have the processor does not count as polling. */
	core->polled_in_vain = 0;
	learns(2 * core->poll_least);
	assert_false(sleeps_after(core->polled_in_vain));
	/* When others want the processor, they get it in between. */
	set(true);
	core->polled_in_vain = 0;
	assert_true(gives(0));
	end_of_sleep();
}

static void
test_looks_on_for_answers(void **state)
{
	begin_to_sleep();
	core->drr.flight = 1;
	assert_false(sleeps_after(core->poll_least));
	assert_true(sleeps_after(core->poll_most));
	core->drr.flight = 0;
	assert_true(sleeps_after(core->poll_least));
	end_of_sleep();
}

/* A sleep that was too short lengthens the polling before the next one. A long one shortens it. */
static void
test_adapts(void **state)
{
	uint64_t most;

	begin_to_sleep();
	most = core->poll_most;
	finds_after(most / 4);
	assert_int_equal(core->poll_for, core->poll_least); /* the core did not sleep */
	assert_true(sleeps_after(most));
	finds_after(most / 3);
	assert_int_equal(core->poll_for, 2 * (most / 3));
	assert_true(sleeps_after(most));
	finds_after(most);
	assert_int_equal(core->poll_for, most);
	assert_true(sleeps_after(most));
	finds_after(most + 1);
	assert_int_equal(core->poll_for, core->poll_least);
	end_of_sleep();
}

static void *
leave(void *argument)
{
	const struct rseq *area = (struct rseq *)(void *)((char *)__builtin_thread_pointer() + __rseq_offset);

	engine_leave_rseq();
	assert_true((int32_t)area->cpu_id < 0);
	assert_true(sched_getcpu() >= 0);
	/* A second call does no harm. */
	engine_leave_rseq();
	assert_true((int32_t)area->cpu_id < 0);
	return NULL;
}

static void
test_leaves_rseq(void **state)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, leave, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shared),
		cmocka_unit_test(test_alone),
		cmocka_unit_test(test_receivers),
		cmocka_unit_test(test_others_give_nothing_away),
		cmocka_unit_test(test_learns),
		cmocka_unit_test(test_times),
		cmocka_unit_test(test_finds_out),
		cmocka_unit_test(test_measures),
		cmocka_unit_test(test_leaves_rseq),
		cmocka_unit_test(test_looks_on_for_a_while),
		cmocka_unit_test(test_looks_on_for_answers),
		cmocka_unit_test(test_adapts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
