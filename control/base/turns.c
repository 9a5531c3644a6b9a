/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/base/turns.h"

void
turns_init(struct turns *turns)
{
	TAILQ_INIT(&turns->users);
	turns->asked = 0;
}

void
turns_wait(struct turns *turns, struct turns_user *user, struct turns_item *turn)
{
	if (turn->waits)
		return;
	turn->waits = true;
	if (TAILQ_EMPTY(&user->queue)) {
		TAILQ_INIT(&user->queue);
		TAILQ_INSERT_TAIL(&turns->users, user, link);
	}
	TAILQ_INSERT_TAIL(&user->queue, turn, link);
}

void
turns_leave(struct turns *turns, struct turns_user *user, struct turns_item *turn)
{
	if (!turn->waits)
		return;
	turn->waits = false;
	TAILQ_REMOVE(&user->queue, turn, link);
	if (!TAILQ_EMPTY(&user->queue))
		return;
	TAILQ_REMOVE(&turns->users, user, link);
	/* Unused credit is not saved; debt stays. */
	if (user->credit > 0)
		user->credit = 0;
}

void
turns_charge(struct turns_user *user, uint64_t us)
{
	int64_t credit = user->credit - (int64_t)(us < TURNS_DEBT_MAX ? us : TURNS_DEBT_MAX);

	user->credit = (int32_t)(credit > -TURNS_DEBT_MAX ? credit : -TURNS_DEBT_MAX);
}

/* Serves one user's quantum. Requests queued meanwhile go to the end. */
static uint32_t
user_round(struct turns *turns, struct turns_user *user)
{
	uint32_t served = 0;
	struct turns_item *turn;

	user->credit += TURNS_QUANTUM;
	while (!TAILQ_EMPTY(&user->queue) && user->credit > 0) {
		turn = TAILQ_FIRST(&user->queue);
		user->credit -= (int32_t)turn->cost;
		turns_leave(turns, user, turn);
		turn->serve(turn);
		served++;
	}
	if (!TAILQ_EMPTY(&user->queue)) {
		TAILQ_REMOVE(&turns->users, user, link);
		TAILQ_INSERT_TAIL(&turns->users, user, link);
	}
	return served;
}

uint32_t
turns_round(struct turns *turns)
{
	struct turns_user *user;
	uint32_t users = 0, served = 0;

	TAILQ_FOREACH(user, &turns->users, link)
		users++;
	turns->asked = users;
	for (; users > 0 && (user = TAILQ_FIRST(&turns->users)) != NULL; users--)
		served += user_round(turns, user);
	return served;
}
