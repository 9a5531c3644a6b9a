/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion rings: the engine fills them, one owner empties them.  attach.h says what holds for all calls.
 *
 * Lock: the owner's around every call on a struct one_cq.
 */
#ifndef CLIENT_CQ_H
#define CLIENT_CQ_H

#include <string.h>

#include "client/attach.h"

/* One ring of the bundle that a completion queue is (abi/ring.h). */
struct one_cq_ring {
	struct one_cq_shm *shm;
	struct one_cqe *ring;
	uint32_t log2;
	uint32_t head;      /* next entry to take */
	uint32_t published; /* value of shm->head */
	uint32_t lump;      /* entries taken after which it is published */
	/*
	 * After a resize: the entries that were left in the old ring, as a ring in private memory that
	 * `ring` and `shm` point into (it ends with ONE_CQE_SWITCHED), and the shared ring that follows.
	 */
	void *backlog;
	struct one_cqe *next_ring;
	struct one_cq_shm *next_shm;
	uint32_t next_log2;
};

struct one_cq {
	struct one_client *client;
	struct one_cq_bundle *bundle;
	struct one_cq_ring at; /* the ring whose turn it is */
	uint32_t id;
	uint32_t turn;             /* number of that ring; */
	uint32_t num_rings;        /* of so many, */
	struct one_cq_ring *rings; /* which are here, but for the one in `at`; NULL: there is only that one */
	uint32_t descriptor;       /* an id of ONE_MSG_CHANNEL_OPEN, to which wake-ups go, too; 0: none */
	uint16_t arm_seq;
	uint16_t arm_channel; /* where the last one_wait_arm sleeps */
};

/*
 * A ring of at least `entries` entries.  [message]
 * Lifetime: until one_cq_free or one_detach.
 */
int one_cq_create(struct one_client *client, uint32_t entries, struct one_cq *cq);

/* The same; queue pairs that complete there are preferably on the polling core `vector`.  0: on any. */
int one_cq_create_near(struct one_client *client, uint32_t entries, uint32_t vector, struct one_cq *cq);

/*
 * The attachment's asynchronous ring.  One owner per attachment.
 * Lifetime: the ring that of the attachment; the owner ends with one_cq_forget, not one_cq_free.
 */
void one_cq_async(struct one_client *client, struct one_cq *cq);

/* Frees the private memory of a ring that is not used any more, or is to be freed by one_detach. */
void one_cq_forget(struct one_cq *cq);

/*
 * Another length, in use: entries and their order are kept.  [message]  Wakes the thread that sleeps on this
 * ring, which arms anew.
 * Errno: after -EPROTO the ring holds what came before, and entries may be missing; else an error has
 * changed nothing.
 */
int one_cq_resize(struct one_cq *cq, uint32_t entries);

/* Frees the ring.  [message]  -EBUSY: a queue pair uses it; it stays as it is. */
int one_cq_free(struct one_cq *cq);

/* Takes one entry: 1, or 0 when there is none.  No system call. */
static inline int one_cq_poll(struct one_cq *cq, struct one_cqe *out);

/* Entries that can be taken now, counted up to `limit`.  No system call. */
uint32_t one_cq_pending(struct one_cq *cq, uint32_t limit);

/* The object of the entry `ahead` of the first one that the engine's ring number `ring` holds; 0: there is no
 * such entry. */
uint32_t one_cq_object(const struct one_cq *cq, uint32_t ring, uint32_t ahead);

/* ---- what runs for every completion ---- */

#define ONE_CQ_TURN 32u /* entries of one ring that are taken while other rings have some */

/* Goes on in the ring that follows the backlog; false: there is none. */
bool one_cq_switch(struct one_cq *cq);
/* Goes on in another ring of the bundle that has an entry; false: there is none. */
bool one_cq_turn(struct one_cq *cq);
/* Takes up rings that the control thread has made since. */
void one_cq_grow(struct one_cq *cq);

static inline struct one_cq_ring *
one_cq_ring(struct one_cq *cq, uint32_t number)
{
	return number == cq->turn ? &cq->at : &cq->rings[number];
}

static inline void
one_cq_publish(struct one_cq_ring *ring)
{
	/* Pairs with the engine's acquire load of head in its check for room: the entries before it
	 * have been copied. */
	atomic_store_explicit(&ring->shm->head, ring->head, memory_order_release);
	ring->published = ring->head;
}

/* Whether there is, or is to be taken up, more than one ring.  Acquire: pairs with the control thread's
 * release store after it has made a ring. */
static inline bool
one_cq_is_bundle(const struct one_cq *cq)
{
	return ONE_UNLIKELY(atomic_load_explicit(&cq->bundle->rings, memory_order_acquire) > 1);
}

/*
 * The engine learns of taken entries in lumps, so that its cache line of `head` moves seldom: every
 * quarter of the ring, and when the ring is found empty.  So it sees at worst a quarter less room
 * than there is while entries are being taken, and all of it when they have been.
 */
static inline int
one_cq_poll(struct one_cq *cq, struct one_cqe *out)
{
	struct one_cq_ring *at = &cq->at;

	for (;;) {
		struct one_cqe *slot = &at->ring[one_ring_slot(at->head, at->log2)];

		/* Pairs with the engine's release store of the phase. */
		if (atomic_load_explicit(&slot->phase, memory_order_acquire) !=
		    one_ring_phase(at->head, at->log2)) {
			if (at->published != at->head)
				one_cq_publish(at);
			if (!one_cq_is_bundle(cq) || !one_cq_turn(cq))
				return 0;
			continue;
		}
		if (ONE_UNLIKELY(slot->type == ONE_CQE_SWITCHED)) {
			if (!one_cq_switch(cq))
				return 0;
			continue;
		}
		memcpy((void *)out, (const void *)slot, sizeof(*out));
		at->head++;
		if (at->head - at->published >= at->lump) {
			one_cq_publish(at);
			if (one_cq_is_bundle(cq))
				one_cq_turn(cq);
		}
		return 1;
	}
}

#endif
