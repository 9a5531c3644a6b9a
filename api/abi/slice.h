/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Time slice of threads that busy-poll and yield. On Linux 6.18 a thread that yields forfeits the rest of its
 * slice (1.4 ms and more); next to a thread that does not yield, it gets the processor back after some ticks.
 * A thread with a shorter slice has the same share of the processor in shorter turns, and preempts threads
 * with longer slices when it wakes (sched_setattr(2)). Of two threads that yield to each other both need it:
 * the one with the longer slice would wait for many turns of the other.
 */
#ifndef ONE_SLICE_H
#define ONE_SLICE_H

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ONE_SLICE_NS 100000u /* the kernel's minimum */

/* The first version of the kernel's struct sched_attr, whose header conflicts with <sched.h> of glibc
 * before 2.41. */
struct one_sched_attr {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};

/* Shortens the calling thread's slice unless it has a policy of its own (chrt). Kernels before 6.12 ignore
 * the slice; if a system call filter refuses, the thread keeps its slice. Leaves errno as it was. */
static inline void
one_slice_shorten(void)
{
	struct one_sched_attr attr = {.size = sizeof(attr)};
	int error = errno;

	if (syscall(SYS_sched_getattr, 0, &attr, sizeof(attr), 0) == 0 && attr.policy == SCHED_OTHER) {
		attr.runtime = ONE_SLICE_NS;
		(void)syscall(SYS_sched_setattr, 0, &attr, 0);
	}
	errno = error;
}

#endif
