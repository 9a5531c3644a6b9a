/* SPDX-License-Identifier: BSD-3-Clause */
/* Service points and connection requests. */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "fixture.h"

static DAT_CR_ARRIVAL_EVENT_DATA
request(struct fixture *f, DAT_CONN_QUAL qual, const char *data)
{
	mock_request(f->mock, mock_newest(f->mock, ONE_MSG_LISTEN), qual, data, (uint16_t)strlen(data));
	return expect_event(f->cr, DAT_CONNECTION_REQUEST_EVENT).event_data.cr_arrival_event_data;
}

static void
psp_errors(void **state)
{
	struct fixture *f = *state;
	DAT_CONN_QUAL qual;
	DAT_PSP_HANDLE psp;
	DAT_PSP_PARAM param;

	assert_ret(dat_psp_create(f->pz, 5000, f->cr, 0, &psp), BAD_HANDLE(IA));
	assert_ret(dat_psp_create(f->ia, 0, f->cr, 0, &psp), BAD_ARG(2));
	assert_ret(dat_psp_create(f->ia, 5000, f->dto, 0, &psp), BAD_HANDLE(EVD_CR));
	assert_ret(dat_psp_create(f->ia, 5000, DAT_HANDLE_NULL, 0, &psp), BAD_HANDLE(EVD_CR));
	assert_ret(dat_psp_create(f->ia, 5000, f->cr, (DAT_PSP_FLAGS)2, &psp), BAD_ARG(4));
	assert_ret(dat_psp_create(f->ia, 5000, f->cr, 0, NULL), BAD_ARG(5));
	mock_refuse(f->mock, ONE_MSG_LISTEN, -EADDRINUSE, ONE_SUBJECT_ADDRESS, 5000, 1);
	assert_ret(dat_psp_create(f->ia, 5000, f->cr, 0, &psp), ERROR(DAT_CONN_QUAL_IN_USE, 0));
	mock_refuse(f->mock, ONE_MSG_LISTEN, -EACCES, ONE_SUBJECT_ADDRESS, 5000, 1);
	assert_ret(dat_psp_create(f->ia, 5000, f->cr, 0, &psp), BAD_ARG(2));
	mock_refuse(f->mock, ONE_MSG_LISTEN, -EDQUOT, ONE_SUBJECT_QUOTA, 5, 1);
	assert_ret(dat_psp_create(f->ia, 5000, f->cr, 0, &psp),
		   ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
	assert_ret(dat_psp_create_any(f->dto, &qual, f->cr, 0, &psp), BAD_HANDLE(IA));
	assert_ret(dat_psp_create_any(f->ia, NULL, f->cr, 0, &psp), BAD_ARG(2));
	assert_ret(dat_psp_create_any(f->ia, &qual, f->dto, 0, &psp), BAD_HANDLE(EVD_CR));
	assert_ret(dat_psp_create_any(f->ia, &qual, f->cr, (DAT_PSP_FLAGS)7, &psp), BAD_ARG(4));
	assert_ret(dat_psp_create_any(f->ia, &qual, f->cr, 0, NULL), BAD_ARG(5));
	mock_refuse(f->mock, ONE_MSG_LISTEN, -EADDRNOTAVAIL, ONE_SUBJECT_ADDRESS, 0, 1);
	assert_ret(dat_psp_create_any(f->ia, &qual, f->cr, 0, &psp), ERROR(DAT_CONN_QUAL_UNAVAILABLE, 0));
	for (size_t i = 0; i < num_not_handles; i++) {
		assert_ret(dat_psp_query(not_handles[i], DAT_PSP_FIELD_ALL, &param), BAD_HANDLE(PSP));
		assert_ret(dat_psp_free(not_handles[i]), BAD_HANDLE(PSP));
	}
	assert_ret(dat_psp_query(f->cr, DAT_PSP_FIELD_ALL, &param), BAD_HANDLE(PSP));
	assert_ok(dat_evd_free(f->cr)); /* no reference was leaked */
}

static void
accepts(void **state)
{
	struct fixture *f = *state;
	DAT_CR_ARRIVAL_EVENT_DATA cr;
	DAT_PSP_PARAM psp_param;
	DAT_EP_PARAM ep_param;
	struct one_msg msg;
	DAT_CR_PARAM param;
	DAT_PSP_HANDLE psp;
	DAT_EP_HANDLE ep;
	DAT_EVENT event;
	uint32_t qp;

	assert_ok(dat_psp_create(f->ia, 45248, f->cr, DAT_PSP_CONSUMER_FLAG, &psp));
	assert_ok(dat_psp_query(psp, DAT_PSP_FIELD_ALL, &psp_param));
	assert_ptr_equal(psp_param.ia_handle, f->ia);
	assert_int_equal(psp_param.conn_qual, 45248);
	assert_ptr_equal(psp_param.evd_handle, f->cr);
	assert_int_equal(psp_param.psp_flags, DAT_PSP_CONSUMER_FLAG);
	assert_ret(dat_psp_query(psp, DAT_PSP_FIELD_ALL, NULL), BAD_ARG(3));
	cr = request(f, 45248, "rank 7");
	assert_ptr_equal(cr.sp_handle.psp_handle, psp);
	assert_int_equal(cr.conn_qual, 45248);
	assert_non_null(cr.local_ia_address_ptr);
	assert_ok(dat_cr_query(cr.cr_handle, DAT_CR_FIELD_ALL, &param));
	assert_int_equal(param.private_data_size, 6);
	assert_memory_equal(param.private_data, "rank 7", 6);
	assert_null(param.local_ep_handle);
	assert_int_equal(param.remote_ia_address_ptr->sa_family, AF_INET);
	assert_int_equal(param.remote_port_qual, 40000);
	assert_ret(dat_cr_query(cr.cr_handle, DAT_CR_FIELD_ALL, NULL), BAD_ARG(3));
	assert_ret(dat_cr_query(psp, DAT_CR_FIELD_ALL, &param), BAD_HANDLE(CR));
	ep = make_ep(f, &qp);
	assert_ok(dat_cr_accept(cr.cr_handle, ep, 3, (DAT_PVOID)(uintptr_t) "yes"));
	assert_true(mock_last(f->mock, ONE_MSG_CR_ACCEPT, &msg));
	assert_int_equal(msg.cr_accept.qp, qp);
	assert_int_equal(msg.cr_accept.private_len, 3);
	assert_memory_equal(msg.cr_accept.private_data, "yes", 3);
	assert_int_equal(state_of(ep), DAT_EP_STATE_COMPLETION_PENDING);
	assert_ret(dat_cr_query(cr.cr_handle, DAT_CR_FIELD_ALL, &param), BAD_HANDLE(CR));
	mock_connected(f->mock, qp, "not ours", 8);
	event = expect_event(f->conn, DAT_CONNECTION_EVENT_ESTABLISHED);
	assert_ptr_equal(event.event_data.connect_event_data.ep_handle, ep);
	assert_int_equal(event.event_data.connect_event_data.private_data_size, 0);
	assert_ok(dat_ep_query(ep, DAT_EP_FIELD_ALL, &ep_param));
	assert_int_equal(ep_param.ep_state, DAT_EP_STATE_CONNECTED);
	assert_int_equal(ep_param.remote_port_qual, 40000);
	/* freeing the listener leaves the connection */
	assert_ok(dat_psp_free(psp));
	assert_int_equal(mock_count(f->mock, ONE_MSG_UNLISTEN), 1);
	assert_ret(dat_psp_free(psp), BAD_HANDLE(PSP));
	assert_int_equal(state_of(ep), DAT_EP_STATE_CONNECTED);
	assert_ret(dat_ep_dup_connect(make_ep(f, NULL), ep, 1000, 0, NULL, 0), BAD_ARG(2));
}

static void
accept_errors(void **state)
{
	struct fixture *f = *state;
	DAT_EP_HANDLE ep = make_ep(f, NULL), half, busy = make_ep(f, NULL);
	DAT_HANDLE none = DAT_HANDLE_NULL;
	DAT_CR_ARRIVAL_EVENT_DATA cr;
	DAT_PSP_HANDLE psp;
	DAT_CR_PARAM param;
	char data[300];

	assert_ok(dat_psp_create(f->ia, 5000, f->cr, 0, &psp));
	cr = request(f, 5000, "");
	assert_ret(dat_cr_accept(psp, ep, 0, NULL), BAD_HANDLE(CR));
	assert_ret(dat_cr_accept(cr.cr_handle, none, 0, NULL), BAD_HANDLE(EP));
	assert_ret(dat_cr_accept(cr.cr_handle, f->pz, 0, NULL), BAD_HANDLE(EP));
	assert_ret(dat_cr_accept(cr.cr_handle, ep, 300, data), BAD_ARG(3));
	assert_ret(dat_cr_accept(cr.cr_handle, ep, -1, data), BAD_ARG(3));
	assert_ret(dat_cr_accept(cr.cr_handle, ep, 1, NULL), BAD_ARG(4));
	assert_ok(dat_ep_create(f->ia, none, none, none, f->conn, NULL, &half));
	assert_ret(dat_cr_accept(cr.cr_handle, half, 0, NULL), BAD_HANDLE(EP));
	assert_ok(dat_ep_create(f->ia, f->pz, none, none, none, NULL, &half));
	assert_ret(dat_cr_accept(cr.cr_handle, half, 0, NULL), BAD_HANDLE(EP));
	/* an endpoint that is connecting actively: refused, and both stay usable */
	connect_to(busy, 7);
	assert_ret(dat_cr_accept(cr.cr_handle, busy, 0, NULL), BAD_STATE(EP_ACTCONNPENDING));
	assert_int_equal(state_of(busy), DAT_EP_STATE_ACTIVE_CONNECTION_PENDING);
	mock_refuse(f->mock, ONE_MSG_CR_ACCEPT, -ENOMEM, ONE_SUBJECT_MEMORY, 0, 1);
	assert_ret(dat_cr_accept(cr.cr_handle, ep, 0, NULL),
		   ERROR(DAT_INSUFFICIENT_RESOURCES, DAT_RESOURCE_MEMORY));
	expect_untouched(ep);
	assert_ok(dat_cr_query(cr.cr_handle, DAT_CR_FIELD_ALL, &param));
	assert_ok(dat_cr_accept(cr.cr_handle, ep, 0, NULL));
	assert_ret(dat_cr_accept(cr.cr_handle, busy, 0, NULL), BAD_HANDLE(CR));
}

static void
rejects(void **state)
{
	struct fixture *f = *state;
	DAT_CR_ARRIVAL_EVENT_DATA cr;
	struct one_msg msg;
	DAT_PSP_HANDLE psp;
	uint32_t id;

	assert_ok(dat_psp_create(f->ia, 5000, f->cr, 0, &psp));
	id = mock_request(f->mock, mock_newest(f->mock, ONE_MSG_LISTEN), 5000, NULL, 0);
	cr = expect_event(f->cr, DAT_CONNECTION_REQUEST_EVENT).event_data.cr_arrival_event_data;
	assert_ok(dat_cr_reject(cr.cr_handle));
	assert_true(mock_last(f->mock, ONE_MSG_CR_REJECT, &msg));
	assert_int_equal(msg.cr_reject.cr, id);
	assert_int_equal(msg.cr_reject.unanswered, 0);
	assert_ret(dat_cr_reject(cr.cr_handle), BAD_HANDLE(CR));
	assert_ret(dat_cr_reject(DAT_HANDLE_NULL), BAD_HANDLE(CR));
	/* requests unread when the service point is freed: refused, but not as if by the consumer */
	for (int i = 0; i < 100; i++)
		mock_request(f->mock, mock_newest(f->mock, ONE_MSG_LISTEN), 5000, NULL, 0);
	assert_ok(dat_psp_free(psp));
	assert_int_equal(mock_count(f->mock, ONE_MSG_CR_REJECT), 101);
	assert_true(mock_last(f->mock, ONE_MSG_CR_REJECT, &msg));
	assert_int_equal(msg.cr_reject.unanswered, 1);
	expect_empty(f->cr);
	assert_ok(dat_evd_free(f->cr));
}

static void
hands_off(void **state)
{
	struct fixture *f = *state;
	DAT_CR_ARRIVAL_EVENT_DATA cr;
	struct one_msg msg;
	DAT_PSP_HANDLE psp;

	assert_ok(dat_psp_create(f->ia, 5000, f->cr, 0, &psp));
	cr = request(f, 5000, "");
	assert_ret(dat_cr_handoff(psp, 5001), BAD_HANDLE(CR));
	assert_ret(dat_cr_handoff(cr.cr_handle, 0), BAD_ARG(2));
	mock_refuse(f->mock, ONE_MSG_CR_HANDOFF, -ENOENT, ONE_SUBJECT_ADDRESS, 5001, 1);
	assert_ret(dat_cr_handoff(cr.cr_handle, 5001), BAD_ARG(2));
	assert_ok(dat_cr_handoff(cr.cr_handle, 5002));
	assert_true(mock_last(f->mock, ONE_MSG_CR_HANDOFF, &msg));
	assert_int_equal(msg.cr_handoff.service, 5002);
	assert_ret(dat_cr_handoff(cr.cr_handle, 5002), BAD_HANDLE(CR));
}

static void
any_qualifier(void **state)
{
	struct fixture *f = *state;
	DAT_CONN_QUAL qual = 77;
	struct one_msg msg;
	DAT_PSP_HANDLE psp;
	DAT_PSP_PARAM param;

	assert_ok(dat_psp_create_any(f->ia, &qual, f->cr, DAT_PSP_CONSUMER_FLAG, &psp));
	assert_true(mock_last(f->mock, ONE_MSG_LISTEN, &msg));
	assert_int_equal(msg.listen.service, 0);
	assert_true(qual >= 1024);
	assert_ok(dat_psp_query(psp, DAT_PSP_FIELD_ALL, &param));
	assert_int_equal(param.conn_qual, qual);
}

/* The request brings an endpoint, whose zone and EVDs are set before accepting. */
static void
provider_endpoint(void **state)
{
	struct fixture *f = *state;
	DAT_EP_PARAM change = {.pz_handle = f->pz, .connect_evd_handle = f->conn};
	DAT_EP_PARAM_MASK mask = DAT_EP_FIELD_PZ_HANDLE | DAT_EP_FIELD_CONNECT_EVD_HANDLE;
	DAT_CR_ARRIVAL_EVENT_DATA cr;
	DAT_EP_HANDLE ep, own = make_ep(f, NULL);
	DAT_PSP_HANDLE psp;
	DAT_LMR_TRIPLET range = {0};
	DAT_RMR_HANDLE rmr;
	DAT_CR_PARAM param;
	DAT_EP_PARAM got;
	uint32_t qp;

	assert_ok(dat_psp_create(f->ia, 5000, f->cr, DAT_PSP_PROVIDER_FLAG, &psp));
	cr = request(f, 5000, "");
	assert_ok(dat_cr_query(cr.cr_handle, DAT_CR_FIELD_ALL, &param));
	ep = param.local_ep_handle;
	assert_ok(dat_ep_query(ep, DAT_EP_FIELD_ALL, &got));
	assert_int_equal(got.ep_state, DAT_EP_STATE_TENTATIVE_CONNECTION_PENDING);
	assert_null(got.pz_handle);
	assert_ret(dat_ep_free(ep), BAD_STATE(EP_TENTCONNPENDING));
	assert_ret(dat_ep_disconnect(ep, DAT_CLOSE_ABRUPT_FLAG), BAD_STATE(EP_TENTCONNPENDING));
	/* The error is the state, not the missing zone. */
	assert_ok(dat_rmr_create(f->pz, &rmr));
	assert_ret(dat_rmr_bind(rmr, &range, 0, ep, (DAT_RMR_COOKIE){.as_64 = 0}, 0, NULL),
		   BAD_STATE(EP_TENTCONNPENDING));
	assert_ok(dat_rmr_free(rmr));
	assert_ret(dat_cr_accept(cr.cr_handle, own, 0, NULL), BAD_HANDLE(EP));
	assert_ret(dat_cr_accept(cr.cr_handle, DAT_HANDLE_NULL, 0, NULL), BAD_HANDLE(EP)); /* no zone yet */
	assert_ok(dat_ep_modify(ep, mask, &change));
	qp = mock_newest(f->mock, ONE_MSG_QP_CREATE);
	assert_ok(dat_cr_accept(cr.cr_handle, DAT_HANDLE_NULL, 0, NULL));
	assert_int_equal(state_of(ep), DAT_EP_STATE_COMPLETION_PENDING);
	mock_connected(f->mock, qp, NULL, 0);
	assert_ptr_equal(expect_event(f->conn, DAT_CONNECTION_EVENT_ESTABLISHED)
				 .event_data.connect_event_data.ep_handle,
			 ep);
	/* rejected: the provider frees its endpoint */
	cr = request(f, 5000, "");
	assert_ok(dat_cr_query(cr.cr_handle, DAT_CR_FIELD_ALL, &param));
	assert_ok(dat_cr_reject(cr.cr_handle));
	assert_ret(dat_ep_query(param.local_ep_handle, DAT_EP_FIELD_ALL, &got), BAD_HANDLE(EP));
	/* no endpoint can be created: the request is refused */
	mock_refuse(f->mock, ONE_MSG_QP_CREATE, -EDQUOT, ONE_SUBJECT_QUOTA, 5, 1);
	mock_request(f->mock, mock_newest(f->mock, ONE_MSG_LISTEN), 5000, NULL, 0);
	expect_empty(f->cr);
	assert_int_equal(mock_count(f->mock, ONE_MSG_CR_REJECT), 2);
}

static void
reserved(void **state)
{
	struct fixture *f = *state;
	DAT_CR_ARRIVAL_EVENT_DATA cr;
	DAT_RSP_PARAM rsp_param;
	DAT_RSP_HANDLE rsp, other;
	DAT_CR_PARAM param;
	struct one_msg msg;
	DAT_EP_HANDLE ep;
	uint32_t qp;

	ep = make_ep(f, &qp);
	assert_ret(dat_rsp_create(f->pz, 5000, ep, f->cr, &rsp), BAD_HANDLE(IA));
	assert_ret(dat_rsp_create(f->ia, 5000, DAT_HANDLE_NULL, f->cr, &rsp), BAD_HANDLE(EP));
	assert_ret(dat_rsp_create(f->ia, 0, ep, f->cr, &rsp), BAD_ARG(2));
	assert_ret(dat_rsp_create(f->ia, 5000, ep, f->conn, &rsp), BAD_HANDLE(EVD_CR));
	assert_ret(dat_rsp_create(f->ia, 5000, ep, f->cr, NULL), BAD_ARG(5));
	mock_refuse(f->mock, ONE_MSG_LISTEN, -EADDRINUSE, ONE_SUBJECT_ADDRESS, 5000, 1);
	assert_ret(dat_rsp_create(f->ia, 5000, ep, f->cr, &rsp), ERROR(DAT_CONN_QUAL_IN_USE, 0));
	assert_int_equal(state_of(ep), DAT_EP_STATE_UNCONNECTED);
	assert_ok(dat_rsp_create(f->ia, 5000, ep, f->cr, &rsp));
	assert_true(mock_last(f->mock, ONE_MSG_LISTEN, &msg));
	assert_int_equal(msg.listen.flags, ONE_LISTEN_ONCE);
	assert_int_equal(state_of(ep), DAT_EP_STATE_RESERVED);
	assert_ret(dat_rsp_create(f->ia, 5001, ep, f->cr, &other), BAD_STATE(EP_RESERVED));
	assert_ret(dat_ep_free(ep), BAD_STATE(EP_RESERVED));
	assert_ret(dat_ep_reset(ep), BAD_STATE(EP_RESERVED));
	assert_ok(dat_rsp_query(rsp, DAT_RSP_FIELD_ALL, &rsp_param));
	assert_ptr_equal(rsp_param.ia_handle, f->ia);
	assert_int_equal(rsp_param.conn_qual, 5000);
	assert_ptr_equal(rsp_param.evd_handle, f->cr);
	assert_ptr_equal(rsp_param.ep_handle, ep);
	assert_ret(dat_rsp_query(rsp, DAT_RSP_FIELD_ALL, NULL), BAD_ARG(3));
	assert_ret(dat_rsp_query(ep, DAT_RSP_FIELD_ALL, &rsp_param), BAD_HANDLE(RSP));
	/* rejected: the consumer owns the endpoint again */
	cr = request(f, 5000, "");
	assert_ptr_equal(cr.sp_handle.rsp_handle, rsp);
	assert_int_equal(state_of(ep), DAT_EP_STATE_PASSIVE_CONNECTION_PENDING);
	assert_ret(dat_ep_free(ep), BAD_STATE(EP_PASSCONNPENDING));
	assert_ok(dat_cr_query(cr.cr_handle, DAT_CR_FIELD_ALL, &param));
	assert_ptr_equal(param.local_ep_handle, ep);
	assert_ok(dat_cr_reject(cr.cr_handle));
	assert_int_equal(state_of(ep), DAT_EP_STATE_UNCONNECTED);
	assert_ok(dat_rsp_free(rsp));
	assert_ret(dat_rsp_free(rsp), BAD_HANDLE(RSP));
	/* freed while listening, and with an unread request */
	assert_ok(dat_rsp_create(f->ia, 5000, ep, f->cr, &rsp));
	assert_ok(dat_rsp_free(rsp));
	assert_int_equal(state_of(ep), DAT_EP_STATE_UNCONNECTED);
	assert_ok(dat_rsp_create(f->ia, 5000, ep, f->cr, &rsp));
	mock_request(f->mock, mock_newest(f->mock, ONE_MSG_LISTEN), 5000, NULL, 0);
	assert_ok(dat_rsp_free(rsp));
	assert_int_equal(state_of(ep), DAT_EP_STATE_UNCONNECTED);
	expect_empty(f->cr);
	/* accepted; freed afterwards, as dapltest does */
	assert_ok(dat_rsp_create(f->ia, 5000, ep, f->cr, &rsp));
	cr = request(f, 5000, "");
	assert_ret(dat_cr_accept(cr.cr_handle, ep, 0, NULL), BAD_HANDLE(EP));
	assert_ok(dat_cr_accept(cr.cr_handle, DAT_HANDLE_NULL, 0, NULL));
	assert_int_equal(state_of(ep), DAT_EP_STATE_COMPLETION_PENDING);
	mock_connected(f->mock, qp, NULL, 0);
	expect_event(f->conn, DAT_CONNECTION_EVENT_ESTABLISHED);
	assert_ok(dat_rsp_free(rsp));
	assert_int_equal(state_of(ep), DAT_EP_STATE_CONNECTED);
}

struct early {
	DAT_EVD_HANDLE cr;
	DAT_EVENT event;
	DAT_RETURN ret;
};

static void *
take_early(void *arg)
{
	struct early *early = arg;
	DAT_COUNT nmore;

	early->ret = dat_evd_wait(early->cr, DAT_TIMEOUT_INFINITE, 1, &early->event, &nmore);
	return NULL;
}

static bool
request_before_reply(struct mock *mock, const struct one_msg *msg, const int *fds, uint32_t num_fds,
		     struct one_reply *reply, void *user)
{
	struct one_cqe cqe = {.type = ONE_CQE_REQUEST, .object = 0x77777, .flags = ONE_CQE_NOTIFY};

	/* offset where the mock has stored an earlier request */
	cqe.cookie = *(uint64_t *)user;
	mock_cqe(mock, msg->listen.cq, &cqe);
	usleep(50000); /* the waiter finds the request meanwhile */
	reply->listening.listener = 0x77777;
	reply->listening.service = msg->listen.service;
	return true;
}

/* A request that arrives before the reply to LISTEN waits for its service point. */
static void
early_request(void **state)
{
	struct fixture *f = *state;
	struct early early = {.cr = f->cr};
	uint64_t offset;
	DAT_CR_ARRIVAL_EVENT_DATA cr;
	DAT_PSP_HANDLE first, psp;
	pthread_t thread;
	const uint8_t *arena = mock_arena(f->mock);
	struct one_cr_shm *shm = NULL;

	assert_ok(dat_psp_create(f->ia, 5000, f->cr, 0, &first));
	cr = request(f, 5000, "find me here");
	assert_ok(dat_cr_reject(cr.cr_handle));
	for (offset = 0; offset < 4 << 20; offset += 64) {
		shm = (struct one_cr_shm *)(uintptr_t)(arena + offset);
		if (shm->private_len == 12 && memcmp(shm->private_data, "find me here", 12) == 0)
			break;
	}
	assert_true(offset < 4 << 20);
	mock_on(f->mock, ONE_MSG_LISTEN, request_before_reply, &offset);
	assert_int_equal(pthread_create(&thread, NULL, take_early, &early), 0);
	usleep(20000);
	assert_ok(dat_psp_create(f->ia, 5001, f->cr, 0, &psp));
	pthread_join(thread, NULL);
	assert_ret(early.ret, DAT_SUCCESS);
	assert_ptr_equal(early.event.event_data.cr_arrival_event_data.sp_handle.psp_handle, psp);
	assert_int_equal(early.event.event_data.cr_arrival_event_data.conn_qual, 5001);
}

struct modifier {
	DAT_EP_HANDLE ep;
	_Atomic bool stop;
};

static void *
modify(void *arg)
{
	struct modifier *m = arg;
	DAT_EP_PARAM param = {.ep_attr.max_message_size = 4096};

	while (!atomic_load(&m->stop)) {
		dat_ep_modify(m->ep, DAT_EP_FIELD_EP_ATTR_MAX_MESSAGE_SIZE, &param);
		usleep(20); /* lets the other thread reserve the endpoint */
	}
	return NULL;
}

/* A reservation ends while another thread modifies the endpoint. */
static void
freed_while_modified(void **state)
{
	struct fixture *f = *state;
	struct modifier m = {.ep = make_ep(f, NULL)};
	DAT_RSP_HANDLE rsp;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, modify, &m), 0);
	for (int i = 0; i < 50; i++) {
		while (dat_rsp_create(f->ia, 5000, m.ep, f->cr, &rsp) != DAT_SUCCESS)
			;
		assert_ok(dat_rsp_free(rsp));
	}
	atomic_store(&m.stop, true);
	pthread_join(thread, NULL);
	expect_untouched(m.ep);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(psp_errors),        TEST(accepts),
		TEST(accept_errors),     TEST(rejects),
		TEST(hands_off),         TEST(any_qualifier),
		TEST(provider_endpoint), TEST(reserved),
		TEST(early_request),     TEST(freed_while_modified),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
