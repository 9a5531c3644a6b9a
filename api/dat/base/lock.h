/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A lock that costs a thread that has it mostly to itself two plain stores and no
 * locked instruction: those wait until everything stored before has left the
 * processor, and what is posted goes to cache lines that another processor has.
 *
 * The first thread that takes a lock becomes its owner and takes it the short way
 * from then on: it says that it is inside, and looks whether it still is the
 * owner.  Any other thread takes the word, as of any futex lock, and then takes
 * the ownership away: all threads of the process pass a barrier (membarrier(2);
 * where that is refused later, time), after which the owner has either seen that or
 * is seen to be inside.  Where it is refused from the beginning there is no owner.  A lock
 * that changes hands often has no owner any more, and is a futex lock.
 *
 * Each of the few owners that a lock may have says in a place of its own that it
 * is inside: one that was stopped on its way in, and comes to itself when it has
 * long been no owner any more, says so and takes it back where nobody looks.
 */
#ifndef DAT_LOCK_H
#define DAT_LOCK_H

#include <stdatomic.h>
#include <stdint.h>

#define LOCK_SETTLE_NS 20000000 /* instead of a barrier that is refused; two ticks of the slowest kernel */
#define LOCK_OWNERS 4u /* a lock is made by one thread and used by another: more than that is sharing */

struct lock {
	_Atomic uintptr_t
		owner; /* a thread and the number of its place; 0: none.  Changed by who has the word. */
	_Atomic uint32_t word; /* 0 free, 1 taken, 2 taken and somebody may sleep */
	_Atomic uint8_t
		inside[LOCK_OWNERS]; /* that owner has the lock by the short way, or looks whether it may */
	uint8_t place;               /* of who has the lock: its place + 1, 0 by the word */
	uint8_t owners;              /* there have been so far; of who has the word */
};

/* Its address is the thread, and leaves room for the number of a place. */
extern _Thread_local char lock_thread __attribute__((tls_model("initial-exec"), aligned(LOCK_OWNERS)));

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
	uintptr_t owner = atomic_load_explicit(&lock->owner, memory_order_relaxed);
	uintptr_t place = owner - lock_self();

	if (__builtin_expect(place < LOCK_OWNERS, 1)) {
		atomic_store_explicit(&lock->inside[place], 1, memory_order_relaxed);
		/* Together with barrier() in dispossess a full fence between the two. */
		atomic_signal_fence(memory_order_seq_cst);
		if (__builtin_expect(atomic_load_explicit(&lock->owner, memory_order_relaxed) == owner, 1)) {
			lock->place = (uint8_t)(place + 1);
			return;
		}
		/* Pairs with the acquire load in dispossess. */
		atomic_store_explicit(&lock->inside[place], 0, memory_order_release);
	}
	lock_take_word(lock);
}

static inline void
lock_drop(struct lock *lock)
{
	uint8_t place = lock->place;

	if (__builtin_expect(place != 0, 1)) {
		lock->place = 0;
		/* Pairs with the acquire load in dispossess. */
		atomic_store_explicit(&lock->inside[place - 1], 0, memory_order_release);
	} else {
		lock_drop_word(lock);
	}
}

#endif
