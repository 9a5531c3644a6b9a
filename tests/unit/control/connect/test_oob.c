/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Out-of-band connections (exchanged QPNs), and channels with a descriptor.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/base/loop.h"
#include "control/connect/connect.h"
#include "side.h"

/* RTR to a queue pair at 192.0.2.1, an address of this data plane. */
static struct one_qp_rtr
rtr_to(const struct side *side, uint32_t peer_qpn)
{
	return (struct one_qp_rtr){
		.qp = side->qp.qp,
		.peer_qpn = peer_qpn,
		.recv_psn = 0x123456,
		.access = ONE_ACCESS_REMOTE_WRITE,
		.path_mtu = 1024,
		.family = AF_INET,
		.addr = {192, 0, 2, 1},
		.rd_atomic_in = 3,
		.min_rnr_timer = 7,
		.traffic_class = 0x2b,
	};
}

static int
rtr(struct side *side, struct one_qp_rtr args)
{
	side->app.msg.qp_rtr = args;
	return app_call(&side->app, ONE_MSG_QP_RTR);
}

static int
rts(struct side *side, struct one_qp_rts args)
{
	args.qp = side->qp.qp;
	side->app.msg.qp_rts = args;
	return app_call(&side->app, ONE_MSG_QP_RTS);
}

static const struct one_qp_rts plain = {
	.send_psn = 0xabcdef, .timeout = 14, .retry_count = 5, .rnr_retry = 6, .rd_atomic_out = 2};

/* Peers recognize each other by a port that both compute; a flow label is the program's choice of port. */
static void
test_hello_ports(void **state)
{
	struct engine_connection connection;
	struct one_qp_rtr args;
	struct side a, b;

	side_open(&a, false);
	side_open(&b, false);
	args = rtr_to(&a, b.qp.qpn);
	assert_int_equal(rtr(&a, args), 0);
	connection = fake_connection();
	assert_int_equal(connection.rc.path.udp_src_port, wire_udp_hello_port(b.qp.qpn, a.qp.qpn));
	assert_int_equal(connection.rc.path.udp_peer_port, connection.rc.path.udp_src_port);
	assert_true(connection.rc.hello_port >= WIRE_UDP_SOURCE_MIN);
	args = rtr_to(&b, a.qp.qpn);
	args.flow_label = 0x12345;
	assert_int_equal(rtr(&b, args), 0);
	connection = fake_connection();
	assert_int_equal(connection.rc.path.udp_src_port, wire_udp_source_port(0x12345, a.qp.qpn, b.qp.qpn));
	assert_int_equal(connection.rc.hello_port, 0);
	app_close(&b.app);
	side_open(&b, false);
	args = rtr_to(&b, a.qp.qpn);
	args.flow_label = 0xfffff; /* UCX: no particular path */
	assert_int_equal(rtr(&b, args), 0);
	assert_true(fake_connection().rc.hello_port >= WIRE_UDP_SOURCE_MIN);
	app_close(&a.app);
	side_close(&b);
}

/* Routers' reports count for the port that frames leave from alone: also after a peer has asked for one. */
static void
test_source_port_of_reports(void **state)
{
	struct wire_addr peer;
	uint16_t computed;
	struct one_qp_rtr args;
	struct side a, b;

	side_open(&a, false);
	side_open(&b, false);
	args = rtr_to(&a, b.qp.qpn);
	addr_to_wire(args.family, args.addr, &peer);
	computed = wire_udp_hello_port(a.qp.qpn, b.qp.qpn);
	assert_false(conn_sends(&path_port[0], &peer, computed));
	assert_int_equal(rtr(&a, args), 0);
	assert_true(conn_sends(&path_port[0], &peer, computed));
	assert_false(conn_sends(&path_port[0], &peer, computed ^ 1));
	assert_false(conn_sends(&path_port[0], &peer, 0));
	fake_source_port = computed ^ 1;
	assert_true(conn_sends(&path_port[0], &peer, computed ^ 1));
	assert_false(conn_sends(&path_port[0], &peer, computed));
	fake_source_port = 0;
	app_close(&a.app);
	side_close(&b);
}

static void
test_connect(void **state)
{
	struct side a, b;
	struct engine_connection connection;

	side_open(&a, false);
	side_open(&b, false);
	assert_int_equal(rts(&a, plain), -ENOTCONN);
	assert_int_equal(rtr(&a, rtr_to(&a, b.qp.qpn)), 0);
	connection = fake_connection();
	assert_int_equal(connection.state, RC_RTR);
	assert_true(connection.out_of_band);
	assert_true(connection.local);
	assert_int_equal(connection.rc.qpn, a.qp.qpn);
	assert_int_equal(connection.rc.peer_qpn, b.qp.qpn);
	assert_int_equal(connection.rc.recv_psn, 0x123456);
	assert_int_equal(connection.rc.access, ONE_ACCESS_REMOTE_WRITE);
	assert_int_equal(connection.rc.path_mtu, 1024);
	assert_int_equal(connection.rc.rd_atomic_in, 3);
	assert_int_equal(connection.rc.min_rnr_timer, 7);
	assert_false(connection.rc.selective);
	assert_int_equal(connection.rc.path.tos, 0x28); /* without ECN bits */
	assert_int_equal(rtr(&a, rtr_to(&a, b.qp.qpn)), -EISCONN);
	assert_int_equal(rts(&a, plain), 0);
	assert_int_equal(rts(&a, plain), -ENOTCONN); /* already in RTS */
	/* The core finds out whether that queue pair exists (test_local_out_of_band of engine-qp). */
	assert_int_equal(rtr(&b, rtr_to(&b, b.qp.qpn ^ 0x800000)), 0);
	assert_true(fake_connection().local);
	assert_true(fake_connection().out_of_band);
	app_close(&a.app);
	side_close(&b);
}

/* Settings of a connected queue pair can be changed. */
static void
test_settings(void **state)
{
	const struct one_qp_settings all = {.access = ONE_ACCESS_REMOTE_READ,
					    .given = ONE_QP_SET_ACCESS | ONE_QP_SET_MIN_RNR_TIMER |
						     ONE_QP_SET_STOPPED,
					    .min_rnr_timer = 31,
					    .stopped = 1,
					    .notify = 1};
	struct one_msg *msg;
	struct side a;

	side_open(&a, false);
	msg = &a.app.msg;
	msg->qp_set = (struct one_qp_set){.qp = a.qp.qp, .to = all};
	assert_int_equal(app_call(&a.app, ONE_MSG_QP_SET), -ENOTCONN);
	assert_int_equal(rtr(&a, rtr_to(&a, 0x1234)), 0);
#define REFUSED(field, value, error, about)                          \
	msg->qp_set = (struct one_qp_set){.qp = a.qp.qp, .to = all}; \
	msg->qp_set.field = value;                                   \
	assert_int_equal(app_call(&a.app, ONE_MSG_QP_SET), error);   \
	assert_int_equal(a.app.reply.subject, about)
	REFUSED(qp, 0x77770077, -EINVAL, ONE_SUBJECT_QP);
	REFUSED(to.given, 8, -EINVAL, ONE_SUBJECT_NONE);
	REFUSED(to.access, ONE_ACCESS_LOCAL_WRITE, -EINVAL, ONE_SUBJECT_ACCESS);
	REFUSED(to.min_rnr_timer, 32, -EINVAL, ONE_SUBJECT_COUNT);
#undef REFUSED
	assert_int_equal(fake_settings().given, 0);
	msg->qp_set = (struct one_qp_set){.qp = a.qp.qp, .to = all};
	assert_int_equal(app_call(&a.app, ONE_MSG_QP_SET), 0);
	assert_int_equal(fake_settings().given, all.given);
	assert_int_equal(fake_settings().access, all.access);
	assert_int_equal(fake_settings().min_rnr_timer, 31);
	assert_int_equal(fake_settings().stopped, 1);
	assert_int_equal(fake_settings().notify, 1);
	side_close(&a);
}

static void
test_refusals(void **state)
{
	struct side a;
	struct one_qp_rtr bad;
	struct one_qp_rts bad_rts;

	side_open(&a, false);
#define REFUSED(field, value, error, about)    \
	bad = rtr_to(&a, 0x1234);              \
	bad.field = value;                     \
	assert_int_equal(rtr(&a, bad), error); \
	assert_int_equal(a.app.reply.subject, about)
	REFUSED(qp, 0x77770077, -EINVAL, ONE_SUBJECT_QP);
	REFUSED(peer_qpn, 0, -EINVAL, ONE_SUBJECT_QP);
	REFUSED(peer_qpn, 1, -EINVAL, ONE_SUBJECT_QP);
	REFUSED(peer_qpn, 0xffffff, -EINVAL, ONE_SUBJECT_QP);
	REFUSED(peer_qpn, 0x1000000, -EINVAL, ONE_SUBJECT_QP);
	REFUSED(recv_psn, 0x1000000, -EINVAL, ONE_SUBJECT_COUNT);
	REFUSED(access, ONE_ACCESS_LOCAL_WRITE, -EINVAL, ONE_SUBJECT_ACCESS);
	REFUSED(path_mtu, 0, -EINVAL, ONE_SUBJECT_LENGTH);
	REFUSED(path_mtu, 128, -EINVAL, ONE_SUBJECT_LENGTH);
	REFUSED(path_mtu, 1500, -EINVAL, ONE_SUBJECT_LENGTH);
	REFUSED(path_mtu, 8192, -EINVAL, ONE_SUBJECT_LENGTH);
	REFUSED(rd_atomic_in, 17, -EINVAL, ONE_SUBJECT_COUNT);
	REFUSED(min_rnr_timer, 32, -EINVAL, ONE_SUBJECT_COUNT);
	REFUSED(flow_label, 0x100000, -EINVAL, ONE_SUBJECT_ADDRESS);
	REFUSED(family, AF_INET6, -EAFNOSUPPORT, ONE_SUBJECT_ADDRESS);
	REFUSED(addr[0], 224, -EINVAL, ONE_SUBJECT_ADDRESS); /* multicast */
	REFUSED(addr[0], 10, -ENETUNREACH, ONE_SUBJECT_ADDRESS);
#undef REFUSED
	/* The refused requests changed nothing. */
	assert_int_equal(rtr(&a, rtr_to(&a, 0x1234)), 0);
#define REFUSED(field, value)  \
	bad_rts = plain;       \
	bad_rts.field = value; \
	assert_int_equal(rts(&a, bad_rts), -EINVAL)
	REFUSED(send_psn, 0x1000000);
	REFUSED(timeout, 32);
	REFUSED(retry_count, 8);
	REFUSED(rnr_retry, 8);
	REFUSED(rd_atomic_out, 200);
#undef REFUSED
	assert_int_equal(rts(&a, plain), 0);
	side_close(&a);
}

/* The peer is on another host, which does not answer. */
static void
test_silence(void **state)
{
	struct side a;
	struct one_qp_rtr to;

	side_open(&a, false);
	to = rtr_to(&a, 0x1234);
	to.addr[3] = 99;
	assert_int_equal(rtr(&a, to), -EHOSTUNREACH);
	/* The queue pair can be connected as if nothing had been requested. */
	assert_int_equal(rtr(&a, rtr_to(&a, 0x1234)), 0);
	side_close(&a);
	/* An attachment may end while its request waits for a neighbour. */
	side_open(&a, false);
	to = rtr_to(&a, 0x1234);
	to.addr[3] = 98;
	a.app.msg.qp_rtr = to;
	app_post(&a.app, ONE_MSG_QP_RTR);
	side_close(&a);
}

/* While a request waits for a neighbour, later requests are carried out. */
static void
test_others_go_on(void **state)
{
	uint32_t seq, alive;
	struct one_qp_rtr to;
	struct one_arena *arena;
	struct side a;

	side_open(&a, false);
	arena = (struct one_arena *)(void *)a.app.arena;
	alive = atomic_load(&arena->control_alive);
	to = rtr_to(&a, 0x1234);
	to.addr[3] = 97;
	a.app.msg.qp_rtr = to;
	app_post(&a.app, ONE_MSG_QP_RTR);
	seq = a.app.msg.seq;
	app_pz(&a.app);
	/* The waiting request holds its queue pair. */
	assert_int_equal(app_call_id(&a.app, ONE_MSG_QP_FREE, a.qp.qp), -EINVAL);
	assert_int_equal(app_call_id(&a.app, ONE_MSG_QP_ERROR, a.qp.qp), -EINVAL);
	assert_int_equal(app_receive(&a.app), 1);
	assert_int_equal(a.app.reply.type, ONE_MSG_QP_RTR);
	assert_int_equal(a.app.reply.seq, seq);
	assert_int_equal(a.app.reply.error, -EHOSTUNREACH);
	assert_int_equal(a.app.reply.subject, ONE_SUBJECT_ADDRESS);
	/* During the seconds of waiting, control_alive showed that the control thread lives. */
	assert_int_not_equal(atomic_load(&arena->control_alive), alive);
	assert_int_equal(app_call_id(&a.app, ONE_MSG_QP_FREE, a.qp.qp), 0);
	side_close(&a);
}

/* Requests sent before the reply of the first are carried out in order. */
static void
test_queue(void **state)
{
	struct side a;
	uint32_t seq;

	side_open(&a, false);
	seq = a.app.msg.seq;
	a.app.msg.port_query.port = 0;
	for (uint32_t i = 0; i < ONE_CALLS_MAX; i++)
		app_post(&a.app, ONE_MSG_PORT);
	for (uint32_t i = 0; i < ONE_CALLS_MAX; i++) {
		assert_int_equal(app_receive(&a.app), 1);
		assert_int_equal(a.app.reply.seq, ++seq);
		assert_int_equal(a.app.reply.error, 0);
	}
	side_close(&a);
}

static void
test_error(void **state)
{
	struct side a;

	side_open(&a, false);
	/* Error state from each state, and back to reset. */
	assert_int_equal(app_call_id(&a.app, ONE_MSG_QP_ERROR, a.qp.qp), 0);
	assert_int_equal(rtr(&a, rtr_to(&a, 0x1234)), -EISCONN);
	assert_int_equal(app_call_id(&a.app, ONE_MSG_QP_ERROR, a.qp.qp), 0);
	assert_int_equal(app_call_id(&a.app, ONE_MSG_QP_RESET, a.qp.qp), 0);
	assert_int_equal(rtr(&a, rtr_to(&a, 0x1234)), 0);
	assert_int_equal(app_call_id(&a.app, ONE_MSG_QP_ERROR, a.qp.qp), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, a.qp.qp).status, ONE_CONN_DISCONNECTED);
	assert_int_equal(rts(&a, plain), -ENOTCONN);
	assert_int_equal(app_call_id(&a.app, ONE_MSG_QP_RESET, a.qp.qp), 0);
	assert_int_equal(rtr(&a, rtr_to(&a, 0x1234)), 0);
	assert_int_equal(rts(&a, plain), 0);
	/* The core finds the queue pair broken. */
	fake_raise(a.qp.qpn, ENGINE_EVENT_FAILED, RC_ERROR_REQUESTER);
	assert_int_equal(await(ONE_CQE_CONNECT, a.qp.qp).status, ONE_CONN_BROKEN);
	assert_int_equal(app_call_id(&a.app, ONE_MSG_QP_RESET, a.qp.qp), 0);
	assert_int_equal(rtr(&a, rtr_to(&a, 0x1234)), 0);
	assert_int_equal(app_call_id(&a.app, ONE_MSG_QP_ERROR, 0x77770077), -EINVAL);
	side_close(&a);
}

/* While a remote queue pair is the peer of one attachment, other attachments cannot name it. */
static void
test_peer_of_another(void **state)
{
	struct one_qp_created other;
	struct side a, b;
	struct one_qp_rtr to;
	uint8_t status;

	side_open(&a, false);
	side_open(&b, false);
	assert_int_equal(rtr(&a, rtr_to(&a, 0x1234)), 0);
	assert_int_equal(rtr(&b, rtr_to(&b, 0x1234)), -EADDRINUSE);
	assert_int_equal(b.app.reply.subject, ONE_SUBJECT_QP);
	assert_int_equal(b.app.reply.value, 0x1234);
	/* Other attachments may connect to another QPN at that address, or to that QPN at another address. */
	assert_int_equal(rtr(&b, rtr_to(&b, 0x1235)), 0);
	assert_int_equal(app_call_id(&b.app, ONE_MSG_QP_ERROR, b.qp.qp), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, b.qp.qp).status, ONE_CONN_DISCONNECTED);
	assert_int_equal(app_call_id(&b.app, ONE_MSG_QP_RESET, b.qp.qp), 0);
	to = rtr_to(&b, 0x1234);
	to.addr[3] = 99;
	assert_int_equal(rtr(&b, to), -EHOSTUNREACH); /* not taken: the neighbour was asked */
	/* Two queue pairs of the same attachment may name it. */
	other = app_qp(&a.app, a.pz, a.cq);
	to = rtr_to(&a, 0x1234);
	to.qp = other.qp;
	assert_int_equal(rtr(&a, to), 0);
	assert_int_equal(app_call_id(&a.app, ONE_MSG_QP_ERROR, other.qp), 0);
	assert_int_equal(await(ONE_CQE_CONNECT, other.qp).status, ONE_CONN_DISCONNECTED);
	assert_int_equal(rtr(&b, rtr_to(&b, 0x1234)), -EADDRINUSE);
	/* The connection is over once the application ended it, or the core found it broken. */
	fake_raise(a.qp.qpn, ENGINE_EVENT_FAILED, RC_ERROR_REQUESTER);
	/* Attachments number their queue pairs independently: disconnect events of `b` may have the same
	 * number. */
	do {
		status = await(ONE_CQE_CONNECT, a.qp.qp).status;
	} while (status == ONE_CONN_DISCONNECTED);
	assert_int_equal(status, ONE_CONN_BROKEN);
	assert_int_equal(rtr(&b, rtr_to(&b, 0x1234)), 0);
	assert_int_equal(app_call_id(&a.app, ONE_MSG_QP_RESET, a.qp.qp), 0);
	assert_int_equal(rtr(&a, rtr_to(&a, 0x1234)), -EADDRINUSE);
	app_close(&b.app);
	while (rtr(&a, rtr_to(&a, 0x1234)) == -EADDRINUSE)
		pause_ms(2);
	assert_int_equal(rts(&a, plain), 0);
	side_close(&a);
}

/* Within the data plane a queue pair names its own peer, so a stranger cannot keep that peer from it. */
static void
test_peer_names_us(void **state)
{
	struct side a, b, stranger;

	side_open(&a, false);
	side_open(&b, false);
	side_open(&stranger, false);
	assert_int_equal(rtr(&stranger, rtr_to(&stranger, b.qp.qpn)), 0);
	assert_int_equal(rtr(&a, rtr_to(&a, b.qp.qpn)), -EADDRINUSE);
	assert_int_equal(rtr(&b, rtr_to(&b, a.qp.qpn)), 0);
	assert_int_equal(rtr(&a, rtr_to(&a, b.qp.qpn)), 0);
	assert_int_equal(rts(&a, plain), 0);
	assert_int_equal(rts(&stranger, plain), -ENOTCONN);
	app_close(&stranger.app);
	app_close(&b.app);
	side_close(&a);
}

/* ---- channels ---- */

/* Channels are limited by max_channels, not by the number of their words in the arena, and closed with the
 * attachment. */
static void
test_channels(void **state)
{
	uint32_t first, n = 0, fds = count_fds(), done = fake_done(ENGINE_CHANNEL_FD);
	uint32_t max = config.limits.max_channels, all = control.quota.max_common[QUOTA_CHANNELS];
	struct app app;

	config.limits.max_channels = ONE_CHANNELS + 100;
	control.quota.max_common[QUOTA_CHANNELS] = 2 * ONE_CHANNELS;
	app_hello(&app, ONE_KIND_VERBS);
	assert_int_equal(app_call(&app, ONE_MSG_CHANNEL_OPEN), 0);
	first = app.reply.id.id;
	assert_int_equal(fake_done(ENGINE_CHANNEL_FD), done + 1);
	while (++n < ONE_CHANNELS + 100)
		assert_int_equal(app_call(&app, ONE_MSG_CHANNEL_OPEN), 0);
	assert_int_equal(app_call(&app, ONE_MSG_CHANNEL_OPEN), -EDQUOT);
	assert_int_equal(app.reply.value, n);
	assert_string_equal(app.reply.limit.key, "max_channels");
	assert_int_equal(app_call_id(&app, ONE_MSG_CHANNEL_CLOSE, first), 0);
	assert_int_equal(app_call_id(&app, ONE_MSG_CHANNEL_CLOSE, first), -EINVAL);
	assert_int_equal(app_call(&app, ONE_MSG_CHANNEL_OPEN), 0);
	/* The user's share of the data plane's descriptors is another limit, reported with another key. */
	assert_int_equal(app_call_id(&app, ONE_MSG_CHANNEL_CLOSE, app.reply.id.id), 0);
	control.quota.max_common[QUOTA_CHANNELS] = ONE_CHANNELS;
	assert_int_equal(app_call(&app, ONE_MSG_CHANNEL_OPEN), -EDQUOT);
	assert_int_equal(app.reply.value, ONE_CHANNELS / 4 * 3);
	assert_string_equal(app.reply.limit.key, ONE_LIMIT_DESCRIPTORS);
	app_close(&app);
	assert_clean();
	config.limits.max_channels = max;
	control.quota.max_common[QUOTA_CHANNELS] = all;
	while (count_fds() > fds)
		pause_ms(2);
	assert_int_equal(count_fds(), fds);
}

/* Source addresses that an application names: the port has one, 192.0.2.1/24. */
static void
test_sources(void **state)
{
	struct one_qp_rtr to;
	struct side a;
	uint32_t cq;

	side_open(&a, false);
	to = rtr_to(&a, 0x1234);
	to.source = 2;
	assert_int_equal(rtr(&a, to), -EINVAL);
	assert_int_equal(a.app.reply.subject, ONE_SUBJECT_ADDRESS);
	assert_int_equal(a.app.reply.value, 2);
	to.source = 1;
	to.family = AF_INET6;
	memset(to.addr, 0x20, sizeof(to.addr));
	assert_int_equal(rtr(&a, to), -EAFNOSUPPORT);
	to.source = 0;
	assert_int_equal(rtr(&a, to), -EAFNOSUPPORT);
	to = rtr_to(&a, 0x1234);
	to.source = 1;
	assert_int_equal(rtr(&a, to), 0);

	cq = app_cq(&a.app, 10);
	a.app.msg.listen = (struct one_listen){.service = 5000, .cq = cq, .source = 2};
	assert_int_equal(app_call(&a.app, ONE_MSG_LISTEN), -EINVAL);
	a.app.msg.listen = (struct one_listen){.service = 5000, .cq = cq, .family = AF_UNIX};
	assert_int_equal(app_call(&a.app, ONE_MSG_LISTEN), -EAFNOSUPPORT);
	/* A port number is used once for each family; naming an address of that family gives no
	 * second use. */
	a.app.msg.listen = (struct one_listen){.service = 5000, .cq = cq, .family = AF_INET6};
	assert_int_equal(app_call(&a.app, ONE_MSG_LISTEN), 0);
	a.app.msg.listen = (struct one_listen){.service = 5000, .cq = cq, .source = 1};
	assert_int_equal(app_call(&a.app, ONE_MSG_LISTEN), 0);
	assert_int_equal(app_call(&a.app, ONE_MSG_LISTEN), -EADDRINUSE);
	a.app.msg.listen = (struct one_listen){.service = 5000, .cq = cq, .family = AF_INET};
	assert_int_equal(app_call(&a.app, ONE_MSG_LISTEN), -EADDRINUSE);
	a.app.msg.listen = (struct one_listen){.service = 5000, .cq = cq};
	assert_int_equal(app_call(&a.app, ONE_MSG_LISTEN), -EADDRINUSE);

	a.app.msg.source_query = (struct one_source_query){.family = AF_INET, .addr = {192, 0, 2, 9}};
	assert_int_equal(app_call(&a.app, ONE_MSG_SOURCE), 0);
	assert_int_equal(a.app.reply.source.source, 1);
	assert_int_equal(a.app.reply.source.bits, 24);
	a.app.msg.source_query.addr[3] = 1;
	assert_int_equal(app_call(&a.app, ONE_MSG_SOURCE), 0);
	assert_int_equal(a.app.reply.source.bits, ONE_SOURCE_OWN);
	a.app.msg.source_query.addr[0] = 10;
	assert_int_equal(app_call(&a.app, ONE_MSG_SOURCE), -ENETUNREACH);
	a.app.msg.source_query.family = AF_UNIX;
	assert_int_equal(app_call(&a.app, ONE_MSG_SOURCE), -EAFNOSUPPORT);
	side_close(&a);
}

static void
test_ports(void **state)
{
	struct app app;

	app_hello(&app, ONE_KIND_VERBS);
	app.msg.port_query.port = 0;
	assert_int_equal(app_call(&app, ONE_MSG_PORT), 0);
	assert_true(app.reply.port.num_ports >= 1);
	assert_memory_equal(app.reply.port.name, app.welcome.port, ONE_PORT_NAME);
	assert_int_equal(app.reply.port.num_addrs, 1);
	assert_int_equal(app.reply.port.addr[0].family, AF_INET);
	assert_int_equal(app.reply.port.addr[0].prefix, 24);
	assert_memory_equal(app.reply.port.addr[0].addr, ((uint8_t[]){192, 0, 2, 1}), 4);
	app.msg.port_query.port = app.reply.port.num_ports;
	assert_int_equal(app_call(&app, ONE_MSG_PORT), -ENODEV);
	app_close(&app);
	assert_clean();
}

int
number_tests(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hello_ports),     cmocka_unit_test(test_source_port_of_reports),
		cmocka_unit_test(test_connect),         cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_silence),         cmocka_unit_test(test_error),
		cmocka_unit_test(test_channels),        cmocka_unit_test(test_ports),
		cmocka_unit_test(test_sources),         cmocka_unit_test(test_settings),
		cmocka_unit_test(test_others_go_on),    cmocka_unit_test(test_queue),
		cmocka_unit_test(test_peer_of_another), cmocka_unit_test(test_peer_names_us),
	};

	return cmocka_run_group_tests_name("oob", tests, NULL, NULL);
}
