/* SPDX-License-Identifier: BSD-3-Clause */
/* Tables of objects by id. An id is generation(31:16) | slot(15:0), is never 0, and repeats only after its
 * slot was reused 65535 times. Slots are reused last-freed-first, so they stay dense; some are indices
 * elsewhere. */
#ifndef CONTROL_TABLE_H
#define CONTROL_TABLE_H

#include <stdint.h>

#define TABLE_MAX 65536u

struct table_slot {
	void *object; /* NULL: free */
	uint32_t next_free;
	uint16_t generation;
};

struct table {
	struct table_slot *slot;
	uint32_t size; /* slots allocated */
	uint32_t max;  /* limit of `size` */
	uint32_t used;
	uint32_t free; /* first free slot, or TABLE_NONE */
};

#define TABLE_NONE UINT32_MAX

void table_init(struct table *table, uint32_t max);
void table_fini(struct table *table);
/* Returns the new id; 0: full, or out of memory. */
uint32_t table_add(struct table *table, void *object);
/* Stores an object under an id that another process has given out.  Returns 0, -EEXIST or -ENOMEM.  Call
 * table_relink() after the last, before table_add(). */
int table_put(struct table *table, uint32_t id, void *object);
void table_relink(struct table *table);
/* Stores in `to` the generation of each of the `size` slots; and takes them over, before table_put(), so that
 * no id repeats that the other process has freed.  Returns 0 or -ENOMEM. */
void table_generations(const struct table *table, uint16_t *to);
int table_resume(struct table *table, const uint16_t *from, uint32_t size);
void *table_get(const struct table *table, uint32_t id);
void *table_remove(struct table *table, uint32_t id);

static inline uint32_t
table_index(uint32_t id)
{
	return id & 0xffffu;
}

/* Iterates: 0 <= index < table->size; NULL for a free slot. */
static inline void *
table_at(const struct table *table, uint32_t index)
{
	return table->slot[index].object;
}

#endif
