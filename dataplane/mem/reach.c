/* SPDX-License-Identifier: BSD-3-Clause */
#include "reach.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "channel.h"
#include "place.h"
#include "dataplane/compat/clock.h"

#define STALE \
	256u /* polls after which a result that its party did not fetch may be dropped for another party */

/* Memory that a call accesses, as described to the copy thread. */
struct access {
	struct reach *reach; /* the application that owns the memory */
	uint32_t tag;
	uint32_t len; /* sum of all sges */
	uint8_t op;   /* enum one_copy_op */
	uint8_t num_spans;
	struct one_copy_span span[ONE_MAX_SGE]; /* the sges without mapping */
};

struct reach_job {
	struct reach_job
		*next; /* free list; or a party's queue, a ring: the newest job's next is the oldest */
	struct reach_party *party; /* NULL: the result is not wanted */
	uint32_t slot;             /* slot; REACH_SLOTS + enum reach_queue: in a queue */
	uint32_t sequence;
	uint32_t done_at; /* value of reach.looks */
	bool done;
	bool open; /* not handed over yet: in reach.open */
	TAILQ_ENTRY(reach_job) open_link;
	int result;
	uint64_t value;
	struct access access; /* `reach` is always set */
	_Alignas(8) uint8_t note[REACH_NOTE];
};

struct reach {
	/* core only */
	struct one_copies *shm;
	uint32_t core;
	struct reach *first;          /* to which regions lead */
	_Atomic(struct reach *) next; /* from the first on; stored by the control thread */
	struct reach_list *list;
	LIST_ENTRY(reach) link;
	reach_fault *fault;
	void *owner;
	bool listed;
	bool broken;   /* a wrong answer arrived: later ones are ignored */
	bool detached; /* no new accesses */
	uint32_t looks;
	struct reach_job *free;
	struct reach_job *asked[ONE_COPIES]; /* by sequence */
	TAILQ_HEAD(, reach_party) starved;
	TAILQ_HEAD(, reach_job) open; /* jobs not handed over yet, oldest first */
	/* written by the core, read by the control thread */
	_Atomic uint32_t tail, head; /* number of requests handed over; number answered */
	_Atomic uint64_t since;
	_Atomic uint64_t bytes;
	struct reach_job job[ONE_COPIES];
};

/* ---- jobs ---- */

/* Relaxed loads pair with nothing: only the core stores tail and head, and loads them here. */
static uint32_t
tail_of(const struct reach *reach)
{
	return atomic_load_explicit(&reach->tail, memory_order_relaxed);
}

static uint32_t
head_of(const struct reach *reach)
{
	return atomic_load_explicit(&reach->head, memory_order_relaxed);
}

/* Sets `since` to 0 if nothing is under way. */
static void
restart_clock(struct reach *reach)
{
	/* Relaxed: pairs with reach_since(), which needs no other data. */
	atomic_store_explicit(&reach->since, head_of(reach) != tail_of(reach) ? clock_now() : 0,
			      memory_order_relaxed);
}

static void
list_add(struct reach *reach)
{
	if (!reach->listed) {
		reach->listed = true;
		LIST_INSERT_HEAD(reach->list, reach, link);
	}
}

static uint8_t *
data_of(const struct reach_job *job)
{
	struct reach *reach = job->access.reach;

	return reach->shm->slot[job - reach->job];
}

static void
job_put(struct reach_job *job)
{
	job->next = job->access.reach->free;
	job->access.reach->free = job;
}

static void
queue_add(struct reach_party *party, enum reach_queue queue, struct reach_job *job)
{
	struct reach_job *last = party->last[queue];

	job->next = job;
	if (last != NULL) {
		job->next = last->next;
		last->next = job;
	}
	party->last[queue] = job;
}

static struct reach_job *
job_get(struct reach *reach, struct reach_party *party, uint32_t slot)
{
	struct reach_job *job = reach->free;

	list_add(reach);
	if (job == NULL) {
		if (party->starved == NULL) {
			party->starved = reach;
			TAILQ_INSERT_TAIL(&reach->starved, party, link);
		}
		return NULL;
	}
	reach->free = job->next;
	job->party = party;
	job->slot = slot;
	job->done = false;
	job->open = false;
	if (slot >= REACH_SLOTS)
		queue_add(party, slot - REACH_SLOTS, job);
	else
		party->job[slot] = job;
	return job;
}

/* No party waits for the job any more: free it, or cancel it at the copy thread. */
static void
job_drop(struct reach_job *job)
{
	job->party = NULL;
	if (job->open)
		TAILQ_REMOVE(&job->access.reach->open, job, open_link);
	if (job->done || job->open)
		job_put(job);
	else
		/* Pairs with the load of the copy thread before it begins. A cancelled request is answered
		 * like any other. */
		atomic_store_explicit(&job->access.reach->shm->request[job->sequence % ONE_COPIES].cancelled,
				      1, memory_order_release);
}

static void
submit_job(struct reach_job *job, uint64_t compare, uint64_t operand)
{
	const struct access *access = &job->access;
	struct reach *reach = access->reach;
	uint32_t tail = tail_of(reach), i = tail % ONE_COPIES;
	struct one_copy_request *request = &reach->shm->request[i];

	job->sequence = tail;
	reach->asked[i] = job;
	memcpy(request->span, access->span, sizeof(access->span));
	request->compare = compare;
	request->operand = operand;
	request->sequence = tail;
	request->slot = (uint32_t)(job - reach->job);
	request->op = access->op;
	request->num_spans = access->num_spans;
	atomic_store_explicit(&request->cancelled, 0, memory_order_relaxed); /* published by the phase */
	/* Pairs with the acquire load of the copy thread. */
	atomic_store_explicit(&request->phase, one_ring_phase(tail, ONE_COPY_LOG2), memory_order_release);
	/* Pairs with the acquire load in reach_mark(). */
	atomic_store_explicit(&reach->tail, tail + 1, memory_order_release);
	if (head_of(reach) == tail)
		restart_clock(reach);
	channel_signal(&reach->first->shm->wake, 1); /* wake the copy thread */
}

bool
reach_done(const struct reach_party *party, uint32_t slot)
{
	return party->job[slot] != NULL && party->job[slot]->done;
}

void *
reach_note(struct reach_party *party, uint32_t slot)
{
	return party->job[slot]->note;
}

void
reach_cancel(struct reach_party *party, uint32_t slot)
{
	struct reach_job *job = party->job[slot];

	if (job == NULL)
		return;
	party->job[slot] = NULL;
	job_drop(job);
}

void
reach_leave(struct reach_party *party)
{
	for (uint32_t i = 0; i < REACH_SLOTS; i++)
		reach_cancel(party, i);
	for (uint32_t i = 0; i < REACH_QUEUES; i++)
		reach_queue_clear(party, i);
	if (party->starved != NULL) {
		TAILQ_REMOVE(&party->starved->starved, party, link);
		party->starved = NULL;
	}
}

/* ---- accesses ---- */

static struct reach *
next_part(const struct reach *reach)
{
	/* Pairs with the release store in reach_new. */
	return atomic_load_explicit(&reach->next, memory_order_acquire);
}

/* Returns the application's part on the core of the party; NULL: there is none. */
static struct reach *
part_of(const struct mem_region *region, const struct reach_party *party)
{
	struct reach *part = region->reach;

	while (part != NULL && part->core != party->core)
		part = next_part(part);
	return part;
}

/*
 * False if the sges are too long, or none lacks a mapping, or those without mapping belong to several
 * applications or to a detached one. `reach`: application that must own the memory; NULL: any.
 */
static bool
describe_access(struct access *access, const struct reach_party *party, enum one_copy_op op, uint32_t tag,
		const struct mem_sge *sges, uint32_t num, struct reach *reach)
{
	*access = (struct access){.op = (uint8_t)op, .tag = tag, .reach = reach};
	for (uint32_t i = 0; i < num; i++) {
		const struct mem_region *region = sges[i].region;

		if (num > ONE_MAX_SGE || sges[i].len > REACH_LEN - access->len)
			return false;
		if (region->base == NULL && access->reach == NULL)
			access->reach = part_of(region, party);
		if (region->base == NULL &&
		    (access->reach == NULL || part_of(region, party) != access->reach))
			return false;
		if (region->base == NULL && sges[i].len != 0)
			access->span[access->num_spans++] =
				(struct one_copy_span){sges[i].va - region->shift, sges[i].len, access->len};
		access->len += sges[i].len;
	}
	return (access->len != 0 || reach != NULL) && access->reach != NULL && !access->reach->detached;
}

static bool
is_same(const struct access *a, const struct access *b)
{
	return a->reach == b->reach && a->op == b->op && a->tag == b->tag && a->num_spans == b->num_spans &&
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
result_of_call(struct reach_party *party, uint32_t slot, const struct access *access)
{
	struct reach_job *job = party->job[slot];

	if (job == NULL)
		return -ENOENT;
	if (!job->done)
		return -EAGAIN;
	if (is_same(&job->access, access))
		return job->result;
	reach_cancel(party, slot);
	return -ENOENT;
}

/* `in`: payload to be moved; NULL: none. Returns NULL if no job is free now. */
static struct reach_job *
begin_job(struct reach_party *party, uint32_t slot, const struct access *access, const void *in,
	  uint64_t compare, uint64_t operand)
{
	struct reach_job *job = job_get(access->reach, party, slot);

	if (job == NULL)
		return NULL;
	job->access = *access;
	if (in != NULL)
		memcpy(data_of(job), in, access->len);
	submit_job(job, compare, operand);
	return job;
}

static int
reach_move(struct reach_party *party, uint32_t slot, const struct mem_sge *sges, uint32_t num, uint8_t *out,
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
		reach_cancel(party, slot);
	return result;
}

int
reach_gather(struct reach_party *party, uint32_t slot, const struct mem_sge *sges, uint32_t num, void *buffer,
	     uint32_t tag)
{
	return reach_move(party, slot, sges, num, buffer, NULL, tag);
}

int
reach_scatter(struct reach_party *party, uint32_t slot, const struct mem_sge *sges, uint32_t num,
	      const void *buffer, uint32_t tag)
{
	return reach_move(party, slot, sges, num, NULL, buffer, tag);
}

int
reach_atomic(struct reach_party *party, uint32_t slot, const struct mem_region *region, uint64_t va,
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
		reach_cancel(party, slot);
	return result;
}

/* ---- queues of a party ---- */

static struct reach_job *
queue_oldest(const struct reach_party *party, enum reach_queue queue)
{
	return party->last[queue]->next;
}

static void
hand_over(struct reach_job *job)
{
	TAILQ_REMOVE(&job->access.reach->open, job, open_link);
	job->open = false;
	submit_job(job, 0, 0);
}

/* Append a new job to the queue; NULL: *error is set. */
static struct reach_job *
queue_append(struct reach_party *party, enum reach_queue queue, enum one_copy_op op,
	     const struct mem_sge *sges, uint32_t num, int *error)
{
	struct reach *reach = party->last[queue] != NULL ? party->last[queue]->access.reach : NULL;
	struct access access;
	struct reach_job *job;

	*error = -EFAULT;
	if (!describe_access(&access, party, op, 0, sges, num, reach))
		return NULL;
	*error = -EAGAIN;
	job = job_get(access.reach, party, REACH_SLOTS + queue);
	if (job == NULL)
		return NULL;
	*error = 0;
	job->access = access;
	job->result = 0;
	return job;
}

int
reach_queue_scatter(struct reach_party *party, enum reach_queue queue, const struct mem_sge *sges,
		    uint32_t num, const void *buffer, const void *note, uint32_t len)
{
	struct reach_job *job;
	int error = -EFAULT;

	if (len > REACH_NOTE)
		return error;
	reach_queue_submit(party, queue); /* the copy thread serves jobs in the order handed over */
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
		TAILQ_INSERT_TAIL(&job->access.reach->open, job, open_link);
	return 0;
}

int
reach_queue_gather(struct reach_party *party, enum reach_queue queue, const struct mem_sge *sges,
		   uint32_t num, const void *note, uint32_t len)
{
	struct reach_job *job;
	int error = -EFAULT;

	if (len > REACH_NOTE)
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
reach_queue_extend(struct reach_party *party, enum reach_queue queue, const struct mem_sge *sge,
		   const void *buffer)
{
	struct reach_job *job = party->last[queue];
	struct one_copy_span *span;
	struct access *access;

	if (job == NULL || !job->open)
		return false;
	access = &job->access;
	span = &access->span[0];
	if (access->num_spans != 1 || span->len != access->len || sge->region->base != NULL ||
	    part_of(sge->region, party) != access->reach ||
	    sge->va - sge->region->shift != span->addr + span->len || sge->len > REACH_LEN - access->len)
		return false;
	memcpy(data_of(job) + access->len, buffer, sge->len);
	span->len += sge->len;
	access->len += sge->len;
	if (access->len == REACH_LEN)
		hand_over(job);
	return true;
}

void
reach_queue_submit(struct reach_party *party, enum reach_queue queue)
{
	if (party->last[queue] != NULL && party->last[queue]->open)
		hand_over(party->last[queue]);
}

void *
reach_queue_oldest(const struct reach_party *party, enum reach_queue queue)
{
	return queue_oldest(party, queue)->note;
}

void *
reach_queue_newest(const struct reach_party *party, enum reach_queue queue)
{
	return party->last[queue]->note;
}

bool
reach_queue_done(const struct reach_party *party, enum reach_queue queue)
{
	return party->last[queue] != NULL && queue_oldest(party, queue)->done;
}

int
reach_queue_result(const struct reach_party *party, enum reach_queue queue)
{
	return queue_oldest(party, queue)->result;
}

const uint8_t *
reach_queue_data(const struct reach_party *party, enum reach_queue queue)
{
	return data_of(queue_oldest(party, queue));
}

void
reach_queue_place(const struct reach_party *party, enum reach_queue queue, const struct mem_sge *sges,
		  uint32_t num)
{
	move_mapped(sges, num, data_of(queue_oldest(party, queue)), false);
}

void
reach_queue_pop(struct reach_party *party, enum reach_queue queue)
{
	struct reach_job *last = party->last[queue], *job = last->next;

	if (job == last)
		party->last[queue] = NULL;
	else
		last->next = job->next;
	job_drop(job);
}

void
reach_queue_clear(struct reach_party *party, enum reach_queue queue)
{
	while (party->last[queue] != NULL)
		reach_queue_pop(party, queue);
}

uint32_t
reach_queue_count(const struct reach_party *party, enum reach_queue queue)
{
	const struct reach_job *last = party->last[queue], *job = last;
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
is_answered(const struct reach *reach)
{
	uint32_t head = head_of(reach);

	/* Pairs with the release store of the copy thread. */
	return !reach->broken && head != tail_of(reach) &&
	       atomic_load_explicit(&reach->shm->answer[head % ONE_COPIES].phase, memory_order_acquire) ==
		       one_ring_phase(head, ONE_COPY_LOG2);
}

static void
count_bytes(struct reach *reach, const struct reach_job *job)
{
	/* Relaxed: pairs with reach_bytes(), for telemetry. */
	for (uint32_t i = 0; i < job->access.num_spans && job->result == 0; i++)
		atomic_fetch_add_explicit(&reach->bytes, job->access.span[i].len, memory_order_relaxed);
}

/* Read the next answer; false if it does not answer the oldest request. */
static bool
take_answer(struct reach *reach, struct reach_job *job)
{
	const struct one_copy_answer *slot = &reach->shm->answer[job->sequence % ONE_COPIES];
	/* Read each field once: the application may change it at any time. Ordered by is_answered()'s acquire
	 * load. */
	uint32_t sequence = __atomic_load_n(&slot->sequence, __ATOMIC_RELAXED);
	uint32_t error = __atomic_load_n(&slot->error, __ATOMIC_RELAXED);

	job->value = __atomic_load_n(&slot->value, __ATOMIC_RELAXED);
	job->result = error == 0 ? 0 : -EFAULT;
	return sequence == job->sequence && (error == 0 || error == EFAULT);
}

static uint32_t
collect_answers(struct reach *reach, reach_wake *wake, void *context)
{
	uint32_t before = head_of(reach);

	while (is_answered(reach)) {
		uint32_t head = head_of(reach);
		struct reach_job *job = reach->asked[head % ONE_COPIES];

		if (!take_answer(reach, job)) {
			reach->broken = true;
			reach->fault(reach->owner);
			break;
		}
		count_bytes(reach, job);
		/* Pairs with the acquire load in reach_passed(). */
		atomic_store_explicit(&reach->head, head + 1, memory_order_release);
		restart_clock(reach);
		job->done = true;
		job->done_at = reach->looks;
		if (job->party != NULL)
			wake(context, job->party->user);
		else
			job_put(job);
	}
	return head_of(reach) - before;
}

/* True if the party can do without the result, since it would read the memory again. */
static bool
is_dispensable(const struct reach_job *job)
{
	return job->access.op == ONE_COPY_OUT && job->slot != REACH_SLOTS + REACH_LEAVING;
}

/*
 * Find a free job for a waiting party: drop results that were read but not fetched, if their party can read
 * again.
 */
static bool
job_for_starved(struct reach *reach)
{
	for (uint32_t i = 0; i < ONE_COPIES && reach->free == NULL; i++) {
		struct reach_job *job = &reach->job[i];

		if (job->party == NULL || !job->done || !is_dispensable(job) ||
		    reach->looks - job->done_at <= STALE)
			continue;
		if (job->slot < REACH_SLOTS)
			reach_cancel(job->party, job->slot);
		else
			reach_queue_clear(job->party, job->slot - REACH_SLOTS);
	}
	return reach->free != NULL;
}

/* Hand over jobs that the transports have extended in this loop. */
static void
hand_over_open(struct reach *reach)
{
	struct reach_job *job;

	while ((job = TAILQ_FIRST(&reach->open)) != NULL)
		hand_over(job);
}

static void
wake_starved(struct reach *reach, reach_wake *wake, void *context)
{
	struct reach_party *party;

	/* Wake one party per poll: the next finds another free job, or waits again behind the others. */
	if (!job_for_starved(reach))
		return;
	party = TAILQ_FIRST(&reach->starved);
	TAILQ_REMOVE(&reach->starved, party, link);
	party->starved = NULL;
	wake(context, party->user);
}

uint32_t
reach_poll(struct reach_list *list, reach_wake *wake, void *context)
{
	struct reach *reach, *next;
	uint32_t done = 0;

	for (reach = LIST_FIRST(list); reach != NULL; reach = next) {
		next = LIST_NEXT(reach, link); /* a callback may add to the list, but only at the front */
		reach->looks++;
		hand_over_open(reach);
		done += collect_answers(reach, wake, context);
		if (!TAILQ_EMPTY(&reach->starved))
			wake_starved(reach, wake, context);
		/* Hand over now what callbacks have queued: after a key is removed, no access by it must
		 * start in a later loop. */
		hand_over_open(reach);
		if (head_of(reach) == tail_of(reach) && TAILQ_EMPTY(&reach->starved) &&
		    TAILQ_EMPTY(&reach->open)) {
			LIST_REMOVE(reach, link);
			reach->listed = false;
		}
	}
	return done;
}

bool
reach_due(const struct reach_list *list)
{
	const struct reach *reach;

	LIST_FOREACH(reach, list, link)
		if (is_answered(reach) || !TAILQ_EMPTY(&reach->open) ||
		    (!TAILQ_EMPTY(&reach->starved) && head_of(reach) == tail_of(reach)))
			return true;
	return false;
}

void
reach_detach(struct reach *reach, reach_wake *wake, void *context)
{
	struct reach_party *party;

	reach->detached = true;
	for (uint32_t i = 0; i < ONE_COPIES; i++) {
		struct reach_job *job = &reach->job[i];

		party = job->party;
		if (party == NULL)
			continue;
		if (job->slot >= REACH_SLOTS) {
			if (job->open)
				TAILQ_REMOVE(&reach->open, job, open_link);
			job->open = false;
			job->done = true;
			job->result = -EFAULT;
		} else {
			reach_cancel(party, job->slot);
		}
		wake(context, party->user);
	}
	while ((party = TAILQ_FIRST(&reach->starved)) != NULL) {
		TAILQ_REMOVE(&reach->starved, party, link);
		party->starved = NULL;
		wake(context, party->user);
	}
	if (reach->listed)
		LIST_REMOVE(reach, link);
	reach->listed = false;
}

/* ---- control thread ---- */

struct reach *
reach_new(struct one_copies *shm, struct reach_list *list, reach_fault *fault, void *owner, uint32_t core,
	  struct reach *first)
{
	struct reach *reach = calloc(1, sizeof(*reach));

	if (reach == NULL)
		return NULL;
	reach->shm = shm;
	reach->core = core;
	reach->first = first != NULL ? first : reach;
	reach->list = list;
	reach->fault = fault;
	reach->owner = owner;
	TAILQ_INIT(&reach->starved);
	TAILQ_INIT(&reach->open);
	for (uint32_t i = 0; i < ONE_COPIES; i++) {
		reach->job[i].access.reach = reach;
		job_put(&reach->job[i]);
	}
	if (first != NULL) {
		atomic_store_explicit(&reach->next, next_part(first), memory_order_relaxed);
		/* Pairs with the acquire load in next_part. */
		atomic_store_explicit(&first->next, reach, memory_order_release);
	}
	return reach;
}

void
reach_free(struct reach *reach)
{
	free(reach);
}

uint64_t
reach_bytes(const struct reach *first)
{
	uint64_t bytes = 0;

	for (; first != NULL; first = next_part(first))
		bytes += atomic_load_explicit(&first->bytes,
					      memory_order_relaxed); /* pairs with count_bytes() */
	return bytes;
}

uint64_t
reach_since(const struct reach *first)
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
reach_mark(const struct reach *reach)
{
	return atomic_load_explicit(&reach->tail, memory_order_acquire); /* pairs with submit_job() */
}

bool
reach_passed(const struct reach *reach, uint32_t mark)
{
	/* Pairs with the release store in collect_answers(). */
	return (int32_t)(atomic_load_explicit(&reach->head, memory_order_acquire) - mark) >= 0;
}

/* Later parts are inserted after the first one, before these. */
void
reach_mark_all(const struct reach *first, struct reach_marks *marks)
{
	const struct reach *reach = next_part(first);

	marks->mark[0] = reach_mark(first);
	for (marks->num = 1; reach != NULL; reach = next_part(reach))
		marks->mark[marks->num++] = reach_mark(reach);
}

bool
reach_passed_all(const struct reach *first, const struct reach_marks *marks)
{
	const struct reach *reach = next_part(first);
	uint32_t parts = 1, n = 1;

	for (const struct reach *part = reach; part != NULL; part = next_part(part))
		parts++;
	for (; reach != NULL && parts > marks->num; parts--)
		reach = next_part(reach);
	for (; reach != NULL; reach = next_part(reach))
		if (!reach_passed(reach, marks->mark[n++]))
			return false;
	return reach_passed(first, marks->mark[0]);
}
