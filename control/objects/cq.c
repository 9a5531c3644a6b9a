/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion rings. */
#include <errno.h>
#include <stdlib.h>

#include "control/objects/place.h"

#define OLD_RINGS 64u /* limit of old rings that the application has not read to the end */

uint64_t
cq_ring_size(uint32_t log2)
{
	return sizeof(struct one_cq_shm) + (sizeof(struct one_cqe) << log2);
}

/* Computes a ring size at which `entries` entries always fit: see engine_cq_config.log2. */
static int
ring_log2(struct client *client, uint32_t entries, uint32_t *log2)
{
	uint32_t max = control.config->limits.max_cq_entries;

	if (entries == 0)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_COUNT, entries);
	if (entries > max)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_QUOTA, max);
	/* The result is at most ONE_RING_LOG2_MAX, because the configuration bounds max_cq_entries. */
	for (*log2 = 2; (3u << (*log2 - 2)) - 1 < entries;)
		++*log2;
	return 0;
}

struct cq_ring *
cq_ring_at(struct cq *cq, uint32_t number)
{
	return number == 0 ? &cq->first : &cq->more[number - 1];
}

static struct cq_ring *
ring_of_lane(const struct cq *cq, const struct engine_client *lane)
{
	for (uint32_t i = 0; i < cq->num_rings; i++) {
		struct cq_ring *ring = cq_ring_at((struct cq *)(uintptr_t)cq, i);

		if (ring->lane == lane)
			return ring;
	}
	return NULL;
}

struct engine_cq *
cq_engine(const struct cq *cq, const struct engine_client *lane)
{
	const struct cq_ring *ring = cq == NULL ? NULL : ring_of_lane(cq, lane);

	return ring == NULL ? NULL : ring->engine;
}

static struct engine_command *
cq_command(struct cq *cq, const struct cq_ring *ring, enum engine_command_type type, command_done *done,
	   void *object)
{
	struct engine_command *command = command_new(cq->object.client, type, done, object);

	command->cq = ring->engine;
	return command;
}

static struct one_cq_bundle *
bundle_of(const struct cq *cq)
{
	return (struct one_cq_bundle *)(cq->object.client->arena.base + cq->bundle);
}

static int
ring_make(struct cq *cq, struct engine_client *lane, struct cq_ring *ring, uint32_t number)
{
	struct client *client = cq->object.client;
	const struct engine_cq_config config = {.id = cq->object.id,
						.bundle = cq->bundle,
						.number = number,
						.first = number == 0 ? NULL : cq->first.engine,
						.offset = ring->offset,
						.log2 = cq->entries,
						.async_cq = cq_engine(client->async_cq, lane)};

	ring->lane = lane;
	ring->log2 = cq->entries;
	ring->engine = engine_cq_new(lane, &config);
	return ring->engine == NULL ? client_refuse(client, -ENOMEM, ONE_SUBJECT_MEMORY, 0) : 0;
}

int
cq_start(struct client *client, uint32_t log2, struct cq **out, command_done *done)
{
	struct cq *cq = object_new(client, OBJECT_CQ, sizeof(*cq));
	int error;

	if (cq == NULL)
		return object_refuse_new(client, OBJECT_CQ);
	cq->entries = log2;
	error = client_alloc(client, sizeof(struct one_cq_bundle), &cq->bundle);
	if (error != 0) {
		object_free(cq);
		return error;
	}
	error = client_alloc(client, cq_ring_size(log2), &cq->first.offset);
	if (error == 0) {
		cq->num_rings = 1;
		error = ring_make(cq, client->engine, &cq->first, 0);
	}
	if (error != 0) {
		cq_destroy(cq);
		return error;
	}
	/* Relaxed: nobody knows of the CQ yet. */
	atomic_store_explicit(&bundle_of(cq)->rings, 1, memory_order_relaxed);
	*out = cq;
	command_send(cq_command(cq, &cq->first, ENGINE_CQ_ADD, done, cq));
	return 0;
}

static void
ring_publish(struct cq *cq, const struct cq_ring *ring)
{
	struct one_cq_bundle *bundle = bundle_of(cq);

	/* Pairs with the load in take_up().  The next store orders this one. */
	atomic_store_explicit(&bundle->place[cq->num_rings], one_cq_ring_place(ring->offset, ring->log2),
			      memory_order_relaxed);
	cq->num_rings++;
	/* Pairs with the acquire loads of the library.  The ring's core stores entries only after a command
	 * that is sent later. */
	atomic_store_explicit(&bundle->rings, cq->num_rings, memory_order_release);
}

int
cq_extend(struct cq *cq, struct engine_client *lane)
{
	struct client *client = cq->object.client;
	struct cq_ring *more, *ring;
	int error;

	if (ring_of_lane(cq, lane) != NULL)
		return 0;
	more = cq->num_rings == ONE_LANES_MAX ? NULL : realloc(cq->more, cq->num_rings * sizeof(*more));
	if (more == NULL)
		return -ENOMEM;
	cq->more = more;
	ring = &more[cq->num_rings - 1];
	error = client_alloc(client, cq_ring_size(cq->entries), &ring->offset);
	if (error != 0)
		return error;
	error = ring_make(cq, lane, ring, cq->num_rings);
	if (error != 0) {
		client_free(client, ring->offset, cq_ring_size(cq->entries));
		return error;
	}
	ring_publish(cq, ring);
	command_send(cq_command(cq, ring, ENGINE_CQ_ADD, NULL, NULL));
	return 0;
}

static void
describe_cq(struct client *client, const struct cq *cq, const struct cq_ring *ring)
{
	client->reply.cq = (struct one_cq_created){
		.cq = cq->object.id,
		.log2 = ring->log2,
		.offset = ring->offset,
		.bundle = (uint32_t)cq->bundle,
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
	cq->vector = msg->cq_create.vector;
	describe_cq(client, cq, &cq->first);
	return REQUEST_LATER;
}

/* Frees old rings that the application has read to the end, or all.  A false index harms only the
 * application. */
static void
free_old_rings(struct cq *cq, bool all)
{
	struct client *client = cq->object.client;
	struct old_ring **link = &cq->old, *old;

	while ((old = *link) != NULL) {
		const struct one_cq_shm *shm = (const struct one_cq_shm *)(client->arena.base + old->offset);

		/* Acquire: pairs with the library's release store after reading the last entry. */
		if (!all && atomic_load_explicit(&shm->head, memory_order_acquire) !=
				    atomic_load_explicit(&shm->tail, memory_order_relaxed)) {
			link = &old->next;
			continue;
		}
		*link = old->next;
		cq->num_old--;
		client_free(client, old->offset, cq_ring_size(old->log2));
		free(old);
	}
}

struct resize {
	struct cq *cq;
	uint32_t ring;
	struct old_ring *old; /* records the ring that is replaced */
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
		client_free(client, resize->offset, cq_ring_size(resize->log2));
		free(resize->old);
		client_reply(client, client_refuse(client, command->status, ONE_SUBJECT_MEMORY, 0));
	} else {
		struct cq_ring *ring = cq_ring_at(cq, resize->ring);

		*resize->old = (struct old_ring){cq->old, ring->offset, ring->log2};
		cq->old = resize->old;
		cq->num_old++;
		ring->offset = resize->offset;
		ring->log2 = resize->log2;
		describe_cq(client, cq, ring);
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
	if (args->ring >= cq->num_rings)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_COUNT, cq->num_rings);
	error = ring_log2(client, args->entries, &log2);
	if (error != 0)
		return error;
	free_old_rings(cq, false);
	if (cq->num_old >= OLD_RINGS)
		return client_refuse_limit(client, &(struct quota_limit){OLD_RINGS, ""});
	error = client_alloc(client, cq_ring_size(log2), &offset);
	if (error != 0)
		return error;
	resize = malloc(sizeof(*resize));
	if (resize != NULL)
		*resize = (struct resize){cq, args->ring, malloc(sizeof(struct old_ring)), offset, log2};
	if (resize == NULL || resize->old == NULL) {
		free(resize);
		client_free(client, offset, cq_ring_size(log2));
		return client_refuse(client, -ENOMEM, ONE_SUBJECT_MEMORY, 0);
	}
	cq->object.busy = true;
	cq->entries = log2;
	command = cq_command(cq, cq_ring_at(cq, args->ring), ENGINE_CQ_RESIZE, cq_resized, resize);
	command->cq_config.offset = offset;
	command->cq_config.log2 = log2;
	command_send(command);
	return REQUEST_LATER;
}

void
cq_destroy(struct cq *cq)
{
	struct client *client = cq->object.client;

	place_forget_cq(cq);
	free_old_rings(cq, true);
	for (uint32_t i = 0; i < cq->num_rings; i++) {
		const struct cq_ring *ring = cq_ring_at(cq, i);

		engine_cq_free(ring->engine);
		client_free(client, ring->offset, cq_ring_size(ring->log2));
	}
	client_free(client, cq->bundle, sizeof(struct one_cq_bundle));
	free(cq->more);
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

static void
ring_removed(struct engine_command *command, void *object)
{
	struct cq *cq = object;

	if (--cq->removing == 0 && cq->removed != NULL)
		cq->removed(command, cq);
}

void
cq_remove(struct cq *cq, command_done *done)
{
	cq->removing = cq->num_rings;
	cq->removed = done;
	for (uint32_t i = 0; i < cq->num_rings; i++) {
		struct engine_command *command =
			cq_command(cq, cq_ring_at(cq, i), ENGINE_CQ_REMOVE, ring_removed, cq);

		command->quiet = done == NULL;
		command_send(command);
	}
}

/* True if the first ring has room for another entry.  Depends on the application's index: a false one harms
 * only the application. */
bool
cq_has_room(const struct cq *cq)
{
	const struct cq_ring *ring = &cq->first;
	const struct one_cq_shm *shm =
		(const struct one_cq_shm *)(cq->object.client->arena.base + ring->offset);
	/* Relaxed: `head` pairs with the library's store, `tail` with the stores in cq_publish() and
	 * cq_report(), which precede the answers that `posts` has counted down for.  Only the numbers
	 * are compared. */
	uint32_t taken = atomic_load_explicit(&shm->head, memory_order_relaxed);
	uint32_t stored = atomic_load_explicit(&shm->tail, memory_order_relaxed);
	/* The application may be ahead of `tail`: an entry can be read before `tail` covers it. */
	int32_t waiting = (int32_t)(stored - taken);
	uint32_t each = cq->num_rings > 1 ? 2 : 1; /* with ONE_CQE_AFTER_REPORT before it */

	return (waiting > 0 ? (uint32_t)waiting : 0) + each * (cq->posts + 1) < 1u << ring->log2;
}

static void
cq_posted(struct engine_command *command, void *object)
{
	struct cq *cq = object;

	cq->posts--;
	cq->object.users--;
}

static struct engine_command *
post_command(struct cq *cq, const struct engine_client *lane, const struct one_cqe *event)
{
	const struct cq_ring *ring = ring_of_lane(cq, lane);
	struct engine_command *command =
		cq_command(cq, ring != NULL ? ring : &cq->first, ENGINE_CQ_POST, cq_posted, cq);

	cq->posts++;
	cq->object.users++;
	command->quiet = true; /* no wakeup: `posts` is read only after acknowledgements were taken */
	command->event = *event;
	return command;
}

void
cq_post(struct cq *cq, const struct engine_client *lane, const struct one_cqe *event)
{
	command_send(post_command(cq, lane, event));
}

void
cq_post_outcome(const struct qp *qp, const struct one_cqe *event)
{
	struct engine_command *command = post_command(qp->conn_cq, qp->lane, event);

	command->qp = qp->engine; /* waits for the end of a move: completions come first */
	command_send(command);
}
