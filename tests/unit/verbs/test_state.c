/* SPDX-License-Identifier: BSD-3-Clause */
/* modify_qp: each pair of states, each attribute missing or superfluous, and bad values. */
#include "fixture.h"

static void
test_pairs(void **state)
{
	struct fixture *f = *state;

	check_pairs(f->qp, good_attr);
}

static void
test_masks(void **state)
{
	static const int optional[] = {
		[IBV_QPS_RTR] = IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX,
		[IBV_QPS_RTS] = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER,
	};
	struct fixture *f = *state;

	/* Path migration has an error of its own: test_values. */
	check_masks(f->qp, good_attr, optional, IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE);
}

static void
test_values(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp_attr attr;
	int mask;

#define REFUSED(to, field, value, error) \
	mask = good_attr(to, &attr);     \
	attr.field = value;              \
	assert_int_equal(ibv_modify_qp(f->qp, &attr, mask), error)
	REFUSED(IBV_QPS_INIT, port_num, 2, EINVAL);
	REFUSED(IBV_QPS_INIT, pkey_index, 1, EINVAL);
	REFUSED(IBV_QPS_INIT, qp_access_flags, 1 << 20, EINVAL);
	bring(f, IBV_QPS_INIT);
	REFUSED(IBV_QPS_RTR, ah_attr.is_global, 0, EINVAL);
	REFUSED(IBV_QPS_RTR, ah_attr.port_num, 2, EINVAL);
	REFUSED(IBV_QPS_RTR, ah_attr.grh.sgid_index, 1, EINVAL);
	REFUSED(IBV_QPS_RTR, ah_attr.grh.dgid.raw[0], 0xfe, EINVAL); /* IPv6, but the port has IPv4 */
	REFUSED(IBV_QPS_RTR, path_mtu, IBV_MTU_2048, EINVAL);        /* the port has 1024 */
	REFUSED(IBV_QPS_RTR, path_mtu, 0, EINVAL);
	REFUSED(IBV_QPS_RTR, dest_qp_num, 0x1000000, EINVAL);
	REFUSED(IBV_QPS_RTR, max_dest_rd_atomic, 255, EINVAL);
	REFUSED(IBV_QPS_RTR, min_rnr_timer, 32, EINVAL);
	assert_int_equal(mock_count(f->mock, ONE_MSG_QP_RTR), 0);
	/* The data plane's refusal is reported. */
	mask = good_attr(IBV_QPS_RTR, &attr);
	mock_refuse(f->mock, ONE_MSG_QP_RTR, -EHOSTUNREACH, ONE_SUBJECT_ADDRESS, 0, 1);
	assert_int_equal(ibv_modify_qp(f->qp, &attr, mask), ETIMEDOUT);
	assert_int_equal(state_of(f->qp), IBV_QPS_INIT);
	assert_int_equal(ibv_modify_qp(f->qp, &attr, mask), 0);
	REFUSED(IBV_QPS_RTS, timeout, 32, EINVAL);
	REFUSED(IBV_QPS_RTS, retry_cnt, 8, EINVAL);
	REFUSED(IBV_QPS_RTS, rnr_retry, 8, EINVAL);
	REFUSED(IBV_QPS_RTS, max_rd_atomic, 255, EINVAL);
#undef REFUSED
	mask = good_attr(IBV_QPS_RTS, &attr);
	attr.cur_qp_state = IBV_QPS_INIT;
	assert_int_equal(ibv_modify_qp(f->qp, &attr, mask | IBV_QP_CUR_STATE), EINVAL);
	attr.cur_qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(f->qp, &attr, mask | IBV_QP_CUR_STATE), 0);
	/* Path migration is unsupported. */
	attr.path_mig_state = IBV_MIG_REARM;
	assert_int_equal(ibv_modify_qp(f->qp, &attr, IBV_QP_PATH_MIG_STATE), EOPNOTSUPP);
	assert_int_equal(state_of(f->qp), IBV_QPS_RTS);
}

/* Attributes that change in RTS. */
static void
test_settings(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp_attr attr = {.qp_access_flags = IBV_ACCESS_REMOTE_ATOMIC, .min_rnr_timer = 9};
	struct ibv_qp_init_attr init;
	struct one_msg msg;

	bring(f, IBV_QPS_RTS);
	assert_int_equal(ibv_modify_qp(f->qp, &attr, IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER), 0);
	assert_true(mock_last(f->mock, ONE_MSG_QP_SET, &msg));
	assert_int_equal(msg.qp_set.qp, f->qp_id);
	assert_int_equal(msg.qp_set.to.given, ONE_QP_SET_ACCESS | ONE_QP_SET_MIN_RNR_TIMER);
	assert_int_equal(msg.qp_set.to.access, ONE_ACCESS_REMOTE_ATOMIC);
	assert_int_equal(msg.qp_set.to.min_rnr_timer, 9);
	assert_int_equal(ibv_query_qp(f->qp, &attr, 0, &init), 0);
	assert_int_equal(attr.qp_access_flags, IBV_ACCESS_REMOTE_ATOMIC);
	assert_int_equal(attr.sq_draining, 0);
	/* SQD drains until the data plane reports that no request is outstanding. */
	attr.qp_state = IBV_QPS_SQD;
	attr.en_sqd_async_notify = 1;
	assert_int_equal(ibv_modify_qp(f->qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	assert_true(mock_last(f->mock, ONE_MSG_QP_SET, &msg));
	assert_int_equal(msg.qp_set.to.given, ONE_QP_SET_STOPPED);
	assert_int_equal(msg.qp_set.to.stopped, 1);
	assert_int_equal(msg.qp_set.to.notify, 1);
	assert_int_equal(ibv_query_qp(f->qp, &attr, 0, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_SQD);
	assert_int_equal(attr.sq_draining, 1);
	assert_int_equal(f->qp->state, IBV_QPS_SQD);
	/* Other attributes that SQD allows to change can only be set to their present values. */
	assert_int_equal(ibv_modify_qp(f->qp, &attr, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_AV), 0);
	attr.timeout++;
	assert_int_equal(ibv_modify_qp(f->qp, &attr, IBV_QP_TIMEOUT), EOPNOTSUPP);
	attr.ah_attr.grh.dgid.raw[15]++;
	assert_int_equal(ibv_modify_qp(f->qp, &attr, IBV_QP_AV), EOPNOTSUPP);
	attr.qp_state = IBV_QPS_RTS;
	attr.cur_qp_state = IBV_QPS_SQD;
	assert_int_equal(ibv_modify_qp(f->qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
	assert_true(mock_last(f->mock, ONE_MSG_QP_SET, &msg));
	assert_int_equal(msg.qp_set.to.given, ONE_QP_SET_STOPPED);
	assert_int_equal(msg.qp_set.to.stopped, 0);
	assert_int_equal(state_of(f->qp), IBV_QPS_RTS);
	mock_refuse(f->mock, ONE_MSG_QP_SET, -ENOTCONN, ONE_SUBJECT_QP, 0, 1);
	attr.qp_state = IBV_QPS_SQD;
	assert_int_equal(ibv_modify_qp(f->qp, &attr, IBV_QP_STATE), EINVAL);
	assert_int_equal(state_of(f->qp), IBV_QPS_RTS);
}

/* The data plane receives the values of the call. */
static void
test_requests(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct one_msg msg;
	int mask;

	bring(f, IBV_QPS_INIT);
	mask = good_attr(IBV_QPS_RTR, &attr);
	attr.ah_attr.grh.traffic_class = 106;
	attr.ah_attr.grh.flow_label = 0x12345;
	attr.ah_attr.grh.hop_limit = 3;
	attr.path_mtu = IBV_MTU_512;
	assert_int_equal(ibv_modify_qp(f->qp, &attr, mask), 0);
	assert_true(mock_last(f->mock, ONE_MSG_QP_RTR, &msg));
	assert_int_equal(msg.qp_rtr.qp, f->qp_id);
	assert_int_equal(msg.qp_rtr.peer_qpn, 0x4321);
	assert_int_equal(msg.qp_rtr.recv_psn, 77);
	assert_int_equal(msg.qp_rtr.access, ONE_ACCESS_REMOTE_WRITE | ONE_ACCESS_REMOTE_READ);
	assert_int_equal(msg.qp_rtr.path_mtu, 512);
	assert_memory_equal(msg.qp_rtr.addr, "\xc0\x00\x02\x02", 4);
	assert_int_equal(msg.qp_rtr.traffic_class, 106);
	assert_int_equal(msg.qp_rtr.flow_label, 0x12345);
	assert_int_equal(msg.qp_rtr.hop_limit, 3);
	assert_int_equal(msg.qp_rtr.min_rnr_timer, 12);
	mask = good_attr(IBV_QPS_RTS, &attr);
	assert_int_equal(ibv_modify_qp(f->qp, &attr, mask), 0);
	assert_true(mock_last(f->mock, ONE_MSG_QP_RTS, &msg));
	assert_int_equal(msg.qp_rts.send_psn, 88);
	assert_int_equal(msg.qp_rts.timeout, 14);
	assert_int_equal(msg.qp_rts.retry_count, 7);
	assert_int_equal(msg.qp_rts.rnr_retry, 6);
	/* A query returns the same values. */
	assert_int_equal(ibv_query_qp(f->qp, &attr, 0, &init), 0);
	assert_int_equal(attr.dest_qp_num, 0x4321);
	assert_int_equal(attr.path_mtu, IBV_MTU_512);
	assert_int_equal(attr.sq_psn, 88);
	assert_int_equal(attr.cap.max_send_wr, 8);
	assert_ptr_equal(init.send_cq, f->send_cq);
	/* The state is ERR once the data plane finds an error. */
	mock_qp_state(f->mock, f->qp_id, ONE_QP_ERROR);
	assert_int_equal(state_of(f->qp), IBV_QPS_ERR);
	bring(f, IBV_QPS_RESET);
}

/* The data plane moves a queue pair to ERR: qp->state follows when a query requests the state. */
static void
test_query_of_broken(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	bring(f, IBV_QPS_RTS);
	mock_qp_state(f->mock, f->qp_id, ONE_QP_ERROR);
	assert_int_equal(ibv_query_qp(f->qp, &attr, IBV_QP_AV | IBV_QP_DEST_QPN, &init), 0);
	assert_int_equal(f->qp->state, IBV_QPS_RTS);
	assert_int_equal(ibv_query_qp(f->qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(f->qp->state, IBV_QPS_ERR);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {T(test_pairs),    T(test_masks),    T(test_values),
					   T(test_requests), T(test_settings), T(test_query_of_broken)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
