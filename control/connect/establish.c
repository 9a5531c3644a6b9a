/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Establishes connections: mediates between the application's requests, the connection manager, the
 * neighbours and the core.
 *
 * Each attempt has exactly one outcome: conn_end(), or the ESTABLISHED of conn_establish().  Both sides
 * prepare the core first and answer the peer once the core has acknowledged, so each packet of the peer finds
 * a queue pair that is ready.
 *
 *   active    WAITING -> RESOLVING -> REQUESTED -> STARTING -> UP -> OVER
 *   passive   OFFERED -> WAITING -> RESOLVING -> PREPARING -> REPLIED -> UP -> OVER
 *
 * conn_state.c has all transitions.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "connection.h"
#include "control/cm/cm_mad.h"
#include "control/cm/service.h"
#include "control/connect/ends.h"
#include "control/objects/place.h"
#include "control/connect/peer.h"

#define RETRIES_MAX 12u
#define STALE_DELAY_NS (100 * NS_PER_MS) /* doubled for each attempt */
#define FLOW_LABEL_ONES 0xfffffu
#define ACK_TIMEOUT_ASKED 17u /* code of 537 ms: other implementations retransmit after exactly this time */

const struct qp_kind conn_kind = {
	.name = "endpoint",
	.created = true,
	.access = ONE_ACCESS_REMOTE_READ | ONE_ACCESS_REMOTE_WRITE | ONE_ACCESS_REMOTE_ATOMIC,
	.detach = conn_detach,
	.outcome = conn_outcome,
};

/* ---- commands to the core ---- */

/* True if both ends are on one core, and stay together when a take-over changes the number of cores: that
 * core then copies directly.  Both ends decide by the same rule. */
static bool
conn_is_local(const struct conn *conn)
{
	const struct qp *peer;

	if (path_own(&conn->path.dst) == NULL)
		return false;
	peer = engine_qp_owner(conn->peer_qpn);
	return peer != NULL && !peer->removing && !peer->config.ud && peer->placed &&
	       engine_lane_number(peer->lane) == engine_lane_number(conn->qp->lane);
}

bool
conn_port_is_free(const struct conn *conn)
{
	/* UCX passes all ones for the first path of a device. */
	return conn->out_of_band && (conn->path.flow_label == 0 || conn->path.flow_label == FLOW_LABEL_ONES);
}

void
conn_fill_path(const struct conn *conn, struct wire_path *path)
{
	memcpy(path->src_mac, conn->port->info->mac, sizeof(path->src_mac));
	memcpy(path->dst_mac, conn->mac, sizeof(path->dst_mac));
	path->src = conn->path.src;
	path->dst = conn->path.dst;
	path->flow_label = conn->path.flow_label;
	if (conn_port_is_free(conn))
		path->udp_src_port = wire_udp_hello_port(conn->qp->config.qpn, conn->peer_qpn);
	else
		path->udp_src_port =
			wire_udp_source_port(conn->path.flow_label, conn->qp->config.qpn, conn->peer_qpn);
	/* Either end may have announced the UDP port that leads to its core. */
	if (conn->peer_steered && conn->local.steering.udp_port != 0)
		path->udp_peer_port = conn->local.steering.udp_port;
	else
		path->udp_peer_port = path->udp_src_port;
	if (conn->peer_steering.udp_port != 0)
		path->udp_src_port = conn->peer_steering.udp_port;
	/* A oneside peer reports congestion, and we respond to the reports: switches may mark (ECT(0)). */
	path->tos = wire_without_ecn(conn->path.traffic_class) | (conn->peer_oneside ? WIRE_ECT : 0);
	path->ttl = conn->path.hop_limit != 0 ? conn->path.hop_limit : 64;
}

static uint8_t
own_ack_timeout(const struct conn *conn)
{
	const struct one_conn_param *asked = &conn->setup->asked;
	uint8_t own = conn->port->config->ack_timeout;

	return (asked->given & ONE_CONN_ACK_TIMEOUT) != 0 && asked->ack_timeout > own ? asked->ack_timeout
										      : own;
}

/* Returns what both links carry between two oneside peers, else the path MTU, which the CM has a code for. */
static uint16_t
agreed_mtu(const struct conn *conn)
{
	uint16_t own = conn->local.link_mtu, peer = conn->setup->remote.link_mtu;
	uint16_t both = own < peer ? own : peer;

	return conn->setup->remote.oneside && both >= 256 ? both : conn->local.path_mtu;
}

void
conn_place_ends(struct conn *conn)
{
	struct qp *peer = path_own(&conn->path.dst) == NULL ? NULL : engine_qp_owner(conn->peer_qpn);

	/* The end that connects is placed first: a server's connections then follow its clients. */
	if (peer != NULL && !peer->removing && conn->passive)
		place_qp(peer, conn->qp);
	place_qp(conn->qp, peer);
	if (peer != NULL && !peer->removing)
		place_qp(peer, conn->qp);
}

/* Codes of our RNR timer by the retries that we grant the peer.  One to six last for 0.6 s or longer, so that
 * a receiver that runs late on a busy machine is no error; Linux waits 0.66 s before each retry. Without a
 * limit the timer is the delay of a message that found no receive: 0.64 ms. */
static const uint8_t rnr_timer[CONFIG_RNR_RETRY_ENDLESS + 1] = {12, 0, 30, 29, 28, 27, 27, 12};

static void
send_connect(struct conn *conn, command_done *done)
{
	struct qp *qp = conn->qp;
	struct engine_command *command;
	struct rc_attr *rc;

	conn_place_ends(conn);
	command = qp_command(qp, ENGINE_QP_CONNECT, done, conn);
	rc = &command->connection.rc;
	rc->qpn = qp->config.qpn;
	rc->peer_qpn = conn->setup->remote.qpn;
	rc->pz = qp->config.pz;
	rc->access = qp->kind->access;
	if ((conn->setup->asked.given & ONE_CONN_ACCESS) != 0)
		rc->access &= conn->setup->asked.access;
	rc->send_psn = conn->setup->remote.psn;
	rc->recv_psn = conn->local.psn;
	conn->local.path_mtu = agreed_mtu(conn);
	rc->path_mtu = conn->local.path_mtu;
	rc->rd_atomic_in = conn->local.rd_atomic_in;
	rc->rd_atomic_out = conn->local.rd_atomic_out;
	rc->retry_count = conn->passive ? conn->setup->remote.retry_count & 7 : conn->local.retry_count;
	rc->rnr_retry = conn->setup->remote.rnr_retry & 7;
	rc->min_rnr_timer = rnr_timer[conn->local.rnr_retry & CONFIG_RNR_RETRY_ENDLESS];
	rc->timeout = connection_timeout(conn->setup->remote.oneside, conn->passive,
					 conn->setup->remote.ack_timeout, own_ack_timeout(conn));
	rc->oneside_peer = conn->setup->remote.oneside;
	rc->selective = conn->setup->remote.oneside &&
			(conn->setup->remote.capabilities & WIRE_CAPABILITY_SELECTIVE_REPEAT) != 0;
	rc->packed = rc->selective && (conn->setup->remote.capabilities & WIRE_CAPABILITY_PACKED) != 0;
	rc->peer_yields = conn->setup->remote.oneside &&
			  (conn->setup->remote.capabilities & WIRE_CAPABILITY_YIELDS) != 0;
	conn_fill_path(conn, &rc->path);
	conn_show(conn, rc);
	command->connection.state = conn->passive ? RC_RTR : RC_RTS;
	command->connection.local = conn_is_local(conn);
	if (conn->peer_steering.core != 0)
		command->connection.peer_core = (uint8_t)(conn->peer_steering.core - 1);
	command->quiet = !conn->passive; /* no wakeup: ENGINE_QP_RTS follows */
	conn->commands++;
	command_send(command);
}

static void
conn_establish(struct conn *conn, command_done *done)
{
	struct qp *qp = conn->qp;
	struct engine_command *command = qp_command(qp, ENGINE_QP_RTS, done, conn);

	command->event = qp->kind->outcome(qp, ONE_CONN_ESTABLISHED, RSM_OK);
	command->quiet = conn->passive; /* no wakeup: nothing waits for it, and a failure is an event */
	qp_state_set(qp, ONE_QP_CONNECTED, "established");
	conn_peer_prevail(conn);
	conn_uncharge(conn);
	conn->commands++;
	command_send(command);
	free(conn->setup);
	conn->setup = NULL;
}

static void
conn_reported(struct engine_command *command, void *object)
{
	struct conn *conn = object;

	conn->commands--;
	if (command->status != 0 && conn->state != CONN_OVER)
		conn_end(conn, ONE_CONN_BROKEN, RSM_INTERNAL_ERROR, true);
	conn_put(conn);
}

/* Active side: the core has posted ESTABLISHED to the application's ring, so the peer may send. */
static void
conn_started(struct engine_command *command, void *object)
{
	struct conn *conn = object;

	if (conn->state == CONN_STARTING && command->status == 0) {
		conn_state_set(conn, CONN_UP, "the core is ready");
		if (!conn->unconfirmed)
			cm_confirm(conn->cm, control.now);
	}
	conn_reported(command, conn);
}

/* Passive side: the queue pair can receive, so the REP may leave. */
static void
conn_prepared(struct engine_command *command, void *object)
{
	struct conn *conn = object;

	if (conn->state == CONN_PREPARING && command->status == 0) {
		conn_state_set(conn, CONN_REPLIED, "the core is ready");
		conn_hold_qpn(conn);
		if (cm_accept(conn->cm, &conn->local, conn->setup->private_data, conn->setup->private_len,
			      control.now) != 0)
			conn_end(conn, ONE_CONN_ACCEPT_ERROR, RSM_OK, true);
	}
	conn_reported(command, conn);
}

static void
take_remote(struct conn *conn, const struct cm_remote *remote)
{
	conn->setup->remote = *remote;
	conn->peer_qpn = remote->qpn;
	conn->peer_oneside = remote->oneside;
	conn->peer_steered = remote->oneside && (remote->capabilities & WIRE_CAPABILITY_STEERED) != 0;
	conn->peer_steering = conn->peer_steered ? remote->steering : (struct cm_steering){0};
}

/* ---- attempts ---- */

static void
send_request(struct conn *conn)
{
	struct cm_connect params = {
		.service_id = conn->service,
		.local = conn->local,
		.path = conn->path,
		.rdma_cm = service_is_ip(conn->service),
		.ip_port = conn->ip_port,
		.timeout = conn->deadline == NEVER ? CM_NEVER : conn->deadline - control.now,
		.private_len = conn->setup->private_len,
	};

	memcpy(params.private_data, conn->setup->private_data, conn->setup->private_len);
	conn_state_set(conn, CONN_REQUESTED, "REQ");
	conn->cm = cm_connect(conn->port->cm, &params, conn, control.now);
	if (conn->cm == NULL) {
		conn_end(conn, ONE_CONN_BROKEN, RSM_INSUFFICIENT_RESOURCES, false);
		return;
	}
	conn_hold_qpn(conn);
}

static void
attempt_resolved(struct conn *conn)
{
	conn_wait_no_more(conn);
	if (conn->passive) {
		conn_state_set(conn, CONN_PREPARING, "resolved");
		send_connect(conn, conn_prepared);
	} else if (control.now >= conn->deadline) {
		conn_end(conn, ONE_CONN_TIMED_OUT, RSM_OK, false);
	} else {
		send_request(conn);
	}
}

static void
attempt_unreachable(struct conn *conn)
{
	conn_end(conn, conn->passive ? ONE_CONN_ACCEPT_ERROR : ONE_CONN_UNREACHABLE, RSM_OK, conn->passive);
}

static void
on_resolved(void *user, int status, const uint8_t mac[6])
{
	struct conn *conn = user;

	if (conn->state != CONN_RESOLVING)
		return;
	if (status != 0) {
		attempt_unreachable(conn);
		return;
	}
	conn_resolved(conn, mac);
	attempt_resolved(conn);
}

void
conn_try(struct conn *conn)
{
	uint8_t mac[6];
	int error;

	if (qpn_in_use(conn->local.qpn)) {
		conn_state_set(conn, CONN_WAITING, "the last connection's time-wait");
		/* conn_vacate_qpn() notifies only the queue pair that has the number; another one has to
		 * poll. */
		conn->retry_at =
			conn->local.qpn == conn->qp->config.qpn ? NEVER : control.now + STALE_DELAY_NS;
		conn_wait(conn);
		return;
	}
	conn_state_set(conn, CONN_RESOLVING, "an attempt");
	conn->waiter = (struct neigh_waiter){.done = on_resolved, .user = conn};
	error = neigh_resolve(control.neigh, conn->port->index, &conn->path.dst, control.now, mac,
			      conn->qp->object.client->uid, &conn->waiter);
	if (error == 0)
		on_resolved(conn, 0, mac);
	else if (error == -EINPROGRESS)
		conn_wait(conn);
	else
		attempt_unreachable(conn);
}

/* Returns the queue pair number for the peer.  The caller has checked `known_as`. */
static uint32_t
number_of(const struct qp *qp, uint32_t known_as)
{
	const struct qp *known = known_as != 0 ? object_get(qp->object.client, OBJECT_QP, known_as) : qp;

	return known->config.qpn;
}

/* Fills what is announced of the core that owns the queue pair: nothing with only one core. */
static void
fill_steering(struct conn *conn, struct qp *qp)
{
	struct cm_steering *steering = &conn->local.steering;
	uint32_t core;

	*steering = (struct cm_steering){0};
	if (engine_num_cores() == 1 || conn->setup->asked.known_as != 0)
		return;
	/* The core is announced here, so it is chosen here.  A peer of this data plane gets both ends a core
	 * in conn_place_ends(), when it is known, and its frames need no announcement. */
	if (path_own(&conn->path.dst) == NULL)
		place_qp(qp, NULL);
	core = engine_qp_core(qp->engine);
	steering->core = (uint8_t)(core + 1);
	steering->udp_port = engine_steering_port(conn->port->index, core, &conn->path.dst, &conn->path.src,
						  control_random);
}

void
conn_start(struct conn *conn, struct qp *qp)
{
	const struct one_conn_param *asked = &conn->setup->asked;

	conn->qp = qp;
	qp->conn = conn;
	qp_report_state(qp, ONE_QP_CONNECTING, "a connection begins");
	conn->local.qpn = number_of(qp, asked->known_as);
	conn->local.rnr_retry =
		qp->kind->endless_rnr ? CONFIG_RNR_RETRY_ENDLESS : conn->port->config->rnr_retry;
	if ((asked->given & ONE_CONN_RNR_RETRY) != 0 && asked->rnr_retry < conn->local.rnr_retry)
		conn->local.rnr_retry = asked->rnr_retry;
	conn->local.srq = qp->srq != NULL;
	fill_steering(conn, qp);
	conn->local.retry_count = (asked->given & ONE_CONN_RETRY_COUNT) != 0 ? asked->retry_count : 7;
	conn->local.ack_timeout = ACK_TIMEOUT_ASKED;
	conn->local.path_mtu = path_mtu_to(conn->port, &conn->path.dst);
	conn->local.link_mtu = path_link_mtu_to(conn->port, &conn->path.dst);
	conn->local.rd_atomic_in = (uint8_t)qp->rd_atomic_in;
	conn->local.rd_atomic_out = (uint8_t)qp->rd_atomic_out;
	if (conn->passive) {
		connection_negotiate(&conn->local, &conn->setup->remote);
		if (conn->setup->remote.path_mtu < conn->local.path_mtu)
			conn->local.path_mtu = conn->setup->remote.path_mtu;
	} else {
		conn->path.flow_label = (uint32_t)control_random() & 0xfffff;
		conn->path.hop_limit = 64;
	}
	conn_mark(conn->port, qp->object.client, &conn->path);
	if ((asked->given & ONE_CONN_TRAFFIC_CLASS) != 0)
		conn->path.traffic_class = wire_without_ecn(asked->traffic_class);
	if (conn->passive && conn->cm != NULL)
		cm_conn_mark(conn->cm, &conn->path);
	conn_try(conn);
}

int
qp_connect(struct client *client, const struct one_msg *msg)
{
	const struct one_qp_connect *args = &msg->qp_connect;
	const struct conn_peer peer = {args->family, args->addr, args->source};
	struct cm_path ends = {0};
	struct qp *qp = object_get(client, OBJECT_QP, args->qp);
	uint16_t ip_port;
	uint64_t service;
	struct conn *conn;
	int error = qp_connectable(client, args->qp, &args->param, args->private_len, CM_USER_PRIVATE_MAX);

	if (error != 0)
		return error;
	if (control.draining)
		return client_refuse(client, -EDQUOT, ONE_SUBJECT_QUOTA, 0);
	if (args->timeout_us == 0)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_COUNT, 0);
	if (service_from_qual(args->service, &service) != 0)
		return client_refuse(client, -EACCES, ONE_SUBJECT_ADDRESS, args->service);
	error = conn_ends(client, &peer, &ends);
	if (error == 0)
		error = listener_port(client, args->listener, &ends.src, &ip_port);
	if (error != 0)
		return error;
	conn = conn_new(client->port, false);
	if (conn == NULL)
		return client_refuse(client, -ENOMEM, ONE_SUBJECT_MEMORY, 0);
	conn->service = service;
	conn->ip_port = ip_port;
	conn->path = ends;
	if (args->timeout_us < (NEVER - control.now) / 1000)
		conn->deadline = control.now + args->timeout_us * 1000;
	qp->number = args->param.number;
	conn->setup->asked = args->param;
	conn->stepwise = conn->unconfirmed = (args->param.given & ONE_CONN_STEPWISE) != 0;
	conn->setup->private_len = args->private_len;
	memcpy(conn->setup->private_data, args->private_data, args->private_len);
	conn_start(conn, qp);
	return 0;
}

int
conn_confirm(struct client *client, const struct one_msg *msg)
{
	struct qp *qp = object_get(client, OBJECT_QP, msg->id.id);
	struct conn *conn = qp != NULL ? qp->conn : NULL;

	if (qp == NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_QP, msg->id.id);
	if (conn == NULL || !conn->unconfirmed || (conn->state != CONN_STARTING && conn->state != CONN_UP))
		return client_refuse(client, -ENOTCONN, ONE_SUBJECT_QP, qp->state);
	conn->unconfirmed = false;
	if (conn->state == CONN_UP) /* in STARTING, conn_started() does */
		cm_confirm(conn->cm, control.now);
	return 0;
}

/* ---- events of the connection manager ---- */

/* True if another attempt may succeed; sets its time. */
static bool
may_try_again(struct conn *conn, const struct cm_event *event)
{
	const struct qp_kind *kind = conn->qp->kind;

	if (conn->attempts >= RETRIES_MAX)
		return false;
	conn->retry_at = control.now;
	switch (event->reason) {
	case CM_REJ_INVALID_MTU:
		if (conn->local.path_mtu <= 256)
			return false;
		conn->local.path_mtu /= 2;
		return true;
	case CM_REJ_STALE:
		conn->retry_at = control.now + (STALE_DELAY_NS << conn->attempts);
		return conn->attempts < 6;
	case CM_REJ_CONSUMER:
		return kind->asked_again != NULL && kind->asked_again(conn, event->reject_data);
	default:
		return false;
	}
}

/* After a REJ: schedules another attempt if that may succeed.  True if there will be one. */
static bool
try_again(struct conn *conn, const struct cm_event *event)
{
	if (!may_try_again(conn, event))
		return false;
	conn->attempts++;
	/* The CM connection ends by itself.  Its queue pair number may be used again: the peer has not
	 * accepted it. */
	cm_set_user(conn->cm, NULL);
	conn->cm = NULL;
	conn_vacate_qpn(conn);
	conn_state_set(conn, CONN_WAITING, "REJ, another attempt later");
	conn_wait(conn);
	return true;
}

static void
on_request(struct path_port *port, const struct cm_event *event)
{
	struct conn *conn = control.stopping || control.draining ? NULL : conn_new(port, true);

	if (conn == NULL) {
		cm_reject(event->conn, CM_REJ_NO_RESOURCES, NULL, 0, control.now);
		return;
	}
	conn->cm = event->conn;
	cm_set_user(event->conn, conn);
	take_remote(conn, event->remote);
	conn->path = event->remote->path;
	conn->path.port = port->index;
	conn_peer_enter(conn);
	conn->service = event->remote->service_id;
	if (event->remote->path_mtu > path_mtu_to(port, &conn->path.dst))
		/* A REP has no field for a smaller MTU.  After this REJ a oneside peer tries again with a
		 * smaller one. */
		conn_reject(conn, CM_REJ_INVALID_MTU, NULL, 0);
	else if (service_is_rsm(conn->service))
		attach_calls->rsm_request(cm_listener_user(event->listener), conn);
	else
		cr_offer(cm_listener_user(event->listener), conn);
}

static void
on_reply(struct conn *conn, const struct cm_event *event)
{
	enum rsm_error rsm;

	if (conn->state != CONN_REQUESTED) {
		cm_disconnect(conn->cm, control.now);
		return;
	}
	take_remote(conn, event->remote);
	conn_peer_enter(conn);
	connection_negotiate(&conn->local, &conn->setup->remote);
	rsm = conn->qp->kind->replied == NULL ? RSM_OK : conn->qp->kind->replied(conn);
	if (rsm != RSM_OK) {
		conn_end(conn, ONE_CONN_BROKEN, rsm, true);
		return;
	}
	conn_state_set(conn, CONN_STARTING, "REP");
	send_connect(conn, conn_reported);
	conn_establish(conn, conn_started);
}

static void
on_rejected(struct conn *conn, const struct cm_event *event)
{
	if (conn->state == CONN_REQUESTED) {
		enum rsm_error rsm = RSM_OK;

		if (try_again(conn, event))
			return;
		if (conn->qp->kind->rejected != NULL)
			rsm = conn->qp->kind->rejected(conn, event->reason, event->reject_data);
		else if (event->reason == CM_REJ_CONSUMER)
			conn_show_refusal(conn, event->reject_data);
		conn_end(conn,
			 event->reason == CM_REJ_CONSUMER ? ONE_CONN_PEER_REJECTED
							  : ONE_CONN_NON_PEER_REJECTED,
			 rsm, false);
	} else if (conn->state == CONN_UP || conn->state == CONN_STARTING) {
		conn_end(conn, ONE_CONN_DISCONNECTED, RSM_OK, false);
	} else {
		conn_end(conn, ONE_CONN_ACCEPT_ERROR, RSM_OK, false);
	}
}

static void
on_disconnected(struct conn *conn, uint32_t refusal)
{
	/* The NAK of the refusal may be lost, or arrive after the DREQ: frames of the core and of the control
	 * thread are not ordered.
	 */
	conn->refusal = refusal;
	if (conn->state == CONN_UP || conn->state == CONN_STARTING)
		/* The peer's reason may have broken the connection at this end too.  If the two ends are on
		 * different cores, this end's event may not have arrived yet. */
		conn_end_or(conn, ONE_CONN_DISCONNECTED, ONE_CONN_BROKEN, RSM_OK, false);
	else
		conn_end(conn, ONE_CONN_ACCEPT_ERROR, RSM_OK, false);
}

void
conn_event(struct cm_env *env, const struct cm_event *event)
{
	struct path_port *port = (struct path_port *)(void *)((char *)env - offsetof(struct path_port, env));
	struct conn *conn = cm_user(event->conn);

	if (event->type == CM_REQUEST) {
		on_request(port, event);
		return;
	}
	if (conn == NULL)
		return;
	switch (event->type) {
	case CM_REQUEST:
		break;
	case CM_REPLY:
		on_reply(conn, event);
		break;
	case CM_ESTABLISHED:
		if (conn->state == CONN_REPLIED) {
			conn_state_set(conn, CONN_UP, "CM_ESTABLISHED");
			conn_establish(conn, conn_reported);
		}
		break;
	case CM_REJECTED:
		on_rejected(conn, event);
		break;
	case CM_UNREACHABLE:
		conn_end(conn, ONE_CONN_UNREACHABLE, RSM_OK, false);
		break;
	case CM_TIMED_OUT:
		conn_end(conn, ONE_CONN_TIMED_OUT, RSM_OK, false);
		break;
	case CM_ACCEPT_FAILED:
		conn_end(conn, ONE_CONN_ACCEPT_ERROR, RSM_OK, false);
		break;
	case CM_DISCONNECTED:
		if (event->answered && conn->unacknowledged != 0)
			path_loses(conn->port, &conn->path.dst, conn->unacknowledged);
		on_disconnected(conn, event->refusal);
		break;
	case CM_GONE:
		conn->cm = NULL;
		conn_vacate_qpn(conn);
		if (conn->state != CONN_OVER)
			conn_end(conn, ONE_CONN_BROKEN, RSM_OK, false);
		conn_timewait_exit(conn);
		conn_put(conn);
		break;
	}
}
