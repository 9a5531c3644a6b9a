/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory in an attachment's arena, charged until its pages are gone. */
#ifndef CONTROL_ATTACH_PARTS_H
#define CONTROL_ATTACH_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "control/attach/worker.h"
#include "control/base/arena.h"

struct client;

/* Freed extents of the arena whose pages are not gone yet.  `freed` has room for every allocated extent. */
struct parts {
	struct job job;          /* punches `now` */
	struct arena_extent now; /* extent being punched */
	uint64_t punched;        /* bytes of `now` punched so far */
	bool busy;
	struct arena_extent *freed;
	uint32_t num, cap;
};

/* Allocates zeroed, populated memory, on which a core does not fault.  Returns 0, or the refusal: -EDQUOT,
 * -ENOSPC, -ENOMEM.  The request that fails for this reason is retried if memory of its user is being
 * released. */
int client_alloc(struct client *client, uint64_t size, uint64_t *offset);
void client_free(struct client *client, uint64_t offset, uint64_t size);
void parts_fini(struct parts *parts); /* the arena is unmapped as a whole */

#endif
