/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps numbers to objects: queue pair ids, memory keys, listener and ring ids.  Lookups take no lock and may
 * run while the table changes: neither the memory of objects nor a replaced table is freed before the IA is
 * closed. Changes are made under the IA's lock. */
#ifndef DAT_IDMAP_H
#define DAT_IDMAP_H

#include <stdatomic.h>
#include <stdint.h>

#include "client/order.h"

struct idmap_node {
	_Atomic uint32_t key; /* 0: in no map */
};

/* Returns 0 for a removed node, so that the caller looks the key up again, or refuses it. */
static inline uint32_t
idmap_key(const struct idmap_node *node)
{
	return one_load_alone(&node->key);
}

struct idmap_table;
struct idmap {
	_Atomic(struct idmap_table *) table;
	uint32_t used; /* places with a node or a tombstone */
	uint32_t live;
};

/* Returns 0 or -ENOMEM.  `key` must not be 0 and must not be in the map. */
int idmap_insert(struct idmap *map, struct idmap_node *node, uint32_t key);
void idmap_remove(struct idmap *map, struct idmap_node *node);
struct idmap_node *idmap_find(const struct idmap *map, uint32_t key);
void idmap_fini(struct idmap *map);

#endif
