/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the connection manager finds its connections with: an intrusive hash
 * table that grows, and a heap of timers.  Hashes are keyed with a secret, since
 * the other side chooses most of what is hashed.
 */
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
void cm_table_remove(struct cm_table *table, struct cm_node *node); /* no-op when it is in none */
struct cm_node *cm_table_first(const struct cm_table *table, uint64_t hash);
struct cm_node *cm_table_next(const struct cm_node *node); /* with the same hash */

uint64_t cm_hash(const uint64_t secret[2], uint64_t a, uint64_t b);

struct cm_timer {
	uint64_t deadline;
	uint32_t place; /* in the heap, from 1; 0: not set */
};

#define CM_TIMEOUTS 64u /* of a heap at once; what is due beyond is due still, and others have their turn */

struct cm_heap {
	struct cm_timer **timer;
	uint32_t count, room;
};

void cm_heap_fini(struct cm_heap *heap);
/* Room for this many timers; after that setting one cannot fail.  0 or -ENOMEM. */
int cm_heap_reserve(struct cm_heap *heap, uint32_t timers);
void cm_heap_set(struct cm_heap *heap, struct cm_timer *timer, uint64_t deadline);
void cm_heap_clear(struct cm_heap *heap, struct cm_timer *timer);
uint64_t cm_heap_deadline(const struct cm_heap *heap); /* of the first; UINT64_MAX: none is set */
/* Takes out the first that is due; NULL: none is. */
struct cm_timer *cm_heap_due(struct cm_heap *heap, uint64_t now);

#endif
