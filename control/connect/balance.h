/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chooses queue pairs that move from a busy polling core to another one (doc/cores.md).  No I/O: the caller
 * gives the time and the counters, and moves the chosen queue pairs.
 *
 * A look compares the cores once a second.  After BALANCE_LOOKS looks in a row with a gap of BALANCE_GAP
 * between the same busy core and the least busy one, the caller offers the queue pairs of the busy core with
 * the packets of the last second, and those with half the gap's work move.
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

#define BALANCE_LOOK_NS 1000000000ull
#define BALANCE_LOOKS 3u
#define BALANCE_GAP 300u                       /* thousandths of a core */
#define BALANCE_GAIN 100u                      /* thousandths of a core */
#define BALANCE_REST_NS (10 * BALANCE_LOOK_NS) /* after the first move of a queue pair */
#define BALANCE_RESTS 9u                       /* the time doubles as often, to 85 minutes */
#define BALANCE_PICKS 64u                      /* queue pairs that move at once */

/* The state of a queue pair that may move. */
struct balance_item {
	uint32_t heard;  /* engine_qp_heard() at the sample */
	uint32_t sample; /* number of that sample; 0: none */
	uint32_t moves;
	uint64_t rests_until;
};

enum balance_step {
	BALANCE_NOTHING,
	BALANCE_SAMPLE, /* call balance_sample() for all queue pairs of core `from` */
	BALANCE_CHOOSE, /* choose among the queue pairs of core `from`, to move to `to` */
};

struct balance_pick {
	void *item;
	uint64_t work;
};

struct balance {
	uint64_t looked_at; /* time of the last look; 0: none */
	uint64_t busy[ONE_LANES_MAX];
	uint32_t from, to;
	uint32_t looks; /* in a row with a gap from core `from` */
	uint32_t load;  /* of core `from`, in thousandths of a core */
	uint32_t gap;
	uint32_t sample; /* number of the last sample */
	/* The choice counts work in packets of the last second. */
	uint64_t least, goal, most; /* that should move */
	uint64_t picked_work;
	struct balance_pick over; /* the one with the least work above `goal` */
	struct balance_pick pick[BALANCE_PICKS];
	uint32_t num_picked;
};

/* Compares the cores.  `busy`: nanoseconds that each core has been busy so far. */
enum balance_step balance_look(struct balance *balance, uint64_t now, const uint64_t *busy, uint32_t cores);
void balance_sample(const struct balance *balance, struct balance_item *item, uint32_t heard);
/* Returns packets since the sample; 0 for a queue pair that is newer. */
uint32_t balance_work(const struct balance *balance, const struct balance_item *item, uint32_t heard);
/* A choice: begin, with the work of core `from`; offer each queue pair that may move; end.
 * balance_choose_end() returns the number of queue pairs in `pick`. */
void balance_choose_begin(struct balance *balance, uint64_t work);
void balance_offer(struct balance *balance, void *item, uint64_t work);
uint32_t balance_choose_end(struct balance *balance);
bool balance_rests(const struct balance_item *item, uint64_t now);
void balance_moved(struct balance_item *item, uint64_t now);

#endif
