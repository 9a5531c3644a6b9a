/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/small.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK 16384u /* taken from the arena at once */

static uint32_t
log2_of(uint64_t size)
{
	uint32_t log2 = SMALL_MIN_LOG2;

	while (1u << log2 < size)
		log2++;
	return log2;
}

uint64_t
small_need(const struct small *small, uint64_t size)
{
	return small->size[log2_of(size) - SMALL_MIN_LOG2].num_free > 0 ? 0 : arena_rounded(CHUNK);
}

/* Room to remember every part is made with the parts, so that giving one back cannot fail. */
static int
more(struct small_size *size, struct arena *arena, uint32_t log2)
{
	uint32_t count = CHUNK >> log2;
	uint32_t *grown = realloc(size->free, (size_t)(size->total + count) * sizeof(*grown));
	uint64_t offset;
	int error;

	if (grown == NULL)
		return -ENOMEM;
	size->free = grown;
	error = arena_alloc(arena, CHUNK, &offset);
	if (error != 0)
		return error;
	for (uint32_t i = count; i > 0; i--) /* the lowest is handed out first */
		size->free[size->num_free++] =
			(uint32_t)((offset + ((uint64_t)(i - 1) << log2)) >> SMALL_MIN_LOG2);
	size->total += count;
	return 0;
}

int
small_alloc(struct small *small, struct arena *arena, uint64_t bytes, uint64_t *offset)
{
	uint32_t log2 = log2_of(bytes);
	struct small_size *size = &small->size[log2 - SMALL_MIN_LOG2];
	int error = size->num_free > 0 ? 0 : more(size, arena, log2);

	if (error != 0)
		return error;
	*offset = (uint64_t)size->free[--size->num_free] << SMALL_MIN_LOG2;
	/* The application can write to what nobody has, and take its page away: this brings one back. */
	memset(arena->base + *offset, 0, 1u << log2);
	return 0;
}

void
small_free(struct small *small, uint64_t offset, uint64_t bytes)
{
	struct small_size *size = &small->size[log2_of(bytes) - SMALL_MIN_LOG2];

	size->free[size->num_free++] = (uint32_t)(offset >> SMALL_MIN_LOG2);
}

void
small_fini(struct small *small)
{
	for (uint32_t i = 0; i <= SMALL_MAX_LOG2 - SMALL_MIN_LOG2; i++)
		free(small->size[i].free);
	memset(small, 0, sizeof(*small));
}
