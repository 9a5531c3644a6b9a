/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues. */
#include "dat/ep.h"

#define ALL_FIELDS ((uint32_t)DAT_SRQ_FIELD_ALL)

/* Creates a ring of the maximum length if resources allow, else of the requested length.  A ring of maximum
 * length leaves room for dat_srq_resize, which cannot replace the ring. */
static int
make_ring(struct srq *srq)
{
	struct one_client *client = srq->o.ia->client;
	uint32_t limit = one_client_info(client)->limits.max_srq_wr, want = (uint32_t)srq->max_recv_dtos;
	uint32_t sge = (uint32_t)srq->max_recv_iov, pz = srq->pz->id;
	int error = one_srq_create(client, pz, limit, sge, &srq->q);

	if ((error == -EDQUOT || error == -ENOSPC || error == -ENOMEM || error == -EINVAL) && want < limit)
		error = one_srq_create(client, pz, want, sge, &srq->q);
	return error;
}

static void
discard_srq(struct srq *srq)
{
	struct ia *ia = srq->o.ia;

	pthread_mutex_lock(&ia->lock);
	object_unref(srq->pz);
	object_discard(&srq->o);
	pthread_mutex_unlock(&ia->lock);
}

DAT_RETURN
dapl_srq_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle, DAT_SRQ_ATTR *srq_attr,
		DAT_SRQ_HANDLE *srq_handle)
{
	struct ia *ia = handle_object(ia_handle, DAT_HANDLE_TYPE_IA);
	const struct one_limits *limits;
	struct srq *srq;
	int error;

	if (ia == NULL)
		return BAD_HANDLE(IA);
	limits = &one_client_info(ia->client)->limits;
	if (limits->max_srq == 0)
		return DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
	if (srq_attr == NULL || srq_attr->max_recv_dtos <= 0 || srq_attr->max_recv_iov <= 0 ||
	    (uint32_t)srq_attr->max_recv_dtos > limits->max_srq_wr ||
	    (uint32_t)srq_attr->max_recv_iov > limits->max_sge ||
	    (uint32_t)srq_attr->max_recv_iov > ONE_MAX_SGE || srq_attr->low_watermark != DAT_SRQ_LW_DEFAULT)
		return BECAUSE(
			BAD_ARG(3),
			"srq_attr = %p: null, or not max_recv_dtos of 1 to %u, max_recv_iov of 1 to %u and low_watermark DAT_SRQ_LW_DEFAULT; give these",
			(void *)srq_attr, limits->max_srq_wr, limits->max_sge);
	if (srq_handle == NULL)
		return BAD_ARG(4);
	srq = object_new(ia, DAT_HANDLE_TYPE_SRQ);
	if (srq == NULL)
		return DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
	srq->max_recv_dtos = srq_attr->max_recv_dtos;
	srq->max_recv_iov = srq_attr->max_recv_iov;
	srq->low_watermark = DAT_SRQ_LW_DEFAULT;
	srq->pz = object_ref_alone(ia, pz_handle, DAT_HANDLE_TYPE_PZ);
	if (srq->pz == NULL) {
		object_drop(&srq->o);
		return BAD_HANDLE(PZ);
	}
	error = make_ring(srq);
	if (error == 0) {
		error = object_publish_alone(&srq->o, srq->q.id);
		if (error != 0)
			one_srq_free(&srq->q);
	}
	if (error != 0) {
		discard_srq(srq);
		return dat_errno(error, DAT_RESOURCE_SRQ);
	}
	*srq_handle = srq->o.handle;
	return DAT_SUCCESS;
}

void
srq_destroy(struct object *o)
{
	struct srq *srq = (struct srq *)o;

	one_srq_free(&srq->q);
	discard_srq(srq);
}

DAT_RETURN
dapl_srq_free(DAT_SRQ_HANDLE srq_handle)
{
	return object_free(srq_handle, DAT_HANDLE_TYPE_SRQ, BAD_HANDLE(SRQ), BAD_STATE(SRQ_IN_USE),
			   srq_destroy);
}

DAT_RETURN
dapl_srq_post_recv(DAT_SRQ_HANDLE srq_handle, DAT_COUNT num_segments, DAT_LMR_TRIPLET *local_iov,
		   DAT_DTO_COOKIE user_cookie)
{
	struct srq *srq = handle_object(srq_handle, DAT_HANDLE_TYPE_SRQ);
	struct one_sge sge[ONE_MAX_SGE];
	uint64_t total = 0;
	uint32_t count = 0;
	int error;

	if (srq == NULL)
		return BAD_HANDLE(SRQ);
	if (num_segments < 0 || num_segments > srq->max_recv_iov)
		return BECAUSE(
			BAD_ARG(2),
			"num_segments = %d: the SRQ takes 0 to %d; give fewer, or create it with a larger max_recv_iov",
			num_segments, srq->max_recv_iov);
	if (num_segments > 0 && local_iov == NULL)
		return BAD_ARG(3);
	for (DAT_COUNT i = 0; i < num_segments; i++) {
		const DAT_LMR_TRIPLET *segment = &local_iov[i];
		DAT_RETURN ret;

		if (segment->segment_length == 0)
			continue;
		/* With this limit the sum of ONE_MAX_SGE lengths cannot overflow. */
		if (segment->segment_length > ONE_MESSAGE_MAX)
			return BAD_ARG(3);
		ret = check_segment(srq->o.ia, srq->pz, segment, true);
		if (ret != DAT_SUCCESS)
			return BECAUSE(
				ret,
				"local_iov[%d] = %#x, %#" PRIx64 " + %" PRIu64
				": no LMR of the SRQ's PZ with local write has this context and range; give the lmr_context of dat_lmr_create, inside its region",
				i, segment->lmr_context, segment->virtual_address, segment->segment_length);
		total += segment->segment_length;
		sge[count++] = (struct one_sge){.addr = segment->virtual_address,
						.len = (uint32_t)segment->segment_length,
						.lkey = segment->lmr_context};
	}
	if (total > ONE_MESSAGE_MAX)
		return BAD_ARG(3);
	lock_take(&srq->lock);
	error = one_srq_post(&srq->q, (uint32_t)srq->max_recv_dtos, user_cookie.as_64, sge, count);
	lock_drop(&srq->lock);
	return dat_errno(error, DAT_RESOURCE_CREDITS);
}

/* Counts completions of this queue's receives that the consumer has not dequeued.  ia.lock held. */
static uint32_t
not_taken(const struct srq *srq)
{
	struct ia *ia = srq->o.ia;
	struct object *o;
	uint32_t n = 0;

	LIST_FOREACH(o, &ia->list[DAT_HANDLE_TYPE_EVD], entry) {
		struct evd *evd = (struct evd *)o;

		if (!evd->has_cq || (evd->flags & DAT_EVD_DTO_FLAG) == 0)
			continue;
		lock_take(&evd->lock);
		evd_collect(evd);
		for (uint32_t i = 0; i < evd->stash.count; i++) {
			const struct one_cqe *cqe = &stash_at(&evd->stash, i)->cqe;
			const struct ep *ep;

			if (cqe->type != ONE_CQE_RECV && cqe->type != ONE_CQE_RECV_WRITE_IMM)
				continue;
			ep = object_find(ia, DAT_HANDLE_TYPE_EP, cqe->object);
			n += ep != NULL && ep->srq == srq;
		}
		lock_drop(&evd->lock);
	}
	return n;
}

/* Returns the receives that are posted, or completed and not dequeued.  ia.lock held. */
static DAT_COUNT
outstanding_receives(struct srq *srq)
{
	uint32_t n;

	lock_take(&srq->lock);
	n = one_srq_outstanding(&srq->q);
	lock_drop(&srq->lock);
	return (DAT_COUNT)(n + not_taken(srq));
}

DAT_RETURN
dapl_srq_query(DAT_SRQ_HANDLE srq_handle, DAT_SRQ_PARAM_MASK srq_param_mask, DAT_SRQ_PARAM *srq_param)
{
	struct srq *srq = handle_object(srq_handle, DAT_HANDLE_TYPE_SRQ);
	struct ia *ia;

	if (srq == NULL)
		return BAD_HANDLE(SRQ);
	if (((uint32_t)srq_param_mask & ~ALL_FIELDS) != 0)
		return BAD_ARG(2);
	if (srq_param == NULL)
		return BAD_ARG(3);
	ia = srq->o.ia;
	pthread_mutex_lock(&ia->lock);
	*srq_param = (DAT_SRQ_PARAM){
		.ia_handle = ia->o.handle,
		.srq_state = ia_lost(ia) ? DAT_SRQ_STATE_ERROR : DAT_SRQ_STATE_OPERATIONAL,
		.pz_handle = srq->pz->o.handle,
		.max_recv_iov = srq->max_recv_iov,
	};
	srq_param->outstanding_dto_count = outstanding_receives(srq);
	lock_take(&srq->lock);
	srq_param->max_recv_dtos = srq->max_recv_dtos;
	srq_param->low_watermark = srq->low_watermark;
	srq_param->available_dto_count = (DAT_COUNT)one_srq_available(&srq->q);
	lock_drop(&srq->lock);
	pthread_mutex_unlock(&ia->lock);
	return DAT_SUCCESS;
}

DAT_RETURN
dapl_srq_resize(DAT_SRQ_HANDLE srq_handle, DAT_COUNT srq_max_recv_dto)
{
	struct srq *srq = handle_object(srq_handle, DAT_HANDLE_TYPE_SRQ);
	DAT_RETURN ret = DAT_SUCCESS;
	struct ia *ia;

	if (srq == NULL)
		return BAD_HANDLE(SRQ);
	ia = srq->o.ia;
	if (srq_max_recv_dto <= 0 ||
	    (uint32_t)srq_max_recv_dto > one_client_info(ia->client)->limits.max_srq_wr)
		return BECAUSE(BAD_ARG(2),
			       "srq_max_recv_dto = %d: the limits are 1 and %u; give a value between",
			       srq_max_recv_dto, one_client_info(ia->client)->limits.max_srq_wr);
	if ((uint32_t)srq_max_recv_dto > srq->q.max_wr)
		return BECAUSE(
			DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ),
			"srq_max_recv_dto = %d: the queue was created for %u; create another SRQ with more",
			srq_max_recv_dto, srq->q.max_wr);
	pthread_mutex_lock(&ia->lock);
	if (srq_max_recv_dto < outstanding_receives(srq))
		ret = BAD_STATE(SRQ_IN_USE);
	lock_take(&srq->lock);
	if (srq_max_recv_dto < srq->low_watermark)
		ret = BAD_STATE(SRQ_IN_USE);
	if (ret == DAT_SUCCESS)
		srq->max_recv_dtos = srq_max_recv_dto;
	lock_drop(&srq->lock);
	pthread_mutex_unlock(&ia->lock);
	return ret;
}

DAT_RETURN
dapl_srq_set_lw(DAT_SRQ_HANDLE srq_handle, DAT_COUNT low_watermark)
{
	struct srq *srq = handle_object(srq_handle, DAT_HANDLE_TYPE_SRQ);
	bool fits;

	if (srq == NULL)
		return BAD_HANDLE(SRQ);
	lock_take(&srq->lock);
	fits = low_watermark >= 0 && low_watermark <= srq->max_recv_dtos;
	if (fits)
		srq->low_watermark = low_watermark;
	lock_drop(&srq->lock);
	if (!fits)
		return BECAUSE(BAD_ARG(2),
			       "low_watermark = %d: the limits are 0 and max_recv_dtos; give a value between",
			       low_watermark);
	return dat_errno(one_srq_limit(&srq->q, (uint32_t)low_watermark), DAT_RESOURCE_SRQ);
}
