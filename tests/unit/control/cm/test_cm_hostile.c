/* SPDX-License-Identifier: BSD-3-Clause */
/* The state machine with Linux's messages, and with messages that no correct peer sends. */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/pcap.h"
#include "net.h"

#define PORT CM_SERVICE_TCP(5000)

/* The last MAD sent, by any host. */
static struct cm_mad last_sent;
static struct cm_path last_path;
static int sends;

static void
catch_send(struct cm_env *env, const struct cm_path *path, const uint8_t mad[CM_MAD_LEN])
{
	assert_int_equal(cm_mad_parse(mad, CM_MAD_LEN, &last_sent), 0);
	last_path = *path;
	sends++;
}

static int
total_sent(const struct net *net)
{
	return net->sent;
}

/* Returns a valid REQ of host `from` to host `to`. */
static struct cm_mad
good_req(struct net *net, int from, int to)
{
	struct cm_ip_header header = {4321, net->host[from].addr, net->host[to].addr};
	struct cm_mad mad = {.attribute = CM_REQ, .tid = 99, .local_id = 0x1111};

	mad.req = (struct cm_req){
		.service_id = PORT,
		.guid = net->host[from].env.guid,
		.qpn = 0x222,
		.psn = 0x333,
		.responder_resources = 1,
		.initiator_depth = 1,
		.remote_response_timeout = 20,
		.local_response_timeout = 20,
		.retry_count = 7,
		.rnr_retry = 7,
		.max_cm_retries = 15,
		.pkey = 0xffff,
		.mtu = 3,
		.local_lid = 0xffff,
		.remote_lid = 0xffff,
		.hop_limit = 64,
		.ack_timeout = 17,
	};
	memcpy(mad.req.local_gid, net->host[from].addr.gid, 16);
	memcpy(mad.req.remote_gid, net->host[to].addr.gid, 16);
	cm_ip_header_build(&header, mad.private_data);
	return mad;
}

/* The first REQ, REP and DREQ of a capture of Linux's rping. */
struct rping {
	struct cm_mad req, rep, dreq;
	struct wire_addr a, b;
	bool have_req, have_rep, have_dreq;
};

static void
find_cm(const char *file, unsigned int number, const uint8_t *frame, uint32_t len, void *arg)
{
	struct rping *rping = arg;
	struct wire_packet packet;
	struct cm_mad mad;
	uint8_t copy[5000];

	memcpy(copy, frame, len);
	if (wire_parse(copy, len, &packet) != WIRE_OK || packet.qpn != 1 ||
	    cm_mad_parse(packet.payload, packet.payload_len, &mad) != 0)
		return;
	if (mad.attribute == CM_REQ && !rping->have_req) {
		rping->req = mad;
		rping->a = packet.src;
		rping->b = packet.dst;
		rping->have_req = true;
	} else if (mad.attribute == CM_REP && !rping->have_rep) {
		rping->rep = mad;
		rping->have_rep = true;
	} else if (mad.attribute == CM_DREQ && !rping->have_dreq) {
		rping->dreq = mad;
		rping->have_dreq = true;
	}
}

static void
rping_capture(const char *file, struct rping *rping)
{
	memset(rping, 0, sizeof(*rping));
	assert_true(pcap_each_frame(file, find_cm, rping) > 0);
	assert_true(rping->have_req && rping->have_rep && rping->have_dreq);
}

static void
linux_connects(struct net *net, const char *file)
{
	struct rping rping;
	struct host *host = &net->host[1];
	struct cm_mad rtu = {.attribute = CM_RTU}, dreq = {.attribute = CM_DREQ};
	struct end *end;
	uint32_t local_id;
	uint64_t start;

	rping_capture(file, &rping);
	net->host[0].addr = rping.a;
	host->addr = rping.b;
	host->env.send = catch_send;
	assert_non_null(cm_listen(host->cm, rping.req.req.service_id, NULL, host));
	sends = 0;
	net_inject(net, 0, 1, &rping.req);
	end = host->ends;
	assert_true(end_reported(end, CM_REQUEST, 0));
	assert_true(end->remote.rdma_cm);
	assert_false(end->remote.oneside);
	assert_int_equal(end->remote.private_len, 56);
	assert_int_equal(end->remote.qpn, rping.req.req.qpn);
	assert_int_equal(end->remote.psn, rping.req.req.psn);
	assert_int_equal(end->remote.path_mtu, 1024);
	assert_int_equal(end->remote.retry_count, 7);
	assert_memory_equal(&end->remote.path.dst, &rping.a, 16);

	/* Our REP has no announcement, and names the REQ's id and transaction. */
	assert_int_equal(sends, 1);
	assert_int_equal(last_sent.attribute, CM_REP);
	assert_int_equal(last_sent.remote_id, rping.req.local_id);
	assert_true(last_sent.tid == rping.req.tid);
	for (uint32_t i = 0; i < CM_PRIVATE_REP; i++)
		assert_int_equal(last_sent.private_data[i], 0);
	assert_memory_equal(&last_path.dst, &rping.a, 16);

	/* REPs are repeated quickly at first, then at the interval that Linux requested. */
	net_run(net, net->now + INTERVAL);
	assert_int_equal(sends, 2);
	start = net->now;
	net_run(net, start + 60 * SECOND);
	assert_int_equal(sends, (int)RETRIES + 2);
	assert_int_equal(last_sent.attribute, CM_REJ);
	assert_true(end_reported(end, CM_REQUEST, CM_ACCEPT_FAILED, CM_GONE, 0));
	assert_true(end->when[1] > start + 20 * SECOND);

	sends = 0;
	net_inject(net, 0, 1, &rping.req);
	end = host->ends;
	local_id = last_sent.local_id;
	rtu.tid = rping.req.tid;
	rtu.local_id = rping.req.local_id;
	rtu.remote_id = local_id;
	net_inject(net, 0, 1, &rtu);
	net_inject(net, 0, 1, &rtu);
	assert_true(end_reported(end, CM_REQUEST, CM_ESTABLISHED, 0));
	net_run(net, net->now + LONG_ENOUGH);
	assert_int_equal(sends, 1);
	dreq.tid = 0xabc;
	dreq.local_id = rping.req.local_id;
	dreq.remote_id = local_id;
	dreq.remote_qpn = host->next_qpn; /* not our queue pair */
	net_inject(net, 0, 1, &dreq);
	assert_int_equal(sends, 1);
	assert_true(end_reported(end, CM_REQUEST, CM_ESTABLISHED, 0));
	dreq.remote_qpn = host->next_qpn - 1;
	net_inject(net, 0, 1, &dreq);
	assert_int_equal(sends, 2);
	assert_int_equal(last_sent.attribute, CM_DREP);
	assert_true(last_sent.tid == 0xabc);
	assert_int_equal(last_sent.local_id, local_id);
	assert_int_equal(last_sent.remote_id, rping.req.local_id);
	assert_true(end_reported(end, CM_REQUEST, CM_ESTABLISHED, CM_DISCONNECTED, 0));
	/* In TIMEWAIT another DREQ is answered again, and a REQ with that id is stale. */
	net_inject(net, 0, 1, &dreq);
	assert_int_equal(sends, 3);
	assert_int_equal(last_sent.attribute, CM_DREP);
	net_inject(net, 0, 1, &rping.req);
	assert_int_equal(last_sent.attribute, CM_REJ);
	assert_int_equal(last_sent.rej.reason, CM_REJ_STALE);
	assert_int_equal(last_sent.remote_id, rping.req.local_id);
	net_run(net, net->now + LONG_ENOUGH);
	assert_true(net_is_clean(net));
	/* After TIMEWAIT a DREQ of a forgotten connection is still answered by a DREP. */
	net_inject(net, 0, 1, &dreq);
	assert_int_equal(last_sent.attribute, CM_DREP);
	assert_int_equal(last_sent.remote_id, rping.req.local_id);
	assert_int_equal(last_sent.local_id, local_id);
}

static void
test_linux_connects(void **state)
{
	linux_connects(*state, CAPTURES "/rping.pcap");
}

static void
test_linux_connects_ipv6(void **state)
{
	linux_connects(*state, CAPTURES "/rping_ipv6.pcap");
}

/* After a connection its REQ is replayed. The REQ is stale, whatever ACK timeout it asked for and whichever
 * side disconnected, until no copy can be in flight any more. */
static void
replay(struct net *net, bool we_disconnect, uint8_t ack_timeout)
{
	struct host *host = &net->host[1];
	struct cm_mad req = good_req(net, 0, 1), rtu = {.attribute = CM_RTU}, bye = {0};
	uint64_t over, lifetime = 2 * (4096ull << 16);
	struct end *end;

	req.req.ack_timeout = ack_timeout;
	host->env.send = catch_send;
	net_inject(net, 0, 1, &req);
	end = host->ends;
	assert_int_equal(last_sent.attribute, CM_REP);
	rtu.tid = req.tid;
	rtu.local_id = bye.local_id = req.local_id;
	rtu.remote_id = bye.remote_id = last_sent.local_id;
	net_inject(net, 0, 1, &rtu);
	bye.attribute = we_disconnect ? CM_DREP : CM_DREQ;
	bye.remote_qpn = last_sent.rep.qpn;
	if (we_disconnect) {
		cm_disconnect(end->conn, net->now);
		assert_int_equal(last_sent.attribute, CM_DREQ);
		bye.tid = last_sent.tid;
	}
	net_inject(net, 0, 1, &bye);
	assert_true(end_reported(end, CM_REQUEST, CM_ESTABLISHED, CM_DISCONNECTED, 0));
	for (over = net->now + lifetime; net->now < over; net->now += lifetime / 64) {
		cm_timeout(host->cm, net->now);
		net_inject(net, 0, 1, &req);
		assert_ptr_equal(host->ends, end); /* no event for the user */
		assert_int_equal(last_sent.attribute, CM_REJ);
		assert_int_equal(last_sent.rej.reason, CM_REJ_STALE);
	}
	/* The time-wait ends: then the REQ is a new request. */
	net_run(net, net->now + LONG_ENOUGH);
	assert_true(net_is_clean(net));
	net_inject(net, 0, 1, &req);
	assert_ptr_not_equal(host->ends, end);
	cm_disconnect(host->ends->conn, net->now);
	net_run(net, net->now + LONG_ENOUGH);
}

static void
test_replay(void **state)
{
	static const uint8_t timeouts[] = {0, 1, 14, 17, 31};

	for (size_t i = 0; i < sizeof(timeouts); i++)
		for (int ours = 0; ours < 2; ours++)
			replay(*state, ours, timeouts[i]);
}

static void
test_linux_answers(void **state)
{
	struct net *net = *state;
	struct host *host = &net->host[0];
	struct rping rping;
	struct end *end;
	struct cm_mad rep, drep = {.attribute = CM_DREP};
	uint32_t local_id;

	rping_capture(CAPTURES "/rping.pcap", &rping);
	host->addr = rping.a;
	net->host[1].addr = rping.b;
	host->env.send = catch_send;
	end = net_connect(net, 0, 1, rping.req.req.service_id);
	local_id = last_sent.local_id;
	/* Fields of our REQ that Linux fills, too, must be equal. */
	assert_int_equal(last_sent.req.pkey, rping.req.req.pkey);
	assert_int_equal(last_sent.req.mtu, rping.req.req.mtu);
	assert_int_equal(last_sent.req.transport, rping.req.req.transport);
	assert_int_equal(last_sent.req.local_lid, rping.req.req.local_lid);
	assert_int_equal(last_sent.req.remote_lid, rping.req.req.remote_lid);
	assert_int_equal(last_sent.req.subnet_local, rping.req.req.subnet_local);
	assert_int_equal(last_sent.req.hop_limit, rping.req.req.hop_limit);
	assert_memory_equal(last_sent.req.local_gid, rping.req.req.local_gid, 16);
	assert_memory_equal(last_sent.req.remote_gid, rping.req.req.remote_gid, 16);
	assert_memory_equal(last_sent.private_data, rping.req.private_data, 2);
	assert_memory_equal(last_sent.private_data + 4, rping.req.private_data + 4, 32);
	assert_int_equal(last_sent.req.alternate[0] | last_sent.req.alternate[1], 0);

	rep = rping.rep;
	rep.remote_id = local_id;
	net_inject(net, 1, 0, &rep);
	assert_true(end_reported(end, CM_REPLY, 0));
	assert_false(end->remote.oneside);
	assert_int_equal(end->remote.private_len, CM_PRIVATE_REP);
	assert_int_equal(end->remote.qpn, rping.rep.rep.qpn);
	assert_int_equal(end->remote.psn, rping.rep.rep.psn);
	assert_int_equal(end->remote.ack_timeout, rping.rep.rep.ack_delay);
	assert_int_equal(last_sent.attribute, CM_RTU);
	assert_int_equal(last_sent.remote_id, rping.rep.local_id);
	sends = 0;
	net_inject(net, 1, 0, &rep);
	assert_int_equal(sends, 1);
	assert_int_equal(last_sent.attribute, CM_RTU);
	/* A REP with another id for the same request is not this connection's: its sender gets a REJ. */
	rep.local_id++;
	net_inject(net, 1, 0, &rep);
	assert_int_equal(last_sent.attribute, CM_REJ);
	assert_int_equal(last_sent.rej.reason, CM_REJ_INVALID_COMM_ID);
	assert_int_equal(last_sent.rej.answers, CM_ANSWERS_REP);
	assert_int_equal(last_sent.remote_id, rep.local_id);
	assert_true(end_reported(end, CM_REPLY, 0));

	cm_disconnect(end->conn, net->now);
	assert_int_equal(last_sent.attribute, CM_DREQ);
	assert_int_equal(last_sent.remote_qpn, rping.rep.rep.qpn);
	assert_int_equal(last_sent.remote_id, rping.rep.local_id);
	drep.local_id = rping.rep.local_id;
	drep.remote_id = local_id;
	net_inject(net, 1, 0, &drep);
	assert_true(end_reported(end, CM_REPLY, CM_DISCONNECTED, 0));
	net_inject(net, 1, 0, &drep);
	net_run(net, net->now + LONG_ENOUGH);
	assert_true(end_reported(end, CM_REPLY, CM_DISCONNECTED, CM_GONE, 0));
	assert_true(net_is_clean(net));
}

struct bad_req {
	void (*spoil)(struct cm_mad *mad);
	int reason; /* 0: accepted, -1: no answer */
};

static void
spoil_nothing(struct cm_mad *mad)
{
}
static void
spoil_id(struct cm_mad *mad)
{
	mad->local_id = 0;
}
static void
spoil_transport(struct cm_mad *mad)
{
	mad->req.transport = 1;
}
static void
spoil_xrc(struct cm_mad *mad)
{
	mad->req.transport = 3;
}
static void
spoil_qpn0(struct cm_mad *mad)
{
	mad->req.qpn = 0;
}
static void
spoil_qpn1(struct cm_mad *mad)
{
	mad->req.qpn = 1;
}
static void
spoil_qpn_multicast(struct cm_mad *mad)
{
	mad->req.qpn = 0xffffff;
}
static void
spoil_mtu0(struct cm_mad *mad)
{
	mad->req.mtu = 0;
}
static void
spoil_mtu6(struct cm_mad *mad)
{
	mad->req.mtu = 6;
}
static void
spoil_pkey(struct cm_mad *mad)
{
	mad->req.pkey = 0x8001;
}
static void
spoil_rdc(struct cm_mad *mad)
{
	mad->req.rdc_exists = true;
}
static void
spoil_local_gid(struct cm_mad *mad)
{
	mad->req.local_gid[15] ^= 1;
}
static void
spoil_remote_gid(struct cm_mad *mad)
{
	mad->req.remote_gid[15] ^= 1;
}
static void
spoil_service(struct cm_mad *mad)
{
	mad->req.service_id++;
}
static void
spoil_header_version(struct cm_mad *mad)
{
	mad->private_data[0] = 0x10;
}
static void
spoil_header_family(struct cm_mad *mad)
{
	mad->private_data[1] = 0x60;
}
static void
spoil_header_src(struct cm_mad *mad)
{
	mad->private_data[19] ^= 1;
}
static void
spoil_header_dst(struct cm_mad *mad)
{
	mad->private_data[35] ^= 1;
}
static void
spoil_limited_pkey(struct cm_mad *mad)
{
	mad->req.pkey = 0x7fff;
}
static void
spoil_extremes(struct cm_mad *mad)
{
	mad->req.ack_timeout = 31;
	mad->req.local_response_timeout = 31;
	mad->req.remote_response_timeout = 31;
	mad->req.responder_resources = 255;
	mad->req.initiator_depth = 255;
	mad->req.alternate[1] = 1; /* an alternate path, which we do not use */
}
static void
spoil_announced_len(struct cm_mad *mad)
{
	memcpy(mad->req.alternate + 4, "ONE1\0\0\0\0\xff\xff", 10);
}

static void
test_bad_requests(void **state)
{
	static const struct bad_req bad[] = {
		{spoil_id, -1},
		{spoil_transport, CM_REJ_INVALID_TRANSPORT},
		{spoil_xrc, CM_REJ_INVALID_TRANSPORT},
		{spoil_qpn0, CM_REJ_UNSUPPORTED},
		{spoil_qpn1, CM_REJ_UNSUPPORTED},
		{spoil_qpn_multicast, CM_REJ_UNSUPPORTED},
		{spoil_pkey, CM_REJ_UNSUPPORTED},
		{spoil_rdc, CM_REJ_UNSUPPORTED},
		{spoil_mtu0, CM_REJ_INVALID_MTU},
		{spoil_mtu6, CM_REJ_INVALID_MTU},
		{spoil_local_gid, CM_REJ_INVALID_GID},
		{spoil_remote_gid, CM_REJ_INVALID_GID},
		{spoil_service, CM_REJ_INVALID_SERVICE_ID},
		{spoil_header_version, CM_REJ_CONSUMER},
		{spoil_header_family, CM_REJ_CONSUMER},
		{spoil_header_src, CM_REJ_CONSUMER},
		{spoil_header_dst, CM_REJ_CONSUMER},
		{spoil_nothing, 0},
		{spoil_limited_pkey, 0},
		{spoil_extremes, 0},
		{spoil_announced_len, 0},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct net *net = net_new();
		struct cm_mad mad = good_req(net, 0, 1);
		struct host *host = &net->host[1];

		host->env.send = catch_send;
		sends = 0;
		bad[i].spoil(&mad);
		net_inject(net, 0, 1, &mad);
		if (bad[i].reason == 0) {
			assert_true(end_reported(host->ends, CM_REQUEST, 0));
			assert_int_equal(last_sent.attribute, CM_REP);
			assert_false(host->ends->remote.oneside);
			/* A request is released soon, whatever timeouts its REQ names. */
			net_run(net, net->now + 120 * SECOND);
			assert_true(end_reported(host->ends, CM_REQUEST, CM_ACCEPT_FAILED, CM_GONE, 0));
		} else {
			assert_null(host->ends);
			assert_int_equal(sends, bad[i].reason > 0);
			if (bad[i].reason > 0) {
				assert_int_equal(last_sent.attribute, CM_REJ);
				assert_int_equal(last_sent.rej.reason, bad[i].reason);
				assert_int_equal(last_sent.rej.answers, CM_ANSWERS_REQ);
				assert_int_equal(last_sent.local_id, 0);
				assert_int_equal(last_sent.remote_id, 0x1111);
				assert_true(last_sent.tid == 99);
			}
			if (bad[i].reason == CM_REJ_INVALID_GID)
				assert_memory_equal(last_sent.rej.info, host->addr.gid, 16);
		}
		assert_true(net_is_clean(net));
		net_free(net);
	}
}

static void
test_bad_replies(void **state)
{
	static const uint32_t qpns[] = {0, 1, 0xffffff};

	for (size_t i = 0; i < 3; i++) {
		struct net *net = net_new();
		struct cm_mad rep = {.attribute = CM_REP, .local_id = 0x77};
		struct end *end;

		net->host[0].env.send = catch_send;
		end = net_connect(net, 0, 1, PORT);
		rep.remote_id = last_sent.local_id;
		rep.rep.qpn = qpns[i];
		rep.local_id = 0;
		net_inject(net, 1, 0, &rep);
		assert_true(end_reported(end, 0));
		rep.local_id = 0x77;
		net_inject(net, 1, 0, &rep);
		assert_int_equal(last_sent.attribute, CM_REJ);
		net_run(net, net->now + LONG_ENOUGH);
		assert_true(end_reported(end, CM_REJECTED, CM_GONE, 0));
		assert_true(net_is_clean(net));
		net_free(net);
	}
}

/* Messages that must not change an established connection. */
static void
test_foreign_messages(void **state)
{
	struct net *net = *state;
	struct end *active = net_connect(net, 0, 1, PORT), *passive;
	struct cm_mad mad;

	net_run(net, net->now + SECOND);
	passive = net->host[1].ends;
	/* the right ids, from another address */
	for (uint16_t attribute = CM_MRA; attribute <= CM_DREP; attribute++) {
		memset(&mad, 0, sizeof(mad));
		mad.attribute = attribute;
		mad.local_id = passive->conn->local_id;
		mad.remote_id = active->conn->local_id;
		if (attribute == CM_REP)
			mad.rep.qpn = 0x999;
		if (attribute == CM_DREQ)
			mad.remote_qpn = active->conn->local_qpn;
		if (attribute == CM_REJ) {
			mad.rej.reason = CM_REJ_TIMEOUT;
			mad.rej.info_len = 8;
			mad.rej.info[0] = 2;
			mad.rej.info[7] = 2;
		}
		net_inject(net, 2, 0, &mad);
		/* the right address, but one wrong id */
		mad.local_id ^= 1;
		net_inject(net, 1, 0, &mad);
		mad.local_id ^= 1;
		mad.remote_id ^= 1;
		if (attribute != CM_REJ)
			net_inject(net, 1, 0, &mad);
		mad.local_id = 0;
		net_inject(net, 1, 0, &mad);
		assert_true(end_reported(active, CM_REPLY, 0));
		assert_int_equal(active->conn->state, CM_STATE_ESTABLISHED);
	}
	/* A repetition of our REQ changes nothing. */
	mad = good_req(net, 0, 1);
	mad.local_id = active->conn->local_id;
	mad.req.qpn = active->conn->local_qpn;
	net_inject(net, 0, 1, &mad);
	/* A REQ of another host with our queue pair number and GUID changes nothing. */
	mad = good_req(net, 2, 1);
	mad.req.guid = net->host[0].env.guid;
	mad.req.qpn = active->conn->local_qpn;
	net_inject(net, 2, 1, &mad);
	assert_true(end_reported(passive, CM_REQUEST, CM_ESTABLISHED, 0));
	assert_int_equal(passive->conn->state, CM_STATE_ESTABLISHED);
	/* The matching REJ ends the connection. */
	memset(&mad, 0, sizeof(mad));
	mad.attribute = CM_REJ;
	mad.local_id = passive->conn->local_id;
	mad.remote_id = active->conn->local_id;
	mad.rej.answers = CM_ANSWERS_OTHER;
	mad.rej.reason = CM_REJ_CONSUMER;
	net_inject(net, 1, 0, &mad);
	assert_true(end_reported(active, CM_REPLY, CM_DISCONNECTED, 0));
}

/* Repeated MRAs extend neither a half-open request without limit nor the caller's own timeout. */
static void
test_endless_mra(void **state)
{
	struct net *net = *state;
	struct cm_connect params = net_params(net, 0, 1, PORT);
	struct cm_mad req = good_req(net, 2, 1), mra = {.attribute = CM_MRA};
	uint64_t start = net->now;
	struct end *end;

	net->host[0].env.send = catch_send;
	net->host[1].env.send = catch_send;
	net_inject(net, 2, 1, &req);
	end = net->host[1].ends;
	mra.local_id = req.local_id;
	mra.remote_id = end->conn->local_id;
	mra.mra.answers = CM_ANSWERS_REP;
	mra.mra.service_timeout = 31;
	for (uint32_t i = 0; i <= CM_EXTENSIONS_PASSIVE; i++) {
		uint64_t before = cm_deadline(net->host[1].cm);

		net_run(net, net->now + MS);
		net_inject(net, 2, 1, &mra);
		assert_int_equal(cm_deadline(net->host[1].cm) > before, i < CM_EXTENSIONS_PASSIVE);
	}
	while (end->conn != NULL && net->now < start + 3600 * SECOND) {
		net_inject(net, 2, 1, &mra);
		net_run(net, net->now + 100 * MS);
	}
	assert_true(end_reported(end, CM_REQUEST, CM_ACCEPT_FAILED, CM_GONE, 0));
	assert_true(net->now < start + 400 * SECOND);

	params.timeout = 20 * SECOND;
	end = net_connect_params(net, 0, &params);
	start = net->now;
	mra.local_id = 0;
	mra.remote_id = last_sent.local_id;
	mra.mra.answers = CM_ANSWERS_REQ;
	net_inject(net, 1, 0, &mra);
	net_run(net, start + 60 * SECOND);
	assert_true(end_reported(end, CM_TIMED_OUT, CM_GONE, 0));
	assert_true(end->when[0] == start + 20 * SECOND);
}

static void
test_flood(void **state)
{
	struct net *net = *state;

	/* Requests from a hundred thousand identities use bounded memory, and nothing is left. */
	net->host[1].answer = ANSWER_LATER;
	for (uint32_t i = 0; i < 100000; i++) {
		struct cm_mad mad = good_req(net, 0, 1);

		mad.local_id = i + 1;
		mad.req.qpn = 2 + i;
		mad.req.guid = i;
		net_inject(net, 0, 1, &mad);
	}
	assert_int_equal(net->host[1].cm->count, 64);
	for (struct end *end = net->host[1].ends; end != NULL; end = end->next)
		cm_reject(end->conn, CM_REJ_NO_RESOURCES, NULL, 0, net->now);
	net_run(net, net->now + LONG_ENOUGH);
	assert_true(net_is_clean(net));
}

/* Random messages that contain ids, queue pair numbers and GUIDs of live connections, so that they reach
 * every branch. Each gets at most two answers, everything ends, and a sanitizer checks the accesses. */
static void
test_fuzz(void **state)
{
	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct net *net = net_new();

		net->seed = seed * 0x9e3779b97f4a7c15ull;
		for (int i = 0; i < HOSTS; i++)
			net->host[i].confirm_later = net_random(net) % 2;
		for (int round = 0; round < 3000; round++) {
			int from = (int)(net_random(net) % 3), to = (int)(net_random(net) % 3);
			struct cm_mad mad = good_req(net, from, to);
			struct cm_conn *conn = LIST_FIRST(&net->host[to].cm->conns);
			uint8_t bytes[CM_MAD_LEN];
			struct cm_path path = net_path(net, to, from);
			int before;

			for (int skip = (int)(net_random(net) % 5); conn != NULL && skip > 0; skip--)
				conn = LIST_NEXT(conn, all);
			if (net_random(net) % 4 == 0)
				net_connect(net, from, to, PORT);
			net->host[to].answer = (enum answer)(net_random(net) % 3);
			mad.attribute = (uint16_t)(CM_REQ + net_random(net) % 7);
			if (mad.attribute != CM_REQ)
				memset(&mad.rep, 0, sizeof(mad.req));
			if (conn != NULL && net_random(net) % 8 != 0) {
				path.src = conn->path.src;
				path.dst = conn->path.dst;
				mad.local_id = conn->remote_id;
				mad.remote_id = conn->local_id;
				if (mad.attribute == CM_REP) {
					mad.rep.qpn = (uint32_t)net_random(net) & 0xffff;
					mad.local_id =
						mad.local_id ? mad.local_id : (uint32_t)net_random(net);
				}
				if (mad.attribute == CM_DREQ)
					mad.remote_qpn = conn->local_qpn;
				if (mad.attribute == CM_REQ && net_random(net) % 2)
					mad.req.qpn = conn->remote_qpn;
			}
			cm_mad_build(&mad, bytes);
			for (int change = (int)(net_random(net) % 3); change > 0; change--)
				bytes[net_random(net) % CM_MAD_LEN] = (uint8_t)net_random(net);
			before = total_sent(net);
			cm_input(net->host[to].cm, &path, bytes, CM_MAD_LEN, net->now);
			assert_true(total_sent(net) - before <= 3);
			if (net_random(net) % 4 == 0)
				net_run(net, net->now + net_random(net) % (200 * MS));
			if (conn != NULL && net_random(net) % 16 == 0) {
				struct end *end = net->host[to].ends;

				if (end != NULL && end->conn != NULL)
					cm_disconnect(end->conn, net->now);
			}
		}
		net_run(net, net->now + LONG_ENOUGH);
		for (int h = 0; h < HOSTS; h++)
			for (struct end *end = net->host[h].ends; end != NULL; end = end->next)
				if (end->conn != NULL)
					cm_disconnect(end->conn, net->now);
		net_run(net, net->now + LONG_ENOUGH);
		assert_true(net_is_clean(net));
		net_free(net);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, net_setup, net_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_linux_connects),
		TEST(test_linux_connects_ipv6),
		TEST(test_replay),
		TEST(test_linux_answers),
		TEST(test_bad_requests),
		TEST(test_bad_replies),
		TEST(test_foreign_messages),
		TEST(test_endless_mra),
		TEST(test_flood),
		TEST(test_fuzz),
	};

	wire_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
