/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of oneside-micro; each registers its benchmarks. */
#ifndef PERF_MICRO_H
#define PERF_MICRO_H

#include <pthread.h>

#include <rte_cycles.h>

#include "gbench.h"
#include "report.h"

/* p50, p99 and p99.9 of what was counted, each value times `unit`, as counters. */
void micro_tell(struct gbench_state *state, const struct histogram *h, double unit);

/*
 * The first and the last processor that this program may use; the caller's thread goes to the first, the
 * other's to the last, or beside it.  False: there are not two, or they cannot be had.
 */
bool micro_two_processors(pthread_attr_t *other, cpu_set_t *before, bool beside);

/* Trips one after the other, the i-th (from 1 on) by trip(user, i), and how long they take; inline, since
 * they are short. */
static inline void
micro_trips(struct gbench_state *state, void (*trip)(void *user, uint64_t i), void *user)
{
	static struct histogram ticks;
	uint64_t i = 0, begun = now_ns(), start = rte_rdtsc(), before = start;

	histogram_clear(&ticks);
	while (gbench_running(state)) {
		uint64_t after;

		trip(user, ++i);
		after = rte_rdtsc();
		histogram_add(&ticks, after - before);
		before = after;
	}
	micro_tell(state, &ticks, (double)(now_ns() - begun) / (double)(rte_rdtsc() - start));
}

void micro_ring(void);
void micro_relay(void);
void micro_gaps(void);
void micro_wire(void);
void micro_memory(void);

#endif
