/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "verbs_side.h"

#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

struct end {
	union ibv_gid gid;
	uint32_t qpn;
	uint32_t reserved;
};

static void
modify(struct verbs_side *s, struct ibv_qp_attr *attr, int mask)
{
	int error = ibv_modify_qp(s->qp, attr, mask);

	CHECK(s->pair, error == 0, "ibv_modify_qp to state %d: %s", attr->qp_state, strerror(error));
}

static void
connect_to(struct verbs_side *s, const struct end *peer)
{
	struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = peer->gid, .hop_limit = 64}}};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};

	modify(s, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	modify(s, &rtr,
	       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	modify(s, &rts,
	       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		       IBV_QP_MAX_QP_RD_ATOMIC);
	pair_barrier(s->pair);
}

void
verbs_side_start(struct verbs_side *s, struct pair *pair)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1}};
	struct end own = {.reserved = 0}, peer;

	s->pair = pair;
	CHECK(pair, devices != NULL && devices[0] != NULL, "no device");
	s->context = ibv_open_device(devices[0]);
	CHECK(pair, s->context != NULL, "ibv_open_device: %s", strerror(errno));
	ibv_free_device_list(devices);
	s->pd = ibv_alloc_pd(s->context);
	s->cq = ibv_create_cq(s->context, 64, NULL, NULL, 0);
	attr.send_cq = attr.recv_cq = s->cq;
	s->qp = ibv_create_qp(s->pd, &attr);
	CHECK(pair, s->qp != NULL, "ibv_create_qp: %s", strerror(errno));
	CHECK(pair, ibv_query_gid(s->context, 1, 0, &own.gid) == 0, "ibv_query_gid");
	own.qpn = s->qp->qp_num;
	pair_send(pair, &own, sizeof(own));
	pair_recv(pair, &peer, sizeof(peer));
	connect_to(s, &peer);
}

void
verbs_side_close(struct verbs_side *s)
{
	CHECK(s->pair, ibv_destroy_qp(s->qp) == 0 && ibv_destroy_cq(s->cq) == 0,
	      "queues cannot be destroyed");
	CHECK(s->pair, ibv_dealloc_pd(s->pd) == 0, "ibv_dealloc_pd");
	ibv_close_device(s->context);
}

struct ibv_mr *
verbs_register(struct verbs_side *s, void *at, size_t length)
{
	struct ibv_mr *mr = ibv_reg_mr(s->pd, at, length, ACCESS);

	CHECK(s->pair, mr != NULL, "ibv_reg_mr of %zu bytes: %s", length, strerror(errno));
	return mr;
}

void
verbs_offer(struct verbs_side *s, const struct ibv_mr *mr)
{
	const struct verbs_remote remote = {.address = (uintptr_t)mr->addr, .key = mr->rkey};

	pair_send(s->pair, &remote, sizeof(remote));
}

struct verbs_remote
verbs_take(struct verbs_side *s)
{
	struct verbs_remote remote;

	pair_recv(s->pair, &remote, sizeof(remote));
	return remote;
}

void
verbs_complete(struct verbs_side *s, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;
	int n;

	do {
		n = ibv_poll_cq(s->cq, 1, &wc);
		if (n == 0)
			sched_yield();
	} while (n == 0);
	CHECK(s->pair, n == 1 && wc.status == IBV_WC_SUCCESS, "completion: %s", ibv_wc_status_str(wc.status));
	CHECK(s->pair, wc.opcode == opcode, "completion of %d, not %d", wc.opcode, opcode);
}

void
verbs_do(struct verbs_side *s, enum ibv_wr_opcode opcode, const struct ibv_mr *mr, void *at, size_t length,
	 const struct verbs_remote *remote, uint64_t offset)
{
	struct ibv_sge sge = {.addr = (uintptr_t)at, .length = (uint32_t)length, .lkey = mr->lkey};
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	int error;

	if (opcode != IBV_WR_SEND) {
		wr.wr.rdma.remote_addr = remote->address + offset;
		wr.wr.rdma.rkey = remote->key;
	}
	error = ibv_post_send(s->qp, &wr, &bad);
	CHECK(s->pair, error == 0, "ibv_post_send: %s", strerror(error));
	verbs_complete(s, opcode == IBV_WR_SEND        ? IBV_WC_SEND
			  : opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ
						       : IBV_WC_RDMA_WRITE);
}

void
verbs_receive(struct verbs_side *s, const struct ibv_mr *mr, void *at, size_t length)
{
	struct ibv_sge sge = {.addr = (uintptr_t)at, .length = (uint32_t)length, .lkey = mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	int error = ibv_post_recv(s->qp, &wr, &bad);

	CHECK(s->pair, error == 0, "ibv_post_recv: %s", strerror(error));
}
