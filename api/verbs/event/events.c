/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Events of completion channels and asynchronous events, each by a descriptor that poll(2) takes.
 *
 * A completion channel's is the data plane's socket: a packet for each ring that was armed.  async_fd is
 * an epoll set of such a socket, and of an eventfd that is readable while there are events that were
 * taken from the ring and not yet got, or the data plane has gone.
 */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "verbs/base/calls.h"

struct async_entry {
	struct ibv_async_event event;
	uint32_t *got; /* of its object */
	struct async_entry *next;
};

int
channel_open(struct context *context, uint16_t *number, uint32_t *id, int *fd)
{
	struct one_msg msg = {.type = ONE_MSG_CHANNEL_OPEN};
	struct one_reply reply;
	int error = one_channel_alloc(context->client, number);

	if (error != 0)
		return error;
	msg.channel_open.channel = *number;
	error = one_call_fd(context->client, &msg, &reply, fd);
	if (error == 0 && *fd < 0)
		error = -EPROTO;
	if (error != 0) {
		one_channel_free(context->client, *number);
		return error;
	}
	*id = reply.id.id;
	return 0;
}

/* The id of a ring: 0, or -errno. */
static int
read_ring(int fd, uint32_t *ring)
{
	ssize_t n;

	do
		n = recv(fd, ring, sizeof(*ring), 0);
	while (n < 0 && errno == EINTR);
	if (n == (ssize_t)sizeof(*ring))
		return 0;
	return n < 0 ? -errno : -EIO; /* EIO: the data plane has gone */
}

void
wait_acknowledged(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *done, uint32_t got)
{
	pthread_mutex_lock(mutex);
	while (*done != got)
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}

/* ---- completion channels ---- */

struct ibv_comp_channel *
ibv_create_comp_channel(struct ibv_context *base)
{
	struct comp_channel *channel = calloc(1, sizeof(*channel));
	int error;

	if (channel == NULL)
		return NULL;
	error = channel_open(context_of(base), &channel->number, &channel->id, &channel->base.fd);
	if (error != 0) {
		free(channel);
		errno = error == -EDQUOT || error == -ENOSPC ? ENOMEM : -error;
		return NULL;
	}
	channel->base.context = base;
	return &channel->base;
}

int
ibv_destroy_comp_channel(struct ibv_comp_channel *base)
{
	struct comp_channel *channel = TO(comp_channel, base);
	struct context *context = context_of(base->context);
	struct one_msg msg = {.type = ONE_MSG_CHANNEL_CLOSE};
	int users, error;

	pthread_mutex_lock(&context->lock);
	users = base->refcnt;
	pthread_mutex_unlock(&context->lock);
	if (users != 0)
		return EBUSY;
	msg.id.id = channel->id;
	error = one_call(context->client, &msg, NULL, 0, NULL);
	if (error != 0 && error != -ECONNRESET)
		return -error;
	one_channel_free(context->client, channel->number);
	close(base->fd);
	free(channel);
	return 0;
}

static struct cq *
cq_by_id(struct context *context, uint32_t id)
{
	struct cq *cq = context->cqs;

	while (cq != NULL && cq->ring.id != id)
		cq = cq->next;
	return cq;
}

int
ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct context *context = context_of(channel->context);
	struct cq *found = NULL;
	uint32_t id;

	while (found == NULL) {
		int got = read_ring(channel->fd, &id);

		if (got < 0) {
			errno = -got;
			return -1;
		}
		pthread_mutex_lock(&context->lock);
		found = cq_by_id(context, id); /* NULL: destroyed meanwhile */
		if (found != NULL)
			found->comp_events++;
		pthread_mutex_unlock(&context->lock);
	}
	*cq = &found->base;
	*cq_context = found->base.cq_context;
	return 0;
}

void
ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	pthread_mutex_lock(&cq->mutex);
	cq->comp_events_completed += nevents;
	pthread_cond_signal(&cq->cond);
	pthread_mutex_unlock(&cq->mutex);
}

/* ---- asynchronous events ---- */

static void
say(struct context *context)
{
	uint64_t one = 1;
	ssize_t n = write(context->async_event, &one, sizeof(one));

	(void)n; /* a full counter is readable all the same */
}

void
events_lost(void *user)
{
	struct context *context = user;

	/* Pairs with the acquire load in take_event(). */
	atomic_store_explicit(&context->lost, true, memory_order_release);
	say(context);
}

int
events_open(struct context *context)
{
	struct ibv_context *base = &context->verbs.context;
	struct epoll_event event = {.events = EPOLLIN};
	uint32_t id;
	int error = channel_open(context, &context->async_channel, &id, &context->async_socket);

	if (error != 0)
		return error;
	context->async_last = &context->async_first;
	base->async_fd = epoll_create1(EPOLL_CLOEXEC);
	if (base->async_fd < 0 ||
	    epoll_ctl(base->async_fd, EPOLL_CTL_ADD, context->async_event, &event) != 0 ||
	    epoll_ctl(base->async_fd, EPOLL_CTL_ADD, context->async_socket, &event) != 0)
		return -errno;
	one_cq_async(context->client, &context->async_cq);
	one_wait_arm(&context->async_cq, context->async_channel, 1);
	return 0;
}

void
events_close(struct context *context)
{
	int fds[] = {context->verbs.context.async_fd, context->async_event, context->async_socket};
	struct async_entry *entry;

	for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	while ((entry = context->async_first) != NULL) {
		context->async_first = entry->next;
		free(entry);
	}
}

/* What an entry of the ring is to the application; false: nothing, or its object has gone. */
static bool
translate(struct context *context, const struct one_cqe *cqe, struct async_entry *entry)
{
	struct ibv_async_event *event = &entry->event;
	struct qp *qp;
	struct cq *cq;
	struct srq *srq;

	switch ((enum one_async)cqe->status) {
	case ONE_ASYNC_CQ_OVERFLOW:
		cq = cq_by_id(context, cqe->object);
		event->event_type = IBV_EVENT_CQ_ERR;
		event->element.cq = cq != NULL ? &cq->base : NULL;
		if (cq != NULL)
			entry->got = &cq->async_events;
		return cq != NULL;
	case ONE_ASYNC_QP_ERROR:
	case ONE_ASYNC_SQ_DRAINED:
		qp = atomic_load_explicit(&context->qps[cqe->object % ONE_QPS_MAX], memory_order_relaxed);
		if (qp == NULL || qp->ring.id != cqe->object)
			return false;
		event->event_type = cqe->status == ONE_ASYNC_SQ_DRAINED ? IBV_EVENT_SQ_DRAINED
				    : qp->base.srq != NULL              ? IBV_EVENT_QP_LAST_WQE_REACHED
									: IBV_EVENT_QP_ACCESS_ERR;
		event->element.qp = &qp->base;
		entry->got = &qp->async_events;
		return true;
	case ONE_ASYNC_SRQ_LIMIT:
		srq = context->srqs;
		while (srq != NULL && srq->ring.id != cqe->object)
			srq = srq->next;
		event->event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
		event->element.srq = srq != NULL ? &srq->base : NULL;
		if (srq != NULL) {
			srq->limit = 0;
			entry->got = &srq->async_events;
		}
		return srq != NULL;
	}
	return false;
}

/* From the ring to the list; with the lock held. */
static void
collect(struct context *context)
{
	struct one_cqe cqe;
	uint32_t ring;

	while (recv(context->async_socket, &ring, sizeof(ring), MSG_DONTWAIT) > 0)
		;
	one_wait_arm(&context->async_cq, context->async_channel, 1);
	while (one_cq_poll(&context->async_cq, &cqe) != 0) {
		struct async_entry *entry = calloc(1, sizeof(*entry));

		if (entry == NULL || !translate(context, &cqe, entry)) {
			free(entry);
			continue;
		}
		*context->async_last = entry;
		context->async_last = &entry->next;
	}
}

/* The next event, with the lock held.  The eventfd is readable while there are more. */
static bool
take_event(struct context *context, struct ibv_async_event *event)
{
	struct async_entry *entry;
	uint64_t count;
	ssize_t n = read(context->async_event, &count, sizeof(count));
	bool found = true;

	(void)n; /* whatever it said, we look */
	collect(context);
	entry = context->async_first;
	if (entry != NULL) {
		*event = entry->event;
		++*entry->got;
		context->async_first = entry->next;
		if (context->async_first == NULL)
			context->async_last = &context->async_first;
		free(entry);
	} else if (atomic_load_explicit(&context->lost, memory_order_acquire) && !context->fatal_told) {
		context->fatal_told = true;
		event->event_type = IBV_EVENT_DEVICE_FATAL;
		event->element.port_num = 0;
		/* Its end of file would be readable for ever. */
		epoll_ctl(context->verbs.context.async_fd, EPOLL_CTL_DEL, context->async_socket, NULL);
	} else {
		found = false;
	}
	if (context->async_first != NULL ||
	    (atomic_load_explicit(&context->lost, memory_order_relaxed) && !context->fatal_told))
		say(context);
	return found;
}

int
ibv_get_async_event(struct ibv_context *base, struct ibv_async_event *event)
{
	struct context *context = context_of(base);

	for (;;) {
		struct pollfd look = {.fd = base->async_fd, .events = POLLIN};
		bool found;
		int flags;

		pthread_mutex_lock(&context->lock);
		found = take_event(context, event);
		pthread_mutex_unlock(&context->lock);
		if (found)
			return 0;
		flags = fcntl(base->async_fd, F_GETFL);
		if (flags >= 0 && (flags & O_NONBLOCK) != 0) {
			errno = EAGAIN;
			return -1;
		}
		if (poll(&look, 1, -1) < 0)
			return -1;
	}
}

void
events_forget(struct context *context, const void *object)
{
	struct async_entry **link = &context->async_first, *entry;

	pthread_mutex_lock(&context->lock);
	collect(context);
	while ((entry = *link) != NULL) {
		if (entry->event.element.cq != object) {
			link = &entry->next;
			continue;
		}
		*link = entry->next;
		free(entry);
	}
	context->async_last = link;
	if (context->async_first != NULL)
		say(context);
	pthread_mutex_unlock(&context->lock);
}

static void
acknowledge(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *count)
{
	pthread_mutex_lock(mutex);
	++*count;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

void
ibv_ack_async_event(struct ibv_async_event *event)
{
	struct ibv_cq *cq = event->element.cq;
	struct ibv_qp *qp = event->element.qp;
	struct ibv_srq *srq = event->element.srq;

	switch (event->event_type) {
	case IBV_EVENT_CQ_ERR:
		acknowledge(&cq->mutex, &cq->cond, &cq->async_events_completed);
		break;
	case IBV_EVENT_QP_LAST_WQE_REACHED:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_SQ_DRAINED:
		acknowledge(&qp->mutex, &qp->cond, &qp->events_completed);
		break;
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		acknowledge(&srq->mutex, &srq->cond, &srq->events_completed);
		break;
	default:
		break;
	}
}
