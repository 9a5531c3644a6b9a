/* SPDX-License-Identifier: BSD-3-Clause */
/* Event channels.  The descriptor of a channel is readable exactly while its queue has events. */
#include "rdmacm/channel.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

struct channel *
channel_new(void)
{
	struct channel *channel = calloc(1, sizeof(*channel));

	if (channel == NULL)
		return NULL;
	channel->last = &channel->first;
	channel->process = cma_process;
	channel->base.fd = eventfd(0, EFD_CLOEXEC);
	if (channel->base.fd >= 0)
		return channel;
	free(channel);
	return NULL;
}

void
rdma_destroy_event_channel(struct rdma_event_channel *base)
{
	struct channel *channel = (struct channel *)(void *)base;
	struct event *event;

	while ((event = channel->first) != NULL) {
		channel->first = event->next;
		free(event);
	}
	close(channel->base.fd);
	free(channel);
}

/* ---- events ---- */

struct event *
event_new(struct id *id, enum rdma_cm_event_type type, int status)
{
	struct event *event = calloc(1, sizeof(*event));

	if (event == NULL)
		return NULL;
	event->base.id = &id->base;
	event->base.event = type;
	event->base.status = status;
	return event;
}

void
event_private(struct event *event, const uint8_t *data, uint32_t len, uint32_t most)
{
	/* param.ud begins with the same fields. */
	struct rdma_conn_param *param = &event->base.param.conn;

	if (len > most)
		len = most;
	memcpy(event->private_data, data, len);
	param->private_data = len != 0 ? event->private_data : NULL;
	param->private_data_len = (uint8_t)len;
}

void
channel_changed(struct channel *channel)
{
	bool any = channel->first != NULL;
	uint64_t count = 1;
	ssize_t n = 0;

	if (channel->process != cma_process)
		return; /* the descriptor reports the parent's events */
	if (any && !channel->readable)
		n = write(channel->base.fd, &count, sizeof(count));
	else if (!any && channel->readable)
		n = read(channel->base.fd, &count, sizeof(count));
	(void)n; /* the count is 0 or 1, so neither call blocks */
	channel->readable = any;
}

void
event_append(struct channel *channel, struct event *event)
{
	*channel->last = event;
	channel->last = &event->next;
	channel_changed(channel);
	/* Relaxed: pairs with the load in next_event(), and both are made with the lock held. */
	atomic_fetch_add_explicit(&channel->put, 1, memory_order_relaxed);
	syscall(SYS_futex, &channel->put, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void
event_put(struct id *id, struct event *event)
{
	event_append((struct channel *)(void *)id->base.channel, event);
}

struct event *
event_remove(struct channel *channel, const struct id *id)
{
	struct event **link = &channel->first, *event;

	while ((event = *link) != NULL && event->base.id != &id->base && event->base.listen_id != &id->base)
		link = &event->next;
	if (event == NULL)
		return NULL;
	*link = event->next;
	if (event->next == NULL)
		channel->last = link;
	event->next = NULL;
	return event;
}

static struct event *
take_event(struct channel *channel)
{
	struct event *event = channel->first;

	if (event == NULL)
		return NULL;
	channel->first = event->next;
	if (channel->first == NULL)
		channel->last = &channel->first;
	channel_changed(channel);
	/* Acknowledging a request counts for its listener. */
	TO_ID(event->base.listen_id != NULL ? event->base.listen_id : event->base.id)->got++;
	return event;
}

/* Transitions of queue pairs when the application gets an event, in the order of rdma-core.  The CQs show no
 * completion of a connection before the application has got ESTABLISHED.  Receives are flushed when the
 * application gets the end of the connection, or by an earlier rdma_disconnect().  The application itself
 * moves queue pairs that it created without the id. */

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

/* Called when the application gets the event. */
static void
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

/* Waits for an event after `put`.  As in the kernel's rdma_cm, and unlike poll(2), a signal handler that was
 * installed with SA_RESTART does not end the wait; another one does, with EINTR.  A cancellation point if the
 * caller's cancellation `state` enables it. */
static int
wait_for_more(struct channel *channel, uint32_t put, int state)
{
	long ret;
	int type;

	pthread_setcancelstate(state, NULL);
	/* Asynchronous cancellation is safe: the thread holds no lock and no memory here. */
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &type);
	ret = syscall(SYS_futex, &channel->put, FUTEX_WAIT_PRIVATE, put, NULL, NULL, 0);
	pthread_setcanceltype(type, NULL);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return ret < 0 && errno != EAGAIN ? -1 : 0;
}

/* Waits for the next event.  NULL with errno. */
static struct event *
next_event(struct channel *channel, int state)
{
	for (;;) {
		struct event *event;
		uint32_t put;
		int flags;

		pthread_mutex_lock(&cma_lock);
		event = take_event(channel);
		if (event != NULL)
			event_taken(event);
		put = atomic_load_explicit(&channel->put, memory_order_relaxed); /* see event_append() */
		pthread_mutex_unlock(&cma_lock);
		if (event != NULL)
			return event;
		flags = fcntl(channel->base.fd, F_GETFL);
		if (flags >= 0 && (flags & O_NONBLOCK) != 0)
			errno = EAGAIN;
		else if (wait_for_more(channel, put, state) == 0)
			continue;
		return NULL;
	}
}

int
rdma_get_cm_event(struct rdma_event_channel *base, struct rdma_cm_event **out)
{
	struct channel *channel = (struct channel *)(void *)base;
	int error = cma_own(channel->process, "channel", base), state;
	struct event *event;

	if (error != 0)
		return cma_end(__func__, error, base);
	/* A thread that is cancelled must not hold the lock. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	event = next_event(channel, state);
	pthread_setcancelstate(state, NULL);
	if (event == NULL)
		return -1;
	*out = &event->base;
	return 0;
}

int
rdma_ack_cm_event(struct rdma_cm_event *event)
{
	if (event == NULL) {
		refused_because(EINVAL, "event = 0: null is not allowed; give what rdma_get_cm_event stored");
		return cma_end(__func__, EINVAL, NULL);
	}
	pthread_mutex_lock(&cma_lock);
	TO_ID(event->listen_id != NULL ? event->listen_id : event->id)->acked++;
	pthread_cond_broadcast(&cma_acked);
	pthread_mutex_unlock(&cma_lock);
	free(event);
	return 0;
}

const char *
rdma_event_str(enum rdma_cm_event_type event)
{
	static const char *const names[] = {
		"RDMA_CM_EVENT_ADDR_RESOLVED",   "RDMA_CM_EVENT_ADDR_ERROR",
		"RDMA_CM_EVENT_ROUTE_RESOLVED",  "RDMA_CM_EVENT_ROUTE_ERROR",
		"RDMA_CM_EVENT_CONNECT_REQUEST", "RDMA_CM_EVENT_CONNECT_RESPONSE",
		"RDMA_CM_EVENT_CONNECT_ERROR",   "RDMA_CM_EVENT_UNREACHABLE",
		"RDMA_CM_EVENT_REJECTED",        "RDMA_CM_EVENT_ESTABLISHED",
		"RDMA_CM_EVENT_DISCONNECTED",    "RDMA_CM_EVENT_DEVICE_REMOVAL",
		"RDMA_CM_EVENT_MULTICAST_JOIN",  "RDMA_CM_EVENT_MULTICAST_ERROR",
		"RDMA_CM_EVENT_ADDR_CHANGE",     "RDMA_CM_EVENT_TIMEWAIT_EXIT",
	};

	return (size_t)event < sizeof(names) / sizeof(names[0]) ? names[event] : "UNKNOWN EVENT";
}

/* ---- synchronous ids, which the application creates without an event channel: calls wait for their event
 * ---- */

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
