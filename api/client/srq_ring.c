/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues. */
#include "client/internal.h"
#include "client/post.h"
#include "client/srq.h"

int
one_srq_create(struct one_client *client, uint32_t pz, uint32_t max_wr, uint32_t max_sge, struct one_srq *srq)
{
	struct one_msg msg = {.type = ONE_MSG_SRQ_CREATE};
	const struct one_srq_created *made;
	struct one_reply reply;
	int error;

	memset(srq, 0, sizeof(*srq));
	msg.srq_create = (struct one_srq_create){.pz = pz, .max_wr = max_wr, .max_sge = max_sge};
	error = one_call(client, &msg, NULL, 0, &reply);
	if (error != 0)
		return error;
	made = &reply.srq;
	if (made->log2 <= ONE_RING_LOG2_MAX && made->lanes <= ONE_LANES_MAX) {
		srq->shm = one_client_span(client, made->shm, one_srq_shm_size(made->lanes));
		srq->rq = one_client_span(client, made->rq, sizeof(struct one_wqe) << made->log2);
	}
	if (srq->shm == NULL || srq->rq == NULL) {
		client_fail(client);
		return -EPROTO;
	}
	srq->client = client;
	srq->id = made->srq;
	srq->log2 = made->log2;
	srq->lanes = made->lanes;
	srq->max_wr = max_wr;
	return 0;
}

int
one_srq_free(struct one_srq *srq)
{
	return one_call_id(srq->client, ONE_MSG_SRQ_FREE, srq->id);
}

int
one_srq_limit(struct one_srq *srq, uint32_t limit)
{
	struct one_msg msg = {.type = ONE_MSG_SRQ_LIMIT};

	msg.srq_limit = (struct one_srq_limit){.srq = srq->id, .limit = limit};
	return one_call(srq->client, &msg, NULL, 0, NULL);
}

/* Reads the engine's progress counters as refresh_side() in qp_rings.c: only forward, and never past what was
 * posted. */
static void
refresh_srq(struct one_srq *srq)
{
	uint32_t done = 0, head = 0;

	/* Acquire pairs with the engine's release stores: no core reads so many slots any more. */
	for (uint32_t i = 0; i < srq->lanes; i++) {
		done += atomic_load_explicit(&srq->shm->lane[i].done, memory_order_acquire);
		head += atomic_load_explicit(&srq->shm->lane[i].head, memory_order_acquire);
	}
	if (srq->posted - done <= srq->posted - srq->done_seen)
		srq->done_seen = done;
	if (srq->tail - head <= srq->tail - srq->head_seen)
		srq->head_seen = head;
}

/* Copies the slots of the old ring that the engine may still take, under their indices; later slots get
 * phases of unposted ones. */
static void
copy_slots(const struct one_srq *from, struct one_srq *to)
{
	uint32_t first = from->head_seen;

	for (uint32_t i = first; i != first + (1u << to->log2); i++) {
		struct one_wqe *slot = &to->rq[one_ring_slot(i, to->log2)];
		uint8_t phase = one_ring_phase(i, to->log2);

		if (i - first < from->tail - first)
			memcpy((void *)slot, (const void *)&from->rq[one_ring_slot(i, from->log2)],
			       offsetof(struct one_wqe, phase));
		else
			phase ^= 1;
		/* Relaxed: the engine polls this ring only after the message that follows. */
		one_store_alone(&slot->phase, phase);
	}
}

static int
swap_rings(struct one_srq *srq, struct one_srq *other)
{
	struct one_msg msg = {.type = ONE_MSG_SRQ_SWAP};
	const struct one_srq was = *srq;
	int error;

	msg.srq_swap = (struct one_srq_swap){.srq = srq->id, .other = other->id};
	error = one_call(srq->client, &msg, NULL, 0, NULL);
	if (error != 0)
		return error;
	srq->rq = other->rq;
	srq->log2 = other->log2;
	srq->max_wr = other->max_wr;
	other->rq = was.rq;
	other->log2 = was.log2;
	return 0;
}

int
one_srq_resize(struct one_srq *srq, uint32_t pz, uint32_t max_wr, uint32_t max_sge)
{
	struct one_srq next;
	int error = one_srq_create(srq->client, pz, max_wr, max_sge, &next);

	if (error != 0)
		return error;
	refresh_srq(srq);
	if (srq->posted - srq->done_seen > max_wr || srq->tail - srq->head_seen > 1u << next.log2) {
		error = -EBUSY;
	} else {
		copy_slots(srq, &next);
		error = swap_rings(srq, &next);
	}
	one_srq_free(&next);
	return error;
}

static bool
has_room(const struct one_srq *srq, uint32_t max, uint32_t slots)
{
	return srq->posted - srq->done_seen < max && srq->tail + slots - srq->head_seen <= 1u << srq->log2;
}

int
one_srq_post(struct one_srq *srq, uint32_t max, uint64_t cookie, const struct one_sge *sge, uint32_t num_sge)
{
	struct one_wqe *wqe = &srq->rq[one_ring_slot(srq->tail, srq->log2)];
	uint32_t slots = one_wqe_slots(num_sge), length = 0;

	if (num_sge > ONE_MAX_SGE)
		return -EINVAL;
	if (!has_room(srq, max, slots)) {
		refresh_srq(srq);
		if (!has_room(srq, max, slots))
			return -ENOSPC;
	}
	/* The first slot's phase still belongs to the last lap; all other bytes are new. */
	memset((void *)wqe, 0, offsetof(struct one_wqe, phase));
	for (uint32_t i = 0; i < num_sge; i++) {
		struct one_wqe *slot =
			i == 0 ? wqe
			       : &srq->rq[one_ring_slot(srq->tail + 1 + (i - 1) / ONE_SGE_PER_EXT,
							srq->log2)];
		struct one_wqe_ext *ext = (struct one_wqe_ext *)(void *)slot;

		*(i == 0 ? &wqe->sge : &ext->sge[(i - 1) % ONE_SGE_PER_EXT]) = sge[i];
		length += sge[i].len;
	}
	wqe->op = ONE_OP_RECV;
	wqe->num_sge = (uint8_t)num_sge;
	wqe->length = length;
	wqe->cookie = cookie;
	srq->posted++;
	/* Published by the release store of the phase in one_ring_commit. */
	atomic_store_explicit(&srq->shm->posted, srq->posted, memory_order_relaxed);
	one_ring_commit(srq->rq, srq->log2, srq->tail, slots);
	srq->tail += slots;
	return 0;
}

uint32_t
one_srq_available(const struct one_srq *srq)
{
	uint32_t n = srq->posted;

	for (uint32_t i = 0; i < srq->lanes; i++)
		/* Pairs with the engine's release store. */
		n -= atomic_load_explicit(&srq->shm->lane[i].taken, memory_order_acquire);
	return n <= srq->max_wr ? n : 0;
}

uint32_t
one_srq_outstanding(struct one_srq *srq)
{
	refresh_srq(srq);
	return srq->posted - srq->done_seen;
}

uint32_t
one_qp_held(const struct one_qp *qp)
{
	/* Pairs with the engine's release store: the number taken is loaded after the number of those
	 * completed. */
	uint32_t done = atomic_load_explicit(&qp->shm->rq_done, memory_order_acquire);
	uint32_t n = one_load_alone(&qp->shm->rq_head) - done;

	return n <= UINT16_MAX ? n : 0;
}
