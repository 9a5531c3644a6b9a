/* SPDX-License-Identifier: BSD-3-Clause */
/* Received MADs.  Any host can send one, so every field is checked here.  A message
 * is accepted for a connection only between the connection's two addresses and with
 * the ids (for a DREQ also the queue pair number) that the peer knows.  No message
 * causes more than one message in reply. */
#include <string.h>

#include "cm_internal.h"
#include "dataplane/wire/bytes.h"

/* Replies to a message that belongs to no connection here. */
static void
send_stateless(struct cm *cm, const struct cm_path *path, const struct cm_mad *to, struct cm_mad *answer)
{
	answer->tid = to->tid;
	answer->local_id = to->remote_id;
	answer->remote_id = to->local_id;
	cm_send(cm, path, answer);
}

static void
reject_stateless(struct cm *cm, const struct cm_path *path, const struct cm_mad *to, uint16_t reason)
{
	struct cm_mad rej = {.attribute = CM_REJ};

	rej.rej.answers = to->attribute == CM_REP ? CM_ANSWERS_REP : CM_ANSWERS_REQ;
	rej.rej.reason = reason;
	if (reason == CM_REJ_INVALID_GID) { /* the GID that would be accepted */
		rej.rej.info_len = 16;
		memcpy(rej.rej.info, path->src.gid, 16);
	}
	send_stateless(cm, path, to, &rej);
}

static void
send_mra(struct cm_conn *conn, enum cm_answered answers)
{
	struct cm_mad mra = {.attribute = CM_MRA, .tid = conn->tid};

	mra.mra.answers = (uint8_t)answers;
	mra.mra.service_timeout = CM_SERVICE_TIMEOUT;
	cm_conn_send(conn, &mra, false);
}

static bool
qpn_is_valid(uint32_t qpn)
{
	return qpn > 1 && qpn < 0xffffff;
}

/* Returns the connection with both ids of the message, or NULL. */
static struct cm_conn *
find_pair(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad)
{
	struct cm_conn *conn = cm_find_local(cm, mad->remote_id, path);

	return conn != NULL && mad->local_id != 0 && conn->remote_id == mad->local_id ? conn : NULL;
}

/* REQ */

static void
duplicate_req(struct cm_conn *conn, const struct cm_path *path, const struct cm_mad *mad)
{
	switch (conn->state) {
	case CM_STATE_REQ_RCVD: /* the application has not answered yet */
		send_mra(conn, CM_ANSWERS_REQ);
		break;
	case CM_STATE_REP_SENT: /* the REP was lost, or crossed the REQ */
		cm_conn_send_again(conn);
		break;
	case CM_STATE_TIMEWAIT:
		if (conn->refused)
			cm_conn_send_again(conn);
		else
			reject_stateless(conn->cm, path, mad, CM_REJ_STALE);
		break;
	default:
		break;
	}
}

/* Returns 0, or the reason for a REJ. */
static uint16_t
check_req(const struct cm_path *path, const struct cm_req *req)
{
	if (req->transport != 0)
		return CM_REJ_INVALID_TRANSPORT;
	if (!qpn_is_valid(req->qpn) || req->rdc_exists || (req->pkey & 0x7fff) != 0x7fff)
		return CM_REJ_UNSUPPORTED;
	if (cm_mtu_bytes(req->mtu) == 0)
		return CM_REJ_INVALID_MTU;
	/* Data goes to the GID in the REQ: a REQ must not make us send to a third party. */
	if (memcmp(req->local_gid, path->dst.gid, 16) != 0 || memcmp(req->remote_gid, path->src.gid, 16) != 0)
		return CM_REJ_INVALID_GID;
	return 0;
}

/* A REQ is stale if a connection here still has the peer's queue pair: the peer
 * restarted, or gave that connection up without our knowledge. */
static bool
stale_req(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad, uint64_t now)
{
	struct cm_conn *old = cm_find_qpn(cm, mad->req.qpn, mad->req.guid, path);

	if (old == NULL)
		return false;
	if (old->state == CM_STATE_REQ_RCVD) { /* not answered yet: the newer request replaces the older */
		cm_conn_timewait(old, "a newer REQ", 0, now);
		cm_emit(old, CM_ACCEPT_FAILED);
		return false;
	}
	reject_stateless(cm, path, mad, CM_REJ_STALE);
	cm_disconnect(old, now);
	return true;
}

static void
remote_from_req(const struct cm_conn *conn, const struct cm_req *req, struct cm_remote *remote)
{
	remote->qpn = req->qpn;
	remote->psn = req->psn;
	remote->rd_atomic_in = req->responder_resources;
	remote->rd_atomic_out = req->initiator_depth;
	remote->rnr_retry = req->rnr_retry;
	remote->retry_count = req->retry_count;
	remote->ack_timeout = req->ack_timeout;
	remote->path_mtu = conn->path_mtu;
	remote->path = conn->path;
	remote->guid = req->guid;
	remote->service_id = req->service_id;
}

static void
take_announced(struct cm_remote *remote, const struct cm_announce *announce)
{
	remote->oneside = true;
	remote->capabilities = announce->capabilities;
	remote->steering = announce->steering;
	remote->link_mtu = announce->link_mtu;
	remote->private_len = announce->private_len;
}

static void
private_from_req(const struct cm_mad *mad, uint32_t room, struct cm_remote *remote)
{
	struct cm_announce announce;

	if (cm_announce_req_parse(mad, &announce, room, remote->private_data)) {
		take_announced(remote, &announce);
	} else {
		remote->private_len = (uint16_t)room;
		memcpy(remote->private_data, mad->private_data + CM_PRIVATE_REQ - room, room);
	}
}

static void
input_req(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad, uint64_t now)
{
	const struct cm_req *req = &mad->req;
	struct cm_remote remote = {0};
	struct cm_event event = {.type = CM_REQUEST, .remote = &remote};
	uint32_t room = CM_PRIVATE_REQ;
	struct cm_conn *conn;
	uint16_t reason;

	if (mad->local_id == 0)
		return;
	conn = cm_find_remote(cm, mad->local_id, req->guid, path);
	if (conn != NULL) {
		duplicate_req(conn, path, mad);
		return;
	}
	if (cm->half_open >= cm->env->max_half_open)
		return;
	reason = check_req(path, req);
	if (reason != 0) {
		reject_stateless(cm, path, mad, reason);
		return;
	}
	if (stale_req(cm, path, mad, now))
		return;
	event.listener = cm_listener_at(cm, req->service_id, &path->src);
	if (event.listener == NULL) {
		reject_stateless(cm, path, mad, CM_REJ_INVALID_SERVICE_ID);
		return;
	}
	if (service_is_ip(req->service_id)) {
		if (!cm_ip_header_take(mad->private_data, path, &remote.ip_port)) {
			reject_stateless(cm, path, mad, CM_REJ_CONSUMER);
			return;
		}
		remote.rdma_cm = true;
		room -= CM_IP_HEADER_LEN;
	}
	conn = cm_conn_new(cm, path, CM_STATE_REQ_RCVD);
	if (conn == NULL) {
		reject_stateless(cm, path, mad, CM_REJ_NO_RESOURCES);
		return;
	}
	conn->half_open = true;
	cm->half_open++;
	conn->tid = mad->tid;
	conn->path.flow_label = req->flow_label;
	conn->path.traffic_class = req->traffic_class;
	conn->path_mtu = cm_mtu_bytes(req->mtu);
	conn->interval_max = cm_code_ns(req->local_response_timeout, CM_RESPONSE_CODE_MAX);
	conn->timewait = cm_timewait_ns(req->ack_timeout);
	cm_conn_set_remote(conn, mad->local_id, req->qpn, req->guid);
	remote_from_req(conn, req, &remote);
	private_from_req(mad, room, &remote);
	conn->announced = remote.oneside;
	event.conn = conn;
	cm->env->event(cm->env, &event);
}

/* REP */

static void
remote_from_rep(const struct cm_conn *conn, const struct cm_mad *mad, struct cm_remote *remote)
{
	const struct cm_rep *rep = &mad->rep;
	struct cm_announce announce;

	remote->qpn = rep->qpn;
	remote->psn = rep->psn;
	remote->rd_atomic_in = rep->responder_resources;
	remote->rd_atomic_out = rep->initiator_depth;
	remote->rnr_retry = rep->rnr_retry;
	remote->ack_timeout = rep->ack_delay;
	remote->path_mtu = conn->path_mtu;
	remote->path = conn->path;
	remote->guid = rep->guid;
	remote->private_len = CM_PRIVATE_REP;
	if (cm_announce_rep_parse(mad, &announce)) {
		take_announced(remote, &announce);
	}
	memcpy(remote->private_data, mad->private_data, remote->private_len);
}

static void
duplicate_rep(struct cm_conn *conn)
{
	if (conn->state == CM_STATE_ESTABLISHED)
		cm_conn_send_rtu(conn); /* the RTU was lost */
	else if (conn->state == CM_STATE_REP_RCVD)
		send_mra(conn, CM_ANSWERS_REP);
	else if (conn->state == CM_STATE_TIMEWAIT && conn->refused)
		cm_conn_send_again(conn);
}

/* Refuses an unusable REP: notifies the peer and the user. */
static void
refuse_rep(struct cm_conn *conn, uint16_t reason, uint64_t now)
{
	struct cm_event event = {.type = CM_REJECTED, .conn = conn, .reason = reason};
	static const uint8_t no_data[CM_PRIVATE_REJ];

	event.reject_data = no_data;
	cm_conn_send_rej(conn, CM_ANSWERS_REP, reason, NULL, 0);
	cm_conn_timewait(conn, "REP refused", conn->timewait, now);
	conn->cm->env->event(conn->cm->env, &event);
}

static void
input_rep(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad, uint64_t now)
{
	struct cm_conn *conn = cm_find_local(cm, mad->remote_id, path), *old;
	struct cm_remote remote = {0};
	struct cm_event event = {.type = CM_REPLY, .conn = conn, .remote = &remote};

	if (mad->local_id == 0)
		return;
	if (conn != NULL && conn->remote_id == mad->local_id) {
		duplicate_rep(conn);
		return;
	}
	if (conn == NULL || (conn->state != CM_STATE_REQ_SENT && conn->state != CM_STATE_MRA_REQ_RCVD)) {
		/* We gave up, or accepted another REP: release the sender, which waits for an RTU. */
		reject_stateless(cm, path, mad, CM_REJ_INVALID_COMM_ID);
		return;
	}
	if (cm_find_remote(cm, mad->local_id, mad->rep.guid, path) != NULL)
		return;
	old = cm_find_qpn(cm, mad->rep.qpn, mad->rep.guid, path);
	cm_conn_set_remote(conn, mad->local_id, mad->rep.qpn, mad->rep.guid);
	if (!qpn_is_valid(mad->rep.qpn)) {
		refuse_rep(conn, CM_REJ_UNSUPPORTED, now);
		return;
	}
	if (old != NULL) {
		cm_disconnect(old, now);
		refuse_rep(conn, CM_REJ_STALE, now);
		return;
	}
	cm_heap_clear(&cm->timers, &conn->timer); /* no timer runs while the user decides */
	cm_conn_state_set(conn, CM_STATE_REP_RCVD, "REP");
	remote_from_rep(conn, mad, &remote);
	conn->announced = remote.oneside;
	cm->env->event(cm->env, &event);
}

/* Other messages */

static void
input_rtu(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad, uint64_t now)
{
	struct cm_conn *conn = find_pair(cm, path, mad);

	if (conn != NULL)
		cm_communication_established(conn, now);
}

static void
input_mra(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad, uint64_t now)
{
	uint64_t timeout = cm_code_ns(mad->mra.service_timeout, CM_SERVICE_TIMEOUT) + cm->env->retry_interval;
	uint64_t deadline = now + timeout;
	struct cm_conn *conn;

	if (mad->mra.answers == CM_ANSWERS_REQ) {
		conn = cm_find_local(cm, mad->remote_id, path);
		if (conn == NULL ||
		    (conn->state != CM_STATE_REQ_SENT && conn->state != CM_STATE_MRA_REQ_RCVD))
			return;
	} else {
		conn = find_pair(cm, path, mad);
		if (mad->mra.answers != CM_ANSWERS_REP || conn == NULL ||
		    (conn->state != CM_STATE_REP_SENT && conn->state != CM_STATE_MRA_REP_RCVD))
			return;
	}
	if (conn->extensions >= (conn->active ? CM_EXTENSIONS_ACTIVE : CM_EXTENSIONS_PASSIVE))
		return;
	conn->extensions++;
	cm_conn_state_set(conn,
			  mad->mra.answers == CM_ANSWERS_REQ ? CM_STATE_MRA_REQ_RCVD : CM_STATE_MRA_REP_RCVD,
			  "MRA");
	cm_conn_timer(conn, deadline < conn->connect_deadline ? deadline : conn->connect_deadline);
}

/* Returns the connection that a REJ means, or NULL.  A requester that timed out may not know our id: its REJ
 * has its own GUID and id. */
static struct cm_conn *
find_rejected(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad)
{
	struct cm_conn *conn;

	if (mad->rej.reason == CM_REJ_TIMEOUT && mad->rej.info_len >= 8 && mad->local_id != 0)
		return cm_find_remote(cm, mad->local_id, load_be64(mad->rej.info), path);
	if (mad->rej.answers != CM_ANSWERS_REQ)
		return find_pair(cm, path, mad);
	/* A REJ of a REQ may lack the sender's id.  Our id alone is sufficient only while our request is
	 * open. */
	conn = cm_find_local(cm, mad->remote_id, path);
	if (conn != NULL && (conn->state == CM_STATE_REQ_SENT || conn->state == CM_STATE_MRA_REQ_RCVD))
		return conn;
	return NULL;
}

static void
input_rej(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad, uint64_t now)
{
	struct cm_conn *conn = find_rejected(cm, path, mad);
	struct cm_event event = {.type = CM_REJECTED, .conn = conn, .reason = mad->rej.reason};

	if (conn == NULL)
		return;
	event.reject_data = mad->private_data;
	switch (conn->state) {
	case CM_STATE_REQ_SENT:
	case CM_STATE_MRA_REQ_RCVD:
		cm_conn_timewait(conn, "REJ", mad->rej.reason == CM_REJ_STALE ? conn->timewait : 0, now);
		break;
	case CM_STATE_REP_RCVD:
	case CM_STATE_REP_SENT:
	case CM_STATE_MRA_REP_RCVD:
		cm_conn_timewait(conn, "REJ", conn->timewait, now);
		break;
	case CM_STATE_REQ_RCVD:
		cm_conn_timewait(conn, "REJ", 0, now);
		event.type = CM_ACCEPT_FAILED;
		break;
	case CM_STATE_ESTABLISHED:
	case CM_STATE_DREQ_SENT:
		cm_conn_timewait(conn, "REJ", conn->timewait, now);
		event.type = CM_DISCONNECTED;
		break;
	case CM_STATE_TIMEWAIT:
		return;
	}
	cm->env->event(cm->env, &event);
}

static void
send_drep(struct cm *cm, const struct cm_path *path, const struct cm_mad *dreq)
{
	struct cm_mad drep = {.attribute = CM_DREP};

	send_stateless(cm, path, dreq, &drep);
}

static void
input_dreq(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad, uint64_t now)
{
	struct cm_conn *conn = find_pair(cm, path, mad);
	struct cm_event event = {.type = CM_DISCONNECTED, .conn = conn};

	if (conn == NULL) { /* the connection is gone here: answer, so that the peer need not time out */
		send_drep(cm, path, mad);
		return;
	}
	switch (conn->state) {
	case CM_STATE_REQ_RCVD:
		send_drep(cm, path, mad);
		cm_conn_timewait(conn, "DREQ", 0, now);
		cm_emit(conn, CM_ACCEPT_FAILED);
		return;
	case CM_STATE_REP_SENT:
	case CM_STATE_MRA_REP_RCVD:
		if (mad->remote_qpn != conn->local_qpn)
			return;
		cm_conn_established(conn, "DREQ"); /* the peer had established the connection */
		break;
	case CM_STATE_TIMEWAIT:
		send_drep(cm, path, mad);
		return;
	default:
		break;
	}
	if (mad->remote_qpn != conn->local_qpn)
		return;
	send_drep(cm, path, mad);
	/* The user may have called cm_disconnect() on CM_ESTABLISHED: then the two DREQs crossed. */
	cm_conn_timewait(conn, "DREQ", conn->timewait, now);
	event.refusal = conn->announced ? cm_announce_dreq_parse(mad) : 0;
	cm->env->event(cm->env, &event);
}

static void
input_drep(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad, uint64_t now)
{
	struct cm_conn *conn = find_pair(cm, path, mad);
	struct cm_event event = {.type = CM_DISCONNECTED, .conn = conn};

	if (conn == NULL || conn->state != CM_STATE_DREQ_SENT)
		return;
	event.answered = conn->retries == 0;
	cm_conn_timewait(conn, "DREP", conn->timewait, now);
	cm->env->event(cm->env, &event);
}

/* In the order of enum cm_attribute. */
static void (*const inputs[])(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad,
			      uint64_t now) = {input_req, input_mra,  input_rej, input_rep,
					       input_rtu, input_dreq, input_drep};

void
cm_input(struct cm *cm, const struct cm_path *reply_path, const uint8_t *mad, uint32_t len, uint64_t now)
{
	struct cm_mad parsed;

	if (cm_mad_parse(mad, len, &parsed) == 0)
		inputs[parsed.attribute - CM_REQ](cm, reply_path, &parsed, now);
}
