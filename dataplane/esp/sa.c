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

/* Once for each. */
static void
tell(_Atomic uint8_t *told)
{
	uint8_t below = ESP_BELOW;

	/* Pairs with is_news() in keeper.c and with set_limit() in change.c; the eventfd orders it. */
	if (atomic_load_explicit(told, memory_order_relaxed) == ESP_BELOW &&
	    atomic_compare_exchange_strong_explicit(told, &below, ESP_REACHED, memory_order_relaxed,
						    memory_order_relaxed))
		esp_keeper_wake();
}

/* With that, of a counter; what the file says (the stores in esp_sa_allow) may be less, for a moment. */
static bool
within(struct esp_sa *sa, uint64_t served, uint64_t hard, const _Atomic uint64_t *saved)
{
	if (hard == 0)
		return true;
	if (served > hard)
		tell(&sa->hard);
	return served <= hard && served <= load(saved);
}

static inline bool
admits(struct esp_sa *sa, uint64_t packets, uint64_t bytes)
{
	uint64_t hard_packets = load(&sa->hard_packets), hard_bytes = load(&sa->hard_bytes);

	return likely((hard_packets | hard_bytes) == 0) ||
	       (within(sa, packets, hard_packets, &sa->packets_saved) &&
		within(sa, bytes, hard_bytes, &sa->bytes_saved));
}

bool
esp_sa_admits(struct esp_sa *sa, uint32_t packets, uint32_t bytes)
{
	return admits(sa, load(&sa->packets) + packets, load(&sa->bytes) + bytes);
}

/* Returns what it is then. */
static inline uint64_t
count(_Atomic uint64_t *counter, uint32_t more)
{
	return atomic_fetch_add_explicit(counter, more, memory_order_relaxed) + more;
}

static bool
is_above(uint64_t value, const _Atomic uint64_t *limit)
{
	uint64_t soft = load(limit);

	return soft != 0 && value >= soft;
}

static inline void
watch(struct esp_sa *sa, uint64_t packets, uint64_t bytes, uint64_t next)
{
	uint64_t wake_at = load(&sa->wake_at);

	if (is_above(packets, &sa->soft_packets) || is_above(bytes, &sa->soft_bytes))
		tell(&sa->soft);
	/* The core that moves it wakes the keeper, which sets it anew. */
	if (unlikely(next >= wake_at) &&
	    atomic_compare_exchange_strong_explicit(&sa->wake_at, &wake_at, UINT64_MAX, memory_order_relaxed,
						    memory_order_relaxed))
		esp_keeper_wake();
}

uint64_t
esp_sa_take(struct esp_sa *sa, uint32_t packets, uint32_t bytes)
{
	/* Counted before: so cores together do not pass a limit, and a file is never behind. */
	uint64_t served = count(&sa->packets, packets), served_bytes = count(&sa->bytes, bytes);
	uint64_t first = load(&sa->next);

	if (unlikely(!admits(sa, served, served_bytes)))
		goto none;
	do {
		/* Pairs with esp_sa_allow: what is below it is in the file. */
		if (unlikely(first + packets > atomic_load_explicit(&sa->ceiling, memory_order_acquire)))
			goto none;
		/* Pairs with the load in esp_sa_saved: what is counted there has these. */
	} while (!atomic_compare_exchange_weak_explicit(&sa->next, &first, first + packets,
							memory_order_release, memory_order_relaxed));
	watch(sa, served, served_bytes, first + packets);
	return first;
none:
	atomic_fetch_sub_explicit(&sa->packets, packets, memory_order_relaxed);
	atomic_fetch_sub_explicit(&sa->bytes, bytes, memory_order_relaxed);
	return 0;
}

void
esp_sa_count(struct esp_sa *sa, uint32_t packets, uint32_t bytes)
{
	uint64_t served = count(&sa->packets, packets), served_bytes = count(&sa->bytes, bytes);
	uint64_t next = sa->window.highest + 1;

	/* Read by the keeper (esp_sa_saved), and by who tells of it. */
	atomic_store_explicit(&sa->next, next, memory_order_release);
	watch(sa, served, served_bytes, next);
}

struct esp_saved
esp_sa_saved(const struct esp_sa *sa, uint64_t block)
{
	/* Pairs with the stores of cores: packets and bytes before it have been counted. */
	uint64_t next = atomic_load_explicit(&sa->next, memory_order_acquire);

	return (struct esp_saved){.number = sa->outbound ? next + block : next - 1,
				  .iv = sa->outbound ? sa->iv_base + next + block : 0,
				  .packets = load(&sa->packets) + block,
				  .bytes = load(&sa->bytes) + block * ESP_BLOCK_BYTES};
}

/* So that a crash wastes a sixteenth of what the key may serve. */
uint64_t
esp_sa_block(const struct esp_sa *sa, uint64_t most)
{
	uint64_t packets = load(&sa->hard_packets), bytes = load(&sa->hard_bytes), block = most;

	if (packets != 0)
		block = RTE_MIN(block, packets / 16);
	if (bytes != 0)
		block = RTE_MIN(block, bytes / 16 / ESP_BLOCK_BYTES);
	return RTE_MAX(block, ESP_BLOCK_LEAST);
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
	atomic_init(&sa->packets_saved, saved->packets);
	atomic_init(&sa->bytes_saved, saved->bytes);
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
esp_sa_allow(struct esp_sa *sa, const struct esp_saved *saved)
{
	/* Pair with the loads in within() and esp_sa_take. */
	atomic_store_explicit(&sa->packets_saved, saved->packets, memory_order_relaxed);
	atomic_store_explicit(&sa->bytes_saved, saved->bytes, memory_order_relaxed);
	if (sa->outbound)
		atomic_store_explicit(&sa->ceiling, saved->number, memory_order_release);
}
