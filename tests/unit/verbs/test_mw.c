/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory windows and re-registered regions: requests posted, messages sent, and refusals. */
#include <stdlib.h>

#include "fixture.h"

static uint8_t *memory;

static struct ibv_mr *
region(struct fixture *f, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(f->pd, memory, 8192, access);

	assert_non_null(mr);
	return mr;
}

static int
setup(void **state)
{
	memory = aligned_alloc(4096, 8192);
	assert_non_null(memory);
	memset(memory, 1, 8192);
	return fixture_setup(state);
}

static int
teardown(void **state)
{
	int error = fixture_teardown(state);

	free(memory);
	return error;
}

static void
test_bind_type_1(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr *mr = region(f, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mr *plain = region(f, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mw *mw = ibv_alloc_mw(f->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.wr_id = 7,
				   .bind_info = {.mr = mr,
						 .addr = (uintptr_t)memory + 8,
						 .length = 100,
						 .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW}, *bad;
	struct one_wqe wqe;
	struct one_sge sge[ONE_MAX_SGE];
	uint32_t key;

	assert_non_null(mw);
	assert_int_equal(ibv_dealloc_pd(f->pd), EBUSY);
	key = mw->rkey;
	assert_int_equal(ibv_bind_mw(f->qp, mw, &bind), EINVAL); /* a queue pair in RESET cannot send */
	bring(f, IBV_QPS_RTS);
	bind.bind_info.mr = plain;
	assert_int_equal(ibv_bind_mw(f->qp, mw, &bind), EINVAL);
	bind.bind_info.mr = mr;
	bind.bind_info.mw_access_flags = IBV_ACCESS_ON_DEMAND;
	assert_int_equal(ibv_bind_mw(f->qp, mw, &bind), EINVAL);
	bind.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED;
	assert_int_equal(mw->rkey, key);
	assert_int_equal(ibv_bind_mw(f->qp, mw, &bind), 0);
	assert_int_equal(mw->rkey, ibv_inc_rkey(key));
	assert_true(mock_take(f->mock, f->qp_id, false, &wqe, sge));
	assert_int_equal(wqe.op, ONE_OP_BIND);
	assert_int_equal(wqe.cookie, 7);
	assert_int_equal(wqe.rkey, mw->rkey);
	assert_int_equal(wqe.length, ONE_ACCESS_REMOTE_WRITE | ONE_BIND_ZERO_BASED | ONE_BIND_TYPE_1);
	assert_int_equal(sge[0].addr, (uintptr_t)memory + 8);
	assert_int_equal(sge[0].len, 100);
	assert_int_equal(sge[0].lkey, mr->lkey);
	/* IBV_WR_BIND_MW is for windows of type 2 only. */
	wr.bind_mw.mw = mw;
	wr.bind_mw.bind_info = bind.bind_info;
	assert_int_equal(ibv_post_send(f->qp, &wr, &bad), EINVAL);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dereg_mr(plain), 0);
}

static void
test_bind_type_2(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr *mr = region(f, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(f->pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind bind = {0};
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .wr_id = 9}, *bad;
	struct one_cqe cqe = {.cookie = 9, .type = ONE_CQE_BIND, .op = ONE_OP_BIND, .flags = ONE_CQE_NOTIFY};
	struct one_wqe wqe;
	struct ibv_wc wc;

	assert_non_null(mw);
	bring(f, IBV_QPS_RTS);
	assert_int_equal(ibv_bind_mw(f->qp, mw, &bind), EINVAL);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = mw->rkey + 1;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){.mr = mr,
							 .addr = (uintptr_t)memory,
							 .length = 100,
							 .mw_access_flags = IBV_ACCESS_REMOTE_READ};
	assert_int_equal(ibv_post_send(f->qp, &wr, &bad), 0);
	assert_true(mock_take(f->mock, f->qp_id, false, &wqe, NULL));
	assert_int_equal(wqe.rkey, mw->rkey + 1);
	assert_int_equal(wqe.length, ONE_ACCESS_REMOTE_READ | ONE_BIND_TYPE_2);
	cqe.object = f->qp_id;
	assert_true(mock_cqe(f->mock, f->send_id, &cqe));
	assert_int_equal(ibv_poll_cq(f->send_cq, 1, &wc), 1);
	assert_int_equal(wc.opcode, IBV_WC_BIND_MW);
	wr.opcode = IBV_WR_LOCAL_INV;
	wr.invalidate_rkey = mw->rkey + 1;
	assert_int_equal(ibv_post_send(f->qp, &wr, &bad), 0);
	assert_true(mock_take(f->mock, f->qp_id, false, &wqe, NULL));
	assert_int_equal(wqe.op, ONE_OP_BIND);
	assert_int_equal(wqe.rkey, mw->rkey + 1);
	assert_int_equal(wqe.length, ONE_BIND_INVALIDATE);
	cqe.flags |= ONE_CQE_INV;
	assert_true(mock_cqe(f->mock, f->send_id, &cqe));
	assert_int_equal(ibv_poll_cq(f->send_cq, 1, &wc), 1);
	assert_int_equal(wc.opcode, IBV_WC_LOCAL_INV);
	assert_int_equal(wc.wc_flags, 0);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void
test_addresses(void **state)
{
	struct fixture *f = *state;
	struct one_msg msg;
	struct ibv_mr *mr = ibv_reg_mr_iova(f->pd, memory, 8192, 0x7000, IBV_ACCESS_LOCAL_WRITE);

	assert_non_null(mr);
	assert_true(mock_last(f->mock, ONE_MSG_MR_CREATE, &msg));
	assert_int_equal(msg.mr_create.va, (uintptr_t)memory);
	assert_int_equal(msg.mr_create.va + msg.mr_create.shift, 0x7000);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	mr = ibv_reg_mr(f->pd, memory + 8, 8184, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED);
	assert_non_null(mr);
	assert_true(mock_last(f->mock, ONE_MSG_MR_CREATE, &msg));
	assert_int_equal(msg.mr_create.va + msg.mr_create.shift, 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* ibv_rereg_mr() changes the attributes and keeps the keys; a refusal leaves the region unchanged. */
static void
test_rereg(void **state)
{
	struct fixture *f = *state;
	struct ibv_mr *mr = region(f, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_pd *pd = ibv_alloc_pd(f->context);
	uint32_t lkey = mr->lkey, rkey = mr->rkey, id = mr->handle;
	struct one_msg msg;

	assert_non_null(pd);
	assert_int_equal(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE),
			 IBV_REREG_MR_ERR_INPUT);
	mock_refuse(f->mock, ONE_MSG_MR_SWAP, -EBUSY, ONE_SUBJECT_MW, 5, 1);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EBUSY);
	assert_ptr_equal(mr->pd, f->pd);
	assert_int_equal(ibv_rereg_mr(mr,
				      IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS |
					      IBV_REREG_MR_CHANGE_TRANSLATION,
				      pd, memory + 16, 100, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ),
			 0);
	assert_true(mock_last(f->mock, ONE_MSG_MR_SWAP, &msg));
	assert_int_equal(msg.mr_swap.mr, id);
	assert_int_equal(msg.mr_swap.other, mr->handle);
	assert_true(mock_last(f->mock, ONE_MSG_MR_FREE, &msg));
	assert_int_equal(msg.id.id, id);
	assert_int_equal(mr->lkey, lkey);
	assert_int_equal(mr->rkey, rkey);
	assert_ptr_equal(mr->addr, memory + 16);
	assert_int_equal(mr->length, 100);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

#define W(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		W(test_bind_type_1),
		W(test_bind_type_2),
		W(test_addresses),
		W(test_rereg),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
