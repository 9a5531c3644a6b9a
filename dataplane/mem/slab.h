/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Slab allocator for the objects of applications; memory returns to the kernel when they have gone. malloc()
 * retains all below its newest allocation, so one object could hold hundreds of MiB.
 *
 * A chunk has objects of one size, rounded up to cache lines, and is unmapped with its last object; one chunk
 * with room stays for each size. Control thread only.
 */
#ifndef DATAPLANE_MEM_SLAB_H
#define DATAPLANE_MEM_SLAB_H

#include <stddef.h>
#include <stdint.h>

#define SLAB_MAX ((size_t)64 << 10)
#define SLAB_RESERVE_MAX ((size_t)256 << 20)

struct slab_use {
	uint32_t size, count; /* bytes of an object, rounded up to cache lines; objects */
};

/** @return Zeroed memory, aligned to a cache line; NULL: no memory, or `size` is above SLAB_MAX. */
void *slab_alloc(size_t size);
/** NULL is allowed. */
void slab_free(void *memory);
/** @return Number of sizes that are in use, at most `max`, which are written to `use`. */
uint32_t slab_uses(struct slab_use *use, uint32_t max);
/** Maps what is missing for that many more objects, with pages that are present, up to SLAB_RESERVE_MAX;
 * skips what is no size. */
void slab_reserve(const struct slab_use *use, uint32_t num);
/** @return Bytes mapped for chunks. */
size_t slab_mapped(void);

#endif
