/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles.  A DAT handle of ours is the address of a 64-byte slot in one reserved range of addresses, so
 * any value an application passes can be judged by range, alignment and type without touching memory that
 * is not ours.  The first word of a slot is the provider table, as redirection demands.  A freed slot is
 * used again only after many others.
 *
 * In a child after fork the parent's handles are no handles any more: their
 * objects may be locked by threads that are not there.
 */
#ifndef DAT_HANDLE_H
#define DAT_HANDLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <dat/udat.h>
#include <dat/udat_redirection.h>

#define HANDLE_SLOT 64u
#define HANDLE_SLOTS_MAX (1u << 20)
#define HANDLE_INHERITED 0x100u  /* type of an IA of the parent's, in a child after fork */
#define HANDLE_REUSE_AFTER 4096u /* freed slots that wait before the first is used again */

struct handle_slot {
	const DAT_PROVIDER *provider;
	_Atomic(void *) object;
	_Atomic uint32_t type; /* DAT_HANDLE_TYPE + 1; 0: free, or HANDLE_INHERITED */
	uint32_t generation;   /* uses of this slot so far, for people with debuggers */
	_Atomic uint64_t context;
	struct handle_slot *next_free;
	uint8_t pad[24];
};
_Static_assert(sizeof(struct handle_slot) == HANDLE_SLOT, "handle_slot");

/* Written under the allocator's lock; `limit` only grows, and slots below it are mapped. */
struct handle_range {
	_Atomic uintptr_t base;
	_Atomic uintptr_t limit; /* bytes */
	/* Those below it go from the exported calls straight to ours: all, or none with ONESIDE_DEBUG, so
	 * that refusals are looked for without a look at each call. */
	_Atomic uintptr_t direct;
};
extern struct handle_range handle_range;

static inline struct handle_slot *
handle_below(DAT_HANDLE handle, const _Atomic uintptr_t *end)
{
	/* Acquire pairs with the release stores in fresh_slot: the base is set, the slots are mapped. */
	uintptr_t limit = atomic_load_explicit(end, memory_order_acquire);
	uintptr_t offset = (uintptr_t)handle - atomic_load_explicit(&handle_range.base, memory_order_relaxed);

	return offset < limit && offset % HANDLE_SLOT == 0 ? handle : NULL;
}

static inline struct handle_slot *
handle_slot(DAT_HANDLE handle)
{
	return handle_below(handle, &handle_range.limit);
}

/* The object, if `handle` is a live handle of this type; else NULL. */
static inline void *
handle_object(DAT_HANDLE handle, DAT_HANDLE_TYPE type)
{
	struct handle_slot *slot = handle_slot(handle);

	/* Acquire pairs with the release store in handle_new: the object is complete. */
	if (slot == NULL || atomic_load_explicit(&slot->type, memory_order_acquire) != (uint32_t)type + 1)
		return NULL;
	return atomic_load_explicit(&slot->object, memory_order_relaxed);
}

/* DAT_HANDLE_TYPE + 1 of any live handle of ours, else 0. */
static inline uint32_t
handle_kind(DAT_HANDLE handle)
{
	struct handle_slot *slot = handle_slot(handle);
	/* Acquire pairs with the release store in handle_new. */
	uint32_t type = slot != NULL ? atomic_load_explicit(&slot->type, memory_order_acquire) : 0;

	return type != HANDLE_INHERITED ? type : 0;
}

static inline struct handle_slot *
handle_live(DAT_HANDLE handle)
{
	return handle_kind(handle) != 0 ? handle : NULL;
}

/* DAT_HANDLE_NULL: no memory. */
DAT_HANDLE handle_new(const DAT_PROVIDER *provider, DAT_HANDLE_TYPE type, void *object);
void handle_free(DAT_HANDLE handle);
/* True if this was an IA of the parent's; it is nothing any more. */
bool handle_forget(DAT_HANDLE handle);

#endif
