/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of oneside-perf, with perftest's names. */
#ifndef PERF_OPTIONS_H
#define PERF_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#define PERF_SIZE_FIRST 2ull        /* --all: first size */
#define PERF_SIZE_LAST (8ull << 20) /* last size, as in perftest */

enum perf_api { PERF_API_DAT, PERF_API_RSM };

enum perf_op {
	PERF_WRITE,
	PERF_READ,
	PERF_SEND,
	PERF_PUT,
	PERF_GET,
	PERF_PUTV,
	PERF_GETV,
	PERF_BARRIER, /* a span with one put, opened and closed */
	PERF_SIGNAL
};

enum perf_kind {
	PERF_BANDWIDTH,
	PERF_LATENCY, /* until the operation's completion */
	PERF_PINGPONG /* half a round trip, as in ib_write_lat and ib_send_lat */
};

struct perf_test {
	const char *name, *title;
	enum perf_api api;
	enum perf_op op;
	enum perf_kind kind;
	bool mapped; /* RSM: through a mapping */
};

struct perf_options {
	enum perf_api api;
	bool api_given;
	const struct perf_test *test; /* never NULL */
	const char *ia;               /* IA name, or RSM controller */
	const char *host;             /* NULL: server */
	const char *json_file;        /* NULL: none */
	uint32_t node;                /* RSM: exporter's node id */
	uint32_t segment;             /* RSM: segment id */
	uint16_t port;
	uint64_t size;
	uint64_t iterations;
	double duration; /* seconds; 0: by iterations */
	bool all_sizes;
	uint32_t depth;     /* operations in flight on an endpoint */
	uint32_t rx_depth;  /* receives posted on an endpoint */
	uint32_t endpoints; /* busy ones; RSM: imports */
	uint32_t threads;   /* of the client, among which the endpoints are divided */
	uint32_t idle_endpoints;
	uint32_t signal_every; /* a completion for every n-th write, the others suppressed */
	uint32_t pieces;       /* RSM: pieces of a vector */
	uint32_t spin;         /* polls of an empty queue before yielding the processor */
	bool copied;           /* the buffer is memory that cannot be shared with the data plane */
	bool bidirectional;
	bool warm_up;
	uint64_t warm_seconds; /* 0: the warm-up is a tenth of the work */
	bool peak;
	bool gbits;
	bool histogram;
	bool json;
	bool once; /* server: end after the first client */
};

/* Returns 0 to continue, 1 after --help, -1 on a wrong option (printed on stderr). */
int perf_options_parse(struct perf_options *options, int argc, char **argv);

/* The largest size of one operation in the measurement. */
static inline uint64_t
perf_largest(const struct perf_options *o)
{
	return o->all_sizes ? PERF_SIZE_LAST : o->size;
}

#endif
