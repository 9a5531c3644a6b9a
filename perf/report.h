/* SPDX-License-Identifier: BSD-3-Clause */
/* Latency histograms, perftest's columns, JSON. */
#ifndef PERF_REPORT_H
#define PERF_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * A histogram of nanoseconds with 32 buckets for each power of two: values are
 * kept to about 3 per cent, in constant space, without allocation.
 */
#define HIST_SUB_LOG2 5
#define HIST_BUCKETS ((64 - HIST_SUB_LOG2 + 1) << HIST_SUB_LOG2)

struct histogram {
	uint64_t count, sum, min, max;
	uint64_t bucket[HIST_BUCKETS];
};

void histogram_clear(struct histogram *h);
void histogram_add(struct histogram *h, uint64_t ns);
/* The value below which `percent` of the samples lie, in ns; 0 when empty. */
uint64_t histogram_percentile(const struct histogram *h, double percent);

/* One line of a result. */
struct result {
	const char *test;
	uint64_t size; /* bytes of one operation */
	uint64_t iterations;
	double seconds;
	const struct histogram *latency; /* NULL: not measured */
};

void report_head(FILE *out, bool latency);
void report_line(FILE *out, const struct result *result);
/* One JSON object on one line. */
void report_json(FILE *out, const struct result *result);
/* On stdout: as JSON, or as a line, below its heading when `head`. */
void report(const struct result *result, bool json, bool head);

uint64_t now_ns(void);

#endif
