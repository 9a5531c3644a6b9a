/* SPDX-License-Identifier: BSD-3-Clause */
/* The counters of struct engine_stats by name, for all that report them. */
#ifndef DATAPLANE_ENGINE_COUNTERS_H
#define DATAPLANE_ENGINE_COUNTERS_H

#include "dataplane/engine.h"

enum counter_group { COUNTER_CORE, COUNTER_DROP, COUNTER_TRANSPORT };
enum counter_unit { COUNTER_EVENTS, COUNTER_BYTES, COUNTER_CYCLES, COUNTER_NS };

struct counter {
	const char *name; /* NULL ends the table */
	const char *help; /* one sentence, only for COUNTER_CORE: the other names explain themselves */
	enum counter_group group;
	enum counter_unit unit;
	uint32_t offset; /* in struct engine_stats */
	/* Counts frames that were not for a queue pair, or not from its peer. Readers without the right to
	 * see QPNs get only the sum of all such counters: a single counter would disclose which QPNs
	 * exist. */
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
