/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/base/drr.h"

void
drr_init(struct drr *drr)
{
	TAILQ_INIT(&drr->users);
	drr->asked = 0;
}

void
drr_wait(struct drr *drr, struct drr_user *user, struct drr_item *turn)
{
	if (turn->waits)
		return;
	turn->waits = true;
	if (TAILQ_EMPTY(&user->queue)) {
		TAILQ_INIT(&user->queue);
		TAILQ_INSERT_TAIL(&drr->users, user, link);
	}
	TAILQ_INSERT_TAIL(&user->queue, turn, link);
}

void
drr_leave(struct drr *drr, struct drr_user *user, struct drr_item *turn)
{
	if (!turn->waits)
		return;
	turn->waits = false;
	TAILQ_REMOVE(&user->queue, turn, link);
	if (!TAILQ_EMPTY(&user->queue))
		return;
	TAILQ_REMOVE(&drr->users, user, link);
	/* Unused credit is not saved; debt stays. */
	if (user->credit > 0)
		user->credit = 0;
}

void
drr_charge(struct drr_user *user, uint64_t us)
{
	int64_t credit = user->credit - (int64_t)(us < DRR_DEBT_MAX ? us : DRR_DEBT_MAX);

	user->credit = (int32_t)(credit > -DRR_DEBT_MAX ? credit : -DRR_DEBT_MAX);
}

/* Serves one user's quantum. Requests queued meanwhile go to the end. */
static uint32_t
user_round(struct drr *drr, struct drr_user *user)
{
	uint32_t served = 0;
	struct drr_item *turn;

	user->credit += DRR_QUANTUM;
	while (!TAILQ_EMPTY(&user->queue) && user->credit > 0) {
		turn = TAILQ_FIRST(&user->queue);
		user->credit -= (int32_t)turn->cost;
		drr_leave(drr, user, turn);
		turn->serve(turn);
		served++;
	}
	if (!TAILQ_EMPTY(&user->queue)) {
		TAILQ_REMOVE(&drr->users, user, link);
		TAILQ_INSERT_TAIL(&drr->users, user, link);
	}
	return served;
}

uint32_t
drr_round(struct drr *drr)
{
	struct drr_user *user;
	uint32_t users = 0, served = 0;

	TAILQ_FOREACH(user, &drr->users, link)
		users++;
	drr->asked = users;
	for (; users > 0 && (user = TAILQ_FIRST(&drr->users)) != NULL; users--)
		served += user_round(drr, user);
	return served;
}
