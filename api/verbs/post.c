/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work requests.
 *
 * Up to ONE_INLINE_MAX bytes of inline data go into the request.  Longer inline data is copied to registered
 * memory of the queue pair, which has a slot for each request that may be outstanding.
 */
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "client/lines.h"
#include "verbs/refused.h"
#include "verbs/qp.h"

/* ---- memory for inline data ---- */

int
inline_room_open(struct qp *qp, uint32_t pz, uint32_t count, uint32_t size)
{
	struct inline_room *room = &qp->room;
	int error;

	if (size < VERBS_INLINE_ROOM)
		size = VERBS_INLINE_ROOM;
	room->size = (uint32_t)one_whole_lines(size);
	room->count = count;
	room->length = (size_t)room->size * count;
	room->base = mmap(NULL, room->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (room->base == MAP_FAILED) {
		room->base = NULL;
		return -ENOMEM;
	}
	error = one_mem_register(qp->ring.client, pz, (uintptr_t)room->base, room->length,
				 ONE_ACCESS_LOCAL_READ, &room->mr);
	if (error != 0) {
		munmap(room->base, room->length);
		room->base = NULL;
	}
	return error;
}

void
inline_room_close(struct qp *qp)
{
	struct inline_room *room = &qp->room;

	if (room->base == NULL)
		return;
	one_mem_deregister(qp->ring.client, &room->mr);
	munmap(room->base, room->length);
	room->base = NULL;
}

/* ---- sends ---- */

static const uint8_t op_of[] = {
	[IBV_WR_RDMA_WRITE] = ONE_OP_WRITE,
	[IBV_WR_RDMA_WRITE_WITH_IMM] = ONE_OP_WRITE_IMM,
	[IBV_WR_SEND] = ONE_OP_SEND,
	[IBV_WR_SEND_WITH_IMM] = ONE_OP_SEND_IMM,
	[IBV_WR_RDMA_READ] = ONE_OP_READ,
	[IBV_WR_ATOMIC_CMP_AND_SWP] = ONE_OP_CMP_SWAP,
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = ONE_OP_FETCH_ADD,
	[IBV_WR_SEND_WITH_INV] = ONE_OP_SEND_INV,
	[IBV_WR_BIND_MW] = ONE_OP_BIND,
	[IBV_WR_LOCAL_INV] = ONE_OP_BIND,
};

static uint8_t
flags_of(const struct qp *qp, unsigned int flags)
{
	uint8_t out = 0;

	if ((flags & IBV_SEND_SIGNALED) == 0 && qp->init.sq_sig_all == 0)
		out |= ONE_WQE_SUPPRESS;
	if ((flags & IBV_SEND_SOLICITED) != 0)
		out |= ONE_WQE_SOLICITED;
	if ((flags & IBV_SEND_FENCE) != 0)
		out |= ONE_WQE_FENCE;
	return out;
}

static void
gather_sges(uint8_t *to, const struct ibv_sge *sge, int num)
{
	for (int i = 0; i < num; i++) {
		memcpy(to, (const void *)(uintptr_t)sge[i].addr, sge[i].length);
		to += sge[i].length;
	}
}

static void
put_sges(struct qp *qp, struct one_wqe *wqe, const struct ibv_sge *sge, int num)
{
	for (int i = 0; i < num; i++)
		one_post_sge(&qp->ring, wqe, (uint32_t)i, sge[i].addr, sge[i].length, sge[i].lkey);
}

/* Stores the payload, as scatter/gather elements or inline. */
static void
put_payload(struct qp *qp, struct one_wqe *wqe, const struct ibv_send_wr *wr, uint64_t length)
{
	struct inline_room *room = &qp->room;
	uint8_t *at;

	wqe->length = (uint32_t)length;
	if ((wr->send_flags & IBV_SEND_INLINE) == 0) {
		put_sges(qp, wqe, wr->sg_list, wr->num_sge);
		return;
	}
	if (length <= ONE_INLINE_MAX) {
		wqe->flags |= ONE_WQE_INLINE;
		wqe->inline_len = (uint8_t)length;
		gather_sges(wqe->inline_data, wr->sg_list, wr->num_sge);
		return;
	}
	/* There are max_send_wr slots, used in turn: this slot's last request has completed.  An index of its
	 * own, because the request counter wraps at 2^32, which need not be a multiple of the slots. */
	at = room->base + (size_t)room->next * room->size;
	room->next = room->next + 1 < room->count ? room->next + 1 : 0;
	gather_sges(at, wr->sg_list, wr->num_sge);
	one_post_sge(&qp->ring, wqe, 0, (uintptr_t)at, (uint32_t)length, room->mr.lkey);
}

static void
put_atomic(struct qp *qp, struct one_wqe *wqe, const struct ibv_send_wr *wr)
{
	bool swap = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
	uint64_t compare = swap ? wr->wr.atomic.compare_add : 0;

	put_sges(qp, wqe, wr->sg_list, 1);
	wqe->remote_addr = wr->wr.atomic.remote_addr;
	wqe->rkey = wr->wr.atomic.rkey;
	wqe->length = (uint32_t)compare;
	wqe->imm = (uint32_t)(compare >> 32);
	wqe->atomic.add_or_swap = swap ? wr->wr.atomic.swap : wr->wr.atomic.compare_add;
}

static bool
is_atomic(const struct ibv_send_wr *wr)
{
	return wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static __attribute__((cold)) int
explain_sges(int num, uint32_t most, const char *field)
{
	return refused_because(EINVAL,
			       "wr->num_sge = %d: the queue pair allows at most %u elements and %" PRIu64
			       " bytes in total; give fewer, or ask for more in %s",
			       num, most, (uint64_t)ONE_MESSAGE_MAX, field);
}

static __attribute__((cold)) int
explain_full(const char *queue, const char *limit, uint32_t depth, const char *remedy)
{
	return refused_because(ENOMEM, "%s full (%s = %u): %s", queue, limit, depth, remedy);
}

static __attribute__((cold)) int
send_full(const struct qp *qp)
{
	return explain_full("send queue", "max_send_wr", qp->init.cap.max_send_wr,
			    "signal some requests and poll the send CQ, or create the QP with more");
}

static int
check_send(const struct qp *qp, const struct ibv_send_wr *wr, uint64_t length)
{
	bool is_inline = (wr->send_flags & IBV_SEND_INLINE) != 0;

	if ((unsigned int)wr->opcode >= sizeof(op_of) || op_of[wr->opcode] == 0)
		return refused_because(EOPNOTSUPP, "wr->opcode = %u: unsupported; give another",
				       (unsigned int)wr->opcode);
	if (qp->base.qp_type == IBV_QPT_UD &&
	    ((wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_SEND_WITH_IMM) || wr->wr.ud.ah == NULL))
		return refused_because(
			EINVAL,
			"wr->opcode = %u: a UD queue pair only sends, to an address handle; give IBV_WR_SEND or IBV_WR_SEND_WITH_IMM, and wr->wr.ud.ah",
			(unsigned int)wr->opcode);
	if (op_of[wr->opcode] == ONE_OP_BIND)
		return bind_check(qp, wr);
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->init.cap.max_send_sge || length > ONE_MESSAGE_MAX)
		return explain_sges(wr->num_sge, qp->init.cap.max_send_sge, "max_send_sge");
	if (is_atomic(wr) && (wr->num_sge != 1 || length != 8 || is_inline))
		return refused_because(
			EINVAL,
			"wr->sg_list = %d elements, %" PRIu64
			" bytes: an atomic returns 8 bytes; give one element of 8 bytes, not inline",
			wr->num_sge, length);
	if (is_inline && (length > qp->init.cap.max_inline_data || wr->opcode == IBV_WR_RDMA_READ))
		return refused_because(
			EINVAL,
			"wr->send_flags = %#x: %" PRIu64
			" bytes; at most %u can be inline, and a READ cannot: leave IBV_SEND_INLINE out, or ask for more in max_inline_data",
			wr->send_flags, length, qp->init.cap.max_inline_data);
	return 0;
}

static uint32_t
sges_of(const struct ibv_send_wr *wr, uint64_t length)
{
	if (op_of[wr->opcode] == ONE_OP_BIND)
		return 1; /* the range of the window */
	return (wr->send_flags & IBV_SEND_INLINE) != 0 ? length > ONE_INLINE_MAX : (uint32_t)wr->num_sge;
}

/* Writes a request that was checked into the ring. */
static int
write_one(struct qp *qp, const struct ibv_send_wr *wr, uint64_t length)
{
	struct one_wqe *wqe;

	wqe = one_send_reserve(&qp->ring, sges_of(wr, length));
	if (wqe == NULL)
		return send_full(qp);
	wqe->op = op_of[wr->opcode];
	wqe->flags = flags_of(qp, wr->send_flags);
	wqe->inline_len = 0;
	wqe->cookie = wr->wr_id;
	wqe->remote_addr = 0;
	wqe->rkey = 0;
	wqe->imm = wr->opcode == IBV_WR_SEND_WITH_INV ? wr->invalidate_rkey : wr->imm_data;
	memset(wqe->reserved, 0, sizeof(wqe->reserved));
	if (is_atomic(wr)) {
		put_atomic(qp, wqe, wr);
	} else if (wqe->op == ONE_OP_BIND) {
		bind_put(qp, wqe, wr);
	} else {
		if (wqe->op == ONE_OP_WRITE || wqe->op == ONE_OP_WRITE_IMM || wqe->op == ONE_OP_READ) {
			wqe->remote_addr = wr->wr.rdma.remote_addr;
			wqe->rkey = wr->wr.rdma.rkey;
		} else if (qp->base.qp_type == IBV_QPT_UD) {
			wqe->remote_addr = one_ud_to(TO(ah, wr->wr.ud.ah)->id, wr->wr.ud.remote_qpn);
			wqe->rkey = wr->wr.ud.remote_qkey;
		}
		put_payload(qp, wqe, wr, length);
	}
	one_send_commit(&qp->ring, wqe);
	return 0;
}

/* Returns 0, without reading the list, if the list is too long or the request has no data. */
static uint64_t
length_of(const struct ibv_send_wr *wr, uint32_t most)
{
	if (wr->opcode == IBV_WR_BIND_MW || wr->opcode == IBV_WR_LOCAL_INV)
		return 0;
	return wr->num_sge > 0 && (uint32_t)wr->num_sge <= most ? mem_total(wr->sg_list, wr->num_sge) : 0;
}

static int
post_one(struct qp *qp, const struct ibv_send_wr *wr)
{
	uint64_t length = length_of(wr, qp->init.cap.max_send_sge);
	int error = check_send(qp, wr, length);

	return error != 0 ? error : write_one(qp, wr, length);
}

/* ERR, which the data plane may have set, allows sends as well: the requests are flushed. */
static bool
may_send(struct qp *qp)
{
	return ONE_LIKELY(atomic_load_explicit(&qp->state, memory_order_relaxed) >= IBV_QPS_RTS) ||
	       qp_state(qp) == IBV_QPS_ERR;
}

int
post_checked(struct qp *qp, const struct ibv_send_wr *wr)
{
	int error;

	lock_take(&qp->send_lock);
	if (may_send(qp))
		error = write_one(qp, wr, 0);
	else
		error = qp_explain_state(qp, "RTS");
	lock_drop(&qp->send_lock);
	return error;
}

int
post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct qp *qp = TO(qp, base);
	int error = 0;

	lock_take(&qp->send_lock);
	if (!may_send(qp))
		error = qp_explain_state(qp, "RTS");
	while (error == 0 && wr != NULL) {
		error = post_one(qp, wr);
		if (error == 0)
			wr = wr->next;
	}
	lock_drop(&qp->send_lock);
	if (error == 0)
		return 0;
	*bad = wr;
	return refused_explain("ibv_post_send", error, "qp", base);
}

static bool
has_room(const struct qp *qp, uint32_t requests, uint32_t slots)
{
	const struct one_qp *ring = &qp->ring;

	return ring->sq_posted + requests - ring->sq_done_seen <= ring->max_send_wr &&
	       ring->sq_tail + slots - ring->sq_head_seen <= 1u << ring->sq_log2;
}

int
post_drafts(struct qp *qp)
{
	uint32_t slots = 0;

	if (!may_send(qp))
		return qp_explain_state(qp, "RTS");
	for (uint32_t i = 0; i < qp->num_drafts; i++) {
		const struct ibv_send_wr *wr = &qp->drafts[i].wr;
		uint64_t length = mem_total(wr->sg_list, wr->num_sge);
		int error = check_send(qp, wr, length);

		if (error != 0)
			return error;
		slots += one_wqe_slots(sges_of(wr, length));
	}
	if (!has_room(qp, qp->num_drafts, slots)) {
		one_send_outstanding(&qp->ring); /* updates sq_done_seen and sq_head_seen */
		if (!has_room(qp, qp->num_drafts, slots))
			return send_full(qp);
	}
	for (uint32_t i = 0; i < qp->num_drafts; i++)
		post_one(qp, &qp->drafts[i].wr);
	return 0;
}

/* ---- receives ---- */

static int
recv_one(struct qp *qp, const struct ibv_recv_wr *wr)
{
	uint32_t most = qp->init.cap.max_recv_sge;
	bool fits = wr->num_sge >= 0 && (uint32_t)wr->num_sge <= most;
	uint64_t length = fits ? mem_total(wr->sg_list, wr->num_sge) : 0;
	struct one_wqe *wqe;

	if (!fits || length > ONE_MESSAGE_MAX)
		return explain_sges(wr->num_sge, most, "max_recv_sge");
	wqe = one_recv_reserve(&qp->ring, (uint32_t)wr->num_sge);
	if (wqe == NULL)
		return explain_full("receive queue", "max_recv_wr", qp->init.cap.max_recv_wr,
				    "poll the receive CQ, or create the QP with more");
	wqe->op = ONE_OP_RECV;
	wqe->flags = 0;
	wqe->inline_len = 0;
	wqe->length = (uint32_t)length;
	wqe->cookie = wr->wr_id;
	wqe->remote_addr = 0;
	wqe->rkey = 0;
	wqe->imm = 0;
	memset(wqe->reserved, 0, sizeof(wqe->reserved));
	put_sges(qp, wqe, wr->sg_list, wr->num_sge);
	one_recv_commit(&qp->ring, wqe);
	return 0;
}

int
post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct qp *qp = TO(qp, base);
	int error = 0;

	lock_take(&qp->recv_lock);
	if (base->srq != NULL)
		error = refused_because(
			EINVAL,
			"qp->srq = %p: the queue pair takes receives from this SRQ; call ibv_post_srq_recv",
			(const void *)base->srq);
	else if (atomic_load_explicit(&qp->state, memory_order_relaxed) == IBV_QPS_RESET)
		error = qp_explain_state(qp, "INIT");
	while (error == 0 && wr != NULL) {
		error = recv_one(qp, wr);
		if (error == 0)
			wr = wr->next;
	}
	lock_drop(&qp->recv_lock);
	if (error == 0)
		return 0;
	*bad = wr;
	return refused_explain("ibv_post_recv", error, "qp", base);
}
