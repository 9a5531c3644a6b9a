/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints: create, query, free.  Posting is in ep_post.c, connecting in ep_conn.c. */
#include <stdlib.h>

#include "dat/ep.h"

#define DEFAULT_DTOS 128
#define DEFAULT_IOV 4
#define DEFAULT_READS 8
#define CONNECT_EVENTS 4 /* maximum of events that one endpoint has on its connect EVD */

static DAT_COUNT
capped_count(uint32_t limit, DAT_COUNT value)
{
	return (uint32_t)value < limit ? value : (DAT_COUNT)limit;
}

static uint32_t
max_iov(const struct ia *ia)
{
	uint32_t max = one_client_info(ia->client)->limits.max_sge;

	return max < ONE_MAX_SGE ? max : ONE_MAX_SGE;
}

static void
default_attr(const struct ia *ia, DAT_EP_ATTR *attr)
{
	const struct one_limits *limits = &one_client_info(ia->client)->limits;

	*attr = (DAT_EP_ATTR){
		.service_type = DAT_SERVICE_TYPE_RC,
		.max_message_size = limits->max_message,
		.max_rdma_size = limits->max_message,
		.qos = DAT_QOS_BEST_EFFORT,
		.recv_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG,
		.request_completion_flags = DAT_COMPLETION_EVD_THRESHOLD_FLAG,
		.max_recv_dtos = capped_count(limits->max_qp_wr, DEFAULT_DTOS),
		.max_request_dtos = capped_count(limits->max_qp_wr, DEFAULT_DTOS),
		.max_recv_iov = capped_count(max_iov(ia), DEFAULT_IOV),
		.max_request_iov = capped_count(max_iov(ia), DEFAULT_IOV),
		.max_rdma_read_in = capped_count(limits->max_rd_atomic, DEFAULT_READS),
		.max_rdma_read_out = capped_count(limits->max_rd_atomic, DEFAULT_READS),
		.srq_soft_hw = DAT_HW_DEFAULT,
		.max_rdma_read_iov = capped_count(max_iov(ia), DEFAULT_IOV),
		.max_rdma_write_iov = capped_count(max_iov(ia), DEFAULT_IOV),
	};
}

static bool
in_range(DAT_COUNT value, uint32_t limit)
{
	return value >= 0 && (uint32_t)value <= limit;
}

/* True if a count exceeds the limit of the port or of the data plane's configuration. */
static bool
too_many(const DAT_EP_ATTR *attr, const struct one_limits *limits, uint32_t iov)
{
	const struct {
		const char *name;
		DAT_COUNT count;
		uint32_t max;
	} counts[] = {
		{"max_recv_dtos", attr->max_recv_dtos, limits->max_qp_wr},
		{"max_request_dtos", attr->max_request_dtos, limits->max_qp_wr},
		{"max_recv_iov", attr->max_recv_iov, iov},
		{"max_request_iov", attr->max_request_iov, iov},
		{"max_rdma_read_iov", attr->max_rdma_read_iov, iov},
		{"max_rdma_write_iov", attr->max_rdma_write_iov, iov},
		{"max_rdma_read_in", attr->max_rdma_read_in, limits->max_rd_atomic},
		{"max_rdma_read_out", attr->max_rdma_read_out, limits->max_rd_atomic},
	};

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		if (!in_range(counts[i].count, counts[i].max))
			return (ONE_NOTE(DAT_INVALID_PARAMETER,
					 "ep_attributes->%s = %d: it may be 0 to %u; ask for less",
					 counts[i].name, counts[i].count, counts[i].max),
				true);
	}
	return false;
}

DAT_RETURN
ep_check_attr(const struct ia *ia, const DAT_EP_ATTR *attr, DAT_RETURN bad)
{
	const struct one_limits *limits = &one_client_info(ia->client)->limits;
	const uint32_t all_qos =
		DAT_QOS_HIGH_THROUGHPUT | DAT_QOS_LOW_LATENCY | DAT_QOS_ECONOMY | DAT_QOS_PREMIUM;
	uint32_t iov = max_iov(ia);

	if (too_many(attr, limits, iov))
		return bad;
	if (attr->service_type != DAT_SERVICE_TYPE_RC || ((uint32_t)attr->qos & ~all_qos) != 0 ||
	    attr->max_message_size > limits->max_message || attr->max_rdma_size > limits->max_message ||
	    ((uint32_t)attr->recv_completion_flags & ~0x1fu) != 0 ||
	    ((uint32_t)attr->recv_completion_flags & DAT_COMPLETION_SUPPRESS_FLAG) != 0 ||
	    ((uint32_t)attr->request_completion_flags & ~0x1fu) != 0 ||
	    attr->ep_transport_specific_count != 0 || attr->ep_provider_specific_count != 0)
		return BECAUSE(
			bad,
			"ep_attributes = %p: service type, QoS, sizes or completion flags are unsupported, or a count of specific attributes is not 0; begin with zeros, and see dat_ep_attr(3DAT)",
			(const void *)attr);
	return attr->qos != DAT_QOS_BEST_EFFORT ? DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE)
						: DAT_SUCCESS;
}

/* Checks that attributes given by the consumer agree with the EVDs.  The receive queue is not checked if it
 * is shared.  Default attributes need not agree. */
static DAT_RETURN
check_queues(const DAT_EP_ATTR *attr, bool shared, bool recv, bool request, DAT_RETURN bad)
{
	if ((attr->max_request_dtos > 0) != request || (request && attr->max_request_iov == 0))
		return BECAUSE(
			bad,
			"ep_attributes->max_request_dtos = %d, max_request_iov = %d: %s; make them agree with request_evd_handle",
			attr->max_request_dtos, attr->max_request_iov,
			request ? "there is a request EVD, so neither may be 0"
				: "there is no request EVD, so no requests either");
	if (!shared && ((attr->max_recv_dtos > 0) != recv || (recv && attr->max_recv_iov == 0)))
		return BECAUSE(
			bad,
			"ep_attributes->max_recv_dtos = %d, max_recv_iov = %d: %s; make them agree with recv_evd_handle",
			attr->max_recv_dtos, attr->max_recv_iov,
			recv ? "there is a receive EVD, so neither may be 0"
			     : "there is no receive EVD, so no receives either");
	return DAT_SUCCESS;
}

void
ep_apply_attr(struct ep *ep)
{
	const DAT_EP_ATTR *attr = &ep->attr;
	uint64_t limit = one_client_info(ep->o.ia->client)->limits.max_message;

	ep->max_recv_iov = (uint32_t)attr->max_recv_iov;
	ep->max_send_iov = (uint32_t)attr->max_request_iov;
	ep->max_read_iov =
		(uint32_t)(attr->max_rdma_read_iov > 0 ? attr->max_rdma_read_iov : attr->max_request_iov);
	ep->max_write_iov =
		(uint32_t)(attr->max_rdma_write_iov > 0 ? attr->max_rdma_write_iov : attr->max_request_iov);
	ep->max_message = attr->max_message_size > 0 ? attr->max_message_size : limit;
	ep->max_rdma = attr->max_rdma_size > 0 ? attr->max_rdma_size : limit;
	ep->may_unsignal_send =
		((uint32_t)attr->request_completion_flags & DAT_COMPLETION_UNSIGNALLED_FLAG) != 0;
	ep->may_unsignal_recv =
		((uint32_t)attr->recv_completion_flags & DAT_COMPLETION_UNSIGNALLED_FLAG) != 0;
}

static uint32_t
cq_id(const struct evd *evd)
{
	return evd != NULL ? evd->cq.id : 0;
}

void
ep_fill_create(const struct ep *ep, struct one_qp_create *args)
{
	const DAT_EP_ATTR *attr = &ep->attr;
	uint32_t sge = (uint32_t)attr->max_request_iov;

	if (sge < ep->max_read_iov)
		sge = ep->max_read_iov;
	if (sge < ep->max_write_iov)
		sge = ep->max_write_iov;
	*args = (struct one_qp_create){
		.pz = ep->pz != NULL ? ep->pz->id : 0,
		.send_cq = cq_id(ep->send_evd),
		.recv_cq = cq_id(ep->recv_evd),
		.conn_cq = cq_id(ep->conn_evd),
		.max_send_wr = (uint32_t)attr->max_request_dtos,
		.srq = ep->srq != NULL ? ep->srq->q.id : 0,
		.max_recv_wr = ep->srq != NULL ? 0 : (uint32_t)attr->max_recv_dtos,
		.max_send_sge = sge > 0 ? sge : 1,
		.max_recv_sge = attr->max_recv_iov > 0 ? (uint32_t)attr->max_recv_iov : 1,
		.rd_atomic_in = (uint32_t)attr->max_rdma_read_in,
		.rd_atomic_out = (uint32_t)attr->max_rdma_read_out,
		.flags = ((uint32_t)attr->recv_completion_flags & DAT_COMPLETION_SOLICITED_WAIT_FLAG) != 0
				 ? ONE_QP_RECV_SOLICITED
				 : 0,
	};
	if (ep->srq != NULL && event_srq_ep_ends)
		args->flags |= ONE_QP_NOTIFY_END;
}

/* Counts a stream of up to `events` outstanding events on its EVD: sign 1 adds the stream, -1 removes it.
 * `flags` are its completion flags. */
static void
count_stream(struct evd *evd, int sign, uint32_t flags, DAT_COUNT events)
{
	if (evd == NULL)
		return;
	lock_take(&evd->lock);
	if ((flags & DAT_COMPLETION_UNSIGNALLED_FLAG) != 0)
		evd->unsignalled += (uint32_t)sign;
	if ((flags & DAT_COMPLETION_SOLICITED_WAIT_FLAG) != 0)
		evd->solicited += (uint32_t)sign;
	lock_drop(&evd->lock);
	evd_demand(evd, (int64_t)sign * events);
}

/* Adds the endpoint's streams to its EVDs (sign 1) or removes them (-1). */
void
ep_count_streams(struct ep *ep, int sign)
{
	uint32_t request = (uint32_t)ep->attr.request_completion_flags & DAT_COMPLETION_UNSIGNALLED_FLAG;

	count_stream(ep->recv_evd, sign, (uint32_t)ep->attr.recv_completion_flags,
		     ep->srq != NULL ? ep->srq_dtos : ep->attr.max_recv_dtos);
	count_stream(ep->send_evd, sign, request, ep->attr.max_request_dtos);
	count_stream(ep->conn_evd, sign, 0, CONNECT_EVENTS);
	/* The end of a connection may also be reported as an asynchronous error. */
	if (ep->o.ia->async_mine)
		evd_demand(ep->o.ia->async_evd, sign);
}

int
ep_new_logs(const DAT_EP_ATTR *attr, struct ep_logs *logs)
{
	uint32_t sends = 1, recvs = 1;

	while (sends < (uint32_t)attr->max_request_dtos)
		sends *= 2;
	while (recvs < (uint32_t)attr->max_recv_dtos)
		recvs *= 2;
	logs->send = calloc(sends, sizeof(*logs->send));
	logs->recv = calloc(recvs, sizeof(*logs->recv));
	logs->send_mask = sends - 1;
	logs->recv_mask = recvs - 1;
	if (logs->send != NULL && logs->recv != NULL)
		return 0;
	ep_free_logs(logs);
	return -ENOMEM;
}

void
ep_free_logs(struct ep_logs *logs)
{
	free(logs->send);
	free(logs->recv);
	logs->send = logs->recv = NULL;
}

bool
ep_ref_evd(struct ia *ia, DAT_EVD_HANDLE handle, DAT_EVD_FLAGS flag, struct evd **evd)
{
	*evd = handle != DAT_HANDLE_NULL ? evd_ref(ia, handle, flag) : NULL;
	return handle == DAT_HANDLE_NULL || *evd != NULL;
}

/* Looks the handles up and takes references.  ia.lock held. */
static DAT_RETURN
take_refs(struct ep *ep, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv, DAT_EVD_HANDLE request,
	  DAT_EVD_HANDLE connect, DAT_SRQ_HANDLE srq)
{
	struct ia *ia = ep->o.ia;

	if (pz != DAT_HANDLE_NULL) {
		ep->pz = object_ref(ia, pz, DAT_HANDLE_TYPE_PZ);
		if (ep->pz == NULL)
			return BAD_HANDLE(PZ);
	}
	if (!ep_ref_evd(ia, recv, DAT_EVD_DTO_FLAG, &ep->recv_evd))
		return BAD_HANDLE(EVD_RECV);
	if (!ep_ref_evd(ia, request, DAT_EVD_DTO_FLAG, &ep->send_evd))
		return BAD_HANDLE(EVD_REQUEST);
	if (!ep_ref_evd(ia, connect, DAT_EVD_CONNECTION_FLAG, &ep->conn_evd))
		return BAD_HANDLE(EVD_CONN);
	if (srq != DAT_HANDLE_NULL) {
		ep->srq = object_ref(ia, srq, DAT_HANDLE_TYPE_SRQ);
		if (ep->srq == NULL)
			return BAD_HANDLE(SRQ);
		if (ep->srq->pz != ep->pz)
			return BECAUSE(BAD_ARG(2),
				       "pz_handle = %p: the SRQ belongs to another PZ; give that PZ", pz);
		ep->srq_dtos = ep->srq->max_recv_dtos;
	}
	return DAT_SUCCESS;
}

void
ep_drop_refs(struct ep *ep)
{
	object_unref(ep->pz);
	object_unref(ep->recv_evd);
	object_unref(ep->send_evd);
	object_unref(ep->conn_evd);
	object_unref(ep->srq);
}

/* Gives the endpoint its logs, queue pair and handle; on failure it gets none of them. */
static int
start_ep(struct ep *ep)
{
	struct one_qp_create args;
	int error = ep_new_logs(&ep->attr, &ep->logs);

	if (error != 0)
		return error;
	ep_fill_create(ep, &args);
	error = one_qp_create(ep->o.ia->client, &args, &ep->qp);
	if (error == 0) {
		error = object_publish_alone(&ep->o, ep->qp.id);
		if (error != 0)
			one_qp_free(&ep->qp);
	}
	if (error != 0)
		ep_free_logs(&ep->logs);
	return error;
}

struct ep *
ep_make(struct ia *ia, DAT_PZ_HANDLE pz, DAT_EVD_HANDLE recv, DAT_EVD_HANDLE request, DAT_EVD_HANDLE connect,
	DAT_SRQ_HANDLE srq, const DAT_EP_ATTR *attr, enum ep_phase phase, DAT_RETURN *ret)
{
	DAT_RETURN bad =
		srq != DAT_HANDLE_NULL ? BAD_ARG(7) : BAD_ARG(6); /* ep_attributes of dat_ep_create* */
	struct ep *ep;

	*ret = attr != NULL ? ep_check_attr(ia, attr, bad) : DAT_SUCCESS;
	if (*ret != DAT_SUCCESS)
		return NULL;
	ep = object_new(ia, DAT_HANDLE_TYPE_EP);
	if (ep == NULL) {
		*ret = DAT_ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY);
		return NULL;
	}
	if (attr != NULL)
		ep->attr = *attr;
	else
		default_attr(ia, &ep->attr);
	ep_apply_attr(ep);
	ep_set_phase(ep, phase);
	pthread_mutex_lock(&ia->lock);
	*ret = take_refs(ep, pz, recv, request, connect, srq);
	pthread_mutex_unlock(&ia->lock);
	if (*ret == DAT_SUCCESS && attr != NULL && phase == EP_UNCONNECTED)
		*ret = check_queues(attr, ep->srq != NULL, ep->recv_evd != NULL, ep->send_evd != NULL, bad);
	if (*ret == DAT_SUCCESS)
		*ret = dat_errno(start_ep(ep), DAT_RESOURCE_TEP);
	if (*ret == DAT_SUCCESS) {
		ep_count_streams(ep, 1);
		return ep;
	}
	pthread_mutex_lock(&ia->lock);
	ep_drop_refs(ep);
	object_discard(&ep->o);
	pthread_mutex_unlock(&ia->lock);
	return NULL;
}

DAT_RETURN
dapl_ep_create(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle, DAT_EVD_HANDLE recv_evd_handle,
	       DAT_EVD_HANDLE request_evd_handle, DAT_EVD_HANDLE connect_evd_handle,
	       const DAT_EP_ATTR *ep_attributes, DAT_EP_HANDLE *ep_handle)
{
	struct ia *ia = handle_object(ia_handle, DAT_HANDLE_TYPE_IA);
	DAT_RETURN ret;
	struct ep *ep;

	if (ia == NULL)
		return BAD_HANDLE(IA);
	if (ep_handle == NULL)
		return BAD_ARG(7);
	ep = ep_make(ia, pz_handle, recv_evd_handle, request_evd_handle, connect_evd_handle, DAT_HANDLE_NULL,
		     ep_attributes, EP_UNCONNECTED, &ret);
	if (ep != NULL)
		*ep_handle = ep->o.handle;
	return ret;
}

DAT_RETURN
dapl_ep_create_with_srq(DAT_IA_HANDLE ia_handle, DAT_PZ_HANDLE pz_handle, DAT_EVD_HANDLE recv_evd_handle,
			DAT_EVD_HANDLE request_evd_handle, DAT_EVD_HANDLE connect_evd_handle,
			DAT_SRQ_HANDLE srq_handle, const DAT_EP_ATTR *ep_attributes, DAT_EP_HANDLE *ep_handle)
{
	struct ia *ia = handle_object(ia_handle, DAT_HANDLE_TYPE_IA);
	DAT_EP_ATTR attr;
	DAT_RETURN ret;
	struct ep *ep;

	if (ia == NULL)
		return BAD_HANDLE(IA);
	if (srq_handle == DAT_HANDLE_NULL)
		return BAD_HANDLE(SRQ);
	if (ep_attributes == NULL)
		return BAD_ARG(7);
	if (ep_handle == NULL)
		return BAD_ARG(8);
	attr = *ep_attributes;
	attr.max_recv_iov = 0; /* ignored: the SRQ's value counts */
	ep = ep_make(ia, pz_handle, recv_evd_handle, request_evd_handle, connect_evd_handle, srq_handle,
		     &attr, EP_UNCONNECTED, &ret);
	if (ep != NULL)
		*ep_handle = ep->o.handle;
	return ret;
}

static bool
entry_of_qp(const struct one_cqe *cqe, void *arg)
{
	return cqe->object == *(const uint32_t *)arg && cqe->type >= ONE_CQE_SEND &&
	       cqe->type <= ONE_CQE_CONNECT;
}

static void
purge_entries(struct evd *evd, uint32_t id)
{
	if (evd == NULL)
		return;
	lock_take(&evd->lock);
	evd_purge(evd, entry_of_qp, &id);
	lock_drop(&evd->lock);
}

void
ep_destroy(struct object *o)
{
	struct ep *ep = (struct ep *)o;
	struct ia *ia = o->ia;
	uint32_t id = ep->qp.id;

	one_qp_free(&ep->qp);
	pthread_mutex_lock(&ia->lock);
	idmap_remove(object_map(ia, DAT_HANDLE_TYPE_EP), &ep->o.node);
	pthread_mutex_unlock(&ia->lock);
	purge_entries(ep->recv_evd, id);
	purge_entries(ep->send_evd, id);
	purge_entries(ep->conn_evd, id);
	ep_count_streams(ep, -1);
	ep_free_logs(&ep->logs);
	pthread_mutex_lock(&ia->lock);
	ep_drop_refs(ep);
	object_discard(&ep->o);
	pthread_mutex_unlock(&ia->lock);
}

DAT_RETURN
dapl_ep_free(DAT_EP_HANDLE ep_handle)
{
	struct ep *ep = object_lock(ep_handle, DAT_HANDLE_TYPE_EP);
	DAT_EP_STATE state;
	struct ia *ia;

	if (ep == NULL)
		return BAD_HANDLE(EP);
	ia = ep->o.ia;
	state = ep_state(ep);
	if (state == DAT_EP_STATE_RESERVED || state == DAT_EP_STATE_PASSIVE_CONNECTION_PENDING ||
	    state == DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING) {
		pthread_mutex_unlock(&ia->lock);
		return ep_state_error(state);
	}
	object_retire(&ep->o);
	pthread_mutex_unlock(&ia->lock);
	ep_destroy(&ep->o);
	return DAT_SUCCESS;
}

DAT_EP_STATE
ep_state(const struct ep *ep)
{
	uint32_t phase = ep_phase(ep);

	switch (phase) {
	case EP_RESERVED:
		return DAT_EP_STATE_RESERVED;
	case EP_PASSIVE:
		return DAT_EP_STATE_PASSIVE_CONNECTION_PENDING;
	case EP_TENTATIVE:
		return DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING;
	case EP_ACTIVE:
	case EP_ACCEPTED:
		break;
	default:
		return DAT_EP_STATE_UNCONNECTED;
	}
	if (ia_lost(ep->o.ia))
		return DAT_EP_STATE_DISCONNECTED;
	switch (ep_qp_state(ep)) {
	case ONE_QP_ERROR:
		return DAT_EP_STATE_DISCONNECTED;
	case ONE_QP_CONNECTED:
		return one_load_alone(&ep->closing) ? DAT_EP_STATE_DISCONNECT_PENDING
						    : DAT_EP_STATE_CONNECTED;
	case ONE_QP_CLOSING:
		return DAT_EP_STATE_DISCONNECT_PENDING;
	default:
		if (one_load_alone(&ep->closing))
			return DAT_EP_STATE_DISCONNECT_PENDING;
		return phase == EP_ACTIVE ? DAT_EP_STATE_ACTIVE_CONNECTION_PENDING
					  : DAT_EP_STATE_COMPLETION_PENDING;
	}
}

DAT_RETURN
ep_state_error(DAT_EP_STATE state)
{
	static const DAT_RETURN_SUBTYPE subtype[] = {
		[DAT_EP_STATE_UNCONNECTED] = DAT_INVALID_STATE_EP_UNCONNECTED,
		[DAT_EP_STATE_RESERVED] = DAT_INVALID_STATE_EP_RESERVED,
		[DAT_EP_STATE_PASSIVE_CONNECTION_PENDING] = DAT_INVALID_STATE_EP_PASSCONNPENDING,
		[DAT_EP_STATE_ACTIVE_CONNECTION_PENDING] = DAT_INVALID_STATE_EP_ACTCONNPENDING,
		[DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING] = DAT_INVALID_STATE_EP_TENTCONNPENDING,
		[DAT_EP_STATE_CONNECTED] = DAT_INVALID_STATE_EP_CONNECTED,
		[DAT_EP_STATE_DISCONNECT_PENDING] = DAT_INVALID_STATE_EP_DISCPENDING,
		[DAT_EP_STATE_DISCONNECTED] = DAT_INVALID_STATE_EP_DISCONNECTED,
		[DAT_EP_STATE_COMPLETION_PENDING] = DAT_INVALID_STATE_EP_COMPLPENDING,
	};

	return DAT_ERROR(DAT_INVALID_STATE, subtype[state]);
}

DAT_RETURN
dapl_ep_query(DAT_EP_HANDLE ep_handle, DAT_EP_PARAM_MASK ep_param_mask, DAT_EP_PARAM *ep_param)
{
	struct ep *ep = handle_object(ep_handle, DAT_HANDLE_TYPE_EP);
	struct ia *ia;
	bool connected;

	if (ep == NULL)
		return BAD_HANDLE(EP);
	if (ep_param == NULL)
		return BAD_ARG(3);
	ia = ep->o.ia;
	pthread_mutex_lock(&ia->lock);
	*ep_param = (DAT_EP_PARAM){
		.ia_handle = ia->o.handle,
		.ep_state = ep_state(ep),
		.local_ia_address_ptr = (DAT_IA_ADDRESS_PTR)&ia->addr,
		.remote_ia_address_ptr = (DAT_IA_ADDRESS_PTR)&ep->remote,
		.remote_port_qual = ep->remote_qual,
		.pz_handle = ep->pz != NULL ? ep->pz->o.handle : DAT_HANDLE_NULL,
		.recv_evd_handle = ep->recv_evd != NULL ? ep->recv_evd->o.handle : DAT_HANDLE_NULL,
		.request_evd_handle = ep->send_evd != NULL ? ep->send_evd->o.handle : DAT_HANDLE_NULL,
		.connect_evd_handle = ep->conn_evd != NULL ? ep->conn_evd->o.handle : DAT_HANDLE_NULL,
		.srq_handle = ep->srq != NULL ? ep->srq->o.handle : DAT_HANDLE_NULL,
		.ep_attr = ep->attr,
	};
	connected = ep_param->ep_state == DAT_EP_STATE_CONNECTED ||
		    ep_param->ep_state == DAT_EP_STATE_DISCONNECT_PENDING;
	if (connected && ep->qp.shm->local_port != 0)
		ep_param->local_port_qual = ep->qp.shm->local_port;
	if (connected && ep->qp.shm->remote_port != 0)
		ep_param->remote_port_qual = ep->qp.shm->remote_port;
	pthread_mutex_unlock(&ia->lock);
	return DAT_SUCCESS;
}

/* Returns the number of receives that the endpoint holds and has not completed.  recv_lock held. */
static uint32_t
ep_recvs(struct ep *ep)
{
	return ep->srq != NULL ? one_qp_held(&ep->qp) : one_recv_outstanding(&ep->qp);
}

DAT_RETURN
dapl_ep_recv_query(DAT_EP_HANDLE ep_handle, DAT_COUNT *nbufs_allocated, DAT_COUNT *bufs_alloc_span)
{
	struct ep *ep = handle_object(ep_handle, DAT_HANDLE_TYPE_EP);
	DAT_COUNT n;

	if (ep == NULL)
		return BAD_HANDLE(EP);
	lock_take(&ep->recv_lock);
	n = (DAT_COUNT)ep_recvs(ep);
	lock_drop(&ep->recv_lock);
	if (nbufs_allocated != NULL)
		*nbufs_allocated = n;
	/* Messages of a connection begin and complete in order, so there is no gap among them. */
	if (bufs_alloc_span != NULL)
		*bufs_alloc_span = n;
	return DAT_SUCCESS;
}

/* A connection receives one message at a time, and holds one buffer for it.  So no watermark above 0 could be
 * exceeded, and only "infinite" is supported. */
DAT_RETURN
dapl_ep_set_watermark(DAT_EP_HANDLE ep_handle, DAT_COUNT soft_high_watermark, DAT_COUNT hard_high_watermark)
{
	if (handle_object(ep_handle, DAT_HANDLE_TYPE_EP) == NULL)
		return BAD_HANDLE(EP);
	if (soft_high_watermark < 0 && soft_high_watermark != DAT_WATERMARK_INFINITE)
		return BAD_ARG(2);
	if (hard_high_watermark < 0 && hard_high_watermark != DAT_WATERMARK_INFINITE)
		return BAD_ARG(3);
	return soft_high_watermark == DAT_WATERMARK_INFINITE && hard_high_watermark == DAT_WATERMARK_INFINITE
		       ? DAT_SUCCESS
		       : DAT_ERROR(DAT_MODEL_NOT_SUPPORTED, DAT_NO_SUBTYPE);
}

DAT_RETURN
dapl_ep_get_status(DAT_EP_HANDLE ep_handle, DAT_EP_STATE *ep_state_out, DAT_BOOLEAN *recv_idle,
		   DAT_BOOLEAN *request_idle)
{
	struct ep *ep = handle_object(ep_handle, DAT_HANDLE_TYPE_EP);

	if (ep == NULL)
		return BAD_HANDLE(EP);
	if (ep_state_out != NULL)
		*ep_state_out = ep_state(ep);
	if (recv_idle != NULL) {
		lock_take(&ep->recv_lock);
		*recv_idle = ep_recvs(ep) == 0 ? DAT_TRUE : DAT_FALSE;
		lock_drop(&ep->recv_lock);
	}
	if (request_idle != NULL) {
		lock_take(&ep->send_lock);
		*request_idle = one_send_outstanding(&ep->qp) == 0 ? DAT_TRUE : DAT_FALSE;
		lock_drop(&ep->send_lock);
	}
	return DAT_SUCCESS;
}
