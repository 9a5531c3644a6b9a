/* SPDX-License-Identifier: BSD-3-Clause */
#include "parked.h"

#include <stddef.h>
#include <string.h>

static struct {
	struct parked *place[PARKED_MAX];
	struct parked *gone;
	uint32_t num_gone;
	uint64_t puts;
} all;

static void
lose_entry(uint32_t i)
{
	struct parked *parked = all.place[i];

	all.place[i] = NULL;
	parked->next = all.gone;
	all.gone = parked;
	all.num_gone++;
}

/* Returns a free entry of the table, or that of the oldest registration, which is lost. */
static uint32_t
find_place(void)
{
	uint32_t oldest = 0;

	for (uint32_t i = 0; i < PARKED_MAX; i++) {
		if (all.place[i] == NULL)
			return i;
		if (all.place[i]->when < all.place[oldest]->when)
			oldest = i;
	}
	lose_entry(oldest);
	return oldest;
}

void
parked_put(struct parked *parked)
{
	parked->when = ++all.puts;
	parked->place = find_place();
	all.place[parked->place] = parked;
}

static bool
is_alike(const struct parked *a, const struct parked *b)
{
	return a->va == b->va && a->length == b->length && a->client == b->client && a->shift == b->shift &&
	       a->pz == b->pz && a->access == b->access &&
	       (b->range == NULL || (a->range == b->range && a->offset == b->offset));
}

struct parked *
parked_find(const struct parked *like)
{
	for (uint32_t i = 0; i < PARKED_MAX; i++)
		if (all.place[i] != NULL && is_alike(all.place[i], like))
			return all.place[i];
	return NULL;
}

void
parked_take(struct parked *parked)
{
	all.place[parked->place] = NULL;
}

void
parked_lose(const struct range *range)
{
	for (uint32_t i = 0; i < PARKED_MAX; i++)
		if (all.place[i] != NULL && all.place[i]->range == range)
			lose_entry(i);
}

void
parked_drop(const struct one_client *client, uint32_t pz)
{
	for (uint32_t i = 0; i < PARKED_MAX; i++) {
		const struct parked *parked = all.place[i];

		if (parked != NULL && (client == NULL || parked->client == client) &&
		    (pz == 0 || parked->pz == pz))
			lose_entry(i);
	}
}

struct parked *
parked_gone(uint32_t least)
{
	struct parked *gone = all.gone;

	if (all.num_gone < least)
		return NULL;
	all.gone = NULL;
	all.num_gone = 0;
	return gone;
}

void
parked_fork_child(void)
{
	memset(&all, 0, sizeof(all));
}
