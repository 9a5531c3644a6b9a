/* SPDX-License-Identifier: BSD-3-Clause */
/* oneside-perf over uDAPL. */
#ifndef PERF_DAT_RUN_H
#define PERF_DAT_RUN_H

#include "options.h"

/* Each returns the exit status of the program. */
int dat_serve(const struct perf_options *options);
int dat_measure(const struct perf_options *options);

#endif
