/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Channels that wake the application by a descriptor, which it can pass to poll(2).
 *
 * The descriptor is one end of a socket pair, not an eventfd or a pipe: whatever the application does to its
 * end, a non-blocking send on a core's end never waits.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/attach/reaper.h"
#include "control/attach/passing.h"
#include "control/objects/objects.h"

struct channel {
	struct object object;
	int fd;                /* the data plane's end */
	command_done *removed; /* called when no core sends to the channel any more */
};

static struct engine_command *
channel_command(struct channel *channel, int fd, command_done *done)
{
	struct engine_command *command =
		command_new(channel->object.client, ENGINE_CHANNEL_FD, done, channel);

	command->channel.id = channel->object.id;
	command->channel.fd = fd;
	return command;
}

/* Returns 0, or the refusal. */
static int
channel_new(struct client *client, struct channel **out)
{
	struct channel *channel = object_new(client, OBJECT_CHANNEL, sizeof(*channel));
	struct quota_limit limit;

	if (channel == NULL)
		return object_refuse_new(client, OBJECT_CHANNEL);
	if (quota_take(&control.quota, client->account, QUOTA_CHANNELS, 1, &limit) != 0) {
		object_free(channel);
		return client_refuse_limit(client, &limit);
	}
	channel->fd = -1;
	*out = channel;
	return 0;
}

int
channel_open(struct client *client, const struct one_msg *msg)
{
	const int on = 1;
	struct channel *channel = NULL;
	int ends[2], error = channel_new(client, &channel);

	if (error != 0)
		return error;
	if (!engine_client_channels(client->engine)) {
		channel_destroy(channel);
		return client_refuse(client, -ENOMEM, ONE_SUBJECT_MEMORY, 0);
	}
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
		error = -errno;
		channel_destroy(channel);
		return client_refuse(client, error, ONE_SUBJECT_MEMORY, 0);
	}
	/* Refuse data from the application, which nobody would read, and a filter on its end, which would run
	 * on the core. */
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

/* The first lane's core no longer has the socket.  Cores of other lanes may still be sending in their current
 * loops. */
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

/* ---- take-over ---- */

void
channel_write(struct channel *channel, struct pass_out *out)
{
	uint64_t *fd = record_append(&out->records, RECORD_CHANNEL, 1, channel->object.id, sizeof(*fd));

	if (fd != NULL)
		*fd = pass_fd(out, channel->fd);
}

int
channel_read(struct client *client, struct pass_in *in)
{
	struct channel *channel;
	struct quota_limit limit;
	struct record record;
	uint64_t fd;

	pass_take(in, RECORD_CHANNEL, &record);
	channel = object_new_as(client, OBJECT_CHANNEL, sizeof(*channel), (uint32_t)record.head.id);
	if (channel == NULL || record.head.version != 1 || record.head.length != sizeof(fd) ||
	    quota_take(&control.quota, client->account, QUOTA_CHANNELS, 1, &limit) != 0)
		return pass_refuse(in, "a channel is not valid, or a limit is too low");
	memcpy(&fd, record.bytes, sizeof(fd));
	channel->fd = pass_take_fd(in, fd);
	if (channel->fd < 0 || !engine_client_channels(client->engine))
		return pass_refuse(in, "a channel has no socket");
	engine_channel_set(client->engine, channel->object.id, channel->fd);
	channel->object.busy = false;
	return 0;
}
