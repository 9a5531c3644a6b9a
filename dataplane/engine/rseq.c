/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Restartable sequences are not used here, but glibc registers each thread for them, and the kernel writes to
 * the thread's area whenever the thread has been off its processor. Where threads share a processor, that is
 * a tenth of the cost of a switch.
 */
#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "dataplane/engine.h"

enum { AREA_LEN = 32 }; /* as registered with the kernel: the length of the first version */

/* Unregisters the calling thread. A failure, for example without a registration or with a longer area,
 * changes nothing. */
void
engine_leave_rseq(void)
{
	syscall(SYS_rseq, (char *)__builtin_thread_pointer() + __rseq_offset, AREA_LEN, RSEQ_FLAG_UNREGISTER,
		RSEQ_SIG);
}
