/* SPDX-License-Identifier: BSD-3-Clause */
/* ONESIDE_DEBUG=1: messages of refused calls of libibverbs. */
#include <stdbool.h>
#include <stdlib.h>

#include "fixture.h"

#include "../said.h"

/* `call` returns NULL with this errno, and prints these texts. */
#define assert_null_says(call, expected, ...)                   \
	do {                                                    \
		assert_says((uintptr_t)(call), 0, __VA_ARGS__); \
		assert_int_equal(errno, expected);              \
	} while (0)

/* Name of the limit in refusals of PZ_CREATE; NULL: none. */
static const char *limit_key;

static bool
refuse_pz(struct mock *mock, const struct one_msg *msg, const int *fds, uint32_t num_fds,
	  struct one_reply *reply, void *user)
{
	reply->error = -EDQUOT;
	reply->subject = ONE_SUBJECT_QUOTA;
	reply->value = limit_key == NULL ? 0 : 7;
	memset(&reply->limit, 'x', sizeof(reply->limit)); /* unterminated, unless there is a key */
	if (limit_key != NULL)
		snprintf(reply->limit.key, sizeof(reply->limit.key), "%s", limit_key);
	return true;
}

/* Limits: of the configuration, of the process, a fixed one, with a malformed name; and a data plane that
 * drains. */
static void
raised_by(struct fixture *f)
{
	static const struct {
		const char *key, *says;
	} cases[] = {
		{"max_pz",
		 "limit = 7: it is reached; free what is not needed, or raise max_pz in oneside.conf(5)"},
		{"LimitNOFILE",
		 "limit = 7: it is reached; free what is not needed, or raise the data plane's LimitNOFILE"},
		{"",
		 "limit = 7: it is reached, and no key of oneside.conf(5) raises it; free what is not needed"},
		{"\x1b[2J",
		 "limit = 7: it is reached, and no key of oneside.conf(5) raises it; free what is not needed"},
		{NULL, "the data plane = draining: it begins nothing new"},
	};

	mock_on(f->mock, ONE_MSG_PZ_CREATE, refuse_pz, NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		limit_key = cases[i].key;
		assert_null_says(ibv_alloc_pd(f->context), ENOMEM, "ibv_alloc_pd: context = 0x",
				 cases[i].says);
	}
	mock_on(f->mock, ONE_MSG_PZ_CREATE, NULL, NULL);
}

static void
memory(void **state)
{
	struct fixture *f = *state;
	char bytes[64], *nothing = (char *)(uintptr_t)0x1000;
	struct ibv_mr *mr;

	assert_null_says(ibv_reg_mr(f->pd, bytes, 64, IBV_ACCESS_REMOTE_WRITE), EINVAL,
			 "ibv_reg_mr: access = 0x2: ", "; add IBV_ACCESS_LOCAL_WRITE (EINVAL)");
	assert_null_says(ibv_reg_mr(f->pd, bytes, 64, IBV_ACCESS_ON_DEMAND), EOPNOTSUPP,
			 "ibv_reg_mr: access = 0x40: ", "on-demand paging; ", "(EOPNOTSUPP)");
	assert_null_says(ibv_reg_mr(f->pd, bytes, 64, 0x80000), EINVAL,
			 "ibv_reg_mr: access = 0x80000: ", "0x80000; leave those out (EINVAL)");
	assert_null_says(ibv_reg_mr(f->pd, nothing, 64, 0), EFAULT,
			 "ibv_reg_mr: addr = 0x1000: these 64 bytes ", "; give memory that is allocated",
			 "(EFAULT)");
	assert_null_says(ibv_reg_mr(f->pd, bytes, 0, 0), EINVAL,
			 "ibv_reg_mr: length = 0: ", "; give the length");
	/* Refusals of the data plane. */
	mock_refuse(f->mock, ONE_MSG_MR_CREATE, -EDQUOT, ONE_SUBJECT_QUOTA, 17, 1);
	assert_null_says(
		ibv_reg_mr(f->pd, bytes, 64, 0), ENOMEM, "ibv_reg_mr: pd = 0x",
		"the data plane's limit = 17: it is reached; free what is not needed, or raise max_mock in oneside.conf(5) (ENOMEM)");
	raised_by(f);
	mr = ibv_reg_mr(f->pd, bytes, 64, 0);
	assert_non_null(mr);
	assert_says(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0), (unsigned long)IBV_REREG_MR_ERR_INPUT,
		    "ibv_rereg_mr: flags = 0: ", "; give some of these (EINVAL)");
	mock_refuse(f->mock, ONE_MSG_MR_SWAP, -EBUSY, ONE_SUBJECT_MR, 0, 1);
	assert_says(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE),
		    (unsigned long)IBV_REREG_MR_ERR_INPUT, "ibv_rereg_mr: mr = 0x",
		    "a memory window is bound to it; ", "(EBUSY)");
	assert_says(ibv_dealloc_pd(f->pd), EBUSY, "ibv_dealloc_pd: pd = 0x", "; destroy those first (EBUSY)");
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void
queues(void **state)
{
	struct fixture *f = *state;
	int too_many = (int)mock_welcome(f->mock)->limits.max_cq_entries + 1;
	char text[96];

	snprintf(text, sizeof(text), "cqe = %d: it may be 1 to %d; ", too_many, too_many - 1);
	assert_null_says(ibv_create_cq(f->context, too_many, NULL, NULL, 0), EINVAL, "ibv_create_cq: ", text,
			 "(EINVAL)");
	assert_null_says(ibv_create_cq(f->context, 0, NULL, NULL, 0), EINVAL, "ibv_create_cq: cqe = 0: ");
	assert_null_says(ibv_create_cq(f->context, 1, NULL, NULL, 1), EINVAL,
			 "ibv_create_cq: comp_vector = 1: only 0 is allowed; give that (EINVAL)");
	assert_says(ibv_resize_cq(f->send_cq, too_many), EINVAL, "ibv_resize_cq: ", text);
	assert_says(ibv_destroy_cq(f->send_cq), EBUSY, "ibv_destroy_cq: cq = 0x", "(EBUSY)");
	assert_says(ibv_destroy_comp_channel(f->channel), EBUSY, "ibv_destroy_comp_channel: channel = 0x");
}

static void
refuse_qp(struct fixture *f, const struct ibv_qp_init_attr *like, int error, const char *reason,
	  const char *remedy)
{
	struct ibv_qp_init_attr init = *like;

	assert_null_says(ibv_create_qp(f->pd, &init), error, "ibv_create_qp: ", reason, remedy);
}

static void
queue_pairs(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp_init_attr init = default_init(f);

	init.qp_type = IBV_QPT_UC;
	refuse_qp(f, &init, EOPNOTSUPP, "init_attr->qp_type = 3: ", "IBV_QPT_RC and IBV_QPT_UD; ");
	init = default_init(f);
	init.send_cq = NULL;
	refuse_qp(f, &init, EINVAL, "init_attr->send_cq = 0: ", "; give one from ibv_create_cq (EINVAL)");
	init = default_init(f);
	init.recv_cq = NULL;
	refuse_qp(f, &init, EINVAL, "init_attr->recv_cq = 0: ", "; give one from ibv_create_cq");
	init = default_init(f);
	init.cap.max_send_wr = 0x7fffffff;
	refuse_qp(f, &init, EINVAL, "init_attr->cap.max_send_wr = 2147483647: it may be 0 to ",
		  "; give one of");
	init = default_init(f);
	init.cap.max_recv_wr = 0x7fffffff;
	refuse_qp(f, &init, EINVAL, "init_attr->cap.max_recv_wr = 2147483647: ", "; give one of");
	init = default_init(f);
	init.cap.max_send_sge = 1000;
	refuse_qp(f, &init, EINVAL, "init_attr->cap.max_send_sge = 1000: ", "; give one of");
	init = default_init(f);
	init.cap.max_recv_sge = 1000;
	refuse_qp(f, &init, EINVAL, "init_attr->cap.max_recv_sge = 1000: ", "; give one of");
	init = default_init(f);
	init.cap.max_inline_data = 5000;
	refuse_qp(f, &init, EINVAL, "init_attr->cap.max_inline_data = 5000: ", "; give one of");
	init = default_init(f);
	mock_refuse(f->mock, ONE_MSG_QP_CREATE, -EDQUOT, ONE_SUBJECT_QUOTA, 23, 1);
	refuse_qp(f, &init, ENOMEM, "context = 0x", "the data plane's limit = 23: it is reached; ");
}

#define refuse_modify(mask, error, ...) \
	assert_says(ibv_modify_qp(f->qp, &attr, mask), error, "ibv_modify_qp: ", __VA_ARGS__)

static void
states(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp_attr attr;
	int mask = good_attr(IBV_QPS_RTS, &attr);

	refuse_modify(mask, EINVAL, "attr->qp_state = RTS: the queue pair is in RESET, ",
		      "; go by RESET, INIT");
	mask = good_attr(IBV_QPS_INIT, &attr);
	refuse_modify(
		mask & ~(IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), EINVAL,
		"attr_mask = 0x10: from RESET to INIT requires IBV_QP_ACCESS_FLAGS, IBV_QP_PORT; set these, too");
	refuse_modify(mask | IBV_QP_TIMEOUT, EINVAL,
		      "from RESET to INIT does not allow IBV_QP_TIMEOUT; leave");
	attr.port_num = 2;
	refuse_modify(mask, EINVAL, "attr->port_num = 2: only 1 is allowed; ");
	bring(f, IBV_QPS_INIT);
	mask = good_attr(IBV_QPS_RTR, &attr);
	attr.path_mtu = IBV_MTU_4096;
	refuse_modify(mask, EINVAL, "attr->path_mtu = 5: it may be 1 to 3; ");
	attr.path_mtu = IBV_MTU_1024;
	attr.ah_attr.is_global = 0;
	refuse_modify(mask, EINVAL, "attr->ah_attr.is_global = 0: ", "; give 1, and grh");
	attr.ah_attr.is_global = 1;
	attr.ah_attr.grh.sgid_index = 3;
	refuse_modify(mask, EINVAL, "attr->ah_attr.grh.sgid_index = 3: ");
	attr.ah_attr.grh.sgid_index = 0;
	memset(attr.ah_attr.grh.dgid.raw, 0xfe, 16);
	refuse_modify(mask, EINVAL, "attr->ah_attr.grh.dgid = no IPv4 address", "; give a GID");
	mask = good_attr(IBV_QPS_RTR, &attr);
	mock_refuse(f->mock, ONE_MSG_QP_RTR, -EHOSTUNREACH, ONE_SUBJECT_ADDRESS, 0, 1);
	refuse_modify(mask, ETIMEDOUT, "attr->ah_attr.grh.dgid = silent: no host answers", "(ETIMEDOUT)");
	assert_silent(ibv_modify_qp(f->qp, &attr, mask), 0);
	mask = good_attr(IBV_QPS_RTS, &attr);
	attr.retry_cnt = 8;
	refuse_modify(mask, EINVAL, "attr->retry_cnt = 8: it may be 0 to 7; give one of these (EINVAL)");
}

#define refuse_send(error, ...) \
	assert_says(ibv_post_send(f->qp, &wr, &bad), error, "ibv_post_send: ", __VA_ARGS__)

static void
sends(void **state)
{
	struct fixture *f = *state;
	char bytes[200];
	struct ibv_sge sge[8] = {{.addr = (uintptr_t)bytes, .length = sizeof(bytes)}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 1}, *bad;

	refuse_send(EINVAL, "qp->state = RESET: ", "; ibv_modify_qp to RTS first (EINVAL)");
	bring(f, IBV_QPS_RTS);
	wr.opcode = (enum ibv_wr_opcode)99;
	refuse_send(EOPNOTSUPP, "wr->opcode = 99: ", "; give another");
	wr.opcode = IBV_WR_SEND;
	wr.num_sge = 5;
	refuse_send(EINVAL, "wr->num_sge = 5: ", "at most 4 elements", "; give fewer", "max_send_sge");
	wr.num_sge = 1;
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	refuse_send(EINVAL, "wr->sg_list = 1 elements, 200 bytes: ", "; give one element of 8 bytes");
	wr.opcode = IBV_WR_RDMA_READ;
	wr.send_flags = IBV_SEND_INLINE;
	refuse_send(EINVAL, "wr->send_flags = 0x8: ", "; at most ", "max_inline_data");
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = 0;
	for (int i = 0; i < 8; i++)
		assert_silent(ibv_post_send(f->qp, &wr, &bad), 0);
	refuse_send(ENOMEM, "send queue full (max_send_wr = 8): ", "poll the send CQ", "(ENOMEM)");
	assert_ptr_equal(bad, &wr);
}

static void
receives(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge[3] = {{.length = 0}};
	struct ibv_recv_wr wr = {.sg_list = sge}, *bad;

	assert_says(ibv_post_recv(f->qp, &wr, &bad), EINVAL,
		    "ibv_post_recv: qp->state = RESET: ", "; ibv_modify_qp to INIT first (EINVAL)");
	bring(f, IBV_QPS_INIT);
	wr.num_sge = 3;
	assert_says(ibv_post_recv(f->qp, &wr, &bad), EINVAL,
		    "ibv_post_recv: wr->num_sge = 3: ", "at most 2 elements", "max_recv_sge");
	wr.num_sge = 0;
	for (int i = 0; i < 8; i++)
		assert_silent(ibv_post_recv(f->qp, &wr, &bad), 0);
	assert_says(ibv_post_recv(f->qp, &wr, &bad), ENOMEM,
		    "ibv_post_recv: receive queue full (max_recv_wr = 8): poll the receive CQ", "(ENOMEM)");
	assert_ptr_equal(bad, &wr);
}

/* Calls with a bad argument of another kind, and unsupported calls. */
static void
others(void **state)
{
	struct fixture *f = *state;
	struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 2, .max_sge = 1}};
	struct ibv_srq_attr attr = {.srq_limit = 3};
	struct ibv_ah_attr way = {.is_global = 0, .port_num = 1};
	struct ibv_sge sge[2] = {{.length = 0}};
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = 2}, *bad;
	struct ibv_mw_bind bind = {.bind_info = {.length = 8}};
	union ibv_gid gid;
	char bytes[64];
	struct ibv_srq *srq;
	struct ibv_mw *mw;

	assert_says(ibv_query_gid(f->context, 1, 3, &gid), (unsigned long)-1,
		    "ibv_query_gid: index = 3: only 0 is allowed; give that (EINVAL)");
	assert_null_says(ibv_create_ah(f->pd, &way), EINVAL, "ibv_create_ah: attr = 0x",
			 "is_global has to be 1");
	assert_says(ibv_attach_mcast(f->qp, &gid, 0), EOPNOTSUPP, "ibv_attach_mcast: qp = 0x",
		    "unsupported by this implementation; see oneside-run(1)", "(EOPNOTSUPP)");
	srq = ibv_create_srq(f->pd, &srq_init);
	assert_non_null(srq);
	assert_says(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), EINVAL,
		    "ibv_modify_srq: srq_attr->srq_limit = 3: it may be 0 to 2; ");
	assert_says(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL,
		    "ibv_modify_srq: srq_attr->max_wr = 0: it may be 1 to ");
	assert_says(ibv_post_srq_recv(srq, &wr, &bad), EINVAL,
		    "ibv_post_srq_recv: wr->num_sge = 2: ", "at most 1 elements");
	wr.num_sge = 0;
	for (int i = 0; i < 2; i++)
		assert_silent(ibv_post_srq_recv(srq, &wr, &bad), 0);
	assert_says(ibv_post_srq_recv(srq, &wr, &bad), ENOMEM, "ibv_post_srq_recv: SRQ full (max_wr = 2): ",
		    "let messages consume receives, or create the SRQ with more (ENOMEM)");
	assert_int_equal(ibv_destroy_srq(srq), 0);
	mw = ibv_alloc_mw(f->pd, IBV_MW_TYPE_1);
	assert_non_null(mw);
	bind.bind_info.mr = ibv_reg_mr(f->pd, bytes, sizeof(bytes), 0);
	assert_non_null(bind.bind_info.mr);
	assert_says(ibv_bind_mw(f->qp, mw, &bind), EINVAL, "ibv_bind_mw: bind_info->mr = 0x",
		    "; give one (EINVAL)");
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(bind.bind_info.mr), 0);
}

/* Requests of ibv_qp_ex, and states of a UD queue pair. */
static void
extended(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp_init_attr plain = default_init(f);
	struct ibv_qp_init_attr_ex init = {
		.send_cq = f->send_cq,
		.recv_cq = f->recv_cq,
		.cap = plain.cap,
		.qp_type = IBV_QPT_UD,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = f->pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ,
	};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x80000001};
	struct ibv_qp *qp;

	assert_null_says(
		ibv_create_qp_ex(f->context, &init), EOPNOTSUPP,
		"ibv_create_qp_ex: init_attr->send_ops_flags = 0x10: ", "; leave some out (EOPNOTSUPP)");
	init.send_ops_flags = IBV_QP_EX_WITH_SEND;
	qp = ibv_create_qp_ex(f->context, &init);
	assert_non_null(qp);
	assert_says(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
		    EPERM, "ibv_modify_qp: attr->qkey = 0x80000001: ", "; give one below 0x80000000 (EPERM)");
	assert_says(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL,
		    "from RESET to INIT requires IBV_QP_PKEY_INDEX, ",
		    "IBV_QP_PORT, IBV_QP_QKEY; set these, too");
	ibv_wr_start(ibv_qp_to_qp_ex(qp));
	ibv_wr_send(ibv_qp_to_qp_ex(qp));
	assert_says(ibv_wr_complete(ibv_qp_to_qp_ex(qp)), EINVAL,
		    "ibv_wr_complete: qp->state = RESET: ", "to RTS first");
	/* The first of several errors is reported. */
	ibv_wr_start(ibv_qp_to_qp_ex(qp));
	ibv_wr_send(ibv_qp_to_qp_ex(qp));
	ibv_wr_set_sge_list(ibv_qp_to_qp_ex(qp), 9, NULL);
	ibv_wr_set_inline_data(ibv_qp_to_qp_ex(qp), NULL, 5000);
	assert_says(ibv_wr_complete(ibv_qp_to_qp_ex(qp)), EINVAL,
		    "ibv_wr_complete: num_sge = 9: ", "at most 4 elements; ");
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void
no_data_plane(void **state)
{
	struct fixture *f = *state;
	char before[256];
	struct ibv_device **list = NULL;
	int num = 0;

	snprintf(before, sizeof(before), "%s", getenv("ONESIDE_SOCKET"));
	setenv("ONESIDE_SOCKET", "/nonexistent/oneside.sock", 1);
	assert_says(
		(list = ibv_get_device_list(&num)) != NULL, 1,
		"ibv_get_device_list: devices = 0: no data plane answers at /nonexistent/oneside.sock; start ",
		"(ENOENT)");
	ibv_free_device_list(list);
	assert_null_says(ibv_open_device(f->context->device), ENOENT, "ibv_open_device: device = \"",
			 "/nonexistent/oneside.sock: No such file or directory; start oneside-dataplane(8)",
			 "(ENOENT)");
	setenv("ONESIDE_SOCKET", before, 1);
}

/* Without ONESIDE_DEBUG refused calls print nothing. */
static void
not_asked(void **state)
{
	struct fixture *f = *state;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
	char bytes[8];

	assert_silent((uintptr_t)ibv_reg_mr(f->pd, bytes, 8, IBV_ACCESS_REMOTE_WRITE), 0);
	assert_int_equal(errno, EINVAL);
	assert_silent((uintptr_t)ibv_create_cq(f->context, 0, NULL, NULL, 0), 0);
	assert_silent(ibv_modify_qp(f->qp, &attr, IBV_QP_STATE), EINVAL);
	assert_silent(ibv_post_send(f->qp, &wr, &bad), EINVAL);
}

int
main(void)
{
	const struct CMUnitTest asked[] = {T(memory),   T(queues), T(queue_pairs), T(states),       T(sends),
					   T(receives), T(others), T(extended),    T(no_data_plane)};
	const struct CMUnitTest unasked[] = {T(not_asked)};

	return getenv("ONESIDE_DEBUG") != NULL ? cmocka_run_group_tests(asked, NULL, NULL)
					       : cmocka_run_group_tests(unasked, NULL, NULL);
}
