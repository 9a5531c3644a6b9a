/* SPDX-License-Identifier: BSD-3-Clause */
/* The traffic of one end of a uDAPL test while it is measured; both ends use it. */
#ifndef PERF_TRAFFIC_H
#define PERF_TRAFFIC_H

#include <sys/queue.h>

#include "perf/lib/dat_common.h"
#include "options.h"
#include "perf/lib/report.h"

#define EVENT_SECONDS 20u

/* Cookie of receives for notes. The cookie of data is the endpoint. */
#define NOTE_COOKIE UINT64_MAX

struct endpoint {
	DAT_EP_HANDLE ep;
	uint32_t outstanding;
	bool listed; /* in the list of endpoints whose window has space: traffic_bandwidth() */
	STAILQ_ENTRY(endpoint) link;
};

struct traffic {
	struct dat_adapter *adapter;
	const char *name;         /* name of the test, for messages */
	enum perf_op op;          /* PERF_WRITE, PERF_READ, PERF_SEND */
	struct dat_memory memory; /* first half: source; second half: destination of the peer */
	struct dat_target target; /* the peer's second half */
	struct endpoint *busy;
	uint32_t first; /* number of busy[0] among the endpoints of all threads */
	uint32_t endpoints, depth, every;
	bool receives; /* data is received at this end, so receives are reposted */
	bool noted;    /* a note has arrived; notes_take() clears the flag */
	bool peak, tty;
	struct histogram *latency;
};

/* Length of a measurement. */
struct stint {
	uint64_t size, iterations;
	double seconds; /* if not 0, replaces `iterations` */
};

/* The second half of the memory, which the peer writes. */
static inline uint8_t *
traffic_landing(const struct traffic *t)
{
	return (uint8_t *)t->memory.base + t->memory.size / 2;
}

bool traffic_post_recv(struct traffic *t, DAT_EP_HANDLE ep);
/* Handles a receive completion: reposts the receive. False: failed, error printed. */
bool traffic_received(struct traffic *t, const DAT_EVENT *event);
/* Takes up to 64 receive completions and reposts the receives. False: failed, error printed. */
bool traffic_drain(struct traffic *t, bool *busy);

bool traffic_bandwidth(struct traffic *t, const struct stint *stint, struct result *r);
/* Measures from the post until the completion is taken. */
bool traffic_latency(struct traffic *t, const struct stint *stint, struct result *r);
/* Measures half a round trip. `leads`: this end sends first. */
bool traffic_pingpong(struct traffic *t, const struct stint *stint, bool leads, struct result *r);

#endif
