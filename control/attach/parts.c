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

static void next(struct client *client);

static int
punch_step(struct job *job)
{
	struct parts *parts = &job->client->parts;
	uint64_t len = parts->now.size - parts->punched;

	if (len > STEP)
		len = STEP;
	arena_punch(job->client->arena.base + parts->now.offset + parts->punched, len);
	parts->punched += len;
	return parts->punched < parts->now.size;
}

static void
punched(struct job *job, int result)
{
	struct client *client = job->client;
	struct parts *parts = &client->parts;

	parts->busy = false;
	arena_free(&client->arena, parts->now.offset, parts->now.size);
	quota_release_own(client->account, parts->now.size);
	client->arena_charged -= parts->now.size;
	client->account->leaving--;
	client->account->left++;
	next(client);
}

static void
next(struct client *client)
{
	struct parts *parts = &client->parts;

	if (parts->busy || parts->num == 0)
		return;
	parts->busy = true;
	parts->now = parts->freed[--parts->num];
	parts->punched = 0;
	parts->job = (struct job){.step = punch_step, .done = punched, .client = client, .cancelable = true};
	job_start(&parts->job);
}

int
parts_reserve(struct client *client)
{
	struct parts *parts = &client->parts;
	uint32_t cap = 2 * client->arena.parts + 8;
	struct arena_extent *grown;

	if (client->arena.parts < parts->cap)
		return 0;
	grown = realloc(parts->freed, cap * sizeof(*grown));
	if (grown == NULL)
		return -ENOMEM;
	parts->freed = grown;
	parts->cap = cap;
	return 0;
}

static int
part_alloc(struct client *client, uint64_t size, uint64_t *offset)
{
	int error = parts_reserve(client);

	return error == 0 ? arena_alloc(&client->arena, size, offset) : error;
}

static int
charge_and_alloc(struct client *client, uint64_t size, uint64_t *offset, struct quota_limit *limit)
{
	bool small = size <= SMALL_MAX;
	uint64_t need = small ? small_need(&client->small, size) : arena_rounded(size);
	int error = quota_charge_own(&control.quota, client->account, need, limit);

	if (error != 0)
		return error;
	error = small ? small_alloc(&client->small, &client->arena, size, offset)
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
	else if (size > SMALL_MAX) /* small_alloc() returns zeroed memory */
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
	struct parts *parts = &client->parts;

	if (client->state == CLIENT_GONE) /* freed with the whole arena */
		return;
	if (size <= SMALL_MAX) {
		small_free(&client->small, offset, size); /* cached for the client */
		return;
	}
	/* A state that was taken over may have more allocations than it says. */
	if (parts->num == parts->cap)
		return;
	client->account->leaving++;
	parts->freed[parts->num++] = (struct arena_extent){offset, arena_rounded(size)};
	next(client);
}

void
parts_fini(struct parts *parts)
{
	free(parts->freed);
	parts->freed = NULL;
}
