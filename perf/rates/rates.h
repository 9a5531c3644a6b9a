/* SPDX-License-Identifier: BSD-3-Clause */
/* Measurements of oneside-rates: everything except data transfer. */
#ifndef PERF_RATES_H
#define PERF_RATES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RATES_PIDS 8

struct rates_options {
	const char *test;
	const char *ia;
	const char *host; /* NULL: server */
	uint16_t port;
	uint64_t iterations; /* 0: the test's own default */
	uint32_t endpoints;  /* in use at once */
	uint32_t depth;      /* binds in flight on an endpoint */
	uint32_t pool;       /* endpoints made before the measurement */
	uint32_t pause_us;   /* wake_lat: the silence before each operation */
	uint32_t seconds;    /* idle_cpu */
	uint64_t size;       /* reg_lat, once_lat: bytes to register */
	uint32_t spin;
	pid_t pid[RATES_PIDS]; /* data planes to measure */
	uint32_t num_pids;
	bool json, once;
};

int rates_serve(const struct rates_options *options);
int rates_measure(const struct rates_options *options);
/* rates_memory.c: needs no server */
int rates_registration(const struct rates_options *options);

/* rates_idle.c: figures of other processes, from /proc. False: failed, error printed. */
struct process_memory {
	uint64_t private_bytes; /* heap, stacks */
	uint64_t shared_bytes;  /* files that applications map too: rings, registered memory */
};
bool process_memory(pid_t pid, struct process_memory *out);

int rates_idle_cpu(const struct rates_options *options);

#endif
