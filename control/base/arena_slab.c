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
arena_slab_need(const struct arena_slabs *slabs, uint64_t size)
{
	return slabs->slab[lines_of(size)].num_free > 0 ? 0 : arena_rounded(CHUNK);
}

/* Reserves room to free every slot when the slab is allocated, so that freeing cannot fail. */
static int
slab_add(struct arena_slab *slab, struct arena *arena, uint32_t lines)
{
	uint32_t count = CHUNK / ONE_CACHE_LINE / lines;
	uint32_t *grown = realloc(slab->free, (size_t)(slab->total + count) * sizeof(*grown));
	uint64_t offset;
	int error;

	if (grown == NULL)
		return -ENOMEM;
	slab->free = grown;
	error = arena_alloc(arena, CHUNK, &offset);
	if (error != 0)
		return error;
	error = arena_populate(arena->base + offset, CHUNK);
	if (error != 0) {
		arena_free(arena, offset, CHUNK);
		return error;
	}
	for (uint32_t i = count; i > 0; i--) /* the lowest is allocated first */
		slab->free[slab->num_free++] = (uint32_t)(offset / ONE_CACHE_LINE) + (i - 1) * lines;
	slab->total += count;
	return 0;
}

int
arena_slab_alloc(struct arena_slabs *slabs, struct arena *arena, uint64_t bytes, uint64_t *offset)
{
	uint32_t lines = lines_of(bytes);
	struct arena_slab *slab = &slabs->slab[lines];
	int error = slab->num_free > 0 ? 0 : slab_add(slab, arena, lines);

	if (error != 0)
		return error;
	*offset = (uint64_t)slab->free[--slab->num_free] * ONE_CACHE_LINE;
	/* The application may have written to the free slot, or removed its page: zeroing it also brings the
	 * page back. */
	memset(arena->base + *offset, 0, (size_t)lines * ONE_CACHE_LINE);
	return 0;
}

void
arena_slab_free(struct arena_slabs *slabs, uint64_t offset, uint64_t bytes)
{
	struct arena_slab *slab = &slabs->slab[lines_of(bytes)];

	/* A state that was taken over may have more objects than slots for them. */
	if (slab->num_free == slab->total)
		return;
	slab->free[slab->num_free++] = (uint32_t)(offset / ONE_CACHE_LINE);
}

void
arena_slab_fini(struct arena_slabs *slabs)
{
	for (size_t i = 0; i < sizeof(slabs->slab) / sizeof(slabs->slab[0]); i++)
		free(slabs->slab[i].free);
	memset(slabs, 0, sizeof(*slabs));
}
