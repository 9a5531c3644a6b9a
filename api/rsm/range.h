/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory, found by address. */
#ifndef RSM_RANGE_H
#define RSM_RANGE_H

#include "client/mem.h"
#include "rsm/link.h"

struct rsm_range {
	uint64_t va, length;
	uint32_t lkey;
};

/* Registers memory and adds it to the ranges. `alone`: in a file of its own. Returns 0, or RSMERR_*. */
int rsm_range_register(struct rsm_link *link, uint64_t va, uint64_t length, bool alone, struct one_mr *mr);
int rsm_range_add(struct rsm_link *link, const struct one_mr *mr);
/* Removes a range, and waits until no transfer uses it. */
void rsm_range_remove(struct rsm_link *link, const struct one_mr *mr);
/* Returns the local key of registered memory that covers [va, va + len), or 0. */
uint32_t rsm_range_find(struct rsm_link *link, uint64_t va, uint64_t len);

/*
 * Checks memory for registration. Returns 0, RSMERR_BAD_ADDR (not mapped, or a shared mapping of a file on
 * disk) or RSMERR_PERM_DENIED (not readable and writable).
 */
int rsm_memory_check(uint64_t va, uint64_t length);
/* True if all of [va, end) is mapped writable. Slow: reads /proc/self/maps. */
bool rsm_memory_writable(uint64_t va, uint64_t end);

#endif
