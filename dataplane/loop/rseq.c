/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * glibc registers each thread for restartable sequences, of which nothing here makes use, and the kernel
 * writes to the thread's area whenever it has been off its processor.  Where threads take turns on one
 * that is a tenth of what a turn costs.
 */
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dataplane/engine.h"

enum { AREA_LEN = 32 }; /* as registered with the kernel: the length of the first version */

/* Where it cannot be, as without a registration or with a longer area, all goes on as it was. */
void
engine_leave_rseq(void)
{
	syscall(SYS_rseq, (char *)__builtin_thread_pointer() + __rseq_offset, AREA_LEN, RSEQ_FLAG_UNREGISTER,
		RSEQ_SIG);
}
