/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared receive queues: a ring in the arena, that the core hears of before, and
 * forgets after, the queue pairs which use it.
 */
#include <errno.h>

#include "control/objects/objects.h"

static void
srq_reply(struct client *client, const struct srq *srq, uint32_t log2)
{
	client->reply.srq = (struct one_srq_created){
		.srq = srq->object.id,
		.log2 = log2,
		.shm = srq->block,
		.rq = srq->block + sizeof(struct one_srq_shm),
	};
}

static struct engine_command *
srq_command(struct srq *srq, enum engine_command_type type, command_done *done)
{
	struct engine_command *command = command_new(srq->object.client, type, done, srq);

	command->srq = srq->engine;
	return command;
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
		return client_refuse(client, -EDQUOT, ONE_SUBJECT_QUOTA, client->table[OBJECT_SRQ].max);
	srq->block_size = sizeof(struct one_srq_shm) + (sizeof(struct one_wqe) << log2);
	error = client_alloc(client, srq->block_size, &srq->block);
	if (error != 0) {
		object_free(srq);
		return client_refuse(client, error, ONE_SUBJECT_QUOTA, control.config->max_bytes_per_uid);
	}
	srq->pz = pz;
	srq->max_wr = args->max_wr;
	pz->object.users++;
	srq_reply(client, srq, log2);
	config = (struct engine_srq_config){
		.owner = srq,
		.id = srq->object.id,
		.shm = client->reply.srq.shm,
		.rq = client->reply.srq.rq,
		.log2 = log2,
		.async_cq = client->async_cq == NULL ? NULL : client->async_cq->engine,
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
limit_set(struct engine_command *command, void *object)
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
	command = command_new(client, ENGINE_SRQ_LIMIT, limit_set, client);
	command->srq = srq->engine;
	command->limit = args->limit;
	command_send(command);
	return REQUEST_LATER;
}

void
srq_destroy(struct srq *srq)
{
	struct client *client = srq->object.client;

	engine_srq_free(srq->engine);
	client_free(client, srq->block, srq->block_size);
	srq->pz->object.users--;
	object_free(srq);
}

void
srq_remove(struct srq *srq, command_done *done)
{
	command_send(srq_command(srq, ENGINE_SRQ_REMOVE, done));
}
