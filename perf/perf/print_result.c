/* SPDX-License-Identifier: BSD-3-Clause */
#include "print_result.h"

#include <errno.h>
#include <string.h>

#define RULE \
	"------------------------------------------------------------------------------------------------\n"

bool
perf_json_open(const struct perf_options *o, FILE **file)
{
	*file = NULL;
	if (o->json_file == NULL)
		return true;
	*file = fopen(o->json_file, "we");
	if (*file == NULL)
		fprintf(stderr, "oneside-perf: --out_json_file %s: %s\n", o->json_file, strerror(errno));
	return *file != NULL;
}

bool
perf_json_close(FILE *file)
{
	if (file == NULL || fclose(file) == 0)
		return true;
	fprintf(stderr, "oneside-perf: --out_json_file: %s\n", strerror(errno));
	return false;
}

static void
print_head(const struct perf_options *o)
{
	if (o->json)
		return;
	printf(RULE "                    %s%s\n", o->bidirectional ? "Bidirectional " : "", o->test->title);
	printf(" Device         : %s\t\tNumber of qps  : %u\n", o->ia, o->endpoints);
	if (o->test->kind == PERF_BANDWIDTH)
		printf(" TX depth       : %u\t\tCQ Moderation  : %u\n", o->depth, o->signal_every);
	printf(RULE);
	report_head(stdout, o->test->kind != PERF_BANDWIDTH, o->gbits);
}

static void
print_result(const struct perf_options *o, FILE *json, const struct result *r)
{
	if (json != NULL)
		report_json(json, r);
	if (o->json) {
		report_json(stdout, r);
		return;
	}
	report_line(stdout, r, o->gbits);
	if (o->histogram && r->latency != NULL)
		histogram_print(stdout, r->latency);
}

static bool
measure_size(const struct perf_options *o, FILE *json, perf_run run, void *client, uint64_t size)
{
	struct perf_options warm = *o;
	struct result r = {.test = o->test->name,
			   .size = size,
			   .endpoints = o->endpoints,
			   .depth = o->test->kind == PERF_BANDWIDTH ? o->depth : 1,
			   .latency_test = o->test->kind != PERF_BANDWIDTH};

	warm.iterations = o->iterations / 10 + 1;
	warm.duration = o->warm_seconds > 0 ? (double)o->warm_seconds : o->duration / 10;
	if (((o->warm_up || o->warm_seconds > 0) && !run(client, size, &warm, &r)) ||
	    !run(client, size, o, &r))
		return false;
	print_result(o, json, &r);
	return true;
}

bool
perf_measure(const struct perf_options *o, FILE *json, perf_run run, void *client)
{
	print_head(o);
	if (!o->all_sizes)
		return measure_size(o, json, run, client, o->size);
	for (uint64_t size = PERF_SIZE_FIRST; size <= PERF_SIZE_LAST; size *= 2)
		if (!measure_size(o, json, run, client, size))
			return false;
	return true;
}
