/* SPDX-License-Identifier: BSD-3-Clause */
/* DRR scheduler of the control thread. Users share it by deficit round robin over the cost of their requests,
 * regardless of their number of attachments; one user's requests are served in order. */
#ifndef CONTROL_BASE_TURNS_H
#define CONTROL_BASE_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

enum {
	TURNS_QUANTUM = 16, /* credit per round; a request may exceed it, and delays the user's later ones */
	TURNS_COST_MAX = 16,
	TURNS_DEBT_MAX = 1000000
};

/* Request of a user. Embedded in an object that must outlive the wait. */
struct turns_item {
	TAILQ_ENTRY(turns_item) link;
	void (*serve)(struct turns_item *turn); /* called when dequeued; may call turns_wait() again */
	uint32_t cost;                          /* 1..TURNS_COST_MAX */
	bool waits;
};

/* All zero: nothing is queued. */
struct turns_user {
	TAILQ_HEAD(, turns_item) queue;
	TAILQ_ENTRY(turns_user) link; /* while `queue` is not empty */
	int32_t credit;               /* negative: debt of earlier rounds */
};

struct turns {
	TAILQ_HEAD(, turns_user) users;
	uint32_t asked; /* users served in the last round */
};

void turns_init(struct turns *turns);
/* Queues the request, unless it is queued already. */
void turns_wait(struct turns *turns, struct turns_user *user, struct turns_item *turn);
void turns_leave(struct turns *turns, struct turns_user *user, struct turns_item *turn);
/* Charges `us` for work done outside of the scheduler: the user's next quanta shrink. */
void turns_charge(struct turns_user *user, uint64_t us);
/* Serves each waiting user's quantum; returns the number of requests served. */
uint32_t turns_round(struct turns *turns);

/* A single request is queued, and at most one user was served in the last round. Then it may be served before
 * other requesters are polled; those join the next round, and later rounds poll first. */
static inline bool
turns_alone(const struct turns *turns)
{
	const struct turns_user *user = TAILQ_FIRST(&turns->users);

	return turns->asked <= 1 && user != NULL && TAILQ_NEXT(user, link) == NULL &&
	       TAILQ_NEXT(TAILQ_FIRST(&user->queue), link) == NULL;
}

static inline bool
turns_waiting(const struct turns *turns)
{
	return !TAILQ_EMPTY(&turns->users);
}

#endif
