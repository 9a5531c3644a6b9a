/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Payload in memory without mapping (bounce.h) is read ahead of the packets that carry it: a few chunks of at
 * most BOUNCE_LEN bytes for each direction, or one for each of several short messages, so that the copy
 * thread works while frames go out. A chunk begins with a packet and belongs to one message or READ.
 *
 * Chunks match their PSNs only while packets are sent in order. When the queue pair goes back, the chunks are
 * dropped and read again. Packets of a repair (selective.c) are read one by one.
 */
#include "sg_list.h"

#include <errno.h>

#define AHEAD_CHUNKS 4u    /* of long messages */
#define AHEAD_MESSAGES 16u /* of short messages */
#define AHEAD_LOOKS 64u    /* work requests examined to find some with payload */

struct ahead_chunk {
	uint32_t first, count; /* PSNs */
};

static struct ahead_chunk *
newest_chunk(struct rc_qp *qp, enum bounce_queue queue)
{
	return bounce_queue_newest(&qp->party, queue);
}

/* Find the payload of packet `psn` in the oldest chunk. Returns bounce_queue_result(); -EAGAIN: not read yet;
 * -ENOENT: not in that chunk. */
static int
find_chunk(struct rc_qp *qp, enum bounce_queue queue, uint32_t psn, uint32_t *count, const uint8_t **data)
{
	const struct ahead_chunk *chunk;
	uint32_t index;

	if (!bounce_queued(&qp->party, queue))
		return -ENOENT;
	chunk = bounce_queue_oldest(&qp->party, queue);
	index = (psn - chunk->first) & RC_PSN_MASK;
	if (index >= chunk->count)
		return -ENOENT;
	if (!bounce_queue_done(&qp->party, queue))
		return -EAGAIN;
	if (*count > chunk->count - index)
		*count = chunk->count - index;
	*data = bounce_queue_data(&qp->party, queue) + ((uint64_t)index * qp->mtu);
	return bounce_queue_result(&qp->party, queue);
}

void
rc_ahead_used(struct rc_qp *qp, enum bounce_queue queue, uint32_t psn)
{
	while (bounce_queued(&qp->party, queue)) {
		const struct ahead_chunk *chunk = bounce_queue_oldest(&qp->party, queue);

		if (rc_psn_diff(psn, chunk->first + chunk->count) < 0)
			return;
		bounce_queue_pop(&qp->party, queue);
	}
}

static inline uint32_t
chunk_packets(const struct rc_qp *qp, uint32_t left)
{
	uint32_t most = BOUNCE_LEN / qp->mtu;

	return left < most ? left : most;
}

/* ---- requests ---- */

/* True if the payload of `work` may be read before the work is sent. */
static bool
is_eligible(const struct work *work)
{
	return work->status == ONE_STATUS_SUCCESS && work->op >= ONE_OP_SEND &&
	       work->op <= ONE_OP_WRITE_IMM && (work->flags & ONE_WQE_INLINE) == 0 && work->length != 0;
}

/* Read one more chunk of `node`, from `psn` on. Returns its packets, or 0. *full: no copy job is free now. */
static uint32_t
begin_chunk(struct rc_qp *qp, const struct rc_node *node, uint32_t psn, bool *full)
{
	const struct work *work = &node->work;
	struct ahead_chunk chunk = {psn, chunk_packets(qp, node->end - psn)};
	uint32_t offset = (psn - node->first) * qp->mtu, len = chunk.count * qp->mtu;
	struct rc_sg_list list;
	int error;

	if (len > work->length - offset)
		len = work->length - offset;
	/* Errors of the work request are reported when it is sent. */
	if (rc_resolve(qp, work->sge, work->num_sge, offset, len, ONE_ACCESS_LOCAL_READ, &list) !=
		    ONE_STATUS_SUCCESS ||
	    !list.bounce)
		return 0;
	error = bounce_queue_gather(&qp->party, BOUNCE_AHEAD, list.sge, list.num, &chunk, sizeof(chunk));
	*full = error == -EAGAIN;
	return error == 0 ? chunk.count : 0;
}

/* Read on after the newest chunk, or from `psn` of `node` on. False: no copy job is free now. */
static bool
read_requests(struct rc_qp *qp, const struct rc_node *node, uint32_t psn)
{
	uint32_t chunks = bounce_queue_count(&qp->party, BOUNCE_AHEAD), looks = 0;
	bool full = false;

	if (chunks != 0)
		psn = newest_chunk(qp, BOUNCE_AHEAD)->first + newest_chunk(qp, BOUNCE_AHEAD)->count;
	for (; node != NULL && looks++ < AHEAD_LOOKS; node = node->next) {
		/* A fenced request may read what earlier requests write. */
		if ((node->work.flags & ONE_WQE_FENCE) != 0 && node != qp->req.cur)
			break;
		if (node->work.op == ONE_OP_BIND)
			break;
		if (!is_eligible(&node->work) || (int32_t)(psn - node->end) >= 0)
			continue;
		if ((int32_t)(psn - node->first) < 0)
			psn = node->first;
		while (psn != node->end) {
			bool is_long = node->work.length > BOUNCE_LEN / AHEAD_MESSAGES;
			uint32_t count;

			if (chunks >= (is_long ? AHEAD_CHUNKS : AHEAD_MESSAGES))
				return true;
			count = begin_chunk(qp, node, psn, &full);
			if (full)
				return false;
			if (count == 0)
				break;
			psn += count;
			chunks++;
		}
	}
	return true;
}

int
rc_ahead_request(struct rc_qp *qp, uint32_t *count, const uint8_t **data)
{
	const struct rc_requester *rq = &qp->req;
	int error = find_chunk(qp, BOUNCE_AHEAD, rq->snd, count, data);

	bool full;

	if (error == -ENOENT)
		bounce_queue_clear(&qp->party, BOUNCE_AHEAD);
	full = !read_requests(qp, rq->cur, rq->snd);
	return error == -ENOENT && (full || bounce_queued(&qp->party, BOUNCE_AHEAD)) ? -EAGAIN : error;
}

/* ---- responses ---- */

/* Read one chunk of the READ. -EAGAIN: no copy job is free now; -ENOENT: the memory cannot be read ahead. */
static int
begin_response(struct rc_qp *qp, const struct rc_resource *resource, uint32_t next)
{
	struct ahead_chunk chunk = {(resource->first + next) & RC_PSN_MASK,
				    chunk_packets(qp, resource->end - next)};
	uint32_t offset = next * qp->mtu, len = chunk.count * qp->mtu;
	struct mem_sge sge;

	if (len > resource->length - offset)
		len = resource->length - offset;
	sge = (struct mem_sge){mem_check(qp->env->mem, resource->rkey, qp->pz, qp->qpn,
					 ONE_ACCESS_REMOTE_READ, resource->va + offset, len),
			       resource->va + offset, len};
	if (sge.region == NULL || sge.region->base != NULL)
		return -ENOENT;
	return bounce_queue_gather(&qp->party, BOUNCE_AHEAD_READ, &sge, 1, &chunk, sizeof(chunk));
}

/* First response of the READ that has not been read ahead. */
static uint32_t
first_unread(struct rc_qp *qp, const struct rc_resource *resource)
{
	uint32_t next = resource->next;
	int32_t read;

	if (bounce_queued(&qp->party, BOUNCE_AHEAD_READ)) {
		const struct ahead_chunk *chunk = newest_chunk(qp, BOUNCE_AHEAD_READ);

		read = rc_psn_diff(chunk->first + chunk->count, resource->first);
		if (read > (int32_t)next)
			next = (uint32_t)read;
	}
	return next;
}

/* Read as many chunks of the READ as may be read ahead. Returns 0, or the reason why no more can be read. */
static int
read_resource(struct rc_qp *qp, const struct rc_resource *resource, uint32_t *chunks)
{
	uint32_t most = resource->length > BOUNCE_LEN / AHEAD_MESSAGES ? AHEAD_CHUNKS : AHEAD_MESSAGES;
	int error = 0;

	for (uint32_t next = first_unread(qp, resource);
	     error == 0 && next < resource->end && resource->length != 0;
	     next += chunk_packets(qp, resource->end - next)) {
		if (*chunks >= most)
			return -ENOENT;
		error = begin_response(qp, resource, next);
		*chunks += error == 0;
	}
	return error;
}

/* Read on, for this READ and those answered after it. Returns 0, or the reason why no more can be read. */
static int
read_responses(struct rc_qp *qp, const struct rc_resource *resource)
{
	const struct rc_responder *rs = &qp->rsp;
	uint32_t chunks = bounce_queue_count(&qp->party, BOUNCE_AHEAD_READ),
		 i = (uint32_t)(resource - rs->resource);
	int error = read_resource(qp, resource, &chunks);

	for (;;) {
		const struct rc_resource *other;

		i = (i + 1) & (rs->resources - 1);
		other = &rs->resource[i];
		/* The data that a later READ reads may still be in staging memory. */
		if (error != 0 || i == rs->resource_next || other == resource || !(rs->pending & (1u << i)) ||
		    other->opcode != WIRE_READ_REQUEST || rc_lands_before(qp, other->first))
			return error;
		error = read_resource(qp, other, &chunks);
	}
}

int
rc_ahead_response(struct rc_qp *qp, const struct rc_resource *resource, uint32_t *count, const uint8_t **data)
{
	uint32_t psn = (resource->first + resource->next) & RC_PSN_MASK;
	int error = find_chunk(qp, BOUNCE_AHEAD_READ, psn, count, data), begun;

	if (error == -ENOENT)
		bounce_queue_clear(&qp->party, BOUNCE_AHEAD_READ);
	begun = read_responses(qp, resource);
	return error == -ENOENT && (begun == -EAGAIN || bounce_queued(&qp->party, BOUNCE_AHEAD_READ))
		       ? -EAGAIN
		       : error;
}
