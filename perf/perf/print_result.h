/* SPDX-License-Identifier: BSD-3-Clause */
/* Loops over sizes, and prints results, by oneside-perf's options. */
#ifndef PERF_PRINT_RESULT_H
#define PERF_PRINT_RESULT_H

#include <stdio.h>

#include "options.h"
#include "perf/lib/report.h"

bool perf_json_open(const struct perf_options *options, FILE **file); /* *file is NULL without the option */
bool perf_json_close(FILE *file);

/* Runs one measurement of the length in `options`. False: failed, error printed. */
typedef bool (*perf_run)(void *client, uint64_t size, const struct perf_options *options,
			 struct result *result);
/* Measures and prints each requested size, after a warm-up if requested. */
bool perf_measure(const struct perf_options *options, FILE *json, perf_run run, void *client);

#endif
