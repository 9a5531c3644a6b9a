/* SPDX-License-Identifier: BSD-3-Clause */
/* The long way of lock.h. */
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "lock.h"

#define SPINS 100
#define INSIDE_NS 20000 /* the owner inside has lost its processor: look again after that */

_Thread_local char lock_thread __attribute__((aligned(LOCK_OWNERS)));

static void
relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

static void
contend(struct lock *lock)
{
	for (int i = 0; i < SPINS; i++) {
		uint32_t vacant = 0;

		if (atomic_load_explicit(&lock->word, memory_order_relaxed) == 0 &&
		    atomic_compare_exchange_strong_explicit(&lock->word, &vacant, 1, memory_order_acquire,
							    memory_order_relaxed))
			return;
		relax();
	}
	/* Taken as 2: there may be other sleepers, and giving it back wakes one of them. */
	while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
		syscall(SYS_futex, &lock->word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

/* Whether locks may have owners: the kernel knows this barrier, and ThreadSanitizer is not watching, which
 * does not. */
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
	static _Atomic int known; /* 1: yes, -1: no; whoever asks twice gets the same answer */
	int answer = atomic_load_explicit(&known, memory_order_relaxed);

	if (answer == 0) {
		answer = syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0 ? 1
												       : -1;
		atomic_store_explicit(&known, answer, memory_order_relaxed);
	}
	return answer > 0;
#endif
}

/* Takes the ownership from another thread, and waits until that one is outside. */
static void
dispossess(struct lock *lock, uintptr_t owner)
{
	const struct timespec pause = {.tv_nsec = INSIDE_NS};
	_Atomic uint8_t *inside = &lock->inside[owner % LOCK_OWNERS];

	atomic_store_explicit(&lock->owner, 0, memory_order_relaxed);
	/* A full fence here and on every thread: see lock_take. */
	syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
	/* Pairs with the release stores in lock_take and lock_drop. */
	for (int i = 0; atomic_load_explicit(inside, memory_order_acquire) != 0; i++) {
		if (i < SPINS)
			relax();
		else
			nanosleep(&pause, NULL);
	}
}

void
lock_take_word(struct lock *lock)
{
	uintptr_t owner;
	uint32_t vacant = 0;

	/* Acquire pairs with the release in lock_drop_word. */
	if (!atomic_compare_exchange_strong_explicit(&lock->word, &vacant, 1, memory_order_acquire,
						     memory_order_relaxed))
		contend(lock);
	owner = atomic_load_explicit(&lock->owner, memory_order_relaxed);
	if (owner != 0)
		dispossess(lock, owner);
	if (lock->owners < LOCK_OWNERS && barriers_work()) {
		atomic_store_explicit(&lock->owner, lock_self() + lock->owners, memory_order_relaxed);
		lock->owners++;
	}
}

void
lock_drop_word(struct lock *lock)
{
	/* Release pairs with the acquire in lock_take_word and contend. */
	if (__builtin_expect(atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2, 0))
		syscall(SYS_futex, &lock->word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
