/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting to a queue pair: reserve, fill the slot (and one_post_sge), commit. On the path of every request;
 * no system call unless the engine sleeps.
 * Lock: that of the queue pair's side, from the reservation to the commit.
 * Lifetime: a reserved slot is the caller's until the commit; a slot that is not committed is reserved again.
 * Errno: none. Requests posted to a lost attachment are never completed.
 */
#ifndef CLIENT_POST_H
#define CLIENT_POST_H

#include <string.h>

#include "client/qp.h"

_Static_assert(offsetof(struct one_wqe, length) == 4 && offsetof(struct one_wqe, rkey) == 24 &&
		       offsetof(struct one_wqe, imm) == 28 && offsetof(struct one_wqe, sge) == 32 &&
		       offsetof(struct one_wqe, phase) == 63 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
	       "one_send_put stores a slot by words");

/* Slow path, out of line: reads the engine's published progress; false: still no room. */
bool one_send_refresh(struct one_qp *qp, uint32_t slots);
bool one_recv_refresh(struct one_qp *qp, uint32_t slots);
/* Writes to the eventfd of the core that owns these doorbells if the core sleeps. */
void one_qp_wake(struct one_qp *qp, const struct one_doorbells *doorbells);

/* Returns the doorbells of the queue pair's lane. Relaxed: the data plane stores their offset before the
 * state that allows sending. A receive that rings the first lane's doorbells is found when the queue pair has
 * connected. */
static inline struct one_doorbells *
one_qp_doorbells(const struct one_qp *qp)
{
	uint32_t offset = atomic_load_explicit(&qp->shm->doorbells, memory_order_relaxed);

	if (ONE_LIKELY(offset == 0) || offset > qp->last_doorbells)
		return qp->doorbells;
	return (struct one_doorbells *)(void *)((uint8_t *)qp->arena + offset);
}

static inline void
one_qp_ring(struct one_qp *qp)
{
	struct one_doorbells *doorbells = one_qp_doorbells(qp);

	one_doorbell_ring(doorbells, qp->doorbell);
	if (ONE_UNLIKELY(qp->may_sleep))
		one_qp_wake(qp, doorbells);
}

/*
 * Returns the next slot, with num_sge set and the other fields left over from an earlier request. NULL:
 * max_send_wr requests are unfinished, or the ring is full, or num_sge is over ONE_MAX_SGE.
 */
static inline struct one_wqe *
one_send_reserve(struct one_qp *qp, uint32_t num_sge)
{
	uint32_t slots = one_wqe_slots(num_sge);
	struct one_wqe *wqe;

	if (ONE_UNLIKELY(num_sge > ONE_MAX_SGE))
		return NULL;
	if (ONE_UNLIKELY(qp->sq_posted - qp->sq_done_seen >= qp->max_send_wr ||
			 qp->sq_tail + slots - qp->sq_head_seen > 1u << qp->sq_log2) &&
	    !one_send_refresh(qp, slots))
		return NULL;
	wqe = &qp->sq[one_ring_slot(qp->sq_tail, qp->sq_log2)];
	wqe->num_sge = (uint8_t)num_sge;
	return wqe;
}

/* one_send_reserve for the receive side. */
static inline struct one_wqe *
one_recv_reserve(struct one_qp *qp, uint32_t num_sge)
{
	uint32_t slots = one_wqe_slots(num_sge);
	struct one_wqe *wqe;

	if (ONE_UNLIKELY(num_sge > ONE_MAX_SGE))
		return NULL;
	if (ONE_UNLIKELY(qp->rq_posted - qp->rq_done_seen >= qp->max_recv_wr ||
			 qp->rq_tail + slots - qp->rq_head_seen > 1u << qp->rq_log2) &&
	    !one_recv_refresh(qp, slots))
		return NULL;
	wqe = &qp->rq[one_ring_slot(qp->rq_tail, qp->rq_log2)];
	wqe->num_sge = (uint8_t)num_sge;
	return wqe;
}

/* The phases of the extension slots come first, the request's last: from then on the engine may take all. */
static inline void
one_ring_commit(struct one_wqe *ring, uint32_t log2, uint32_t tail, uint32_t slots)
{
	for (uint32_t i = 1; ONE_UNLIKELY(i < slots); i++) {
		struct one_wqe *slot = &ring[one_ring_slot(tail + i, log2)];
		struct one_wqe_ext *ext = (struct one_wqe_ext *)(void *)slot;

		memset(ext->reserved, 0, sizeof(ext->reserved));
		/* Published by the release store below. */
		atomic_store_explicit(&ext->phase, one_ring_phase(tail + i, log2), memory_order_relaxed);
	}
	/* Pairs with the engine's acquire load of the phase: the engine sees all fields. */
	atomic_store_explicit(&ring[one_ring_slot(tail, log2)].phase, one_ring_phase(tail, log2),
			      memory_order_release);
}

/* Passes the slot that one_send_reserve returned last to the engine. */
static inline void
one_send_commit(struct one_qp *qp, struct one_wqe *wqe)
{
	uint32_t slots = one_wqe_slots(wqe->num_sge);

	one_ring_commit(qp->sq, qp->sq_log2, qp->sq_tail, slots);
	qp->sq_tail += slots;
	qp->sq_posted++;
	one_qp_ring(qp);
}

/* Returns true if there is room for a request of one slot. */
static inline bool
one_send_has_room(struct one_qp *qp)
{
	return ONE_LIKELY(qp->sq_posted - qp->sq_done_seen < qp->max_send_wr &&
			  qp->sq_tail + 1 - qp->sq_head_seen <= 1u << qp->sq_log2) ||
	       one_send_refresh(qp, 1);
}

/*
 * Posts a request of one slot, for which there is room, with one store per word. Each store takes an entry in
 * the processor's store buffer, where all stores wait behind a slot whose cache line is still with the
 * polling core. `data` holds the words of the sge, or of the inline payload.
 */
static inline __attribute__((always_inline)) void
one_send_put(struct one_qp *qp, uint32_t head, uint32_t length, uint64_t cookie, uint64_t remote_addr,
	     uint64_t rkey_imm, const uint64_t data[ONE_INLINE_MAX / 8], uint32_t words)
{
	uint64_t *slot = (uint64_t *)(void *)&qp->sq[one_ring_slot(qp->sq_tail, qp->sq_log2)];

	slot[0] = (uint64_t)length << 32 | head;
	slot[1] = cookie;
	slot[2] = remote_addr;
	slot[3] = rkey_imm;
	for (uint32_t i = 0; i < words; i++)
		slot[4 + i] = data[i];
	/* Reserved bytes and phase, last of all. Pairs with the engine's acquire load of the phase. */
	__atomic_store_n(&slot[7], (uint64_t)one_ring_phase(qp->sq_tail, qp->sq_log2) << 56,
			 __ATOMIC_RELEASE);
	qp->sq_tail++;
	qp->sq_posted++;
	one_qp_ring(qp);
}

/* Returns the first word of a slot: op, flags, sges and inline bytes. */
static inline uint32_t
one_send_head(uint8_t op, uint8_t flags, uint8_t num_sge, uint8_t inline_len)
{
	return (uint32_t)inline_len << 24 | (uint32_t)num_sge << 16 | (uint32_t)flags << 8 | op;
}

/* one_send_commit for the receive side. */
static inline void
one_recv_commit(struct one_qp *qp, struct one_wqe *wqe)
{
	uint32_t slots = one_wqe_slots(wqe->num_sge);

	one_ring_commit(qp->rq, qp->rq_log2, qp->rq_tail, slots);
	qp->rq_tail += slots;
	qp->rq_posted++;
	one_qp_ring(qp);
}

/* Sets segment i of the request being filled, i < num_sge; finds the extension slot. */
static inline void
one_post_sge(struct one_qp *qp, struct one_wqe *wqe, uint32_t i, uint64_t addr, uint32_t len, uint32_t lkey)
{
	struct one_sge *sge = &wqe->sge;

	if (i > 0) {
		bool send = wqe >= qp->sq && wqe < qp->sq + (1u << qp->sq_log2);
		struct one_wqe *ring = send ? qp->sq : qp->rq;
		uint32_t log2 = send ? qp->sq_log2 : qp->rq_log2;
		uint32_t index = (uint32_t)(wqe - ring) + 1 + (i - 1) / ONE_SGE_PER_EXT;
		struct one_wqe *slot = &ring[one_ring_slot(index, log2)];

		sge = &((struct one_wqe_ext *)(void *)slot)->sge[(i - 1) % ONE_SGE_PER_EXT];
	}
	sge->addr = addr;
	sge->len = len;
	sge->lkey = lkey;
}

#endif
