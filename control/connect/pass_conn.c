/* SPDX-License-Identifier: BSD-3-Clause */
/* Listeners, connections and connection requests in a take-over. */
#include <errno.h>
#include <stdlib.h>

#include "control/attach/passing.h"
#include "control/connect/peer.h"
#include "control/objects/pass.h"
#include "control/objects/place.h"

#define VALUE(of, member) RECORD_FIELD(of, member, RECORD_VALUE, 0, NULL)
#define FLAG(of, member) RECORD_FIELD(of, member, RECORD_VALUE, 2, NULL)
#define TIME(of, member) RECORD_FIELD(of, member, RECORD_TIME, 0, NULL)

/* ---- names ---- */

static struct client *
client_of(uint64_t number)
{
	static struct client *last; /* most connections follow one of the same client */
	struct client *client;

	if (last != NULL && last->number == number)
		return last;
	TAILQ_FOREACH(client, &control.clients, link)
		if (client->number == number && client->state == CLIENT_ATTACHED)
			break;
	last = client;
	return client;
}

static uint64_t
name_of_any(const void *pointer, const struct record_context *context)
{
	const struct object *object = pointer;

	return (uint64_t)object->client->number << 32 | object->id;
}

static void *
find_qp(uint64_t name, const struct record_context *context)
{
	struct client *client = client_of(name >> 32);

	/* Exports are busy for requests. */
	return client == NULL ? NULL : table_get(&client->table[OBJECT_QP], (uint32_t)name);
}

static const struct record_naming any_qp = {name_of_any, find_qp};

static uint64_t
name_client(const void *pointer, const struct record_context *context)
{
	return ((const struct client *)pointer)->number + 1ull;
}

static void *
find_client(uint64_t name, const struct record_context *context)
{
	return client_of(name - 1);
}

static const struct record_naming any_client = {name_client, find_client};

/* An account by its user. */
static uint64_t
name_account(const void *pointer, const struct record_context *context)
{
	return ((const struct quota_account *)pointer)->uid + 1ull;
}

static void *
find_account(uint64_t name, const struct record_context *context)
{
	struct quota_account *account;

	LIST_FOREACH(account, &control.quota.accounts, link)
		if (account->uid + 1ull == name)
			break;
	return account;
}

static const struct record_naming any_account = {name_account, find_account};

/* Something is there, which the reader makes: the pointer is only a mark until then. */
static uint64_t
name_presence(const void *pointer, const struct record_context *context)
{
	return 1;
}

static void *
find_presence(uint64_t name, const struct record_context *context)
{
	static char mark;

	return name == 1 ? &mark : NULL;
}

static const struct record_naming presence = {name_presence, find_presence};

/* ---- forms ---- */

static const struct record_field listener_fields[] = {
	RECORD_FIELD(listener, cm, RECORD_NAME, 0, &presence),
	RECORD_FIELD(listener, cq, RECORD_NAME, 0, &pass_object[OBJECT_CQ]),
	VALUE(listener, service),
	FLAG(listener, scope.only_v4),
	FLAG(listener, scope.only_v6),
	FLAG(listener, scope.only_addr),
	FLAG(listener, scope.shared),
	VALUE(listener, scope.addr),
	FLAG(listener, once),
	FLAG(listener, later),
};
static RECORD_FORM(listener_form, RECORD_LISTENER, 1, listener_fields);

static const struct record_field conn_fields[] = {
	RECORD_FIELD(conn, state, RECORD_VALUE, CONN_OVER + 1, NULL),
	FLAG(conn, passive),
	RECORD_FIELD(conn, port, RECORD_NAME, 0, &attachment_port),
	RECORD_FIELD(conn, qp, RECORD_NAME, 0, &any_qp),
	RECORD_FIELD(conn, cm, RECORD_NAME, 0, &presence),
	RECORD_FIELD(conn, cr, RECORD_NAME, 0, &presence),
	RECORD_FIELD(conn, setup, RECORD_NAME, 0, &presence),
	RECORD_FIELD(conn, charged, RECORD_NAME, 0, &any_account),
	RECORD_FIELD(conn, path_user.port, RECORD_NAME, 0, &presence),
	FLAG(conn, out_of_band),
	FLAG(conn, stepwise),
	FLAG(conn, unconfirmed),
	VALUE(conn, peer_qpn),
	FLAG(conn, has_peer),
	FLAG(conn, peer_oneside),
	FLAG(conn, peer_steered),
	VALUE(conn, peer_steering.core),
	VALUE(conn, peer_steering.udp_port),
	VALUE(conn, local.steering.core),
	VALUE(conn, local.steering.udp_port),
	VALUE(conn, local.qpn),
	VALUE(conn, local.psn),
	VALUE(conn, local.rd_atomic_in),
	VALUE(conn, local.rd_atomic_out),
	VALUE(conn, local.rnr_retry),
	VALUE(conn, local.retry_count),
	VALUE(conn, local.ack_timeout),
	FLAG(conn, local.srq),
	VALUE(conn, local.path_mtu),
	VALUE(conn, local.link_mtu),
	VALUE(conn, path),
	VALUE(conn, mac),
	VALUE(conn, service),
	VALUE(conn, ip_port),
	TIME(conn, deadline),
	TIME(conn, retry_at),
	VALUE(conn, timer.place), /* 0: no timer is set */
	VALUE(conn, attempts),
	RECORD_FIELD(conn, qpn, RECORD_VALUE, 1u << 24, NULL),
	RECORD_FIELD(conn, reported, RECORD_NAME, 0, &any_client),
	VALUE(conn, reported_qp),
	VALUE(conn, reported_cq),
	VALUE(conn, refusal),
	VALUE(conn, unacknowledged),
	RECORD_FIELD(conn, host, RECORD_NAME, 0, &presence),
	VALUE(conn, incarnation),
};
static RECORD_FORM(conn_form, RECORD_CONN, 1, conn_fields);

static const struct record_field setup_fields[] = {
	VALUE(conn_setup, remote.qpn),
	VALUE(conn_setup, remote.psn),
	VALUE(conn_setup, remote.rd_atomic_in),
	VALUE(conn_setup, remote.rd_atomic_out),
	VALUE(conn_setup, remote.rnr_retry),
	VALUE(conn_setup, remote.retry_count),
	VALUE(conn_setup, remote.ack_timeout),
	VALUE(conn_setup, remote.path_mtu),
	VALUE(conn_setup, remote.link_mtu),
	VALUE(conn_setup, remote.path),
	VALUE(conn_setup, remote.guid),
	VALUE(conn_setup, remote.service_id),
	VALUE(conn_setup, remote.ip_port),
	FLAG(conn_setup, remote.rdma_cm),
	FLAG(conn_setup, remote.oneside),
	VALUE(conn_setup, remote.capabilities),
	VALUE(conn_setup, remote.steering.core),
	VALUE(conn_setup, remote.steering.udp_port),
	RECORD_FIELD(conn_setup, remote.private_len, RECORD_VALUE, CM_PRIVATE_REP + 1, NULL),
	VALUE(conn_setup, remote.private_data),
	VALUE(conn_setup, asked),
	RECORD_FIELD(conn_setup, private_len, RECORD_VALUE, CM_PRIVATE_REP + 1, NULL),
	VALUE(conn_setup, private_data),
	VALUE(conn_setup, claims),
};
static RECORD_FORM(setup_form, RECORD_SETUP, 1, setup_fields);

static const struct record_field cr_fields[] = {
	RECORD_FIELD(cr, object.client, RECORD_NAME, 0, &any_client),
	VALUE(cr, shm),
};
static RECORD_FORM(cr_form, RECORD_CR, 1, cr_fields);

/* ---- the old process ---- */

const char *
conns_obstacle(void)
{
	const struct conn *conn;

	TAILQ_FOREACH(conn, &control.conns, link) {
		if (conn->commands != 0 || conn->state == CONN_RESOLVING || conn->exchanged != NULL)
			return "it is being established";
	}
	return TAILQ_EMPTY(&control.dead) ? NULL : "it is ending";
}

void
listeners_write(struct client *client, struct pass_out *out)
{
	const struct table *table = &client->table[OBJECT_LISTENER];

	for (uint32_t i = 0; i < table->size; i++) {
		const struct listener *listener = table_at(table, i);

		if (listener != NULL)
			record_put(&out->records, &listener_form, listener->object.id, listener,
				   &out->context);
	}
}

static void
conn_write(const struct conn *conn, struct pass_out *out)
{
	record_put(&out->records, &conn_form, conn->local.qpn, conn, &out->context);
	if (conn->setup != NULL)
		record_put(&out->records, &setup_form, conn->local.qpn, conn->setup, &out->context);
	if (conn->cr != NULL)
		record_put(&out->records, &cr_form, conn->cr->object.id, conn->cr, &out->context);
	if (conn->cm != NULL)
		cm_conn_write(conn->cm, &out->records, out->context.now);
}

void
conns_write(struct pass_out *out)
{
	const struct conn *conn;

	TAILQ_FOREACH(conn, &control.conns, link)
		conn_write(conn, out);
	for (uint32_t i = 0; i < path_num_ports; i++)
		cm_rest_write(path_port[i].cm, &out->records, out->context.now);
}

/* ---- the new process ---- */

static int
listener_read(struct client *client, struct pass_in *in)
{
	struct listener *listener =
		object_new_as(client, OBJECT_LISTENER, sizeof(*listener), (uint32_t)in->record.head.id);
	bool listens;
	uint64_t id;

	if (listener == NULL || pass_get(in, &listener_form, listener, &id) != 0 || listener->cq == NULL)
		return pass_refuse(in, "a listener is not valid, or a limit is too low");
	listens = listener->cm != NULL;
	listener->cm = NULL;
	listener->object.busy = false;
	if (listens)
		return listener_resume(listener) == 0 ? 0
						      : pass_refuse(in, "service %#llx is taken",
								    (unsigned long long)listener->service);
	client->listening += !listener->later;
	listener->cq->object.users++;
	place_use_cq(listener->cq, false);
	return 0;
}

int
listeners_read(struct client *client, struct pass_in *in)
{
	return pass_each(client, in, RECORD_LISTENER, listener_read);
}

static int
setup_read(struct conn *conn, struct pass_in *in)
{
	uint64_t id;

	return pass_get(in, &setup_form, conn->setup, &id);
}

static int
cr_read(struct conn *conn, struct pass_in *in)
{
	struct cr image = {.conn = conn}, *cr;
	struct client *client;
	uint64_t id;

	if (pass_get(in, &cr_form, &image, &id) != 0)
		return -EINVAL;
	client = image.object.client;
	if (client == NULL || image.shm > ONE_ARENA_SIZE - sizeof(struct one_cr_shm))
		return pass_refuse(in, "a connection request is not valid");
	cr = object_new_as(client, OBJECT_CR, sizeof(*cr), (uint32_t)id);
	if (cr == NULL)
		return pass_refuse(in, "connection request %#llx: its id is taken", (unsigned long long)id);
	cr->shm = image.shm;
	cr->conn = conn;
	cr->object.busy = false;
	conn->cr = cr;
	return 0;
}

static int
cm_read(struct path_port *port, struct conn *user, struct pass_in *in)
{
	struct cm_conn *cm;
	struct record record;

	if (pass_take(in, RECORD_CM, &record) != 0)
		return -EINVAL;
	if (port == NULL && record.head.id < path_num_ports)
		port = &path_port[record.head.id];
	cm = port == NULL ? NULL : cm_conn_read(port->cm, &record, user, control.now);
	if (cm == NULL)
		return pass_refuse(in, "a connection of the connection manager is not valid");
	if (user != NULL)
		user->cm = cm;
	return 0;
}

/* True if the connection has what its state needs: timers, and events of its ends, rely on it.  A connection
 * that resolves, or for which a command is under way, is not passed on. */
static bool
has_its_ends(const struct conn *conn, bool has_cm, bool has_cr)
{
	const struct qp *qp = conn->qp;

	if (qp != NULL && (has_cr || qp->config.ud || (conn->stepwise && qp->conn_cq == NULL)))
		return false;
	switch (conn->state) {
	case CONN_OVER:
		return true;
	case CONN_OFFERED:
		return has_cr && has_cm;
	case CONN_WAITING:
		return qp != NULL && has_cm == conn->passive && !conn->out_of_band;
	case CONN_UP:
		return qp != NULL && has_cm != conn->out_of_band;
	default:
		return qp != NULL && has_cm && !conn->out_of_band;
	}
}

/* Enters the connection into lists, indexes, quotas and timers. */
static int
conn_enter(struct conn *conn, bool has_peer, bool is_watched, bool has_timer, struct pass_in *in)
{
	struct quota_account *charged = conn->charged;

	if (conn->qp != NULL && conn->qp->conn != NULL)
		return pass_refuse(in, "queue pair %#x has two connections", conn->qp->config.qpn);
	if (conn->qp != NULL)
		conn->qp->conn = conn;
	if (has_peer)
		conn_peer_enter(conn);
	if (is_watched)
		conn_resolved(conn, conn->mac);
	if (conn->qpn != 0)
		qpn_occupy(conn->qpn);
	conn->charged = NULL;
	if (charged != NULL && !conn_charge(conn, charged))
		return pass_refuse(in, "more connection requests wait than a limit allows");
	if (conn->reported != NULL) {
		conn->reported_lane = conn->reported->engine;
		LIST_INSERT_HEAD(&conn->reported->timewaits, conn, reported_link);
	}
	if (has_timer)
		conn_wait(conn);
	return 0;
}

/* The keep-alive of an RSM connection goes on. */
static int
host_resume(struct conn *conn, struct pass_in *in)
{
	struct qp *qp = conn->qp;

	return qp != NULL && qp->kind->resumed != NULL && qp->kind->resumed(conn) == 0
		       ? 0
		       : pass_refuse(in, "a connection is kept alive that is not of RSM, or no memory");
}

static int
conn_read(struct pass_in *in)
{
	struct conn *conn = conn_new(&path_port[0], false);
	bool has_peer, is_watched, has_cm, has_cr, has_setup, has_timer, has_host;
	struct conn_setup *setup;
	uint64_t id;
	int error;

	if (conn == NULL)
		return pass_refuse(in, "no memory");
	setup = conn->setup;
	error = pass_get(in, &conn_form, conn, &id);
	if (error != 0 || conn->port == NULL || conn->state == CONN_RESOLVING)
		return pass_refuse(in, "a connection is not valid");
	has_peer = conn->has_peer;
	is_watched = conn->path_user.port != NULL;
	has_cm = conn->cm != NULL;
	has_cr = conn->cr != NULL;
	has_setup = conn->setup != NULL;
	conn->setup = setup;
	if (!has_its_ends(conn, has_cm, has_cr))
		return pass_refuse(in, "a connection lacks an end that its state needs");
	/* Parameters are used until the ends are connected. */
	if (!has_setup && !conn->out_of_band && conn->state < CONN_UP)
		return pass_refuse(in, "a connection that is being made has no parameters");
	has_timer = conn->timer.place != 0;
	has_host = conn->host != NULL;
	conn->host = NULL;
	conn->timer.place = 0;
	conn->has_peer = false;
	conn->path_user.port = NULL;
	conn->cm = NULL;
	conn->cr = NULL;
	if (has_setup) {
		error = setup_read(conn, in);
	} else {
		free(setup);
		conn->setup = NULL;
	}
	if (error == 0 && has_cr)
		error = cr_read(conn, in);
	if (error == 0 && has_cm)
		error = cm_read(conn->port, conn, in);
	if (error == 0)
		error = conn_enter(conn, has_peer, is_watched, has_timer, in);
	return error == 0 && has_host ? host_resume(conn, in) : error;
}

int
conns_read(struct pass_in *in)
{
	int error = 0;

	while (error == 0 && pass_is(in, RECORD_CONN))
		error = conn_read(in);
	while (error == 0 && pass_is(in, RECORD_CM))
		error = cm_read(NULL, NULL, in);
	return error;
}
