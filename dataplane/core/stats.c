/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters of the cores. A core counts in its own memory, without atomics, and copies the counters every
 * millisecond to where others read them. */
#include "dataplane/core/stats.h"

#define WORDS (sizeof(struct engine_stats) / sizeof(uint64_t))
_Static_assert(RC_COUNT_MAX <= sizeof(((struct engine_stats *)0)->rc) / sizeof(uint64_t), "room for all");
_Static_assert(sizeof(struct engine_stats) % sizeof(uint64_t) == 0, "only 64-bit counters");

void
stats_publish(struct core *core)
{
	uint64_t words[WORDS];

	memcpy(core->stats.rc, core->env.counter, sizeof(core->stats.rc));
	memcpy(words, &core->stats, sizeof(words));
	/* Read by engine_stats: each number by itself. */
	for (size_t i = 0; i < WORDS; i++)
		atomic_store_explicit(&core->published[i], words[i], memory_order_relaxed);
	stats_will_sleep(core, 0);
	core->published_at = core->now;
}

void
stats_will_sleep(struct core *core, uint64_t limit)
{
	/* Release pairs with the acquire load in engine_clock: the gaps before are published, too. */
	atomic_store_explicit(&core->counted_until, core->real_at + limit + CORE_GAP_NS,
			      memory_order_release);
}

uint64_t
engine_clock(void)
{
	const struct core *core = engine.core[0];
	const _Atomic uint64_t *gaps_ns =
		&core->published[offsetof(struct engine_stats, gaps_ns) / sizeof(uint64_t)];
	uint64_t now = engine_now(rte_rdtsc());
	/* Pairs with the release store in stats_will_sleep. */
	uint64_t until = atomic_load_explicit(&core->counted_until, memory_order_acquire);

	/* The core has not begun, but a gap before its first loop may be visible already. */
	if (until == 0)
		return 0;
	return RTE_MIN(now, until) - atomic_load_explicit(gaps_ns, memory_order_relaxed);
}

void
engine_stats(uint32_t core, struct engine_stats *out)
{
	uint64_t words[WORDS] = {0};

	/* Pairs with the stores in stats_publish and stats_inherit. */
	if (core < engine.num_cores)
		for (size_t i = 0; i < WORDS; i++)
			words[i] =
				atomic_load_explicit(&engine.core[core]->published[i], memory_order_relaxed) +
				atomic_load_explicit(&engine.core[core]->inherited[i], memory_order_relaxed);
	memcpy(out, words, sizeof(*out));
}

void
stats_inherit(struct core *core, const struct engine_stats *before)
{
	uint64_t words[WORDS];

	memcpy(words, before, sizeof(words));
	/* Read by engine_stats: each number by itself. Several cores of that process may be one of this one.
	 */
	for (size_t i = 0; i < WORDS; i++)
		atomic_fetch_add_explicit(&core->inherited[i], words[i], memory_order_relaxed);
}

/* ---- cycles of the stages ---- */

void
engine_time_stages(bool on)
{
	/* Pairs with the load in loop_iterate. */
	atomic_store_explicit(&engine.time_stages, on, memory_order_relaxed);
}

void
stages_begin(struct core *core, uint64_t tsc)
{
	bool continues = core->timed;

	/* Pairs with the store in engine_time_stages. */
	core->timed = atomic_load_explicit(&engine.time_stages, memory_order_relaxed);
	memset(core->stage_cycles, 0, sizeof(core->stage_cycles));
	if (continues)
		core->stats.stage_cycles[core->timed_idle ? ENGINE_STAGE_IDLE : ENGINE_STAGE_OTHER] +=
			tsc - core->stage_mark;
	core->stage_mark = tsc;
}

void
stage_charge(struct core *core, enum engine_stage stage)
{
	uint64_t tsc = rte_rdtsc();

	core->stage_cycles[stage] += tsc - core->stage_mark;
	core->stage_mark = tsc;
}

void
stages_end(struct core *core, bool busy)
{
	stage_charge(core, ENGINE_STAGE_OTHER);
	core->timed_idle = !busy;
	core->stats.stage_loops += busy;
	for (uint32_t i = 0; i < ENGINE_STAGE_IDLE; i++)
		core->stats.stage_cycles[busy ? i : ENGINE_STAGE_IDLE] += core->stage_cycles[i];
}
