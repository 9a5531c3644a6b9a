/* SPDX-License-Identifier: BSD-3-Clause */
/* Attachments to the data plane, and functions that all rooms of librsm share. */
#ifndef RSM_LINK_H
#define RSM_LINK_H

#include "client/attach.h"
#include "rsm/handle.h"

struct rsm_range;

/* A ring of staging memory. One import uses it at a time. */
struct rsm_stage {
	struct rsm_stage *next;
	uint64_t offset; /* in the arena; the engine's address of the ring */
	uint8_t *memory;
	uint64_t size;
	uint32_t lkey;
};

struct rsm_link {
	struct one_client *client;
	uint32_t process;
	uint32_t pz;
	uint16_t channel; /* the channel on which waiters of transfers and signals sleep */
	bool loopback;
	_Atomic uint32_t refs;
	/*
	 * Called on the watcher's thread when the data plane is lost. Set before the first object that
	 * depends on it.
	 */
	void (*_Atomic lost)(const struct rsm_link *link);
	pthread_mutex_t lock; /* protects all members below */
	struct rsm_stage *stages;
	struct rsm_range *ranges; /* sorted by address */
	uint32_t num_ranges, max_ranges;
	uint32_t polled; /* segments with poll descriptors */
	bool pump;       /* the pump thread runs */
};

/* Attaches to `port`, or to the first port if NULL. Returns 0, or -errno of one_attach(). */
int rsm_link_open(const char *port, bool loopback, struct rsm_link **out);
struct rsm_link *rsm_link_get(struct rsm_link *link);
void rsm_link_put(struct rsm_link *link);
bool rsm_link_lost(const struct rsm_link *link);
struct rsm_stage *rsm_stage_get(struct rsm_link *link);
void rsm_stage_put(struct rsm_link *link, struct rsm_stage *stage);
/* Converts -errno of the client core, or a reply of the data plane, to an RSMERR_*. */
int rsm_error(int error);
/* Copies from the application's memory. Returns 0, or -EFAULT if it is not readable. */
int rsm_copy_in(void *dst, const void *src, size_t len);
size_t rsm_page_size(void);

#endif
