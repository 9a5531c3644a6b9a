/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of an attachment's arena, charged to it until their pages are gone. */
#ifndef CONTROL_ATTACH_PARTS_H
#define CONTROL_ATTACH_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "control/attach/worker.h"
#include "control/base/arena.h"

struct client;

/* Of the arena: freed, and their pages are still to go.  There is room for all that are handed out. */
struct parts {
	struct job job;          /* of the one whose pages go now: */
	struct arena_extent now; /* this one, */
	uint64_t punched;        /* as far as this */
	bool busy;
	struct arena_extent *freed;
	uint32_t num, cap;
};

/* Zeroed, with pages: a core will not fault on it.  0, or the refusal: -EDQUOT, -ENOSPC, -ENOMEM; a request
 * that fails by it is tried again when memory of the user is on its way out. */
int client_alloc(struct client *client, uint64_t size, uint64_t *offset);
void client_free(struct client *client, uint64_t offset, uint64_t size);
void parts_fini(struct parts *parts); /* the arena goes as a whole */

#endif
