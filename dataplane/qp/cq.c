/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Storing entries in completion rings, and waking the threads that wait for them.
 *
 * An entry is visible to the application when its phase is stored. Tails are stored and arms checked once per
 * loop for each ring with new entries, with one fence in between, however many entries there are.
 *
 * A polling application takes the cache line away with every entry that is stored alone. So the completions
 * of one turn of a queue pair are staged in private memory and stored together. The stage holds entries of
 * one queue pair and one ring, which keeps all entries in order.
 */

#include "dataplane/qp/cq.h"
#include "dataplane/qp/qp.h"
#include "dataplane/qp/wake.h"

static void
cq_place(struct engine_cq *cq, struct one_cq_shm *shm, uint32_t log2)
{
	cq->shm = shm;
	cq->ring = (struct one_cqe *)(shm + 1);
	cq->log2 = log2;
	cq->limit = (1u << log2) - 1;
}

/* Begin with an empty ring. */
static void
cq_begin(struct engine_cq *cq, struct one_cq_shm *shm, uint32_t log2)
{
	cq_place(cq, shm, log2);
	cq->base = cq_position(cq);
	cq->tail = 0;
	cq->head_seen = 0;
	cq->notify_tail = 0;
	cq->solicited_tail = 0;
	cq->reported_tail = 0;
	cq->arm_seen = 0;
	cq->overflowed = false;
	/* Relaxed: the library reads it after the reply that names the ring. */
	atomic_store_explicit(&shm->reports, cq->reports, memory_order_relaxed);
}

/* Returns NULL if a ring of 2^log2 entries does not fit there. */
static struct one_cq_shm *
place_of(const struct engine_client *client, uint64_t offset, uint32_t log2)
{
	if (log2 < 1 || log2 > ONE_RING_LOG2_MAX ||
	    !client_owns(offset, sizeof(struct one_cq_shm) + (sizeof(struct one_cqe) << log2)))
		return NULL;
	return (struct one_cq_shm *)(client->arena + offset);
}

int
cq_attach(struct engine_cq *cq, uint64_t bundle, uint64_t offset, uint32_t log2, bool resumes)
{
	struct one_cq_shm *shm = place_of(cq->client, offset, log2);

	if (shm == NULL || !client_owns(bundle, sizeof(struct one_cq_bundle)))
		return -EINVAL;
	cq->bundle = (struct one_cq_bundle *)(cq->client->arena + bundle);
	if (resumes)
		cq_place(cq, shm, log2);
	else
		cq_begin(cq, shm, log2);
	return 0;
}

static inline void
cq_mark(struct core *core, struct engine_cq *cq)
{
	if (!cq->dirty) {
		cq->dirty = true;
		STAILQ_INSERT_TAIL(&core->dirty, cq, dirty_link);
	}
}

void
cq_mark_used(struct core *core, struct engine_cq *cq)
{
	if (cq != NULL)
		cq_mark(core, cq);
}

static inline void
store_tail(struct engine_cq *cq)
{
	/* Pairs with the library's acquire load of the tail when it counts entries, and with the control
	 * thread's load in cq_has_room(). */
	atomic_store_explicit(&cq->shm->tail, cq->tail, memory_order_release);
}

static inline void
cq_store(struct engine_cq *cq, const struct one_cqe *entry)
{
	struct one_cqe *slot = &cq->ring[one_ring_slot(cq->tail, cq->log2)];

	memcpy(slot, entry, offsetof(struct one_cqe, reserved));
	/* Pairs with the application's acquire load of the phase. */
	atomic_store_explicit(&slot->phase, one_ring_phase(cq->tail, cq->log2), memory_order_release);
	cq->tail++;
}

bool
cq_fits_one(struct engine_cq *cq)
{
	/* Pairs with the application's release store after it has copied entries out. */
	uint32_t head = atomic_load_explicit(&cq->shm->head, memory_order_acquire);

	/* The head may only advance, and not beyond the tail. */
	if (cq->tail - head > cq->tail - cq->head_seen) {
		client_fault(cq->client, ONE_FAULT_RING);
		return false;
	}
	if (head < cq->head_seen)
		cq->base += 1ull << 32;
	cq->head_seen = head;
	return cq->tail - head < cq->limit;
}

/* Load the application's progress. Returns false if the ring is still full, or the client faulty. */
static bool
cq_make_room(struct core *core, struct engine_cq *cq)
{
	if (cq_fits_one(cq)) {
		/* At most half full: report the next overflow as a new one. */
		if (cq->tail - cq->head_seen <= cq->limit / 2)
			cq->overflowed = false;
		return true;
	}
	if (cq->client->faulty)
		return false;
	core->stats.cq_overflow++;
	if (!cq->overflowed) {
		cq->overflowed = true;
		cq_notify(core, cq->async_cq, cq->id, ONE_CQE_ASYNC, ONE_ASYNC_CQ_OVERFLOW);
	}
	return false;
}

static void
cq_write(struct core *core, struct engine_cq *cq, const struct one_cqe *entry)
{
	if (unlikely(cq->client->faulty))
		return;
	if (unlikely(cq->tail - cq->head_seen >= cq->limit) && !cq_make_room(core, cq))
		return;
	cq_store(cq, entry);
	if (entry->flags & ONE_CQE_NOTIFY)
		cq->notify_tail = cq->tail;
	if (entry->flags & ONE_CQE_SOLICITED)
		cq->solicited_tail = cq->tail;
	core->stats.completions++;
	client_count(&cq->client->completions);
	cq_mark(core, cq);
}

void
cq_unstage(struct core *core)
{
	struct stage *stage = &core->stage;
	uint32_t count = stage->count;

	if (stage->qp == NULL)
		return;
	/* Publish before storing entries: a thread that has seen a completion then finds room at once. */
	qp_publish(stage->qp);
	/* Empty the stage before writing: if cq_write() finds the client faulty, its event calls cq_unstage()
	 * again. */
	stage->qp = NULL;
	stage->count = 0;
	for (uint32_t i = 0; i < count; i++)
		cq_write(core, stage->cq, &stage->entry[i]);
}

void
cq_push(struct core *core, struct engine_cq *cq, const struct one_cqe *entry)
{
	cq_unstage(core);
	cq_write(core, cq, entry);
}

void
cq_notify(struct core *core, struct engine_cq *cq, uint32_t object, uint8_t type, uint8_t status)
{
	const struct one_cqe entry = {
		.object = object, .type = type, .status = status, .flags = ONE_CQE_NOTIFY};

	if (cq != NULL)
		cq_push(core, cq, &entry);
}

/* A wrong head from the application loses only signals of that application. */
void
cq_count(struct core *core, struct engine_cq *cq, uint32_t signal)
{
	uint32_t count = ONE_SIGNAL_COUNT(signal), pending;

	cq_unstage(core);
	if (cq->client->faulty)
		return;
	/* Pairs with the taker's fence after it takes a signal: if the taker has not seen the data sent
	 * before this signal, this load sees its new head. */
	atomic_thread_fence(memory_order_seq_cst);
	pending = cq->tail - atomic_load_explicit(&cq->shm->head, memory_order_relaxed);
	if (pending >= ONE_SIGNALS_MAX || (ONE_SIGNAL_ONCE(signal) && pending != 0))
		return;
	if (count > ONE_SIGNALS_MAX - pending)
		count = ONE_SIGNALS_MAX - pending;
	cq->tail += count;
	cq->notify_tail = cq->tail;
	cq_mark(core, cq);
}

/* True if the entry that `arm` waits for is stored. With ONE_ARM_FLAGS an arm also counts entries that were
 * stored before it, except those that an event has reported: programs arm after an event, then poll. */
static inline bool
cq_arm_due(const struct engine_cq *cq, uint64_t arm)
{
	uint32_t index = ONE_ARM_INDEX(arm);

	if ((int32_t)(cq->tail - index) <= 0)
		return false;
	if ((ONE_ARM_CHANNEL(arm) & ONE_ARM_FLAGS) != 0 && (int32_t)(cq->reported_tail - index) > 0)
		index = cq->reported_tail;
	if ((ONE_ARM_CHANNEL(arm) & ONE_ARM_FLAGS) == ONE_ARM_ANY)
		return (int32_t)(cq->tail - index) > 0;
	if ((ONE_ARM_CHANNEL(arm) & ONE_ARM_SOLICITED) != 0)
		return (int32_t)(cq->solicited_tail - index) > 0;
	if ((ONE_ARM_CHANNEL(arm) & ONE_ARM_NEXT) != 0)
		return (int32_t)(cq->notify_tail - index) > 0;
	/* Unsignaled entries count, but at least one entry that notifies must not be taken yet. A wrong head
	 * from the application affects only its own wake-up. */
	return (int32_t)(cq->notify_tail - atomic_load_explicit(&cq->shm->head, memory_order_relaxed)) > 0;
}

/* Returns the arm of this ring or, if the ring was never armed, that of the bundle: the ring may be newer
 * than the arm. */
static uint64_t
cq_load_arm(const struct engine_cq *cq)
{
	/* Pairs with the stores in one_wait_arm(): the fences there and in cq_publish() order it against the
	 * entries. Acquire: the bundle then has this arm or a later one, or 0 if the arm was answered. */
	uint64_t arm = atomic_load_explicit(&cq->shm->arm, memory_order_acquire);

	if (ONE_ARM_SEQ(arm) == 0)
		arm = atomic_load_explicit(&cq->bundle->arm, memory_order_relaxed);
	return arm;
}

/* Take the arm out of the bundle, so that no other core answers it. False: answered, or armed again. */
static bool
cq_claim_arm(struct engine_cq *cq, uint64_t arm, uint64_t *claimed)
{
	*claimed = atomic_load_explicit(&cq->bundle->arm, memory_order_relaxed);
	/* Acquire: pairs with the store in one_wait_arm(), which stores the descriptor before. Release: pairs
	 * with the exchange of other cores, and with the load in one_wait_armed(): a woken thread finds the
	 * arm answered. */
	return ONE_ARM_SEQ(*claimed) == ONE_ARM_SEQ(arm) &&
	       atomic_compare_exchange_strong_explicit(&cq->bundle->arm, claimed, 0, memory_order_acq_rel,
						       memory_order_relaxed);
}

/* Returns false if the ring's id could not be sent. */
static bool
wake_armed(struct core *core, struct engine_cq *cq, uint64_t arm)
{
	/* one_wait_arm() stores the descriptor before the arm that was loaded. */
	uint32_t descriptor = atomic_load_explicit(&cq->bundle->descriptor, memory_order_relaxed);

	return wake_channel(core, cq->client, ONE_ARM_CHANNEL(arm) & ~ONE_ARM_FLAGS, descriptor, cq->id);
}

/* Wakes for the arm `claimed`. False: its id could not be sent, and the arm waits for the next entry, unless
 * the application has armed again. */
static bool
wake_claimed(struct core *core, struct engine_cq *cq, uint64_t claimed)
{
	uint64_t none = 0;

	if (wake_armed(core, cq, claimed))
		return true;
	cq->arm_seen = 0;
	atomic_compare_exchange_strong_explicit(&cq->bundle->arm, &none, claimed, memory_order_relaxed,
						memory_order_relaxed);
	return false;
}

/* Returns false if a wake-up is due, but held because of the user's ceiling. */
static bool
cq_check_arm(struct core *core, struct engine_cq *cq)
{
	uint64_t arm = cq_load_arm(cq), claimed;

	/* Compare all of the arm: its sequence number repeats after 65,535 arms that no entry answered, as
	 * waits with a time limit leave them. An equal arm has an index that the tail has already passed,
	 * which happens only while there are entries to take. */
	if (arm == cq->arm_seen || ONE_ARM_SEQ(arm) == 0 || !cq_arm_due(cq, arm))
		return true;
	if (wake_is_held(core, cq->client))
		return false;
	cq->arm_seen = arm;
	if (cq_claim_arm(cq, arm, &claimed) && wake_claimed(core, cq, claimed))
		cq->reported_tail = cq->tail;
	return true;
}

/* Wakes the thread that waits for the bundle. */
static void
wake_any(struct core *core, struct engine_cq *cq)
{
	uint64_t arm, claimed;

	/* Pairs with the waiter's fence between its store of `arm` and its last look at `reports`. */
	atomic_thread_fence(memory_order_seq_cst);
	arm = atomic_load_explicit(&cq->bundle->arm, memory_order_relaxed);
	if (ONE_ARM_SEQ(arm) != 0 && !cq->client->faulty && cq_claim_arm(cq, arm, &claimed))
		wake_claimed(core, cq, claimed);
}

/*
 * Marks that the application takes the report before, from another ring, first. A report without an entry has
 * a mark, too: the next report, in another ring, names only this one. A ring that is nearly full keeps its
 * room for the event: an event out of order is better than an event lost.
 */
static void
mark_report_before(struct core *core, struct engine_cq *cq, const struct engine_report *report)
{
	const struct one_cqe mark = {.type = ONE_CQE_AFTER_REPORT,
				     .object = report->ring,
				     .imm = report->after,
				     .length = report->number};

	if (report->after != 0 && cq_fits_one(cq) && cq->tail - cq->head_seen + 1 < cq->limit)
		cq_push(core, cq, &mark);
}

void
cq_report(struct core *core, struct engine_cq *cq, const struct one_cqe *entry,
	  const struct engine_report *report)
{
	uint32_t tail;

	cq_unstage(core);
	mark_report_before(core, cq, report);
	tail = cq->tail;
	if (entry != NULL) {
		struct one_cqe event = *entry;

		event.length = report->number;
		cq_push(core, cq, &event);
	}
	store_tail(cq);
	cq->reports = report->number;
	/* Pairs with the library's acquire load in has_reported(). */
	atomic_store_explicit(&cq->shm->reports, cq->reports, memory_order_release);
	/* No entry, or no room: cq_publish() wakes nobody for the number. */
	if (cq->tail == tail)
		wake_any(core, cq);
}

void
cq_publish(struct core *core)
{
	struct cq_list held = STAILQ_HEAD_INITIALIZER(held);
	struct engine_cq *cq;

	cq_unstage(core);
	if (STAILQ_EMPTY(&core->dirty))
		return;
	STAILQ_FOREACH(cq, &core->dirty, dirty_link)
		store_tail(cq);
	/* Pairs with a sleeper's fence between its store of `arm` and its last poll of the entries: either
	 * the sleeper sees the entries, or this core sees `arm`. */
	atomic_thread_fence(memory_order_seq_cst);
	/* Rings of one channel are reported in the order of their first entries. */
	while ((cq = STAILQ_FIRST(&core->dirty)) != NULL) {
		STAILQ_REMOVE_HEAD(&core->dirty, dirty_link);
		cq->dirty = !cq->client->faulty && !cq_check_arm(core, cq);
		if (cq->dirty)
			STAILQ_INSERT_TAIL(&held, cq, dirty_link);
	}
	/* The next loop tries again; is_behind() keeps the core from sleeping for long. */
	STAILQ_CONCAT(&core->dirty, &held);
}

int
cq_resize(struct core *core, struct engine_cq *cq, uint64_t offset, uint32_t log2)
{
	const struct one_cqe last = {.type = ONE_CQE_SWITCHED, .object = cq->id};
	struct one_cq_shm *next = place_of(cq->client, offset, log2);
	uint64_t arm;
	bool flagged;

	if (next == NULL)
		return -EINVAL;
	cq_unstage(core);
	atomic_thread_fence(memory_order_seq_cst); /* see cq_publish() */
	arm = cq_load_arm(cq);
	flagged = (ONE_ARM_CHANNEL(arm) & ONE_ARM_FLAGS) != 0;
	/* An arm with flags is answered only if entries were stored before the switch. Otherwise the bundle
	 * passes it on to the new ring. */
	if (flagged && !cq->client->faulty)
		cq_check_arm(core, cq);
	/* The slot that `limit` reserves. */
	cq_store(cq, &last);
	cq->base--; /* not counted */
	store_tail(cq);
	atomic_thread_fence(memory_order_seq_cst); /* see cq_publish() */
	/* Wake a thread that sleeps on the old ring, so that it moves to the new one. */
	if (!flagged && arm != cq->arm_seen && ONE_ARM_SEQ(arm) != 0 && !cq->client->faulty)
		wake_armed(core, cq, arm);
	cq_begin(cq, next, log2);
	return 0;
}

void
cq_forget(struct core *core, struct engine_cq *cq)
{
	cq_unstage(core);
	if (cq->dirty) {
		store_tail(cq);
		STAILQ_REMOVE(&core->dirty, cq, engine_cq, dirty_link);
		cq->dirty = false;
	}
}
