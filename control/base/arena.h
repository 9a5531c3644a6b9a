/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory file shared with one attachment, and its allocator.
 *
 * The allocator's bookkeeping is private; no decision depends on the shared memory. The application can write
 * to the whole file at any time, including free extents.
 *
 * arena_punch() returns pages to the kernel. It waits while the application runs write(2) on the file,
 * possibly for ever, so the control thread must not call it. An allocation is freed once its pages are gone.
 */
#ifndef CONTROL_ARENA_H
#define CONTROL_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "abi/ring.h"

struct arena_extent {
	uint64_t offset, size;
};

struct arena {
	uint8_t *base;
	uint64_t size;
	uint64_t used;             /* bytes allocated */
	uint64_t end;              /* end of the highest allocation ever made */
	uint32_t parts;            /* number of allocations */
	struct arena_extent *free; /* sorted by offset; adjacent extents are merged */
	uint32_t num_free, cap_free;
};

/* Creates the file, seals its size, maps it, and allocates its first `reserved` bytes. Returns a descriptor
 * for the application, which the caller closes, or -errno. */
int arena_open(struct arena *arena, uint64_t size, uint64_t reserved);
/* Takes a mapping of the file of an arena that another process has made; the caller fills in the rest. */
void arena_adopt(struct arena *arena, uint8_t *base);
void arena_leave(struct arena *arena); /* frees all but the mapping, which the caller unmaps */

/* Allocates whole pages. Contents are whatever the application left, and pages may be missing (see
 * arena_populate). Returns 0, -ENOSPC or -ENOMEM. */
int arena_alloc(struct arena *arena, uint64_t size, uint64_t *offset);
/* `size` as passed to arena_alloc(). */
void arena_free(struct arena *arena, uint64_t offset, uint64_t size);
/* Bytes that arena_alloc() takes for `size`. */
uint64_t arena_rounded(uint64_t size);

/* Reserves `len` addresses, the first of which equals `phase` modulo `align`; NULL: no memory. */
uint8_t *arena_reserve(uint64_t len, uint64_t align, uint64_t phase);
/* Gives every page of [base, base+len) of a shared mapping a writable page table entry. */
int arena_populate(void *base, size_t len);
/* Returns the pages to the kernel. Callable on any thread; may wait for the application. */
void arena_punch(void *base, size_t len);

/* ---- arena_slab.c ---- */
/* Slab allocator within an arena, with many slots to a page: queue pairs with short rings, and connection
 * requests. Allocating and punching arena pages costs system calls, and stops every core for a moment,
 * because all map the arena. So a freed slot is cached for the next allocation of its size, until the arena
 * ends. */
#define ARENA_SLAB_MAX 4096u

struct arena_slab {
	uint32_t *free; /* free slots: offsets in cache lines */
	uint32_t num_free, total;
};

/* Sizes are whole cache lines. Large sizes are an odd number of lines: slots at power-of-two distances would
 * compete for the same cache sets. */
struct arena_slabs {
	struct arena_slab slab[ARENA_SLAB_MAX / ONE_CACHE_LINE + 2]; /* indexed by cache lines */
};

/* Bytes that arena_slab_alloc() would now take from the arena. size <= ARENA_SLAB_MAX. */
uint64_t arena_slab_need(const struct arena_slabs *slabs, uint64_t size);
/* Allocates cache-line-aligned, zeroed, populated memory. Returns 0, -ENOSPC or -ENOMEM. */
int arena_slab_alloc(struct arena_slabs *slabs, struct arena *arena, uint64_t size, uint64_t *offset);
/* `size` as passed to arena_slab_alloc(). */
void arena_slab_free(struct arena_slabs *slabs, uint64_t offset, uint64_t size);
void arena_slab_fini(struct arena_slabs *slabs); /* the pages end with the arena */

#endif
