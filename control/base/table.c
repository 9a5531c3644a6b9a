/* SPDX-License-Identifier: BSD-3-Clause */
#include "table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_FIRST 16u

void
table_init(struct table *table, uint32_t max)
{
	memset(table, 0, sizeof(*table));
	table->max = max < TABLE_MAX ? max : TABLE_MAX;
	table->free = TABLE_NONE;
}

void
table_fini(struct table *table)
{
	free(table->slot);
	table_init(table, table->max);
}

static int
table_grow(struct table *table)
{
	uint32_t size = table->size == 0 ? TABLE_FIRST : table->size * 2;
	struct table_slot *slot;

	if (size > table->max)
		size = table->max;
	if (size <= table->size)
		return -1;
	slot = realloc(table->slot, size * sizeof(*slot));
	if (slot == NULL)
		return -1;
	/* Allocate the lowest slots first. */
	for (uint32_t i = size; i-- > table->size;) {
		slot[i] = (struct table_slot){.next_free = table->free, .generation = 1};
		table->free = i;
	}
	table->slot = slot;
	table->size = size;
	return 0;
}

uint32_t
table_add(struct table *table, void *object)
{
	struct table_slot *slot;
	uint32_t index;

	if (table->free == TABLE_NONE && table_grow(table) != 0)
		return 0;
	index = table->free;
	slot = &table->slot[index];
	table->free = slot->next_free;
	slot->object = object;
	table->used++;
	return (uint32_t)slot->generation << 16 | index;
}

void *
table_get(const struct table *table, uint32_t id)
{
	uint32_t index = table_index(id);

	if (index >= table->size || table->slot[index].generation != id >> 16)
		return NULL;
	return table->slot[index].object;
}

void *
table_remove(struct table *table, uint32_t id)
{
	void *object = table_get(table, id);
	struct table_slot *slot;

	if (object == NULL)
		return NULL;
	slot = &table->slot[table_index(id)];
	slot->object = NULL;
	slot->generation = slot->generation == UINT16_MAX ? 1 : slot->generation + 1;
	slot->next_free = table->free;
	table->free = table_index(id);
	table->used--;
	return object;
}

int
table_put(struct table *table, uint32_t id, void *object)
{
	uint32_t index = table_index(id);

	while (index >= table->size)
		if (table_grow(table) != 0)
			return -ENOMEM;
	if (id >> 16 == 0 || table->slot[index].object != NULL)
		return -EEXIST;
	table->slot[index].object = object;
	table->slot[index].generation = (uint16_t)(id >> 16);
	table->used++;
	return 0;
}

void
table_generations(const struct table *table, uint16_t *to)
{
	for (uint32_t i = 0; i < table->size; i++)
		to[i] = table->slot[i].generation;
}

int
table_resume(struct table *table, const uint16_t *from, uint32_t size)
{
	size = size < table->max ? size : table->max;
	while (table->size < size)
		if (table_grow(table) != 0)
			return -ENOMEM;
	for (uint32_t i = 0; i < size; i++)
		table->slot[i].generation = from[i] == 0 ? 1 : from[i];
	return 0;
}

void
table_relink(struct table *table)
{
	table->free = TABLE_NONE;
	for (uint32_t i = table->size; i-- > 0;) {
		if (table->slot[i].object != NULL)
			continue;
		table->slot[i].next_free = table->free;
		table->free = i;
	}
}
