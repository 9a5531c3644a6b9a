/* SPDX-License-Identifier: BSD-3-Clause */
/* Event channels, and the waits of synchronous ids. */
#ifndef RDMACM_CHANNEL_H
#define RDMACM_CHANNEL_H

#include "rdmacm/cma.h"

/* ---- channel.c; all but channel_new() with the lock held ---- */
struct channel *channel_new(void); /* NULL with errno */
/* NULL if memory is exhausted. */
struct event *event_new(struct id *id, enum rdma_cm_event_type type, int status);
/* Copies the peer's private data, at most `most` bytes.  `data` may be shared memory: the caller reads `len`
 * once. */
void event_private(struct event *event, const uint8_t *data, uint32_t len, uint32_t most);
void event_append(struct channel *channel, struct event *event);
void event_put(struct id *id, struct event *event);
/* Removes the first event of the id, or of a request for it, from the queue; NULL if none is queued. */
struct event *event_remove(struct channel *channel, const struct id *id);
/* Called after each change of the queue: keeps the descriptor readable exactly while events are queued. */
void channel_changed(struct channel *channel);

/* ---- without the lock ---- */
/* Acknowledges the last event of a synchronous id, which stays in id->base.event until then. */
void channel_drop_event(struct id *id);
/* Converts an event to the result of a call that waited for `expected`: 0 or a positive errno. */
int channel_outcome(const struct rdma_cm_event *event, enum rdma_cm_event_type expected);
/* Ends a call.  A call with `error`, an errno of either sign, fails; otherwise a call on a synchronous id
 * waits for the `expected` event.  Returns 0, or -1 with errno. */
int channel_end(const char *function, struct id *id, int error, enum rdma_cm_event_type expected);

#endif
