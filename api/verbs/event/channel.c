/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Channels with a descriptor that poll(2) takes: it is the data plane's socket, on which comes a packet for
 * each ring that was armed.
 */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "verbs/base/refused.h"
#include "verbs/event/event.h"

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

/* ---- completion channels ---- */

struct ibv_comp_channel *
ibv_create_comp_channel(struct ibv_context *base)
{
	struct comp_channel *channel = calloc(1, sizeof(*channel));
	int error;

	if (channel == NULL)
		return refused_null("ibv_create_comp_channel", ENOMEM, "context", base);
	error = channel_open(context_of(base), &channel->number, &channel->id, &channel->base.fd);
	if (error != 0) {
		free(channel);
		return refused_null("ibv_create_comp_channel",
				    error == -EDQUOT || error == -ENOSPC ? ENOMEM : -error, "context", base);
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
		return refused_tell("ibv_destroy_comp_channel", EBUSY, "channel", base);
	msg.id.id = channel->id;
	error = one_call(context->client, &msg, NULL, 0, NULL);
	if (error != 0 && error != -ECONNRESET)
		return refused_tell("ibv_destroy_comp_channel", -error, "channel", base);
	one_channel_free(context->client, channel->number);
	close(base->fd);
	free(channel);
	return 0;
}

int
ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	struct context *context = context_of(channel->context);
	struct element *found = NULL;
	uint32_t id;

	while (found == NULL) {
		int got = read_ring(channel->fd, &id);

		if (got < 0) {
			errno = -got;
			return -1;
		}
		pthread_mutex_lock(&context->lock);
		found = element_find(context->cqs, id); /* NULL: destroyed meanwhile */
		if (found != NULL)
			found->comp_events++;
		pthread_mutex_unlock(&context->lock);
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
