/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bounced accesses: memory without mapping here, which the copy thread of its application (abi/copy.h) moves
 * between it and staging memory in the arena.
 *
 * The application determines how long such an access takes: its thread may be stopped, or fault on pages that
 * its own userfaultfd or FUSE server has to supply. A core hands an access over, serves others, and is called
 * back. An application delays only its own memory.
 *
 * For a transport an access is a repeated call. The first call starts the access and returns -EAGAIN. The
 * transport leaves its state unchanged and suspends the queue pair. When the party is woken, the transport
 * repeats the call, which returns the result. `tag` distinguishes calls with the same addresses.
 *
 * A party (a queue pair) has a few slots, one for each single access that it may have under way at once, and
 * a few queues for accesses of which there may be many. Accesses in a queue are not repeated, but taken from
 * it in the order in which they were added. If all jobs of an application are taken, the party waits in turn
 * for one.
 *
 * An access in a queue to one range of memory can be extended until it is handed to the copy thread, so that
 * the packets of a long message are copied together. It is handed over when the transport says so, when it is
 * BOUNCE_LEN bytes long, and by bounce_poll().
 *
 * The application's stores to its arena are hostile. Which request is answered next, what it moves and where
 * its staging slot is, is stored in private memory. Each field of an answer is read once. An answer to a
 * request other than the oldest, or with an unknown error, ends the attachment. The application can change
 * payload in staging memory at any time: that is its own payload, on the way from or to its memory.
 */
#ifndef DATAPLANE_BOUNCE_H
#define DATAPLANE_BOUNCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "abi/copy.h"
#include "mem.h"

#define BOUNCE_LEN ONE_COPY_LEN /* bytes of one access */
#define BOUNCE_NOTE 184u        /* bytes that a party may store with an access */
#define BOUNCE_SLOTS 3u

enum bounce_queue {
	BOUNCE_ARRIVED,    /* messages on their way to memory */
	BOUNCE_LANDED,     /* responses on their way to memory */
	BOUNCE_LEAVING,    /* payload on its way to a frame */
	BOUNCE_AHEAD,      /* payload read before it is sent; may be dropped and read again */
	BOUNCE_AHEAD_READ, /* responses read before they are sent; may be dropped and read again */
	BOUNCE_QUEUES
};

struct bounce;
struct bounce_job;

struct mem_sge {
	const struct mem_region *region;
	uint64_t va;
	uint32_t len;
};

struct bounce_party {
	void *user;             /* passed on by bounce_poll() */
	uint32_t lane;          /* accesses go through this lane's part of an application (bounce_new()) */
	struct bounce *starved; /* application whose jobs were all taken; NULL: not waiting */
	TAILQ_ENTRY(bounce_party) link;
	struct bounce_job *job[BOUNCE_SLOTS];
	struct bounce_job *last[BOUNCE_QUEUES]; /* newest job of each queue, a ring; NULL: empty */
};

/* Applications that a core has to poll; one list for each core. */
LIST_HEAD(bounce_list, bounce);

/* ---- the core that owns the parties ---- */

/*
 * Copy from the sges to `buffer`. At least one sge is without mapping; all of those belong to one
 * application. At most BOUNCE_LEN bytes. Returns 0; -EFAULT: the application has gone or has no such memory;
 * -EAGAIN: under way.
 */
int bounce_gather(struct bounce_party *party, uint32_t slot, const struct mem_sge *sges, uint32_t num,
		  void *buffer, uint32_t tag);
/* Copy from `buffer` to the sges. `buffer` NULL: only return the result of the same call made before;
 * -ENOENT: another call was under way, and is cancelled. */
int bounce_scatter(struct bounce_party *party, uint32_t slot, const struct mem_sge *sges, uint32_t num,
		   const void *buffer, uint32_t tag);
/* Like mem_fetch_add() (`compare` NULL) and mem_cmp_swap(), and atomic towards each other. */
int bounce_atomic(struct bounce_party *party, uint32_t slot, const struct mem_region *region, uint64_t va,
		  const uint64_t *compare, uint64_t operand, uint64_t *found, uint32_t tag);
/* True if the slot has an access that has been carried out. */
bool bounce_done(const struct bounce_party *party, uint32_t slot);
/* BOUNCE_NOTE bytes stored with the access. */
void *bounce_note(struct bounce_party *party, uint32_t slot);
/* Cancel: the result is not wanted. The access will not happen, unless it is happening now. */
void bounce_cancel(struct bounce_party *party, uint32_t slot);
void bounce_leave(struct bounce_party *party); /* cancels all slots and queues; the party may be freed */

/*
 * Add an access to the end of a queue, with a note of `len` bytes. Returns 0; -EFAULT: the application has
 * gone or has no such memory; -EAGAIN: all jobs are taken, and the party is woken when one is free.
 *
 * A scatter moves `buffer` to the sges without mapping. The caller moves the mapped part when it takes the
 * access from the queue, by keys that it looks up again: bounce_queue_place(). Behind other accesses all of
 * the sges may be mapped, or there may be none. A gather moves the sges to bounce_queue_data().
 */
int bounce_queue_scatter(struct bounce_party *party, enum bounce_queue queue, const struct mem_sge *sges,
			 uint32_t num, const void *buffer, const void *note, uint32_t len);
int bounce_queue_gather(struct bounce_party *party, enum bounce_queue queue, const struct mem_sge *sges,
			uint32_t num, const void *note, uint32_t len);
/* Extend the newest access by `sge`, if it is a scatter to the memory just before. False: not possible. */
bool bounce_queue_extend(struct bounce_party *party, enum bounce_queue queue, const struct mem_sge *sge,
			 const void *buffer);
/* Hand over the newest access: it will not be extended any more. */
void bounce_queue_submit(struct bounce_party *party, enum bounce_queue queue);
static inline bool
bounce_queued(const struct bounce_party *party, enum bounce_queue queue)
{
	return party->last[queue] != NULL;
}
/* Notes of the oldest and of the newest access; the queue must not be empty. */
void *bounce_queue_oldest(const struct bounce_party *party, enum bounce_queue queue);
void *bounce_queue_newest(const struct bounce_party *party, enum bounce_queue queue);
/* True if the oldest access has been carried out. */
bool bounce_queue_done(const struct bounce_party *party, enum bounce_queue queue);
/* Result of the oldest access, which is done: 0, or -EFAULT if it was refused. */
int bounce_queue_result(const struct bounce_party *party, enum bounce_queue queue);
const uint8_t *bounce_queue_data(const struct bounce_party *party, enum bounce_queue queue);
/* Copy the payload of the oldest access to those of its sges that are mapped. */
void bounce_queue_place(const struct bounce_party *party, enum bounce_queue queue, const struct mem_sge *sges,
			uint32_t num);
/* Remove the oldest access from the queue; if it is not done, cancel it like bounce_cancel(). */
void bounce_queue_pop(struct bounce_party *party, enum bounce_queue queue);
void bounce_queue_clear(struct bounce_party *party, enum bounce_queue queue);
uint32_t bounce_queue_count(const struct bounce_party *party, enum bounce_queue queue);

/* Wake the parties whose accesses have been carried out; call while the list is not empty. Returns the number
 * of answers processed. */
typedef void bounce_wake(void *context, void *user);
uint32_t bounce_poll(struct bounce_list *list, bounce_wake *wake, void *context);
/* True if bounce_poll() has something to do: an answer has arrived, or a party waits for a job and unfetched
 * results occupy them. For a core that has announced that it sleeps. */
bool bounce_due(const struct bounce_list *list);
/* The application has gone: wake the parties that still wait for it; all later accesses fail. */
void bounce_detach(struct bounce *bounce, bounce_wake *wake, void *context);

/* ---- control thread ---- */

/* From now on accesses of the parties of `lane` go through `shm`, which is zeroed.  `fault` is called on the
 * core of `list` if the application breaks the rules.  `first`: the part of the application's first lane, to
 * which regions lead; NULL: this part.  Only the lane's core uses a part.  NULL: no memory. */
typedef void bounce_fault(void *owner);
struct bounce *bounce_new(struct one_copies *shm, struct bounce_list *list, bounce_fault *fault, void *owner,
			  uint32_t lane, struct bounce *first);
/* Call after bounce_detach(), when no core can access it any more. NULL is allowed. */
void bounce_free(struct bounce *bounce);
/* Sums up all parts, from the first on: bytes moved through staging memory. */
uint64_t bounce_bytes(const struct bounce *first);
/* Adds the bytes that another process has moved. */
void bounce_inherit(struct bounce *bounce, uint64_t bytes);
/* Time in ns (CLOCK_MONOTONIC) since which the oldest access is unanswered; 0: none is under way. */
uint64_t bounce_since(const struct bounce *first);
/* bounce_passed() is true if all requests handed over to this part before bounce_mark() have been answered.
 */
/* True if all accesses that were handed over to this part have been answered. */
bool bounce_is_idle(const struct bounce *bounce);
struct one_copies *bounce_shm(const struct bounce *bounce);
/* Continue in `shm` where another process stopped when `handed_over` requests had been answered. */
uint32_t bounce_handed_over(const struct bounce *bounce);
void bounce_continue(struct bounce *bounce, uint32_t handed_over);
uint32_t bounce_mark(const struct bounce *bounce);
bool bounce_passed(const struct bounce *bounce, uint32_t mark);
/* Marks of all parts of an application. */
struct bounce_marks {
	uint32_t num;
	uint32_t mark[ONE_LANES_MAX];
};
void bounce_mark_all(const struct bounce *first, struct bounce_marks *marks);
bool bounce_passed_all(const struct bounce *first, const struct bounce_marks *marks);

#endif
