/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that has no mapping here and is moved by the copy thread of its application
 * (abi/copy.h), between it and staging memory in the arena.
 *
 * Such an access lasts as long as the application likes: its thread may be stopped, or faults on pages that
 * a userfaultfd or a FUSE server of its own has to supply.  A core hands an access over, goes on with
 * others, and is called back.  What an application delays is its own memory alone.
 *
 * To a transport an access is a call that is made again: the first call starts it and returns -EAGAIN, the
 * transport leaves everything as it was and parks the queue pair, and when the party is woken it makes the
 * same call again, which gives the result.  `tag` tells one call from another with the same addresses.
 *
 * A party (a queue pair) has a few slots, one for each single access that it may have under way at once, and
 * a few queues for accesses of which there may be many: those are not called again, but taken from the queue
 * in the order in which they were put there.  When all jobs of an application are taken, the party waits for
 * one in turn.
 *
 * An access of a queue to one range of memory can be lengthened until it is handed to the copy thread, so
 * that the packets of a long message are copied together.  It is handed over when the transport says so, when
 * it is REACH_LEN bytes long, and by reach_poll().
 *
 * What the application stores in its arena is hostile.  Which request is answered next,
 * what it moves and where its staging slot lies is kept in private memory; of an answer
 * each field is read once.  One that answers another request than the oldest, or with an
 * error that there is not, ends the attachment.  Payload passes through memory that the
 * application can change at any time: it is its own, on its way from or to its memory.
 */
#ifndef DATAPLANE_REACH_H
#define DATAPLANE_REACH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "abi/copy.h"
#include "mem.h"

#define REACH_LEN ONE_COPY_LEN /* bytes of one access */
#define REACH_NOTE 184u        /* bytes that a party may leave with an access */
#define REACH_SLOTS 3u

enum reach_queue {
	REACH_ARRIVED,    /* messages on their way to memory */
	REACH_LANDED,     /* responses on their way to memory */
	REACH_LEAVING,    /* payload on its way to a frame */
	REACH_AHEAD,      /* payload that is read before it is sent, and again when another needs the job */
	REACH_AHEAD_READ, /* the same for responses */
	REACH_QUEUES
};

struct reach;
struct reach_job;

struct mem_sge {
	const struct mem_region *region;
	uint64_t va;
	uint32_t len;
};

struct reach_party {
	void *user;            /* that reach_poll passes on */
	uint32_t core;         /* its accesses go through that core's part of an application (reach_new) */
	struct reach *starved; /* all its jobs were taken; NULL: not waiting for one */
	TAILQ_ENTRY(reach_party) link;
	struct reach_job *job[REACH_SLOTS];
	struct reach_job *last[REACH_QUEUES]; /* newest job of each queue, a ring; NULL: it is empty */
};

/* Applications that a core has to look at; one list for each core. */
LIST_HEAD(reach_list, reach);

/* ---- the core that owns the parties ---- */

/*
 * Between `buffer` and sges, at least one of them without mapping, all of those of one application; at most
 * REACH_LEN bytes.  0, -EFAULT when it has gone or has no such memory, or -EAGAIN.
 */
int reach_gather(struct reach_party *party, uint32_t slot, const struct mem_sge *sges, uint32_t num,
		 void *buffer, uint32_t tag);
/* `buffer` NULL: the outcome of the same call alone; -ENOENT: another one was under way, and is cancelled. */
int reach_scatter(struct reach_party *party, uint32_t slot, const struct mem_sge *sges, uint32_t num,
		  const void *buffer, uint32_t tag);
/* As mem_fetch_add (`compare` is NULL) and mem_cmp_swap, atomic towards each other. */
int reach_atomic(struct reach_party *party, uint32_t slot, const struct mem_region *region, uint64_t va,
		 const uint64_t *compare, uint64_t operand, uint64_t *found, uint32_t tag);
/* One is under way in the slot, and it has been carried out. */
bool reach_done(const struct reach_party *party, uint32_t slot);
/* REACH_NOTE bytes kept with it, and what it moves. */
void *reach_note(struct reach_party *party, uint32_t slot);
const uint8_t *reach_data(const struct reach_party *party, uint32_t slot);
/* The outcome is not wanted.  The access does not happen any more unless it is happening now. */
void reach_cancel(struct reach_party *party, uint32_t slot);
void reach_leave(struct reach_party *party); /* all slots and queues; the party may be freed */

/*
 * An access at the end of a queue, with a note of `len` bytes.  0; -EFAULT when the application has gone or
 * has no such memory; -EAGAIN: all jobs are taken, and the party is woken when there is one.
 *
 * A scatter moves `buffer` to the sges without mapping.  The caller moves what has a mapping when it takes
 * the access from the queue, by keys that it looks up again: reach_queue_place().  Behind other accesses all
 * of the sges may have a mapping, and there may be none. A gather moves the sges to reach_queue_data().
 */
int reach_queue_scatter(struct reach_party *party, enum reach_queue queue, const struct mem_sge *sges,
			uint32_t num, const void *buffer, const void *note, uint32_t len);
int reach_queue_gather(struct reach_party *party, enum reach_queue queue, const struct mem_sge *sges,
		       uint32_t num, const void *note, uint32_t len);
/* The newest access is a scatter to the memory before `sge`: it is lengthened by `sge`.  False: it cannot be.
 */
bool reach_queue_extend(struct reach_party *party, enum reach_queue queue, const struct mem_sge *sge,
			const void *buffer);
/* The newest access is as long as it will be. */
void reach_queue_submit(struct reach_party *party, enum reach_queue queue);
static inline bool
reach_queued(const struct reach_party *party, enum reach_queue queue)
{
	return party->last[queue] != NULL;
}
/* The notes of the oldest and the newest; of a queue that is not empty. */
void *reach_queue_oldest(const struct reach_party *party, enum reach_queue queue);
void *reach_queue_newest(const struct reach_party *party, enum reach_queue queue);
/* The oldest has been carried out. */
bool reach_queue_done(const struct reach_party *party, enum reach_queue queue);
/* Of the oldest, which is done: 0, or -EFAULT when it was refused. */
int reach_queue_result(const struct reach_party *party, enum reach_queue queue);
const uint8_t *reach_queue_data(const struct reach_party *party, enum reach_queue queue);
/* Payload of the oldest to those of its sges that have a mapping. */
void reach_queue_place(const struct reach_party *party, enum reach_queue queue, const struct mem_sge *sges,
		       uint32_t num);
/* The oldest leaves the queue; before it is done, as by reach_cancel. */
void reach_queue_pop(struct reach_party *party, enum reach_queue queue);
void reach_queue_clear(struct reach_party *party, enum reach_queue queue);
uint32_t reach_queue_count(const struct reach_party *party, enum reach_queue queue);

/* Wake the parties whose accesses have been carried out; call while the list is not empty.  How many
 * were woken. */
typedef void reach_wake(void *context, void *user);
uint32_t reach_poll(struct reach_list *list, reach_wake *wake, void *context);
/* Whether reach_poll has something to do: an answer has come, or a party waits for a job, and some
 * have outcomes that are not fetched.  For a core that has said that it sleeps. */
bool reach_due(const struct reach_list *list);
/* The application has gone: parties that still wait for it are woken, and every further access fails. */
void reach_detach(struct reach *reach, reach_wake *wake, void *context);

/* ---- the control thread ---- */

/*
 * Accesses of the parties of `core` go through `shm`, emptied, from now on; its list is `list`, and it calls
 * `fault` when the application breaks the rules.  `first`: the application's part on another core, to which
 * regions lead; NULL: this one.  Each part is used by its core alone.  NULL: no memory.
 */
typedef void reach_fault(void *owner);
struct reach *reach_new(struct one_copies *shm, struct reach_list *list, reach_fault *fault, void *owner,
			uint32_t core, struct reach *first);
/* After reach_detach, when no core can look at it any more; NULL is no error. */
void reach_free(struct reach *reach);
/* Of all parts, from the first on. */
uint64_t reach_bytes(const struct reach *first); /* moved that way */
/* ns (CLOCK_MONOTONIC) since when the oldest access has not been answered; 0: none is under way. */
uint64_t reach_since(const struct reach *first);
/* Whether all that had been handed over in this part when the mark was taken has been answered. */
uint32_t reach_mark(const struct reach *reach);
bool reach_passed(const struct reach *reach, uint32_t mark);
/* The same of all parts. */
struct reach_marks {
	uint32_t num;
	uint32_t mark[ONE_LANES_MAX];
};
void reach_mark_all(const struct reach *first, struct reach_marks *marks);
bool reach_passed_all(const struct reach *first, const struct reach_marks *marks);

#endif
