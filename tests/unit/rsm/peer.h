/* SPDX-License-Identifier: BSD-3-Clause */
/* An exporter for tests: a thread that plays the engine and the other node on top
 * of the mock data plane.  Every import that connects reaches one segment of
 * memory, whose address and key are made up. */
#ifndef TESTS_UNIT_RSM_PEER_H
#define TESTS_UNIT_RSM_PEER_H

#include <pthread.h>
#include <stdatomic.h>

#include <rsmapi.h>

#include "tests/unit/mock/mock.h"

#define PEER_NODE 2u
#define PEER_SEGMENT 0x600000u
#define PEER_BASE 0x123456780000ull
#define PEER_KEY 0x0badcafeu
#define PEER_QPS 64u

struct peer {
	struct mock *mock;
	uint8_t *memory; /* a mapping of `fd` */
	size_t size;
	int fd;
	pthread_t thread;
	pthread_mutex_t lock;
	uint32_t qp[PEER_QPS], cq[PEER_QPS], num_qps;
	bool broken[PEER_QPS];
	uint32_t last_import;
	_Atomic bool stop;
	/* Controls, set by the test: */
	_Atomic bool hold;          /* leave posted work in the rings; set by peer_hold() */
	_Atomic bool silent;        /* do not answer connects */
	_Atomic int outcome;        /* RSMERR_* that connects end with */
	_Atomic uint32_t flags;     /* rsm_flags */
	_Atomic int64_t fail_after; /* N transfers succeed; -1: all */
	_Atomic int fail_status;    /* enum one_status of the transfer that fails */
	_Atomic uint32_t delay_us;  /* before an answer or a completion */
	/* Counts of served work: */
	_Atomic uint64_t ops, inlined, staged, direct, suppressed, bytes, signals;
	_Atomic uint32_t signal; /* of the last signal */
	/* Counted before the completion is stored: orders later accesses of the test, for sanitizers. */
	_Atomic uint64_t served;
};

void peer_hold(struct peer *peer);
struct peer *peer_start(size_t size);
void peer_stop(struct peer *peer);
/* Stops serving the existing queue pairs, before their attachment ends. */
void peer_forget(struct peer *peer);
/* Breaks the connection of all imports: work is flushed, and `code` is reported to the imports. */
void peer_abort(struct peer *peer, int code);
/* Withdraws the segment of the import connected last, and reports so in the import's mapping. */
void peer_withdraw(struct peer *peer);

#endif
