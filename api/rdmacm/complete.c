/* SPDX-License-Identifier: BSD-3-Clause */
/* Synchronous ids, which the application creates without an event channel: calls wait for their event. */
#include "rdmacm/channel.h"

void
channel_drop_event(struct id *id)
{
	if (id->base.event != NULL)
		rdma_ack_cm_event(id->base.event);
	id->base.event = NULL;
}

int
channel_outcome(const struct rdma_cm_event *event, enum rdma_cm_event_type expected)
{
	if (event->event == RDMA_CM_EVENT_REJECTED)
		return ECONNREFUSED;
	if (event->status != 0)
		return event->status < 0 ? -event->status : event->status;
	if (event->event == expected)
		return 0;
	return event->event == RDMA_CM_EVENT_DEVICE_REMOVAL ? ENODEV : ECONNABORTED;
}

static int
complete_call(struct id *id, enum rdma_cm_event_type expected)
{
	int error;

	channel_drop_event(id);
	if (rdma_get_cm_event(id->base.channel, &id->base.event) != 0)
		return -1;
	error = channel_outcome(id->base.event, expected);
	if (error == 0)
		return 0;
	refused_because(error, "id->event = %s, status %d: the peer or the network refused; check the peer",
			rdma_event_str(id->base.event->event), id->base.event->status);
	return fail(error);
}

int
channel_end(const char *function, struct id *id, int error, enum rdma_cm_event_type expected)
{
	if (error != 0 || !id->sync)
		return cma_end(function, error, &id->base);
	return cma_result(function, complete_call(id, expected), &id->base);
}
