/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oneside-rates: what the control path and an idle data plane cost, where
 * oneside-perf measures moving data.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rates.h"

static const char usage[] =
	"usage: oneside-rates [options]           serve\n"
	"       oneside-rates [options] HOST      measure against the server at HOST\n"
	"       oneside-rates -t idle_cpu --pid PID [--pid PID...]\n"
	"       oneside-rates -t reg_lat [-s SIZE]\n"
	"  -t, --test NAME         bind_rate    windows bound a second, in a pipeline\n"
	"                          bind_lat     one bind after the other, post to completion\n"
	"                          conn_rate    connects with their disconnects a second\n"
	"                          wake_lat     one 8-byte write after a silence, post to completion\n"
	"                          once_lat     memory registered, all of it written once, deregistered\n"
	"                          reg_lat      registering and deregistering, beside mlock and memcpy\n"
	"                          idle_memory  what a connected endpoint costs a data plane (--pid)\n"
	"                          idle_cpu     processor time of data planes (--pid)\n"
	"  -d, --ib-dev NAME       IA name (oneside)\n"
	"  -p, --port N            connection qualifier (18516)\n"
	"  -n, --iters N           binds, connections, writes or endpoints (by test)\n"
	"  -q, --qp N              endpoints in use at once (16)\n"
	"      --iodepth N         binds in flight on an endpoint (16)\n"
	"  -s, --size BYTES        once_lat, reg_lat: of the memory (4096)\n"
	"      --pool N            endpoints made before the clock runs, and kept; at both ends (0)\n"
	"      --pause US          wake_lat: the silence (20000)\n"
	"  -D, --duration SEC      idle_cpu: how long to look (10)\n"
	"      --pid PID           a data plane's process; up to 8 times\n"
	"      --spin N            looks at an empty queue before the processor is given away (256)\n"
	"      --json              one JSON object a line\n"
	"      --once              server: end after the first client\n"
	"  -h, --help\n";

enum { OPT_DEPTH = 256, OPT_POOL, OPT_PAUSE, OPT_PID, OPT_SPIN, OPT_JSON, OPT_ONCE };

static const struct option longopts[] = {
	{"test", required_argument, NULL, 't'},
	{"ib-dev", required_argument, NULL, 'd'},
	{"port", required_argument, NULL, 'p'},
	{"iters", required_argument, NULL, 'n'},
	{"qp", required_argument, NULL, 'q'},
	{"size", required_argument, NULL, 's'},
	{"iodepth", required_argument, NULL, OPT_DEPTH},
	{"pool", required_argument, NULL, OPT_POOL},
	{"pause", required_argument, NULL, OPT_PAUSE},
	{"duration", required_argument, NULL, 'D'},
	{"pid", required_argument, NULL, OPT_PID},
	{"spin", required_argument, NULL, OPT_SPIN},
	{"json", no_argument, NULL, OPT_JSON},
	{"once", no_argument, NULL, OPT_ONCE},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

static uint64_t
number(const char *what, const char *text, uint64_t min, uint64_t max)
{
	char *end;
	uint64_t value = strtoull(text, &end, 0);

	if (*text == '\0' || *end != '\0' || value < min || value > max) {
		fprintf(stderr, "oneside-rates: %s: \"%s\" is not a number from %llu to %llu\n", what, text,
			(unsigned long long)min, (unsigned long long)max);
		exit(EXIT_FAILURE);
	}
	return value;
}

int
main(int argc, char **argv)
{
	struct rates_options o = {.test = "",
				  .ia = "oneside",
				  .port = 18516,
				  .endpoints = 16,
				  .depth = 16,
				  .pause_us = 20000,
				  .seconds = 10,
				  .size = 4096,
				  .spin = 256};
	int c;

	while ((c = getopt_long(argc, argv, "t:d:p:n:q:s:D:h", longopts, NULL)) != -1) {
		switch (c) {
		case 't':
			o.test = optarg;
			break;
		case 'd':
			o.ia = optarg;
			break;
		case 'p':
			o.port = (uint16_t)number("--port", optarg, 1, 65535);
			break;
		case 'n':
			o.iterations = number("--iters", optarg, 1, UINT32_MAX);
			break;
		case 'q':
			o.endpoints = (uint32_t)number("--qp", optarg, 1, 1024);
			break;
		case 's':
			o.size = number("--size", optarg, 1, 1ull << 40);
			break;
		case OPT_DEPTH:
			o.depth = (uint32_t)number("--iodepth", optarg, 1, 1024);
			break;
		case OPT_POOL:
			o.pool = (uint32_t)number("--pool", optarg, 0, 16000);
			break;
		case OPT_PAUSE:
			o.pause_us = (uint32_t)number("--pause", optarg, 0, 10000000);
			break;
		case 'D':
			o.seconds = (uint32_t)number("--duration", optarg, 1, 3600);
			break;
		case OPT_PID:
			if (o.num_pids == RATES_PIDS) {
				fprintf(stderr, "oneside-rates: --pid: at most %d\n", RATES_PIDS);
				return EXIT_FAILURE;
			}
			o.pid[o.num_pids++] = (pid_t)number("--pid", optarg, 1, INT32_MAX);
			break;
		case OPT_SPIN:
			o.spin = (uint32_t)number("--spin", optarg, 0, 1000000);
			break;
		case OPT_JSON:
			o.json = true;
			break;
		case OPT_ONCE:
			o.once = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return EXIT_SUCCESS;
		default:
			fputs(usage, stderr);
			return EXIT_FAILURE;
		}
	}
	if (optind < argc)
		o.host = argv[optind];
	if (strcmp(o.test, "idle_cpu") == 0)
		return rates_idle_cpu(&o);
	if (strcmp(o.test, "reg_lat") == 0)
		return rates_registration(&o);
	return o.host == NULL ? rates_serve(&o) : rates_measure(&o);
}
