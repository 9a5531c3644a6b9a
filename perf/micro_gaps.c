/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Microbenchmark: how often a processor does something else for a while.
 *
 * Two threads, each on a processor of its own, look at the clock again and again.
 * Where the next look is late by GAP_NS, a tick, an interrupt or the hypervisor had
 * the processor meanwhile; whatever needs both processors for a round waits for that,
 * too.  So the share of rounds that is late cannot be less than what is counted here.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "micro.h"

enum { GAP_NS = 6000 }; /* with a typical round of 3 us: three times typical */

struct watch {
	pthread_t thread;
	int processor;
	_Atomic bool *stop;
	_Atomic bool ready;
	bool lost; /* it could not be where it should */
	uint64_t gaps;
};

static void
take_place(struct watch *w)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(w->processor, &one);
	w->lost = sched_setaffinity(0, sizeof(one), &one) != 0;
	/* Pairs with the acquire load in gaps(). */
	atomic_store_explicit(&w->ready, true, memory_order_release);
}

static inline uint64_t
look(struct watch *w, uint64_t before)
{
	uint64_t now = now_ns();

	w->gaps += now - before > GAP_NS;
	return now;
}

static void *
watch_on(void *argument)
{
	struct watch *w = argument;
	uint64_t at;

	take_place(w);
	at = now_ns();
	/* Pairs with the store in gaps(); nothing else is handed over by it. */
	while (!atomic_load_explicit(w->stop, memory_order_relaxed))
		at = look(w, at);
	return NULL;
}

static bool
choose_two(const cpu_set_t *allowed, struct watch *here, struct watch *there)
{
	int found = 0;

	for (int i = 0; i < CPU_SETSIZE; i++) {
		if (!CPU_ISSET(i, allowed))
			continue;
		if (found++ == 0)
			here->processor = i;
		there->processor = i;
	}
	return found >= 2;
}

static void
gaps(struct gbench_state *state, void *user)
{
	_Atomic bool stop = false;
	struct watch here = {.stop = &stop}, there = {.stop = &stop};
	uint64_t begun, at;
	cpu_set_t before;

	if (sched_getaffinity(0, sizeof(before), &before) != 0 || !choose_two(&before, &here, &there)) {
		gbench_skip(state, "two processors are needed");
		return;
	}
	if (pthread_create(&there.thread, NULL, watch_on, &there) != 0) {
		gbench_skip(state, "no second thread");
		return;
	}
	take_place(&here);
	/* Pairs with the store in take_place. */
	while (!atomic_load_explicit(&there.ready, memory_order_acquire))
		sched_yield();
	begun = at = now_ns();
	while (gbench_running(state))
		at = look(&here, at);
	atomic_store_explicit(&stop, true, memory_order_relaxed);
	pthread_join(there.thread, NULL);
	gbench_set_counter(state, "over_6us_per_second",
			   (double)(here.gaps + there.gaps) * 1e9 / (double)(at - begun));
	if (here.lost || there.lost)
		gbench_skip(state, "a processor cannot be had");
	sched_setaffinity(0, sizeof(before), &before);
}

void
micro_gaps(void)
{
	gbench_register("gaps", gaps, NULL, NULL, 0);
}
