/* SPDX-License-Identifier: BSD-3-Clause */
/* Signals, and the descriptors that applications poll for them. */
#ifndef RSM_EVENT_H
#define RSM_EVENT_H

#include "rsm/segment_object.h"

int rsm_events_open(struct rsm_events *events, struct rsm_link *link); /* -errno */
void rsm_events_close(struct rsm_events *events);
uint32_t rsm_events_pending(const struct rsm_events *events);
bool rsm_events_take(struct rsm_events *events);
/* Makes the poll descriptor report the pending events; `ended`: also POLLHUP. */
void rsm_pollfd_sync(struct rsm_events *events, bool ended);
void rsm_pollfd_close(struct rsm_events *events);

/* A locked export or import: one of `import` and `export` is NULL. */
struct rsm_event_segment {
	struct rsm_import *import;
	struct rsm_export *export;
	struct rsm_slot *slot;
	struct rsm_events *events;
	struct rsm_link *link;
	uint32_t withdrawn; /* counts the times that the export was unpublished */
};
int rsm_event_lock(const void *handle, struct rsm_event_segment *segment);
bool rsm_event_ended(const struct rsm_event_segment *segment);
void rsm_event_arm(const struct rsm_event_segment *segment);

#endif
