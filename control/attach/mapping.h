/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of applications, mapped here. */
#ifndef CONTROL_ATTACH_MAPPING_H
#define CONTROL_ATTACH_MAPPING_H

#include "control/attach/client.h"

struct mapping {
	struct job job; /* first: the unmapping */
	uint8_t *base;
	uint64_t len;
	uint64_t empty;   /* bytes at its end that were never used here */
	uint64_t counted; /* bytes, of the attachment */
	uint64_t charged; /* to its user, with page tables */
	uint32_t count;   /* of QUOTA_MAPPINGS */
	int guard;        /* 0: none */
	uint32_t pieces;  /* that the guard replaced, once it is removed */
	int fd;           /* of an RSM client's file, to be passed on to importers; -1 */
	bool reply;       /* to the request under way, when it is free */
};
void mappings_init(void);
void mappings_fini(void);
/* Charges the client for `len` bytes in `count` mappings; base is still to be set.  0, a refusal, or
 * REQUEST_AGAIN: what its user has left behind still counts. */
int mapping_new(struct client *client, uint64_t len, uint32_t count, struct mapping **out);
struct mapping *mapping_of_arena(struct client *client); /* nothing is charged; NULL: no memory */
/* Makes accesses to holes of the file fault. Returns 0 or -errno. */
int mapping_refuse_holes(uint8_t *base, uint64_t len);
/* Makes a fault in the mapping end the client. Returns 0 or -errno. */
int mapping_watch(struct mapping *mapping);
/* Calls mapping_refuse_holes and mapping_watch for the whole mapping. */
int mapping_guard(struct mapping *mapping);
/* Keeps the descriptor of its file; false: there are too many, and it is still the caller's. */
bool mapping_keep(struct mapping *mapping, int fd);
/* No core can use it any more.  `reply`: answer the request under way when it is unmapped and no longer
 * charged.
 */
void mapping_free(struct mapping *mapping, bool reply);
/* A job's step: page table entries for [base, base+len), whose pages must be there; -EFAULT: that at `done`
 * is not. */
struct populate {
	struct job job; /* first */
	uint8_t *base;
	uint64_t len, done;
	bool by_page;
	void *object;
};
int mapping_populate_step(struct job *job);

#endif
