/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection zones, completion rings, memory and shared receive queues of an attachment. */
#ifndef CONTROL_OBJECTS_OBJECTS_H
#define CONTROL_OBJECTS_OBJECTS_H

#include "control/attach/client.h"
#include "control/attach/mapping.h"

#define STAGING_MAX (64ull << 20)      /* per attachment */
#define STAGING_ONCE (1ull << 20)      /* per request: the control thread populates the memory itself */
#define POPULATE_AT_ONCE (64ull << 10) /* largest registration, in bytes, that is populated without a job */

struct qp;
struct segment;

struct pz {
	struct object object;
	uint32_t number; /* unique in the data plane */
};

struct old_ring { /* ring of a resized CQ, which the application may still read */
	struct old_ring *next;
	uint64_t offset;
	uint32_t log2;
};

struct cq_ring { /* ring of a bundle; the first is on the attachment's first lane */
	struct engine_client *lane;
	struct engine_cq *engine;
	uint64_t offset;
	uint32_t log2;
};

/* A completion queue in which requests have completed stays CQ_OF_REQUESTS. */
enum cq_use { CQ_UNUSED, CQ_OF_OTHERS, CQ_OF_REQUESTS };

struct cq {
	struct object object;
	enum cq_use use; /* see place_use_cq() */
	uint64_t bundle; /* offset of its struct one_cq_bundle */
	struct cq_ring first;
	struct cq_ring *more; /* further rings: num_rings - 1 */
	uint32_t num_rings;
	uint32_t entries;      /* log2 of the size of rings that will be created */
	uint32_t vector;       /* preferred core of its queue pairs; 0: none */
	bool has_lane;         /* a queue pair whose requests complete here has been placed */
	uint32_t lane;         /* number of the lane of the first one */
	uint32_t removing;     /* rings that cores have not released yet */
	command_done *removed; /* called when `removing` becomes 0 */
	uint32_t posts;        /* posted by the control thread, not yet acknowledged */
	struct old_ring *old;
	uint32_t num_old;
};

struct region {
	struct object object;
	struct mapping *mapping; /* without `base`: a sealed file that another process had mapped */
	uint64_t size, page;
	uint64_t joined;   /* bytes mapped so far; less than `size` until all files have been joined */
	uint32_t unjoined; /* files that may still be joined */
	bool sealed;       /* a library's own file, whose pages stay */
	uint64_t populated, populated_end; /* offsets between which all pages have been populated */
	bool registered;                   /* has had a registration */
	bool cached;                       /* in client->cached_regions */
	TAILQ_ENTRY(region) cache_link;
};

struct mr {
	struct object object;    /* users: segments */
	struct segment *segment; /* NULL: not published by RSM */
	struct pz *pz;
	struct mem_region *entry; /* in the key table; NULL: not there */
	uint64_t va, length;
	uint64_t shift; /* entry->va - va */
	uint32_t access;
	uint32_t uid, gid;       /* of the sender of the request */
	struct mapping *mapping; /* of several pieces, made for this MR; else NULL */
	uint32_t num_regions;
	struct region **region;
	uint64_t offset;            /* in the file, with one piece */
	uint64_t copy_at;           /* struct one_rsm_publish; 0: unknown */
	bool renewable;             /* as created; see mr_settle() */
	TAILQ_ENTRY(mr) cache_link; /* in client->renewable_mrs, if renewable */
	LIST_HEAD(, mw) windows;
};

struct mw {
	struct object object;
	struct pz *pz;
	struct mem_region *entry; /* in the window's slot: grants the bound range, or nothing */
	struct mr *mr;            /* NULL: unbound */
	LIST_ENTRY(mw) mr_link;
};

struct srq {
	struct object object; /* users: queue pairs */
	struct engine_srq *engine;
	struct pz *pz;
	uint32_t max_wr;
	uint64_t shm, ring, ring_size; /* offsets in the arena, and bytes */
	uint32_t lanes;                /* of the struct one_srq_shm */
};

/* ---- hello.c ---- */
int hello_port_request(struct client *client, const struct one_msg *msg);
int hello_source_request(struct client *client, const struct one_msg *msg);
int hello_request(struct client *client, const struct one_msg *msg);
/* Makes the tables and the first lane of an attachment whose arena is mapped and laid out.  `config`: offsets
 * and core.  Returns 0, or the refusal. */
int hello_make_lane(struct client *client, struct engine_client_config config);

/* ---- pz.c, cq.c ---- */
int pz_create(struct client *client, const struct one_msg *msg);
int cq_create(struct client *client, const struct one_msg *msg);
int cq_resize_request(struct client *client, const struct one_msg *msg);
int cq_free(struct client *client, const struct one_msg *msg);
/* Returns ring `number` of a bundle that has it. */
struct cq_ring *cq_ring_at(struct cq *cq, uint32_t number);
uint64_t cq_ring_size(uint32_t log2); /* bytes in the arena */
int cq_start(struct client *client, uint32_t log2, struct cq **out, command_done *done);
void cq_remove(struct cq *cq, command_done *done); /* from its cores; `done` may be NULL */
void cq_destroy(struct cq *cq);                    /* call when no core has it */
/* Returns the ring on a lane; NULL: no such ring, or `cq` is NULL. */
struct engine_cq *cq_engine(const struct cq *cq, const struct engine_client *lane);
/* Creates a ring for queue pairs on `lane`, unless there is one.  Returns 0, or -errno without effect: no
 * room. */
int cq_extend(struct cq *cq, struct engine_client *lane);
/* Posts an entry to the ring of `lane` (NULL: to the first lane's), behind the entries that its core has
 * stored. */
void cq_post(struct cq *cq, const struct engine_client *lane, const struct one_cqe *event);
/* Posts an entry to the queue pair's ring for connections, behind its completions. */
void cq_post_outcome(const struct qp *qp, const struct one_cqe *event);
bool cq_has_room(const struct cq *cq);
/* Returns 0 with the limit in `limit` if too many zones exist, of the client's user or of all. */
uint32_t pz_number_new(struct client *client, void *owner, struct quota_limit *limit);
void pz_number_free(struct client *client, uint32_t number);
void pz_destroy(struct pz *pz);

/* ---- region.c ---- */
/* Checks that a client's descriptor can be mapped for `size` bytes.  Calls no file system that could block.
 * Returns 0; -EBADF: not shared memory; -EPERM: not sealed against shrinking; -EINVAL: size 0, not a multiple
 * of *page, or beyond the end. */
int region_check(int fd, uint64_t size, bool must_be_sealed, uint64_t *page);
int region_add(struct client *client, const struct one_msg *msg);
/* Creates a region with nothing mapped.  Returns 0, a refusal, or REQUEST_AGAIN. */
int region_new(struct client *client, uint64_t size, uint64_t page, uint32_t files, struct region **out);
/* joined.c */
int region_join(struct client *client, const struct one_msg *msg);
/* Call when the region has no MRs, and a grace period has passed since. */
void region_destroy(struct region *region);
void region_release(struct region *region);
/* mr.c */
int mr_create(struct client *client, const struct one_msg *msg);
int mr_swap(struct client *client, const struct one_msg *msg);
int mr_free(struct client *client, const struct one_msg *msg);
int staging_create(struct client *client, const struct one_msg *msg);
/* Makes the key revocable by the control thread alone, as windows and segments require.  False: the
 * application has revoked the key already, or no memory. */
bool mr_settle(struct mr *mr);
void mr_withdraw(struct mr *mr); /* revokes the key */
void mr_destroy(struct mr *mr);
/* Like mr_destroy(), but also answers the request under way when the MR is freed and no longer charged. */
void mr_release(struct mr *mr);
struct mem_region *mr_entry_new(const struct mr *mr); /* for the key table; NULL: no memory */
uint8_t *mr_base(const struct mr *mr);                /* where mr->va is mapped; the MR has a region */
uint64_t mr_pages(const struct mr *mr);               /* bytes of its whole pages */
/* Returns a key for the client; publish it before the next call.  0: too many keys, of the client's user or
 * of all. */
uint32_t key_new(struct client *client, struct quota_limit *limit);
void key_free(struct client *client); /* a key that was not published */
/* Removes the entry from the key table, and frees it when no core can access it any more.  *entry NULL:
 * nothing. */
void key_withdraw(struct client *client, struct mem_region **entry);

/* ---- bind.c ---- */
int mw_create(struct client *client, const struct one_msg *msg);
void mw_withdraw(struct mw *mw);
void mw_destroy(struct mw *mw);
/* Publishes the entry as the window's. */
void mw_publish(struct mw *mw, struct mem_region *entry);
void mw_unbind_lost(struct mr *mr); /* unbinds windows that peers have invalidated, up to a valid one */
void bind_event(struct qp *qp);     /* the core requests a bind */
void bind_forget(struct qp *qp);    /* the core no longer waits for a bind */

/* Computes the ring size for `wrs` requests of `sges` sges.  Returns 0, or the refusal. */
int qp_ring_log2(struct client *client, uint32_t max_wrs, uint32_t wrs, uint32_t sges,
		 uint32_t *log2); /* qp_object.c */

/* ---- channel.c ---- */
struct channel;
struct pass_in;
struct pass_out;
void channel_write(struct channel *channel, struct pass_out *out);
int channel_read(struct client *client, struct pass_in *in);
int channel_open(struct client *client, const struct one_msg *msg);
void channel_remove(struct channel *channel, command_done *done);
void channel_destroy(struct channel *channel); /* call when no core has it */

/* ---- srq_object.c ---- */
int srq_create(struct client *client, const struct one_msg *msg);
int srq_limit(struct client *client, const struct one_msg *msg);
int srq_swap(struct client *client, const struct one_msg *msg);
void srq_remove(struct srq *srq, command_done *done); /* from its core; `done` may be NULL */
void srq_destroy(struct srq *srq);                    /* call when no core has it */

/* ---- mr_cache.c ---- */
/*
 * Cached registrations: memory that a library keeps registered after its last deregistration, so that
 * registering it again is cheap.  Cached memory counts for its user, and is released when a request of the
 * user lacks room.
 *
 * The cache has registrations whose key the application has revoked through its core (struct one_keys), and
 * regions that had registrations and have none now.  The library is not asked: released ids become unknown,
 * and one_arena.reclaimed counts released regions.
 *
 * mr_cache_put() caches a region that has lost its last registration; mr_cache_take() ends that, when the
 * region is registered again or freed.
 */
void mr_cache_put(struct region *region);
void mr_cache_take(struct region *region);
/* Track a renewable registration, from its creation to its end. */
void mr_cache_watch(struct mr *mr);
void mr_cache_forget(struct mr *mr);
/* Releases some cached memory of all attachments of the user.  account->left changes when the memory is free.
 * False: none was found. */
bool mr_cache_reclaim(struct quota_account *account);

#endif
