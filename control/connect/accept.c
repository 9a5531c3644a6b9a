/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Listeners and connection requests.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "control/cm/cm_mad.h"
#include "control/cm/sidr.h"
#include "control/connect/connect.h"
#include "control/cm/service.h"
#include "control/objects/place.h"

/* Takes a TCP port of the client's device port.  A quota limits each user's share of the ports. */
static int
take_port(struct listener *listener, struct quota_limit *limit)
{
	struct client *client = listener->object.client;
	enum quota_common what = QUOTA_SERVICES + client->port->index;
	struct port_space *space = &client->port->tcp;
	uint16_t number = service_port(listener->service);

	if (quota_take(&control.quota, client->account, what, 1, limit) != 0)
		return -EDQUOT;
	if (listener->service != 0) {
		/* A number may have several listeners, at different addresses. */
		if (port_space_take(space, number) ||
		    cm_find_listener(client->port->cm, listener->service, NULL) != NULL)
			return 0;
		quota_give(&control.quota, client->account, what, 1);
		return -EADDRINUSE;
	}
	number = port_space_take_any(space);
	listener->service = CM_SERVICE_TCP(number);
	if (number != 0)
		return 0;
	quota_give(&control.quota, client->account, what, 1);
	return -EADDRNOTAVAIL;
}

static void
give_port(struct listener *listener)
{
	struct client *client = listener->object.client;

	if (!service_is_tcp(listener->service))
		return;
	if (cm_find_listener(client->port->cm, listener->service, NULL) == NULL)
		port_space_give(&client->port->tcp, service_port(listener->service));
	quota_give(&control.quota, client->account, QUOTA_SERVICES + client->port->index, 1);
}

static void
stop_listening(struct listener *listener)
{
	if (listener->cm == NULL)
		return;
	cm_unlisten(listener->object.client->port->cm, listener->cm);
	listener->cm = NULL;
	give_port(listener);
}

/* Releases listeners whose clients are being torn down, so that their service is reusable at once. */
static void
release_service(const struct cm *cm, uint64_t service, const struct cm_scope *scope)
{
	struct cm_listener *there;

	while ((there = cm_find_listener(cm, service, scope)) != NULL) {
		struct listener *listener = cm_listener_user(there);

		if (client_alive(listener->object.client))
			return;
		stop_listening(listener);
	}
}

/* Listens at the listener's service, or, with service 0, at a free TCP port. */
static int
start_listening(struct listener *listener, struct quota_limit *limit)
{
	struct cm *cm = listener->object.client->port->cm;
	int error = 0;

	release_service(cm, listener->service, &listener->scope);
	if (listener->service != 0 && cm_find_listener(cm, listener->service, &listener->scope) != NULL)
		error = -EADDRINUSE;
	else if (listener->service == 0 || service_is_tcp(listener->service))
		error = take_port(listener, limit);
	if (error != 0)
		return error;
	listener->cm = cm_listen(cm, listener->service, &listener->scope, listener);
	if (listener->cm != NULL)
		return 0;
	give_port(listener);
	return -ENOMEM;
}

static void
reply_listening(const struct listener *listener)
{
	listener->object.client->reply.listening = (struct one_listening){
		.listener = listener->object.id,
		.service = service_to_qual(listener->service),
	};
}

/* max_listen limits the listeners that accept requests.  rdma_cm ids that only hold a port are not counted.
 */
static int
count_listener(struct client *client)
{
	if (client->listening >= control.config->limits.max_listen)
		return client_refuse_limit(
			client, &(struct quota_limit){control.config->limits.max_listen, "max_listen"});
	client->listening++;
	return 0;
}

static int
listen_now(struct client *client, uint32_t id)
{
	struct listener *listener = object_get(client, OBJECT_LISTENER, id);
	int error;

	if (listener == NULL || !listener->later || listener->cm == NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_LISTENER, id);
	error = count_listener(client);
	if (error != 0)
		return error;
	error = cm_listen_alone(client->port->cm, listener->cm);
	if (error != 0) {
		client->listening--;
		return client_refuse(client, error, ONE_SUBJECT_ADDRESS, service_to_qual(listener->service));
	}
	listener->later = false;
	reply_listening(listener);
	return 0;
}

/* Returns 0, or the refusal. */
static int
take_scope(struct client *client, const struct one_listen *args, struct cm_scope *scope)
{
	const struct engine_port_info *info = client->port->info;

	if (args->family != 0 && args->family != AF_INET && args->family != AF_INET6)
		return client_refuse(client, -EAFNOSUPPORT, ONE_SUBJECT_ADDRESS, args->family);
	if (args->source > info->num_addrs)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_ADDRESS, args->source);
	scope->only_v4 = args->family == AF_INET;
	scope->only_v6 = args->family == AF_INET6;
	scope->only_addr = args->source != 0;
	scope->shared = (args->flags & ONE_LISTEN_SHARED) != 0;
	if (scope->only_addr)
		scope->addr = info->addr[args->source - 1];
	return 0;
}

static bool
flags_valid(uint32_t flags)
{
	return (flags & ~(ONE_LISTEN_ONCE | ONE_LISTEN_LATER | ONE_LISTEN_SHARED)) == 0 &&
	       ((flags & ONE_LISTEN_SHARED) == 0 || (flags & ONE_LISTEN_LATER) != 0);
}

static void
listener_free(struct listener *listener)
{
	listener->object.client->listening -= !listener->later;
	object_free(listener);
}

/* Creates a listener without a service.  Returns 0, or the refusal. */
static int
listener_new(struct client *client, uint32_t flags, struct listener **out)
{
	bool later = (flags & ONE_LISTEN_LATER) != 0;
	int error = later ? 0 : count_listener(client);
	struct listener *listener;

	if (error != 0)
		return error;
	listener = object_new(client, OBJECT_LISTENER, sizeof(*listener));
	if (listener == NULL) {
		client->listening -= !later;
		return object_refuse_new(client, OBJECT_LISTENER);
	}
	listener->once = (flags & ONE_LISTEN_ONCE) != 0;
	listener->later = later;
	*out = listener;
	return 0;
}

int
listener_resume(struct listener *listener)
{
	struct quota_limit limit;

	listener->object.client->listening += !listener->later;
	listener->cq->object.users++;
	place_use_cq(listener->cq, false);
	return start_listening(listener, &limit);
}

int
listen_create(struct client *client, const struct one_msg *msg)
{
	const struct one_listen *args = &msg->listen;
	struct cq *cq = object_get(client, OBJECT_CQ, args->cq);
	struct listener *listener = NULL;
	struct cm_scope scope = {0};
	struct quota_limit limit = {0};
	uint64_t service = 0;
	int error;

	if (args->listener != 0)
		return listen_now(client, args->listener);
	if (cq == NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_CQ_CONN, args->cq);
	if (!flags_valid(args->flags))
		return client_refuse(client, -EINVAL, ONE_SUBJECT_NONE, args->flags);
	if (args->service != 0 && service_from_qual(args->service, &service) != 0)
		return client_refuse(client, -EACCES, ONE_SUBJECT_ADDRESS, args->service);
	error = take_scope(client, args, &scope);
	if (error == 0)
		error = listener_new(client, args->flags, &listener);
	if (error != 0)
		return error;
	listener->cq = cq;
	listener->service = service;
	listener->scope = scope;
	error = start_listening(listener, &limit);
	if (error != 0) {
		listener_free(listener);
		return error == -EDQUOT ? client_refuse_limit(client, &limit)
					: client_refuse(client, error, ONE_SUBJECT_ADDRESS, args->service);
	}
	cq->object.users++;
	place_use_cq(cq, false);
	listener->object.busy = false;
	reply_listening(listener);
	return 0;
}

void
listener_close(struct listener *listener)
{
	stop_listening(listener);
	listener->cq->object.users--;
	listener_free(listener);
}

int
listener_port(struct client *client, uint32_t id, const struct wire_addr *src, uint16_t *port)
{
	const struct listener *listener = object_get(client, OBJECT_LISTENER, id);

	*port = (uint16_t)(PORT_SPACE_EPHEMERAL + control_random() % PORT_SPACE_EPHEMERALS);
	if (id == 0)
		return 0;
	if (listener == NULL || listener->cm == NULL || service_port(listener->service) == 0 ||
	    !cm_scope_has(&listener->scope, src))
		return client_refuse(client, -EINVAL, ONE_SUBJECT_LISTENER, id);
	*port = service_port(listener->service);
	return 0;
}

/* ---- requests ---- */

static void
request_fill(struct one_cr_shm *shm, const struct cr *cr)
{
	const struct conn *conn = cr->conn;
	uint32_t len = conn->setup->remote.private_len;

	if (len > sizeof(conn->setup->remote.private_data))
		len = sizeof(conn->setup->remote.private_data);
	if (len > ONE_PRIVATE_DATA_MAX)
		len = ONE_PRIVATE_DATA_MAX;
	shm->cr = cr->object.id;
	shm->family = addr_from_wire(&conn->path.dst, shm->remote_addr);
	shm->local = (uint16_t)path_addr_number(conn->port, &conn->path.src);
	shm->remote_port = conn->setup->remote.ip_port;
	shm->conn_qual = service_to_qual(conn->service);
	/* Our responder resources are the peer's initiator depth, and vice versa. */
	shm->rd_atomic_in = conn->setup->remote.rd_atomic_out;
	shm->rd_atomic_out = conn->setup->remote.rd_atomic_in;
	shm->remote_qpn = conn->setup->remote.qpn;
	shm->rnr_retry = conn->setup->remote.rnr_retry;
	shm->retry_count = conn->setup->remote.retry_count;
	shm->private_len = (uint16_t)len;
	memcpy(shm->private_data, conn->setup->remote.private_data, len);
}

static bool
request_deliver(struct listener *listener, struct conn *conn)
{
	struct client *client = listener->object.client;
	struct one_cqe event = {
		.type = ONE_CQE_REQUEST, .object = listener->object.id, .flags = ONE_CQE_NOTIFY};
	struct cr *cr;

	/* The completion ring is the backlog: without room in the ring the request is refused. */
	if (!cq_has_room(listener->cq) || !conn_charge(conn, client->account))
		return false;
	cr = object_new(client, OBJECT_CR, sizeof(*cr));
	if (cr == NULL)
		return false;
	if (client_alloc(client, sizeof(struct one_cr_shm), &cr->shm) != 0) {
		object_free(cr);
		return false;
	}
	cr->conn = conn;
	conn->cr = cr;
	cr->object.busy = false;
	request_fill((struct one_cr_shm *)(client->arena.base + cr->shm), cr);
	event.cookie = cr->shm;
	cq_post(listener->cq, NULL, &event);
	if (listener->once)
		stop_listening(listener);
	return true;
}

void
cr_offer(struct listener *listener, struct conn *conn)
{
	if (listener->later || !client_alive(listener->object.client))
		conn_reject(conn, CM_REJ_INVALID_SERVICE_ID, NULL, 0);
	else if (sidr_service_is_udp(listener->service))
		conn_reject(conn, CM_REJ_INVALID_TRANSPORT, NULL, 0);
	else if (!request_deliver(listener, conn))
		conn_reject(conn, CM_REJ_NO_RESOURCES, NULL, 0);
}

static struct conn *
cr_take(struct cr *cr)
{
	struct conn *conn = cr->conn;

	conn->cr = NULL;
	client_free(cr->object.client, cr->shm, sizeof(struct one_cr_shm));
	object_free(cr);
	return conn;
}

/* Ends a request whose application leaves without an answer. */
void
cr_destroy(struct cr *cr)
{
	struct conn *conn = cr_take(cr);

	if (conn->state == CONN_OVER)
		conn_put(conn);
	else
		conn_reject(conn, CM_REJ_NO_RESOURCES, NULL, 0);
}

int
cr_accept(struct client *client, const struct one_msg *msg)
{
	const struct one_cr_accept *args = &msg->cr_accept;
	struct cr *cr = object_get(client, OBJECT_CR, args->cr);
	struct qp *qp = object_get(client, OBJECT_QP, args->qp);
	struct conn *conn;
	int error;

	if (cr == NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_CR, args->cr);
	error = qp_connectable(client, args->qp, &args->param, args->private_len, CM_PRIVATE_REP);
	if (error != 0)
		return error;
	conn = cr_take(cr);
	qp->number = args->param.number;
	conn->stepwise = (args->param.given & ONE_CONN_STEPWISE) != 0;
	if (conn->state == CONN_OVER) {
		/* The requester is gone: report that as the outcome, like any other failure. */
		conn_state_set(conn, CONN_OFFERED, "accepted after its requester has gone");
		conn->qp = qp;
		qp->conn = conn;
		conn_end(conn, ONE_CONN_ACCEPT_ERROR, RSM_OK, false);
		return 0;
	}
	if (args->private_len > CM_ANNOUNCED_REP) { /* no room to announce: ignore the peer's, too */
		cm_conn_plain(conn->cm);
		conn->setup->remote.oneside = conn->peer_oneside = false;
		conn->peer_steered = false;
		conn->peer_steering = (struct cm_steering){0};
	}
	conn->setup->asked = args->param;
	conn->setup->private_len = (uint16_t)args->private_len;
	memcpy(conn->setup->private_data, args->private_data, args->private_len);
	conn_start(conn, qp);
	return 0;
}

int
cr_reject(struct client *client, const struct one_msg *msg)
{
	const struct one_cr_reject *args = &msg->cr_reject;
	struct cr *cr = object_get(client, OBJECT_CR, args->cr);
	uint32_t max = qp_private_max(client, CM_PRIVATE_REJ);
	uint8_t data[CM_PRIVATE_REJ];
	struct conn *conn;

	if (cr == NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_CR, args->cr);
	if (args->private_len > max)
		return client_refuse(client, -EMSGSIZE, ONE_SUBJECT_LENGTH, max);
	conn = cr_take(cr);
	if (conn->state == CONN_OVER) {
		conn_put(conn);
	} else if (args->unanswered != 0) {
		conn_reject(conn, CM_REJ_INVALID_SERVICE_ID, NULL, 0);
	} else if (conn->setup->remote.oneside && args->private_len <= CM_ANNOUNCED_REJ) {
		cm_announce_rej_build(data, args->private_data, args->private_len);
		conn_reject(conn, CM_REJ_CONSUMER, data, sizeof(data));
	} else {
		conn_reject(conn, CM_REJ_CONSUMER, args->private_data, args->private_len);
	}
	return 0;
}

int
cr_handoff(struct client *client, const struct one_msg *msg)
{
	const struct one_cr_handoff *args = &msg->cr_handoff;
	struct cr *cr = object_get(client, OBJECT_CR, args->cr);
	struct cm_listener *to;
	struct conn *conn;
	uint64_t service;

	if (cr == NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_CR, args->cr);
	if (service_from_qual(args->service, &service) != 0)
		return client_refuse(client, -EACCES, ONE_SUBJECT_ADDRESS, args->service);
	to = cm_listener_at(client->port->cm, service, &cr->conn->path.src);
	if (to == NULL)
		return client_refuse(client, -ENOENT, ONE_SUBJECT_ADDRESS, args->service);
	conn = cr_take(cr);
	if (conn->state == CONN_OVER) {
		conn_put(conn);
		return 0;
	}
	conn->service = service;
	cr_offer(cm_listener_user(to), conn);
	return 0;
}
