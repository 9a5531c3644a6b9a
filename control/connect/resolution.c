/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Service ID resolution for applications: their queries, and peers' queries to their listeners.  An answer
 * names a queue pair of the attachment, with that queue pair's Q_Key.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "control/cm/service.h"
#include "control/connect/ends.h"
#include "control/connect/resolution.h"
#include "control/objects/place.h"

#define HOP_LIMIT 64

struct resolution {
	struct object object;
	struct sidr_query *query; /* NULL: our query, and over */
	struct cq *cq;            /* our query: ring for the answer's event; NULL: a peer's query */
	bool counted;             /* in the user's QUOTA_REQUESTS */
	uint8_t traffic_class;    /* of our query */
	uint64_t shm;             /* offset of struct one_sidr_shm */
};

static struct one_sidr_shm *
shm_of(const struct resolution *r)
{
	return (struct one_sidr_shm *)(r->object.client->arena.base + r->shm);
}

/* Returns 0, or the refusal. */
static int
resolution_new(struct client *client, struct resolution **out)
{
	struct resolution *r = object_new(client, OBJECT_SIDR, sizeof(*r));
	int error;

	if (r == NULL)
		return object_refuse_new(client, OBJECT_SIDR);
	error = client_alloc(client, sizeof(struct one_sidr_shm), &r->shm);
	if (error != 0) {
		object_free(r);
		return error;
	}
	r->object.busy = false;
	*out = r;
	return 0;
}

static void
resolution_free(struct resolution *r)
{
	struct client *client = r->object.client;

	if (r->cq != NULL)
		r->cq->object.users--;
	if (r->counted)
		quota_give(&control.quota, client->account, QUOTA_REQUESTS + client->port->index, 1);
	client_free(client, r->shm, sizeof(struct one_sidr_shm));
	object_free(r);
}

void
resolution_end(struct resolution *r)
{
	if (r->query != NULL && r->cq != NULL)
		sidr_give_up(r->query);
	else if (r->query != NULL)
		sidr_answer(r->query, SIDR_REJECT, 0, 0, NULL, 0, control.now);
	resolution_free(r);
}

/* ---- requests of the application ---- */

static int
check_ask(struct client *client, const struct one_sidr_ask *args, struct cm_path *path)
{
	const struct conn_peer peer = {args->family, args->addr, args->source};
	uint8_t mac[6];
	int error;

	if (object_get(client, OBJECT_CQ, args->cq) == NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_CQ_CONN, args->cq);
	if (!sidr_service_is_udp(args->service))
		return client_refuse(client, -EINVAL, ONE_SUBJECT_ADDRESS, args->service);
	if (args->private_len > SIDR_PRIVATE_REQ)
		return client_refuse(client, -EMSGSIZE, ONE_SUBJECT_LENGTH, SIDR_PRIVATE_REQ);
	error = conn_ends(client, &peer, path);
	if (error != 0)
		return error;
	/* Only a destination that cannot be queried is refused here; a host that does not answer ends the
	 * query later. */
	error = neigh_resolve(control.neigh, client->port->index, &path->dst, control.now, mac, client->uid,
			      NULL);
	return error == -EINVAL || error == -ENETUNREACH
		       ? client_refuse(client, error, ONE_SUBJECT_ADDRESS, 0)
		       : 0;
}

int
resolution_ask(struct client *client, const struct one_msg *msg)
{
	const struct one_sidr_ask *args = &msg->sidr_ask;
	struct cm_path path = {.hop_limit = HOP_LIMIT};
	struct resolution *r = NULL;
	uint16_t ip_port;
	int error = check_ask(client, args, &path);

	if (error == 0)
		error = listener_port(client, args->listener, &path.src, &ip_port);
	if (error == 0)
		error = resolution_new(client, &r);
	if (error != 0)
		return error;
	path.flow_label = (uint32_t)control_random() & 0xfffff;
	conn_mark(client->port, client, &path);
	if (args->traffic_class_given != 0)
		path.traffic_class = args->traffic_class;
	r->traffic_class = path.traffic_class;
	r->query = sidr_ask(client->port->sidr, &path, args->service, ip_port, args->private_data,
			    args->private_len, r, control.now);
	if (r->query == NULL) {
		resolution_free(r);
		return client_refuse(client, -ENOMEM, ONE_SUBJECT_MEMORY, 0);
	}
	r->cq = object_get(client, OBJECT_CQ, args->cq);
	r->cq->object.users++;
	place_use_cq(r->cq, false);
	client->reply.id.id = r->object.id;
	return 0;
}

int
resolution_answer(struct client *client, const struct one_msg *msg)
{
	const struct one_sidr_answer *args = &msg->sidr_answer;
	struct resolution *r = object_get(client, OBJECT_SIDR, args->sidr);
	const struct qp *qp = object_get(client, OBJECT_QP, args->qp);

	if (r == NULL || r->cq != NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_CR, args->sidr);
	if (args->private_len > SIDR_PRIVATE_REP)
		return client_refuse(client, -EMSGSIZE, ONE_SUBJECT_LENGTH, SIDR_PRIVATE_REP);
	if (args->qp != 0 && (qp == NULL || !qp->kind->created || !qp->config.ud))
		return client_refuse(client, -EINVAL, ONE_SUBJECT_QP, args->qp);
	if (args->qp != 0 && qp->state != ONE_QP_CONNECTING && qp->state != ONE_QP_CONNECTED)
		return client_refuse(client, -ENOTCONN, ONE_SUBJECT_QP, qp->state);
	if (args->qp == 0)
		sidr_answer(r->query, SIDR_REJECT, 0, 0, args->private_data, args->private_len, control.now);
	else
		sidr_answer(r->query, SIDR_SUCCESS, qp->config.qpn, qp->qkey, args->private_data,
			    args->private_len, control.now);
	resolution_free(r);
	return 0;
}

int
resolution_forget(struct client *client, const struct one_msg *msg)
{
	struct resolution *r = object_get(client, OBJECT_SIDR, msg->id.id);

	if (r == NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_CR, msg->id.id);
	resolution_end(r);
	return 0;
}

/* ---- queries of peers, and answers ---- */

static void
resolution_fill(const struct resolution *r, const struct sidr_remote *remote, uint16_t private_len)
{
	struct one_sidr_shm *shm = shm_of(r);

	shm->id = r->object.id;
	shm->family = addr_from_wire(&remote->path.dst, shm->remote_addr);
	shm->remote_port = remote->ip_port;
	shm->local = (uint16_t)path_addr_number(r->object.client->port, &remote->path.src);
	shm->service = remote->service_id;
	shm->qpn = remote->qpn;
	shm->qkey = remote->qkey;
	shm->traffic_class = r->traffic_class;
	shm->private_len = private_len;
	memcpy(shm->private_data, remote->private_data, private_len);
}

static bool
on_query(struct path_port *port, struct sidr_query *query, const struct sidr_remote *remote)
{
	struct cm_listener *cm = cm_listener_at(port->cm, remote->service_id, &remote->path.src);
	struct listener *listener = cm == NULL ? NULL : cm_listener_user(cm);
	struct one_cqe event = {.type = ONE_CQE_SIDR_REQUEST, .flags = ONE_CQE_NOTIFY};
	struct resolution *r = NULL;
	struct quota_limit limit;

	/* The completion ring is the backlog: without room in the ring the query is refused. */
	if (listener == NULL || listener->later || !client_alive(listener->object.client) ||
	    !cq_has_room(listener->cq) || resolution_new(listener->object.client, &r) != 0)
		return false;
	r->counted = quota_take(&control.quota, listener->object.client->account,
				QUOTA_REQUESTS + port->index, 1, &limit) == 0;
	if (!r->counted) {
		resolution_free(r);
		return false;
	}
	r->query = query;
	sidr_set_user(query, r);
	resolution_fill(r, remote, SIDR_PRIVATE_REQ);
	event.object = listener->object.id;
	event.cookie = r->shm;
	cq_post(listener->cq, NULL, &event);
	return true;
}

bool
resolution_event(struct path_port *port, enum sidr_event_type type, struct sidr_query *query,
		 const struct sidr_remote *remote)
{
	struct resolution *r = sidr_user(query);
	struct one_cqe event = {.type = ONE_CQE_SIDR, .flags = ONE_CQE_NOTIFY};

	if (type == SIDR_REQUESTED)
		return on_query(port, query, remote);
	r->query = NULL;
	if (type == SIDR_ANSWERED)
		resolution_fill(r, remote, SIDR_PRIVATE_REP);
	event.status = type == SIDR_ANSWERED ? remote->status : ONE_SIDR_SILENCE;
	event.object = r->object.id;
	event.cookie = r->shm;
	cq_post(r->cq, NULL, &event);
	return true;
}
