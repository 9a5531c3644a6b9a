/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A lock of four bytes: one exchange to take, one to give back, no system call
 * unless contended.  A contender spins briefly, then sleeps on the word.
 */
#ifndef DAT_LOCK_H
#define DAT_LOCK_H

#include <stdatomic.h>
#include <stdint.h>

struct lock {
	_Atomic uint32_t word; /* 0 free, 1 taken, 2 taken and somebody may sleep */
};

void lock_contend(struct lock *lock);
void lock_hand_over(struct lock *lock);

static inline void
lock_take(struct lock *lock)
{
	uint32_t vacant = 0;

	/* Acquire pairs with the release in lock_drop. */
	if (__builtin_expect(!atomic_compare_exchange_strong_explicit(
				     &lock->word, &vacant, 1, memory_order_acquire, memory_order_relaxed),
			     0))
		lock_contend(lock);
}

static inline void
lock_drop(struct lock *lock)
{
	/* Release pairs with the acquire in lock_take and lock_contend. */
	if (__builtin_expect(atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2, 0))
		lock_hand_over(lock);
}

#endif
