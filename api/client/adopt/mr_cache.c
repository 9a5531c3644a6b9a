/* SPDX-License-Identifier: BSD-3-Clause */
#include "mr_cache.h"

#include <stddef.h>
#include <string.h>

static struct {
	struct cached_mr *place[MR_CACHE_MAX];
	struct cached_mr *gone;
	uint32_t num_gone;
	uint64_t puts;
} all;

static void
lose_entry(uint32_t i)
{
	struct cached_mr *cached = all.place[i];

	all.place[i] = NULL;
	cached->next = all.gone;
	all.gone = cached;
	all.num_gone++;
}

/* Returns a free entry of the table, or that of the oldest registration, which is lost. */
static uint32_t
find_place(void)
{
	uint32_t oldest = 0;

	for (uint32_t i = 0; i < MR_CACHE_MAX; i++) {
		if (all.place[i] == NULL)
			return i;
		if (all.place[i]->when < all.place[oldest]->when)
			oldest = i;
	}
	lose_entry(oldest);
	return oldest;
}

void
mr_cache_put(struct cached_mr *cached)
{
	cached->when = ++all.puts;
	cached->place = find_place();
	all.place[cached->place] = cached;
}

static bool
is_alike(const struct cached_mr *a, const struct cached_mr *b)
{
	return a->va == b->va && a->length == b->length && a->client == b->client && a->shift == b->shift &&
	       a->pz == b->pz && a->access == b->access &&
	       (b->range == NULL || (a->range == b->range && a->offset == b->offset));
}

struct cached_mr *
mr_cache_find(const struct cached_mr *like)
{
	for (uint32_t i = 0; i < MR_CACHE_MAX; i++)
		if (all.place[i] != NULL && is_alike(all.place[i], like))
			return all.place[i];
	return NULL;
}

void
mr_cache_take(struct cached_mr *cached)
{
	all.place[cached->place] = NULL;
}

void
mr_cache_lose(const struct range *range)
{
	for (uint32_t i = 0; i < MR_CACHE_MAX; i++)
		if (all.place[i] != NULL && all.place[i]->range == range)
			lose_entry(i);
}

void
mr_cache_drop(const struct one_client *client, uint32_t pz)
{
	for (uint32_t i = 0; i < MR_CACHE_MAX; i++) {
		const struct cached_mr *cached = all.place[i];

		if (cached != NULL && (client == NULL || cached->client == client) &&
		    (pz == 0 || cached->pz == pz))
			lose_entry(i);
	}
}

struct cached_mr *
mr_cache_gone(uint32_t least)
{
	struct cached_mr *gone = all.gone;

	if (all.num_gone < least)
		return NULL;
	all.gone = NULL;
	all.num_gone = 0;
	return gone;
}

void
mr_cache_fork_child(void)
{
	memset(&all, 0, sizeof(all));
}
