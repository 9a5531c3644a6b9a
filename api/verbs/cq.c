/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates, resizes and destroys completion queues. */
#include <inttypes.h>
#include <stdlib.h>

#include "client/lines.h"
#include "verbs/refused.h"
#include "verbs/cq.h"
#include "verbs/event.h"

static void
count_channel(struct context *context, struct ibv_comp_channel *channel, int by)
{
	if (channel == NULL)
		return;
	pthread_mutex_lock(&context->lock);
	channel->refcnt += by;
	pthread_mutex_unlock(&context->lock);
}

static struct cq *
cq_new(const char *function, struct ibv_context *base, int cqe, void *cq_context,
       struct ibv_comp_channel *channel, int vector)
{
	struct context *context = context_of(base);
	struct cq *cq = NULL;
	int error = refused_range("cqe", cqe, 1, context->info->limits.max_cq_entries);

	if (error == 0)
		error = refused_range("comp_vector", vector, 0, base->num_comp_vectors - 1);
	if (error == 0) {
		cq = one_zalloc_lines(sizeof(*cq));
		error = cq == NULL ? ENOMEM : 0;
	}
	if (error == 0) {
		error = -one_cq_create_near(context->client, (uint32_t)cqe, (uint32_t)vector, &cq->ring);
		error = error == EDQUOT ? ENOMEM : error;
	}
	if (error != 0) {
		free(cq);
		return refused_null(function, error, "context", base);
	}
	cq->base.context = base;
	cq->base.channel = channel;
	cq->base.cq_context = cq_context;
	cq->base.handle = cq->ring.id;
	cq->base.cqe = cqe;
	pthread_mutex_init(&cq->base.mutex, NULL);
	pthread_cond_init(&cq->base.cond, NULL);
	cq->element.object = &cq->base;
	cq->element.id = cq->ring.id;
	element_add(context, &context->cqs, &cq->element);
	count_channel(context, channel, 1);
	return cq;
}

struct ibv_cq *
ibv_create_cq(struct ibv_context *base, int cqe, void *cq_context, struct ibv_comp_channel *channel,
	      int vector)
{
	struct cq *cq = cq_new("ibv_create_cq", base, cqe, cq_context, channel, vector);

	return cq != NULL ? &cq->base : NULL;
}

struct ibv_cq_ex *
cq_create_ex(struct ibv_context *base, struct ibv_cq_init_attr_ex *attr)
{
	struct cq *cq;

	if ((attr->wc_flags & ~(uint64_t)IBV_WC_STANDARD_FLAGS) != 0 ||
	    (attr->comp_mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD)) != 0 ||
	    ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 &&
	     (attr->flags & ~(uint32_t)IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0)) {
		refused_because(
			EOPNOTSUPP,
			"cq_attr = %p: wc_flags = %#" PRIx64
			", comp_mask or flags have unsupported bits; give only IBV_WC_STANDARD_FLAGS, IBV_CQ_INIT_ATTR_MASK_FLAGS, IBV_CREATE_CQ_ATTR_SINGLE_THREADED",
			(const void *)attr, (uint64_t)attr->wc_flags);
		return refused_null("ibv_create_cq_ex", EOPNOTSUPP, "context", base);
	}
	cq = cq_new("ibv_create_cq_ex", base, (int)attr->cqe, attr->cq_context, attr->channel,
		    (int)attr->comp_vector);
	if (cq == NULL)
		return NULL;
	cq_calls(&cq->ex);
	return &cq->ex;
}

static int
foreign_start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	return refused_explain("ibv_start_poll", ECHILD, "cq", ex);
}

void
cq_fork_child(struct cq *cq)
{
	cq->lock = (struct lock){.word = 0};
	cq->poller = 0;
	pthread_mutex_init(&cq->base.mutex, NULL);
	pthread_cond_init(&cq->base.cond, NULL);
	cq->ex.start_poll = foreign_start_poll;
}

int
ibv_resize_cq(struct ibv_cq *base, int cqe)
{
	struct cq *cq = TO(cq, base);
	int error = refused_range("cqe", cqe, 1, context_of(base->context)->info->limits.max_cq_entries);

	if (error != 0)
		return refused_explain("ibv_resize_cq", error, "cq", base);
	cq_lock(cq);
	if (cq_waiting(cq) > (uint32_t)cqe)
		error = refused_because(
			EINVAL, "cqe = %d: the CQ holds %u completions; poll them first, or give more", cqe,
			cq_waiting(cq));
	else
		error = -one_cq_resize(&cq->ring, (uint32_t)cqe);
	/* The bundle's arm moves to the new ring if the old ring has not served it: see struct one_cq_bundle.
	 */
	if (error == 0)
		cq->base.cqe = cqe;
	cq_unlock(cq);
	return refused_explain("ibv_resize_cq", error, "cq", base);
}

int
ibv_destroy_cq(struct ibv_cq *base)
{
	struct cq *cq = TO(cq, base);
	struct context *context = context_of(base->context);
	int error;

	if (atomic_load_explicit(&cq->users, memory_order_relaxed) != 0)
		return refused_explain("ibv_destroy_cq", EBUSY, "cq", base);
	error = one_cq_free(&cq->ring);
	if (error != 0 && error != -ECONNRESET)
		return refused_explain("ibv_destroy_cq", -error, "cq", base);
	events_forget(context, &cq->element);
	element_remove(context, &context->cqs, &cq->element);
	if (base->channel != NULL)
		channel_forget_ring(context, base->channel);
	count_channel(context, base->channel, -1);
	element_acknowledged(&base->mutex, &base->cond, &base->comp_events_completed,
			     cq->element.comp_events);
	element_acknowledged(&base->mutex, &base->cond, &base->async_events_completed,
			     cq->element.async_events);
	pthread_cond_destroy(&base->cond);
	pthread_mutex_destroy(&base->mutex);
	free(cq->purged);
	free(cq);
	return 0;
}
