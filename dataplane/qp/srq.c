/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared receive queues. A queue pair takes a receive when a message begins, as from a ring of its own
 * (take_shared() in qp.c), so there is nothing to poll here. Receives leave in the order of posting, and
 * complete in the order of their messages.
 *
 * Several cores take receives without a lock. A core copies the next slot, then claims it by one
 * compare-and-swap; if that fails, the core drops the copy. A core counts slots as taken after its claim, and
 * slots are claimed in order. So all slots that are counted have been copied, and the application may reuse
 * them.
 */
#include "dataplane/qp/srq.h"
#include "dataplane/qp/cq.h"
#include "dataplane/qp/qp.h"

#define LOG2_MASK ((uintptr_t)ONE_CACHE_LINE - 1)

struct srq_next
srq_find(const struct engine_srq *srq)
{
	/* Acquire: pairs with the compare-and-swap of other cores, and with srq_set_ring(). */
	uint64_t taken = atomic_load_explicit(&srq->taken, memory_order_acquire);
	uintptr_t ring = atomic_load_explicit(&srq->ring, memory_order_acquire);

	return (struct srq_next){.ring = (const struct one_wqe *)(ring & ~LOG2_MASK),
				 .log2 = (uint32_t)(ring & LOG2_MASK),
				 .taken = taken};
}

bool
srq_is_next(const struct engine_srq *srq, const struct srq_next *next)
{
	/* Relaxed: the acquire load of the slot's phase came before, and only equality counts. */
	return atomic_load_explicit(&srq->taken, memory_order_relaxed) == next->taken;
}

static inline uint64_t
add_taken(uint64_t taken, uint32_t slots)
{
	uint32_t receives = (uint32_t)(taken >> 32) + 1, head = (uint32_t)taken + slots;

	return (uint64_t)receives << 32 | head;
}

/* A wrong `posted` from the application affects only its own event. */
static void
check_limit(struct core *core, struct engine_srq *srq, uint32_t taken, struct engine_cq *async_cq)
{
	uint32_t limit = atomic_load_explicit(&srq->limit, memory_order_seq_cst), posted;

	if (likely(limit == 0))
		return;
	/* An honest application stores `posted` before the phase, which was loaded with acquire: so `posted`
	 * is at least `taken`. */
	posted = atomic_load_explicit(&srq->shm->posted, memory_order_relaxed);
	if ((int32_t)(posted - taken) >= (int32_t)limit)
		return;
	/* Relaxed: one of the cores that have found it low gets the limit, and reports. */
	if (atomic_compare_exchange_strong_explicit(&srq->limit, &limit, 0, memory_order_relaxed,
						    memory_order_relaxed))
		cq_notify(core, async_cq, srq->id, ONE_CQE_ASYNC, ONE_ASYNC_SRQ_LIMIT);
}

/* Counters in the arena only grow by what a core adds: the sums over all lanes count, and no core depends on
 * them. */
static struct one_srq_lane *
lane_of_core(const struct engine_srq *srq, uint32_t core)
{
	return &srq->shm->lane[core % srq->lanes];
}

static inline void
add_to(const struct engine_srq *srq, _Atomic uint32_t *counter, uint32_t more)
{
	/* Both pair with the library's acquire loads before it fills a slot again. A core that has the lane
	 * alone needs no atomic addition. */
	if (likely(engine.num_cores <= srq->lanes))
		atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more,
				      memory_order_release);
	else
		atomic_fetch_add_explicit(counter, more, memory_order_release);
}

bool
srq_claim(struct core *core, struct engine_qp *qp, struct srq_next *next, uint32_t slots)
{
	struct engine_srq *srq = qp->srq;
	struct one_srq_lane *lane = lane_of_core(srq, core->index);
	uint64_t after = add_taken(next->taken, slots);

	/* A core alone needs no atomic exchange. Otherwise it pairs with those of other cores, with
	 * srq_find(), and with the store of the limit: that store's check or this core's sees both. */
	if (engine.num_cores == 1)
		atomic_store_explicit(&srq->taken, after, memory_order_relaxed);
	else if (!atomic_compare_exchange_strong_explicit(&srq->taken, &next->taken, after,
							  memory_order_seq_cst, memory_order_relaxed))
		return false;
	add_to(srq, &lane->taken, 1);
	add_to(srq, &lane->head, slots);
	check_limit(core, srq, (uint32_t)(after >> 32),
		    qp->client == srq->client ? srq->async_cq : qp->async_cq);
	return true;
}

void
srq_set_limit(struct core *core, struct engine_srq *srq, uint32_t limit)
{
	/* Pairs with the compare-and-swap in srq_claim(). */
	atomic_store_explicit(&srq->limit, limit, memory_order_seq_cst);
	check_limit(core, srq, (uint32_t)(atomic_load_explicit(&srq->taken, memory_order_seq_cst) >> 32),
		    srq->async_cq);
}

void
srq_set_ring(struct engine_srq *srq, struct one_wqe *ring, uint32_t log2)
{
	/* Pairs with srq_find(). */
	atomic_store_explicit(&srq->ring, (uintptr_t)ring | log2, memory_order_release);
}

void
srq_exchange_rings(struct engine_srq *one, struct engine_srq *other)
{
	/* Relaxed: this core alone stores rings. Release: pairs with srq_find(). */
	uintptr_t ring = atomic_load_explicit(&one->ring, memory_order_relaxed);

	atomic_store_explicit(&one->ring, atomic_load_explicit(&other->ring, memory_order_relaxed),
			      memory_order_release);
	atomic_store_explicit(&other->ring, ring, memory_order_release);
}

void
srq_done(struct engine_srq *srq, const struct engine_qp *qp, uint32_t receives)
{
	srq->done[qp->client->core->index].receives += receives;
}

void
srq_publish(struct engine_srq *srq, const struct engine_qp *qp)
{
	uint32_t core = qp->client->core->index;
	struct srq_done *done = &srq->done[core];

	if (done->receives != 0)
		add_to(srq, &lane_of_core(srq, core)->done, done->receives);
	done->receives = 0;
}
