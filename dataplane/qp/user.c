/* SPDX-License-Identifier: BSD-3-Clause */
/* Ceilings of a user: rate limits over all cores and attachments. */
#include "dataplane/qp/user.h"

#define BURST_NS CORE_GAP_NS /* a core that was off its processor for this long may catch up */
#define SECOND 1000000000ull

/* Returns what is left below the ceiling at `now`; 0: nothing until *due. */
static uint64_t
room_below(const struct ceiling *ceiling, uint64_t now, uint64_t *due)
{
	uint64_t rate = atomic_load_explicit(&ceiling->rate, memory_order_relaxed);
	uint64_t arrival, room;

	if (rate == 0)
		return UINT64_MAX;
	/* Relaxed: pairs with user_charge() on other cores; what they do at the same time is paid by later
	 * turns. */
	arrival = atomic_load_explicit(&ceiling->arrival, memory_order_relaxed);
	if (arrival > now + BURST_NS) {
		*due = RTE_MAX(*due, arrival - BURST_NS);
		return 0;
	}
	room = (uint64_t)((unsigned __int128)(now + BURST_NS - RTE_MAX(arrival, now)) * rate / SECOND);
	return RTE_MAX(room, 1u);
}

bool
user_admits(const struct engine_user *user, uint64_t now, uint64_t room[CEILINGS], uint64_t *due)
{
	bool admitted = true;

	*due = now;
	for (int i = 0; i < CEILINGS; i++) {
		room[i] = room_below(&user->ceiling[i], now, due);
		admitted = admitted && room[i] != 0;
	}
	return admitted;
}

bool
user_may_wake(const struct engine_user *user, uint64_t now)
{
	uint64_t due = 0;

	return room_below(&user->ceiling[CEILING_WAKES], now, &due) != 0;
}

void
user_charge(struct engine_user *user, uint64_t now, const uint64_t done[CEILINGS])
{
	for (int i = 0; i < CEILINGS; i++) {
		struct ceiling *ceiling = &user->ceiling[i];
		/* Relaxed: pairs with the store in engine_user_set(). */
		uint64_t rate = atomic_load_explicit(&ceiling->rate, memory_order_relaxed);
		uint64_t arrival, next;

		if (rate == 0 || done[i] == 0)
			continue;
		/* Relaxed: pairs with this exchange on other cores, and with the store in engine_user_set();
		 * the value orders nothing else. */
		arrival = atomic_load_explicit(&ceiling->arrival, memory_order_relaxed);
		do
			next = RTE_MAX(arrival, now) + (uint64_t)((unsigned __int128)done[i] * SECOND / rate);
		while (!atomic_compare_exchange_weak_explicit(&ceiling->arrival, &arrival, next,
							      memory_order_relaxed, memory_order_relaxed));
	}
}
