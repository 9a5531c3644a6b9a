/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues. */
#include <inttypes.h>
#include <stdlib.h>

#include "client/lines.h"
#include "verbs/refused.h"
#include "verbs/event.h"
#include "verbs/mem.h"
#include "verbs/srq.h"

struct ibv_srq *
ibv_create_srq(struct ibv_pd *base, struct ibv_srq_init_attr *init)
{
	struct context *context = context_of(base->context);
	struct pd *pd = TO(pd, base);
	struct srq *srq = one_zalloc_lines(sizeof(*srq));
	uint32_t sges = init->attr.max_sge == 0 ? 1 : init->attr.max_sge;
	int error = srq == NULL
			    ? -ENOMEM
			    : one_srq_create(context->client, pd->id, init->attr.max_wr, sges, &srq->ring);

	if (error != 0) {
		free(srq);
		if (error == -EINVAL)
			refused_because(
				EINVAL,
				"srq_init_attr->attr = max_wr %u, max_sge %u: the data plane allows 1 to %u receives of at most %u elements; give values in these limits",
				init->attr.max_wr, sges, context->info->limits.max_qp_wr, ONE_MAX_SGE);
		return refused_null("ibv_create_srq", error == -EDQUOT ? ENOMEM : -error, "pd", base);
	}
	srq->max_wr = init->attr.max_wr;
	srq->max_sge = sges;
	init->attr.max_sge = sges;
	srq->base.context = base->context;
	srq->base.srq_context = init->srq_context;
	srq->base.pd = base;
	srq->base.handle = srq->ring.id;
	pthread_mutex_init(&srq->base.mutex, NULL);
	pthread_cond_init(&srq->base.cond, NULL);
	atomic_fetch_add_explicit(&pd->users, 1, memory_order_relaxed);
	srq->element.object = &srq->base;
	srq->element.id = srq->ring.id;
	element_add(context, &context->srqs, &srq->element);
	return &srq->base;
}

/* Stores the limit before the data plane has it, because the limit event clears it.  Returns a positive
 * errno. */
static int
set_limit(struct srq *srq, uint32_t limit)
{
	uint32_t before = srq->element.limit;
	int error;

	srq->element.limit = limit;
	error = -one_srq_limit(&srq->ring, limit);
	if (error != 0)
		srq->element.limit = before;
	return error;
}

/* An armed limit is the least size, unless the same call changes the limit. */
static int
resize_srq(struct srq *srq, uint32_t max_wr, bool limit_changes)
{
	uint32_t least = limit_changes || srq->element.limit == 0 ? 1 : srq->element.limit;
	int error = refused_range("srq_attr->max_wr", max_wr, least,
				  context_of(srq->base.context)->info->limits.max_srq_wr);

	if (error != 0)
		return error;
	lock_take(&srq->lock);
	error = -one_srq_resize(&srq->ring, TO(pd, srq->base.pd)->id, max_wr, srq->max_sge);
	if (error == 0)
		srq->max_wr = max_wr;
	lock_drop(&srq->lock);
	if (error == EBUSY)
		return refused_because(
			EINVAL,
			"srq_attr->max_wr = %u: the SRQ holds more receives; let messages consume some, or give more",
			max_wr);
	return error == EDQUOT ? ENOMEM : error;
}

int
ibv_modify_srq(struct ibv_srq *base, struct ibv_srq_attr *attr, int mask)
{
	struct srq *srq = TO(srq, base);
	int error = 0;

	if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0)
		error = refused_because(
			EINVAL,
			"srq_attr_mask = %#x: only IBV_SRQ_MAX_WR and IBV_SRQ_LIMIT can be set; give those",
			(unsigned int)mask);
	if (error == 0 && (mask & IBV_SRQ_LIMIT) != 0)
		error = refused_range("srq_attr->srq_limit", attr->srq_limit, 0,
				      (mask & IBV_SRQ_MAX_WR) != 0 ? attr->max_wr : srq->max_wr);
	if (error == 0 && (mask & IBV_SRQ_MAX_WR) != 0)
		error = resize_srq(srq, attr->max_wr, (mask & IBV_SRQ_LIMIT) != 0);
	if (error == 0 && (mask & IBV_SRQ_LIMIT) != 0)
		error = set_limit(srq, attr->srq_limit);
	return refused_explain("ibv_modify_srq", error, "srq", base);
}

int
ibv_query_srq(struct ibv_srq *base, struct ibv_srq_attr *attr)
{
	const struct srq *srq = TO(srq, base);

	attr->max_wr = srq->max_wr;
	attr->max_sge = srq->max_sge;
	attr->srq_limit = srq->element.limit;
	return 0;
}

int
ibv_destroy_srq(struct ibv_srq *base)
{
	struct srq *srq = TO(srq, base);
	struct context *context = context_of(base->context);
	int error;

	if (atomic_load_explicit(&srq->users, memory_order_relaxed) != 0)
		return refused_explain("ibv_destroy_srq", EBUSY, "srq", base);
	error = one_srq_free(&srq->ring);
	if (error != 0 && error != -ECONNRESET)
		return refused_explain("ibv_destroy_srq", -error, "srq", base);
	events_forget(context, &srq->element);
	element_remove(context, &context->srqs, &srq->element);
	element_acknowledged(&base->mutex, &base->cond, &base->events_completed, srq->element.async_events);
	atomic_fetch_sub_explicit(&TO(pd, base->pd)->users, 1, memory_order_relaxed);
	pthread_cond_destroy(&base->cond);
	pthread_mutex_destroy(&base->mutex);
	free(srq);
	return 0;
}

void
srq_fork_child(struct srq *srq)
{
	srq->lock = (struct lock){.word = 0};
	pthread_mutex_init(&srq->base.mutex, NULL);
	pthread_cond_init(&srq->base.cond, NULL);
}

/* ---- receives ---- */

static int
post_one_recv(struct srq *srq, const struct ibv_recv_wr *wr)
{
	struct one_sge sge[ONE_MAX_SGE];
	int error;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > srq->max_sge ||
	    (wr->num_sge > 0 && mem_total(wr->sg_list, wr->num_sge) > ONE_MESSAGE_MAX))
		return refused_because(EINVAL,
				       "wr->num_sge = %d: the SRQ allows at most %u elements and %" PRIu64
				       " bytes in total; give fewer, or ask for more in max_sge",
				       wr->num_sge, srq->max_sge, (uint64_t)ONE_MESSAGE_MAX);
	for (int i = 0; i < wr->num_sge; i++)
		sge[i] = (struct one_sge){
			.addr = wr->sg_list[i].addr,
			.len = wr->sg_list[i].length,
			.lkey = wr->sg_list[i].lkey,
		};
	error = one_srq_post(&srq->ring, srq->max_wr, wr->wr_id, sge, (uint32_t)wr->num_sge);
	if (error == -ENOSPC)
		return refused_because(
			ENOMEM,
			"SRQ full (max_wr = %u): let messages consume receives, or create the SRQ with more",
			srq->max_wr);
	return -error;
}

int
srq_post_recv(struct ibv_srq *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct srq *srq = TO(srq, base);
	int error = 0;

	lock_take(&srq->lock);
	while (error == 0 && wr != NULL) {
		error = post_one_recv(srq, wr);
		if (error == 0)
			wr = wr->next;
	}
	lock_drop(&srq->lock);
	if (error == 0)
		return 0;
	*bad = wr;
	return refused_explain("ibv_post_srq_recv", error, "srq", base);
}
