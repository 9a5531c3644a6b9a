/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues. */
#include <stdlib.h>

#include "verbs/event/event.h"
#include "verbs/mem/mem.h"
#include "verbs/srq/srq.h"

struct ibv_srq *
ibv_create_srq(struct ibv_pd *base, struct ibv_srq_init_attr *init)
{
	struct context *context = context_of(base->context);
	struct pd *pd = TO(pd, base);
	struct srq *srq = calloc(1, sizeof(*srq));
	uint32_t sges = init->attr.max_sge == 0 ? 1 : init->attr.max_sge;
	int error;

	if (srq == NULL)
		return NULL;
	error = one_srq_create(context->client, pd->id, init->attr.max_wr, sges, &srq->ring);
	if (error != 0) {
		free(srq);
		errno = error == -EDQUOT ? ENOMEM : -error;
		return NULL;
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
	pthread_mutex_init(&srq->lock, NULL);
	atomic_fetch_add_explicit(&pd->users, 1, memory_order_relaxed);
	srq->element.object = &srq->base;
	srq->element.id = srq->ring.id;
	element_add(context, &context->srqs, &srq->element);
	return &srq->base;
}

int
ibv_modify_srq(struct ibv_srq *base, struct ibv_srq_attr *attr, int mask)
{
	struct srq *srq = TO(srq, base);
	int error;

	if ((mask & IBV_SRQ_MAX_WR) != 0)
		return EOPNOTSUPP; /* no IBV_DEVICE_SRQ_RESIZE */
	if ((mask & ~IBV_SRQ_LIMIT) != 0 || attr->srq_limit > srq->max_wr)
		return EINVAL;
	if ((mask & IBV_SRQ_LIMIT) == 0)
		return 0;
	srq->element.limit = attr->srq_limit;
	error = -one_srq_limit(&srq->ring, attr->srq_limit);
	return error;
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
		return EBUSY;
	error = one_srq_free(&srq->ring);
	if (error != 0 && error != -ECONNRESET)
		return -error;
	events_forget(context, &srq->element);
	element_remove(context, &context->srqs, &srq->element);
	element_acknowledged(&base->mutex, &base->cond, &base->events_completed, srq->element.async_events);
	atomic_fetch_sub_explicit(&TO(pd, base->pd)->users, 1, memory_order_relaxed);
	pthread_cond_destroy(&base->cond);
	pthread_mutex_destroy(&base->mutex);
	pthread_mutex_destroy(&srq->lock);
	free(srq);
	return 0;
}

/* ---- receives ---- */

static int
srq_one(struct srq *srq, const struct ibv_recv_wr *wr)
{
	struct one_sge sge[ONE_MAX_SGE];
	int error;

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > srq->max_sge ||
	    (wr->num_sge > 0 && mem_total(wr->sg_list, wr->num_sge) > ONE_MESSAGE_MAX))
		return EINVAL;
	for (int i = 0; i < wr->num_sge; i++)
		sge[i] = (struct one_sge){
			.addr = wr->sg_list[i].addr,
			.len = wr->sg_list[i].length,
			.lkey = wr->sg_list[i].lkey,
		};
	error = one_srq_post(&srq->ring, srq->max_wr, wr->wr_id, sge, (uint32_t)wr->num_sge);
	return error == -ENOSPC ? ENOMEM : -error;
}

int
srq_post_recv(struct ibv_srq *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct srq *srq = TO(srq, base);
	int error = 0;

	pthread_mutex_lock(&srq->lock);
	while (error == 0 && wr != NULL) {
		error = srq_one(srq, wr);
		if (error == 0)
			wr = wr->next;
	}
	pthread_mutex_unlock(&srq->lock);
	if (error != 0)
		*bad = wr;
	return error;
}
