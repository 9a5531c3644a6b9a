/* SPDX-License-Identifier: BSD-3-Clause */
#include "quota.h"

#include <errno.h>
#include <stdlib.h>

struct quota_account *
quota_connect(struct quota *quota, uid_t uid)
{
	struct quota_account *account;

	if (quota->connections >= quota->max_clients + QUOTA_SPARE_CONNECTIONS)
		return NULL;
	LIST_FOREACH(account, &quota->accounts, link)
		if (account->uid == uid)
			break;
	if (account == NULL) {
		account = calloc(1, sizeof(*account));
		if (account == NULL)
			return NULL;
		account->uid = uid;
		LIST_INSERT_HEAD(&quota->accounts, account, link);
	} else if (account->connections >= quota->max_clients_per_uid + QUOTA_SPARE_CONNECTIONS) {
		return NULL;
	}
	account->connections++;
	account->users++;
	quota->connections++;
	return account;
}

void
quota_disconnect(struct quota *quota, struct quota_account *account)
{
	quota->connections--;
	account->connections--;
}

bool
quota_leave(struct quota *quota, struct quota_account *account)
{
	account->left++;
	if (--account->users != 0)
		return false;
	LIST_REMOVE(account, link);
	free(account);
	return true;
}

int
quota_attach(struct quota *quota, struct quota_account *account, struct quota_limit *limit)
{
	if (quota->clients >= quota->max_clients) {
		*limit = (struct quota_limit){quota->max_clients, "max_clients"};
		return -EDQUOT;
	}
	if (account->clients >= quota->max_clients_per_uid) {
		*limit = (struct quota_limit){quota->max_clients_per_uid, "max_clients_per_uid"};
		return -EDQUOT;
	}
	quota->clients++;
	account->clients++;
	return 0;
}

void
quota_detach(struct quota *quota, struct quota_account *account)
{
	quota->clients--;
	account->clients--;
}

int
quota_charge(const struct quota *quota, struct quota_account *account, uint64_t *used, uint64_t max,
	     uint64_t bytes, struct quota_limit *limit)
{
	if (*used > max || bytes > max - *used) {
		*limit = (struct quota_limit){max, "max_mr_total"};
		return -EDQUOT;
	}
	if (account->bytes > quota->max_bytes_per_uid || bytes > quota->max_bytes_per_uid - account->bytes) {
		*limit = (struct quota_limit){quota->max_bytes_per_uid, "max_bytes_per_uid"};
		return -EDQUOT;
	}
	*used += bytes;
	account->bytes += bytes;
	return 0;
}

void
quota_release(struct quota_account *account, uint64_t *used, uint64_t bytes)
{
	*used -= bytes;
	account->bytes -= bytes;
}

int
quota_charge_own(const struct quota *quota, struct quota_account *account, uint64_t bytes,
		 struct quota_limit *limit)
{
	uint64_t none = 0;
	int error;

	if (account->own > quota->max_own_per_uid || bytes > quota->max_own_per_uid - account->own) {
		*limit = (struct quota_limit){quota->max_own_per_uid, ONE_LIMIT_MEMORY};
		return -EDQUOT;
	}
	error = quota_charge(quota, account, &none, UINT64_MAX, bytes, limit);
	if (error == 0)
		account->own += bytes;
	return error;
}

void
quota_release_own(struct quota_account *account, uint64_t bytes)
{
	account->own -= bytes;
	account->bytes -= bytes;
}

static const char *
raised_by(enum quota_common what)
{
	switch (what) {
	case QUOTA_MAPPINGS:
		return ONE_LIMIT_MAPPINGS;
	case QUOTA_CHANNELS:
	case QUOTA_MAPPABLE:
		return ONE_LIMIT_DESCRIPTORS;
	default:
		return "";
	}
}

int
quota_take(struct quota *quota, struct quota_account *account, enum quota_common what, uint32_t n,
	   struct quota_limit *limit)
{
	uint32_t all = quota->max_common[what], own = all - all / 4;

	if (account->common[what] > own || n > own - account->common[what]) {
		*limit = (struct quota_limit){own, raised_by(what)};
		return -EDQUOT;
	}
	if (quota->common[what] > all || n > all - quota->common[what]) {
		*limit = (struct quota_limit){all, raised_by(what)};
		return -EDQUOT;
	}
	account->common[what] += n;
	quota->common[what] += n;
	return 0;
}

void
quota_give(struct quota *quota, struct quota_account *account, enum quota_common what, uint32_t n)
{
	account->common[what] -= n;
	quota->common[what] -= n;
}
