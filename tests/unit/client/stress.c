/* SPDX-License-Identifier: BSD-3-Clause */
/* All memory shared by application and data plane is used by threads at full speed: several posting threads
 * with a queue pair each, a core, and a thread that waits for completions. Also built with ThreadSanitizer,
 * for which both sides must be in one process. The number of rounds depends on the time: on a single
 * processor each fill of a ring takes a time slice of every other thread as well. Checked: every request
 * arrives once, in order, complete; no completion is lost or repeated; no thread sleeps forever (the watchdog
 * is the test's timeout). */
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/client.h"
#include "client/internal.h"

#define QPS 3u
#define SQ_LOG2 5u
#define CQ_LOG2 6u
#define CHANNEL 1u
#define ROUND 2000u
#define RUN_NS 1500000000u

#define CHECK(condition)                                                                \
	do {                                                                            \
		if (!(condition)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                        \
		}                                                                       \
	} while (0)

static struct one_doorbells doorbells;
static struct one_channel channels[ONE_CHANNELS];
static struct one_arena arena;
static struct one_cq_shm cq_shm;
static struct one_cq_bundle cq_bundle = {.rings = 1};
static struct one_cqe cq_ring[1u << CQ_LOG2];
static struct one_client client = {.header = &arena, .channels = channels};
static uint64_t per_qp; /* per round */
static uint64_t waits;

static struct queue {
	struct one_qp qp;
	struct one_qp_shm shm;
	struct one_wqe sq[1u << SQ_LOG2], rq[1];
	/* the core's */
	uint32_t head, done;
	uint64_t expected;
} queues[QPS];

static void *
post(void *arg)
{
	struct queue *q = arg;

	for (uint64_t i = 0; i < per_qp;) {
		uint32_t pieces = (uint32_t)(i % 6);
		struct one_wqe *wqe = one_send_reserve(&q->qp, pieces);

		if (wqe == NULL) {
			sched_yield();
			continue;
		}
		wqe->op = ONE_OP_WRITE;
		wqe->flags = 0;
		wqe->inline_len = 0;
		wqe->cookie = i;
		wqe->length = (uint32_t)i;
		for (uint32_t s = 0; s < pieces; s++)
			one_post_sge(&q->qp, wqe, s, i + s, s, ~s);
		one_send_commit(&q->qp, wqe);
		i++;
	}
	return NULL;
}

/* ---- the core ---- */

static uint32_t tail, served;

static bool
engine_take(struct queue *q, struct one_cqe *cqe)
{
	const struct one_wqe *slot = &q->sq[one_ring_slot(q->head, SQ_LOG2)];
	struct one_wqe wqe;

	/* Pairs with the release in one_ring_commit. */
	if (atomic_load_explicit(&slot->phase, memory_order_acquire) != one_ring_phase(q->head, SQ_LOG2))
		return false;
	memcpy((void *)&wqe, (const void *)slot, sizeof(wqe));
	CHECK(wqe.cookie == q->expected);
	CHECK(wqe.num_sge == q->expected % 6);
	for (uint32_t s = 0; s < wqe.num_sge; s++) {
		struct one_sge sge = wqe.sge;

		if (s > 0) {
			uint32_t at = q->head + 1 + (s - 1) / ONE_SGE_PER_EXT;
			const struct one_wqe_ext *ext = (const void *)&q->sq[one_ring_slot(at, SQ_LOG2)];

			CHECK(atomic_load_explicit(&ext->phase, memory_order_relaxed) ==
			      one_ring_phase(at, SQ_LOG2));
			sge = ext->sge[(s - 1) % ONE_SGE_PER_EXT];
		}
		CHECK(sge.addr == wqe.cookie + s && sge.len == s && sge.lkey == ~s);
	}
	q->expected++;
	q->head += one_wqe_slots(wqe.num_sge);
	q->done++;
	/* Release pairs with the acquire in refresh(): the slots have been read. */
	atomic_store_explicit(&q->shm.sq_head, q->head, memory_order_release);
	atomic_store_explicit(&q->shm.sq_done, q->done, memory_order_release);
	*cqe = (struct one_cqe){.type = ONE_CQE_SEND,
				.cookie = wqe.cookie,
				.object = (uint32_t)(q - queues),
				.flags = ONE_CQE_NOTIFY};
	return true;
}

static bool
engine_room(void)
{
	/* Acquire pairs with the release in one_cq_publish: those entries have been copied. */
	return tail - atomic_load_explicit(&cq_shm.head, memory_order_acquire) < 1u << CQ_LOG2;
}

static void
engine_store(const struct one_cqe *cqe)
{
	struct one_cqe *slot = &cq_ring[one_ring_slot(tail, CQ_LOG2)];

	memcpy((void *)slot, (const void *)cqe, offsetof(struct one_cqe, phase));
	/* Pairs with the acquire in one_cq_poll. */
	atomic_store_explicit(&slot->phase, one_ring_phase(tail, CQ_LOG2), memory_order_release);
	tail++;
}

/* Called once per loop. */
static void
engine_publish(void)
{
	uint64_t arm;

	atomic_store_explicit(&cq_shm.tail, tail, memory_order_release);
	/* Pairs with the fence in one_wait_arm. */
	atomic_thread_fence(memory_order_seq_cst);
	arm = atomic_load_explicit(&cq_shm.arm, memory_order_relaxed);
	if (ONE_ARM_SEQ(arm) == served || (int32_t)(tail - ONE_ARM_INDEX(arm)) <= 0)
		return;
	served = ONE_ARM_SEQ(arm);
	CHECK(ONE_ARM_CHANNEL(arm) == CHANNEL);
	atomic_fetch_add_explicit(&channels[CHANNEL].word, 1, memory_order_seq_cst);
	if (atomic_load_explicit(&channels[CHANNEL].sleepers, memory_order_seq_cst) != 0)
		syscall(SYS_futex, &channels[CHANNEL].word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void *
engine(void *arg)
{
	uint64_t left = per_qp * QPS;
	bool rung[QPS] = {false};
	struct one_cqe cqe;

	while (left > 0) {
		bool stored = false;

		if (atomic_exchange_explicit(&doorbells.group[0], 0, memory_order_acquire) != 0) {
			for (uint32_t i = 0; i < QPS; i++) {
				if (atomic_exchange_explicit(&doorbells.qp[i], 0, memory_order_acquire) != 0)
					rung[i] = true;
			}
		}
		for (uint32_t i = 0; i < QPS; i++) {
			/* Only rung queue pairs are polled, so a lost doorbell shows as a hang. */
			while (rung[i] && engine_room()) {
				if (!engine_take(&queues[i], &cqe)) {
					rung[i] = false;
					break;
				}
				engine_store(&cqe);
				stored = true;
				left--;
			}
		}
		if (stored || served != ONE_ARM_SEQ(atomic_load(&cq_shm.arm)))
			engine_publish();
		if (!stored)
			sched_yield();
	}
	return NULL;
}

static void *
consume(void *arg)
{
	struct one_cq cq = {
		.client = &client,
		.bundle = &cq_bundle,
		.num_rings = 1,
		.at = {.shm = &cq_shm, .ring = cq_ring, .log2 = CQ_LOG2, .lump = 1u << (CQ_LOG2 - 2)}};
	uint64_t next[QPS] = {0}, left = per_qp * QPS;
	struct one_cqe cqe;

	while (left > 0) {
		uint32_t need = (uint32_t)(left < 8 ? left : 1 + left % 8), ticket;

		while (one_cq_poll(&cq, &cqe)) {
			CHECK(cqe.object < QPS);
			CHECK(cqe.cookie == next[cqe.object]);
			next[cqe.object]++;
			left--;
		}
		need = need > left ? (uint32_t)left : need;
		if (left == 0)
			break;
		ticket = one_wait_begin(&client, CHANNEL);
		one_wait_arm(&cq, CHANNEL, need);
		if (one_cq_pending(&cq, need) >= need)
			continue;
		CHECK(one_wait_sleep(&client, CHANNEL, ticket, UINT64_MAX) == 0);
		waits++;
	}
	CHECK(one_cq_poll(&cq, &cqe) == 0);
	return NULL;
}

static void
run_round(void)
{
	pthread_t thread[QPS + 2];

	memset(&doorbells, 0, sizeof(doorbells));
	memset(channels, 0, sizeof(channels));
	memset(&cq_shm, 0, sizeof(cq_shm));
	memset(cq_ring, 0, sizeof(cq_ring));
	memset(queues, 0, sizeof(queues));
	tail = 0;
	served = 0;
	for (uint32_t i = 0; i < QPS; i++) {
		struct queue *q = &queues[i];

		q->qp = (struct one_qp){.shm = &q->shm,
					.sq = q->sq,
					.rq = q->rq,
					.sq_log2 = SQ_LOG2,
					.doorbells = &doorbells,
					.doorbell = i,
					.max_send_wr = 11 + i};
	}
	pthread_create(&thread[0], NULL, engine, NULL);
	pthread_create(&thread[1], NULL, consume, NULL);
	for (uint32_t i = 0; i < QPS; i++)
		pthread_create(&thread[2 + i], NULL, post, &queues[i]);
	for (uint32_t i = 0; i < QPS + 2; i++)
		pthread_join(thread[i], NULL);
}

int
main(int argc, char **argv)
{
	const uint64_t most = argc > 1 ? strtoull(argv[1], NULL, 10) : 200000, start = one_now_ns();
	uint64_t done = 0;

	per_qp = ROUND;
	do {
		run_round();
		done += per_qp;
	} while (done < most && one_now_ns() - start < RUN_NS);
	printf("%u queue pairs, %llu requests each, %llu waits, %.0f ns for one\n", QPS,
	       (unsigned long long)done, (unsigned long long)waits,
	       (double)(one_now_ns() - start) / (double)(done * QPS));
	return 0;
}
