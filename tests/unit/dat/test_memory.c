/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection zones, local regions, windows. */
#include <errno.h>

#include "fixture.h"

#define SIZE 8192u

static uint8_t memory[SIZE];

static DAT_RETURN
create(struct fixture *f, DAT_VLEN length, uint32_t priv, DAT_LMR_HANDLE *lmr, DAT_LMR_CONTEXT *lkey,
       DAT_RMR_CONTEXT *rkey)
{
	DAT_REGION_DESCRIPTION desc = {.for_va = memory};

	return dat_lmr_create(f->ia, DAT_MEM_TYPE_VIRTUAL, desc, length, f->pz, (DAT_MEM_PRIV_FLAGS)priv, lmr,
			      lkey, rkey, NULL, NULL);
}

static void
zones(void **state)
{
	struct fixture *f = *state;
	DAT_PZ_HANDLE pz;
	DAT_PZ_PARAM param;
	DAT_LMR_HANDLE lmr;
	DAT_RMR_HANDLE rmr;
	DAT_EP_HANDLE ep;

	assert_ret(dat_pz_create(f->dto, &pz), BAD_HANDLE(IA));
	assert_ret(dat_pz_create(f->ia, NULL), BAD_ARG(2));
	mock_refuse(f->mock, ONE_MSG_PZ_CREATE, -EDQUOT, ONE_SUBJECT_QUOTA, 4, 1);
	assert_ret(dat_pz_create(f->ia, &pz),
		   ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_PROTECTION_DOMAIN));
	assert_ok(dat_pz_create(f->ia, &pz));
	assert_ok(dat_pz_query(pz, DAT_PZ_FIELD_ALL, &param));
	assert_ptr_equal(param.ia_handle, f->ia);
	assert_ret(dat_pz_query(pz, DAT_PZ_FIELD_ALL, NULL), BAD_ARG(3));
	assert_ok(dat_pz_free(pz));
	assert_ret(dat_pz_free(pz), BAD_HANDLE(PZ));
	assert_ret(dat_pz_query(pz, DAT_PZ_FIELD_ALL, &param), BAD_HANDLE(PZ));
	for (size_t i = 0; i < num_not_handles; i++)
		assert_ret(dat_pz_free(not_handles[i]), BAD_HANDLE(PZ));
	/* A zone is in use by an endpoint, by a region, or by a window. */
	ep = make_ep(f, NULL);
	assert_ret(dat_pz_free(f->pz), BAD_STATE(PZ_IN_USE));
	assert_ok(dat_ep_free(ep));
	assert_ok(create(f, SIZE, DAT_MEM_PRIV_ALL_FLAG, &lmr, NULL, NULL));
	assert_ret(dat_pz_free(f->pz), BAD_STATE(PZ_IN_USE));
	assert_ok(dat_lmr_free(lmr));
	assert_ok(dat_rmr_create(f->pz, &rmr));
	assert_ret(dat_pz_free(f->pz), BAD_STATE(PZ_IN_USE));
	assert_ok(dat_rmr_free(rmr));
	assert_ok(dat_pz_free(f->pz));
}

static void
regions(void **state)
{
	struct fixture *f = *state;
	DAT_REGION_DESCRIPTION desc = {.for_va = memory + 1};
	DAT_LMR_CONTEXT lkey = 0;
	DAT_RMR_CONTEXT rkey = 0;
	struct one_mr_create mr;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_PARAM param;
	DAT_VADDR address;
	DAT_VLEN size;

	assert_ok(dat_lmr_create(f->ia, DAT_MEM_TYPE_VIRTUAL, desc, 4001, f->pz, DAT_MEM_PRIV_ALL_FLAG, &lmr,
				 &lkey, &rkey, &size, &address));
	assert_int_not_equal(lkey, 0);
	assert_int_not_equal(rkey, 0);
	assert_int_equal(size, 4001); /* no rounding */
	assert_int_equal(address, (uintptr_t)memory + 1);
	assert_true(mock_mr(f->mock, mock_mr_of_key(f->mock, lkey), &mr));
	assert_int_equal(mr.va, (uintptr_t)memory + 1);
	assert_int_equal(mr.length, 4001);
	assert_ok(dat_lmr_query(lmr, DAT_LMR_FIELD_ALL, &param));
	assert_ptr_equal(param.ia_handle, f->ia);
	assert_ptr_equal(param.pz_handle, f->pz);
	assert_int_equal(param.mem_type, DAT_MEM_TYPE_VIRTUAL);
	assert_ptr_equal(param.region_desc.for_va, memory + 1);
	assert_int_equal(param.length, 4001);
	assert_int_equal(param.mem_priv, DAT_MEM_PRIV_ALL_FLAG);
	assert_int_equal(param.lmr_context, lkey);
	assert_int_equal(param.rmr_context, rkey);
	assert_int_equal(param.registered_size, 4001);
	assert_int_equal(param.registered_address, (uintptr_t)memory + 1);
	assert_ret(dat_lmr_query(lmr, DAT_LMR_FIELD_ALL, NULL), BAD_ARG(3));
	assert_ok(dat_lmr_free(lmr));
	assert_ret(dat_lmr_free(lmr), BAD_HANDLE(LMR));
	assert_ret(dat_lmr_query(lmr, DAT_LMR_FIELD_ALL, &param), BAD_HANDLE(LMR));
	assert_int_equal(mock_mr_of_key(f->mock, lkey), 0);
	/* Local rights only: no remote key, and local read in any case. */
	assert_ok(create(f, SIZE, DAT_MEM_PRIV_LOCAL_WRITE_FLAG, &lmr, &lkey, &rkey));
	assert_int_equal(rkey, 0);
	assert_true(mock_mr(f->mock, mock_mr_of_key(f->mock, lkey), &mr));
	assert_int_equal(mr.access, ONE_ACCESS_LOCAL_READ | ONE_ACCESS_LOCAL_WRITE);
	assert_ok(dat_lmr_free(lmr));
	assert_ok(create(f, SIZE, DAT_MEM_PRIV_NONE_FLAG, &lmr, &lkey, &rkey));
	assert_ok(dat_lmr_free(lmr));
}

static void
region_errors(void **state)
{
	struct fixture *f = *state;
	DAT_REGION_DESCRIPTION desc = {.for_va = memory}, top = {.for_va = (DAT_PVOID)(UINTPTR_MAX - 100)};
	DAT_LMR_HANDLE lmr;
	DAT_IA_ATTR ia;

	assert_ok(dat_ia_query(f->ia, NULL, DAT_IA_ALL, &ia, 0, NULL));
#define CREATE(ia_, type, desc_, len, pz_, priv, out) \
	dat_lmr_create(ia_, type, desc_, len, pz_, (DAT_MEM_PRIV_FLAGS)(priv), out, NULL, NULL, NULL, NULL)
	assert_ret(CREATE(f->pz, 0, desc, SIZE, f->pz, 0x33, &lmr), BAD_HANDLE(IA));
	assert_ret(CREATE(f->ia, (DAT_MEM_TYPE)3, desc, SIZE, f->pz, 0x33, &lmr), BAD_ARG(2));
	assert_ret(CREATE(f->ia, 0, desc, SIZE, f->ia, 0x33, &lmr), BAD_HANDLE(PZ));
	assert_ret(CREATE(f->ia, 0, desc, SIZE, f->pz, 0x100, &lmr), BAD_ARG(6));
	assert_ret(CREATE(f->ia, 0, desc, SIZE, f->pz, 0x33, NULL), BAD_ARG(7));
	assert_ret(CREATE(f->ia, 0, desc, 0, f->pz, 0x33, &lmr), ERROR(DAT_LENGTH_ERROR, 0));
	assert_ret(CREATE(f->ia, 0, top, 101, f->pz, 0x33, &lmr), BAD_ARG(3));
	assert_ret(CREATE(f->ia, 0, desc, ia.max_lmr_block_size + 1, f->pz, 0x33, &lmr),
		   ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION));
	assert_ret(CREATE(f->ia, 0, ((DAT_REGION_DESCRIPTION){.for_va = (DAT_PVOID)4096}), 10, f->pz, 0x33,
			  &lmr),
		   BAD_ARG(3));
	desc.for_lmr_handle = f->pz;
	assert_ret(CREATE(f->ia, DAT_MEM_TYPE_LMR, desc, 0, f->pz, 0x33, &lmr), BAD_HANDLE(LMR));
	desc.for_shared_memory = (DAT_SHARED_MEMORY){.virtual_address = memory};
	assert_ret(CREATE(f->ia, DAT_MEM_TYPE_SHARED_VIRTUAL, desc, SIZE, f->pz, 0x33, &lmr), BAD_ARG(3));
	/* Two refusals: the library releases cached registrations, and tries once more. */
	mock_refuse(f->mock, ONE_MSG_MR_CREATE, -EDQUOT, ONE_SUBJECT_QUOTA, 7, 2);
	assert_ret(create(f, SIZE, 0x33, &lmr, NULL, NULL),
		   ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION));
	/* Exhausted descriptors count as a resource, too. */
	mock_refuse(f->mock, ONE_MSG_MR_CREATE, -EMFILE, ONE_SUBJECT_NONE, 0, 1);
	assert_ret(create(f, SIZE, 0x33, &lmr, NULL, NULL),
		   ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY_REGION));
	assert_ok(dat_pz_free(f->pz)); /* no reference was leaked */
}

static void
other_types(void **state)
{
	static char id[DAT_LMR_COOKIE_SIZE] = "forty bytes, all of them significant...";
	struct fixture *f = *state;
	DAT_REGION_DESCRIPTION desc;
	DAT_LMR_HANDLE lmr, copy;
	DAT_LMR_CONTEXT lkey;
	DAT_RMR_CONTEXT rkey;
	struct one_mr_create mr;
	DAT_LMR_PARAM param;
	DAT_PZ_HANDLE other;

	assert_ok(dat_pz_create(f->ia, &other));
	assert_ok(create(f, 4000, DAT_MEM_PRIV_LOCAL_READ_FLAG, &lmr, NULL, NULL));
	desc.for_lmr_handle = lmr;
	assert_ok(dat_lmr_create(f->ia, DAT_MEM_TYPE_LMR, desc, 77, other, DAT_MEM_PRIV_ALL_FLAG, &copy,
				 &lkey, &rkey, NULL, NULL));
	assert_true(mock_mr(f->mock, mock_mr_of_key(f->mock, lkey), &mr));
	assert_int_equal(mr.va, (uintptr_t)memory);
	assert_int_equal(mr.length, 4000); /* the length argument is ignored */
	assert_int_not_equal(rkey, 0);
	assert_ok(dat_lmr_free(lmr)); /* both regions are independent */
	assert_ok(dat_lmr_query(copy, DAT_LMR_FIELD_ALL, &param));
	assert_int_equal(param.mem_type, DAT_MEM_TYPE_LMR);
	assert_ptr_equal(param.pz_handle, other);
	assert_ok(dat_lmr_free(copy));

	desc.for_shared_memory = (DAT_SHARED_MEMORY){.virtual_address = memory, .shared_memory_id = &id};
	assert_ok(dat_lmr_create(f->ia, DAT_MEM_TYPE_SHARED_VIRTUAL, desc, 100, f->pz, DAT_MEM_PRIV_ALL_FLAG,
				 &lmr, NULL, NULL, NULL, NULL));
	assert_ok(dat_lmr_query(lmr, DAT_LMR_FIELD_ALL, &param));
	assert_ptr_equal(param.region_desc.for_shared_memory.virtual_address, memory);
	assert_memory_equal(*param.region_desc.for_shared_memory.shared_memory_id, id, sizeof(id));
	assert_ok(dat_lmr_free(lmr));
}

static void
syncs(void **state)
{
	struct fixture *f = *state;
	DAT_LMR_TRIPLET iov[2];
	DAT_LMR_CONTEXT lkey;
	DAT_LMR_HANDLE lmr;
	DAT_RETURN(*const calls[])
	(DAT_IA_HANDLE, const DAT_LMR_TRIPLET *, DAT_VLEN) = {dat_lmr_sync_rdma_read,
							      dat_lmr_sync_rdma_write};

	assert_ok(create(f, 1000, DAT_MEM_PRIV_ALL_FLAG, &lmr, &lkey, NULL));
	for (int i = 0; i < 2; i++) {
		iov[0] = (DAT_LMR_TRIPLET){lkey, 0, (uintptr_t)memory, 1000};
		iov[1] = (DAT_LMR_TRIPLET){99, 0, 1, 0};
		assert_ok(calls[i](f->ia, iov, 2));
		assert_ok(calls[i](f->ia, NULL, 0));
		assert_ret(calls[i](f->pz, iov, 1), BAD_HANDLE(IA));
		assert_ret(calls[i](f->ia, NULL, 1), BAD_ARG(2));
		iov[1].segment_length = 1;
		assert_ret(calls[i](f->ia, iov, 2), BAD_ARG(2));
		iov[0].segment_length = 1001;
		assert_ret(calls[i](f->ia, iov, 1), BAD_ARG(2));
		iov[0].virtual_address--;
		iov[0].segment_length = 1;
		assert_ret(calls[i](f->ia, iov, 1), BAD_ARG(2));
	}
}

struct bench {
	struct fixture *f;
	DAT_EP_HANDLE ep;
	uint32_t qp;
	DAT_LMR_HANDLE lmr;
	DAT_LMR_TRIPLET range;
	DAT_RMR_HANDLE rmr;
};

static struct bench
bind_bench(void **state)
{
	struct bench b = {.f = *state};

	assert_ok(create(b.f, SIZE, DAT_MEM_PRIV_ALL_FLAG, &b.lmr, &b.range.lmr_context, NULL));
	b.range.virtual_address = (uintptr_t)memory;
	b.range.segment_length = SIZE;
	b.ep = connected_ep(b.f, &b.qp);
	assert_ok(dat_rmr_create(b.f->pz, &b.rmr));
	return b;
}

static DAT_RETURN
bind_range(struct bench *b, uint32_t priv, uint32_t flags, DAT_RMR_CONTEXT *context)
{
	DAT_RMR_COOKIE cookie = {.as_64 = 0x1122334455667788u};

	return dat_rmr_bind(b->rmr, &b->range, (DAT_MEM_PRIV_FLAGS)priv, b->ep, cookie,
			    (DAT_COMPLETION_FLAGS)flags, context);
}

/* Carries out the next bind, as the engine. */
static struct one_wqe
carry_out(struct bench *b, enum one_status status)
{
	struct one_cqe cqe = {.type = ONE_CQE_BIND, .op = ONE_OP_BIND, .flags = ONE_CQE_NOTIFY};
	struct one_msg create_qp;
	struct one_wqe wqe;

	assert_true(mock_take(b->f->mock, b->qp, false, &wqe, NULL));
	assert_int_equal(wqe.op, ONE_OP_BIND);
	cqe.cookie = wqe.cookie;
	cqe.object = b->qp;
	cqe.imm = wqe.rkey;
	cqe.status = (uint8_t)status;
	assert_true(mock_last(b->f->mock, ONE_MSG_QP_CREATE, &create_qp));
	mock_done(b->f->mock, b->qp, false);
	assert_true(mock_cqe(b->f->mock, create_qp.qp_create.send_cq, &cqe));
	return wqe;
}

static void
windows(void **state)
{
	struct bench b = bind_bench(state);
	DAT_RMR_CONTEXT first, second, key;
	DAT_RMR_PARAM param;
	struct one_wqe wqe;
	DAT_EVENT event;

	assert_ret(dat_rmr_create(b.f->ia, &b.rmr), BAD_HANDLE(PZ));
	assert_ret(dat_rmr_create(b.f->pz, NULL), BAD_ARG(2));
	/* An unbound window can be queried, except for the triplet. */
	assert_ok(dat_rmr_query(b.rmr, (DAT_RMR_PARAM_MASK)(DAT_RMR_FIELD_ALL & ~DAT_RMR_FIELD_LMR_TRIPLET),
				&param));
	assert_ptr_equal(param.pz_handle, b.f->pz);
	assert_ptr_equal(param.ia_handle, b.f->ia);
	assert_ret(dat_rmr_query(b.rmr, DAT_RMR_FIELD_ALL, &param), BAD_ARG(2));
	assert_ret(dat_rmr_query(b.rmr, DAT_RMR_FIELD_ALL, NULL), BAD_ARG(3));

	/* Combined masks of older versions are allowed. */
	assert_ok(bind_range(&b, DAT_MEM_PRIV_READ_FLAG | DAT_MEM_PRIV_WRITE_FLAG, 0, &first));
	wqe = carry_out(&b, ONE_STATUS_SUCCESS);
	assert_int_equal(wqe.rkey, first);
	assert_int_equal(wqe.length, ONE_ACCESS_REMOTE_READ | ONE_ACCESS_REMOTE_WRITE);
	assert_int_equal(wqe.sge.addr, (uintptr_t)memory);
	assert_int_equal(wqe.sge.len, SIZE);
	assert_int_equal(wqe.sge.lkey, b.range.lmr_context);
	event = take(b.f->dto);
	assert_int_equal(event.event_number, DAT_RMR_BIND_COMPLETION_EVENT);
	assert_ptr_equal(event.event_data.rmr_completion_event_data.rmr_handle, b.rmr);
	assert_int_equal(event.event_data.rmr_completion_event_data.user_cookie.as_64, 0x1122334455667788u);
	assert_int_equal(event.event_data.rmr_completion_event_data.status, DAT_RMR_BIND_SUCCESS);
	assert_ok(dat_rmr_query(b.rmr, DAT_RMR_FIELD_ALL, &param));
	assert_int_equal(param.rmr_context, first);
	assert_int_equal(param.lmr_triplet.segment_length, SIZE);
	assert_ret(dat_lmr_free(b.lmr), BAD_STATE(LMR_IN_USE));

	/* Each bind gives the window a new key. */
	assert_ok(bind_range(&b, DAT_MEM_PRIV_REMOTE_READ_FLAG, DAT_COMPLETION_BARRIER_FENCE_FLAG, &second));
	assert_int_not_equal(second, first);
	assert_int_equal(second >> 8, first >> 8);
	wqe = carry_out(&b, ONE_STATUS_SUCCESS);
	assert_int_equal(wqe.flags, ONE_WQE_FENCE);
	take(b.f->dto);
	for (int i = 0; i < 600; i++) {
		assert_ok(bind_range(&b, DAT_MEM_PRIV_REMOTE_READ_FLAG, DAT_COMPLETION_SUPPRESS_FLAG, &key));
		assert_int_not_equal(key, second);
		assert_int_equal(key >> 8, first >> 8);
		second = key;
		assert_true(mock_take(b.f->mock, b.qp, false, &wqe, NULL));
		mock_done(b.f->mock, b.qp, false);
	}
	/* unbinding */
	b.range.segment_length = 0;
	assert_ok(bind_range(&b, 0, 0, NULL));
	wqe = carry_out(&b, ONE_STATUS_SUCCESS);
	assert_int_equal(wqe.sge.len, 0);
	take(b.f->dto);
	assert_ret(dat_rmr_query(b.rmr, DAT_RMR_FIELD_ALL, &param), BAD_ARG(2));
	assert_ok(dat_lmr_free(b.lmr));
	assert_ok(dat_rmr_free(b.rmr));
	assert_ret(dat_rmr_free(b.rmr), BAD_HANDLE(RMR));
}

static void
bind_errors(void **state)
{
	struct bench b = bind_bench(state);
	DAT_RMR_COOKIE cookie = {.as_64 = 1};
	DAT_LMR_TRIPLET good = b.range;
	DAT_REGION_DESCRIPTION desc = {.for_va = memory};
	DAT_EP_HANDLE idle = make_ep(b.f, NULL);
	DAT_RMR_CONTEXT key;
	DAT_LMR_HANDLE lmr;
	DAT_PZ_HANDLE pz;
	uint32_t posted;

	assert_ret(dat_rmr_bind(b.ep, &good, 0x33, b.ep, cookie, 0, &key), BAD_HANDLE(RMR));
	assert_ret(dat_rmr_bind(b.rmr, &good, 0x33, b.rmr, cookie, 0, &key), BAD_HANDLE(EP));
	assert_ret(dat_rmr_bind(b.rmr, NULL, 0x33, b.ep, cookie, 0, &key), BAD_ARG(2));
	assert_ret(dat_rmr_bind(b.rmr, &good, (DAT_MEM_PRIV_FLAGS)0x40, b.ep, cookie, 0, &key), BAD_ARG(3));
	assert_ret(dat_rmr_bind(b.rmr, &good, 0x33, b.ep, cookie, 0, NULL), BAD_ARG(7));
	assert_ret(dat_rmr_bind(b.rmr, &good, 0x33, idle, cookie, 0, &key), BAD_STATE(EP_UNCONNECTED));
	assert_ret(bind_range(&b, 0x33, DAT_COMPLETION_SOLICITED_WAIT_FLAG, &key), BAD_ARG(6));
	assert_ret(bind_range(&b, 0x33, DAT_COMPLETION_UNSIGNALLED_FLAG, &key), BAD_ARG(6));
	b.range.lmr_context ^= 0x100;
	assert_ret(bind_range(&b, 0x33, 0, &key), BAD_ARG(2));
	b.range = good;
	b.range.segment_length++;
	assert_ret(bind_range(&b, 0x33, 0, &key), BAD_ARG(2));
	b.range.segment_length = UINT64_MAX;
	assert_ret(bind_range(&b, 0x33, 0, &key), BAD_ARG(2));
	b.range = good;
	b.range.virtual_address--;
	assert_ret(bind_range(&b, 0x33, 0, &key), BAD_ARG(2));
	/* The region lacks the rights, or the zones differ. */
	assert_ok(create(b.f, SIZE, DAT_MEM_PRIV_REMOTE_READ_FLAG, &lmr, &b.range.lmr_context, NULL));
	b.range.virtual_address = good.virtual_address;
	assert_ret(bind_range(&b, DAT_MEM_PRIV_REMOTE_WRITE_FLAG, 0, &key),
		   ERROR(DAT_PRIVILEGES_VIOLATION, DAT_PRIVILEGES_WRITE));
	assert_ok(bind_range(&b, DAT_MEM_PRIV_REMOTE_READ_FLAG, 0, &key));
	carry_out(&b, ONE_STATUS_SUCCESS);
	assert_ok(dat_pz_create(b.f->ia, &pz));
	assert_ok(dat_lmr_create(b.f->ia, 0, desc, SIZE, pz, DAT_MEM_PRIV_ALL_FLAG, &lmr,
				 &b.range.lmr_context, NULL, NULL, NULL));
	assert_ret(bind_range(&b, 0x33, 0, &key), ERROR(DAT_PROTECTION_VIOLATION, 0));
	assert_ok(dat_rmr_create(pz, &b.rmr));
	/* The endpoint has another zone, and so has the first region. */
	assert_ret(bind_range(&b, 0x33, 0, &key), ERROR(DAT_PROTECTION_VIOLATION, 0));
	b.range = good;
	assert_ret(bind_range(&b, 0x33, 0, &key), ERROR(DAT_PROTECTION_VIOLATION, 0));
	b.range.segment_length = 0;
	assert_ret(bind_range(&b, 0x33, 0, &key), ERROR(DAT_PROTECTION_VIOLATION, 0));
	posted = mock_posted(b.f->mock, b.qp, false);
	assert_int_equal(posted, 0);
}

/* Binds have as many credits as other requests. */
static void
binds_until_full(void **state)
{
	struct bench b = bind_bench(state);
	DAT_RMR_CONTEXT key;
	DAT_EP_PARAM param;

	assert_ok(dat_ep_query(b.ep, DAT_EP_FIELD_ALL, &param));
	for (DAT_COUNT i = 0; i < param.ep_attr.max_request_dtos; i++)
		assert_ok(bind_range(&b, 0x33, 0, &key));
	assert_ret(bind_range(&b, 0x33, 0, &key), ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_CREDITS));
}

/* A failed bind leaves the window unbound; freeing a window releases its region. */
static void
bind_fails(void **state)
{
	struct bench b = bind_bench(state);
	DAT_RMR_CONTEXT key;
	DAT_EVENT event;

	assert_ok(bind_range(&b, 0x33, 0, &key));
	carry_out(&b, ONE_STATUS_BIND_FAILED);
	event = take(b.f->dto);
	assert_int_equal(event.event_number, DAT_RMR_BIND_COMPLETION_EVENT);
	assert_int_equal(event.event_data.rmr_completion_event_data.status, DAT_RMR_OPERATION_FAILED);
	assert_ok(bind_range(&b, 0x33, 0, &key));
	carry_out(&b, ONE_STATUS_SUCCESS);
	/* The window is freed before its completion is read. */
	assert_ok(dat_rmr_free(b.rmr));
	event = take(b.f->dto);
	assert_null(event.event_data.rmr_completion_event_data.rmr_handle);
	assert_int_equal(event.event_data.rmr_completion_event_data.user_cookie.as_64, 0x1122334455667788u);
	/* The data plane may count a bind that is not finished yet. */
	mock_refuse(b.f->mock, ONE_MSG_MR_FREE, -EBUSY, ONE_SUBJECT_MW, 1, 1);
	assert_ret(dat_lmr_free(b.lmr), BAD_STATE(LMR_IN_USE));
	assert_ok(dat_lmr_free(b.lmr));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(zones),   TEST(regions),     TEST(region_errors),    TEST(other_types), TEST(syncs),
		TEST(windows), TEST(bind_errors), TEST(binds_until_full), TEST(bind_fails),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
