/* SPDX-License-Identifier: BSD-3-Clause */
/* Events: EVDs, CNOs, and the cleanup after the loss of the data plane. */
#ifndef DAT_EVD_EVD_H_INTERNAL
#define DAT_EVD_EVD_H_INTERNAL

#include "dat/ep_object.h"

/* ---- lost.c ---- */

/* Makes the events of the loss of the data plane, once: flushes, BROKEN, CATASTROPHIC.  No lock held. */
void lost_sweep(struct ia *ia);
/* Sweeps the lost IAs that report to an asynchronous EVD; true: swept one, so poll again. */
bool lost_sweep_reporters(struct evd *evd);
/* Marks an IA as lost.  Takes no lock, because the watcher's thread calls it while holders of locks may wait
 * for a reply. */
void lost_mark(void *ia);
/* Completes a work request as FLUSHED. */
void lost_flush_one(struct ep *ep, struct evd *evd, uint8_t type, const struct posted *posted);

/* ---- evd.c ---- */

/* Takes a reference for a stream; NULL: the handle is no EVD of this IA with these flags.  ia.lock held. */
struct evd *evd_ref(struct ia *ia, DAT_EVD_HANDLE handle, DAT_EVD_FLAGS needed);
/* Returns an EVD that is not yet published, or NULL.  Sets *ret. */
struct evd *evd_make(struct ia *ia, uint32_t qlen, DAT_EVD_FLAGS flags, DAT_RETURN *ret);
void evd_destroy(struct object *o); /* must be retired; no lock held */
/* Adds `events` (may be negative) to the demand, and enlarges the ring if needed.  No lock held. */
void evd_demand(struct evd *evd, int64_t events);
/* Returns DAT_SUCCESS if a threshold above 1 is allowed, else the INVALID_STATE code. */
DAT_RETURN evd_config_error(const struct evd *evd);
/* Ends waits with DAT_ABORT; evd_destroy waits until the threads have left. */
void evd_abort(struct evd *evd);

/* ---- evd_queue.c: evd.lock held ---- */

void evd_collect(struct evd *evd); /* moves ring entries to the stash, wakes sleepers */
bool evd_push(struct evd *evd, const struct one_cqe *cqe); /* false: no memory */
bool evd_pop(struct evd *evd, struct one_cqe *out);
/* True if the event that ends this endpoint's connection has arrived, whether dequeued or not. */
bool evd_ends_connection(struct evd *evd, const struct ep *ep);
uint32_t evd_count(struct evd *evd);
/* Removes the entries for which `drop` returns true. */
void evd_purge(struct evd *evd, bool (*drop)(const struct one_cqe *cqe, void *arg), void *arg);
void evd_kick(struct evd *evd); /* wakes the waiter, else the CNO's; needed after a push */
void stash_fini(struct stash *stash);
static inline struct stash_entry *
stash_at(const struct stash *stash, uint32_t i)
{
	return &stash->entry[(stash->head + i) & (stash->size - 1)];
}
/* Returns the first notification in the stash after the `*seen` that have triggered, or NULL.  Raises *seen
 * past notifications that were dequeued without a trigger. */
const struct stash_entry *evd_next_trigger(const struct evd *evd, uint64_t *seen);

/* ---- evd_wait.c ---- */

/* Sleeps on a channel for which rings were armed.  `host` is an armed EVD that other IAs report to, or NULL.
 * Returns 0: poll again; -ETIMEDOUT; or another error of one_wait_sleep.  No lock held. */
int evd_sleep(struct ia *ia, uint16_t channel, uint32_t ticket, struct evd *host, uint64_t deadline);
/* Translates an error of evd_sleep; a timeout becomes `expired`. */
DAT_RETURN evd_wait_error(int error, DAT_RETURN expired);

/* lost_sweep_reporters() for any EVD.  Unless the EVD is asynchronous, the usual cost is one load. */
static inline bool
ia_sweep_if_lost(struct evd *evd)
{
	struct ia *ia = evd->o.ia;

	if (__builtin_expect((evd->flags & DAT_EVD_ASYNC_FLAG) != 0, 0))
		return lost_sweep_reporters(evd);
	if (!ia_lost(ia) || ia_swept(ia))
		return false;
	lost_sweep(ia);
	return true;
}

/* ---- event.c: no lock held ---- */

/* Entry types that only the library makes. */
#define CQE_SOFTWARE 0xf0
#define CQE_LOST 0xf1

/* Converts an entry to an event; false: the object of the entry no longer exists.  The versions of the API
 * differ in completions of transfers, so each library has its own event_fill (event_dto.c for 1.2).
 * event_other converts the other entries. */
bool event_fill(struct evd *evd, const struct one_cqe *cqe, DAT_EVENT *event);
/* Constant of each version: an endpoint with an SRQ reports by DAT_ASYNC_ERROR_EP_BROKEN that it takes no
 * more receives. */
extern const bool event_srq_ep_ends;
bool event_other(struct evd *evd, const struct one_cqe *cqe, DAT_EVENT *event);
struct ep *event_ep(struct evd *evd, uint32_t id);
/* Sets the private data of the peer's reply to a connect. */
void event_private_data(struct ep *ep, DAT_CONNECTION_EVENT_DATA *data);
DAT_DTO_COMPLETION_STATUS event_status(uint8_t status);

/* ---- cno.c ---- */

/* Returns the agent to call, without locks and with a null EVD, if this was the CNO's last EVD and is
 * `freed`. ia.lock held. */
DAT_OS_WAIT_PROXY_AGENT cno_detach_evd(struct evd *evd, bool freed);
void cno_attach_evd(struct cno *cno, struct evd *evd); /* ia.lock held */
void cno_call_agent(DAT_OS_WAIT_PROXY_AGENT agent, DAT_EVD_HANDLE evd_handle);
bool cno_is_agent_of(const struct ia *ia); /* true on an agent's thread of this IA */
void cno_destroy(struct object *o);        /* releases waiters and the agent; no lock held */
void cno_poke(struct cno *cno);            /* wakes the waiters, which poll again */

#endif
