/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An exporter for tests: a thread that plays the engine and the other node on top
 * of the mock data plane.  Every import that connects reaches one segment of
 * memory, whose address and key are made up.
 */
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
	/* set by the test */
	_Atomic bool hold;          /* let posted work lie; set by peer_hold() */
	_Atomic bool silent;        /* do not answer connects */
	_Atomic int outcome;        /* RSMERR_* that connects end with */
	_Atomic uint32_t flags;     /* rsm_flags */
	_Atomic int64_t fail_after; /* so many transfers succeed; -1: all */
	_Atomic int fail_status;    /* enum one_status of the one that does not */
	_Atomic uint32_t delay_us;  /* before an answer or a completion */
	/* what came */
	_Atomic uint64_t ops, inlined, staged, direct, suppressed, bytes, signals;
	_Atomic uint32_t signal; /* the last one */
	_Atomic uint64_t
		served; /* counted before the completion: orders what is done after it, for sanitizers */
};

void peer_hold(struct peer *peer);
struct peer *peer_start(size_t size);
void peer_stop(struct peer *peer);
/* Stops serving the queue pairs there are (before their attachment ends). */
void peer_forget(struct peer *peer);
/* All imports lose their connection: work is flushed, and they are told `code`. */
void peer_abort(struct peer *peer, int code);
/* The segment of the import that was connected last is withdrawn, as its mapping tells. */
void peer_withdraw(struct peer *peer);
void peer_reset_counts(struct peer *peer);

#endif
