/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters of a core, and the cycles of the stages of its loop. */
#ifndef DATAPLANE_CORE_STATS_H
#define DATAPLANE_CORE_STATS_H

#include "dataplane/core/core.h"

void stats_publish(struct core *core);
/* Has engine_stats() count on from `before`. Control thread. */
void stats_inherit(struct core *core, const struct engine_stats *before);
void stats_will_sleep(struct core *core, uint64_t limit); /* for `limit` ns, which engine_clock counts */
void stages_begin(struct core *core, uint64_t tsc);       /* of a loop, at `tsc` */
void stages_end(struct core *core, bool busy);
void stage_charge(struct core *core, enum engine_stage stage);

/* Charges the time since the last call to `stage`. */
static inline void
stage_end(struct core *core, enum engine_stage stage)
{
	if (unlikely(core->timed))
		stage_charge(core, stage);
}

/* Moves `cycles` of the current stage to `stage`. */
static inline void
stage_within(struct core *core, enum engine_stage stage, uint64_t cycles)
{
	core->stage_cycles[stage] += cycles;
	core->stage_mark += cycles;
}

#endif
