/* SPDX-License-Identifier: BSD-3-Clause */
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
	"usage: oneside-perf [options]            serve\n"
	"       oneside-perf [options] HOST       measure against the server at HOST (RSM: any word)\n"
	"  -A, --api dat|rsm       which API (dat)\n"
	"  -t, --test NAME         dat: write_bw write_lat read_bw read_lat send_bw send_lat\n"
	"                          rsm: put_bw put_lat get_bw get_lat\n"
	"  -d, --ib-dev NAME       IA name (oneside), or RSM controller (p0)\n"
	"  -p, --port N            connection qualifier (18515)\n"
	"      --node N            RSM: node id of the exporter (1)\n"
	"      --segment N         RSM: segment id (0x400000)\n"
	"  -s, --size BYTES        size of one operation (64)\n"
	"  -a, --all               all sizes from 8 bytes to 4 MiB\n"
	"  -n, --iters N           operations (100000)\n"
	"  -D, --duration SEC      run for this long instead\n"
	"      --iodepth N         operations in flight on an endpoint (128)\n"
	"  -q, --qp N              endpoints in use at once (1)\n"
	"      --idle-qp N         further endpoints, connected and idle (0)\n"
	"  -Q, --cq-mod N          a completion for every n-th operation (1)\n"
	"      --spin N            looks at an empty queue before the processor is given away (256)\n"
	"      --json              one JSON object a line instead of the table\n"
	"      --once              server: end after the first client\n"
	"  -h, --help\n";

enum { OPT_NODE = 256, OPT_SEGMENT, OPT_DEPTH, OPT_IDLE, OPT_JSON, OPT_ONCE, OPT_SPIN };

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
	{"iodepth", required_argument, NULL, OPT_DEPTH},
	{"qp", required_argument, NULL, 'q'},
	{"idle-qp", required_argument, NULL, OPT_IDLE},
	{"cq-mod", required_argument, NULL, 'Q'},
	{"json", no_argument, NULL, OPT_JSON},
	{"spin", required_argument, NULL, OPT_SPIN},
	{"once", no_argument, NULL, OPT_ONCE},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static int
number(const char *what, const char *text, uint64_t min, uint64_t max, uint64_t *out)
{
	char *end;
	uint64_t value = strtoull(text, &end, 0);

	if (*text == '\0' || *end != '\0' || value < min || value > max) {
		fprintf(stderr, "oneside-perf: %s: \"%s\" is not a number from %llu to %llu\n", what, text,
			(unsigned long long)min, (unsigned long long)max);
		return -1;
	}
	*out = value;
	return 0;
}

int
perf_options_parse(struct perf_options *o, int argc, char **argv)
{
	uint64_t v;
	int c;

	*o = (struct perf_options){.api = PERF_API_DAT,
				   .test = "write_bw",
				   .node = 1,
				   .segment = 0x400000,
				   .port = 18515,
				   .size = 64,
				   .iterations = 100000,
				   .depth = 128,
				   .endpoints = 1,
				   .signal_every = 1,
				   .spin = 256};
	while ((c = getopt_long(argc, argv, "A:t:d:p:s:an:D:q:Q:h", longopts, NULL)) != -1) {
		switch (c) {
		case 'A':
			if (strcmp(optarg, "dat") != 0 && strcmp(optarg, "rsm") != 0) {
				fprintf(stderr, "oneside-perf: --api: \"%s\" is neither dat nor rsm\n",
					optarg);
				return -1;
			}
			o->api = strcmp(optarg, "rsm") == 0 ? PERF_API_RSM : PERF_API_DAT;
			break;
		case 't':
			o->test = optarg;
			break;
		case 'd':
			o->ia = optarg;
			break;
		case 'p':
			if (number("--port", optarg, 1, 65535, &v) != 0)
				return -1;
			o->port = (uint16_t)v;
			break;
		case OPT_NODE:
			if (number("--node", optarg, 0, 63, &v) != 0)
				return -1;
			o->node = (uint32_t)v;
			break;
		case OPT_SEGMENT:
			if (number("--segment", optarg, 0x400000, 0x7fffffff, &v) != 0)
				return -1;
			o->segment = (uint32_t)v;
			break;
		case 's':
			if (number("--size", optarg, 1, 1ull << 30, &o->size) != 0)
				return -1;
			break;
		case 'a':
			o->all_sizes = true;
			break;
		case 'n':
			if (number("--iters", optarg, 1, UINT64_MAX / 2, &o->iterations) != 0)
				return -1;
			break;
		case 'D':
			if (number("--duration", optarg, 1, 86400, &v) != 0)
				return -1;
			o->duration = (double)v;
			break;
		case OPT_DEPTH:
			if (number("--iodepth", optarg, 1, 4096, &v) != 0)
				return -1;
			o->depth = (uint32_t)v;
			break;
		case 'q':
			if (number("--qp", optarg, 1, 1024, &v) != 0)
				return -1;
			o->endpoints = (uint32_t)v;
			break;
		case OPT_IDLE:
			if (number("--idle-qp", optarg, 0, 16000, &v) != 0)
				return -1;
			o->idle_endpoints = (uint32_t)v;
			break;
		case 'Q':
			if (number("--cq-mod", optarg, 1, 1024, &v) != 0)
				return -1;
			o->signal_every = (uint32_t)v;
			break;
		case OPT_SPIN:
			if (number("--spin", optarg, 0, 1000000, &v) != 0)
				return -1;
			o->spin = (uint32_t)v;
			break;
		case OPT_JSON:
			o->json = true;
			break;
		case OPT_ONCE:
			o->once = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return 1;
		default:
			fputs(usage, stderr);
			return -1;
		}
	}
	if (optind < argc)
		o->host = argv[optind];
	if (o->ia == NULL)
		o->ia = o->api == PERF_API_RSM ? "p0" : "oneside";
	if (o->signal_every > o->depth) {
		fprintf(stderr, "oneside-perf: --cq-mod %u: is above --iodepth %u; give at most that\n",
			o->signal_every, o->depth);
		return -1;
	}
	return 0;
}
