/* SPDX-License-Identifier: BSD-3-Clause */
/* Pool of work requests under way, one per core. */
#ifndef DATAPLANE_RC_POOL_H
#define DATAPLANE_RC_POOL_H

#include "params.h"
#include "work.h"

/* Work request under way. */
struct rc_node {
	struct rc_node *next;
	uint32_t first, end; /* PSNs [first, end); empty for BIND and malformed work */
	struct work work;
} __attribute__((aligned(64)));
_Static_assert(offsetof(struct rc_node, work.sge[1]) == 64, "rc_node: the usual request is one cache line");

struct rc_pool {
	struct rc_node *free;
	uint32_t count, available;
};

/* The pool must not be empty. */
static inline struct rc_node *
rc_node_get(struct rc_pool *pool)
{
	struct rc_node *node = pool->free;

	pool->free = node->next;
	__builtin_prefetch(node->next, 1);
	pool->available--;
	return node;
}

/* Return a list of `count` nodes. */
static inline void
rc_nodes_put(struct rc_pool *pool, struct rc_node *first, struct rc_node *last, uint32_t count)
{
	last->next = pool->free;
	pool->free = first;
	pool->available += count;
}

static inline void
rc_node_put(struct rc_pool *pool, struct rc_node *node)
{
	rc_nodes_put(pool, node, node, 1);
}

/* Queue pairs whose peers do not respond must not take all nodes: the second half of the pool is for those
 * that hold few, the last quarter for those that hold none. */
static inline bool
rc_pool_denies(const struct rc_pool *pool, uint32_t held)
{
	if (likely(pool->available > pool->count / 2) || held == 0)
		return false;
	return held >= RC_POOL_FEW || pool->available <= pool->count / 4;
}

#endif
