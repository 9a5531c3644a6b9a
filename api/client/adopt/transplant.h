/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replacing pages under a running program: the addresses and contents stay,
 * what lies beneath becomes another mapping, and no store of any thread is lost.
 *
 *   1. the old pages are write-protected with userfaultfd
 *   2. private pages are moved aside: the transplant fails with EBUSY if one is pinned (aside.h)
 *   3. their contents are copied to the new mapping, made elsewhere
 *   4. the old mapping, empty now, is parked (place.h)
 *   5. the new mapping is moved over the old addresses in one system call
 *   6. threads that have tried to store meanwhile, and sleep, are woken: their
 *      store is done again by the processor, and reaches the new pages
 *
 * No thread handles the faults: step 6 is all it takes.  From 2 to 5 loads wait as stores do.
 *
 * A page is copied only once it is known that no device can store to it any more: not after a look that comes
 * later, when a pin that was there during the copy may be gone.  Copy threads of this process pin, too, and
 * shared pages tell nobody of it, so none copies meanwhile (copiers_hold).
 *
 * Without UFFDIO_MOVE (before Linux 6.8), and for memory that is locked or not writable, pins cannot be
 * found: the transplant is done only if the caller knows that there are none.
 *
 * A system call of another thread that stores into the range between 1 and 5, or reads it between 2 and 5,
 * waits as well where the process may use the full userfaultfd (root, or vm.unprivileged_userfaultfd, or
 * access to /dev/userfaultfd).  Elsewhere, with UFFD_USER_MODE_ONLY, it fails with EFAULT.
 *
 * Without any userfaultfd (kernels without it, seccomp filters of containers) it
 * is done only while the process has one thread.
 */
#ifndef CLIENT_TRANSPLANT_H
#define CLIENT_TRANSPLANT_H

#include <stdbool.h>
#include <stdint.h>

struct transplant {
	uint64_t start, length; /* whole pages */
	int prot;               /* of the new mapping */
	bool lock;              /* mlock it */
	int to_fd;              /* the new pages: shared pages of this file; -1: private anonymous */
	uint64_t to_offset;
	const uint8_t *to_twin; /* another mapping of the new pages, to be doubled instead of mapping to_fd;
				   or NULL */
	int from_fd;            /* the old pages are those of this file; -1: private anonymous */
	uint64_t from_offset;
	bool unpinned;  /* the old private pages are known not to be pinned */
	uint64_t place; /* private to shared: where to park the old mapping, 0 afterwards if that failed;
			   shared to private: the parked mapping; 0: there is none */
	uint64_t done;  /* out: bytes that have been replaced, from `start` on, also after an error */
};

/* Under ranges_lock (it counts threads by maps.h).  0 or -errno; -EBUSY: old pages are, or may be, pinned. */
int transplant(struct transplant *t);
/* The thread that replaces what a caller stands on, before the first range is kept: keep.h.  0 or -errno. */
int transplant_stand_by(void);
void transplant_fork_child(void);
/* Shared pages that are only on paper so far are there afterwards, and charged to this process: 0 or -errno.
 */
int transplant_populate(uint64_t start, uint64_t length);
/* Whether other threads can be held off while shared pages become private. */
bool transplant_holds_shared(void);
/* A userfaultfd, not blocking, that protects nothing but tells of madvise, munmap and mremap on what is
 * registered with it for write protection; below 0: there is none. */
int transplant_guard_open(void);
/* A program that closes whatever is open may have another file there. */
bool transplant_is_guard(int fd);

#endif
