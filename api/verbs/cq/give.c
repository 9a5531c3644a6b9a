/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Programs for RNICs poll without end: what they wait for needs no processor.  Here a core of the data plane
 * does it, and where that shares the processor with the program, each look that finds nothing keeps it from
 * being done.  So now and then a thread that finds nothing gives its processor away, and learns from how long
 * that took whether others want it: while they do, it gives it away each time.
 */
#include <sched.h>

#include "client/wait.h"
#include "verbs/cq/cq.h"

#define LOOKS_BETWEEN 512u /* some microseconds, where no other thread wants the processor */
/*
 * A sched_yield() that returns at once takes less.  Where another thread always wants the processor none ever
 * does, and what passes for it has to be less than a third of two changes of threads, 1.3 us each or more.
 */
#define LEAST_NS_MAX 400u

static _Thread_local struct {
	uint32_t looks; /* since it was given away */
	bool shared;
	uint64_t least; /* of a sched_yield(), ns; 0: not known */
} mine;

void
give_away(void)
{
	uint64_t before, took;

	if (!mine.shared && ++mine.looks < LOOKS_BETWEEN)
		return;
	mine.looks = 0;
	before = one_now_ns();
	sched_yield();
	took = one_now_ns() - before;
	if (mine.least == 0 || took < mine.least)
		mine.least = took < LEAST_NS_MAX ? took : LEAST_NS_MAX;
	mine.shared = took > 3 * mine.least;
}
