/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No thread sleeps through news: a thread with news stores them and then checks for sleepers, and a thread
 * that wants to sleep reports so and then checks for news. The code that falls asleep is compiled here again,
 * with a stop between its steps. At each stop, and during the sleep, a simulated other thread takes its own
 * steps, in all possible interleavings. For the order of stores and loads on processors see
 * tests/unit/client/test_model.c.
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <rte_debug.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>

#include "dataplane/core/stats.h"
#include "fixture.h"

static void point(void);
static int sleep_here(struct pollfd *fds);
static int write_here(int fd);

#define stats_publish(core) (point(), stats_publish(core))
#define doorbell_scan(core) (point(), doorbell_scan(core))
#define rcio_receive(core) (point(), rcio_receive(core))
#define timer_next(core) (point(), timer_next(core))
#define rte_rcu_qsbr_thread_offline(rcu, lcore) (point(), rte_rcu_qsbr_thread_offline(rcu, lcore))
#define ppoll(fds, count, limit, mask) ((void)(limit), sleep_here(fds))
#define eventfd_write(fd, value) write_here(fd)
#undef atomic_thread_fence
#define atomic_thread_fence(order) (point(), __atomic_thread_fence(order), point())
#include "dataplane/core/event.c"
#include "dataplane/engine/idle.c"
#undef stats_publish
#undef doorbell_scan
#undef rcio_receive
#undef timer_next
#undef rte_rcu_qsbr_thread_offline
#undef ppoll
#undef eventfd_write
#undef atomic_thread_fence
#define atomic_thread_fence(order) __atomic_thread_fence(order)

#define STEPS 2
#define POINTS_MAX 64

/* The steps of the other thread, and the point before which each is taken. */
static void (*const *step)(void);
static uint32_t before[STEPS], taken, passed;
static bool stepping, lost;
static uint32_t times_slept;

static struct core *core;
static struct app app;
static struct ring ring;
static struct pair pair;

static void
take_steps(uint32_t until)
{
	if (stepping || step == NULL)
		return;
	stepping = true;
	while (taken < STEPS && before[taken] <= until)
		step[taken++]();
	stepping = false;
}

static void
point(void)
{
	if (!stepping)
		take_steps(passed++);
}

/* Sleeps unless a descriptor is ready. The remaining steps must end the sleep. */
static int
sleep_here(struct pollfd *fds)
{
	int n;

	point();
	n = poll(fds, 2, 0);
	if (n > 0)
		return n;
	times_slept++;
	take_steps(UINT32_MAX);
	n = poll(fds, 2, 0);
	lost = n == 0;
	return n;
}

static int (*on_write)(int fd);

static int
write_here(int fd)
{
	return on_write != NULL ? on_write(fd) : eventfd_write(fd, 1);
}

/* ---- news ---- */

static void
free_command(struct engine_command *command)
{
	free(command);
}

static void
queue_command(void)
{
	struct engine_command *command = calloc(1, sizeof(*command));

	assert_non_null(command);
	command->type = ENGINE_CQ_POST;
	command->cq = ring.cq;
	command->event.type = ONE_CQE_ASYNC;
	command->done = free_command;
	assert_int_equal(rte_ring_sp_enqueue(core->commands, command), 0);
}

static void
queue_frame(void)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(core->pool);

	assert_non_null(m);
	memset(frame_info(m), 0, sizeof(struct frame_info));
	frame_info(m)->parsed = true;
	assert_int_equal(rte_ring_mp_enqueue(core->inbound, m), 0);
}

static void
queue_for_port(void)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(core->pool);

	assert_non_null(m);
	memset(rte_pktmbuf_append(m, 60), 0xee, 60);
	assert_int_equal(rte_ring_mp_enqueue(ports[0].tx_ring, m), 0);
}

static void
wake_core(void)
{
	idle_wake(core);
}

static void
ring_doorbell(void)
{
	one_doorbell_ring(app.doorbells, pair.doorbell);
}

/* Like one_qp_wake(). */
static void
wake_by_arena(void)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&app.header->engine_asleep, memory_order_relaxed) != 0)
		eventfd_write(fixture_wake_fd, 1);
}

static void
stop_core(void)
{
	atomic_store_explicit(&core->stop, true, memory_order_release);
}

/* ---- a core falls asleep ---- */

/* Bring the core to rest: nothing is left of earlier work, and no doorbell's eventfd is ready. */
static void
settle(void)
{
	struct epoll_event events[16];

	step = NULL;
	atomic_store(&core->stop, false);
	turn(2 * CORE_EMPTY_LOOKS);
	assert_int_equal(core->hot_count, 0);
	while (epoll_wait(core->epoll, events, 16, 0) > 0)
		;
	passed = taken = 0;
	lost = false;
}

/*
 * Returns whether the core slept through the steps: the first before point `first`, the second before
 * `second`.
 */
static bool
sleeps_through(void (*const steps[STEPS])(void), uint32_t first, uint32_t second)
{
	settle();
	before[0] = first;
	before[1] = second;
	step = steps;
	core->polled_in_vain = UINT64_MAX / 2;
	core->loop_at = core->idle_at = rte_rdtsc();
	idle_wait(core, 0);
	take_steps(UINT32_MAX);
	return lost;
}

/* Count the interleavings in which the core sleeps through the steps. */
static uint32_t
count_lost(void (*const steps[STEPS])(void))
{
	uint32_t points, count = 0, slept = times_slept;

	sleeps_through(steps, UINT32_MAX, UINT32_MAX);
	points = passed;
	assert_in_range(points, 8, POINTS_MAX);
	for (uint32_t first = 0; first <= points; first++)
		for (uint32_t second = first; second <= points; second++)
			count += sleeps_through(steps, first, second);
	assert_true(times_slept > slept); /* some interleavings reached the sleep */
	settle();
	return count;
}

static int
group_sleep(void **state)
{
	fixture_wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	fixture_start(2, ONE_IDLE_SLEEP);
	app_start(&app);
	core = engine.core[app.client->core->index];
	assert_int_equal(core->index, 0); /* the core that sends for the control thread */
	rte_rcu_qsbr_thread_register(engine.rcu, core->lcore);
	ring_new(&app, CQ_LOG2, &ring, NULL);
	pair_new(&app, &ring, NULL, NULL, NULL, &pair);
	return 0;
}

static int
group_end(void **state)
{
	settle();
	pair_end(&pair);
	ring_end(&ring);
	app_end(&app);
	rte_rcu_qsbr_thread_unregister(engine.rcu, core->lcore);
	fixture_stop();
	close(fixture_wake_fd);
	return 0;
}

static void
test_core(void **state)
{
	static void (*const news[][STEPS])(void) = {
		{queue_command, wake_core}, {queue_frame, wake_core},       {queue_for_port, wake_core},
		{stop_core, wake_core},     {ring_doorbell, wake_by_arena},
	};
	struct one_cqe cqe;

	for (size_t i = 0; i < RTE_DIM(news); i++) {
		assert_int_equal(count_lost(news[i]), 0);
		while (ring_poll(&ring, &cqe))
			;
	}
}

/* A thread that checks for sleepers before it stores its news is slept through: this test detects that. */
static void
test_wrong_order(void **state)
{
	static void (*const command[STEPS])(void) = {wake_core, queue_command};
	static void (*const doorbell[STEPS])(void) = {wake_by_arena, ring_doorbell};
	struct one_cqe cqe;

	assert_true(count_lost(command) > 0);
	assert_true(count_lost(doorbell) > 0);
	while (ring_poll(&ring, &cqe))
		;
}

/* ---- the control thread falls asleep ---- */

static bool
control_is_woken(void)
{
	struct pollfd fd = {.fd = engine_event_fd(), .events = POLLIN};

	return poll(&fd, 1, 0) > 0;
}

static void
drain_event_fd(void)
{
	eventfd_t value;

	eventfd_read(engine_event_fd(), &value);
}

static void
raise_news(struct core *from)
{
	struct up up = {.pointer = pair.qp, .type = UP_STRAYS};

	assert_int_equal(rte_ring_sp_enqueue_elem(from->up, &up, sizeof(up)), 0);
	from->wake_control = true;
}

static void
forget_news(void)
{
	struct up up;

	engine_sleep_end();
	for (uint32_t i = 0; i < engine.num_cores; i++)
		while (rte_ring_sc_dequeue_elem(engine.core[i]->up, &up, sizeof(up)) == 0)
			;
	drain_event_fd();
}

/* Queueing, notifying, and reporting the sleep, in every order. */
static void
test_control(void **state)
{
	for (int asleep_before = 0; asleep_before < 3; asleep_before++) {
		bool sleeps_now = false;

		forget_news();
		if (asleep_before == 0)
			sleeps_now = engine_sleep_begin();
		raise_news(core);
		if (asleep_before == 1)
			sleeps_now = engine_sleep_begin();
		event_notify_control(core);
		if (asleep_before == 2)
			sleeps_now = engine_sleep_begin();
		assert_true(!sleeps_now || control_is_woken());
	}
	/* Each sleep is ended once. */
	for (int i = 0; i < 3; i++) {
		forget_news();
		assert_true(engine_sleep_begin());
		raise_news(core);
		event_notify_control(core);
		assert_true(control_is_woken());
		drain_event_fd();
		event_notify_control(core);
		assert_false(control_is_woken());
	}
	forget_news();
}

static bool other_reported;

/* The first core is off its processor before its write, possibly for seconds. */
static int
stay_away(int fd)
{
	on_write = NULL;
	raise_news(engine.core[1]);
	event_notify_control(engine.core[1]);
	other_reported = control_is_woken();
	return eventfd_write(fd, 1);
}

static void
test_control_by_another(void **state)
{
	forget_news();
	assert_true(engine_sleep_begin());
	raise_news(engine.core[0]);
	on_write = stay_away;
	event_notify_control(engine.core[0]);
	assert_null(on_write);
	assert_true(other_reported);
	forget_news();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_core),
		cmocka_unit_test(test_wrong_order),
		cmocka_unit_test(test_control),
		cmocka_unit_test(test_control_by_another),
	};

	return cmocka_run_group_tests(tests, group_sleep, group_end);
}
