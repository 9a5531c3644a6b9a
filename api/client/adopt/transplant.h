/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Replaces pages under a running program: addresses and contents stay, another mapping holds them, and no
 * store of any thread is lost.
 *
 *   1. the old pages are write-protected with userfaultfd
 *   2. private pages are moved aside: the transplant fails with EBUSY if one is pinned (aside.h)
 *   3. their contents are copied to the new mapping, made elsewhere
 *   4. the old mapping, empty now, is moved to its place (place.h)
 *   5. the new mapping is moved over the old addresses in one system call
 *   6. threads that tried to store meanwhile, and sleep, are woken: the processor repeats their stores,
 *      which reach the new pages
 *
 * No thread handles the faults: step 6 suffices. From 2 to 5 loads wait as stores do.
 *
 * A page is copied only after it is known that no device can store to it any more. A check after the copy
 * would miss a pin that existed during the copy and is gone. Copy threads of this process pin pages, too, and
 * pins of shared pages are reported nowhere, so copy threads stop meanwhile (copiers_hold).
 *
 * Without UFFDIO_MOVE (before Linux 6.8), and for memory that is locked or not writable, pins cannot be
 * found: the transplant is done only if the caller knows that there are none.
 *
 * A system call of another thread that stores into the range between 1 and 5, or reads it between 2 and 5,
 * waits as well if the process may use the full userfaultfd (root, or vm.unprivileged_userfaultfd, or access
 * to /dev/userfaultfd). With UFFD_USER_MODE_ONLY, such a system call fails with EFAULT.
 *
 * Without any userfaultfd (kernels without it, seccomp filters of containers) the transplant is done only
 * while the process has one thread.
 */
#ifndef CLIENT_TRANSPLANT_H
#define CLIENT_TRANSPLANT_H

#include <stdbool.h>
#include <stdint.h>

struct transplant {
	uint64_t start, length; /* whole pages */
	int prot;               /* of the new mapping */
	bool lock;              /* mlock the new pages */
	int to_fd;              /* the new pages: shared pages of this file; -1: private anonymous */
	uint64_t to_offset;
	const uint8_t *to_twin; /* another mapping of the new pages, duplicated instead of mapping to_fd;
				   or NULL */
	int from_fd;            /* the old pages: shared pages of this file; -1: private anonymous */
	uint64_t from_offset;
	bool unpinned;  /* the caller knows that the old private pages are not pinned */
	uint64_t place; /* private to shared: where the old mapping moves, set to 0 if that failed;
			   shared to private: the range's place (place.h); 0: none */
	uint64_t done;  /* out: bytes replaced, from `start` on, also after an error */
};

/* Requires ranges_lock (maps.h counts threads). Returns 0 or -errno; -EBUSY: old pages may be pinned. */
int transplant(struct transplant *t);
/* Starts the thread that replaces pages of a caller's own stack, before the first range is cached
 * (range_cache.h). Returns 0 or -errno. */
int transplant_stand_by(void);
void transplant_fork_child(void);
/* Makes all pages of shared memory present, which charges them to this process. Returns 0 or -errno. */
int transplant_populate(uint64_t start, uint64_t length);
/* True if other threads can be held off while shared pages become private. */
bool transplant_holds_shared(void);
/* Opens a non-blocking userfaultfd that protects nothing, but reports madvise, munmap and mremap on memory
 * that is registered with it for write protection. Negative: there is none. */
int transplant_guard_open(void);
/* True if `fd` still is a userfaultfd: a program that closes all descriptors may have another file there. */
bool transplant_is_guard(int fd);

#endif
