/* SPDX-License-Identifier: BSD-3-Clause */
/* Hash table with open addressing and linear probing, at most half full. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "idmap.h"

#define LOG2_MIN 6u

struct idmap_table {
	struct idmap_table *older;
	uint32_t log2;
	_Atomic(struct idmap_node *) place[];
};

static struct idmap_node
	removed; /* tombstone: marks the place of a removed node; probing continues past it */

static uint32_t
place_of(const struct idmap_table *table, uint32_t key)
{
	return (key * 2654435769u) >> (32 - table->log2);
}

/* Returns true if the place was empty, false if it held a tombstone. */
static bool
node_put(struct idmap_table *table, struct idmap_node *node, uint32_t key)
{
	uint32_t mask = (1u << table->log2) - 1;
	uint32_t at = place_of(table, key);
	struct idmap_node *there = one_load_locked(&table->place[at]);

	while (there != NULL && there != &removed) {
		at = (at + 1) & mask;
		there = one_load_locked(&table->place[at]);
	}
	/* Pairs with the acquire load in idmap_find: the node is complete. */
	atomic_store_explicit(&table->place[at], node, memory_order_release);
	return there == NULL;
}

static bool
table_grow(struct idmap *map)
{
	struct idmap_table *old = one_load_locked(&map->table);
	struct idmap_table *table;
	uint32_t log2 = LOG2_MIN;

	while (1u << log2 < 4 * (map->live + 1))
		log2++;
	table = calloc(1, sizeof(*table) + (sizeof(table->place[0]) << log2));
	if (table == NULL)
		return false;
	table->log2 = log2;
	table->older = old;
	for (uint32_t i = 0; old != NULL && i < 1u << old->log2; i++) {
		struct idmap_node *node = one_load_locked(&old->place[i]);

		if (node != NULL && node != &removed)
			node_put(table, node, one_load_locked(&node->key));
	}
	map->used = map->live;
	/* Pairs with the acquire load in idmap_find: the table is complete. */
	atomic_store_explicit(&map->table, table, memory_order_release);
	return true;
}

int
idmap_insert(struct idmap *map, struct idmap_node *node, uint32_t key)
{
	struct idmap_table *table = one_load_locked(&map->table);

	if ((table == NULL || 2 * (map->used + 1) > 1u << table->log2) && !table_grow(map))
		return -ENOMEM;
	table = one_load_locked(&map->table);
	one_store_alone(&node->key, key); /* published by the release store in node_put */
	if (node_put(table, node, key))
		map->used++;
	map->live++;
	return 0;
}

void
idmap_remove(struct idmap *map, struct idmap_node *node)
{
	struct idmap_table *table = one_load_locked(&map->table);
	uint32_t key = one_load_locked(&node->key);
	uint32_t mask, at;

	if (key == 0)
		return;
	mask = (1u << table->log2) - 1;
	at = place_of(table, key);
	while (one_load_locked(&table->place[at]) != node)
		at = (at + 1) & mask;
	/* A concurrent lookup that still finds the node sees key 0, or an object whose memory lives as long
	 * as the IA. */
	one_store_alone(&table->place[at], &removed);
	one_store_alone(&node->key, 0);
	map->live--;
	/* Tombstones at the end of a run become empty again: no probe needs to pass them. */
	if (one_load_locked(&table->place[(at + 1) & mask]) != NULL)
		return;
	while (one_load_locked(&table->place[at]) == &removed) {
		one_store_alone(&table->place[at], NULL);
		map->used--;
		at = (at - 1) & mask;
	}
}

struct idmap_node *
idmap_find(const struct idmap *map, uint32_t key)
{
	/* Pairs with the release store in table_grow: the table is complete. */
	const struct idmap_table *table = atomic_load_explicit(&map->table, memory_order_acquire);
	uint32_t mask, at;

	if (table == NULL || key == 0)
		return NULL;
	mask = (1u << table->log2) - 1;
	at = place_of(table, key);
	for (uint32_t looks = 0; looks <= mask; looks++) {
		/* Pairs with the release store in node_put: the object and its key are complete. */
		struct idmap_node *node = atomic_load_explicit(&table->place[at], memory_order_acquire);

		if (node == NULL)
			return NULL;
		if (idmap_key(node) == key)
			return node;
		at = (at + 1) & mask;
	}
	return NULL;
}

void
idmap_fini(struct idmap *map)
{
	struct idmap_table *table = one_load_locked(&map->table);

	while (table != NULL) {
		struct idmap_table *older = table->older;

		free(table);
		table = older;
	}
	one_store_alone(&map->table, NULL); /* lookups have ended */
	map->used = map->live = 0;
}
