/* SPDX-License-Identifier: BSD-3-Clause */
/* Attachments to the data plane, and what all rooms of librsm do with one. */
#ifndef RSM_LINK_H
#define RSM_LINK_H

#include "client/attach.h"
#include "rsm/base/handle.h"

struct rsm_range;

/* A ring of staging memory, lent to one import at a time. */
struct rsm_stage {
	struct rsm_stage *next;
	uint64_t offset; /* in the arena: address for the engine */
	uint8_t *memory;
	uint64_t size;
	uint32_t lkey;
};

struct rsm_link {
	struct one_client *client;
	uint32_t process;
	uint32_t pz;
	uint16_t channel; /* where transfers sleep */
	bool loopback;
	_Atomic uint32_t refs;
	/* On the watcher's thread: the data plane is gone.  Set before there is something that must hear of
	 * it. */
	void (*_Atomic lost)(const struct rsm_link *link);
	pthread_mutex_t lock; /* all below */
	struct rsm_stage *stages;
	struct rsm_range *ranges; /* sorted by address */
	uint32_t num_ranges, max_ranges;
	uint32_t polled; /* segments with poll descriptors */
	bool pump;       /* the thread that looks after them runs */
};

/* `port` NULL: the first.  0 or -errno of one_attach. */
int rsm_link_open(const char *port, bool loopback, struct rsm_link **out);
struct rsm_link *rsm_link_get(struct rsm_link *link);
void rsm_link_put(struct rsm_link *link);
bool rsm_link_lost(const struct rsm_link *link);
struct rsm_stage *rsm_stage_get(struct rsm_link *link);
void rsm_stage_put(struct rsm_link *link, struct rsm_stage *stage);
/* The RSMERR_* for -errno of the client core, or for the reply of the data plane. */
int rsm_error(int error);
/* Copy what the application points to: 0, or -EFAULT when it is not readable. */
int rsm_copy_in(void *dst, const void *src, size_t len);
size_t rsm_page_size(void);

#endif
