/* SPDX-License-Identifier: BSD-3-Clause */
/* RSM segments: the exporter's side. Ids are unique on the node. Each published segment is a listener. The
 * exporter alone decides on each import, by what the importer's data plane claims about its process and, if
 * they share a secret, proves (admit.c). */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "admit.h"
#include "config/route.h"
#include "control/rsm/rsm.h"

static uint64_t
id_hash(uint32_t id)
{
	return cm_hash(control.segment_secret, id, 0);
}

struct segment *
segment_find(uint32_t id)
{
	struct cm_node *node = cm_table_first(&control.segment_ids, id_hash(id));

	for (; node != NULL; node = cm_table_next(node)) {
		struct segment *segment =
			(struct segment *)(void *)((char *)node - offsetof(struct segment, by_id));

		if (segment->id == id)
			return segment;
	}
	return NULL;
}

static void
set_list(struct acl *acl, const struct one_rsm_publish *args)
{
	acl->default_permission = args->default_permission & 0777;
	acl->num = args->num_access;
	memcpy(acl->entry, args->access, args->num_access * sizeof(acl->entry[0]));
}

static struct segment *
own_segment(struct client *client, uint32_t id)
{
	struct segment *segment = segment_find(id);

	return segment != NULL && segment->client == client ? segment : NULL;
}

/* Removes a segment from the id table and closes its listener, so that no import can begin. */
static void
segment_close(struct segment *segment)
{
	if (segment->cm == NULL)
		return;
	LIST_REMOVE(segment, link);
	cm_table_remove(&control.segment_ids, &segment->by_id);
	segment->mr->segment = NULL;
	cm_unlisten(segment->client->port->cm, segment->cm);
	segment->cm = NULL;
}

struct segment *
segment_new(struct mr *mr, uint32_t id, struct cq *signal_cq)
{
	struct client *client = mr->object.client;
	struct segment *segment = calloc(1, sizeof(*segment));

	if (segment == NULL)
		return NULL;
	segment->id = id;
	segment->cm = cm_listen(client->port->cm, CM_SERVICE_RSM(id), NULL, segment);
	if (segment->cm == NULL) {
		free(segment);
		return NULL;
	}
	segment->client = client;
	segment->mr = mr;
	segment->signal_cq = signal_cq;
	if (signal_cq != NULL)
		signal_cq->object.users++;
	segment->acl.uid = mr->uid;
	segment->acl.gid = mr->gid;
	LIST_INIT(&segment->exports);
	LIST_INSERT_HEAD(&control.segments, segment, link);
	LIST_INSERT_HEAD(&client->segment_list, segment, client_link);
	cm_table_insert(&control.segment_ids, &segment->by_id, id_hash(id));
	mr->segment = segment;
	mr->object.users++;
	client->segments++;
	return segment;
}

int
rsm_publish(struct client *client, const struct one_msg *msg)
{
	const struct one_rsm_publish *args = &msg->rsm_publish;
	struct mr *mr = object_get(client, OBJECT_MR, args->mr);
	struct cq *signal_cq = args->signal_cq == 0 ? NULL : object_get(client, OBJECT_CQ, args->signal_cq);
	struct segment *segment, *other;
	uint32_t id = args->segment;

	if (mr == NULL || !mr_settle(mr))
		return client_refuse(client, RSM_BAD_SEG_HNDL, ONE_SUBJECT_MR, args->mr);
	if (args->signal_cq != 0 && signal_cq == NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_CQ_RECV, args->signal_cq);
	if (mr->segment != NULL)
		return client_refuse(client, RSM_SEG_ALREADY_PUBLISHED, ONE_SUBJECT_MR, args->mr);
	if (id != 0 && acl_segment_id(id) != RSM_OK)
		return client_refuse(client, RSM_RESERVED_SEGID, ONE_SUBJECT_SEGMENT, id);
	if (acl_valid(args->access, args->num_access) != RSM_OK)
		return client_refuse(client, RSM_BAD_ACL, ONE_SUBJECT_ACCESS, args->num_access);
	if (args->copy_at != 0 && (client->bounce == NULL || args->copy_at + mr->length - 1 < args->copy_at))
		return client_refuse(client, -EINVAL, ONE_SUBJECT_ADDRESS, args->copy_at);
	if (id == 0 && control.next_segment > UINT32_MAX)
		return client_refuse(client, RSM_INSUFFICIENT_RESOURCES, ONE_SUBJECT_SEGMENT, UINT32_MAX);
	other = id != 0 ? segment_find(id) : NULL;
	if (other != NULL && client_alive(other->client))
		return client_refuse(client, RSM_SEGID_IN_USE, ONE_SUBJECT_SEGMENT, id);
	if (client->segments >= control.config->limits.max_segments)
		return client_refuse(client, RSM_INSUFFICIENT_RESOURCES, ONE_SUBJECT_QUOTA,
				     control.config->limits.max_segments);
	if (other != NULL) /* its client is being torn down: release the id */
		segment_close(other);
	segment = segment_new(mr, id != 0 ? id : (uint32_t)control.next_segment, signal_cq);
	if (segment == NULL)
		return client_refuse(client, RSM_INSUFFICIENT_MEM, ONE_SUBJECT_MEMORY, 0);
	if (id == 0)
		control.next_segment++;
	segment->mappable = (args->flags & ONE_RSM_MAPPABLE) != 0;
	mr->copy_at = args->copy_at;
	set_list(&segment->acl, args);
	client->reply.rsm.segment = segment->id;
	return 0;
}

int
rsm_republish(struct client *client, const struct one_msg *msg)
{
	const struct one_rsm_publish *args = &msg->rsm_publish;
	struct segment *segment = own_segment(client, args->segment);

	if (segment == NULL)
		return client_refuse(client, RSM_SEG_NOT_PUBLISHED, ONE_SUBJECT_SEGMENT, args->segment);
	if (acl_valid(args->access, args->num_access) != RSM_OK)
		return client_refuse(client, RSM_BAD_ACL, ONE_SUBJECT_ACCESS, args->num_access);
	set_list(&segment->acl, args);
	client->reply.rsm.segment = segment->id;
	return 0;
}

/* Ends the imports of a closed segment. Each import loses access before its importer is notified. True: the
 * segment has left its client's list. False: the slice ended after *most exports. */
static bool
segment_withdraw(struct segment *segment, uint32_t *most)
{
	struct qp *qp;

	for (; (qp = LIST_FIRST(&segment->exports)) != NULL; --*most) {
		if (*most == 0)
			return false;
		export_drop_window(qp);
		share_revoke(qp);
		qp_remove(qp, false);
	}
	LIST_REMOVE(segment, client_link);
	return true;
}

static void
segment_destroy(struct segment *segment)
{
	segment->mr->object.users--;
	if (segment->signal_cq != NULL)
		segment->signal_cq->object.users--;
	segment->client->segments--;
	free(segment);
}

/* The copy thread may still move what imports had begun. */
static void
unpublish_grace_passed(struct client *client, void *object)
{
	const struct segment *segment = object;

	if (client->bounce != NULL && client_alive(client) &&
	    !bounce_passed_all(client->bounce, &segment->copies)) {
		grace_defer(client, unpublish_grace_passed, object);
		return;
	}
	client->reply.rsm.given = segment->given;
	segment_destroy(object);
	client_reply(client, 0);
}

static void
unpublish_done(struct client *client, void *object)
{
	struct segment *segment = object;

	if (client->bounce != NULL && client_alive(client))
		bounce_mark_all(client->bounce, &segment->copies);
	unpublish_grace_passed(client, segment);
}

static bool
unpublish_slice(struct client *client)
{
	struct segment *segment = LIST_FIRST(&client->segment_list);
	uint32_t most = CLIENT_SLICE;

	if (!segment_withdraw(segment, &most))
		return false;
	grace_defer(client, unpublish_done, segment);
	return true;
}

/* Replies when neither a core nor the copy thread can access the memory for an import any more. */
int
rsm_unpublish(struct client *client, const struct one_msg *msg)
{
	const struct one_rsm_publish *args = &msg->rsm_publish;
	struct segment *segment = own_segment(client, args->segment);

	if (segment == NULL)
		return client_refuse(client, RSM_SEG_NOT_PUBLISHED, ONE_SUBJECT_SEGMENT, args->segment);
	segment_close(segment);
	/* unpublish_slice() works on the first segment. No other request of the client can come before the
	 * reply. */
	LIST_REMOVE(segment, client_link);
	LIST_INSERT_HEAD(&client->segment_list, segment, client_link);
	if (!unpublish_slice(client))
		client_slice(client, unpublish_slice);
	return REQUEST_LATER;
}

/* ---- requests of importers ---- */

const struct config_peer *
rsm_peer_at(const struct wire_addr *addr)
{
	for (uint32_t i = 0; i < control.config->num_peers; i++) {
		const struct config_peer *peer = &control.config->peer[i];
		struct wire_addr at;

		addr_to_wire(peer->addr.family, peer->addr.bytes, &at);
		if (wire_addr_equal(&at, addr))
			return peer;
	}
	return NULL;
}

/* Builds the private data of the REP. */
static void
build_grant(const struct segment *segment, const struct qp *qp, uint8_t out[RSM_REP_LEN])
{
	const struct rsm_rep rep = {
		.size = segment->mr->length,
		.addr = segment->mr->va,
		.key = qp->window->key,
		.mode = qp->permission,
		.incarnation = control.incarnation,
		.order = rsm_own_order(),
	};

	rsm_rep_build(&rep, out);
}

void
rsm_request(struct segment *segment, struct conn *conn)
{
	struct rsm_admitted admitted;
	struct qp *qp;
	enum rsm_error error;

	if (!client_alive(segment->client)) {
		conn_reject(conn, CM_REJ_INVALID_SERVICE_ID, NULL, 0);
		return;
	}
	if (!rsm_admit(segment, conn, &admitted))
		return;
	error = acl_check(&segment->acl, &admitted.req.who, admitted.req.permission);
	if (error != RSM_OK) {
		rsm_refuse(conn, error);
		return;
	}
	if (export_qp_new(segment, admitted.req.permission, &qp) != 0) {
		rsm_refuse(conn, RSM_INSUFFICIENT_RESOURCES);
		return;
	}
	build_grant(segment, qp, conn->setup->private_data);
	if (!rsm_admitted_seal(&admitted, conn, qp->config.qpn) ||
	    host_watch(conn, admitted.req.incarnation) != 0) {
		qp_remove(qp, false);
		rsm_refuse(conn, RSM_INSUFFICIENT_RESOURCES);
		return;
	}
	conn_start(conn, qp);
}

/* ---- topology ---- */

/* Returns the state of `addr` in the neighbour table of this port, and fills `info` unless NEIGH_NONE. */
static enum neigh_state
peer_state(const struct path_port *port, const struct wire_addr *addr, struct neigh_info *info)
{
	for (uint32_t i = 0; i < NEIGH_ENTRIES; i++)
		if (neigh_get(control.neigh, i, control.now, info) && info->port == port->index &&
		    wire_addr_equal(&info->addr, addr))
			return info->state;
	return NEIGH_NONE;
}

/* Starts address resolution of a peer. A later peer_state() returns the outcome. */
static void
peer_ask(const struct path_port *port, const struct wire_addr *addr)
{
	uint8_t mac[6];

	neigh_resolve(control.neigh, port->index, addr, control.now, mac, NEIGH_NOBODY, NULL);
}

const struct path_port *
rsm_peer_port(const struct config_peer *peer)
{
	int by = config_port_to(control.config, &peer->addr, peer->port);

	for (uint32_t i = 0; by >= 0 && i < path_num_ports; i++)
		if (&control.config->port[by] == path_port[i].config)
			return &path_port[i];
	return NULL;
}

void
rsm_find_peers(void)
{
	for (uint32_t i = 0; i < control.config->num_peers; i++) {
		const struct config_peer *peer = &control.config->peer[i];
		const struct path_port *port = rsm_peer_port(peer);
		struct wire_addr addr;

		if (port == NULL)
			continue;
		addr_to_wire(peer->addr.family, peer->addr.bytes, &addr);
		peer_ask(port, &addr);
	}
}

static void
fill_peer(const struct path_port *port, const struct config_peer *peer, struct one_rsm_peer *out)
{
	struct neigh_info info;
	struct wire_addr addr;
	enum neigh_state state;

	addr_to_wire(peer->addr.family, peer->addr.bytes, &addr);
	state = peer_state(port, &addr, &info);
	out->node = peer->node;
	out->state = engine_port(port->index)->link_up ? ONE_RSM_PATH_UP : ONE_RSM_PATH_DOWN;
	memcpy(out->name, port->info->name, sizeof(out->name));
	if (state != NEIGH_INCOMPLETE)
		peer_ask(port, &addr); /* also checks that the peer is still there */
	if (state == NEIGH_NONE || state == NEIGH_INCOMPLETE)
		return;
	out->hwaddr = mac_number(info.mac);
	if (out->state == ONE_RSM_PATH_UP)
		out->state = ONE_RSM_PATH_ACTIVE;
}

int
rsm_topology(struct client *client, const struct one_msg *msg)
{
	const struct one_rsm_topology *args = &msg->rsm_topology;
	struct one_rsm_port *out = &client->reply.rsm_port;
	const struct config *config = control.config;
	const struct path_port *port;

	if (args->port >= path_num_ports)
		return client_refuse(client, -ENODEV, ONE_SUBJECT_PORT, path_num_ports);
	port = &path_port[args->port];
	out->num_ports = path_num_ports;
	memcpy(out->name, port->info->name, sizeof(out->name));
	out->hwaddr = mac_number(port->info->mac);
	for (uint32_t i = 0; i < config->num_peers; i++) {
		if (rsm_peer_port(&config->peer[i]) != port)
			continue;
		if (out->num_peers >= args->first && out->num_peers - args->first < ONE_RSM_PEERS)
			fill_peer(port, &config->peer[i], &out->peer[out->num_peers - args->first]);
		out->num_peers++;
	}
	return 0;
}

bool
rsm_leave(struct client *client)
{
	struct segment *segment;
	uint32_t most = CLIENT_SLICE;

	while (most > 0 && (segment = LIST_FIRST(&client->segment_list)) != NULL) {
		segment_close(segment);
		if (!segment_withdraw(segment, &most))
			return false;
		segment_destroy(segment);
		most -= most > 0;
	}
	return LIST_EMPTY(&client->segment_list);
}

/* ---- signals ---- */

/* Signals from an exporter to its importers. Signals from importers are work requests, which bypass the
 * control thread. */

/* Replies when the core has taken the last signal, hence all. This bounds an application's signals in
 * flight. */
static void
signals_sent(struct engine_command *command, void *object)
{
	client_reply(object, 0);
}

int
rsm_signal(struct client *client, const struct one_msg *msg)
{
	const struct one_rsm_signal *args = &msg->rsm_signal;
	struct segment *segment = segment_find(args->segment);
	struct qp *qp, *next;

	if (segment == NULL || segment->client != client)
		return client_refuse(client, RSM_SEG_NOT_PUBLISHED, ONE_SUBJECT_SEGMENT, args->segment);
	if ((args->flags & ~ONE_RSM_ONCE) != 0)
		return client_refuse(client, RSM_BAD_ARGS_ERRORS, ONE_SUBJECT_NONE, args->flags);
	qp = LIST_FIRST(&segment->exports);
	if (qp == NULL)
		return 0;
	for (; qp != NULL; qp = next) {
		struct engine_command *command;

		next = LIST_NEXT(qp, segment_link);
		command = qp_command(qp, ENGINE_QP_SIGNAL, next == NULL ? signals_sent : NULL, client);
		command->event.imm = one_signal(1, (args->flags & ONE_RSM_ONCE) != 0);
		command_send(command);
	}
	return REQUEST_LATER;
}
