/* SPDX-License-Identifier: BSD-3-Clause */
/* The sizes oneside-perf measures and what it prints of them, as its options ask. */
#ifndef PERF_TELL_H
#define PERF_TELL_H

#include <stdio.h>

#include "options.h"
#include "report.h"

bool perf_json_open(const struct perf_options *options, FILE **file); /* NULL when there is to be none */
bool perf_json_close(FILE *file);
void perf_tell_head(const struct perf_options *options);
void perf_tell(const struct perf_options *options, FILE *json, const struct result *result);

/* One measurement, as long as `options` say; false: failed, and told. */
typedef bool (*perf_run)(void *client, uint64_t size, const struct perf_options *options,
			 struct result *result);
/* Every size that is asked for, each after its warm-up of a tenth of the length; tells each. */
bool perf_measure(const struct perf_options *options, FILE *json, perf_run run, void *client);

#endif
