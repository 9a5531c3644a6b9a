/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of struct engine_stats by name, for all that tell of them. */
#ifndef DATAPLANE_ENGINE_COUNTERS_H
#define DATAPLANE_ENGINE_COUNTERS_H

#include "dataplane/engine.h"

enum counter_group { COUNTER_CORE, COUNTER_DROP, COUNTER_TRANSPORT };
enum counter_unit { COUNTER_EVENTS, COUNTER_BYTES, COUNTER_CYCLES, COUNTER_NS };

struct counter {
	const char *name; /* NULL ends the table */
	const char *help; /* one sentence; of COUNTER_CORE alone, the others are told by their names */
	enum counter_group group;
	enum counter_unit unit;
	uint32_t offset; /* in struct engine_stats */
	/* It counts frames that were not for a queue pair, or not from its peer.  Whoever may not know what
	 * numbers there are is shown the sum of all such counters only: each alone would tell. */
	bool stray;
};
extern const struct counter counters[];

/* By enum engine_operation. */
extern const char *const counters_operation[ENGINE_OPERATIONS];

static inline uint64_t
counter_value(const struct counter *counter, const struct engine_stats *stats)
{
	return *(const uint64_t *)(const void *)((const char *)stats + counter->offset);
}

#endif
