/* SPDX-License-Identifier: BSD-3-Clause */
/* oneside-perf over RSMAPI. */
#ifndef PERF_RSM_RUN_H
#define PERF_RSM_RUN_H

#include "options.h"

/* Offset of the data. The page before holds 8 bytes that the client sets to nonzero at its end. */
#define RSM_RUN_DATA 4096u

/* Each returns the exit status of the program. */
int rsm_serve(const struct perf_options *options);
int rsm_measure(const struct perf_options *options);

#endif
