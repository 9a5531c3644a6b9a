/* SPDX-License-Identifier: BSD-3-Clause */
/* RSM imports: the importer's side. */
#include <errno.h>
#include <string.h>

#include "control/attach/identity.h"
#include "admit.h"
#include "control/rsm/rsm.h"

#define PATIENCE 4u /* keep-alive times until a connect is given up */

/* Finds the address of a node's data plane, if `port` leads to it. */
static bool
find_node(const struct path_port *port, uint32_t node, struct wire_addr *out)
{
	for (uint32_t i = 0; i < control.config->num_peers; i++) {
		const struct config_peer *peer = &control.config->peer[i];

		if (peer->node != node || rsm_peer_port(peer) != port)
			continue;
		addr_to_wire(peer->addr.family, peer->addr.bytes, out);
		return true;
	}
	return false;
}

static void
build_request(struct conn *conn, const struct client *client, const struct one_rsm_connect *args,
	      const struct segment *segment)
{
	struct rsm_req req = {
		.who.node = control.config->node,
		.segment = args->segment,
		.permission = args->permission,
		.order = rsm_own_order(),
		.incarnation = control.incarnation,
	};
	const struct config_peer *peer = rsm_peer_at(&conn->path.dst);

	identity_fill(&req.who, &client->sender, client->num_fds > 0 ? client->fds[0] : -1,
		      segment == NULL ? NULL : &segment->acl);
	req.secret = peer != NULL && peer->secret[0] != NULL;
	rsm_req_build(&req, conn->setup->claims);
	memcpy(conn->setup->private_data, conn->setup->claims, RSM_REQ_LEN);
	conn->setup->private_len = RSM_REQ_LEN;
}

static void
import_added(struct engine_command *command, void *object)
{
	struct qp *qp = object;
	struct client *client = qp->object.client;
	const struct one_rsm_connect args = client->msg.rsm_connect;
	const struct segment *segment = NULL;
	struct conn *conn;

	qp->added = command->status == 0;
	if (!qp->added) {
		qp_destroy(qp);
		client_reply(client, client_refuse(client, command->status, ONE_SUBJECT_MEMORY, 0));
		return;
	}
	qp->object.busy = false;
	conn = client_alive(client) ? conn_new(client->port, false) : NULL;
	if (conn == NULL) {
		qp_remove(qp, false);
		client_reply(client, client_refuse(client, -ENOMEM, ONE_SUBJECT_MEMORY, 0));
		return;
	}
	qp->permission = args.permission;
	conn->service = CM_SERVICE_RSM(args.segment);
	conn->path.port = client->port->index;
	conn->path.src = client->port->info->addr[0];
	if (args.node == control.config->node) {
		/* The exporter may use another of our ports; the port that the client uses does not answer
		 * for it. */
		segment = segment_find(args.segment);
		conn->path.dst = (segment == NULL ? client->port : segment->client->port)->info->addr[0];
	} else {
		find_node(client->port, args.node, &conn->path.dst);
		path_source(client->port, 0, &conn->path.dst, &conn->path.src);
		if (control.config->keepalive_ms != 0)
			conn->deadline = control.now + PATIENCE * control.config->keepalive_ms * NS_PER_MS;
	}
	build_request(conn, client, &args, segment);
	conn_start(conn, qp);
	qp_describe(client, qp);
	client_reply(client, 0);
}

int
rsm_connect(struct client *client, const struct one_msg *msg)
{
	const struct one_rsm_connect *args = &msg->rsm_connect;
	struct cq *cq = object_get(client, OBJECT_CQ, args->cq);
	struct cq *signal_cq = args->signal_cq == 0 ? NULL : object_get(client, OBJECT_CQ, args->signal_cq);
	struct pz *pz = object_get(client, OBJECT_PZ, args->pz);
	struct wire_addr addr;
	struct qp *qp;
	int error;

	if (control.draining)
		return client_refuse(client, -EDQUOT, ONE_SUBJECT_QUOTA, 0);
	if (cq == NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_CQ_SEND, args->cq);
	if (args->signal_cq != 0 && (signal_cq == NULL || signal_cq == cq))
		return client_refuse(client, -EINVAL, ONE_SUBJECT_CQ_RECV, args->signal_cq);
	if (pz == NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_PZ, args->pz);
	if ((args->permission & ~(ACL_READ | ACL_WRITE)) != 0)
		return client_refuse(client, RSM_PERM_DENIED, ONE_SUBJECT_ACCESS, args->permission);
	if (args->node != control.config->node) {
		if ((args->flags & ONE_RSM_LOOPBACK) != 0)
			return client_refuse(client, RSM_CTLR_NOT_PRESENT, ONE_SUBJECT_ADDRESS, args->node);
		if (!find_node(client->port, args->node, &addr))
			return client_refuse(client, RSM_REMOTE_NODE_UNREACHABLE, ONE_SUBJECT_ADDRESS,
					     args->node);
	}
	error = import_qp_new(client, pz, cq, signal_cq, args->max_send_wr, import_added, &qp);
	return error == 0 ? REQUEST_LATER : error;
}

int
rsm_disconnect(struct client *client, const struct one_msg *msg)
{
	uint32_t id = msg->id.id;
	struct qp *qp = object_get(client, OBJECT_QP, id);

	if (qp == NULL || qp->kind != &import_kind)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_QP, id);
	qp_remove(qp, true);
	return REQUEST_LATER;
}

enum rsm_error
import_reply(struct conn *conn)
{
	struct one_qp_shm *shm = qp_shm(conn->qp);
	struct rsm_rep rep;
	enum rsm_error error;

	if (!rsm_rep_parse(conn->setup->remote.private_data, conn->setup->remote.private_len, &rep))
		return RSM_BAD_DRIVER_VERSION;
	error = import_check_proof(conn);
	if (error != RSM_OK)
		return error;
	shm->rsm_addr = rep.addr;
	shm->rsm_size = rep.size;
	shm->rsm_key = rep.key;
	shm->rsm_flags = rep.order == rsm_own_order() ? 0 : ONE_RSM_SWAP;
	return host_watch(conn, rep.incarnation) == 0 ? RSM_OK : RSM_INSUFFICIENT_MEM;
}

enum rsm_error
import_error(enum one_conn_event event)
{
	if (event == ONE_CONN_ESTABLISHED)
		return RSM_OK;
	return event == ONE_CONN_UNREACHABLE || event == ONE_CONN_TIMED_OUT ? RSM_REMOTE_NODE_UNREACHABLE
									    : RSM_CONN_ABORTED;
}

enum rsm_error
import_rejected(const struct conn *conn, uint16_t reason, const uint8_t *data)
{
	struct rsm_rej rej;

	switch (reason) {
	case CM_REJ_CONSUMER:
		/* No RSM reason: the segment was unpublished after the request arrived. */
		if (!rsm_rej_parse(data, CM_PRIVATE_REJ, &rej))
			return RSM_INTERRUPTED;
		import_unproven(conn, rej.why);
		return (enum rsm_error)rej.code;
	case CM_REJ_INVALID_SERVICE_ID:
		return RSM_SEG_NOT_PUBLISHED;
	case CM_REJ_NO_QP:
	case CM_REJ_NO_RESOURCES:
		return RSM_INSUFFICIENT_RESOURCES;
	default:
		return RSM_CONN_ABORTED;
	}
}
