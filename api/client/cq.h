/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion rings: the engine fills them, one owner empties them. attach.h has the rules for all calls.
 * Lock: the owner's around every call on a struct one_cq.
 */
#ifndef CLIENT_CQ_H
#define CLIENT_CQ_H

#include <string.h>

#include "client/attach.h"

/* A ring of a completion queue's bundle (abi/ring.h). */
struct one_cq_ring {
	struct one_cq_shm *shm;
	struct one_cqe *ring;
	uint32_t log2;
	uint32_t head;      /* next entry to take */
	uint32_t published; /* value of shm->head */
	uint32_t lump;      /* publish `head` after this number of entries */
	uint64_t base;      /* entries taken when `head` was 0 last, as of `published`: see ONE_CQE_AFTER */
	/*
	 * After a resize: the entries left in the old ring, as a ring in private memory that `ring` and `shm`
	 * point into (it ends with ONE_CQE_SWITCHED), and the shared ring that follows.
	 */
	void *backlog;
	struct one_cqe *next_ring;
	struct one_cq_shm *next_shm;
	uint32_t next_log2;
};

struct one_cq {
	struct one_client *client;
	struct one_cq_bundle *bundle;
	struct one_cq_ring at; /* ring that is being polled */
	uint32_t id;
	uint32_t turn;             /* number of the ring in `at` */
	uint32_t num_rings;        /* rings taken up */
	struct one_cq_ring *rings; /* all rings, the one in `at` possibly stale; NULL: there is only one */
	uint32_t descriptor;       /* id of ONE_MSG_CHANNEL_OPEN that also gets wake-ups; 0: none */
	uint16_t arm_seq;
	uint16_t arm_channel; /* channel of the last one_wait_arm */
};

/*
 * Creates a ring of at least `entries` entries. [message]
 * Lifetime: until one_cq_free or one_detach.
 */
int one_cq_create(struct one_client *client, uint32_t entries, struct one_cq *cq);

/* one_cq_create; queue pairs that complete there are preferably on the polling core `vector`. 0: on any. */
int one_cq_create_near(struct one_client *client, uint32_t entries, uint32_t vector, struct one_cq *cq);

/*
 * Opens the attachment's asynchronous ring. One owner per attachment.
 * Lifetime: the ring lives as long as the attachment; the owner ends with one_cq_forget, not one_cq_free.
 */
void one_cq_async(struct one_client *client, struct one_cq *cq);

/* Frees the private memory of a ring that is no longer used, or that one_detach will free. */
void one_cq_forget(struct one_cq *cq);

/*
 * Resizes a ring in use: entries and their order are kept. [message] Wakes the thread that sleeps on this
 * ring, so that it arms again.
 * Errno: after -EPROTO the ring holds the earlier entries, but some may be missing; any other error has
 * changed nothing.
 */
int one_cq_resize(struct one_cq *cq, uint32_t entries);

/* Frees the ring. [message] -EBUSY: a queue pair uses the ring, which stays as it is. */
int one_cq_free(struct one_cq *cq);

/* Takes one entry: 1, or 0 when there is none.  No system call. */
static inline int one_cq_poll(struct one_cq *cq, struct one_cqe *out);

/* Counts entries that can be taken now, up to `limit`. No system call. */
uint32_t one_cq_pending(struct one_cq *cq, uint32_t limit);

/* Returns the object of an entry in the engine's ring number `ring`, `ahead` entries after the first; 0: no
 * such entry; UINT32_MAX: it is not for the application. */
uint32_t one_cq_object(const struct one_cq *cq, uint32_t ring, uint32_t ahead);

/* ---- on the path of every completion ---- */

#define ONE_CQ_TURN 32u /* entries taken from one ring before other rings are polled */

/* Call when the next entry is not for the application (one_cq_is_mark). Passes that entry, or continues in
 * the ring whose entries must be taken first; false: there is no entry now. */
bool one_cq_pass(struct one_cq *cq);
/* Continues in another ring of the bundle that has an entry; false: there is none. */
bool one_cq_turn(struct one_cq *cq);
/* Takes up rings that the control thread has created meanwhile. */
void one_cq_grow(struct one_cq *cq);

static inline struct one_cq_ring *
one_cq_ring(struct one_cq *cq, uint32_t number)
{
	return number == cq->turn ? &cq->at : &cq->rings[number];
}

/* True for an entry that is not for the application. */
static inline bool
one_cq_is_mark(const struct one_cqe *entry)
{
	return (uint8_t)(entry->type - ONE_CQE_SWITCHED) <= ONE_CQE_AFTER_REPORT - ONE_CQE_SWITCHED;
}

/* Returns the number of entries taken since the ring was made. */
static inline uint64_t
one_cq_taken(const struct one_cq_ring *ring)
{
	return ring->base + ring->published + (ring->head - ring->published);
}

static inline void
one_cq_publish(struct one_cq_ring *ring)
{
	if (ONE_UNLIKELY(ring->head < ring->published))
		ring->base += 1ull << 32;
	/* Pairs with the engine's acquire load of head in its check for room: the entries before `head` have
	 * been copied. */
	atomic_store_explicit(&ring->shm->head, ring->head, memory_order_release);
	ring->published = ring->head;
}

/* Returns true if there are several rings, taken up or not. Acquire: pairs with the control thread's release
 * store after it has created a ring. */
static inline bool
one_cq_is_bundle(const struct one_cq *cq)
{
	return ONE_UNLIKELY(atomic_load_explicit(&cq->bundle->rings, memory_order_acquire) > 1);
}

/*
 * `head` is published after every quarter of the ring, and when the ring is found empty, so that its cache
 * line seldom moves to the engine. While entries are being taken the engine sees at most a quarter less room
 * than there is, and afterwards all of it.
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
		if (ONE_UNLIKELY(one_cq_is_mark(slot))) {
			if (!one_cq_pass(cq))
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
