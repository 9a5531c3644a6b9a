/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The states of a queue pair for datagrams (IBTA vol. 1, 10.3.1).  A request that fails takes it to ERR:
 * there is no SQE.
 */
#include "verbs/qp/qp.h"

static const struct transition transitions[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
	{IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
	{IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
	{IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY},
	{IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
	{IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
	{IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
	{IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
};

int
ud_check_transition(enum ibv_qp_state from, enum ibv_qp_state to, int mask)
{
	return qp_check_transition(transitions, sizeof(transitions) / sizeof(transitions[0]), from, to, mask);
}

static int
request(struct qp *qp, enum ibv_qp_state to, const struct ibv_qp_attr *attr, int mask)
{
	struct one_msg msg = {.type = ONE_MSG_QP_DATAGRAM};
	int error;

	msg.qp_datagram.qp = qp->ring.id;
	msg.qp_datagram.state = to == IBV_QPS_RTR ? ONE_DATAGRAM_RTR : ONE_DATAGRAM_RTS;
	msg.qp_datagram.qkey = (mask & IBV_QP_QKEY) != 0 ? attr->qkey : qp->attr.qkey;
	msg.qp_datagram.send_psn = ((mask & IBV_QP_SQ_PSN) != 0 ? attr->sq_psn : qp->attr.sq_psn) & 0xffffff;
	error = one_call(qp->ring.client, &msg, NULL, 0, NULL);
	return error == -ENOTCONN ? EINVAL : -error;
}

int
ud_move(struct qp *qp, enum ibv_qp_state from, enum ibv_qp_state to, const struct ibv_qp_attr *attr, int mask)
{
	struct one_qp_settings settings = {0};
	int error;

	switch (to) {
	case IBV_QPS_RESET:
		return from == IBV_QPS_RESET ? 0 : qp_to_reset(qp);
	case IBV_QPS_ERR:
		return qp_to_error(qp);
	case IBV_QPS_RTR:
	case IBV_QPS_RTS:
	case IBV_QPS_SQD:
		error = request(qp, to, attr, mask);
		qp_set_stopped(from, to, attr, mask, &settings);
		return error != 0 ? error : qp_set(qp, &settings);
	default:
		return 0;
	}
}
