/* SPDX-License-Identifier: BSD-3-Clause */
#include "report.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

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

void
histogram_add(struct histogram *h, uint64_t ns)
{
	h->count++;
	h->sum += ns;
	if (ns < h->min)
		h->min = ns;
	if (ns > h->max)
		h->max = ns;
	h->bucket[bucket_of(ns)]++;
}

uint64_t
histogram_percentile(const struct histogram *h, double percent)
{
	uint64_t want = (uint64_t)((double)h->count * percent / 100.0), seen = 0;

	if (h->count == 0)
		return 0;
	for (uint32_t i = 0; i < HIST_BUCKETS; i++) {
		seen += h->bucket[i];
		if (seen > want || seen == h->count)
			return bucket_value(i) < h->min   ? h->min
			       : bucket_value(i) > h->max ? h->max
							  : bucket_value(i);
	}
	return h->max;
}

void
report_head(FILE *out, bool latency)
{
	fprintf(out, " %-12s %10s %12s %10s %10s", "#test", "#bytes", "#iterations", "MB/s", "Mpps");
	if (latency)
		fprintf(out, " %9s %9s %9s %9s %9s", "min[us]", "typ[us]", "avg[us]", "99%[us]", "99.9%[us]");
	fprintf(out, "\n");
}

void
report_line(FILE *out, const struct result *r)
{
	double seconds = r->seconds > 0 ? r->seconds : 1e-9;

	fprintf(out, " %-12s %10" PRIu64 " %12" PRIu64 " %10.2f %10.4f", r->test, r->size, r->iterations,
		(double)r->size * (double)r->iterations / seconds / 1e6,
		(double)r->iterations / seconds / 1e6);
	if (r->latency != NULL && r->latency->count > 0)
		fprintf(out, " %9.2f %9.2f %9.2f %9.2f %9.2f", (double)r->latency->min / 1e3,
			(double)histogram_percentile(r->latency, 50) / 1e3,
			(double)r->latency->sum / (double)r->latency->count / 1e3,
			(double)histogram_percentile(r->latency, 99) / 1e3,
			(double)histogram_percentile(r->latency, 99.9) / 1e3);
	fprintf(out, "\n");
	fflush(out);
}

void
report_json(FILE *out, const struct result *r)
{
	double seconds = r->seconds > 0 ? r->seconds : 1e-9;

	fprintf(out,
		"{\"test\":\"%s\",\"bytes\":%" PRIu64 ",\"iterations\":%" PRIu64
		",\"seconds\":%.6f,\"MBps\":%.3f,\"ops\":%.1f",
		r->test, r->size, r->iterations, r->seconds,
		(double)r->size * (double)r->iterations / seconds / 1e6, (double)r->iterations / seconds);
	if (r->latency != NULL && r->latency->count > 0) {
		static const double percent[] = {50, 90, 99, 99.9, 99.99};

		fprintf(out, ",\"latency_ns\":{\"min\":%" PRIu64 ",\"avg\":%.1f,\"max\":%" PRIu64,
			r->latency->min, (double)r->latency->sum / (double)r->latency->count,
			r->latency->max);
		for (size_t i = 0; i < sizeof(percent) / sizeof(percent[0]); i++)
			fprintf(out, ",\"p%g\":%" PRIu64, percent[i],
				histogram_percentile(r->latency, percent[i]));
		fprintf(out, "}");
	}
	fprintf(out, "}\n");
	fflush(out);
}

void
report(const struct result *r, bool json, bool head)
{
	if (json) {
		report_json(stdout, r);
		return;
	}
	if (head)
		report_head(stdout, r->latency != NULL);
	report_line(stdout, r);
}

uint64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}
