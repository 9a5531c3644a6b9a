/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Limits of one user over all its attachments. An account lives until the last attachment of its uid has
 * released everything.
 *
 * Some resources are limited for all users together. Limits per attachment would not keep a user with many
 * attachments from exhausting them, so a uid may have at most three quarters.
 */
#ifndef CONTROL_QUOTA_H
#define CONTROL_QUOTA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "config/config.h"
#include "control/base/drr.h"

enum quota_common {
	QUOTA_KEYS,     /* keys of memory regions and windows */
	QUOTA_ZONES,    /* protection zones */
	QUOTA_QPNS,     /* queue pair numbers */
	QUOTA_MAPPINGS, /* mappings, which the kernel limits per process */
	QUOTA_CHANNELS, /* channels, each with a descriptor */
	QUOTA_MAPPABLE, /* files kept open for importers to map */
	QUOTA_AHS,      /* address handles */
	QUOTA_SERVICES, /* TCP ports of listeners, per port of the data plane */
	QUOTA_REQUESTS = QUOTA_SERVICES + CONFIG_PORTS_MAX, /* requests waiting for an answer, per port */
	QUOTA_COMMON = QUOTA_REQUESTS + CONFIG_PORTS_MAX
};

struct engine_user;

/* Limit that was hit, and how to raise it: struct one_limit (message.h). */
struct quota_limit {
	uint64_t value;
	const char *key;
};

struct quota_account {
	LIST_ENTRY(quota_account) link;
	uid_t uid;
	struct drr_user drr;      /* requests waiting in the DRR scheduler */
	struct engine_user *user; /* share of the cores; NULL: not attached yet */
	uint32_t clients;         /* attachments */
	uint32_t connections;     /* open connections of the socket, attached or not */
	uint32_t users;           /* references: connections, and their unfinished cleanup */
	uint64_t bytes;
	uint64_t own;     /* part of `bytes` that is the data plane's own memory */
	uint32_t leaving; /* objects being released, which still count */
	uint32_t left;    /* objects released; free-running */
	uint32_t common[QUOTA_COMMON];
};

struct quota {
	LIST_HEAD(, quota_account) accounts;
	uint32_t clients, connections;
	uint32_t max_clients, max_clients_per_uid;
	uint64_t max_bytes_per_uid, max_own_per_uid;
	uint32_t common[QUOTA_COMMON], max_common[QUOTA_COMMON];
};

/* Connections allowed beyond the limit of attachments: some may wait for others to end. */
#define QUOTA_SPARE_CONNECTIONS 16u

/* Adds a connection of the socket. NULL: too many connections, or out of memory. */
struct quota_account *quota_connect(struct quota *quota, uid_t uid);
void quota_disconnect(struct quota *quota, struct quota_account *account); /* the connection has ended */
/* Drops a connection's reference after its cleanup; true: the account is freed. */
bool quota_leave(struct quota *quota, struct quota_account *account);

/* Adds an attachment. Returns 0, or -EDQUOT with the limit. */
int quota_attach(struct quota *quota, struct quota_account *account, struct quota_limit *limit);
void quota_detach(struct quota *quota, struct quota_account *account);
/* Do ended attachments still hold resources? account->left changes when they release some. */
static inline bool
quota_is_leaving(const struct quota_account *account)
{
	return account->leaving != 0 || account->users != account->connections;
}

/* Charges bytes. Returns 0, or -EDQUOT with the limit that was hit: `max` for *used (the attachment's), or
 * the uid's. */
int quota_charge(const struct quota *quota, struct quota_account *account, uint64_t *used, uint64_t max,
		 uint64_t bytes, struct quota_limit *limit);
void quota_release(struct quota_account *account, uint64_t *used, uint64_t bytes);

/* Charges bytes of the data plane's own memory, which count in both limits of the uid. max_bytes_per_uid
 * alone could exceed the memory of the data plane's cgroup, because registered memory is the
 * application's. */
int quota_charge_own(const struct quota *quota, struct quota_account *account, uint64_t bytes,
		     struct quota_limit *limit);
void quota_release_own(struct quota_account *account, uint64_t bytes);

/* Takes `n` of a common resource. Returns 0, or -EDQUOT with the limit that was hit, the uid's or the common
 * one. */
int quota_take(struct quota *quota, struct quota_account *account, enum quota_common what, uint32_t n,
	       struct quota_limit *limit);
void quota_give(struct quota *quota, struct quota_account *account, enum quota_common what, uint32_t n);

#endif
