/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses queue pairs that move from a busy polling core to another one (doc/cores.md).  No I/O: the caller
 * gives the time and the counters, and moves the chosen queue pairs.
 *
 * A look compares the cores ten times a second.  The caller offers the queue pairs of a busy core, with their
 * packets since the look before, when its gap to the least busy core has been BALANCE_GAP for BALANCE_LOOKS
 * looks in a row.  A full core beside an idle one does not wait as long: BALANCE_WIDE_LOOKS more looks with
 * BALANCE_WIDE_GAP than without suffice.  Queue pairs with half the gap's work move.
 *
 * A choice is a trial.  Where programs and polling cores share processors, a second core may make a program
 * slower.  So if all cores together do less than BALANCE_WORTH of the work that they did during the gap, the
 * caller moves the queue pairs back.
 *
 * Queue pairs cannot swing between cores.  A choice must make the gap smaller by BALANCE_GAIN.  Where the
 * work on the new core differs from the estimate, each move doubles the time for which the queue pair then
 * rests.
 */
#ifndef CONTROL_CONNECT_BALANCE_H
#define CONTROL_CONNECT_BALANCE_H

#include <stdbool.h>
#include <stdint.h>

#include "abi/ring.h"

#define BALANCE_LOOK_NS 100000000ull
#define BALANCE_GAP 300u /* thousandths of a core */
#define BALANCE_LOOKS 30u
#define BALANCE_WIDE_GAP 750u
#define BALANCE_WIDE_LOOKS 4u
#define BALANCE_GAIN 100u /* thousandths of a core */
#define BALANCE_TRIAL_LOOKS 4u
#define BALANCE_WORTH 900u                      /* thousandths of the rate before */
#define BALANCE_REST_NS (100 * BALANCE_LOOK_NS) /* after the first move of a queue pair */
#define BALANCE_RESTS 9u                        /* the time doubles as often, to 85 minutes */
#define BALANCE_PICKS 64u                       /* queue pairs that move at once */

/* The state of a queue pair that may move. */
struct balance_item {
	uint32_t heard;  /* engine_qp_heard() at the sample */
	uint32_t sample; /* number of that sample; 0: none */
	uint32_t moves;
	uint32_t trial; /* number of the sample after which it moved last; 0: none */
	uint64_t rests_until;
};

enum balance_step {
	BALANCE_NOTHING,
	BALANCE_SAMPLE, /* call balance_sample() for all queue pairs of core `from` */
	BALANCE_CHOOSE, /* choose among the queue pairs of core `from`, to move to `to` */
	BALANCE_UNDO,   /* move those of the last choice, balance_is_tried(), back to `from` */
};

/* Counts of all cores: a choice has done no harm if the rate of work is what it was. */
struct balance_mark {
	uint64_t at, work;
};

struct balance_pick {
	void *item;
	uint64_t work;
};

struct balance {
	uint64_t looked_at; /* time of the last look; 0: none */
	uint64_t busy[ONE_LANES_MAX];
	uint32_t from, to;
	uint32_t looks;      /* in a row with a gap from core `from` */
	uint32_t wide_looks; /* with a wide gap, minus those without */
	uint32_t load;       /* of core `from`, in thousandths of a core */
	uint32_t gap;
	uint32_t sample;          /* number of the last sample */
	uint32_t trial;           /* looks until the last choice has been tried; 0: none is */
	struct balance_mark mark; /* at the first look with the gap, or of the trial */
	uint64_t rate;            /* of work before the choice; after a trial, during it; in a second */
	/* The choice counts work in packets since the last look. */
	uint64_t least, goal, most; /* that should move */
	uint64_t picked_work;
	struct balance_pick over; /* the one with the least work above `goal` */
	struct balance_pick pick[BALANCE_PICKS];
	uint32_t num_picked;
};

/* Compares the cores.  `busy`: nanoseconds that each core has been busy so far; `work`: what all of them have
 * done so far, in a unit of the caller's. */
enum balance_step balance_look(struct balance *balance, uint64_t now, const uint64_t *busy, uint64_t work,
			       uint32_t cores);
void balance_sample(const struct balance *balance, struct balance_item *item, uint32_t heard);
/* Returns packets since the sample; 0 for a queue pair that is newer. */
uint32_t balance_work(const struct balance *balance, const struct balance_item *item, uint32_t heard);
/* A choice: begin, with the work of core `from`; offer each queue pair that may move; end.
 * balance_choose_end() returns the number of queue pairs in `pick`. */
void balance_choose_begin(struct balance *balance, uint64_t work);
void balance_offer(struct balance *balance, void *item, uint64_t work);
uint32_t balance_choose_end(struct balance *balance);
/* The queue pair moves by the last choice, whose trial begins. */
void balance_try(struct balance *balance, struct balance_item *item);
bool balance_is_tried(const struct balance *balance, const struct balance_item *item);
bool balance_rests(const struct balance_item *item, uint64_t now);
void balance_moved(struct balance_item *item, uint64_t now);

#endif
