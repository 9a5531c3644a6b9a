/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels whose descriptor works with poll(2).  The descriptor is a socket on which the data plane sends one
 * packet, with the ring's id, for each arm that it serves. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "verbs/refused.h"
#include "verbs/event.h"

int
channel_open(struct context *context, uint32_t *id, int *fd)
{
	struct one_msg msg = {.type = ONE_MSG_CHANNEL_OPEN};
	struct one_reply reply;
	int error = one_call_fd(context->client, &msg, &reply, fd);

	if (error == -EMFILE) /* the data plane opened the channel, but its descriptor did not fit here */
		one_call_id(context->client, ONE_MSG_CHANNEL_CLOSE, reply.id.id);
	else if (error == 0 && *fd < 0)
		error = -EPROTO;
	if (error == 0)
		*id = reply.id.id;
	return error;
}

/* Reads the id of a ring.  Returns 0 or -errno; -EINTR, as with the kernel's verbs, only after signal
 * handlers without SA_RESTART. */
static int
read_ring(int fd, uint32_t *ring, int flags)
{
	ssize_t n = recv(fd, ring, sizeof(*ring), flags);

	if (n == (ssize_t)sizeof(*ring))
		return 0;
	return n < 0 ? -errno : -EIO; /* EIO: the connection to the data plane is lost */
}

/* ---- completion channels ---- */

struct ibv_comp_channel *
ibv_create_comp_channel(struct ibv_context *base)
{
	struct comp_channel *channel = calloc(1, sizeof(*channel));
	int error =
		channel == NULL ? -ENOMEM : channel_open(context_of(base), &channel->id, &channel->base.fd);

	if (error != 0) {
		free(channel);
		return refused_null("ibv_create_comp_channel", error == -EDQUOT ? ENOMEM : -error, "context",
				    base);
	}
	channel->base.context = base;
	return &channel->base;
}

int
ibv_destroy_comp_channel(struct ibv_comp_channel *base)
{
	struct comp_channel *channel = TO(comp_channel, base);
	struct context *context = context_of(base->context);
	int users, error;

	pthread_mutex_lock(&context->lock);
	users = base->refcnt;
	pthread_mutex_unlock(&context->lock);
	if (users != 0)
		return refused_explain("ibv_destroy_comp_channel", EBUSY, "channel", base);
	error = one_call_id(context->client, ONE_MSG_CHANNEL_CLOSE, channel->id);
	if (error != 0 && error != -ECONNRESET)
		return refused_explain("ibv_destroy_comp_channel", -error, "channel", base);
	close(base->fd);
	free(channel);
	return 0;
}

/* Invariant: the descriptor is readable exactly while the application can get an event, so the first packet
 * never names a destroyed ring.  Only threads with the context's lock take packets: the peeked packet is
 * still the first one when it is read. */
static void
drop_stale(struct context *context, struct comp_channel *channel)
{
	int fd = channel->base.fd, error = 0;
	uint32_t ring;

	while (channel->stale && (error = read_ring(fd, &ring, MSG_DONTWAIT | MSG_PEEK)) == 0 &&
	       element_find(context->cqs, ring) == NULL)
		read_ring(fd, &ring, MSG_DONTWAIT);
	if (error != 0)
		channel->stale = false;
}

void
channel_forget_ring(struct context *context, struct ibv_comp_channel *base)
{
	struct comp_channel *channel = TO(comp_channel, base);

	pthread_mutex_lock(&context->lock);
	channel->stale = true;
	drop_stale(context, channel);
	pthread_mutex_unlock(&context->lock);
}

/* Takes the next event without waiting.  Returns 0 or -errno; *found is NULL if its ring was destroyed. */
static int
take_cq_event(struct context *context, struct comp_channel *channel, struct element **found)
{
	uint32_t ring;
	int error;

	pthread_mutex_lock(&context->lock);
	error = read_ring(channel->base.fd, &ring, MSG_DONTWAIT);
	*found = error == 0 ? element_find(context->cqs, ring) : NULL;
	if (*found != NULL)
		(*found)->comp_events++;
	drop_stale(context, channel);
	pthread_mutex_unlock(&context->lock);
	return error;
}

/* Waits for a packet and leaves it there; with O_NONBLOCK returns at once.  A cancellation point if the
 * caller's cancellation `state` enables it. */
static int
wait_for_ring(int fd, int state)
{
	uint32_t ring;
	int error;

	pthread_setcancelstate(state, NULL);
	error = read_ring(fd, &ring, MSG_PEEK);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return error;
}

int
ibv_get_cq_event(struct ibv_comp_channel *base, struct ibv_cq **cq, void **cq_context)
{
	struct context *context = context_of(base->context);
	struct element *found = NULL;
	int error = 0, state;

	/* A thread that is cancelled must not hold the lock. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	while (found == NULL && error == 0) {
		error = take_cq_event(context, TO(comp_channel, base), &found);
		if (error == -EAGAIN)
			error = wait_for_ring(base->fd, state);
	}
	pthread_setcancelstate(state, NULL);
	if (error != 0) {
		errno = -error;
		return -1;
	}
	*cq = found->object;
	*cq_context = (*cq)->cq_context;
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
