/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Adopted ranges without registrations that stay shared memory, because their pages may be pinned (pins.h).
 * The program must still see private memory: pages that it drops (MADV_DONTNEED) must read as zeros, and
 * pages that it unmaps must be freed. One userfaultfd for all these ranges reports both, and the keeper
 * thread (range_cache.h) punches such pages out of the file. A device that has pinned pages keeps them, as
 * with private memory.
 *
 * A thread in MADV_DONTNEED waits until the keeper thread has read the event, and an event can be read only
 * once. So the keeper thread first looks up the system calls of waiting threads
 * (/proc/self/task/TID/syscall), and punches their pages out before it reads.
 *
 * The table has its own lock, because the keeper thread must not wait for ranges_lock: a fork holds
 * ranges_lock while it waits for the allocator, whose lock the thread in madvise may hold. All calls but
 * stay_serve and stay_fd require ranges_lock.
 */
#ifndef CLIENT_STAY_H
#define CLIENT_STAY_H

#include <stdbool.h>

struct range;

/* Opens the userfaultfd, before the keeper thread starts. Returns 0 or -errno. */
int stay_open(void);
/* The userfaultfd, for the keeper thread to poll; -1: none. */
int stay_fd(void);
/* Handles all pending events, in the keeper thread. */
void stay_serve(void);

/* Adds the range to the table, unless it is there already, and watches it if the keeper thread runs. `guard`
 * has watched the range (range_cache.h), -1 if nothing has: its pending events are handled. False: no memory,
 * and the guard still watches. */
bool stay_add(struct range *range, int guard);
/* Removes the range from the table, if it is there. */
void stay_remove(struct range *range);
/* Iterates over the ranges in the table: NULL gives the first, and ends the list. */
struct range *stay_next(const struct range *range);
/* True once if giving back the table's ranges should be tried again: one has been unmapped altogether, or
 * their number has more than doubled since the last time. */
bool stay_is_due(void);
/* In a child after fork: closes the userfaultfd and empties the table. */
void stay_fork_child(void);

#endif
