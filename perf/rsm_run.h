/* SPDX-License-Identifier: BSD-3-Clause */
/* oneside-perf over RSMAPI. */
#ifndef PERF_RSM_RUN_H
#define PERF_RSM_RUN_H

#include "options.h"

int rsm_serve(const struct perf_options *options);
int rsm_measure(const struct perf_options *options);

#endif
