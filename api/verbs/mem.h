/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains and their objects: memory regions, memory windows, address handles. */
#ifndef VERBS_MEM_H
#define VERBS_MEM_H

#include "verbs/context.h"

struct pd {
	struct ibv_pd base;
	uint32_t id;
	_Atomic uint32_t users;
	struct pd *parent; /* the protection domain that a parent domain is an alias of; else NULL */
	struct td *td;     /* or NULL */
};

struct ah {
	struct ibv_ah base;
	uint32_t id;
};

struct mr {
	struct ibv_mr base;
	struct one_mr mr;
	uint64_t iova;
	unsigned int access; /* enum ibv_access_flags */
	/* The library's own mapping of a dma-buf, in whole pages; NULL: the memory is the program's. */
	void *mapping;
	size_t mapped;
};

struct mw {
	struct ibv_mw base;
	uint32_t id;
	struct lock lock; /* type 1: guards the key, which each bind increments */
};

/* ---- domain.c ---- */
void domain_calls(struct verbs_context *verbs);

/* ---- bind.c ---- */
struct ibv_mw *mw_alloc(struct ibv_pd *pd, enum ibv_mw_type type);
int mw_dealloc(struct ibv_mw *base);

/* Converts enum ibv_access_flags to ONE_ACCESS_REMOTE_*. */
static inline uint32_t
mem_remote_access(unsigned int flags)
{
	return ((flags & IBV_ACCESS_REMOTE_WRITE) != 0 ? ONE_ACCESS_REMOTE_WRITE : 0u) |
	       ((flags & IBV_ACCESS_REMOTE_READ) != 0 ? ONE_ACCESS_REMOTE_READ : 0u) |
	       ((flags & IBV_ACCESS_REMOTE_ATOMIC) != 0 ? ONE_ACCESS_REMOTE_ATOMIC : 0u);
}

/* Sums the lengths of a list whose number of elements was checked. */
static inline uint64_t
mem_total(const struct ibv_sge *sge, int num)
{
	uint64_t sum = 0;

	for (int i = 0; i < num; i++)
		sum += sge[i].length;
	return sum;
}

#endif
