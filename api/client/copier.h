/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The copy thread copies registered memory that cannot be shared from and to staging memory in the arena, at
 * the request of the data plane (abi/copy.h).
 *
 * The thread copies by process_vm_readv and process_vm_writev of its own process, so memory that is unmapped,
 * or may not be written, causes an error and not a signal. Where memory waits for a page (a slow disk, a
 * userfaultfd) the thread waits, and with it all copies of this attachment. The thread has its own mappings
 * of everything it uses, and outlives the attachment by one copy at most.
 *
 * The data plane supplies addresses. Only registered memory is accessed; otherwise the data plane could
 * access the whole process.
 */
#ifndef CLIENT_COPIER_H
#define CLIENT_COPIER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "abi/copy.h"

/* ---- copied.c ---- */
/*
 * The memory that an attachment's copy thread may access, found by address. Each copy searches here, and
 * there may be tens of thousands of registrations, which may overlap.
 *
 * A registration of length 2^k to 2^(k+1) - 1 is filed under the 2^k block in which it begins. A registration
 * that covers an address begins in the address's own block of that size or in one of the two before. So three
 * lookups for each size in use suffice.
 */
#define COPIED_BUCKETS 4096u /* a power of two */
#define COPIED_SIZES 64u

struct copied_set;

/* A registration; the caller's memory while it is in a set. */
struct copied {
	LIST_ENTRY(copied) link;
	struct copied_set *set; /* NULL: not in a set */
	uint64_t start, length; /* in the addresses of requests */
	uint64_t shift;         /* the memory is at `start` + `shift`, modulo 2^64 */
	bool write;             /* write access, too */
};

/* An empty set is all zero. */
struct copied_set {
	LIST_HEAD(, copied) bucket[COPIED_BUCKETS];
	uint32_t count[COPIED_SIZES][2]; /* by size, and by `write` */
};

void copied_add(struct copied_set *set, struct copied *memory); /* length must not be 0 */
void copied_remove(struct copied *memory);                      /* no effect if it is in no set */
void copied_clear(struct copied_set *set);
/* Returns true if a single registration covers [addr, addr + len), with the right; *at: where it is. */
bool copied_find(const struct copied_set *set, uint64_t addr, uint64_t len, bool write, uint64_t *at);

/* ---- copier.c ---- */
struct copier;

struct copier_place {
	int arena_fd;
	int wake_fd; /* eventfd to write to when the core sleeps; -1: the core never sleeps */
};

/* Starts a thread that serves the struct one_copies at `offset` (a multiple of the page size) of the arena.
 * The thread may copy `first`, and what copier_allow adds. -EPERM: this process may not copy its own memory
 * that way (seccomp); -EAGAIN, -ENOMEM. */
int copier_start(const struct copier_place *place, uint64_t offset, struct copied *first,
		 struct copier **out);
/* Begins no further copies, and waits for the one in progress, at most a second. If memory does not respond
 * for longer, the copy may still be stored later, and the thread frees its resources by itself. */
void copier_stop(struct copier *copier);
/* Add memory that may be copied, and remove memory for which no requests come any more. */
void copier_allow(struct copier *copier, struct copied *memory);
void copier_forbid(struct copied *memory);
/* The memory is at `at` now. Copies that began before have ended, unless memory does not respond. */
void copier_move(struct copied *memory, uint64_t at);
/* Frees a copier in a child after fork, where there is no thread. */
void copier_forget(struct copier *copier);

/* Returns the number of this process's threads that are copy threads. */
uint32_t copiers_count(void);
/* Excludes all copies of this process until copiers_release: a copy pins pages first and stores to them
 * later, so pages that were copied and replaced in between would lose its stores. Waits for copies in
 * progress; false: memory of one of them does not respond. */
bool copiers_hold(void);
void copiers_release(void);
/* Called in a child: a thread of the parent may have held the lock. */
void copiers_fork_child(void);

#endif
