/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A hostile data plane, in place of the socket of the client library: it answers as an honest one would, but
 * for what it is told to say otherwise, and stores what it likes into the arena.
 */
#ifndef TESTS_FUZZ_LIAR_H
#define TESTS_FUZZ_LIAR_H

#include "abi/arena.h"
#include "abi/copy.h"
#include "abi/message.h"
#include "tests/fuzz/base/records.h"

#define LIAR_ARENA (1u << 20)
#define LIAR_RINGS 16u
#define LIAR_PATIENCE 900u  /* fewer than the turns after which the library sleeps */
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
	bool serves;               /* what is posted is done when the program waits */
	bool frees;                /* what it is asked to free it does: no lies of that */
	uint8_t outcome;           /* of imports that are connected from now on: RSMERR_* */
	/* Instead of a sleep on a futex: whether there may be something now; NULL: never. */
	bool (*waits)(void);
};
extern struct liar liar;

void liar_begin(void);
void liar_end(void);
/* After LIAR_PATIENCE more looks of the program's at the clock the attachment is dead: nothing waits for
 * ever. */
void liar_be_patient(void);
typedef void liar_kind(struct bytes *record);
/* What the data plane begins with, by the first record. */
void liar_start(struct bytes *input);
/* One of `kinds`, as the next record says; false: there is none. */
bool liar_step(struct bytes *input, liar_kind *const kinds[], size_t num);
/* Carries out all requests in the send rings. */
void liar_serve(void);
/* Replies from now on: three bytes a lie, which reply, which byte of it, and what is there instead. */
void liar_lie(struct bytes *record);
/* The next entry of a ring. */
void liar_store(struct liar_ring *ring, struct one_cqe *cqe);
/* A channel with a descriptor ends, as when the data plane dies. */
void liar_hang_up(uint32_t which);
/* A completion, as its fields in the record have it. */
void liar_complete(struct bytes *record);
/* Of a ring that counts signals: there are more. */
void liar_count_one(struct bytes *record);
/* By a channel with a descriptor: this ring has something. */
void liar_announce(struct bytes *record);
/* Anything, anywhere in the arena. */
void liar_poke(struct bytes *record);
/* Of a queue pair: its state, and how far its rings are taken. */
void liar_progress(struct bytes *record);

#endif
