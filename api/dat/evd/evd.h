/* SPDX-License-Identifier: BSD-3-Clause */
/* Events: EVDs, CNOs, and what becomes of all when the data plane goes. */
#ifndef DAT_EVD_EVD_H_INTERNAL
#define DAT_EVD_EVD_H_INTERNAL

#include "dat/base/ep_object.h"

/* ---- lost.c ---- */

/* After the data plane has gone: flushes, BROKEN and CATASTROPHIC, once.  No lock held. */
void lost_sweep(struct ia *ia);
/* Sweeps the IAs that report to an asynchronous EVD, where needed; true when it did: look again. */
bool lost_sweep_reporters(struct evd *evd);
/* Of an IA; also from the watcher's thread, so it takes no lock: calls that hold one may wait for a reply. */
void lost_mark(void *ia);
/* Completes a work request as FLUSHED. */
void lost_flush_one(struct ep *ep, struct evd *evd, uint8_t type, const struct posted *posted);

/* ---- evd.c ---- */

/* Takes a reference for a stream; NULL when the handle is no EVD of this IA with these flags.  ia.lock held.
 */
struct evd *evd_ref(struct ia *ia, DAT_EVD_HANDLE handle, DAT_EVD_FLAGS needed);
/* An EVD not yet published; an error code in *ret. */
struct evd *evd_make(struct ia *ia, uint32_t qlen, DAT_EVD_FLAGS flags, DAT_RETURN *ret);
void evd_destroy(struct object *o); /* retired; returns it to the pool.  No lock held */
/* Makes room for `events` more, or less; no lock held. */
void evd_demand(struct evd *evd, int64_t events);
DAT_RETURN evd_config_error(const struct evd *evd); /* threshold above 1: 0 or the INVALID_STATE code */
/* Ends waits with DAT_ABORT; evd_destroy lets the threads leave. */
void evd_abort(struct evd *evd);

/* ---- evd_queue.c: evd.lock held ---- */

void evd_collect(struct evd *evd);                         /* wakes the sleepers */
bool evd_push(struct evd *evd, const struct one_cqe *cqe); /* false: no memory */
bool evd_pop(struct evd *evd, struct one_cqe *out);
/* The event that ends this endpoint's connection has come, whether it has been taken or not. */
bool evd_ends_connection(struct evd *evd, const struct ep *ep);
uint32_t evd_count(struct evd *evd);
/* Takes entries of this queue pair or IA out of the stash. */
void evd_purge(struct evd *evd, bool (*drop)(const struct one_cqe *cqe, void *arg), void *arg);
void evd_kick(struct evd *evd); /* after a push: the waiter, or the CNO */
void stash_fini(struct stash *stash);
static inline struct stash_entry *
stash_at(const struct stash *stash, uint32_t i)
{
	return &stash->entry[(stash->head + i) & (stash->size - 1)];
}
/* The first notification in the stash that has not triggered by the count `seen`, which is brought up to
 * those that were taken without a trigger; NULL: none. */
const struct stash_entry *evd_next_trigger(const struct evd *evd, uint64_t *seen);

/* ---- evd_wait.c ---- */

/* Sleeps on a channel for which rings were armed; `host` is an EVD of them that other IAs report to, or NULL.
 * 0: look again; -ETIMEDOUT, or what else one_wait_sleep says.  No lock held. */
int evd_sleep(struct ia *ia, uint16_t channel, uint32_t ticket, struct evd *host, uint64_t deadline);
/* The outcome of a wait by that; `expired` without one in time. */
DAT_RETURN evd_wait_error(int error, DAT_RETURN expired);

/* lost_sweep_reporters for any EVD; costs one load as long as all is well. */
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

/*
 * From an entry to an event; false: the entry is about something that has gone.
 * Completions of transfers look different in each version of the API, so each
 * library has its own event_fill (event_dto.c here); event_other does the rest.
 */
bool event_fill(struct evd *evd, const struct one_cqe *cqe, DAT_EVENT *event);
/* Of each version, too: an endpoint of an SRQ tells with DAT_ASYNC_ERROR_EP_BROKEN that it takes no more. */
extern const bool event_srq_ep_ends;
bool event_other(struct evd *evd, const struct one_cqe *cqe, DAT_EVENT *event);
struct ep *event_ep(struct evd *evd, uint32_t id);
/* What the peer sent with its answer to a connect. */
void event_private_data(struct ep *ep, DAT_CONNECTION_EVENT_DATA *data);
DAT_DTO_COMPLETION_STATUS event_status(uint8_t status);

/* ---- cno.c ---- */

/* ia.lock held.  The agent to call, with no lock held and a null EVD, if that was the last EVD and it was
 * freed. */
DAT_OS_WAIT_PROXY_AGENT cno_detach_evd(struct evd *evd, bool freed);
void cno_attach_evd(struct cno *cno, struct evd *evd); /* ia.lock held */
void cno_call_agent(DAT_OS_WAIT_PROXY_AGENT agent, DAT_EVD_HANDLE evd_handle);
bool cno_is_agent_of(const struct ia *ia); /* called by an agent of this IA */
void cno_destroy(struct object *o);        /* releases waiters and the agent; no lock held */
void cno_poke(struct cno *cno);            /* its waiters look again */

#endif
