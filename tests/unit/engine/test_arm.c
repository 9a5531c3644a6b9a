/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program sleeps on a completion channel: each arm gives at most one event, and no completion is slept
 * through. One core fills the ring, or two cores fill a bundle of two rings, whether or not the program knows
 * the second one. The code that stores completions is compiled here again, with a stop at each point where
 * another thread's action makes a difference. At these stops the program and the other core take their steps,
 * in all possible interleavings. For the order of stores and loads on processors see
 * tests/unit/client/test_model.c.
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
#define STEPS_MAX 3u
#define ENTRIES 2u
#define NEVER_AT 100u

/* Number of cores, and whether the program knows the ring of the second one. */
enum bundle { ONE_CORE, SECOND_UNKNOWN, SECOND_KNOWN };

struct order {
	enum bundle bundle;
	uint32_t num_steps; /* of the other threads */
	void (*step[STEPS_MAX])(void);
};

/* The steps of the present run; the point before which each is taken. */
static const struct order *order;
static uint32_t before[STEPS_MAX], taken, passed;

static struct app app, lane;
static struct ring ring[2];
static struct one_client client;
static struct one_cq cq; /* the library's view */
static uint32_t events, stored, polled, visible_at_arm, polled_after_arm;
static bool armed;

static void
point(void)
{
	while (order != NULL && taken < order->num_steps && before[taken] <= passed)
		order->step[taken++]();
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

	while (one_cq_poll(&cq, &cqe) != 0) {
		polled++;
		polled_after_arm += armed;
	}
}

/* ---- the cores ---- */

static void
push_entry(struct app *core, struct ring *to)
{
	const struct one_cqe entry = {.type = ONE_CQE_SEND, .flags = ONE_CQE_NOTIFY};

	cq_push(core->client->core, to->cq, &entry);
	stored++;
}

static void
other_core(void)
{
	atomic_store(&ring[0].bundle->rings, 2); /* if not known before */
	push_entry(&lane, &ring[1]);
	cq_publish(lane.client->core);
}

static void
this_core(uint32_t entries)
{
	for (uint32_t i = 0; i < entries; i++) {
		point();
		push_entry(&app, &ring[0]);
		point();
		cq_publish(app.client->core);
	}
}

/* ---- runs ---- */

static void
open_rings(enum bundle bundle)
{
	ring_new(&app, CQ_LOG2, &ring[0], NULL);
	if (bundle != ONE_CORE)
		ring_join(&lane, &ring[0], &ring[1]);
	client = (struct one_client){.arena = app.arena, .info.arena_size = ONE_ARENA_SIZE};
	cq = (struct one_cq){
		.client = &client,
		.bundle = ring[0].bundle,
		.num_rings = 1,
		.descriptor = DESCRIPTOR,
		.at = {.log2 = ring[0].log2, .shm = ring[0].shm, .ring = ring[0].entries, .lump = 1}};
	if (bundle == SECOND_KNOWN)
		one_cq_grow(&cq);
	else
		atomic_store(&ring[0].bundle->rings, 1);
}

static void
run(const struct order *given, const uint32_t at[STEPS_MAX])
{
	order = NULL; /* no steps while the rings are made */
	open_rings(given->bundle);
	events = stored = polled = visible_at_arm = polled_after_arm = taken = passed = 0;
	armed = false;
	/* On a busy machine wake-ups are slow: that must not hold events back here. */
	atomic_store(&app.user->slow_wakes, false);
	memcpy(before, at, sizeof(before));
	order = given;
	this_core(given->bundle == ONE_CORE ? ENTRIES : ENTRIES - 1);
	memset(before, 0, sizeof(before));
	point();
	order = NULL;
	ring_end(&ring[0]);
	if (given->bundle != ONE_CORE)
		ring_end(&ring[1]);
	one_cq_forget(&cq);
}

static uint32_t
count_points(const struct order *given)
{
	run(given, (uint32_t[STEPS_MAX]){NEVER_AT, NEVER_AT, NEVER_AT});
	assert_in_range(passed, given->bundle == ONE_CORE ? 8 : 4, 64);
	return passed;
}

/* Tries all interleavings of the steps; returns their number. */
static uint32_t
try_all(const struct order *given, void (*judge)(void))
{
	uint32_t points = count_points(given), n = 0;

	for (uint32_t a = 0; a <= points; a++)
		for (uint32_t b = a; b <= points; b++)
			for (uint32_t c = b; c <= (given->num_steps > 2 ? points : b); c++, n++) {
				run(given, (uint32_t[STEPS_MAX]){a, b, c});
				judge();
			}
	return n;
}

static uint32_t reported, silent, lost;

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
	reported += events;
	silent += events == 0;
}

static void
test_every_order(void **state)
{
	static const struct order orders[] = {
		{ONE_CORE, 2, {arm, drain}},
		{SECOND_UNKNOWN, 3, {other_core, arm, drain}},
		{SECOND_KNOWN, 3, {other_core, arm, drain}},
		{SECOND_UNKNOWN, 3, {arm, other_core, drain}},
		{SECOND_KNOWN, 3, {arm, other_core, drain}},
		{SECOND_UNKNOWN, 3, {arm, drain, other_core}},
		{SECOND_KNOWN, 3, {arm, drain, other_core}},
	};
	uint32_t points = count_points(&orders[0]);

	for (size_t i = 0; i < RTE_DIM(orders); i++) {
		reported = silent = 0;
		assert_true(try_all(&orders[i], judge_right) > 50);
		assert_true(reported > 0);
		assert_true(silent > 0 || orders[i].bundle != ONE_CORE);
	}
	/* All entries were there before the arm. */
	run(&orders[0], (uint32_t[STEPS_MAX]){points - 1, points});
	assert_int_equal(visible_at_arm, ENTRIES);
	assert_int_equal(events, 0);
	assert_int_equal(polled_after_arm, ENTRIES);
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
	static const struct order orders[] = {{ONE_CORE, 2, {drain, arm}},
					      {SECOND_KNOWN, 3, {drain, other_core, arm}}};

	for (size_t i = 0; i < RTE_DIM(orders); i++) {
		lost = 0;
		try_all(&orders[i], judge_wrong);
		assert_true(lost > 0);
	}
}

static int
group_arm(void **state)
{
	if (group_start_two(state) != 0)
		return -1;
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
