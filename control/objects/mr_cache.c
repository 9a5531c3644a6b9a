/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/objects/objects.h"

#define BATCH 32u      /* objects released per call */
#define LOOKS 1024u    /* registrations examined per call */
#define LOOKS_PER_US 8 /* registrations examined per us charged to the user */

void
mr_cache_put(struct region *region)
{
	struct client *client = region->object.client;

	region->cached = true;
	TAILQ_INSERT_TAIL(&client->cached_regions, region, cache_link);
}

void
mr_cache_take(struct region *region)
{
	if (region->cached)
		TAILQ_REMOVE(&region->object.client->cached_regions, region, cache_link);
	region->cached = false;
}

void
mr_cache_watch(struct mr *mr)
{
	TAILQ_INSERT_TAIL(&mr->object.client->renewable_mrs, mr, cache_link);
}

void
mr_cache_forget(struct mr *mr)
{
	TAILQ_REMOVE(&mr->object.client->renewable_mrs, mr, cache_link);
}

static void
reclaim_region(struct region *region)
{
	struct one_arena *arena = (struct one_arena *)region->object.client->arena.base;

	/* Relaxed: pairs with the library's load in drop_reclaimed(), which uses only the count. */
	atomic_fetch_add_explicit(&arena->reclaimed, 1, memory_order_relaxed);
	region_destroy(region);
}

static uint32_t
reclaim_regions(struct client *client, uint32_t most)
{
	struct region *region;
	uint32_t done = 0;

	for (; done < most && (region = TAILQ_FIRST(&client->cached_regions)) != NULL; done++)
		reclaim_region(region);
	return done;
}

/* Called when no core can use the registration's key any more.  Releases the region, too, unless it has other
 * registrations. */
static void
registration_ended(struct client *client, void *object)
{
	struct mr *mr = object;
	struct region *region = mr->region[0];

	mr_destroy(mr);
	if (client_alive(client) && region->cached)
		reclaim_region(region);
	client->account->leaving--;
	client->account->left++;
}

/* Releases a registration.  False: its key is not revoked, or a window or segment depends on it. */
static bool
reclaim_registration(struct mr *mr)
{
	struct client *client = mr->object.client;

	if (mr->object.busy || mr->object.users != 0 || !LIST_EMPTY(&mr->windows) || mr->entry == NULL ||
	    mr->entry->renewable == NULL || !mem_expire(engine_mem_table(), mr->entry->renewable))
		return false;
	mr->object.busy = true;
	/* Release the zone now: the application may free it, unaware that the registration still exists. */
	mr->pz->object.users--;
	mr->pz = NULL;
	client->account->leaving++;
	mr_withdraw(mr);
	grace_defer(client, registration_ended, mr);
	return true;
}

/* Examined registrations move to the end of the list, so that later calls examine others. */
static uint32_t
reclaim_registrations(struct client *client, uint32_t most, uint32_t *looks)
{
	const struct mr *last = TAILQ_LAST(&client->renewable_mrs, mr_list);
	struct mr *mr = TAILQ_FIRST(&client->renewable_mrs);
	uint32_t done = 0;

	for (bool more = mr != NULL; more && done<most && * looks> 0; --*looks) {
		more = mr != last;
		TAILQ_REMOVE(&client->renewable_mrs, mr, cache_link);
		TAILQ_INSERT_TAIL(&client->renewable_mrs, mr, cache_link);
		done += reclaim_registration(mr);
		mr = TAILQ_FIRST(&client->renewable_mrs);
	}
	return done;
}

bool
mr_cache_reclaim(struct quota_account *account)
{
	uint32_t done = 0, looks = LOOKS;
	struct client *client;

	TAILQ_FOREACH(client, &control.clients, link) {
		if (client->account != account || !client_alive(client))
			continue;
		done += reclaim_regions(client, BATCH - done);
		done += reclaim_registrations(client, BATCH - done, &looks);
	}
	drr_charge(&account->drr, (LOOKS - looks) / LOOKS_PER_US);
	return done != 0;
}
