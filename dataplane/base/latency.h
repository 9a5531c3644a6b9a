/* SPDX-License-Identifier: BSD-3-Clause */
/* Histogram of durations; the bound of each bucket is twice that of the bucket before. */
#ifndef DATAPLANE_COMPAT_LATENCY_H
#define DATAPLANE_COMPAT_LATENCY_H

#include <stdint.h>

#define LATENCY_FIRST_NS 250u /* upper bound of the first bucket */
#define LATENCY_BOUNDS 26u    /* the last bound is 250 ns x 2^25, 8.4 s */
#define LATENCY_BUCKETS (LATENCY_BOUNDS + 1)

struct latency {
	uint64_t sum_ns;
	uint64_t bucket[LATENCY_BUCKETS]; /* durations above the previous bound, up to this bucket's own */
};

static inline void
latency_add(struct latency *latency, uint64_t ns)
{
	uint64_t n = (ns - (ns != 0)) / LATENCY_FIRST_NS;
	uint32_t bucket = n == 0 ? 0 : 64u - (uint32_t)__builtin_clzll(n);

	latency->bucket[bucket < LATENCY_BOUNDS ? bucket : LATENCY_BOUNDS]++;
	latency->sum_ns += ns;
}

#endif
