/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands to the cores, and grace periods. */
#include <stdlib.h>

#include "control/attach/client.h"

struct tracked {
	struct engine_command command; /* must be first: the engine returns the command */
	struct client *client;
	command_done *done;
	void *object;
};

struct grace {
	TAILQ_ENTRY(grace) link;
	uint64_t token;
	struct client *client;
	grace_done *done;
	void *object;
};

#define POLL_NS 50000ull /* poll interval of grace periods */
#define AT_ONCE 256u     /* grace periods ended per loop: an attachment may have started tens of thousands */

static TAILQ_HEAD(, grace) graces;
static bool more; /* further grace periods are over */

void
work_init(void)
{
	TAILQ_INIT(&graces);
	more = false;
}

/* Allocates memory, or aborts: without these few hundred bytes resources could not be released in order. */
static void *
must_alloc(size_t size)
{
	void *memory = calloc(1, size);

	if (memory == NULL) {
		log_error("event=memory_out bytes=%zu text=\"the data plane cannot go on\"\n", size);
		abort();
	}
	return memory;
}

static void
tracked_done(struct engine_command *command)
{
	struct tracked *tracked = (struct tracked *)command;
	struct client *client = tracked->client;

	if (tracked->done != NULL)
		tracked->done(command, tracked->object);
	client->commands--;
	free(tracked);
}

struct engine_command *
command_new(struct client *client, enum engine_command_type type, command_done *done, void *object)
{
	struct tracked *tracked = must_alloc(sizeof(*tracked));

	tracked->client = client;
	tracked->done = done;
	tracked->object = object;
	tracked->command.type = type;
	tracked->command.done = tracked_done;
	tracked->command.client = client->engine;
	tracked->command.quiet = done == NULL;
	return &tracked->command;
}

void
command_send(struct engine_command *command)
{
	struct tracked *tracked = (struct tracked *)command;
	int error;

	tracked->client->commands++;
	error = engine_command(command);
	if (error != 0) {
		/* The engine queues without limit, so the command has no object: an internal error. */
		log_error("event=command_refused command=%d error=%d\n", (int)command->type, error);
		abort();
	}
}

void
grace_defer(struct client *client, grace_done *done, void *object)
{
	struct grace *grace = must_alloc(sizeof(*grace));

	grace->token = engine_grace_start();
	grace->client = client;
	grace->done = done;
	grace->object = object;
	client->jobs++;
	TAILQ_INSERT_TAIL(&graces, grace, link);
}

static void
entry_free(struct client *client, void *object)
{
	free(object);
}

void
entry_retire(struct client *client, struct mem_region *entry)
{
	if (entry != NULL)
		grace_defer(client, entry_free, entry);
}

uint64_t
work_deadline(void)
{
	return TAILQ_EMPTY(&graces) ? NEVER : control.now + (more ? 0 : POLL_NS);
}

void
work_poll(void)
{
	struct grace *grace;
	uint32_t done = 0;

	more = false;
	/* Tokens increase: grace periods behind an unfinished one are not over either. */
	while ((grace = TAILQ_FIRST(&graces)) != NULL && engine_grace_over(grace->token)) {
		struct client *client = grace->client;

		more = done++ == AT_ONCE;
		if (more)
			break;
		TAILQ_REMOVE(&graces, grace, link);
		if (grace->done != NULL)
			grace->done(client, grace->object);
		client->jobs--;
		free(grace);
	}
}
