/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An attachment and its objects.
 *
 * Handlers carry out the requests of clients, one after the other.  One that must wait returns REQUEST_LATER
 * and calls client_reply() later; one that waits for the network parks its request first (parked.h), and the
 * next one begins.  REQUEST_AGAIN: nothing was done; it is called again when the user has freed something.
 */
#ifndef CONTROL_ATTACH_CLIENT_H
#define CONTROL_ATTACH_CLIENT_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "abi/arena.h"
#include "abi/message.h"
#include "control/attach/object.h"
#include "control/attach/parts.h"
#include "control/attach/worker.h"
#include "control/base/acl.h"
#include "control/base/arena.h"
#include "control/base/small.h"
#include "control/loop/loop.h"
#include "dataplane/engine.h"
#include "dataplane/mem/reach.h"

#define REQUEST_LATER INT_MAX
#define REQUEST_AGAIN (INT_MAX - 1)

enum {
	CLIENT_CRS_MAX = 4096,  /* connection requests not yet answered, of one attachment */
	CLIENT_HELLO_MS = 5000, /* for the first message */
	CLIENT_SLICE = 32,      /* objects in one turn */
	ASYNC_CQ_LOG2 = 8,
};

struct mapping;
struct path_port;

enum client_state {
	CLIENT_CONNECTED, /* HELLO has not come */
	CLIENT_ATTACHED,
	CLIENT_LEAVING,   /* gone: what is under way comes to an end; everything is unhooked from the world */
	CLIENT_REMOVING,  /* the core lets go of queue pairs and rings */
	CLIENT_QUIESCING, /* keys are removed; a grace period runs */
	CLIENT_GONE       /* nothing refers to it */
};

struct client {
	enum client_state state;
	int fd, pidfd;
	struct watch fd_watch, pid_watch;
	pid_t pid;
	uint32_t uid; /* of the process when it connected; charged for all it has */
	uint64_t hello_deadline;
	uint32_t number; /* what telemetry calls it */
	uint32_t kind;   /* enum one_kind */
	char program[32];
	struct path_port *port;
	struct quota_account *account;
	bool attached; /* counts as an attachment in the quota */
	bool labelled; /* is told of by itself, see client_totals */

	bool held;     /* not read until descriptors of its user have been closed */
	bool paused;   /* not read until the request under way has been answered */
	bool starved;  /* a request lacks memory that is on its way out */
	bool busy;     /* a request is under way, or waits for its turn: */
	bool again;    /* which is tried again when this */
	uint32_t left; /* of its account has changed */
	struct one_msg msg;
	struct turns_item turn;               /* of that, or: */
	bool (*slice)(struct client *client); /* what takes several turns; NULL: nothing */
	uint64_t asked_at;                    /* when it came */
	struct one_reply reply;
	struct ucred sender; /* of the request, checked by the kernel: its rights count */
	int fds[ONE_MSG_FDS];
	uint32_t num_fds;

	struct arena arena;
	struct parts parts;
	struct mapping *arena_mapping; /* how it goes at the end */
	struct small small;
	uint32_t parked;   /* requests that client_park() has set aside */
	uint64_t shown_at; /* when show_life() has to change one_arena.control_alive */
	int reply_fd;      /* goes with the next reply; -1 */
	int wake_fd;
	struct engine_client *engine; /* the first lane */
	uint32_t next_core;           /* of placement = next */
	bool added;
	struct table table[OBJECT_KINDS];
	struct cq *async_cq;
	struct reach *reach;    /* NULL: it has no copy thread */
	uint64_t copies_offset; /* of its struct one_copies, */
	uint64_t copies_last;   /* and of that of the lane that got one last */
	uint64_t mapped, arena_charged, staged, requests;
	LIST_HEAD(, segment) segment_list;
	LIST_HEAD(, conn) timewaits; /* whose end it is told */
	uint32_t segments;
	uint32_t listening;                /* listeners that let others in */
	uint32_t exports;                  /* queue pairs that others have made here by importing */
	uint32_t kept_fds;                 /* of regions */
	TAILQ_HEAD(, region) kept_regions; /* kept.c */
	TAILQ_HEAD(mr_list, mr) renewable_mrs;
	struct object *leaving;           /* freed by the request under way: copies begun before */
	struct reach_marks leaving_marks; /* these marks are waited for */
	uint64_t copies_at;               /* when its copies are looked at */

	uint32_t commands, jobs;      /* on their way to the core; graces and jobs under way */
	uint32_t end_kind, end_place; /* the next object that this state of its end comes to */
	struct lane lane;
	TAILQ_ENTRY(client) link;
};

/* ---- client_state.c: the only writer of an attachment's state; `why`: for the trace ---- */
void client_state_set(struct client *client, enum client_state to, const char *why);
const char *client_state_name(const struct client *client);

/* Metrics of attachments.  To bound label cardinality, at most CLIENT_LABELS live attachments are labelled;
 * the rest are summed, with those of them that have ended. */
#define CLIENT_LABELS 64u
struct client_totals {
	uint32_t labelled;
	uint64_t requests, copied;           /* of attachments without a label that have ended */
	struct latency latency[ONE_MSG_MAX]; /* of all requests answered, by enum one_msg_type */
};
extern struct client_totals client_totals;

/* ---- client.c ---- */
void client_accept(int fd);
void client_kill(struct client *client, uint32_t fault, const char *reason);
/* The outcome of the request under way. */
void client_reply(struct client *client, int error);
/* For what takes long by what a user has: `slice` in its turns until it is true, or the client ends. */
void client_slice(struct client *client, bool (*slice)(struct client *client));
/* For handlers: `return client_refuse(client, -EINVAL, ONE_SUBJECT_PZ, id)`. */
int client_refuse(struct client *client, int error, enum one_subject subject, uint64_t value);
/* -EDQUOT, and what raises the limit unless it is as high as its key goes. */
int client_refuse_limit(struct client *client, const struct quota_limit *limit);
static inline bool
client_alive(const struct client *client)
{
	return client->state == CLIENT_ATTACHED;
}
void clients_poll(void); /* deadlines, ends */
uint64_t clients_deadline(void);
/* Descriptor `i` of the request under way; the caller owns it from now on; -1: there is none. */
int client_take_fd(struct client *client, uint32_t i);
int client_fd(const struct client *client, uint32_t i); /* the same, and it stays the request's */

#endif
