/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of applications, mapped into the data plane. */
#ifndef CONTROL_ATTACH_MAPPING_H
#define CONTROL_ATTACH_MAPPING_H

#include "control/attach/client.h"

struct mapping {
	struct job job; /* must be first; unmaps */
	uint8_t *base;
	uint64_t len;
	uint64_t empty;   /* bytes at the end that this process has never accessed */
	uint64_t counted; /* bytes counted for the attachment */
	uint64_t charged; /* bytes charged to its user, with page tables */
	uint32_t count;   /* charged in QUOTA_MAPPINGS */
	int guard;        /* 0: none */
	uint32_t pieces;  /* pieces that the guard replaced; set when the guard is removed */
	int fd;           /* of an RSM client's file, which importers get; -1: none */
	bool reply;       /* answer the request under way when unmapped */
};
void mappings_init(void);
void mappings_fini(void);
/* Charges the client for `len` bytes in `count` mappings; the caller sets `base`.  Returns 0, a refusal, or
 * REQUEST_AGAIN: memory of the user that is being released still counts. */
int mapping_new(struct client *client, uint64_t len, uint32_t count, struct mapping **out);
struct mapping *mapping_of_arena(struct client *client); /* charges nothing; NULL: no memory */
/* Makes accesses to holes of the file fault. Returns 0 or -errno. */
int mapping_refuse_holes(uint8_t *base, uint64_t len);
/* Makes a fault in the mapping end the client. Returns 0 or -errno. */
int mapping_watch(struct mapping *mapping);
/* Calls mapping_refuse_holes and mapping_watch for the whole mapping. */
int mapping_guard(struct mapping *mapping);
/* Stores the descriptor of the file, for importers.  False: too many are stored, and the caller still owns
 * `fd`. */
bool mapping_store_fd(struct mapping *mapping, int fd);
/* Unmaps and frees the mapping, which no core can use any more.  `reply`: answers the request under way once
 * the memory is unmapped and no longer charged. */
void mapping_free(struct mapping *mapping, bool reply);
/* Step of a job that makes page table entries for [base, base+len), whose pages must exist.  Returns -EFAULT
 * if the page at `done` does not exist. */
struct populate {
	struct job job; /* must be first */
	uint8_t *base;
	uint64_t len, done;
	bool by_page;
	bool gently; /* in short steps with pauses, in which other threads get mmap_lock */
	void *object;
};
int mapping_populate_step(struct job *job);

#endif
