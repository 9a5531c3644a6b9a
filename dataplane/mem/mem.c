/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory keys. */
#include "mem.h"

#include <stdlib.h>
#include <sys/random.h>

#define KEY_ATTEMPTS 16u /* at random before the table is searched */

struct mem_table *
mem_table_new(uint32_t log2)
{
	struct mem_table *table;

	if (log2 > 16)
		return NULL;
	table = calloc(1, sizeof(*table) + sizeof(table->slot[0]) * ((size_t)1 << log2));
	if (table != NULL)
		table->log2 = log2;
	return table;
}

void
mem_table_free(struct mem_table *table)
{
	free(table);
}

static bool
slot_is_free(const struct mem_table *table, uint32_t key)
{
	/* Of this thread's stores, and of mem_invalidate by a core, which leaves the slot its owner's. */
	return atomic_load_explicit(&table->slot[mem_key_slot(table, key)], memory_order_relaxed) == NULL;
}

uint32_t
mem_key_new(const struct mem_table *table)
{
	uint32_t random[KEY_ATTEMPTS], slots = 1u << table->log2, key = 0;

	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return 0;
	for (unsigned int i = 0; i < KEY_ATTEMPTS; i++) {
		key = random[i];
		if (key != 0 && slot_is_free(table, key))
			return key;
	}
	/* Nearly full: from the last random slot on; tag and variant stay random. */
	for (uint32_t i = 0; i < slots; i++) {
		key = (key & 0xff0000ffu) | ((key + 0x100u) & 0x00ffff00u);
		if (key != 0 && slot_is_free(table, key))
			return key;
	}
	return 0;
}

void
mem_publish(struct mem_table *table, struct mem_region *region)
{
	/* Pairs with the acquire load in mem_lookup. */
	atomic_store_explicit(&table->slot[mem_key_slot(table, region->key)], region, memory_order_release);
}

void
mem_remove(struct mem_table *table, uint32_t key)
{
	/* Pairs with the acquire load in mem_lookup. */
	atomic_store_explicit(&table->slot[mem_key_slot(table, key)], NULL, memory_order_release);
}

/* Grants nothing, for good. */
static struct mem_region invalidated = {.pz = UINT32_MAX};

bool
mem_invalidate(struct mem_table *table, uint32_t key, uint32_t pz, uint32_t qpn)
{
	struct mem_region *region = mem_lookup(table, key);

	if (region == NULL || !region->window || region->pz != pz || (region->qpn != 0 && region->qpn != qpn))
		return false;
	/* Fails when the control thread has replaced or removed the entry meanwhile, which ends it as well.
	 * Pairs with the acquire load in mem_lookup. */
	atomic_compare_exchange_strong_explicit(&table->slot[mem_key_slot(table, key)], &region, &invalidated,
						memory_order_release, memory_order_relaxed);
	return true;
}

/* Both sides exchange what they have found, so a slot that the other one has written meanwhile stays as it
 * is. */
static bool
exchange(struct mem_table *table, uint32_t key, struct mem_region *from, struct mem_region *to)
{
	/* Release: pairs with the acquire load in mem_lookup.  Acquire: what the other side stored before. */
	return atomic_compare_exchange_strong_explicit(&table->slot[mem_key_slot(table, key)], &from, to,
						       memory_order_acq_rel, memory_order_relaxed);
}

bool
mem_revoke(struct mem_table *table, const void *holder, uint32_t key)
{
	struct mem_region *region = mem_lookup(table, key);
	struct mem_renewable *renewable = region == NULL ? NULL : region->renewable;

	return renewable != NULL && renewable->holder == holder && region == &renewable->region &&
	       exchange(table, key, region, &renewable->none);
}

bool
mem_renew(struct mem_table *table, const void *holder, uint32_t key, uint32_t next)
{
	/* Pairs with the release stores of the control thread. */
	struct mem_region *region =
		atomic_load_explicit(&table->slot[mem_key_slot(table, key)], memory_order_acquire);
	struct mem_renewable *renewable = region == NULL ? NULL : region->renewable;

	if (renewable == NULL || renewable->holder != holder || region != &renewable->none ||
	    mem_key_of(&renewable->region) != key || ((next ^ key) & ONE_KEY_SLOT) != 0 || next == 0)
		return false;
	/* Between `none` in the slot, which is of this core, and this look; pairs with the fence in
	 * mem_settle: the region that is published after it keeps its key. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&renewable->settled, memory_order_relaxed))
		return false;
	/* Pairs with mem_key_of, for who holds on to the region; nobody finds it before the release in
	 * exchange(). */
	__atomic_store_n(&renewable->region.key, next, __ATOMIC_RELAXED);
	return exchange(table, key, &renewable->none, &renewable->region);
}

bool
mem_expire(struct mem_table *table, struct mem_renewable *renewable)
{
	return exchange(table, mem_key_of(&renewable->region), &renewable->none, &invalidated);
}

bool
mem_settle(struct mem_table *table, struct mem_renewable *renewable, struct mem_region *copy)
{
	uint32_t key = mem_key_of(&renewable->region); /* its slot, at least */
	struct mem_region *found;

	atomic_store_explicit(&renewable->settled, true, memory_order_relaxed);
	/* Pairs with the fence in mem_renew: the region found below keeps its key while it is there. */
	atomic_thread_fence(memory_order_seq_cst);
	/* The core can be in the midst of one renewal, which ends in the slot or finds it taken, and revoke
	 * once more. */
	for (;;) {
		/* Pairs with the release in exchange() on the core. */
		found = atomic_load_explicit(&table->slot[mem_key_slot(table, key)], memory_order_acquire);
		if (found == &renewable->region) {
			*copy = renewable->region;
			copy->renewable = NULL;
			if (exchange(table, key, found, copy))
				return true;
		} else if (found != &renewable->none || exchange(table, key, found, &invalidated)) {
			return false;
		}
	}
}
