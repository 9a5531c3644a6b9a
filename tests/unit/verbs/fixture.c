/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <time.h>

struct ibv_qp_init_attr
default_init(struct fixture *f)
{
	return (struct ibv_qp_init_attr){
		.send_cq = f->send_cq,
		.recv_cq = f->recv_cq,
		.cap = {.max_send_wr = 8,
			.max_recv_wr = 8,
			.max_send_sge = 4,
			.max_recv_sge = 2,
			.max_inline_data = 100},
		.qp_type = IBV_QPT_RC,
	};
}

int
fixture_setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct ibv_qp_init_attr init;
	struct ibv_device **list;
	int num = 0;

	assert_non_null(f);
	f->mock = mock_start();
	mock_welcome(f->mock)->family = AF_INET;
	memcpy(mock_welcome(f->mock)->addr, "\xc0\x00\x02\x01", 4);
	mock_welcome(f->mock)->mtu = 1024;
	list = ibv_get_device_list(&num);
	assert_non_null(list);
	assert_int_equal(num, 1);
	f->context = ibv_open_device(list[0]);
	assert_non_null(f->context);
	ibv_free_device_list(list);
	f->pd = ibv_alloc_pd(f->context);
	assert_non_null(f->pd);
	f->channel = ibv_create_comp_channel(f->context);
	assert_non_null(f->channel);
	f->send_cq = ibv_create_cq(f->context, 10, f, f->channel, 0);
	f->send_id = mock_newest(f->mock, ONE_MSG_CQ_CREATE);
	f->recv_cq = ibv_create_cq(f->context, 10, NULL, f->channel, 0);
	f->recv_id = mock_newest(f->mock, ONE_MSG_CQ_CREATE);
	assert_non_null(f->send_cq);
	assert_non_null(f->recv_cq);
	init = default_init(f);
	f->qp = ibv_create_qp(f->pd, &init);
	assert_non_null(f->qp);
	f->qp_id = mock_newest(f->mock, ONE_MSG_QP_CREATE);
	*state = f;
	return 0;
}

int
fixture_teardown(void **state)
{
	struct fixture *f = *state;

	if (f->qp != NULL)
		assert_int_equal(ibv_destroy_qp(f->qp), 0);
	assert_int_equal(ibv_destroy_cq(f->send_cq), 0);
	assert_int_equal(ibv_destroy_cq(f->recv_cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(f->channel), 0);
	assert_int_equal(ibv_dealloc_pd(f->pd), 0);
	assert_int_equal(ibv_close_device(f->context), 0);
	while (mock_attached(f->mock) > 0) {
		struct timespec moment = {.tv_nsec = 1000000};

		nanosleep(&moment, NULL);
	}
	mock_stop(f->mock);
	free(f);
	return 0;
}

int
good_attr(enum ibv_qp_state state, struct ibv_qp_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->qp_state = state;
	switch (state) {
	case IBV_QPS_INIT:
		attr->port_num = 1;
		attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
		return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	case IBV_QPS_RTR:
		attr->path_mtu = IBV_MTU_1024;
		attr->dest_qp_num = 0x4321;
		attr->rq_psn = 77;
		attr->max_dest_rd_atomic = 1;
		attr->min_rnr_timer = 12;
		attr->ah_attr.is_global = 1;
		attr->ah_attr.port_num = 1;
		memcpy(attr->ah_attr.grh.dgid.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\x00\x02\x02", 16);
		return IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	case IBV_QPS_RTS:
		attr->timeout = 14;
		attr->retry_cnt = 7;
		attr->rnr_retry = 6;
		attr->sq_psn = 88;
		attr->max_rd_atomic = 1;
		return IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		       IBV_QP_MAX_QP_RD_ATOMIC;
	default:
		return IBV_QP_STATE;
	}
}

enum ibv_qp_state
state_of(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

void
bring_qp(struct ibv_qp *qp, good_fn *good, enum ibv_qp_state state)
{
	struct ibv_qp_attr attr;
	int mask;

	for (enum ibv_qp_state step = IBV_QPS_INIT; step <= state && step <= IBV_QPS_RTS; step++) {
		mask = good(step, &attr);
		assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
	}
	if (state > IBV_QPS_RTS || state == IBV_QPS_RESET) {
		mask = good(state, &attr);
		assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
	}
}

void
bring(struct fixture *f, enum ibv_qp_state state)
{
	bring_qp(f->qp, good_attr, state);
}

static const enum ibv_qp_state states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
					   IBV_QPS_RTS,   IBV_QPS_SQD,  IBV_QPS_ERR};
#define STATES 6

void
check_pairs(struct ibv_qp *qp, good_fn *good)
{
	/* rows: from; columns: to */
	static const int expected[STATES][STATES] = {
		{0, 0, EINVAL, EINVAL, EINVAL, 0}, {0, 0, 0, EINVAL, EINVAL, 0},
		{0, EINVAL, EINVAL, 0, EINVAL, 0}, {0, EINVAL, EINVAL, EINVAL, 0, 0},
		{0, EINVAL, EINVAL, EINVAL, 0, 0}, {0, EINVAL, EINVAL, EINVAL, EINVAL, 0},
	};

	for (int from = 0; from < STATES; from++) {
		for (int to = 0; to < STATES; to++) {
			struct ibv_qp_attr attr;
			int mask = good(states[to], &attr);

			bring_qp(qp, good, states[from]);
			assert_int_equal(state_of(qp), states[from]);
			assert_int_equal(ibv_modify_qp(qp, &attr, mask), expected[from][to]);
			assert_int_equal(state_of(qp), states[expected[from][to] == 0 ? to : from]);
			bring_qp(qp, good, IBV_QPS_RESET);
		}
	}
}

void
check_masks(struct ibv_qp *qp, good_fn *good, const int optional[IBV_QPS_RTS + 1], int skip)
{
	for (enum ibv_qp_state to = IBV_QPS_INIT; to <= IBV_QPS_RTS; to++) {
		for (int bit = IBV_QP_CUR_STATE; bit <= IBV_QP_RATE_LIMIT; bit <<= 1) {
			bool allowed = (optional[to] & bit) != 0;
			struct ibv_qp_attr attr;
			int mask = good(to, &attr);

			if ((skip & bit) != 0)
				continue;
			bring_qp(qp, good, to - 1);
			attr.cur_qp_state = to - 1;
			assert_int_equal(ibv_modify_qp(qp, &attr, mask ^ bit), allowed ? 0 : EINVAL);
			assert_int_equal(state_of(qp), allowed ? to : to - 1);
			bring_qp(qp, good, IBV_QPS_RESET);
		}
	}
}

void
receive(struct fixture *f, uint64_t cookie, uint8_t flags)
{
	const struct one_cqe cqe = {.cookie = cookie,
				    .length = 5,
				    .object = f->qp_id,
				    .type = ONE_CQE_RECV,
				    .flags = ONE_CQE_NOTIFY | flags,
				    .op = ONE_OP_RECV};

	assert_true(mock_cqe(f->mock, f->recv_id, &cqe));
}
