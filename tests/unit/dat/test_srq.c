/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues. */
#include <errno.h>
#include <sched.h>

#include "fixture.h"

static const DAT_SRQ_ATTR usual = {
	.max_recv_dtos = 10, .max_recv_iov = 4, .low_watermark = DAT_SRQ_LW_DEFAULT};

struct bench {
	struct fixture *f;
	DAT_SRQ_HANDLE srq;
	uint32_t id;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT context;
	uint8_t *memory;
};

static void
register_in(struct bench *b, DAT_PZ_HANDLE pz, DAT_MEM_PRIV_FLAGS priv, DAT_LMR_HANDLE *lmr,
	    DAT_LMR_CONTEXT *context)
{
	DAT_REGION_DESCRIPTION region = {.for_va = b->memory};
	DAT_RMR_CONTEXT rmr;
	DAT_VLEN size;
	DAT_VADDR at;

	assert_ok(dat_lmr_create(b->f->ia, DAT_MEM_TYPE_VIRTUAL, region, 8192, pz, priv, lmr, context, &rmr,
				 &size, &at));
}

static struct bench
set_up(void **state)
{
	struct bench b = {.f = *state};
	DAT_SRQ_ATTR attr = usual;

	b.memory = malloc(8192);
	assert_non_null(b.memory);
	register_in(&b, b.f->pz, DAT_MEM_PRIV_LOCAL_WRITE_FLAG, &b.lmr, &b.context);
	assert_ok(dat_srq_create(b.f->ia, b.f->pz, &attr, &b.srq));
	b.id = mock_newest(b.f->mock, ONE_MSG_SRQ_CREATE);
	return b;
}

static void
tear_down(struct bench *b)
{
	assert_ok(dat_srq_free(b->srq));
	assert_ok(dat_lmr_free(b->lmr));
	free(b->memory);
}

static DAT_EP_HANDLE
ep_on(struct bench *b, uint32_t *qp)
{
	DAT_EP_ATTR attr;
	DAT_EP_HANDLE ep;

	default_attr(&attr);
	assert_ok(dat_ep_create_with_srq(b->f->ia, b->f->pz, b->f->recv, b->f->dto, b->f->conn, b->srq, &attr,
					 &ep));
	*qp = mock_newest(b->f->mock, ONE_MSG_QP_CREATE);
	return ep;
}

static DAT_RETURN
post(struct bench *b, DAT_COUNT pieces, uint64_t cookie)
{
	DAT_LMR_TRIPLET iov[8];

	for (int i = 0; i < 8; i++)
		iov[i] = (DAT_LMR_TRIPLET){.lmr_context = b->context,
					   .virtual_address = (uintptr_t)b->memory + (DAT_VADDR)i * 100,
					   .segment_length = 10 + (DAT_VLEN)i};
	return dat_srq_post_recv(b->srq, pieces, iov, (DAT_DTO_COOKIE){.as_64 = cookie});
}

static DAT_SRQ_PARAM
query(DAT_SRQ_HANDLE srq)
{
	DAT_SRQ_PARAM param;

	assert_ok(dat_srq_query(srq, DAT_SRQ_FIELD_ALL, &param));
	return param;
}

static void
assert_counts(DAT_SRQ_HANDLE srq, DAT_COUNT available, DAT_COUNT outstanding)
{
	DAT_SRQ_PARAM param = query(srq);

	assert_int_equal(param.available_dto_count, available);
	assert_int_equal(param.outstanding_dto_count, outstanding);
	/* The mask says which fields are required; others may be filled in, too. */
	assert_ok(dat_srq_query(srq, 0, &param));
	assert_int_equal(param.outstanding_dto_count, outstanding);
}

static void
creation(void **state)
{
	struct fixture *f = *state;
	DAT_SRQ_ATTR attr = usual;
	DAT_PROVIDER_ATTR provider;
	DAT_HANDLE_TYPE type;
	DAT_SRQ_HANDLE srq;
	DAT_SRQ_PARAM param;
	DAT_PZ_HANDLE pz;
	DAT_IA_ATTR ia;

	assert_ok(dat_ia_query(f->ia, NULL, DAT_IA_FIELD_ALL, &ia, DAT_PROVIDER_FIELD_ALL, &provider));
	assert_int_equal(provider.srq_supported, DAT_TRUE);
	assert_int_equal(provider.srq_watermarks_supported, 0x001);
	assert_int_equal(provider.srq_ep_pz_difference_supported, DAT_FALSE);
	assert_int_equal(provider.srq_info_supported, 0x11);
	assert_int_equal(provider.ep_recv_info_supported, 0x11);
	assert_int_equal(ia.max_srqs, mock_welcome(f->mock)->limits.max_srq);
	assert_int_equal(ia.max_recv_per_srq, mock_welcome(f->mock)->limits.max_srq_wr);
	assert_int_equal(ia.max_ep_per_srq, ia.max_eps);

	for (size_t i = 0; i < num_not_handles; i++) {
		assert_ret(dat_srq_create(not_handles[i], f->pz, &attr, &srq), BAD_HANDLE(IA));
		assert_ret(dat_srq_create(f->ia, not_handles[i], &attr, &srq), BAD_HANDLE(PZ));
	}
	assert_ret(dat_srq_create(f->ia, f->pz, NULL, &srq), BAD_ARG(3));
	assert_ret(dat_srq_create(f->ia, f->pz, &attr, NULL), BAD_ARG(4));
#define REFUSED(field, value)                                                      \
	do {                                                                       \
		attr = usual;                                                      \
		attr.field = (value);                                              \
		assert_ret(dat_srq_create(f->ia, f->pz, &attr, &srq), BAD_ARG(3)); \
	} while (0)
	REFUSED(max_recv_dtos, 0);
	REFUSED(max_recv_dtos, -1);
	REFUSED(max_recv_dtos, ia.max_recv_per_srq + 1);
	REFUSED(max_recv_iov, 0);
	REFUSED(max_recv_iov, ia.max_iov_segments_per_dto + 1);
	REFUSED(low_watermark, 1);
	attr = usual;
	assert_ok(dat_pz_create(f->ia, &pz));
	assert_ok(dat_srq_create(f->ia, pz, &attr, &srq));
	assert_ok(dat_get_handle_type(srq, &type));
	assert_int_equal(type, DAT_HANDLE_TYPE_SRQ);
	param = query(srq);
	assert_ptr_equal(param.ia_handle, f->ia);
	assert_ptr_equal(param.pz_handle, pz);
	assert_int_equal(param.srq_state, DAT_SRQ_STATE_OPERATIONAL);
	assert_int_equal(param.max_recv_dtos, 10);
	assert_int_equal(param.max_recv_iov, 4);
	assert_int_equal(param.low_watermark, DAT_SRQ_LW_DEFAULT);
	assert_counts(srq, 0, 0);
	assert_ret(dat_pz_free(pz), BAD_STATE(PZ_IN_USE));
	assert_ret(dat_ia_close(f->ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	assert_ok(dat_srq_free(srq));
	assert_ret(dat_srq_free(srq), BAD_HANDLE(SRQ));
	assert_ok(dat_pz_free(pz));
	/* Without memory for the longest queue, the queue has the requested length; without memory for that,
	 * creation fails. */
	mock_refuse(f->mock, ONE_MSG_SRQ_CREATE, -ENOSPC, ONE_SUBJECT_QUOTA, 0, 1);
	assert_ok(dat_srq_create(f->ia, f->pz, &attr, &srq));
	assert_ret(dat_srq_resize(srq, 11), ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ));
	assert_ok(dat_srq_resize(srq, 9));
	assert_ok(dat_srq_free(srq));
	mock_refuse(f->mock, ONE_MSG_SRQ_CREATE, -EDQUOT, ONE_SUBJECT_QUOTA, 0, 2);
	assert_ret(dat_srq_create(f->ia, f->pz, &attr, &srq),
		   ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_SRQ));
	/* Closing frees remaining queues. */
	assert_ok(dat_srq_create(f->ia, f->pz, &attr, &srq));
}

static void
bad_handles(void **state)
{
	struct fixture *f = *state;
	DAT_DTO_COOKIE cookie = {.as_64 = 1};
	DAT_SRQ_PARAM param;
	DAT_EP_ATTR attr;
	DAT_EP_HANDLE ep;

	default_attr(&attr);
	for (size_t i = 0; i < num_not_handles + 1; i++) {
		DAT_HANDLE h = i < num_not_handles ? not_handles[i] : f->dto;

		assert_ret(dat_srq_free(h), BAD_HANDLE(SRQ));
		assert_ret(dat_srq_post_recv(h, 0, NULL, cookie), BAD_HANDLE(SRQ));
		assert_ret(dat_srq_query(h, DAT_SRQ_FIELD_ALL, &param), BAD_HANDLE(SRQ));
		assert_ret(dat_srq_resize(h, 1), BAD_HANDLE(SRQ));
		assert_ret(dat_srq_set_lw(h, 1), BAD_HANDLE(SRQ));
		assert_ret(dat_ep_create_with_srq(f->ia, f->pz, f->recv, f->dto, f->conn, h, &attr, &ep),
			   BAD_HANDLE(SRQ));
	}
}

static void
posting(void **state)
{
	struct bench b = set_up(state);
	DAT_DTO_COOKIE cookie = {.as_64 = 1};
	struct one_sge sge[ONE_MAX_SGE];
	DAT_LMR_CONTEXT other, readable;
	DAT_LMR_HANDLE lmr[2];
	DAT_LMR_TRIPLET iov;
	struct one_wqe wqe;
	DAT_PZ_HANDLE pz;
	uint32_t qp;
	DAT_EP_HANDLE ep = ep_on(&b, &qp);

	assert_ok(post(&b, 4, 77));
	assert_ok(post(&b, 0, 78));
	assert_true(mock_srq_take(b.f->mock, b.id, qp, &wqe, sge));
	assert_int_equal(wqe.op, ONE_OP_RECV);
	assert_int_equal(wqe.cookie, 77);
	assert_int_equal(wqe.flags, 0);
	assert_int_equal(wqe.num_sge, 4);
	assert_int_equal(wqe.length, 10 + 11 + 12 + 13);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(sge[i].addr, (uintptr_t)b.memory + i * 100);
		assert_int_equal(sge[i].len, 10 + i);
		assert_int_equal(sge[i].lkey, b.context);
	}
	mock_srq_complete(b.f->mock, b.id, qp, &wqe, ONE_STATUS_SUCCESS);
	take(b.f->recv);
	assert_true(mock_srq_take(b.f->mock, b.id, qp, &wqe, sge));
	assert_int_equal(wqe.num_sge, 0);
	mock_srq_complete(b.f->mock, b.id, qp, &wqe, ONE_STATUS_SUCCESS);
	take(b.f->recv);

	assert_ret(post(&b, 5, 1), BAD_ARG(2));
	assert_ret(post(&b, -1, 1), BAD_ARG(2));
	assert_ret(dat_srq_post_recv(b.srq, 1, NULL, cookie), BAD_ARG(3));
	assert_ok(dat_pz_create(b.f->ia, &pz));
	register_in(&b, pz, DAT_MEM_PRIV_LOCAL_WRITE_FLAG, &lmr[0], &other);
	register_in(&b, b.f->pz, DAT_MEM_PRIV_LOCAL_READ_FLAG, &lmr[1], &readable);
	iov = (DAT_LMR_TRIPLET){
		.lmr_context = other, .virtual_address = (uintptr_t)b.memory, .segment_length = 8};
	assert_ret(dat_srq_post_recv(b.srq, 1, &iov, cookie),
		   ERROR(DAT_PROTECTION_VIOLATION, DAT_PROTECTION_WRITE));
	iov.lmr_context = readable;
	assert_ret(dat_srq_post_recv(b.srq, 1, &iov, cookie),
		   ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE));
	iov.lmr_context = b.context;
	iov.segment_length = 8193;
	assert_ret(dat_srq_post_recv(b.srq, 1, &iov, cookie), BAD_ARG(3));
	iov.segment_length = UINT64_MAX;
	assert_ret(dat_srq_post_recv(b.srq, 1, &iov, cookie), BAD_ARG(3));
	assert_int_equal(query(b.srq).available_dto_count, 0);

	/* A full queue has room again when a receive completes; over many laps of the ring. */
	for (uint64_t i = 0; i < 10; i++)
		assert_ok(post(&b, 4, i));
	for (uint64_t i = 0; i < 20000; i++) {
		assert_ret(post(&b, 4, 0), ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_CREDITS));
		assert_true(mock_srq_take(b.f->mock, b.id, qp, &wqe, sge));
		assert_int_equal(wqe.cookie, i);
		assert_ret(post(&b, 4, 0), ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_CREDITS));
		mock_srq_complete(b.f->mock, b.id, qp, &wqe, ONE_STATUS_SUCCESS);
		assert_int_equal(take(b.f->recv).event_data.dto_completion_event_data.user_cookie.as_64, i);
		assert_ok(post(&b, 4, i + 10));
	}
	assert_ok(dat_ep_free(ep));
	assert_ok(dat_lmr_free(lmr[0]));
	assert_ok(dat_lmr_free(lmr[1]));
	assert_ok(dat_pz_free(pz));
	tear_down(&b);
}

/* The example of the specification, and an endpoint freed with an unread completion. */
static void
counts(void **state)
{
	struct bench b = set_up(state);
	struct one_wqe wqe;
	DAT_COUNT n, span;
	DAT_EVENT event;
	uint32_t qp;
	DAT_EP_HANDLE ep = ep_on(&b, &qp);
	DAT_SRQ_PARAM param;
	DAT_BOOLEAN idle;

	for (uint64_t i = 0; i < 3; i++)
		assert_ok(post(&b, 1, i));
	assert_counts(b.srq, 3, 3);
	assert_true(mock_srq_take(b.f->mock, b.id, qp, &wqe, NULL));
	assert_counts(b.srq, 2, 3);
	assert_ok(dat_ep_recv_query(ep, &n, &span));
	assert_int_equal(n, 1);
	assert_int_equal(span, 1);
	assert_ok(dat_ep_get_status(ep, NULL, &idle, NULL));
	assert_int_equal(idle, DAT_FALSE);
	mock_srq_complete(b.f->mock, b.id, qp, &wqe, ONE_STATUS_SUCCESS);
	assert_counts(b.srq, 2, 3);
	assert_ok(dat_ep_recv_query(ep, &n, &span));
	assert_int_equal(n, 0);
	assert_int_equal(span, 0);
	event = take(b.f->recv);
	assert_ptr_equal(event.event_data.dto_completion_event_data.ep_handle, ep);
	assert_int_equal(event.event_data.dto_completion_event_data.user_cookie.as_64, 0);
	assert_counts(b.srq, 2, 2);
	assert_true(mock_srq_take(b.f->mock, b.id, qp, &wqe, NULL));
	mock_srq_complete(b.f->mock, b.id, qp, &wqe, ONE_STATUS_SUCCESS);
	assert_counts(b.srq, 1, 2);
	assert_ret(dat_srq_resize(b.srq, 1), BAD_STATE(SRQ_IN_USE));
	assert_ok(dat_ep_free(ep));
	assert_counts(b.srq, 1, 1);
	assert_ret(dat_srq_query(b.srq, DAT_SRQ_FIELD_ALL, NULL), BAD_ARG(3));
	assert_ret(dat_srq_query(b.srq, (DAT_SRQ_PARAM_MASK)0x100, &param), BAD_ARG(2));
	tear_down(&b);
}

static void
endpoints(void **state)
{
	struct bench b = set_up(state);
	DAT_HANDLE none = DAT_HANDLE_NULL;
	DAT_DTO_COOKIE cookie = {.as_64 = 1};
	struct fixture *f = b.f;
	DAT_EP_HANDLE ep, plain;
	struct one_msg msg;
	DAT_EP_PARAM param;
	DAT_EP_ATTR attr;
	DAT_PZ_HANDLE pz;
	uint32_t qp;

	default_attr(&attr);
	assert_ok(dat_pz_create(f->ia, &pz));
	assert_ret(dat_ep_create_with_srq(none, f->pz, f->recv, f->dto, f->conn, b.srq, &attr, &ep),
		   BAD_HANDLE(IA));
	assert_ret(dat_ep_create_with_srq(f->ia, f->dto, f->recv, f->dto, f->conn, b.srq, &attr, &ep),
		   BAD_HANDLE(PZ));
	assert_ret(dat_ep_create_with_srq(f->ia, pz, f->recv, f->dto, f->conn, b.srq, &attr, &ep),
		   BAD_ARG(2));
	assert_ret(dat_ep_create_with_srq(f->ia, none, f->recv, f->dto, f->conn, b.srq, &attr, &ep),
		   BAD_ARG(2));
	assert_ret(dat_ep_create_with_srq(f->ia, f->pz, f->conn, f->dto, f->conn, b.srq, &attr, &ep),
		   BAD_HANDLE(EVD_RECV));
	assert_ret(dat_ep_create_with_srq(f->ia, f->pz, f->recv, f->conn, f->conn, b.srq, &attr, &ep),
		   BAD_HANDLE(EVD_REQUEST));
	assert_ret(dat_ep_create_with_srq(f->ia, f->pz, f->recv, f->dto, f->dto, b.srq, &attr, &ep),
		   BAD_HANDLE(EVD_CONN));
	assert_ret(dat_ep_create_with_srq(f->ia, f->pz, f->recv, f->dto, f->conn, b.srq, NULL, &ep),
		   BAD_ARG(7));
	assert_ret(dat_ep_create_with_srq(f->ia, f->pz, f->recv, f->dto, f->conn, b.srq, &attr, NULL),
		   BAD_ARG(8));
	attr.max_request_dtos = -1;
	assert_ret(dat_ep_create_with_srq(f->ia, f->pz, f->recv, f->dto, f->conn, b.srq, &attr, &ep),
		   BAD_ARG(7));
	default_attr(&attr);
	attr.max_recv_iov = 10000; /* ignored */
	attr.max_recv_dtos = 0;
	assert_ok(dat_ep_create_with_srq(f->ia, f->pz, f->recv, f->dto, f->conn, b.srq, &attr, &ep));
	assert_true(mock_last(f->mock, ONE_MSG_QP_CREATE, &msg));
	assert_int_equal(msg.qp_create.srq, b.id);
	assert_int_equal(msg.qp_create.max_recv_wr, 0);
	assert_ok(dat_ep_query(ep, DAT_EP_FIELD_ALL, &param));
	assert_ptr_equal(param.srq_handle, b.srq);
	/* Receives cannot be posted to the endpoint, which keeps its queue and zone. */
	assert_ret(dat_ep_post_recv(ep, 0, NULL, cookie, 0), BAD_ARG(1));
	param.pz_handle = pz;
	assert_ret(dat_ep_modify(ep, DAT_EP_FIELD_PZ_HANDLE, &param), BAD_ARG(3));
	param.ep_attr.max_request_dtos = 20;
	assert_ok(dat_ep_modify(ep, DAT_EP_FIELD_EP_ATTR_MAX_REQUEST_DTOS, &param));
	assert_true(mock_last(f->mock, ONE_MSG_QP_CREATE, &msg));
	assert_int_equal(msg.qp_create.srq, b.id);
	assert_int_equal(msg.qp_create.max_send_wr, 20);
	assert_ret(dat_srq_free(b.srq), BAD_STATE(SRQ_IN_USE));
	plain = make_ep(f, &qp);
	assert_ok(dat_ep_query(plain, DAT_EP_FIELD_ALL, &param));
	assert_null(param.srq_handle);
	assert_ok(dat_ep_free(plain));
	assert_ok(dat_ep_free(ep));
	assert_ok(dat_pz_free(pz));
	tear_down(&b);
}

static void
watermark(void **state)
{
	struct bench b = set_up(state);
	struct one_cqe cqe = {.type = ONE_CQE_ASYNC, .status = ONE_ASYNC_SRQ_LIMIT, .object = b.id};
	DAT_ASYNCH_ERROR_EVENT_DATA *data;
	struct one_msg msg;
	DAT_EVENT event;

	assert_ret(dat_srq_set_lw(b.srq, -1), BAD_ARG(2));
	assert_ret(dat_srq_set_lw(b.srq, 11), BAD_ARG(2));
	assert_ok(dat_srq_set_lw(b.srq, 10));
	assert_true(mock_last(b.f->mock, ONE_MSG_SRQ_LIMIT, &msg));
	assert_int_equal(msg.srq_limit.srq, b.id);
	assert_int_equal(msg.srq_limit.limit, 10);
	assert_int_equal(query(b.srq).low_watermark, 10);
	assert_ret(dat_srq_resize(b.srq, 9), BAD_STATE(SRQ_IN_USE));
	assert_ret(dat_srq_resize(b.srq, 0), BAD_ARG(2));
	assert_ret(dat_srq_resize(b.srq, 1 << 30), BAD_ARG(2));
	assert_ok(dat_srq_resize(b.srq, 12));
	assert_int_equal(query(b.srq).max_recv_dtos, 12);
	assert_ok(dat_srq_set_lw(b.srq, 11));
	assert_true(mock_cqe(b.f->mock, mock_async_cq(b.f->mock), &cqe));
	event = expect_event(b.f->async, DAT_ASYNC_ERROR_PROVIDER_INTERNAL_ERROR);
	data = &event.event_data.asynch_error_event_data;
	assert_ptr_equal(data->dat_handle, b.srq);
	assert_int_equal(data->reason, DAT_SRQ_LOW_WATERMARK_EVENT);
	for (uint64_t i = 0; i < 12; i++)
		assert_ok(post(&b, 1, i));
	assert_ret(post(&b, 1, 0), ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_CREDITS));
	tear_down(&b);
	/* An event of a freed queue is dropped. */
	assert_true(mock_cqe(((struct fixture *)*state)->mock,
			     mock_async_cq(((struct fixture *)*state)->mock), &cqe));
	expect_empty(((struct fixture *)*state)->async);
}

static void
lost(void **state)
{
	struct bench b = set_up(state);
	uint32_t qp;
	DAT_EP_HANDLE ep = ep_on(&b, &qp);
	DAT_EVENT event = {0};

	assert_ok(post(&b, 1, 1));
	mock_kill(b.f->mock);
	while (dat_evd_dequeue(b.f->async, &event) == DAT_QUEUE_EMPTY)
		sched_yield();
	assert_int_equal(event.event_number, DAT_ASYNC_ERROR_IA_CATASTROPHIC);
	assert_int_equal(query(b.srq).srq_state, DAT_SRQ_STATE_ERROR);
	assert_ok(dat_ep_free(ep));
	tear_down(&b);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(creation),  TEST(bad_handles), TEST(posting), TEST(counts),
		TEST(endpoints), TEST(watermark),   TEST(lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
