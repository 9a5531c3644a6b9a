/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of oneside-perf, named as users of perftest know them. */
#ifndef PERF_OPTIONS_H
#define PERF_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum perf_api { PERF_API_DAT, PERF_API_RSM };

struct perf_options {
	enum perf_api api;
	const char *test; /* write_bw, write_lat, read_bw, ... */
	const char *ia;   /* IA name, or RSM controller */
	const char *host; /* NULL: server */
	uint32_t node;    /* RSM: exporter's node id */
	uint32_t segment; /* RSM: segment id */
	uint16_t port;
	uint64_t size;
	uint64_t iterations;
	double duration; /* seconds; 0: by iterations */
	bool all_sizes;
	uint32_t depth;     /* operations in flight on an endpoint */
	uint32_t endpoints; /* busy ones */
	uint32_t idle_endpoints;
	uint32_t signal_every; /* completions for every n-th write; others suppressed */
	uint32_t spin;         /* looks at an empty queue before the processor is given away */
	bool json;
	bool once; /* server: end after the first client */
};

/* 0 to go on, 1 after --help, -1 on a wrong option (told on stderr). */
int perf_options_parse(struct perf_options *options, int argc, char **argv);

#endif
