/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slab allocator within an arena, with many slots to a page: queue pairs with short rings, and connection
 * requests. Allocating and punching arena pages costs system calls, and stops every core for a moment,
 * because all map the arena. So a freed slot is cached for the next allocation of its size, until the arena
 * ends.
 */
#ifndef CONTROL_SMALL_H
#define CONTROL_SMALL_H

#include <stdint.h>

#include "abi/ring.h"
#include "arena.h"

#define SMALL_MAX 4096u

struct small_size {
	uint32_t *free; /* free slots: offsets in cache lines */
	uint32_t num_free, total;
};

/*
 * Sizes are whole cache lines. Large sizes are an odd number of lines: slots at power-of-two distances would
 * compete for the same cache sets.
 */
struct small {
	struct small_size size[SMALL_MAX / ONE_CACHE_LINE + 2]; /* indexed by cache lines */
};

/* Bytes that small_alloc() would now take from the arena. size <= SMALL_MAX. */
uint64_t small_need(const struct small *small, uint64_t size);
/* Allocates cache-line-aligned, zeroed, populated memory. Returns 0, -ENOSPC or -ENOMEM. */
int small_alloc(struct small *small, struct arena *arena, uint64_t size, uint64_t *offset);
/* `size` as passed to small_alloc(). */
void small_free(struct small *small, uint64_t offset, uint64_t size);
void small_fini(struct small *small); /* the pages end with the arena */

#endif
