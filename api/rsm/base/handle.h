/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the application's handles mean, and the locks of what they mean.
 *
 * Locks of librsm, outer first: rsm_attach_lock, a slot of an export, local memory handle or
 * controller, a slot of an import, a slot of a local memory handle looked at by a transfer, rsm_link.lock.
 */
#ifndef RSM_HANDLE_H
#define RSM_HANDLE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <rsmapi.h>

#include "client/order.h"
#include "client/tell.h"
#include "rsm/base/calls.h"

struct rsm_link;

/* Counts the forks above this process: an object of another process is foreign here. */
extern _Atomic uint32_t rsm_process;

/* Serialises attaching, which may take a while: one attachment a controller. */
extern pthread_mutex_t rsm_attach_lock;
extern pthread_mutex_t rsm_polled_lock; /* the table of pollfd.c; innermost, as those of struct rsm_table */
/* Once, before any of the locks is taken. */
void rsm_watch_forks(void);

/* Stored in a child before it has a second thread, so fork itself orders it. */
static inline uint32_t
rsm_this_process(void)
{
	return one_load_alone(&rsm_process);
}

/* Head of every object.  Its memory is never given back, so a stale handle can be looked at. */
struct rsm_slot {
	pthread_mutex_t lock;
	_Atomic uint32_t process;
	STAILQ_ENTRY(rsm_slot) next_free;
	uint16_t generation;
	bool live;
	_Atomic(struct rsm_link *) polled_by; /* whose pump looks after it: it has a poll descriptor */
};

#define RSM_SLOT_SIZE 1024u
#define RSM_SLOTS 65536u

struct rsm_table {
	pthread_mutex_t lock;
	_Atomic(uint8_t *) base;
	_Atomic uint32_t used; /* slots that were ever given out */
	STAILQ_HEAD(, rsm_slot)
	free; /* first freed, first used again: a stale handle stays detectable for long */
};

extern struct rsm_table rsm_controllers, rsm_exports, rsm_imports, rsm_localmems;

/* NULL until the first slot is given out, then the same for ever.  Pairs with the release store in
 * rsm_slot_new. */
static inline uint8_t *
rsm_table_base(struct rsm_table *table)
{
	return atomic_load_explicit(&table->base, memory_order_acquire);
}

/* Slots below it have a lock.  Pairs with the release store in rsm_slot_new. */
static inline uint32_t
rsm_table_used(struct rsm_table *table)
{
	return atomic_load_explicit(&table->used, memory_order_acquire);
}

/* Made by an ancestor of this process.  Stored before the slot is published, and again for its reuse. */
static inline bool
rsm_slot_foreign(const struct rsm_slot *slot)
{
	return one_load_alone(&slot->process) != rsm_this_process();
}

enum rsm_found {
	RSM_NONE,   /* not a live handle */
	RSM_LIVE,   /* locked */
	RSM_FOREIGN /* made by an ancestor of this process: not locked, to be looked at only */
};

/* A zeroed object of this process, not live, not locked; NULL when there is no room. */
void *rsm_slot_new(struct rsm_table *table);
/* Makes it live; returns its handle. */
void *rsm_slot_publish(void *object);
void *rsm_slot_handle(const void *object);
enum rsm_found rsm_slot_lock(struct rsm_table *table, const void *handle, void **object);
/* Object number `index`, locked, when it is live and of this process; else NULL. */
void *rsm_slot_at(struct rsm_table *table, uint32_t index);
/* What rsm_slot_lock found, of either kind. */
void rsm_slot_unlock(void *object);
/* The handle of object number `index`, when that is live and `link` looks after its descriptor. */
void *rsm_slot_polled(struct rsm_table *table, uint32_t index, struct rsm_link *link);
/* Ends an object that rsm_slot_lock found, and unlocks it: handles to it are stale from now on. */
void rsm_slot_retire(struct rsm_table *table, void *object);
/* Gives back one that was never published. */
void rsm_slot_drop(struct rsm_table *table, void *object);

#endif
