/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small parts of an arena, many to a page: queue pairs with short rings, and connection requests.  To take
 * pages from the arena and give them back costs system calls, and stops every core for a moment, since all
 * of them map it.  So what comes back is kept for the next part of its size, until the arena goes.
 */
#ifndef CONTROL_SMALL_H
#define CONTROL_SMALL_H

#include <stdint.h>

#include "abi/ring.h"
#include "arena.h"

#define SMALL_MAX 4096u

struct small_size {
	uint32_t *free; /* parts not in use: offsets in cache lines */
	uint32_t num_free, total;
};

/* Sizes are whole cache lines; large ones an odd number of them, since parts whose beginnings are a power of
 * two apart would all want the same few places of a cache. */
struct small {
	struct small_size size[SMALL_MAX / ONE_CACHE_LINE + 2]; /* by lines */
};

/* size <= SMALL_MAX.  Bytes of the arena that small_alloc would take for it now. */
uint64_t small_need(const struct small *small, uint64_t size);
/* Aligned to a cache line, zeroed, with pages.  0, -ENOSPC, -ENOMEM. */
int small_alloc(struct small *small, struct arena *arena, uint64_t size, uint64_t *offset);
/* `size` as it was asked for. */
void small_free(struct small *small, uint64_t offset, uint64_t size);
void small_fini(struct small *small); /* the arena's pages go with the arena */

#endif
