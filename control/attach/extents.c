/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory in an attachment's arena.
 *
 * To remove pages of a file, the kernel takes the lock that a write(2) to the file holds.  An application can
 * write to its arena from memory whose page fault never ends.  So the user's worker removes the pages, one
 * extent at a time.  Each extent is charged until its pages are gone, and a request that lacks the memory
 * waits.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/attach/client.h"

#define STEP (2ull << 20) /* bytes per step; other attachments of the user have steps between */

static void punch_next(struct client *client);

static int
punch_step(struct job *job)
{
	struct freed_extents *extents = &job->client->extents;
	uint64_t len = extents->now.size - extents->punched;

	if (len > STEP)
		len = STEP;
	arena_punch(job->client->arena.base + extents->now.offset + extents->punched, len);
	extents->punched += len;
	return extents->punched < extents->now.size;
}

static void
extent_punched(struct job *job, int result)
{
	struct client *client = job->client;
	struct freed_extents *extents = &client->extents;

	extents->busy = false;
	arena_free(&client->arena, extents->now.offset, extents->now.size);
	quota_release_own(client->account, extents->now.size);
	client->arena_charged -= extents->now.size;
	client->account->leaving--;
	client->account->left++;
	punch_next(client);
}

static void
punch_next(struct client *client)
{
	struct freed_extents *extents = &client->extents;

	if (extents->busy || extents->num == 0)
		return;
	extents->busy = true;
	extents->now = extents->freed[--extents->num];
	extents->punched = 0;
	extents->job = (struct job){
		.step = punch_step, .done = extent_punched, .client = client, .cancelable = true};
	job_start(&extents->job);
}

int
extents_reserve(struct client *client)
{
	struct freed_extents *extents = &client->extents;
	uint32_t cap = 2 * client->arena.parts + 8;
	struct arena_extent *grown;

	if (client->arena.parts < extents->cap)
		return 0;
	grown = realloc(extents->freed, cap * sizeof(*grown));
	if (grown == NULL)
		return -ENOMEM;
	extents->freed = grown;
	extents->cap = cap;
	return 0;
}

static int
part_alloc(struct client *client, uint64_t size, uint64_t *offset)
{
	int error = extents_reserve(client);

	return error == 0 ? arena_alloc(&client->arena, size, offset) : error;
}

static int
charge_and_alloc(struct client *client, uint64_t size, uint64_t *offset, struct quota_limit *limit)
{
	bool small = size <= ARENA_SLAB_MAX;
	uint64_t need = small ? arena_slab_need(&client->slabs, size) : arena_rounded(size);
	int error = quota_charge_own(&control.quota, client->account, need, limit);

	if (error != 0)
		return error;
	error = small ? arena_slab_alloc(&client->slabs, &client->arena, size, offset)
		      : part_alloc(client, size, offset);
	if (error == 0)
		client->arena_charged += need;
	else
		quota_release_own(client->account, need);
	return error;
}

/* Populates and zeroes an extent: the application can write to free extents, too. */
static int
populate_zeroed(struct client *client, uint64_t offset, uint64_t size)
{
	int error = arena_populate(client->arena.base + offset, arena_rounded(size));

	if (error == 0)
		memset(client->arena.base + offset, 0, arena_rounded(size));
	else
		client_free(client, offset, size);
	return error;
}

int
client_alloc(struct client *client, uint64_t size, uint64_t *offset)
{
	struct quota_limit limit = {ONE_ARENA_SIZE, ""}; /* limit reported with -ENOSPC */
	int error = charge_and_alloc(client, size, offset, &limit);

	if (error != 0)
		client->starved =
			error == -EDQUOT ? client_awaits_room(client) : quota_is_leaving(client->account);
	else if (size > ARENA_SLAB_MAX) /* arena_slab_alloc() returns zeroed memory */
		error = populate_zeroed(client, *offset, size);
	if (error == -EDQUOT || error == -ENOSPC)
		client_refuse_limit(client, &limit);
	else if (error != 0)
		client_refuse(client, error, ONE_SUBJECT_MEMORY, size);
	return error;
}

void
client_free(struct client *client, uint64_t offset, uint64_t size)
{
	struct freed_extents *extents = &client->extents;

	if (client->state == CLIENT_GONE) /* freed with the whole arena */
		return;
	if (size <= ARENA_SLAB_MAX) {
		arena_slab_free(&client->slabs, offset, size); /* cached for the client */
		return;
	}
	/* A state that was taken over may have more allocations than it says. */
	if (extents->num == extents->cap)
		return;
	client->account->leaving++;
	extents->freed[extents->num++] = (struct arena_extent){offset, arena_rounded(size)};
	punch_next(client);
}

void
extents_fini(struct freed_extents *extents)
{
	free(extents->freed);
	extents->freed = NULL;
}
