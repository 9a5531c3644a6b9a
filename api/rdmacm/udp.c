/* SPDX-License-Identifier: BSD-3-Clause */
/* The UDP port space, whose ids have UD queue pairs.  Nothing is connected: rdma_connect() asks a host for
 * the QPN that takes datagrams (SIDR), and rdma_accept() answers.  Called with the lock held. */
#include <stdlib.h>
#include <string.h>

#include "rdmacm/channel.h"
#include "rdmacm/id.h"
#include "verbs/gid.h"

int
udp_take(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = RDMA_UDP_QKEY};
	int error = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

	if (error != 0)
		return error;
	attr.qp_state = IBV_QPS_RTR;
	error = ibv_modify_qp(qp, &attr, IBV_QP_STATE);
	if (error != 0)
		return error;
	attr.qp_state = IBV_QPS_RTS;
	return ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
}

void
udp_forget(struct id *id)
{
	struct one_msg msg = {.type = ONE_MSG_SIDR_FREE, .id.id = id->sidr};

	if (id->sidr == 0)
		return;
	id->sidr = 0;
	verbs_cm_call(id->device->verbs, &msg, NULL);
}

int
udp_connect(struct id *id, const struct rdma_conn_param *param)
{
	const struct rdma_addr *addr = &id->base.route.addr;
	struct one_msg msg = {.type = ONE_MSG_SIDR_ASK};
	struct one_sidr_ask *ask = &msg.sidr_ask;
	struct one_reply reply;
	int error;

	if (id->sidr != 0)
		return refused_because(-EINVAL, "id = %p: a connect is under way; wait for its event",
				       (const void *)&id->base);
	if (param != NULL && param->private_data_len > ONE_SIDR_PRIVATE_REQ)
		return -refused_range("conn_param->private_data_len", param->private_data_len, 0,
				      ONE_SIDR_PRIVATE_REQ);
	ask->cq = id->device->cm.ring.id;
	ask->service = RDMA_IB_IP_PS_UDP | addr_port(&addr->dst_addr);
	ask->family = addr->dst_addr.sa_family;
	ask->source = id->addr + 1;
	ask->listener = listening_at_device(id);
	ask->traffic_class_given = (id->options.given & ONE_CONN_TRAFFIC_CLASS) != 0;
	ask->traffic_class = id->options.traffic_class;
	memcpy(ask->addr, addr_bytes(&addr->dst_addr), addr_length(ask->family));
	if (param != NULL && param->private_data_len != 0) {
		ask->private_len = param->private_data_len;
		memcpy(ask->private_data, param->private_data, param->private_data_len);
	}
	error = verbs_cm_call(id->base.verbs, &msg, &reply);
	if (error == 0)
		id->sidr = reply.id.id;
	return error;
}

/* Answers a SIDR request; queue pair 0 is a refusal. */
static int
answer_request(struct id *id, uint32_t qp, const void *data, uint8_t len)
{
	struct one_msg msg = {.type = ONE_MSG_SIDR_ANSWER};
	int error;

	if (len > ONE_SIDR_PRIVATE_REP)
		return -refused_range("private_data_len", len, 0, ONE_SIDR_PRIVATE_REP);
	msg.sidr_answer.sidr = id->cr;
	msg.sidr_answer.qp = qp;
	msg.sidr_answer.private_len = len;
	if (len != 0)
		memcpy(msg.sidr_answer.private_data, data, len);
	error = verbs_cm_call(id->device->verbs, &msg, NULL);
	if (error == 0)
		id->cr = 0;
	return error;
}

int
udp_reject(struct id *id, const void *data, uint8_t len)
{
	return answer_request(id, 0, data, len);
}

int
udp_accept(struct id *id, const struct rdma_conn_param *param)
{
	if (id->base.qp == NULL)
		return refused_because(-EOPNOTSUPP, /* the QPN of a queue pair without an id is unsupported */
				       "id->qp = 0: the id needs a UD queue pair; rdma_create_qp first");
	return param != NULL ? answer_request(id, verbs_cm_id(id->base.qp), param->private_data,
					      param->private_data_len)
			     : answer_request(id, verbs_cm_id(id->base.qp), NULL, 0);
}

/* ---- events ---- */

/* Private data is the whole field of the message, because SIDR carries no length of the peer's data. */
void
udp_answered(struct id *id, uint8_t status, const struct one_sidr_shm *shm)
{
	enum rdma_cm_event_type type = status == 0 ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_UNREACHABLE;
	/* The status of a refusal is IBTA's, as in the kernel. */
	struct event *event = event_new(id, type, status == ONE_SIDR_SILENCE ? -ETIMEDOUT : status);
	struct rdma_ud_param *ud;

	if (event != NULL) {
		ud = &event->base.param.ud;
		if (status != ONE_SIDR_SILENCE)
			event_private(event, shm->private_data, shm->private_len, ONE_SIDR_PRIVATE_REQ);
		if (status == 0) {
			ud->qp_num = shm->qpn;
			ud->qkey = shm->qkey;
			ud->ah_attr.is_global = 1;
			ud->ah_attr.port_num = 1;
			ud->ah_attr.grh.hop_limit = 64;
			ud->ah_attr.grh.sgid_index = (uint8_t)id->addr;
			ud->ah_attr.grh.traffic_class = shm->traffic_class;
			gid_of_address(shm->family, shm->remote_addr, &ud->ah_attr.grh.dgid);
		}
		event_put(id, event);
	}
	udp_forget(id);
}

struct event *
udp_requested(struct id *id, const struct one_sidr_shm *shm)
{
	struct event *event = event_new(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0);

	if (event != NULL)
		event_private(event, shm->private_data, shm->private_len, ONE_SIDR_PRIVATE_REQ);
	return event;
}
