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

#define SLAB_MAX ((size_t)64 << 10)

/** @return Zeroed memory, aligned to a cache line; NULL: no memory, or `size` is above SLAB_MAX. */
void *slab_alloc(size_t size);
/** NULL is allowed. */
void slab_free(void *memory);
/** @return Bytes mapped for chunks. */
size_t slab_mapped(void);

#endif
