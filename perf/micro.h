/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of oneside-micro; each registers its benchmarks. */
#ifndef PERF_MICRO_H
#define PERF_MICRO_H

#include "gbench.h"

struct histogram;

/* p50, p99 and p99.9 of what was counted, each value times `unit`, as counters. */
void micro_tell(struct gbench_state *state, const struct histogram *h, double unit);

void micro_ring(void);
void micro_relay(void);
void micro_engine(void);
void micro_wire(void);
void micro_memory(void);

#endif
