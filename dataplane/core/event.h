/* SPDX-License-Identifier: BSD-3-Clause */
/* Acknowledgements and events, from a core to the control thread. */
#ifndef DATAPLANE_CORE_EVENT_H
#define DATAPLANE_CORE_EVENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "dataplane/engine.h"

struct core;

/* Events of an object that found the ring to the control thread full. */
struct event_node {
	STAILQ_ENTRY(event_node) link;
	bool queued;
	uint8_t pending; /* a bit per enum engine_event_type */
	uint32_t value;  /* of FAILED and FAULT */
	void *owner;
};

/* Element of the ring from a core to the control thread. */
struct up {
	void *pointer; /* the acknowledged command (type 0), or the event's owner */
	uint32_t type; /* enum engine_event_type; 0: acknowledgement; UP_STRAYS: for steer.c */
	uint32_t value;
};
#define UP_STRAYS UINT32_MAX

/* Store completions staged earlier first: see qp_raise() and cq_unstage(). */
void event_raise(struct core *core, struct event_node *node, enum engine_event_type type, uint32_t value);
bool event_drain(struct core *core);          /* true: nothing is left */
void event_notify_control(struct core *core); /* at most once per loop: announces queued entries */
/* Reports that frames of `qp` from that UDP port arrive at core `at`; false: not now. */
bool event_strays(struct core *core, struct engine_qp *qp, uint16_t udp_src_port, uint8_t at);
/* Reports that the peer of a connection is silent; `owner` is the queue pair's. False: the ring is full. */
bool event_silent(struct core *core, void *owner);
void event_acknowledge(struct core *core, struct engine_command *command);

#endif
