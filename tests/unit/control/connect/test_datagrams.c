/* SPDX-License-Identifier: BSD-3-Clause */
/* Address handles, and the states of datagram queue pairs. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "control/base/loop.h"
#include "side.h"

static int
ah_create(struct side *side, struct one_ah_create args)
{
	side->app.msg.ah_create = args;
	return app_call(&side->app, ONE_MSG_AH_CREATE);
}

/* Address handle to 192.0.2.1, an address of this data plane. */
static struct one_ah_create
here(const struct side *side)
{
	return (struct one_ah_create){.pz = side->pz, .family = AF_INET, .addr = {192, 0, 2, 1}};
}

static void
test_handles(void **state)
{
	struct side a;
	struct engine_ah_config made;
	struct one_ah_create args;
	uint32_t id;

	side_open(&a, true);
	args = here(&a);
	args.traffic_class = 0x2b; /* ECN bits, which applications do not control */
	args.hop_limit = 1;        /* link-local, as applications for InfiniBand set it */
	assert_int_equal(ah_create(&a, args), 0);
	id = a.app.reply.id.id;
	made = fake_ah();
	assert_int_equal(made.id, id);
	assert_int_equal(made.path.tos, 0x28);
	assert_int_equal(made.path.ttl, 64);
	assert_memory_equal(made.path.src.gid + 12, ((uint8_t[]){192, 0, 2, 1}), 4);
	assert_memory_equal(made.path.dst.gid + 12, ((uint8_t[]){192, 0, 2, 1}), 4);
	assert_memory_equal(made.path.dst_mac, made.path.src_mac, 6);
	assert_true(made.path.udp_src_port >= 0xc000);
	assert_int_equal(app_call_id(&a.app, ONE_MSG_PZ_FREE, a.pz), -EBUSY);
	assert_int_equal(app_call_id(&a.app, ONE_MSG_AH_FREE, id), 0);
	assert_int_equal(app_call_id(&a.app, ONE_MSG_AH_FREE, id), -EINVAL);
	assert_int_equal(a.app.reply.subject, ONE_SUBJECT_AH);
	/* Handles that are left are freed with the attachment. */
	assert_int_equal(ah_create(&a, here(&a)), 0);
	assert_int_not_equal(a.app.reply.id.id, id);
	side_close(&a);
}

static void
test_refused_handles(void **state)
{
	struct side a;
	struct one_ah_create bad;

	side_open(&a, true);
#define REFUSED(field, value, error, about)          \
	bad = here(&a);                              \
	bad.field = value;                           \
	assert_int_equal(ah_create(&a, bad), error); \
	assert_int_equal(a.app.reply.subject, about)
	REFUSED(pz, 0x77770077, -EINVAL, ONE_SUBJECT_PZ);
	REFUSED(pz, 0, -EINVAL, ONE_SUBJECT_PZ);
	REFUSED(flow_label, 0x100000, -EINVAL, ONE_SUBJECT_ADDRESS);
	REFUSED(family, AF_INET6, -EAFNOSUPPORT, ONE_SUBJECT_ADDRESS);
	REFUSED(family, 0, -EAFNOSUPPORT, ONE_SUBJECT_ADDRESS);
	REFUSED(addr[0], 224, -EINVAL, ONE_SUBJECT_ADDRESS); /* multicast */
	REFUSED(addr[0], 10, -ENETUNREACH, ONE_SUBJECT_ADDRESS);
	REFUSED(addr[3], 99, -EHOSTUNREACH, ONE_SUBJECT_ADDRESS); /* no host answers */
#undef REFUSED
	assert_int_equal(ah_create(&a, here(&a)), 0);
	side_close(&a);
	/* An attachment may end while its request waits for a neighbour. */
	side_open(&a, true);
	a.app.msg.ah_create = here(&a);
	a.app.msg.ah_create.addr[3] = 98;
	app_post(&a.app, ONE_MSG_AH_CREATE);
	side_close(&a);
}

/* While an address handle waits for its neighbour, later requests are carried out. */
static void
test_others_go_on(void **state)
{
	uint32_t seq;
	struct side a;

	side_open(&a, true);
	a.app.msg.ah_create = here(&a);
	a.app.msg.ah_create.addr[3] = 97;
	app_post(&a.app, ONE_MSG_AH_CREATE);
	seq = a.app.msg.seq;
	assert_int_equal(ah_create(&a, here(&a)), 0);
	app_pz(&a.app);
	/* The waiting address handle holds its protection zone. */
	assert_int_equal(app_call_id(&a.app, ONE_MSG_PZ_FREE, a.pz), -EBUSY);
	assert_int_equal(app_receive(&a.app), 1);
	assert_int_equal(a.app.reply.type, ONE_MSG_AH_CREATE);
	assert_int_equal(a.app.reply.seq, seq);
	assert_int_equal(a.app.reply.error, -EHOSTUNREACH);
	side_close(&a);
}

/* A freed handle counts neither for its attachment nor for its user. */
static void
test_quota(void **state)
{
	const uint32_t all = control.quota.max_common[QUOTA_AHS], few = 2 * config.limits.max_ah;
	struct side a;

	side_open(&a, true);
	control.quota.max_common[QUOTA_AHS] = few;
	for (uint32_t i = 0; i < few; i++) {
		assert_int_equal(ah_create(&a, here(&a)), 0);
		assert_int_equal(app_call_id(&a.app, ONE_MSG_AH_FREE, fake_ah().id), 0);
	}
	control.quota.max_common[QUOTA_AHS] = all;
	for (uint32_t i = 0; i < config.limits.max_ah; i++)
		assert_int_equal(ah_create(&a, here(&a)), 0);
	assert_int_equal(ah_create(&a, here(&a)), -EDQUOT);
	assert_int_equal(a.app.reply.subject, ONE_SUBJECT_QUOTA);
	assert_int_equal(a.app.reply.value, config.limits.max_ah);
	assert_int_equal(app_call_id(&a.app, ONE_MSG_AH_FREE, fake_ah().id), 0);
	assert_int_equal(ah_create(&a, here(&a)), 0);
	side_close(&a);
}

static int
datagram(struct side *side, uint32_t state, uint32_t qkey, uint32_t psn)
{
	side->app.msg.qp_datagram =
		(struct one_qp_datagram){.qp = side->qp.qp, .state = state, .qkey = qkey, .send_psn = psn};
	return app_call(&side->app, ONE_MSG_QP_DATAGRAM);
}

static void
test_states(void **state)
{
	struct side a;

	side_open(&a, true);
	assert_int_equal(datagram(&a, ONE_DATAGRAM_RTS, 5, 0), -ENOTCONN);
	assert_int_equal(datagram(&a, 0, 5, 0), -EINVAL);
	assert_int_equal(datagram(&a, 3, 5, 0), -EINVAL);
	assert_int_equal(datagram(&a, ONE_DATAGRAM_RTR, 0x80000000, 0), -EPERM);
	assert_int_equal(a.app.reply.subject, ONE_SUBJECT_ACCESS);
	assert_int_equal(datagram(&a, ONE_DATAGRAM_RTR, 0x80010000, 0), -EPERM); /* management's Q_Key */
	assert_int_equal(datagram(&a, ONE_DATAGRAM_RTR, 5, 0), 0);
	assert_int_equal(fake_datagram().state, RC_RTR);
	assert_int_equal(fake_datagram().qkey, 5);
	assert_int_equal(datagram(&a, ONE_DATAGRAM_RTR, 6, 0), 0);
	assert_int_equal(datagram(&a, ONE_DATAGRAM_RTS, 6, 0x1000000), -EINVAL);
	assert_int_equal(datagram(&a, ONE_DATAGRAM_RTS, 6, 0xabcdef), 0);
	assert_int_equal(fake_datagram().state, RC_RTS);
	assert_int_equal(fake_datagram().send_psn, 0xabcdef);
	assert_int_equal(datagram(&a, ONE_DATAGRAM_RTS, 7, 0), 0);
	assert_int_equal(fake_datagram().qkey, 7);
	assert_int_equal(datagram(&a, ONE_DATAGRAM_RTS, 0xffffffff, 0), -EPERM);
	assert_int_equal(datagram(&a, ONE_DATAGRAM_RTR, 7, 0), -ENOTCONN);
	/* The core finds the queue pair broken: the application learns that from its completions. */
	fake_raise(a.qp.qpn, ENGINE_EVENT_FAILED, RC_ERROR_REQUESTER);
	assert_int_equal(app_call_id(&a.app, ONE_MSG_QP_ERROR, a.qp.qp), 0);
	assert_int_equal(app_call_id(&a.app, ONE_MSG_QP_ERROR, a.qp.qp), 0);
	assert_int_equal(datagram(&a, ONE_DATAGRAM_RTS, 7, 0), -ENOTCONN);
	assert_int_equal(app_call_id(&a.app, ONE_MSG_QP_RESET, a.qp.qp), 0);
	assert_int_equal(datagram(&a, ONE_DATAGRAM_RTR, 7, 0), 0);
	side_close(&a);
}

/* A datagram queue pair is not connected, and a connected one takes no datagram states. */
static void
test_no_connection(void **state)
{
	struct side a;
	struct one_qp_created rc;

	side_open(&a, true);
	a.app.msg.qp_rtr = (struct one_qp_rtr){
		.qp = a.qp.qp, .peer_qpn = 5, .path_mtu = 1024, .family = AF_INET, .addr = {192, 0, 2, 1}};
	assert_int_equal(app_call(&a.app, ONE_MSG_QP_RTR), -EINVAL);
	assert_int_equal(app_connect_qp(&a.app, a.qp.qp, 5000, 1000), -EINVAL);
	a.app.msg.qp_disconnect = (struct one_qp_disconnect){.qp = a.qp.qp};
	assert_int_equal(app_call(&a.app, ONE_MSG_QP_DISCONNECT), -EINVAL);
	rc = app_qp(&a.app, a.pz, a.cq);
	a.app.msg.qp_datagram = (struct one_qp_datagram){.qp = rc.qp, .state = ONE_DATAGRAM_RTR};
	assert_int_equal(app_call(&a.app, ONE_MSG_QP_DATAGRAM), -EINVAL);
	a.app.msg.qp_modify = (struct one_qp_modify){
		.qp = rc.qp, .to = {.pz = a.pz, .max_send_wr = 10, .max_recv_wr = 10, .flags = ONE_QP_UD}};
	assert_int_equal(app_call(&a.app, ONE_MSG_QP_MODIFY), -EINVAL);
	side_close(&a);
}

/* ---- service ID resolution ---- */

#define UDP(port) (0x1110000u + (port))

static int
sidr_ask_from(struct side *side, uint64_t service, uint8_t last_of_addr, uint32_t listener)
{
	side->app.msg.sidr_ask = (struct one_sidr_ask){.cq = side->cq,
						       .family = AF_INET,
						       .private_len = 5,
						       .addr = {192, 0, 2, last_of_addr},
						       .service = service,
						       .private_data = "hello",
						       .listener = listener};
	return app_call(&side->app, ONE_MSG_SIDR_ASK);
}

static int
sidr_ask(struct side *side, uint64_t service, uint8_t last_of_addr)
{
	return sidr_ask_from(side, service, last_of_addr, 0);
}

static const struct one_sidr_shm *
shm_of(const struct side *side, const struct fake_event *event)
{
	return (const struct one_sidr_shm *)(side->app.arena + event->cookie);
}

static uint32_t
listen_at(struct side *side, uint64_t service)
{
	side->app.msg.listen = (struct one_listen){.service = service, .cq = side->cq};
	assert_int_equal(app_call(&side->app, ONE_MSG_LISTEN), 0);
	return side->app.reply.listening.listener;
}

static void
test_resolution(void **state)
{
	const struct one_sidr_shm *shm;
	struct fake_event event;
	uint32_t listener, question, id;
	struct side a, b;

	side_open(&a, true);
	side_open(&b, true);
	listener = listen_at(&b, UDP(7174));
	assert_int_equal(sidr_ask_from(&a, UDP(7174), 1, 0x77770077), -EINVAL);
	assert_int_equal(a.app.reply.subject, ONE_SUBJECT_LISTENER);
	assert_int_equal(sidr_ask_from(&a, UDP(7174), 1, listen_at(&a, UDP(9999))), 0);
	id = a.app.reply.id.id;
	event = await(ONE_CQE_SIDR_REQUEST, listener);
	shm = shm_of(&b, &event);
	assert_int_equal(shm->remote_port, 9999);
	question = shm->id;
	assert_memory_equal(shm->private_data, "hello", 6);
	assert_int_equal(shm->service, UDP(7174));
	assert_memory_equal(shm->remote_addr, ((uint8_t[]){192, 0, 2, 1}), 4);
	/* An answer needs an own queue pair that receives datagrams; its QPN and Q_Key are reported. */
	b.app.msg.sidr_answer = (struct one_sidr_answer){.sidr = question, .qp = b.qp.qp};
	assert_int_equal(app_call(&b.app, ONE_MSG_SIDR_ANSWER), -ENOTCONN);
	assert_int_equal(datagram(&b, ONE_DATAGRAM_RTR, 0x01234567, 0), 0);
	b.app.msg.sidr_answer = (struct one_sidr_answer){.sidr = question, .qp = 0x77770077};
	assert_int_equal(app_call(&b.app, ONE_MSG_SIDR_ANSWER), -EINVAL);
	b.app.msg.sidr_answer = (struct one_sidr_answer){.sidr = question, .qp = b.qp.qp, .private_len = 137};
	assert_int_equal(app_call(&b.app, ONE_MSG_SIDR_ANSWER), -EMSGSIZE);
	b.app.msg.sidr_answer = (struct one_sidr_answer){
		.sidr = question, .qp = b.qp.qp, .private_len = 7, .private_data = "welcome"};
	assert_int_equal(app_call(&b.app, ONE_MSG_SIDR_ANSWER), 0);
	assert_int_equal(app_call(&b.app, ONE_MSG_SIDR_ANSWER), -EINVAL); /* already answered */
	event = await(ONE_CQE_SIDR, id);
	assert_int_equal(event.status, 0);
	shm = shm_of(&a, &event);
	assert_int_equal(shm->qpn, b.qp.qpn);
	assert_int_equal(shm->qkey, 0x01234567);
	assert_memory_equal(shm->private_data, "welcome", 7);
	/* An application cannot answer its own query. */
	a.app.msg.sidr_answer = (struct one_sidr_answer){.sidr = id};
	assert_int_equal(app_call(&a.app, ONE_MSG_SIDR_ANSWER), -EINVAL);
	assert_int_equal(app_call_id(&a.app, ONE_MSG_SIDR_FREE, id), 0);
	assert_int_equal(app_call_id(&a.app, ONE_MSG_SIDR_FREE, id), -EINVAL);
	app_close(&a.app);
	side_close(&b);
}

static void
test_refused_resolution(void **state)
{
	struct fake_event event;
	uint32_t listener;
	struct side a, b;

	side_open(&a, true);
	side_open(&b, true);
	assert_int_equal(sidr_ask(&a, 7174, 1), -EINVAL); /* a service of TCP's port space */
	assert_int_equal(sidr_ask(&a, UDP(7174), 1), 0);
	assert_int_equal(await(ONE_CQE_SIDR, a.app.reply.id.id).status, 1); /* no listener */
	listener = listen_at(&b, UDP(7174));
	assert_int_equal(sidr_ask(&a, UDP(7174), 1), 0);
	event = await(ONE_CQE_SIDR_REQUEST, listener);
	b.app.msg.sidr_answer = (struct one_sidr_answer){.sidr = shm_of(&b, &event)->id};
	assert_int_equal(app_call(&b.app, ONE_MSG_SIDR_ANSWER), 0);
	assert_int_equal(await(ONE_CQE_SIDR, a.app.reply.id.id).status, 2);
	/* A query that is freed without an answer, by request or with its attachment, is refused. */
	assert_int_equal(sidr_ask(&a, UDP(7174), 1), 0);
	event = await(ONE_CQE_SIDR_REQUEST, listener);
	assert_int_equal(app_call_id(&b.app, ONE_MSG_SIDR_FREE, shm_of(&b, &event)->id), 0);
	assert_int_equal(await(ONE_CQE_SIDR, a.app.reply.id.id).status, 2);
	assert_int_equal(sidr_ask(&a, UDP(7174), 1), 0);
	await(ONE_CQE_SIDR_REQUEST, listener);
	app_close(&b.app);
	assert_int_equal(await(ONE_CQE_SIDR, a.app.reply.id.id).status, 2);
	/* The querying attachment ends first. */
	assert_int_equal(sidr_ask(&a, UDP(7174), 99), 0);
	side_close(&a);
}

/* A listener for datagrams is no listener for connections. */
static void
test_no_connection_there(void **state)
{
	struct side a;
	struct one_qp_created rc;

	side_open(&a, true);
	listen_at(&a, UDP(7174));
	rc = app_qp(&a.app, a.pz, a.cq);
	assert_int_equal(app_connect_qp(&a.app, rc.qp, UDP(7174), UINT64_MAX), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, rc.qp).status, ONE_CONN_NON_PEER_REJECTED);
	side_close(&a);
}

int
datagram_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_handles),
		cmocka_unit_test(test_refused_handles),
		cmocka_unit_test(test_others_go_on),
		cmocka_unit_test(test_quota),
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_no_connection),
		cmocka_unit_test(test_resolution),
		cmocka_unit_test(test_refused_resolution),
		cmocka_unit_test(test_no_connection_there),
	};

	return cmocka_run_group_tests_name("datagrams", tests, NULL, NULL);
}
