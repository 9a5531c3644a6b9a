/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Signals. The data plane counts the signals to a segment in a completion ring that serves as a counter
 * (abi/ring.h); the library counts those taken. An import signals its exporter by a message behind its
 * transfers. For an export, the data plane sends the signal to every importer.
 *
 * A waiter sleeps on the attachment's channel without the segment's lock. Afterwards it looks the segment up
 * by its handle again, because the segment may have ended.
 */
#include "client/explain.h"
#include "client/wait.h"
#include "rsm/segment_object.h"
#include "rsm/transfer.h"

#include <stdatomic.h>
#include <unistd.h>

/* The kernel does not restart a wait with a timeout after a signal handler, even with SA_RESTART. So all
 * waits have one. */
#define SLEEP_NS 3600000000000ull

int
rsm_events_open(struct rsm_events *events, struct rsm_link *link)
{
	events->pipe[0] = events->pipe[1] = -1;
	return one_cq_create(link->client, 1, &events->counter);
}

/* -EBUSY: the data plane is still removing objects that refer to the ring. Retry for up to 1 s. */
void
rsm_events_close(struct rsm_events *events)
{
	for (int i = 0; i < 1000 && one_cq_free(&events->counter) == -EBUSY; i++)
		usleep(1000);
	rsm_pollfd_close(events);
}

uint32_t
rsm_events_pending(const struct rsm_events *events)
{
	const struct one_cq *counter = &events->counter;
	/* Pairs with the engine's release store: data placed before the signal is visible. */
	uint32_t come = atomic_load_explicit(&counter->at.shm->tail, memory_order_acquire);
	uint32_t pending = come - counter->at.head;

	return pending <= ONE_SIGNALS_MAX ? pending : 0;
}

bool
rsm_events_take(struct rsm_events *events)
{
	if (rsm_events_pending(events) == 0)
		return false;
	events->counter.at.head++;
	one_cq_publish(&events->counter.at);
	/* Orders the publication before the caller's reads of the data, because the engine drops a
	 * non-accumulating signal while an earlier one is not taken. Pairs with the engine's fence. */
	atomic_thread_fence(memory_order_seq_cst);
	rsm_pollfd_sync(events, false);
	return true;
}

/* ---- either kind of segment ---- */

/* The exporter's own data plane: no importer and no unpublish has to do with it. */
static int
export_aborted(const void *handle)
{
	return ONE_BECAUSE(
		RSMERR_CONN_ABORTED,
		"memseg = %p: this host's data plane ended, or ended the attachment; see its log, and publish the segment again when it serves",
		handle);
}

int
rsm_event_lock(const void *handle, struct rsm_event_segment *segment)
{
	struct rsm_import *import;
	struct rsm_export *export;
	enum rsm_found found = rsm_slot_lock(&rsm_imports, handle, (void **)&import);

	if (found == RSM_LIVE)
		*segment = (struct rsm_event_segment){.import = import,
						      .slot = &import->slot,
						      .events = &import->events,
						      .link = import->link};
	if (found != RSM_NONE)
		return found == RSM_LIVE ? RSM_SUCCESS : RSMERR_CONN_ABORTED;
	found = rsm_slot_lock(&rsm_exports, handle, (void **)&export);
	if (found != RSM_LIVE)
		return found == RSM_FOREIGN ? RSMERR_NOT_CREATOR : RSMERR_BAD_SEG_HNDL;
	if (export->link == NULL) { /* the attachment was lost, and attaching again failed */
		rsm_slot_unlock(export);
		return export_aborted(handle);
	}
	*segment = (struct rsm_event_segment){.export = export,
					      .slot = &export->slot,
					      .events = &export->events,
					      .link = export->link,
					      .withdrawn = export->withdrawn};
	return RSM_SUCCESS;
}

/* True if no event can come any more. */
bool
rsm_event_ended(const struct rsm_event_segment *segment)
{
	if (segment->import != NULL) {
		rsm_drain(segment->import);
		if (segment->import->aborted)
			return true;
	}
	return rsm_link_lost(segment->link);
}

void
rsm_event_arm(const struct rsm_event_segment *segment)
{
	one_wait_arm(&segment->events->counter, segment->link->channel, 1);
	if (segment->import != NULL)
		one_wait_arm(&segment->import->cq, segment->link->channel, 1);
}

/* ---- posting ---- */

static int
post_export(struct rsm_export *export, bool once)
{
	struct one_msg msg = {.type = ONE_MSG_RSM_SIGNAL};
	struct one_reply reply;
	int error;

	if (!export->published || rsm_link_lost(export->link))
		return RSM_SUCCESS; /* no importers to signal */
	msg.rsm_signal.segment = export->segment;
	msg.rsm_signal.flags = once ? ONE_RSM_ONCE : 0;
	error = one_call(export->link->client, &msg, NULL, 0, &reply);
	return error == -ECONNRESET ? RSM_SUCCESS : rsm_error(error);
}

int
rsm_do_intr_signal_post(void *memseg, uint_t flags)
{
	bool once = (flags & RSM_SIGPOST_NO_ACCUMULATE) != 0;
	struct rsm_event_segment segment;
	int result = rsm_event_lock(memseg, &segment);

	if (result != RSM_SUCCESS)
		return result;
	result = segment.import != NULL ? rsm_import_signal(segment.import, once)
					: post_export(segment.export, once);
	rsm_slot_unlock(segment.slot);
	return result;
}

/* ---- waiting ---- */

/* Sleeps until the segment may have changed. Unlocks the segment. */
static int
sleep_on(struct rsm_event_segment *segment, uint32_t ticket, uint64_t deadline)
{
	struct rsm_link *link = rsm_link_get(segment->link);
	uint64_t wake = one_now_ns() + SLEEP_NS;
	int error;

	rsm_slot_unlock(segment->slot);
	error = one_wait_sleep(link->client, link->channel, ticket, deadline < wake ? deadline : wake);
	rsm_link_put(link);
	return error == -EINTR ? RSMERR_INTERRUPTED : RSM_SUCCESS;
}

int
rsm_do_intr_signal_wait(void *memseg, int timeout)
{
	uint64_t deadline = timeout < 0 ? UINT64_MAX : one_now_ns() + (uint64_t)timeout * 1000000u;
	struct rsm_event_segment segment;
	uint32_t withdrawn = 0;
	bool first = true;

	for (;;) {
		int result = rsm_event_lock(memseg, &segment);
		uint32_t ticket;

		if (result != RSM_SUCCESS)
			return first ? result : RSMERR_CONN_ABORTED; /* the segment ended during the sleep */
		if (first)
			withdrawn = segment.withdrawn;
		first = false;
		ticket = one_wait_begin(segment.link->client, segment.link->channel);
		rsm_event_arm(&segment);
		if (rsm_events_take(segment.events))
			result = RSM_SUCCESS;
		else if (rsm_event_ended(&segment) || segment.withdrawn != withdrawn)
			result = segment.export != NULL && rsm_link_lost(segment.link)
					 ? export_aborted(memseg)
					 : RSMERR_CONN_ABORTED;
		else if (deadline != UINT64_MAX && one_now_ns() >= deadline)
			result = RSMERR_TIMEOUT;
		else
			result = -1;
		if (result >= 0) {
			rsm_slot_unlock(segment.slot);
			return result;
		}
		if (sleep_on(&segment, ticket, deadline) != RSM_SUCCESS)
			return RSMERR_INTERRUPTED;
	}
}
