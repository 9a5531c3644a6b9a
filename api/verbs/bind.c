/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows, and their binds.  The data plane chooses the high 24 bits of a window's key; each bind
 * chooses new low 8 bits.  Each bind of a window of type 1 takes the next key here; the application chooses
 * the keys of type 2.  A window of type 2 belongs to the queue pair that bound it (2B).  LOCAL_INV or the
 * peer's SEND with invalidate must end its bind before the next one. */
#include <stdlib.h>

#include "verbs/refused.h"
#include "verbs/qp.h"
#include "verbs/mem.h"

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

struct ibv_mw *
mw_alloc(struct ibv_pd *base, enum ibv_mw_type type)
{
	struct one_msg msg = {.type = ONE_MSG_MW_CREATE};
	struct pd *pd = TO(pd, base);
	struct one_reply reply;
	struct mw *mw;
	int error;

	error = refused_range("type", type, IBV_MW_TYPE_1, IBV_MW_TYPE_2);
	if (error != 0)
		return refused_null("ibv_alloc_mw", error, "pd", base);
	mw = calloc(1, sizeof(*mw));
	msg.mw_create.pz = pd->id;
	error = mw == NULL ? -ENOMEM : one_call(context_of(base->context)->client, &msg, NULL, 0, &reply);
	if (error != 0) {
		free(mw);
		return refused_null("ibv_alloc_mw", error == -EDQUOT ? ENOMEM : -error, "pd", base);
	}
	mw->id = reply.mw.mw;
	mw->base.context = base->context;
	mw->base.pd = base;
	mw->base.rkey = reply.mw.key;
	mw->base.handle = mw->id;
	mw->base.type = type;
	atomic_fetch_add_explicit(&pd->users, 1, memory_order_relaxed);
	return &mw->base;
}

int
mw_dealloc(struct ibv_mw *base)
{
	struct mw *mw = TO(mw, base);
	struct one_client *client = context_of(base->context)->client;
	int error;

	one_posted_begin(client);
	error = one_call_id(client, ONE_MSG_MW_FREE, mw->id);
	if (error != 0 && error != -ECONNRESET)
		return refused_explain("ibv_dealloc_mw", -error, "mw", base);
	atomic_fetch_sub_explicit(&TO(pd, base->pd)->users, 1, memory_order_relaxed);
	free(mw);
	return 0;
}
