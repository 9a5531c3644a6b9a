/* SPDX-License-Identifier: BSD-3-Clause */
/* Facts for people and programs, whatever they are printed as: telemetry of DPDK, or JSON of the control
 * socket. */
#ifndef DATAPLANE_ENGINE_TELL_H
#define DATAPLANE_ENGINE_TELL_H

#include <stdint.h>

/* An object of named facts. */
struct tell {
	void (*number)(struct tell *tell, const char *name, uint64_t number);
	void (*text)(struct tell *tell, const char *name, const char *text); /* copied */
};

/* Any thread: counters of core number `core`, a millisecond old at most. */
typedef void engine_tell_fn(struct tell *tell, uint32_t number);
engine_tell_fn engine_tell_core, engine_tell_drops, engine_tell_transport;
/* Any thread; a driver may ask its device. */
engine_tell_fn engine_tell_port;
/* Control thread: of security association number `number`, below engine_ipsec_count(). */
engine_tell_fn engine_tell_ipsec;

#endif
