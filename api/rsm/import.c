/* SPDX-License-Identifier: BSD-3-Clause */
/* Import segments. The data plane connects a queue pair for each; the exporter's data plane decides about the
 * rights. */
#include "client/wait.h"
#include "rsm/link.h"
#include "rsm/segment_object.h"
#include "rsm/transfer.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* CQ entries for the outcome of the connect and the loss, beyond those of transfers. */
#define EXTRA_CQES 8u
#define NODES_MAX 64u

static void
disconnect_qp(struct rsm_import *import)
{
	one_call_id(import->link->client, ONE_MSG_RSM_DISCONNECT, import->qp.id);
}

/* Frees what connect_segment() made. */
static void
free_parts(struct rsm_import *import)
{
	if (import->cq.client != NULL)
		one_cq_free(&import->cq);
	if (import->events.counter.client != NULL)
		rsm_events_close(&import->events);
	free(import->ops);
}

static int
request_connect(struct rsm_import *import, uint32_t node, uint32_t segment, uint32_t permission)
{
	struct one_msg msg = {.type = ONE_MSG_RSM_CONNECT};
	struct one_reply reply;
	int error, pair[2];

	msg.rsm_connect.node = node;
	msg.rsm_connect.segment = segment;
	msg.rsm_connect.permission = permission;
	msg.rsm_connect.cq = import->cq.id;
	msg.rsm_connect.max_send_wr = import->depth;
	msg.rsm_connect.flags = import->link->loopback ? ONE_RSM_LOOPBACK : 0;
	msg.rsm_connect.pz = import->link->pz;
	msg.rsm_connect.signal_cq = import->events.counter.id;
	/* The socket attests the current groups of this thread: the data plane reads them from the kernel. */
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return rsm_error(-errno);
	error = one_call(import->link->client, &msg, pair, 1, &reply);
	close(pair[0]);
	close(pair[1]);
	if (error != 0)
		return rsm_error(error);
	error = one_qp_attach(import->link->client, &reply.qp, import->depth, 0, &import->qp);
	if (error != 0) {
		import->qp.id = reply.qp.qp;
		disconnect_qp(import);
		return RSMERR_INTERNAL_ERROR;
	}
	error = rsm_wait_answer(import);
	if (error == 0 && import->outcome == RSM_SUCCESS)
		return RSM_SUCCESS;
	disconnect_qp(import);
	return error != 0 ? rsm_error(error) : import->outcome;
}

static int
connect_segment(struct rsm_import *import, uint32_t node, uint32_t segment, uint32_t permission)
{
	const struct one_limits *limits = &one_client_info(import->link->client)->limits;
	int error;

	import->permission = permission;
	import->depth = limits->max_qp_wr < RSM_SEND_WR ? limits->max_qp_wr : RSM_SEND_WR;
	if (import->depth + EXTRA_CQES > limits->max_cq_entries)
		import->depth =
			limits->max_cq_entries > 2 * EXTRA_CQES ? limits->max_cq_entries - EXTRA_CQES : 1;
	while (import->ops_mask + 1 < import->depth)
		import->ops_mask = 2 * import->ops_mask + 1;
	import->ops = calloc(import->ops_mask + 1, sizeof(*import->ops));
	if (import->ops == NULL)
		return RSMERR_INSUFFICIENT_MEM;
	error = rsm_error(one_cq_create(import->link->client, import->depth + EXTRA_CQES, &import->cq));
	if (error == RSM_SUCCESS)
		error = rsm_error(rsm_events_open(&import->events, import->link));
	if (error == RSM_SUCCESS)
		error = request_connect(import, node, segment, permission);
	if (error != RSM_SUCCESS) {
		free_parts(import);
		return error;
	}
	/* The data plane writes these members before the outcome that rsm_wait_answer() takes. */
	import->base = import->qp.shm->rsm_addr;
	import->size = import->qp.shm->rsm_size;
	import->key = import->qp.shm->rsm_key;
	import->swap = (import->qp.shm->rsm_flags & ONE_RSM_SWAP) != 0;
	return RSM_SUCCESS;
}

int
rsm_do_memseg_import_connect(rsmapi_controller_handle_t controller, rsm_node_id_t node_id,
			     rsm_memseg_id_t segment_id, rsm_permission_t perm,
			     rsm_memseg_import_handle_t *im_memseg)
{
	struct rsm_import *import;
	struct rsm_link *link;
	int result;

	if (!rsm_controller_valid(controller))
		return RSMERR_BAD_CTLR_HNDL;
	if (im_memseg == NULL)
		return RSMERR_BAD_SEG_HNDL;
	*im_memseg = NULL;
	if ((perm & ~(rsm_permission_t)RSM_PERM_RDWR) != 0)
		return RSMERR_PERM_DENIED;
	result = rsm_controller_link(controller, &link);
	if (result != RSM_SUCCESS)
		return result;
	if (link->loopback && node_id != one_client_info(link->client)->node_id)
		result = ONE_BECAUSE(
			RSMERR_CTLR_NOT_PRESENT,
			"node_id = %u: loopback reaches its own node, %u, only; use another controller",
			node_id, one_client_info(link->client)->node_id);
	else if (node_id >= NODES_MAX)
		result = RSMERR_REMOTE_NODE_UNREACHABLE;
	import = result == RSM_SUCCESS ? rsm_slot_new(&rsm_imports) : NULL;
	if (import == NULL) {
		rsm_link_put(link);
		return result != RSM_SUCCESS ? result : RSMERR_INSUFFICIENT_RESOURCES;
	}
	import->link = link;
	result = connect_segment(import, node_id, segment_id, perm);
	if (result != RSM_SUCCESS) {
		rsm_slot_drop(&rsm_imports, import);
		rsm_link_put(link);
		return result;
	}
	*im_memseg = rsm_slot_publish(import);
	return RSM_SUCCESS;
}

int
rsm_do_memseg_import_disconnect(rsm_memseg_import_handle_t im_memseg)
{
	struct rsm_import *import;
	enum rsm_found found = rsm_slot_lock(&rsm_imports, im_memseg, (void **)&import);
	struct rsm_link *link;

	if (found == RSM_NONE)
		return RSMERR_BAD_SEG_HNDL;
	if (found == RSM_FOREIGN) { /* the parent owns the attachment */
		rsm_slot_retire(&rsm_imports, import);
		return RSM_SUCCESS;
	}
	if (import->mapped || import->events.polled > 0) {
		int result = import->mapped ? RSMERR_SEG_STILL_MAPPED : RSMERR_POLLFD_IN_USE;

		rsm_slot_unlock(import);
		return result;
	}
	link = import->link;
	/* After the answer the engine no longer accesses staging or registered memory for this import. */
	disconnect_qp(import);
	free_parts(import);
	rsm_stage_put(link, import->stage);
	rsm_slot_retire(&rsm_imports, import);
	one_channel_wake(link->client, link->channel); /* wakes threads that wait for its signals */
	rsm_link_put(link);
	return RSM_SUCCESS;
}
