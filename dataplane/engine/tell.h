/* SPDX-License-Identifier: BSD-3-Clause */
/* Facts for humans and programs, independent of the output: DPDK telemetry, or JSON of the control socket. */
#ifndef DATAPLANE_ENGINE_TELL_H
#define DATAPLANE_ENGINE_TELL_H

#include <stdint.h>

/* Receives an object's named facts. */
struct tell {
	void (*number)(struct tell *tell, const char *name, uint64_t number);
	void (*text)(struct tell *tell, const char *name, const char *text); /* copied */
};

/* Any thread: reports counters of core number `core`, at most a millisecond old. */
typedef void engine_tell_fn(struct tell *tell, uint32_t number);
engine_tell_fn engine_tell_core, engine_tell_drops, engine_tell_transport;
/* Any thread: reports a port; a driver may query its device. */
engine_tell_fn engine_tell_port;
/* Control thread: reports security association `number`, below engine_ipsec_count(). */
engine_tell_fn engine_tell_ipsec;

#endif
