/* SPDX-License-Identifier: BSD-3-Clause */
/* Latency histograms, perftest's columns, JSON, a progress line. */
#ifndef PERF_REPORT_H
#define PERF_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/*
 * A histogram of nanoseconds with 128 buckets for each power of two: values are
 * kept to 0.4 per cent, in constant space, without allocation.
 */
#define HIST_SUB_LOG2 7
#define HIST_BUCKETS ((64 - HIST_SUB_LOG2 + 1) << HIST_SUB_LOG2)

struct histogram {
	uint64_t count, sum, min, max;
	double squares; /* sum of */
	uint64_t bucket[HIST_BUCKETS];
};

void histogram_clear(struct histogram *h);
void histogram_add(struct histogram *h, uint64_t ns);
/* The value that `percent` of the samples do not exceed, in ns; 0 when empty. */
uint64_t histogram_percentile(const struct histogram *h, double percent);
double histogram_deviation(const struct histogram *h); /* standard, ns */
/* Percentiles to 99.99, and a line for each value that there is: usec, how many, per cent so far. */
void histogram_print(FILE *out, const struct histogram *h);

/* One line of a result. */
struct result {
	const char *test;
	uint64_t size; /* bytes of one operation */
	uint64_t iterations;
	double seconds;
	double peak;                     /* operations a second; 0: not measured */
	uint32_t endpoints, depth;       /* 0: of no meaning */
	bool latency_test;               /* perftest's columns of latency; else those of bandwidth */
	const struct histogram *latency; /* NULL: not measured */
};

/*
 * The best time of a run: operations that were posted and done in it.  So completions that come all at once,
 * of what was posted long before, do not look like speed.
 */
struct peak {
	uint64_t since, posted, under_way; /* when it began: ns, operations */
	double rate;
};

void peak_begin(struct peak *p, uint64_t now);
void peak_look(struct peak *p, uint64_t now, uint64_t posted, uint64_t done);
/* With iterations and seconds there: the mean is that of the longest time. */
void peak_end(const struct peak *p, struct result *result);

/* perftest's columns, of a bandwidth or a latency test. */
void report_head(FILE *out, bool latency_test, bool gbits);
void report_line(FILE *out, const struct result *result, bool gbits);
/* One JSON object on one line. */
void report_json(FILE *out, const struct result *result);
/* On stdout: as JSON, or as a line below its heading. */
void report(const struct result *result, bool json);

/* "how far" on a terminal, several times a second; nothing elsewhere. */
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
