/* SPDX-License-Identifier: BSD-3-Clause */
/* lock.h: one thread inside at a time, whoever owns the lock and however often that changes. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "client/lock.h"

#define OTHERS 3

struct shared {
	struct lock lock;
	uint64_t a, b; /* equal, whenever no thread holds the lock */
	uint64_t torn;
	uint32_t rounds, every;
};

static void
inside(struct shared *s)
{
	lock_take(&s->lock);
	/* Not atomic, and apart: two threads inside at once lose counts, or see the counts differ. */
	s->torn += s->a != s->b;
	s->a++;
	atomic_signal_fence(memory_order_seq_cst);
	s->b++;
	lock_drop(&s->lock);
}

static void *
other(void *argument)
{
	struct shared *s = argument;

	for (uint32_t i = 0; i < s->rounds; i++) {
		inside(s);
		if (i % s->every == 0)
			sched_yield();
	}
	return NULL;
}

static void
run(uint32_t mine, uint32_t theirs)
{
	struct shared s = {.rounds = theirs, .every = 16};
	pthread_t thread[OTHERS];

	inside(&s); /* this thread is the first owner */
	for (int i = 0; i < OTHERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, other, &s), 0);
	for (uint32_t i = 0; i < mine; i++)
		inside(&s);
	for (int i = 0; i < OTHERS; i++)
		assert_int_equal(pthread_join(thread[i], NULL), 0);
	assert_int_equal(s.torn, 0);
	assert_int_equal(s.a, 1 + mine + OTHERS * theirs);
	assert_int_equal(s.b, s.a);
}

/* Many short contentions: the ownership of new locks is revoked again and again. */
static void
test_owner_changes(void **state)
{
	for (int i = 0; i < 300; i++)
		run(2000, 3);
}

static void
test_contended(void **state)
{
	run(100000, 100000);
}

static void
test_one_owner(void **state)
{
	struct lock lock = {.word = 0};
	uintptr_t owner;

	lock_take(&lock);
	lock_drop(&lock);
	owner = atomic_load(&lock.owner);
	if (owner == 0)
		skip(); /* no membarrier(), or ThreadSanitizer: no lock has an owner */
	assert_int_equal(owner, lock_self());
	lock_take(&lock);
	assert_int_equal(atomic_load(&lock.inside[0]), 1);
	assert_int_equal(atomic_load(&lock.word), 0);
	lock_drop(&lock);
	assert_int_equal(atomic_load(&lock.inside[0]), 0);
}

static void *
takes_once(void *argument)
{
	struct lock *lock = argument;

	lock_take(lock);
	lock_drop(lock);
	return NULL;
}

/* A thread that takes the lock from its owner waits until the owner has dropped the lock. */
static void
test_owner_is_waited_for(void **state)
{
	struct lock lock = {.word = 0};
	pthread_t thread;

	lock_take(&lock);
	lock_drop(&lock);
	lock_take(&lock);
	assert_int_equal(pthread_create(&thread, NULL, takes_once, &lock), 0);
	for (int i = 0; i < 100; i++)
		sched_yield();
	assert_int_equal(pthread_tryjoin_np(thread, NULL), EBUSY);
	lock_drop(&lock);
	assert_int_equal(pthread_join(thread, NULL), 0);
	/* After that, this thread can take the lock again: it has another owner, or none. */
	lock_take(&lock);
	lock_drop(&lock);
}

/* An owner that was stopped in lock_take() after it had seen itself as the owner, and that continues while
 * the next owner holds the lock. The test plays the steps by hand. */
static void *
comes_late(void *argument)
{
	struct lock *lock = argument;

	/* The rest of lock_take() for the first owner. */
	atomic_store(&lock->inside[0], 1);
	if (atomic_load(&lock->owner) == lock_self())
		return NULL;
	atomic_store(&lock->inside[0], 0);
	return argument;
}

static void
test_late_owner(void **state)
{
	struct lock lock = {.word = 0};
	pthread_t thread;
	void *turned_away;

	assert_int_equal(pthread_create(&thread, NULL, takes_once, &lock), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	lock_take(&lock); /* becomes the second owner */
	lock_drop(&lock);
	if (atomic_load(&lock.owner) == 0)
		skip();
	lock_take(&lock);
	assert_int_equal(pthread_create(&thread, NULL, comes_late, &lock), 0);
	assert_int_equal(pthread_join(thread, &turned_away), 0);
	assert_non_null(turned_away);
	/* A third thread still waits for the second owner. */
	assert_int_equal(pthread_create(&thread, NULL, takes_once, &lock), 0);
	for (int i = 0; i < 100; i++)
		sched_yield();
	assert_int_equal(pthread_tryjoin_np(thread, NULL), EBUSY);
	lock_drop(&lock);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(lock.word, 0);
}

static void
refuse_membarrier(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		_exit(1);
}

static uint64_t
now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Runs in a child, since a seccomp filter stays; returns the child's status. */
static int
in_child(void (*program)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		program();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static struct lock owned;

static void *
takes_and_looks(void *argument)
{
	uint64_t start = now_ns();

	lock_take(&owned);
	/* The owner may have been in lock_take(): nobody may enter before the owner's stores must be
	 * visible. */
	if (now_ns() - start < LOCK_SETTLE_NS)
		_exit(2);
	lock_drop(&owned);
	return NULL;
}

static void
refused_later(void)
{
	struct lock lock = {.word = 0};
	pthread_t thread;

	lock_take(&owned);
	lock_drop(&owned);
	if (atomic_load(&owned.owner) == 0)
		_exit(77);
	refuse_membarrier();
	if (pthread_create(&thread, NULL, takes_and_looks, NULL) != 0 || pthread_join(thread, NULL) != 0)
		_exit(3);
	/* The lock has no owner any more, and new locks get none. */
	lock_take(&lock);
	lock_drop(&lock);
	if (atomic_load(&owned.owner) != 0 || atomic_load(&lock.owner) != 0)
		_exit(4);
	run(20000, 20000);
}

static void
refused_at_once(void)
{
	struct lock lock = {.word = 0};

	refuse_membarrier();
	lock_take(&lock);
	lock_drop(&lock);
	if (atomic_load(&lock.owner) != 0)
		_exit(2);
	run(20000, 20000);
}

/* Must be the first test: whether locks have owners is decided once for the process. */
static void
test_refused(void **state)
{
	int status = in_child(refused_later);

	assert_int_equal(in_child(refused_at_once), 0);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_one_owner),
		cmocka_unit_test(test_owner_is_waited_for),
		cmocka_unit_test(test_late_owner),
		cmocka_unit_test(test_owner_changes),
		cmocka_unit_test(test_contended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
