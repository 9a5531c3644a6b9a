/* SPDX-License-Identifier: BSD-3-Clause */
/* Clock of the control thread, and of all times compared with it. A polling core has its own clock
 * (loop_clock), which counts cycles and leaves out the time that its processor spent on other threads. */
#ifndef DATAPLANE_COMPAT_CLOCK_H
#define DATAPLANE_COMPAT_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC, ns. */
static inline uint64_t
clock_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* Processor time of the calling thread, ns. Costs a system call. */
static inline uint64_t
clock_thread(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#endif
