/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion rings. one_cq_poll, the call per entry, is in cq.h. */
#include <sched.h>
#include <stdlib.h>

#include "client/cq.h"
#include "client/internal.h"
#include "client/wait.h"

/* The engine ends the old ring before it sends the reply to CQ_RESIZE; the limit covers the time until memory
 * is visible here. */
#define SWITCH_TIMEOUT_NS 1000000000ull

static void
ring_init(struct one_cq_ring *ring, struct one_cq_shm *shm, struct one_cqe *entries, uint32_t log2)
{
	*ring = (struct one_cq_ring){.shm = shm, .ring = entries, .log2 = log2, .lump = (1u << log2) >> 2};
}

static int
take_over(struct one_client *client, const struct one_cq_created *made, struct one_cq *cq)
{
	struct one_cq_shm *shm;
	struct one_cqe *entries;

	memset(cq, 0, sizeof(*cq));
	cq->client = client;
	cq->id = made->cq;
	cq->num_rings = 1;
	cq->bundle = one_client_span(client, made->bundle, sizeof(*cq->bundle));
	if (cq->bundle == NULL || !client_cq_ring(client, made->offset, made->log2, &shm, &entries))
		return -EPROTO;
	ring_init(&cq->at, shm, entries, made->log2);
	return 0;
}

int
one_cq_create(struct one_client *client, uint32_t entries, struct one_cq *cq)
{
	return one_cq_create_near(client, entries, 0, cq);
}

int
one_cq_create_near(struct one_client *client, uint32_t entries, uint32_t vector, struct one_cq *cq)
{
	struct one_msg msg = {.type = ONE_MSG_CQ_CREATE};
	struct one_reply reply;
	int error;

	msg.cq_create.entries = entries;
	msg.cq_create.vector = vector;
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
					    .offset = client->info.async_cq_offset,
					    .bundle = client->info.async_cq_bundle};

	take_over(client, &made, cq); /* cannot fail: checked at attach */
}

static void
drop_backlog(struct one_cq_ring *ring)
{
	free(ring->backlog);
	ring->backlog = NULL;
}

void
one_cq_forget(struct one_cq *cq)
{
	for (uint32_t i = 0; i < cq->num_rings; i++)
		drop_backlog(one_cq_ring(cq, i));
	if (cq->turn != 0)
		cq->at = cq->rings[0];
	free(cq->rings);
	cq->rings = NULL;
	cq->turn = 0;
	cq->num_rings = 1;
}

int
one_cq_free(struct one_cq *cq)
{
	int error = one_call_id(cq->client, ONE_MSG_CQ_FREE, cq->id);

	/* Refused (still used by a queue pair): the ring lives on. */
	if (error == 0 || error == -ECONNRESET || error == -ECHILD)
		one_cq_forget(cq);
	return error;
}

/* Continues in the ring that follows the backlog; false: there is none. */
static bool
switch_ring(struct one_cq *cq)
{
	struct one_cq_ring *at = &cq->at;
	uint64_t base = one_cq_taken(at);

	if (at->next_ring == NULL)
		return false; /* one_cq_resize has not returned yet */
	drop_backlog(at);
	ring_init(at, at->next_shm, at->next_ring, at->next_log2);
	at->base = base;
	if (cq->num_rings > 1 && at->lump > ONE_CQ_TURN)
		at->lump = ONE_CQ_TURN;
	return true;
}

/* ---- a bundle of several rings ---- */

/* Takes up the bundle's ring `number`; false: its place makes no sense. */
static bool
take_up(struct one_cq *cq, uint32_t number)
{
	/* Ordered by the acquire load of `rings`. */
	uint64_t place = one_load_alone(&cq->bundle->place[number]);
	struct one_cq_shm *shm;
	struct one_cqe *entries;

	if (!client_cq_ring(cq->client, ONE_CQ_RING_OFFSET(place), ONE_CQ_RING_LOG2(place), &shm, &entries))
		return false;
	ring_init(&cq->rings[number], shm, entries, ONE_CQ_RING_LOG2(place));
	return true;
}

/* Limits the entries taken in a row. Unnecessary with a single ring: no other ring waits. */
static void
shorten_turns(struct one_cq *cq)
{
	for (uint32_t i = 0; i < cq->num_rings; i++) {
		struct one_cq_ring *ring = one_cq_ring(cq, i);

		if (ring->lump > ONE_CQ_TURN)
			ring->lump = ONE_CQ_TURN;
	}
}

void
one_cq_grow(struct one_cq *cq)
{
	/* Pairs with the control thread's release store after it has made a ring. */
	uint32_t rings = atomic_load_explicit(&cq->bundle->rings, memory_order_acquire);
	struct one_cq_ring *more;

	if (rings <= cq->num_rings)
		return;
	more = rings > ONE_LANES_MAX ? NULL : realloc(cq->rings, rings * sizeof(*more));
	if (more == NULL) {
		if (rings > ONE_LANES_MAX)
			client_fail(cq->client);
		return; /* no memory: tried again at the next call */
	}
	cq->rings = more;
	while (cq->num_rings < rings) {
		if (!take_up(cq, cq->num_rings)) {
			client_fail(cq->client);
			return;
		}
		cq->num_rings++;
	}
	shorten_turns(cq);
}

static const struct one_cq_ring *
ring_of(const struct one_cq *cq, uint32_t number)
{
	return number == cq->turn ? &cq->at : &cq->rings[number];
}

static bool
is_stored(const struct one_cqe *slot, uint32_t index, uint32_t log2)
{
	/* Pairs with the engine's release store of the phase. */
	return atomic_load_explicit(&slot->phase, memory_order_acquire) == one_ring_phase(index, log2);
}

/* True if the entries that ONE_CQE_AFTER names have been taken. */
static bool
is_taken(const struct one_cq *cq, const struct one_cqe *after)
{
	return after->object >= cq->num_rings || /* no correct data plane does this */
	       one_cq_taken(ring_of(cq, after->object)) >= after->cookie;
}

/*
 * True if a ring of 2^log2 holds, from `head` on, a report up to `number`. `*waits`: an entry that precedes
 * `head`, or that was passed, may itself wait for another ring: a later report, or ONE_CQE_AFTER. An event of
 * the core that follows such an entry does not count, since rings must not wait for each other.
 */
static bool
holds_report(const struct one_cq *cq, const struct one_cqe *ring, uint32_t log2, uint32_t head,
	     uint32_t number, bool *waits)
{
	for (uint32_t i = 0; i < 1u << log2; i++) {
		const struct one_cqe *slot = &ring[one_ring_slot(head + i, log2)];

		if (!is_stored(slot, head + i, log2) || slot->type == ONE_CQE_SWITCHED)
			return false;
		if (slot->type == ONE_CQE_AFTER)
			*waits |= !is_taken(cq, slot);
		else if (slot->type == ONE_CQE_CONNECT && slot->length == 0 && !*waits)
			return true;
		else if (slot->type >= ONE_CQE_CONNECT && slot->length != 0) {
			*waits |= (int32_t)(slot->length - number) > 0;
			return (int32_t)(slot->length - number) <= 0;
		}
	}
	return false;
}

/* True if ring `from` holds no report up to `number`, and will not get one. */
static bool
has_reported(const struct one_cq *cq, const struct one_cq_ring *from, uint32_t number)
{
	const struct one_cq_shm *shm = from->next_ring != NULL ? from->next_shm : from->shm;
	bool waits = false;

	/* Pairs with the engine's release store after the entry. No core reports to a lost attachment. */
	if ((int32_t)(atomic_load_explicit(&shm->reports, memory_order_acquire) - number) < 0 &&
	    !one_client_dead(cq->client))
		return false;
	return !holds_report(cq, from->ring, from->log2, from->head, number, &waits) &&
	       (from->next_ring == NULL ||
		!holds_report(cq, from->next_ring, from->next_log2, 0, number, &waits));
}

/* True if an entry may be taken: the entries that come first have been taken. Such entries were stored
 * earlier, so no two rings wait for each other. */
static bool
is_passable(const struct one_cq *cq, const struct one_cqe *entry)
{
	if (entry->type == ONE_CQE_AFTER)
		return is_taken(cq, entry);
	return entry->type != ONE_CQE_AFTER_REPORT || entry->object >= cq->num_rings ||
	       has_reported(cq, ring_of(cq, entry->object), entry->imm);
}

static bool
has_entry(const struct one_cq *cq, const struct one_cq_ring *ring)
{
	const struct one_cqe *slot = &ring->ring[one_ring_slot(ring->head, ring->log2)];

	return is_stored(slot, ring->head, ring->log2) && is_passable(cq, slot);
}

bool
one_cq_pass(struct one_cq *cq)
{
	struct one_cq_ring *at = &cq->at;
	const struct one_cqe *slot = &at->ring[one_ring_slot(at->head, at->log2)];

	if (slot->type == ONE_CQE_SWITCHED)
		return switch_ring(cq);
	one_cq_grow(cq);
	if (is_passable(cq, slot)) {
		at->head++;
		return true;
	}
	one_cq_publish(at);
	return one_cq_turn(cq);
}

bool
one_cq_turn(struct one_cq *cq)
{
	one_cq_grow(cq);
	for (uint32_t i = 1; i < cq->num_rings; i++) {
		uint32_t number = (cq->turn + i) % cq->num_rings;

		if (!has_entry(cq, &cq->rings[number]))
			continue;
		cq->rings[cq->turn] = cq->at;
		cq->at = cq->rings[number];
		cq->turn = number;
		return true;
	}
	return false;
}

/* ---- counting and peeking ---- */

/* Counts the application's entries of a ring of 2^log2 from `head` on, at most `limit`. */
static uint32_t
count_entries(const struct one_cqe *ring, uint32_t log2, uint32_t head, uint32_t limit)
{
	uint32_t n = 0;

	for (uint32_t i = 0; n < limit && i < 1u << log2; i++) {
		const struct one_cqe *slot = &ring[one_ring_slot(head + i, log2)];

		if (!is_stored(slot, head + i, log2) || slot->type == ONE_CQE_SWITCHED)
			break;
		n += !one_cq_is_mark(slot);
	}
	return n;
}

uint32_t
one_cq_object(const struct one_cq *cq, uint32_t number, uint32_t ahead)
{
	const struct one_cq_ring *from = ring_of(cq, number);
	bool switched = from->next_ring != NULL;
	const struct one_cqe *ring = switched ? from->next_ring : from->ring;
	uint32_t log2 = switched ? from->next_log2 : from->log2, at = (switched ? 0 : from->head) + ahead;
	const struct one_cqe *slot = &ring[one_ring_slot(at, log2)];

	if (ahead >= 1u << log2 || !is_stored(slot, at, log2))
		return 0;
	return one_cq_is_mark(slot) ? UINT32_MAX : slot->object;
}

uint32_t
one_cq_pending(struct one_cq *cq, uint32_t limit)
{
	uint32_t n = 0;

	one_cq_grow(cq);
	for (uint32_t i = 0; i < cq->num_rings && n < limit; i++) {
		const struct one_cq_ring *ring = ring_of(cq, i);

		n += count_entries(ring->ring, ring->log2, ring->head, limit - n);
		if (ring->next_ring != NULL && n < limit)
			n += count_entries(ring->next_ring, ring->next_log2, 0, limit - n);
	}
	return n;
}

/* ---- waiting: wait.h ---- */

static void
arm_ring(const struct one_cq_ring *ring, uint16_t seq, uint16_t channel, uint32_t need)
{
	struct one_cq_shm *shm = ring->shm;
	uint32_t index = ring->head;

	if (ring->next_ring != NULL) {
		/* Entries left in the backlog need no wake-up; its tail counts the switch entry too. The
		 * backlog is private to the ring's owner, whose lock is held. */
		uint32_t left = one_load_locked(&shm->tail) - ring->head - 1;

		shm = ring->next_shm;
		index = 0;
		need = need > left ? need - left : 1;
	}
	/* Release: pairs with the engine's acquire load, after which it finds this arm, or a later one, in
	 * the bundle. */
	atomic_store_explicit(&shm->arm, one_arm(seq, channel, index + (need > 0 ? need - 1 : 0)),
			      memory_order_release);
}

void
one_wait_arm(struct one_cq *cq, uint16_t channel, uint32_t need)
{
	uint16_t any;

	one_cq_grow(cq);
	if (++cq->arm_seq == 0)
		cq->arm_seq = 1;
	cq->arm_channel = channel;
	any = need > 1 && (channel & ONE_ARM_FLAGS) == 0 ? channel | ONE_ARM_ANY : channel;
	atomic_store_explicit(&cq->bundle->descriptor, cq->descriptor, memory_order_relaxed);
	/* Release: pairs with the exchange in the engine, which answers this arm once and finds its
	 * descriptor. With several rings no core knows the total number of entries, so any entry wakes, and
	 * the caller arms again. */
	atomic_store_explicit(&cq->bundle->arm, one_arm(cq->arm_seq, any, 0), memory_order_release);
	if (cq->num_rings > 1 && any != channel) {
		channel = any;
		need = 1;
	}
	for (uint32_t i = 0; i < cq->num_rings; i++)
		arm_ring(one_cq_ring(cq, i), cq->arm_seq, channel, need);
	/* Pairs with the engine's fence between storing entries and loading `arm`: the engine sees the arm,
	 * or the caller's next poll sees the entries, and the ring that holds them. */
	atomic_thread_fence(memory_order_seq_cst);
}

bool
one_wait_armed(const struct one_cq *cq, uint16_t channel)
{
	/* Acquire: pairs with the engine's exchange before it wakes. */
	uint64_t arm = atomic_load_explicit(&cq->bundle->arm, memory_order_acquire);

	return cq->arm_seq != 0 && cq->arm_channel == channel && ONE_ARM_SEQ(arm) == cq->arm_seq;
}

/* ---- resizing ---- */

/* Entries moved to private memory from the one or two rings in use. */
struct backlog {
	struct one_cq_shm shm;
	struct one_cqe ring[];
};

/* The backlog is private to the ring's owner, whose lock is held: the atomics order nothing. */
static void
backlog_put(struct backlog *log, uint32_t log2, const struct one_cqe *cqe)
{
	uint32_t tail = one_load_locked(&log->shm.tail);
	struct one_cqe *slot = &log->ring[tail];

	memcpy((void *)slot, (const void *)cqe, sizeof(*slot));
	one_store_alone(&slot->phase, one_ring_phase(tail, log2));
	one_store_alone(&log->shm.tail, tail + 1);
}

/* Takes all entries up to the switch entry, fewer than the ring has slots, and returns the ring to the data
 * plane; false: the switch entry does not come. */
static bool
drain_to_switch(const struct one_client *client, struct backlog *log, uint32_t log2, struct one_cq_shm *shm,
		const struct one_cqe *ring, uint32_t ring_log2, uint32_t head)
{
	uint64_t give_up = one_now_ns() + SWITCH_TIMEOUT_NS;

	for (uint32_t n = 0; n < 1u << ring_log2;) {
		const struct one_cqe *slot = &ring[one_ring_slot(head, ring_log2)];

		if (!is_stored(slot, head, ring_log2)) {
			if (one_now_ns() > give_up || client_check(client) != 0)
				return false;
			sched_yield();
			continue;
		}
		if (slot->type == ONE_CQE_SWITCHED) {
			/* Nothing is left. Pairs with the control thread's acquire load, after which it
			 * reuses the memory. */
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
 * Empties the old ring into private memory at once, so that its shared memory is no longer read when this
 * returns, however many resizes follow before the application takes its entries. False: entries may be
 * missing.
 */
static bool
follow_resize(const struct one_client *client, struct one_cq_ring *at, struct backlog *log, uint32_t log2,
	      const struct one_cq_ring *next)
{
	struct one_cqe last = {.type = ONE_CQE_SWITCHED};
	uint64_t base = one_cq_taken(at);
	bool drained = drain_to_switch(client, log, log2, at->shm, at->ring, at->log2, at->head) &&
		       (at->next_ring == NULL ||
			drain_to_switch(client, log, log2, at->next_shm, at->next_ring, at->next_log2, 0));

	backlog_put(log, log2, &last);
	drop_backlog(at);
	*at = (struct one_cq_ring){.shm = &log->shm,
				   .ring = log->ring,
				   .log2 = log2,
				   .lump = (1u << log2) >> 2,
				   .base = base,
				   .backlog = log,
				   .next_ring = next->ring,
				   .next_shm = next->shm,
				   .next_log2 = next->log2};
	return drained;
}

/* Allocates room for the entries of both rings and the switch entry. */
static struct backlog *
backlog_new(const struct one_cq_ring *at, uint32_t *log2)
{
	uint32_t capacity = (1u << at->log2) + 1;
	struct backlog *log;

	if (at->next_ring != NULL)
		capacity += 1u << at->next_log2;
	for (*log2 = 0; 1u << *log2 < capacity;)
		++*log2;
	log = calloc(1, sizeof(*log) + (sizeof(struct one_cqe) << *log2));
	return log;
}

static int
resize_ring(struct one_cq *cq, uint32_t number, uint32_t entries)
{
	struct one_msg msg = {.type = ONE_MSG_CQ_RESIZE};
	struct one_cq_ring *at = one_cq_ring(cq, number), next;
	struct one_reply reply;
	uint32_t log2;
	struct backlog *log = backlog_new(at, &log2);
	int error;

	if (log == NULL)
		return -ENOMEM;
	msg.cq_resize = (struct one_cq_resize){.cq = cq->id, .entries = entries, .ring = number};
	error = one_call(cq->client, &msg, NULL, 0, &reply);
	if (error == 0 && !client_cq_ring(cq->client, reply.cq.offset, reply.cq.log2, &next.shm, &next.ring))
		error = -EPROTO;
	if (error == 0) {
		next.log2 = reply.cq.log2;
		if (follow_resize(cq->client, at, log, log2, &next))
			return 0;
		error = -EPROTO; /* no correct data plane does this */
	} else {
		free(log);
	}
	if (error == -EPROTO)
		client_fail(cq->client);
	return error;
}

int
one_cq_resize(struct one_cq *cq, uint32_t entries)
{
	int error = 0;

	one_cq_grow(cq);
	for (uint32_t i = 0; i < cq->num_rings && error == 0; i++) {
		error = resize_ring(cq, i, entries);
		one_cq_grow(cq); /* take up rings created before the bundle's first resize */
	}
	if (cq->num_rings > 1)
		shorten_turns(cq);
	if (error == 0 && cq->arm_channel != 0)
		one_channel_wake(cq->client, cq->arm_channel);
	return error;
}
