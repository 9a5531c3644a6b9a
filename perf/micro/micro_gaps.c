/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Microbenchmark: how often a processor is taken away from a thread.
 *
 * Two threads, each on its own processor, read the clock continuously. If a reading is late by GAP_NS, a
 * tick, an interrupt or the hypervisor had the processor. A round of another benchmark that needs both
 * processors is delayed by each gap, so the share of its late rounds cannot be less than the gaps counted
 * here.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "micro.h"

enum { GAP_NS = 6000 }; /* with a typical round of 3 us, a gap makes a round of three times that */

struct watch {
	_Atomic bool stop;
	uint64_t gaps;
};

static inline uint64_t
look(uint64_t *gaps, uint64_t before)
{
	uint64_t now = now_ns();

	*gaps += now - before > GAP_NS;
	return now;
}

static void *
watch_there(void *argument)
{
	struct watch *w = argument;
	uint64_t at = now_ns(), gaps = 0;

	/* Pairs with the store in gaps(). Relaxed: no data is handed over. */
	while (!atomic_load_explicit(&w->stop, memory_order_relaxed))
		at = look(&gaps, at);
	w->gaps = gaps;
	return NULL;
}

static void
gaps(struct gbench_state *state, void *user)
{
	struct watch there = {.stop = false};
	uint64_t begun, at, here = 0;
	pthread_attr_t attr;
	pthread_t thread;
	cpu_set_t before;

	if (!micro_two_processors(&attr, &before, false)) {
		gbench_skip(state, "two processors are needed");
		return;
	}
	if (pthread_create(&thread, &attr, watch_there, &there) == 0) {
		begun = at = now_ns();
		while (gbench_running(state))
			at = look(&here, at);
		/* Pairs with the load in watch_there(). */
		atomic_store_explicit(&there.stop, true, memory_order_relaxed);
		pthread_join(thread, NULL);
		gbench_set_counter(state, "over_6us_per_second",
				   (double)(here + there.gaps) * 1e9 / (double)(at - begun));
	} else {
		gbench_skip(state, "no second thread");
	}
	pthread_attr_destroy(&attr);
	sched_setaffinity(0, sizeof(before), &before);
}

void
micro_gaps(void)
{
	gbench_register("gaps", gaps, NULL, NULL, 0);
}
