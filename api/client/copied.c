/* SPDX-License-Identifier: BSD-3-Clause */
#include "copier.h"

#include <stddef.h>

static uint32_t
size_of(uint64_t length)
{
	return 63u - (uint32_t)__builtin_clzll(length);
}

static uint32_t
bucket_of(uint64_t block, uint32_t size, bool write)
{
	uint64_t key = (block << 7 | size << 1 | write) * 0x9e3779b97f4a7c15u;

	return (uint32_t)(key >> 32) & (COPIED_BUCKETS - 1);
}

void
copied_add(struct copied_set *set, struct copied *memory)
{
	uint32_t size = size_of(memory->length);

	LIST_INSERT_HEAD(&set->bucket[bucket_of(memory->start >> size, size, memory->write)], memory, link);
	set->count[size][memory->write]++;
	memory->set = set;
}

void
copied_remove(struct copied *memory)
{
	if (memory->set == NULL)
		return;
	LIST_REMOVE(memory, link);
	memory->set->count[size_of(memory->length)][memory->write]--;
	memory->set = NULL;
}

void
copied_clear(struct copied_set *set)
{
	for (uint32_t i = 0; i < COPIED_BUCKETS; i++)
		while (!LIST_EMPTY(&set->bucket[i]))
			copied_remove(LIST_FIRST(&set->bucket[i]));
}

static bool
memory_covers(const struct copied *memory, uint64_t addr, uint64_t len)
{
	return addr >= memory->start && len <= memory->length && addr - memory->start <= memory->length - len;
}

/* Returns the registration of this size and right that covers the range; NULL: none. */
static const struct copied *
find_size(const struct copied_set *set, uint64_t addr, uint64_t len, uint32_t size, bool write)
{
	uint64_t block = addr >> size;

	for (uint32_t back = 0; back <= 2 && back <= block; back++) {
		const struct copied *memory;

		LIST_FOREACH(memory, &set->bucket[bucket_of(block - back, size, write)], link)
			if (memory->write == write && memory_covers(memory, addr, len))
				return memory;
	}
	return NULL;
}

bool
copied_find(const struct copied_set *set, uint64_t addr, uint64_t len, bool write, uint64_t *at)
{
	const struct copied *memory;

	/* Memory that may be written may be read, too. */
	for (uint32_t size = len == 0 ? 0 : size_of(len); size < COPIED_SIZES; size++) {
		for (int right = write; right <= 1; right++) {
			memory = set->count[size][right] == 0 ? NULL
							      : find_size(set, addr, len, size, right != 0);
			if (memory != NULL) {
				*at = addr + memory->shift;
				return true;
			}
		}
	}
	return false;
}
