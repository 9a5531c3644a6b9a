/* SPDX-License-Identifier: BSD-3-Clause */
#include "dataplane/esp/sa.h"

#include <string.h>

#include <rte_branch_prediction.h>

#include "dataplane/esp/keeper.h"

/* Counters that are only told, or that a core compares with a limit: no order with anything else. */
static uint64_t
load(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static bool
reached(const _Atomic uint64_t *counter, const _Atomic uint64_t *limit)
{
	uint64_t value = load(limit);

	return value != 0 && load(counter) >= value;
}

/* Once for each. */
static void
tell(_Atomic bool *told)
{
	/* Pairs with the keeper's loads and esp_nic_tend; the eventfd orders them. */
	if (!atomic_load_explicit(told, memory_order_relaxed) &&
	    !atomic_exchange_explicit(told, true, memory_order_relaxed))
		esp_keeper_wake();
}

bool
esp_sa_exhausted(struct esp_sa *sa)
{
	if (likely(!reached(&sa->packets, &sa->hard_packets) && !reached(&sa->bytes, &sa->hard_bytes)))
		return false;
	tell(&sa->told_hard);
	return true;
}

static void
count(struct esp_sa *sa, uint32_t packets, uint32_t bytes, uint64_t next)
{
	uint64_t wake_at = load(&sa->wake_at);

	atomic_fetch_add_explicit(&sa->packets, packets, memory_order_relaxed);
	atomic_fetch_add_explicit(&sa->bytes, bytes, memory_order_relaxed);
	if (reached(&sa->packets, &sa->soft_packets) || reached(&sa->bytes, &sa->soft_bytes))
		tell(&sa->told_soft);
	/* The core that moves it wakes the keeper, which sets it anew. */
	if (unlikely(next >= wake_at) &&
	    atomic_compare_exchange_strong_explicit(&sa->wake_at, &wake_at, UINT64_MAX, memory_order_relaxed,
						    memory_order_relaxed))
		esp_keeper_wake();
}

uint64_t
esp_sa_take(struct esp_sa *sa, uint32_t packets, uint32_t bytes)
{
	uint64_t first = load(&sa->next);

	if (esp_sa_exhausted(sa))
		return 0;
	do {
		/* Pairs with esp_sa_allow: what is below it is in the file. */
		if (first + packets > atomic_load_explicit(&sa->ceiling, memory_order_acquire))
			return 0;
	} while (!atomic_compare_exchange_weak_explicit(&sa->next, &first, first + packets,
							memory_order_relaxed, memory_order_relaxed));
	count(sa, packets, bytes, first + packets);
	return first;
}

void
esp_sa_count(struct esp_sa *sa, uint32_t packets, uint32_t bytes)
{
	uint64_t next = sa->window.highest + 1;

	/* Read by the keeper, and by who tells of it. */
	atomic_store_explicit(&sa->next, next, memory_order_relaxed);
	count(sa, packets, bytes, next);
}

void
esp_sa_drop(struct esp_sa *sa, enum engine_esp_drop reason)
{
	atomic_fetch_add_explicit(&sa->dropped[reason], 1, memory_order_relaxed); /* only told */
}

void
esp_sa_count_nic(struct esp_sa *sa, uint32_t packets)
{
	if (packets > 0)
		atomic_fetch_add_explicit(&sa->nic_packets, packets, memory_order_relaxed); /* only told */
}

void
esp_sa_stray(struct esp_sa *sa)
{
	tell(&sa->nic_astray);
}

struct esp_saved
esp_sa_saved(const struct esp_sa *sa, uint64_t block)
{
	uint64_t next = load(&sa->next);

	return (struct esp_saved){.number = sa->outbound ? next + block : next - 1,
				  .iv = sa->outbound ? sa->iv_base + next + block : 0,
				  .packets = load(&sa->packets),
				  .bytes = load(&sa->bytes)};
}

void
esp_sa_begin(struct esp_sa *sa, const struct esp_saved *saved, uint64_t iv)
{
	uint64_t first = sa->outbound ? (saved->number != 0 ? saved->number : 1) : saved->number + 1;

	/* Before cores have it: the table's publication orders all of this. */
	atomic_init(&sa->next, first);
	atomic_init(&sa->ceiling, first);
	atomic_init(&sa->wake_at, UINT64_MAX);
	atomic_init(&sa->packets, saved->packets);
	atomic_init(&sa->bytes, saved->bytes);
	atomic_init(&sa->owner, ESP_NO_OWNER);
	sa->iv_base = (saved->iv > iv ? saved->iv : iv) - first;
	if (sa->outbound || saved->number == 0)
		return;
	/* What was taken before is not known one by one: all of it counts as seen. */
	sa->window.highest = sa->begun = saved->number;
	memset(sa->window.seen, 0xff, sizeof(sa->window.seen));
	sa->window.seen[saved->number / 64 % ESP_WINDOW_WORDS] = (2ull << saved->number % 64) - 1;
}

void
esp_sa_allow(struct esp_sa *sa, uint64_t ceiling)
{
	/* Pairs with the load in esp_sa_take. */
	atomic_store_explicit(&sa->ceiling, ceiling, memory_order_release);
}
