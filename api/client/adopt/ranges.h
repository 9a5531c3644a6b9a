/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of this process that is shared with the data plane.
 *
 *   file    a memfd of ours, or a foreign file (the application's own), known by device and inode; what the
 *           data plane knows as a region
 *   range   pages of the application adopted into a part of a file; may be cached after the last
 *           deregistration (range_cache.h)
 *
 * Each registration and each release determines from /proc/self/maps what is mapped at an address: the
 * application may have unmapped, moved or replaced adopted pages, and mapped new ones where old ones were. So
 * a range is found by its file and offset, never by the address where it was adopted.
 *
 * When there are many small ranges, they share files ("slabs"), so that they cost neither many descriptors
 * nor many regions. Ranges in slabs are not cached.
 */
#ifndef CLIENT_RANGES_H
#define CLIENT_RANGES_H

#include "client/internal.h"
#include "files.h"
#include "mr_cache.h"

#define PIECES_MAX ONE_MR_PIECES
#define RANGES_MAX 256u /* of one registration */

struct segment; /* segments.h */

#define SLAB_RANGE_PAGES 16u /* larger ranges have a file of their own */

struct range {
	struct range *next; /* list of the file */
	struct file *file;
	uint64_t offset, length;
	uint64_t start; /* where the range was adopted; updated for some mremaps */
	uint32_t refs;  /* registrations; 0: cached (range_cache.h), or could not be given back (stay.h) */
	bool locked;    /* the application had mlocked the memory */
	bool punched;   /* pages were punched out of the file since the data plane last populated it */
	uint64_t place; /* the earlier mapping (place.h); 0: none */
	struct guard *guard; /* range_cache.c; NULL: none */
	struct stay *stay;   /* stay.c; NULL: none */
};

/* A part of a registration, within one file or one joined region. */
struct piece {
	struct file *file; /* NULL: a joined region */
	uint64_t offset, length;
	int fd;      /* of the file, for REGION_ADD */
	bool opened; /* piece_close_fds() closes fd */
};

struct acquired {
	bool alone;          /* in: no slab, no cached range's file */
	bool fresh;          /* the file has new pages, perhaps in place of others */
	uint32_t num_pieces; /* 0: the memory cannot be shared */
	uint32_t num_ranges;
	struct piece piece[PIECES_MAX];
	struct range *range[RANGES_MAX];
	/* Not 0: the region of the one piece must be joined of these consecutive segments, which are valid
	 * until the next ranges_acquire. */
	uint32_t num_joined;
	const struct segment *joined;
};

/* True for a file of the application's own. */
static inline bool
is_foreign(const struct file *file)
{
	return file != NULL && file->fd < 0;
}

/* Adopts the pages of [start, end) (whole pages) that are not adopted yet, and takes a reference on every
 * range and foreign file there. Returns 0, also if the memory cannot be shared; or -errno, -EFAULT if part of
 * the memory is not mapped or lacks the right. *retired: as in ranges_release. */
int ranges_acquire(uint64_t start, uint64_t end, bool write, struct acquired *out, struct file **retired);
void piece_close_fds(struct acquired *acquired);

/* See one_mem_claim, one_mem_recall, one_mem_move. Claim and move also return -EBUSY if the range is not
 * exactly [start, start + length). */
int ranges_claim(struct range *range, uint64_t start, uint64_t length, bool writable);
int ranges_recall(struct range *range);
int ranges_move(struct range *range, uint64_t start, uint64_t length, uint64_t to);

/* Gives up references. Ranges without references are cached, or become private memory again. Files without
 * users are put on *retired, linked by next: the caller removes their regions, then calls file_free. */
void ranges_release(struct range *const *range, uint32_t num_ranges, struct file *const *foreign,
		    uint32_t num_foreign, struct file **retired);
void file_free(struct file *file);
/* Caches a registration (mr_cache.h), then gives up the reference of the registration on its one range. */
void ranges_cache_mr(struct cached_mr *cached, struct file **retired);
/* Takes a registration with the arguments of `like` out of the cache. If `like->range` is NULL, the
 * registration may be of any range that is intact and has the rights; the caller gets a reference on that
 * range. Else the caller has a reference on `like->range` already. NULL: there is none. */
struct cached_mr *ranges_uncache_mr(const struct cached_mr *like, bool write);
/* mr_cache_gone and mr_cache_drop under the lock. */
struct cached_mr *ranges_cached_mrs_gone(uint32_t least);
void ranges_cached_mrs_drop(const struct one_client *client, uint32_t pz);
/* Drops all cached ranges and emptied files, and gives back ranges that stayed shared where possible. True if
 * anything was cached or emptied. */
bool ranges_give_up_all(struct file **retired);

/* ---- for range_cache.c, with the lock held ---- */

bool ranges_trylock(void);
/* Makes a range without references private memory again, and frees the pages of its file. False: the range
 * stays shared, because pages may be pinned, or because writers cannot be held off. */
bool ranges_give_up(struct range *range);
/* True if all of the range is mapped where it was adopted. */
bool range_is_whole(const struct range *range);

/* ---- restore.c, with the lock held ---- */

/* range_restore(), but -EBUSY if a device that may have pinned pages would continue to use them (pins.h). */
int range_give_back(struct range *range);
/* Leaves a range that could not be given back to stay.h: the pages stay shared. */
void range_stay(struct range *range);

/* Makes all mappings of the range private anonymous memory, even if pages may be pinned. Returns 0; or
 * -errno, and the rest stays the range's. */
int range_restore(struct range *range);

/* ---- for lend.c, with the lock held ---- */

/* Returns 0 and the protection if [start, end) is private anonymous memory of one kind, readable and
 * writable; else -errno. */
int ranges_private(uint64_t start, uint64_t end, int *prot);

/* ---- for fork.c ---- */

void ranges_lock(void);
void ranges_unlock(void);
/* Requires the lock. Returns the adopted file with that identity, or NULL. */
struct file *ranges_find(dev_t dev, uint64_t ino);
/* Requires the lock. Takes guards off the file's mapping [start, end), so that replacing it is no event. */
void ranges_unguard(struct file *file, uint64_t start, uint64_t end);
/* True if there are adopted files. */
bool ranges_any(void);
/* In a child after fork: forgets all ranges, and closes the files. */
void ranges_fork_child(void);

#endif
