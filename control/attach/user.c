/* SPDX-License-Identifier: BSD-3-Clause */
/* Users' shares of the cores. */
#include "control/attach/client.h"

#include "control/base/loop.h"
#include "dataplane/engine.h"

static struct engine_share
share_of(uid_t uid)
{
	struct config_user user = config_user_of(control.config, uid);

	return (struct engine_share){
		.weight = user.weight, .max_ops = user.max_ops, .max_bytes = user.max_bytes};
}

/* ---- users in debt ---- */

/* A user that exceeded its rate limits keeps its debt when its last attachment ends.  The debt counts for the
 * next attachment, and shrinks with time.  If too many users have debts, the smallest debt is dropped. */
static struct {
	uid_t uid;
	struct engine_user *user; /* NULL: the place is free */
} debtor[USERS_DEBTORS];

static void
debtor_drop(uint32_t i)
{
	engine_user_free(debtor[i].user);
	debtor[i].user = NULL;
}

/* Returns a free place, else the one with the smallest debt. */
static uint32_t
debtor_place(void)
{
	uint64_t least = UINT64_MAX;
	uint32_t place = 0;

	for (uint32_t i = 0; i < USERS_DEBTORS; i++) {
		uint64_t debt = debtor[i].user == NULL ? 0 : engine_user_debt(debtor[i].user);

		if (debt == 0)
			debtor_drop(i);
		if (debt < least) {
			least = debt;
			place = i;
		}
	}
	return place;
}

static void
debtor_put(uid_t uid, struct engine_user *user)
{
	uint32_t place = debtor_place();

	debtor_drop(place);
	debtor[place].uid = uid;
	debtor[place].user = user;
}

/* Returns NULL if the user has no debt. */
static struct engine_user *
debtor_take(uid_t uid)
{
	for (uint32_t i = 0; i < USERS_DEBTORS; i++) {
		struct engine_user *user = debtor[i].user;

		if (user == NULL || debtor[i].uid != uid)
			continue;
		debtor[i].user = NULL;
		return user;
	}
	return NULL;
}

void
users_fini(void)
{
	for (uint32_t i = 0; i < USERS_DEBTORS; i++)
		debtor_drop(i);
}

/* ---- users with attachments ---- */

struct engine_user *
user_of(struct quota_account *account)
{
	const struct engine_share share = share_of(account->uid);

	if (account->user != NULL)
		return account->user;
	account->user = debtor_take(account->uid);
	if (account->user != NULL)
		engine_user_set(account->user, &share);
	else
		account->user = engine_user_new(&share);
	return account->user;
}

void
user_leave(struct quota_account *account)
{
	struct engine_user *user = account->user;
	uid_t uid = account->uid;

	if (!quota_leave(&control.quota, account) || user == NULL)
		return;
	if (engine_user_debt(user) != 0)
		debtor_put(uid, user);
	else
		engine_user_free(user);
}

void
users_put_in_force(void)
{
	const struct quota_account *account;

	LIST_FOREACH(account, &control.quota.accounts, link) {
		const struct engine_share share = share_of(account->uid);

		if (account->user != NULL)
			engine_user_set(account->user, &share);
	}
}
