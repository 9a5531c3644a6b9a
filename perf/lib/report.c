/* SPDX-License-Identifier: BSD-3-Clause */
#include "report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PROGRESS_NS 200000000u
#define PEAK_NS 1000000u
#define PEAK_TURNS 64u /* least completions of an interval per operation in flight at its start */
#define MIB 1048576.0  /* perftest's MB */

static const double percentiles[] = {50, 90, 99, 99.9, 99.99};
#define PERCENTILES (sizeof(percentiles) / sizeof(percentiles[0]))

/* ---- histogram ---- */

void
histogram_clear(struct histogram *h)
{
	memset(h, 0, sizeof(*h));
	h->min = UINT64_MAX;
}

static uint32_t
bucket_of(uint64_t ns)
{
	uint32_t log2;

	if (ns < (1u << HIST_SUB_LOG2))
		return (uint32_t)ns;
	log2 = 63u - (uint32_t)__builtin_clzll(ns);
	return ((log2 - HIST_SUB_LOG2 + 1) << HIST_SUB_LOG2) +
	       (uint32_t)((ns >> (log2 - HIST_SUB_LOG2)) & ((1u << HIST_SUB_LOG2) - 1));
}

/* Middle of a bucket. */
static uint64_t
bucket_value(uint32_t bucket)
{
	uint32_t major = bucket >> HIST_SUB_LOG2;
	uint64_t minor = bucket & ((1u << HIST_SUB_LOG2) - 1);

	if (major == 0)
		return minor;
	return ((minor | (1u << HIST_SUB_LOG2)) << (major - 1)) + ((1ull << (major - 1)) >> 1);
}

/* A value for samples of the bucket, within the range of all samples. */
static uint64_t
sample_value(const struct histogram *h, uint32_t bucket)
{
	uint64_t value = bucket_value(bucket);

	return value < h->min ? h->min : value > h->max ? h->max : value;
}

void
histogram_add(struct histogram *h, uint64_t ns)
{
	h->count++;
	h->sum += ns;
	h->squares += (double)ns * (double)ns;
	if (ns < h->min)
		h->min = ns;
	if (ns > h->max)
		h->max = ns;
	h->bucket[bucket_of(ns)]++;
}

uint64_t
histogram_percentile(const struct histogram *h, double percent)
{
	uint64_t want = (uint64_t)ceil((double)h->count * percent / 100.0), seen = 0;

	if (h->count == 0)
		return 0;
	for (uint32_t i = 0; i < HIST_BUCKETS; i++) {
		seen += h->bucket[i];
		if (h->bucket[i] > 0 && seen >= want)
			return sample_value(h, i);
	}
	return h->max;
}

double
histogram_deviation(const struct histogram *h)
{
	double mean, variance;

	if (h->count < 2)
		return 0;
	mean = (double)h->sum / (double)h->count;
	variance = h->squares / (double)h->count - mean * mean;
	return variance > 0 ? sqrt(variance) : 0;
}

void
histogram_print(FILE *out, const struct histogram *h)
{
	uint64_t seen = 0;

	for (size_t i = 0; i < PERCENTILES; i++)
		fprintf(out, " %6g%% percentile[usec]  %.3f\n", percentiles[i],
			(double)histogram_percentile(h, percentiles[i]) / 1e3);
	fprintf(out, " t[usec]      #iterations  up to here[%%]\n");
	for (uint32_t i = 0; i < HIST_BUCKETS; i++) {
		if (h->bucket[i] == 0)
			continue;
		seen += h->bucket[i];
		fprintf(out, " %-12.3f %-12" PRIu64 " %.4f\n", (double)sample_value(h, i) / 1e3, h->bucket[i],
			100.0 * (double)seen / (double)h->count);
	}
}

/* ---- peak ---- */

void
peak_begin(struct peak *p, uint64_t now)
{
	*p = (struct peak){.since = now};
}

void
peak_look(struct peak *p, uint64_t now, uint64_t posted, uint64_t done)
{
	double rate;

	if (now - p->since < PEAK_NS || done <= p->posted || done - p->posted < PEAK_TURNS * p->under_way)
		return;
	rate = (double)(done - p->posted) * 1e9 / (double)(now - p->since);
	p->rate = rate > p->rate ? rate : p->rate;
	p->since = now;
	p->posted = posted;
	p->under_way = posted - done;
}

/* ---- lines ---- */

static double
rate(const struct result *r)
{
	return (double)r->iterations / (r->seconds > 0 ? r->seconds : 1e-9);
}

void
peak_end(const struct peak *p, struct result *r)
{
	r->peak = p->rate > rate(r) ? p->rate : rate(r);
}

static double
mean(const struct histogram *h)
{
	return h->count == 0 ? 0 : (double)h->sum / (double)h->count;
}

void
report_head(FILE *out, bool latency_test, bool gbits)
{
	if (latency_test)
		fprintf(out,
			" #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99%% percentile[usec]   99.9%% percentile[usec] \n");
	else
		fprintf(out,
			" #bytes     #iterations    BW peak[%s/sec]    BW average[%s/sec]   MsgRate[Mpps]\n",
			gbits ? "Gb" : "MB", gbits ? "Gb" : "MB");
}

void
report_line(FILE *out, const struct result *r, bool gbits)
{
	double unit = (double)r->size / (gbits ? 1e9 / 8 : MIB);

	if (r->latency_test) {
		const struct histogram *h = r->latency;

		fprintf(out,
			" %-7" PRIu64 " %-7" PRIu64
			"        %-7.2f        %-7.2f      %-7.2f  \t       %-7.2f     \t%-7.2f\t\t%-7.2f \t\t%-7.2f\n",
			r->size, r->iterations, (double)(h->count == 0 ? 0 : h->min) / 1e3,
			(double)h->max / 1e3, (double)histogram_percentile(h, 50) / 1e3, mean(h) / 1e3,
			histogram_deviation(h) / 1e3, (double)histogram_percentile(h, 99) / 1e3,
			(double)histogram_percentile(h, 99.9) / 1e3);
	} else {
		fprintf(out, " %-7" PRIu64 "    %-10" PRIu64 "       %-7.2f            %-7.2f\t\t   %-7.6f\n",
			r->size, r->iterations, r->peak * unit, rate(r) * unit, rate(r) / 1e6);
	}
	fflush(out);
}

void
report_json(FILE *out, const struct result *r)
{
	fprintf(out,
		"{\"test\":\"%s\",\"bytes\":%" PRIu64 ",\"iterations\":%" PRIu64
		",\"seconds\":%.6f,\"MBps\":%.3f,\"ops\":%.1f",
		r->test, r->size, r->iterations, r->seconds, (double)r->size * rate(r) / 1e6, rate(r));
	if (r->peak > 0)
		fprintf(out, ",\"peak_MBps\":%.3f,\"peak_ops\":%.1f", (double)r->size * r->peak / 1e6,
			r->peak);
	if (r->endpoints > 0)
		fprintf(out, ",\"endpoints\":%" PRIu32, r->endpoints);
	if (r->depth > 0)
		fprintf(out, ",\"depth\":%" PRIu32, r->depth);
	if (r->latency != NULL && r->latency->count > 0) {
		fprintf(out,
			",\"latency_ns\":{\"min\":%" PRIu64 ",\"avg\":%.1f,\"stdev\":%.1f,\"max\":%" PRIu64,
			r->latency->min, mean(r->latency), histogram_deviation(r->latency), r->latency->max);
		for (size_t i = 0; i < PERCENTILES; i++)
			fprintf(out, ",\"p%g\":%" PRIu64, percentiles[i],
				histogram_percentile(r->latency, percentiles[i]));
		fprintf(out, "}");
	}
	fprintf(out, "}\n");
	fflush(out);
}

void
report(const struct result *r, bool json)
{
	if (json) {
		report_json(stdout, r);
		return;
	}
	report_head(stdout, r->latency_test, false);
	report_line(stdout, r, false);
}

/* ---- progress ---- */

void
progress_begin(struct progress *p, bool wanted)
{
	*p = (struct progress){.on = wanted && isatty(STDERR_FILENO) != 0, .begun = now_ns()};
	p->next = p->begun + PROGRESS_NS;
}

void
progress_show(struct progress *p, uint64_t now, double part, uint64_t done, uint64_t size)
{
	double seconds = (double)(now - p->begun) / 1e9;

	if (!p->on || now < p->next)
		return;
	p->next = now + PROGRESS_NS;
	p->shown = true;
	fprintf(stderr, "\r %" PRIu64 " bytes: %3.0f%%  %.3f Mpps  %.1f MB/sec \033[K", size,
		part > 1 ? 100.0 : part * 100, (double)done / seconds / 1e6,
		(double)done * (double)size / seconds / MIB);
}

void
progress_end(struct progress *p)
{
	if (p->shown)
		fprintf(stderr, "\r\033[K");
	p->shown = false;
}

uint64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}
