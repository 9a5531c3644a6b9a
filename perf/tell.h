/* SPDX-License-Identifier: BSD-3-Clause */
/* What oneside-perf prints, as its options ask. */
#ifndef PERF_TELL_H
#define PERF_TELL_H

#include <stdio.h>

#include "options.h"
#include "report.h"

bool perf_json_open(const struct perf_options *options, FILE **file); /* NULL when there is to be none */
bool perf_json_close(FILE *file);
void perf_tell_head(const struct perf_options *options);
void perf_tell(const struct perf_options *options, FILE *json, const struct result *result);

#endif
