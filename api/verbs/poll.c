/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Polls completion queues, by ibv_poll_cq and by start_poll.
 *
 * A ring names queue pairs by ids.  Polling skips entries of destroyed queue pairs; cq_purge() takes entries
 * of a queue pair that is reset out of the ring.
 */
#include <sched.h>
#include <stdlib.h>

#include "verbs/cq.h"
#include "verbs/event.h"
#include "client/wait.h"

/* Codes of the IP version in ibv_wc.sl.  IBTA's annex A17 wants the version in the completion of a datagram,
 * but struct ibv_wc has no field for it.  Adapters put these codes into the service level, which RoCE does
 * not use; UCX finds the destination address by them. */
#define SL_IPV6 1
#define SL_IPV4 2

uint32_t
cq_waiting(struct cq *cq)
{
	return one_cq_pending(&cq->ring, UINT32_MAX) + cq->purged_count - cq->purged_at;
}

static const enum ibv_wc_status status_of[] = {
	[ONE_STATUS_SUCCESS] = IBV_WC_SUCCESS,
	[ONE_STATUS_FLUSHED] = IBV_WC_WR_FLUSH_ERR,
	[ONE_STATUS_LOCAL_LENGTH] = IBV_WC_LOC_LEN_ERR,
	[ONE_STATUS_LOCAL_QP] = IBV_WC_LOC_QP_OP_ERR,
	[ONE_STATUS_LOCAL_PROTECTION] = IBV_WC_LOC_PROT_ERR,
	[ONE_STATUS_BAD_RESPONSE] = IBV_WC_BAD_RESP_ERR,
	[ONE_STATUS_REMOTE_ACCESS] = IBV_WC_REM_ACCESS_ERR,
	[ONE_STATUS_REMOTE_OPERATION] = IBV_WC_REM_OP_ERR,
	[ONE_STATUS_REMOTE_INVALID] = IBV_WC_REM_INV_REQ_ERR,
	[ONE_STATUS_RETRY_EXCEEDED] = IBV_WC_RETRY_EXC_ERR,
	[ONE_STATUS_RNR_EXCEEDED] = IBV_WC_RNR_RETRY_EXC_ERR,
	[ONE_STATUS_BIND_FAILED] = IBV_WC_MW_BIND_ERR,
};

static const enum ibv_wc_opcode opcode_of[ONE_OP_MAX] = {
	[ONE_OP_SEND] = IBV_WC_SEND,
	[ONE_OP_SEND_IMM] = IBV_WC_SEND,
	[ONE_OP_SEND_INV] = IBV_WC_SEND,
	[ONE_OP_WRITE] = IBV_WC_RDMA_WRITE,
	[ONE_OP_WRITE_IMM] = IBV_WC_RDMA_WRITE,
	[ONE_OP_READ] = IBV_WC_RDMA_READ,
	[ONE_OP_FETCH_ADD] = IBV_WC_FETCH_ADD,
	[ONE_OP_CMP_SWAP] = IBV_WC_COMP_SWAP,
	[ONE_OP_BIND] = IBV_WC_BIND_MW,
	[ONE_OP_RECV] = IBV_WC_RECV,
};

static void
fill_wc(const struct one_cqe *cqe, const struct qp_name *qp, struct ibv_wc *wc)
{
	wc->wr_id = cqe->cookie;
	wc->status = cqe->status < sizeof(status_of) / sizeof(status_of[0]) ? status_of[cqe->status]
									    : IBV_WC_GENERAL_ERR;
	wc->opcode = cqe->op < ONE_OP_MAX ? opcode_of[cqe->op] : IBV_WC_SEND;
	wc->vendor_err = cqe->status;
	wc->byte_len = cqe->length;
	wc->qp_num = qp->qpn;
	wc->src_qp = atomic_load_explicit(&qp->peer_qpn, memory_order_relaxed);
	wc->wc_flags = 0;
	wc->pkey_index = 0;
	wc->slid = 0;
	wc->sl = 0;
	wc->dlid_path_bits = 0;
	wc->imm_data = cqe->imm;
	if (cqe->type == ONE_CQE_RECV_WRITE_IMM)
		wc->opcode = IBV_WC_RECV_RDMA_WITH_IMM;
	else if (cqe->type == ONE_CQE_RECV)
		wc->opcode = IBV_WC_RECV;
	if (cqe->type == ONE_CQE_BIND && (cqe->flags & ONE_CQE_INV) != 0)
		wc->opcode = IBV_WC_LOCAL_INV;
	else if ((cqe->flags & ONE_CQE_IMM) != 0)
		wc->wc_flags = IBV_WC_WITH_IMM;
	else if ((cqe->flags & ONE_CQE_INV) != 0)
		wc->wc_flags = IBV_WC_WITH_INV;
	if ((cqe->flags & ONE_CQE_GRH) != 0) {
		wc->wc_flags |= IBV_WC_GRH;
		wc->sl = (cqe->flags & ONE_CQE_IPV4) != 0 ? SL_IPV4 : SL_IPV6;
		wc->src_qp = cqe->src_qpn;
	}
}

static int
next_entry(struct cq *cq, struct one_cqe *cqe)
{
	if (ONE_UNLIKELY(cq->purged != NULL)) {
		if (cq->purged_at < cq->purged_count) {
			*cqe = cq->purged[cq->purged_at++];
			return 1;
		}
		free(cq->purged);
		cq->purged = NULL;
	}
	return one_cq_poll(&cq->ring, cqe);
}

static int
next_completion(struct cq *cq, struct ibv_wc *wc)
{
	struct context *context = context_of(cq->base.context);
	struct one_cqe cqe;

	while (next_entry(cq, &cqe) != 0) {
		const struct qp_name *qp =
			atomic_load_explicit(&context->qps[cqe.object % ONE_QPS_MAX], memory_order_relaxed);

		if (qp == NULL || qp->element.id != cqe.object)
			continue;
		fill_wc(&cqe, qp, wc);
		return 1;
	}
	return one_client_dead(context->client) ? -1 : 0;
}

int
cq_poll(struct ibv_cq *base, int num, struct ibv_wc *wc)
{
	struct cq *cq = TO(cq, base);
	int n = 0, got = 0;

	cq_lock(cq);
	while (n < num && (got = next_completion(cq, &wc[n])) > 0)
		n++;
	cq_unlock(cq);
	if (n == 0 && got == 0)
		give_away();
	return n == 0 ? got : n;
}

/* If an entry is pending in that ring of the bundle, rings its queue pair: a core checks for an arm only when
 * it stores an entry or when a queue pair of the ring rings. */
static void
ring_for_arm(struct cq *cq, uint32_t ring)
{
	struct context *context = context_of(cq->base.context);
	uint32_t id;

	for (uint32_t i = 0; (id = one_cq_object(&cq->ring, ring, i)) != 0; i++) {
		const struct qp_name *qp =
			atomic_load_explicit(&context->qps[id % ONE_QPS_MAX], memory_order_relaxed);

		if (qp == NULL || qp->element.id != id)
			continue;
		one_qp_ring(qp->ring);
		return;
	}
}

/* Arms one event on the CQ's channel, for a completion that was not polled yet or for the next one.  `flags`
 * has ONE_ARM_*.  The lock is held. */
static void
cq_arm(struct cq *cq, uint16_t flags)
{
	/* The event comes through the channel's descriptor: no thread sleeps on the channel's word. */
	one_wait_arm(&cq->ring, flags, 1);
	/* After the fence of one_wait_arm(): a core that stores an entry not seen here sees the arm. */
	for (uint32_t i = 0; i < cq->ring.num_rings; i++)
		ring_for_arm(cq, i);
}

int
cq_req_notify(struct ibv_cq *base, int solicited_only)
{
	struct cq *cq = TO(cq, base);

	if (base->channel == NULL)
		return 0;
	cq_lock(cq);
	cq->ring.descriptor = TO(comp_channel, base->channel)->id;
	if (!solicited_only)
		cq_arm(cq, ONE_ARM_NEXT);
	/* An arm for any completion stays until there was one (IBTA vol. 1, 11.4.2.2). */
	else if (!one_wait_armed(&cq->ring, ONE_ARM_NEXT))
		cq_arm(cq, ONE_ARM_SOLICITED);
	cq_unlock(cq);
	return 0;
}

int
cq_purge(struct cq *cq, uint32_t qp_id)
{
	uint32_t room = cq_waiting(cq), count = 0;
	struct one_cqe *purged = calloc(room + 1, sizeof(*purged)), cqe;

	if (purged == NULL)
		return ENOMEM;
	/* Entries that arrive meanwhile stay in the ring; the loop is bounded by the earlier count. */
	for (uint32_t i = 0; i < room && next_entry(cq, &cqe) != 0; i++)
		if (cqe.object != qp_id)
			purged[count++] = cqe;
	free(cq->purged);
	cq->purged = purged;
	cq->purged_at = 0;
	cq->purged_count = count;
	return 0;
}

/* ---- ibv_cq_ex ---- */

#define READ(type, field)                              \
	static type read_##field(struct ibv_cq_ex *ex) \
	{                                              \
		return TO(cq, ex)->wc.field;           \
	}
READ(enum ibv_wc_opcode, opcode)
READ(uint32_t, vendor_err)
READ(uint32_t, byte_len)
READ(__be32, imm_data)
READ(uint32_t, qp_num)
READ(uint32_t, src_qp)
READ(unsigned int, wc_flags)
READ(uint32_t, slid)
READ(uint8_t, sl)
READ(uint8_t, dlid_path_bits)

static int
next_poll(struct ibv_cq_ex *ex)
{
	struct cq *cq = TO(cq, ex);
	int n = next_completion(cq, &cq->wc);

	if (n <= 0)
		return n == 0 ? ENOENT : EIO;
	ex->status = cq->wc.status;
	ex->wr_id = cq->wc.wr_id;
	return 0;
}

/* Locks the CQ until end_poll(); an error unlocks it. */
static int
start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct cq *cq = TO(cq, ex);
	int error;

	if (attr->comp_mask != 0)
		return EINVAL;
	lock_take(&cq->lock);
	error = next_poll(ex);
	if (error != 0)
		lock_drop(&cq->lock);
	else
		atomic_store_explicit(&cq->poller, lock_self(), memory_order_relaxed); /* see cq_lock() */
	if (error == ENOENT)
		give_away();
	return error;
}

static void
end_poll(struct ibv_cq_ex *ex)
{
	struct cq *cq = TO(cq, ex);

	atomic_store_explicit(&cq->poller, 0, memory_order_relaxed); /* see cq_lock() */
	lock_drop(&cq->lock);
}

void
cq_calls(struct ibv_cq_ex *ex)
{
	ex->start_poll = start_poll;
	ex->next_poll = next_poll;
	ex->end_poll = end_poll;
	ex->read_opcode = read_opcode;
	ex->read_vendor_err = read_vendor_err;
	ex->read_byte_len = read_byte_len;
	ex->read_imm_data = read_imm_data;
	ex->read_qp_num = read_qp_num;
	ex->read_src_qp = read_src_qp;
	ex->read_wc_flags = read_wc_flags;
	ex->read_slid = read_slid;
	ex->read_sl = read_sl;
	ex->read_dlid_path_bits = read_dlid_path_bits;
}

/* ---- yielding the processor after empty polls ---- */

/* Programs for RNICs busy-poll, since an RNIC works without the processor.  Here a polling core of the data
 * plane does the work.  If the core shares its processor with the program, each empty poll delays that work.
 * So a thread calls sched_yield() after LOOKS_BETWEEN empty polls.  The duration of the call shows whether
 * other threads want the processor; as long as they do, the thread yields after each empty poll. */
#define LOOKS_BETWEEN 512u /* empty polls; some microseconds, if no other thread wants the processor */
/* Upper bound of the least duration.  A sched_yield() that returns at once takes less.  If another thread
 * always wants the processor, no call returns at once, and the bound is used instead: it must be less than a
 * third of two context switches, which take 1.3 us each or more. */
#define LEAST_NS_MAX 400u

static _Thread_local struct {
	uint32_t looks; /* empty polls since the last sched_yield() */
	bool shared;
	uint64_t least; /* shortest sched_yield() so far, ns; 0: not measured */
} mine;

void
give_away(void)
{
	uint64_t took;

	if (!mine.shared && ++mine.looks < LOOKS_BETWEEN)
		return;
	mine.looks = 0;
	took = one_yield();
	if (mine.least == 0 || took < mine.least)
		mine.least = took < LEAST_NS_MAX ? took : LEAST_NS_MAX;
	mine.shared = took > 3 * mine.least;
}
