/* SPDX-License-Identifier: BSD-3-Clause */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
	"usage: oneside-perf [options]            serve\n"
	"       oneside-perf [options] HOST       measure against the server at HOST (RSM: any word)\n"
	"  -A, --api dat|rsm       which API (that of the test; dat)\n"
	"  -t, --test NAME         dat: write_bw write_lat write_pp read_bw read_lat send_bw send_lat "
	"send_pp\n"
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
	"      --idle-qp N         further endpoints, connected and idle (0)\n"
	"  -b, --bidirectional     both ends at once; the figures are the sum\n"
	"  -Q, --cq-mod N          a completion for every n-th operation (1)\n"
	"      --pieces N          RSM: pieces of a vector (4)\n"
	"      --perform_warm_up   a tenth of the work first, not measured\n"
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

enum {
	OPT_NODE = 256,
	OPT_SEGMENT,
	OPT_DEPTH,
	OPT_IDLE,
	OPT_JSON,
	OPT_JSON_FILE,
	OPT_ONCE,
	OPT_SPIN,
	OPT_PIECES,
	OPT_GBITS,
	OPT_WARM_UP
};

static const struct option longopts[] = {
	{"api", required_argument, NULL, 'A'},
	{"test", required_argument, NULL, 't'},
	{"ib-dev", required_argument, NULL, 'd'},
	{"port", required_argument, NULL, 'p'},
	{"node", required_argument, NULL, OPT_NODE},
	{"segment", required_argument, NULL, OPT_SEGMENT},
	{"size", required_argument, NULL, 's'},
	{"all", no_argument, NULL, 'a'},
	{"iters", required_argument, NULL, 'n'},
	{"duration", required_argument, NULL, 'D'},
	{"tx-depth", required_argument, NULL, OPT_DEPTH},
	{"iodepth", required_argument, NULL, OPT_DEPTH},
	{"rx-depth", required_argument, NULL, 'r'},
	{"qp", required_argument, NULL, 'q'},
	{"idle-qp", required_argument, NULL, OPT_IDLE},
	{"bidirectional", no_argument, NULL, 'b'},
	{"cq-mod", required_argument, NULL, 'Q'},
	{"pieces", required_argument, NULL, OPT_PIECES},
	{"perform_warm_up", no_argument, NULL, OPT_WARM_UP},
	{"noPeak", no_argument, NULL, 'N'},
	{"report_gbits", no_argument, NULL, OPT_GBITS},
	{"report-histogram", no_argument, NULL, 'H'},
	{"json", no_argument, NULL, OPT_JSON},
	{"out_json_file", required_argument, NULL, OPT_JSON_FILE},
	{"spin", required_argument, NULL, OPT_SPIN},
	{"once", no_argument, NULL, OPT_ONCE},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static const struct perf_test *
test_by_name(const char *name)
{
	for (size_t i = 0; i < TESTS; i++)
		if (strcmp(tests[i].name, name) == 0)
			return &tests[i];
	return NULL;
}

static int
number(const char *what, const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	char *end;
	uint64_t value;

	errno = 0;
	value = strtoull(text, &end, 0);
	if (*text == '\0' || *text == '-' || *end != '\0' || errno != 0 || value < min || value > max) {
		fprintf(stderr, "oneside-perf: %s: \"%s\" is not a number from %" PRIu64 " to %" PRIu64 "\n",
			what, text, min, max);
		return -1;
	}
	*out = value;
	return 0;
}

static int
number32(const char *what, const char *text, uint32_t min, uint32_t max, uint32_t *out)
{
	uint64_t value;

	if (number(what, text, min, max, &value) != 0)
		return -1;
	*out = (uint32_t)value;
	return 0;
}

static int
seconds(const char *text, double *out)
{
	char *end;
	double value = strtod(text, &end);

	if (*text == '\0' || *end != '\0' || !(value >= 0.01 && value <= 86400)) {
		fprintf(stderr,
			"oneside-perf: --duration: \"%s\" is not a number of seconds from 0.01 to 86400\n",
			text);
		return -1;
	}
	*out = value;
	return 0;
}

/* -t is the test here, and the depth of the queue to users of perftest: no test is called by a number. */
static int
test_or_depth(struct perf_options *o, const char *text)
{
	const struct perf_test *test = test_by_name(text);

	if (test == NULL && *text >= '0' && *text <= '9')
		return number32("--tx-depth", text, 1, 4096, &o->depth);
	if (test == NULL) {
		fprintf(stderr, "oneside-perf: --test: there is no test \"%s\"; see --help\n", text);
		return -1;
	}
	o->test = test;
	return 0;
}

static int
take_api(enum perf_api *api, bool *given, const char *text)
{
	if (strcmp(text, "dat") != 0 && strcmp(text, "rsm") != 0) {
		fprintf(stderr, "oneside-perf: --api: \"%s\" is neither dat nor rsm\n", text);
		return -1;
	}
	*api = strcmp(text, "rsm") == 0 ? PERF_API_RSM : PERF_API_DAT;
	*given = true;
	return 0;
}

static int
take_port(struct perf_options *o, const char *text)
{
	uint32_t value = 0;
	int error = number32("--port", text, 1, 65535, &value);

	o->port = (uint16_t)value;
	return error;
}

static int
take_flag(struct perf_options *o, int c)
{
	switch (c) {
	case 'a':
		o->all_sizes = true;
		return 0;
	case 'b':
		o->bidirectional = true;
		return 0;
	case 'N':
		o->peak = false;
		return 0;
	case 'H':
		o->histogram = true;
		return 0;
	case OPT_GBITS:
		o->gbits = true;
		return 0;
	case OPT_WARM_UP:
		o->warm_up = true;
		return 0;
	case OPT_JSON:
		o->json = true;
		return 0;
	case OPT_ONCE:
		o->once = true;
		return 0;
	default:
		fputs(usage, stderr);
		return -1;
	}
}

static int
take(struct perf_options *o, int c, const char *value)
{
	switch (c) {
	case 't':
		return test_or_depth(o, value);
	case 'd':
		o->ia = value;
		return 0;
	case 'p':
		return take_port(o, value);
	case OPT_NODE:
		return number32("--node", value, 0, 63, &o->node);
	case OPT_SEGMENT:
		return number32("--segment", value, 0x400000, 0x7fffffff, &o->segment);
	case 's':
		return number("--size", value, 1, 1ull << 30, &o->size);
	case 'n':
		return number("--iters", value, 1, UINT64_MAX / 2, &o->iterations);
	case 'D':
		return seconds(value, &o->duration);
	case OPT_DEPTH:
		return number32("--tx-depth", value, 1, 4096, &o->depth);
	case 'r':
		return number32("--rx-depth", value, 1, 4096, &o->rx_depth);
	case 'q':
		return number32("--qp", value, 1, 4096, &o->endpoints);
	case OPT_IDLE:
		return number32("--idle-qp", value, 0, 16000, &o->idle_endpoints);
	case 'Q':
		return number32("--cq-mod", value, 1, 1024, &o->signal_every);
	case OPT_PIECES:
		return number32("--pieces", value, 1, 16, &o->pieces);
	case OPT_SPIN:
		return number32("--spin", value, 0, 1000000, &o->spin);
	case OPT_JSON_FILE:
		o->json_file = value;
		return 0;
	default:
		return take_flag(o, c);
	}
}

static int
refuse(const char *why)
{
	fprintf(stderr, "oneside-perf: %s\n", why);
	return -1;
}

/* What does not go together. */
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
	if (o->duration > 0 && o->api == PERF_API_DAT && o->test->kind == PERF_PINGPONG)
		return refuse("--duration: ping-pong of uDAPL goes by --iters");
	if (o->idle_endpoints > 0 && o->api == PERF_API_RSM)
		return refuse("--idle-qp: is for tests of uDAPL");
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
	bool api_given = false;
	int c;

	*o = (struct perf_options){.api = PERF_API_DAT,
				   .node = 1,
				   .segment = 0x400000,
				   .port = 18515,
				   .size = 64,
				   .iterations = 100000,
				   .depth = 128,
				   .rx_depth = 512,
				   .endpoints = 1,
				   .signal_every = 1,
				   .pieces = 4,
				   .peak = true,
				   .spin = 256};
	optind = 0; /* from the start, whoever has called getopt before */
	while ((c = getopt_long(argc, argv, "A:t:d:p:s:an:D:r:q:bQ:NHh", longopts, NULL)) != -1) {
		if (c == 'h') {
			fputs(usage, stdout);
			return 1;
		}
		if (c == 'A' ? take_api(&o->api, &api_given, optarg) != 0 : take(o, c, optarg) != 0)
			return -1;
	}
	if (optind < argc)
		o->host = argv[optind++];
	if (optind < argc) {
		fprintf(stderr, "oneside-perf: \"%s\": one host is enough; see --help\n", argv[optind]);
		return -1;
	}
	if (!api_given && o->test != NULL)
		o->api = o->test->api;
	if (o->test == NULL)
		o->test = test_by_name(o->api == PERF_API_RSM ? "put_bw" : "write_bw");
	if (o->ia == NULL)
		o->ia = o->api == PERF_API_RSM ? "p0" : "oneside";
	return check(o);
}
