/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections as rdma_cm makes them: in steps, and with the number of another queue pair. */
#include <errno.h>

#include "ends.h"

/* Connects as a verbs library does, until the active side is notified. */
static void
connect_in_steps(struct ends *ends)
{
	const struct one_conn_param steps = {.given = ONE_CONN_STEPWISE};

	ends->active.msg.qp_connect = (struct one_qp_connect){.qp = ends->a.qp,
							      .family = AF_INET,
							      .addr = {192, 0, 2, 1},
							      .service = 5000,
							      .timeout_us = UINT64_MAX,
							      .param = steps};
	assert_int_equal(app_call(&ends->active, ONE_MSG_QP_CONNECT), 0);
	ends->passive.msg.cr_accept =
		(struct one_cr_accept){.cr = await_request(ends)->cr, .qp = ends->p.qp, .param = steps};
	assert_int_equal(app_call(&ends->passive, ONE_MSG_CR_ACCEPT), 0);
}

/* rdma_cm's order: the application decides when the RTU is sent, and when the queue pair is flushed. */
static void
test_steps(void **state)
{
	struct ends ends;
	uint32_t flushed;

	ends_open(&ends, 5000);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_CONFIRM, ends.a.qp), -ENOTCONN);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_CONFIRM, 0x77770077), -EINVAL);
	connect_in_steps(&ends);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_ESTABLISHED);
	assert_no_event();
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_CONFIRM, ends.a.qp), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_ESTABLISHED);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_CONFIRM, ends.a.qp), -ENOTCONN);
	flushed = fake_done(ENGINE_QP_FLUSH);
	assert_int_equal(disconnect(&ends.active, ends.a.qp, false), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_DISCONNECTED);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_DISCONNECTED);
	assert_int_equal(fake_done(ENGINE_QP_FLUSH), flushed + 1);
	assert_int_equal(disconnect(&ends.passive, ends.p.qp, false), 0);
	assert_int_equal(disconnect(&ends.passive, ends.p.qp, false), 0);
	assert_int_equal(app_call_id(&ends.passive, ONE_MSG_QP_RESET, ends.p.qp), 0);
	assert_int_equal(fake_done(ENGINE_QP_FLUSH), flushed + 2);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_RESET, ends.a.qp), 0);
	connect_in_steps(&ends);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_ESTABLISHED);
	/* The peer disconnects before it was notified. */
	assert_int_equal(app_call_id(&ends.passive, ONE_MSG_QP_ERROR, ends.p.qp), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_DISCONNECTED);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_DISCONNECTED);
	/* The core reports the failure after the end. */
	fake_raise(ends.a.qpn, ENGINE_EVENT_FAILED, RC_ERROR_REQUESTER);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_CONFIRM, ends.a.qp), -ENOTCONN);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_RESET, ends.a.qp), 0);
	assert_no_event();
	ends_close(&ends);
}

/* The CM messages of a connection may name a datagram queue pair's QPN instead of its own. */
static void
test_known_as(void **state)
{
	struct one_qp_created ud;
	struct ends ends;
	struct one_msg *msg = &ends.active.msg;
	const struct one_cr_shm *cr;

	ends_open(&ends, 5000);
	msg->qp_create = (struct one_qp_create){.pz = ends.pz_a,
						.send_cq = ends.cq_a,
						.recv_cq = ends.cq_a,
						.max_send_wr = 1,
						.max_recv_wr = 1,
						.max_send_sge = 1,
						.max_recv_sge = 1,
						.flags = ONE_QP_UD};
	assert_int_equal(app_call(&ends.active, ONE_MSG_QP_CREATE), 0);
	ud = ends.active.reply.qp;
	app_connect_qp(&ends.active, ends.a.qp ^ 0x10000, 5000, UINT64_MAX); /* only fills in the message */
	msg->qp_connect.qp = ends.a.qp;
	msg->qp_connect.param.known_as = ends.a.qp; /* not a datagram queue pair */
	assert_int_equal(app_call(&ends.active, ONE_MSG_QP_CONNECT), -EINVAL);
	assert_int_equal(ends.active.reply.subject, ONE_SUBJECT_QP);
	msg->qp_connect.param.known_as = ud.qp ^ 0x10000;
	assert_int_equal(app_call(&ends.active, ONE_MSG_QP_CONNECT), -EINVAL);
	msg->qp_connect.param.known_as = ud.qp;
	assert_int_equal(app_call(&ends.active, ONE_MSG_QP_CONNECT), 0);
	cr = await_request(&ends);
	assert_int_equal(cr->remote_qpn, ud.qpn);
	assert_int_equal(accept_request(&ends, cr->cr), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_ESTABLISHED);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_ESTABLISHED);
	assert_int_equal(disconnect(&ends.active, ends.a.qp, false), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_DISCONNECTED);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_DISCONNECTED);
	/* The QPN can be used again after its time-wait. */
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_RESET, ends.a.qp), 0);
	app_connect_qp(&ends.active, ends.a.qp ^ 0x10000, 5000, UINT64_MAX);
	msg->qp_connect.qp = ends.a.qp;
	msg->qp_connect.param.known_as = ud.qp;
	assert_int_equal(app_call(&ends.active, ONE_MSG_QP_CONNECT), 0);
	assert_int_equal(await_request(&ends)->remote_qpn, ud.qpn);
	ends_close(&ends);
}

int
step_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_known_as),
	};

	return cmocka_run_group_tests_name("steps", tests, NULL, NULL);
}
