/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections between connection managers: success, and failures without malice. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "dataplane/base/state.h"
#include "net.h"

#define PORT CM_SERVICE_TCP(5000)

/* A connection from request to end; `closer` disconnects: 0 active, 1 passive, 2 both at once. */
static void
whole_life(struct net *net, int from, int to, int closer)
{
	struct end *active = net_connect(net, from, to, PORT), *passive;

	net_run(net, net->now + 60 * SECOND);
	passive = net->host[to].ends;
	assert_ptr_not_equal(passive, active);
	assert_true(end_reported(active, CM_REPLY, 0));
	assert_true(end_reported(passive, CM_REQUEST, CM_ESTABLISHED, 0));
	if (closer != 1)
		cm_disconnect(active->conn, net->now);
	if (closer != 0)
		cm_disconnect(passive->conn, net->now);
	assert_true(net_ends_clean(net));
	assert_true(end_reported(active, CM_REPLY, CM_DISCONNECTED, CM_GONE, 0));
	assert_true(end_reported(passive, CM_REQUEST, CM_ESTABLISHED, CM_DISCONNECTED, CM_GONE, 0));
}

static void
test_plain(void **state)
{
	struct net *net = *state;

	for (int closer = 0; closer < 3; closer++) {
		memset(net->host[0].sent, 0, sizeof(net->host[0].sent));
		memset(net->host[1].sent, 0, sizeof(net->host[1].sent));
		whole_life(net, 0, 1, closer);
		assert_int_equal(net->host[0].sent[CM_REQ], 1);
		assert_int_equal(net->host[1].sent[CM_REP], 1);
		assert_int_equal(net->host[0].sent[CM_RTU], 1);
		assert_int_equal(net->host[0].sent[CM_DREQ], closer != 1);
		assert_int_equal(net->host[1].sent[CM_DREQ], closer != 0);
		assert_int_equal(net->host[0].sent[CM_DREP], closer != 0);
		assert_int_equal(net->host[1].sent[CM_DREP], closer != 1);
	}
}

static void
test_values(void **state)
{
	struct net *net = *state;
	struct cm_connect params = net_params(net, 0, 1, PORT);
	struct end *active, *passive;
	const struct cm_remote *r;

	params.local.srq = true;
	params.local.path_mtu = 4096;
	params.local.link_mtu = 8896;
	params.private_len = 5;
	memcpy(params.private_data, "HELLO", 5);
	net->host[1].private_len = 3;
	memcpy(net->host[1].private_data, "YES", 3);
	active = net_connect_params(net, 0, &params);
	net_run(net, net->now + SECOND);
	passive = net->host[1].ends;
	r = &passive->remote;
	assert_int_equal(r->qpn, params.local.qpn);
	assert_int_equal(r->psn, params.local.psn);
	assert_int_equal(r->rd_atomic_in, 16);
	assert_int_equal(r->rd_atomic_out, 8);
	assert_int_equal(r->rnr_retry, 7);
	assert_int_equal(r->retry_count, 6);
	assert_int_equal(r->ack_timeout, 14);
	assert_int_equal(r->path_mtu, 4096);
	assert_memory_equal(&r->path.src, &net->host[1].addr, 16);
	assert_memory_equal(&r->path.dst, &net->host[0].addr, 16);
	assert_int_equal(r->path.flow_label, 0x12345);
	assert_int_equal(r->path.traffic_class, 0x68);
	assert_true(r->guid == net->host[0].env.guid && r->service_id == PORT);
	assert_true(r->rdma_cm);
	assert_int_equal(r->ip_port, 0x9abc);
	assert_true(r->oneside);
	assert_int_equal(r->capabilities, 0xb0);
	assert_int_equal(r->link_mtu, 8896);
	assert_int_equal(r->private_len, 5);
	assert_memory_equal(r->private_data, "HELLO", 5);
	r = &active->remote;
	assert_int_equal(r->qpn, 0x2000);
	assert_int_equal(r->rd_atomic_in, 16);
	assert_int_equal(r->rnr_retry, 7);
	assert_int_equal(r->path_mtu, 4096);
	assert_true(r->guid == net->host[1].env.guid);
	assert_true(r->oneside);
	assert_int_equal(r->capabilities, 0xb1);
	assert_int_equal(r->link_mtu, 1408);
	assert_int_equal(r->private_len, 3);
	assert_memory_equal(r->private_data, "YES", 3);
	assert_memory_equal(&passive->conn->path, &passive->remote.path, sizeof(struct cm_path));
}

static void
test_private_lengths(void **state)
{
	struct net *net = *state;
	struct cm_connect params;
	struct end *active, *passive;
	struct cm_local local;
	uint8_t data[CM_PRIVATE_REP];

	memset(data, 0x5a, sizeof(data));
	for (uint16_t len = 0; len <= CM_PRIVATE_REQ; len++) {
		for (int rsm = 0; rsm < 2; rsm++) {
			params = net_params(net, 0, 1, rsm ? CM_SERVICE_RSM(7) : PORT);
			params.private_len = len;
			for (uint16_t i = 0; i < len; i++)
				params.private_data[i] = (uint8_t)(i + 3);
			net->host[1].private_len = (uint16_t)(2 * len < 180 ? 2 * len : 180);
			memset(net->host[1].private_data, len, CM_PRIVATE_REP);
			active = net_connect_params(net, 0, &params);
			if (!rsm && len > CM_USER_PRIVATE_MAX) {
				assert_null(active->conn);
				continue;
			}
			net_run(net, net->now + SECOND);
			passive = net->host[1].ends;
			assert_int_equal(passive->remote.rdma_cm, !rsm);
			assert_int_equal(passive->remote.private_len, len);
			assert_memory_equal(passive->remote.private_data, params.private_data, len);
			assert_int_equal(active->remote.private_len, net->host[1].private_len);
			assert_memory_equal(active->remote.private_data, net->host[1].private_data,
					    active->remote.private_len);
			cm_disconnect(active->conn, net->now);
			net_run(net, net->now + SECOND);
		}
	}
	net->host[1].answer = ANSWER_LATER;
	active = net_connect(net, 0, 1, PORT);
	net_run(net, net->now + 100 * MS);
	local = net_local(&net->host[1]);
	passive = net->host[1].ends;
	assert_int_equal(cm_accept(passive->conn, &local, data, 181, net->now), -EMSGSIZE);
	assert_int_equal(cm_reject(passive->conn, CM_REJ_CONSUMER, data, 149, net->now), -EMSGSIZE);
	assert_int_equal(cm_accept(passive->conn, &local, data, 180, net->now), 0);
	assert_int_equal(cm_accept(passive->conn, &local, data, 180, net->now), -ENOTCONN);
	assert_int_equal(cm_reject(passive->conn, CM_REJ_CONSUMER, data, 1, net->now), -ENOTCONN);
	assert_int_equal(cm_confirm(passive->conn, net->now), -ENOTCONN);
	net_run(net, net->now + SECOND);
	assert_int_equal(active->remote.private_len, 180);
	/* The application fills the private data, so there is no announcement: each end takes the other for
	 * foreign. */
	active = net_connect(net, 0, 1, PORT);
	net_run(net, net->now + 100 * MS);
	passive = net->host[1].ends;
	local = net_local(&net->host[1]);
	cm_conn_plain(passive->conn);
	assert_int_equal(cm_accept(passive->conn, &local, data, 197, net->now), -EMSGSIZE);
	assert_int_equal(cm_accept(passive->conn, &local, data, 196, net->now), 0);
	net_run(net, net->now + SECOND);
	assert_int_equal(active->remote.private_len, 196);
	assert_false(active->remote.oneside);
}

static void
test_bad_parameters(void **state)
{
	struct net *net = *state;
	struct cm_connect params = net_params(net, 0, 1, PORT);

	params.local.path_mtu = 1500;
	assert_null(cm_connect(net->host[0].cm, &params, NULL, net->now));
	params = net_params(net, 0, 1, PORT);
	params.rdma_cm = false;
	assert_null(cm_connect(net->host[0].cm, &params, NULL, net->now));
	assert_null(cm_listen(net->host[0].cm, PORT, NULL, NULL)); /* the service is in use */
	assert_true(net_is_clean(net));
}

/* lose_nth() loses message number `fate_arg`; lose_kind() the next `fate_arg2` messages of kind
 * `fate_arg`. */
static enum fate
lose_nth(struct net *net, const struct host *from, const struct cm_mad *mad, int number)
{
	return number == net->fate_arg ? LOSE : PASS;
}

static enum fate
lose_kind(struct net *net, const struct host *from, const struct cm_mad *mad, int number)
{
	if (mad->attribute != net->fate_arg || net->fate_arg2 == 0)
		return PASS;
	net->fate_arg2--;
	return LOSE;
}

static enum fate
double_all(struct net *net, const struct host *from, const struct cm_mad *mad, int number)
{
	return TWICE;
}

static enum fate
slow_nth(struct net *net, const struct host *from, const struct cm_mad *mad, int number)
{
	return number == net->fate_arg ? SLOW : PASS;
}

static void
test_each_lost(void **state)
{
	for (int closer = 0; closer < 3; closer++) {
		for (int n = 0; n < 9; n++) {
			struct net *net = net_new();

			net->fate = lose_nth;
			net->fate_arg = n;
			whole_life(net, 0, 1, closer);
			net_free(net);
		}
	}
}

static void
test_many_lost(void **state)
{
	static const int kinds[] = {CM_REQ, CM_REP, CM_RTU, CM_DREQ, CM_DREP};

	for (size_t k = 0; k < 5; k++) {
		for (int times = 1; times < (int)RETRIES; times++) {
			struct net *net = net_new();

			net->fate = lose_kind;
			net->fate_arg = kinds[k];
			net->fate_arg2 = times;
			whole_life(net, 0, 1, times % 2);
			assert_int_equal(net->fate_arg2, 0);
			net_free(net);
		}
	}
}

static void
test_doubled(void **state)
{
	struct net *net = *state;

	net->fate = double_all;
	for (int closer = 0; closer < 3; closer++)
		whole_life(net, 0, 1, closer);
}

static void
test_overtaken(void **state)
{
	for (int closer = 0; closer < 3; closer++) {
		for (int n = 0; n < 9; n++) {
			struct net *net = net_new();

			net->fate = slow_nth;
			net->fate_arg = n;
			whole_life(net, 0, 1, closer);
			net_free(net);
		}
	}
}

static void
test_retransmission_times(void **state)
{
	struct net *net = *state;
	uint64_t start = net->now;
	struct end *active;

	net->host[1].down = true;
	active = net_connect(net, 0, 1, PORT);
	net_run(net, start + INTERVAL - 1);
	assert_int_equal(net->host[0].sent[CM_REQ], 1);
	net_run(net, start + INTERVAL);
	assert_int_equal(net->host[0].sent[CM_REQ], 2);
	assert_true(net_ends_clean(net));
	assert_int_equal(net->host[0].sent[CM_REQ], 1 + RETRIES);
	assert_true(end_reported(active, CM_UNREACHABLE, CM_GONE, 0));
	/* The intervals between REQs are 1, 2, then 4. */
	assert_true(active->when[0] == start + (1 + 2 + 4 * (RETRIES - 1)) * INTERVAL);
	assert_int_equal(net->host[0].sent[CM_REJ], 1);
}

/* The data plane's own retry times outlast a peer that is away for two repetitions of a REP by Linux. */
static void
test_patient_request(void **state)
{
	struct net *net = *state;
	uint64_t start = net->now;
	struct end *active;

	net->host[0].env.retry_interval = 250 * MS;
	net->host[0].env.max_retries = 15;
	net->host[1].down = true;
	active = net_connect(net, 0, 1, PORT);
	net_run(net, start + 10 * SECOND);
	assert_true(end_reported(active, 0));
	net->host[1].down = false;
	net_run(net, start + 12 * SECOND);
	assert_true(end_reported(active, CM_REPLY, 0));
	assert_true(end_reported(net->host[1].ends, CM_REQUEST, CM_ESTABLISHED, 0));
}

/* The retry times of a REP outlast a requester that is away as long, because its control thread does not
 * run. */
static void
test_patient_reply(void **state)
{
	struct net *net = *state;
	struct end *active;
	uint64_t start;

	net->host[1].env.retry_interval = 250 * MS;
	net->host[1].env.max_retries = 15;
	net->host[1].answer = ANSWER_LATER;
	active = net_connect(net, 0, 1, PORT);
	net_run(net, net->now + 10 * MS);
	net->host[0].down = true;
	start = net->now;
	cm_accept(net->host[1].ends->conn, &(struct cm_local){.qpn = 9, .path_mtu = 1024}, NULL, 0, net->now);
	net_run(net, start + 10 * SECOND);
	assert_true(end_reported(net->host[1].ends, CM_REQUEST, 0));
	net->host[0].down = false;
	net_run(net, start + 12 * SECOND);
	assert_true(end_reported(active, CM_REPLY, 0));
	assert_true(end_reported(net->host[1].ends, CM_REQUEST, CM_ESTABLISHED, 0));
}

static void
test_connect_timeout(void **state)
{
	struct net *net = *state;
	struct cm_connect params = net_params(net, 0, 1, PORT);
	struct end *active;
	uint64_t start = net->now;

	params.timeout = 1234 * MS;
	net->host[1].answer = ANSWER_LATER;
	active = net_connect_params(net, 0, &params);
	assert_true(net_ends_clean(net));
	assert_true(end_reported(active, CM_TIMED_OUT, CM_GONE, 0));
	assert_true(active->when[0] == start + 1234 * MS);
	/* The REJ reaches the passive side, which ends its connection, too. */
	assert_true(end_reported(net->host[1].ends, CM_REQUEST, CM_ACCEPT_FAILED, CM_GONE, 0));

	/* If that REJ is lost, accepting later is answered by a REJ. */
	net->fate = lose_kind;
	net->fate_arg = CM_REJ;
	net->fate_arg2 = 1;
	params = net_params(net, 0, 1, PORT);
	params.timeout = 1234 * MS;
	active = net_connect_params(net, 0, &params);
	net_run(net, net->now + 3 * SECOND);
	assert_true(end_reported(net->host[1].ends, CM_REQUEST, 0));
	assert_int_equal(cm_accept(net->host[1].ends->conn, &params.local, NULL, 0, net->now), 0);
	assert_true(net_ends_clean(net));
	assert_true(end_reported(net->host[1].ends, CM_REQUEST, CM_REJECTED, CM_GONE, 0));
	assert_int_equal(net->host[1].ends->reason, CM_REJ_INVALID_COMM_ID);
	assert_true(end_reported(active, CM_TIMED_OUT, CM_GONE, 0));
}

static void
test_no_listener(void **state)
{
	struct net *net = *state;
	struct end *active = net_connect(net, 0, 1, CM_SERVICE_TCP(6000));

	assert_true(net_ends_clean(net));
	assert_true(end_reported(active, CM_REJECTED, CM_GONE, 0));
	assert_int_equal(active->reason, CM_REJ_INVALID_SERVICE_ID);
	assert_null(net->host[1].ends);

	cm_unlisten(net->host[1].cm, cm_find_listener(net->host[1].cm, PORT, NULL));
	active = net_connect(net, 0, 1, PORT);
	assert_true(net_ends_clean(net));
	assert_int_equal(active->reason, CM_REJ_INVALID_SERVICE_ID);
	assert_non_null(cm_listen(net->host[1].cm, PORT, NULL, &net->host[1]));
	whole_life(net, 0, 1, 0);
}

static void
test_application_rejects(void **state)
{
	for (int lost = 0; lost < 3; lost++) {
		struct net *net = net_new();
		struct end *active;

		net->fate = lose_kind;
		net->fate_arg = CM_REJ;
		net->fate_arg2 = lost;
		net->host[1].answer = ANSWER_REJECT;
		net->host[1].private_len = CM_PRIVATE_REJ;
		memset(net->host[1].private_data, 0x6b, CM_PRIVATE_REJ);
		active = net_connect(net, 0, 1, PORT);
		assert_true(net_ends_clean(net));
		assert_true(end_reported(active, CM_REJECTED, CM_GONE, 0));
		assert_int_equal(active->reason, CM_REJ_CONSUMER);
		assert_memory_equal(active->reject_data, net->host[1].private_data, CM_PRIVATE_REJ);
		/* The repeated REQ was not reported as another request. */
		assert_null(net->host[1].ends->next);
		assert_true(end_reported(net->host[1].ends, CM_REQUEST, CM_GONE, 0));
		net_free(net);
	}
}

static void
test_reply_refused(void **state)
{
	struct net *net = *state;
	struct end *active;

	net->host[0].confirm_later = true;
	active = net_connect(net, 0, 1, PORT);
	net_run(net, net->now + 100 * MS);
	assert_true(end_reported(active, CM_REPLY, 0));
	assert_int_equal(cm_reject(active->conn, CM_REJ_INSUFFICIENT_RD_ATOMIC, "no", 2, net->now), 0);
	assert_true(net_ends_clean(net));
	assert_true(end_reported(active, CM_REPLY, CM_GONE, 0));
	assert_true(end_reported(net->host[1].ends, CM_REQUEST, CM_REJECTED, CM_GONE, 0));
	assert_int_equal(net->host[1].ends->reason, CM_REJ_INSUFFICIENT_RD_ATOMIC);
	assert_memory_equal(net->host[1].ends->reject_data, "no", 3);

	/* If that REJ is lost, the repeated REP is answered by another one. */
	active = net_connect(net, 0, 1, PORT);
	net_run(net, net->now + 100 * MS);
	net->fate = lose_kind;
	net->fate_arg = CM_REJ;
	net->fate_arg2 = 1;
	assert_int_equal(cm_reject(active->conn, CM_REJ_CONSUMER, NULL, 0, net->now), 0);
	assert_true(net_ends_clean(net));
	assert_true(end_reported(net->host[1].ends, CM_REQUEST, CM_REJECTED, CM_GONE, 0));
}

static void
test_slow_accept(void **state)
{
	struct net *net = *state;
	struct end *active, *passive;
	struct cm_local local = net_local(&net->host[1]);

	/* The application answers long after all retries: an MRA keeps the requester waiting. */
	net->host[1].answer = ANSWER_LATER;
	active = net_connect(net, 0, 1, PORT);
	net_run(net, net->now + 60 * SECOND);
	passive = net->host[1].ends;
	assert_true(net->host[1].sent[CM_MRA] >= 1);
	assert_true(net->host[0].sent[CM_REQ] <= 3);
	assert_true(end_reported(active, 0));
	assert_int_equal(cm_accept(passive->conn, &local, NULL, 0, net->now), 0);
	net_run(net, net->now + SECOND);
	assert_true(end_reported(active, CM_REPLY, 0));
	assert_true(end_reported(passive, CM_REQUEST, CM_ESTABLISHED, 0));

	/* The answer comes after the MRA's service timeout: the next duplicate REQ gets another MRA. */
	active = net_connect(net, 2, 1, PORT);
	net_run(net, net->now + 180 * SECOND);
	assert_true(end_reported(active, 0));
	local = net_local(&net->host[1]);
	assert_int_equal(cm_reject(net->host[1].ends->conn, CM_REJ_CONSUMER, NULL, 0, net->now), 0);
	net_run(net, net->now + SECOND);
	assert_true(end_reported(active, CM_REJECTED, CM_GONE, 0));
}

static void
test_slow_confirm(void **state)
{
	struct net *net = *state;
	struct end *active;

	net->host[0].confirm_later = true;
	active = net_connect(net, 0, 1, PORT);
	net_run(net, net->now + 30 * SECOND);
	assert_true(net->host[0].sent[CM_MRA] >= 1);
	assert_true(net->host[1].sent[CM_REP] <= 3);
	assert_true(end_reported(net->host[1].ends, CM_REQUEST, 0));
	assert_int_equal(cm_confirm(active->conn, net->now), 0);
	assert_int_equal(cm_confirm(active->conn, net->now), -ENOTCONN);
	net_run(net, net->now + SECOND);
	assert_true(end_reported(net->host[1].ends, CM_REQUEST, CM_ESTABLISHED, 0));
}

static void
test_requester_vanishes(void **state)
{
	struct net *net = *state;
	uint64_t start;

	/* The requester vanishes after its REQ, so our REP is never answered. */
	net->host[1].answer = ANSWER_LATER;
	net_connect(net, 0, 1, PORT);
	net_run(net, net->now + 10 * MS);
	net->host[0].down = true;
	start = net->now;
	cm_accept(net->host[1].ends->conn, &(struct cm_local){.qpn = 9, .path_mtu = 1024}, NULL, 0, net->now);
	net_run(net, net->now + LONG_ENOUGH);
	assert_true(end_reported(net->host[1].ends, CM_REQUEST, CM_ACCEPT_FAILED, CM_GONE, 0));
	/* A REP is repeated as long as a REQ. */
	assert_true(net->host[1].ends->when[1] == start + (1 + 2 + 4 * (RETRIES - 1)) * INTERVAL);
	assert_int_equal(net->host[1].sent[CM_REP], RETRIES + 1);
}

static void
test_peer_vanishes(void **state)
{
	struct net *net = *state;
	struct end *active = net_connect(net, 0, 1, PORT);
	uint64_t start;

	net_run(net, net->now + SECOND);
	net->host[1].down = true;
	start = net->now;
	cm_disconnect(active->conn, net->now);
	cm_disconnect(active->conn, net->now); /* a second call has no effect */
	net_run(net, net->now + LONG_ENOUGH);
	assert_true(end_reported(active, CM_REPLY, CM_DISCONNECTED, CM_GONE, 0));
	/* A DREQ is repeated as long as a REQ. */
	assert_true(active->when[1] == start + (1 + 2 + 4 * (RETRIES - 1)) * INTERVAL);
	assert_int_equal(net->host[0].sent[CM_DREQ], RETRIES + 1);
}

static void
test_communication_established(void **state)
{
	struct net *net = *state;
	struct end *active, *passive;

	net->fate = lose_kind;
	net->fate_arg = CM_RTU;
	net->fate_arg2 = 100;
	active = net_connect(net, 0, 1, PORT);
	net_run(net, net->now + 100 * MS);
	passive = net->host[1].ends;
	assert_true(end_reported(passive, CM_REQUEST, 0));
	cm_communication_established(passive->conn, net->now); /* data arrived */
	assert_true(end_reported(passive, CM_REQUEST, CM_ESTABLISHED, 0));
	cm_communication_established(passive->conn, net->now);
	net_run(net, net->now + LONG_ENOUGH);
	assert_int_equal(net->host[1].sent[CM_REP], 1);
	cm_disconnect(active->conn, net->now);
	assert_true(net_ends_clean(net));
	assert_true(end_reported(passive, CM_REQUEST, CM_ESTABLISHED, CM_DISCONNECTED, CM_GONE, 0));
}

/* A DREQ of the active side, though all RTUs were lost, establishes the connection before ending it. */
static void
test_dreq_before_rtu(void **state)
{
	struct net *net = *state;
	struct end *active;

	net->fate = lose_kind;
	net->fate_arg = CM_RTU;
	net->fate_arg2 = 100;
	active = net_connect(net, 0, 1, PORT);
	net_run(net, net->now + 100 * MS);
	cm_disconnect(active->conn, net->now);
	assert_true(net_ends_clean(net));
	assert_true(end_reported(active, CM_REPLY, CM_DISCONNECTED, CM_GONE, 0));
	assert_true(end_reported(net->host[1].ends, CM_REQUEST, CM_ESTABLISHED, CM_DISCONNECTED, CM_GONE, 0));
}

/* Calls cm_disconnect in each state, and loses each of the messages that follow in turn. */
static void
ended_in_state(int stage, int lost)
{
	struct net *net = net_new();
	struct end *active, *passive = NULL, *mine, *other;

	net->host[1].answer = ANSWER_LATER;
	net->host[0].confirm_later = true;
	active = net_connect(net, 0, 1, PORT);
	if (stage >= 1) { /* REQ_RCVD */
		net_run(net, net->now + 10 * MS);
		passive = net->host[1].ends;
	}
	if (stage >= 2) { /* REP_SENT, REP_RCVD */
		struct cm_local local = net_local(&net->host[1]);

		assert_int_equal(cm_accept(passive->conn, &local, NULL, 0, net->now), 0);
		if (stage >= 3)
			net_run(net, net->now + 10 * MS);
	}
	mine = stage == 1 || stage == 2 || stage == 4 ? passive : active;
	other = mine == active ? passive : active;
	net->fate = lose_nth;
	net->fate_arg = net->sent + lost;
	cm_disconnect(mine->conn, net->now);
	net_run(net, net->now + LONG_ENOUGH);
	passive = net->host[1].ends;
	if (passive != NULL && passive->conn != NULL && passive != mine) {
		/* The passive end does not know of the disconnect: its REP is answered by a REJ. */
		struct cm_local local = net_local(&net->host[1]);

		assert_int_equal(cm_accept(passive->conn, &local, NULL, 0, net->now), 0);
		assert_true(stage <= 1);
	}
	assert_true(net_ends_clean(net));
	assert_true(mine->count >= 2 && mine->reported[mine->count - 1] == CM_GONE &&
		    mine->reported[mine->count - 2] == CM_DISCONNECTED);
	if (stage >= 1) {
		assert_int_equal(other->reported[other->count - 1], CM_GONE);
		assert_true(end_has(other, CM_REJECTED) || end_has(other, CM_DISCONNECTED) ||
			    end_has(other, CM_ACCEPT_FAILED) || end_has(other, CM_UNREACHABLE));
	}
	net_free(net);
}

static void
test_ended_in_each_state(void **state)
{
	for (int stage = 0; stage <= 4; stage++)
		for (int lost = -1; lost < 4; lost++)
			ended_in_state(stage, lost);
}

/* ---- the table of transitions ---- */

static uint32_t transitions, wrong;
static char last_transition[96];

static void
take_transition(const struct state_machine *machine, uint32_t id, uint32_t from, uint32_t to, const char *why,
		bool allowed)
{
	transitions++;
	wrong += !allowed;
	snprintf(last_transition, sizeof(last_transition), "%s %u: %s -> %s: %s", machine->object, id != 0,
		 machine->name[from], machine->name[to], why);
}

/* Each transition is traced with its reason; an illegal one is traced as not allowed. */
static void
test_edges(void **state)
{
	struct net *net = *state;
	struct end *active;

	transitions = wrong = 0;
	state_trace = take_transition;
	active = net_connect(net, 0, 1, PORT);
	net_run(net, net->now + SECOND);
	/* Active: REP received, established. Passive: REP sent, established. */
	assert_int_equal(transitions, 4);
	cm_disconnect(active->conn, net->now);
	assert_string_equal(last_transition, "CM connection 1: established -> DREQ sent: cm_disconnect");
	cm_conn_state_set(active->conn, CM_STATE_REQ_RCVD, "a mistake");
	assert_int_equal(wrong, 1);
	active->conn->state = CM_STATE_DREQ_SENT;
	assert_true(net_ends_clean(net));
	assert_int_equal(wrong, 1);
	state_trace = NULL;
}

static void
test_loopback(void **state)
{
	struct net *net = *state;

	for (int closer = 0; closer < 3; closer++) {
		struct end *active = net_connect(net, 0, 0, PORT), *passive;

		net_run(net, net->now + SECOND);
		passive = net->host[0].ends;
		assert_ptr_equal(passive->next, active);
		assert_true(end_reported(active, CM_REPLY, 0));
		assert_true(end_reported(passive, CM_REQUEST, CM_ESTABLISHED, 0));
		assert_int_equal(active->remote.qpn, passive->remote.qpn + 1);
		if (closer != 1)
			cm_disconnect(active->conn, net->now);
		if (closer != 0)
			cm_disconnect(passive->conn, net->now);
		assert_true(net_ends_clean(net));
		assert_true(end_reported(active, CM_REPLY, CM_DISCONNECTED, CM_GONE, 0));
		assert_true(end_reported(passive, CM_REQUEST, CM_ESTABLISHED, CM_DISCONNECTED, CM_GONE, 0));
	}
	net->host[0].answer = ANSWER_REJECT;
	net_connect(net, 0, 0, PORT);
	assert_true(net_ends_clean(net));
	assert_true(end_reported(net->host[0].ends, CM_REQUEST, CM_GONE, 0));
	assert_true(end_reported(net->host[0].ends->next, CM_REJECTED, CM_GONE, 0));
}

static void
restart(struct net *net, int i)
{
	struct host *host = &net->host[i];

	cm_free(host->cm);
	host->cm = cm_new(&host->env);
	cm_listen(host->cm, PORT, NULL, host);
}

static void
test_stale(void **state)
{
	struct net *net = *state;
	struct cm_connect params = net_params(net, 0, 1, PORT);
	struct end *old, *active;

	/* The active side restarts and connects with the same queue pair number. */
	net_connect_params(net, 0, &params);
	net_run(net, net->now + SECOND);
	old = net->host[1].ends;
	restart(net, 0);
	active = net_connect_params(net, 0, &params);
	net_run(net, net->now + 10 * SECOND);
	assert_true(end_reported(active, CM_REJECTED, CM_GONE, 0));
	assert_int_equal(active->reason, CM_REJ_STALE);
	assert_true(end_reported(old, CM_REQUEST, CM_ESTABLISHED, CM_DISCONNECTED, CM_GONE, 0));
	active = net_connect_params(net, 0, &params);
	net_run(net, net->now + SECOND);
	assert_true(end_reported(active, CM_REPLY, 0));

	/* A REQ of another host ends no connection, even if it claims the same GUID. */
	net->host[2].env.guid = net->host[0].env.guid;
	params.path = net_path(net, 2, 1);
	old = active;
	active = net_connect_params(net, 2, &params);
	net_run(net, net->now + SECOND);
	assert_true(end_reported(active, CM_REPLY, 0));
	assert_true(end_reported(old, CM_REPLY, 0));
}

static void
test_stale_reply(void **state)
{
	struct net *net = *state;
	struct end *old = net_connect(net, 0, 1, PORT), *active;

	/* The passive side restarts and uses the same queue pair number again. */
	net_run(net, net->now + SECOND);
	restart(net, 1);
	net->host[1].next_qpn--;
	active = net_connect(net, 0, 1, PORT);
	assert_true(net_ends_clean(net));
	assert_true(end_reported(active, CM_REJECTED, CM_GONE, 0));
	assert_int_equal(active->reason, CM_REJ_STALE);
	assert_true(end_reported(old, CM_REPLY, CM_DISCONNECTED, CM_GONE, 0));
	assert_true(end_reported(net->host[1].ends, CM_REQUEST, CM_REJECTED, CM_GONE, 0));
}

static void
test_new_request_of_same_qp(void **state)
{
	struct net *net = *state;
	struct cm_connect params = net_params(net, 0, 1, PORT);
	struct end *first;

	net->host[1].answer = ANSWER_LATER;
	net_connect_params(net, 0, &params);
	net_run(net, net->now + 10 * MS);
	first = net->host[1].ends;
	restart(net, 0);
	net_connect_params(net, 0, &params);
	net_run(net, net->now + 10 * MS);
	assert_true(end_reported(first, CM_REQUEST, CM_ACCEPT_FAILED, CM_GONE, 0));
	assert_true(end_reported(net->host[1].ends, CM_REQUEST, 0));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, net_setup, net_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_plain),
		TEST(test_values),
		TEST(test_private_lengths),
		TEST(test_bad_parameters),
		TEST(test_each_lost),
		TEST(test_many_lost),
		TEST(test_doubled),
		TEST(test_overtaken),
		TEST(test_retransmission_times),
		TEST(test_patient_request),
		TEST(test_patient_reply),
		TEST(test_connect_timeout),
		TEST(test_no_listener),
		TEST(test_application_rejects),
		TEST(test_reply_refused),
		TEST(test_slow_accept),
		TEST(test_slow_confirm),
		TEST(test_requester_vanishes),
		TEST(test_peer_vanishes),
		TEST(test_communication_established),
		TEST(test_dreq_before_rtu),
		TEST(test_ended_in_each_state),
		TEST(test_edges),
		TEST(test_loopback),
		TEST(test_stale),
		TEST(test_stale_reply),
		TEST(test_new_request_of_same_qp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
