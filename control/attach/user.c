/* SPDX-License-Identifier: BSD-3-Clause */
/* What a user has of the cores. */
#include "control/attach/user.h"

#include "control/loop/loop.h"
#include "dataplane/engine.h"

static struct engine_share
share_of(uid_t uid)
{
	struct config_user user = config_user_of(control.config, uid);

	return (struct engine_share){
		.weight = user.weight, .max_ops = user.max_ops, .max_bytes = user.max_bytes};
}

struct engine_user *
user_of(struct quota_account *account)
{
	const struct engine_share share = share_of(account->uid);

	if (account->user == NULL)
		account->user = engine_user_new(&share);
	return account->user;
}

void
user_leave(struct quota_account *account)
{
	struct engine_user *user = account->user;

	if (quota_leave(&control.quota, account))
		engine_user_free(user);
}

void
users_put_in_force(void)
{
	const struct quota_account *account;

	LIST_FOREACH(account, &control.quota.accounts, link)
	{
		const struct engine_share share = share_of(account->uid);

		if (account->user != NULL)
			engine_user_set(account->user, &share);
	}
}
