/* SPDX-License-Identifier: BSD-3-Clause */
/* A verbs program on a hostile data plane: malformed replies, completions and events of missing objects, and
 * anything in the arena. Results may be nonsense, but the program's memory stays intact. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "liar.h"

#define CQS 3u
#define QPS 4u /* two RC, one with the SRQ, one UD */
#define MEMORY 4096u
#define POLLED 4

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq[CQS]; /* the last is polled by the extended calls */
static struct ibv_srq *srq;
static struct ibv_qp *qp[QPS];
static struct ibv_mr *mr;
static struct ibv_mw *mw;
static struct ibv_ah *ah;
static uint8_t *memory;

/* ---- objects ---- */

static void
open_device(void)
{
	int num = 0;
	struct ibv_device **list = ibv_get_device_list(&num);

	for (int i = 0; list != NULL && i < num; i++)
		if (strlen(ibv_get_device_name(list[i])) >= IBV_SYSFS_NAME_MAX)
			fuzz_fail("a device without a name");
	if (list != NULL && list[num] != NULL)
		fuzz_fail("a list without an end");
	context = num > 0 ? ibv_open_device(list[0]) : NULL;
	ibv_free_device_list(list);
}

static struct ibv_qp *
qp_new(uint32_t which)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq[which % CQS],
		.recv_cq = cq[1],
		.srq = which == 2 ? srq : NULL,
		.cap = {.max_send_wr = 8,
			.max_recv_wr = which == 2 ? 0 : 8,
			.max_send_sge = 4,
			.max_recv_sge = 2,
			.max_inline_data = which == 1 ? 100 : 20},
		.qp_type = which == 3 ? IBV_QPT_UD : IBV_QPT_RC,
		.sq_sig_all = which == 0,
	};

	return cq[1] != NULL && cq[which % CQS] != NULL ? ibv_create_qp(pd, &attr) : NULL;
}

static void
cqs_new(void)
{
	struct ibv_cq_init_attr_ex attr = {.cqe = 12, .channel = channel, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_cq_ex *ex;

	for (uint32_t i = 0; i + 1 < CQS; i++)
		cq[i] = ibv_create_cq(context, 12, NULL, channel, 0);
	ex = ibv_create_cq_ex(context, &attr);
	cq[CQS - 1] = ex != NULL ? ibv_cq_ex_to_cq(ex) : NULL;
}

static void
set_nonblocking(int fd)
{
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
}

static void
set_up(void)
{
	struct ibv_srq_init_attr attr = {.attr = {.max_wr = 8, .max_sge = 2}};

	memset(cq, 0, sizeof(cq));
	memset(qp, 0, sizeof(qp));
	pd = NULL;
	channel = NULL;
	srq = NULL;
	mr = NULL;
	mw = NULL;
	ah = NULL;
	memory = aligned_alloc(MEMORY, MEMORY);
	if (memory == NULL)
		fuzz_fail("no memory");
	memset(memory, 0, MEMORY);
	open_device();
	if (context == NULL)
		return;
	set_nonblocking(context->async_fd);
	channel = ibv_create_comp_channel(context);
	if (channel != NULL)
		set_nonblocking(channel->fd);
	pd = ibv_alloc_pd(context);
	cqs_new();
	srq = pd != NULL ? ibv_create_srq(pd, &attr) : NULL;
	for (uint32_t i = 0; pd != NULL && i < QPS; i++)
		qp[i] = qp_new(i);
}

/* Destroys all objects, with correct replies again, so that nothing is refused. */
static void
tear_down(void)
{
	struct bytes none = {memory, 0};

	liar_lie(&none);
	for (uint32_t i = 0; i < QPS; i++)
		if (qp[i] != NULL && ibv_destroy_qp(qp[i]) != 0)
			fuzz_fail("a queue pair stays");
	if (ah != NULL)
		ibv_destroy_ah(ah);
	if (mw != NULL)
		ibv_dealloc_mw(mw);
	if (mr != NULL)
		ibv_dereg_mr(mr);
	if (srq != NULL && ibv_destroy_srq(srq) != 0)
		fuzz_fail("a shared receive queue stays");
	for (uint32_t i = 0; i < CQS; i++)
		if (cq[i] != NULL && ibv_destroy_cq(cq[i]) != 0)
			fuzz_fail("a completion queue stays");
	if (channel != NULL && ibv_destroy_comp_channel(channel) != 0)
		fuzz_fail("a channel stays");
	if (pd != NULL && ibv_dealloc_pd(pd) != 0)
		fuzz_fail("a protection domain stays");
	if (context != NULL)
		ibv_close_device(context);
	free(memory);
}

/* ---- what the program does ---- */

static void
fill_ah(struct ibv_ah_attr *attr)
{
	static const uint8_t gid[16] = {[10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = 2};

	attr->is_global = 1;
	attr->port_num = 1;
	memcpy(attr->grh.dgid.raw, gid, sizeof(gid));
}

static void
modify(struct bytes *record)
{
	uint32_t which = (uint32_t)record_number(record, 1) % QPS;
	uint8_t to = (uint8_t)record_number(record, 1) % 7;
	struct ibv_qp_attr attr = {.qp_state = (enum ibv_qp_state)to,
				   .port_num = 1,
				   .qkey = 7,
				   .path_mtu = IBV_MTU_1024,
				   .dest_qp_num = 0x4321,
				   .max_dest_rd_atomic = 1,
				   .min_rnr_timer = 12,
				   .timeout = 14,
				   .retry_cnt = 7,
				   .rnr_retry = 6,
				   .max_rd_atomic = 1};
	static const int rc[] = {0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
				 IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
				 IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					 IBV_QP_MAX_QP_RD_ATOMIC};
	static const int ud[] = {0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0, IBV_QP_SQ_PSN};
	struct ibv_qp_init_attr init;

	if (qp[which] == NULL)
		return;
	fill_ah(&attr.ah_attr);
	ibv_modify_qp(qp[which], &attr, IBV_QP_STATE | (to > 3 ? 0 : which == 3 ? ud[to] : rc[to]));
	ibv_query_qp(qp[which], &attr, IBV_QP_STATE, &init);
}

static void
post_send(struct bytes *record)
{
	uint32_t which = (uint32_t)record_number(record, 1) % QPS;
	uint8_t op = (uint8_t)record_number(record, 1) % 7, how = (uint8_t)record_number(record, 1);
	struct ibv_sge sge[3] = {
		{(uintptr_t)memory, op == 5 || op == 6 ? 8 : how % 64, mr != NULL ? mr->lkey : 1},
		{(uintptr_t)memory + 64, 8, 2},
		{(uintptr_t)memory + 128, 1, 3}};
	struct ibv_send_wr wr = {.wr_id = how, .sg_list = sge, .opcode = (enum ibv_wr_opcode)op}, *bad;

	if (qp[which] == NULL || (which == 3 && ah == NULL))
		return;
	wr.num_sge = op == 5 || op == 6 ? 1 : how >> 6;
	wr.send_flags = (how & 1) != 0 ? IBV_SEND_SIGNALED : IBV_SEND_INLINE;
	if (which == 3) {
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = 0x555;
	} else {
		wr.wr.rdma.remote_addr = 4096;
	}
	ibv_post_send(qp[which], &wr, &bad);
}

static void
post_recv(struct bytes *record)
{
	uint32_t which = (uint32_t)record_number(record, 1) % QPS;
	struct ibv_sge sge[2] = {{(uintptr_t)memory, 512, 1}, {(uintptr_t)memory + 512, 512, 1}};
	struct ibv_recv_wr wr = {.wr_id = which, .sg_list = sge}, *bad;

	wr.num_sge = (int)(record_number(record, 1) % 3);
	if (which == 2 && srq != NULL)
		ibv_post_srq_recv(srq, &wr, &bad);
	else if (qp[which] != NULL)
		ibv_post_recv(qp[which], &wr, &bad);
}

static void
look_at(const struct ibv_wc *wc, int num)
{
	struct ibv_ah_attr attr;

	for (int i = 0; i < num; i++) {
		ibv_wc_status_str(wc[i].status);
		ibv_init_ah_from_wc(context, 1, (struct ibv_wc *)(uintptr_t)&wc[i],
				    (struct ibv_grh *)(void *)memory, &attr);
	}
}

static void
poll_extended(struct ibv_cq *base)
{
	struct ibv_cq_ex *ex = (struct ibv_cq_ex *)(void *)base;
	struct ibv_poll_cq_attr attr = {0};

	if (ibv_start_poll(ex, &attr) != 0)
		return;
	for (int n = 0; n < POLLED; n++) {
		ibv_wc_read_opcode(ex);
		ibv_wc_read_byte_len(ex);
		ibv_wc_read_qp_num(ex);
		ibv_wc_read_wc_flags(ex);
		if (ibv_next_poll(ex) != 0)
			break;
	}
	ibv_end_poll(ex);
}

static void
poll_cq(struct bytes *record)
{
	uint32_t which = (uint32_t)record_number(record, 1);
	struct ibv_wc wc[POLLED];

	if (cq[which % CQS] == NULL)
		return;
	if (which % CQS == CQS - 1 && which >= 0x80) {
		poll_extended(cq[which % CQS]);
		return;
	}
	look_at(wc, ibv_poll_cq(cq[which % CQS], POLLED, wc));
}

static void
events(struct bytes *record)
{
	uint8_t what = (uint8_t)record_number(record, 1);
	struct ibv_async_event event;
	struct ibv_cq *reported;
	void *with;

	if (what % 3 == 0 && ibv_get_async_event(context, &event) == 0) {
		ibv_event_type_str(event.event_type);
		ibv_ack_async_event(&event);
	} else if (what % 3 == 1 && channel != NULL && ibv_get_cq_event(channel, &reported, &with) == 0) {
		ibv_ack_cq_events(reported, 1);
	} else if (what % 3 == 2 && cq[(what >> 2) % CQS] != NULL) {
		ibv_req_notify_cq(cq[(what >> 2) % CQS], what >> 7);
	}
}

static void
memories(struct bytes *record)
{
	uint8_t what = (uint8_t)record_number(record, 1);
	const int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_MW_BIND;
	struct ibv_mw_bind bind = {.bind_info = {.mr = mr, .addr = (uintptr_t)memory, .length = 64}};

	if (pd == NULL)
		return;
	switch (what % 5) {
	case 0:
		if (mr == NULL)
			mr = ibv_reg_mr(pd, memory, MEMORY, all);
		else if (ibv_dereg_mr(mr) == 0)
			mr = NULL;
		break;
	case 1:
		if (mr != NULL)
			ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, pd, memory, MEMORY,
				     all & ~IBV_ACCESS_REMOTE_READ);
		break;
	case 2:
		if (mw == NULL)
			mw = ibv_alloc_mw(pd, (what & 8) != 0 ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1);
		else if (ibv_dealloc_mw(mw) == 0)
			mw = NULL;
		break;
	case 3:
		if (mw != NULL && mr != NULL && qp[0] != NULL)
			ibv_bind_mw(qp[0], mw, &bind);
		break;
	default:
		if (ah == NULL) {
			struct ibv_ah_attr attr = {0};

			fill_ah(&attr);
			ah = ibv_create_ah(pd, &attr);
		} else if (ibv_destroy_ah(ah) == 0) {
			ah = NULL;
		}
		break;
	}
}

static void
others(struct bytes *record)
{
	uint32_t what = (uint32_t)record_number(record, 1), which = (uint32_t)record_number(record, 1);
	struct ibv_srq_attr limit = {.srq_limit = which % 8};
	struct ibv_port_attr port;
	struct ibv_device_attr device;
	union ibv_gid gid;

	switch (what % 6) {
	case 0:
		if (cq[which % CQS] != NULL)
			ibv_resize_cq(cq[which % CQS], 1 + (int)(which >> 2));
		break;
	case 1:
		ibv_query_port(context, 1, &port);
		ibv_query_device(context, &device);
		ibv_query_gid(context, 1, 0, &gid);
		break;
	case 2:
		if (srq != NULL)
			ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT);
		break;
	case 3:
		which %= QPS;
		if (qp[which] != NULL && ibv_destroy_qp(qp[which]) != 0)
			break;
		qp[which] = pd != NULL ? qp_new(which) : NULL;
		break;
	case 4:
		liar.serves = !liar.serves;
		break;
	default:
		liar_serve();
		break;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static liar_kind *const kinds[] = {liar_complete, liar_complete, liar_progress, liar_poke,
					   liar_lie,      liar_announce, modify,        modify,
					   post_send,     post_send,     post_recv,     poll_cq,
					   poll_cq,       events,        memories,      others};
	struct bytes input = {data, size};

	liar_begin();
	liar.serves = true;
	liar_start(&input);
	set_up();
	while (context != NULL && liar_step(&input, kinds, sizeof(kinds) / sizeof(kinds[0])))
		;
	liar_be_patient();
	tear_down();
	liar_end();
	return 0;
}
