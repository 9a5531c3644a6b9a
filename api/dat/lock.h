/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A lock that costs a thread that has it mostly to itself two plain stores and no
 * locked instruction: those wait until everything stored before has left the
 * processor, and what is posted goes to cache lines that another processor has.
 *
 * The first thread that takes a lock becomes its owner and takes it the short way
 * from then on: it says that it is inside, and looks whether it still is the
 * owner.  Any other thread takes the word, as of any futex lock, and then takes
 * the ownership away: all threads of the process pass a barrier (membarrier(2)),
 * after which the owner has either seen that or is seen to be inside.  A lock
 * that changes hands often has no owner any more, and is a futex lock.
 */
#ifndef DAT_LOCK_H
#define DAT_LOCK_H

#include <stdatomic.h>
#include <stdint.h>

struct lock {
	_Atomic uintptr_t owner;  /* a thread; 0: none.  Changed by who has the word. */
	_Atomic uintptr_t inside; /* that thread, while it has the lock by the short way */
	_Atomic uint32_t word;    /* 0 free, 1 taken, 2 taken and somebody may sleep */
	uint32_t changes;         /* of the owner; of who has the word */
};

extern _Thread_local char lock_thread __attribute__((tls_model("initial-exec")));

void lock_take_word(struct lock *lock);
void lock_drop_word(struct lock *lock);

static inline uintptr_t
lock_self(void)
{
	return (uintptr_t)&lock_thread;
}

static inline void
lock_take(struct lock *lock)
{
	if (__builtin_expect(atomic_load_explicit(&lock->owner, memory_order_relaxed) == lock_self(), 1)) {
		atomic_store_explicit(&lock->inside, lock_self(), memory_order_relaxed);
		/* Together with the membarrier in lock_take_word a full fence between the two. */
		atomic_signal_fence(memory_order_seq_cst);
		if (__builtin_expect(atomic_load_explicit(&lock->owner, memory_order_relaxed) == lock_self(),
				     1))
			return;
		/* Pairs with the acquire load in lock_take_word. */
		atomic_store_explicit(&lock->inside, 0, memory_order_release);
	}
	lock_take_word(lock);
}

static inline void
lock_drop(struct lock *lock)
{
	if (__builtin_expect(atomic_load_explicit(&lock->inside, memory_order_relaxed) == lock_self(), 1))
		/* Pairs with the acquire load in lock_take_word. */
		atomic_store_explicit(&lock->inside, 0, memory_order_release);
	else
		lock_drop_word(lock);
}

#endif
