/* SPDX-License-Identifier: BSD-3-Clause */
#include "slab.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>

#include "dataplane/base/pages.h"

#ifdef __aarch64__
#define LINE 128u /* DPDK's cache line */
#else
#define LINE 64u
#endif
#define CHUNK ((size_t)256 << 10) /* size and alignment: the chunk of an object follows from its address */
#define SIZES (SLAB_MAX / LINE)

struct chunk {
	LIST_ENTRY(chunk) link; /* while it has room */
	uint32_t size, used;    /* bytes per object; objects in use */
	uint32_t fresh;         /* offset after the last place that was ever in use */
	void *free;             /* freed places; each begins with the address of the next one */
};
_Static_assert(sizeof(struct chunk) <= LINE, "the first place follows the chunk");

static LIST_HEAD(, chunk) with_room[SIZES];
static size_t mapped;
static uint32_t in_use[SIZES]; /* objects */

static struct chunk *
chunk_map(uint32_t size)
{
	uint8_t *base = mmap(NULL, 2 * CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct chunk *chunk;
	size_t before;

	if (base == MAP_FAILED)
		return NULL;
	before = -(uintptr_t)base & (CHUNK - 1);
	if (before != 0)
		munmap(base, before);
	munmap(base + before + CHUNK, CHUNK - before);
	chunk = (struct chunk *)(void *)(base + before);
	if (in_use[size / LINE - 1] > 0) /* they fill a chunk: there will be more */
		pages_populate(chunk, CHUNK);
	*chunk = (struct chunk){.size = size, .fresh = LINE};
	LIST_INSERT_HEAD(&with_room[size / LINE - 1], chunk, link);
	mapped += CHUNK;
	return chunk;
}

static bool
has_room(const struct chunk *chunk)
{
	return chunk->free != NULL || chunk->fresh + chunk->size <= CHUNK;
}

static void *
place_take(struct chunk *chunk)
{
	void *place = chunk->free;

	if (place != NULL) {
		memcpy(&chunk->free, place, sizeof(chunk->free));
	} else {
		place = (uint8_t *)chunk + chunk->fresh;
		chunk->fresh += chunk->size;
	}
	chunk->used++;
	in_use[chunk->size / LINE - 1]++;
	if (!has_room(chunk))
		LIST_REMOVE(chunk, link);
	return place;
}

static void
place_give(struct chunk *chunk, void *place)
{
	if (!has_room(chunk))
		LIST_INSERT_HEAD(&with_room[chunk->size / LINE - 1], chunk, link);
	memcpy(place, &chunk->free, sizeof(chunk->free));
	chunk->free = place;
	chunk->used--;
	in_use[chunk->size / LINE - 1]--;
}

static bool
is_only_one(const struct chunk *chunk)
{
	return LIST_FIRST(&with_room[chunk->size / LINE - 1]) == chunk && LIST_NEXT(chunk, link) == NULL;
}

#if defined(__SANITIZE_ADDRESS__)
#define BY_MALLOC 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define BY_MALLOC 1
#endif
#endif
#ifndef BY_MALLOC
#define BY_MALLOC 0 /* AddressSanitizer tracks malloc's objects, and so finds uses of freed ones */
#endif

void *
slab_alloc(size_t size)
{
	size_t rounded = (size + LINE - 1) / LINE * LINE;
	struct chunk *chunk;
	void *memory;

	if (size == 0 || size > SLAB_MAX)
		return NULL;
	if (BY_MALLOC) {
		memory = aligned_alloc(LINE, rounded);
	} else {
		chunk = LIST_FIRST(&with_room[rounded / LINE - 1]);
		if (chunk == NULL)
			chunk = chunk_map((uint32_t)rounded);
		memory = chunk == NULL ? NULL : place_take(chunk);
	}
	if (memory != NULL)
		memset(memory, 0, rounded);
	return memory;
}

void
slab_free(void *memory)
{
	struct chunk *chunk = (struct chunk *)((uintptr_t)memory & ~(CHUNK - 1));

	if (BY_MALLOC)
		free(memory);
	if (BY_MALLOC || memory == NULL)
		return;
	place_give(chunk, memory);
	if (chunk->used != 0 || is_only_one(chunk))
		return;
	LIST_REMOVE(chunk, link);
	munmap(chunk, CHUNK);
	mapped -= CHUNK;
}

uint32_t
slab_uses(struct slab_use *use, uint32_t max)
{
	uint32_t num = 0;

	for (uint32_t i = 0; i < SIZES && num < max; i++)
		if (in_use[i] > 0)
			use[num++] = (struct slab_use){(i + 1) * LINE, in_use[i]};
	return num;
}

/* Returns the number of objects for which memory is mapped. */
static uint64_t
room_of(uint32_t size)
{
	const struct chunk *chunk;
	uint64_t room = 0;

	LIST_FOREACH(chunk, &with_room[size / LINE - 1], link)
		room += (CHUNK - LINE) / size - chunk->used;
	return room;
}

void
slab_reserve(const struct slab_use *use, uint32_t num)
{
	size_t left = SLAB_RESERVE_MAX;

	for (uint32_t i = 0; i < num && !BY_MALLOC; i++) {
		uint32_t size = use[i].size > SLAB_MAX ? 0 : (use[i].size + LINE - 1) / LINE * LINE;
		uint64_t room = size == 0 ? UINT64_MAX : room_of(size);

		for (; room < use[i].count && left >= CHUNK; left -= CHUNK) {
			struct chunk *chunk = chunk_map(size);

			if (chunk == NULL)
				return;
			pages_touch(chunk, CHUNK);
			room += (CHUNK - LINE) / size;
		}
	}
}

size_t
slab_mapped(void)
{
	return mapped;
}
