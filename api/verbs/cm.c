/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls for librdmacm: connect queue pairs through the CM of the data plane. */
#include "verbs/cm.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "client/explain.h"
#include "verbs/refused.h"
#include "verbs/device.h"
#include "verbs/event.h"
#include "verbs/qp.h"

#define NO_CHANNEL 0     /* no thread sleeps on word 0: wake-ups arrive through the descriptor only */
#define CM_ENTRIES 4096u /* events not yet read; further connection requests are refused */

int
verbs_cm_open(struct ibv_context *base, struct verbs_cm *cm)
{
	struct context *context = context_of(base);
	uint32_t entries = context->info->limits.max_cq_entries;
	int error;

	if (entries > CM_ENTRIES)
		entries = CM_ENTRIES;
	error = one_cq_create(context->client, entries, &cm->ring);
	if (error != 0)
		return error;
	error = channel_open(context, &cm->ring.descriptor, &cm->fd);
	if (error != 0)
		one_cq_free(&cm->ring);
	else
		one_wait_arm(&cm->ring, NO_CHANNEL, 1);
	return error;
}

int
verbs_cm_refuse_absent(int error, int attach_error)
{
	const char *path = one_socket_path(NULL);

	if (attach_error == 0)
		return refused_because(
			error,
			"ports = 0: the connection to the data plane at %s is lost, or it has no port; see its log",
			path);
	return refused_because(error, "ports = 0: no attachment to the data plane at %s: %s; %s", path,
			       one_attach_reason(attach_error), one_attach_remedy(attach_error));
}

int
verbs_cm_call(struct ibv_context *base, struct one_msg *msg, struct one_reply *reply)
{
	return one_call(context_of(base)->client, msg, NULL, 0, reply);
}

int
verbs_cm_next(struct verbs_cm *cm, struct one_cqe *cqe)
{
	uint32_t ring;

	if (one_cq_poll(&cm->ring, cqe) != 0)
		return 1;
	while (recv(cm->fd, &ring, sizeof(ring), MSG_DONTWAIT) > 0)
		;
	one_wait_arm(&cm->ring, NO_CHANNEL, 1);
	return one_cq_poll(&cm->ring, cqe);
}

const struct one_welcome *
verbs_cm_info(struct ibv_context *base)
{
	return context_of(base)->info;
}

const struct one_port_addr *
verbs_cm_addrs(struct ibv_context *base, uint32_t *num)
{
	*num = context_of(base)->num_addrs;
	return context_of(base)->addr;
}

const void *
verbs_cm_at(struct ibv_context *base, uint64_t offset, uint64_t size)
{
	return one_client_span(context_of(base)->client, offset, size);
}

/* ---- queue pairs ---- */

int
verbs_cm_prepare(struct ibv_qp *base, const struct verbs_cm *cm, uint32_t depth_in, uint32_t depth_out,
		 const struct one_conn_param *asked, const struct one_qp_shm **shm)
{
	struct qp *qp = TO(qp, base);
	struct one_msg msg = {.type = ONE_MSG_QP_MODIFY};
	int error;

	msg.qp_modify.qp = qp->ring.id;
	msg.qp_modify.to = qp->create;
	msg.qp_modify.to.conn_cq = cm->ring.id;
	msg.qp_modify.to.flags |= ONE_QP_TIMEWAIT;
	if (depth_in < msg.qp_modify.to.rd_atomic_in)
		msg.qp_modify.to.rd_atomic_in = depth_in;
	if (depth_out < msg.qp_modify.to.rd_atomic_out)
		msg.qp_modify.to.rd_atomic_out = depth_out;
	error = one_call(qp->ring.client, &msg, NULL, 0, NULL);
	if (error == 0 && (asked->given & ONE_CONN_ACK_TIMEOUT) != 0)
		qp->attr.timeout = asked->ack_timeout;
	*shm = qp->ring.shm;
	return error;
}

void
verbs_cm_connected(struct ibv_qp *base, uint32_t peer_qpn)
{
	struct qp *qp = TO(qp, base);

	qp_set_peer(qp, peer_qpn);
	/* Relaxed: is_shown() acquires the shared state, which orders the values that are shown. */
	atomic_store_explicit(&qp->by_cm, true, memory_order_relaxed);
	atomic_store_explicit(&qp->state, IBV_QPS_RTS, memory_order_relaxed);
	base->state = IBV_QPS_RTS;
}

uint32_t
verbs_cm_id(const struct ibv_qp *qp)
{
	return ((const struct qp *)(const void *)qp)->ring.id;
}

/* ---- queue pairs that the application moves to RTR and RTS ---- */

int
verbs_cm_expect(struct ibv_context *base, uint32_t peer_qpn, uint32_t *psn)
{
	struct context *context = context_of(base);
	struct expected *peer = malloc(sizeof(*peer));
	static _Atomic uint32_t last;

	if (peer == NULL)
		return -ENOMEM;
	*psn = (atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1) & 0xffffff;
	peer->qpn = peer_qpn;
	peer->psn = *psn;
	pthread_mutex_lock(&context->lock);
	peer->next = context->expected;
	context->expected = peer;
	pthread_mutex_unlock(&context->lock);
	return 0;
}

void
verbs_cm_expect_no_more(struct ibv_context *base, uint32_t psn)
{
	struct context *context = context_of(base);
	struct expected **link = &context->expected, *peer;

	pthread_mutex_lock(&context->lock);
	while ((peer = *link) != NULL && peer->psn != psn)
		link = &peer->next;
	if (peer != NULL)
		*link = peer->next;
	pthread_mutex_unlock(&context->lock);
	free(peer);
}

struct ibv_qp *
verbs_cm_find(struct ibv_context *base, uint32_t qpn)
{
	struct context *context = context_of(base);

	for (uint32_t i = 0; i < ONE_QPS_MAX; i++) {
		const struct qp_name *qp = atomic_load_explicit(&context->qps[i], memory_order_relaxed);

		if (qp != NULL && qp->qpn == qpn)
			return qp->element.object;
	}
	return NULL;
}

uint32_t
verbs_cm_access(const struct ibv_qp *qp)
{
	return mem_remote_access(((const struct qp *)(const void *)qp)->attr.qp_access_flags);
}

void
verbs_cm_path(struct ibv_context *base, uint32_t index, const uint8_t addr[16], struct ibv_qp_attr *attr)
{
	const struct context *context = context_of(base);

	gid_of_address(context->addr[index].family, addr, &attr->ah_attr.grh.dgid);
	attr->ah_attr.is_global = 1;
	attr->ah_attr.port_num = VERBS_PORT;
	attr->ah_attr.grh.sgid_index = (uint8_t)index;
	attr->ah_attr.grh.hop_limit = 64;
	attr->path_mtu = device_mtu_code(context->info->mtu);
}
