/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the client core share among themselves. */
#ifndef CLIENT_INTERNAL_H
#define CLIENT_INTERNAL_H

#include <pthread.h>
#include <sys/queue.h>

#include "client/attach.h"
#include "client/mem.h"
#include "client/wait.h"

/* A data plane whose control thread does not run for so long, while a request waits, is given up.  The
 * first is the time limit of the socket. */
#define ONE_SILENCE_S 5
#define ONE_SILENCE_MAX_S 30

struct copier;  /* copier.h */
struct mem_use; /* mem.c */

struct one_client {
	int sock;
	int arena_fd;
	int wake_fd;
	uint8_t *arena;
	struct one_arena *header;
	struct one_channel *channels;
	struct one_doorbells *doorbells;
	struct one_keys *keys;
	struct one_welcome info;

	_Atomic bool dead;    /* set once, before all sleepers are woken */
	_Atomic bool foreign; /* in a child after fork: the attachment is the parent's */

	/* Requests on the socket; call.c.  The lock guards what follows. */
	pthread_mutex_t call_lock;
	pthread_cond_t call_room; /* there are fewer calls, or the attachment is dead */
	LIST_HEAD(, pending_call) calls;
	uint32_t num_calls, num_slow_calls, call_waiters;
	uint32_t seq;
	bool receiving;      /* a thread receives replies, for all calls */
	uint32_t silences;   /* times that the receiver waited for ONE_SILENCE_S without a reply or life */
	uint32_t alive_seen; /* the last value of one_arena.control_alive */

	pthread_mutex_t channel_lock;
	uint64_t channel_used[ONE_CHANNELS / 64];

	void (*lost)(void *user);
	void *user;
	bool restarts; /* of one_attach */

	/* watcher.c */
	struct one_client *next;
	bool watched; /* still in the watcher's poll set */

	/* mem.c; under its lock */
	struct mem_use *uses;
	uint32_t reclaimed;    /* one_arena.reclaimed, as it was seen last */
	struct copier *copier; /* NULL: there is no copy thread */
};

/* In a child after fork: set before the child has a second thread, so fork itself orders it. */
static inline bool
client_foreign(const struct one_client *client)
{
	return one_load_alone(&client->foreign);
}

/* ---- call.c ---- */

/* One request and its reply on a socket that nobody else uses.  Takes up to *num_got descriptors that come
 * with the reply; others are closed.  0, or -errno when there is no (sane) reply. */
int call_exchange(int sock, struct one_msg *msg, struct one_reply *reply, int *got, uint32_t *num_got);
/* As struct one_keys says; one thread at a time.  0; -EAGAIN: refused; -ECONNRESET, -ECHILD. */
int call_key(struct one_client *client, enum one_key_op op, uint32_t key, uint32_t next);
/* Ends the attachment from this side: the watcher notices and does the rest. */
void client_fail(struct one_client *client);
/* 0, -ECHILD, -ECONNRESET. */
int client_check(const struct one_client *client);

/* ---- attach.c ---- */

/* one_attach() and one_detach() without what forks and registered memory want (life/attach.c). */
int client_attach(const struct one_attach *args, struct one_client **out);
void client_detach(struct one_client *client);

/* The two parts of a completion ring. */
bool client_cq_ring(const struct one_client *client, uint64_t offset, uint32_t log2, struct one_cq_shm **shm,
		    struct one_cqe **ring);
/* In a child after fork: gives up the parent's descriptors and rings. */
void client_disown(struct one_client *client);

/* ---- watcher.c ---- */

/* A small thread of the library's own, which runs no signal handlers of the application. */
int client_thread(pthread_t *thread, void *(*run)(void *), void *argument);
/* The same on a stack of `size` bytes that was made for it: not one that the C library hands on from another
 * thread, and that may be adopted.  *stack: to be unmapped when the thread has been joined. */
int client_thread_apart(pthread_t *thread, size_t size, void *(*run)(void *), void *argument, void **stack);
int watcher_add(struct one_client *client);
/* Afterwards `lost` is not running and will not be called. */
void watcher_remove(struct one_client *client);
bool watcher_running(void);
/* Around fork; see fork.c. */
void watcher_fork_prepare(void);
void watcher_fork_parent(void);
void watcher_fork_child(void);

/* ---- wait.c ---- */

void wait_wake_all(struct one_client *client);

/* ---- fork.c ---- */

int fork_install(void);

/* ---- mem.c ---- */

/* Deregisters all that `client` has. */
void mem_release_all(struct one_client *client);
void mem_fork_child(void);

#endif
