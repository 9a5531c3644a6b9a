/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers to objects: queue pair ids, memory keys, listener and ring ids.
 * Lookups take no lock and may run while the table changes: objects live in memory that stays theirs until
 * the IA is closed, and a replaced table is kept until then too.  Changes are made under the IA's lock.
 */
#ifndef DAT_IDMAP_H
#define DAT_IDMAP_H

#include <stdatomic.h>
#include <stdint.h>

#include "client/order.h"

struct idmap_node {
	_Atomic uint32_t key; /* 0: in no map */
};

/* A node that was removed meanwhile has key 0: so it is looked up anew, or refused. */
static inline uint32_t
idmap_key(const struct idmap_node *node)
{
	return one_load_alone(&node->key);
}

struct idmap_table;
struct idmap {
	_Atomic(struct idmap_table *) table;
	uint32_t used; /* places taken or left behind by a removal */
	uint32_t live;
};

/* 0 or -ENOMEM.  `key` is not 0 and not in the map. */
int idmap_insert(struct idmap *map, struct idmap_node *node, uint32_t key);
void idmap_remove(struct idmap *map, struct idmap_node *node);
struct idmap_node *idmap_find(const struct idmap *map, uint32_t key);
void idmap_fini(struct idmap *map);

#endif
