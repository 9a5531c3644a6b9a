/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Binds of memory windows.  Each bind of a window of type 1 takes the next key here; the application chooses
 * the keys of type 2.  A window of type 2 belongs to the queue pair that bound it (2B).  LOCAL_INV or the
 * peer's SEND with invalidate must end its bind before the next one.
 */
#include "verbs/refused.h"
#include "verbs/qp.h"

/* LOCAL_WRITE is a right of the region: accepted in a bind, and ignored. */
#define KNOWN_ACCESS                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED)

static int
check_range(const struct qp *qp, const struct ibv_mw *mw, const struct ibv_mw_bind_info *info)
{
	uint32_t zone = TO(pd, mw->pd)->id;

	if (zone != TO(pd, qp->base.pd)->id || (info->mw_access_flags & ~(unsigned int)KNOWN_ACCESS) != 0)
		return refused_because(
			EINVAL,
			"bind_info->mw_access_flags = %#x: window and queue pair have different PDs, or a right is unknown; use one PD, and known rights",
			info->mw_access_flags);
	if (info->length == 0)
		return 0;
	if (info->mr == NULL || TO(pd, info->mr->pd)->id != zone ||
	    (TO(mr, info->mr)->access & IBV_ACCESS_MW_BIND) == 0)
		return refused_because(
			EINVAL,
			"bind_info->mr = %p: a region of the window's PD with IBV_ACCESS_MW_BIND is needed; give one",
			(const void *)info->mr);
	return 0;
}

int
bind_check(const struct qp *qp, const struct ibv_send_wr *wr)
{
	const struct ibv_mw *mw = wr->bind_mw.mw;

	if ((wr->send_flags & IBV_SEND_INLINE) != 0)
		return refused_because(
			EINVAL, "wr->send_flags = %#x: this request has no data; leave IBV_SEND_INLINE out",
			wr->send_flags);
	if (wr->opcode == IBV_WR_LOCAL_INV)
		return 0;
	/* ibv_bind_mw() binds windows of type 1. */
	if (mw == NULL || mw->type != IBV_MW_TYPE_2)
		return refused_because(
			EINVAL,
			"wr->bind_mw.mw = %p: a window of type 2 is needed; give one, or call ibv_bind_mw",
			(const void *)mw);
	return check_range(qp, mw, &wr->bind_mw.bind_info);
}

static void
put_range(struct qp *qp, struct one_wqe *wqe, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	bool bound = info->length != 0;

	one_post_sge(&qp->ring, wqe, 0, bound ? info->addr : 0, (uint32_t)info->length,
		     bound ? info->mr->lkey : 0);
	wqe->imm = (uint32_t)(info->length >> 32);
	wqe->rkey = rkey;
	wqe->length = mem_remote_access(info->mw_access_flags);
	if ((info->mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0)
		wqe->length |= ONE_BIND_ZERO_BASED;
}

void
bind_put(struct qp *qp, struct one_wqe *wqe, const struct ibv_send_wr *wr)
{
	static const struct ibv_mw_bind_info none;

	if (wr->opcode == IBV_WR_LOCAL_INV) {
		put_range(qp, wqe, wr->invalidate_rkey, &none);
		wqe->length = ONE_BIND_INVALIDATE;
		return;
	}
	put_range(qp, wqe, wr->bind_mw.rkey, &wr->bind_mw.bind_info);
	wqe->length |= wr->bind_mw.mw->type == IBV_MW_TYPE_2 ? ONE_BIND_TYPE_2 : ONE_BIND_TYPE_1;
}

int
bind_mw(struct ibv_qp *base, struct ibv_mw *window, struct ibv_mw_bind *bind)
{
	struct qp *qp = TO(qp, base);
	struct mw *mw = TO(mw, window);
	struct ibv_send_wr wr = {.wr_id = bind->wr_id,
				 .opcode = IBV_WR_BIND_MW,
				 .send_flags = bind->send_flags,
				 .bind_mw = {.mw = window, .bind_info = bind->bind_info}};
	int error;

	if (base->qp_type == IBV_QPT_RC)
		error = check_range(qp, window, &bind->bind_info);
	else
		error = refused_because(
			EINVAL, "qp->qp_type = IBV_QPT_UD: windows need a connection; give an RC queue pair");
	if (error != 0)
		return refused_explain("ibv_bind_mw", error, "qp", base);
	/* Locked until the bind is posted, so that keys increase in the order of binds. */
	lock_take(&mw->lock);
	wr.bind_mw.rkey = ibv_inc_rkey(window->rkey);
	error = post_checked(qp, &wr);
	if (error == 0)
		window->rkey = wr.bind_mw.rkey;
	lock_drop(&mw->lock);
	return error != 0 ? refused_explain("ibv_bind_mw", error, "qp", base) : 0;
}
