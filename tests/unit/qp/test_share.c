/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fairness of clients that share a core: by the cost of their work, however many queue pairs they keep busy.
 */
#include <stdlib.h>

#include "sides.h"

static struct side side[2];

static void
run(uint32_t loops, uint32_t sides)
{
	for (uint32_t i = 0; i < loops; i++) {
		for (uint32_t j = 0; j < sides; j++)
			post_all(&side[j]);
		turn(1);
	}
}

/* The first client's share of the total cost, in thousandths. */
static uint32_t
cost_of_first(uint64_t frame)
{
	uint64_t cost[2];

	for (int i = 0; i < 2; i++)
		cost[i] = side[i].done * (SHARE_REQUEST + side[i].len + (side[i].len + 1023) / 1024 * frame);
	return (uint32_t)(1000 * cost[0] / (cost[0] + cost[1]));
}

struct one_case {
	uint32_t pairs[2], len[2];
	uint32_t within; /* tolerance around 500, in thousandths */
};

static void
test_cases(const struct one_case *cases, size_t n, bool local, uint64_t frame)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t thousandths;

		for (int j = 0; j < 2; j++)
			begin(&side[j], cases[i].pairs[j], cases[i].len[j], local);
		run(4000, 2);
		thousandths = cost_of_first(frame);
		if (thousandths < 500 - cases[i].within || thousandths > 500 + cases[i].within)
			fail_msg("case %zu: %u of 1000 (%lu and %lu writes)", i, thousandths, side[0].done,
				 side[1].done);
		for (int j = 0; j < 2; j++)
			end(&side[j]);
	}
}

/* Enough requests to use up a quantum. */
static void
test_local(void **state)
{
	static const struct one_case cases[] = {
		{{1, 1}, {65536, 65536}, 20}, {{1, PAIRS}, {65536, 65536}, 50}, {{6, PAIRS}, {8, 8}, 50},
		{{6, PAIRS}, {8, LONG}, 50},  {{PAIRS, 1}, {8, LONG}, 50},      {{2, PAIRS}, {LONG, 512}, 50},
	};

	test_cases(cases, RTE_DIM(cases), true, 0);
}

/*
 * By frames, whose receiver is slower: shares are equal if both clients have as much in flight. Many queue
 * pairs cost more acknowledgements than one, and long messages complete late.
 */
static void
test_by_frames(void **state)
{
	static const struct one_case cases[] = {
		{{1, 1}, {65536, 65536}, 20},
		{{1, PAIRS}, {65536, 65536}, 200},
		{{PAIRS, PAIRS}, {8, 8}, 100},
	};

	test_cases(cases, RTE_DIM(cases), false, SHARE_FRAME + 60);
}

/* Packets to a silent peer count as in flight until they time out. The client's other connections go on. */
static void
test_silent_peer(void **state)
{
	for (int j = 0; j < 2; j++)
		begin(&side[j], 2, 512, false);
	side[0].app.client->share.flight += 2 * SHARE_FLIGHT;
	run(1000, 2);
	assert_int_not_equal(side[0].done, 0);
	side[0].app.client->share.flight -= 2 * SHARE_FLIGHT;
	for (int j = 0; j < 2; j++)
		end(&side[j]);
}

/*
 * Packets that were in flight when their connection broke are never acknowledged, and count as in flight no
 * more.
 */
static void
test_broken(void **state)
{
	struct memory forbidden;

	begin(&side[0], 1, 512, false);
	forbidden = side[0].memory;
	forbidden.region.key ^= 1;
	post_write(&side[0].from[0], &side[0].memory, &forbidden, 512, 0);
	for (uint32_t i = 1; i < MAX_WR; i++)
		post_write(&side[0].from[0], &side[0].memory, &side[0].memory, 512, 0);
	TURN_UNTIL(side[0].from[0].failed == 1);
	assert_int_equal(side[0].app.client->share.flight, 0);
	end(&side[0]);
}

/* A client may use what others leave, and use in past rounds gives no claim. */
static void
test_alone(void **state)
{
	uint64_t before;

	for (int j = 0; j < 2; j++)
		begin(&side[j], 1, LONG, true);
	run(500, 1);
	before = side[0].done;
	assert_in_range(before, 500 * LOCAL_CHUNK / LONG - 1, 500 * LOCAL_CHUNK_LONG / LONG);
	run(1000, 2);
	assert_in_range(side[1].done * 100 / (side[0].done - before), 80, 120);
	for (int j = 0; j < 2; j++)
		end(&side[j]);
}

/* A client rings all its doorbells, whether there is work or not. */
static void
test_all_doorbells(void **state)
{
	uint32_t rung;

	begin(&side[0], 1, 8, true);
	begin(&side[1], 1, 8, true);
	for (uint32_t i = 1; i < PAIRS; i++) {
		side[1].app.next_doorbell += ONE_DOORBELL_GROUP;
		pair_new(&side[1].app, &side[1].sends, NULL, NULL, NULL, &side[1].to[i]);
	}
	for (uint32_t i = 0; i < 1000; i++) {
		post_all(&side[0]);
		for (uint32_t j = 0; j < ONE_QPS_MAX / ONE_DOORBELL_GROUP; j++)
			atomic_store(&side[1].app.doorbells->group[j], 1);
		for (uint32_t j = 0; j < ONE_QPS_MAX; j++)
			atomic_store(&side[1].app.doorbells->qp[j], 1);
		turn(1);
		for (uint32_t j = rung = 0; j < ONE_QPS_MAX / ONE_DOORBELL_GROUP; j++)
			rung += atomic_load(&side[1].app.doorbells->group[j]) != 0;
		assert_true(rung >= ONE_QPS_MAX / ONE_DOORBELL_GROUP - CORE_SCAN_GROUPS);
	}
	assert_int_not_equal(side[0].done, 0);
	for (uint32_t i = 1; i < PAIRS; i++)
		pair_end(&side[1].to[i]);
	for (int j = 0; j < 2; j++)
		end(&side[j]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_local),       cmocka_unit_test(test_by_frames),
		cmocka_unit_test(test_silent_peer), cmocka_unit_test(test_broken),
		cmocka_unit_test(test_alone),       cmocka_unit_test(test_all_doorbells),
	};

	return cmocka_run_group_tests(tests, group_start, group_stop);
}
