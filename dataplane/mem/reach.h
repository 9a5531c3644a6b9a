/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that has no mapping here and is reached through its process.
 *
 * Such an access is a system call that may take as long as the process likes: it
 * faults on pages that a userfaultfd or a FUSE server of the process's own has to
 * supply.  So no polling core makes it.  Each process has a thread for it, which
 * does what it is given in order; a core hands an access over, goes on with others,
 * and is told.  What a process delays is its own memory, and nobody else's.
 *
 * To a transport an access is a call that is made again: the first call starts it
 * and returns -EAGAIN, the transport leaves everything as it was and parks the
 * queue pair, and when the party is woken it makes the same call again, which gives
 * the result.  `tag` tells one call from another with the same addresses.
 *
 * A party (a queue pair) has a few slots, one for each thing it may have under way
 * at once.  When all jobs of a process are taken, the party waits for one in turn.
 *
 * A process without a thread (`reach` is NULL: the simulator, tests) is reached by
 * the caller, at once.
 */
#ifndef DATAPLANE_REACH_H
#define DATAPLANE_REACH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/types.h>

#include "abi/ring.h" /* ONE_MAX_SGE */
#include "mem.h"

#define REACH_LEN 16384u /* bytes of one access */
#define REACH_NOTE 160u  /* bytes that a party may leave with an access */
#define REACH_SLOTS 4u

struct reach;
struct reach_job;

/*
 * By file: /proc/PID/mem, which stays with the memory that the process had when it
 * was opened, so that a program executed later in its place (with other rights,
 * maybe) is out of reach.  Else by process_vm_readv/writev.
 */
struct mem_process {
	pid_t pid;
	bool by_file;
	int fd;
	_Atomic uint64_t bytes; /* moved that way: telemetry */
	struct reach *reach;
};

struct mem_piece {
	const struct mem_region *region;
	uint64_t va;
	uint32_t len;
};

struct reach_party {
	void *user;            /* who is woken */
	struct reach *starved; /* all its jobs were taken; NULL: not waiting for one */
	TAILQ_ENTRY(reach_party) link;
	struct reach_job *job[REACH_SLOTS];
};

/* Processes that a core has to look at; one list for each core. */
LIST_HEAD(reach_list, reach);

/* ---- the core that owns the parties ---- */

/*
 * Between `buffer` and pieces, at least one of them without mapping, all of those of
 * one process; at most REACH_LEN bytes.  0, -EFAULT when the process has gone or has
 * no such memory, or -EAGAIN.
 */
int reach_gather(struct reach_party *party, uint32_t slot, const struct mem_piece *pieces, uint32_t num,
		 void *buffer, uint32_t tag);
int reach_scatter(struct reach_party *party, uint32_t slot, const struct mem_piece *pieces, uint32_t num,
		  const void *buffer, uint32_t tag);
/* As mem_fetch_add (`compare` is NULL) and mem_cmp_swap, atomic towards each other. */
int reach_atomic(struct reach_party *party, uint32_t slot, const struct mem_region *region, uint64_t va,
		 const uint64_t *compare, uint64_t operand, uint64_t *found, uint32_t tag);
/* One is under way in the slot, and it has been carried out. */
bool reach_done(const struct reach_party *party, uint32_t slot);
/* REACH_NOTE bytes kept with it, and what it moves. */
void *reach_note(struct reach_party *party, uint32_t slot);
const uint8_t *reach_data(const struct reach_party *party, uint32_t slot);
/* Nobody wants the outcome.  It does not happen any more unless it is happening now. */
void reach_cancel(struct reach_party *party, uint32_t slot);
void reach_leave(struct reach_party *party); /* all slots; the party may be freed */

/* Wake the parties whose accesses have been carried out; call while the list is not empty.  How many
 * were woken. */
typedef void reach_wake(void *context, void *user);
uint32_t reach_poll(struct reach_list *list, reach_wake *wake, void *context);
/* The process's keys are gone: parties that still wait for it are woken and wait no more. */
void reach_detach(struct mem_process *process, reach_wake *wake, void *context);

/* ---- the control thread ---- */

/* Before anything else is opened: see reach_start. */
int reach_init(void);
/*
 * Gives the process a thread.  Parties on the core of `list` will use it.  0 or -errno.
 *
 * Nothing wakes such a thread from some file systems, not even SIGKILL.  So that a data
 * plane that was killed does not stay open with it, its descriptors are its own: that of
 * the memory, and what was open before reach_init.
 */
int reach_start(struct mem_process *process, struct reach_list *list);
/* ns (CLOCK_MONOTONIC) since when the access under way has not been answered; 0: none is under way. */
uint64_t reach_since(const struct mem_process *process);
/* Whether all that had been handed over when the mark was taken has been carried out. */
uint32_t reach_mark(const struct mem_process *process);
bool reach_passed(const struct mem_process *process, uint32_t mark);
/* After reach_detach.  The thread ends as soon as its access is answered; */
void reach_stop(struct mem_process *process);
/* from then on this is true, and the process may be freed.  */
bool reach_stopped(const struct mem_process *process);
void reach_free(struct mem_process *process);

#endif
