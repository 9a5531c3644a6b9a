/* SPDX-License-Identifier: BSD-3-Clause */
/* What one end of a uDAPL test does while it is measured; both ends use it. */
#ifndef PERF_TRAFFIC_H
#define PERF_TRAFFIC_H

#include <sys/queue.h>

#include "dat_common.h"
#include "options.h"
#include "report.h"

#define EVENT_SECONDS 20u

/* Cookie of the receives of notes; those of data carry their endpoint. */
#define NOTE_COOKIE UINT64_MAX

struct endpoint {
	DAT_EP_HANDLE ep;
	uint32_t outstanding;
	bool listed; /* among those with room in their window: traffic_bandwidth */
	STAILQ_ENTRY(endpoint) link;
};

struct traffic {
	struct dat_adapter *adapter;
	const char *name;         /* of the test, for messages */
	enum perf_op op;          /* PERF_WRITE, PERF_READ, PERF_SEND */
	struct dat_memory memory; /* its first half is sent from, its second received into */
	struct dat_target target; /* the peer's second half */
	struct endpoint *busy;
	uint32_t endpoints, depth, every;
	bool receives; /* data is received here: posts receives again */
	bool noted;    /* a note has come; who takes it clears this */
	bool peak, tty;
	struct histogram *latency;
};

/* What one measurement is to be. */
struct stint {
	uint64_t size, iterations;
	double seconds; /* not 0: instead of iterations */
};

/* The second half of the memory, where the peer writes. */
static inline uint8_t *
traffic_landing(const struct traffic *t)
{
	return (uint8_t *)t->memory.base + t->memory.size / 2;
}

bool traffic_post_recv(struct traffic *t, DAT_EP_HANDLE ep);
/* What a completion of a receive asks for: its receive is posted again.  False: failed, told. */
bool traffic_received(struct traffic *t, const DAT_EVENT *event);
/* Takes up to 64 receive completions and posts their receives again.  False: failed, told. */
bool traffic_drain(struct traffic *t, bool *busy);

bool traffic_bandwidth(struct traffic *t, const struct stint *stint, struct result *r);
/* From posting until the completion was taken. */
bool traffic_latency(struct traffic *t, const struct stint *stint, struct result *r);
/* Half of a round trip; `leads`: this end sends first, and measures. */
bool traffic_pingpong(struct traffic *t, const struct stint *stint, bool leads, struct result *r);

#endif
