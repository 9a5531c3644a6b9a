/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies to and from checked memory. */
#ifndef DATAPLANE_MEM_PLACE_H
#define DATAPLANE_MEM_PLACE_H

#include "mem.h"

/*
 * Copy out of and into checked memory. Return 0, or -EFAULT if the region has no mapping: use bounce.h for
 * that.
 *
 * mem_write() places in address order and stores the last byte last, with release semantics: applications
 * poll it. Aligned writes of 1, 2, 4 and 8 bytes are single stores.
 */
int mem_read(const struct mem_region *region, uint64_t va, void *dst, size_t len);
int mem_write(const struct mem_region *region, uint64_t va, const void *src, size_t len);
int mem_copy(const struct mem_region *to, uint64_t to_va, const struct mem_region *from, uint64_t from_va,
	     size_t len);

/* 64-bit atomics in host byte order on an aligned va; *found is the value before. */
int mem_fetch_add(const struct mem_region *region, uint64_t va, uint64_t add, uint64_t *found);
int mem_cmp_swap(const struct mem_region *region, uint64_t va, uint64_t compare, uint64_t swap,
		 uint64_t *found);

/* Place like mem_write(), for plain pointers: in order, last byte last. */
void mem_place(void *dst, const void *src, size_t len);

/* Length of the largest aligned word that ends at `end`, at most 8 bytes and `len`: it carries the last
 * byte. */
static inline size_t
mem_tail_len(const uint8_t *end, size_t len)
{
	size_t tail = 8;

	while (tail > len || ((uintptr_t)end & (tail - 1)) != 0)
		tail /= 2;
	return tail;
}

#endif
