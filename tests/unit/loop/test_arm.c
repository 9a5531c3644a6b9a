/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A program sleeps on a completion channel: each arm gives at most one event, and no completion is slept
 * through. The code that stores completions is compiled here again, with a stop at each point where another
 * thread's action makes a difference. At these stops the program takes its steps, in all possible
 * interleavings. For the order of stores and loads on processors see tests/unit/client/rings/test_model.c.
 */
#include <string.h>
#include <sys/socket.h>

#include "client/cq.h"
#include "client/wait.h"
#include "fixture.h"

static void point(void);
static ssize_t send_here(uint32_t cq);

#define send(fd, ring, length, flags) (point(), send_here(*(ring)))
#undef atomic_thread_fence
#define atomic_thread_fence(order) (point(), __atomic_thread_fence(order), point())
#include "dataplane/qp/cq.c"
#include "dataplane/qp/wake.c"
#undef send
#undef atomic_thread_fence
#define atomic_thread_fence(order) __atomic_thread_fence(order)

#define CHANNEL 7u
#define DESCRIPTOR 9u
#define STEPS 2
#define ENTRIES 2u

static void (*const *step)(void);
static uint32_t before[STEPS], taken, passed;

static struct app app;
static struct ring ring;
static struct one_cq cq; /* the library's view */
static uint32_t events, stored, polled, visible_at_arm, polled_after_arm;
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
	assert_int_equal(id, ring.cq->id);
	events++;
	return sizeof(id);
}

/* ---- the program ---- */

static void
arm(void)
{
	visible_at_arm = polled + one_cq_pending(&cq, UINT32_MAX);
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

/* ---- the core ---- */

static void
store_entries(void)
{
	const struct one_cqe entry = {.type = ONE_CQE_SEND, .flags = ONE_CQE_NOTIFY};

	for (uint32_t i = 0; i < ENTRIES; i++) {
		point();
		cq_push(engine.core[0], ring.cq, &entry);
		stored++;
		point();
		cq_publish(engine.core[0]);
	}
}

static void
run(void (*const steps[STEPS])(void), uint32_t first, uint32_t second)
{
	ring_new(&app, CQ_LOG2, &ring, NULL);
	cq = (struct one_cq){
		.bundle = ring.bundle,
		.num_rings = 1,
		.descriptor = DESCRIPTOR,
		.at = {.log2 = ring.log2, .shm = ring.shm, .ring = ring.entries, .lump = 1u << ring.log2}};
	events = stored = polled = visible_at_arm = polled_after_arm = taken = passed = 0;
	armed = false;
	step = steps;
	before[0] = first;
	before[1] = second;
	store_entries();
	before[0] = before[1] = 0;
	point();
	ring_end(&ring);
}

static uint32_t
count_points(void (*const steps[STEPS])(void))
{
	run(steps, 100, 100);
	assert_in_range(passed, 8, 64);
	return passed;
}

static void
test_arm_then_look(void **state)
{
	static void (*const steps[STEPS])(void) = {arm, drain};
	uint32_t points = count_points(steps), told = 0, silent = 0;

	for (uint32_t first = 0; first <= points; first++)
		for (uint32_t second = first; second <= points; second++) {
			run(steps, first, second);
			assert_in_range(events, 0, 1);
			/* An entry left when the program goes to sleep gives an event. */
			if (polled < ENTRIES)
				assert_int_equal(events, 1);
			/* An entry that arrives after the arm gives an event, even if it has been polled. */
			if (visible_at_arm < ENTRIES)
				assert_int_equal(events, 1);
			told += events;
			silent += events == 0;
		}
	assert_true(told > 0);
	assert_true(silent > 0);
	/* All entries were there before the arm. */
	run(steps, points - 1, points);
	assert_int_equal(visible_at_arm, ENTRIES);
	assert_int_equal(events, 0);
	assert_int_equal(polled_after_arm, ENTRIES);
}

/* A program that polls first and arms then sleeps through a completion: this test detects that. */
static void
test_wrong_order(void **state)
{
	static void (*const steps[STEPS])(void) = {drain, arm};
	uint32_t points = count_points(steps), lost = 0;

	for (uint32_t first = 0; first <= points; first++)
		for (uint32_t second = first; second <= points; second++) {
			run(steps, first, second);
			lost += polled < ENTRIES && events == 0;
		}
	assert_true(lost > 0);
}

static int
group_arm(void **state)
{
	if (group_start(state) != 0)
		return -1;
	app_start(&app);
	if (!engine_client_channels(app.client))
		return -1;
	wake_by_socket(app.client, DESCRIPTOR, 0); /* nothing is written to the descriptor: see send_here() */
	return 0;
}

static int
group_end(void **state)
{
	app_end(&app);
	return group_stop(state);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arm_then_look),
		cmocka_unit_test(test_wrong_order),
	};

	return cmocka_run_group_tests(tests, group_arm, group_end);
}
