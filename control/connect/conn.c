/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Life of a connection: its memory, its queue pair number in time-wait, its end, and its timer.  Only
 * conn_end_or() and conn_broken() report an end.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "control/connect/peer.h"

void
conn_hold_qpn(struct conn *conn)
{
	conn->qpn = conn->local.qpn;
	qpn_occupy(conn->qpn);
}

void
conn_vacate_qpn(struct conn *conn)
{
	uint32_t qpn = conn->qpn;
	struct qp *qp;

	if (qpn == 0)
		return;
	conn->qpn = 0;
	qpn_vacate(qpn);
	/* The number's queue pair may be waiting to connect again. */
	qp = engine_qp_owner(qpn);
	if (qp != NULL && qp->conn != NULL && qp->conn->state == CONN_WAITING) {
		qp->conn->retry_at = control.now;
		conn_wait(qp->conn);
	}
}

/* ---- lifetime ---- */

struct conn *
conn_new(struct path_port *port, bool passive)
{
	struct conn *conn;

	/* Reserve the timer now: conn_wait() must not fail. */
	if (cm_heap_reserve(&control.conn_timers, control.num_conns + 1) != 0)
		return NULL;
	conn = calloc(1, sizeof(*conn));
	if (conn == NULL)
		return NULL;
	conn->setup = calloc(1, sizeof(*conn->setup));
	if (conn->setup == NULL) {
		free(conn);
		return NULL;
	}
	conn->port = port;
	conn->passive = passive;
	conn->state = passive ? CONN_OFFERED : CONN_WAITING;
	conn->deadline = conn->retry_at = NEVER;
	conn->local.psn = (uint32_t)control_random() & 0xffffff;
	TAILQ_INSERT_TAIL(&control.conns, conn, link);
	control.num_conns++;
	return conn;
}

void
conn_free(struct conn *conn)
{
	free(conn->exchanged);
	free(conn->setup);
	free(conn);
}

bool
conn_charge(struct conn *conn, struct quota_account *account)
{
	struct quota_limit limit;

	conn_uncharge(conn); /* a handoff changes the account */
	if (quota_take(&control.quota, account, QUOTA_REQUESTS + conn->port->index, 1, &limit) == 0)
		conn->charged = account;
	return conn->charged != NULL;
}

void
conn_uncharge(struct conn *conn)
{
	if (conn->charged != NULL)
		quota_give(&control.quota, conn->charged, QUOTA_REQUESTS + conn->port->index, 1);
	conn->charged = NULL;
}

void
conn_wait(struct conn *conn)
{
	uint64_t until = conn->deadline;

	if (conn->state == CONN_WAITING && conn->retry_at < until)
		until = conn->retry_at;
	if (until == NEVER)
		cm_heap_clear(&control.conn_timers, &conn->timer);
	else
		cm_heap_set(&control.conn_timers, &conn->timer, until);
}

void
conn_wait_no_more(struct conn *conn)
{
	cm_heap_clear(&control.conn_timers, &conn->timer);
}

void
conn_put(struct conn *conn)
{
	if (conn->dead || conn->cm != NULL || conn->qp != NULL || conn->cr != NULL || conn->commands != 0)
		return;
	conn->dead = true;
	conn_peer_leave(conn);
	conn_wait_no_more(conn);
	neigh_cancel(&conn->waiter);
	path_unwatch(&conn->path_user);
	if (conn->over != NULL)
		conn->over(conn);
	conn_vacate_qpn(conn);
	/* The connection is freed at the end of the loop: callers up the stack may still use it. */
	TAILQ_REMOVE(&control.conns, conn, link);
	control.num_conns--;
	TAILQ_INSERT_TAIL(&control.dead, conn, link);
}

static void
conn_notify_peer(struct conn *conn)
{
	if (conn->cm != NULL)
		cm_disconnect(conn->cm, control.now);
}

static void
conn_over(struct conn *conn, const char *why)
{
	conn_timewait(conn);
	conn_peer_leave(conn);
	conn_state_set(conn, CONN_OVER, why);
	conn_uncharge(conn);
	conn_wait_no_more(conn);
	neigh_cancel(&conn->waiter);
	path_unwatch(&conn->path_user);
	if (conn->over != NULL)
		conn->over(conn);
}

struct one_cqe
conn_outcome(const struct qp *qp, enum one_conn_event event, enum rsm_error rsm)
{
	return (struct one_cqe){.type = ONE_CQE_CONNECT,
				.status = event,
				.object = qp->object.id,
				.imm = qp->number,
				.flags = ONE_CQE_NOTIFY};
}

static void
qp_flush(struct qp *qp, const struct one_cqe *event, uint8_t status_if_broken, uint32_t refusal)
{
	struct engine_command *command = qp_command(qp, ENGINE_QP_FLUSH, NULL, NULL);

	qp_state_set(qp, ONE_QP_ERROR, "the connection ends");
	command->event = *event;
	command->status_if_broken = status_if_broken;
	command->refusal = refusal;
	command_send(command);
}

/* Reports the end to the owner of the queue pair, and flushes the queue pair unless the owner does so at that
 * event (stepwise).  A request that the peer has refused fails at once. */
static void
report_end(struct conn *conn, enum one_conn_event event, enum one_conn_event if_broken, enum rsm_error rsm)
{
	struct qp *qp = conn->qp;
	struct one_cqe reported = qp->kind->outcome(qp, event, rsm);

	if (conn->stepwise && conn->refusal == 0)
		cq_post_outcome(qp, &reported);
	else
		qp_flush(qp, &reported, qp->kind->outcome(qp, if_broken, rsm).status, conn->refusal);
}

void
conn_end_or(struct conn *conn, enum one_conn_event event, enum one_conn_event if_broken, enum rsm_error rsm,
	    bool notify_peer)
{
	struct qp *qp = conn->qp;

	if (conn->state == CONN_OVER)
		return;
	conn_over(conn, "ended");
	if (qp != NULL && qp->kind->ends_alone) {
		conn->qp = NULL;
		qp->conn = NULL;
		qp_remove(qp, false);
	} else if (qp != NULL) {
		report_end(conn, event, if_broken, rsm);
	}
	if (notify_peer)
		conn_notify_peer(conn);
	conn_put(conn);
}

void
conn_end(struct conn *conn, enum one_conn_event event, enum rsm_error rsm, bool notify_peer)
{
	conn_end_or(conn, event, event, rsm, notify_peer);
}

/* Ends a connection that the core has found broken and has flushed. */
static void
conn_broken(struct conn *conn)
{
	enum one_conn_event event = conn->state == CONN_UP || conn->state == CONN_STARTING
					    ? ONE_CONN_BROKEN
					    : ONE_CONN_ACCEPT_ERROR;
	struct qp *qp = conn->qp;
	struct one_cqe reported =
		qp->kind->outcome(qp, qp->state == ONE_QP_CLOSING ? ONE_CONN_DISCONNECTED : event, RSM_OK);

	if (conn->cm != NULL)
		cm_conn_refused(conn->cm, engine_qp_refusal(qp->engine));
	conn->unacknowledged = engine_qp_unacknowledged(qp->engine);
	if (qp->kind->ends_alone) {
		conn_end(conn, event, RSM_OK, true);
		return;
	}
	conn_over(conn, "broken");
	qp_state_set(qp, ONE_QP_ERROR, "broken");
	if (qp->conn_cq != NULL)
		cq_post_outcome(qp, &reported);
	conn_notify_peer(conn);
	conn_put(conn);
}

void
conn_detach(struct qp *qp)
{
	struct conn *conn = qp->conn;
	bool live;

	if (conn == NULL)
		return;
	live = conn->state != CONN_OVER;
	conn_timewait(conn);
	qp->conn = NULL;
	conn->qp = NULL;
	conn_over(conn, "its queue pair is removed");
	if (live)
		conn_notify_peer(conn);
	conn_put(conn);
}

void
conn_reject(struct conn *conn, enum cm_reject reason, const void *data, uint16_t len)
{
	conn_over(conn, "refused");
	if (conn->cm != NULL)
		cm_reject(conn->cm, reason, data, len, control.now);
	conn_put(conn);
}

/* ---- requests of the application, events of the core ---- */

/* The owner ends the queue pair's connection, or has taken the event of the end.  False if the connection had
 * ended before. */
static bool
end_by_owner(struct qp *qp)
{
	static const struct one_cqe nothing;
	struct conn *conn = qp->conn;

	if (conn == NULL)
		return true;
	conn->stepwise = false;
	if (conn->state != CONN_OVER || qp->state == ONE_QP_ERROR)
		return true;
	qp_flush(qp, &nothing, 0, 0);
	return false;
}

int
qp_disconnect(struct client *client, const struct one_msg *msg)
{
	const struct one_qp_disconnect *args = &msg->qp_disconnect;
	struct qp *qp = object_get(client, OBJECT_QP, args->qp);
	struct conn *conn;

	if (qp == NULL || !qp->kind->created || qp->config.ud)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_QP, args->qp);
	conn = qp->conn;
	if (!end_by_owner(qp))
		return 0;
	switch (qp->state) {
	case ONE_QP_IDLE:
		return client_refuse(client, -ENOTCONN, ONE_SUBJECT_QP, args->qp);
	case ONE_QP_ERROR:
		return 0;
	case ONE_QP_CLOSING:
		if (args->graceful == 0)
			conn_end(conn, ONE_CONN_DISCONNECTED, RSM_OK, true);
		return 0;
	case ONE_QP_CONNECTED:
		if (args->graceful != 0) {
			qp_report_state(qp, ONE_QP_CLOSING, "graceful disconnect");
			command_send(qp_command(qp, ENGINE_QP_DRAIN, NULL, NULL));
			return 0;
		}
		break;
	case ONE_QP_CONNECTING:
		break;
	}
	conn_end(conn, ONE_CONN_DISCONNECTED, RSM_OK, true);
	return 0;
}

void
qp_engine_event(struct qp *qp, const struct engine_event *event)
{
	struct conn *conn = qp->conn;

	if (qp->removing)
		return;
	switch (event->type) {
	case ENGINE_EVENT_BIND:
		bind_event(qp);
		return;
	case ENGINE_EVENT_FAILED:
		if (conn != NULL && conn->state != CONN_OVER)
			conn_broken(conn);
		else if (conn != NULL && conn->stepwise)
			qp_state_set(qp, ONE_QP_ERROR, "broken before its end was taken");
		return;
	case ENGINE_EVENT_ESTABLISHED:
		if (conn != NULL && conn->state == CONN_REPLIED)
			cm_communication_established(conn->cm, control.now);
		return;
	case ENGINE_EVENT_DRAINED:
		if (conn != NULL && qp->state == ONE_QP_CLOSING)
			conn_end(conn, ONE_CONN_DISCONNECTED, RSM_OK, true);
		return;
	case ENGINE_EVENT_SILENT:
		if (conn != NULL)
			path_suspect(&conn->path_user);
		return;
	case ENGINE_EVENT_STRAYS:
		if (conn != NULL)
			conn_follow(conn, event->value);
		return;
	case ENGINE_EVENT_FAULT:
		return;
	}
}

/* ---- time ---- */

void
conns_fini(void)
{
	struct conn_list *lists[] = {&control.conns, &control.dead};
	struct conn *conn;

	/* Only connections in time-wait, without queue pairs, are left. */
	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		while ((conn = TAILQ_FIRST(lists[i])) != NULL) {
			TAILQ_REMOVE(lists[i], conn, link);
			conn_peer_leave(conn);
			path_unwatch(&conn->path_user);
			conn_free(conn);
		}
	}
	cm_heap_fini(&control.conn_timers);
	control.num_conns = 0;
}

void
conns_poll(void)
{
	struct cm_timer *timer;
	struct conn *conn;

	for (uint32_t i = 0;
	     i < CM_TIMEOUTS && (timer = cm_heap_due(&control.conn_timers, control.now)) != NULL; i++) {
		conn = (struct conn *)(void *)((char *)timer - offsetof(struct conn, timer));
		if (control.now >= conn->deadline)
			conn_end(conn, ONE_CONN_TIMED_OUT, RSM_OK, false);
		else
			conn_try(conn);
	}
	while ((conn = TAILQ_FIRST(&control.dead)) != NULL) {
		TAILQ_REMOVE(&control.dead, conn, link);
		conn_free(conn);
	}
}

uint64_t
conns_deadline(void)
{
	return cm_heap_deadline(&control.conn_timers);
}

static struct conn *
conn_of_user(const struct path_user *user)
{
	return (struct conn *)(void *)((char *)(uintptr_t)user - offsetof(struct conn, path_user));
}

static bool
path_heard(const struct path_user *user, uint64_t ns)
{
	const struct conn *conn = conn_of_user(user);

	return conn->qp != NULL && engine_qp_heard_there(conn->qp->engine, ns);
}

/* True if the core has a path of the connection. */
static bool
is_sending(const struct conn *conn)
{
	return conn->state >= CONN_STARTING && conn->state != CONN_OFFERED && conn->state != CONN_OVER;
}

/* Returns the UDP source port of our frames, which a recognized peer has chosen. */
static uint16_t
source_port(const struct conn *conn)
{
	uint16_t asked = engine_qp_source_port(conn->qp->engine);
	struct wire_path path;

	if (asked != 0)
		return asked;
	conn_fill_path(conn, &path);
	return path.udp_src_port;
}

bool
conn_sends(const struct path_port *port, const struct wire_addr *dst, uint16_t udp_src_port)
{
	const struct conn *conn;

	TAILQ_FOREACH(conn, &control.conns, link) {
		if (conn->port == port && conn->qp != NULL && is_sending(conn) &&
		    wire_addr_equal(&conn->path.dst, dst) && source_port(conn) == udp_src_port)
			return true;
	}
	return false;
}

/* Sends the new path to the core, unless the core has none yet. */
static void
send_path(const struct conn *conn)
{
	struct engine_command *command;

	if (conn->qp == NULL || !is_sending(conn))
		return;
	command = qp_command(conn->qp, ENGINE_QP_PATH, NULL, NULL);
	conn_fill_path(conn, &command->path);
	command_send(command);
}

static void
path_moved(struct path_user *user, const uint8_t mac[6])
{
	struct conn *conn = conn_of_user(user);

	/* A peer that is heard from the known MAC has not moved.  Once it is silent, path_suspect() checks
	 * again. */
	if (conn->qp == NULL || memcmp(conn->mac, mac, sizeof(conn->mac)) == 0 || path_heard(user, NS_PER_S))
		return;
	memcpy(conn->mac, mac, sizeof(conn->mac));
	send_path(conn);
}

/* conn_fill_path() reads the port's new MAC. */
static void
port_renamed(struct path_user *user)
{
	send_path(conn_of_user(user));
}

void
conn_resolved(struct conn *conn, const uint8_t mac[6])
{
	memcpy(conn->mac, mac, sizeof(conn->mac));
	conn->path_user.moved = path_moved;
	conn->path_user.renamed = port_renamed;
	conn->path_user.heard = path_heard;
	path_watch(&conn->path_user, conn->port, &conn->path.dst);
}
