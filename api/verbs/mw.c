/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory windows.  The data plane chooses the high 24 bits of a window's key; each bind chooses new low 8
 * bits (qp/bind.c).
 */
#include <stdlib.h>

#include "verbs/refused.h"
#include "verbs/mem.h"

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
