/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of ibv_qp_ex.  Between wr_start and wr_complete requests are drafts, and the send lock is held.
 * wr_complete posts all of the drafts or none. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/refused.h"
#include "verbs/qp.h"

#define KNOWN_OPS                                                                                        \
	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |          \
	 IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |   \
	 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_LOCAL_INV | \
	 IBV_QP_EX_WITH_BIND_MW)

#define UD_OPS (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)

/* wr_complete returns the first failure. */
#define FAIL(qp, ...)                                                     \
	do {                                                              \
		if ((qp)->draft_error == 0)                               \
			(qp)->draft_error = refused_because(__VA_ARGS__); \
	} while (0)

static struct ibv_send_wr *
new_draft(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
	struct qp *qp = TO(qp, ex);
	struct wr_draft *d;

	/* A draft beyond the ring overwrites the last one; wr_complete refuses them all. */
	if (qp->num_drafts == qp->max_drafts) {
		FAIL(qp, ENOMEM,
		     "requests since ibv_wr_start = more than %u: the send queue is too small; complete earlier, or ask for more in max_send_wr",
		     qp->max_drafts);
		qp->num_drafts--;
		qp->num_sges = qp->drafts[qp->num_drafts].first_sge;
		qp->num_bytes = qp->drafts[qp->num_drafts].inline_at;
	}
	d = &qp->drafts[qp->num_drafts++];
	memset(d, 0, sizeof(*d));
	d->first_sge = qp->num_sges;
	d->inline_at = qp->num_bytes;
	d->wr.wr_id = ex->wr_id;
	d->wr.send_flags = ex->wr_flags;
	d->wr.opcode = opcode;
	return &d->wr;
}

static void
wr_rdma(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t remote_addr, __be32 imm)
{
	struct ibv_send_wr *wr = new_draft(ex, opcode);

	wr->imm_data = imm;
	wr->wr.rdma.remote_addr = remote_addr;
	wr->wr.rdma.rkey = rkey;
}

static void
wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	wr_rdma(ex, IBV_WR_RDMA_READ, rkey, remote_addr, 0);
}

static void
wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr)
{
	wr_rdma(ex, IBV_WR_RDMA_WRITE, rkey, remote_addr, 0);
}

static void
wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, __be32 imm)
{
	wr_rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, remote_addr, imm);
}

static void
wr_atomic(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t remote_addr,
	  uint64_t compare_add, uint64_t swap)
{
	struct ibv_send_wr *wr = new_draft(ex, opcode);

	wr->wr.atomic.remote_addr = remote_addr;
	wr->wr.atomic.rkey = rkey;
	wr->wr.atomic.compare_add = compare_add;
	wr->wr.atomic.swap = swap;
}

static void
wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, uint64_t compare, uint64_t swap)
{
	wr_atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, remote_addr, compare, swap);
}

static void
wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t remote_addr, uint64_t add)
{
	wr_atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, remote_addr, add, 0);
}

static void
wr_send(struct ibv_qp_ex *ex)
{
	new_draft(ex, IBV_WR_SEND);
}

static void
wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	new_draft(ex, IBV_WR_SEND_WITH_IMM)->imm_data = imm;
}

static void
wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	new_draft(ex, IBV_WR_SEND_WITH_INV)->invalidate_rkey = rkey;
}

static void
wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	new_draft(ex, IBV_WR_LOCAL_INV)->invalidate_rkey = rkey;
}

static void
wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct ibv_send_wr *wr = new_draft(ex, IBV_WR_BIND_MW);

	wr->bind_mw.mw = mw;
	wr->bind_mw.rkey = rkey;
	wr->bind_mw.bind_info = *info;
}

static struct wr_draft *
last_draft(struct qp *qp)
{
	if (qp->num_drafts == 0) {
		FAIL(qp, EINVAL,
		     "requests since ibv_wr_start = 0: the setter needs a request; call ibv_wr_send or another first");
		return NULL;
	}
	return &qp->drafts[qp->num_drafts - 1];
}

static void
wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct wr_draft *d = last_draft(TO(qp, ex));

	if (d == NULL)
		return;
	d->wr.wr.ud.ah = ah;
	d->wr.wr.ud.remote_qpn = qpn;
	d->wr.wr.ud.remote_qkey = qkey;
}

static void
wr_set_sge_list(struct ibv_qp_ex *ex, size_t num, const struct ibv_sge *list)
{
	struct qp *qp = TO(qp, ex);
	struct wr_draft *d = last_draft(qp);

	if (d == NULL)
		return;
	if (num > qp->init.cap.max_send_sge) {
		FAIL(qp, EINVAL,
		     "num_sge = %zu: the queue pair allows at most %u elements; give fewer, or ask for more in max_send_sge",
		     num, qp->init.cap.max_send_sge);
		return;
	}
	memcpy(&qp->draft_sges[d->first_sge], list, num * sizeof(*list));
	qp->num_sges = d->first_sge + (uint32_t)num;
	d->wr.num_sge = (int)num;
}

static void
wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	const struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

	wr_set_sge_list(ex, 1, &sge);
}

/* Copies the data now: the caller may reuse the memory when this returns. */
static void
wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t num, const struct ibv_data_buf *list)
{
	struct qp *qp = TO(qp, ex);
	struct wr_draft *d = last_draft(qp);
	uint32_t at;

	if (d == NULL)
		return;
	at = d->inline_at;
	for (size_t i = 0; i < num; i++) {
		if (list[i].length > qp->init.cap.max_inline_data - (at - d->inline_at)) {
			FAIL(qp, EINVAL,
			     "inline data = %zu bytes more: the queue pair allows %u in total; use ibv_wr_set_sge, or ask for more in max_inline_data",
			     list[i].length, qp->init.cap.max_inline_data);
			return;
		}
		memcpy(qp->draft_bytes + at, list[i].addr, list[i].length);
		at += (uint32_t)list[i].length;
	}
	qp->draft_sges[d->first_sge] = (struct ibv_sge){.addr = (uintptr_t)(qp->draft_bytes + d->inline_at),
							.length = at - d->inline_at};
	qp->num_bytes = at;
	qp->num_sges = d->first_sge + 1;
	d->wr.num_sge = 1;
	d->wr.send_flags |= IBV_SEND_INLINE;
}

static void
wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	const struct ibv_data_buf buffer = {.addr = addr, .length = length};

	wr_set_inline_data_list(ex, 1, &buffer);
}

static void
wr_start(struct ibv_qp_ex *ex)
{
	struct qp *qp = TO(qp, ex);

	lock_take(&qp->send_lock);
	qp->num_drafts = qp->num_sges = qp->num_bytes = 0;
	qp->draft_error = 0;
}

static int
wr_complete(struct ibv_qp_ex *ex)
{
	struct qp *qp = TO(qp, ex);
	int error = qp->draft_error;

	for (uint32_t i = 0; i < qp->num_drafts; i++)
		qp->drafts[i].wr.sg_list = &qp->draft_sges[qp->drafts[i].first_sge];
	if (error == 0)
		error = post_drafts(qp);
	lock_drop(&qp->send_lock);
	return error != 0 ? refused_explain("ibv_wr_complete", error, "qp", ex) : 0;
}

static void
wr_abort(struct ibv_qp_ex *ex)
{
	lock_drop(&TO(qp, ex)->send_lock);
}

static void
set_calls(struct ibv_qp_ex *ex)
{
	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
}

int
wr_setup(struct qp *qp, uint64_t send_ops)
{
	size_t n = qp->init.cap.max_send_wr == 0 ? 1 : qp->init.cap.max_send_wr;

	if ((send_ops & ~(uint64_t)(qp->base.qp_type == IBV_QPT_UD ? UD_OPS : KNOWN_OPS)) != 0)
		return refused_because(
			EOPNOTSUPP,
			"init_attr->send_ops_flags = %#" PRIx64
			": a queue pair of this type does not support all of these; leave some out",
			send_ops);
	qp->max_drafts = (uint32_t)n;
	qp->drafts = calloc(n, sizeof(*qp->drafts));
	qp->draft_sges = calloc(n, qp->init.cap.max_send_sge * sizeof(*qp->draft_sges));
	qp->draft_bytes = malloc(n * qp->init.cap.max_inline_data);
	if (qp->drafts == NULL || qp->draft_sges == NULL || qp->draft_bytes == NULL)
		return ENOMEM;
	set_calls(&qp->ex);
	return 0;
}

void
wr_free(struct qp *qp)
{
	free(qp->drafts);
	free(qp->draft_sges);
	free(qp->draft_bytes);
}

/* ---- in a child after fork: a thread of the parent may have held the send lock ---- */

static void
foreign_start(struct ibv_qp_ex *ex)
{
	TO(qp, ex)->num_drafts = TO(qp, ex)->num_sges = TO(qp, ex)->num_bytes = 0;
}

static int
foreign_complete(struct ibv_qp_ex *ex)
{
	return refused_explain("ibv_wr_complete", ECHILD, "qp", ex);
}

void
wr_fork_child(struct qp *qp)
{
	if (qp->drafts == NULL)
		return;
	qp->ex.wr_start = foreign_start;
	qp->ex.wr_complete = foreign_complete;
	qp->ex.wr_abort = foreign_start;
}
