/* SPDX-License-Identifier: BSD-3-Clause */
#include "arena.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 16384u /* bytes taken from the arena at a time */

#define ODD_FROM 17u /* in cache lines */

static uint32_t
lines_of(uint64_t size)
{
	uint32_t lines = size == 0 ? 1 : (uint32_t)((size + ONE_CACHE_LINE - 1) / ONE_CACHE_LINE);

	return lines < ODD_FROM ? lines : lines | 1;
}

uint64_t
small_need(const struct small *small, uint64_t size)
{
	return small->size[lines_of(size)].num_free > 0 ? 0 : arena_rounded(CHUNK);
}

/* Reserves room to free every slot when the slab is allocated, so that freeing cannot fail. */
static int
slab_add(struct small_size *size, struct arena *arena, uint32_t lines)
{
	uint32_t count = CHUNK / ONE_CACHE_LINE / lines;
	uint32_t *grown = realloc(size->free, (size_t)(size->total + count) * sizeof(*grown));
	uint64_t offset;
	int error;

	if (grown == NULL)
		return -ENOMEM;
	size->free = grown;
	error = arena_alloc(arena, CHUNK, &offset);
	if (error != 0)
		return error;
	error = arena_populate(arena->base + offset, CHUNK);
	if (error != 0) {
		arena_free(arena, offset, CHUNK);
		return error;
	}
	for (uint32_t i = count; i > 0; i--) /* the lowest is allocated first */
		size->free[size->num_free++] = (uint32_t)(offset / ONE_CACHE_LINE) + (i - 1) * lines;
	size->total += count;
	return 0;
}

int
small_alloc(struct small *small, struct arena *arena, uint64_t bytes, uint64_t *offset)
{
	uint32_t lines = lines_of(bytes);
	struct small_size *size = &small->size[lines];
	int error = size->num_free > 0 ? 0 : slab_add(size, arena, lines);

	if (error != 0)
		return error;
	*offset = (uint64_t)size->free[--size->num_free] * ONE_CACHE_LINE;
	/* The application may have written to the free slot, or removed its page: zeroing it also brings the
	 * page back. */
	memset(arena->base + *offset, 0, (size_t)lines * ONE_CACHE_LINE);
	return 0;
}

void
small_free(struct small *small, uint64_t offset, uint64_t bytes)
{
	struct small_size *size = &small->size[lines_of(bytes)];

	/* A state that was taken over may have more objects than slots for them. */
	if (size->num_free == size->total)
		return;
	size->free[size->num_free++] = (uint32_t)(offset / ONE_CACHE_LINE);
}

void
small_fini(struct small *small)
{
	for (size_t i = 0; i < sizeof(small->size) / sizeof(small->size[0]); i++)
		free(small->size[i].free);
	memset(small, 0, sizeof(*small));
}
