/* SPDX-License-Identifier: BSD-3-Clause */
/* Facts for humans and programs, independent of the output: DPDK telemetry, or JSON of the control socket. */
#ifndef DATAPLANE_ENGINE_FACT_SINK_H
#define DATAPLANE_ENGINE_FACT_SINK_H

#include <stdint.h>

/* Receives an object's named facts. */
struct fact_sink {
	void (*number)(struct fact_sink *sink, const char *name, uint64_t number);
	void (*text)(struct fact_sink *sink, const char *name, const char *text); /* copied */
};

/* Any thread: reports counters of core number `core`, at most a millisecond old. */
typedef void engine_report_fn(struct fact_sink *sink, uint32_t number);
engine_report_fn engine_report_core, engine_report_drops, engine_report_transport;
/* Any thread: reports a port; a driver may query its device. */
engine_report_fn engine_report_port;
/* Control thread: reports security association `number`, below engine_ipsec_count(). */
engine_report_fn engine_report_ipsec;

#endif
