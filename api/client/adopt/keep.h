/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranges that stay adopted after their last deregistration: to register them again copies nothing.  The
 * least recently used go beyond KEEP_MAX of them or the bytes that ONESIDE_REGISTRATION_CACHE allows.
 *
 * Shared pages differ from the private ones they replaced in what madvise, munmap and mremap do to them.
 * So each such range has a userfaultfd, its guard.  The thread that made the call waits in the kernel until
 * the keeper, a thread of ours, has read the event.  UFFD_EVENT_REMOVE comes before the kernel acts, and it
 * looks the mapping up again afterwards: the keeper takes the guard off, makes the range private, then reads.
 * UNMAP and REMAP come after.  Registering reads the mappings and takes only those of the file and
 * offset, or asks whether the range is intact, so what lies at an old address now is never taken for it.
 * Where the kernel has no such events (before Linux 5.19), or RLIMIT_FSIZE is set, nothing is kept.
 *
 * While something may have pinned pages (pins.h) no range is made private: what befell it is done to its
 * pages, and it goes over to stay.h.
 *
 * The waiting thread may hold the allocator's lock (glibc trims a heap so).  So the keeper only tries
 * ranges_lock, and its holder calls no allocator; fork, whose handlers take the allocator's locks after ours,
 * has given up all that was kept before.  Allocators that trust in zeros after MADV_DONTNEED get them.
 *
 * The keeper does not wait for the data plane: it punches the pages out of the file, which with its region
 * serves the next range of about that size (ONE_MR_FRESH).  Beyond 16 such files, and from 64 MiB on, the
 * next call that registers or deregisters removes them.
 *
 * All calls with ranges_lock held.
 */
#ifndef CLIENT_KEEP_H
#define CLIENT_KEEP_H

#include <stdbool.h>
#include <stdint.h>

struct range;

#define KEEP_MAX 64u

/* Whether ranges may be kept at all. */
bool keep_usable(void);
/* Nobody holds the range any more.  False: it is to be given back now. */
bool keep_put(struct range *range);
/* It is registered again. */
void keep_take(struct range *range);
/* Without a look at the mappings: all of the range lies where it was adopted, and may be read (and written
 * to). */
bool keep_intact(const struct range *range, bool write);
/* A mapping of it is about to be replaced, here. */
void keep_unguard(const struct range *range, uint64_t start, uint64_t end);
/* It has no guard any more: whoever waits goes on. */
void keep_leave(struct range *range);
/* Gives back whatever is kept and overlaps [start, end); whether there was any. */
bool keep_drop(uint64_t start, uint64_t end);
/* The one that was kept first; whether there was any. */
bool keep_drop_oldest(void);
/* Something has befallen the range that its guard has reported. */
bool keep_was_touched(const struct range *range);
/* The keeper, if it runs: transplant.c counts threads. */
uint32_t keep_threads(void);
/* In a child: forgets everything. */
void keep_fork_child(void);

#endif
