/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagrams: states of UD queue pairs, address handles, requests and completions. */
#include <arpa/inet.h>

#include "fixture.h"

#define QKEY 0x11111111u

static struct ibv_qp *qp; /* replaces the fixture's, which is RC */
static uint32_t qp_id;

static int
setup(void **state)
{
	struct ibv_qp_init_attr init;
	struct fixture *f;

	fixture_setup(state);
	f = *state;
	init = default_init(f);
	init.qp_type = IBV_QPT_UD;
	qp = ibv_create_qp(f->pd, &init);
	assert_non_null(qp);
	qp_id = mock_newest(f->mock, ONE_MSG_QP_CREATE);
	return 0;
}

static int
teardown(void **state)
{
	assert_int_equal(ibv_destroy_qp(qp), 0);
	return fixture_teardown(state);
}

/* ---- states ---- */

static int
good(enum ibv_qp_state to, struct ibv_qp_attr *attr)
{
	*attr = (struct ibv_qp_attr){.qp_state = to, .port_num = 1, .qkey = QKEY, .sq_psn = 88};
	switch (to) {
	case IBV_QPS_INIT:
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
	case IBV_QPS_RTS:
		return IBV_QP_STATE | IBV_QP_SQ_PSN;
	default:
		return IBV_QP_STATE;
	}
}

static void
go(enum ibv_qp_state to)
{
	bring_qp(qp, good, to);
}

static void
test_pairs(void **state)
{
	check_pairs(qp, good);
}

static void
test_masks(void **state)
{
	static const int optional[] = {
		[IBV_QPS_RTR] = IBV_QP_PKEY_INDEX | IBV_QP_QKEY,
		[IBV_QPS_RTS] = IBV_QP_CUR_STATE | IBV_QP_QKEY,
	};

	check_masks(qp, good, optional, 0);
}

static void
test_values(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct one_msg msg;
	int mask = good(IBV_QPS_INIT, &attr);

	attr.qkey = 0x80010000; /* a privileged Q_Key */
	assert_int_equal(ibv_modify_qp(qp, &attr, mask), EPERM);
	good(IBV_QPS_INIT, &attr);
	attr.pkey_index = 1;
	assert_int_equal(ibv_modify_qp(qp, &attr, mask), EINVAL);
	go(IBV_QPS_RTR);
	assert_true(mock_last(f->mock, ONE_MSG_QP_DATAGRAM, &msg));
	assert_int_equal(msg.qp_datagram.qp, qp_id);
	assert_int_equal(msg.qp_datagram.state, ONE_DATAGRAM_RTR);
	assert_int_equal(msg.qp_datagram.qkey, QKEY);
	mask = good(IBV_QPS_RTS, &attr);
	assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
	assert_true(mock_last(f->mock, ONE_MSG_QP_DATAGRAM, &msg));
	assert_int_equal(msg.qp_datagram.state, ONE_DATAGRAM_RTS);
	assert_int_equal(msg.qp_datagram.qkey, QKEY);
	assert_int_equal(msg.qp_datagram.send_psn, 88);
	attr.qkey = 5;
	attr.cur_qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_CUR_STATE | IBV_QP_QKEY), EINVAL);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_QKEY), 0);
	assert_int_equal(ibv_query_qp(qp, &attr, 0, &init), 0);
	assert_int_equal(attr.qkey, 5);
	assert_int_equal(attr.sq_psn, 88);
	assert_int_equal(init.qp_type, IBV_QPT_UD);
	attr.qp_state = IBV_QPS_SQD;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	assert_true(mock_last(f->mock, ONE_MSG_QP_SET, &msg));
	assert_int_equal(msg.qp_set.to.given, ONE_QP_SET_STOPPED);
	assert_int_equal(msg.qp_set.to.stopped, 1);
	attr.qkey = 6;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_QKEY), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), 0);
	assert_true(mock_last(f->mock, ONE_MSG_QP_SET, &msg));
	assert_int_equal(msg.qp_set.to.stopped, 0);
}

/* ---- address handles ---- */

static struct ibv_ah_attr
to_peer(void)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};

	attr.grh.hop_limit = 7;
	attr.grh.traffic_class = 0x28;
	attr.grh.flow_label = 0x12345;
	memcpy(attr.grh.dgid.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\x00\x02\x02", 16);
	return attr;
}

static struct ibv_ah *
ah_new(struct fixture *f)
{
	struct ibv_ah_attr attr = to_peer();
	struct ibv_ah *ah = ibv_create_ah(f->pd, &attr);

	assert_non_null(ah);
	return ah;
}

static void
test_handles(void **state)
{
	struct fixture *f = *state;
	struct ibv_device_attr device;
	struct ibv_ah_attr attr;
	struct one_msg msg;
	struct ibv_ah *ah = ah_new(f);

	assert_true(mock_last(f->mock, ONE_MSG_AH_CREATE, &msg));
	assert_memory_equal(msg.ah_create.addr, "\xc0\x00\x02\x02", 4);
	assert_int_equal(msg.ah_create.hop_limit, 7);
	assert_int_equal(msg.ah_create.traffic_class, 0x28);
	assert_int_equal(msg.ah_create.flow_label, 0x12345);
	assert_int_equal(ibv_dealloc_pd(f->pd), EBUSY);
	assert_int_equal(ibv_destroy_ah(ah), 0);
#define REFUSED(field, value) \
	attr = to_peer();     \
	attr.field = value;   \
	assert_errno(ibv_create_ah(f->pd, &attr), EINVAL)
	REFUSED(is_global, 0);
	REFUSED(port_num, 2);
	REFUSED(grh.sgid_index, 1);
	REFUSED(grh.dgid.raw[0], 0xfe);
#undef REFUSED
	attr = to_peer();
	mock_refuse(f->mock, ONE_MSG_AH_CREATE, -EHOSTUNREACH, ONE_SUBJECT_ADDRESS, 0, 1);
	assert_errno(ibv_create_ah(f->pd, &attr), ETIMEDOUT);
	mock_refuse(f->mock, ONE_MSG_AH_CREATE, -EDQUOT, ONE_SUBJECT_QUOTA, 5, 1);
	assert_errno(ibv_create_ah(f->pd, &attr), ENOMEM);
	assert_int_equal(ibv_query_device(f->context, &device), 0);
	assert_int_equal(device.max_ah, (int)mock_welcome(f->mock)->limits.max_ah);
}

/* An address handle is made from a receive's completion and header. */
static void
test_way_back(void **state)
{
	static const uint8_t header[20] = {0x45, 0x2b, 0,   80, 0, 0, 0x40, 0, 63, 17,
					   0,    0,    192, 0,  2, 9, 192,  0, 2,  1};
	struct fixture *f = *state;
	struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
	struct ibv_ah_attr attr;
	struct one_msg msg;
	struct ibv_ah *ah;
	union {
		struct ibv_grh grh;
		uint8_t bytes[40];
	} in = {.bytes = {0}};

	memcpy(in.bytes + 20, header, sizeof(header));
	assert_int_equal(ibv_init_ah_from_wc(f->context, 1, &wc, &in.grh, &attr), 0);
	assert_int_equal(attr.is_global, 1);
	assert_int_equal(attr.grh.sgid_index, 0);
	assert_int_equal(attr.grh.hop_limit, 63);
	assert_int_equal(attr.grh.traffic_class, 0x28); /* without ECN */
	assert_memory_equal(attr.grh.dgid.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\x00\x02\x09", 16);
	ah = ibv_create_ah_from_wc(f->pd, &wc, &in.grh, 1);
	assert_non_null(ah);
	assert_true(mock_last(f->mock, ONE_MSG_AH_CREATE, &msg));
	assert_memory_equal(msg.ah_create.addr, "\xc0\x00\x02\x09", 4);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	/* Refused: a destination that is not ours, another port, no IP header, no GRH. */
	in.bytes[39] = 5;
	assert_int_equal(ibv_init_ah_from_wc(f->context, 1, &wc, &in.grh, &attr), -1);
	in.bytes[39] = 1;
	assert_int_equal(ibv_init_ah_from_wc(f->context, 2, &wc, &in.grh, &attr), -1);
	in.bytes[20] = 0;
	assert_int_equal(ibv_init_ah_from_wc(f->context, 1, &wc, &in.grh, &attr), -1);
	in.bytes[20] = 0x45;
	wc.wc_flags = 0;
	assert_errno(ibv_create_ah_from_wc(f->pd, &wc, &in.grh, 1), EINVAL);
}

/* ---- requests and completions ---- */

static void
test_send(void **state)
{
	struct fixture *f = *state;
	struct ibv_ah *ah = ah_new(f);
	struct ibv_sge sge = {.length = 0};
	struct ibv_send_wr wr = {.wr_id = 9,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED},
			   *bad;
	struct one_sge posted[ONE_MAX_SGE];
	struct one_wqe wqe;

	wr.imm_data = htonl(77);
	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = 0x4321;
	wr.wr.ud.remote_qkey = QKEY;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL); /* the state is RESET */
	go(IBV_QPS_RTS);
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	assert_true(mock_take(f->mock, qp_id, false, &wqe, posted));
	assert_int_equal(wqe.op, ONE_OP_SEND_IMM);
	assert_int_equal(wqe.imm, htonl(77));
	assert_int_equal(wqe.flags, ONE_WQE_SOLICITED);
	assert_int_equal(wqe.remote_addr, one_ud_to(ah->handle, 0x4321));
	assert_int_equal(wqe.rkey, QKEY);
	wr.wr.ud.ah = NULL;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	wr.wr.ud.ah = ah;
	wr.opcode = IBV_WR_RDMA_WRITE;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), EINVAL);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void
test_new_send(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp_init_attr_ex init = {.send_cq = f->send_cq,
					   .recv_cq = f->recv_cq,
					   .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1},
					   .qp_type = IBV_QPT_UD,
					   .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					   .pd = f->pd,
					   .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE};
	struct one_sge posted[ONE_MAX_SGE];
	struct ibv_ah *ah = ah_new(f);
	struct ibv_qp_ex *ex;
	struct one_wqe wqe;

	assert_errno(ibv_create_qp_ex(f->context, &init), EOPNOTSUPP);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	init.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
	qp = ibv_create_qp_ex(f->context, &init);
	assert_non_null(qp);
	qp_id = mock_newest(f->mock, ONE_MSG_QP_CREATE);
	go(IBV_QPS_RTS);
	ex = ibv_qp_to_qp_ex(qp);
	ibv_wr_start(ex);
	ex->wr_id = 5;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	ibv_wr_set_ud_addr(ex, ah, 0x4321, QKEY);
	ibv_wr_set_inline_data(ex, "hello", 5);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_true(mock_take(f->mock, qp_id, false, &wqe, posted));
	assert_int_equal(wqe.remote_addr, one_ud_to(ah->handle, 0x4321));
	assert_int_equal(wqe.rkey, QKEY);
	assert_memory_equal(wqe.inline_data, "hello", 5);
	/* A request without an address: none of the batch is posted. */
	ibv_wr_start(ex);
	ibv_wr_send(ex);
	ibv_wr_set_inline_data(ex, "hello", 5);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	assert_int_equal(mock_posted(f->mock, qp_id, false), 0);
	ibv_wr_start(ex);
	ibv_wr_set_ud_addr(ex, ah, 1, 2);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

/* Posts a receive, completes it with `cqe`, and polls the completion. */
static struct ibv_wc
receive_datagram(struct fixture *f, const struct one_cqe *cqe)
{
	struct ibv_recv_wr wr = {.wr_id = 9}, *bad;
	struct ibv_wc wc;

	assert_int_equal(ibv_post_recv(qp, &wr, &bad), 0);
	assert_true(mock_cqe(f->mock, f->recv_id, cqe));
	while (ibv_poll_cq(f->recv_cq, 1, &wc) == 0)
		;
	return wc;
}

static void
test_receive(void **state)
{
	struct fixture *f = *state;
	struct one_cqe cqe = {.cookie = 9,
			      .object = qp_id,
			      .length = 48,
			      .imm = htonl(7),
			      .type = ONE_CQE_RECV,
			      .op = ONE_OP_RECV,
			      .flags = ONE_CQE_NOTIFY | ONE_CQE_GRH | ONE_CQE_IMM,
			      .src_qpn = 0xabcdef};
	struct ibv_wc wc;

	go(IBV_QPS_INIT);
	wc = receive_datagram(f, &cqe);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, 48);
	assert_int_equal(wc.src_qp, 0xabcdef);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(wc.imm_data, htonl(7));
	assert_int_equal(wc.slid, 0);
	/* UCX reads from the service level where in the 40 bytes the destination is: 1 is IPv6, 2 IPv4. */
	assert_int_equal(wc.sl, 1);
	cqe.flags |= ONE_CQE_IPV4;
	assert_int_equal(receive_datagram(f, &cqe).sl, 2);
}

#define U(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		U(test_pairs),    U(test_masks), U(test_values),   U(test_handles),
		U(test_way_back), U(test_send),  U(test_new_send), U(test_receive),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
