/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Channels whose wake-ups come by a descriptor, so that the application can use poll(2).
 *
 * It is one end of a pair of sockets, and not an eventfd or a pipe: whatever an application does to its
 * end, a core that sends without waiting is never made to wait.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/attach/reaper.h"
#include "control/objects/objects.h"

struct channel {
	struct object object;
	uint32_t number;
	int fd;                /* our end */
	command_done *removed; /* called when no core sends to it any more */
};

static struct engine_command *
channel_command(struct channel *channel, int fd, command_done *done)
{
	struct engine_command *command =
		command_new(channel->object.client, ENGINE_CHANNEL_FD, done, channel);

	command->channel.number = channel->number;
	command->channel.fd = fd;
	return command;
}

static struct channel *
channel_of_number(struct client *client, uint32_t number)
{
	const struct table *table = &client->table[OBJECT_CHANNEL];

	for (uint32_t i = 0; i < table->size; i++) {
		struct channel *channel = table_at(table, i);

		if (channel != NULL && channel->number == number)
			return channel;
	}
	return NULL;
}

static struct channel *
channel_new(struct client *client, uint32_t number)
{
	struct channel *channel = object_new(client, OBJECT_CHANNEL, sizeof(*channel));
	uint64_t limit;

	if (channel == NULL) {
		object_refuse_new(client, OBJECT_CHANNEL);
		return NULL;
	}
	if (quota_take(&control.quota, client->account, QUOTA_CHANNELS, 1, &limit) != 0) {
		object_free(channel);
		client_refuse(client, -EDQUOT, ONE_SUBJECT_QUOTA, limit);
		return NULL;
	}
	channel->number = number;
	channel->fd = -1;
	return channel;
}

int
channel_open(struct client *client, const struct one_msg *msg)
{
	uint32_t number = msg->channel_open.channel;
	const int on = 1;
	struct channel *channel;
	int ends[2];

	if (number == 0 || number >= ONE_CHANNELS)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_CHANNEL, number);
	if (channel_of_number(client, number) != NULL)
		return client_refuse(client, -EBUSY, ONE_SUBJECT_CHANNEL, number);
	channel = channel_new(client, number);
	if (channel == NULL)
		return -EDQUOT;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
		int error = -errno;

		channel_destroy(channel);
		return client_refuse(client, error, ONE_SUBJECT_MEMORY, 0);
	}
	/* What the application would send has nowhere to go, and a filter on its end would run on the core.
	 */
	shutdown(ends[0], SHUT_RD);
	setsockopt(ends[1], SOL_SOCKET, SO_LOCK_FILTER, &on, sizeof(on));
	channel->fd = ends[0];
	client->reply_fd = ends[1];
	client->reply.id.id = channel->object.id;
	command_send(channel_command(channel, channel->fd, object_added));
	return REQUEST_LATER;
}

static void
channel_quiet(struct client *client, void *object)
{
	struct channel *channel = object;

	channel->removed(NULL, channel);
}

/* The first lane's core has let go of it; others may be sending in their current loops. */
static void
channel_let_go(struct engine_command *command, void *object)
{
	struct channel *channel = object;

	if (channel->removed == NULL)
		return;
	if (engine_lane_next(channel->object.client->engine) == NULL)
		channel->removed(command, channel);
	else
		grace_defer(channel->object.client, channel_quiet, channel);
}

void
channel_remove(struct channel *channel, command_done *done)
{
	struct engine_command *command = channel_command(channel, -1, channel_let_go);

	channel->removed = done;
	command->quiet = done == NULL;
	command_send(command);
}

void
channel_destroy(struct channel *channel)
{
	struct client *client = channel->object.client;

	if (channel->fd >= 0)
		reaper_close_socket(client->uid, channel->fd);
	quota_give(&control.quota, client->account, QUOTA_CHANNELS, 1);
	object_free(channel);
}
