/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The data plane's core on its own thread, in each idle mode: work, commands and grace periods make progress,
 * also while it sleeps, and it stops.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fixture.h"

static struct app app;
static struct ring done;
static struct pair pair, other;
static struct memory memory;

static void
begin(enum one_idle idle)
{
	fixture_start(1, idle);
	assert_int_equal(engine_start(), 0);
	app_start(&app);
	ring_new(&app, CQ_LOG2, &done, NULL);
	pair_new(&app, &done, NULL, NULL, NULL, &pair);
	pair_new(&app, &done, NULL, NULL, NULL, &other);
	memory_new(&app, ONE_ACCESS_ALL, 4096, &memory);
	pair_connect(&pair, &other, RC_RTS, true);
	pair_connect(&other, &pair, RC_RTS, true);
}

static void
end(void)
{
	uint64_t token = engine_grace_start();

	TURN_UNTIL(engine_grace_over(token));
	pair_end(&pair);
	pair_end(&other);
	ring_end(&done);
	memory_end(&memory);
	app_end(&app);
	TURN_UNTIL(engine.reap == NULL);
	fixture_stop();
}

static void
wake_if_asleep(void)
{
	/* Like the library after a doorbell. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&app.header->engine_asleep) != 0)
		eventfd_write(fixture_wake_fd, 1);
}

static void
work(uint32_t count, uint32_t pause_us)
{
	for (uint64_t i = 0; i < count; i++) {
		post_write(&pair, &memory, &memory, 8, i);
		wake_if_asleep();
		expect(&done, ONE_CQE_SEND, ONE_STATUS_SUCCESS, i);
		if (pause_us != 0)
			usleep(pause_us);
	}
}

/*
 * Cores publish their counters about once a millisecond while running, one after the other: a reader may see
 * some of the newest and some older ones.
 */
static struct engine_stats
published(void)
{
	struct engine_stats stats;

	engine_stats(0, &stats);
	return stats;
}

static void
test_spin(void **state)
{
	struct engine_stats stats;

	begin(ONE_IDLE_SPIN);
	work(100, 0);
	TURN_UNTIL(published().work >= 100 && published().busy_cycles > 0 && published().idle_cycles > 0);
	stats = published();
	assert_true(stats.loops > 0);
	assert_int_equal(stats.sleeps, 0);
	end();
}

static uint64_t
stages(const struct engine_stats *stats)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < ENGINE_STAGE_MAX; i++)
		sum += stats->stage_cycles[i];
	return sum;
}

static void
test_stages(void **state)
{
	struct engine_stats before, stats;
	uint64_t start, loops;

	begin(ONE_IDLE_SPIN);
	work(100, 0);
	TURN_UNTIL(published().work >= 100);
	stats = published();
	assert_true(stages(&stats) == 0 && stats.stage_loops == 0);

	/* The loop that sees the option switched on begins after the switch. */
	start = rte_rdtsc();
	loops = published().loops;
	TURN_UNTIL(published().loops != loops);
	engine_time_stages(true);
	work(100, 0);
	TURN_UNTIL(published().work >= 200 && published().stage_loops > 0 &&
		   published().stage_cycles[ENGINE_STAGE_IDLE] > 0 &&
		   published().stage_cycles[ENGINE_STAGE_WORK] > 0 &&
		   published().stage_cycles[ENGINE_STAGE_PUBLISH] > 0);
	stats = published();
	assert_true(stages(&stats) <= rte_rdtsc() - start);

	engine_time_stages(false);
	/*
	 * The next counters may be of a loop begun before the switch, and may change while they are read.
	 * Later ones include all of that loop.
	 */
	for (int i = 0; i < 3; i++) {
		loops = published().loops;
		TURN_UNTIL(published().loops != loops);
	}
	before = published();
	work(100, 0);
	TURN_UNTIL(published().work >= 300);
	stats = published();
	assert_int_equal(stages(&stats), stages(&before));
	end();
}

static void
test_yield(void **state)
{
	begin(ONE_IDLE_YIELD);
	work(100, 0);
	end();
}

static void
test_sleep(void **state)
{
	fixture_wake_fd = eventfd(0, EFD_NONBLOCK);
	begin(ONE_IDLE_SLEEP);
	work(50, 500);
	TURN_UNTIL(published().sleeps > 10);
	/* Commands are carried out while the core sleeps. */
	for (int i = 0; i < 50; i++) {
		usleep(1000);
		assert_int_equal(command((struct engine_command){
					 .type = ENGINE_QP_STATE, .qp = pair.qp, .state = ONE_QP_CONNECTED}),
				 0);
	}
	end();
	close(fixture_wake_fd);
	fixture_wake_fd = -1;
}

static void
test_sleep_until_a_receive_comes(void **state)
{
	/* The timer of a waiting message wakes a sleeping core. */
	begin(ONE_IDLE_SLEEP);
	post_send(&pair, &memory, 8, 1);
	usleep(20000);
	post_recv(&other, &memory, 8, 2);
	expect(&done, ONE_CQE_SEND, ONE_STATUS_SUCCESS, 1);
	end();
}

static _Atomic bool quiesced;

static void *
quiesce_cores(void *unused)
{
	(void)unused;
	links_quiesce();
	atomic_store(&quiesced, true);
	return NULL;
}

/* The callback for a lost memif link, on DPDK's interrupt thread, waits for a core that is inside a loop. */
static void
test_lost_link_outlasts_the_loop(void **state)
{
	pthread_t thread;

	fixture_start(1, ONE_IDLE_SPIN);
	/* Register the test's thread as a core in the middle of a loop. */
	rte_rcu_qsbr_thread_register(engine.rcu, 1);
	rte_rcu_qsbr_thread_online(engine.rcu, 1);
	engine.running = true;
	assert_int_equal(pthread_create(&thread, NULL, quiesce_cores, NULL), 0);
	usleep(50000);
	assert_false(atomic_load(&quiesced));
	rte_rcu_qsbr_quiescent(engine.rcu, 1);
	TURN_UNTIL(atomic_load(&quiesced));
	pthread_join(thread, NULL);
	/* An lcore passes quiescent states itself, and so must not wait for itself. */
	links_quiesce();
	rte_rcu_qsbr_thread_offline(engine.rcu, 1);
	rte_rcu_qsbr_thread_unregister(engine.rcu, 1);
	engine.running = false;
	fixture_stop();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_spin),
		cmocka_unit_test(test_stages),
		cmocka_unit_test(test_yield),
		cmocka_unit_test(test_sleep),
		cmocka_unit_test(test_sleep_until_a_receive_comes),
		cmocka_unit_test(test_lost_link_outlasts_the_loop),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
