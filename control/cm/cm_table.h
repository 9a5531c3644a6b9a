/* SPDX-License-Identifier: BSD-3-Clause */
/* Indexes of the connection manager: an intrusive hash table that grows, and a heap of
 * timers.  Hash values depend on a secret, since peers choose most of the hashed bytes. */
#ifndef CONTROL_CM_TABLE_H
#define CONTROL_CM_TABLE_H

#include <stdbool.h>
#include <stdint.h>

struct cm_node {
	struct cm_node *next;
	uint64_t hash;
	bool linked;
};

struct cm_table {
	struct cm_node **bucket;
	uint32_t log2;
	uint32_t count;
};

int cm_table_init(struct cm_table *table);
void cm_table_fini(struct cm_table *table);
void cm_table_insert(struct cm_table *table, struct cm_node *node, uint64_t hash);
void cm_table_remove(struct cm_table *table, struct cm_node *node); /* no-op if not linked */
struct cm_node *cm_table_first(const struct cm_table *table, uint64_t hash);
struct cm_node *cm_table_next(const struct cm_node *node); /* next node with the same hash */

uint64_t cm_hash(const uint64_t secret[2], uint64_t a, uint64_t b);

struct cm_timer {
	uint64_t deadline;
	uint32_t place; /* index in the heap, from 1; 0: not set */
};

#define CM_TIMEOUTS 64u /* limit of timers per call: the rest stay due, so that other work proceeds */

struct cm_heap {
	struct cm_timer **timer;
	uint32_t count, room;
};

void cm_heap_fini(struct cm_heap *heap);
/* Reserves memory for this many timers: setting one then cannot fail.  Returns 0 or -ENOMEM. */
int cm_heap_reserve(struct cm_heap *heap, uint32_t timers);
void cm_heap_set(struct cm_heap *heap, struct cm_timer *timer, uint64_t deadline);
void cm_heap_clear(struct cm_heap *heap, struct cm_timer *timer);
uint64_t cm_heap_deadline(const struct cm_heap *heap); /* earliest deadline; UINT64_MAX: no timer is set */
/* Removes and returns the first timer that is due, or NULL. */
struct cm_timer *cm_heap_due(struct cm_heap *heap, uint64_t now);

#endif
