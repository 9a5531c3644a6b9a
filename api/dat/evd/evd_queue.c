/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue of an EVD: entries in the shared ring, and before them those in the stash.  The stash holds
 * what the library made itself (software events, the end of the data plane) and what was taken off the ring
 * to be counted.  Since the ring is always emptied into the stash before something else is put there,
 * entries come out in the order in which they came in.
 */
#include <stdlib.h>

#include "client/wait.h"
#include "dat/evd/evd.h"

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
put(struct evd *evd, const struct one_cqe *cqe)
{
	struct stash *stash = &evd->stash;
	struct stash_entry *entry = stash_at(stash, stash->count++);
	bool notify = (cqe->flags & ONE_CQE_NOTIFY) != 0;

	memcpy((void *)&entry->cqe, (const void *)cqe, sizeof(*cqe));
	entry->came = 0;
	if (notify && evd->cno != NULL)
		/* Distinct numbers are all that counts: entries are compared under the locks of their EVDs.
		 */
		entry->came = atomic_fetch_add_explicit(&evd->o.ia->arrivals, 1, memory_order_relaxed);
	stash->notify += notify;
	evd->arrived += notify;
}

static bool
room(struct stash *stash)
{
	return stash->count < stash->size || stash_grow(stash);
}

/* Entries of an endpoint that has been freed are no events any more. */
static bool
stale(struct ia *ia, const struct one_cqe *cqe)
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

/* Only completions may come without notification. */
static bool
always_notifies(const struct one_cqe *cqe)
{
	return cqe->type == ONE_CQE_CONNECT || cqe->type == ONE_CQE_REQUEST || cqe->type == ONE_CQE_ASYNC;
}

/*
 * The next entry of the data plane's.  It may neither say what only this library says, nor name the IA that
 * an asynchronous error is of: that would be a pointer of the data plane's.
 */
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

	while (evd->has_cq && room(&evd->stash) && poll_ring(&evd->cq, 0, &cqe)) {
		if (stale(evd->o.ia, &cqe))
			continue;
		if (always_notifies(&cqe))
			cqe.flags |= ONE_CQE_NOTIFY;
		put(evd, &cqe);
	}
	for (struct ia *ia = evd->guests; ia != NULL; ia = ia->async_next) {
		while (room(&evd->stash) && poll_ring(&ia->async_cq, (uintptr_t)ia, &cqe)) {
			cqe.flags |= ONE_CQE_NOTIFY;
			put(evd, &cqe);
		}
	}
	/* The engine wakes no sleeper for entries that leave the ring before it looks for sleepers: the
	 * thread that takes them does. */
	if (evd->arrived != arrived)
		evd_kick(evd);
}

bool
evd_push(struct evd *evd, const struct one_cqe *cqe)
{
	evd_collect(evd);
	if (!room(&evd->stash))
		return false;
	put(evd, cqe);
	return true;
}

/* Under the EVD's lock, as evd_ends_connection. */
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

/* Events are taken oldest first: those that have triggered come before the others. */
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
