/* SPDX-License-Identifier: BSD-3-Clause */
/* Microbenchmarks: communication between two processors. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_cycles.h>

#include "abi/ring.h"
#include "micro.h"
#include "perf/lib/report.h"

enum { RING_LOG2 = 10, RING_TELL = 16, SILENCE_NS = 20000000 };

void
micro_report(struct gbench_state *state, const struct histogram *h, double unit)
{
	static const struct {
		const char *name;
		double percent;
	} reported[] = {{"p50", 50}, {"p99", 99}, {"p99.9", 99.9}};

	for (size_t i = 0; i < sizeof(reported) / sizeof(reported[0]); i++)
		gbench_set_counter(state, reported[i].name,
				   unit * (double)histogram_percentile(h, reported[i].percent));
}

bool
micro_two_processors(pthread_attr_t *other, cpu_set_t *before, bool beside)
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
	CPU_SET(beside ? first : last, &one);
	pthread_attr_setaffinity_np(other, sizeof(one), &one);
	CPU_ZERO(&one);
	CPU_SET(first, &one);
	return sched_setaffinity(0, sizeof(one), &one) == 0;
}

struct pair {
	_Alignas(64) _Atomic uint64_t there;
	_Alignas(64) _Atomic uint64_t back;
	_Atomic bool stop;
	int wake_fd;
	_Alignas(64) struct one_wqe ring[1u << RING_LOG2];
};

/* Runs `here` with a partner thread that runs `loop`, on another processor, or with `beside` on the same. */
static void
with_thread(struct gbench_state *state, void *(*loop)(void *),
	    void (*here)(struct gbench_state *, struct pair *), bool beside)
{
	struct pair *pair = aligned_alloc(64, sizeof(*pair));
	pthread_attr_t attr;
	cpu_set_t before;
	pthread_t thread;

	memset(pair, 0, sizeof(*pair));
	pair->wake_fd = eventfd(0, EFD_CLOEXEC);
	if (!micro_two_processors(&attr, &before, beside)) {
		gbench_skip(state, "two processors are needed");
		close(pair->wake_fd);
		free(pair);
		return;
	}
	if (pthread_create(&thread, &attr, loop, pair) == 0) {
		here(state, pair);
		atomic_store(&pair->stop, true);
		eventfd_write(pair->wake_fd, 1);
		pthread_join(thread, NULL);
	} else {
		gbench_skip(state, "no second thread");
	}
	pthread_attr_destroy(&attr);
	sched_setaffinity(0, sizeof(before), &before);
	close(pair->wake_fd);
	free(pair);
}

static void
with_partner(struct gbench_state *state, void *(*loop)(void *),
	     void (*here)(struct gbench_state *, struct pair *))
{
	with_thread(state, loop, here, false);
}

/* ---- a cache line there and back ---- */

static void *
answer(void *argument)
{
	struct pair *pair = argument;
	uint64_t seen = 0;

	while (!atomic_load_explicit(&pair->stop, memory_order_relaxed)) {
		/* Pairs with the store in round_trip(), and the store below with the load there. */
		uint64_t now = atomic_load_explicit(&pair->there, memory_order_acquire);

		if (now == seen)
			continue;
		seen = now;
		atomic_store_explicit(&pair->back, now, memory_order_release);
	}
	return NULL;
}

static void
round_trip(void *partner, uint64_t i)
{
	struct pair *pair = partner;

	atomic_store_explicit(&pair->there, i, memory_order_release);
	while (atomic_load_explicit(&pair->back, memory_order_acquire) != i)
		;
}

static void
ask(struct gbench_state *state, struct pair *pair)
{
	micro_trips(state, round_trip, pair);
}

static void
hop(struct gbench_state *state, void *user)
{
	with_partner(state, answer, ask);
}

/* ---- one processor, yielded back and forth ---- */

static void *
give_back(void *argument)
{
	struct pair *pair = argument;

	while (!atomic_load_explicit(&pair->stop, memory_order_relaxed))
		sched_yield();
	return NULL;
}

static void
give(struct gbench_state *state, struct pair *pair)
{
	while (gbench_running(state))
		sched_yield();
}

static void
handover(struct gbench_state *state, void *user)
{
	with_thread(state, give_back, give, true);
}

/* ---- waking a thread that sleeps on the other processor ---- */

static void *
sleeper(void *argument)
{
	struct pair *pair = argument;
	uint64_t i = 0;
	eventfd_t value;

	while (!atomic_load_explicit(&pair->stop, memory_order_relaxed)) {
		eventfd_read(pair->wake_fd, &value);
		/* Pairs with the load in waker(). */
		atomic_store_explicit(&pair->back, ++i, memory_order_release);
	}
	return NULL;
}

static void
waker(struct gbench_state *state, struct pair *pair)
{
	static struct histogram ns;
	uint64_t i = 0;

	histogram_clear(&ns);
	while (gbench_running(state)) {
		uint64_t before = now_ns();

		/* Spins, because Google Benchmark measures a run's length in processor time. */
		while (now_ns() - before < SILENCE_NS)
			;
		before = now_ns();
		eventfd_write(pair->wake_fd, 1);
		i++;
		while (atomic_load_explicit(&pair->back, memory_order_acquire) != i)
			;
		histogram_add(&ns, now_ns() - before);
	}
	micro_report(state, &ns, 1);
}

static void
wake(struct gbench_state *state, void *user)
{
	with_partner(state, sleeper, waker);
}

/* ---- a stream of slots ---- */

/* Reads each slot as the engine does, and publishes progress every RING_TELL slots, as completions do. */
static void *
consume(void *argument)
{
	struct pair *pair = argument;
	struct one_wqe copy;
	uint32_t index = 0;

	while (!atomic_load_explicit(&pair->stop, memory_order_relaxed)) {
		struct one_wqe *slot = &pair->ring[one_ring_slot(index, RING_LOG2)];

		/* Pairs with the release store in produce(). */
		if (atomic_load_explicit(&slot->phase, memory_order_acquire) !=
		    one_ring_phase(index, RING_LOG2))
			continue;
		memcpy(&copy, slot, sizeof(copy));
		gbench_use(&copy);
		if (++index % RING_TELL == 0)
			/* Pairs with the acquire load in produce(). */
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
	gbench_register("hop", hop, NULL, NULL, 0);
	gbench_register("handover", handover, NULL, NULL, 0);
	gbench_register("wake", wake, NULL, NULL, 0);
	gbench_register("ring_stream", ring_stream, NULL, NULL, 0);
}
