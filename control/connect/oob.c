/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Out-of-band connections: the applications have exchanged the parameters that the CM would exchange, and
 * each passes them to its own data plane.  The peer is named by address and queue pair number.  Packets from
 * another address are dropped.  A peer on this data plane must name this queue pair in turn.
 *
 *   RTR: RESOLVING -> UP, the queue pair responds        RTS: requests as well
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/connect/ends.h"
#include "control/connect/peer.h"

#define QPN_FIRST 2u /* 0 and 1 are the management queue pairs */
#define QPN_LAST 0xfffffeu
#define PSN_MAX 0xffffffu
#define FLOW_LABEL_MAX 0xfffffu
#define HOP_LIMIT 64
#define REMOTE (ONE_ACCESS_REMOTE_READ | ONE_ACCESS_REMOTE_WRITE | ONE_ACCESS_REMOTE_ATOMIC)

static bool
is_path_mtu(uint16_t mtu, uint16_t max)
{
	return mtu >= 256 && mtu <= max && (mtu & (mtu - 1)) == 0;
}

/* Returns 0, or the refusal. */
static int
check_rtr(struct client *client, const struct one_qp_rtr *args, struct cm_path *ends)
{
	const struct conn_peer peer = {args->family, args->addr, args->source};
	const struct engine_port_info *port = client->port->info;
	uint32_t depth = control.config->limits.max_rd_atomic;

	if (control.draining)
		return client_refuse(client, -EDQUOT, ONE_SUBJECT_QUOTA, 0);
	if (args->peer_qpn < QPN_FIRST || args->peer_qpn > QPN_LAST)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_QP, args->peer_qpn);
	if (args->recv_psn > PSN_MAX)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_COUNT, args->recv_psn);
	if ((args->access & ~REMOTE) != 0)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_ACCESS, args->access);
	if (!is_path_mtu(args->path_mtu, port->path_mtu))
		return client_refuse(client, -EINVAL, ONE_SUBJECT_LENGTH, port->path_mtu);
	if (args->rd_atomic_in > depth || args->rd_atomic_in > RC_RD_ATOMIC_MAX)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_COUNT, depth);
	if (args->min_rnr_timer > 31)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_COUNT, 31);
	if (args->flow_label > FLOW_LABEL_MAX)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_ADDRESS, args->flow_label);
	return conn_ends(client, &peer, ends);
}

/* Answers RTR; the application may use the queue pair again. */
static void
answer_rtr(struct qp *qp, const struct suspended_request *rtr, int error, enum one_subject subject,
	   uint32_t value)
{
	struct one_reply reply = {.error = error, .subject = subject, .value = value};

	qp->object.busy = false;
	client_reply_suspended(qp->object.client, rtr, &reply);
}

/* True if the peer is a queue pair of this data plane that is connected to this one. */
static bool
is_named_by_peer(const struct conn *conn)
{
	const struct qp *peer = path_own(&conn->path.dst) != NULL ? engine_qp_owner(conn->peer_qpn) : NULL;

	return peer != NULL && peer->conn != NULL && peer->conn->has_peer &&
	       peer->conn->peer_qpn == conn->qp->config.qpn && path_own(&peer->conn->path.dst) != NULL;
}

/* The core has the connection, unless the queue pair was removed meanwhile. */
static void
on_served(struct engine_command *command, void *object)
{
	struct conn *conn = object;
	struct qp *qp = conn->qp;

	conn->commands--;
	if (qp != NULL)
		answer_rtr(qp, &conn->rtr, command->status, ONE_SUBJECT_QP, qp->object.id);
	conn_put(conn);
}

/*
 * The UDP source port that a oneside peer is asked to use: it leads to the core, or is drawn, since who
 * forges frames must not know it. 0: the program has chosen a flow label, so the ports are what it expects.
 */
static uint16_t
hello_port(const struct conn *conn)
{
	uint16_t port = 0;

	if (!conn_port_is_free(conn))
		return 0;
	if (engine_num_cores() > 1)
		port = engine_steering_port(conn->port->index, engine_qp_core(conn->qp->engine),
					    &conn->path.dst, &conn->path.src, control_random);
	return port != 0 ? port : (uint16_t)(WIRE_UDP_SOURCE_MIN | control_random());
}

static void
serve_peer(struct conn *conn)
{
	struct engine_connection *connection;
	struct engine_command *command;

	conn_place_ends(conn);
	command = qp_command(conn->qp, ENGINE_QP_CONNECT, on_served, conn);
	connection = &command->connection;
	conn_state_set(conn, CONN_UP, "resolved");
	qp_state_set(conn->qp, ONE_QP_CONNECTING, "RTR"); /* as the core will report */
	connection->rc = *conn->exchanged;
	connection->rc.qpn = conn->qp->config.qpn;
	connection->rc.pz = conn->qp->config.pz;
	connection->rc.hello_port = hello_port(conn);
	conn_fill_path(conn, &connection->rc.path);
	connection->state = RC_RTR;
	connection->out_of_band = true;
	/* The core checks that the peer is there: a queue pair created just now may not have reached its core
	 * yet. */
	connection->local = conn->peer_qpn != conn->qp->config.qpn && path_own(&conn->path.dst) != NULL;
	conn->commands++;
	command_send(command);
	free(conn->exchanged);
	conn->exchanged = NULL;
}

static void
on_neighbour(void *user, int status, const uint8_t mac[6])
{
	struct conn *conn = user;
	struct qp *qp = conn->qp;

	if (conn->state != CONN_RESOLVING || qp == NULL)
		return;
	/* The CM may have connected another attachment to the peer meanwhile. */
	if (status == 0 && conn_peer_taken(&conn->path.dst, conn->peer_qpn, qp->object.client))
		status = -EADDRINUSE;
	if (status != 0) {
		struct suspended_request rtr = conn->rtr;
		uint32_t peer_qpn = conn->peer_qpn;
		bool taken = status == -EADDRINUSE;

		conn_detach(qp); /* the queue pair is idle as before */
		answer_rtr(qp, &rtr, status, taken ? ONE_SUBJECT_QP : ONE_SUBJECT_ADDRESS,
			   taken ? peer_qpn : 0);
		return;
	}
	conn_resolved(conn, mac);
	serve_peer(conn);
}

static struct conn *
new_attempt(struct qp *qp, const struct one_qp_rtr *args, const struct cm_path *ends)
{
	struct conn *conn = conn_new(qp->object.client->port, false);

	if (conn == NULL)
		return NULL;
	conn->exchanged = calloc(1, sizeof(*conn->exchanged));
	if (conn->exchanged == NULL) {
		conn_put(conn);
		return NULL;
	}
	free(conn->setup); /* for the CM only */
	conn->setup = NULL;
	*conn->exchanged = (struct rc_attr){
		.peer_qpn = args->peer_qpn,
		.access = args->access,
		.recv_psn = args->recv_psn,
		.path_mtu = args->path_mtu,
		.rd_atomic_in = args->rd_atomic_in,
		.min_rnr_timer = args->min_rnr_timer,
	};
	conn->peer_qpn = args->peer_qpn;
	conn->path = *ends;
	conn->path.flow_label = args->flow_label;
	conn->path.traffic_class = args->traffic_class;
	conn->path.hop_limit = args->hop_limit != 0 ? args->hop_limit : HOP_LIMIT;
	conn->out_of_band = true;
	return conn;
}

int
qp_rtr(struct client *client, const struct one_msg *msg)
{
	const struct one_qp_rtr *args = &msg->qp_rtr;
	struct qp *qp = object_get(client, OBJECT_QP, args->qp);
	struct cm_path ends = {0};
	struct conn *conn;
	uint8_t mac[6];
	int error = qp_check_idle(client, args->qp);

	if (error == 0)
		error = check_rtr(client, args, &ends);
	if (error != 0)
		return error;
	conn = new_attempt(qp, args, &ends);
	if (conn == NULL)
		return client_refuse(client, -ENOMEM, ONE_SUBJECT_MEMORY, 0);
	conn->qp = qp;
	qp->conn = conn;
	if (is_named_by_peer(conn))
		conn_peer_prevail(conn);
	/* Two attachments that send to one queue pair would at least break each other's connection. */
	if (conn_peer_taken(&conn->path.dst, conn->peer_qpn, client)) {
		conn_detach(qp);
		return client_refuse(client, -EADDRINUSE, ONE_SUBJECT_QP, args->peer_qpn);
	}
	conn_peer_enter(conn);
	conn_state_set(conn, CONN_RESOLVING, "RTR");
	conn->waiter = (struct neigh_waiter){.done = on_neighbour, .user = conn};
	error = neigh_resolve(control.neigh, conn->port->index, &conn->path.dst, control.now, mac,
			      client->uid, &conn->waiter);
	if (error != 0 && error != -EINPROGRESS) {
		conn_detach(qp);
		return client_refuse(client, error, ONE_SUBJECT_ADDRESS, 0);
	}
	qp->object.busy = true;
	client_suspend(client, &conn->rtr);
	if (error == 0)
		on_neighbour(conn, 0, mac);
	return REQUEST_LATER;
}

static void
on_requesting(struct engine_command *command, void *object)
{
	struct qp *qp = object;

	if (command->status == 0 && qp->state == ONE_QP_CONNECTING)
		qp_state_set(qp, ONE_QP_CONNECTED, "RTS");
	qp_answer(qp, command->status);
}

int
qp_rts(struct client *client, const struct one_msg *msg)
{
	const struct one_qp_rts *args = &msg->qp_rts;
	struct qp *qp = object_get(client, OBJECT_QP, args->qp);
	uint32_t depth = control.config->limits.max_rd_atomic;
	struct engine_command *command;

	if (qp == NULL || !qp->kind->created)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_QP, args->qp);
	if (qp->state != ONE_QP_CONNECTING || qp->conn == NULL || !qp->conn->out_of_band)
		return client_refuse(client, -ENOTCONN, ONE_SUBJECT_QP, qp->state);
	if (args->send_psn > PSN_MAX)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_COUNT, args->send_psn);
	if (args->timeout > 31 || args->retry_count > 7 || args->rnr_retry > 7)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_COUNT, 7);
	if (args->rd_atomic_out > depth)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_COUNT, depth);
	qp->object.busy = true;
	command = qp_command(qp, ENGINE_QP_RTS, on_requesting, qp);
	command->connection.rc = (struct rc_attr){
		.send_psn = args->send_psn,
		.timeout = args->timeout,
		.retry_count = args->retry_count,
		.rnr_retry = args->rnr_retry,
		.rd_atomic_out = args->rd_atomic_out,
	};
	/* The timeout is a lower bound (IBTA vol. 1, 9.7.6.1.3): the transport measures. */
	if (args->timeout != 0 && args->timeout < client->port->config->ack_timeout)
		command->connection.rc.timeout = client->port->config->ack_timeout;
	command_send(command);
	return REQUEST_LATER;
}

static void
on_flushed(struct engine_command *command, void *object)
{
	qp_answer(object, 0);
}

int
qp_error(struct client *client, const struct one_msg *msg)
{
	struct qp *qp = object_get(client, OBJECT_QP, msg->id.id);
	struct engine_command *command;

	if (qp == NULL || !qp->kind->created)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_QP, msg->id.id);
	if (qp->conn != NULL) {
		qp->conn->stepwise = false;
		conn_end(qp->conn, ONE_CONN_DISCONNECTED, RSM_OK, true);
	}
	qp->object.busy = true;
	if (qp->state != ONE_QP_ERROR) {
		qp_state_set(qp, ONE_QP_ERROR, "requested");
		command = qp_command(qp, ENGINE_QP_FLUSH, on_flushed, qp);
	} else {
		/* Follows the flush that is under way. */
		command = qp_command(qp, ENGINE_QP_STATE, on_flushed, qp);
		command->state = ONE_QP_ERROR;
	}
	command_send(command);
	return REQUEST_LATER;
}
