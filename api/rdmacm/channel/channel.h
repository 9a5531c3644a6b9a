/* SPDX-License-Identifier: BSD-3-Clause */
/* Event channels, and ids that wait on one of their own. */
#ifndef RDMACM_CHANNEL_H
#define RDMACM_CHANNEL_H

#include "rdmacm/base/cma.h"

/* ---- channel.c; but for the first with the lock held ---- */
struct channel *channel_new(void); /* NULL: none, with errno */
/* NULL: no memory. */
struct event *event_new(struct id *id, enum rdma_cm_event_type type, int status);
/* What the peer has said with it; shared memory, so `len` is looked at once. */
void event_private(struct event *event, const uint8_t *data, uint32_t len, uint32_t most);
void event_append(struct channel *channel, struct event *event);
void event_put(struct id *id, struct event *event);
/* The first of those that tell of an id, or of requests for it, out of the queue; NULL: there is none. */
struct event *event_remove(struct channel *channel, const struct id *id);
/* After something has been put in or taken out. */
void channel_changed(struct channel *channel);

/* ---- taken.c; with the lock held ---- */
void event_taken(const struct event *event); /* by the application */

/* ---- complete.c; without the lock ---- */
/* Of ids whose calls wait: the last event is kept for the application to look at. */
void channel_drop_event(struct id *id);
/* What that says to who has waited for `expected`: 0, or an errno. */
int channel_outcome(const struct rdma_cm_event *event, enum rdma_cm_event_type expected);
/*
 * The end of a call: with `error`, an errno of either sign, it is refused; else one on an id without channel
 * waits for what it expects.  0, or -1 with errno.
 */
int channel_end(const char *function, struct id *id, int error, enum rdma_cm_event_type expected);

#endif
