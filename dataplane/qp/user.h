/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A user of the data plane, over all its attachments and cores: what its share is of, and its ceilings.
 *
 * A ceiling is a virtual scheduling algorithm (GCRA, ITU-T I.371): of all that the user does by the ceiling's
 * rate the last unit would arrive at one time, which each turn moves on by what it has done.  While that time
 * is further ahead than a burst may be, the user has no turns.
 */
#ifndef DATAPLANE_QP_USER_H
#define DATAPLANE_QP_USER_H

#include "dataplane/core/core.h"

/* CEILING_WAKES counts ns of slow wake-ups (wake.c). */
enum { CEILING_OPS, CEILING_BYTES, CEILING_WAKES, CEILINGS };
#define WAKE_RATE 125000000u /* ns a second */

struct ceiling {
	/* Stored by the control thread, loaded by cores once a turn: each value by itself.  0: there is none.
	 */
	_Atomic uint64_t rate; /* a second */
	/* Moved on by each core after a turn (user_charge), and back by the control thread when the rate
	 * changes; ns, by the clock that all cores have (core->real_at). */
	_Atomic uint64_t arrival;
};

/* Its clients on one core, which is the only one to touch this: see share.c. */
struct share_group {
	TAILQ_ENTRY(share_group) link;
	struct engine_user *user;
	struct core *core;
	TAILQ_HEAD(, engine_client) busy; /* that have something to do, in the order of their turns */
	uint32_t count;
	bool queued;         /* in core->turns.busy */
	bool held;           /* above a ceiling: not in core->turns.busy until the timer expires */
	int64_t credit;      /* what its turn may still cost; below 0: what its last one took too much */
	int64_t answer_room; /* bytes of answers that it may make while it is held, */
	uint64_t answered;   /* and those that it has made since its last turn */
	struct timer timer;
} __rte_cache_aligned;

struct engine_user {
	/* As `rate`. */
	_Atomic uint32_t weight;
	_Atomic bool limited;    /* it has a ceiling */
	_Atomic bool slow_wakes; /* set by its cores, for good: CEILING_WAKES holds */
	struct ceiling ceiling[CEILINGS];
	struct reap reap;                               /* control thread */
	struct share_group group[] __rte_cache_aligned; /* by core */
};

/* What a turn may do; false: nothing now, `*due` is when it may again. */
bool user_admits(const struct engine_user *user, uint64_t now, uint64_t room[CEILINGS], uint64_t *due);
/* It has done that. */
void user_charge(struct engine_user *user, uint64_t now, const uint64_t done[CEILINGS]);

/* Its wake-ups may go out at `now`. */
bool user_may_wake(const struct engine_user *user, uint64_t now);

static inline bool
user_wakes_slowly(const struct engine_user *user)
{
	/* Pairs with the store in charge_time(). */
	return atomic_load_explicit(&user->slow_wakes, memory_order_relaxed);
}

static inline bool
user_is_limited(const struct engine_user *user)
{
	return atomic_load_explicit(&user->limited, memory_order_relaxed) /* as `rate` */
	       || user_wakes_slowly(user);
}

#endif
