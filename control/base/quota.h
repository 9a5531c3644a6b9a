/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What one user may hold, over all its attachments.  An account lives until the
 * last attachment of its uid has given everything back.
 *
 * Some things there are only so many of for all together.  The limits of an attachment do not keep a user
 * with many from taking the last of them, so of those a uid may have three quarters at most.
 */
#ifndef CONTROL_QUOTA_H
#define CONTROL_QUOTA_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "config/config.h"
#include "control/base/turns.h"

enum quota_common {
	QUOTA_KEYS,     /* of memory regions and windows */
	QUOTA_ZONES,    /* protection zones */
	QUOTA_QPNS,     /* queue pair numbers */
	QUOTA_MAPPINGS, /* that the kernel allows a process */
	QUOTA_CHANNELS, /* with a descriptor */
	QUOTA_MAPPABLE, /* files that are kept open for importers to map */
	QUOTA_AHS,      /* address handles */
	QUOTA_SERVICES, /* TCP ports to listen on, of each port of the data plane */
	QUOTA_REQUESTS = QUOTA_SERVICES + CONFIG_PORTS_MAX, /* that wait for an answer, at each port */
	QUOTA_COMMON = QUOTA_REQUESTS + CONFIG_PORTS_MAX
};

struct engine_user;

/* A limit that was met, and what raises it: struct one_limit (message.h). */
struct quota_limit {
	uint64_t value;
	const char *key;
};

struct quota_account {
	LIST_ENTRY(quota_account) link;
	uid_t uid;
	struct turns_user turns;  /* its requests that wait */
	struct engine_user *user; /* its share of the cores; NULL: it has not attached yet */
	uint32_t clients;         /* attachments */
	uint32_t connections;     /* of the socket, attached or not; not those that have ended */
	uint32_t users;           /* what refers to the account: connections, and ends that are not over */
	uint64_t bytes;
	uint64_t own;     /* of those, what is the data plane's own memory */
	uint32_t leaving; /* what is on its way out, and still counts */
	uint32_t left;    /* and what has gone; free-running */
	uint32_t common[QUOTA_COMMON];
};

struct quota {
	LIST_HEAD(, quota_account) accounts;
	uint32_t clients, connections;
	uint32_t max_clients, max_clients_per_uid;
	uint64_t max_bytes_per_uid, max_own_per_uid;
	uint32_t common[QUOTA_COMMON], max_common[QUOTA_COMMON];
};

/* More connections of the socket than attachments: they may be waiting for each other to end. */
#define QUOTA_SPARE_CONNECTIONS 16u

/* A connection of the socket: the account, or NULL when there are too many (or no memory). */
struct quota_account *quota_connect(struct quota *quota, uid_t uid);
void quota_disconnect(struct quota *quota, struct quota_account *account); /* it has ended; */
/* And nothing is left of it; true: the account is no more. */
bool quota_leave(struct quota *quota, struct quota_account *account);

/* An attachment: 0, or -EDQUOT with the limit. */
int quota_attach(struct quota *quota, struct quota_account *account, struct quota_limit *limit);
void quota_detach(struct quota *quota, struct quota_account *account);
/* Whether something of its attachments that have ended still counts; account->left changes when it goes. */
static inline bool
quota_is_leaving(const struct quota_account *account)
{
	return account->leaving != 0 || account->users != account->connections;
}

/* Bytes: 0, or -EDQUOT with the limit that was met: `max` for *used (the attachment's), or the uid's. */
int quota_charge(const struct quota *quota, struct quota_account *account, uint64_t *used, uint64_t max,
		 uint64_t bytes, struct quota_limit *limit);
void quota_release(struct quota_account *account, uint64_t *used, uint64_t bytes);

/*
 * Bytes of the data plane's own memory, which counts in both limits of the uid.
 * The first lets an application register more memory, which is its own, than the data plane's cgroup has.
 */
int quota_charge_own(const struct quota *quota, struct quota_account *account, uint64_t bytes,
		     struct quota_limit *limit);
void quota_release_own(struct quota_account *account, uint64_t bytes);

/* `n` of what there is for all: 0, or -EDQUOT with the limit that was met, the uid's or that of all. */
int quota_take(struct quota *quota, struct quota_account *account, enum quota_common what, uint32_t n,
	       struct quota_limit *limit);
void quota_give(struct quota *quota, struct quota_account *account, enum quota_common what, uint32_t n);

#endif
