/* SPDX-License-Identifier: BSD-3-Clause */
/* Slow path of the biased lock: the futex word, and the revocation of the owner.  See lock.h. */
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "client/lock.h"
#include "client/wait.h"

#define SPINS 100
#define INSIDE_NS 20000 /* poll interval for an owner that was preempted inside */

_Thread_local char lock_thread __attribute__((aligned(LOCK_OWNERS)));

/* The acquires pair with the release in lock_drop_word.  The load in the loop is only a hint for the
 * exchange. */
static void
wait_for_word(struct lock *lock)
{
	for (int i = 0; i < SPINS; i++) {
		uint32_t vacant = 0;

		if (atomic_load_explicit(&lock->word, memory_order_relaxed) == 0 &&
		    atomic_compare_exchange_strong_explicit(&lock->word, &vacant, 1, memory_order_acquire,
							    memory_order_relaxed))
			return;
		one_cpu_relax();
	}
	/* Take the word as 2: other threads may sleep, and lock_drop_word must wake one of them. */
	while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
		syscall(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

/* Whether locks may have owners: 1 yes, -1 no, 0 unknown.  Stays -1 once it is -1, see fence_all_threads().
 * Relaxed throughout: the value publishes nothing, and a stale 1 costs one more barrier. */
static _Atomic int barriers;

/* True if the kernel supports expedited membarrier(2).  False under ThreadSanitizer, which does not model it.
 */
static bool
barriers_work(void)
{
#if defined(__SANITIZE_THREAD__)
	return false;
#else
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
	return false;
#endif
#endif
	int answer = atomic_load_explicit(&barriers, memory_order_relaxed);

	if (answer == 0) {
		int registered = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0
					 ? 1
					 : -1;

		/* On failure `answer` holds the result of another thread. */
		if (atomic_compare_exchange_strong_explicit(&barriers, &answer, registered,
							    memory_order_relaxed, memory_order_relaxed))
			answer = registered;
	}
	return answer > 0;
#endif
}

/* Executes a full fence on every thread of the process, between earlier stores and later loads.  A program
 * may have installed a system call filter (seccomp) after its locks got owners.  Then membarrier fails, and
 * only time orders the threads that execute no fence: a store leaves the store buffer within microseconds,
 * and at the latest at the next interrupt, which the kernel's tick brings within 10 ms.  From then on no lock
 * gets an owner, so each lock waits once. */
static void
fence_all_threads(void)
{
	const struct timespec pause = {.tv_nsec = LOCK_SETTLE_NS};
	uint64_t until;

	if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0)
		return;
	atomic_store_explicit(&barriers, -1, memory_order_relaxed);
	/* Pair with the owner's store and load in lock_take; the wait replaces the owner's fence between
	 * them. */
	atomic_thread_fence(memory_order_seq_cst);
	for (until = one_now_ns() + LOCK_SETTLE_NS; one_now_ns() < until;)
		nanosleep(&pause, NULL);
	atomic_thread_fence(memory_order_seq_cst);
}

/* Ends the ownership of another thread, and waits until that thread has left the lock.  The word is held. */
static void
revoke_owner(struct lock *lock, uintptr_t owner)
{
	const struct timespec pause = {.tv_nsec = INSIDE_NS};
	_Atomic uint8_t *inside = &lock->inside[owner % LOCK_OWNERS];

	/* Pairs with the second load of `owner` in lock_take; fence_all_threads() orders them. */
	atomic_store_explicit(&lock->owner, 0, memory_order_relaxed);
	fence_all_threads();
	/* Pairs with the release stores in lock_take and lock_drop. */
	for (int i = 0; atomic_load_explicit(inside, memory_order_acquire) != 0; i++) {
		if (i < SPINS)
			one_cpu_relax();
		else
			nanosleep(&pause, NULL);
	}
}

void
lock_take_word(struct lock *lock)
{
	uintptr_t owner;
	uint32_t vacant = 0;

	/* Pairs with the release in lock_drop_word. */
	if (!atomic_compare_exchange_strong_explicit(&lock->word, &vacant, 1, memory_order_acquire,
						     memory_order_relaxed))
		wait_for_word(lock);
	/* Relaxed: `owner` is stored only under the word, which is held. */
	owner = atomic_load_explicit(&lock->owner, memory_order_relaxed);
	if (owner != 0)
		revoke_owner(lock, owner);
	if (lock->owners < LOCK_OWNERS && barriers_work()) {
		/* Relaxed: without the word only this thread acts on the value, in lock_take. */
		atomic_store_explicit(&lock->owner, lock_self() + lock->owners, memory_order_relaxed);
		lock->owners++;
	}
}

void
lock_drop_word(struct lock *lock)
{
	/* Pairs with the acquires in lock_take_word and wait_for_word. */
	if (__builtin_expect(atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2, 0))
		syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
