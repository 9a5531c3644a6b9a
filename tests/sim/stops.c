/* SPDX-License-Identifier: BSD-3-Clause */
/* Hosts that stop, like a machine with too few processors, or a virtual machine that is migrated. Frames
 * queue for them and are not lost. A host's clock is that of a polling core (loop_clock), and its timers wait
 * for its inbox likewise. */
#include "sim.h"

#define GAP (4 * MS)
#define TIMER_WAITS 128u
#define STOPS_LONG 20u /* limit of long stops per host */

/* Time for which a side waits for a silent peer, ns. */
static uint64_t
patience(const struct side *side)
{
	return (side->attr.retry_count + 1ull) * (4096ull << side->attr.timeout);
}

/* Draws the next stop. A host that shares its processor in turns mostly runs a few loops between stops; other
 * stops are rare and long. Two hosts with long turns hear of each other seldom: the one that runs mostly
 * waits for the one that does not. */
static void
stop_next(struct sim *sim, struct host *host)
{
	bool is_turn = host->in_turns && sim_below(sim, 20) != 0;
	uint32_t longest;

	host->away_from = host->away_until = NEVER;
	if (!is_turn && ++host->long_stops > STOPS_LONG)
		return;
	host->away_from = sim->now + 1 + sim_below(sim, is_turn ? 50 * US : 20 * MS);
	/* Less than the peers' patience, by the time of a frame and its answer. */
	longest = (uint32_t)(patience(sim->side[0]) - 10 * MS);
	if (is_turn)
		longest = host->long_turns ? longest * 3 / 4 : 60 * MS;
	host->away_until = host->away_from + 1 + sim_below(sim, longest);
	sim_log(sim, NULL, "host %u stops from %llu to %llu", (unsigned)(host - sim->host),
		(unsigned long long)host->away_from, (unsigned long long)host->away_until);
}

void
stops_draw(struct sim *sim)
{
	struct weather *w = &sim->weather;

	if (sim->options->stops == STOPS_NONE)
		return;
	/* No reordering, either: a go-back-N receiver drops packets that overtake others. */
	*w = (struct weather){.delay = w->delay, .poll_jitter = w->poll_jitter, .copy_delay = w->copy_delay};
	if (sim->options->stops == STOPS_VANISH) {
		sim->vanish_at = sim_below(sim, 5 * MS);
		for (uint32_t i = 0; i < sim->sides; i++)
			if (sim->side[i]->host == &sim->host[0])
				sim->side[i]->stop_at = sim->vanish_at;
		return;
	}
	for (uint32_t i = 0; i < sim->hosts; i++) {
		sim->host[i].in_turns = sim_below(sim, 2) != 0;
		sim->host[i].long_turns = sim_below(sim, 4) == 0;
		stop_next(sim, &sim->host[i]);
	}
}

void
stops_end(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->hosts; i++) {
		struct host *host = &sim->host[i];
		uint64_t away = host->away_until - host->away_from;

		if (host->away_until > sim->now)
			continue;
		if (away > GAP)
			host->lost += away - GAP;
		stop_next(sim, host);
	}
}

bool
stops_hold_timers(struct host *host)
{
	if (host->inbox == NULL || host->timer_waits >= TIMER_WAITS) {
		host->timer_waits = 0;
		return false;
	}
	host->timer_waits++;
	return true;
}

void
stops_check(const struct sim *sim, const struct side *side)
{
	uint64_t since = side->busy_since > sim->vanish_at ? side->busy_since : sim->vanish_at;
	uint64_t waited = sim->now - since, reported = patience(side);

	if (sim->options->stops != STOPS_VANISH)
		return;
	/* The wait may have begun earlier, by round trips and waits for receives; it may end later, by the
	 * timer's last steps. */
	if (waited + 5 * MS < reported || waited > reported + 2 * (reported / 8))
		sim_fail(sim, side, "gave its peer up after %llu us, was to wait %llu",
			 (unsigned long long)(waited / US), (unsigned long long)(reported / US));
}
