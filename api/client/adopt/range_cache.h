/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registration cache: ranges stay adopted after their last deregistration, so that registering them again
 * copies nothing. Beyond RANGE_CACHE_MAX ranges, or the bytes that ONESIDE_REGISTRATION_CACHE allows, the
 * least recently used are dropped.
 *
 * madvise, munmap and mremap treat shared pages differently from the private ones that they replaced. So each
 * cached range has a userfaultfd, its guard. A thread that makes such a call waits in the kernel until the
 * keeper thread of this library has read the event:
 *
 *   UFFD_EVENT_REMOVE          comes before the kernel acts, and the kernel looks up the mapping again
 *                              afterwards: the keeper thread takes off the guard, makes the range private,
 *                              then reads the event
 *   UFFD_EVENT_UNMAP, _REMAP   come after the kernel has acted
 *
 * Registering reads the mappings and takes only those of the file and offset, or asks whether the range is
 * intact, so a new mapping at an old address is never mistaken for the range. Nothing is cached where the
 * kernel lacks these events (before Linux 5.19), or RLIMIT_FSIZE is set.
 *
 * While pages may be pinned (pins.h) no range is made private: the events are applied to the pages of the
 * file, and the range moves to stay.h.
 *
 * The waiting thread may hold the allocator's lock (glibc does when trimming a heap). So the keeper thread
 * only tries ranges_lock, and the holder of ranges_lock calls no allocator. fork, whose handlers take the
 * allocator's locks after ours, drops all cached ranges first. Allocators that rely on zeros after
 * MADV_DONTNEED get zeros.
 *
 * The keeper thread does not wait for the data plane: it punches the pages out of the file. File and region
 * serve the next range of similar size (ONE_MR_FRESH). Beyond 16 such files, and for files larger than
 * 64 MiB, the next call that registers or deregisters removes them.
 *
 * All calls require ranges_lock.
 */
#ifndef CLIENT_RANGE_CACHE_H
#define CLIENT_RANGE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

struct range;

#define RANGE_CACHE_MAX 64u

/* True if ranges can be cached at all. */
bool range_cache_usable(void);
/* Caches a range without registrations. False: the caller gives the range back now. */
bool range_cache_put(struct range *range);
/* Takes a range that is registered again out of the cache. */
void range_cache_take(struct range *range);
/* True if all of the range is mapped where it was adopted, and may be read (and written to, if `write`).
 * Faster than reading the mappings. */
bool range_cache_intact(const struct range *range, bool write);
/* The userfaultfd that guards the range; -1: none. */
int range_cache_guard_fd(const struct range *range);
/* Takes the guard off [start, end), a mapping of the range that the caller is about to replace. */
void range_cache_unguard(const struct range *range, uint64_t start, uint64_t end);
/* Frees the range's guard, and lets the waiting threads continue. */
void range_cache_leave(struct range *range);
/* Drops all cached ranges that overlap [start, end). True if there were any. */
bool range_cache_drop(uint64_t start, uint64_t end);
/* Drops the range that was cached first. True if there was one. */
bool range_cache_drop_oldest(void);
/* True if the guard has reported a change of the range's mappings. */
bool range_cache_was_touched(const struct range *range);
/* Number of keeper threads, 0 or 1: transplant.c counts threads. */
uint32_t range_cache_threads(void);
/* In a child after fork: closes the guards and empties the cache. */
void range_cache_fork_child(void);

#endif
