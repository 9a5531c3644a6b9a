/* SPDX-License-Identifier: BSD-3-Clause */
/* Unsupported calls of the headers: each fails with EOPNOTSUPP, whatever its arguments are. */
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>

#include "fixture.h"

#define HOSTILE ((void *)(uintptr_t)0xdeadbeef000ull) /* never to be accessed */

#define assert_unsupported(call) assert_int_equal(call, EOPNOTSUPP)
#define assert_no_object(call) assert_errno(call, EOPNOTSUPP)

static void
test_objects(void **state)
{
	struct fixture *f = *state;
	struct ibv_srq_init_attr_ex srq = {.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
					   .srq_type = IBV_SRQT_XRC,
					   .pd = f->pd};
	struct ibv_alloc_dm_attr dm = {.length = UINT64_MAX};
	struct ibv_xrcd_init_attr xrcd = {.fd = -1, .comp_mask = UINT32_MAX};
	struct ibv_qp_open_attr open = {.comp_mask = UINT32_MAX, .qp_num = UINT32_MAX};
	struct ibv_wq_init_attr wq = {.wq_type = IBV_WQT_RQ, .max_wr = UINT32_MAX};
	struct ibv_rwq_ind_table_init_attr table = {.log_ind_tbl_size = UINT32_MAX};
	struct ibv_counters_init_attr counters = {.comp_mask = UINT32_MAX};
	struct ibv_flow_action_esp_attr esp = {.comp_mask = UINT32_MAX};
	struct ibv_flow_attr flow = {.num_of_specs = UINT8_MAX, .size = UINT16_MAX};

	assert_no_object(ibv_create_srq_ex(f->context, &srq));
	srq.srq_type = IBV_SRQT_TM;
	assert_no_object(ibv_create_srq_ex(f->context, &srq));
	assert_no_object(ibv_alloc_dm(f->context, &dm));
	assert_no_object(ibv_alloc_null_mr(f->pd));
	assert_no_object(ibv_reg_dm_mr(f->pd, HOSTILE, UINT64_MAX, SIZE_MAX, UINT32_MAX));
	assert_no_object(ibv_reg_dmabuf_mr(f->pd, UINT64_MAX, SIZE_MAX, UINT64_MAX, -1, -1));
	assert_no_object(ibv_open_xrcd(f->context, &xrcd));
	assert_no_object(ibv_open_qp(f->context, &open));
	assert_no_object(ibv_create_wq(f->context, &wq));
	assert_no_object(ibv_create_rwq_ind_table(f->context, &table));
	assert_no_object(ibv_create_counters(f->context, &counters));
	assert_no_object(ibv_create_flow(f->qp, &flow));
	assert_no_object(ibv_create_flow_action_esp(f->context, &esp));
	assert_no_object(ibv_import_device(-1));
	assert_no_object(ibv_import_pd(f->context, UINT32_MAX));
	assert_no_object(ibv_import_mr(f->pd, UINT32_MAX));
	assert_no_object(ibv_import_dm(f->context, UINT32_MAX));
	ibv_unimport_pd(f->pd);
	ibv_unimport_mr(HOSTILE);
	ibv_unimport_dm(HOSTILE);
}

static void
test_changes(void **state)
{
	struct fixture *f = *state;
	struct ibv_modify_cq_attr cq = {.attr_mask = UINT32_MAX};
	struct ibv_qp_rate_limit_attr rate = {.rate_limit = UINT32_MAX};
	struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(f->pd, &srq_init);
	struct ibv_ops_wr op = {.opcode = IBV_WR_TAG_ADD}, *bad;
	struct ibv_ah_attr ah = {.port_num = UINT8_MAX};
	union ibv_gid gid = {.raw = {0xff}};
	struct ibv_ece ece = {.comp_mask = UINT32_MAX};
	uint8_t mac[6];
	uint16_t vid;
	uint32_t number;

	assert_non_null(srq);
	assert_unsupported(ibv_modify_cq(f->send_cq, &cq));
	assert_unsupported(ibv_modify_qp_rate_limit(f->qp, &rate));
	assert_unsupported(ibv_get_srq_num(srq, &number));
	assert_unsupported(ibv_post_srq_ops(srq, &op, &bad));
	assert_unsupported(
		ibv_advise_mr(f->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, UINT32_MAX, HOSTILE, UINT32_MAX));
	assert_unsupported(ibv_attach_mcast(f->qp, &gid, UINT16_MAX));
	assert_unsupported(ibv_detach_mcast(f->qp, HOSTILE, 0));
	assert_unsupported(ibv_set_ece(f->qp, HOSTILE));
	assert_unsupported(ibv_query_ece(f->qp, &ece));
	assert_int_equal(ece.comp_mask, 0);
	assert_unsupported(ibv_resolve_eth_l2_from_gid(f->context, &ah, mac, &vid));
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

#define assert_refused(call)                         \
	do {                                         \
		errno = 0;                           \
		assert_true((call) == -1);           \
		assert_int_equal(errno, EOPNOTSUPP); \
	} while (0)

/* librdmacm keeps its device open for the life of the process, so the mock is never stopped. */
static void
test_rdmacm(void **state)
{
	struct rdma_cm_id *id;

	assert_non_null(mock_start());
	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_UDP), 0);
	assert_refused(rdma_join_multicast(id, HOSTILE, NULL));
	assert_refused(rdma_join_multicast_ex(id, HOSTILE, NULL));
	assert_refused(rdma_leave_multicast(id, HOSTILE));
	assert_refused(rdma_reject_ece(id, HOSTILE, UINT8_MAX));
	assert_refused(rdma_set_local_ece(id, HOSTILE));
	assert_refused(rdma_get_remote_ece(id, HOSTILE));
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* Covers results of all widths, ssize_t and off_t included. */
static void
test_rsockets(void **state)
{
	assert_refused(rsocket(AF_INET, SOCK_STREAM, 0));
	assert_refused(rbind(0, HOSTILE, 0));
	assert_refused(rlisten(0, 0));
	assert_refused(raccept(0, HOSTILE, HOSTILE));
	assert_refused(rconnect(0, HOSTILE, 0));
	assert_refused(rshutdown(0, 0));
	assert_refused(rclose(0));
	assert_refused(rrecv(0, HOSTILE, 1, 0));
	assert_refused(rrecvfrom(0, HOSTILE, 1, 0, HOSTILE, HOSTILE));
	assert_refused(rrecvmsg(0, HOSTILE, 0));
	assert_refused(rsend(0, HOSTILE, 1, 0));
	assert_refused(rsendto(0, HOSTILE, 1, 0, HOSTILE, 0));
	assert_refused(rsendmsg(0, HOSTILE, 0));
	assert_refused(rread(0, HOSTILE, 1));
	assert_refused(rreadv(0, HOSTILE, 1));
	assert_refused(rwrite(0, HOSTILE, 1));
	assert_refused(rwritev(0, HOSTILE, 1));
	assert_refused(rpoll(HOSTILE, 1, 0));
	assert_refused(rselect(1, HOSTILE, NULL, NULL, NULL));
	assert_refused(rgetpeername(0, HOSTILE, HOSTILE));
	assert_refused(rgetsockname(0, HOSTILE, HOSTILE));
	assert_refused(rsetsockopt(0, SOL_RDMA, RDMA_SQSIZE, HOSTILE, 4));
	assert_refused(rgetsockopt(0, SOL_RDMA, RDMA_SQSIZE, HOSTILE, HOSTILE));
	assert_refused(rfcntl(0, 0));
	assert_refused(riomap(0, HOSTILE, 1, 0, 0, 0));
	assert_refused(riounmap(0, HOSTILE, 1));
	assert_refused((ssize_t)riowrite(0, HOSTILE, 1, 0, 0));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_objects),
		T(test_changes),
		cmocka_unit_test(test_rdmacm),
		cmocka_unit_test(test_rsockets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
