/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection manager: its objects, the requests of its user, and its timers.
 * cm_input.c processes received MADs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cm_internal.h"
#include "dataplane/wire/bytes.h"

struct cm *
cm_new(struct cm_env *env)
{
	struct cm *cm = calloc(1, sizeof(*cm));

	if (cm == NULL)
		return NULL;
	cm->env = env;
	cm->secret[0] = env->random(env);
	cm->secret[1] = env->random(env);
	LIST_INIT(&cm->conns);
	LIST_INIT(&cm->all_listeners);
	if (cm_table_init(&cm->by_local) != 0 || cm_table_init(&cm->by_remote) != 0 ||
	    cm_table_init(&cm->by_qpn) != 0 || cm_table_init(&cm->listeners) != 0) {
		cm_free(cm);
		return NULL;
	}
	return cm;
}

void
cm_free(struct cm *cm)
{
	struct cm_listener *listener;
	struct cm_conn *conn;

	if (cm == NULL)
		return;
	while ((conn = LIST_FIRST(&cm->conns)) != NULL) {
		LIST_REMOVE(conn, all);
		free(conn);
	}
	while ((listener = LIST_FIRST(&cm->all_listeners)) != NULL) {
		LIST_REMOVE(listener, all);
		free(listener);
	}
	cm_table_fini(&cm->by_local);
	cm_table_fini(&cm->by_remote);
	cm_table_fini(&cm->by_qpn);
	cm_table_fini(&cm->listeners);
	cm_heap_fini(&cm->timers);
	free(cm);
}

#define CONN_OF(node_, member) ((struct cm_conn *)((char *)(node_)-offsetof(struct cm_conn, member)))
#define BACKOFF 2u /* doublings of the interval between REQs, REPs or DREQs */

static uint64_t
hash_peer(const struct cm *cm, uint32_t number, uint64_t guid, const struct cm_path *path)
{
	uint64_t gid[2];

	memcpy(gid, path->dst.gid, sizeof(gid));
	return cm_hash(cm->secret, cm_hash(cm->secret, number, guid), cm_hash(cm->secret, gid[0], gid[1]));
}

static struct cm_conn *
find_id(const struct cm *cm, uint32_t local_id)
{
	struct cm_node *node = cm_table_first(&cm->by_local, cm_hash(cm->secret, local_id, 0));

	for (; node != NULL; node = cm_table_next(node))
		if (CONN_OF(node, by_local)->local_id == local_id)
			return CONN_OF(node, by_local);
	return NULL;
}

struct cm_conn *
cm_find_local(const struct cm *cm, uint32_t local_id, const struct cm_path *path)
{
	struct cm_conn *conn = find_id(cm, local_id);

	return conn != NULL && cm_path_same_ends(&conn->path, path) ? conn : NULL;
}

struct cm_conn *
cm_find_remote(const struct cm *cm, uint32_t remote_id, uint64_t guid, const struct cm_path *path)
{
	struct cm_node *node = cm_table_first(&cm->by_remote, hash_peer(cm, remote_id, guid, path));

	for (; node != NULL; node = cm_table_next(node)) {
		struct cm_conn *conn = CONN_OF(node, by_remote);

		if (conn->remote_id == remote_id && conn->remote_guid == guid &&
		    cm_path_same_ends(&conn->path, path))
			return conn;
	}
	return NULL;
}

struct cm_conn *
cm_find_qpn(const struct cm *cm, uint32_t remote_qpn, uint64_t guid, const struct cm_path *path)
{
	struct cm_node *node = cm_table_first(&cm->by_qpn, hash_peer(cm, remote_qpn, guid, path));

	for (; node != NULL; node = cm_table_next(node)) {
		struct cm_conn *conn = CONN_OF(node, by_qpn);

		if (conn->remote_qpn == remote_qpn && conn->remote_guid == guid &&
		    cm_path_same_ends(&conn->path, path))
			return conn;
	}
	return NULL;
}

bool
cm_scope_has(const struct cm_scope *scope, const struct wire_addr *addr)
{
	if (scope->only_addr)
		return wire_addr_equal(&scope->addr, addr);
	return wire_addr_is_v4(addr) ? !scope->only_v6 : !scope->only_v4;
}

/* True if some address is in both scopes, unless both scopes are shared. */
static bool
scopes_meet(const struct cm_scope *a, const struct cm_scope *b)
{
	if (a->shared && b->shared)
		return false;
	if (a->only_addr)
		return cm_scope_has(b, &a->addr);
	if (b->only_addr)
		return cm_scope_has(a, &b->addr);
	return !(a->only_v4 && b->only_v6) && !(a->only_v6 && b->only_v4);
}

struct cm_listener *
cm_listener_at(const struct cm *cm, uint64_t service_id, const struct wire_addr *local)
{
	const struct cm_scope scope = {.only_addr = true, .addr = *local};

	return cm_find_listener(cm, service_id, &scope);
}

/* Returns a listener other than `but` (NULL: any listener) at that service and an address of `scope` (NULL:
 * any address). */
static struct cm_listener *
find_other_listener(const struct cm *cm, uint64_t service_id, const struct cm_scope *scope,
		    const struct cm_listener *but)
{
	struct cm_node *node = cm_table_first(&cm->listeners, cm_hash(cm->secret, service_id, 0));

	for (; node != NULL; node = cm_table_next(node)) {
		struct cm_listener *listener =
			(struct cm_listener *)((char *)node - offsetof(struct cm_listener, node));

		if (listener != but && listener->service_id == service_id &&
		    (scope == NULL || scopes_meet(&listener->scope, scope)))
			return listener;
	}
	return NULL;
}

struct cm_listener *
cm_find_listener(const struct cm *cm, uint64_t service_id, const struct cm_scope *scope)
{
	return find_other_listener(cm, service_id, scope, NULL);
}

bool
cm_conn_enter(struct cm *cm, struct cm_conn *conn)
{
	/* Reserve the connection's timer now: setting the timer must not fail. */
	if (conn->local_id == 0 || find_id(cm, conn->local_id) != NULL ||
	    cm_heap_reserve(&cm->timers, cm->count + 1) != 0)
		return false;
	conn->cm = cm;
	cm_table_insert(&cm->by_local, &conn->by_local, cm_hash(cm->secret, conn->local_id, 0));
	LIST_INSERT_HEAD(&cm->conns, conn, all);
	cm->count++;
	return true;
}

struct cm_conn *
cm_conn_new(struct cm *cm, const struct cm_path *path, enum cm_state state)
{
	struct cm_conn *conn = calloc(1, sizeof(*conn));

	if (conn == NULL)
		return NULL;
	conn->path = *path;
	conn->state = state;
	conn->connect_deadline = CM_NEVER;
	do
		conn->local_id = (uint32_t)cm->env->random(cm->env);
	while (conn->local_id == 0 || find_id(cm, conn->local_id) != NULL);
	if (cm_conn_enter(cm, conn))
		return conn;
	free(conn);
	return NULL;
}

void
cm_conn_set_remote(struct cm_conn *conn, uint32_t remote_id, uint32_t remote_qpn, uint64_t guid)
{
	struct cm *cm = conn->cm;

	conn->remote_id = remote_id;
	conn->remote_qpn = remote_qpn;
	conn->remote_guid = guid;
	cm_table_insert(&cm->by_remote, &conn->by_remote, hash_peer(cm, remote_id, guid, &conn->path));
	cm_table_insert(&cm->by_qpn, &conn->by_qpn, hash_peer(cm, remote_qpn, guid, &conn->path));
}

static void
leave_half_open(struct cm_conn *conn)
{
	if (conn->half_open)
		conn->cm->half_open--;
	conn->half_open = false;
}

static void
conn_free(struct cm_conn *conn)
{
	struct cm *cm = conn->cm;

	cm_emit(conn, CM_GONE);
	leave_half_open(conn);
	cm_heap_clear(&cm->timers, &conn->timer);
	cm_table_remove(&cm->by_local, &conn->by_local);
	cm_table_remove(&cm->by_remote, &conn->by_remote);
	cm_table_remove(&cm->by_qpn, &conn->by_qpn);
	LIST_REMOVE(conn, all);
	cm->count--;
	free(conn);
}

void
cm_emit(struct cm_conn *conn, enum cm_event_type type)
{
	struct cm_event event = {.type = type, .conn = conn};

	conn->cm->env->event(conn->cm->env, &event);
}

void
cm_send(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad)
{
	uint8_t bytes[CM_MAD_LEN];

	cm_mad_build(mad, bytes);
	cm->env->send(cm->env, path, bytes);
}

void
cm_conn_send(struct cm_conn *conn, struct cm_mad *mad, bool keep)
{
	mad->local_id = conn->local_id;
	mad->remote_id = conn->remote_id;
	if (keep)
		cm_mad_build(mad, conn->mad);
	cm_send(conn->cm, &conn->path, mad);
}

void
cm_conn_send_again(struct cm_conn *conn)
{
	conn->cm->env->send(conn->cm->env, &conn->path, conn->mad);
}

static void
conn_resend(struct cm_conn *conn)
{
	if (conn->retries > 0 && conn->cm->env->silent != NULL)
		conn->cm->env->silent(conn->cm->env, &conn->path);
	conn->retries++;
	cm_conn_send_again(conn);
}

void
cm_conn_send_rej(struct cm_conn *conn, enum cm_answered answers, uint16_t reason, const void *data,
		 uint16_t len)
{
	struct cm_mad mad = {.attribute = CM_REJ, .tid = conn->tid};

	mad.rej.answers = (uint8_t)answers;
	mad.rej.reason = reason;
	if (reason == CM_REJ_TIMEOUT) {
		mad.rej.info_len = 8;
		store_be64(mad.rej.info, conn->cm->env->guid);
	}
	if (len > 0)
		memcpy(mad.private_data, data, len);
	conn->refused = answers != CM_ANSWERS_OTHER;
	cm_conn_send(conn, &mad, true);
}

void
cm_conn_send_rtu(struct cm_conn *conn)
{
	struct cm_mad mad = {.attribute = CM_RTU, .tid = conn->tid};

	cm_conn_send(conn, &mad, false);
}

void
cm_conn_timer(struct cm_conn *conn, uint64_t deadline)
{
	cm_heap_set(&conn->cm->timers, &conn->timer, deadline);
}

void
cm_conn_established(struct cm_conn *conn, const char *why)
{
	cm_conn_state_set(conn, CM_STATE_ESTABLISHED, why);
	leave_half_open(conn);
	cm_heap_clear(&conn->cm->timers, &conn->timer);
	cm_emit(conn, CM_ESTABLISHED);
}

/* In TIMEWAIT the peer may use its queue pair number for a new connection, so the connection leaves by_qpn.
 */
void
cm_conn_timewait(struct cm_conn *conn, const char *why, uint64_t length, uint64_t now)
{
	cm_conn_state_set(conn, CM_STATE_TIMEWAIT, why);
	conn->timewait = length;
	leave_half_open(conn);
	cm_table_remove(&conn->cm->by_qpn, &conn->by_qpn);
	cm_conn_timer(conn, now + length);
}

/* Ends a connection at its user's request.  The timer raises the event: no event comes from within the user's
 * call. */
static void
end_by_user(struct cm_conn *conn, uint64_t length, bool notify, uint64_t now)
{
	cm_conn_timewait(conn, "ended by its user", length, now);
	conn->owed = notify;
	if (notify)
		cm_conn_timer(conn, now);
}

static void
send_dreq(struct cm_conn *conn, uint64_t now)
{
	struct cm_mad mad = {.attribute = CM_DREQ, .tid = conn->cm->env->random(conn->cm->env)};

	mad.remote_qpn = conn->remote_qpn;
	if (conn->announced && conn->refusal != 0)
		cm_announce_dreq_build(&mad, conn->refusal);
	cm_conn_state_set(conn, CM_STATE_DREQ_SENT, "cm_disconnect");
	conn->retries = 0;
	conn->refused = false;
	leave_half_open(conn);
	cm_conn_send(conn, &mad, true);
	cm_conn_timer(conn, now + conn->cm->env->retry_interval);
}

/* A refused request keeps its REJ for a while, to repeat the REJ if the REQ is
 * retransmitted.  With many half-open requests nothing is kept: a flood of unwanted
 * requests must not accumulate. */
static void
refuse_request(struct cm_conn *conn, uint16_t reason, const void *data, uint16_t len, bool notify,
	       uint64_t now)
{
	struct cm *cm = conn->cm;
	bool linger = cm->half_open <= cm->env->max_half_open / 2;

	cm_conn_send_rej(conn, CM_ANSWERS_REQ, reason, data, len);
	end_by_user(conn, linger ? cm->env->retry_interval << (BACKOFF + 1) : 0, notify, now);
	if (linger) {
		conn->half_open = true;
		cm->half_open++;
	}
}

/* Requests of the user */

struct cm_listener *
cm_listen(struct cm *cm, uint64_t service_id, const struct cm_scope *scope, void *user)
{
	struct cm_listener *listener;

	if (cm_find_listener(cm, service_id, scope) != NULL)
		return NULL;
	listener = calloc(1, sizeof(*listener));
	if (listener == NULL)
		return NULL;
	listener->service_id = service_id;
	if (scope != NULL)
		listener->scope = *scope;
	listener->user = user;
	cm_table_insert(&cm->listeners, &listener->node, cm_hash(cm->secret, service_id, 0));
	LIST_INSERT_HEAD(&cm->all_listeners, listener, all);
	return listener;
}

int
cm_listen_alone(struct cm *cm, struct cm_listener *listener)
{
	struct cm_scope alone = listener->scope;

	alone.shared = false;
	if (find_other_listener(cm, listener->service_id, &alone, listener) != NULL)
		return -EADDRINUSE;
	listener->scope = alone;
	return 0;
}

void
cm_unlisten(struct cm *cm, struct cm_listener *listener)
{
	cm_table_remove(&cm->listeners, &listener->node);
	LIST_REMOVE(listener, all);
	free(listener);
}

void *
cm_listener_user(const struct cm_listener *listener)
{
	return listener->user;
}

void
cm_conn_mark(struct cm_conn *conn, const struct cm_path *path)
{
	conn->path.traffic_class = path->traffic_class;
	conn->path.flow_label = path->flow_label;
}

void *
cm_user(const struct cm_conn *conn)
{
	return conn->user;
}

void
cm_set_user(struct cm_conn *conn, void *user)
{
	conn->user = user;
}

static uint8_t
max_retries(const struct cm *cm)
{
	return (uint8_t)(cm->env->max_retries < CM_RETRIES_MAX ? cm->env->max_retries : CM_RETRIES_MAX);
}

static void
fill_req(struct cm_conn *conn, const struct cm_connect *params, struct cm_mad *mad)
{
	const struct cm_env *env = conn->cm->env;
	const struct cm_local *local = &params->local;
	struct cm_req *req = &mad->req;
	uint32_t room = CM_PRIVATE_REQ;

	mad->attribute = CM_REQ;
	mad->tid = conn->tid;
	req->service_id = params->service_id;
	req->guid = env->guid;
	req->qpn = local->qpn;
	req->psn = local->psn;
	req->responder_resources = local->rd_atomic_in;
	req->initiator_depth = local->rd_atomic_out;
	req->remote_response_timeout = (uint8_t)env->response_timeout;
	req->local_response_timeout = (uint8_t)env->response_timeout;
	req->retry_count = local->retry_count;
	req->rnr_retry = local->rnr_retry;
	req->max_cm_retries = max_retries(conn->cm);
	req->pkey = 0xffff;
	req->mtu = cm_mtu_code(local->path_mtu);
	req->srq = local->srq;
	req->local_lid = req->remote_lid = 0xffff;
	memcpy(req->local_gid, params->path.src.gid, 16);
	memcpy(req->remote_gid, params->path.dst.gid, 16);
	req->flow_label = params->path.flow_label;
	req->traffic_class = params->path.traffic_class;
	req->hop_limit = params->path.hop_limit;
	req->sl = params->path.traffic_class >> 5;
	req->ack_timeout = local->ack_timeout;
	if (params->rdma_cm) {
		struct cm_ip_header header = {params->ip_port, params->path.src, params->path.dst};

		cm_ip_header_build(&header, mad->private_data);
		room -= CM_IP_HEADER_LEN;
	}
	cm_announce_req_build(mad,
			      &(struct cm_announce){env->capabilities, local->steering, local->link_mtu,
						    params->private_len},
			      params->private_data, room);
}

struct cm_conn *
cm_connect(struct cm *cm, const struct cm_connect *params, void *user, uint64_t now)
{
	struct cm_mad mad = {0};
	struct cm_conn *conn;

	if (params->private_len > (params->rdma_cm ? CM_USER_PRIVATE_MAX : CM_PRIVATE_REQ) ||
	    cm_mtu_code(params->local.path_mtu) == 0 || params->rdma_cm != service_is_ip(params->service_id))
		return NULL;
	conn = cm_conn_new(cm, &params->path, CM_STATE_REQ_SENT);
	if (conn == NULL)
		return NULL;
	conn->user = user;
	conn->active = true;
	conn->tid = cm->env->random(cm->env);
	conn->local_qpn = params->local.qpn;
	conn->path_mtu = params->local.path_mtu;
	conn->timewait = cm_timewait_ns(params->local.ack_timeout);
	if (params->timeout < CM_NEVER - now)
		conn->connect_deadline = now + params->timeout;
	fill_req(conn, params, &mad);
	cm_conn_send(conn, &mad, true);
	cm_conn_timer(conn, now + cm->env->retry_interval < conn->connect_deadline
				    ? now + cm->env->retry_interval
				    : conn->connect_deadline);
	return conn;
}

void
cm_conn_plain(struct cm_conn *conn)
{
	conn->announced = false;
}

int
cm_accept(struct cm_conn *conn, const struct cm_local *local, const void *private_data, uint16_t len,
	  uint64_t now)
{
	struct cm_mad mad = {.attribute = CM_REP, .tid = conn->tid};
	struct cm *cm = conn->cm;

	if (conn->state != CM_STATE_REQ_RCVD)
		return -ENOTCONN;
	if (len > (conn->announced ? CM_ANNOUNCED_REP : CM_PRIVATE_REP))
		return -EMSGSIZE;
	mad.rep.qpn = local->qpn;
	mad.rep.psn = local->psn;
	mad.rep.responder_resources = local->rd_atomic_in;
	mad.rep.initiator_depth = local->rd_atomic_out;
	mad.rep.ack_delay = local->ack_timeout & 31;
	mad.rep.rnr_retry = local->rnr_retry & 7;
	mad.rep.srq = local->srq;
	mad.rep.guid = cm->env->guid;
	if (len > 0)
		memcpy(mad.private_data, private_data, len);
	if (conn->announced)
		cm_announce_rep_build(&mad, &(struct cm_announce){cm->env->capabilities, local->steering,
								  local->link_mtu, len});
	conn->local_qpn = local->qpn;
	if (conn->timewait < cm_timewait_ns(local->ack_timeout))
		conn->timewait = cm_timewait_ns(local->ack_timeout);
	cm_conn_state_set(conn, CM_STATE_REP_SENT, "cm_accept");
	conn->retries = 0;
	cm_conn_send(conn, &mad, true);
	cm_conn_timer(conn, now + cm->env->retry_interval);
	return 0;
}

int
cm_reject(struct cm_conn *conn, enum cm_reject reason, const void *private_data, uint16_t len, uint64_t now)
{
	if (len > CM_PRIVATE_REJ)
		return -EMSGSIZE;
	if (conn->state == CM_STATE_REQ_RCVD) {
		refuse_request(conn, (uint16_t)reason, private_data, len, false, now);
		return 0;
	}
	if (conn->state == CM_STATE_REP_RCVD) {
		cm_conn_send_rej(conn, CM_ANSWERS_REP, (uint16_t)reason, private_data, len);
		end_by_user(conn, conn->timewait, false, now);
		return 0;
	}
	return -ENOTCONN;
}

int
cm_confirm(struct cm_conn *conn, uint64_t now)
{
	if (conn->state != CM_STATE_REP_RCVD)
		return -ENOTCONN;
	cm_conn_state_set(conn, CM_STATE_ESTABLISHED, "cm_confirm");
	cm_heap_clear(&conn->cm->timers, &conn->timer);
	cm_conn_send_rtu(conn);
	return 0;
}

void
cm_communication_established(struct cm_conn *conn, uint64_t now)
{
	if (conn->state == CM_STATE_REP_SENT || conn->state == CM_STATE_MRA_REP_RCVD)
		cm_conn_established(conn, "RTU, or a packet of the connection");
}

void
cm_conn_refused(struct cm_conn *conn, uint32_t refusal)
{
	conn->refusal = refusal;
}

void
cm_disconnect(struct cm_conn *conn, uint64_t now)
{
	switch (conn->state) {
	case CM_STATE_REQ_SENT:
	case CM_STATE_MRA_REQ_RCVD:
		cm_conn_send_rej(conn, CM_ANSWERS_OTHER, CM_REJ_TIMEOUT, NULL, 0);
		end_by_user(conn, 0, true, now);
		break;
	case CM_STATE_REP_RCVD:
		cm_conn_send_rej(conn, CM_ANSWERS_REP, CM_REJ_CONSUMER, NULL, 0);
		end_by_user(conn, conn->timewait, true, now);
		break;
	case CM_STATE_REQ_RCVD:
		refuse_request(conn, CM_REJ_CONSUMER, NULL, 0, true, now);
		break;
	case CM_STATE_REP_SENT:
	case CM_STATE_MRA_REP_RCVD:
		/* The REJ is for a peer that has not sent its RTU, the DREQ for a peer whose RTU is in
		 * flight. */
		cm_conn_send_rej(conn, CM_ANSWERS_REP, CM_REJ_CONSUMER, NULL, 0);
		send_dreq(conn, now);
		break;
	case CM_STATE_ESTABLISHED:
		send_dreq(conn, now);
		break;
	case CM_STATE_DREQ_SENT:
	case CM_STATE_TIMEWAIT:
		break;
	}
}

/* Timers */

uint64_t
cm_deadline(const struct cm *cm)
{
	return cm_heap_deadline(&cm->timers);
}

static uint64_t
backed_off(const struct cm_conn *conn)
{
	return conn->cm->env->retry_interval << (conn->retries < BACKOFF ? conn->retries : BACKOFF);
}

static void
request_timer(struct cm_conn *conn, uint64_t now)
{
	struct cm *cm = conn->cm;
	bool expired = now >= conn->connect_deadline;
	uint64_t next;

	if (expired || conn->retries >= max_retries(cm)) {
		/* Let the peer release the connection. */
		cm_conn_send_rej(conn, CM_ANSWERS_OTHER, CM_REJ_TIMEOUT, NULL, 0);
		cm_conn_timewait(conn, "no REP", 0, now);
		cm_emit(conn, expired ? CM_TIMED_OUT : CM_UNREACHABLE);
		return;
	}
	cm_conn_state_set(conn, CM_STATE_REQ_SENT, "REQ again");
	conn_resend(conn);
	/* Retransmit quickly at first, for a lost REQ, then slowly: Linux ignores a REQ that it has answered,
	 * and repeats a lost REP after more than 4 seconds. */
	next = now + backed_off(conn);
	cm_conn_timer(conn, next < conn->connect_deadline ? next : conn->connect_deadline);
}

static void
reply_timer(struct cm_conn *conn, uint64_t now)
{
	struct cm *cm = conn->cm;
	uint64_t interval;

	if (conn->retries >= max_retries(cm)) {
		cm_conn_send_rej(conn, CM_ANSWERS_OTHER, CM_REJ_TIMEOUT, NULL, 0);
		cm_conn_timewait(conn, "no RTU", conn->timewait, now);
		cm_emit(conn, CM_ACCEPT_FAILED);
		return;
	}
	cm_conn_state_set(conn, CM_STATE_REP_SENT, "REP again");
	conn_resend(conn);
	/* A oneside peer answers at once, or lacks processor time for seconds, as may happen while it
	 * connects.  Other peers may take the response timeout of their REQ. */
	interval = backed_off(conn);
	if (!conn->announced && cm->env->retry_interval < conn->interval_max) {
		interval = cm->env->retry_interval << conn->retries;
		if (interval > conn->interval_max)
			interval = conn->interval_max;
	}
	cm_conn_timer(conn, now + interval);
}

static void
conn_timeout(struct cm_conn *conn, uint64_t now)
{
	switch (conn->state) {
	case CM_STATE_REQ_SENT:
	case CM_STATE_MRA_REQ_RCVD:
		request_timer(conn, now);
		break;
	case CM_STATE_REP_SENT:
	case CM_STATE_MRA_REP_RCVD:
		reply_timer(conn, now);
		break;
	case CM_STATE_DREQ_SENT:
		if (conn->retries < max_retries(conn->cm)) {
			conn_resend(conn);
			cm_conn_timer(conn, now + backed_off(conn));
			break;
		}
		cm_conn_timewait(conn, "no DREP", conn->timewait, now);
		cm_emit(conn, CM_DISCONNECTED);
		break;
	case CM_STATE_TIMEWAIT:
		if (!conn->owed) {
			conn_free(conn);
			break;
		}
		conn->owed = false;
		cm_conn_timer(conn, now + conn->timewait);
		cm_emit(conn, CM_DISCONNECTED);
		break;
	case CM_STATE_REP_RCVD:
	case CM_STATE_REQ_RCVD:
	case CM_STATE_ESTABLISHED:
		break; /* no timer runs while the user decides */
	}
}

void
cm_timeout(struct cm *cm, uint64_t now)
{
	struct cm_timer *timer;

	for (uint32_t i = 0; i < CM_TIMEOUTS && (timer = cm_heap_due(&cm->timers, now)) != NULL; i++)
		conn_timeout(CONN_OF(timer, timer), now);
}
