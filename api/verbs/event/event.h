/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels with a descriptor: completion events, and asynchronous events. */
#ifndef VERBS_EVENT_H
#define VERBS_EVENT_H

#include "verbs/base/context.h"

struct comp_channel {
	struct ibv_comp_channel base;
	uint32_t id;
	bool stale; /* there may be events of rings that have gone */
};

/* ---- channel.c ---- */
/* The id of a channel for one_cq.descriptor, and its descriptor, which is the caller's. -errno. */
int channel_open(struct context *context, uint32_t *id, int *fd);
/* A ring has gone, which is in no list any more: its events do not make the descriptor readable. */
void channel_forget_ring(struct context *context, struct ibv_comp_channel *base);

/* ---- element.c ---- */
/* In one of the context's lists. */
void element_add(struct context *context, struct element **list, struct element *element);
void element_remove(struct context *context, struct element **list, struct element *element);
/* With the context's lock held; NULL: there is none of that id. */
struct element *element_find(struct element *list, uint32_t id);
/* Until all that was got is acknowledged. */
void element_acknowledged(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *done, uint32_t got);

/* ---- async.c ---- */
int events_open(struct context *context); /* -errno */
void events_close(struct context *context);
void events_lost(void *context);
/* Events of an object that is being destroyed are not got any more. */
void events_forget(struct context *context, const struct element *element);

#endif
