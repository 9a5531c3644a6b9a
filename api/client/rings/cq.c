/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion rings.  The call per entry, one_cq_poll, is in cq.h. */
#include <sched.h>
#include <stdlib.h>

#include "client/cq.h"
#include "client/internal.h"

/* The engine ends the old ring before the reply to CQ_RESIZE is sent; a moment for memory to agree. */
#define SWITCH_TIMEOUT_NS 1000000000ull

static int
take_over(struct one_client *client, const struct one_cq_created *made, struct one_cq *cq)
{
	memset(cq, 0, sizeof(*cq));
	cq->client = client;
	cq->id = made->cq;
	cq->log2 = made->log2;
	return client_cq_ring(client, made->offset, made->log2, &cq->shm, &cq->ring) ? 0 : -EPROTO;
}

int
one_cq_create(struct one_client *client, uint32_t entries, struct one_cq *cq)
{
	struct one_msg msg = {.type = ONE_MSG_CQ_CREATE};
	struct one_reply reply;
	int error;

	msg.cq_create.entries = entries;
	error = one_call(client, &msg, NULL, 0, &reply);
	if (error != 0)
		return error;
	error = take_over(client, &reply.cq, cq);
	if (error != 0)
		client_fail(client);
	return error;
}

void
one_cq_async(struct one_client *client, struct one_cq *cq)
{
	const struct one_cq_created made = {.cq = client->info.async_cq,
					    .log2 = client->info.async_cq_log2,
					    .offset = client->info.async_cq_offset};

	take_over(client, &made, cq); /* checked at attach */
}

void
one_cq_forget(struct one_cq *cq)
{
	free(cq->backlog);
	cq->backlog = NULL;
}

int
one_cq_free(struct one_cq *cq)
{
	int error = one_call_id(cq->client, ONE_MSG_CQ_FREE, cq->id);

	/* Refused (still used by a queue pair): it goes on living. */
	if (error == 0 || error == -ECONNRESET || error == -ECHILD)
		one_cq_forget(cq);
	return error;
}

bool
one_cq_switch(struct one_cq *cq)
{
	if (cq->next_ring == NULL)
		return false; /* one_cq_resize has not returned yet */
	cq->ring = cq->next_ring;
	cq->shm = cq->next_shm;
	cq->log2 = cq->next_log2;
	cq->head = 0;
	cq->published = 0;
	cq->next_ring = NULL;
	cq->next_shm = NULL;
	one_cq_forget(cq);
	return true;
}

/* Entries of a ring of 2^log2 from `head` on, the switch entry not counted; at most `limit`. */
static uint32_t
count_entries(const struct one_cqe *ring, uint32_t log2, uint32_t head, uint32_t limit)
{
	uint32_t n = 0;

	if (limit > 1u << log2)
		limit = 1u << log2;
	while (n < limit) {
		const struct one_cqe *slot = &ring[one_ring_slot(head + n, log2)];

		/* Pairs with the engine's release store of the phase. */
		if (atomic_load_explicit(&slot->phase, memory_order_acquire) !=
			    one_ring_phase(head + n, log2) ||
		    slot->type == ONE_CQE_SWITCHED)
			break;
		n++;
	}
	return n;
}

uint32_t
one_cq_object(const struct one_cq *cq, uint32_t ahead)
{
	bool switched = cq->next_ring != NULL;
	const struct one_cqe *ring = switched ? cq->next_ring : cq->ring;
	uint32_t log2 = switched ? cq->next_log2 : cq->log2, at = (switched ? 0 : cq->head) + ahead;
	const struct one_cqe *slot = &ring[one_ring_slot(at, log2)];

	/* Pairs with the engine's release store of the phase. */
	if (ahead >= 1u << log2 ||
	    atomic_load_explicit(&slot->phase, memory_order_acquire) != one_ring_phase(at, log2))
		return 0;
	return slot->object;
}

uint32_t
one_cq_pending(const struct one_cq *cq, uint32_t limit)
{
	uint32_t n = count_entries(cq->ring, cq->log2, cq->head, limit);

	if (cq->next_ring != NULL && n < limit)
		n += count_entries(cq->next_ring, cq->next_log2, 0, limit - n);
	return n;
}

/* Entries moved from the two rings that may be there to private memory. */
struct backlog {
	struct one_cq_shm shm;
	struct one_cqe ring[];
};

/* Private memory of the ring's owner, whose lock is held: the atomics order nothing. */
static void
backlog_put(struct backlog *log, uint32_t log2, const struct one_cqe *cqe)
{
	uint32_t tail = one_load_locked(&log->shm.tail);
	struct one_cqe *slot = &log->ring[tail];

	memcpy((void *)slot, (const void *)cqe, sizeof(*slot));
	one_store_alone(&slot->phase, one_ring_phase(tail, log2));
	one_store_alone(&log->shm.tail, tail + 1);
}

/* Takes all entries up to the switch entry, fewer than the ring has places, and leaves the ring to the data
 * plane; false: it does not come. */
static bool
drain_to_switch(struct one_cq *cq, struct backlog *log, uint32_t log2, struct one_cq_shm *shm,
		const struct one_cqe *ring, uint32_t ring_log2, uint32_t head)
{
	uint64_t give_up = one_now_ns() + SWITCH_TIMEOUT_NS;

	for (uint32_t n = 0; n < 1u << ring_log2;) {
		const struct one_cqe *slot = &ring[one_ring_slot(head, ring_log2)];

		/* Pairs with the engine's release store of the phase. */
		if (atomic_load_explicit(&slot->phase, memory_order_acquire) !=
		    one_ring_phase(head, ring_log2)) {
			if (one_now_ns() > give_up || client_check(cq->client) != 0)
				return false;
			sched_yield();
			continue;
		}
		if (slot->type == ONE_CQE_SWITCHED) {
			/* Stored before the switch entry, which was acquired: the last answer of this ring.
			 */
			cq->arm_served =
				(uint16_t)atomic_load_explicit(&shm->arm_served, memory_order_relaxed);
			/* Nothing is left.  Pairs with the control thread's acquire load, after which it
			 * gives the memory to others. */
			atomic_store_explicit(&shm->head, head + 1, memory_order_release);
			return true;
		}
		backlog_put(log, log2, slot);
		head++;
		n++;
	}
	return false;
}

/*
 * The old ring is emptied into private memory here and now: so its shared memory is not looked at any more
 * when this returns, whatever number of resizes follow before the application takes its entries.
 */
int
one_cq_resize(struct one_cq *cq, uint32_t entries)
{
	struct one_msg msg = {.type = ONE_MSG_CQ_RESIZE};
	struct one_cqe last = {.type = ONE_CQE_SWITCHED};
	uint32_t log2 = 0, capacity = (1u << cq->log2) + 1;
	struct one_cq_shm *shm;
	struct one_cqe *ring;
	struct one_reply reply;
	struct backlog *log;
	bool drained;
	int error;

	if (cq->next_ring != NULL)
		capacity += 1u << cq->next_log2;
	while (1u << log2 < capacity)
		log2++;
	log = calloc(1, sizeof(*log) + (sizeof(struct one_cqe) << log2));
	if (log == NULL)
		return -ENOMEM;
	msg.cq_resize.cq = cq->id;
	msg.cq_resize.entries = entries;
	error = one_call(cq->client, &msg, NULL, 0, &reply);
	if (error == 0 && !client_cq_ring(cq->client, reply.cq.offset, reply.cq.log2, &shm, &ring))
		error = -EPROTO;
	if (error == -EPROTO)
		client_fail(cq->client);
	if (error != 0) {
		free(log);
		return error;
	}
	drained = drain_to_switch(cq, log, log2, cq->shm, cq->ring, cq->log2, cq->head) &&
		  (cq->next_ring == NULL ||
		   drain_to_switch(cq, log, log2, cq->next_shm, cq->next_ring, cq->next_log2, 0));
	backlog_put(log, log2, &last);
	free(cq->backlog);
	cq->backlog = log;
	cq->ring = log->ring;
	cq->shm = &log->shm;
	cq->log2 = log2;
	cq->head = 0;
	cq->published = 0;
	cq->next_ring = ring;
	cq->next_shm = shm;
	cq->next_log2 = reply.cq.log2;
	if (cq->arm_channel != 0)
		one_channel_wake(cq->client, cq->arm_channel);
	if (!drained) {
		/* Entries may be missing: no honest data plane. */
		client_fail(cq->client);
		return -EPROTO;
	}
	return 0;
}
