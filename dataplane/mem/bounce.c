/* SPDX-License-Identifier: BSD-3-Clause */
#include "bounce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "channel.h"
#include "place.h"
#include "dataplane/base/clock.h"

#define STALE \
	256u /* polls after which a result that its party did not fetch may be dropped for another party */

/* Memory that a call accesses, as described to the copy thread. */
struct access {
	struct bounce *bounce; /* the application that owns the memory */
	uint32_t tag;
	uint32_t len; /* sum of all sges */
	uint8_t op;   /* enum one_copy_op */
	uint8_t num_spans;
	struct one_copy_span span[ONE_MAX_SGE]; /* the sges without mapping */
};

struct bounce_job {
	struct bounce_job
		*next; /* free list; or a party's queue, a ring: the newest job's next is the oldest */
	struct bounce_party *party; /* NULL: the result is not wanted */
	uint32_t slot;              /* slot; BOUNCE_SLOTS + enum bounce_queue: in a queue */
	uint32_t sequence;
	uint32_t done_at; /* value of bounce.looks */
	bool done;
	bool open; /* not handed over yet: in bounce.open */
	TAILQ_ENTRY(bounce_job) open_link;
	int result;
	uint64_t value;
	struct access access; /* `bounce` is always set */
	_Alignas(8) uint8_t note[BOUNCE_NOTE];
};

struct bounce {
	/* core only */
	struct one_copies *shm;
	uint32_t lane;
	struct bounce *first;          /* part of the application's first lane: mem_region.bounce */
	_Atomic(struct bounce *) next; /* list of the application's parts; stored by the control thread */
	struct bounce_list *list;
	LIST_ENTRY(bounce) link;
	bounce_fault *fault;
	void *owner;
	bool listed;
	bool broken;   /* a wrong answer arrived: later ones are ignored */
	bool detached; /* no new accesses */
	uint32_t looks;
	struct bounce_job *free;
	struct bounce_job *asked[ONE_COPIES]; /* by sequence */
	TAILQ_HEAD(, bounce_party) starved;
	TAILQ_HEAD(, bounce_job) open; /* jobs not handed over yet, oldest first */
	/* written by the core, read by the control thread */
	_Atomic uint32_t tail, head; /* number of requests handed over; number answered */
	_Atomic uint64_t since;
	_Atomic uint64_t bytes;
	struct bounce_job job[ONE_COPIES];
};

/* ---- jobs ---- */

/* Relaxed loads pair with nothing: only the core stores tail and head, and loads them here. */
static uint32_t
tail_of(const struct bounce *bounce)
{
	return atomic_load_explicit(&bounce->tail, memory_order_relaxed);
}

static uint32_t
head_of(const struct bounce *bounce)
{
	return atomic_load_explicit(&bounce->head, memory_order_relaxed);
}

/* Sets `since` to 0 if nothing is under way. */
static void
restart_clock(struct bounce *bounce)
{
	/* Relaxed: pairs with bounce_since(), which needs no other data. */
	atomic_store_explicit(&bounce->since, head_of(bounce) != tail_of(bounce) ? clock_now() : 0,
			      memory_order_relaxed);
}

static void
list_add(struct bounce *bounce)
{
	if (!bounce->listed) {
		bounce->listed = true;
		LIST_INSERT_HEAD(bounce->list, bounce, link);
	}
}

static uint8_t *
data_of(const struct bounce_job *job)
{
	struct bounce *bounce = job->access.bounce;

	return bounce->shm->slot[job - bounce->job];
}

static void
job_put(struct bounce_job *job)
{
	job->next = job->access.bounce->free;
	job->access.bounce->free = job;
}

static void
queue_add(struct bounce_party *party, enum bounce_queue queue, struct bounce_job *job)
{
	struct bounce_job *last = party->last[queue];

	job->next = job;
	if (last != NULL) {
		job->next = last->next;
		last->next = job;
	}
	party->last[queue] = job;
}

static struct bounce_job *
job_get(struct bounce *bounce, struct bounce_party *party, uint32_t slot)
{
	struct bounce_job *job = bounce->free;

	list_add(bounce);
	if (job == NULL) {
		if (party->starved == NULL) {
			party->starved = bounce;
			TAILQ_INSERT_TAIL(&bounce->starved, party, link);
		}
		return NULL;
	}
	bounce->free = job->next;
	job->party = party;
	job->slot = slot;
	job->done = false;
	job->open = false;
	if (slot >= BOUNCE_SLOTS)
		queue_add(party, slot - BOUNCE_SLOTS, job);
	else
		party->job[slot] = job;
	return job;
}

/* No party waits for the job any more: free it, or cancel it at the copy thread. */
static void
job_drop(struct bounce_job *job)
{
	job->party = NULL;
	if (job->open)
		TAILQ_REMOVE(&job->access.bounce->open, job, open_link);
	if (job->done || job->open)
		job_put(job);
	else
		/* Pairs with the load of the copy thread before it begins. A cancelled request is answered
		 * like any other. */
		atomic_store_explicit(&job->access.bounce->shm->request[job->sequence % ONE_COPIES].cancelled,
				      1, memory_order_release);
}

static void
submit_job(struct bounce_job *job, uint64_t compare, uint64_t operand)
{
	const struct access *access = &job->access;
	struct bounce *bounce = access->bounce;
	uint32_t tail = tail_of(bounce), i = tail % ONE_COPIES;
	struct one_copy_request *request = &bounce->shm->request[i];

	job->sequence = tail;
	bounce->asked[i] = job;
	memcpy(request->span, access->span, sizeof(access->span));
	request->compare = compare;
	request->operand = operand;
	request->sequence = tail;
	request->slot = (uint32_t)(job - bounce->job);
	request->op = access->op;
	request->num_spans = access->num_spans;
	atomic_store_explicit(&request->cancelled, 0, memory_order_relaxed); /* published by the phase */
	/* Pairs with the acquire load of the copy thread. */
	atomic_store_explicit(&request->phase, one_ring_phase(tail, ONE_COPY_LOG2), memory_order_release);
	/* Pairs with the acquire load in bounce_mark(). */
	atomic_store_explicit(&bounce->tail, tail + 1, memory_order_release);
	if (head_of(bounce) == tail)
		restart_clock(bounce);
	channel_signal(&bounce->first->shm->wake, 1); /* wake the copy thread */
}

bool
bounce_done(const struct bounce_party *party, uint32_t slot)
{
	return party->job[slot] != NULL && party->job[slot]->done;
}

void *
bounce_note(struct bounce_party *party, uint32_t slot)
{
	return party->job[slot]->note;
}

void
bounce_cancel(struct bounce_party *party, uint32_t slot)
{
	struct bounce_job *job = party->job[slot];

	if (job == NULL)
		return;
	party->job[slot] = NULL;
	job_drop(job);
}

void
bounce_leave(struct bounce_party *party)
{
	for (uint32_t i = 0; i < BOUNCE_SLOTS; i++)
		bounce_cancel(party, i);
	for (uint32_t i = 0; i < BOUNCE_QUEUES; i++)
		bounce_queue_clear(party, i);
	if (party->starved != NULL) {
		TAILQ_REMOVE(&party->starved->starved, party, link);
		party->starved = NULL;
	}
}

/* ---- accesses ---- */

static struct bounce *
next_part(const struct bounce *bounce)
{
	/* Pairs with the release store in bounce_new. */
	return atomic_load_explicit(&bounce->next, memory_order_acquire);
}

/* Returns the application's part of the party's lane; NULL: there is none. */
static struct bounce *
part_of(const struct mem_region *region, const struct bounce_party *party)
{
	struct bounce *part = region->bounce;

	while (part != NULL && part->lane != party->lane)
		part = next_part(part);
	return part;
}

/* False if the sges are too long, or none lacks a mapping, or those without mapping belong to several
 * applications or to a detached one. `bounce`: application that must own the memory; NULL: any. */
static bool
describe_access(struct access *access, const struct bounce_party *party, enum one_copy_op op, uint32_t tag,
		const struct mem_sge *sges, uint32_t num, struct bounce *bounce)
{
	*access = (struct access){.op = (uint8_t)op, .tag = tag, .bounce = bounce};
	for (uint32_t i = 0; i < num; i++) {
		const struct mem_region *region = sges[i].region;

		if (num > ONE_MAX_SGE || sges[i].len > BOUNCE_LEN - access->len)
			return false;
		if (region->base == NULL && access->bounce == NULL)
			access->bounce = part_of(region, party);
		if (region->base == NULL &&
		    (access->bounce == NULL || part_of(region, party) != access->bounce))
			return false;
		if (region->base == NULL && sges[i].len != 0)
			access->span[access->num_spans++] =
				(struct one_copy_span){sges[i].va - region->shift, sges[i].len, access->len};
		access->len += sges[i].len;
	}
	return (access->len != 0 || bounce != NULL) && access->bounce != NULL && !access->bounce->detached;
}

static bool
is_same(const struct access *a, const struct access *b)
{
	return a->bounce == b->bounce && a->op == b->op && a->tag == b->tag && a->num_spans == b->num_spans &&
	       memcmp(a->span, b->span, a->num_spans * sizeof(a->span[0])) == 0;
}

/* Copy between `buffer` and the mapped sges, which need no copy thread. */
static void
move_mapped(const struct mem_sge *sges, uint32_t num, uint8_t *buffer, bool out)
{
	for (uint32_t i = 0; i < num; i++) {
		const struct mem_sge *sge = &sges[i];

		if (sge->region->base != NULL && out)
			mem_read(sge->region, sge->va, buffer, sge->len);
		else if (sge->region->base != NULL)
			mem_write(sge->region, sge->va, buffer, sge->len);
		buffer += sge->len;
	}
}

/* Result of the same call made before: 0, -EFAULT, or -EAGAIN; -ENOENT: no such call is under way in the
 * slot. */
static int
result_of_call(struct bounce_party *party, uint32_t slot, const struct access *access)
{
	struct bounce_job *job = party->job[slot];

	if (job == NULL)
		return -ENOENT;
	if (!job->done)
		return -EAGAIN;
	if (is_same(&job->access, access))
		return job->result;
	bounce_cancel(party, slot);
	return -ENOENT;
}

/* `in`: payload to be moved; NULL: none. Returns NULL if no job is free now. */
static struct bounce_job *
begin_job(struct bounce_party *party, uint32_t slot, const struct access *access, const void *in,
	  uint64_t compare, uint64_t operand)
{
	struct bounce_job *job = job_get(access->bounce, party, slot);

	if (job == NULL)
		return NULL;
	job->access = *access;
	if (in != NULL)
		memcpy(data_of(job), in, access->len);
	submit_job(job, compare, operand);
	return job;
}

static int
bounce_move(struct bounce_party *party, uint32_t slot, const struct mem_sge *sges, uint32_t num, uint8_t *out,
	    const uint8_t *in, uint32_t tag)
{
	struct access access;
	int result;

	if (!describe_access(&access, party, out != NULL ? ONE_COPY_OUT : ONE_COPY_IN, tag, sges, num, NULL))
		return -EFAULT;
	result = result_of_call(party, slot, &access);
	if (result == -ENOENT && (out != NULL || in != NULL)) {
		begin_job(party, slot, &access, in, 0, 0);
		return -EAGAIN;
	}
	if (result == 0 && out != NULL)
		memcpy(out, data_of(party->job[slot]), access.len);
	if (result == 0)
		move_mapped(sges, num, out != NULL ? out : data_of(party->job[slot]), out != NULL);
	if (result != -EAGAIN)
		bounce_cancel(party, slot);
	return result;
}

int
bounce_gather(struct bounce_party *party, uint32_t slot, const struct mem_sge *sges, uint32_t num,
	      void *buffer, uint32_t tag)
{
	return bounce_move(party, slot, sges, num, buffer, NULL, tag);
}

int
bounce_scatter(struct bounce_party *party, uint32_t slot, const struct mem_sge *sges, uint32_t num,
	       const void *buffer, uint32_t tag)
{
	return bounce_move(party, slot, sges, num, NULL, buffer, tag);
}

int
bounce_atomic(struct bounce_party *party, uint32_t slot, const struct mem_region *region, uint64_t va,
	      const uint64_t *compare, uint64_t operand, uint64_t *found, uint32_t tag)
{
	const struct mem_sge sge = {region, va, sizeof(*found)};
	struct access access;
	int result;

	if (((va | region->shift) & 7) != 0 ||
	    !describe_access(&access, party, compare != NULL ? ONE_COPY_CMP_SWAP : ONE_COPY_FETCH_ADD, tag,
			     &sge, 1, NULL))
		return -EFAULT;
	result = result_of_call(party, slot, &access);
	if (result == -ENOENT) {
		begin_job(party, slot, &access, NULL, compare != NULL ? *compare : 0, operand);
		return -EAGAIN;
	}
	if (result == 0)
		*found = party->job[slot]->value;
	if (result != -EAGAIN)
		bounce_cancel(party, slot);
	return result;
}

/* ---- queues of a party ---- */

static struct bounce_job *
queue_oldest(const struct bounce_party *party, enum bounce_queue queue)
{
	return party->last[queue]->next;
}

static void
hand_over(struct bounce_job *job)
{
	TAILQ_REMOVE(&job->access.bounce->open, job, open_link);
	job->open = false;
	submit_job(job, 0, 0);
}

/* Append a new job to the queue; NULL: *error is set. */
static struct bounce_job *
queue_append(struct bounce_party *party, enum bounce_queue queue, enum one_copy_op op,
	     const struct mem_sge *sges, uint32_t num, int *error)
{
	struct bounce *bounce = party->last[queue] != NULL ? party->last[queue]->access.bounce : NULL;
	struct access access;
	struct bounce_job *job;

	*error = -EFAULT;
	if (!describe_access(&access, party, op, 0, sges, num, bounce))
		return NULL;
	*error = -EAGAIN;
	job = job_get(access.bounce, party, BOUNCE_SLOTS + queue);
	if (job == NULL)
		return NULL;
	*error = 0;
	job->access = access;
	job->result = 0;
	return job;
}

int
bounce_queue_scatter(struct bounce_party *party, enum bounce_queue queue, const struct mem_sge *sges,
		     uint32_t num, const void *buffer, const void *note, uint32_t len)
{
	struct bounce_job *job;
	int error = -EFAULT;

	if (len > BOUNCE_NOTE)
		return error;
	bounce_queue_submit(party, queue); /* the copy thread serves jobs in the order handed over */
	job = queue_append(party, queue, ONE_COPY_IN, sges, num, &error);
	if (job == NULL)
		return error;
	if (len != 0)
		memcpy(job->note, note, len);
	if (job->access.len != 0)
		memcpy(data_of(job), buffer, job->access.len);
	/* Without unmapped sges the copy thread has nothing to do. */
	job->done = job->access.num_spans == 0;
	job->open = !job->done;
	if (job->open)
		TAILQ_INSERT_TAIL(&job->access.bounce->open, job, open_link);
	return 0;
}

int
bounce_queue_gather(struct bounce_party *party, enum bounce_queue queue, const struct mem_sge *sges,
		    uint32_t num, const void *note, uint32_t len)
{
	struct bounce_job *job;
	int error = -EFAULT;

	if (len > BOUNCE_NOTE)
		return error;
	job = queue_append(party, queue, ONE_COPY_OUT, sges, num, &error);
	if (job == NULL)
		return error;
	if (len != 0)
		memcpy(job->note, note, len);
	move_mapped(sges, num, data_of(job), true);
	job->done = job->access.num_spans == 0;
	if (!job->done)
		submit_job(job, 0, 0);
	return 0;
}

bool
bounce_queue_extend(struct bounce_party *party, enum bounce_queue queue, const struct mem_sge *sge,
		    const void *buffer)
{
	struct bounce_job *job = party->last[queue];
	struct one_copy_span *span;
	struct access *access;

	if (job == NULL || !job->open)
		return false;
	access = &job->access;
	span = &access->span[0];
	if (access->num_spans != 1 || span->len != access->len || sge->region->base != NULL ||
	    part_of(sge->region, party) != access->bounce ||
	    sge->va - sge->region->shift != span->addr + span->len || sge->len > BOUNCE_LEN - access->len)
		return false;
	memcpy(data_of(job) + access->len, buffer, sge->len);
	span->len += sge->len;
	access->len += sge->len;
	if (access->len == BOUNCE_LEN)
		hand_over(job);
	return true;
}

void
bounce_queue_submit(struct bounce_party *party, enum bounce_queue queue)
{
	if (party->last[queue] != NULL && party->last[queue]->open)
		hand_over(party->last[queue]);
}

void *
bounce_queue_oldest(const struct bounce_party *party, enum bounce_queue queue)
{
	return queue_oldest(party, queue)->note;
}

void *
bounce_queue_newest(const struct bounce_party *party, enum bounce_queue queue)
{
	return party->last[queue]->note;
}

bool
bounce_queue_done(const struct bounce_party *party, enum bounce_queue queue)
{
	return party->last[queue] != NULL && queue_oldest(party, queue)->done;
}

int
bounce_queue_result(const struct bounce_party *party, enum bounce_queue queue)
{
	return queue_oldest(party, queue)->result;
}

const uint8_t *
bounce_queue_data(const struct bounce_party *party, enum bounce_queue queue)
{
	return data_of(queue_oldest(party, queue));
}

void
bounce_queue_place(const struct bounce_party *party, enum bounce_queue queue, const struct mem_sge *sges,
		   uint32_t num)
{
	move_mapped(sges, num, data_of(queue_oldest(party, queue)), false);
}

void
bounce_queue_pop(struct bounce_party *party, enum bounce_queue queue)
{
	struct bounce_job *last = party->last[queue], *job = last->next;

	if (job == last)
		party->last[queue] = NULL;
	else
		last->next = job->next;
	job_drop(job);
}

void
bounce_queue_clear(struct bounce_party *party, enum bounce_queue queue)
{
	while (party->last[queue] != NULL)
		bounce_queue_pop(party, queue);
}

uint32_t
bounce_queue_count(const struct bounce_party *party, enum bounce_queue queue)
{
	const struct bounce_job *last = party->last[queue], *job = last;
	uint32_t count = 0;

	if (last != NULL)
		do {
			job = job->next;
			count++;
		} while (job != last);
	return count;
}

/* ---- answers ---- */

static bool
is_answered(const struct bounce *bounce)
{
	uint32_t head = head_of(bounce);

	/* Pairs with the release store of the copy thread. */
	return !bounce->broken && head != tail_of(bounce) &&
	       atomic_load_explicit(&bounce->shm->answer[head % ONE_COPIES].phase, memory_order_acquire) ==
		       one_ring_phase(head, ONE_COPY_LOG2);
}

static void
count_bytes(struct bounce *bounce, const struct bounce_job *job)
{
	/* Relaxed: pairs with bounce_bytes(), for telemetry. */
	for (uint32_t i = 0; i < job->access.num_spans && job->result == 0; i++)
		atomic_fetch_add_explicit(&bounce->bytes, job->access.span[i].len, memory_order_relaxed);
}

/* Read the next answer; false if it does not answer the oldest request. */
static bool
take_answer(struct bounce *bounce, struct bounce_job *job)
{
	const struct one_copy_answer *slot = &bounce->shm->answer[job->sequence % ONE_COPIES];
	/* Read each field once: the application may change it at any time. Ordered by is_answered()'s acquire
	 * load. */
	uint32_t sequence = __atomic_load_n(&slot->sequence, __ATOMIC_RELAXED);
	uint32_t error = __atomic_load_n(&slot->error, __ATOMIC_RELAXED);

	job->value = __atomic_load_n(&slot->value, __ATOMIC_RELAXED);
	job->result = error == 0 ? 0 : -EFAULT;
	return sequence == job->sequence && (error == 0 || error == EFAULT);
}

static uint32_t
collect_answers(struct bounce *bounce, bounce_wake *wake, void *context)
{
	uint32_t before = head_of(bounce);

	while (is_answered(bounce)) {
		uint32_t head = head_of(bounce);
		struct bounce_job *job = bounce->asked[head % ONE_COPIES];

		if (!take_answer(bounce, job)) {
			bounce->broken = true;
			bounce->fault(bounce->owner);
			break;
		}
		count_bytes(bounce, job);
		/* Pairs with the acquire load in bounce_passed(). */
		atomic_store_explicit(&bounce->head, head + 1, memory_order_release);
		restart_clock(bounce);
		job->done = true;
		job->done_at = bounce->looks;
		if (job->party != NULL)
			wake(context, job->party->user);
		else
			job_put(job);
	}
	return head_of(bounce) - before;
}

/* True if the party can do without the result, since it would read the memory again. */
static bool
is_dispensable(const struct bounce_job *job)
{
	return job->access.op == ONE_COPY_OUT && job->slot != BOUNCE_SLOTS + BOUNCE_LEAVING;
}

/* Find a free job for a waiting party: drop results that were read but not fetched, if their party can read
 * again. */
static bool
job_for_starved(struct bounce *bounce)
{
	for (uint32_t i = 0; i < ONE_COPIES && bounce->free == NULL; i++) {
		struct bounce_job *job = &bounce->job[i];

		if (job->party == NULL || !job->done || !is_dispensable(job) ||
		    bounce->looks - job->done_at <= STALE)
			continue;
		if (job->slot < BOUNCE_SLOTS)
			bounce_cancel(job->party, job->slot);
		else
			bounce_queue_clear(job->party, job->slot - BOUNCE_SLOTS);
	}
	return bounce->free != NULL;
}

/* Hand over jobs that the transports have extended in this loop. */
static void
hand_over_open(struct bounce *bounce)
{
	struct bounce_job *job;

	while ((job = TAILQ_FIRST(&bounce->open)) != NULL)
		hand_over(job);
}

static void
wake_starved(struct bounce *bounce, bounce_wake *wake, void *context)
{
	struct bounce_party *party;

	/* Wake one party per poll: the next finds another free job, or waits again behind the others. */
	if (!job_for_starved(bounce))
		return;
	party = TAILQ_FIRST(&bounce->starved);
	TAILQ_REMOVE(&bounce->starved, party, link);
	party->starved = NULL;
	wake(context, party->user);
}

uint32_t
bounce_poll(struct bounce_list *list, bounce_wake *wake, void *context)
{
	struct bounce *bounce, *next;
	uint32_t done = 0;

	for (bounce = LIST_FIRST(list); bounce != NULL; bounce = next) {
		next = LIST_NEXT(bounce, link); /* a callback may add to the list, but only at the front */
		bounce->looks++;
		hand_over_open(bounce);
		done += collect_answers(bounce, wake, context);
		if (!TAILQ_EMPTY(&bounce->starved))
			wake_starved(bounce, wake, context);
		/* Hand over now what callbacks have queued: after a key is removed, no access by it must
		 * start in a later loop. */
		hand_over_open(bounce);
		if (head_of(bounce) == tail_of(bounce) && TAILQ_EMPTY(&bounce->starved) &&
		    TAILQ_EMPTY(&bounce->open)) {
			LIST_REMOVE(bounce, link);
			bounce->listed = false;
		}
	}
	return done;
}

bool
bounce_due(const struct bounce_list *list)
{
	const struct bounce *bounce;

	LIST_FOREACH(bounce, list, link)
		if (is_answered(bounce) || !TAILQ_EMPTY(&bounce->open) ||
		    (!TAILQ_EMPTY(&bounce->starved) && head_of(bounce) == tail_of(bounce)))
			return true;
	return false;
}

void
bounce_detach(struct bounce *bounce, bounce_wake *wake, void *context)
{
	struct bounce_party *party;

	bounce->detached = true;
	for (uint32_t i = 0; i < ONE_COPIES; i++) {
		struct bounce_job *job = &bounce->job[i];

		party = job->party;
		if (party == NULL)
			continue;
		if (job->slot >= BOUNCE_SLOTS) {
			if (job->open)
				TAILQ_REMOVE(&bounce->open, job, open_link);
			job->open = false;
			job->done = true;
			job->result = -EFAULT;
		} else {
			bounce_cancel(party, job->slot);
		}
		wake(context, party->user);
	}
	while ((party = TAILQ_FIRST(&bounce->starved)) != NULL) {
		TAILQ_REMOVE(&bounce->starved, party, link);
		party->starved = NULL;
		wake(context, party->user);
	}
	if (bounce->listed)
		LIST_REMOVE(bounce, link);
	bounce->listed = false;
}

/* ---- control thread ---- */

struct bounce *
bounce_new(struct one_copies *shm, struct bounce_list *list, bounce_fault *fault, void *owner, uint32_t lane,
	   struct bounce *first)
{
	struct bounce *bounce = calloc(1, sizeof(*bounce));

	if (bounce == NULL)
		return NULL;
	bounce->shm = shm;
	bounce->lane = lane;
	bounce->first = first != NULL ? first : bounce;
	bounce->list = list;
	bounce->fault = fault;
	bounce->owner = owner;
	TAILQ_INIT(&bounce->starved);
	TAILQ_INIT(&bounce->open);
	for (uint32_t i = 0; i < ONE_COPIES; i++) {
		bounce->job[i].access.bounce = bounce;
		job_put(&bounce->job[i]);
	}
	if (first != NULL) {
		atomic_store_explicit(&bounce->next, next_part(first), memory_order_relaxed);
		/* Pairs with the acquire load in next_part. */
		atomic_store_explicit(&first->next, bounce, memory_order_release);
	}
	return bounce;
}

void
bounce_free(struct bounce *bounce)
{
	free(bounce);
}

void
bounce_inherit(struct bounce *bounce, uint64_t bytes)
{
	/* Relaxed: pairs with bounce_bytes(). */
	atomic_fetch_add_explicit(&bounce->bytes, bytes, memory_order_relaxed);
}

uint64_t
bounce_bytes(const struct bounce *first)
{
	uint64_t bytes = 0;

	for (; first != NULL; first = next_part(first))
		bytes += atomic_load_explicit(&first->bytes,
					      memory_order_relaxed); /* pairs with count_bytes() */
	return bytes;
}

uint64_t
bounce_since(const struct bounce *first)
{
	uint64_t oldest = 0;

	for (; first != NULL; first = next_part(first)) {
		/* Pairs with restart_clock(). */
		uint64_t since = atomic_load_explicit(&first->since, memory_order_relaxed);

		if (since != 0 && (oldest == 0 || since < oldest))
			oldest = since;
	}
	return oldest;
}

uint32_t
bounce_mark(const struct bounce *bounce)
{
	return atomic_load_explicit(&bounce->tail, memory_order_acquire); /* pairs with submit_job() */
}

bool
bounce_passed(const struct bounce *bounce, uint32_t mark)
{
	/* Pairs with the release store in collect_answers(). */
	return (int32_t)(atomic_load_explicit(&bounce->head, memory_order_acquire) - mark) >= 0;
}

/* Later parts are inserted after the first one, before these. */
void
bounce_mark_all(const struct bounce *first, struct bounce_marks *marks)
{
	const struct bounce *bounce = next_part(first);

	marks->mark[0] = bounce_mark(first);
	for (marks->num = 1; bounce != NULL; bounce = next_part(bounce))
		marks->mark[marks->num++] = bounce_mark(bounce);
}

bool
bounce_passed_all(const struct bounce *first, const struct bounce_marks *marks)
{
	const struct bounce *bounce = next_part(first);
	uint32_t parts = 1, n = 1;

	for (const struct bounce *part = bounce; part != NULL; part = next_part(part))
		parts++;
	for (; bounce != NULL && parts > marks->num; parts--)
		bounce = next_part(bounce);
	for (; bounce != NULL; bounce = next_part(bounce))
		if (!bounce_passed(bounce, marks->mark[n++]))
			return false;
	return bounce_passed(first, marks->mark[0]);
}

/* ---- take-over: no core runs ---- */

bool
bounce_is_idle(const struct bounce *bounce)
{
	return head_of(bounce) == tail_of(bounce) && TAILQ_EMPTY(&bounce->open) &&
	       TAILQ_EMPTY(&bounce->starved);
}

struct one_copies *
bounce_shm(const struct bounce *bounce)
{
	return bounce->shm;
}

uint32_t
bounce_handed_over(const struct bounce *bounce)
{
	return tail_of(bounce);
}

void
bounce_continue(struct bounce *bounce, uint32_t handed_over)
{
	atomic_store_explicit(&bounce->tail, handed_over, memory_order_relaxed);
	atomic_store_explicit(&bounce->head, handed_over, memory_order_relaxed);
}
