/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory keys. */
#include "mem.h"

#include <stdlib.h>
#include <sys/random.h>

#define KEY_ATTEMPTS 16u /* random attempts before the table is searched */

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

bool
mem_slot_is_free(const struct mem_table *table, uint32_t key)
{
	/* Relaxed: a slot is stored by this thread, or by a core in mem_invalidate(), which does not free the
	 * slot. */
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
		if (key != 0 && mem_slot_is_free(table, key))
			return key;
	}
	/* The table is nearly full: search from the last random slot on. Tag and variant stay random. */
	for (uint32_t i = 0; i < slots; i++) {
		key = (key & 0xff0000ffu) | ((key + 0x100u) & 0x00ffff00u);
		if (key != 0 && mem_slot_is_free(table, key))
			return key;
	}
	return 0;
}

void
mem_publish(struct mem_table *table, struct mem_region *region)
{
	/* Pairs with the acquire load in mem_lookup(). */
	atomic_store_explicit(&table->slot[mem_key_slot(table, region->key)], region, memory_order_release);
}

void
mem_remove(struct mem_table *table, uint32_t key)
{
	/* Pairs with the acquire load in mem_lookup(). */
	atomic_store_explicit(&table->slot[mem_key_slot(table, key)], NULL, memory_order_release);
}

/* Region that never grants anything: no queue pair has its zone. */
static struct mem_region invalidated = {.pz = UINT32_MAX};

bool
mem_invalidate(struct mem_table *table, uint32_t key, uint32_t pz, uint32_t qpn)
{
	struct mem_region *region = mem_lookup(table, key);

	if (region == NULL || !region->window || region->pz != pz || (region->qpn != 0 && region->qpn != qpn))
		return false;
	/* The exchange fails if the control thread has replaced or removed the entry meanwhile, which
	 * invalidates the window as well. Pairs with the acquire load in mem_lookup(). */
	atomic_compare_exchange_strong_explicit(&table->slot[mem_key_slot(table, key)], &region, &invalidated,
						memory_order_release, memory_order_relaxed);
	return true;
}

/* Control thread and core both exchange the entry that they found, so neither overwrites an entry that the
 * other has stored meanwhile. */
static bool
exchange_slot(struct mem_table *table, uint32_t key, struct mem_region *from, struct mem_region *to)
{
	/* The release pairs with the acquire load in mem_lookup(). The acquire makes visible what the other
	 * side stored before. */
	return atomic_compare_exchange_strong_explicit(&table->slot[mem_key_slot(table, key)], &from, to,
						       memory_order_acq_rel, memory_order_relaxed);
}

bool
mem_revoke(struct mem_table *table, const void *holder, uint32_t key)
{
	struct mem_region *region = mem_lookup(table, key);
	struct mem_renewable *renewable = region == NULL ? NULL : region->renewable;

	return renewable != NULL && renewable->holder == holder && region == &renewable->region &&
	       exchange_slot(table, key, region, &renewable->none);
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
	/* Orders the store of `none` in the slot, by this core, before the load below. Pairs with the fence
	 * in mem_settle(): a region published after that keeps its key. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&renewable->settled, memory_order_relaxed))
		return false;
	/* Pairs with mem_key_of() of threads that still hold the region. No lookup finds the region before
	 * the release in exchange_slot(). */
	__atomic_store_n(&renewable->region.key, next, __ATOMIC_RELAXED);
	return exchange_slot(table, key, &renewable->none, &renewable->region);
}

bool
mem_expire(struct mem_table *table, struct mem_renewable *renewable)
{
	return exchange_slot(table, mem_key_of(&renewable->region), &renewable->none, &invalidated);
}

bool
mem_settle(struct mem_table *table, struct mem_renewable *renewable, struct mem_region *copy)
{
	uint32_t key = mem_key_of(&renewable->region); /* only its slot is used */
	struct mem_region *found;

	atomic_store_explicit(&renewable->settled, true, memory_order_relaxed);
	/* Pairs with the fence in mem_renew(): if the region is found below, its key stays. */
	atomic_thread_fence(memory_order_seq_cst);
	/* The core may be in the middle of one renewal, which publishes the region or finds the slot taken,
	 * and may then revoke once more. */
	for (;;) {
		/* Pairs with the release in exchange_slot() on the core. */
		found = atomic_load_explicit(&table->slot[mem_key_slot(table, key)], memory_order_acquire);
		if (found == &renewable->region) {
			*copy = renewable->region;
			copy->renewable = NULL;
			if (exchange_slot(table, key, found, copy))
				return true;
		} else if (found != &renewable->none || exchange_slot(table, key, found, &invalidated)) {
			return false;
		}
	}
}
