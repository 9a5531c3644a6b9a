/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Protection zones, completion rings, memory and shared receive queues of an attachment.
 */
#ifndef CONTROL_OBJECTS_OBJECTS_H
#define CONTROL_OBJECTS_OBJECTS_H

#include "control/attach/client.h"
#include "control/attach/mapping.h"
#include "control/attach/work.h"

#define STAGING_MAX (64ull << 20)      /* of one attachment */
#define STAGING_ONCE (1ull << 20)      /* of one request: the control thread populates it itself */
#define POPULATE_AT_ONCE (64ull << 10) /* bytes of a registration that need no job */

struct qp;
struct segment;

struct pz {
	struct object object;
	uint32_t number; /* unique in the data plane */
};

struct old_ring { /* of a CQ that was resized: the application may still read it */
	struct old_ring *next;
	uint64_t offset;
	uint32_t log2;
};

struct cq_ring { /* of the bundle; the first is that of the attachment's first lane */
	struct engine_client *lane;
	struct engine_cq *engine;
	uint64_t offset;
	uint32_t log2;
};

struct cq {
	struct object object;
	uint64_t bundle; /* offset of its struct one_cq_bundle */
	struct cq_ring first;
	struct cq_ring *more; /* num_rings - 1 */
	uint32_t num_rings;
	uint32_t entries;      /* log2, of rings to be made */
	uint32_t vector;       /* the core that is preferred for its queue pairs; 0: none */
	uint32_t removing;     /* rings that cores have not let go of yet; */
	command_done *removed; /* called when there is none */
	uint32_t posts;        /* entries on their way from here */
	struct old_ring *old;
	uint32_t num_old;
};

struct region {
	struct object object;
	struct mapping *mapping;
	uint64_t size, page;
	uint64_t joined;   /* bytes mapped so far: less than `size` while it is being joined */
	uint32_t unjoined; /* files that it may still get */
	bool sealed;       /* a library's own file, whose pages stay */
	uint64_t populated, populated_end; /* of those: offsets between which all have been populated */
	bool registered;                   /* it has had a registration */
	bool kept;                         /* in client->kept_regions */
	TAILQ_ENTRY(region) kept_link;
};

struct mr {
	struct object object;    /* users: segments and windows */
	struct segment *segment; /* NULL: it is not published */
	struct pz *pz;
	struct mem_region *entry; /* published; NULL: not */
	uint64_t va, length;
	uint64_t shift; /* the entry's va - ours */
	uint32_t access;
	uint32_t uid, gid;       /* of the user that asked for it */
	struct mapping *mapping; /* of several sges, made for this MR; else NULL */
	uint32_t num_regions;
	struct region **region;
	uint64_t offset;           /* in the file, when it is one sge */
	bool renewable;            /* when it was made; see mr_settle() */
	TAILQ_ENTRY(mr) kept_link; /* in client->renewable_mrs, if it is */
	LIST_HEAD(, mw) windows;
};

struct mw {
	struct object object;
	struct pz *pz;
	struct mem_region *entry; /* what is published in the slot: the bound range, or nothing */
	struct mr *mr;            /* NULL: unbound */
	LIST_ENTRY(mw) mr_link;
};

struct srq {
	struct object object; /* users: queue pairs */
	struct engine_srq *engine;
	struct pz *pz;
	uint32_t max_wr;
	uint64_t shm, ring, ring_size; /* in the arena */
};

/* ---- hello.c ---- */
int hello_port_request(struct client *client, const struct one_msg *msg);
int hello_source_request(struct client *client, const struct one_msg *msg);
int hello_request(struct client *client, const struct one_msg *msg);

/* ---- pz.c, cq.c, staging.c ---- */
int pz_create(struct client *client, const struct one_msg *msg);
int cq_create(struct client *client, const struct one_msg *msg);
int cq_resize_request(struct client *client, const struct one_msg *msg);
int cq_free(struct client *client, const struct one_msg *msg);
int cq_start(struct client *client, uint32_t log2, struct cq **out, command_done *done);
void cq_remove(struct cq *cq, command_done *done); /* at the client's end */
void cq_destroy(struct cq *cq);                    /* the core has let go */
/* Its ring on a lane; NULL: there is none, or no `cq`. */
struct engine_cq *cq_engine(const struct cq *cq, const struct engine_client *lane);
/* Makes a ring for queue pairs on `lane`, if there is none.  -errno: no room, and nothing has changed. */
int cq_extend(struct cq *cq, struct engine_client *lane);
/* By the ring of `lane`, behind what its core has stored there; NULL: by the first lane's. */
void cq_post(struct cq *cq, struct engine_client *lane, const struct one_cqe *event);
bool cq_has_room(const struct cq *cq);
int staging_create(struct client *client, const struct one_msg *msg);
/* 0: too many of the client's user or of all: `limit`. */
uint32_t pz_number_new(struct client *client, void *owner, struct quota_limit *limit);
void pz_number_free(struct client *client, uint32_t number);
void pz_destroy(struct pz *pz);

/* ---- region.c ---- */
/*
 * May a client's descriptor be mapped for `size` bytes?  Asks no file system that
 * could let us wait.  -EBADF: not shared memory; -EPERM: not sealed against
 * shrinking; -EINVAL: size 0, no multiple of *page, or beyond the end.
 */
int region_check(int fd, uint64_t size, bool must_be_sealed, uint64_t *page);
int region_add(struct client *client, const struct one_msg *msg);
/* With nothing mapped yet; a refusal, or REQUEST_AGAIN. */
int region_new(struct client *client, uint64_t size, uint64_t page, uint32_t files, struct region **out);
/* joined.c */
int region_join(struct client *client, const struct one_msg *msg);
/* MRs are gone, and a grace period has passed since. */
void region_destroy(struct region *region);
void region_release(struct region *region);
/* mr.c */
int mr_create(struct client *client, const struct one_msg *msg);
int mr_swap(struct client *client, const struct one_msg *msg);
int mr_free(struct client *client, const struct one_msg *msg);
/* Nothing may stand on a region whose key its application revokes without us: false, it has done so. */
bool mr_settle(struct mr *mr);
void mr_withdraw(struct mr *mr); /* the key, at the client's end */
void mr_destroy(struct mr *mr);
/* As mr_destroy, at the client's request, which is answered when it is free and no longer counts. */
void mr_release(struct mr *mr);
struct mr *mr_staging(struct client *client, struct pz *pz, uint64_t offset, uint64_t size);
/* A key for the client, to be published before the next is asked for; 0: too many of its user or of all. */
uint32_t key_new(struct client *client, struct quota_limit *limit);
void key_free(struct client *client); /* one that was not published */
/* Out of the table, and freed when no core can look at it any more; *entry NULL: nothing. */
void key_withdraw(struct client *client, struct mem_region **entry);

/* ---- bind.c ---- */
int mw_create(struct client *client, const struct one_msg *msg);
void mw_withdraw(struct mw *mw);
void mw_destroy(struct mw *mw);
void mw_unbind_lost(struct mr *mr); /* windows of `mr` that peers have invalidated, up to one that stands */
void bind_event(struct qp *qp);     /* its core asks for one */
void bind_forget(struct qp *qp);    /* the core does not wait for it any more */

/* The ring for `wrs` requests of `sges` sges; a refusal if it is over the limits. */
int qp_ring_log2(struct client *client, uint32_t max_wrs, uint32_t wrs, uint32_t sges,
		 uint32_t *log2); /* qp.c */

/* ---- channel.c ---- */
struct channel;
int channel_open(struct client *client, const struct one_msg *msg);
void channel_remove(struct channel *channel, command_done *done);
void channel_destroy(struct channel *channel); /* the core has let go */

/* ---- srq.c ---- */
int srq_create(struct client *client, const struct one_msg *msg);
int srq_limit(struct client *client, const struct one_msg *msg);
int srq_swap(struct client *client, const struct one_msg *msg);
void srq_remove(struct srq *srq, command_done *done); /* at the client's end */
void srq_destroy(struct srq *srq);                    /* the core has let go */

#endif
