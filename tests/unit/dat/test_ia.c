/* SPDX-License-Identifier: BSD-3-Clause */
/* Interface adapters: opening, attributes, closing, contexts, and the loss of the data plane. */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fixture.h"
#include "tests/asleep.h"

static void
opens(void **state)
{
	struct fixture *f = *state;
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL, same;
	char name[] = "oneside";
	DAT_IA_HANDLE ia;

	assert_ret(dat_ia_open(name, 0, &evd, &ia), BAD_ARG(2));
	assert_ret(dat_ia_open(name, -1, &evd, &ia), BAD_ARG(2));
	evd = f->dto;
	assert_ret(dat_ia_open(name, 8, &evd, &ia), BAD_HANDLE(EVD_ASYNC));
	evd = f->pz;
	assert_ret(dat_ia_open(name, 8, &evd, &ia), BAD_HANDLE(EVD_ASYNC));
	mock_refuse(f->mock, ONE_MSG_HELLO, -EDQUOT, ONE_SUBJECT_QUOTA, 1, 1);
	evd = DAT_HANDLE_NULL;
	assert_ret(dat_ia_open(name, 8, &evd, &ia), ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE));
	/* several opens of one name are independent */
	assert_ok(dat_ia_open(name, 8, &evd, &ia));
	assert_ptr_not_equal(ia, f->ia);
	assert_ptr_not_equal(evd, f->async);
	assert_ok(dat_ia_query(ia, &same, 0, NULL, 0, NULL));
	assert_ptr_equal(same, evd);
	assert_ok(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
	assert_ret(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG), BAD_HANDLE(IA));
	/* Without an asynchronous EVD. */
	evd = DAT_EVD_ASYNC_EXISTS;
	assert_ok(dat_ia_open(name, 0, &evd, &ia));
	assert_ptr_equal(evd, DAT_EVD_OUT_OF_SCOPE);
	assert_ok(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
}

static void
nobody_there(void **state)
{
	struct fixture *f = *state;
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	char name[] = "oneside";
	DAT_IA_HANDLE ia;

	mock_kill(f->mock);
	assert_ret(dat_ia_open(name, 8, &evd, &ia), ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_DEVICE));
	mock_revive(f->mock);
	assert_ok(dat_ia_open(name, 8, &evd, &ia));
	assert_ok(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
}

/* Compares the message that a failing open prints. */
static void
says(const char *name, const char *text)
{
	char file[] = "/tmp/oneside-ia-XXXXXX", said[512], own[DAT_NAME_MAX_LENGTH];
	int out = mkstemp(file), before = dup(STDERR_FILENO);
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;
	ssize_t len;

	assert_true(out >= 0 && before >= 0);
	unlink(file);
	snprintf(own, sizeof(own), "%s", name);
	dup2(out, STDERR_FILENO);
	DAT_RETURN ret = dat_ia_open(own, 8, &evd, &ia);
	dup2(before, STDERR_FILENO);
	close(before);
	assert_int_not_equal(ret, DAT_SUCCESS);
	len = pread(out, said, sizeof(said) - 1, 0);
	close(out);
	said[len > 0 ? len : 0] = '\0';
	if (strstr(said, text) == NULL)
		fail_msg("\"%s\" is not in \"%s\"", text, said);
}

static void
reasons(void **state)
{
	struct fixture *f = *state;
	char text[256];

	setenv("DAT_DBG_TYPE", "1", 1);
	says("ib0", "ib0: no interface adapter has this name");
	mock_refuse(f->mock, ONE_MSG_HELLO, -ENODEV, ONE_SUBJECT_PORT, 0, 1);
	unsetenv("DAT_DBG_TYPE"); /* The other reasons are printed without it. */
	snprintf(text, sizeof(text), "the data plane at %s has no port \"p9\"", getenv("ONESIDE_SOCKET"));
	says("oneside-p9", text);
	mock_kill(f->mock);
	snprintf(text, sizeof(text), "no data plane serves at %s: ", getenv("ONESIDE_SOCKET"));
	says("oneside", text);
	mock_revive(f->mock);
}

/* Two IAs share an asynchronous EVD. */
static void
shared_async(void **state)
{
	struct fixture *f = *state;
	struct one_cqe cqe = {.type = ONE_CQE_ASYNC, .status = ONE_ASYNC_QP_ERROR};
	DAT_EVD_HANDLE evd = f->async, got;
	char name[] = "oneside";
	DAT_EP_HANDLE ep;
	DAT_IA_HANDLE ia;
	DAT_EVENT event;

	assert_ok(dat_ia_open(name, 0, &evd, &ia));
	assert_ptr_equal(evd, f->async);
	assert_ok(dat_ia_query(ia, &got, 0, NULL, 0, NULL));
	assert_ptr_equal(got, f->async);
	assert_ok(dat_ep_create(ia, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL, DAT_HANDLE_NULL, NULL,
				&ep));
	cqe.object = mock_newest(f->mock, ONE_MSG_QP_CREATE);
	assert_true(mock_cqe(f->mock, mock_async_cq(f->mock), &cqe));
	event = expect_event(f->async, DAT_ASYNC_ERROR_EP_BROKEN);
	assert_ptr_equal(event.event_data.asynch_error_event_data.dat_handle, ep);
	assert_ok(dat_ep_free(ep));
	/* The owner of the EVD cannot close gracefully, the guest can; the guest's events end with the
	 * guest. */
	assert_ret(dat_ia_close(f->ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	assert_true(mock_cqe(f->mock, mock_async_cq(f->mock), &cqe));
	assert_ok(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
	expect_empty(f->async);
	/* The owner is closed first: the guest has no EVD any more. */
	assert_ok(dat_ia_open(name, 0, &evd, &ia));
	assert_ok(dat_ia_close(f->ia, DAT_CLOSE_ABRUPT_FLAG));
	f->ia = DAT_HANDLE_NULL;
	assert_ok(dat_ia_query(ia, &got, 0, NULL, 0, NULL));
	assert_ptr_equal(got, DAT_EVD_OUT_OF_SCOPE);
	assert_ok(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
}

static void
attributes(void **state)
{
	struct fixture *f = *state;
	const struct one_limits *limits = &mock_welcome(f->mock)->limits;
	DAT_PROVIDER_ATTR provider;
	DAT_EVD_HANDLE evd;
	DAT_IA_ATTR ia;

	assert_ok(dat_ia_query(f->ia, &evd, DAT_IA_FIELD_ALL, &ia, DAT_PROVIDER_FIELD_ALL, &provider));
	assert_ptr_equal(evd, f->async);
	assert_string_equal(ia.adapter_name, "oneside");
	assert_string_equal(ia.vendor_name, "oneside");
	assert_int_equal(ia.ia_address_ptr->sa_family, AF_INET);
	assert_memory_equal(&((struct sockaddr_in *)ia.ia_address_ptr)->sin_addr, mock_welcome(f->mock)->addr,
			    4);
	assert_int_equal(ia.max_eps, limits->max_qp);
	assert_int_equal(ia.max_evds, limits->max_cq);
	assert_int_equal(ia.max_lmrs, limits->max_mr);
	assert_int_equal(ia.max_rmrs, limits->max_mw);
	assert_int_equal(ia.max_pzs, limits->max_pz);
	assert_int_equal(ia.max_lmr_block_size, limits->max_mr_bytes);
	assert_int_equal(ia.max_srqs, limits->max_srq);
	assert_true(ia.max_iov_segments_per_dto >= 4);
	assert_int_equal(provider.dapl_version_major, 1);
	assert_int_equal(provider.dapl_version_minor, 2);
	assert_int_equal(provider.is_thread_safe, DAT_TRUE);
	assert_int_equal(provider.iov_ownership_on_return, DAT_IOV_CONSUMER);
	assert_int_equal(provider.lmr_mem_types_supported, 3);
	assert_int_equal(provider.srq_supported, DAT_TRUE);
	assert_int_equal(provider.lmr_sync_req, DAT_FALSE);
	assert_int_equal(provider.ep_creator, DAT_PSP_CREATES_EP_IFASKED);
	assert_int_equal(256 % provider.optimal_buffer_alignment, 0);
	for (int i = 0; i < 6; i++) {
		for (int j = 0; j < 6; j++)
			assert_int_equal(provider.evd_stream_merging_supported[i][j], i < 5 && j < 5);
	}
	assert_ok(dat_ia_query(f->ia, NULL, 0, NULL, 0, NULL));
	assert_ret(dat_ia_query(f->ia, NULL, DAT_IA_ALL, NULL, 0, NULL), BAD_ARG(4));
	assert_ret(dat_ia_query(f->ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL, NULL), BAD_ARG(6));
	assert_ret(dat_ia_query(f->ia, NULL, (DAT_IA_ATTR_MASK)1 << 40, &ia, 0, NULL), BAD_ARG(3));
	for (size_t i = 0; i < num_not_handles; i++)
		assert_ret(dat_ia_query(not_handles[i], NULL, 0, NULL, 0, NULL), BAD_HANDLE(IA));
	assert_ret(dat_ia_query(f->dto, NULL, 0, NULL, 0, NULL), BAD_HANDLE(IA));
}

static void
closing(void **state)
{
	struct fixture *f = *state;
	DAT_HANDLE mine[8];
	DAT_REGION_DESCRIPTION desc;
	static char memory[4096];
	DAT_HANDLE_TYPE type;

	assert_ret(dat_ia_close(f->ia, (DAT_CLOSE_FLAGS)2), BAD_ARG(2));
	assert_ret(dat_ia_close(f->pz, DAT_CLOSE_ABRUPT_FLAG), BAD_HANDLE(IA));
	for (size_t i = 0; i < num_not_handles; i++)
		assert_ret(dat_ia_close(not_handles[i], DAT_CLOSE_ABRUPT_FLAG), BAD_HANDLE(IA));
	assert_ret(dat_ia_close(f->ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	/* An object of each type. */
	desc.for_va = memory;
	assert_ok(dat_lmr_create(f->ia, 0, desc, sizeof(memory), f->pz, DAT_MEM_PRIV_ALL_FLAG, &mine[0], NULL,
				 NULL, NULL, NULL));
	assert_ok(dat_rmr_create(f->pz, &mine[1]));
	mine[2] = make_ep(f, NULL);
	assert_ok(dat_psp_create(f->ia, 5000, f->cr, 0, &mine[3]));
	mock_request(f->mock, mock_newest(f->mock, ONE_MSG_LISTEN), 5000, NULL, 0);
	mine[4] =
		expect_event(f->cr, DAT_CONNECTION_REQUEST_EVENT).event_data.cr_arrival_event_data.cr_handle;
	mine[5] = make_ep(f, NULL);
	assert_ok(dat_rsp_create(f->ia, 5001, mine[5], f->cr, &mine[6]));
	assert_ok(dat_cno_create(f->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &mine[7]));
	assert_ok(dat_evd_modify_cno(f->dto, mine[7]));
	assert_ok(dat_ia_close(f->ia, DAT_CLOSE_ABRUPT_FLAG));
	f->ia = DAT_HANDLE_NULL;
	for (int i = 0; i < 8; i++)
		assert_ret(dat_get_handle_type(mine[i], &type),
			   ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
	assert_ret(dat_pz_free(f->pz), BAD_HANDLE(PZ));
	assert_ret(dat_evd_free(f->async), BAD_HANDLE(EVD_REQUEST));
}

static void
closing_gracefully(void **state)
{
	struct fixture *f = *state;

	assert_ok(dat_pz_free(f->pz));
	assert_ok(dat_evd_free(f->dto));
	assert_ok(dat_evd_free(f->recv));
	assert_ok(dat_evd_free(f->conn));
	assert_ret(dat_ia_close(f->ia, DAT_CLOSE_GRACEFUL_FLAG), BAD_STATE(IA_IN_USE));
	assert_ok(dat_evd_free(f->cr));
	assert_ok(dat_ia_close(f->ia, DAT_CLOSE_GRACEFUL_FLAG));
	f->ia = DAT_HANDLE_NULL;
}

static void
contexts(void **state)
{
	struct fixture *f = *state;
	struct {
		DAT_HANDLE handle;
		DAT_HANDLE_TYPE type;
	} all[] = {
		{f->ia, DAT_HANDLE_TYPE_IA},
		{f->pz, DAT_HANDLE_TYPE_PZ},
		{f->dto, DAT_HANDLE_TYPE_EVD},
		{f->async, DAT_HANDLE_TYPE_EVD},
		{make_ep(f, NULL), DAT_HANDLE_TYPE_EP},
	};
	const size_t count = sizeof(all) / sizeof(all[0]);
	DAT_CONTEXT context;
	DAT_HANDLE_TYPE type;

	for (size_t i = 0; i < count; i++) {
		assert_ok(dat_get_handle_type(all[i].handle, &type));
		assert_int_equal(type, all[i].type);
		assert_ok(dat_get_consumer_context(all[i].handle, &context));
		assert_null(context.as_ptr);
		context.as_64 = 0xabcdef0123456789u + i;
		assert_ok(dat_set_consumer_context(all[i].handle, context));
	}
	for (size_t i = 0; i < count; i++) {
		assert_ok(dat_get_consumer_context(all[i].handle, &context));
		assert_int_equal(context.as_64, 0xabcdef0123456789u + i);
	}
	assert_ret(dat_get_consumer_context(f->ia, NULL), BAD_ARG(2));
	assert_ret(dat_get_handle_type(f->ia, NULL), BAD_ARG(2));
	for (size_t i = 0; i < num_not_handles; i++) {
		assert_ret(dat_get_consumer_context(not_handles[i], &context),
			   ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
		assert_ret(dat_set_consumer_context(not_handles[i], context),
			   ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
	}
	assert_ok(dat_ep_free(all[count - 1].handle));
	assert_ok(dat_pz_free(f->pz));
	assert_ret(dat_set_consumer_context(f->pz, context), ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1));
}

static void
no_shared_receive_queues(void **state)
{
	static char name[] = "oneside";
	struct fixture *f = *state;
	DAT_EVD_HANDLE evd = DAT_EVD_ASYNC_EXISTS;
	DAT_PROVIDER_ATTR provider;
	DAT_IA_HANDLE ia;
	DAT_PZ_HANDLE pz;
	DAT_SRQ_ATTR attr = {8, 1, 0};
	DAT_DTO_COOKIE cookie = {.as_64 = 1};
	DAT_EP_ATTR ep_attr;
	DAT_SRQ_PARAM param;
	DAT_SRQ_HANDLE srq;
	DAT_EP_HANDLE ep;

	mock_welcome(f->mock)->limits.max_srq = 0;
	assert_ok(dat_ia_open(name, 8, &evd, &ia));
	assert_ok(dat_pz_create(ia, &pz));
	assert_ok(dat_ia_query(ia, NULL, 0, NULL, DAT_PROVIDER_FIELD_ALL, &provider));
	assert_int_equal(provider.srq_supported, DAT_FALSE);
	assert_int_equal(provider.srq_watermarks_supported, 0);
	assert_int_equal(provider.srq_info_supported, 0);
	default_attr(&ep_attr);
	assert_ret(dat_srq_create(ia, pz, &attr, &srq), ERROR(DAT_MODEL_NOT_SUPPORTED, 0));
	assert_ret(dat_srq_create(f->pz, f->pz, &attr, &srq), BAD_HANDLE(IA));
	assert_ret(dat_ep_create_with_srq(f->ia, f->pz, f->recv, f->dto, f->conn, f->pz, &ep_attr, &ep),
		   BAD_HANDLE(SRQ));
	assert_ret(dat_srq_free(f->pz), BAD_HANDLE(SRQ));
	assert_ret(dat_srq_post_recv(f->pz, 0, NULL, cookie), BAD_HANDLE(SRQ));
	assert_ret(dat_srq_query(f->pz, DAT_SRQ_FIELD_ALL, &param), BAD_HANDLE(SRQ));
	assert_ret(dat_srq_resize(f->pz, 8), BAD_HANDLE(SRQ));
	assert_ret(dat_srq_set_lw(DAT_HANDLE_NULL, 8), BAD_HANDLE(SRQ));
	assert_ok(dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG));
}

struct waiter {
	pthread_t thread;
	_Atomic pid_t tid;
	DAT_EVD_HANDLE evd;
	DAT_CNO_HANDLE cno;
	DAT_EVENT event;
	DAT_RETURN ret;
};

static void *
wait_main(void *arg)
{
	struct waiter *w = arg;
	DAT_EVD_HANDLE evd;
	DAT_COUNT nmore;

	atomic_store(&w->tid, gettid());
	if (w->cno != DAT_HANDLE_NULL)
		w->ret = dat_cno_wait(w->cno, DAT_TIMEOUT_INFINITE, &evd);
	else
		w->ret = dat_evd_wait(w->evd, DAT_TIMEOUT_INFINITE, 1, &w->event, &nmore);
	return NULL;
}

/* Returns when the thread sleeps in its wait. */
static void
start_waiter(struct waiter *w)
{
	assert_int_equal(pthread_create(&w->thread, NULL, wait_main, w), 0);
	await_asleep(&w->tid);
}

/* kill -9 of the data plane: everything ends, nothing hangs. */
static void
lost(void **state)
{
	struct fixture *f = *state;
	DAT_DTO_COOKIE cookie;
	struct waiter async = {.evd = f->async}, conn = {.evd = f->conn}, idle = {0}, cno = {0};
	DAT_EVD_HANDLE quiet, evd;
	DAT_RMR_TRIPLET remote = {.rmr_context = 1};
	DAT_EP_HANDLE ep, pending, unconnected;
	uint32_t qp, other;
	DAT_COUNT nmore;
	struct one_wqe wqe;
	DAT_EVENT event;
	DAT_PZ_HANDLE pz;
	char name[] = "oneside";
	DAT_LMR_TRIPLET none = {0};
	DAT_RMR_HANDLE rmr;
	DAT_IA_HANDLE ia;

	assert_ok(dat_rmr_create(f->pz, &rmr));
	ep = connected_ep(f, &qp);
	pending = make_ep(f, &other);
	connect_to(pending, 7);
	unconnected = make_ep(f, NULL);
	cookie.as_64 = 99;
	assert_ok(dat_ep_post_recv(unconnected, 0, NULL, cookie, 0));
	for (cookie.as_64 = 1; cookie.as_64 <= 5; cookie.as_64++)
		assert_ok(dat_ep_post_send(ep, 0, NULL, cookie, DAT_COMPLETION_SUPPRESS_FLAG));
	for (; cookie.as_64 <= 7; cookie.as_64++)
		assert_ok(dat_ep_post_recv(ep, 0, NULL, cookie, 0));
	/* A request finished before, and another has an unread completion. */
	assert_true(mock_take(f->mock, qp, false, &wqe, NULL));
	mock_done(f->mock, qp, false);
	assert_true(mock_take(f->mock, qp, false, &wqe, NULL));
	wqe.flags = 0;
	mock_complete(f->mock, qp, &wqe, ONE_STATUS_SUCCESS);
	assert_true(mock_take(f->mock, qp, false, &wqe, NULL)); /* outstanding */
	assert_ok(dat_evd_create(f->ia, 8, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &quiet));
	assert_ok(dat_cno_create(f->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno.cno));
	idle.evd = quiet;
	start_waiter(&async);
	start_waiter(&conn);
	start_waiter(&idle);
	start_waiter(&cno);

	mock_kill(f->mock);
	pthread_join(async.thread, NULL);
	pthread_join(conn.thread, NULL);
	pthread_join(idle.thread, NULL);
	pthread_join(cno.thread, NULL);
	assert_ret(async.ret, DAT_SUCCESS);
	assert_int_equal(async.event.event_number, DAT_ASYNC_ERROR_IA_CATASTROPHIC);
	assert_ptr_equal(async.event.event_data.asynch_error_event_data.dat_handle, f->ia);
	assert_ret(conn.ret, DAT_SUCCESS);
	assert_int_equal(conn.event.event_number, DAT_CONNECTION_EVENT_BROKEN);
	assert_ret(idle.ret, ERROR(DAT_ABORT, 0));
	assert_ret(cno.ret, BAD_STATE(CNO_DEAD));

	assert_int_equal(state_of(ep), DAT_EP_STATE_DISCONNECTED);
	assert_int_equal(state_of(pending), DAT_EP_STATE_DISCONNECTED);
	assert_int_equal(state_of(unconnected), DAT_EP_STATE_UNCONNECTED);
	event = take(f->conn); /* the other endpoint's */
	assert_int_equal(event.event_number, DAT_CONNECTION_EVENT_BROKEN);
	assert_ptr_not_equal(event.event_data.connect_event_data.ep_handle,
			     conn.event.event_data.connect_event_data.ep_handle);
	expect_empty(f->conn);
	expect_empty(f->async);
	/* The completed request first, then all others, flushed in order. */
	event = take(f->dto);
	assert_int_equal(event.event_data.dto_completion_event_data.user_cookie.as_64, 2);
	assert_int_equal(event.event_data.dto_completion_event_data.status, DAT_DTO_SUCCESS);
	for (uint64_t i = 3; i <= 5; i++) {
		event = take(f->dto);
		assert_int_equal(event.event_data.dto_completion_event_data.user_cookie.as_64, i);
		assert_int_equal(event.event_data.dto_completion_event_data.status, DAT_DTO_ERR_FLUSHED);
	}
	expect_empty(f->dto);
	for (uint64_t i = 6; i <= 7; i++)
		assert_int_equal(take(f->recv).event_data.dto_completion_event_data.user_cookie.as_64, i);
	expect_empty(f->recv);
	/* further posts are flushed at once */
	cookie.as_64 = 20;
	assert_ok(dat_ep_post_rdma_read(ep, 0, NULL, cookie, &remote, 0));
	assert_int_equal(take(f->dto).event_data.dto_completion_event_data.status, DAT_DTO_ERR_FLUSHED);
	assert_ok(dat_ep_post_recv(ep, 0, NULL, cookie, 0));
	assert_int_equal(take(f->recv).event_data.dto_completion_event_data.user_cookie.as_64, 20);
	none.segment_length = 0;
	assert_ok(dat_rmr_bind(rmr, &none, 0, ep, cookie, 0, NULL));
	event = take(f->dto);
	assert_int_equal(event.event_number, DAT_RMR_BIND_COMPLETION_EVENT);
	assert_ptr_equal(event.event_data.rmr_completion_event_data.rmr_handle, rmr);
	assert_int_equal(event.event_data.rmr_completion_event_data.status, DAT_DTO_ERR_FLUSHED);
	/* no call hangs, everything can be freed */
	assert_ok(dat_rmr_free(rmr));
	assert_ok(dat_ep_disconnect(ep, DAT_CLOSE_GRACEFUL_FLAG));
	assert_ret(dat_evd_wait(quiet, DAT_TIMEOUT_INFINITE, 1, &event, &nmore), ERROR(DAT_ABORT, 0));
	assert_ret(dat_evd_wait(quiet, 0, 1, &event, &nmore), DAT_TIMEOUT_EXPIRED);
	assert_ret(dat_cno_wait(cno.cno, 1000, &evd), BAD_STATE(CNO_DEAD));
	assert_ret(dat_pz_create(f->ia, &pz), ERROR(DAT_INTERNAL_ERROR, 0));
	assert_ret(dat_ep_reset(ep), ERROR(DAT_INTERNAL_ERROR, 0));
	assert_ok(dat_ep_free(ep));
	assert_ok(dat_evd_free(quiet));
	assert_ok(dat_cno_free(cno.cno));
	/* A new data plane accepts the program again. */
	mock_revive(f->mock);
	evd = DAT_HANDLE_NULL;
	assert_ok(dat_ia_open(name, 8, &evd, &ia));
	assert_ok(dat_ia_close(ia, DAT_CLOSE_GRACEFUL_FLAG));
}

/* A program that only polls receives the end of its work, too. */
static void
lost_while_polling(void **state)
{
	struct fixture *f = *state;
	DAT_DTO_COOKIE cookie = {.as_64 = 4};
	DAT_EVENT event;
	DAT_RETURN ret;
	uint32_t qp;
	DAT_EP_HANDLE ep = connected_ep(f, &qp);

	assert_ok(dat_ep_post_send(ep, 0, NULL, cookie, 0));
	expect_empty(f->dto);
	mock_kill(f->mock);
	while ((ret = dat_evd_dequeue(f->dto, &event)) == DAT_QUEUE_EMPTY)
		usleep(100);
	assert_ret(ret, DAT_SUCCESS);
	assert_int_equal(event.event_data.dto_completion_event_data.user_cookie.as_64, 4);
	assert_int_equal(event.event_data.dto_completion_event_data.status, DAT_DTO_ERR_FLUSHED);
	assert_ok(dat_evd_dequeue(f->async, &event));
	assert_int_equal(event.event_number, DAT_ASYNC_ERROR_IA_CATASTROPHIC);
}

/* An unread end of an earlier connection does not count for the next one. */
static void
lost_after_reset(void **state)
{
	struct fixture *f = *state;
	uint32_t qp;
	DAT_EP_HANDLE ep = connected_ep(f, &qp);
	DAT_COUNT nmore;
	DAT_EVENT event;

	mock_conn_event(f->mock, qp, ONE_CONN_DISCONNECTED);
	assert_ok(dat_ep_reset(ep));
	mock_qp_state(f->mock, qp, ONE_QP_IDLE);
	connect_to(ep, 7);
	mock_connected(f->mock, qp, NULL, 0);
	event = take(f->conn);
	assert_int_equal(event.event_number, DAT_CONNECTION_EVENT_DISCONNECTED);
	event = take(f->conn);
	assert_int_equal(event.event_number, DAT_CONNECTION_EVENT_ESTABLISHED);
	mock_kill(f->mock);
	assert_ok(dat_evd_wait(f->async, DAT_TIMEOUT_INFINITE, 1, &event, &nmore));
	event = take(f->conn);
	assert_int_equal(event.event_number, DAT_CONNECTION_EVENT_BROKEN);
	expect_empty(f->conn);
}

/* Each connection ends once, including one that a core broke without reporting it before the data plane
 * ended. */
static void
lost_untold(void **state)
{
	struct fixture *f = *state;
	uint32_t qp[3];
	DAT_EP_HANDLE ep[3];
	DAT_COUNT nmore;
	DAT_EVENT event;

	for (int i = 0; i < 3; i++)
		ep[i] = connected_ep(f, &qp[i]);
	mock_conn_event(f->mock, qp[0], ONE_CONN_DISCONNECTED);
	event = take(f->conn);
	assert_int_equal(event.event_number, DAT_CONNECTION_EVENT_DISCONNECTED);
	mock_conn_event(f->mock, qp[1], ONE_CONN_BROKEN);
	for (int i = 0; i < 3; i++)
		mock_qp_state(f->mock, qp[i], ONE_QP_ERROR);
	mock_kill(f->mock);
	assert_ok(dat_evd_wait(f->async, DAT_TIMEOUT_INFINITE, 1, &event, &nmore));
	assert_int_equal(event.event_number, DAT_ASYNC_ERROR_IA_CATASTROPHIC);
	for (int i = 1; i < 3; i++) {
		event = take(f->conn);
		assert_int_equal(event.event_number, DAT_CONNECTION_EVENT_BROKEN);
		assert_ptr_equal(event.event_data.connect_event_data.ep_handle, ep[i]);
	}
	expect_empty(f->conn);
}

/* Waits that begin after the end report the end first, too. */
static void
lost_before_waiting(void **state)
{
	struct fixture *f = *state;
	DAT_CNO_HANDLE cno;
	DAT_EVD_HANDLE evd;
	DAT_EVENT event;
	DAT_COUNT nmore;
	uint32_t qp;
	DAT_EP_HANDLE ep = connected_ep(f, &qp);

	assert_ok(dat_cno_create(f->ia, DAT_OS_WAIT_PROXY_AGENT_NULL, &cno));
	assert_ok(dat_evd_modify_cno(f->conn, cno));
	mock_kill(f->mock);
	while (state_of(ep) == DAT_EP_STATE_CONNECTED)
		usleep(1000);
	assert_int_equal(state_of(ep), DAT_EP_STATE_DISCONNECTED);
	assert_ok(dat_evd_wait(f->async, DAT_TIMEOUT_INFINITE, 1, &event, &nmore));
	assert_int_equal(event.event_number, DAT_ASYNC_ERROR_IA_CATASTROPHIC);
	assert_ret(dat_evd_wait(f->async, DAT_TIMEOUT_INFINITE, 1, &event, &nmore), ERROR(DAT_ABORT, 0));
	assert_ok(dat_cno_wait(cno, DAT_TIMEOUT_INFINITE, &evd));
	assert_ptr_equal(evd, f->conn);
	assert_ret(dat_cno_wait(cno, DAT_TIMEOUT_INFINITE, &evd), BAD_STATE(CNO_DEAD));
	assert_ok(dat_evd_wait(f->conn, DAT_TIMEOUT_INFINITE, 1, &event, &nmore));
	assert_int_equal(event.event_number, DAT_CONNECTION_EVENT_BROKEN);
	assert_ret(dat_evd_wait(f->conn, DAT_TIMEOUT_INFINITE, 1, &event, &nmore), ERROR(DAT_ABORT, 0));
}

/* A child cannot use its parent's IAs, but can open new ones; no call of the child hangs. */
static int
child_calls(struct fixture *f, DAT_EP_HANDLE ep)
{
	DAT_EVD_HANDLE evd = DAT_HANDLE_NULL;
	DAT_DTO_COOKIE cookie = {.as_64 = 2};
	char name[] = "oneside";
	DAT_HANDLE_TYPE type;
	DAT_CONTEXT context;
	DAT_PZ_HANDLE pz;
	DAT_IA_HANDLE ia;
	DAT_EVENT event;
	DAT_COUNT nmore;

	if (dat_pz_create(f->ia, &pz) != BAD_HANDLE(IA) ||
	    dat_ia_query(f->ia, &evd, 0, NULL, 0, NULL) != BAD_HANDLE(IA) ||
	    dat_ep_post_send(ep, 0, NULL, cookie, 0) != BAD_HANDLE(EP) ||
	    dat_evd_wait(f->dto, 10000, 1, &event, &nmore) != BAD_HANDLE(EVD_REQUEST) ||
	    dat_evd_dequeue(f->conn, &event) != BAD_HANDLE(EVD_REQUEST) ||
	    dat_pz_free(f->pz) != BAD_HANDLE(PZ))
		return 1;
	if (dat_get_handle_type(f->ia, &type) != ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1) ||
	    dat_get_consumer_context(f->ia, &context) != ERROR(DAT_INVALID_HANDLE, DAT_INVALID_HANDLE1))
		return 2;
	if (dat_ia_open(name, 8, &evd, &ia) != DAT_SUCCESS)
		return 3;
	if (dat_pz_create(ia, &pz) != DAT_SUCCESS)
		return 4;
	if (dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG) != DAT_SUCCESS)
		return 5;
	/* The child can close the parent's IA once. */
	if (dat_ia_close(f->ia, DAT_CLOSE_ABRUPT_FLAG) != DAT_SUCCESS)
		return 6;
	return dat_ia_close(f->ia, DAT_CLOSE_ABRUPT_FLAG) == BAD_HANDLE(IA) ? 0 : 7;
}

static void
forks(void **state)
{
	struct fixture *f = *state;
	struct waiter w = {.evd = f->conn};
	uint32_t qp;
	DAT_EP_HANDLE ep = connected_ep(f, &qp);
	int status;
	pid_t pid;

#ifdef __SANITIZE_THREAD__
	skip(); /* TSan aborts when a forked child creates a thread */
#endif
	start_waiter(&w);
	pid = fork();
	if (pid == 0)
		_exit(child_calls(f, ep));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	/* The parent is not affected. */
	assert_int_equal(mock_posted(f->mock, qp, false), 0);
	mock_conn_event(f->mock, qp, ONE_CONN_DISCONNECTED);
	pthread_join(w.thread, NULL);
	assert_ret(w.ret, DAT_SUCCESS);
	assert_int_equal(w.event.event_number, DAT_CONNECTION_EVENT_DISCONNECTED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(opens),
		TEST(nobody_there),
		TEST(reasons),
		TEST(shared_async),
		TEST(attributes),
		TEST(closing),
		TEST(closing_gracefully),
		TEST(contexts),
		TEST(no_shared_receive_queues),
		TEST(lost),
		TEST(lost_after_reset),
		TEST(lost_untold),
		TEST(lost_while_polling),
		TEST(forks),
		TEST(lost_before_waiting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
