/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of oneside-micro. Each function micro_NAME() at the end registers benchmarks. */
#ifndef PERF_MICRO_H
#define PERF_MICRO_H

#include <pthread.h>

#include <rte_cycles.h>

#include "gbench.h"
#include "perf/lib/report.h"

/* Adds p50, p99 and p99.9 as counters. `unit`: nanoseconds per value of the histogram. */
void micro_report(struct gbench_state *state, const struct histogram *h, double unit);

/*
 * Pins the caller to the first processor that the program may use; `other` pins a thread to the last, or with
 * `beside` to the first, too. False: fewer than two processors, or pinning failed.
 */
bool micro_two_processors(pthread_attr_t *other, cpu_set_t *before, bool beside);

/* Measures consecutive calls trip(user, i), i from 1. Inline, since trips are short. */
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
	micro_report(state, &ticks, (double)(now_ns() - begun) / (double)(rte_rdtsc() - start));
}

void micro_ring(void);
void micro_relay(void);
void micro_gaps(void);
void micro_wire(void);
void micro_memory(void);

#endif
