/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which memory an attachment's copy thread may touch, found by address: each copy asks, and there may be tens
 * of thousands of registrations, that overlap as they like.
 *
 * A registration of length 2^k to 2^(k+1) - 1 is found by the 2^k block that it begins in.  One that covers
 * an address begins in the address's own block of that size or in one of the two before; so three looks for
 * each size that there is are enough.
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
	struct copied_set *set; /* NULL: it is in none */
	uint64_t start, length;
	bool write; /* not only to be read */
};

/* All zero: empty. */
struct copied_set {
	LIST_HEAD(, copied) bucket[COPIED_BUCKETS];
	uint32_t count[COPIED_SIZES][2]; /* by size, and by `write` */
};

void copied_add(struct copied_set *set, struct copied *memory); /* its length is not 0 */
void copied_remove(struct copied *memory);                      /* from its set, if it is in one */
void copied_clear(struct copied_set *set);
/* One registration has all of [addr, addr + len), with the right. */
bool copied_covers(const struct copied_set *set, uint64_t addr, uint64_t len, bool write);

#endif
