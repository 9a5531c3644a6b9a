/* SPDX-License-Identifier: BSD-3-Clause */
/* The process accesses its own memory as a data plane does an application's: an arena with a copy thread, and
 * bounced access through it. */
#ifndef TESTS_COPYING_H
#define TESTS_COPYING_H

#include <assert.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/copier.h"
#include "dataplane/mem/bounce.h"

#define COPYING_PAGE ((size_t)sysconf(_SC_PAGESIZE))
#define COPYING_SIZE (COPYING_PAGE + sizeof(struct one_copies))

struct copying {
	struct one_arena *arena;
	struct one_copies *shm;
	struct copier *copier; /* NULL: stopped */
	struct copied all;
	struct bounce *bounce;
	struct bounce_list list;
	int arena_fd;
	uint32_t faults;
};

static inline void
copying_fault(void *owner)
{
	((struct copying *)owner)->faults++;
}

/* Starts a copy thread for a process all of whose memory is registered. */
static inline struct copier *
copying_start(const struct copier_place *place, uint64_t offset, struct copied *all)
{
	struct copier *copier;

	*all = (struct copied){.length = UINT64_MAX, .write = true};
	assert(copier_start(place, offset, all, &copier) == 0);
	return copier;
}

static inline void
copying_open(struct copying *c)
{
	struct copier_place place = {.arena_fd = memfd_create("copying", MFD_CLOEXEC), .wake_fd = -1};

	*c = (struct copying){.faults = 0};
	LIST_INIT(&c->list);
	assert(ftruncate(place.arena_fd, (off_t)COPYING_SIZE) == 0);
	c->arena = mmap(NULL, COPYING_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, place.arena_fd, 0);
	assert(c->arena != MAP_FAILED);
	c->shm = (struct one_copies *)(void *)((uint8_t *)c->arena + COPYING_PAGE);
	c->bounce = bounce_new(c->shm, &c->list, copying_fault, c, 0, NULL);
	assert(c->bounce != NULL);
	c->copier = copying_start(&place, COPYING_PAGE, &c->all);
	c->arena_fd = place.arena_fd;
}

static inline void
copying_stop(struct copying *c)
{
	if (c->copier != NULL)
		copier_stop(c->copier);
	c->copier = NULL;
}

static inline void
copying_close(struct copying *c)
{
	copying_stop(c);
	bounce_free(c->bounce);
	munmap(c->arena, COPYING_SIZE);
	close(c->arena_fd);
}

#endif
