/* SPDX-License-Identifier: BSD-3-Clause */
/* DRR scheduler of the control thread. Users share it by deficit round robin over the cost of their requests,
 * regardless of their number of attachments; one user's requests are served in order. */
#ifndef CONTROL_BASE_DRR_H
#define CONTROL_BASE_DRR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

enum {
	DRR_QUANTUM = 16, /* credit per round; a request may exceed it, and delays the user's later ones */
	DRR_COST_MAX = 16,
	DRR_DEBT_MAX = 1000000
};

/* Request of a user. Embedded in an object that must outlive the wait. */
struct drr_item {
	TAILQ_ENTRY(drr_item) link;
	void (*serve)(struct drr_item *turn); /* called when dequeued; may call drr_wait() again */
	uint32_t cost;                        /* 1..DRR_COST_MAX */
	bool waits;
};

/* All zero: nothing is queued. */
struct drr_user {
	TAILQ_HEAD(, drr_item) queue;
	TAILQ_ENTRY(drr_user) link; /* while `queue` is not empty */
	int32_t credit;             /* negative: debt of earlier rounds */
};

struct drr {
	TAILQ_HEAD(, drr_user) users;
	uint32_t asked; /* users served in the last round */
};

void drr_init(struct drr *drr);
/* Queues the request, unless it is queued already. */
void drr_wait(struct drr *drr, struct drr_user *user, struct drr_item *turn);
void drr_leave(struct drr *drr, struct drr_user *user, struct drr_item *turn);
/* Charges `us` for work done outside of the scheduler: the user's next quanta shrink. */
void drr_charge(struct drr_user *user, uint64_t us);
/* Serves each waiting user's quantum; returns the number of requests served. */
uint32_t drr_round(struct drr *drr);

/* A single request is queued, and at most one user was served in the last round. Then it may be served before
 * other requesters are polled; those join the next round, and later rounds poll first. */
static inline bool
drr_alone(const struct drr *drr)
{
	const struct drr_user *user = TAILQ_FIRST(&drr->users);

	return drr->asked <= 1 && user != NULL && TAILQ_NEXT(user, link) == NULL &&
	       TAILQ_NEXT(TAILQ_FIRST(&user->queue), link) == NULL;
}

static inline bool
drr_waiting(const struct drr *drr)
{
	return !TAILQ_EMPTY(&drr->users);
}

#endif
