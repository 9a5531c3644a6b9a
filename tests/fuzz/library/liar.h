/* SPDX-License-Identifier: BSD-3-Clause */
/* A hostile data plane in place of the client library's socket. Replies are correct, except where the input
 * falsifies them, and anything can be stored into the arena. */
#ifndef TESTS_FUZZ_LIAR_H
#define TESTS_FUZZ_LIAR_H

#include "abi/arena.h"
#include "abi/copy.h"
#include "abi/message.h"
#include "tests/fuzz/base/records.h"

#define LIAR_ARENA (1u << 20)
#define LIAR_RINGS 16u
#define LIAR_PATIENCE 900u  /* fewer than the polls after which the library sleeps */
#define LIAR_SEGMENT 65536u /* bytes of an import */
#define LIAR_QPS 8u

struct liar_ring {
	struct one_cq_shm *shm;
	uint32_t id, log2, tail;
};

struct liar {
	uint8_t *arena;
	uint32_t num_rings, num_qps, listener, srq;
	struct liar_ring ring[LIAR_RINGS];
	uint32_t qp[LIAR_QPS], send_cq[LIAR_QPS], sq_head[LIAR_QPS];
	struct one_qp_shm *qp_shm[LIAR_QPS];
	struct one_wqe *sq[LIAR_QPS];
	struct one_copies *copies; /* of the newest attachment with a copy thread; NULL: none */
	bool serves;               /* posted requests complete while the program waits */
	bool frees;                /* frees objects as requested, without false replies */
	uint8_t outcome;           /* RSMERR_* of imports connected from now on */
	/* Replaces a sleep on a futex: true if something may have arrived; NULL: never. */
	bool (*waits)(void);
};
extern struct liar liar;

void liar_begin(void);
void liar_end(void);
/* Ends the attachment after LIAR_PATIENCE more calls of the program that wait: no wait lasts for ever. */
void liar_be_patient(void);
typedef void liar_kind(struct bytes *record);
/* Sets up the data plane as the first record requests. */
void liar_start(struct bytes *input);
/* Runs one of `kinds`, as the next record selects; false: there is none. */
bool liar_step(struct bytes *input, liar_kind *const kinds[], size_t num);
/* Carries out all requests in the send rings. */
void liar_serve(void);
/* Falsifies replies from now on, by three bytes each: which reply, which byte of it, and the byte's value. */
void liar_lie(struct bytes *record);
/* Stores the next entry of a ring. */
void liar_store(struct liar_ring *ring, struct one_cqe *cqe);
/* Closes a channel with a descriptor, as when the data plane dies. */
void liar_hang_up(uint32_t which);
/* Stores a completion made of the record's fields. */
void liar_complete(struct bytes *record);
/* Counts signals in a ring that counts them. */
void liar_count_one(struct bytes *record);
/* Announces, by a channel with a descriptor, that a ring has an entry. */
void liar_announce(struct bytes *record);
/* Writes anything anywhere in the arena. */
void liar_poke(struct bytes *record);
/* Changes a queue pair's state, and how far its rings are taken. */
void liar_progress(struct bytes *record);

#endif
