/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections between two applications of one data plane: each attempt has one outcome, and each
 * connection ends once.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "control/base/port_space.h"
#include "control/cm/cm.h"
#include "control/connect/connect.h"
#include "control/objects/place.h"
#include "ends.h"

static void
test_connect(void **state)
{
	const struct one_qp_shm *shm, *peer;
	const struct one_cr_shm *cr;
	struct ends ends;

	ends_open(&ends, 45248);
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 45248, UINT64_MAX), 0);
	cr = await_request(&ends);
	assert_int_equal(cr->conn_qual, 45248);
	assert_int_equal(cr->family, AF_INET);
	assert_memory_equal(cr->remote_addr, "\xc0\x00\x02\x01", 4);
	assert_int_equal(cr->private_len, 3);
	assert_memory_equal(cr->private_data, "\x07\x08\x09", 3);
	assert_int_equal(cr->rd_atomic_in, 8);
	assert_int_equal(cr->rd_atomic_out, 4);
	assert_int_equal(accept_request(&ends, cr->cr), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_ESTABLISHED);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_ESTABLISHED);
	shm = (const struct one_qp_shm *)(ends.active.arena + ends.a.shm);
	assert_int_equal(shm->private_len, 2);
	assert_memory_equal(shm->private_data, "\x04\x05", 2);
	assert_int_equal(shm->remote_port, 45248);
	assert_int_equal(shm->rd_atomic_in, 4);
	assert_int_equal(shm->rd_atomic_out, 4); /* 8 requested; the passive side serves 4 */
	/* Both transports have matching parameters: each end's receive PSN is the other's send PSN. */
	peer = (const struct one_qp_shm *)(ends.passive.arena + ends.p.shm);
	assert_int_equal(shm->send_psn, fake_connection().rc.send_psn);
	assert_int_equal(shm->recv_psn, peer->send_psn);
	assert_int_equal(shm->send_psn, peer->recv_psn);
	assert_int_equal(shm->flow_label, peer->flow_label);
	assert_int_equal(shm->path_mtu, 4160); /* as much as an MTU of 4300 carries */
	assert_int_equal(shm->hop_limit, 64);
	assert_int_equal(shm->rnr_retry, 6);
	assert_int_equal(shm->timeout, 18);
	assert_int_equal(shm->retry_count, 7);
	assert_int_equal(shm->min_rnr_timer, 27);
	assert_true(fake_connection().local);
	assert_int_equal(fake_connection().rc.path_mtu, 4160);
	assert_true(fake_connection().rc.packed);
	assert_int_equal(fake_connection().rc.rnr_retry, 6);
	assert_int_equal(fake_connection().rc.timeout, 18);
	assert_int_equal(fake_connection().rc.retry_count, 7);
	assert_true(fake_connection().rc.oneside_peer);
	assert_memory_equal(fake_connection().rc.path.dst_mac, fake_connection().rc.path.src_mac, 6);
	/* A connected queue pair can be neither connected again nor reset, and its ring is busy. */
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 45248, UINT64_MAX), -EISCONN);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_RESET, ends.a.qp), -EISCONN);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_CQ_FREE, ends.cq_a), -EBUSY);

	assert_int_equal(disconnect(&ends.active, ends.a.qp, false), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_DISCONNECTED);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_DISCONNECTED);
	assert_int_equal(disconnect(&ends.active, ends.a.qp, false), 0); /* already disconnected: no effect */
	assert_int_equal(disconnect(&ends.passive, ends.p.qp, true), 0);
	assert_no_event();
	/* The queue pairs can be connected again, after the time-wait. */
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_RESET, ends.a.qp), 0);
	assert_int_equal(app_call_id(&ends.passive, ONE_MSG_QP_RESET, ends.p.qp), 0);
	establish(&ends, 45248);
	/* A graceful disconnect drains the send queue first. */
	assert_int_equal(disconnect(&ends.passive, ends.p.qp, true), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_DISCONNECTED);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_DISCONNECTED);
	assert_no_event();
	ends_close(&ends);
}

/* Connections that the cores got: the passive end's, then the active end's. */
static struct engine_connection connected[2];
static uint32_t connects;

static void
note_connection(void)
{
	/* The fake takes over the present command after this call: fake_connection() is the previous one. */
	if (connects++ == 1)
		connected[0] = fake_connection();
	fake_on(ENGINE_QP_CONNECT, note_connection);
}

static void
connect_with(uint32_t cores, uint16_t steering_port, uint32_t capabilities)
{
	uint32_t before = path_port[0].env.capabilities;
	struct ends ends;

	fake_cores = cores;
	fake_steering_port = steering_port;
	path_port[0].env.capabilities &= capabilities;
	connects = 0;
	fake_on(ENGINE_QP_CONNECT, note_connection);
	ends_open(&ends, 45248);
	establish(&ends, 45248);
	assert_int_equal(connects, 2);
	connected[1] = fake_connection();
	ends_close(&ends);
	fake_on(ENGINE_QP_CONNECT, NULL);
	path_port[0].env.capabilities = before;
	fake_steering_port = 0;
	fake_cores = 1;
}

/* Each end draws a UDP source port for its peer. A peer of an older version ignores the port, so it is not
 * used. */
static void
test_steering(void **state)
{
	const struct wire_path *passive = &connected[0].rc.path, *active = &connected[1].rc.path;

	connect_with(2, 0xd001, UINT32_MAX);
	assert_int_equal(passive->udp_src_port, 0xd001);
	assert_int_equal(passive->udp_peer_port, 0xd002);
	assert_int_equal(active->udp_src_port, 0xd002);
	assert_int_equal(active->udp_peer_port, 0xd001);
	connect_with(2, 0xd001, ~WIRE_CAPABILITY_STEERED);
	assert_int_equal(passive->udp_peer_port, passive->udp_src_port);
	assert_int_equal(active->udp_src_port, passive->udp_src_port);
	assert_int_equal(active->udp_peer_port, passive->udp_src_port);
	/* With one core, or an unknown hash, the ports derive from the flow label. */
	connect_with(1, 0xd001, UINT32_MAX);
	assert_int_equal(active->udp_peer_port, passive->udp_src_port);
	assert_int_equal(active->udp_src_port, passive->udp_peer_port);
	connect_with(2, 0, UINT32_MAX);
	assert_int_equal(active->udp_peer_port, passive->udp_src_port);
	assert_int_equal(active->udp_src_port, passive->udp_peer_port);
}

static void
test_refusals(void **state)
{
	struct ends ends;
	uint32_t cr;

	ends_open(&ends, 5000);
	/* nothing listens there */
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 5001, UINT64_MAX), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_NON_PEER_REJECTED);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_RESET, ends.a.qp), 0);
	/* the consumer rejects */
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 5000, UINT64_MAX), 0);
	cr = await_request(&ends)->cr;
	assert_int_equal(app_call_id(&ends.passive, ONE_MSG_CR_REJECT, cr), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_PEER_REJECTED);
	assert_int_equal(app_call_id(&ends.passive, ONE_MSG_CR_REJECT, cr), -EINVAL);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_RESET, ends.a.qp), 0);
	/* the consumer's library rejects unseen requests */
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 5000, UINT64_MAX), 0);
	memset(ends.passive.msg.bytes, 0, sizeof(ends.passive.msg.bytes));
	ends.passive.msg.cr_reject = (struct one_cr_reject){.cr = await_request(&ends)->cr, .unanswered = 1};
	assert_int_equal(app_call(&ends.passive, ONE_MSG_CR_REJECT), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_NON_PEER_REJECTED);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_RESET, ends.a.qp), 0);
	/* the requester gives up; accepting afterwards fails */
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 5000, 50000), 0);
	cr = await_request(&ends)->cr;
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_TIMED_OUT);
	pause_ms(20);
	assert_int_equal(accept_request(&ends, cr), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_ACCEPT_ERROR);
	assert_int_equal(app_call_id(&ends.passive, ONE_MSG_QP_RESET, ends.p.qp), 0);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_RESET, ends.a.qp), 0);
	/* the requester disconnects before the answer */
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 5000, UINT64_MAX), 0);
	cr = await_request(&ends)->cr;
	assert_int_equal(disconnect(&ends.active, ends.a.qp, false), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_DISCONNECTED);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_RESET, ends.a.qp), 0);
	assert_int_equal(app_call_id(&ends.passive, ONE_MSG_CR_REJECT, cr), 0);
	/* accepting with an invalid queue pair fails, and the request remains */
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 5000, UINT64_MAX), 0);
	cr = await_request(&ends)->cr;
	ends.p.qp ^= 0x10000;
	assert_int_equal(accept_request(&ends, cr), -EINVAL);
	ends.p.qp ^= 0x10000;
	assert_int_equal(accept_request(&ends, cr), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_ESTABLISHED);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_ESTABLISHED);
	assert_no_event();
	ends_close(&ends);
}

/* uDAPL has one limit of private data for all messages; rdma_cm may use all the room of each message. */
static void
test_private_data(void **state)
{
	struct one_cr_accept accept = {.private_len = CM_USER_PRIVATE_MAX + 1};
	struct one_cr_reject refusal = {.private_len = CM_USER_PRIVATE_MAX + 1};
	const struct one_qp_shm *shm;
	struct ends ends;

	memset(accept.private_data, 0x5a, sizeof(accept.private_data));
	memset(refusal.private_data, 0xa5, sizeof(refusal.private_data));
	for (int verbs = 0; verbs < 2; verbs++) {
		ends_open_as(&ends, verbs != 0 ? ONE_KIND_VERBS : ONE_KIND_DAT, 5000);
		assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 5000, UINT64_MAX), 0);
		accept.cr = refusal.cr = await_request(&ends)->cr;
		accept.qp = ends.p.qp;
		ends.passive.msg.cr_accept = accept;
		assert_int_equal(app_call(&ends.passive, ONE_MSG_CR_ACCEPT), -EMSGSIZE);
		ends.passive.msg.cr_reject = refusal;
		assert_int_equal(app_call(&ends.passive, ONE_MSG_CR_REJECT), -EMSGSIZE);
		accept.private_len = CM_PRIVATE_REP + 1;
		refusal.private_len = CM_PRIVATE_REJ + 1;
		if (verbs == 0)
			ends_close(&ends);
	}
	refusal.private_len = CM_PRIVATE_REJ;
	ends.passive.msg.cr_reject = refusal;
	assert_int_equal(app_call(&ends.passive, ONE_MSG_CR_REJECT), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_PEER_REJECTED);
	shm = (const struct one_qp_shm *)(ends.active.arena + ends.a.shm);
	assert_int_equal(shm->private_len, CM_PRIVATE_REJ);
	assert_memory_equal(shm->private_data, refusal.private_data, CM_PRIVATE_REJ);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_RESET, ends.a.qp), 0);
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 5000, UINT64_MAX), 0);
	accept.cr = await_request(&ends)->cr;
	accept.private_len = CM_PRIVATE_REP;
	ends.passive.msg.cr_accept = accept;
	assert_int_equal(app_call(&ends.passive, ONE_MSG_CR_ACCEPT), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_ESTABLISHED);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_ESTABLISHED);
	assert_int_equal(shm->private_len, CM_PRIVATE_REP);
	assert_memory_equal(shm->private_data, accept.private_data, CM_PRIVATE_REP);
	assert_false(fake_connection().rc.oneside_peer); /* no room to announce it */
	ends_close(&ends);
}

/* Requested parameters are limited by the port, which grants 6 RNR retries and an ACK timeout code of 18 at
 * least. */
static void
test_parameters(void **state)
{
	const struct one_cr_shm *cr;
	struct ends ends;
	struct one_msg *msg = &ends.active.msg;

	ends_open(&ends, 5000);
	app_connect_qp(&ends.active, ends.a.qp ^ 0x10000, 5000, UINT64_MAX); /* only fills in the message */
	msg->qp_connect.qp = ends.a.qp;
	msg->qp_connect.param.rnr_retry = 8;
	assert_int_equal(app_call(&ends.active, ONE_MSG_QP_CONNECT), -EINVAL);
	msg->qp_connect.param = (struct one_conn_param){.given = ONE_CONN_STEPWISE - 1, .retry_count = 8};
	assert_int_equal(app_call(&ends.active, ONE_MSG_QP_CONNECT), -EINVAL);
	msg->qp_connect.param = (struct one_conn_param){.given = ONE_CONN_STEPWISE - 1, .ack_timeout = 32};
	assert_int_equal(app_call(&ends.active, ONE_MSG_QP_CONNECT), -EINVAL);
	msg->qp_connect.param =
		(struct one_conn_param){.given = ONE_CONN_STEPWISE - 1,
					.rnr_retry = 3,
					.retry_count = 2,
					.ack_timeout = 20,
					.traffic_class = 0x2b,
					.access = ONE_ACCESS_REMOTE_READ | ONE_ACCESS_LOCAL_WRITE};
	assert_int_equal(app_call(&ends.active, ONE_MSG_QP_CONNECT), 0);
	cr = await_request(&ends);
	assert_int_equal(cr->rnr_retry, 3);
	assert_int_equal(cr->retry_count, 2);
	assert_int_equal(cr->remote_qpn, ends.a.qpn);
	ends.passive.msg.cr_accept = (struct one_cr_accept){
		.cr = cr->cr, .qp = ends.p.qp, .param = {.given = ONE_CONN_RNR_RETRY, .rnr_retry = 7}};
	assert_int_equal(app_call(&ends.passive, ONE_MSG_CR_ACCEPT), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_ESTABLISHED);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_ESTABLISHED);
	assert_int_equal(fake_connection().rc.peer_qpn, ends.p.qpn); /* the active side's connection */
	assert_int_equal(fake_connection().rc.retry_count, 2);
	assert_int_equal(fake_connection().rc.timeout, 20);
	assert_int_equal(fake_connection().rc.access, ONE_ACCESS_REMOTE_READ);
	assert_int_equal(fake_connection().rc.rnr_retry, 6);
	assert_int_equal(fake_connection().rc.min_rnr_timer, 29);  /* for 3 tries, 0.25 s */
	assert_int_equal(fake_connection().rc.path.tos, 0x28 | 2); /* ECT(0), whatever a program requests */
	assert_int_equal(((const struct one_qp_shm *)(ends.active.arena + ends.a.shm))->remote_qpn,
			 ends.p.qpn);
	assert_int_equal(((const struct one_qp_shm *)(ends.passive.arena + ends.p.shm))->remote_qpn,
			 ends.a.qpn);
	ends_close(&ends);
}

static void
test_arguments(void **state)
{
	struct ends ends;
	struct one_qp_created bare;

	ends_open(&ends, 5000);
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 5000, 0), -EINVAL);
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, CM_SERVICE_RSM(0x400000), 1), -EACCES);
	ends.active.msg.qp_connect.service = 5000;
	ends.active.msg.qp_connect.private_len = CM_USER_PRIVATE_MAX + 1;
	assert_int_equal(app_call(&ends.active, ONE_MSG_QP_CONNECT), -EMSGSIZE);
	ends.active.msg.qp_connect.private_len = UINT16_MAX;
	assert_int_equal(app_call(&ends.active, ONE_MSG_QP_CONNECT), -EMSGSIZE);
	ends.active.msg.qp_connect.private_len = 0;
	ends.active.msg.qp_connect.family = AF_INET6;
	assert_int_equal(app_call(&ends.active, ONE_MSG_QP_CONNECT), -EAFNOSUPPORT);
	assert_int_equal(disconnect(&ends.active, ends.a.qp, false), -ENOTCONN);
	bare = app_qp(&ends.active, 0, ends.cq_a);
	assert_int_equal(app_connect_qp(&ends.active, bare.qp, 5000, UINT64_MAX), -EINVAL);
	assert_int_equal(ends.active.reply.subject, ONE_SUBJECT_PZ);
	ends.active.msg.qp_modify = (struct one_qp_modify){
		.qp = bare.qp,
		.to = {.pz = ends.pz_a, .max_send_wr = 10, .max_recv_wr = 10, .rd_atomic_in = 1}};
	assert_int_equal(app_call(&ends.active, ONE_MSG_QP_MODIFY), 0);
	assert_int_equal(app_connect_qp(&ends.active, bare.qp, 5000, UINT64_MAX), -EINVAL);
	assert_int_equal(ends.active.reply.subject, ONE_SUBJECT_CQ_CONN);
	/* in use; reserved; any */
	ends.active.msg.listen = (struct one_listen){.service = 5000, .cq = ends.cq_a};
	assert_int_equal(app_call(&ends.active, ONE_MSG_LISTEN), -EADDRINUSE);
	ends.active.msg.listen.service = CM_SERVICE_RSM(0x400000);
	assert_int_equal(app_call(&ends.active, ONE_MSG_LISTEN), -EACCES);
	ends.active.msg.listen.service = 0;
	assert_int_equal(app_call(&ends.active, ONE_MSG_LISTEN), 0);
	assert_true(ends.active.reply.listening.service >= 1024);
	assert_int_equal(app_call_id(&ends.passive, ONE_MSG_UNLISTEN, ends.listener), 0);
	assert_int_equal(app_call_id(&ends.passive, ONE_MSG_UNLISTEN, ends.listener), -EINVAL);
	ends.active.msg.listen.service = 5000;
	ends.active.msg.listen.cq = ends.cq_a;
	assert_int_equal(app_call(&ends.active, ONE_MSG_LISTEN), 0);
	assert_no_event();
	ends_close(&ends);
}

/* A user cannot take all ports, however many listeners it may have. */
static void
test_share_of_ports(void **state)
{
	struct app app;
	uint32_t cq, first = 0, n = 0;
	int error;

	app_hello(&app, ONE_KIND_DAT);
	cq = app_cq(&app, 10);
	do {
		app.msg.listen = (struct one_listen){.cq = cq};
		error = app_call(&app, ONE_MSG_LISTEN);
		if (n == 0)
			first = app.reply.listening.listener;
	} while (error == 0 && ++n < PORT_SPACE);
	assert_int_equal(error, -EDQUOT);
	assert_int_equal(app.reply.subject, ONE_SUBJECT_QUOTA);
	assert_int_equal(app.reply.value, n);
	assert_int_equal(n, PORT_SPACE / 4 * 3);
	/* The limit counts for a given port, too. A service that is no port is not limited by it. */
	app.msg.listen = (struct one_listen){.service = UINT16_MAX, .cq = cq};
	assert_int_equal(app_call(&app, ONE_MSG_LISTEN), -EDQUOT);
	app.msg.listen.service = 1ull << 40;
	assert_int_equal(app_call(&app, ONE_MSG_LISTEN), 0);
	assert_int_equal(app_call_id(&app, ONE_MSG_UNLISTEN, first), 0);
	app.msg.listen = (struct one_listen){.service = UINT16_MAX, .cq = cq};
	assert_int_equal(app_call(&app, ONE_MSG_LISTEN), 0);
	app_close(&app);
	assert_clean();
	/* All ports are free again. */
	app_hello(&app, ONE_KIND_DAT);
	app.msg.listen = (struct one_listen){.service = UINT16_MAX, .cq = app_cq(&app, 10)};
	assert_int_equal(app_call(&app, ONE_MSG_LISTEN), 0);
	app_close(&app);
	assert_clean();
}

static int
hold_port(struct app *app, uint32_t cq, uint16_t port, uint32_t flags)
{
	app->msg.listen = (struct one_listen){.service = port, .cq = cq, .flags = ONE_LISTEN_LATER | flags};
	return app_call(app, ONE_MSG_LISTEN);
}

static int
connect_from(struct ends *ends, uint32_t listener)
{
	ends->active.msg.qp_connect = (struct one_qp_connect){.qp = ends->a.qp,
							      .family = AF_INET,
							      .addr = {192, 0, 2, 1},
							      .service = 5000,
							      .timeout_us = UINT64_MAX,
							      .listener = listener};
	return app_call(&ends->active, ONE_MSG_QP_CONNECT);
}

/* The peer sees the port that the connecting side holds, or else an ephemeral port. */
static void
test_source_port(void **state)
{
	const struct one_cr_shm *request;
	struct ends ends;
	uint32_t held;

	ends_open(&ends, 5000);
	assert_int_equal(hold_port(&ends.active, ends.cq_a, 9999, 0), 0);
	held = ends.active.reply.listening.listener;
	assert_int_equal(hold_port(&ends.passive, ends.cq_p, 9999, 0), -EADDRINUSE);
	assert_int_equal(connect_from(&ends, held + 1), -EINVAL); /* the attachment has no such listener */
	assert_int_equal(ends.active.reply.subject, ONE_SUBJECT_LISTENER);
	assert_int_equal(connect_from(&ends, held), 0);
	request = await_request(&ends);
	assert_int_equal(request->remote_port, 9999);
	assert_int_equal(accept_request(&ends, request->cr), 0);
	await(ONE_CQE_CONNECT, ends.a.qp);
	await(ONE_CQE_CONNECT, ends.p.qp);
	ends.a = app_qp(&ends.active, ends.pz_a, ends.cq_a);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_UNLISTEN, held), 0);
	assert_int_equal(connect_from(&ends, held), -EINVAL);
	assert_int_equal(connect_from(&ends, 0), 0);
	assert_int_not_equal(await_request(&ends)->remote_port, 9999);
	ends_close(&ends);
}

/* Ports that are only held do not count in max_listen: each queue pair may hold one. */
static void
test_held_ports_are_no_listeners(void **state)
{
	uint32_t max = config.limits.max_listen, cq;
	struct app app;

	config.limits.max_listen = 1;
	app_hello(&app, ONE_KIND_VERBS);
	cq = app_cq(&app, 10);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(hold_port(&app, cq, 0, 0), 0);
		assert_in_range(app.reply.listening.service, 32768, 60999);
	}
	app.msg.listen = (struct one_listen){.listener = app.reply.listening.listener};
	assert_int_equal(app_call(&app, ONE_MSG_LISTEN), 0);
	app.msg.listen = (struct one_listen){.service = 5000, .cq = cq};
	assert_int_equal(app_call(&app, ONE_MSG_LISTEN), -EDQUOT);
	assert_int_equal(app.reply.value, 1);
	app_close(&app);
	assert_clean();
	config.limits.max_listen = max;
}

/* A port may be shared until one of its holders listens; a listener must be its only holder. */
static void
test_shared_port(void **state)
{
	struct ends ends;
	uint32_t first, second;

	ends_open(&ends, 5000);
	ends.active.msg.listen =
		(struct one_listen){.service = 6000, .cq = ends.cq_a, .flags = ONE_LISTEN_SHARED};
	assert_int_equal(app_call(&ends.active, ONE_MSG_LISTEN), -EINVAL);
	assert_int_equal(hold_port(&ends.active, ends.cq_a, 5000, ONE_LISTEN_SHARED), -EADDRINUSE);
	assert_int_equal(hold_port(&ends.active, ends.cq_a, 6000, ONE_LISTEN_SHARED), 0);
	first = ends.active.reply.listening.listener;
	assert_int_equal(hold_port(&ends.passive, ends.cq_p, 6000, ONE_LISTEN_SHARED), 0);
	second = ends.passive.reply.listening.listener;
	assert_int_equal(hold_port(&ends.passive, ends.cq_p, 6000, 0), -EADDRINUSE);
	ends.active.msg.listen = (struct one_listen){.listener = first};
	assert_int_equal(app_call(&ends.active, ONE_MSG_LISTEN), -EADDRINUSE);
	assert_int_equal(app_call_id(&ends.passive, ONE_MSG_UNLISTEN, second), 0);
	assert_int_equal(app_call(&ends.active, ONE_MSG_LISTEN), 0);
	assert_int_equal(hold_port(&ends.passive, ends.cq_p, 6000, ONE_LISTEN_SHARED), -EADDRINUSE);
	ends_close(&ends);
}

/* A service can be reserved before connections are admitted. */
static void
test_listen_later(void **state)
{
	struct one_listen *args;
	struct ends ends;
	uint32_t later;

	ends_open(&ends, 5000);
	args = &ends.passive.msg.listen;
	*args = (struct one_listen){.service = 6000, .cq = ends.cq_p, .flags = ONE_LISTEN_SHARED << 1};
	assert_int_equal(app_call(&ends.passive, ONE_MSG_LISTEN), -EINVAL);
	*args = (struct one_listen){.service = 6000, .cq = ends.cq_p, .flags = ONE_LISTEN_LATER};
	assert_int_equal(app_call(&ends.passive, ONE_MSG_LISTEN), 0);
	later = ends.passive.reply.listening.listener;
	*args = (struct one_listen){.service = 6000, .cq = ends.cq_p};
	assert_int_equal(app_call(&ends.passive, ONE_MSG_LISTEN), -EADDRINUSE);
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 6000, UINT64_MAX), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_NON_PEER_REJECTED);
	assert_no_event();
	*args = (struct one_listen){.listener = ends.listener};
	assert_int_equal(app_call(&ends.passive, ONE_MSG_LISTEN), -EINVAL); /* already listens */
	assert_int_equal(ends.passive.reply.subject, ONE_SUBJECT_LISTENER);
	*args = (struct one_listen){.listener = later};
	assert_int_equal(app_call(&ends.passive, ONE_MSG_LISTEN), 0);
	assert_int_equal(ends.passive.reply.listening.service, 6000);
	assert_int_equal(app_call(&ends.passive, ONE_MSG_LISTEN), -EINVAL);
	ends.a = app_qp(&ends.active, ends.pz_a, ends.cq_a);
	ends.listener = later;
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 6000, UINT64_MAX), 0);
	assert_int_equal(await_request(&ends)->conn_qual, 6000);
	ends_close(&ends);
}

static void
test_handoff_and_once(void **state)
{
	struct ends ends;
	uint32_t second, cr;

	ends_open(&ends, 5000);
	ends.passive.msg.listen =
		(struct one_listen){.service = 6000, .cq = ends.cq_p, .flags = ONE_LISTEN_ONCE};
	assert_int_equal(app_call(&ends.passive, ONE_MSG_LISTEN), 0);
	second = ends.passive.reply.listening.listener;
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 5000, UINT64_MAX), 0);
	cr = await_request(&ends)->cr;
	ends.passive.msg.cr_handoff = (struct one_cr_handoff){.cr = cr, .service = 7000};
	assert_int_equal(app_call(&ends.passive, ONE_MSG_CR_HANDOFF), -ENOENT);
	ends.passive.msg.cr_handoff.service = 6000;
	assert_int_equal(app_call(&ends.passive, ONE_MSG_CR_HANDOFF), 0);
	ends.listener = second;
	cr = await_request(&ends)->cr;
	assert_int_equal(accept_request(&ends, cr), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_ESTABLISHED);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_ESTABLISHED);
	/* A listener for one request does not listen again, but its id remains valid. */
	disconnect(&ends.active, ends.a.qp, false);
	await(ONE_CQE_CONNECT, ends.a.qp);
	await(ONE_CQE_CONNECT, ends.p.qp);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_RESET, ends.a.qp), 0);
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 6000, UINT64_MAX), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_NON_PEER_REJECTED);
	assert_int_equal(app_call_id(&ends.passive, ONE_MSG_UNLISTEN, second), 0);
	assert_no_event();
	ends_close(&ends);
}

/* The ring is the backlog: requests that do not fit are refused, but not as by the consumer. */
static void
test_backlog(void **state)
{
	struct one_qp_created first, second, third, fourth;
	struct one_cq_created ring;
	struct one_cq_shm *shm;
	struct ends ends;
	uint64_t offset;

	ends_open(&ends, 5000);
	ends.passive.msg.cq_create.entries = 3;
	assert_int_equal(app_call(&ends.passive, ONE_MSG_CQ_CREATE), 0);
	ring = ends.passive.reply.cq;
	assert_int_equal(ring.log2, 3); /* room for 5: 3/4 of 8, less one; a ring of 4 has room for 2 */
	offset = ring.offset;
	shm = (struct one_cq_shm *)(ends.passive.arena + offset);
	ends.passive.msg.listen = (struct one_listen){.service = 6000, .cq = ring.cq};
	assert_int_equal(app_call(&ends.passive, ONE_MSG_LISTEN), 0);
	ends.listener = ends.passive.reply.listening.listener;
	first = app_qp(&ends.active, ends.pz_a, ends.cq_a);
	second = app_qp(&ends.active, ends.pz_a, ends.cq_a);
	third = app_qp(&ends.active, ends.pz_a, ends.cq_a);
	fourth = app_qp(&ends.active, ends.pz_a, ends.cq_a);
	/* Six entries wait, as if a core had stored them: there is room for one more. */
	atomic_store(&shm->tail, 6);
	assert_int_equal(app_connect_qp(&ends.active, first.qp, 6000, UINT64_MAX), 0);
	await_request(&ends);
	atomic_store(&shm->tail, 7);
	assert_int_equal(app_connect_qp(&ends.active, second.qp, 6000, UINT64_MAX), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, second.qp).status, ONE_CONN_NON_PEER_REJECTED);
	/* The application has taken all entries. */
	atomic_store(&shm->head, 7);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_RESET, second.qp), 0);
	assert_int_equal(app_connect_qp(&ends.active, second.qp, 6000, UINT64_MAX), 0);
	await_request(&ends);
	/* An application may take entries before the tail counts them: then the ring is not full. */
	atomic_store(&shm->head, 9);
	assert_int_equal(app_connect_qp(&ends.active, third.qp, 6000, UINT64_MAX), 0);
	await_request(&ends);
	/* Six entries wait, and one is on its way to the core: the ring is full. */
	atomic_store(&shm->tail, 15);
	fake_hold(true, false);
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 6000, UINT64_MAX), 0);
	assert_int_equal(app_connect_qp(&ends.active, fourth.qp, 6000, UINT64_MAX), 0);
	fake_hold(false, false);
	assert_int_equal(await(ONE_CQE_CONNECT, fourth.qp).status, ONE_CONN_NON_PEER_REJECTED);
	await_request(&ends);
	assert_no_event();
	ends_close(&ends);
}

static int
name_as_peer(struct app *app, uint32_t qp, uint32_t peer_qpn)
{
	app->msg.qp_rtr = (struct one_qp_rtr){
		.qp = qp, .peer_qpn = peer_qpn, .path_mtu = 1024, .family = AF_INET, .addr = {192, 0, 2, 1}};
	return app_call(app, ONE_MSG_QP_RTR);
}

/* A queue pair may not name a connected queue pair as its peer. One that did so before the connection is
 * broken by it. */
static void
test_named_by_a_stranger(void **state)
{
	struct one_qp_created before, after;
	struct app stranger;
	struct ends ends;
	uint32_t pz, cq;

	ends_open(&ends, 45248);
	app_hello(&stranger, ONE_KIND_VERBS);
	pz = app_pz(&stranger);
	for (int i = 0; i < 5; i++) /* ids as in ends_open_as, so that `before` differs from both ends */
		cq = app_cq(&stranger, 10);
	for (int i = 0; i < 5; i++)
		before = app_qp(&stranger, pz, cq);
	after = app_qp(&stranger, pz, cq);
	assert_int_equal(name_as_peer(&stranger, before.qp, ends.p.qpn), 0);
	establish(&ends, 45248);
	assert_int_equal(await(ONE_CQE_CONNECT, before.qp).status, ONE_CONN_BROKEN);
	assert_int_equal(name_as_peer(&stranger, after.qp, ends.p.qpn), -EADDRINUSE);
	assert_int_equal(name_as_peer(&stranger, after.qp, ends.a.qpn), -EADDRINUSE);
	assert_int_equal(disconnect(&ends.active, ends.a.qp, false), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_DISCONNECTED);
	assert_int_equal(name_as_peer(&stranger, after.qp, ends.p.qpn), 0);
	app_close(&stranger);
	ends_close(&ends);
}

static void
test_broken(void **state)
{
	struct ends ends;

	ends_open(&ends, 5000);
	establish(&ends, 5000);
	fake_raise(ends.a.qpn, ENGINE_EVENT_FAILED, RC_ERROR_REQUESTER);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_BROKEN);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_DISCONNECTED);
	/* The DREQ names the refused request, since the NAK may be lost. */
	assert_int_equal(fake_refusal, FAKE_REFUSAL);
	/* Late events of the cores change nothing. */
	fake_raise(ends.a.qpn, ENGINE_EVENT_FAILED, RC_ERROR_REQUESTER);
	fake_raise(ends.p.qpn, ENGINE_EVENT_FAILED, RC_ERROR_RESPONDER);
	fake_raise(ends.p.qpn, ENGINE_EVENT_DRAINED, 0);
	fake_raise(ends.p.qpn, ENGINE_EVENT_ESTABLISHED, 0);
	assert_no_event();
	/* Freeing a connected queue pair disconnects its peer. */
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_RESET, ends.a.qp), 0);
	assert_int_equal(app_call_id(&ends.passive, ONE_MSG_QP_RESET, ends.p.qp), 0);
	establish(&ends, 5000);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_FREE, ends.a.qp), 0);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_FREE, ends.a.qp), -EINVAL);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_DISCONNECTED);
	assert_int_equal(fake_refusal, 0);
	assert_no_event();
	ends_close(&ends);
}

/*
 * A packet with `payload` bytes was lost at each retry, and the peer answers the DREQ. Returns the path MTU
 * of the next connection.
 */
static uint32_t
mtu_after_loss(struct ends *ends, uint32_t payload)
{
	fake_unacknowledged = payload;
	establish(ends, 5000);
	fake_raise(ends->a.qpn, ENGINE_EVENT_FAILED, RC_ERROR_REQUESTER);
	assert_int_equal(await(ONE_CQE_CONNECT, ends->a.qp).status, ONE_CONN_BROKEN);
	assert_int_equal(await(ONE_CQE_CONNECT, ends->p.qp).status, ONE_CONN_DISCONNECTED);
	assert_int_equal(app_call_id(&ends->active, ONE_MSG_QP_RESET, ends->a.qp), 0);
	assert_int_equal(app_call_id(&ends->passive, ONE_MSG_QP_RESET, ends->p.qp), 0);
	fake_unacknowledged = 0;
	establish(ends, 5000);
	assert_int_equal(disconnect(&ends->active, ends->a.qp, false), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends->a.qp).status, ONE_CONN_DISCONNECTED);
	assert_int_equal(await(ONE_CQE_CONNECT, ends->p.qp).status, ONE_CONN_DISCONNECTED);
	assert_int_equal(app_call_id(&ends->active, ONE_MSG_QP_RESET, ends->a.qp), 0);
	assert_int_equal(app_call_id(&ends->passive, ONE_MSG_QP_RESET, ends->p.qp), 0);
	return fake_connection().rc.path_mtu;
}

/* A switch on the path drops long packets, and reports none. */
static void
test_path_drops_long_packets(void **state)
{
	uint64_t before = path_mtu_reports;
	struct ends ends;
	uint32_t mtu;

	ends_open(&ends, 5000);
	mtu = mtu_after_loss(&ends, 0);
	assert_true(mtu >= 4096);
	assert_int_equal(mtu_after_loss(&ends, 1024), mtu); /* each path carries that */
	assert_int_equal(path_mtu_reports, before);
	assert_int_equal(mtu_after_loss(&ends, mtu), 1408);
	assert_int_equal(path_mtu_reports, before + 1);
	assert_in_range(mtu_after_loss(&ends, 1408), 1024, 1216);
	assert_int_equal(path_mtu_reports, before + 2);
	path_mtus_forget();
	ends_close(&ends);
}

static void
modify_qp(struct app *app, uint32_t qp, uint32_t pz, uint32_t cq, uint32_t flags)
{
	app->msg.qp_modify = (struct one_qp_modify){.qp = qp,
						    .to = {.pz = pz,
							   .send_cq = cq,
							   .recv_cq = cq,
							   .conn_cq = cq,
							   .max_send_wr = 10,
							   .max_recv_wr = 10,
							   .max_send_sge = 4,
							   .max_recv_sge = 1,
							   .rd_atomic_in = 4,
							   .rd_atomic_out = 4,
							   .flags = flags}};
	assert_int_equal(app_call(app, ONE_MSG_QP_MODIFY), 0);
}

static void
end_and_reset(struct ends *ends)
{
	assert_int_equal(disconnect(&ends->active, ends->a.qp, false), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends->a.qp).status, ONE_CONN_DISCONNECTED);
	assert_int_equal(await(ONE_CQE_CONNECT, ends->p.qp).status, ONE_CONN_DISCONNECTED);
	assert_int_equal(app_call_id(&ends->active, ONE_MSG_QP_RESET, ends->a.qp), 0);
	assert_int_equal(app_call_id(&ends->passive, ONE_MSG_QP_RESET, ends->p.qp), 0);
}

/* `home`: first core of the active end; the other end gets the next one. */
static void
use_lanes(uint32_t cores, uint32_t home)
{
	fake_cores = cores;
	fake_lanes = cores > 1;
	fake_home = home;
}

/* A queue pair has a core, and then another completion queue, which gets a ring on that core. */
static void
test_other_queue_on_core(void **state)
{
	struct ends ends;
	uint32_t near;

	use_lanes(2, 1);
	ends_open(&ends, 5000);
	ends.passive.msg.cq_create = (struct one_cq_create){.entries = 10, .vector = 1};
	assert_int_equal(app_call(&ends.passive, ONE_MSG_CQ_CREATE), 0);
	near = ends.passive.reply.cq.cq;
	modify_qp(&ends.passive, ends.p.qp, ends.pz_p, near, 0);
	establish(&ends, 5000);
	end_and_reset(&ends);
	modify_qp(&ends.passive, ends.p.qp, ends.pz_p, ends.cq_p, 0);
	establish(&ends, 5000);
	end_and_reset(&ends);
	ends_close(&ends);
	use_lanes(1, 0);
}

/* A connection within the data plane goes to the core with the fewest queue pairs, of equal ones to the first
 * core of the attachment that connects; the next one whose requests complete in the same queue follows it. */
static void
test_local_connections_share_core(void **state)
{
	for (uint32_t home = 0; home < 2; home++) {
		uint32_t before[] = {place_count(0), place_count(1)};
		struct ends ends;

		use_lanes(2, home);
		ends_open(&ends, 5000);
		establish(&ends, 5000);
		assert_int_equal(place_count(home), before[home] + 2);
		ends.cq_a = app_cq(&ends.active, 10);
		for (uint32_t count = 2; count <= 4; count += 2) {
			ends.a = app_qp(&ends.active, ends.pz_a, ends.cq_a);
			ends.p = app_qp(&ends.passive, ends.pz_p, ends.cq_p);
			establish(&ends, 5000);
			assert_int_equal(place_count(1 - home), before[1 - home] + count);
		}
		assert_int_equal(place_count(home), before[home] + 2);
		ends_close(&ends);
	}
	use_lanes(1, 0);
}

static uint32_t
lane_of(uint32_t qpn)
{
	const struct qp *qp = engine_qp_owner(qpn);

	return engine_lane_number(qp->lane);
}

/* A process with more cores has made the first lane of the active end, and both ends of a local connection
 * get a lane of its number: they stay on one core if a later process has more cores again. */
static void
test_local_connections_share_lane(void **state)
{
	struct ends ends;

	fake_lanes = true;
	fake_home = 3;
	ends_open(&ends, 5000);
	establish(&ends, 5000);
	assert_int_equal(lane_of(ends.a.qpn), 3);
	assert_int_equal(lane_of(ends.p.qpn), 3);
	assert_true(fake_connection().local);
	config.placement = CONFIG_PLACEMENT_ONE;
	ends.a = app_qp(&ends.active, ends.pz_a, ends.cq_a);
	ends.p = app_qp(&ends.passive, ends.pz_p, ends.cq_p);
	establish(&ends, 5000);
	assert_int_equal(lane_of(ends.p.qpn), 0);
	assert_false(fake_connection().local);
	config.placement = CONFIG_PLACEMENT_AUTO;
	ends_close(&ends);
	use_lanes(1, 0);
}

/* The rings of shared receive queues are exchanged once no core of the attachment uses the old ones. */
static void
test_swap_waits_for_lanes(void **state)
{
	uint32_t syncs = fake_done(ENGINE_CLIENT_SYNC), srq[2];
	struct ends ends;

	use_lanes(2, 1);
	ends_open(&ends, 5000);
	for (int i = 0; i < 2; i++) {
		ends.passive.msg.srq_create =
			(struct one_srq_create){.pz = ends.pz_p, .max_wr = 10, .max_sge = 1};
		assert_int_equal(app_call(&ends.passive, ONE_MSG_SRQ_CREATE), 0);
		assert_int_equal(ends.passive.reply.srq.lanes, 2);
		srq[i] = ends.passive.reply.srq.srq;
	}
	ends.passive.msg.srq_swap = (struct one_srq_swap){srq[0], srq[1]};
	assert_int_equal(app_call(&ends.passive, ONE_MSG_SRQ_SWAP), 0);
	assert_int_equal(fake_done(ENGINE_CLIENT_SYNC), syncs);
	establish(&ends, 5000); /* on the core of the active end */
	assert_int_equal(app_call(&ends.passive, ONE_MSG_SRQ_SWAP), 0);
	assert_int_equal(fake_done(ENGINE_CLIENT_SYNC), syncs + 1);
	end_and_reset(&ends);
	ends_close(&ends);
	use_lanes(1, 0);
}

/* A move that waits does not go on with the next connection. */
static void
test_reset_forgets_move(void **state)
{
	static uint64_t move[32]; /* a struct qp_move that does not wait */
	struct ends ends;
	struct qp *qp;

	ends_open(&ends, 5000);
	establish(&ends, 5000);
	qp = engine_qp_owner(ends.a.qpn);
	qp->move = (struct qp_move *)move;
	end_and_reset(&ends);
	assert_null(qp->move);
	ends_close(&ends);
}

/* An application sees that its queue pair is broken, and may reset it, before the control thread knows. */
static void
test_reset_at_once(void **state)
{
	struct ends ends;

	ends_open(&ends, 5000);
	establish(&ends, 5000);
	fake_hold(true, false);
	ends.active.msg.id = (struct one_id){.id = ends.a.qp};
	app_post(&ends.active, ONE_MSG_QP_RESET);
	for (int i = 0; i < 5000 && fake_waiting() == 0; i++)
		pause_ms(1);
	/* The core reports the failure while the reset waits. */
	fake_raise(ends.a.qpn, ENGINE_EVENT_FAILED, RC_ERROR_REQUESTER);
	fake_hold(false, false);
	assert_int_equal(app_receive(&ends.active), 1);
	assert_int_equal(ends.active.reply.error, 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_BROKEN);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_DISCONNECTED);
	assert_int_equal(app_call_id(&ends.passive, ONE_MSG_QP_RESET, ends.p.qp), 0);
	establish(&ends, 5000);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_RESET, ends.a.qp), -EISCONN);
	assert_no_event();
	ends_close(&ends);
}

static void
test_death_of_peers(void **state)
{
	struct ends ends;
	uint32_t objects;

	/* the requester ends before the answer */
	ends_open(&ends, 5000);
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 5000, UINT64_MAX), 0);
	const struct one_cr_shm *cr = await_request(&ends);
	objects = fake_objects();
	app_close(&ends.active);
	while (fake_objects() == objects) /* its connections end first */
		pause_ms(1);
	assert_int_equal(accept_request(&ends, cr->cr), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_ACCEPT_ERROR);
	app_close(&ends.passive);
	assert_clean();
	/* the acceptor ends before its answer: a refusal, but not by the consumer */
	ends_open(&ends, 5000);
	assert_int_equal(app_connect_qp(&ends.active, ends.a.qp, 5000, UINT64_MAX), 0);
	await_request(&ends);
	app_close(&ends.passive);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_NON_PEER_REJECTED);
	app_close(&ends.active);
	assert_clean();
	/* either ends when connected */
	for (int i = 0; i < 2; i++) {
		ends_open(&ends, 5000);
		establish(&ends, 5000);
		app_close(i == 0 ? &ends.active : &ends.passive);
		assert_int_equal(await(ONE_CQE_CONNECT, i == 0 ? ends.p.qp : ends.a.qp).status,
				 ONE_CONN_DISCONNECTED);
		app_close(i == 0 ? &ends.passive : &ends.active);
		assert_clean();
	}
	assert_no_event();
}

#define MANY 50000u
#define REQUESTS 50

static uint64_t
processor_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Returns the least processor time of the control thread for a request, of several rounds. */
static uint64_t
cost_of_request(struct app *app)
{
	uint64_t least = UINT64_MAX;
	clockid_t clock;

	assert_int_equal(pthread_getcpuclockid(control_thread, &clock), 0);
	for (int round = 0; round < 10; round++) {
		uint64_t from = processor_ns(clock), ns;

		for (int i = 0; i < REQUESTS; i++)
			assert_int_equal(app_call_id(app, ONE_MSG_PZ_FREE, app_pz(app)), 0);
		ns = processor_ns(clock) - from;
		if (ns / REQUESTS < least)
			least = ns / REQUESTS;
	}
	return least;
}

/* Returns the least processor time of this thread for a look at the timer of each connection. */
static uint64_t
cost_of_walk(void)
{
	volatile uint64_t first;
	uint64_t least = UINT64_MAX;

	for (int round = 0; round < 10; round++) {
		uint64_t from = processor_ns(CLOCK_THREAD_CPUTIME_ID), ns;
		const struct conn *conn;

		TAILQ_FOREACH(conn, &control.conns, link)
			first = conn->deadline;
		ns = processor_ns(CLOCK_THREAD_CPUTIME_ID) - from;
		if (ns < least)
			least = ns;
	}
	(void)first;
	return least;
}

/* Connections that wait for their timers do not slow down requests, however many wait. */
static void
test_many_wait(void **state)
{
	static struct conn *waiting[MANY];
	uint64_t alone, beside, walk;
	struct app app;

	app_hello(&app, ONE_KIND_DAT);
	alone = cost_of_request(&app);
	fake_stop(true);
	for (uint32_t i = 0; i < MANY; i++) {
		waiting[i] = conn_new(&path_port[0], false);
		assert_non_null(waiting[i]);
		waiting[i]->deadline = control.now + 10000 * NS_PER_S + i * 7919 % MANY;
		conn_wait(waiting[i]);
	}
	walk = cost_of_walk();
	fake_stop(false);
	beside = cost_of_request(&app);
	fake_stop(true);
	for (uint32_t i = 0; i < MANY; i++) {
		conn_state_set(waiting[i], CONN_OVER, "the test's end");
		conn_put(waiting[i]);
	}
	fake_stop(false);
	if (beside > alone + walk / 2)
		fail_msg(
			"%llu ns a request alone, %llu beside %u connections, a look at each of which takes %llu",
			(unsigned long long)alone, (unsigned long long)beside, MANY,
			(unsigned long long)walk);
	app_close(&app);
	assert_clean();
}

static uint64_t
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* An application that asked for it is notified of the end of time-wait, even after its queue pair
 * is freed. */
static void
test_timewait(void **state)
{
	struct ends ends;
	uint64_t begun;

	ends_open(&ends, 5000);
	modify_qp(&ends.active, ends.a.qp, ends.pz_a, ends.cq_a, ONE_QP_TIMEWAIT);
	establish(&ends, 5000);
	begun = now_ms();
	assert_int_equal(disconnect(&ends.active, ends.a.qp, false), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_DISCONNECTED);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_DISCONNECTED);
	assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_FREE, ends.a.qp), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_TIMEWAIT_EXIT);
	/* Time-wait takes at least twice a packet's lifetime: 0.54 s. */
	assert_true(now_ms() - begun >= 500);
	assert_no_event();
	ends_close(&ends);
	/* Without its ring, or its attachment, there is no notification; the peer's time-wait still ends. */
	for (int i = 0; i < 2; i++) {
		ends_open(&ends, 5000);
		modify_qp(&ends.active, ends.a.qp, ends.pz_a, ends.cq_a, ONE_QP_TIMEWAIT);
		modify_qp(&ends.passive, ends.p.qp, ends.pz_p, ends.cq_p, ONE_QP_TIMEWAIT);
		establish(&ends, 5000);
		assert_int_equal(disconnect(&ends.active, ends.a.qp, false), 0);
		assert_int_equal(await(ONE_CQE_CONNECT, ends.a.qp).status, ONE_CONN_DISCONNECTED);
		assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_DISCONNECTED);
		if (i == 0) {
			assert_int_equal(app_call_id(&ends.active, ONE_MSG_QP_FREE, ends.a.qp), 0);
			assert_int_equal(app_call_id(&ends.active, ONE_MSG_CQ_FREE, ends.cq_a), 0);
		} else {
			app_close(&ends.active);
		}
		assert_int_equal(await(ONE_CQE_CONNECT, ends.p.qp).status, ONE_CONN_TIMEWAIT_EXIT);
		assert_no_event();
		app_close(&ends.passive);
		if (i == 0)
			app_close(&ends.active);
		assert_clean();
	}
}

int
connection_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_connect),
		cmocka_unit_test(test_steering),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_arguments),
		cmocka_unit_test(test_parameters),
		cmocka_unit_test(test_private_data),
		cmocka_unit_test(test_share_of_ports),
		cmocka_unit_test(test_listen_later),
		cmocka_unit_test(test_handoff_and_once),
		cmocka_unit_test(test_source_port),
		cmocka_unit_test(test_held_ports_are_no_listeners),
		cmocka_unit_test(test_shared_port),
		cmocka_unit_test(test_backlog),
		cmocka_unit_test(test_named_by_a_stranger),
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_path_drops_long_packets),
		cmocka_unit_test(test_other_queue_on_core),
		cmocka_unit_test(test_local_connections_share_core),
		cmocka_unit_test(test_local_connections_share_lane),
		cmocka_unit_test(test_swap_waits_for_lanes),
		cmocka_unit_test(test_reset_forgets_move),
		cmocka_unit_test(test_reset_at_once),
		cmocka_unit_test(test_death_of_peers),
		cmocka_unit_test(test_many_wait),
		cmocka_unit_test(test_timewait),
	};

	return cmocka_run_group_tests_name("control: connections", tests, NULL, NULL);
}
