/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What follows when an application takes an event, in the order of rdma-core: nothing of a connection is seen
 * on the queue pair's completion rings before ESTABLISHED has been taken, and receives are flushed when its
 * end has been taken, or by rdma_disconnect() before.  Queue pairs that the application has made itself it
 * moves itself.
 */
#include "rdmacm/channel/channel.h"

/* The connection may have ended meanwhile: the next event says so. */
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
