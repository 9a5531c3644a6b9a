/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Transitions of queue pairs when the application gets an event, in the order of rdma-core.  The CQs show no
 * completion of a connection before the application has got ESTABLISHED.  Receives are flushed when the
 * application gets the end of the connection, or by an earlier rdma_disconnect().  The application itself
 * moves queue pairs that it created without the id.
 */
#include "rdmacm/channel.h"

/* Ignores errors: if the connection has ended, the next event reports its end. */
static void
confirm_connection(struct id *id)
{
	struct one_msg msg = {.type = ONE_MSG_QP_CONFIRM, .id.id = id->qp};

	if (!id->connecting)
		return;
	verbs_cm_connected(id->base.qp, id->peer_qpn);
	verbs_cm_call(id->base.verbs, &msg, NULL);
}

static void
flush_queue_pair(struct id *id)
{
	struct one_msg msg = {.type = ONE_MSG_QP_DISCONNECT, .qp_disconnect.qp = id->qp};

	if (!id->disconnecting)
		verbs_cm_call(id->base.verbs, &msg, NULL);
}

void
event_taken(const struct event *event)
{
	struct id *id = TO_ID(event->base.id);

	if (id->qp == 0 || id->base.qp == NULL)
		return;
	switch (event->base.event) {
	case RDMA_CM_EVENT_ESTABLISHED:
		confirm_connection(id);
		break;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_DISCONNECTED:
		flush_queue_pair(id);
		break;
	default:
		break;
	}
}
