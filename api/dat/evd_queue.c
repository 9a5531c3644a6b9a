/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue of an EVD: the stash, followed by the shared ring.  The stash holds entries made by the library
 * (software events, loss of the data plane) and entries taken from the ring in order to count them.  The ring
 * is always emptied into the stash before the library adds an entry, so the queue is FIFO. */
#include <stdlib.h>

#include "client/wait.h"
#include "dat/evd.h"

#define STASH_MIN 64u
#define STASH_MAX (1u << 20)

static bool
stash_grow(struct stash *stash)
{
	uint32_t size = stash->size == 0 ? STASH_MIN : 2 * stash->size;
	struct stash_entry *entry;

	if (size > STASH_MAX)
		return false;
	entry = malloc(size * sizeof(*entry));
	if (entry == NULL)
		return false;
	for (uint32_t i = 0; i < stash->count; i++)
		memcpy((void *)&entry[i], (const void *)stash_at(stash, i), sizeof(*entry));
	free(stash->entry);
	stash->entry = entry;
	stash->size = size;
	stash->head = 0;
	return true;
}

void
stash_fini(struct stash *stash)
{
	free(stash->entry);
	*stash = (struct stash){0};
}

static void
stash_put(struct evd *evd, const struct one_cqe *cqe)
{
	struct stash *stash = &evd->stash;
	struct stash_entry *entry = stash_at(stash, stash->count++);
	bool notify = (cqe->flags & ONE_CQE_NOTIFY) != 0;

	memcpy((void *)&entry->cqe, (const void *)cqe, sizeof(*cqe));
	entry->came = 0;
	if (notify && evd->cno != NULL)
		/* Relaxed: only distinct numbers are needed, and entries are compared under their EVDs'
		 * locks. */
		entry->came = atomic_fetch_add_explicit(&evd->o.ia->arrivals, 1, memory_order_relaxed);
	stash->notify += notify;
	evd->arrived += notify;
}

static bool
stash_has_room(struct stash *stash)
{
	return stash->count < stash->size || stash_grow(stash);
}

/* True for an entry of a freed endpoint: the consumer must not see it. */
static bool
is_stale(struct ia *ia, const struct one_cqe *cqe)
{
	switch (cqe->type) {
	case ONE_CQE_SEND:
	case ONE_CQE_RECV:
	case ONE_CQE_RECV_WRITE_IMM:
	case ONE_CQE_BIND:
	case ONE_CQE_CONNECT:
		return object_find(ia, DAT_HANDLE_TYPE_EP, cqe->object) == NULL;
	default:
		return false;
	}
}

/* True for entries that always notify: all but completions. */
static bool
always_notifies(const struct one_cqe *cqe)
{
	return cqe->type == ONE_CQE_CONNECT || cqe->type == ONE_CQE_REQUEST || cqe->type == ONE_CQE_ASYNC;
}

/* Takes the data plane's next entry.  Skips types that only this library makes.  Sets the IA of an
 * asynchronous error here, so that no pointer comes from the data plane. */
static bool
poll_ring(struct one_cq *cq, uintptr_t ia, struct one_cqe *cqe)
{
	while (one_cq_poll(cq, cqe)) {
		if (ONE_LIKELY(cqe->type < ONE_CQE_ASYNC))
			return true;
		if (cqe->type == ONE_CQE_ASYNC) {
			cqe->cookie = ia;
			return true;
		}
	}
	return false;
}

void
evd_collect(struct evd *evd)
{
	const uint64_t arrived = evd->arrived;
	struct one_cqe cqe;

	while (evd->has_cq && stash_has_room(&evd->stash) && poll_ring(&evd->cq, 0, &cqe)) {
		if (is_stale(evd->o.ia, &cqe))
			continue;
		if (always_notifies(&cqe))
			cqe.flags |= ONE_CQE_NOTIFY;
		stash_put(evd, &cqe);
	}
	for (struct ia *ia = evd->guests; ia != NULL; ia = ia->async_next) {
		while (stash_has_room(&evd->stash) && poll_ring(&ia->async_cq, (uintptr_t)ia, &cqe)) {
			cqe.flags |= ONE_CQE_NOTIFY;
			stash_put(evd, &cqe);
		}
	}
	/* The core does not wake a sleeper for entries that leave the ring before it checks for sleepers: the
	 * thread that takes the entries must. */
	if (evd->arrived != arrived)
		evd_kick(evd);
}

bool
evd_push(struct evd *evd, const struct one_cqe *cqe)
{
	evd_collect(evd);
	if (!stash_has_room(&evd->stash))
		return false;
	stash_put(evd, cqe);
	return true;
}

/* Records the end of a connection, for evd_ends_connection().  evd.lock held. */
static void
note_end(const struct evd *evd, const struct one_cqe *cqe)
{
	struct ep *ep;

	if (ONE_LIKELY(cqe->type != ONE_CQE_CONNECT) || cqe->status == ONE_CONN_ESTABLISHED)
		return;
	ep = (struct ep *)object_find(evd->o.ia, DAT_HANDLE_TYPE_EP, cqe->object);
	if (ep != NULL)
		one_store_alone(&ep->ended, cqe->imm);
}

bool
evd_pop(struct evd *evd, struct one_cqe *out)
{
	struct stash *stash = &evd->stash;

	if (stash->count == 0) {
		if (evd->has_cq && poll_ring(&evd->cq, 0, out)) {
			note_end(evd, out);
			return true;
		}
		if (evd->guests == NULL)
			return false;
		evd_collect(evd);
		if (stash->count == 0)
			return false;
	}
	memcpy((void *)out, (const void *)&stash_at(stash, 0)->cqe, sizeof(*out));
	stash->head = (stash->head + 1) & (stash->size - 1);
	stash->count--;
	stash->notify -= (out->flags & ONE_CQE_NOTIFY) != 0;
	note_end(evd, out);
	return true;
}

bool
evd_ends_connection(struct evd *evd, const struct ep *ep)
{
	uint32_t number = one_load_alone(&ep->number);

	if (one_load_alone(&ep->ended) == number)
		return true;
	evd_collect(evd);
	for (uint32_t i = 0; i < evd->stash.count; i++) {
		const struct one_cqe *cqe = &stash_at(&evd->stash, i)->cqe;

		if (cqe->type == ONE_CQE_CONNECT && cqe->object == ep->qp.id && cqe->imm == number &&
		    cqe->status != ONE_CONN_ESTABLISHED)
			return true;
	}
	return false;
}

uint32_t
evd_count(struct evd *evd)
{
	evd_collect(evd);
	return evd->stash.count + (evd->has_cq ? one_cq_pending(&evd->cq, UINT32_MAX) : 0);
}

void
evd_purge(struct evd *evd, bool (*drop)(const struct one_cqe *cqe, void *arg), void *arg)
{
	struct stash *stash = &evd->stash;
	uint32_t kept = 0;

	evd_collect(evd);
	for (uint32_t i = 0; i < stash->count; i++) {
		const struct stash_entry *entry = stash_at(stash, i);

		if (drop(&entry->cqe, arg))
			stash->notify -= (entry->cqe.flags & ONE_CQE_NOTIFY) != 0;
		else if (kept++ != i)
			memcpy((void *)stash_at(stash, kept - 1), (const void *)entry, sizeof(*entry));
	}
	stash->count = kept;
}

/* Events are dequeued oldest first, so notifications that have triggered precede the others. */
const struct stash_entry *
evd_next_trigger(const struct evd *evd, uint64_t *seen)
{
	const struct stash *stash = &evd->stash;
	uint64_t triggered;

	if (evd->arrived - *seen > stash->notify)
		*seen = evd->arrived - stash->notify;
	if (evd->arrived == *seen)
		return NULL;
	triggered = stash->notify - (evd->arrived - *seen);
	for (uint32_t i = 0;; i++) {
		const struct stash_entry *entry = stash_at(stash, i);

		if ((entry->cqe.flags & ONE_CQE_NOTIFY) != 0 && triggered-- == 0)
			return entry;
	}
}

void
evd_kick(struct evd *evd)
{
	if (evd->waiter)
		one_channel_wake(evd->o.ia->client, evd->channel);
	else if (evd->cno != NULL && !evd->disabled)
		cno_poke(evd->cno);
}
