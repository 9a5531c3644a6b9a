/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory that an attachment's copy thread may access, found by address. Each copy searches here, and
 * there may be tens of thousands of registrations, which may overlap.
 *
 * A registration of length 2^k to 2^(k+1) - 1 is filed under the 2^k block in which it begins. A registration
 * that covers an address begins in the address's own block of that size or in one of the two before. So three
 * lookups for each size in use suffice.
 */
#ifndef CLIENT_COPIED_H
#define CLIENT_COPIED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#define COPIED_BUCKETS 4096u /* a power of two */
#define COPIED_SIZES 64u

struct copied_set;

/* A registration; the caller's memory while it is in a set. */
struct copied {
	LIST_ENTRY(copied) link;
	struct copied_set *set; /* NULL: not in a set */
	uint64_t start, length;
	bool write; /* write access, too */
};

/* An empty set is all zero. */
struct copied_set {
	LIST_HEAD(, copied) bucket[COPIED_BUCKETS];
	uint32_t count[COPIED_SIZES][2]; /* by size, and by `write` */
};

void copied_add(struct copied_set *set, struct copied *memory); /* length must not be 0 */
void copied_remove(struct copied *memory);                      /* no effect if it is in no set */
void copied_clear(struct copied_set *set);
/* Returns true if a single registration covers [addr, addr + len), with the right. */
bool copied_covers(const struct copied_set *set, uint64_t addr, uint64_t len, bool write);

#endif
