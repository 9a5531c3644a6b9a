/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An attachment and its objects.
 *
 * Handlers carry out the requests of an attachment, one at a time.  A handler that must wait returns
 * REQUEST_LATER, and client_reply() follows later.  A handler that waits for the network first suspends its
 * request (client_suspend()), so that the next request can begin.  A handler that returns REQUEST_AGAIN has
 * done nothing, and is called again when the user has released something.
 */
#ifndef CONTROL_ATTACH_CLIENT_H
#define CONTROL_ATTACH_CLIENT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/types.h>

#include "abi/arena.h"
#include "abi/message.h"
#include "control/attach/object.h"
#include "control/attach/worker.h"
#include "control/base/acl.h"
#include "control/base/arena.h"
#include "control/base/loop.h"
#include "dataplane/engine.h"
#include "dataplane/mem/bounce.h"

/* ---- extents.c: memory in an attachment's arena, charged until its pages are gone ---- */
/* Freed extents of the arena whose pages are not gone yet.  `freed` has room for every allocated extent. */
struct freed_extents {
	struct job job;          /* punches `now` */
	struct arena_extent now; /* extent being punched */
	uint64_t punched;        /* bytes of `now` punched so far */
	bool busy;
	struct arena_extent *freed;
	uint32_t num, cap;
};

/* Allocates zeroed, populated memory, on which a core does not fault.  Returns 0, or the refusal: -EDQUOT,
 * -ENOSPC, -ENOMEM.  The request that fails for this reason is retried if memory of its user is being
 * released. */
int client_alloc(struct client *client, uint64_t size, uint64_t *offset);
void client_free(struct client *client, uint64_t offset, uint64_t size);
/* Makes room in `freed` for every allocated extent and one more, so that freeing cannot fail.  Returns 0 or
 * -ENOMEM. */
int extents_reserve(struct client *client);
void extents_fini(struct freed_extents *extents); /* the arena is unmapped as a whole */

/* ---- requests and states ---- */
#define REQUEST_LATER INT_MAX
#define REQUEST_AGAIN (INT_MAX - 1)

enum {
	CLIENT_CRS_MAX = 4096,  /* unanswered connection requests of an attachment */
	CLIENT_HELLO_MS = 5000, /* time limit for the first message */
	CLIENT_SLICE = 32,      /* objects processed per slice (client_slice()) */
	ASYNC_CQ_LOG2 = 8,
};

struct mapping;
struct path_port;

enum client_state {
	CLIENT_CONNECTED, /* no HELLO yet */
	CLIENT_ATTACHED,
	CLIENT_LEAVING,   /* ended: objects are unhooked; work under way finishes */
	CLIENT_REMOVING,  /* cores release queue pairs and rings */
	CLIENT_QUIESCING, /* keys are removed; a grace period runs */
	CLIENT_GONE       /* objects are freed: no core refers to them */
};

/* The request in client.msg, or why there is none. */
enum client_request {
	CLIENT_REQUEST_NONE,
	CLIENT_REQUEST_HELD,  /* not read until descriptors of the user are closed */
	CLIENT_REQUEST_TAKEN, /* under way, or waits in the DRR scheduler */
	CLIENT_REQUEST_FAILED /* for something that is being released: retried when account->left changes */
};

struct client {
	enum client_state state;
	enum client_request request;
	int fd, pidfd;
	struct watch fd_watch, pid_watch;
	pid_t pid;
	uint32_t uid; /* of the process when it connected; charged for all resources */
	uint64_t hello_deadline;
	uint32_t number; /* names the attachment in telemetry and traces */
	uint32_t kind;   /* enum one_kind */
	char program[32];
	struct path_port *port;
	struct quota_account *account;
	bool labelled; /* has metrics of its own, see client_totals */

	bool paused;   /* epoll does not report requests until the one under way is answered */
	bool starved;  /* the request failed for memory that is being released */
	uint32_t left; /* account->left after the last try */
	struct one_msg msg;
	struct drr_item turn;                 /* schedules the request, or `slice` */
	bool (*slice)(struct client *client); /* work done in several slices; NULL: none */
	uint64_t asked_at;                    /* arrival of the request */
	struct one_reply reply;
	struct ucred sender; /* of the request, verified by the kernel; the sender's rights apply */
	int fds[ONE_MSG_FDS];
	uint32_t num_fds;

	struct arena arena;
	struct freed_extents extents;
	struct mapping *arena_mapping; /* unmaps the arena at the end */
	struct arena_slabs slabs;
	uint32_t suspended; /* requests suspended by client_suspend() */
	uint64_t shown_at;  /* time of the next change of one_arena.control_alive */
	int reply_fd;       /* sent with the next reply; -1: none */
	int wake_fd;
	struct engine_client *engine; /* the first lane; NULL: no core has the attachment */
	uint32_t next_core;           /* next core, for placement = next */
	struct table table[OBJECT_KINDS];
	struct cq *async_cq;
	uint32_t placed_qps;    /* queue pairs that have a core */
	uint32_t other_cqs;     /* completion queues in use, but not for requests */
	struct bounce *bounce;  /* NULL: no copy thread */
	uint64_t copies_offset; /* offset of the first lane's struct one_copies */
	uint64_t copies_last;   /* offset of the struct one_copies that was added last */
	uint64_t mapped, staged, requests;
	uint64_t arena_charged; /* 0: not counted as an attachment in the quota */
	LIST_HEAD(, segment) segment_list;
	LIST_HEAD(, conn) timewaits; /* connections whose end of time-wait is reported here */
	uint32_t segments;
	uint32_t listening;                  /* listeners that accept requests */
	uint32_t exports;                    /* queue pairs created here by importers */
	uint32_t importer_fds;               /* descriptors of regions kept for importers */
	TAILQ_HEAD(, region) cached_regions; /* cached regions, see mr_cache.c */
	TAILQ_HEAD(mr_list, mr) renewable_mrs;
	struct object *leaving;            /* object that the request under way frees; NULL: none */
	struct bounce_marks leaving_marks; /* accesses that must be done before `leaving` is freed */
	uint64_t copies_at;                /* time of the next check for unanswered accesses */

	uint32_t commands, jobs;      /* commands sent to cores; grace periods and jobs under way */
	uint32_t end_kind, end_place; /* next object in the current state of the end */
	struct lane lane;
	TAILQ_ENTRY(client) link;
};

/* ---- client_state.c: only writer of an attachment's states; `why` is for the trace ---- */
void client_state_set(struct client *client, enum client_state to, const char *why);
void client_request_set(struct client *client, enum client_request to);
const char *client_state_name(const struct client *client);

/* Metrics of attachments.  To bound label cardinality, at most CLIENT_LABELS live attachments are labelled;
 * the others, and those of them that have ended, are summed. */
#define CLIENT_LABELS 64u
struct client_totals {
	uint32_t labelled;
	uint64_t requests, copied;           /* of ended attachments without a label */
	struct latency latency[ONE_MSG_MAX]; /* of all answered requests, by enum one_msg_type */
};
extern struct client_totals client_totals;

/* ---- client.c ---- */
void client_accept(int fd);
/* Admits a connection whose process `pidfd` is, or that has to be found (-1); `inherited`: another process
 * still uses it.  NULL: refused, and both are closed. */
struct client *client_admit(int fd, int pidfd, bool inherited);
/* Takes a number that another process has given; later clients get higher ones. */
void client_take_number(struct client *client, uint32_t number);
void client_kill(struct client *client, uint32_t fault, const char *reason);
/* Answers the request under way. */
void client_reply(struct client *client, int error);
/* Calls `slice` through the DRR scheduler until it returns true or the client ends: for work in proportion to
 * the number of a user's objects. */
void client_slice(struct client *client, bool (*slice)(struct client *client));
/* Stores the refusal in the reply, and returns `error`, so that a handler can return the call. */
int client_refuse(struct client *client, int error, enum one_subject subject, uint64_t value);
/* Refuses with -EDQUOT and the limit's key; without the key if the limit has the key's highest value. */
int client_refuse_limit(struct client *client, const struct quota_limit *limit);
static inline bool
client_alive(const struct client *client)
{
	return client->state == CLIENT_ATTACHED;
}
void clients_poll(void); /* deadlines, retries, ends */
uint64_t clients_deadline(void);
/* Returns descriptor `i` of the request under way, which the caller then owns; -1: none. */
int client_take_fd(struct client *client, uint32_t i);
int client_fd(const struct client *client, uint32_t i); /* still the request's */

/* ---- server.c: the listening socket ---- */
int server_open(const struct config *config, char *why, size_t why_len);
void server_close(void);
void server_poll(void); /* accepts connections again, once few are left to close */

/* ---- client.c: requests that wait ---- */
/* A request that waits for the network while later requests of the attachment are carried out. */
struct suspended_request {
	uint32_t type, seq;
	uint64_t asked_at;
};

/* Suspends the request under way, whose handler then returns REQUEST_LATER.  The object of the request stays
 * busy. */
void client_suspend(struct client *client, struct suspended_request *suspended);
/* Answers a suspended request.  `reply` has the error, subject and value, or the result. */
void client_reply_suspended(struct client *client, const struct suspended_request *suspended,
			    struct one_reply *reply);

/* ---- copies.c: bounced accesses, as the control thread sees them ---- */
int copies_start(struct client *client, const struct one_msg *msg);
/* Makes the copy thread, if there is one, serve the lane.  Returns 0, or the refusal. */
int copies_add_lane(struct client *client, struct engine_client *lane);
/* Frees the registration or window, and answers the request under way, when no access begun before is under
 * way. */
void copies_drain(struct client *client, struct object *object);
void copies_poll(struct client *client);
uint64_t copies_deadline(const struct client *client);

/* ---- user.c: users' shares of the cores, as configured ---- */
#define USERS_DEBTORS 256u /* users without attachments whose debt is stored */

/* Returns the user of all attachments of an account, created with the first.  NULL: no memory. */
struct engine_user *user_of(struct quota_account *account);
/* Drops a reference to the account (quota_leave()), and frees or stores its user with the last. */
void user_leave(struct quota_account *account);
void users_fini(void); /* call after all attachments have ended */
/* Applies the present configuration to all users with attachments. */
void users_put_in_force(void);

/* ---- work.c: commands to the cores, and grace periods; the calls run no callbacks ---- */
typedef void command_done(struct engine_command *command, void *object);
/* Returns a command, never NULL.  `done` NULL: the acknowledgement does not wake the control thread.  The
 * client is not freed before the acknowledgement. */
struct engine_command *command_new(struct client *client, enum engine_command_type type, command_done *done,
				   void *object);
void command_send(struct engine_command *command);
/* Calls `done` (NULL: nothing) after every core has passed a quiescent state.  The client is not freed
 * before. */
typedef void grace_done(struct client *client, void *object);
void grace_defer(struct client *client, grace_done *done, void *object);
/* Frees a memory key's entry when no core can access it any more. */
void entry_retire(struct client *client, struct mem_region *entry);
uint64_t work_deadline(void);
void work_poll(void);
void work_init(void);

#endif
