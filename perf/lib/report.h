/* SPDX-License-Identifier: BSD-3-Clause */
/* Latency histograms, perftest's columns, JSON, a progress line. */
#ifndef PERF_REPORT_H
#define PERF_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * A histogram of nanoseconds with 128 buckets for each power of two: relative error at most 0.4 per cent,
 * constant space, no allocation.
 */
#define HIST_SUB_LOG2 7
#define HIST_BUCKETS ((64 - HIST_SUB_LOG2 + 1) << HIST_SUB_LOG2)

struct histogram {
	uint64_t count, sum, min, max;
	double squares; /* sum of squares */
	uint64_t bucket[HIST_BUCKETS];
};

void histogram_clear(struct histogram *h);
void histogram_add(struct histogram *h, uint64_t ns);
/* Returns the value in ns that `percent` of the samples do not exceed; 0 if empty. */
uint64_t histogram_percentile(const struct histogram *h, double percent);
double histogram_deviation(const struct histogram *h); /* standard deviation in ns */
/* Prints percentiles to 99.99, and a line for each value: microseconds, samples, cumulative per cent. */
void histogram_print(FILE *out, const struct histogram *h);

/* Result of a measurement: one line of output. */
struct result {
	const char *test;
	uint64_t size; /* bytes of one operation */
	uint64_t iterations;
	double seconds;
	double peak;                     /* operations a second; 0: not measured */
	uint32_t endpoints, depth;       /* 0: not applicable */
	bool latency_test;               /* print perftest's columns of latency, not of bandwidth */
	const struct histogram *latency; /* NULL: not measured */
};

/*
 * Peak rate of a run: the best interval, counting only operations posted and completed in it. So a burst of
 * completions of operations posted long before does not count as speed.
 */
struct peak {
	uint64_t since, posted, under_way; /* start of the interval: ns, operations */
	double rate;
};

void peak_begin(struct peak *p, uint64_t now);
void peak_look(struct peak *p, uint64_t now, uint64_t posted, uint64_t done);
/* Call after iterations and seconds are set: the peak is at least the mean rate. */
void peak_end(const struct peak *p, struct result *result);

/* Print perftest's columns, of a bandwidth or a latency test. */
void report_head(FILE *out, bool latency_test, bool gbits);
void report_line(FILE *out, const struct result *result, bool gbits);
/* Prints one JSON object on one line. */
void report_json(FILE *out, const struct result *result);
/* Prints on stdout: JSON, or a heading and a line. */
void report(const struct result *result, bool json);

/* Progress line on a terminal, five times a second; no output elsewhere. */
struct progress {
	bool on, shown;
	uint64_t begun, next; /* ns */
};

void progress_begin(struct progress *p, bool wanted);
/* `part`: 0 to 1; `done` operations of `size` bytes. */
void progress_show(struct progress *p, uint64_t now, double part, uint64_t done, uint64_t size);
void progress_end(struct progress *p);

uint64_t now_ns(void);

#endif
