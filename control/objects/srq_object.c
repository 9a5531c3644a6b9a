/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues.  Each has a ring in the arena, which the core gets before, and releases after, the
 * queue pairs that use it. */
#include <errno.h>
#include <stdlib.h>

#include "control/objects/objects.h"

static struct engine_command *
srq_command(struct srq *srq, enum engine_command_type type, command_done *done)
{
	struct engine_command *command = command_new(srq->object.client, type, done, srq);

	command->srq = srq->engine;
	return command;
}

static int
alloc_rings(struct client *client, struct srq *srq, uint32_t log2)
{
	int error;

	srq->lanes = engine_num_cores();
	error = client_alloc(client, one_srq_shm_size(srq->lanes), &srq->shm);
	if (error != 0)
		return error;
	srq->ring_size = sizeof(struct one_wqe) << log2;
	error = client_alloc(client, srq->ring_size, &srq->ring);
	if (error != 0)
		client_free(client, srq->shm, one_srq_shm_size(srq->lanes));
	return error;
}

int
srq_create(struct client *client, const struct one_msg *msg)
{
	const struct one_srq_create *args = &msg->srq_create;
	const struct one_limits *limits = &control.config->limits;
	struct pz *pz = object_get(client, OBJECT_PZ, args->pz);
	struct engine_srq_config config;
	struct srq *srq;
	uint32_t log2 = 0;
	int error;

	if (pz == NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_PZ, args->pz);
	if (args->max_wr == 0 || args->max_sge == 0)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_COUNT, 0);
	error = qp_ring_log2(client, limits->max_srq_wr, args->max_wr, args->max_sge, &log2);
	if (error != 0)
		return error;
	srq = object_new(client, OBJECT_SRQ, sizeof(*srq));
	if (srq == NULL)
		return object_refuse_new(client, OBJECT_SRQ);
	error = alloc_rings(client, srq, log2);
	if (error != 0) {
		object_free(srq);
		return error;
	}
	srq->pz = pz;
	srq->max_wr = args->max_wr;
	pz->object.users++;
	client->reply.srq = (struct one_srq_created){
		.srq = srq->object.id,
		.log2 = log2,
		.shm = srq->shm,
		.rq = srq->ring,
		.lanes = srq->lanes,
	};
	config = (struct engine_srq_config){
		.id = srq->object.id,
		.shm = srq->shm,
		.rq = srq->ring,
		.log2 = log2,
		.lanes = srq->lanes,
		.async_cq = cq_engine(client->async_cq, client->engine),
	};
	srq->engine = engine_srq_new(client->engine, &config);
	if (srq->engine == NULL) {
		srq_destroy(srq);
		return client_refuse(client, -ENOMEM, ONE_SUBJECT_MEMORY, 0);
	}
	command_send(srq_command(srq, ENGINE_SRQ_ADD, object_added));
	return REQUEST_LATER;
}

static void
srq_acknowledged(struct engine_command *command, void *object)
{
	client_reply(object, 0);
}

int
srq_limit(struct client *client, const struct one_msg *msg)
{
	const struct one_srq_limit *args = &msg->srq_limit;
	struct srq *srq = object_get(client, OBJECT_SRQ, args->srq);
	struct engine_command *command;

	if (srq == NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_SRQ, args->srq);
	if (args->limit > srq->max_wr)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_COUNT, srq->max_wr);
	command = command_new(client, ENGINE_SRQ_LIMIT, srq_acknowledged, client);
	command->srq = srq->engine;
	command->limit = args->limit;
	command_send(command);
	return REQUEST_LATER;
}

struct swap {
	struct client *client;
	uint32_t lanes; /* that have not answered */
};

static void
lane_synced(struct engine_command *command, void *object)
{
	struct swap *swap = object;

	if (--swap->lanes == 0) {
		client_reply(swap->client, 0);
		free(swap);
	}
}

/* The application may free the old ring when no core uses it. */
static void
rings_swapped(struct engine_command *command, void *object)
{
	struct swap *swap = object;
	struct engine_client *lane;

	swap->lanes = 1;
	for (lane = engine_lane_next(swap->client->engine); lane != NULL; lane = engine_lane_next(lane)) {
		struct engine_command *sync =
			command_new(swap->client, ENGINE_CLIENT_SYNC, lane_synced, swap);

		swap->lanes++;
		sync->client = lane;
		command_send(sync);
	}
	lane_synced(command, swap);
}

int
srq_swap(struct client *client, const struct one_msg *msg)
{
	const struct one_srq_swap *args = &msg->srq_swap;
	struct srq *srq = object_get(client, OBJECT_SRQ, args->srq);
	struct srq *other = object_get(client, OBJECT_SRQ, args->other), was;
	struct engine_command *command;
	struct swap *swap;

	if (srq == NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_SRQ, args->srq);
	if (other == NULL || other == srq || other->pz != srq->pz)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_SRQ, args->other);
	if (other->object.users != 0)
		return client_refuse(client, -EBUSY, ONE_SUBJECT_SRQ, args->other);
	swap = malloc(sizeof(*swap));
	if (swap == NULL)
		return client_refuse(client, -ENOMEM, ONE_SUBJECT_MEMORY, 0);
	swap->client = client;
	was = *srq;
	srq->ring = other->ring;
	srq->ring_size = other->ring_size;
	srq->max_wr = other->max_wr;
	other->ring = was.ring;
	other->ring_size = was.ring_size;
	other->max_wr = was.max_wr;
	command = command_new(client, ENGINE_SRQ_SWAP, rings_swapped, swap);
	command->srq = srq->engine;
	command->other_srq = other->engine;
	command_send(command);
	return REQUEST_LATER;
}

void
srq_destroy(struct srq *srq)
{
	struct client *client = srq->object.client;

	engine_srq_free(srq->engine);
	client_free(client, srq->ring, srq->ring_size);
	client_free(client, srq->shm, one_srq_shm_size(srq->lanes));
	srq->pz->object.users--;
	object_free(srq);
}

void
srq_remove(struct srq *srq, command_done *done)
{
	command_send(srq_command(srq, ENGINE_SRQ_REMOVE, done));
}
