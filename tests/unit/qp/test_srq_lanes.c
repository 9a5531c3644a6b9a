/* SPDX-License-Identifier: BSD-3-Clause */
/* A shared receive queue from which two cores take. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"

#include "dataplane/engine/move.h"
#include "dataplane/qp/wqe.h"

/* ---- every order of the steps of two cores and an application ---- */

#define LOG2 1u
#define SLOTS (1u << LOG2)
#define POSTS 5u
#define CORES 2u

/* An application's step: load what was taken, fill the slot, store its phase. */
enum app_step { APP_LOOKS, APP_FILLS, APP_COMMITS };
/* A core's step: find the next receive, copy it, claim it. */
enum core_step { CORE_FINDS, CORE_COPIES, CORE_CLAIMS };

struct taker {
	enum core_step step;
	struct srq_next next;
	uint64_t cookie; /* copied */
};

static struct core cores[CORES];
static struct engine_client lanes[CORES];
static struct engine_qp takers_qp[CORES];
static struct engine_srq *srq;
static struct one_srq_shm *shm;
static struct one_wqe ring[SLOTS] __rte_cache_aligned;

struct world {
	struct one_srq_lane shared[CORES];
	struct one_wqe ring[SLOTS];
	uint64_t taken;
	enum app_step app_step;
	uint32_t posted;
	struct taker taker[CORES];
	uint32_t claims;
};

#define KNOWN_LOG2 20u
static uint64_t known[1u << KNOWN_LOG2]; /* hashes of worlds that were seen; 0: none */
static uint32_t num_known, num_ends;

/* True if such a world was not seen before. */
static bool
is_new(const struct world *w)
{
	const uint8_t *bytes = (const uint8_t *)w;
	uint64_t hash = 0xcbf29ce484222325ull;
	uint32_t i;

	for (size_t n = 0; n < sizeof(*w); n++)
		hash = (hash ^ bytes[n]) * 0x100000001b3ull;
	for (i = (uint32_t)(hash >> 32); known[i % (1u << KNOWN_LOG2)] != 0; i++)
		if (known[i % (1u << KNOWN_LOG2)] == hash)
			return false;
	known[i % (1u << KNOWN_LOG2)] = hash;
	assert_true(++num_known < 1u << (KNOWN_LOG2 - 1));
	return true;
}

static void
save(struct world *w)
{
	memcpy(w->shared, shm->lane, sizeof(w->shared));
	memcpy(w->ring, ring, sizeof(w->ring));
	w->taken = srq->taken;
}

static void
restore(const struct world *w)
{
	memcpy(shm->lane, w->shared, sizeof(w->shared));
	memcpy(ring, w->ring, sizeof(w->ring));
	srq->taken = w->taken;
}

static bool
app_goes_on(struct world *w)
{
	struct one_wqe *slot = &ring[one_ring_slot(w->posted, LOG2)];

	if (w->posted == POSTS)
		return false;
	switch (w->app_step) {
	case APP_LOOKS:
		if (w->posted + 1 - (shm->lane[0].head + shm->lane[1].head) > SLOTS)
			return false;
		w->app_step = APP_FILLS;
		return true;
	case APP_FILLS:
		slot->cookie = w->posted;
		w->app_step = APP_COMMITS;
		return true;
	default:
		slot->phase = one_ring_phase(w->posted, LOG2);
		w->posted++;
		w->app_step = APP_LOOKS;
		return true;
	}
}

/* Receives leave in the order of posting, each once. */
static bool
core_goes_on(struct world *w, uint32_t i)
{
	struct taker *taker = &w->taker[i];
	const struct one_wqe *slot;

	switch (taker->step) {
	case CORE_FINDS:
		taker->next = srq_find(srq);
		slot = &taker->next.ring[one_ring_slot(srq_slot(&taker->next), taker->next.log2)];
		if (slot->phase != one_ring_phase(srq_slot(&taker->next), LOG2))
			return false;
		taker->step = CORE_COPIES;
		return true;
	case CORE_COPIES:
		taker->cookie =
			taker->next.ring[one_ring_slot(srq_slot(&taker->next), taker->next.log2)].cookie;
		taker->step = CORE_CLAIMS;
		return true;
	default:
		if (srq_claim(&cores[i], &takers_qp[i], &taker->next, 1)) {
			assert_int_equal(taker->cookie, w->claims);
			w->claims++;
		}
		taker->step = CORE_FINDS;
		return true;
	}
}

static void
every_order(const struct world *from)
{
	bool any = false;

	for (uint32_t who = 0; who <= CORES; who++) {
		struct world w = *from;

		restore(&w);
		if (!(who < CORES ? core_goes_on(&w, who) : app_goes_on(&w)))
			continue;
		any = true;
		save(&w);
		if (is_new(&w))
			every_order(&w);
	}
	if (!any) {
		assert_int_equal(from->claims, POSTS);
		num_ends++;
	}
}

/* `shared`: both cores count in one lane. */
static void
make_queue(uint32_t log2, struct one_wqe *slots, bool shared)
{
	srq = aligned_alloc(RTE_CACHE_LINE_SIZE, sizeof(*srq) + CORES * sizeof(srq->done[0]));
	shm = aligned_alloc(RTE_CACHE_LINE_SIZE, one_srq_shm_size(CORES));
	assert_true(srq != NULL && shm != NULL);
	memset(srq, 0, sizeof(*srq) + CORES * sizeof(srq->done[0]));
	memset(shm, 0, one_srq_shm_size(CORES));
	srq->lanes = shared ? 1 : CORES;
	srq->shm = shm;
	srq_set_ring(srq, slots, log2);
	for (uint32_t i = 0; i < CORES; i++) {
		cores[i] = (struct core){.index = i};
		lanes[i] = (struct engine_client){.core = &cores[i]};
		takers_qp[i] = (struct engine_qp){.client = &lanes[i], .srq = srq};
	}
}

static void
free_queue(void)
{
	free(srq);
	free(shm);
}

static void
test_every_order(void **state)
{
	struct world w = {.posted = 0};

	make_queue(LOG2, ring, false);
	for (uint32_t i = 0; i < SLOTS; i++)
		ring[i] = (struct one_wqe){.phase = !one_ring_phase(i, LOG2)};
	save(&w);
	every_order(&w);
	print_message("%u worlds, %u ends\n", num_known, num_ends);
	assert_true(num_known > 1000 && num_ends > 1);
	free_queue();
}

/* ---- threads ---- */

#define MANY_LOG2 3u
#define MANY (1u << 20)

static struct one_wqe many[1u << MANY_LOG2] __rte_cache_aligned;
static _Atomic uint8_t seen[MANY];
static _Atomic uint32_t seen_all;

static void *
take_many(void *taker)
{
	uint32_t i = (uint32_t)(uintptr_t)taker;
	struct recv_work work;

	/* Pairs with the other thread's increment: only the number counts. */
	while (atomic_load_explicit(&seen_all, memory_order_relaxed) < MANY) {
		if (!qp_take_recv(&cores[i], &takers_qp[i], &work)) {
			sched_yield();
			continue;
		}
		/* All of a copy is of one posting. */
		assert_int_equal(work.num_sge, 1);
		assert_int_equal(work.sge[0].addr, work.cookie * 3);
		assert_int_equal(work.sge[0].lkey, (uint32_t)work.cookie);
		assert_int_equal(atomic_fetch_add(&seen[work.cookie], 1), 0);
		atomic_fetch_add(&seen_all, 1);
	}
	return NULL;
}

/* Two cores take what an application posts as fast as it can, in a short ring. */
static void
test_threads(void **state)
{
	pthread_t taker[CORES];

	make_queue(MANY_LOG2, many, false);
	for (uint32_t i = 0; i < 1u << MANY_LOG2; i++)
		many[i].phase = !one_ring_phase(i, MANY_LOG2);
	for (uint32_t i = 0; i < CORES; i++)
		assert_int_equal(pthread_create(&taker[i], NULL, take_many, (void *)(uintptr_t)i), 0);
	for (uint32_t tail = 0; tail < MANY; tail++) {
		struct one_wqe *slot = &many[one_ring_slot(tail, MANY_LOG2)];

		/* Pairs with the release stores in srq_claim(), as in the library. */
		while (tail + 1 -
			       (atomic_load_explicit(&shm->lane[0].head, memory_order_acquire) +
				atomic_load_explicit(&shm->lane[1].head, memory_order_acquire)) >
		       1u << MANY_LOG2)
			sched_yield();
		slot->op = ONE_OP_RECV;
		slot->num_sge = 1;
		slot->cookie = tail;
		slot->length = 1;
		slot->sge = (struct one_sge){.addr = (uint64_t)tail * 3, .len = 1, .lkey = tail};
		atomic_store_explicit(&slot->phase, one_ring_phase(tail, MANY_LOG2), memory_order_release);
	}
	for (uint32_t i = 0; i < CORES; i++)
		assert_int_equal(pthread_join(taker[i], NULL), 0);
	assert_int_equal(shm->lane[0].taken + shm->lane[1].taken, MANY);
	print_message("%u and %u receives\n", shm->lane[0].taken, shm->lane[1].taken);
	free_queue();
}

static void *
claim_many(void *taker)
{
	uint32_t i = (uint32_t)(uintptr_t)taker;

	for (uint32_t claims = 0; claims < MANY;) {
		struct srq_next next = srq_find(srq);

		if (!srq_claim(&cores[i], &takers_qp[i], &next, 2))
			continue;
		srq_done(srq, &takers_qp[i], 1);
		srq_publish(srq, &takers_qp[i]);
		claims++;
	}
	return NULL;
}

/* A process with fewer cores has made the queue: two cores count in one lane, and no count is lost. */
static void
test_threads_share_lane(void **state)
{
	pthread_t taker[CORES];

	make_queue(MANY_LOG2, many, true);
	for (uint32_t i = 0; i < CORES; i++)
		assert_int_equal(pthread_create(&taker[i], NULL, claim_many, (void *)(uintptr_t)i), 0);
	for (uint32_t i = 0; i < CORES; i++)
		assert_int_equal(pthread_join(taker[i], NULL), 0);
	assert_int_equal(shm->lane[0].taken, CORES * MANY);
	assert_int_equal(shm->lane[0].head, 2 * CORES * MANY);
	assert_int_equal(shm->lane[0].done, CORES * MANY);
	free_queue();
}

/* ---- queue pairs of two lanes ---- */

#define LEN 64u
#define LONG (1u << 18)

static struct app home, other;
static struct ring async[2], complete[2];
static struct pair from[2], to[2];
static struct memory memory;
static struct one_wqe *posts;
static uint32_t tail;

static int
start(void **state)
{
	struct engine_srq_config config = {.id = 4711, .log2 = RING_LOG2, .lanes = CORES};

	app_start(&home);
	lane_new(&home, 1 - home.client->core->index, &other);
	ring_new(&home, CQ_LOG2, &async[0], NULL);
	ring_join(&other, &async[0], &async[1]);
	ring_new(&home, CQ_LOG2, &complete[0], async[0].cq);
	ring_join(&other, &complete[0], &complete[1]);
	config.shm = app_alloc(&home, one_srq_shm_size(engine.num_cores));
	config.rq = app_alloc(&home, sizeof(struct one_wqe) << RING_LOG2);
	config.async_cq = async[0].cq;
	shm = (struct one_srq_shm *)(home.arena + config.shm);
	posts = (struct one_wqe *)(home.arena + config.rq);
	tail = 0;
	srq = engine_srq_new(home.client, &config);
	assert_non_null(srq);
	assert_int_equal(command((struct engine_command){.type = ENGINE_SRQ_ADD, .srq = srq}), 0);
	for (int i = 0; i < 2; i++) {
		struct app *app = i == 0 ? &home : &other;

		pair_new(app, &complete[i], NULL, NULL, &async[i], &from[i]);
		pair_new_shared(app, NULL, &complete[i], NULL, &async[i], srq, &to[i]);
		pair_connect(&from[i], &to[i], RC_RTS, i == 0);
		pair_connect(&to[i], &from[i], RC_RTS, i == 0);
	}
	memory_new(&home, ONE_ACCESS_ALL, LONG, &memory);
	return 0;
}

static int
end(void **state)
{
	memory_end(&memory);
	for (int i = 0; i < 2; i++) {
		pair_end(&from[i]);
		pair_end(&to[i]);
	}
	assert_int_equal(command((struct engine_command){.type = ENGINE_SRQ_REMOVE, .srq = srq}), 0);
	engine_srq_free(srq);
	for (int i = 0; i < 2; i++) {
		ring_end(&complete[i]);
		ring_end(&async[i]);
	}
	lane_end(&other);
	app_end(&home);
	return 0;
}

static void
post_of(uint64_t cookie, uint32_t length)
{
	struct one_wqe *wqe = &posts[one_ring_slot(tail, RING_LOG2)];

	memset(wqe, 0, offsetof(struct one_wqe, phase));
	wqe->op = ONE_OP_RECV;
	wqe->num_sge = 1;
	wqe->length = length;
	wqe->cookie = cookie;
	wqe->sge = (struct one_sge){.addr = memory.region.va, .len = length, .lkey = memory.region.key};
	atomic_store_explicit(&shm->posted, tail + 1, memory_order_relaxed);
	atomic_store_explicit(&wqe->phase, one_ring_phase(tail, RING_LOG2), memory_order_release);
	tail++;
}

static void
post(uint64_t cookie)
{
	post_of(cookie, LEN);
}

static void
send_and_receive(int i, uint64_t cookie)
{
	struct one_cqe cqe;
	bool sent = false, received = false;

	post_send(&from[i], &memory, LEN, cookie + 1000);
	while (!sent || !received) {
		TURN_UNTIL(ring_poll(&complete[i], &cqe));
		assert_int_equal(cqe.status, ONE_STATUS_SUCCESS);
		if (cqe.type == ONE_CQE_RECV)
			assert_int_equal(cqe.cookie, cookie);
		*(cqe.type == ONE_CQE_RECV ? &received : &sent) = true;
	}
}

static void
test_lanes_share(void **state)
{
	for (uint32_t i = 0; i < 3u << RING_LOG2; i++) {
		post(i);
		send_and_receive(i % 3 == 0, i);
	}
	for (uint32_t i = 0; i < 2; i++) {
		const struct one_srq_lane *lane = &shm->lane[to[i].qp->client->core->index];

		assert_int_equal(lane->taken, i == 0 ? 2u << RING_LOG2 : 1u << RING_LOG2);
		assert_int_equal(lane->head, lane->taken);
		assert_int_equal(lane->done, lane->taken);
	}
	assert_int_equal(home.faults, 0);
}

/* The core that finds the queue low reports, in the ring of its lane. */
static void
test_limit_on_lane(void **state)
{
	post(0);
	post(1);
	assert_int_equal(command((struct engine_command){.type = ENGINE_SRQ_LIMIT, .srq = srq, .limit = 2}),
			 0);
	expect_none(&async[0]);
	send_and_receive(1, 0);
	expect(&async[1], ONE_CQE_ASYNC, ONE_ASYNC_SRQ_LIMIT, 0);
	send_and_receive(0, 1);
	expect_none(&async[0]);
	expect_none(&async[1]);
}

static void
move_step(enum engine_command_type type, struct engine_move *move)
{
	assert_int_equal(command((struct engine_command){.type = type, .move = move, .qp = to[1].qp}), 0);
}

/* Moves to[1]. */
static void
move_to(int lane)
{
	struct engine_client *client = (lane == 0 ? &home : &other)->client;
	struct engine_qp_config config = {.recv_cq = complete[lane].cq, .async_cq = async[lane].cq};
	struct engine_move *move = engine_move_new(to[1].qp, client, &config);

	assert_non_null(move);
	move_step(ENGINE_QP_FREEZE, move);
	move_step(ENGINE_QP_THAW, move);
	move_step(ENGINE_QP_MOVED, move);
	assert_true(engine_move_over(move));
	engine_move_free(move);
}

/* Sends to the home lane until a receive is taken. */
static void
send_part(uint64_t cookie, uint32_t taken)
{
	post_send(&from[1], &memory, LONG, cookie);
	while (to[1].shm->rq_head != taken) {
		loop_iterate(other.client->core, fixture_tsc());
		loop_iterate(home.client->core, fixture_tsc());
	}
}

static void
expect_counts(int i, uint32_t taken, uint32_t done)
{
	const struct one_srq_lane *lane = &shm->lane[(i == 0 ? &home : &other)->client->core->index];

	assert_int_equal(lane->taken, taken);
	assert_int_equal(lane->head, taken);
	assert_int_equal(lane->done, done);
}

/* A receive that one core took is completed by another, or dropped with its queue pair. */
static void
test_move_with_receive(void **state)
{
	struct one_cqe cqe;

	move_to(0);
	post_of(1, LONG);
	post_of(2, LONG);
	send_part(3, 1);
	expect_counts(0, 1, 0);
	move_to(1);
	expect_counts(0, 1, 0);
	do
		TURN_UNTIL(ring_poll(&complete[1], &cqe));
	while (cqe.type != ONE_CQE_RECV);
	assert_int_equal(cqe.cookie, 1);
	assert_int_equal(cqe.status, ONE_STATUS_SUCCESS);
	expect_counts(1, 0, 1);
	move_to(0);
	send_part(4, 2);
	expect_counts(0, 2, 0);
	assert_int_equal(command((struct engine_command){.type = ENGINE_QP_RESET, .qp = to[1].qp}), 0);
	expect_counts(0, 2, 1);
	expect_counts(1, 0, 1);
	assert_int_equal(home.faults, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_order),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_threads_share_lane),
		cmocka_unit_test_setup_teardown(test_lanes_share, start, end),
		cmocka_unit_test_setup_teardown(test_limit_on_lane, start, end),
		cmocka_unit_test_setup_teardown(test_move_with_receive, start, end),
	};

	return cmocka_run_group_tests(tests, group_start_two, group_stop);
}
