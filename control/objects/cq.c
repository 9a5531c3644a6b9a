/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion rings.
 */
#include <errno.h>
#include <stdlib.h>

#include "control/objects/objects.h"

#define OLD_RINGS 64u /* that the application has not read to the end: more are not made meanwhile */

static uint64_t
ring_size(uint32_t log2)
{
	return sizeof(struct one_cq_shm) + (sizeof(struct one_cqe) << log2);
}

/* So many that those asked for always fit: see engine_cq_config.log2. */
static int
ring_log2(struct client *client, uint32_t entries, uint32_t *log2)
{
	uint32_t max = control.config->limits.max_cq_entries;

	if (entries == 0)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_COUNT, entries);
	if (entries > max)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_QUOTA, max);
	/* At most ONE_RING_LOG2_MAX: so the limit is checked when it is read. */
	for (*log2 = 2; (3u << (*log2 - 2)) - 1 < entries;)
		++*log2;
	return 0;
}

static struct engine_command *
cq_command(struct cq *cq, enum engine_command_type type, command_done *done, void *object)
{
	struct engine_command *command = command_new(cq->object.client, type, done, object);

	command->cq = cq->engine;
	return command;
}

int
cq_start(struct client *client, uint32_t log2, struct cq **out, command_done *done)
{
	struct cq *cq = object_new(client, OBJECT_CQ, sizeof(*cq));
	struct engine_cq_config config = {.log2 = log2, .async_cq = cq_engine(client->async_cq)};

	if (cq == NULL)
		return object_refuse_new(client, OBJECT_CQ);
	if (client_alloc(client, ring_size(log2), &cq->offset) != 0) {
		object_free(cq);
		return -EDQUOT;
	}
	cq->log2 = log2;
	config.id = cq->object.id;
	config.offset = cq->offset;
	cq->engine = engine_cq_new(client->engine, &config);
	if (cq->engine == NULL) {
		cq_destroy(cq);
		return client_refuse(client, -ENOMEM, ONE_SUBJECT_MEMORY, 0);
	}
	*out = cq;
	command_send(cq_command(cq, ENGINE_CQ_ADD, done, cq));
	return 0;
}

static void
describe(struct client *client, const struct cq *cq)
{
	client->reply.cq = (struct one_cq_created){
		.cq = cq->object.id,
		.log2 = cq->log2,
		.offset = cq->offset,
	};
}

int
cq_create(struct client *client, const struct one_msg *msg)
{
	uint32_t entries = msg->cq_create.entries;
	struct cq *cq;
	uint32_t log2 = 0;
	int error = ring_log2(client, entries, &log2);

	if (error == 0)
		error = cq_start(client, log2, &cq, object_added);
	if (error != 0)
		return error;
	describe(client, cq);
	return REQUEST_LATER;
}

/* Old rings that the application says it has read to the end (lying harms only itself), or all. */
static void
free_old_rings(struct cq *cq, bool all)
{
	struct client *client = cq->object.client;
	struct old_ring **link = &cq->old, *old;

	while ((old = *link) != NULL) {
		const struct one_cq_shm *shm = (const struct one_cq_shm *)(client->arena.base + old->offset);

		/* Acquire pairs with the library's release store after it has read the last entry. */
		if (!all && atomic_load_explicit(&shm->head, memory_order_acquire) !=
				    atomic_load_explicit(&shm->tail, memory_order_relaxed)) {
			link = &old->next;
			continue;
		}
		*link = old->next;
		cq->num_old--;
		client_free(client, old->offset, ring_size(old->log2));
		free(old);
	}
}

struct resize {
	struct cq *cq;
	struct old_ring *old; /* what is to be replaced */
	uint64_t offset;
	uint32_t log2;
};

static void
cq_resized(struct engine_command *command, void *object)
{
	struct resize *resize = object;
	struct cq *cq = resize->cq;
	struct client *client = cq->object.client;

	cq->object.busy = false;
	if (command->status != 0) {
		client_free(client, resize->offset, ring_size(resize->log2));
		free(resize->old);
		client_reply(client, client_refuse(client, command->status, ONE_SUBJECT_MEMORY, 0));
	} else {
		*resize->old = (struct old_ring){cq->old, cq->offset, cq->log2};
		cq->old = resize->old;
		cq->num_old++;
		cq->offset = resize->offset;
		cq->log2 = resize->log2;
		describe(client, cq);
		client_reply(client, 0);
	}
	free(resize);
}

int
cq_resize_request(struct client *client, const struct one_msg *msg)
{
	const struct one_cq_resize *args = &msg->cq_resize;
	struct cq *cq = object_get(client, OBJECT_CQ, args->cq);
	struct engine_command *command;
	struct resize *resize;
	uint64_t offset;
	uint32_t log2 = 0;
	int error;

	if (cq == NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_CQ_SEND, args->cq);
	error = ring_log2(client, args->entries, &log2);
	if (error != 0)
		return error;
	free_old_rings(cq, false);
	if (cq->num_old >= OLD_RINGS)
		return client_refuse_limit(client, &(struct quota_limit){OLD_RINGS, ""});
	error = client_alloc(client, ring_size(log2), &offset);
	if (error != 0)
		return error;
	resize = malloc(sizeof(*resize));
	if (resize != NULL)
		*resize = (struct resize){cq, malloc(sizeof(struct old_ring)), offset, log2};
	if (resize == NULL || resize->old == NULL) {
		free(resize);
		client_free(client, offset, ring_size(log2));
		return client_refuse(client, -ENOMEM, ONE_SUBJECT_MEMORY, 0);
	}
	cq->object.busy = true;
	command = cq_command(cq, ENGINE_CQ_RESIZE, cq_resized, resize);
	command->cq_config.offset = offset;
	command->cq_config.log2 = log2;
	command_send(command);
	return REQUEST_LATER;
}

void
cq_destroy(struct cq *cq)
{
	struct client *client = cq->object.client;

	free_old_rings(cq, true);
	engine_cq_free(cq->engine);
	client_free(client, cq->offset, ring_size(cq->log2));
	if (client->async_cq == cq)
		client->async_cq = NULL;
	object_free(cq);
}

int
cq_free(struct client *client, const struct one_msg *msg)
{
	const struct cq *async = client->async_cq;

	if (async != NULL && async->object.id == msg->id.id)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_CQ_SEND, msg->id.id);
	return object_free_request(client, msg);
}

void
cq_remove(struct cq *cq, command_done *done)
{
	command_send(cq_command(cq, ENGINE_CQ_REMOVE, done, cq));
}

/* By what the application has stored; an honest one never takes more than there was. */
bool
cq_has_room(const struct cq *cq)
{
	const struct one_cq_shm *shm =
		(const struct one_cq_shm *)(cq->object.client->arena.base + cq->offset);
	/* Of the library's store of what it has taken, and the core's in cq_publish: only numbers are
	 * compared. */
	uint32_t taken = atomic_load_explicit(&shm->head, memory_order_relaxed);
	uint32_t stored = atomic_load_explicit(&shm->tail, memory_order_relaxed);
	/* Entries are there before the tail covers them: the application may be ahead of it. */
	int32_t waiting = (int32_t)(stored - taken);

	return (waiting > 0 ? (uint32_t)waiting : 0) + cq->posts < (1u << cq->log2) - 1;
}

static void
cq_posted(struct engine_command *command, void *object)
{
	struct cq *cq = object;

	cq->posts--;
	cq->object.users--;
}

void
cq_post(struct cq *cq, const struct one_cqe *event)
{
	struct engine_command *command = cq_command(cq, ENGINE_CQ_POST, cq_posted, cq);

	cq->posts++;
	cq->object.users++;
	command->quiet = true; /* the count is looked at after what the core has said */
	command->event = *event;
	command_send(command);
}
