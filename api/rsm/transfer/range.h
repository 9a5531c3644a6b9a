/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory by address. */
#ifndef RSM_RANGE_H
#define RSM_RANGE_H

#include "client/mem.h"
#include "rsm/base/link.h"

struct rsm_range {
	uint64_t va, length;
	uint32_t lkey;
};

/* Registers memory (`alone`: in a file of its own) and adds it: 0, or RSMERR_*. */
int rsm_range_register(struct rsm_link *link, uint64_t va, uint64_t length, bool alone, struct one_mr *mr);
int rsm_range_add(struct rsm_link *link, const struct one_mr *mr);
/* Nobody finds it any more, and no transfer uses it. */
void rsm_range_remove(struct rsm_link *link, const struct one_mr *mr);
/* The local key of registered memory that covers [va, va+len), or 0. */
uint32_t rsm_range_find(struct rsm_link *link, uint64_t va, uint64_t len);

/* What a range of this process is: 0, or RSMERR_BAD_ADDR (not mapped, or a shared file),
 * RSMERR_PERM_DENIED (not readable and writable). */
int rsm_memory_check(uint64_t va, uint64_t length);
/* All of [va, end) has the right to write.  Slow. */
bool rsm_memory_writable(uint64_t va, uint64_t end);

#endif
