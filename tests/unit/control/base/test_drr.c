/* SPDX-License-Identifier: BSD-3-Clause */
/* The DRR scheduler of the control thread: which request is served next. */
#include <string.h>

#include "control/base/drr.h"
#include "tests.h"

#define MANY 100

static struct drr drr;
static struct drr_user flood, quiet;
static struct drr_item turn[MANY], one;
static uint32_t served_flood, served_one;
static bool again;

static void
serve_flood(struct drr_item *which)
{
	assert_false(which->waits);
	served_flood++;
	if (again) /* the attachment's next request is already there */
		drr_wait(&drr, &flood, which);
}

static void
serve_one(struct drr_item *which)
{
	assert_ptr_equal(which, &one);
	served_one++;
}

static void
begin(uint32_t cost, uint32_t cost_of_one)
{
	drr_init(&drr);
	memset(&flood, 0, sizeof(flood));
	memset(&quiet, 0, sizeof(quiet));
	served_flood = served_one = 0;
	for (uint32_t i = 0; i < MANY; i++) {
		turn[i] = (struct drr_item){.serve = serve_flood, .cost = cost};
		drr_wait(&drr, &flood, &turn[i]);
	}
	one = (struct drr_item){.serve = serve_one, .cost = cost_of_one};
}

/* A user with one request at a time waits for at most one turn of the other user, whatever the requests
 * cost. */
static void
test_flood(void **state)
{
	again = true;
	for (uint32_t cost = 1; cost <= DRR_COST_MAX; cost++) {
		for (uint32_t mine = 1; mine <= DRR_COST_MAX; mine += 5) {
			begin(cost, mine);
			for (uint32_t i = 0; i < 50; i++) {
				uint32_t before = served_flood, most = DRR_QUANTUM / cost + 1;

				drr_wait(&drr, &quiet, &one);
				drr_round(&drr);
				assert_int_equal(served_one, i + 1);
				assert_in_range(served_flood - before, 0, most);
			}
			/* Both users get the same share if both always have requests. */
			assert_in_range(served_flood * cost, 49 * DRR_QUANTUM, 51 * DRR_QUANTUM);
		}
	}
}

/* Requests are served in the order of arrival, each once. */
static void
test_order(void **state)
{
	uint32_t rounds = 0;

	again = false;
	begin(4, 1);
	drr_wait(&drr, &flood, &turn[3]); /* already queued */
	while (drr_waiting(&drr)) {
		drr_round(&drr);
		rounds++;
		for (uint32_t i = 0; i < MANY; i++)
			assert_int_equal(turn[i].waits, i >= served_flood);
	}
	assert_int_equal(served_flood, MANY);
	assert_int_equal(rounds, MANY * 4 / DRR_QUANTUM);
	assert_int_equal(drr_round(&drr), 0);
}

/* An overspent quantum is deducted from the next round; an unspent one is not saved. */
static void
test_credit(void **state)
{
	again = false;
	begin(3, 1);
	drr_round(&drr);
	assert_int_equal(served_flood, 6);
	assert_int_equal(flood.credit, -2);
	drr_round(&drr);
	assert_int_equal(served_flood, 11);
	for (uint32_t i = 0; i < MANY; i++)
		drr_leave(&drr, &flood, &turn[i]);
	assert_false(drr_waiting(&drr));
	assert_int_equal(flood.credit, -1);
	for (uint32_t i = 0; i < 3; i++) {
		drr_wait(&drr, &quiet, &one);
		drr_round(&drr);
		assert_int_equal(quiet.credit, 0);
	}
}

/* Costs charged later are paid by the user's next drr, and the debt is bounded. */
static void
test_charge(void **state)
{
	again = true;
	begin(4, 1);
	drr_charge(&flood, 10 * DRR_QUANTUM);
	for (uint32_t i = 0; i < 10; i++)
		assert_int_equal(drr_round(&drr), 0);
	assert_int_equal(drr_round(&drr), 4);
	for (uint32_t i = 0; i < 10; i++)
		drr_charge(&flood, UINT64_MAX);
	assert_int_equal(flood.credit, -DRR_DEBT_MAX);
}

/* A single request may be served before others are polled only if at most one user was served last. */
static void
test_alone(void **state)
{
	again = false;
	begin(4, 1);
	assert_false(drr_alone(&drr)); /* many requests */
	for (uint32_t i = 1; i < MANY; i++)
		drr_leave(&drr, &flood, &turn[i]);
	assert_true(drr_alone(&drr));
	drr_wait(&drr, &quiet, &one);
	assert_false(drr_alone(&drr));
	drr_round(&drr);
	assert_int_equal(served_flood + served_one, 2);
	drr_wait(&drr, &quiet, &one);
	assert_false(drr_alone(&drr)); /* the other user was served, too, and may have another request */
	drr_round(&drr);
	drr_wait(&drr, &quiet, &one);
	assert_true(drr_alone(&drr));
	drr_round(&drr);
	assert_false(drr_alone(&drr)); /* no request */
}

static void
test_leaves(void **state)
{
	again = false;
	begin(1, 1);
	drr_wait(&drr, &quiet, &one);
	drr_leave(&drr, &quiet, &one);
	drr_leave(&drr, &quiet, &one);
	for (uint32_t i = 0; i < MANY; i += 2)
		drr_leave(&drr, &flood, &turn[i]);
	while (drr_waiting(&drr))
		drr_round(&drr);
	assert_int_equal(served_flood, MANY / 2);
	assert_int_equal(served_one, 0);
}

int
drr_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flood),  cmocka_unit_test(test_order), cmocka_unit_test(test_credit),
		cmocka_unit_test(test_charge), cmocka_unit_test(test_alone), cmocka_unit_test(test_leaves),
	};

	return cmocka_run_group_tests_name("control: drr", tests, NULL, NULL);
}
