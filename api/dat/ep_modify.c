/* SPDX-License-Identifier: BSD-3-Clause */
/* dat_ep_modify.  The data plane changes the parameters of a queue pair that it can change.  Other depths
 * need a new queue pair, which replaces the old one and takes over the posted receives. */
#include <stdlib.h>

#include "dat/ep.h"

#define READ_ONLY                                                                                            \
	(DAT_EP_FIELD_IA_HANDLE | DAT_EP_FIELD_EP_STATE | DAT_EP_FIELD_LOCAL_IA_ADDRESS_PTR |                \
	 DAT_EP_FIELD_LOCAL_PORT_QUAL | DAT_EP_FIELD_REMOTE_IA_ADDRESS_PTR | DAT_EP_FIELD_REMOTE_PORT_QUAL | \
	 DAT_EP_FIELD_SRQ_HANDLE)
#define SPECIFIC                                                                                  \
	(DAT_EP_FIELD_EP_ATTR_NUM_TRANSPORT_ATTR | DAT_EP_FIELD_EP_ATTR_TRANSPORT_SPECIFIC_ATTR | \
	 DAT_EP_FIELD_EP_ATTR_NUM_PROVIDER_ATTR | DAT_EP_FIELD_EP_ATTR_PROVIDER_SPECIFIC_ATTR)

static void
merge_attr(DAT_EP_ATTR *attr, DAT_EP_PARAM_MASK mask, const DAT_EP_ATTR *from)
{
#define TAKE(bit, field)                                      \
	do {                                                  \
		if ((mask & DAT_EP_FIELD_EP_ATTR_##bit) != 0) \
			attr->field = from->field;            \
	} while (0)
	TAKE(SERVICE_TYPE, service_type);
	TAKE(MAX_MESSAGE_SIZE, max_message_size);
	TAKE(MAX_RDMA_SIZE, max_rdma_size);
	TAKE(QOS, qos);
	TAKE(RECV_COMPLETION_FLAGS, recv_completion_flags);
	TAKE(REQUEST_COMPLETION_FLAGS, request_completion_flags);
	TAKE(MAX_RECV_DTOS, max_recv_dtos);
	TAKE(MAX_REQUEST_DTOS, max_request_dtos);
	TAKE(MAX_RECV_IOV, max_recv_iov);
	TAKE(MAX_REQUEST_IOV, max_request_iov);
	TAKE(MAX_RDMA_READ_IN, max_rdma_read_in);
	TAKE(MAX_RDMA_READ_OUT, max_rdma_read_out);
	TAKE(SRQ_SOFT_HW, srq_soft_hw);
	TAKE(MAX_RDMA_READ_IOV, max_rdma_read_iov);
	TAKE(MAX_RDMA_WRITE_IOV, max_rdma_write_iov);
	TAKE(NUM_TRANSPORT_ATTR, ep_transport_specific_count);
	TAKE(TRANSPORT_SPECIFIC_ATTR, ep_transport_specific);
	TAKE(NUM_PROVIDER_ATTR, ep_provider_specific_count);
	TAKE(PROVIDER_SPECIFIC_ATTR, ep_provider_specific);
#undef TAKE
}

/* References the EVD of `handle` if `change`, else the present EVD in *evd.  ia.lock held. */
static bool
choose_evd(struct ia *ia, bool change, DAT_EVD_HANDLE handle, DAT_EVD_FLAGS flag, struct evd **evd)
{
	if (change)
		return ep_ref_evd(ia, handle, flag, evd);
	if (*evd != NULL)
		(*evd)->o.refs++;
	return true;
}

/* Changes `to`, a copy of the endpoint, to the new objects and attributes, and references all its objects
 * except the SRQ. */
static DAT_RETURN
prepare_changes(struct ep *to, DAT_EP_PARAM_MASK mask, const DAT_EP_PARAM *param)
{
	struct ia *ia = to->o.ia;
	DAT_RETURN ret;
	bool ok = true;

	merge_attr(&to->attr, mask, &param->ep_attr);
	ret = ep_check_attr(ia, &to->attr, BAD_ARG(3));
	if (ret != DAT_SUCCESS)
		return ret;
	pthread_mutex_lock(&ia->lock);
	if ((mask & DAT_EP_FIELD_PZ_HANDLE) != 0) {
		to->pz = NULL;
		if (param->pz_handle != DAT_HANDLE_NULL) {
			to->pz = handle_object(param->pz_handle, DAT_HANDLE_TYPE_PZ);
			ok = to->pz != NULL && to->pz->o.ia == ia;
		}
	}
	/* An endpoint with an SRQ must be in the SRQ's zone. */
	if (!ok || (to->srq != NULL && to->pz != to->srq->pz)) {
		pthread_mutex_unlock(&ia->lock);
		return BECAUSE(
			BAD_ARG(3),
			"ep_param->pz_handle = %p: no PZ of this IA, or not the PZ of the endpoint's SRQ; give that PZ",
			param->pz_handle);
	}
	ok = choose_evd(ia, (mask & DAT_EP_FIELD_RECV_EVD_HANDLE) != 0, param->recv_evd_handle,
			DAT_EVD_DTO_FLAG, &to->recv_evd);
	ok = choose_evd(ia, (mask & DAT_EP_FIELD_REQUEST_EVD_HANDLE) != 0, param->request_evd_handle,
			DAT_EVD_DTO_FLAG, &to->send_evd) &&
	     ok;
	ok = choose_evd(ia, (mask & DAT_EP_FIELD_CONNECT_EVD_HANDLE) != 0, param->connect_evd_handle,
			DAT_EVD_CONNECTION_FLAG, &to->conn_evd) &&
	     ok;
	if (to->pz != NULL)
		to->pz->o.refs++;
	if (!ok) {
		to->srq = NULL; /* the endpoint keeps its reference */
		ep_drop_refs(to);
	}
	pthread_mutex_unlock(&ia->lock);
	return ok ? DAT_SUCCESS
		  : BECAUSE(BAD_ARG(3),
			    "ep_param = %p: an EVD handle in it is not of this IA, or not made for this use; give EVDs with DTO or CONNECTION flag",
			    (const void *)param);
}

/* Exchanges the endpoint's queue pair and logs with *qp and *logs, and moves the receives. */
static int
swap_qp(struct ep *ep, struct one_qp *qp, struct ep_logs *logs)
{
	const struct one_qp old = ep->qp;
	const struct ep_logs old_logs = ep->logs;
	struct one_qp from = old;
	struct ia *ia = ep->o.ia;
	struct idmap *map = object_map(ia, DAT_HANDLE_TYPE_EP);
	int error;

	pthread_mutex_lock(&ia->lock);
	lock_take(&ep->send_lock);
	lock_take(&ep->recv_lock);
	ep->qp = *qp;
	ep->logs = *logs;
	error = ep_move_recvs(ep, &from, &old_logs);
	if (error == 0) {
		idmap_remove(map, &ep->o.node);
		error = idmap_insert(map, &ep->o.node, ep->qp.id);
		if (error != 0) /* cannot fail: the old id's place in the map is free again */
			idmap_insert(map, &ep->o.node, old.id);
	}
	if (error != 0) {
		ep->qp = old;
		ep->logs = old_logs;
	} else {
		*qp = old;
		*logs = old_logs;
	}
	lock_drop(&ep->recv_lock);
	lock_drop(&ep->send_lock);
	pthread_mutex_unlock(&ia->lock);
	return error;
}

/* Replaces the queue pair by a new one that takes over the receives. */
static int
replace_qp(struct ep *ep, const struct one_qp_create *args, const DAT_EP_ATTR *attr)
{
	struct ep_logs logs;
	struct one_qp qp;
	uint32_t posted;
	int error;

	lock_take(&ep->recv_lock);
	posted = one_recv_outstanding(&ep->qp);
	lock_drop(&ep->recv_lock);
	if (posted > (uint32_t)attr->max_recv_dtos)
		return -ENOSPC;
	error = ep_new_logs(attr, &logs);
	if (error != 0)
		return error;
	error = one_qp_create(ep->o.ia->client, args, &qp);
	if (error == 0) {
		error = swap_qp(ep, &qp, &logs);
		one_qp_free(&qp);
	}
	ep_free_logs(&logs);
	return error;
}

static int
change_qp(struct ep *ep, const struct ep *to)
{
	struct one_msg msg = {.type = ONE_MSG_QP_MODIFY};
	struct one_qp_create was;

	ep_fill_create(ep, &was);
	ep_fill_create(to, &msg.qp_modify.to);
	if (was.max_send_wr != msg.qp_modify.to.max_send_wr ||
	    was.max_recv_wr != msg.qp_modify.to.max_recv_wr ||
	    was.max_send_sge < msg.qp_modify.to.max_send_sge ||
	    was.max_recv_sge < msg.qp_modify.to.max_recv_sge)
		return replace_qp(ep, &msg.qp_modify.to, &to->attr);
	msg.qp_modify.qp = ep->qp.id;
	return one_call(ep->o.ia->client, &msg, NULL, 0, NULL);
}

/* Gives the endpoint the objects and attributes of `to`. */
static void
take_over(struct ep *ep, const struct ep *to)
{
	ep_count_streams(ep, -1);
	pthread_mutex_lock(&ep->o.ia->lock);
	ep->attr = to->attr;
	ep->pz = to->pz;
	ep->recv_evd = to->recv_evd;
	ep->send_evd = to->send_evd;
	ep->conn_evd = to->conn_evd;
	ep_apply_attr(ep);
	pthread_mutex_unlock(&ep->o.ia->lock);
	ep_count_streams(ep, 1);
}

/* Copies the parameters that may change and those they depend on.  Omits the fields that other threads use
 * meanwhile. */
static struct ep
parameters_of(const struct ep *ep)
{
	return (struct ep){.o.ia = ep->o.ia,
			   .attr = ep->attr,
			   .pz = ep->pz,
			   .recv_evd = ep->recv_evd,
			   .send_evd = ep->send_evd,
			   .conn_evd = ep->conn_evd,
			   .srq = ep->srq};
}

/* True if all parameters of the mask may change in this state. */
static bool
state_allows(DAT_EP_STATE state, DAT_EP_PARAM_MASK mask)
{
	switch (state) {
	case DAT_EP_STATE_UNCONNECTED:
	case DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING:
		return true;
	case DAT_EP_STATE_RESERVED:
	case DAT_EP_STATE_PASSIVE_CONNECTION_PENDING:
		return (mask & (DAT_EP_FIELD_PZ_HANDLE | SPECIFIC)) == 0;
	default:
		return false;
	}
}

DAT_RETURN
dapl_ep_modify(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK ep_param_mask, const DAT_EP_PARAM *ep_param)
{
	struct ep *ep = handle_object(ep_handle, DAT_HANDLE_TYPE_EP);
	struct ep to, was, *left = &to;
	DAT_EP_STATE state;
	uint32_t phase;
	DAT_RETURN ret;

	if (ep == NULL)
		return BAD_HANDLE(EP);
	if ((ep_param_mask & (READ_ONLY | ~DAT_EP_FIELD_ALL)) != 0)
		return BAD_ARG(2);
	if (ep_param == NULL)
		return BAD_ARG(3);
	phase = ep_phase(ep);
	state = ep_state(ep);
	if (!state_allows(state, ep_param_mask))
		return ep_state_error(state);
	if ((ep_param_mask & DAT_EP_FIELD_EP_ATTR_RECV_COMPLETION_FLAGS) != 0) {
		bool posted;

		lock_take(&ep->recv_lock);
		posted = one_recv_outstanding(&ep->qp) > 0;
		lock_drop(&ep->recv_lock);
		if (posted && ep_param->ep_attr.recv_completion_flags != ep->attr.recv_completion_flags)
			return ep_state_error(state);
	}
	if (phase == EP_CHANGING || !ep_move(ep, (enum ep_phase)phase, EP_CHANGING))
		return ep_state_error(ep_state(ep));
	was = to = parameters_of(ep);
	ret = prepare_changes(&to, ep_param_mask, ep_param);
	if (ret == DAT_SUCCESS) {
		ep_apply_attr(&to);
		ret = dat_errno(change_qp(ep, &to), DAT_RESOURCE_TEP);
		if (ret == DAT_SUCCESS) {
			take_over(ep, &to);
			left = &was;
		}
		left->srq = NULL; /* the endpoint keeps its reference */
		pthread_mutex_lock(&ep->o.ia->lock);
		ep_drop_refs(left);
		pthread_mutex_unlock(&ep->o.ia->lock);
	}
	ep_set_phase(ep, phase);
	return ret;
}
