/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous events.
 *
 * async_fd is an epoll set of a channel's socket and of an eventfd.  The eventfd is readable while the list
 * has events that the application has not got, or while the loss of the data plane is not reported.
 * ibv_get_async_event() sleeps on the channel's word, because poll(2) would end with every signal handler.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/wait.h"
#include "verbs/event.h"

struct async_entry {
	struct ibv_async_event event;
	struct element *element; /* NULL: the port */
	struct async_entry *next;
};

static void
signal_eventfd(struct context *context)
{
	uint64_t one = 1;
	ssize_t n = write(context->async_event, &one, sizeof(one));

	(void)n; /* the eventfd is readable even if its counter was full */
}

void
events_lost(void *user)
{
	struct context *context = user;

	pthread_mutex_lock(&context->lock);
	if (!context->fatal_reported)
		signal_eventfd(context);
	pthread_mutex_unlock(&context->lock);
}

int
events_open(struct context *context)
{
	struct ibv_context *base = &context->verbs.context;
	struct epoll_event event = {.events = EPOLLIN};
	uint32_t id;
	int error = one_channel_alloc(context->client, &context->async_channel);

	if (error == 0)
		error = channel_open(context, &id, &context->async_socket);
	if (error != 0)
		return error;
	context->async_last = &context->async_first;
	base->async_fd = epoll_create1(EPOLL_CLOEXEC);
	if (base->async_fd < 0 ||
	    epoll_ctl(base->async_fd, EPOLL_CTL_ADD, context->async_event, &event) != 0 ||
	    epoll_ctl(base->async_fd, EPOLL_CTL_ADD, context->async_socket, &event) != 0)
		return -errno;
	one_cq_async(context->client, &context->async_cq);
	context->async_cq.descriptor = id;
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

/* Returns the queue pair with that id; NULL if it was destroyed. */
static struct element *
find_qp(struct context *context, uint32_t id)
{
	struct qp_name *qp = atomic_load_explicit(&context->qps[id % ONE_QPS_MAX], memory_order_relaxed);

	return qp != NULL && qp->element.id == id ? &qp->element : NULL;
}

/* Converts an entry of the ring to an event; false if its object was destroyed. */
static bool
translate_entry(struct context *context, const struct one_cqe *cqe, struct async_entry *entry)
{
	struct ibv_async_event *event = &entry->event;

	switch ((enum one_async)cqe->status) {
	case ONE_ASYNC_CQ_OVERFLOW:
		event->event_type = IBV_EVENT_CQ_ERR;
		entry->element = element_find(context->cqs, cqe->object);
		break;
	case ONE_ASYNC_QP_ERROR:
		event->event_type = IBV_EVENT_QP_ACCESS_ERR;
		entry->element = find_qp(context, cqe->object);
		break;
	case ONE_ASYNC_SQ_DRAINED:
		event->event_type = IBV_EVENT_SQ_DRAINED;
		entry->element = find_qp(context, cqe->object);
		break;
	case ONE_ASYNC_SRQ_LIMIT:
		event->event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
		entry->element = element_find(context->srqs, cqe->object);
		break;
	case ONE_ASYNC_LINK_UP:
	case ONE_ASYNC_LINK_DOWN:
		event->event_type =
			cqe->status == ONE_ASYNC_LINK_UP ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR;
		event->element.port_num = VERBS_PORT;
		return true;
	}
	if (entry->element == NULL)
		return false;
	event->element.cq = entry->element->object; /* or qp, or srq: a union */
	if (event->event_type == IBV_EVENT_QP_ACCESS_ERR && event->element.qp->srq != NULL)
		event->event_type = IBV_EVENT_QP_LAST_WQE_REACHED;
	return true;
}

/* Moves events from the ring to the list, and arms the ring again; the lock is held. */
static void
collect_events(struct context *context)
{
	struct one_cqe cqe;
	uint32_t ring;

	while (recv(context->async_socket, &ring, sizeof(ring), MSG_DONTWAIT) > 0)
		;
	one_wait_arm(&context->async_cq, context->async_channel, 1);
	while (one_cq_poll(&context->async_cq, &cqe) != 0) {
		struct async_entry found = {0}, *entry;

		if (!translate_entry(context, &cqe, &found))
			continue;
		entry = malloc(sizeof(*entry));
		if (entry == NULL)
			continue;
		*entry = found;
		if (entry->event.event_type == IBV_EVENT_SRQ_LIMIT_REACHED)
			entry->element->limit = 0;
		*context->async_last = entry;
		context->async_last = &entry->next;
	}
}

static bool
fatal_is_due(const struct context *context)
{
	return one_client_dead(context->client) && !context->fatal_reported;
}

/* Makes the eventfd readable and wakes sleepers if an event is left, else drains the eventfd; the lock is
 * held. */
static void
update_eventfd(struct context *context)
{
	uint64_t count;
	ssize_t n = read(context->async_event, &count, sizeof(count));

	(void)n; /* the list decides, not the count */
	if (context->async_first == NULL && !fatal_is_due(context))
		return;
	signal_eventfd(context);
	one_channel_wake(context->client, context->async_channel);
}

/* Takes the next event; the lock is held.  -EAGAIN: no event yet; -EIO: there will be none. */
static int
take_event(struct context *context, struct ibv_async_event *event)
{
	struct async_entry *entry;
	int error = 0;

	collect_events(context);
	entry = context->async_first;
	if (entry != NULL) {
		*event = entry->event;
		if (entry->element != NULL)
			entry->element->async_events++;
		context->async_first = entry->next;
		if (context->async_first == NULL)
			context->async_last = &context->async_first;
		free(entry);
	} else if (fatal_is_due(context)) {
		context->fatal_reported = true;
		event->event_type = IBV_EVENT_DEVICE_FATAL;
		event->element.port_num = 0;
		/* The closed socket would stay readable. */
		epoll_ctl(context->verbs.context.async_fd, EPOLL_CTL_DEL, context->async_socket, NULL);
	} else {
		error = context->fatal_reported ? -EIO : -EAGAIN;
	}
	update_eventfd(context);
	return error;
}

/* Waits like read(2): -EINTR only after signal handlers without SA_RESTART; a cancellation point if the
 * caller's cancellation `state` enables it. */
static int
wait_for_more(struct context *context, uint32_t ticket, int state)
{
	int flags = fcntl(context->verbs.context.async_fd, F_GETFL), error;

	if (flags >= 0 && (flags & O_NONBLOCK) != 0)
		return -EAGAIN;
	pthread_setcancelstate(state, NULL);
	error = one_wait_sleep(context->client, context->async_channel, ticket, UINT64_MAX);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return error == -ECONNRESET ? 0 : error; /* take_event() reports the loss as an event */
}

/* Waits for the next event.  Returns 0 or -errno. */
static int
next_event(struct context *context, struct ibv_async_event *event, int state)
{
	for (;;) {
		uint32_t ticket = one_wait_begin(context->client, context->async_channel);
		int error;

		pthread_mutex_lock(&context->lock);
		error = take_event(context, event);
		pthread_mutex_unlock(&context->lock);
		if (error != -EAGAIN)
			return error;
		error = wait_for_more(context, ticket, state);
		if (error != 0)
			return error;
	}
}

int
ibv_get_async_event(struct ibv_context *base, struct ibv_async_event *event)
{
	int error, state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	error = next_event(context_of(base), event, state);
	pthread_setcancelstate(state, NULL);
	if (error == 0)
		return 0;
	errno = -error;
	return -1;
}

void
events_forget(struct context *context, const struct element *element)
{
	struct async_entry **link = &context->async_first, *entry;

	pthread_mutex_lock(&context->lock);
	collect_events(context);
	while ((entry = *link) != NULL) {
		if (entry->element != element) {
			link = &entry->next;
			continue;
		}
		*link = entry->next;
		free(entry);
	}
	context->async_last = link;
	update_eventfd(context);
	pthread_mutex_unlock(&context->lock);
}

static void
count_acknowledged(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *count)
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
		count_acknowledged(&cq->mutex, &cq->cond, &cq->async_events_completed);
		break;
	case IBV_EVENT_QP_LAST_WQE_REACHED:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_SQ_DRAINED:
		count_acknowledged(&qp->mutex, &qp->cond, &qp->events_completed);
		break;
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		count_acknowledged(&srq->mutex, &srq->cond, &srq->events_completed);
		break;
	default:
		break;
	}
}

/* ---- lists of the objects of events, by the ids that rings name them by ---- */

void
element_add(struct context *context, struct element **list, struct element *element)
{
	pthread_mutex_lock(&context->lock);
	element->next = *list;
	*list = element;
	pthread_mutex_unlock(&context->lock);
}

void
element_remove(struct context *context, struct element **list, struct element *element)
{
	pthread_mutex_lock(&context->lock);
	while (*list != element)
		list = &(*list)->next;
	*list = element->next;
	pthread_mutex_unlock(&context->lock);
}

struct element *
element_find(struct element *list, uint32_t id)
{
	while (list != NULL && list->id != id)
		list = list->next;
	return list;
}

void
element_acknowledged(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *done, uint32_t got)
{
	pthread_mutex_lock(mutex);
	while (*done != got)
		pthread_cond_wait(cond, mutex);
	pthread_mutex_unlock(mutex);
}
