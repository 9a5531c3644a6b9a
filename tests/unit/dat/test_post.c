/* SPDX-License-Identifier: BSD-3-Clause */
/* Posting: contents of rings, refusals, and the events of completions. */
#include <errno.h>
#include <pthread.h>

#include "fixture.h"

struct bench {
	struct fixture *f;
	DAT_EP_HANDLE ep;
	uint32_t qp;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_CONTEXT key;
	uint8_t *memory;
};

#define MEMORY 65536u

/* Declared in api/dat/ep.h, whose macros have the names of those of the fixture. */
DAT_RETURN ep_post_atomic(DAT_EP_HANDLE ep_handle, uint8_t op, uint64_t add_or_swap, uint64_t compare,
			  const DAT_LMR_TRIPLET *result, DAT_DTO_COOKIE user_cookie,
			  const DAT_RMR_TRIPLET *remote_iov, DAT_COMPLETION_FLAGS completion_flags);

static struct bench
set_up(void **state)
{
	struct bench b = {.f = *state};
	DAT_REGION_DESCRIPTION desc;

	b.memory = malloc(MEMORY);
	for (uint32_t i = 0; i < MEMORY; i++)
		b.memory[i] = (uint8_t)(i * 7);
	desc.for_va = b.memory;
	assert_ok(dat_lmr_create(b.f->ia, DAT_MEM_TYPE_VIRTUAL, desc, MEMORY, b.f->pz, DAT_MEM_PRIV_ALL_FLAG,
				 &b.lmr, &b.key, NULL, NULL, NULL));
	b.ep = connected_ep(b.f, &b.qp);
	return b;
}

static void
tear_down(struct bench *b)
{
	assert_ok(dat_lmr_free(b->lmr));
	free(b->memory);
}

static DAT_LMR_TRIPLET
piece(const struct bench *b, uint32_t offset, uint64_t length)
{
	return (DAT_LMR_TRIPLET){
		.lmr_context = b->key,
		.pad = 0xdeadbeef,
		.virtual_address = (uintptr_t)b->memory + offset,
		.segment_length = length,
	};
}

static const DAT_DTO_COOKIE cookie = {.as_64 = 0xfedcba9876543210u};

static void
sends(void **state)
{
	struct bench b = set_up(state);
	struct one_sge sge[ONE_MAX_SGE];
	DAT_LMR_TRIPLET iov[4];
	struct one_wqe wqe;

	/* large: by reference, zero-length segments skipped */
	iov[0] = piece(&b, 0, 1000);
	iov[1] = (DAT_LMR_TRIPLET){.lmr_context = 99, .virtual_address = 1, .segment_length = 0};
	iov[2] = piece(&b, 5000, 2);
	iov[3] = piece(&b, 6000, 30);
	assert_ok(dat_ep_post_send(b.ep, 4, iov, cookie, DAT_COMPLETION_SOLICITED_WAIT_FLAG));
	memset(iov, 0xff, sizeof(iov)); /* the caller may reuse the array */
	assert_true(mock_doorbell(b.f->mock, b.qp));
	assert_true(mock_take(b.f->mock, b.qp, false, &wqe, sge));
	assert_int_equal(wqe.op, ONE_OP_SEND);
	assert_int_equal(wqe.flags, ONE_WQE_SOLICITED);
	assert_int_equal(wqe.num_sge, 3);
	assert_int_equal(wqe.length, 1032);
	assert_int_equal(wqe.cookie, cookie.as_64);
	assert_int_equal(sge[1].addr, (uintptr_t)b.memory + 5000);
	assert_int_equal(sge[1].len, 2);
	assert_int_equal(sge[1].lkey, b.key);
	/* small: the bytes are in the request */
	iov[0] = piece(&b, 10, 10);
	iov[1] = piece(&b, 100, 14);
	assert_ok(dat_ep_post_send(b.ep, 2, iov, cookie, DAT_COMPLETION_SOLICITED_WAIT_FLAG));
	assert_true(mock_take(b.f->mock, b.qp, false, &wqe, sge));
	assert_int_equal(wqe.flags, ONE_WQE_INLINE | ONE_WQE_SOLICITED);
	assert_int_equal(wqe.num_sge, 0);
	assert_int_equal(wqe.inline_len, 24);
	assert_int_equal(wqe.length, 24);
	assert_memory_equal(wqe.inline_data, &b.memory[10], 10);
	assert_memory_equal(&wqe.inline_data[10], &b.memory[100], 14);
	/* one byte more is too large for that */
	iov[1] = piece(&b, 100, 15);
	assert_ok(dat_ep_post_send(b.ep, 2, iov, cookie, DAT_COMPLETION_DEFAULT_FLAG));
	assert_true(mock_take(b.f->mock, b.qp, false, &wqe, sge));
	assert_int_equal(wqe.flags, 0);
	assert_int_equal(wqe.num_sge, 2);
	/* no bytes */
	assert_ok(dat_ep_post_send(b.ep, 0, NULL, cookie, DAT_COMPLETION_SUPPRESS_FLAG));
	assert_true(mock_take(b.f->mock, b.qp, false, &wqe, sge));
	assert_int_equal(wqe.length, 0);
	assert_int_equal(wqe.flags, ONE_WQE_INLINE | ONE_WQE_SUPPRESS);
	tear_down(&b);
}

/* An earlier READ may still write the bytes behind a fence, so the request reads them when it starts. */
static void
fenced(void **state)
{
	struct bench b = set_up(state);
	DAT_LMR_TRIPLET iov[2] = {piece(&b, 10, 8), piece(&b, 100, 8)};
	DAT_RMR_TRIPLET remote = {.rmr_context = 1, .segment_length = 16};
	struct one_sge sge[ONE_MAX_SGE];
	struct one_wqe wqe;

	for (DAT_COUNT num = 1; num <= 2; num++) {
		assert_ok(dat_ep_post_send(b.ep, num, iov, cookie, DAT_COMPLETION_BARRIER_FENCE_FLAG));
		assert_ok(dat_ep_post_rdma_write(b.ep, num, iov, cookie, &remote,
						 DAT_COMPLETION_BARRIER_FENCE_FLAG));
		for (int i = 0; i < 2; i++) {
			assert_true(mock_take(b.f->mock, b.qp, false, &wqe, sge));
			assert_int_equal(wqe.flags, ONE_WQE_FENCE);
			assert_int_equal(wqe.num_sge, num);
			assert_int_equal(wqe.length, 8 * num);
			assert_int_equal(sge[0].addr, (uintptr_t)b.memory + 10);
		}
	}
	tear_down(&b);
}

/* Local segments that the consumer may not use: every call returns the reason, and posts nothing. */
static void
local_segments(void **state)
{
	struct bench b = set_up(state);
	DAT_REGION_DESCRIPTION desc = {.for_va = b.memory};
	DAT_RMR_TRIPLET remote = {.rmr_context = 1, .segment_length = 8};
	DAT_LMR_CONTEXT key, read_only;
	DAT_LMR_HANDLE lmr, reader;
	DAT_EP_HANDLE zoneless;
	DAT_PZ_HANDLE pz;

	assert_ok(dat_pz_create(b.f->ia, &pz));
	assert_ok(dat_lmr_create(b.f->ia, DAT_MEM_TYPE_VIRTUAL, desc, MEMORY, pz, DAT_MEM_PRIV_ALL_FLAG, &lmr,
				 &key, NULL, NULL, NULL));
	assert_ok(dat_lmr_create(b.f->ia, DAT_MEM_TYPE_VIRTUAL, desc, MEMORY, b.f->pz,
				 DAT_MEM_PRIV_LOCAL_READ_FLAG, &reader, &read_only, NULL, NULL, NULL));
	const struct {
		DAT_LMR_TRIPLET iov;
		DAT_RETURN source, sink;
	} cases[] = {
		/* an unknown key */
		{{key ^ 0x100, 0, (uintptr_t)b.memory, 8},
		 ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_READ),
		 ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE)},
		/* a key of another zone */
		{{key, 0, (uintptr_t)b.memory, 8},
		 ERROR(DAT_PROTECTION_VIOLATION, DAT_PROTECTION_READ),
		 ERROR(DAT_PROTECTION_VIOLATION, DAT_PROTECTION_WRITE)},
		/* before, beyond, wrapping */
		{{b.key, 0, (uintptr_t)b.memory - 1, 8}, BAD_ARG(3), BAD_ARG(3)},
		{{b.key, 0, (uintptr_t)b.memory + MEMORY - 7, 8}, BAD_ARG(3), BAD_ARG(3)},
		{{b.key, 0, UINT64_MAX - 3, 8}, BAD_ARG(3), BAD_ARG(3)},
		/* readable, not writable */
		{{read_only, 0, (uintptr_t)b.memory, 8},
		 DAT_SUCCESS,
		 ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE)},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		DAT_LMR_TRIPLET iov[2] = {piece(&b, 0, 8), cases[i].iov};

		remote.segment_length = 16;
		assert_ret(dat_ep_post_send(b.ep, 2, iov, cookie, 0), cases[i].source);
		assert_ret(dat_ep_post_rdma_write(b.ep, 2, iov, cookie, &remote, 0), cases[i].source);
		assert_ret(dat_ep_post_rdma_read(b.ep, 2, iov, cookie, &remote, 0), cases[i].sink);
		assert_ret(dat_ep_post_recv(b.ep, 2, iov, cookie, 0), cases[i].sink);
	}
	assert_int_equal(mock_posted(b.f->mock, b.qp, false), 2); /* by the last case */
	assert_int_equal(mock_posted(b.f->mock, b.qp, true), 0);
	/* A receive on an endpoint without a zone is checked when data arrives. */
	assert_ok(dat_ep_create(b.f->ia, DAT_HANDLE_NULL, b.f->recv, b.f->dto, b.f->conn, NULL, &zoneless));
	assert_ok(
		dat_ep_post_recv(zoneless, 1, &(DAT_LMR_TRIPLET){key, 0, (uintptr_t)b.memory, 8}, cookie, 0));
	assert_ok(dat_ep_free(zoneless));
	/* The key of a freed region is unknown. */
	assert_ok(dat_lmr_free(reader));
	assert_ret(dat_ep_post_send(b.ep, 1, &(DAT_LMR_TRIPLET){read_only, 0, (uintptr_t)b.memory, 8}, cookie,
				    0),
		   ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_READ));
	assert_ok(dat_lmr_free(lmr));
	tear_down(&b);
}

static void
receives(void **state)
{
	struct bench b = set_up(state);
	struct one_sge sge[ONE_MAX_SGE];
	DAT_LMR_TRIPLET iov[2] = {piece(&b, 0, 8), piece(&b, 100, 4000)};
	DAT_EP_HANDLE idle;
	struct one_wqe wqe;
	uint32_t qp;

	assert_ok(dat_ep_post_recv(b.ep, 2, iov, cookie, 0));
	assert_true(mock_take(b.f->mock, b.qp, true, &wqe, sge));
	assert_int_equal(wqe.op, ONE_OP_RECV);
	assert_int_equal(wqe.num_sge, 2);
	assert_int_equal(wqe.length, 4008);
	assert_int_equal(wqe.cookie, cookie.as_64);
	assert_int_equal(sge[0].len, 8); /* by reference, however small */
	assert_ok(dat_ep_post_recv(b.ep, 0, NULL, cookie, 0));
	/* before connecting, until full */
	idle = make_ep(b.f, &qp);
	for (int i = 0; i < 128; i++)
		assert_ok(dat_ep_post_recv(idle, 2, iov, cookie, 0));
	assert_ret(dat_ep_post_recv(idle, 2, iov, cookie, 0),
		   ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_CREDITS));
	assert_int_equal(mock_posted(b.f->mock, qp, true), 128);
	assert_ok(dat_ep_free(idle)); /* although receives are posted */
	tear_down(&b);
}

static void
rdma(void **state)
{
	struct bench b = set_up(state);
	DAT_RMR_TRIPLET remote = {
		.rmr_context = 0x12345678, .pad = 7, .target_address = 0x7000, .segment_length = 100};
	DAT_LMR_TRIPLET iov[2] = {piece(&b, 0, 60), piece(&b, 100, 40)};
	struct one_sge sge[ONE_MAX_SGE];
	struct one_wqe wqe;

	assert_ok(dat_ep_post_rdma_write(b.ep, 2, iov, cookie, &remote, 0));
	assert_true(mock_take(b.f->mock, b.qp, false, &wqe, sge));
	assert_int_equal(wqe.op, ONE_OP_WRITE);
	assert_int_equal(wqe.length, 100);
	assert_int_equal(wqe.remote_addr, 0x7000);
	assert_int_equal(wqe.rkey, 0x12345678);
	/* small */
	iov[0].segment_length = 8;
	assert_ok(dat_ep_post_rdma_write(b.ep, 1, iov, cookie, &remote, 0));
	assert_true(mock_take(b.f->mock, b.qp, false, &wqe, sge));
	assert_int_equal(wqe.flags, ONE_WQE_INLINE);
	assert_int_equal(wqe.length, 8);
	/* A read fetches the length of the remote segment, and is never inline. */
	remote.segment_length = 5;
	assert_ok(dat_ep_post_rdma_read(b.ep, 1, iov, cookie, &remote, DAT_COMPLETION_SUPPRESS_FLAG));
	assert_true(mock_take(b.f->mock, b.qp, false, &wqe, sge));
	assert_int_equal(wqe.op, ONE_OP_READ);
	assert_int_equal(wqe.flags, ONE_WQE_SUPPRESS);
	assert_int_equal(wqe.length, 5);
	assert_int_equal(wqe.num_sge, 1);
	assert_int_equal(sge[0].len, 8);
	/* No bytes, without segments. */
	remote.segment_length = 0;
	assert_ok(dat_ep_post_rdma_write(b.ep, 0, NULL, cookie, &remote, 0));
	assert_ok(dat_ep_post_rdma_read(b.ep, 0, NULL, cookie, &remote, 0));
	tear_down(&b);
}

/* The peers agreed on no RDMA reads: the post is refused, and the connection stays. */
static void
reads_agreed_on_none(void **state)
{
	struct fixture *f = *state;
	uint32_t depth = mock_welcome(f->mock)->limits.max_rd_atomic;
	struct bench b;
	DAT_RMR_TRIPLET remote = {.rmr_context = 0x12345678, .target_address = 0x7000, .segment_length = 8};
	DAT_LMR_TRIPLET iov;

	mock_welcome(f->mock)->limits.max_rd_atomic = 0;
	b = set_up(state);
	mock_welcome(f->mock)->limits.max_rd_atomic = depth;
	iov = piece(&b, 0, 8);
	assert_ret(dat_ep_post_rdma_read(b.ep, 1, &iov, cookie, &remote, 0), BAD_ARG(1));
	assert_ret(ep_post_atomic(b.ep, ONE_OP_FETCH_ADD, 1, 0, &iov, cookie, &remote, 0), BAD_ARG(1));
	assert_ok(dat_ep_post_rdma_write(b.ep, 1, &iov, cookie, &remote, 0));
	assert_int_equal(state_of(b.ep), DAT_EP_STATE_CONNECTED);
	tear_down(&b);
}

static void
lengths(void **state)
{
	struct bench b = set_up(state);
	DAT_RMR_TRIPLET remote = {.rmr_context = 1, .segment_length = 100};
	DAT_LMR_TRIPLET iov[2] = {piece(&b, 0, 60), piece(&b, 100, 41)};
	DAT_EP_HANDLE ep;
	DAT_EP_ATTR attr;

	assert_ret(dat_ep_post_rdma_write(b.ep, 2, iov, cookie, &remote, 0), ERROR(DAT_LENGTH_ERROR, 0));
	remote.segment_length = 102;
	assert_ret(dat_ep_post_rdma_read(b.ep, 2, iov, cookie, &remote, 0), ERROR(DAT_LENGTH_ERROR, 0));
	remote.segment_length = 0;
	assert_ret(dat_ep_post_rdma_read(b.ep, 2, iov, cookie, &remote, 0), ERROR(DAT_LENGTH_ERROR, 0));
	assert_ret(dat_ep_post_rdma_write(b.ep, 2, iov, cookie, &remote, 0), ERROR(DAT_LENGTH_ERROR, 0));
	/* lengths above any limit, and sums that would overflow */
	iov[0].segment_length = (uint64_t)1 << 32;
	remote.segment_length = (uint64_t)1 << 33;
	assert_ret(dat_ep_post_send(b.ep, 1, iov, cookie, 0), BAD_ARG(3));
	assert_ret(dat_ep_post_recv(b.ep, 1, iov, cookie, 0), BAD_ARG(3));
	assert_ret(dat_ep_post_rdma_write(b.ep, 1, iov, cookie, &remote, 0), BAD_ARG(3));
	iov[0].segment_length = iov[1].segment_length = UINT32_MAX;
	assert_ret(dat_ep_post_send(b.ep, 2, iov, cookie, 0), BAD_ARG(3));
	assert_ret(dat_ep_post_recv(b.ep, 2, iov, cookie, 0), BAD_ARG(3));
	assert_ret(dat_ep_post_rdma_write(b.ep, 2, iov, cookie, &remote, 0), ERROR(DAT_LENGTH_ERROR, 0));
	remote.segment_length = UINT32_MAX;
	assert_ret(dat_ep_post_rdma_read(b.ep, 2, iov, cookie, &remote, 0), ERROR(DAT_LENGTH_ERROR, 0));
	/* limits of the endpoint */
	default_attr(&attr);
	attr.max_message_size = 1000;
	attr.max_rdma_size = 2000;
	assert_ok(dat_ep_create(b.f->ia, b.f->pz, b.f->recv, b.f->dto, b.f->conn, &attr, &ep));
	connect_to(ep, 7);
	mock_connected(b.f->mock, mock_newest(b.f->mock, ONE_MSG_QP_CREATE), NULL, 0);
	iov[0] = piece(&b, 0, 1001);
	remote.segment_length = 3000;
	assert_ret(dat_ep_post_send(ep, 1, iov, cookie, 0), BAD_ARG(3));
	assert_ok(dat_ep_post_rdma_write(ep, 1, iov, cookie, &remote, 0));
	iov[0].segment_length = 2001;
	assert_ret(dat_ep_post_rdma_write(ep, 1, iov, cookie, &remote, 0), ERROR(DAT_LENGTH_ERROR, 0));
	assert_int_equal(mock_posted(b.f->mock, b.qp, false), 0);
	tear_down(&b);
}

static void
bad_arguments(void **state)
{
	static const struct {
		uint32_t flags;
		bool send, recv, rdma; /* calls that refuse the flags */
	} refused[] = {
		{DAT_COMPLETION_UNSIGNALLED_FLAG, true, true, true},
		{DAT_COMPLETION_SOLICITED_WAIT_FLAG, false, true, true},
		{DAT_COMPLETION_SUPPRESS_FLAG, false, true, false},
		{DAT_COMPLETION_BARRIER_FENCE_FLAG, false, true, false},
		{DAT_COMPLETION_EVD_THRESHOLD_FLAG, true, false, false},
		{0x20, true, false, false},
	};
	struct bench b = set_up(state);
	DAT_RMR_TRIPLET remote = {.rmr_context = 1, .segment_length = 100};
	DAT_LMR_TRIPLET iov[9];
	DAT_EP_HANDLE ep;
	DAT_EP_ATTR attr;
	uint32_t qp;

	for (int i = 0; i < 9; i++)
		iov[i] = piece(&b, 0, 1);
	assert_ret(dat_ep_post_send(b.ep, -1, iov, cookie, 0), BAD_ARG(2));
	assert_ret(dat_ep_post_send(b.ep, 5, iov, cookie, 0), BAD_ARG(2));
	assert_ret(dat_ep_post_recv(b.ep, 5, iov, cookie, 0), BAD_ARG(2));
	assert_ret(dat_ep_post_rdma_read(b.ep, 5, iov, cookie, &remote, 0), BAD_ARG(2));
	assert_ret(dat_ep_post_rdma_write(b.ep, 5, iov, cookie, &remote, 0), BAD_ARG(2));
	assert_ret(dat_ep_post_send(b.ep, 1, NULL, cookie, 0), BAD_ARG(3));
	assert_ret(dat_ep_post_rdma_write(b.ep, 1, iov, cookie, NULL, 0), BAD_ARG(5));
	assert_ret(dat_ep_post_rdma_read(b.ep, 1, iov, cookie, NULL, 0), BAD_ARG(5));
	assert_ret(dat_ep_post_recv(b.ep, 1, NULL, cookie, 0), BAD_ARG(3));
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		const DAT_COMPLETION_FLAGS flags = (DAT_COMPLETION_FLAGS)refused[i].flags;

		if (refused[i].send)
			assert_ret(dat_ep_post_send(b.ep, 1, iov, cookie, flags), BAD_ARG(5));
		if (refused[i].recv)
			assert_ret(dat_ep_post_recv(b.ep, 1, iov, cookie, flags), BAD_ARG(5));
		if (refused[i].rdma)
			assert_ret(dat_ep_post_rdma_write(b.ep, 1, iov, cookie, &remote, flags), BAD_ARG(6));
		if (refused[i].rdma)
			assert_ret(dat_ep_post_rdma_read(b.ep, 1, iov, cookie, &remote, flags), BAD_ARG(6));
	}
	/* UNSIGNALLED is allowed if the endpoint has that attribute */
	default_attr(&attr);
	attr.request_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
	attr.recv_completion_flags = DAT_COMPLETION_UNSIGNALLED_FLAG;
	assert_ok(dat_ep_create(b.f->ia, b.f->pz, b.f->recv, b.f->dto, b.f->conn, &attr, &ep));
	qp = mock_newest(b.f->mock, ONE_MSG_QP_CREATE);
	assert_ok(dat_ep_post_recv(ep, 1, iov, cookie, DAT_COMPLETION_UNSIGNALLED_FLAG));
	/* requests only when connected */
	assert_ret(dat_ep_post_send(ep, 1, iov, cookie, 0), BAD_STATE(EP_UNCONNECTED));
	connect_to(ep, 7);
	assert_ret(dat_ep_post_rdma_write(ep, 1, iov, cookie, &remote, 0), BAD_STATE(EP_ACTCONNPENDING));
	mock_connected(b.f->mock, qp, NULL, 0);
	assert_ok(dat_ep_post_send(ep, 1, iov, cookie, DAT_COMPLETION_UNSIGNALLED_FLAG));
	/* also after the connection ended: the engine flushes the requests */
	mock_conn_event(b.f->mock, qp, ONE_CONN_DISCONNECTED);
	assert_ok(dat_ep_post_send(ep, 1, iov, cookie, 0));
	remote.segment_length = 1;
	assert_ok(dat_ep_post_rdma_read(ep, 1, iov, cookie, &remote, 0));
	assert_int_equal(mock_posted(b.f->mock, qp, false), 3);
	tear_down(&b);
}

/* max_request_dtos bounds unfinished requests; slots of suppressed requests are recycled without other
 * completions. */
static void
credits(void **state)
{
	struct bench b = set_up(state);
	struct one_wqe wqe;

	for (int i = 0; i < 128; i++)
		assert_ok(dat_ep_post_send(b.ep, 0, NULL, cookie, DAT_COMPLETION_SUPPRESS_FLAG));
	assert_ret(dat_ep_post_send(b.ep, 0, NULL, cookie, 0),
		   ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_CREDITS));
	for (int i = 0; i < 1000; i++) {
		assert_true(mock_take(b.f->mock, b.qp, false, &wqe, NULL));
		assert_ret(dat_ep_post_send(b.ep, 0, NULL, cookie, 0),
			   ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_CREDITS));
		mock_complete(b.f->mock, b.qp, &wqe, ONE_STATUS_SUCCESS);
		assert_ok(dat_ep_post_send(b.ep, 0, NULL, cookie, DAT_COMPLETION_SUPPRESS_FLAG));
	}
	expect_empty(b.f->dto);
	tear_down(&b);
}

static void
completions(void **state)
{
	static const struct {
		enum one_status status;
		DAT_DTO_COMPLETION_STATUS expected;
	} table[] = {
		{ONE_STATUS_SUCCESS, DAT_DTO_SUCCESS},
		{ONE_STATUS_FLUSHED, DAT_DTO_ERR_FLUSHED},
		{ONE_STATUS_LOCAL_LENGTH, DAT_DTO_ERR_LOCAL_LENGTH},
		{ONE_STATUS_LOCAL_QP, DAT_DTO_ERR_LOCAL_EP},
		{ONE_STATUS_LOCAL_PROTECTION, DAT_DTO_ERR_LOCAL_PROTECTION},
		{ONE_STATUS_BAD_RESPONSE, DAT_DTO_ERR_BAD_RESPONSE},
		{ONE_STATUS_REMOTE_ACCESS, DAT_DTO_ERR_REMOTE_ACCESS},
		{ONE_STATUS_REMOTE_OPERATION, DAT_DTO_ERR_REMOTE_RESPONDER},
		{ONE_STATUS_REMOTE_INVALID, DAT_DTO_ERR_REMOTE_RESPONDER},
		{ONE_STATUS_RETRY_EXCEEDED, DAT_DTO_ERR_TRANSPORT},
		{ONE_STATUS_RNR_EXCEEDED, DAT_DTO_ERR_RECEIVER_NOT_READY},
	};
	struct bench b = set_up(state);

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		DAT_LMR_TRIPLET iov = piece(&b, 0, 500 + i);
		DAT_DTO_COMPLETION_EVENT_DATA *data;
		struct one_wqe wqe;
		DAT_EVENT event;
		bool recv = i % 2 == 1;

		if (recv)
			assert_ok(dat_ep_post_recv(b.ep, 1, &iov, cookie, 0));
		else
			assert_ok(dat_ep_post_send(b.ep, 1, &iov, cookie, 0));
		assert_true(mock_take(b.f->mock, b.qp, recv, &wqe, NULL));
		mock_complete(b.f->mock, b.qp, &wqe, table[i].status);
		event = take(recv ? b.f->recv : b.f->dto);
		assert_int_equal(event.event_number, DAT_DTO_COMPLETION_EVENT);
		data = &event.event_data.dto_completion_event_data;
		assert_ptr_equal(data->ep_handle, b.ep);
		assert_int_equal(data->user_cookie.as_64, cookie.as_64);
		assert_int_equal(data->status, table[i].expected);
		assert_int_equal(data->transfered_length, i == 0 ? 500 : 0);
	}
	tear_down(&b);
}

static void *
hammer(void *arg)
{
	struct bench *b = arg;
	DAT_LMR_TRIPLET iov = piece(b, 0, 8);
	uint32_t posted = 0;

	while (posted < 5000) {
		if (dat_ep_post_send(b->ep, 1, &iov, cookie, DAT_COMPLETION_SUPPRESS_FLAG) == DAT_SUCCESS)
			posted++;
	}
	return NULL;
}

/* Several threads may post on one endpoint. */
static void
threads(void **state)
{
	struct bench b = set_up(state);
	pthread_t thread[3];
	struct one_wqe wqe;

	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, hammer, &b), 0);
	for (uint32_t taken = 0; taken < 15000;) {
		if (!mock_take(b.f->mock, b.qp, false, &wqe, NULL))
			continue;
		assert_int_equal(wqe.op, ONE_OP_SEND);
		assert_int_equal(wqe.cookie, cookie.as_64);
		assert_int_equal(wqe.length, 8);
		assert_memory_equal(wqe.inline_data, b.memory, 8);
		mock_done(b.f->mock, b.qp, false);
		taken++;
	}
	for (int i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	assert_false(mock_take(b.f->mock, b.qp, false, &wqe, NULL));
	tear_down(&b);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sends),       TEST(fenced),  TEST(local_segments),       TEST(receives),
		TEST(rdma),        TEST(lengths), TEST(bad_arguments),        TEST(credits),
		TEST(completions), TEST(threads), TEST(reads_agreed_on_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
