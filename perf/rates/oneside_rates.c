/* SPDX-License-Identifier: BSD-3-Clause */
/* oneside-rates: measures the control path and idle data planes; oneside-perf measures data transfer. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "perf/lib/args.h"
#include "rates.h"

static const char usage[] =
	"usage: oneside-rates [OPTION]...         the server: waits for clients\n"
	"       oneside-rates [OPTION]... HOST    the client: measures against the server at HOST\n"
	"       oneside-rates -t idle_cpu --pid PID [--pid PID...]\n"
	"       oneside-rates -t reg_lat [-s SIZE]\n"
	"  -t, --test NAME         bind_rate    window binds per second, in a pipeline\n"
	"                          bind_lat     one bind after the other, post to completion\n"
	"                          conn_rate    connects with disconnects per second\n"
	"                          wake_lat     one 8-byte write after a silence, post to completion\n"
	"                          once_lat     register, write all of it once, deregister\n"
	"                          reg_lat      register and deregister, compared with mlock and memcpy\n"
	"                          idle_memory  memory of a data plane per connected endpoint (--pid)\n"
	"                          idle_cpu     processor time of data planes (--pid)\n"
	"  -d, --ib-dev NAME       IA name (oneside)\n"
	"  -p, --port N            connection qualifier (18516)\n"
	"  -n, --iters N           number of binds, connections, writes or endpoints (by test)\n"
	"  -q, --qp N              endpoints in use at once (16)\n"
	"      --iodepth N         binds in flight on an endpoint (16)\n"
	"  -s, --size BYTES        once_lat, reg_lat: size of the memory (4096)\n"
	"      --pool N            endpoints made before the measurement; at both ends (0)\n"
	"      --pause US          wake_lat: pause before each write (20000)\n"
	"  -D, --duration SEC      idle_cpu: seconds to measure (10)\n"
	"      --pid PID           a data plane's process; up to 8 times\n"
	"      --spin N            polls of an empty queue before yielding (256)\n"
	"      --json              one JSON object a line\n"
	"      --once              server: end after the first client\n"
	"  -h, --help\n";

static int
take_pid(void *options, const char *text)
{
	struct rates_options *o = options;
	uint64_t pid;

	if (o->num_pids == RATES_PIDS) {
		fprintf(stderr, "oneside-rates: --pid: at most %d\n", RATES_PIDS);
		return -1;
	}
	if (args_number("pid", text, 1, INT32_MAX, &pid) != 0)
		return -1;
	o->pid[o->num_pids++] = (pid_t)pid;
	return 0;
}

#define ARGS struct rates_options
static const struct args_row rows[] = {
	TEXT("test", 't', test),
	TEXT("ib-dev", 'd', ia),
	NUMBER("port", 'p', port, 1, 65535),
	NUMBER("iters", 'n', iterations, 1, UINT32_MAX),
	NUMBER("qp", 'q', endpoints, 1, 1024),
	NUMBER("size", 's', size, 1, 1ull << 40),
	NUMBER("iodepth", 0, depth, 1, 1024),
	NUMBER("pool", 0, pool, 0, 16000),
	NUMBER("pause", 0, pause_us, 0, 10000000),
	NUMBER("duration", 'D', seconds, 1, 3600),
	TAKE("pid", 0, take_pid),
	NUMBER("spin", 0, spin, 0, 1000000),
	ON("json", 0, json),
	ON("once", 0, once),
	{.name = NULL},
};

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
	int ended = args_parse(rows, usage, &o, argc, argv);

	if (ended != 0)
		return ended > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
	if (optind < argc)
		o.host = argv[optind];
	if (strcmp(o.test, "idle_cpu") == 0)
		return rates_idle_cpu(&o);
	if (strcmp(o.test, "reg_lat") == 0)
		return rates_registration(&o);
	return o.host == NULL ? rates_serve(&o) : rates_measure(&o);
}
