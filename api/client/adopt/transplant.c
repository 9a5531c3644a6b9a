/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "client/attach/copier.h"
#include "client/internal.h"
#include "keep.h"
#include "maps.h"
#include "raw.h"
#include "transplant.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif
/* Linux 6.4; unknown to older headers */
#define FEATURE_WP_UNPOPULATED (1u << 13)

/* Writers wait for the copy of one chunk at most. */
#define CHUNK (32ull << 20)
#define HUGE (2ull << 20)

/* How near to the range stack or thread control block must be for another thread to do the work. */
#define STACK_NEAR (64u * 1024u)
#define TCB_NEAR (16u * 1024u)
#define HELPER_STACK (2048u * 1024u) /* used by the page; sanitizers want much */

/* ---- protection ---- */

static int
uffd_new(int flags)
{
	long fd = raw_syscall(SYS_userfaultfd, O_CLOEXEC | flags, 0, 0, 0, 0);
	long dev;

	if (fd != -EPERM)
		return (int)fd;
	dev = raw_syscall(SYS_openat, AT_FDCWD, (long)"/dev/userfaultfd", O_RDWR | O_CLOEXEC, 0, 0);
	if (dev >= 0) {
		fd = raw_syscall(SYS_ioctl, dev, USERFAULTFD_IOC_NEW, O_CLOEXEC | flags, 0, 0);
		close((int)dev);
		if (fd >= 0)
			return (int)fd;
	}
	return (int)raw_syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY | flags, 0, 0, 0, 0);
}

/* A userfaultfd that can write-protect; `shmem`: shared pages too (Linux 5.19). */
static int
uffd_open(bool shmem)
{
	const uint64_t base =
		UFFD_FEATURE_PAGEFAULT_FLAG_WP | (shmem ? (uint64_t)UFFD_FEATURE_WP_HUGETLBFS_SHMEM : 0);
	/* Pages that vanish after they were populated (MADV_DONTNEED) are protected only with
	 * WP_UNPOPULATED. */
	const uint64_t wanted[] = {base | FEATURE_WP_UNPOPULATED, base};
	int fd = uffd_new(0);
	long error = fd;

	for (int i = 0; fd >= 0 && i < 2; i++) {
		struct uffdio_api api = {.api = UFFD_API, .features = wanted[i]};

		error = raw_syscall(SYS_ioctl, fd, (long)UFFDIO_API, (long)&api, 0, 0);
		if (error == 0)
			return fd;
	}
	if (fd >= 0)
		close(fd);
	return (int)error;
}

bool
transplant_holds_shared(void)
{
	int fd = uffd_open(true);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

int
transplant_guard_open(void)
{
	struct uffdio_api api = {.api = UFFD_API,
				 .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP |
					     UFFD_FEATURE_WP_HUGETLBFS_SHMEM | UFFD_FEATURE_EVENT_REMOVE |
					     UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP};
	int fd = uffd_new(O_NONBLOCK);

	if (fd >= 0 && raw_syscall(SYS_ioctl, fd, (long)UFFDIO_API, (long)&api, 0, 0) != 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* ---- pages ---- */

/* Kernels before Linux 5.14.  The sanitizers would take the pages around a buffer amiss. */
__attribute__((no_sanitize("address", "thread"))) static void
touch(uint64_t start, uint64_t len, bool write)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	for (uint64_t at = start; at < start + len; at += page) {
		/* Pairs with nothing: for the fault alone, and no store of the application is lost. */
		_Atomic uint8_t *byte = (_Atomic uint8_t *)(uintptr_t)at;

		if (write)
			atomic_fetch_or_explicit(byte, 0, memory_order_relaxed);
		else
			atomic_load_explicit(byte, memory_order_relaxed);
	}
}

/* All pages present, so that protection meets a page everywhere. */
static int
populate(uint64_t start, uint64_t len, int prot)
{
	bool write = (prot & PROT_WRITE) != 0;
	long error;

	if ((prot & (PROT_READ | PROT_WRITE)) == 0)
		return 0;
	do {
		error = raw_syscall(SYS_madvise, (long)start, (long)len,
				    write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ, 0, 0);
	} while (error == -EINTR || error == -EAGAIN);
	if (error == -EINVAL) {
		touch(start, len, write);
		error = 0;
	}
	return (int)error;
}

int
transplant_populate(uint64_t start, uint64_t length)
{
	return populate(start, length, PROT_READ);
}

/* Whether shared memory may come in huge pages, which only a fault makes (and zeroes). */
static bool
shmem_is_huge(void)
{
	static _Atomic int
		known; /* 0: not asked yet; the kernel's answer is the same to all who ask at once */
	int huge = one_load_alone(&known);
	char text[128];
	long fd, n;

	if (huge != 0)
		return huge == 2;
	huge = 1;
	fd = raw_syscall(SYS_openat, AT_FDCWD, (long)"/sys/kernel/mm/transparent_hugepage/shmem_enabled",
			 O_RDONLY | O_CLOEXEC, 0, 0);
	if (fd >= 0) {
		n = raw_syscall(SYS_read, fd, (long)text, sizeof(text) - 1, 0, 0);
		text[n > 0 ? n : 0] = '\0';
		if (n > 0 && strstr(text, "[never]") == NULL && strstr(text, "[deny]") == NULL)
			huge = 2;
		close((int)fd);
	}
	one_store_alone(&known, huge);
	return huge == 2;
}

/* The new pages, at an address with the alignment of `at`, so that huge pages can be moved whole. */
static uint8_t *
fresh_map(const struct transplant *t, uint64_t at, uint64_t len)
{
	int flags = t->to_fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
	off_t offset = t->to_fd >= 0 ? (off_t)(t->to_offset + (at - t->start)) : 0;
	uint64_t slack = len >= HUGE ? HUGE : 0;
	uint8_t *reserve, *fresh;
	uint64_t skip;

	reserve = mmap(NULL, len + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (reserve == MAP_FAILED)
		return NULL;
	skip = slack != 0 ? (at - (uint64_t)(uintptr_t)reserve) & (HUGE - 1) : 0;
	if (t->to_twin != NULL) /* old size 0: another mapping of the same pages */
		fresh = mremap((void *)(uintptr_t)(t->to_twin + (at - t->start)), 0, len,
			       MREMAP_MAYMOVE | MREMAP_FIXED, reserve + skip);
	else
		fresh = mmap(reserve + skip, len, PROT_READ | PROT_WRITE, flags | MAP_FIXED, t->to_fd,
			     offset);
	if (fresh == MAP_FAILED) {
		munmap(reserve, len + slack);
		return NULL;
	}
	if (skip > 0)
		munmap(reserve, skip);
	if (slack > skip)
		munmap(fresh + len, slack - skip);
	if (t->to_fd >= 0) {
		if (len >= HUGE)
			madvise(fresh, len, MADV_HUGEPAGE);
		/* A child gets a copy, never the shared pages: fork.c. */
		madvise(fresh, len, MADV_DONTFORK);
	}
	return fresh;
}

static long
read_all(int fd, uint8_t *to, uint64_t len, uint64_t offset)
{
	while (len > 0) {
		long n = raw_syscall(SYS_pread64, fd, (long)to, (long)len, (long)offset, 0);

		if (n == -EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? n : -EIO;
		to += n;
		offset += (uint64_t)n;
		len -= (uint64_t)n;
	}
	return 0;
}

/* By the kernel: whole pages are copied, with what lies beside a buffer, and memory checkers would report
 * each byte of that.  Where it is denied (seccomp), by hand. */
static void
copy(uint8_t *to, uint64_t from, uint64_t len)
{
	struct iovec local = {.iov_base = to, .iov_len = len};
	struct iovec remote = {.iov_base = (void *)(uintptr_t)from, .iov_len = len};
	long self = raw_syscall(SYS_getpid, 0, 0, 0, 0, 0);
	long n = raw_syscall6(SYS_process_vm_readv, self, (long)&local, 1, (long)&remote, 1, 0);
	uint64_t done = n > 0 ? (uint64_t)n : 0;

	if (done < len)
		raw_copy(to + done, (const void *)(uintptr_t)(from + done), len - done);
}

/*
 * The new pages are made as they are copied: none is zeroed first.  Where pages are there already
 * (-EEXIST: a file that held the range before) or the old ones cannot be read, it has to be done otherwise.
 */
static long
copy_fresh(int uffd, uint8_t *fresh, uint64_t from, uint64_t len)
{
	uint64_t to = (uint64_t)(uintptr_t)fresh, done = 0;
	struct uffdio_register reg = {.range = {.start = to, .len = len},
				      .mode = UFFDIO_REGISTER_MODE_MISSING};
	long error = raw_syscall(SYS_ioctl, uffd, (long)UFFDIO_REGISTER, (long)&reg, 0, 0);

	if (error != 0)
		return error;
	while (error == 0 && done < len) {
		struct uffdio_copy part = {.dst = to + done, .src = from + done, .len = len - done};

		error = raw_syscall(SYS_ioctl, uffd, (long)UFFDIO_COPY, (long)&part, 0, 0);
		if (part.copy > 0) {
			done += (uint64_t)part.copy;
			error = 0;
		} else if (error == -EAGAIN || error == -EINTR) {
			error = 0;
		}
	}
	/* Fails only if this very mapping were gone. */
	raw_syscall(SYS_ioctl, uffd, (long)UFFDIO_UNREGISTER, (long)&reg.range, 0, 0);
	return error;
}

/* The contents of one chunk, while nobody stores to it. */
static long
copy_chunk(const struct transplant *t, int uffd, uint64_t at, uint64_t len, uint8_t *fresh, bool make)
{
	long error = 0;

	if (make && copy_fresh(uffd, fresh, at, len) == 0)
		return 0;
	if (make)
		error = populate((uint64_t)(uintptr_t)fresh, len, PROT_READ | PROT_WRITE);
	if (error == 0 && t->from_fd >= 0)
		error = read_all(t->from_fd, fresh, len, t->from_offset + (at - t->start));
	else if (error == 0)
		copy(fresh, at, len);
	return error;
}

/* Steps 1 to 4 for one chunk.  Nothing here may store to the range: see raw.h. */
static long
replace(const struct transplant *t, int uffd, uint64_t at, uint64_t len, uint8_t *fresh, bool make)
{
	struct uffdio_register reg = {.range = {.start = at, .len = len}, .mode = UFFDIO_REGISTER_MODE_WP};
	struct uffdio_writeprotect protect = {.range = {.start = at, .len = len},
					      .mode = UFFDIO_WRITEPROTECT_MODE_WP};
	struct uffdio_writeprotect release = {.range = {.start = at, .len = len}};
	struct uffdio_range range = {.start = at, .len = len};
	long error = 0;

	if (uffd >= 0) {
		error = raw_syscall(SYS_ioctl, uffd, (long)UFFDIO_REGISTER, (long)&reg, 0, 0);
		if (error != 0)
			return error;
		do {
			error = raw_syscall(SYS_ioctl, uffd, (long)UFFDIO_WRITEPROTECT, (long)&protect, 0, 0);
		} while (error == -EAGAIN || error == -EINTR);
	}
	if (error == 0)
		error = copy_chunk(t, uffd, at, len, fresh, make);
	if (error == 0 && t->prot != (PROT_READ | PROT_WRITE))
		error = raw_syscall(SYS_mprotect, (long)fresh, (long)len, t->prot, 0, 0);
	if (error == 0) {
		long moved = raw_syscall(SYS_mremap, (long)fresh, (long)len, (long)len,
					 MREMAP_MAYMOVE | MREMAP_FIXED, (long)at);

		error = moved == (long)at ? 0 : moved;
	}
	if (uffd >= 0 && error != 0) {
		raw_syscall(SYS_ioctl, uffd, (long)UFFDIO_WRITEPROTECT, (long)&release, 0, 0);
		raw_syscall(SYS_ioctl, uffd, (long)UFFDIO_UNREGISTER, (long)&range, 0, 0);
	}
	if (uffd >= 0)
		raw_syscall(SYS_ioctl, uffd, (long)UFFDIO_WAKE, (long)&range, 0, 0);
	return error;
}

static int
replace_chunk(struct transplant *t, int uffd, uint64_t at, uint64_t len)
{
	/* What is to be huge or locked, or is there already, is populated before anybody has to wait. */
	bool make = uffd >= 0 && !t->lock && t->to_twin == NULL &&
		    !(t->to_fd >= 0 && len >= HUGE && shmem_is_huge());
	uint8_t *fresh = fresh_map(t, at, len);
	sigset_t all, old;
	long error = 0;

	if (fresh == NULL)
		return -ENOMEM;
	if (!make)
		error = populate((uint64_t)(uintptr_t)fresh, len, PROT_READ | PROT_WRITE);
	/* What nobody has touched is the page of zeros then, which is protected like any other. */
	if (error == 0 && t->from_fd < 0)
		error = populate(at, len, t->prot & PROT_READ);
	if (error == 0 && t->lock)
		raw_syscall(SYS_mlock, (long)fresh, (long)len, 0, 0,
			    0); /* beyond RLIMIT_MEMLOCK it stays unlocked, and works */
	if (error == 0) {
		/* A signal handler on this thread that stored to the range would wait for ever. */
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &old);
		error = replace(t, uffd, at, len, fresh, make);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
	}
	if (error != 0)
		munmap(fresh, len);
	return (int)error;
}

static int
run(struct transplant *t, int uffd)
{
	int error = 0;

	while (t->done < t->length && error == 0) {
		uint64_t at = t->start + t->done;
		uint64_t len = t->length - t->done;

		/* chunks end at huge page boundaries */
		if (len > CHUNK)
			len = CHUNK - (at & (HUGE - 1));
		error = replace_chunk(t, uffd, at, len);
		if (error == 0)
			t->done += len;
	}
	return error;
}

/* ---- when the range holds what this thread stands on ---- */

struct helper {
	struct transplant *t;
	int uffd;
	int error;
};

static void *
help(void *arg)
{
	struct helper *helper = arg;
	/* The caller's stack may be protected until `run` is through: its results are stored after. */
	struct transplant t = *helper->t;
	int error = run(&t, helper->uffd);

	helper->t->done = t.done;
	helper->error = error;
	return NULL;
}

/*
 * Once something is kept, the holder of ranges_lock calls no allocator (keep.h), as making a thread does: one
 * stands by.
 */
static struct {
	sem_t asked, done;
	struct helper *helper; /* of the holder of ranges_lock */
	_Atomic bool running;
} standing;

static void *
stand_by(void *unused)
{
	for (;;) {
		while (sem_wait(&standing.asked) != 0)
			;
		help(standing.helper);
		sem_post(&standing.done);
	}
	return NULL;
}

int
transplant_stand_by(void)
{
	pthread_t thread;
	void *stack;
	int error;

	if (one_load_alone(&standing.running))
		return 0;
	sem_init(&standing.asked, 0, 0);
	sem_init(&standing.done, 0, 0);
	error = client_thread_apart(&thread, HELPER_STACK, stand_by, NULL, &stack);
	if (error != 0)
		return error;
	pthread_detach(thread);
	one_store_alone(&standing.running, true);
	return 0;
}

void
transplant_fork_child(void)
{
	one_store_alone(&standing.running, false);
}

static int
run_elsewhere(struct transplant *t, int uffd)
{
	struct helper helper = {.t = t, .uffd = uffd};
	sigset_t all, old;
	int error = 0;

	/* A signal would be delivered onto the protected stack. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (one_load_alone(&standing.running)) {
		standing.helper = &helper;
		sem_post(&standing.asked);
		while (sem_wait(&standing.done) != 0)
			;
	} else {
		pthread_t thread;
		void *stack;

		error = client_thread_apart(&thread, HELPER_STACK, help, &helper, &stack);
		if (error == 0) {
			pthread_join(thread, NULL);
			munmap(stack, HELPER_STACK);
		}
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return error != 0 ? error : helper.error;
}

static bool
near(const struct transplant *t, uint64_t address, uint64_t margin)
{
	return address + margin >= t->start && address < t->start + t->length + margin;
}

int
transplant(struct transplant *t)
{
	bool on_stack = near(t, (uint64_t)(uintptr_t)__builtin_frame_address(0), STACK_NEAR);
	/* glibc's pthread_self() is the address of the thread control block */
	bool on_tcb = near(t, (uint64_t)pthread_self(), TCB_NEAR);
	int uffd = uffd_open(t->from_fd >= 0);
	int error;

	t->done = 0;
	if (uffd < 0) {
		/* Nothing would hold back other threads, nor this one's own use of its stack. */
		if (on_stack ||
		    maps_threads() != 1u + (watcher_running() ? 1u : 0u) + copiers_count() + keep_threads() +
					      (one_load_alone(&standing.running) ? 1u : 0u) ||
		    !copiers_hold())
			return uffd == -ENOSYS ? -ENOSYS : -EPERM;
		error = run(t, uffd);
		copiers_release();
		return error;
	}
	error = on_stack || on_tcb ? run_elsewhere(t, uffd) : run(t, uffd);
	close(uffd);
	return error;
}
