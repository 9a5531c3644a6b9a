/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Handles.  A DAT handle of ours is the address of a 64-byte slot in one reserved range of addresses.  So any
 * value that an application passes can be checked by range, alignment and type without touching memory that
 * is not ours.  The first word of a slot points to the provider table, as DAT's redirection requires.  A
 * freed slot is reused only after many others, so that stale handles are detected.
 *
 * In a child after fork the parent's handles are invalid: threads that do not exist in the child may hold
 * their objects' locks.
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
#define HANDLE_INHERITED 0x100u  /* type of the parent's IAs in a child after fork */
#define HANDLE_REUSE_AFTER 4096u /* number of freed slots from which the oldest is reused */

struct handle_slot {
	const DAT_PROVIDER *provider;
	_Atomic(void *) object;
	_Atomic uint32_t type; /* DAT_HANDLE_TYPE + 1, HANDLE_INHERITED, or 0: free */
	uint32_t generation;   /* number of uses of this slot; only for debugging */
	_Atomic uint64_t context;
	struct handle_slot *next_free;
	uint8_t pad[24];
};
_Static_assert(sizeof(struct handle_slot) == HANDLE_SLOT, "handle_slot");

/* Written under the allocator's lock.  `limit` only grows; slots below it are mapped. */
struct handle_range {
	_Atomic uintptr_t base;
	_Atomic uintptr_t limit; /* bytes */
	/* The exported calls pass handles below it directly to our functions.  Equal to `limit`; with
	 * ONESIDE_DEBUG 0, so that every call takes the path that explains refusals, and the direct path need
	 * not test for ONESIDE_DEBUG. */
	_Atomic uintptr_t direct;
};
extern struct handle_range handle_range;

static inline struct handle_slot *
handle_below(DAT_HANDLE handle, const _Atomic uintptr_t *end)
{
	/* Pairs with the release stores in fresh_slot: the base is set, the slots are mapped. */
	uintptr_t limit = atomic_load_explicit(end, memory_order_acquire);
	uintptr_t offset = (uintptr_t)handle - atomic_load_explicit(&handle_range.base, memory_order_relaxed);

	return offset < limit && offset % HANDLE_SLOT == 0 ? handle : NULL;
}

static inline struct handle_slot *
handle_slot(DAT_HANDLE handle)
{
	return handle_below(handle, &handle_range.limit);
}

/* Returns the object if `handle` is a live handle of this type, else NULL. */
static inline void *
handle_object(DAT_HANDLE handle, DAT_HANDLE_TYPE type)
{
	struct handle_slot *slot = handle_slot(handle);

	/* Pairs with the release store in handle_new: the object is complete. */
	if (slot == NULL || atomic_load_explicit(&slot->type, memory_order_acquire) != (uint32_t)type + 1)
		return NULL;
	return atomic_load_explicit(&slot->object, memory_order_relaxed);
}

/* Returns DAT_HANDLE_TYPE + 1 of a live handle of ours, else 0. */
static inline uint32_t
handle_kind(DAT_HANDLE handle)
{
	struct handle_slot *slot = handle_slot(handle);
	/* Pairs with the release store in handle_new. */
	uint32_t type = slot != NULL ? atomic_load_explicit(&slot->type, memory_order_acquire) : 0;

	return type != HANDLE_INHERITED ? type : 0;
}

static inline struct handle_slot *
handle_live(DAT_HANDLE handle)
{
	return handle_kind(handle) != 0 ? handle : NULL;
}

/* Returns DAT_HANDLE_NULL without memory. */
DAT_HANDLE handle_new(const DAT_PROVIDER *provider, DAT_HANDLE_TYPE type, void *object);
void handle_free(DAT_HANDLE handle);
/* Invalidates a handle of an IA that was inherited by fork; false: `handle` is none. */
bool handle_forget(DAT_HANDLE handle);

#endif
