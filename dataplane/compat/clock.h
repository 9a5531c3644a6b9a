/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The clock of the control thread and of all that is compared with it.  Cores have their own, which counts
 * cycles and leaves out what others did on their processor (loop_clock).
 */
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

/* The processor time of the calling thread, ns: a system call. */
static inline uint64_t
clock_thread(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

#endif
