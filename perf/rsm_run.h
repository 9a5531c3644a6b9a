/* SPDX-License-Identifier: BSD-3-Clause */
/* oneside-perf over RSMAPI. */
#ifndef PERF_RSM_RUN_H
#define PERF_RSM_RUN_H

#include "options.h"

/* The segment's first page: its first 8 bytes are not 0 when a client is done.  Data follows. */
#define RSM_RUN_DATA 4096u

/* Each returns the exit status of the program. */
int rsm_serve(const struct perf_options *options);
int rsm_measure(const struct perf_options *options);

#endif
