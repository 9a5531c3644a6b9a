/* SPDX-License-Identifier: BSD-3-Clause */
#include "dataplane/esp/sa.h"

#include <string.h>

#include <rte_branch_prediction.h>

/* Relaxed: counters are reported, or compared with a limit, and order nothing else. */
static uint64_t
load_counter(const _Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

/* Wake the keeper once per limit, to report it. */
static void
report_limit(_Atomic uint8_t *reported)
{
	uint8_t below = ESP_BELOW;

	/* Relaxed: pairs with is_news() in keeper.c and with set_limit() in change.c; the eventfd orders
	 * it. */
	if (atomic_load_explicit(reported, memory_order_relaxed) == ESP_BELOW &&
	    atomic_compare_exchange_strong_explicit(reported, &below, ESP_REACHED, memory_order_relaxed,
						    memory_order_relaxed))
		esp_keeper_wake();
}

/* Is `served`, including this batch, within the hard limit and within what the file has (which may lag;
 * stored in esp_sa_allow())? */
static bool
is_within(struct esp_sa *sa, uint64_t served, uint64_t hard, const _Atomic uint64_t *saved)
{
	if (hard == 0)
		return true;
	if (served > hard)
		report_limit(&sa->hard);
	return served <= hard && served <= load_counter(saved);
}

static inline bool
limits_admit(struct esp_sa *sa, uint64_t packets, uint64_t bytes)
{
	uint64_t hard_packets = load_counter(&sa->hard_packets), hard_bytes = load_counter(&sa->hard_bytes);

	return likely((hard_packets | hard_bytes) == 0) ||
	       (is_within(sa, packets, hard_packets, &sa->packets_saved) &&
		is_within(sa, bytes, hard_bytes, &sa->bytes_saved));
}

bool
esp_sa_admits(struct esp_sa *sa, uint32_t packets, uint32_t bytes)
{
	return limits_admit(sa, load_counter(&sa->packets) + packets, load_counter(&sa->bytes) + bytes);
}

/* Returns the counter's new value. */
static inline uint64_t
add_to_counter(_Atomic uint64_t *counter, uint32_t more)
{
	return atomic_fetch_add_explicit(counter, more, memory_order_relaxed) + more;
}

static bool
is_above(uint64_t value, const _Atomic uint64_t *limit)
{
	uint64_t soft = load_counter(limit);

	return soft != 0 && value >= soft;
}

static inline void
watch_limits(struct esp_sa *sa, uint64_t packets, uint64_t bytes, uint64_t next)
{
	uint64_t wake_at = load_counter(&sa->wake_at);

	if (is_above(packets, &sa->soft_packets) || is_above(bytes, &sa->soft_bytes))
		report_limit(&sa->soft);
	/* The core that resets wake_at wakes the keeper, which sets wake_at again. */
	if (unlikely(next >= wake_at) &&
	    atomic_compare_exchange_strong_explicit(&sa->wake_at, &wake_at, UINT64_MAX, memory_order_relaxed,
						    memory_order_relaxed))
		esp_keeper_wake();
}

uint64_t
esp_sa_take(struct esp_sa *sa, uint32_t packets, uint32_t bytes)
{
	/* Count first: so all cores together do not exceed a limit, and a file is never behind. */
	uint64_t served = add_to_counter(&sa->packets, packets),
		 served_bytes = add_to_counter(&sa->bytes, bytes);
	uint64_t first = load_counter(&sa->next);

	if (unlikely(!limits_admit(sa, served, served_bytes)))
		goto none;
	do {
		/* Pairs with esp_sa_allow(): numbers below the ceiling are in the file. */
		if (unlikely(first + packets > atomic_load_explicit(&sa->ceiling, memory_order_acquire)))
			goto none;
		/* Pairs with the load in esp_sa_saved(), which then sees these packets counted. */
	} while (!atomic_compare_exchange_weak_explicit(&sa->next, &first, first + packets,
							memory_order_release, memory_order_relaxed));
	watch_limits(sa, served, served_bytes, first + packets);
	return first;
none:
	atomic_fetch_sub_explicit(&sa->packets, packets, memory_order_relaxed);
	atomic_fetch_sub_explicit(&sa->bytes, bytes, memory_order_relaxed);
	return 0;
}

void
esp_sa_count(struct esp_sa *sa, uint32_t packets, uint32_t bytes)
{
	uint64_t served = add_to_counter(&sa->packets, packets),
		 served_bytes = add_to_counter(&sa->bytes, bytes);
	uint64_t next = sa->window.highest + 1;

	/* Pairs with the loads of the keeper (esp_sa_saved()) and of telemetry. */
	atomic_store_explicit(&sa->next, next, memory_order_release);
	watch_limits(sa, served, served_bytes, next);
}

struct esp_saved
esp_sa_saved(const struct esp_sa *sa, uint64_t block)
{
	/* Pairs with the stores of cores: packets and bytes before `next` have been counted. */
	uint64_t next = atomic_load_explicit(&sa->next, memory_order_acquire);

	return (struct esp_saved){.number = sa->outbound ? next + block : next - 1,
				  .iv = sa->outbound ? sa->iv_base + next + block : 0,
				  .packets = load_counter(&sa->packets) + block,
				  .bytes = load_counter(&sa->bytes) + block * ESP_BLOCK_BYTES};
}

/* A crash wastes at most a sixteenth of what the key may serve. */
uint64_t
esp_sa_block(const struct esp_sa *sa, uint64_t most)
{
	uint64_t packets = load_counter(&sa->hard_packets), bytes = load_counter(&sa->hard_bytes),
		 block = most;

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

	/* Cores do not have the SA yet: publication of the table orders all of this. */
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
	/* Single numbers received before a restart are unknown: all up to the highest count as seen. */
	sa->window.highest = sa->begun = saved->number;
	memset(sa->window.seen, 0xff, sizeof(sa->window.seen));
	sa->window.seen[saved->number / 64 % ESP_WINDOW_WORDS] = (2ull << saved->number % 64) - 1;
}

void
esp_sa_allow(struct esp_sa *sa, const struct esp_saved *saved)
{
	/* Pair with the loads in is_within() and esp_sa_take(). */
	atomic_store_explicit(&sa->packets_saved, saved->packets, memory_order_relaxed);
	atomic_store_explicit(&sa->bytes_saved, saved->bytes, memory_order_relaxed);
	if (sa->outbound)
		atomic_store_explicit(&sa->ceiling, saved->number, memory_order_release);
}

bool
esp_sa_has_same_file(const struct esp_sa *a, const struct esp_sa *b)
{
	return a->spi == b->spi && memcmp(a->check, b->check, ESP_CHECK_LEN) == 0;
}

bool
esp_sa_is_same(const struct esp_sa *a, const struct esp_sa *b)
{
	return esp_sa_has_same_file(a, b) && a->outbound == b->outbound && a->port == b->port &&
	       wire_addr_equal(&a->local, &b->local) && wire_addr_equal(&a->peer, &b->peer);
}
