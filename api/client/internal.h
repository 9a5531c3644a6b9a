/* SPDX-License-Identifier: BSD-3-Clause */
/* Declarations shared by the files of the client core. */
#ifndef CLIENT_INTERNAL_H
#define CLIENT_INTERNAL_H

#include <pthread.h>
#include <sys/queue.h>

#include "client/attach.h"
#include "client/mem.h"
#include "client/wait.h"

/* Silence of a control thread while a request waits: seconds after which the receiver looks for life (the
 * socket's time limit), and seconds after which the data plane is given up. */
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

	/* Requests on the socket; call.c. The lock guards the fields up to channel_lock. */
	pthread_mutex_t call_lock;
	pthread_cond_t call_room; /* signalled when the number of calls drops or the attachment is dead */
	LIST_HEAD(, pending_call) calls;
	uint32_t num_calls, num_slow_calls, call_waiters;
	uint32_t seq;
	bool receiving;      /* one thread is receiving replies, for all calls */
	uint32_t silences;   /* waits of ONE_SILENCE_S without a reply or a sign of life */
	uint32_t alive_seen; /* last value seen of one_arena.control_alive */

	pthread_mutex_t channel_lock;
	uint64_t channel_used[ONE_CHANNELS / 64];

	void (*lost)(void *user);
	void *user;
	bool restarts; /* one_attach.restarts */

	/* watcher.c */
	struct one_client *next;
	bool watched; /* still in the watcher's poll set */

	/* mem.c; guarded by its lock */
	struct mem_use *uses;
	uint32_t reclaimed;    /* last value seen of one_arena.reclaimed */
	struct copier *copier; /* NULL: there is no copy thread */
};

/* `foreign` is set in a child after fork, before the child has a second thread, so fork itself orders it. */
static inline bool
client_foreign(const struct one_client *client)
{
	return one_load_alone(&client->foreign);
}

/* ---- call.c ---- */

/* Exchanges one request and its reply on a socket that no other thread uses. Stores up to *num_got
 * descriptors of the reply; others are closed. Returns 0, or -errno when there is no (sane) reply. */
int call_exchange(int sock, struct one_msg *msg, struct one_reply *reply, int *got, uint32_t *num_got);
/* Carries out one request of struct one_keys; one thread at a time. 0; -EAGAIN: refused; -ECONNRESET,
 * -ECHILD. */
int call_key(struct one_client *client, enum one_key_op op, uint32_t key, uint32_t next);
/* Ends the attachment from this side, and prints that it has ended; the watcher notices and cleans up. */
void client_fail(struct one_client *client);
/* Returns 0, -ECHILD or -ECONNRESET. */
int client_check(const struct one_client *client);

/* ---- attach.c ---- */

/* one_attach() and one_detach() without the handling of forks and registered memory (adopt/fork.c). */
int client_attach(const struct one_attach *args, struct one_client **out);
void client_detach(struct one_client *client);

/* Finds header and entries of a completion ring in the arena; false: not inside. */
bool client_cq_ring(const struct one_client *client, uint64_t offset, uint32_t log2, struct one_cq_shm **shm,
		    struct one_cqe **ring);
/* In a child after fork: gives up the parent's descriptors and rings. */
void client_disown(struct one_client *client);

/* ---- watcher.c ---- */

/* Creates a thread of the library with a small stack, which runs no signal handlers of the application. */
int client_thread(pthread_t *thread, void *(*run)(void *), void *argument);
/* client_thread on a new stack of `size` bytes. The C library may reuse the stack of an ended thread, which
 * may be adopted; this one is never reused. *stack: to be unmapped after the thread is joined. */
int client_thread_apart(pthread_t *thread, size_t size, void *(*run)(void *), void *argument, void **stack);
int watcher_add(struct one_client *client);
/* Makes one_client_dead() true. Whoever calls it first prints that the attachment has ended. */
void client_mark_dead(struct one_client *client);
/* When this returns, `lost` is not running and will not be called. */
void watcher_remove(struct one_client *client);
bool watcher_running(void);
/* Called around fork; see fork.c. */
void watcher_fork_prepare(void);
void watcher_fork_parent(void);
void watcher_fork_child(void);

/* ---- wait.c ---- */

void wait_wake_all(struct one_client *client);

/* ---- mem.c ---- */

/* Deregisters all memory of `client`. */
void mem_release_all(struct one_client *client);
void mem_fork_child(void);

#endif
