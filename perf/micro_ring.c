/* SPDX-License-Identifier: BSD-3-Clause */
/* Microbenchmarks: what passes between two processors. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "abi/ring.h"
#include "micro.h"

enum { RING_LOG2 = 10, RING_TELL = 16 };

/* A slot written by a producer and read by a consumer, on one core: the instructions, not the cache. */
static void
work_ring(struct gbench_state *state, void *user)
{
	static struct one_wqe ring[1u << RING_LOG2];
	uint32_t index = 0;

	memset(ring, 0, sizeof(ring));
	while (gbench_running(state)) {
		struct one_wqe *slot = &ring[one_ring_slot(index, RING_LOG2)], copy;

		slot->op = ONE_OP_WRITE;
		slot->length = 8;
		slot->cookie = index;
		/* Pairs with the acquire load below. */
		atomic_store_explicit(&slot->phase, one_ring_phase(index, RING_LOG2), memory_order_release);
		if (atomic_load_explicit(&slot->phase, memory_order_acquire) ==
		    one_ring_phase(index, RING_LOG2))
			memcpy(&copy, slot, sizeof(copy));
		gbench_use(&copy);
		index++;
	}
	gbench_set_items(state, gbench_iterations(state));
}

/* The first and the last processor that this program may use; the caller's thread goes to the first. */
static bool
two_processors(pthread_attr_t *other, cpu_set_t *before)
{
	cpu_set_t one;
	int first = -1, last = -1;

	if (sched_getaffinity(0, sizeof(*before), before) != 0)
		return false;
	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (!CPU_ISSET(i, before))
			continue;
		first = first < 0 ? i : first;
		last = i;
	}
	if (first == last)
		return false;
	pthread_attr_init(other);
	CPU_ZERO(&one);
	CPU_SET(last, &one);
	pthread_attr_setaffinity_np(other, sizeof(one), &one);
	CPU_ZERO(&one);
	CPU_SET(first, &one);
	return sched_setaffinity(0, sizeof(one), &one) == 0;
}

struct pair {
	_Alignas(64) _Atomic uint64_t there;
	_Alignas(64) _Atomic uint64_t back;
	_Atomic bool stop;
	_Alignas(64) struct one_wqe ring[1u << RING_LOG2];
};

/* With a partner thread on another processor, `loop` there. */
static void
with_partner(struct gbench_state *state, void *(*loop)(void *),
	     void (*here)(struct gbench_state *, struct pair *))
{
	struct pair *pair = aligned_alloc(64, sizeof(*pair));
	pthread_attr_t attr;
	cpu_set_t before;
	pthread_t thread;

	memset(pair, 0, sizeof(*pair));
	if (!two_processors(&attr, &before)) {
		gbench_skip(state, "two processors are needed");
		free(pair);
		return;
	}
	if (pthread_create(&thread, &attr, loop, pair) == 0) {
		here(state, pair);
		atomic_store(&pair->stop, true);
		pthread_join(thread, NULL);
	} else {
		gbench_skip(state, "no second thread");
	}
	pthread_attr_destroy(&attr);
	sched_setaffinity(0, sizeof(before), &before);
	free(pair);
}

/* ---- a cache line there and back ---- */

static void *
answer(void *argument)
{
	struct pair *pair = argument;
	uint64_t seen = 0;

	while (!atomic_load_explicit(&pair->stop, memory_order_relaxed)) {
		/* Pairs with the store in ask; and the store with the load there. */
		uint64_t now = atomic_load_explicit(&pair->there, memory_order_acquire);

		if (now == seen)
			continue;
		seen = now;
		atomic_store_explicit(&pair->back, now, memory_order_release);
	}
	return NULL;
}

static void
ask(struct gbench_state *state, struct pair *pair)
{
	uint64_t i = 0;

	while (gbench_running(state)) {
		i++;
		atomic_store_explicit(&pair->there, i, memory_order_release);
		while (atomic_load_explicit(&pair->back, memory_order_acquire) != i)
			;
	}
}

static void
hop(struct gbench_state *state, void *user)
{
	with_partner(state, answer, ask);
}

/* ---- a stream of slots ---- */

/* Takes each slot as the engine does, and tells its progress once in a while, as completions do. */
static void *
consume(void *argument)
{
	struct pair *pair = argument;
	struct one_wqe copy;
	uint32_t index = 0;

	while (!atomic_load_explicit(&pair->stop, memory_order_relaxed)) {
		struct one_wqe *slot = &pair->ring[one_ring_slot(index, RING_LOG2)];

		/* Pairs with the release store in produce. */
		if (atomic_load_explicit(&slot->phase, memory_order_acquire) !=
		    one_ring_phase(index, RING_LOG2))
			continue;
		memcpy(&copy, slot, sizeof(copy));
		gbench_use(&copy);
		if (++index % RING_TELL == 0)
			/* Pairs with the acquire load in produce. */
			atomic_store_explicit(&pair->back, index, memory_order_release);
	}
	return NULL;
}

static void
produce(struct gbench_state *state, struct pair *pair)
{
	uint32_t index = 0, taken = 0;

	while (gbench_running(state)) {
		struct one_wqe *slot = &pair->ring[one_ring_slot(index, RING_LOG2)];

		while (index - taken > (1u << RING_LOG2) - RING_TELL)
			taken = (uint32_t)atomic_load_explicit(&pair->back, memory_order_acquire);
		slot->op = ONE_OP_WRITE;
		slot->length = 8;
		slot->cookie = index;
		atomic_store_explicit(&slot->phase, one_ring_phase(index, RING_LOG2), memory_order_release);
		index++;
	}
	gbench_set_items(state, gbench_iterations(state));
}

static void
ring_stream(struct gbench_state *state, void *user)
{
	with_partner(state, consume, produce);
}

void
micro_ring(void)
{
	gbench_register("work_ring", work_ring, NULL, NULL, 0);
	gbench_register("hop", hop, NULL, NULL, 0);
	gbench_register("ring_stream", ring_stream, NULL, NULL, 0);
}
