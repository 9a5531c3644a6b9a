/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs that the application creates and moves to RTS itself.  The application passes the QPN to
 * rdma_connect() or rdma_accept(), and sets the attributes of rdma_init_qp_attr().
 *
 * The data plane makes the transitions when the CM connects, as for other queue pairs.  So libibverbs only
 * records RTR and RTS with these attributes, which it recognizes by their PSN.
 *
 * UCX connects UD queue pairs only to exchange messages of the CM.  Such a connection carries the QPN of the
 * UD queue pair, but connects a hidden RC queue pair, the carrier.
 */
#include <string.h>

#include "rdmacm/device.h"
#include "rdmacm/id.h"

struct ibv_qp *
external_qp(const struct id *id, const struct rdma_conn_param *param)
{
	if (id->base.qp != NULL || param == NULL)
		return id->base.qp;
	return verbs_cm_find(id->base.verbs, param->qp_num);
}

/* Creates the carrier, an unused queue pair with its own CQ. */
struct ibv_qp *
carrier_make(struct id *id)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {1, 1, 1, 1, 0}};

	if (id->carrier_cq == NULL)
		id->carrier_cq = ibv_create_cq(id->base.verbs, 1, NULL, NULL, 0);
	if (id->carrier_cq == NULL || id->carrier != NULL)
		return id->carrier;
	init.send_cq = init.recv_cq = id->carrier_cq;
	id->carrier = ibv_create_qp(device_pd(id->device), &init);
	return id->carrier;
}

void
carrier_forget(struct id *id)
{
	if (id->psn != 0)
		verbs_cm_expect_no_more(id->base.verbs, id->psn);
	id->psn = 0;
	if (id->carrier != NULL)
		ibv_destroy_qp(id->carrier);
	if (id->carrier_cq != NULL)
		ibv_destroy_cq(id->carrier_cq);
	id->carrier = NULL;
	id->carrier_cq = NULL;
}

int
external_qp_init_attr(struct ibv_qp_attr *attr)
{
	attr->port_num = 1;
	attr->pkey_index = 0;
	attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
}

static int
to_rtr(struct id *id, struct ibv_qp_attr *attr)
{
	const struct rdma_addr *addr = &id->base.route.addr;
	int error = id->psn != 0 ? 0 : verbs_cm_expect(id->base.verbs, id->peer_qpn, &id->psn);

	if (error != 0)
		return error;
	verbs_cm_path(id->base.verbs, id->addr, addr_bytes(&addr->dst_addr), attr);
	attr->dest_qp_num = id->peer_qpn;
	attr->rq_psn = id->psn;
	attr->max_dest_rd_atomic = id->depth_in;
	attr->min_rnr_timer = id->min_rnr_timer;
	return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
	       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

static int
to_rts(const struct id *id, struct ibv_qp_attr *attr)
{
	attr->timeout = id->timeout;
	attr->retry_cnt = id->retry_count;
	attr->rnr_retry = id->rnr_retry;
	attr->sq_psn = id->psn;
	attr->max_rd_atomic = id->depth_out;
	return IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
	       IBV_QP_MAX_QP_RD_ATOMIC;
}

/* Returns the mask or -errno. */
static int
init_qp_attr(struct id *id, struct ibv_qp_attr *attr)
{
	if (id->device == NULL)
		return -EINVAL;
	if (is_udp(id))
		return -EOPNOTSUPP;
	if (attr->qp_state == IBV_QPS_INIT)
		return external_qp_init_attr(attr);
	/* RTR and RTS need the peer's QPN. */
	if (id->peer_qpn == 0)
		return -EINVAL;
	if (attr->qp_state == IBV_QPS_RTR)
		return to_rtr(id, attr);
	return attr->qp_state == IBV_QPS_RTS ? to_rts(id, attr) : -EINVAL;
}

int
rdma_init_qp_attr(struct rdma_cm_id *base, struct ibv_qp_attr *attr, int *mask)
{
	enum ibv_qp_state state = attr->qp_state;
	int result;

	memset(attr, 0, sizeof(*attr));
	attr->qp_state = state;
	pthread_mutex_lock(&cma_lock);
	result = init_qp_attr(TO_ID(base), attr);
	pthread_mutex_unlock(&cma_lock);
	if (result < 0) {
		refused_because(
			result,
			"qp_attr->qp_state = %u: no attributes for this state yet (RTR and RTS need the peer's message), or ever; resolve or get the request first, and give INIT, RTR or RTS",
			(unsigned int)state);
		return cma_end(__func__, result, base);
	}
	*mask = result;
	return 0;
}

int
rdma_establish(struct rdma_cm_id *base)
{
	const struct id *id = TO_ID(base);
	struct one_msg msg = {.type = ONE_MSG_QP_CONFIRM};
	bool responded;

	pthread_mutex_lock(&cma_lock);
	responded = base->qp == NULL && id->connecting && id->established && !id->ended;
	msg.id.id = id->qp;
	if (responded)
		responded = verbs_cm_call(base->verbs, &msg, NULL) == 0;
	pthread_mutex_unlock(&cma_lock);
	if (responded)
		return 0;
	refused_because(
		EINVAL,
		"id = %p: no response of the peer is pending; get RDMA_CM_EVENT_CONNECT_RESPONSE first",
		(const void *)base);
	return cma_end(__func__, EINVAL, base);
}
