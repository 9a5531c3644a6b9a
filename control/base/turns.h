/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whom the control thread serves next: users take turns, by deficit round robin over what their requests
 * cost, however many attachments ask; what one user asks for is served in the order in which it came.
 */
#ifndef CONTROL_BASE_TURNS_H
#define CONTROL_BASE_TURNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

enum {
	TURNS_QUANTUM =
		16, /* what a user gets in one round; a request may cost more, and later ones wait for it */
	TURNS_COST_MAX = 16,
	TURNS_DEBT_MAX = 1000000
};

/* Something to be done for a user; embedded in what it is about, which must not go while it waits. */
struct turns_item {
	TAILQ_ENTRY(turns_item) link;
	void (*serve)(struct turns_item *turn); /* it waits no more then, and may wait anew */
	uint32_t cost;                          /* 1..TURNS_COST_MAX */
	bool waits;
};

/* All zero: nothing waits. */
struct turns_user {
	TAILQ_HEAD(, turns_item) queue;
	TAILQ_ENTRY(turns_user) link; /* while something is in its queue */
	int32_t credit;               /* below 0: what its last turn cost too much */
};

struct turns {
	TAILQ_HEAD(, turns_user) users;
	uint32_t asked; /* users that had a turn in the last round */
};

void turns_init(struct turns *turns);
/* It waits, if it does not yet. */
void turns_wait(struct turns *turns, struct turns_user *user, struct turns_item *turn);
void turns_leave(struct turns *turns, struct turns_user *user, struct turns_item *turn);
/* Something that was done for it out of its turn has cost `us`: its next turns are shorter. */
void turns_charge(struct turns_user *user, uint64_t us);
/* Each user that waits gets its turn; how many requests were served. */
uint32_t turns_round(struct turns *turns);

/*
 * All that is asked for is one thing, and its user had nobody beside it in the last round: its turn may come
 * before it is heard whether others ask now.  They are in the next round, and from then on it waits for them.
 */
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
