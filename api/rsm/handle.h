/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles of the application, and the locks of the objects behind them.
 *
 * Lock order in librsm, outermost first:
 *   1. rsm_attach_lock
 *   2. the slot of an export, local memory handle or controller
 *   3. the slot of an import
 *   4. the slot of a local memory handle that a transfer looks up
 *   5. rsm_link.lock
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
#include "client/explain.h"
#include "rsm/calls.h"

struct rsm_link;

/* Number of forks between the first process and this one. An object with another number is foreign. */
extern _Atomic uint32_t rsm_process;

/* Serialises attaching, which may block for long, so that a controller has one attachment. */
extern pthread_mutex_t rsm_attach_lock;
/* Protects the table of pollfd.c. Innermost, like the locks of struct rsm_table. */
extern pthread_mutex_t rsm_polled_lock;
/* Registers the fork handlers once. Must precede the first use of any lock here. */
void rsm_watch_forks(void);

/* Relaxed: a child stores the number before it has a second thread, so fork orders it. */
static inline uint32_t
rsm_this_process(void)
{
	return one_load_alone(&rsm_process);
}

/* Head of every object. Its memory is never freed, so that stale handles can be checked. */
struct rsm_slot {
	pthread_mutex_t lock;
	_Atomic uint32_t process;
	STAILQ_ENTRY(rsm_slot) next_free;
	uint16_t generation;
	bool live;
	_Atomic(struct rsm_link *) polled_by; /* whose pump serves the poll descriptor; NULL: none */
};

#define RSM_SLOT_SIZE 1024u
#define RSM_SLOTS 65536u

struct rsm_table {
	pthread_mutex_t lock;
	_Atomic(uint8_t *) base;
	_Atomic uint32_t used; /* slots ever allocated */
	STAILQ_HEAD(, rsm_slot)
	free; /* FIFO: delays reuse, so that stale handles stay detectable for long */
};

extern struct rsm_table rsm_controllers, rsm_exports, rsm_imports, rsm_localmems;

/* Address of slot 0. NULL before the first allocation, constant afterwards. Pairs with the release store in
 * rsm_slot_new(). */
static inline uint8_t *
rsm_table_base(struct rsm_table *table)
{
	return atomic_load_explicit(&table->base, memory_order_acquire);
}

/* Number of slots with an initialised lock. Pairs with the release store in rsm_slot_new(). */
static inline uint32_t
rsm_table_used(struct rsm_table *table)
{
	return atomic_load_explicit(&table->used, memory_order_acquire);
}

/* True if an ancestor of this process made the object. Relaxed: `process` is stored before the slot is
 * published, and again before its reuse. */
static inline bool
rsm_slot_foreign(const struct rsm_slot *slot)
{
	return one_load_alone(&slot->process) != rsm_this_process();
}

enum rsm_found {
	RSM_NONE,   /* not a live handle */
	RSM_LIVE,   /* locked */
	RSM_FOREIGN /* made by an ancestor of this process: not locked, read only */
};

/* Allocates a zeroed object, not live and not locked. NULL: no memory, or RSM_SLOTS in use. */
void *rsm_slot_new(struct rsm_table *table);
/* Makes the object live and returns its handle. */
void *rsm_slot_publish(void *object);
void *rsm_slot_handle(const void *object);
enum rsm_found rsm_slot_lock(struct rsm_table *table, const void *handle, void **object);
/* Locks and returns object number `index` if it is live and of this process; else NULL. */
void *rsm_slot_at(struct rsm_table *table, uint32_t index);
/* Unlocks an object that rsm_slot_lock() or rsm_slot_at() returned. A foreign object is left alone. */
void rsm_slot_unlock(void *object);
/* Handle of object number `index` if the object is live and `link` serves its poll descriptor; else NULL. */
void *rsm_slot_polled(struct rsm_table *table, uint32_t index, struct rsm_link *link);
/* Ends an object that rsm_slot_lock() found, and unlocks it. Its handles are stale from now on. */
void rsm_slot_retire(struct rsm_table *table, void *object);
/* Frees an object that was never published. */
void rsm_slot_drop(struct rsm_table *table, void *object);

#endif
