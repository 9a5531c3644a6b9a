/* SPDX-License-Identifier: BSD-3-Clause */
/* Each object: created, refused with the right errno, busy while used; requests posted and polled. */
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fixture.h"
#include "verbs/mem.h"
#include "verbs/qp.h"

static void
test_device(void **state)
{
	struct fixture *f = *state;
	struct ibv_values_ex before = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK}, after = before;
	struct ibv_device_attr_ex ex;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	struct ibv_gid_entry entry;
	union ibv_gid gid;
	__be16 pkey;

	assert_string_equal(ibv_get_device_name(f->context->device), mock_welcome(f->mock)->port);
	assert_int_equal(ibv_get_device_index(f->context->device), -1); /* the kernel has no such device */
	assert_memory_equal(&(__be64){ibv_get_device_guid(f->context->device)},
			    "\x00\x03\x04\xff\xfe\x05\x06\x07", 8);
	assert_int_equal(ibv_query_device(f->context, &attr), 0);
	assert_true((attr.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) != 0);
	assert_int_equal(attr.max_qp, (int)mock_welcome(f->mock)->limits.max_qp);
	assert_int_equal(attr.phys_port_cnt, 1);
	assert_int_equal(ibv_query_device_ex(f->context, NULL, &ex), 0);
	assert_int_equal(ex.orig_attr.max_cqe, attr.max_cqe);
	assert_int_equal(ex.hca_core_clock, 1000000);
	assert_int_equal(ibv_query_rt_values_ex(f->context, &before), 0);
	assert_int_equal(ibv_query_rt_values_ex(f->context, &after), 0);
	assert_int_not_equal(before.raw_clock.tv_nsec, 0);
	assert_true(after.raw_clock.tv_nsec >= before.raw_clock.tv_nsec);
	after.comp_mask <<= 1;
	assert_int_equal(ibv_query_rt_values_ex(f->context, &after), EINVAL);
	assert_int_equal(ibv_query_port(f->context, 1, &port), 0);
	assert_int_equal(port.state, IBV_PORT_ACTIVE);
	assert_int_equal(port.active_mtu, IBV_MTU_1024);
	assert_int_equal(port.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(port.active_width * 100 + port.active_speed, 232); /* 4 lanes of 25 Gb/s */
	assert_int_equal(ibv_query_port(f->context, 2, &port), EINVAL);
	assert_int_equal(ibv_query_gid(f->context, 1, 0, &gid), 0);
	assert_memory_equal(gid.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\x00\x02\x01", 16);
	assert_int_equal(ibv_query_gid(f->context, 1, 1, &gid), -1);
	assert_int_equal(ibv_query_gid_ex(f->context, 1, 0, &entry, 0), 0);
	assert_int_equal(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(ibv_query_gid_table(f->context, &entry, 1, 0), 1);
	assert_int_equal(ibv_query_pkey(f->context, 1, 0, &pkey), 0);
	assert_int_equal(pkey, 0xffff);
	assert_int_equal(ibv_query_pkey(f->context, 1, 1, &pkey), -1);
}

static void
test_no_device(void **state)
{
	struct fixture *f = *state;
	struct ibv_device **list;
	int num = 9;

	mock_kill(f->mock);
	list = ibv_get_device_list(&num);
	assert_non_null(list);
	assert_int_equal(num, 0);
	assert_null(list[0]);
	ibv_free_device_list(list);
	mock_revive(f->mock);
}

/* Reports more ports in each reply. */
static bool
answer_port(struct mock *mock, const struct one_msg *msg, const int *fds, uint32_t num_fds,
	    struct one_reply *reply, void *user)
{
	reply->port.num_ports = 2 * (msg->port_query.port + 1);
	reply->port.name[0] = (char)('a' + msg->port_query.port);
	return msg->port_query.port < 32;
}

/* A list of devices has room for as many as the first reply reported. */
static void
test_growing(void **state)
{
	struct fixture *f = *state;
	struct ibv_device **list;
	int num = 0;

	mock_on(f->mock, ONE_MSG_PORT, answer_port, NULL);
	list = ibv_get_device_list(&num);
	assert_non_null(list);
	assert_int_equal(num, 2);
	assert_string_equal(ibv_get_device_name(list[1]), "b");
	assert_null(list[2]);
	ibv_free_device_list(list);
}

static void
test_memory(void **state)
{
	struct fixture *f = *state;
	void *memory = aligned_alloc(4096, 8192);
	struct ibv_mr *mr;
	struct one_msg msg;

	assert_non_null(memory);
	memset(memory, 1, 8192);
	mr = ibv_reg_mr(f->pd, memory, 8192, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	assert_non_null(mr);
	assert_true(mock_last(f->mock, ONE_MSG_MR_CREATE, &msg));
	assert_int_equal(msg.mr_create.access,
			 ONE_ACCESS_LOCAL_READ | ONE_ACCESS_LOCAL_WRITE | ONE_ACCESS_REMOTE_READ);
	assert_int_equal(mr->length, 8192);
	assert_true(mr->lkey != 0 && mr->rkey != 0);
	assert_int_equal(ibv_dealloc_pd(f->pd), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_errno(ibv_reg_mr(f->pd, memory, 4096, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	assert_errno(ibv_reg_mr(f->pd, memory, 4096, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
	assert_errno(ibv_reg_mr(f->pd, memory, 4096, IBV_ACCESS_ON_DEMAND), EOPNOTSUPP);
	assert_errno(ibv_reg_mr(f->pd, memory, 4096, 1 << 15), EINVAL);
	assert_errno(ibv_reg_mr(f->pd, memory, 0, 0), EINVAL);
	assert_errno(ibv_reg_mr(f->pd, NULL, 4096, 0), EFAULT);
	/* Refused in all tries of the library, also after it released cached registrations. */
	mock_refuse(f->mock, ONE_MSG_MR_CREATE, -EDQUOT, ONE_SUBJECT_QUOTA, 5, 8);
	assert_errno(ibv_reg_mr(f->pd, memory, 4096, 0), ENOMEM);
	free(memory);
}

static bool
is_mapped(uint8_t *at)
{
	unsigned char in_core;

	return mincore(at, 4096, &in_core) == 0;
}

/* A file that can be mapped is registered as memory is; its region's addresses begin at `iova`. */
static void
test_memory_of_file(void **state)
{
	struct fixture *f = *state;
	int fd = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING), pipes[2];
	const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
	struct ibv_mr *mr;
	struct one_msg msg;
	uint8_t *at;

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 3 * 4096), 0);
	mr = ibv_reg_dmabuf_mr(f->pd, 4096 + 8, 4096, 0x70008, fd, access);
	assert_non_null(mr);
	assert_true(mock_last(f->mock, ONE_MSG_MR_CREATE, &msg));
	assert_int_equal(msg.mr_create.length, 4096);
	assert_ptr_equal(mr->addr, (void *)(4096 + 8));
	assert_int_equal(mr->length, 4096);
	at = TO(mr, mr)->mapping;
	assert_true(is_mapped(at));
	at[8] = 77; /* the file's second page begins the mapping */
	assert_int_equal(pread(fd, &pipes[0], 1, 4096 + 8), 1);
	assert_int_equal(*(uint8_t *)&pipes[0], 77);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_false(is_mapped(at));
	assert_errno(ibv_reg_dmabuf_mr(f->pd, 0, 0, 0, fd, access), EINVAL);
	assert_errno(ibv_reg_dmabuf_mr(f->pd, 1, SIZE_MAX, 1, fd, access), EINVAL);
	assert_errno(ibv_reg_dmabuf_mr(f->pd, 4 * 4096, 4096, 0, fd, access),
		     EOPNOTSUPP); /* behind the end */
	/* The question of NCCL and UCX: can the memory of a GPU be registered? */
	assert_errno(ibv_reg_dmabuf_mr(f->pd, 0, 0, 0, -1, 0), EOPNOTSUPP);
	assert_int_equal(pipe(pipes), 0);
	assert_errno(ibv_reg_dmabuf_mr(f->pd, 0, 4096, 0, pipes[0], 0), EOPNOTSUPP);
	close(pipes[0]);
	close(pipes[1]);
	close(fd);
}

static void
test_limits(void **state)
{
	struct fixture *f = *state;
	const struct one_limits *limits = &mock_welcome(f->mock)->limits;
	struct ibv_qp_init_attr init;
	struct ibv_srq_init_attr srq_init = {.attr = {.max_wr = 4, .max_sge = 2}};
	struct ibv_srq_attr srq_attr = {.srq_limit = 5};
	struct ibv_srq *srq;

	assert_errno(ibv_create_cq(f->context, 0, NULL, NULL, 0), EINVAL);
	assert_errno(ibv_create_cq(f->context, (int)limits->max_cq_entries + 1, NULL, NULL, 0), EINVAL);
	assert_errno(ibv_create_cq(f->context, 1, NULL, NULL, 1), EINVAL);
	mock_refuse(f->mock, ONE_MSG_CQ_CREATE, -EDQUOT, ONE_SUBJECT_QUOTA, 5, 1);
	assert_errno(ibv_create_cq(f->context, 1, NULL, NULL, 0), ENOMEM);
	mock_refuse(f->mock, ONE_MSG_CHANNEL_OPEN, -EDQUOT, ONE_SUBJECT_QUOTA, 5, 1);
	assert_errno(ibv_create_comp_channel(f->context), ENOMEM);
#define REFUSED(field, value, error) \
	init = default_init(f);      \
	init.field = value;          \
	assert_errno(ibv_create_qp(f->pd, &init), error)
	REFUSED(qp_type, IBV_QPT_UC, EOPNOTSUPP);
	REFUSED(send_cq, NULL, EINVAL);
	REFUSED(recv_cq, NULL, EINVAL);
	REFUSED(cap.max_send_wr, limits->max_qp_wr + 1, EINVAL);
	REFUSED(cap.max_recv_wr, limits->max_qp_wr + 1, EINVAL);
	REFUSED(cap.max_send_sge, ONE_MAX_SGE + 1, EINVAL);
	REFUSED(cap.max_recv_sge, ONE_MAX_SGE + 1, EINVAL);
	REFUSED(cap.max_inline_data, 1025, EINVAL);
#undef REFUSED
	assert_int_equal(ibv_destroy_cq(f->send_cq), EBUSY);
	assert_int_equal(ibv_destroy_comp_channel(f->channel), EBUSY);
	assert_int_equal(ibv_dealloc_pd(f->pd), EBUSY);
	srq = ibv_create_srq(f->pd, &srq_init);
	assert_non_null(srq);
	assert_int_equal(ibv_modify_srq(srq, &srq_attr, IBV_SRQ_LIMIT), EINVAL);
	assert_int_equal(ibv_modify_srq(srq, &srq_attr, IBV_SRQ_LIMIT << 1), EINVAL);
	srq_attr.srq_limit = 2;
	assert_int_equal(ibv_modify_srq(srq, &srq_attr, IBV_SRQ_LIMIT), 0);
	assert_int_equal(ibv_query_srq(srq, &srq_attr), 0);
	assert_int_equal(srq_attr.srq_limit, 2);
	assert_int_equal(srq_attr.max_wr, 4);
	/* A refused change leaves the SRQ unchanged, and values outside of the mask are ignored. */
	mock_refuse(f->mock, ONE_MSG_SRQ_LIMIT, -ENOMEM, ONE_SUBJECT_MEMORY, 0, 1);
	srq_attr.srq_limit = 3;
	assert_int_equal(ibv_modify_srq(srq, &srq_attr, IBV_SRQ_LIMIT), ENOMEM);
	srq_attr.srq_limit = 5;
	assert_int_equal(ibv_modify_srq(srq, &srq_attr, 0), 0);
	assert_int_equal(ibv_query_srq(srq, &srq_attr), 0);
	assert_int_equal(srq_attr.srq_limit, 2);
	init = default_init(f);
	init.srq = srq;
	assert_int_equal(ibv_destroy_qp(f->qp), 0);
	f->qp = ibv_create_qp(f->pd, &init);
	assert_non_null(f->qp);
	assert_int_equal(ibv_destroy_srq(srq), EBUSY);
	assert_int_equal(ibv_destroy_qp(f->qp), 0);
	f->qp = NULL;
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_errno(ibv_alloc_mw(f->pd, (enum ibv_mw_type)3), EINVAL);
}

/* Posts receives with ids `from`, `from` + 1 ...; the three segments take two slots in the ring. */
static int
post_srq(struct ibv_srq *srq, uint64_t from, uint32_t count)
{
	struct ibv_sge sge[3] = {{.length = 1}, {.length = 2}, {.length = 3}};
	struct ibv_recv_wr wr = {.sg_list = sge, .num_sge = 3}, *bad;
	int error = 0;

	for (uint32_t i = 0; i < count && error == 0; i++) {
		wr.wr_id = from + i;
		for (int n = 0; n < 3; n++)
			sge[n].addr = wr.wr_id * 3 + (uint64_t)n;
		error = ibv_post_srq_recv(srq, &wr, &bad);
	}
	return error;
}

static void
take_srq(struct fixture *f, uint32_t srq, uint64_t from, uint32_t count)
{
	struct one_sge sge[ONE_MAX_SGE];
	struct one_wqe wqe;
	struct ibv_wc wc;

	for (uint32_t i = 0; i < count; i++) {
		assert_true(mock_srq_take(f->mock, srq, f->qp_id, &wqe, sge));
		assert_int_equal(wqe.cookie, from + i);
		for (uint64_t n = 0; n < 3; n++)
			assert_int_equal(sge[n].addr, (from + i) * 3 + n);
		mock_srq_complete(f->mock, srq, f->qp_id, &wqe, ONE_STATUS_SUCCESS);
		assert_int_equal(ibv_poll_cq(f->recv_cq, 1, &wc), 1);
		assert_int_equal(wc.wr_id, from + i);
	}
}

/* An SRQ grows and shrinks with receives anywhere in its ring, but not below the receives in it or its
 * limit. */
static void
test_srq_resize(void **state)
{
	struct fixture *f = *state;
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 3}};
	struct ibv_srq_attr attr = {.max_wr = 3, .srq_limit = 2};
	struct ibv_srq *srq;
	uint64_t next = 0;
	uint32_t id;

	srq = ibv_create_srq(f->pd, &init);
	assert_non_null(srq);
	id = mock_newest(f->mock, ONE_MSG_SRQ_CREATE);
	for (uint32_t round = 0; round < 40; round++) {
		uint32_t size = 4 + round * 7 % 40;

		assert_int_equal(post_srq(srq, next, 4), 0);
		take_srq(f, id, next, 1);
		attr.max_wr = size;
		assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
		assert_int_equal(ibv_query_srq(srq, &attr), 0);
		assert_int_equal(attr.max_wr, size);
		assert_int_equal(post_srq(srq, next + 4, size - 3), 0);
		assert_int_equal(post_srq(srq, 0, 1), ENOMEM);
		attr.max_wr = size - 1;
		assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
		take_srq(f, id, next + 1, size);
		next += size + 1;
	}
	attr = (struct ibv_srq_attr){.max_wr = 8, .srq_limit = 8};
	assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
	attr.max_wr = 7;
	assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
	assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), EINVAL);
	attr.max_wr = 0;
	assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
	attr.max_wr = mock_welcome(f->mock)->limits.max_srq_wr + 1;
	assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
	attr.max_wr = 16;
	mock_refuse(f->mock, ONE_MSG_SRQ_SWAP, -EBUSY, ONE_SUBJECT_SRQ, 0, 1);
	assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
	mock_refuse(f->mock, ONE_MSG_SRQ_CREATE, -EDQUOT, ONE_SUBJECT_QUOTA, 0, 1);
	assert_int_equal(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), ENOMEM);
	assert_int_equal(ibv_query_srq(srq, &attr), 0);
	assert_int_equal(attr.max_wr, 8);
	assert_int_equal(attr.srq_limit, 8);
	assert_int_equal(post_srq(srq, next, 8), 0);
	take_srq(f, id, next, 8);
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

/* ---- posting ---- */

static void
test_post_states(void **state)
{
	struct fixture *f = *state;
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send = NULL;
	struct ibv_recv_wr recv = {.wr_id = 3}, *bad_recv = NULL;

	assert_int_equal(ibv_post_recv(f->qp, &recv, &bad_recv), EINVAL);
	assert_ptr_equal(bad_recv, &recv);
	bring(f, IBV_QPS_INIT);
	assert_int_equal(ibv_post_recv(f->qp, &recv, &bad_recv), 0);
	assert_int_equal(ibv_post_send(f->qp, &send, &bad_send), EINVAL);
	assert_ptr_equal(bad_send, &send);
	assert_int_equal(mock_posted(f->mock, f->qp_id, true), 1);
	assert_int_equal(mock_posted(f->mock, f->qp_id, false), 0);
}

static void
test_post_send(void **state)
{
	struct fixture *f = *state;
	struct ibv_sge sge[5] = {{.addr = 0x1000, .length = 10, .lkey = 7},
				 {.addr = 0x2000, .length = 20, .lkey = 8}};
	struct ibv_send_wr second = {.wr_id = 2,
				     .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				     .sg_list = sge,
				     .num_sge = 2,
				     .imm_data = 99,
				     .send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED};
	struct ibv_send_wr first = {.wr_id = 1, .next = &second, .opcode = IBV_WR_SEND}, *bad;
	struct one_sge pieces[ONE_MAX_SGE];
	struct one_wqe wqe;
	struct ibv_wc wc[4];

	bring(f, IBV_QPS_RTS);
	second.wr.rdma.remote_addr = 0x777000;
	second.wr.rdma.rkey = 0x55;
	assert_int_equal(ibv_post_send(f->qp, &first, &bad), 0);
	assert_true(mock_take(f->mock, f->qp_id, false, &wqe, pieces));
	assert_int_equal(wqe.op, ONE_OP_SEND);
	assert_int_equal(wqe.flags, ONE_WQE_SUPPRESS);
	mock_complete(f->mock, f->qp_id, &wqe, ONE_STATUS_SUCCESS);
	assert_true(mock_take(f->mock, f->qp_id, false, &wqe, pieces));
	assert_int_equal(wqe.op, ONE_OP_WRITE_IMM);
	assert_int_equal(wqe.flags, ONE_WQE_SOLICITED);
	assert_int_equal(wqe.length, 30);
	assert_int_equal(wqe.imm, 99);
	assert_int_equal(wqe.rkey, 0x55);
	assert_int_equal(wqe.remote_addr, 0x777000);
	assert_int_equal(pieces[1].addr, 0x2000);
	assert_int_equal(pieces[1].lkey, 8);
	assert_int_equal(ibv_poll_cq(f->send_cq, 4, wc), 0);
	mock_complete(f->mock, f->qp_id, &wqe, ONE_STATUS_SUCCESS);
	assert_int_equal(ibv_poll_cq(f->send_cq, 4, wc), 1);
	assert_int_equal(wc[0].wr_id, 2);
	assert_int_equal(wc[0].status, IBV_WC_SUCCESS);
	assert_int_equal(wc[0].opcode, IBV_WC_RDMA_WRITE);
	assert_int_equal(wc[0].qp_num, f->qp->qp_num);
	/* ibv_post_send() reports the first wrong request, and posts those before it. */
	first.num_sge = 0;
	second.num_sge = 5;
	assert_int_equal(ibv_post_send(f->qp, &first, &bad), EINVAL);
	assert_ptr_equal(bad, &second);
	assert_int_equal(mock_posted(f->mock, f->qp_id, false), 1);
	first.next = NULL;
	first.opcode = IBV_WR_TSO;
	assert_int_equal(ibv_post_send(f->qp, &first, &bad), EOPNOTSUPP);
	first.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	assert_int_equal(ibv_post_send(f->qp, &first, &bad), EINVAL); /* atomics need 8 bytes */
	first.opcode = IBV_WR_SEND;
	for (int i = 0; i < 7; i++)
		assert_int_equal(ibv_post_send(f->qp, &first, &bad), 0);
	assert_int_equal(ibv_post_send(f->qp, &first, &bad), ENOMEM);
}

static void
test_atomics_and_inline(void **state)
{
	struct fixture *f = *state;
	uint8_t data[200];
	struct ibv_sge sge = {.addr = 0x1000, .length = 8, .lkey = 7};
	struct ibv_send_wr wr = {.opcode = IBV_WR_ATOMIC_CMP_AND_SWP, .sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct one_sge pieces[ONE_MAX_SGE];
	struct one_wqe wqe;

	bring(f, IBV_QPS_RTS);
	wr.wr.atomic.compare_add = 0x1122334455667788;
	wr.wr.atomic.swap = 0x99;
	assert_int_equal(ibv_post_send(f->qp, &wr, &bad), 0);
	assert_true(mock_take(f->mock, f->qp_id, false, &wqe, pieces));
	assert_int_equal(wqe.length, 0x55667788);
	assert_int_equal(wqe.imm, 0x11223344);
	assert_int_equal(wqe.atomic.add_or_swap, 0x99);
	mock_done(f->mock, f->qp_id, false);
	/* Inline data: a little is stored in the request, more is copied before the call returns, too much is
	 * refused. */
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)i;
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = IBV_SEND_INLINE;
	sge.addr = (uintptr_t)data;
	sge.length = ONE_INLINE_MAX;
	assert_int_equal(ibv_post_send(f->qp, &wr, &bad), 0);
	assert_int_equal(ibv_query_qp(f->qp, &attr, IBV_QP_CAP, &init), 0);
	assert_int_equal(init.cap.max_inline_data, 128); /* 100 were requested */
	sge.length = 128;
	assert_int_equal(ibv_post_send(f->qp, &wr, &bad), 0);
	sge.length = 129;
	assert_int_equal(ibv_post_send(f->qp, &wr, &bad), EINVAL);
	memset(data, 0xff, sizeof(data));
	assert_true(mock_take(f->mock, f->qp_id, false, &wqe, pieces));
	assert_int_equal(wqe.inline_len, ONE_INLINE_MAX);
	assert_int_equal(wqe.inline_data[23], 23);
	assert_true(mock_take(f->mock, f->qp_id, false, &wqe, pieces));
	assert_int_equal(wqe.num_sge, 1);
	assert_int_equal(pieces[0].len, 128);
	assert_int_equal(((const uint8_t *)(uintptr_t)pieces[0].addr)[127], 127);
	assert_true(mock_mr_of_key(f->mock, pieces[0].lkey) != 0);
}

/* A list longer than the queue allows is refused unread; a request without a list does not read one. */
static void
test_sges_unread(void **state)
{
	struct fixture *f = *state;
	uint8_t *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_sge *last = (void *)(pages + 4096 - sizeof(*last));
	struct ibv_recv_wr recv = {.sg_list = last, .num_sge = INT_MAX}, *bad_recv = NULL;
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND, .sg_list = last, .num_sge = INT_MAX}, *bad = NULL;

	assert_ptr_not_equal(pages, MAP_FAILED);
	assert_int_equal(mprotect(pages + 4096, 4096, PROT_NONE), 0);
	bring(f, IBV_QPS_RTS);
	assert_int_equal(ibv_post_send(f->qp, &send, &bad), EINVAL);
	assert_ptr_equal(bad, &send);
	assert_int_equal(ibv_post_recv(f->qp, &recv, &bad_recv), EINVAL);
	assert_ptr_equal(bad_recv, &recv);
	send.opcode = IBV_WR_LOCAL_INV;
	send.sg_list = (void *)(pages + 4096);
	send.num_sge = 1;
	assert_int_equal(ibv_post_send(f->qp, &send, &bad), 0);
	munmap(pages, 8192);
}

/* Each outstanding request has its own space for inline data, also after the ring's count wraps. */
static void
test_inline_places(void **state)
{
	struct fixture *f = *state, small = *f;
	struct ibv_qp_init_attr init = default_init(f);
	uint8_t data[100];
	struct ibv_sge sge = {.addr = (uintptr_t)data, .length = sizeof(data)};
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_INLINE,
				 .sg_list = &sge,
				 .num_sge = 1},
			   *bad;
	struct one_sge pieces[3][ONE_MAX_SGE];
	struct one_wqe wqe;
	struct one_qp *ring;

	init.cap.max_send_wr = 3;
	small.qp = ibv_create_qp(f->pd, &init);
	assert_non_null(small.qp);
	small.qp_id = mock_newest(f->mock, ONE_MSG_QP_CREATE);
	bring(&small, IBV_QPS_RTS);
	ring = &TO(qp, small.qp)->ring;
	ring->sq_posted = ring->sq_done_seen = UINT32_MAX;
	for (uint8_t i = 0; i < 3; i++) {
		memset(data, i, sizeof(data));
		assert_int_equal(ibv_post_send(small.qp, &wr, &bad), 0);
	}
	for (int i = 0; i < 3; i++) {
		assert_true(mock_take(f->mock, small.qp_id, false, &wqe, pieces[i]));
		assert_int_equal(*(const uint8_t *)(uintptr_t)pieces[i][0].addr, i);
	}
	assert_int_equal(ibv_destroy_qp(small.qp), 0);
}

/* ---- completions ---- */

/* RESET drops completions of the queue pair that is reset, and no others. */
static void
test_reset(void **state)
{
	struct fixture *f = *state;
	struct ibv_qp_init_attr init = default_init(f);
	struct ibv_qp *other = ibv_create_qp(f->pd, &init);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct fixture of_other = *f;
	struct ibv_wc wc[8];

	assert_non_null(other);
	of_other.qp_id = mock_newest(f->mock, ONE_MSG_QP_CREATE);
	bring(f, IBV_QPS_RTS);
	receive(f, 1, 0);
	receive(&of_other, 2, 0);
	receive(f, 3, 0);
	assert_int_equal(ibv_modify_qp(f->qp, &attr, IBV_QP_STATE), 0);
	receive(f, 4, 0); /* after the reset */
	assert_int_equal(ibv_poll_cq(f->recv_cq, 8, wc), 2);
	assert_int_equal(wc[0].wr_id, 2);
	assert_int_equal(wc[0].qp_num, other->qp_num);
	assert_int_equal(wc[1].wr_id, 4);
	/* A destroyed queue pair's completions are dropped. */
	receive(&of_other, 5, 0);
	assert_int_equal(ibv_destroy_qp(other), 0);
	assert_int_equal(ibv_poll_cq(f->recv_cq, 8, wc), 0);
}

/* Between entries of a batch the application may arm the CQ, and reset or destroy its queue pairs. */
static void
test_within_batch(void **state)
{
	struct fixture *f = *state, other = *f;
	struct ibv_cq_init_attr_ex cq_init = {
		.cqe = 4, .channel = f->channel, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_qp_attr reset = {.qp_state = IBV_QPS_RESET};
	struct ibv_poll_cq_attr poll_attr = {0};
	struct ibv_qp_init_attr init = default_init(f);
	struct ibv_cq_ex *cq = ibv_create_cq_ex(f->context, &cq_init);

	assert_non_null(cq);
	init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
	other.recv_id = mock_newest(f->mock, ONE_MSG_CQ_CREATE);
	other.qp = ibv_create_qp(f->pd, &init);
	other.qp_id = mock_newest(f->mock, ONE_MSG_QP_CREATE);
	assert_non_null(other.qp);
	bring(&other, IBV_QPS_RTS);
	for (uint64_t i = 1; i <= 3; i++)
		receive(&other, i, 0);
	assert_int_equal(ibv_start_poll(cq, &poll_attr), 0);
	assert_int_equal(ibv_req_notify_cq(ibv_cq_ex_to_cq(cq), 0), 0);
	assert_int_equal(ibv_next_poll(cq), 0);
	assert_int_equal(cq->wr_id, 2);
	assert_int_equal(ibv_modify_qp(other.qp, &reset, IBV_QP_STATE), 0);
	assert_int_equal(ibv_destroy_qp(other.qp), 0);
	assert_int_equal(ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

static void *
destroy(void *qp)
{
	assert_int_equal(ibv_destroy_qp(qp), 0);
	return NULL;
}

/* A queue pair that reuses the slot of one still being destroyed receives its own completions. */
static void
test_place_again(void **state)
{
	struct fixture *f = *state, next = *f;
	struct ibv_cq_init_attr_ex cq_init = {.cqe = 4, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_qp_init_attr init = default_init(f);
	struct ibv_poll_cq_attr poll_attr = {0};
	struct ibv_cq_ex *cq = ibv_create_cq_ex(f->context, &cq_init);
	struct one_cqe cqe = {.type = ONE_CQE_RECV, .flags = ONE_CQE_NOTIFY, .op = ONE_OP_RECV};
	uint32_t freed = mock_count(f->mock, ONE_MSG_QP_FREE),
		 cq_id = mock_newest(f->mock, ONE_MSG_CQ_CREATE);
	pthread_t thread;
	struct ibv_qp *qp;
	struct ibv_wc wc;

	assert_non_null(cq);
	init.send_cq = init.recv_cq = ibv_cq_ex_to_cq(cq);
	qp = ibv_create_qp(f->pd, &init);
	assert_non_null(qp);
	cqe.object = mock_newest(f->mock, ONE_MSG_QP_CREATE);
	assert_true(mock_cqe(f->mock, cq_id, &cqe));
	/* Destroying waits while the CQ is being polled. */
	assert_int_equal(ibv_start_poll(cq, &poll_attr), 0);
	assert_int_equal(pthread_create(&thread, NULL, destroy, qp), 0);
	while (mock_count(f->mock, ONE_MSG_QP_FREE) == freed)
		sched_yield();
	mock_number(f->mock, cqe.object + ONE_QPS_MAX);
	init = default_init(f);
	next.qp = ibv_create_qp(f->pd, &init);
	assert_non_null(next.qp);
	next.qp_id = mock_newest(f->mock, ONE_MSG_QP_CREATE);
	assert_int_equal(next.qp_id % ONE_QPS_MAX, cqe.object % ONE_QPS_MAX);
	ibv_end_poll(cq);
	assert_int_equal(pthread_join(thread, NULL), 0);
	receive(&next, 1, 0);
	assert_int_equal(ibv_poll_cq(f->recv_cq, 1, &wc), 1);
	assert_int_equal(wc.qp_num, next.qp->qp_num);
	assert_int_equal(ibv_destroy_qp(next.qp), 0);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_device),         T(test_no_device),
		T(test_growing),        T(test_memory),
		T(test_memory_of_file), T(test_limits),
		T(test_srq_resize),     T(test_post_states),
		T(test_post_send),      T(test_atomics_and_inline),
		T(test_sges_unread),    T(test_inline_places),
		T(test_reset),          T(test_within_batch),
		T(test_place_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
