/* SPDX-License-Identifier: BSD-3-Clause */
/* Fairness of users that share a core: by their weights, however many attachments they have. */
#include "sides.h"

#define MANY 16

static struct side side[MANY + 1];
static struct engine_user *user[2];

static void
users(uint32_t first, uint32_t second)
{
	user[0] = engine_user_new(&(struct engine_share){.weight = first});
	user[1] = engine_user_new(&(struct engine_share){.weight = second});
	assert_non_null(user[0]);
	assert_non_null(user[1]);
}

/*
 * The first user has `sides - 1` attachments, the second one. Returns the first user's share of writes, in
 * thousandths.
 */
static uint32_t
share_of_first(uint32_t sides, uint32_t loops)
{
	uint64_t before = 0, done = 0, other = side[sides - 1].done;

	for (uint32_t i = 0; i < sides - 1; i++)
		before += side[i].done;
	for (uint32_t i = 0; i < loops; i++) {
		for (uint32_t j = 0; j < sides; j++)
			post_all(&side[j]);
		turn(1);
	}
	for (uint32_t i = 0; i < sides - 1; i++)
		done += side[i].done;
	done -= before;
	other = side[sides - 1].done - other;
	return (uint32_t)(1000 * done / (done + other));
}

static void
end_all(uint32_t sides)
{
	for (uint32_t i = 0; i < sides; i++)
		end(&side[i]);
	for (int i = 0; i < 2; i++)
		engine_user_free(user[i]);
}

static void
assert_near(uint32_t thousandths, uint32_t wanted)
{
	if (thousandths + 50 < wanted || thousandths > wanted + 50)
		fail_msg("%u of 1000, not %u", thousandths, wanted);
}

static void
test_weights(void **state)
{
	static const struct {
		uint32_t pairs, len;
	} work[] = {{8, 65536}, {PAIRS, 8}, {2, LONG}};

	for (size_t i = 0; i < RTE_DIM(work); i++) {
		users(1, 3);
		for (uint32_t j = 0; j < 2; j++)
			begin_of(&side[j], user[j], work[i].pairs, work[i].len, true);
		assert_near(share_of_first(2, 4000), 250);
		/* A new weight takes effect in the next round. */
		engine_user_set(user[1], &(struct engine_share){.weight = 1});
		assert_near(share_of_first(2, 4000), 500);
		engine_user_set(user[0], &(struct engine_share){.weight = 1000});
		assert_true(share_of_first(2, 4000) > 980);
		end_all(2);
	}
}

/* Count the first user's writes in 1000 loops, next to a second user that seldom posts a request. */
static uint64_t
beside_idle(uint32_t weight)
{
	uint64_t before = side[0].done;

	engine_user_set(user[1], &(struct engine_share){.weight = weight});
	for (uint32_t i = 0; i < 1000; i++) {
		if (i % 10 == 0)
			post_write(&side[1].from[0], &side[1].memory, &side[1].memory, 8, 0);
		post_all(&side[0]);
		turn(1);
	}
	return side[0].done - before;
}

/* The lighter user gets what a heavier one leaves. */
static void
test_heavy_and_idle(void **state)
{
	uint64_t light, heavy;

	users(1, 1);
	begin_of(&side[0], user[0], 4, 65536, true);
	begin_of(&side[1], user[1], 4, 8, true);
	light = beside_idle(1);
	heavy = beside_idle(1000);
	if (heavy < light * 7 / 10)
		fail_msg("%lu beside an idle one of weight 1000, %lu beside one of weight 1", heavy, light);
	end_all(2);
}

static void
test_many_attachments(void **state)
{
	static const struct {
		uint32_t pairs, len;
	} work[] = {{4, 65536}, {8, 8}};

	for (size_t i = 0; i < RTE_DIM(work); i++) {
		users(1, 1);
		for (uint32_t j = 0; j < MANY; j++)
			begin_of(&side[j], user[0], work[i].pairs, work[i].len, true);
		begin_of(&side[MANY], user[1], work[i].pairs, work[i].len, true);
		assert_near(share_of_first(MANY + 1, 4000), 500);
		/* The attachments of one user are served equally, too. */
		for (uint32_t j = 1; j < MANY; j++)
			assert_in_range(side[j].done * 10, side[0].done * 8, side[0].done * 12);
		end_all(MANY + 1);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_weights),
		cmocka_unit_test(test_heavy_and_idle),
		cmocka_unit_test(test_many_attachments),
	};

	return cmocka_run_group_tests(tests, group_start, group_stop);
}
