/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Adopted ranges that nobody has registered, and that stay shared memory because something may have pinned
 * their pages (pins.h).  To the program they must still be private memory: pages that it drops
 * (MADV_DONTNEED) must read as zeros, pages that it unmaps must be freed.  One userfaultfd for all of them
 * reports both, and the keeper's thread (keep.h) punches these pages out of the file.  A device that has
 * pinned them keeps them, as it does with private memory.
 *
 * MADV_DONTNEED waits until the keeper has read the event, and the event is not readable twice.  So the
 * keeper looks up first what the waiting threads have asked for (/proc/self/task/TID/syscall), and punches
 * before it reads.
 *
 * The table has a lock of its own: the keeper must not wait for ranges_lock, which a fork holds while it
 * waits for the allocator, whose lock the thread in madvise may hold.  All calls but stay_serve come with
 * ranges_lock held.
 */
#ifndef CLIENT_STAY_H
#define CLIENT_STAY_H

#include <stdbool.h>

struct range;

/* The userfaultfd is there: 0 or -errno.  Before the keeper starts. */
int stay_open(void);
/* For the keeper to poll; -1: there is none. */
int stay_fd(void);
/* The keeper: handles all events that there are. */
void stay_serve(void);
/* Handles events of the range's own guard `fd`. */
void stay_serve_guard(struct range *range, int fd);

/* The range is in the table from now on, and watched if the keeper runs; nothing happens if it is there
 * already. */
void stay_add(struct range *range);
/* It is not in the table; nothing happens if it was not. */
void stay_remove(struct range *range);
/* The ranges in the table, one after the other; NULL: the first, and no more. */
struct range *stay_next(const struct range *range);
/* The table should be looked through for ranges that can go: one has been unmapped altogether, or there are
 * twice as many as there were after the last look. */
bool stay_is_due(void);
/* In a child: forgets everything. */
void stay_fork_child(void);

#endif
