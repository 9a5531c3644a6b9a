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
#include <time.h>
#include <unistd.h>

#include "aside.h"
#include "client/copier.h"
#include "client/internal.h"
#include "range_cache.h"
#include "maps.h"
#include "place.h"
#include "raw.h"
#include "transplant.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif
/* UFFD_FEATURE_WP_UNPOPULATED since Linux 6.4, for older headers. */
#define FEATURE_WP_UNPOPULATED (1u << 13)

/* Bytes replaced at once: bounds how long writers and readers wait. */
#define CHUNK (2ull << 20)
/* A page that is pinned for one I/O request is free again after some milliseconds: wait 1, 2, 4 and 8 ms. */
#define PIN_WAITS 4u
#define HUGE (2ull << 20)

/* Bytes: a helper does the work if the caller's stack or thread control block is this near to the range. */
#define STACK_NEAR (64u * 1024u)
#define TCB_NEAR (16u * 1024u)
#define HELPER_STACK (2048u * 1024u) /* populated on demand; sanitizers need much */

/* ---- protection ---- */

/* Opened non-blocking: a program may close a guard between the keeper thread's poll and its read, and the
 * next userfaultfd, which has no event, may get the same number. */
static int
uffd_new(void)
{
	const long flags = O_CLOEXEC | O_NONBLOCK;
	long fd = raw_syscall(SYS_userfaultfd, flags, 0, 0, 0, 0);
	long dev;

	if (fd != -EPERM)
		return (int)fd;
	dev = raw_syscall(SYS_openat, AT_FDCWD, (long)"/dev/userfaultfd", O_RDWR | O_CLOEXEC, 0, 0);
	if (dev >= 0) {
		fd = raw_syscall(SYS_ioctl, dev, USERFAULTFD_IOC_NEW, flags, 0, 0);
		close((int)dev);
		if (fd >= 0)
			return (int)fd;
	}
	return (int)raw_syscall(SYS_userfaultfd, UFFD_USER_MODE_ONLY | flags, 0, 0, 0, 0);
}

/* Opens a userfaultfd that can write-protect; `shmem`: shared pages, too (Linux 5.19). *moves: it has
 * UFFDIO_MOVE. Returns -errno if there is none. */
static int
uffd_open(bool shmem, bool *moves)
{
	const uint64_t base =
		UFFD_FEATURE_PAGEFAULT_FLAG_WP | (shmem ? (uint64_t)UFFD_FEATURE_WP_HUGETLBFS_SHMEM : 0);
	/* Pages that are dropped (MADV_DONTNEED) after they were populated are protected only with
	 * WP_UNPOPULATED. */
	const uint64_t wanted[] = {base | FEATURE_WP_UNPOPULATED | FEATURE_MOVE,
				   base | FEATURE_WP_UNPOPULATED, base};
	int fd = uffd_new();
	long error = fd;

	for (int i = 0; fd >= 0 && i < 3; i++) {
		struct uffdio_api api = {.api = UFFD_API, .features = wanted[i]};

		error = raw_syscall(SYS_ioctl, fd, (long)UFFDIO_API, (long)&api, 0, 0);
		*moves = i == 0;
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
	bool moves;
	int fd = uffd_open(true, &moves);

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
	int fd = uffd_new();

	if (fd >= 0 && raw_syscall(SYS_ioctl, fd, (long)UFFDIO_API, (long)&api, 0, 0) != 0) {
		close(fd);
		fd = -1;
	}
	return fd;
}

bool
transplant_is_guard(int fd)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct uffdio_range range = {.start = (uint64_t)(uintptr_t)&transplant_is_guard & ~(page - 1),
				     .len = page};

	return raw_syscall(SYS_ioctl, fd, (long)UFFDIO_WAKE, (long)&range, 0, 0) == 0;
}

/* ---- pages ---- */

/* Populates before Linux 5.14. Not instrumented: sanitizers would report the memory around a buffer. */
__attribute__((no_sanitize("address", "thread"))) static void
touch_pages(uint64_t start, uint64_t len, bool write)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	for (uint64_t at = start; at < start + len; at += page) {
		/* Pairs with nothing: causes a fault. Atomic: no store of the application is lost.  Compilers
		 * replace an OR with 0 by nothing, which would leave pages shared with a child. */
		_Atomic uint8_t *byte = (_Atomic uint8_t *)(uintptr_t)at;
		uint8_t value = atomic_load_explicit(byte, memory_order_relaxed);

		if (write)
			atomic_compare_exchange_strong_explicit(byte, &value, value, memory_order_relaxed,
								memory_order_relaxed);
	}
}

/* Makes all pages present, so that each can be write-protected. */
static int
populate_pages(uint64_t start, uint64_t len, int prot)
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
		touch_pages(start, len, write);
		error = 0;
	}
	return (int)error;
}

int
transplant_populate(uint64_t start, uint64_t length)
{
	return populate_pages(start, length, PROT_READ);
}

/* True if shared memory may get huge pages, which only a fault allocates (and zeroes). */
static bool
shmem_is_huge(void)
{
	static _Atomic int known; /* 0: unknown, 1: no, 2: yes; threads that ask at once store the same */
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

/* Maps the new pages elsewhere, with the alignment of `at`, so that huge pages can be moved whole. */
static uint8_t *
fresh_map(const struct transplant *t, uint64_t at, uint64_t len)
{
	int flags = t->to_fd >= 0 ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS;
	off_t offset = t->to_fd >= 0 ? (off_t)(t->to_offset + (at - t->start)) : 0;
	void *reserve = (void *)(uintptr_t)place_reserve(at, len);
	uint8_t *fresh;

	if (reserve == NULL)
		return NULL;
	if (t->to_twin != NULL) /* old size 0 duplicates the mapping */
		fresh = mremap((void *)(uintptr_t)(t->to_twin + (at - t->start)), 0, len,
			       MREMAP_MAYMOVE | MREMAP_FIXED, reserve);
	else
		fresh = mmap(reserve, len, PROT_READ | PROT_WRITE, flags | MAP_FIXED, t->to_fd, offset);
	if (fresh == MAP_FAILED) {
		munmap(reserve, len);
		return NULL;
	}
	if (t->to_fd >= 0) {
		if (len >= HUGE)
			madvise(fresh, len, MADV_HUGEPAGE);
		/* A child gets a copy, never the shared pages: fork.c. */
		madvise(fresh, len, MADV_DONTFORK);
	}
	return fresh;
}

/* Returns the part of the place (place.h), or a new mapping. */
static uint8_t *
fresh_pages(const struct transplant *t, uint64_t at, uint64_t len)
{
	uint64_t aside = t->place + (at - t->start);

	if (t->to_fd >= 0 || t->place == 0)
		return fresh_map(t, at, len);
	if (place_open(aside, len) == 0)
		return (uint8_t *)(uintptr_t)aside;
	munmap((void *)(uintptr_t)aside, len);
	return fresh_map(t, at, len);
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

/* Lets the kernel copy: whole pages include memory next to a buffer, of which memory checkers would report
 * each byte. Copies itself where the system call is denied (seccomp). */
static void
copy_pages(uint8_t *to, uint64_t from, uint64_t len)
{
	struct iovec local = {.iov_base = to, .iov_len = len};
	struct iovec remote = {.iov_base = (void *)(uintptr_t)from, .iov_len = len};
	long self = raw_syscall(SYS_getpid, 0, 0, 0, 0, 0);
	long n = raw_syscall6(SYS_process_vm_readv, self, (long)&local, 1, (long)&remote, 1, 0);
	uint64_t done = n > 0 ? (uint64_t)n : 0;

	if (done < len)
		raw_copy(to + done, (const void *)(uintptr_t)(from + done), len - done);
}

/* Creates the new pages by copying, so that none is zeroed first. Fails if pages exist already (-EEXIST: a
 * file that held the range before), or if the old ones cannot be read: the caller copies by other means. */
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
	/* Could fail only if the mapping were gone. */
	raw_syscall(SYS_ioctl, uffd, (long)UFFDIO_UNREGISTER, (long)&reg.range, 0, 0);
	return error;
}

/* The part of the range that is replaced at once. */
struct chunk {
	uint64_t at, len;
	uint8_t *fresh;
	bool make;          /* new pages are created by copying: copy_fresh() */
	struct aside aside; /* `to` 0: pages are not moved aside */
	uint64_t old_to;    /* where the old mapping moves; 0: nowhere */
	bool old_moved;
};

/* Copies the contents of one chunk, while no thread stores to it. Pages moved aside are read at their new
 * address, and contain what a device that had pinned them stored before. */
static long
copy_chunk(const struct transplant *t, int uffd, const struct chunk *c)
{
	uint64_t from = c->aside.to != 0 ? c->aside.to : c->at;
	long error = 0;

	if (c->make && copy_fresh(uffd, c->fresh, from, c->len) == 0)
		return 0;
	if (c->make)
		error = populate_pages((uint64_t)(uintptr_t)c->fresh, c->len, PROT_READ | PROT_WRITE);
	if (error == 0 && t->from_fd >= 0)
		error = read_all(t->from_fd, c->fresh, c->len, t->from_offset + (c->at - t->start));
	else if (error == 0)
		copy_pages(c->fresh, from, c->len);
	return error;
}

/* Moves the chunk's pages aside. Pages that the program had dropped become holes there. The destination is
 * registered only during the move: afterwards holes must read as zeros, because no thread handles missing
 * pages. */
static long
move_aside(int uffd, struct chunk *c)
{
	struct uffdio_register reg = {.range = {.start = c->aside.to, .len = c->len},
				      .mode = UFFDIO_REGISTER_MODE_MISSING};
	long error = raw_syscall(SYS_ioctl, uffd, (long)UFFDIO_REGISTER, (long)&reg, 0, 0);

	if (error != 0)
		return error;
	/* Any page that the kernel cannot move might be pinned. */
	if (aside_move(uffd, &c->aside) != 0)
		error = -EBUSY;
	raw_syscall(SYS_ioctl, uffd, (long)UFFDIO_UNREGISTER, (long)&reg.range, 0, 0);
	return error;
}

/* Carries out steps 2 to 5 of transplant.h. */
static long
replace_protected(const struct transplant *t, int uffd, struct chunk *c)
{
	long error = c->aside.to != 0 ? move_aside(uffd, c) : 0, moved;

	if (error == 0)
		error = copy_chunk(t, uffd, c);
	if (error == 0 && t->prot != (PROT_READ | PROT_WRITE))
		error = raw_syscall(SYS_mprotect, (long)c->fresh, (long)c->len, t->prot, 0, 0);
	if (error == 0) {
		c->old_moved = c->old_to != 0 && place_move(c->at, c->len, c->old_to) == 0;
		moved = raw_syscall(SYS_mremap, (long)c->fresh, (long)c->len, (long)c->len,
				    MREMAP_MAYMOVE | MREMAP_FIXED, (long)c->at);
		error = moved == (long)c->at ? 0 : moved;
	}
	if (error != 0)
		aside_undo(uffd, &c->aside);
	return error;
}

/* Carries out steps 1 to 6 of transplant.h for one chunk. Nothing here may use the range: see raw.h. */
static long
replace_pages(const struct transplant *t, int uffd, struct chunk *c)
{
	struct uffdio_range range = {.start = c->at, .len = c->len};
	struct uffdio_register reg = {.range = range, .mode = UFFDIO_REGISTER_MODE_WP};
	struct uffdio_writeprotect protect = {.range = range, .mode = UFFDIO_WRITEPROTECT_MODE_WP};
	struct uffdio_writeprotect release = {.range = range};
	long error;

	if (uffd < 0)
		return replace_protected(t, uffd, c);
	if (c->aside.to != 0 || c->old_to != 0)
		reg.mode |= UFFDIO_REGISTER_MODE_MISSING;
	error = raw_syscall(SYS_ioctl, uffd, (long)UFFDIO_REGISTER, (long)&reg, 0, 0);
	if (error != 0)
		return error;
	do {
		error = raw_syscall(SYS_ioctl, uffd, (long)UFFDIO_WRITEPROTECT, (long)&protect, 0, 0);
	} while (error == -EAGAIN || error == -EINTR);
	if (error == 0)
		error = replace_protected(t, uffd, c);
	if (error != 0) {
		raw_syscall(SYS_ioctl, uffd, (long)UFFDIO_WRITEPROTECT, (long)&release, 0, 0);
		raw_syscall(SYS_ioctl, uffd, (long)UFFDIO_UNREGISTER, (long)&range, 0, 0);
	}
	raw_syscall(SYS_ioctl, uffd, (long)UFFDIO_WAKE, (long)&range, 0, 0);
	return error;
}

/* Blocks signals: a handler on this thread that used the range would wait for ever. */
static long
replace_undisturbed(const struct transplant *t, int uffd, struct chunk *c)
{
	sigset_t all, old;
	long error = -EBUSY;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	if (copiers_hold()) {
		error = replace_pages(t, uffd, c);
		copiers_release();
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return error;
}

/* Tries again for pages that a child shares, which populating copies, or that are pinned for a moment. */
static long
replace_patiently(const struct transplant *t, int uffd, struct chunk *c)
{
	long error = replace_undisturbed(t, uffd, c);

	if (error == -EBUSY && c->aside.to != 0 && populate_pages(c->at, c->len, t->prot) == 0)
		error = replace_undisturbed(t, uffd, c);
	for (uint32_t i = 0; error == -EBUSY && c->aside.to != 0 && i < PIN_WAITS; i++) {
		const struct timespec wait = {.tv_nsec = 1000000l << i};

		nanosleep(&wait, NULL);
		error = replace_undisturbed(t, uffd, c);
	}
	return error;
}

/* Maps where pages are moved aside to: without pages, and with the rights of the range. */
static long
aside_map(const struct transplant *t, struct chunk *c)
{
	uint64_t to = place_reserve(c->at, c->len);

	if (to == 0)
		return -ENOMEM;
	c->aside = (struct aside){.from = c->at, .to = to, .length = c->len};
	return mmap((void *)(uintptr_t)to, c->len, t->prot,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED
		       ? -errno
		       : 0;
}

/* Populates before any thread must wait: the new pages, unless they are created by copying, and the old ones,
 * of which untouched ones become the page of zeros, which is protected like any other. */
static long
populate_chunk(const struct transplant *t, const struct chunk *c)
{
	long error = 0;

	if (!c->make)
		error = populate_pages((uint64_t)(uintptr_t)c->fresh, c->len, PROT_READ | PROT_WRITE);
	if (error == 0 && t->from_fd < 0)
		error = populate_pages(c->at, c->len, t->prot & PROT_READ);
	/* A mapping without any page of its own has no origin that mremap could preserve (place.h). */
	if (error == 0 && c->old_to != 0)
		error = populate_pages(c->at, (uint64_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE);
	if (error == 0 && t->lock)
		raw_syscall(SYS_mlock, (long)c->fresh, (long)c->len, 0, 0,
			    0); /* fails, harmlessly, beyond RLIMIT_MEMLOCK */
	return error;
}

static int
replace_chunk(struct transplant *t, int uffd, bool moves, uint64_t at, uint64_t len)
{
	struct chunk c = {.at = at, .len = len, .fresh = fresh_pages(t, at, len)};
	long error = 0;

	if (c.fresh == NULL)
		return -ENOMEM;
	/* Pages that must be huge or locked, or exist already, are populated instead. */
	c.make = uffd >= 0 && !t->lock && t->to_twin == NULL &&
		 !(t->to_fd >= 0 && len >= HUGE && shmem_is_huge());
	if (t->to_fd >= 0 && t->place != 0)
		c.old_to = t->place + (at - t->start);
	if (moves)
		error = aside_map(t, &c);
	if (error == 0)
		error = populate_chunk(t, &c);
	if (error == 0)
		error = replace_patiently(t, uffd, &c);
	if (c.aside.to != 0)
		munmap((void *)(uintptr_t)c.aside.to, len);
	if (error != 0 && (t->to_fd >= 0 || t->place == 0))
		munmap(c.fresh, len);
	if (c.old_to != 0 && !c.old_moved) {
		place_drop(t->place, 0, t->length);
		t->place = 0;
	}
	return (int)error;
}

/* Returns where the mapping at `at` ends; `end` if that is unknown, or further. */
static uint64_t
mapping_end(uint64_t at, uint64_t end)
{
	struct map_entry e;

	if (maps_open(at) != 0)
		return end;
	if (maps_next(&e) && e.start <= at && e.end < end)
		end = e.end;
	maps_close();
	return end;
}

static int
run_chunks(struct transplant *t, int uffd, bool moves)
{
	/* Pages move aside, and mappings to their place, one mapping at a time. */
	bool by_mapping = moves || (t->to_fd >= 0 && t->place != 0);
	uint64_t end = t->start + t->length, mapped = by_mapping ? t->start : end;
	int error = 0;

	while (t->done < t->length && error == 0) {
		uint64_t at = t->start + t->done, len;

		if (at >= mapped)
			mapped = mapping_end(at, end);
		len = mapped - at;
		/* Chunks end at the boundaries of huge pages. */
		if (len > CHUNK)
			len = CHUNK - (at & (HUGE - 1));
		error = replace_chunk(t, uffd, moves, at, len);
		if (error == 0)
			t->done += len;
	}
	return error;
}

/* ---- ranges with the caller's own stack or thread control block ---- */

struct helper {
	struct transplant *t;
	int uffd;
	bool moves;
	int error;
};

static void *
help_caller(void *arg)
{
	struct helper *helper = arg;
	/* The caller's stack may be write-protected during run_chunks(): store to it only afterwards. */
	struct transplant t = *helper->t;
	int error = run_chunks(&t, helper->uffd, helper->moves);

	*helper->t = t;
	helper->error = error;
	return NULL;
}

/* A helper thread that is created before any range is cached: from then on the holder of ranges_lock must not
 * call the allocator (range_cache.h), as creating a thread does. */
static struct {
	sem_t asked, done;
	struct helper *helper; /* on the stack of the holder of ranges_lock */
	_Atomic bool running;
} standing;

static void *
stand_by(void *unused)
{
	for (;;) {
		while (sem_wait(&standing.asked) != 0)
			;
		help_caller(standing.helper);
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
run_elsewhere(struct transplant *t, int uffd, bool moves)
{
	struct helper helper = {.t = t, .uffd = uffd, .moves = moves};
	sigset_t all, old;
	int error = 0;

	/* A signal would be delivered onto the write-protected stack. */
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

		error = client_thread_apart(&thread, HELPER_STACK, help_caller, &helper, &stack);
		if (error == 0) {
			pthread_join(thread, NULL);
			munmap(stack, HELPER_STACK);
		}
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return error != 0 ? error : helper.error;
}

static bool
is_near(const struct transplant *t, uint64_t address, uint64_t margin)
{
	return address + margin >= t->start && address < t->start + t->length + margin;
}

/* Works without a userfaultfd, where neither other threads nor the caller's use of its stack are held off. */
static int
run_alone(struct transplant *t, bool on_stack)
{
	uint32_t ours = (watcher_running() ? 1u : 0u) + copiers_count() + range_cache_threads() +
			(one_load_alone(&standing.running) ? 1u : 0u);

	if (on_stack || maps_threads() != 1u + ours)
		return -EPERM;
	/* The old mapping is not moved away, because loads could not wait meanwhile. */
	if (t->to_fd >= 0 && t->place != 0) {
		place_drop(t->place, 0, t->length);
		t->place = 0;
	}
	return run_chunks(t, -1, false);
}

int
transplant(struct transplant *t)
{
	bool on_stack = is_near(t, (uint64_t)(uintptr_t)__builtin_frame_address(0), STACK_NEAR);
	/* glibc's pthread_self() is the address of the thread control block */
	bool on_tcb = is_near(t, (uint64_t)pthread_self(), TCB_NEAR);
	bool moves = false;
	int uffd = uffd_open(t->from_fd >= 0, &moves);
	int error;

	t->done = 0;
	moves = moves && uffd >= 0 && t->from_fd < 0 && (t->prot & PROT_WRITE) != 0 && !t->lock;
	if (t->from_fd < 0 && !moves && !t->unpinned)
		error = -EBUSY;
	else if (uffd < 0)
		error = run_alone(t, on_stack);
	else
		error = on_stack || on_tcb ? run_elsewhere(t, uffd, moves) : run_chunks(t, uffd, moves);
	if (uffd >= 0)
		close(uffd);
	return error;
}
