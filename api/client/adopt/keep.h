/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranges that stay adopted after their last deregistration: to register them again
 * copies nothing.  Least recently used ones are given back beyond KEEP_MAX of them or the
 * bytes that ONESIDE_REGISTRATION_CACHE allows.
 *
 * Shared pages differ from the private ones they replaced in what madvise, munmap and mremap do to
 * them.  So each such range has a userfaultfd (a guard) that tells of these before
 * they take effect, or as soon as they have: the thread that called waits until the
 * keeper, a thread of ours, has made the range private memory again, and then the kernel goes on with
 * what is there now.  Where the kernel has no such guards (before Linux 5.19), nothing is kept.
 *
 * The keeper takes no lock for longer than it is free, and neither it nor who holds
 * ranges_lock allocates: the thread that waits may hold the allocator's lock.
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
/* A mapping of it is about to be replaced, here. */
void keep_unguard(const struct range *range, uint64_t start, uint64_t end);
/* It has no guard any more: whoever waits goes on. */
void keep_leave(struct range *range);
/* Gives back whatever is kept and overlaps [start, end); whether there was any. */
bool keep_drop(uint64_t start, uint64_t end);
/* The one that was kept first; whether there was any. */
bool keep_drop_oldest(void);
/* The keeper, if it runs: transplant.c counts threads. */
uint32_t keep_threads(void);
/* In a child: forgets everything. */
void keep_fork_child(void);

#endif
