/* SPDX-License-Identifier: BSD-3-Clause */
/* The contended branches of lock.h. */
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lock.h"

#define SPINS 100

void
lock_contend(struct lock *lock)
{
	for (int i = 0; i < SPINS; i++) {
		uint32_t vacant = 0;

		if (atomic_load_explicit(&lock->word, memory_order_relaxed) == 0 &&
		    atomic_compare_exchange_strong_explicit(&lock->word, &vacant, 1, memory_order_acquire,
							    memory_order_relaxed))
			return;
#if defined(__x86_64__)
		__builtin_ia32_pause();
#endif
	}
	/* Taken as 2: there may be other sleepers, and giving it back wakes one of them. */
	while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
		syscall(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

void
lock_hand_over(struct lock *lock)
{
	syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
