/* SPDX-License-Identifier: BSD-3-Clause */
/* Loss of the data plane.  No core completes work any more, so the library makes the events that the
 * specification promises: it flushes all outstanding work, ends each connection with BROKEN, and reports the
 * catastrophic error on the asynchronous EVD.  The first thread that polls a queue of the IA does this, not
 * the watcher. */
#include "dat/evd.h"

void
lost_mark(void *ia)
{
	/* Pairs with the acquire load in ia_lost. */
	atomic_store_explicit(&((struct ia *)ia)->lost, true, memory_order_release);
}

static void
push_event(struct evd *evd, const struct one_cqe *cqe)
{
	if (evd == NULL)
		return;
	lock_take(&evd->lock);
	evd_push(evd, cqe);
	lock_drop(&evd->lock);
}

void
lost_flush_one(struct ep *ep, struct evd *evd, uint8_t type, const struct posted *posted)
{
	struct one_cqe cqe = {
		.cookie = posted->cookie,
		.object = ep->qp.id,
		.imm = posted->key,
		.type = posted->key != 0 ? ONE_CQE_BIND : type,
		.status = ONE_STATUS_FLUSHED,
		.flags = ONE_CQE_NOTIFY,
	};

	push_event(evd, &cqe);
}

/* Flushes the requests that the core has not counted as done.  The completions of the others are in the
 * rings. */
static void
flush_requests(struct ep *ep)
{
	uint32_t n;

	lock_take(&ep->send_lock);
	n = one_send_outstanding(&ep->qp);
	for (uint32_t i = ep->qp.sq_posted - n; i != ep->qp.sq_posted; i++)
		lost_flush_one(ep, ep->send_evd, ONE_CQE_SEND, &ep->logs.send[i & ep->logs.send_mask]);
	lock_drop(&ep->send_lock);
	lock_take(&ep->recv_lock);
	n = one_recv_outstanding(&ep->qp);
	for (uint32_t i = ep->qp.rq_posted - n; i != ep->qp.rq_posted; i++)
		lost_flush_one(ep, ep->recv_evd, ONE_CQE_RECV, &ep->logs.recv[i & ep->logs.recv_mask]);
	lock_drop(&ep->recv_lock);
}

static void
end_connection(struct ep *ep)
{
	struct one_cqe cqe = {
		.object = ep->qp.id,
		.type = ONE_CQE_CONNECT,
		.status = ONE_CONN_BROKEN,
		.imm = one_load_alone(&ep->number),
		.flags = ONE_CQE_NOTIFY,
	};
	struct evd *evd = ep->conn_evd;
	uint32_t phase = ep_phase(ep);

	if (phase != EP_ACTIVE && phase != EP_ACCEPTED)
		return;
	flush_requests(ep);
	if (evd == NULL)
		return;
	/* Search the EVD: the state does not show whether the event was sent, because a core sets ERROR
	 * before the control thread sends the event. */
	lock_take(&evd->lock);
	if (!evd_ends_connection(evd, ep))
		evd_push(evd, &cqe);
	lock_drop(&evd->lock);
}

void
lost_sweep(struct ia *ia)
{
	struct one_cqe cqe = {.cookie = (uintptr_t)ia, .type = CQE_LOST, .flags = ONE_CQE_NOTIFY};
	struct object *o;

	pthread_mutex_lock(&ia->lock);
	if (ia->swept) {
		pthread_mutex_unlock(&ia->lock);
		return;
	}
	LIST_FOREACH(o, &ia->list[DAT_HANDLE_TYPE_EP], entry)
		end_connection((struct ep *)o);
	push_event(ia->async_evd, &cqe);
	LIST_FOREACH(o, &ia->list[DAT_HANDLE_TYPE_EVD], entry) {
		struct evd *evd = (struct evd *)o;

		lock_take(&evd->lock);
		evd_kick(evd);
		lock_drop(&evd->lock);
	}
	/* Pairs with the acquire load in ia_swept: the events are in the queues. */
	atomic_store_explicit(&ia->swept, true, memory_order_release);
	pthread_mutex_unlock(&ia->lock);
}

static bool
sweep_one(struct ia *ia)
{
	if (!ia_lost(ia) || ia_swept(ia))
		return false;
	lost_sweep(ia);
	return true;
}

bool
lost_sweep_reporters(struct evd *evd)
{
	bool swept = sweep_one(evd->o.ia);
	struct ia *guest = NULL;

	/* Sweep guests one at a time without the lock: sweeping takes this EVD's lock. */
	do {
		lock_take(&evd->lock);
		for (guest = evd->guests; guest != NULL; guest = guest->async_next) {
			if (ia_lost(guest) && !ia_swept(guest))
				break;
		}
		lock_drop(&evd->lock);
		if (guest != NULL)
			swept |= sweep_one(guest);
	} while (guest != NULL);
	return swept;
}
