/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared receive queues. Queue pairs of one attachment, on any cores, take receives from one ring.
 */
#ifndef DATAPLANE_QP_SRQ_H
#define DATAPLANE_QP_SRQ_H

#include "dataplane/core/core.h"

/* Receives that queue pairs of one core have completed, and that `shm` does not count yet. Only that core
 * uses it. */
struct srq_done {
	uint32_t receives;
} __rte_cache_aligned;

struct engine_srq {
	_Atomic uintptr_t ring; /* struct one_wqe *, aligned to a cache line, and its log2 */
	_Atomic uint64_t
		taken; /* upper half: receives taken by all cores; lower half: index of the next slot */
	_Atomic uint32_t limit; /* report when fewer are left; 0: not armed */
	uint32_t lanes; /* of `shm`: polling cores of the process that made the queue, perhaps another one */
	struct one_srq_shm *shm;
	uint32_t id;
	struct engine_cq *async_cq;
	struct engine_client *client;
	struct reap reap;       /* control thread only */
	struct srq_done done[]; /* indexed by core */
};

/* The next receive, as a core has found it. */
struct srq_next {
	const struct one_wqe *ring;
	uint32_t log2;
	uint64_t taken;
};

/* Finds the next receive. The caller copies it from its slot, srq_slot(), then claims it. */
struct srq_next srq_find(const struct engine_srq *srq);
/* True if no core has claimed `next`. */
bool srq_is_next(const struct engine_srq *srq, const struct srq_next *next);
/*
 * Claim the receive for `qp`, with its `slots` slots. False: another core has claimed it, and the application
 * may have changed it before it was copied; find the next one.
 */
bool srq_claim(struct core *core, struct engine_qp *qp, struct srq_next *next, uint32_t slots);

static inline uint32_t
srq_slot(const struct srq_next *next)
{
	return (uint32_t)next->taken;
}

void srq_set_ring(struct engine_srq *srq, struct one_wqe *ring, uint32_t log2);
/* Other cores use the old ring until their next loop. */
void srq_exchange_rings(struct engine_srq *one, struct engine_srq *other);
void srq_set_limit(struct core *core, struct engine_srq *srq, uint32_t limit);
void srq_done(struct engine_srq *srq, const struct engine_qp *qp, uint32_t receives);
void srq_publish(struct engine_srq *srq, const struct engine_qp *qp); /* what the core of `qp` has done */

#endif
