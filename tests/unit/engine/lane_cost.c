/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cycles that cores spend on a write of 64 bytes: all connections of an attachment on one lane, and the same
 * connections on two lanes, whose cores one thread drives in turn. perf/compare runs this program.
 *
 *   engine-lane-cost [ROUNDS]
 *
 * Each round measures both, and prints their cycles for a request, within a core ("local") and by frames
 * ("frames"), and the ratio two / one.
 */
#include <stdlib.h>

#include "fixture.h"

#define PAIRS 16u
#define BATCH 32u
#define TURNS 400u
#define LENGTH 64u

static struct app home, lane;
static struct ring async[2], done[2]; /* one bundle each, with a ring for each lane */
static struct memory memory;

struct ends {
	struct pair from[PAIRS], to[PAIRS];
	uint32_t lanes;
};

static void
ends_new(struct ends *ends, uint32_t lanes, bool local)
{
	ends->lanes = lanes;
	for (uint32_t i = 0; i < PAIRS; i++) {
		struct ring *ring = &done[i % lanes];
		struct app *app = i % lanes == 0 ? &home : &lane;

		pair_new(app, ring, ring, NULL, NULL, &ends->from[i]);
		pair_new(app, ring, ring, NULL, NULL, &ends->to[i]);
		pair_connect(&ends->from[i], &ends->to[i], RC_RTS, local);
		pair_connect(&ends->to[i], &ends->from[i], RC_RTS, local);
	}
}

static void
ends_free(struct ends *ends)
{
	for (uint32_t i = 0; i < PAIRS; i++) {
		pair_end(&ends->from[i]);
		pair_end(&ends->to[i]);
	}
}

static uint32_t
take_completions(uint32_t lanes)
{
	struct one_cqe cqe;
	uint32_t taken = 0;

	for (uint32_t i = 0; i < lanes; i++)
		while (ring_poll(&done[i], &cqe)) {
			assert_int_equal(cqe.status, ONE_STATUS_SUCCESS);
			taken++;
		}
	return taken;
}

static int
compare_cycles(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Returns the cycles of the cores for a request, in the middle of all turns: other threads may interrupt
 * some. */
static double
measure(struct ends *ends)
{
	static uint64_t cycles[TURNS];

	for (uint32_t turns = 0; turns < TURNS; turns++) {
		uint32_t missing = PAIRS * BATCH;

		cycles[turns] = 0;
		for (uint32_t i = 0; i < PAIRS; i++)
			for (uint32_t n = 0; n < BATCH; n++)
				post_write(&ends->from[i], &memory, &memory, LENGTH, n);
		while (missing > 0) {
			uint64_t now = fixture_tsc(), begin = rte_rdtsc();

			for (uint32_t i = 0; i < ends->lanes; i++)
				loop_iterate(done[i].cq->client->core, now);
			cycles[turns] += rte_rdtsc() - begin;
			missing -= take_completions(ends->lanes);
		}
	}
	qsort(cycles, TURNS, sizeof(cycles[0]), compare_cycles);
	return (double)cycles[TURNS / 2] / (PAIRS * BATCH);
}

int
main(int argc, char **argv)
{
	static const char *const names[] = {"frames", "local"};
	static struct ends ends[2][2]; /* [local][two lanes] */
	uint32_t rounds = argc > 1 ? (uint32_t)atoi(argv[1]) : 20;

	fixture_start(2, ONE_IDLE_SPIN);
	app_start(&home);
	lane_new(&home, 1 - home.client->core->index, &lane);
	ring_new(&home, CQ_LOG2, &async[0], NULL);
	ring_join(&lane, &async[0], &async[1]);
	ring_new(&home, 10, &done[0], async[0].cq);
	ring_join(&lane, &done[0], &done[1]);
	memory_new(&home, ONE_ACCESS_ALL, LENGTH, &memory);
	for (uint32_t local = 0; local < 2; local++)
		for (uint32_t two = 0; two < 2; two++)
			ends_new(&ends[local][two], two + 1, local != 0);
	for (uint32_t round = 0; round < rounds; round++)
		for (uint32_t local = 0; local < 2; local++) {
			double one = measure(&ends[local][0]), two = measure(&ends[local][1]);

			printf("{\"work\": \"%s\", \"one\": %.1f, \"two\": %.1f, \"ratio\": %.3f}\n",
			       names[local], one, two, two / one);
		}
	for (uint32_t i = 0; i < 4; i++)
		ends_free(&ends[i / 2][i % 2]);
	memory_end(&memory);
	for (int i = 0; i < 2; i++) {
		ring_end(&done[i]);
		ring_end(&async[i]);
	}
	lane_end(&lane);
	app_end(&home);
	fixture_stop();
	return 0;
}
