/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program sleeps on a completion channel for a bundle of two rings, which two cores fill: each arm gives at
 * most one event, and no completion is slept through, whether or not the program knows the second ring. As in
 * test_arm.c, the code of one core has a stop at each point where the action of others makes a difference. At
 * these stops the program and the other core take their steps, in all possible interleavings.
 */
#include <string.h>
#include <sys/socket.h>

#include "client/internal.h"
#include "client/cq.h"
#include "client/wait.h"
#include "fixture.h"

static void point(void);
static ssize_t send_here(uint32_t cq);

#define send(fd, ring, length, flags) (point(), send_here(*(ring)))
#undef atomic_thread_fence
#define atomic_thread_fence(order) (point(), __atomic_thread_fence(order), point())
#undef atomic_compare_exchange_strong_explicit
#define atomic_compare_exchange_strong_explicit(object, old, new, yes, no) \
	(point(), __atomic_compare_exchange_n((uint64_t *)(uintptr_t)(object), old, new, false, yes, no))
#include "dataplane/qp/cq.c"
#include "dataplane/qp/wake.c"
#undef send
#undef atomic_thread_fence
#define atomic_thread_fence(order) __atomic_thread_fence(order)

#define CHANNEL 7u
#define DESCRIPTOR 9u
#define STEPS 3
#define ENTRIES 2u /* one per core */

static void (*const *step)(void);
static uint32_t before[STEPS], taken, passed;

static struct app app, lane;
static struct ring ring[2];
static struct one_client client;
static struct one_cq cq; /* the library's view */
static uint32_t events, stored, polled, visible_at_arm;
static bool armed;

static void
point(void)
{
	while (taken < STEPS && before[taken] <= passed)
		step[taken++]();
	passed++;
}

static ssize_t
send_here(uint32_t id)
{
	assert_int_equal(id, ring[0].cq->id);
	events++;
	return sizeof(id);
}

/* ---- the program ---- */

static void
arm(void)
{
	visible_at_arm = stored;
	one_wait_arm(&cq, CHANNEL | ONE_ARM_NEXT, 1);
	armed = true;
}

static void
drain(void)
{
	struct one_cqe cqe;

	while (one_cq_poll(&cq, &cqe) != 0)
		polled++;
}

/* ---- the cores ---- */

static const struct one_cqe entry = {.type = ONE_CQE_SEND, .flags = ONE_CQE_NOTIFY};

static void
other_core(void)
{
	struct core *core = lane.client->core;

	atomic_store(&ring[0].bundle->rings, 2); /* if not known before */
	cq_push(core, ring[1].cq, &entry);
	stored++;
	cq_publish(core);
}

static void
this_core(void)
{
	struct core *core = app.client->core;

	point();
	cq_push(core, ring[0].cq, &entry);
	stored++;
	point();
	cq_publish(core);
}

static void
run(void (*const steps[STEPS])(void), const uint32_t at[STEPS], bool known)
{
	taken = STEPS; /* no steps while the rings are created */
	ring_new(&app, CQ_LOG2, &ring[0], NULL);
	ring_join(&lane, &ring[0], &ring[1]);
	client = (struct one_client){.arena = app.arena, .info.arena_size = ONE_ARENA_SIZE};
	cq = (struct one_cq){
		.client = &client,
		.bundle = ring[0].bundle,
		.num_rings = 1,
		.descriptor = DESCRIPTOR,
		.at = {.log2 = ring[0].log2, .shm = ring[0].shm, .ring = ring[0].entries, .lump = 1}};
	events = stored = polled = visible_at_arm = passed = 0;
	/* On a busy machine wake-ups are slow: that must not hold events back here. */
	atomic_store(&app.user->slow_wakes, false);
	if (known)
		one_cq_grow(&cq);
	else
		atomic_store(&ring[0].bundle->rings, 1);
	taken = passed = 0;
	armed = false;
	step = steps;
	memcpy(before, at, sizeof(before));
	this_core();
	memset(before, 0, sizeof(before));
	point();
	ring_end(&ring[0]);
	ring_end(&ring[1]);
	one_cq_forget(&cq);
}

typedef void verdict(void);

/* Try all interleavings of the steps; returns their number. */
static uint32_t
try_all(void (*const steps[STEPS])(void), bool known, verdict *judge)
{
	uint32_t points, n = 0;

	run(steps, (uint32_t[STEPS]){100, 100, 100}, known);
	points = passed;
	assert_in_range(points, 4, 64);
	for (uint32_t a = 0; a <= points; a++)
		for (uint32_t b = a; b <= points; b++)
			for (uint32_t c = b; c <= points; c++, n++) {
				run(steps, (uint32_t[STEPS]){a, b, c}, known);
				judge();
			}
	return n;
}

static uint32_t told, lost;

static void
judge_right(void)
{
	assert_int_equal(stored, ENTRIES);
	assert_in_range(events, 0, 1);
	/* An entry left when the program goes to sleep gives an event. */
	if (polled < ENTRIES)
		assert_int_equal(events, 1);
	/* An entry that arrives after the arm gives an event, even if it has been polled. */
	if (visible_at_arm < ENTRIES)
		assert_int_equal(events, 1);
	told += events;
}

static void
test_every_order(void **state)
{
	static void (*const orders[][STEPS])(void) = {
		{other_core, arm, drain}, {arm, other_core, drain}, {arm, drain, other_core}};

	for (size_t i = 0; i < RTE_DIM(orders); i++)
		for (int known = 0; known < 2; known++) {
			told = 0;
			assert_true(try_all(orders[i], known, judge_right) > 50);
			assert_true(told > 0);
		}
}

static void
judge_wrong(void)
{
	lost += polled < ENTRIES && events == 0;
}

/* A program that polls first and arms then sleeps through a completion: this test detects that. */
static void
test_wrong_order(void **state)
{
	static void (*const steps[STEPS])(void) = {drain, other_core, arm};

	lost = 0;
	try_all(steps, true, judge_wrong);
	assert_true(lost > 0);
}

static int
group_arm(void **state)
{
	if (group_start_two(state) != 0)
		return -1;
	step = NULL;
	taken = STEPS;
	app_start(&app);
	lane_new(&app, 1 - app.client->core->index, &lane);
	if (!engine_client_channels(app.client))
		return -1;
	wake_by_socket(app.client, DESCRIPTOR, 0); /* nothing is written to the descriptor: see send_here() */
	return 0;
}

static int
group_end(void **state)
{
	lane_end(&lane);
	app_end(&app);
	return group_stop(state);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_order),
		cmocka_unit_test(test_wrong_order),
	};

	return cmocka_run_group_tests(tests, group_arm, group_end);
}
