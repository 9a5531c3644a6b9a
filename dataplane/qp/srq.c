/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared receive queues. A queue pair takes a receive when a message begins, as from a ring of its own
 * (take_shared() in qp.c), so there is nothing to poll here. Receives leave in the order of posting, and
 * complete in the order of their messages.
 */
#include "dataplane/qp/srq.h"
#include "dataplane/qp/cq.h"

/* A wrong `posted` from the application affects only its own event. */
static void
check_limit(struct core *core, struct engine_srq *srq)
{
	uint32_t posted;

	if (likely(srq->limit == 0))
		return;
	/* An honest application stores `posted` before the phase, which was loaded with acquire: so `posted`
	 * is at least `taken`. */
	posted = atomic_load_explicit(&srq->shm->posted, memory_order_relaxed);
	if ((int32_t)(posted - srq->taken) >= (int32_t)srq->limit)
		return;
	srq->limit = 0;
	cq_notify(core, srq->async_cq, srq->id, ONE_CQE_ASYNC, ONE_ASYNC_SRQ_LIMIT);
}

void
srq_took(struct core *core, struct engine_srq *srq, uint32_t slots)
{
	srq->head += slots;
	srq->taken++;
	/* Pair with the library's acquire loads before it fills a slot again. */
	atomic_store_explicit(&srq->shm->taken, srq->taken, memory_order_release);
	atomic_store_explicit(&srq->shm->head, srq->head, memory_order_release);
	check_limit(core, srq);
}

void
srq_set_limit(struct core *core, struct engine_srq *srq, uint32_t limit)
{
	srq->limit = limit;
	check_limit(core, srq);
}

void
srq_exchange_rings(struct engine_srq *one, struct engine_srq *other)
{
	struct one_wqe *rq = one->rq;
	uint32_t log2 = one->log2;

	one->rq = other->rq;
	one->log2 = other->log2;
	other->rq = rq;
	other->log2 = log2;
}

void
srq_publish(struct engine_srq *srq)
{
	/* Pairs with the library's acquire load. */
	atomic_store_explicit(&srq->shm->done, srq->done, memory_order_release);
}
