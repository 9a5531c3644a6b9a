/* SPDX-License-Identifier: BSD-3-Clause */
#include "arena.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "dataplane/base/pages.h"

static uint64_t
page_size(void)
{
	static uint64_t size;

	if (size == 0)
		size = (uint64_t)sysconf(_SC_PAGESIZE);
	return size;
}

uint64_t
arena_rounded(uint64_t size)
{
	uint64_t mask = page_size() - 1;

	return size == 0 ? mask + 1 : (size + mask) & ~mask;
}

uint8_t *
arena_reserve(uint64_t len, uint64_t align, uint64_t phase)
{
	uint8_t *all = mmap(NULL, len + align, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint64_t before;

	if (all == MAP_FAILED)
		return NULL;
	before = (phase - (uintptr_t)all) & (align - 1);
	if (before != 0)
		munmap(all, before);
	munmap(all + before + len, align - before);
	return all + before;
}

int
arena_populate(void *base, size_t len)
{
	int error;

	do
		error = madvise(base, len, MADV_POPULATE_WRITE) == 0 ? 0 : errno;
	while (error == EINTR || error == EAGAIN);
	if (error == EINVAL) { /* kernels before 5.14 */
		pages_write(base, len);
		return 0;
	}
	return error == EFAULT || error == EHWPOISON ? -EFAULT : -error;
}

void
arena_punch(void *base, size_t len)
{
	madvise(base, len, MADV_REMOVE);
}

void
arena_adopt(struct arena *arena, uint8_t *base)
{
	arena->base = base;
	/* A child process (none is expected) must not keep the application's memory. */
	madvise(base, arena->size, MADV_DONTFORK);
	madvise(base, arena->size, MADV_DONTDUMP);
}

int
arena_open(struct arena *arena, uint64_t size, uint64_t reserved)
{
	int fd, error;

	memset(arena, 0, sizeof(*arena));
	reserved = arena_rounded(reserved);
	fd = memfd_create("oneside-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) != 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
		goto fail;
	arena->base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (arena->base == MAP_FAILED)
		goto fail;
	arena->size = size;
	arena_adopt(arena, arena->base);
	error = arena_populate(arena->base, reserved);
	arena->free = malloc(8 * sizeof(*arena->free));
	if (error == 0 && arena->free == NULL)
		error = -ENOMEM;
	if (error != 0) {
		munmap(arena->base, size);
		free(arena->free);
		close(fd);
		return error;
	}
	arena->cap_free = 8;
	arena->num_free = 1;
	arena->free[0] = (struct arena_extent){reserved, size - reserved};
	arena->used = arena->end = reserved;
	return fd;
fail:
	error = -errno;
	close(fd);
	return error;
}

void
arena_leave(struct arena *arena)
{
	free(arena->free);
	memset(arena, 0, sizeof(*arena));
}

/* Index of the first free extent beyond `offset`. */
static uint32_t
extent_after(const struct arena *arena, uint64_t offset)
{
	uint32_t low = 0, high = arena->num_free;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (arena->free[middle].offset > offset)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

static void
extent_delete(struct arena *arena, uint32_t i)
{
	arena->num_free--;
	memmove(&arena->free[i], &arena->free[i + 1], (arena->num_free - i) * sizeof(*arena->free));
}

/* Reserves room for extents at allocation, so that freeing cannot fail: n allocations leave at most n + 1
 * free extents. */
static int
extent_reserve(struct arena *arena)
{
	struct arena_extent *grown;

	if (arena->parts + 2 <= arena->cap_free)
		return 0;
	grown = realloc(arena->free, 2 * (size_t)arena->cap_free * sizeof(*grown));
	if (grown == NULL)
		return -ENOMEM;
	arena->free = grown;
	arena->cap_free *= 2;
	return 0;
}

int
arena_alloc(struct arena *arena, uint64_t size, uint64_t *offset)
{
	int error;

	if (size > arena->size)
		return -ENOSPC;
	size = arena_rounded(size);
	error = extent_reserve(arena);
	if (error != 0)
		return error;
	for (uint32_t i = 0; i < arena->num_free; i++) {
		struct arena_extent *extent = &arena->free[i];

		if (extent->size < size)
			continue;
		*offset = extent->offset;
		extent->offset += size;
		extent->size -= size;
		if (extent->size == 0)
			extent_delete(arena, i);
		arena->used += size;
		arena->parts++;
		if (*offset + size > arena->end)
			arena->end = *offset + size;
		return 0;
	}
	return -ENOSPC;
}

void
arena_free(struct arena *arena, uint64_t offset, uint64_t size)
{
	uint32_t next = extent_after(arena, offset);
	bool joins_previous, joins_next;

	size = arena_rounded(size);
	arena->used -= size;
	/* A state that was taken over may have more allocations than it says. */
	arena->parts -= arena->parts > 0;
	joins_previous = next > 0 && arena->free[next - 1].offset + arena->free[next - 1].size == offset;
	joins_next = next < arena->num_free && offset + size == arena->free[next].offset;
	if (joins_previous && joins_next) {
		arena->free[next - 1].size += size + arena->free[next].size;
		extent_delete(arena, next);
	} else if (joins_previous) {
		arena->free[next - 1].size += size;
	} else if (joins_next) {
		arena->free[next].offset = offset;
		arena->free[next].size += size;
	} else if (arena->num_free < arena->cap_free) {
		memmove(&arena->free[next + 1], &arena->free[next],
			(arena->num_free - next) * sizeof(*arena->free));
		arena->free[next] = (struct arena_extent){offset, size};
		arena->num_free++;
	}
}
