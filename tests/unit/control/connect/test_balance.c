/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which queue pairs move by themselves (control/connect/balance.c).  A model has the cores, the queue pairs
 * and the clock: until the next look every queue pair uses its part of its core's time, and hears its
 * packets.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "control/connect/balance.h"

#define QPS_MAX 2000u
#define WHOLE 1000u
/* Times are in looks. */
#define SECOND 10u
#define HOUR (3600 * SECOND)
#define DAY (24 * HOUR)
#define LONGEST (3 * SECOND + 1) /* the first look has nothing to compare with */
#define HEARD_WRAPS 0xffffffu

struct model_qp {
	struct balance_item item;
	uint32_t core, heard;
	uint32_t cost;    /* thousandths of a core */
	uint32_t packets; /* between two looks */
	uint32_t moves;
	bool stays;
};

struct model {
	struct balance balance;
	uint64_t now, busy[ONE_LANES_MAX], work;
	uint32_t cores, qps, moves;
	uint32_t done; /* thousandths of the packets that are done while all cores are busy */
	struct model_qp qp[QPS_MAX];
};
static struct model model;

static uint32_t
load_of(uint32_t core)
{
	uint32_t load = 0;

	for (uint32_t i = 0; i < model.qps; i++)
		if (model.qp[i].core == core)
			load += model.qp[i].cost;
	return load < WHOLE ? load : WHOLE;
}

static uint32_t
gap_now(void)
{
	uint32_t most = 0, least = WHOLE;

	for (uint32_t i = 0; i < model.cores; i++) {
		uint32_t load = load_of(i);

		most = load > most ? load : most;
		least = load < least ? load : least;
	}
	return most - least;
}

static uint32_t
part_done(void)
{
	for (uint32_t i = 0; i < model.cores; i++)
		if (load_of(i) == 0)
			return WHOLE;
	return model.done;
}

static void
pass_look(void)
{
	uint32_t done = part_done();

	model.now += BALANCE_LOOK_NS;
	for (uint32_t i = 0; i < model.cores; i++)
		model.busy[i] += load_of(i) * (BALANCE_LOOK_NS / WHOLE);
	for (uint32_t i = 0; i < model.qps; i++) {
		uint32_t packets = (uint32_t)((uint64_t)model.qp[i].packets * done / WHOLE);

		model.qp[i].heard = (model.qp[i].heard + packets) & HEARD_WRAPS;
		model.work += packets;
	}
}

static void
sample_all(void)
{
	for (uint32_t i = 0; i < model.qps; i++)
		balance_sample(&model.balance, &model.qp[i].item, model.qp[i].heard);
}

static uint32_t
work_of(const struct model_qp *qp)
{
	return qp->core == model.balance.from ? balance_work(&model.balance, &qp->item, qp->heard) : 0;
}

static void
move_chosen(void)
{
	uint64_t work = 0;
	uint32_t n;

	for (uint32_t i = 0; i < model.qps; i++)
		work += work_of(&model.qp[i]);
	balance_choose_begin(&model.balance, work);
	for (uint32_t i = 0; i < model.qps; i++)
		if (!model.qp[i].stays && !balance_rests(&model.qp[i].item, model.now))
			balance_offer(&model.balance, &model.qp[i], work_of(&model.qp[i]));
	n = balance_choose_end(&model.balance);
	for (uint32_t i = 0; i < n; i++) {
		struct model_qp *qp = model.balance.pick[i].item;

		assert_int_equal(qp->core, model.balance.from);
		qp->core = model.balance.to;
		qp->moves++;
		model.moves++;
		balance_try(&model.balance, &qp->item);
		balance_moved(&qp->item, model.now);
	}
}

static void
move_tried_back(void)
{
	for (uint32_t i = 0; i < model.qps; i++) {
		struct model_qp *qp = &model.qp[i];

		if (!balance_is_tried(&model.balance, &qp->item))
			continue;
		assert_int_equal(qp->core, model.balance.to);
		qp->core = model.balance.from;
		qp->moves++;
		model.moves++;
		balance_moved(&qp->item, model.now);
	}
}

static void
run_for(uint32_t looks)
{
	while (looks-- > 0) {
		pass_look();
		switch (balance_look(&model.balance, model.now, model.busy, model.work, model.cores)) {
		case BALANCE_NOTHING:
			break;
		case BALANCE_SAMPLE:
			sample_all();
			break;
		case BALANCE_CHOOSE:
			move_chosen();
			break;
		case BALANCE_UNDO:
			move_tried_back();
			break;
		}
	}
}

/* All queue pairs begin on the first core. */
static void
model_begin(uint32_t cores, uint32_t qps, uint32_t cost, uint32_t packets)
{
	memset(&model, 0, sizeof(model));
	model.now = 1;
	model.cores = cores;
	model.qps = qps;
	model.done = WHOLE;
	for (uint32_t i = 0; i < qps; i++)
		model.qp[i] = (struct model_qp){.cost = cost, .packets = packets};
}

static void
test_equal_parts_move_once(void **state)
{
	model_begin(2, 8, 125, 10000);
	run_for(SECOND / 2); /* a full core beside an idle one does not wait for long */
	assert_int_equal(model.moves, 4);
	assert_int_equal(gap_now(), 0);
	run_for(DAY);
	assert_int_equal(model.moves, 4);
}

static void
test_small_gap_waits(void **state)
{
	model_begin(2, 2, BALANCE_GAP / 2, 10000);
	run_for(LONGEST - 1);
	assert_int_equal(model.moves, 0);
	run_for(1);
	assert_int_equal(model.moves, 1);
	assert_int_equal(gap_now(), 0);
	model_begin(2, 2, BALANCE_GAP / 2 - 1, 10000);
	run_for(HOUR);
	assert_int_equal(model.moves, 0);
}

/* Cores and programs share processors: the second core makes the program slower. */
static void
test_harm_is_undone(void **state)
{
	model_begin(2, 8, 125, 10000);
	model.done = BALANCE_WORTH - 10;
	run_for(SECOND / 2);
	assert_int_equal(model.moves, 4);
	run_for(SECOND / 2);
	assert_int_equal(model.moves, 8);
	assert_int_equal(load_of(1), 0);
	run_for(DAY); /* queue pairs rest longer after each trial */
	assert_true(model.moves <= 400);
	assert_int_equal(load_of(1), 0);
	model_begin(2, 8, 125, 10000);
	model.done = BALANCE_WORTH + 10;
	run_for(DAY);
	assert_int_equal(model.moves, 4);
}

static void
test_large_part_stays(void **state)
{
	/* The only busy queue pair, then one whose move would only exchange the cores' loads. */
	model_begin(2, 1, 900, 10000);
	run_for(HOUR);
	assert_int_equal(model.moves, 0);
	model_begin(2, 2, 20, 200);
	model.qp[0].cost = 880;
	model.qp[0].packets = 8800;
	run_for(HOUR);
	assert_int_equal(model.qp[0].moves, 0);
}

static void
test_best_of_large_parts(void **state)
{
	/* 900 and 0; half of the gap is 450, which none fits. */
	model_begin(2, 2, 500, 5000);
	model.qp[1].cost = 400;
	model.qp[1].packets = 4000;
	model.qp[0].cost = 500;
	run_for(HOUR);
	assert_int_equal(model.qp[1].core, 1);
	assert_int_equal(model.qp[0].core, 0);
	model_begin(2, 2, 460, 4600);
	run_for(HOUR);
	assert_int_equal(model.moves, 1);
	assert_int_equal(gap_now(), 0);
}

static void
test_many_small_parts(void **state)
{
	model_begin(2, QPS_MAX, 0, 100);
	for (uint32_t i = 0; i < QPS_MAX; i += 2) { /* the others only keep alive */
		model.qp[i].packets = 10000;
		model.qp[i].cost = i % 4 == 0;
	}
	run_for(HOUR);
	assert_true(gap_now() < BALANCE_GAP);
	for (uint32_t i = 0; i < QPS_MAX; i++)
		assert_true(model.qp[i].moves <= 1);
}

static void
test_short_loads_move_nothing(void **state)
{
	model_begin(2, 8, 100, 10000);
	for (uint32_t s = 0; s < HOUR; s += 4) { /* a wide gap at two looks of four */
		for (uint32_t i = 0; i < model.qps; i++)
			model.qp[i].cost = s % 8 == 0 ? 0 : 100;
		run_for(2);
	}
	assert_int_equal(model.moves, 0);
	/* The busy core is another one at each look. */
	model_begin(3, 2, 500, 10000);
	for (uint32_t s = 0; s < HOUR; s++) {
		model.qp[0].core = model.qp[1].core = s % 3;
		run_for(1);
	}
	assert_int_equal(model.moves, 0);
}

static void
test_two_busy_cores(void **state)
{
	/* The first and second core take turns in being the busiest by a little; the third is idle. */
	model_begin(3, 8, 200, 10000);
	for (uint32_t i = 4; i < 8; i++)
		model.qp[i].core = 1;
	for (uint32_t s = 0; s < 60 * SECOND; s++) {
		model.qp[0].cost = s % 2 == 0 ? 190 : 200;
		model.qp[4].cost = s % 2 == 0 ? 200 : 190;
		run_for(1);
	}
	assert_true(gap_now() < BALANCE_GAP);
	assert_true(model.moves <= 4);
}

static void
test_new_queue_pair_has_no_work(void **state)
{
	model_begin(2, 2, 450, 10000);
	while (model.balance.sample == 0)
		run_for(1);
	model.qps = 3;
	model.qp[2] = (struct model_qp){.heard = 5000000, .cost = 0, .packets = 1};
	run_for(1);
	assert_int_equal(model.moves, 1);
	assert_int_equal(model.qp[2].moves, 0);
}

static void
test_sum_of_packets_wraps(void **state)
{
	model_begin(2, 2, 450, 10000);
	model.qp[0].heard = HEARD_WRAPS - 45000; /* it wraps between the sample and the choice */
	run_for(SECOND / 2);
	assert_int_equal(model.moves, 1);
	assert_int_equal(gap_now(), 0);
}

/* The estimate is always wrong: the queue pair takes all of the load with it. */
static void
test_wrong_estimates_end(void **state)
{
	uint32_t first;

	model_begin(2, 3, 0, 5000);
	model.qp[0].cost = 900;
	model.qp[1].stays = model.qp[2].stays = true;
	model.qp[2].core = 1;
	run_for(HOUR);
	first = model.moves;
	assert_in_range(first, 2, BALANCE_RESTS);
	run_for(DAY);
	assert_true(model.moves - first <= 20);
}

/* Packets of different queue pairs cost up to four times as much. */
static void
test_random_loads_settle(void **state)
{
	for (uint32_t seed = 1; seed <= 20; seed++) {
		uint32_t settled;

		srand(seed);
		model_begin(2 + (uint32_t)rand() % 7, 1 + (uint32_t)rand() % 60, 0, 0);
		for (uint32_t i = 0; i < model.qps; i++) {
			model.qp[i].core = (uint32_t)rand() % model.cores;
			model.qp[i].cost = (uint32_t)rand() % (3000 / model.qps);
			model.qp[i].packets = model.qp[i].cost * (50 + (uint32_t)rand() % 150);
		}
		run_for(HOUR);
		settled = model.moves;
		assert_true(settled <= 3 * model.qps);
		run_for(DAY);
		assert_true(model.moves - settled <= 2);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_equal_parts_move_once),
		cmocka_unit_test(test_small_gap_waits),
		cmocka_unit_test(test_harm_is_undone),
		cmocka_unit_test(test_large_part_stays),
		cmocka_unit_test(test_best_of_large_parts),
		cmocka_unit_test(test_many_small_parts),
		cmocka_unit_test(test_short_loads_move_nothing),
		cmocka_unit_test(test_two_busy_cores),
		cmocka_unit_test(test_new_queue_pair_has_no_work),
		cmocka_unit_test(test_sum_of_packets_wraps),
		cmocka_unit_test(test_wrong_estimates_end),
		cmocka_unit_test(test_random_loads_settle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
