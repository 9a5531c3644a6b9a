/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Yields the processor after empty polls.
 *
 * Programs for RNICs busy-poll, since an RNIC works without the processor.  Here a polling core of the data
 * plane does the work.  If the core shares its processor with the program, each empty poll delays that work.
 * So a thread calls sched_yield() after LOOKS_BETWEEN empty polls.  The duration of the call shows whether
 * other threads want the processor; as long as they do, the thread yields after each empty poll.
 */
#include <sched.h>

#include "client/wait.h"
#include "verbs/cq.h"

#define LOOKS_BETWEEN 512u /* empty polls; some microseconds, if no other thread wants the processor */
/*
 * Upper bound of the least duration.  A sched_yield() that returns at once takes less.  If another thread
 * always wants the processor, no call returns at once, and the bound is used instead: it must be less than a
 * third of two context switches, which take 1.3 us each or more.
 */
#define LEAST_NS_MAX 400u

static _Thread_local struct {
	uint32_t looks; /* empty polls since the last sched_yield() */
	bool shared;
	uint64_t least; /* shortest sched_yield() so far, ns; 0: not measured */
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
