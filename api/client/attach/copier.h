/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The copy thread: moves registered memory that cannot be shared from and to staging
 * memory in the arena, at the request of the data plane (abi/copy.h).
 *
 * It moves by process_vm_readv and process_vm_writev of its own process, so memory that is not there any
 * more, or may not be written, makes an error and not a signal.  Where memory waits for a page (a slow
 * disk, a userfaultfd) the thread waits, and with it all that is to be copied for this attachment.  It has
 * mappings of its own of what it uses and outlives the attachment by one copy at most.
 *
 * The data plane says addresses.  Only those of memory that is registered count, or it would have the whole
 * process.
 */
#ifndef CLIENT_COPIER_H
#define CLIENT_COPIER_H

#include "abi/copy.h"
#include "copied.h"

struct copier;

struct copier_place {
	int arena_fd;
	int wake_fd; /* eventfd to write when the core sleeps; -1: it never does */
};

/*
 * With a thread that serves the struct one_copies at `offset` (a multiple of the page size) of the arena:
 * `first`, and what copier_allow adds. -EPERM: this process may not copy its own memory that way (seccomp);
 * -EAGAIN, -ENOMEM.
 */
int copier_start(const struct copier_place *place, uint64_t offset, struct copied *first,
		 struct copier **out);
/*
 * Nothing is begun any more, and what was begun has ended, unless it takes more than a second: then memory
 * does not answer, the copy may still be stored later, and the thread frees what it has by itself.
 */
void copier_stop(struct copier *copier);
/* What may be copied from now on; and no more, where nothing is asked for any more. */
void copier_allow(struct copier *copier, struct copied *memory);
void copier_forbid(struct copied *memory);
/* In a child after fork, where there is no thread. */
void copier_forget(struct copier *copier);

/* So many threads of this process are copy threads. */
uint32_t copiers_count(void);
/*
 * No copy of this process is under way until copiers_release: a copy pins pages first and stores to them
 * later, so pages that were copied and replaced in between would lose what it stores.  Waits for copies that
 * are under way; false: memory of one of them does not answer.
 */
bool copiers_hold(void);
void copiers_release(void);
/* In a child: a thread of the parent may have held it. */
void copiers_fork_child(void);

#endif
