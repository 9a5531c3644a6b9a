/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels with a descriptor: completion events, and asynchronous events. */
#ifndef VERBS_EVENT_H
#define VERBS_EVENT_H

#include "verbs/context.h"

struct comp_channel {
	struct ibv_comp_channel base;
	uint32_t id;
	bool stale; /* events of destroyed rings may be queued */
};

/* ---- channel.c ---- */
/*
 * Opens a channel: its id for one_cq.descriptor, and its descriptor, which the caller closes.  Returns
 * -errno.
 */
int channel_open(struct context *context, uint32_t *id, int *fd);
/* Drops queued events of a ring that was removed from its list: they must not make the descriptor
 * readable. */
void channel_forget_ring(struct context *context, struct ibv_comp_channel *base);

/* ---- async.c ---- */
/* `list` is one of the context's lists. */
void element_add(struct context *context, struct element **list, struct element *element);
void element_remove(struct context *context, struct element **list, struct element *element);
/* The context's lock is held.  NULL if no element has that id. */
struct element *element_find(struct element *list, uint32_t id);
/* Waits until the application has acknowledged all events that it got. */
void element_acknowledged(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *done, uint32_t got);

int events_open(struct context *context); /* returns 0 or -errno */
void events_close(struct context *context);
void events_lost(void *context);
/* Drops queued events of an object that is being destroyed. */
void events_forget(struct context *context, const struct element *element);

#endif
