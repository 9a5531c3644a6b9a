/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The memory of this process that is shared with the data plane.
 *
 *   file    a memfd of ours, or a file of the application's (foreign), known by
 *           device and inode; what the data plane knows as a region
 *   range   pages of the application that were adopted into a part of a file; for a while also
 *           when they are registered no more (keep.h)
 *
 * What really lies at an address is asked from /proc/self/maps at each registration and each release: the
 * application may have unmapped, moved or replaced adopted pages, and new ones may lie where old ones
 * were.  So a range is found by its file and offset, never by the address it once had.
 *
 * When there are many, small ranges share files ("slabs"), so that they cost
 * neither many descriptors nor many regions; those are not kept.
 */
#ifndef CLIENT_RANGES_H
#define CLIENT_RANGES_H

#include "client/internal.h"
#include "files.h"
#include "parked.h"

#define PIECES_MAX ONE_MR_PIECES
#define RANGES_MAX 256u /* of one registration */

struct segment; /* segments.h */

#define SLAB_RANGE_PAGES 16u /* larger ranges have a file of their own */

struct range {
	struct range *next; /* of its file */
	struct file *file;
	uint64_t offset, length;
	uint64_t start;      /* where it was adopted, and most likely still is */
	uint32_t refs;       /* registrations; 0: kept (keep.h), or it could not be given back */
	bool locked;         /* the application had mlocked it */
	bool punched;        /* pages of the file have gone since the data plane last populated it */
	uint64_t place;      /* the mapping that it had before (place.h); 0: there is none */
	struct guard *guard; /* keep.c; NULL: none */
	struct stay *stay;   /* stay.c; NULL: none */
};

/* A part of [start, end) of a registration, all in one file, or in one joined region. */
struct piece {
	struct file *file; /* NULL: of the joined region */
	uint64_t offset, length;
	int fd;      /* of the file, for REGION_ADD */
	bool opened; /* fd is to be closed by piece_close_fds */
};

struct acquired {
	bool alone;          /* in: no slab */
	bool fresh;          /* pages were adopted, perhaps into a file that held others before */
	uint32_t num_pieces; /* 0: this memory cannot be shared */
	uint32_t num_ranges;
	struct piece piece[PIECES_MAX];
	struct range *range[RANGES_MAX];
	/* Not 0: the one piece is of a region that has to be joined of these, which lie one after the other;
	 * until the next ranges_acquire. */
	uint32_t num_joined;
	const struct segment *joined;
};

/* A file of the application's own. */
static inline bool
is_foreign(const struct file *file)
{
	return file != NULL && file->fd < 0;
}

/*
 * Adopts what is not yet adopted of [start, end) (whole pages) and takes a
 * reference on every range and foreign file in it.  0, also when the memory cannot be shared;
 * -EFAULT when it is not mapped or lacks the right.  *retired: as in ranges_release.
 */
int ranges_acquire(uint64_t start, uint64_t end, bool write, struct acquired *out, struct file **retired);
void piece_close_fds(struct acquired *acquired);

/* See one_mem_claim, one_mem_recall, one_mem_move.  -EBUSY also when the range is not just
 * [start, start+length). */
int ranges_claim(struct range *range, uint64_t start, uint64_t length, bool writable);
int ranges_recall(struct range *range);
int ranges_move(struct range *range, uint64_t start, uint64_t length, uint64_t to);

/*
 * Gives up references.  Ranges that nobody holds any more become private memory again.  Files that nobody
 * uses any more are put on *retired (linked by next) for file_free, when their regions are gone.
 */
void ranges_release(struct range *const *range, uint32_t num_ranges, struct file *const *foreign,
		    uint32_t num_foreign, struct file **retired);
void file_free(struct file *file);
/* Gives up the one reference of a registration, which is parked (parked.h) before. */
void ranges_park(struct parked *parked, struct file **retired);
/*
 * The registration that is parked for such memory, taken from there; NULL: none.  `like->range` is the
 * caller's; or NULL, for any that memory with these rights lies in, of which it has a reference then.
 */
struct parked *ranges_unpark(const struct parked *like, bool write);
/* parked_gone, parked_drop. */
struct parked *ranges_parked_gone(uint32_t least);
void ranges_parked_drop(const struct one_client *client, uint32_t pz);
/* What is kept of ranges that nobody holds becomes private, too; whether there was any. */
bool ranges_give_up_all(struct file **retired);

/* ---- for keep.c, with the lock held ---- */

bool ranges_trylock(void);
/* A range that nobody holds becomes private memory again; its pages are freed.  False: it stays shared, since
 * something may have pinned its pages, or since writers cannot be held off. */
bool ranges_give_up(struct range *range);
/* All of it is mapped, where it was adopted. */
bool range_is_whole(const struct range *range);

/* ---- restore.c, with the lock held ---- */

/* range_restore, unless a device would go on using the old pages (pins.h): -EBUSY. */
int range_give_back(struct range *range);
/* Pages that could not be given back stay shared (stay.h). */
void range_stay(struct range *range);

/* All that is mapped of the range becomes private anonymous memory, also if something may have pinned it: 0,
 * or -errno and it stays the range's. */
int range_restore(struct range *range);

/* ---- for lend.c, with the lock held ---- */

/* [start, end) is private anonymous memory of one kind, readable and writable: 0 and its protection; -EFAULT.
 */
int ranges_private(uint64_t start, uint64_t end, int *prot);

/* ---- for fork.c ---- */

void ranges_lock(void);
void ranges_unlock(void);
/* With the lock held: the adopted file with that identity, or NULL. */
struct file *ranges_find(dev_t dev, uint64_t ino);
/* With the lock held: the mapping [start, end) of that file is about to be replaced, unseen by any guard. */
void ranges_unguard(struct file *file, uint64_t start, uint64_t end);
bool ranges_any(void);
/* In a child: forgets everything; closes the files. */
void ranges_fork_child(void);

#endif
