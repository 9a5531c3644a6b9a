/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of oneside-micro; each registers its benchmarks. */
#ifndef PERF_MICRO_H
#define PERF_MICRO_H

#include "gbench.h"

void micro_ring(void);
void micro_engine(void);
void micro_wire(void);
void micro_memory(void);

#endif
