/* SPDX-License-Identifier: BSD-3-Clause */
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/lib/args.h"

static const char usage[] =
	"usage: oneside-perf [OPTION]...         the server: waits for clients\n"
	"       oneside-perf [OPTION]... HOST    the client: measures against the server at HOST (RSM: any word)\n"
	"  -A, --api dat|rsm       which API (that of the test; dat)\n"
	"  -t, --test NAME         dat: write_bw write_lat write_pp read_bw read_lat send_bw send_lat send_pp\n"
	"                          rsm: put_bw put_lat get_bw get_lat putv_bw putv_lat getv_bw getv_lat\n"
	"                          map_put_bw map_put_lat map_get_bw map_get_lat barrier_lat signal_pp\n"
	"                          (bw: bandwidth and rate; lat: until completion; pp: half a round trip)\n"
	"  -d, --ib-dev NAME       IA name (oneside), or RSM controller (p0)\n"
	"  -p, --port N            connection qualifier (18515)\n"
	"      --node N            RSM: node id of the exporter (1)\n"
	"      --segment N         RSM: segment id (0x400000)\n"
	"  -s, --size BYTES        size of one operation (64)\n"
	"  -a, --all               all sizes from 2 bytes to 8 MiB\n"
	"  -n, --iters N           operations (100000)\n"
	"  -D, --duration SEC      run for this long instead\n"
	"  -t, --tx-depth N        operations in flight on an endpoint; also --iodepth (128)\n"
	"  -r, --rx-depth N        receives posted on an endpoint (512)\n"
	"  -q, --qp N              endpoints (RSM: imports) in use at once (1)\n"
	"  -T, --threads N         client: threads with a part of the endpoints each (1)\n"
	"      --idle-qp N         further endpoints, connected and idle (0)\n"
	"      --copied            dat: this end's buffer is memory that cannot be shared, and is copied\n"
	"  -b, --bidirectional     both ends at once; the figures are the sum\n"
	"  -Q, --cq-mod N          a completion for every n-th operation (1)\n"
	"      --pieces N          RSM: pieces of a vector (4)\n"
	"      --perform_warm_up   a tenth of the work first, not measured\n"
	"      --warm-up SEC       work for this long first, not measured\n"
	"  -N, --noPeak            no peak bandwidth\n"
	"      --report_gbits      bandwidth in Gbit/s instead of MiB/s\n"
	"  -H, --report-histogram  after a latency test, how many took how long\n"
	"      --spin N            looks at an empty queue before the processor is given away (256)\n"
	"      --json              one JSON object a line instead of the table\n"
	"      --out_json_file F   the same into a file, beside the table\n"
	"      --once              server: end after the first client\n"
	"  -h, --help\n";

static const struct perf_test tests[] = {
	{"write_bw", "RDMA_Write BW Test", PERF_API_DAT, PERF_WRITE, PERF_BANDWIDTH, false},
	{"write_lat", "RDMA_Write Completion Latency Test", PERF_API_DAT, PERF_WRITE, PERF_LATENCY, false},
	{"write_pp", "RDMA_Write Latency Test", PERF_API_DAT, PERF_WRITE, PERF_PINGPONG, false},
	{"read_bw", "RDMA_Read BW Test", PERF_API_DAT, PERF_READ, PERF_BANDWIDTH, false},
	{"read_lat", "RDMA_Read Latency Test", PERF_API_DAT, PERF_READ, PERF_LATENCY, false},
	{"send_bw", "Send BW Test", PERF_API_DAT, PERF_SEND, PERF_BANDWIDTH, false},
	{"send_lat", "Send Completion Latency Test", PERF_API_DAT, PERF_SEND, PERF_LATENCY, false},
	{"send_pp", "Send Latency Test", PERF_API_DAT, PERF_SEND, PERF_PINGPONG, false},
	{"put_bw", "RSM Put BW Test", PERF_API_RSM, PERF_PUT, PERF_BANDWIDTH, false},
	{"put_lat", "RSM Put Latency Test", PERF_API_RSM, PERF_PUT, PERF_LATENCY, false},
	{"get_bw", "RSM Get BW Test", PERF_API_RSM, PERF_GET, PERF_BANDWIDTH, false},
	{"get_lat", "RSM Get Latency Test", PERF_API_RSM, PERF_GET, PERF_LATENCY, false},
	{"putv_bw", "RSM Put Vector BW Test", PERF_API_RSM, PERF_PUTV, PERF_BANDWIDTH, false},
	{"putv_lat", "RSM Put Vector Latency Test", PERF_API_RSM, PERF_PUTV, PERF_LATENCY, false},
	{"getv_bw", "RSM Get Vector BW Test", PERF_API_RSM, PERF_GETV, PERF_BANDWIDTH, false},
	{"getv_lat", "RSM Get Vector Latency Test", PERF_API_RSM, PERF_GETV, PERF_LATENCY, false},
	{"map_put_bw", "RSM Mapped Put BW Test", PERF_API_RSM, PERF_PUT, PERF_BANDWIDTH, true},
	{"map_put_lat", "RSM Mapped Put Latency Test", PERF_API_RSM, PERF_PUT, PERF_LATENCY, true},
	{"map_get_bw", "RSM Mapped Get BW Test", PERF_API_RSM, PERF_GET, PERF_BANDWIDTH, true},
	{"map_get_lat", "RSM Mapped Get Latency Test", PERF_API_RSM, PERF_GET, PERF_LATENCY, true},
	{"barrier_lat", "RSM Barrier Latency Test", PERF_API_RSM, PERF_BARRIER, PERF_LATENCY, false},
	{"signal_pp", "RSM Signal Latency Test", PERF_API_RSM, PERF_SIGNAL, PERF_PINGPONG, false},
};
#define TESTS (sizeof(tests) / sizeof(tests[0]))

static const struct perf_test *
test_by_name(const char *name)
{
	for (size_t i = 0; i < TESTS; i++)
		if (strcmp(tests[i].name, name) == 0)
			return &tests[i];
	return NULL;
}

static int
take_seconds(void *options, const char *text)
{
	struct perf_options *o = options;
	char *end;

	o->duration = strtod(text, &end);
	if (*text != '\0' && *end == '\0' && o->duration >= 0.01 && o->duration <= 86400)
		return 0;
	fprintf(stderr, "oneside-perf: --duration: \"%s\" is not a number of seconds from 0.01 to 86400\n",
		text);
	return -1;
}

/* -t takes a test, or, as in perftest, the depth of the queue: no test's name is a number. */
static int
take_test_or_depth(void *options, const char *text)
{
	struct perf_options *o = options;
	const struct perf_test *test = test_by_name(text);
	uint64_t depth;

	if (test == NULL && *text >= '0' && *text <= '9') {
		if (args_number("tx-depth", text, 1, 4096, &depth) != 0)
			return -1;
		o->depth = (uint32_t)depth;
		return 0;
	}
	if (test == NULL) {
		fprintf(stderr, "oneside-perf: --test: there is no test \"%s\"; see --help\n", text);
		return -1;
	}
	o->test = test;
	return 0;
}

static int
take_api(void *options, const char *text)
{
	struct perf_options *o = options;

	if (strcmp(text, "dat") != 0 && strcmp(text, "rsm") != 0) {
		fprintf(stderr, "oneside-perf: --api: \"%s\" is neither dat nor rsm\n", text);
		return -1;
	}
	o->api = strcmp(text, "rsm") == 0 ? PERF_API_RSM : PERF_API_DAT;
	o->api_given = true;
	return 0;
}

#define ARGS struct perf_options
static const struct args_row rows[] = {
	TAKE("api", 'A', take_api),
	TAKE("test", 't', take_test_or_depth),
	TEXT("ib-dev", 'd', ia),
	NUMBER("port", 'p', port, 1, 65535),
	NUMBER("node", 0, node, 0, 63),
	NUMBER("segment", 0, segment, 0x400000, 0x7fffffff),
	NUMBER("size", 's', size, 1, 1ull << 30),
	ON("all", 'a', all_sizes),
	NUMBER("iters", 'n', iterations, 1, UINT64_MAX / 2),
	TAKE("duration", 'D', take_seconds),
	NUMBER("tx-depth", 0, depth, 1, 4096),
	NUMBER("iodepth", 0, depth, 1, 4096),
	NUMBER("rx-depth", 'r', rx_depth, 1, 4096),
	NUMBER("qp", 'q', endpoints, 1, 4096),
	NUMBER("threads", 'T', threads, 1, 64),
	NUMBER("idle-qp", 0, idle_endpoints, 0, 16000),
	ON("copied", 0, copied),
	ON("bidirectional", 'b', bidirectional),
	NUMBER("cq-mod", 'Q', signal_every, 1, 1024),
	NUMBER("pieces", 0, pieces, 1, 16),
	ON("perform_warm_up", 0, warm_up),
	NUMBER("warm-up", 0, warm_seconds, 1, 3600),
	OFF("noPeak", 'N', peak),
	ON("report_gbits", 0, gbits),
	ON("report-histogram", 'H', histogram),
	ON("json", 0, json),
	TEXT("out_json_file", 0, json_file),
	NUMBER("spin", 0, spin, 0, 1000000),
	ON("once", 0, once),
	{.name = NULL},
};

static int
refuse(const char *why)
{
	fprintf(stderr, "oneside-perf: %s\n", why);
	return -1;
}

/* Refuses combinations of options that exclude each other. */
static int
check(const struct perf_options *o)
{
	if (o->signal_every > o->depth) {
		fprintf(stderr, "oneside-perf: --cq-mod %u: is above --tx-depth %u; give at most that\n",
			o->signal_every, o->depth);
		return -1;
	}
	if (o->bidirectional && o->api == PERF_API_RSM)
		return refuse("--bidirectional: an RSM exporter is passive; run two pairs instead");
	if (o->bidirectional && o->test->kind != PERF_BANDWIDTH)
		return refuse("--bidirectional: is for bandwidth tests");
	if (o->endpoints > 1 && o->test->kind != PERF_BANDWIDTH)
		return refuse("--qp: latency is measured on one endpoint; several are for bandwidth tests");
	if (o->threads > 1 && (o->api == PERF_API_RSM || o->test->kind != PERF_BANDWIDTH || o->bidirectional))
		return refuse("--threads: is for bandwidth tests of uDAPL in one direction");
	if (o->endpoints % o->threads != 0) {
		fprintf(stderr, "oneside-perf: --qp %u: give a multiple of --threads %u\n", o->endpoints,
			o->threads);
		return -1;
	}
	if ((o->duration > 0 || o->warm_seconds > 0) && o->api == PERF_API_DAT &&
	    o->test->kind == PERF_PINGPONG)
		return refuse("--duration, --warm-up: ping-pong of uDAPL goes by --iters");
	if (o->idle_endpoints > 0 && o->api == PERF_API_RSM)
		return refuse("--idle-qp: is for tests of uDAPL");
	if (o->copied && o->api == PERF_API_RSM)
		return refuse("--copied: is for tests of uDAPL");
	if (o->test->api != o->api) {
		fprintf(stderr, "oneside-perf: --test: \"%s\" is not a test of %s; see --help\n",
			o->test->name, o->api == PERF_API_RSM ? "RSMAPI" : "uDAPL");
		return -1;
	}
	return 0;
}

int
perf_options_parse(struct perf_options *o, int argc, char **argv)
{
	int ended;

	*o = (struct perf_options){.api = PERF_API_DAT,
				   .node = 1,
				   .segment = 0x400000,
				   .port = 18515,
				   .size = 64,
				   .iterations = 100000,
				   .depth = 128,
				   .rx_depth = 512,
				   .endpoints = 1,
				   .threads = 1,
				   .signal_every = 1,
				   .pieces = 4,
				   .peak = true,
				   .spin = 256};
	ended = args_parse(rows, usage, o, argc, argv);
	if (ended != 0)
		return ended;
	if (optind < argc)
		o->host = argv[optind++];
	if (optind < argc) {
		fprintf(stderr, "oneside-perf: \"%s\": one host is enough; see --help\n", argv[optind]);
		return -1;
	}
	if (!o->api_given && o->test != NULL)
		o->api = o->test->api;
	if (o->test == NULL)
		o->test = test_by_name(o->api == PERF_API_RSM ? "put_bw" : "write_bw");
	if (o->ia == NULL)
		o->ia = o->api == PERF_API_RSM ? "p0" : "oneside";
	return check(o);
}
