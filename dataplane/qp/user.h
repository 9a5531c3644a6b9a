/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A user of the data plane, over all attachments and cores: weight, and ceilings.
 *
 * A ceiling is a rate limit by virtual scheduling (GCRA, ITU-T I.371). `arrival` is the time at which the
 * last unit of all the user's work would arrive at the ceiling's rate; each turn advances it by the work
 * done. While `arrival` is further ahead than a burst may be, the user has no turns.
 */
#ifndef DATAPLANE_QP_USER_H
#define DATAPLANE_QP_USER_H

#include "dataplane/core/core.h"

/* CEILING_WAKES counts ns of slow wake-ups (wake.c). */
enum { CEILING_OPS, CEILING_BYTES, CEILING_WAKES, CEILINGS };
#define WAKE_RATE 125000000u /* ns per second */

struct ceiling {
	/* Stored by the control thread, loaded by cores once per turn: independent values. 0: no ceiling. */
	_Atomic uint64_t rate; /* per second */
	/* Advanced by each core after a turn (user_charge()), set back by the control thread when the rate
	 * changes. In ns of the clock that all cores share (core->real_at). */
	_Atomic uint64_t arrival;
};

/* A user's clients on one core. Only that core accesses them here: see share.c. */
struct share_group {
	TAILQ_ENTRY(share_group) link;
	struct engine_user *user;
	struct core *core;
	TAILQ_HEAD(, engine_client) busy; /* clients with work, in the order of their turns */
	uint32_t count;
	bool queued;    /* in core->drr.busy */
	bool held;      /* above a ceiling: not in core->drr.busy until the timer expires */
	int64_t credit; /* DRR deficit counter: cost that the turn may still cause; negative: overdrawn */
	int64_t answer_room; /* bytes that may answer READs while the user is held */
	uint64_t answered;   /* bytes that have answered READs since the last turn */
	struct timer timer;
} __rte_cache_aligned;

struct engine_user {
	/* Stored and loaded like `rate`. */
	_Atomic uint32_t weight;
	_Atomic bool limited;    /* there is a ceiling */
	_Atomic bool slow_wakes; /* set by cores and never cleared: CEILING_WAKES applies */
	struct ceiling ceiling[CEILINGS];
	struct reap reap;                               /* control thread only */
	struct share_group group[] __rte_cache_aligned; /* indexed by core */
};

/* Find what a turn may do. False: nothing now; `*due` is the time of the next turn. */
bool user_admits(const struct engine_user *user, uint64_t now, uint64_t room[CEILINGS], uint64_t *due);
/* Charge what was done. */
void user_charge(struct engine_user *user, uint64_t now, const uint64_t done[CEILINGS]);

/* True if the user's wake-ups may go out at `now`. */
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
	return atomic_load_explicit(&user->limited, memory_order_relaxed) /* like `rate` */
	       || user_wakes_slowly(user);
}

#endif
