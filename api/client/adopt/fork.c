/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fork with attachments and adopted memory.
 *
 * Adopted pages are shared memory, which a child would share with its parent. So they are marked
 * MADV_DONTFORK: the child gets holes, and fills them with private copies in its fork handler, while the
 * parent waits in its own. Before handlers run, the C library resets locks in the child, some of which may be
 * next to a registered buffer. Such an access faults on a hole: a SIGSEGV handler, installed only during the
 * fork, then fills the hole. So a child can never modify the parent's registered pages.
 *
 * Attachments remain the parent's: the child closes its copies of their descriptors.
 *
 * Other threads of the parent, and the data plane, continue while the child copies. The child may see part of
 * what they store meanwhile. (POSIX lets a child of a process with threads only call async-signal-safe
 * functions before exec anyway.)
 *
 * The child needs the stack and the thread control block of the forking thread before it can run any handler.
 * If they are adopted (a thread registered a buffer on its stack), they become private for the duration of
 * the fork and are adopted again afterwards. Data that the data plane stores there meanwhile is lost.
 *
 * A process without free descriptors can fork: the descriptors that fork needs are reserved from the first
 * attachment on.
 *
 * vfork and posix_spawn (hence system and popen) run no handlers and need none. Children of a direct clone(2)
 * find holes in place of registered memory.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/adopt/range_cache.h"
#include "client/adopt/maps.h"
#include "client/adopt/ranges.h"
#include "client/adopt/raw.h"
#include "client/adopt/transplant.h"
#include "client/internal.h"

/* Milliseconds that the parent waits for the child's copies, and 1 ms more for each MiB. */
#define CHILD_TIMEOUT_MS 10000
#define STACK_BELOW (64u * 1024u) /* stack that fork() and its handlers may use */
#define STACK_ABOVE (16u * 1024u)
#define TCB_NEAR (8u * 1024u)

/* An adopted mapping when the fork was prepared: a hole in the child. */
struct hole {
	uint64_t start, length, offset;
	struct file *file;
	int fd;
	int prot;
	bool hot;    /* private during the fork, so that the child has a copy already */
	bool filled; /* in the child */
};

static pthread_once_t install_once = PTHREAD_ONCE_INIT;
static int install_error;

/* State of a fork, valid from fork_prepare() to the handlers after the fork, which hold the locks
 * throughout. */
static struct {
	struct hole *hole; /* allocated by mmap, not malloc */
	size_t count, room;
	uint64_t bytes;
	pid_t parent;
	int pipe[2];
	bool active;
	struct sigaction old;
} during = {.pipe = {-1, -1}};

/* Reserved descriptors, all of /proc/self/maps. fd[0] is read if no other can be opened. The others are
 * closed to make room for the pipe, and for moving the thread's stack. Protected by ranges_lock(). */
static struct {
	int fd[3];
	dev_t dev;
	ino_t ino;
} reserve = {.fd = {-1, -1, -1}};

/* Compares the file: a program that closes all descriptors may have another file there. */
static bool
reserve_has(int i)
{
	struct stat st;

	return reserve.fd[i] >= 0 && fstat(reserve.fd[i], &st) == 0 && st.st_dev == reserve.dev &&
	       st.st_ino == reserve.ino;
}

static void
reserve_drop(int i)
{
	if (reserve_has(i))
		close(reserve.fd[i]);
	reserve.fd[i] = -1;
}

static int
reserve_fill(void)
{
	struct stat st;

	if (!reserve_has(0)) {
		for (int i = 0; i < 3; i++)
			reserve_drop(i);
		reserve.fd[0] = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
		if (reserve.fd[0] < 0 || fstat(reserve.fd[0], &st) != 0)
			return -errno;
		reserve.dev = st.st_dev;
		reserve.ino = st.st_ino;
	}
	for (int i = 1; i < 3; i++) {
		if (!reserve_has(i))
			reserve.fd[i] = fcntl(reserve.fd[0], F_DUPFD_CLOEXEC, 0);
		if (reserve.fd[i] < 0)
			return -errno;
	}
	return 0;
}

/* ---- filling holes, in the child ---- */

static void
fill_hole(struct hole *hole)
{
	long at = raw_syscall(SYS_mmap, (long)hole->start, (long)hole->length, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
	uint64_t done = 0;

	hole->filled = true;
	while (at == (long)hole->start && done < hole->length) {
		long n = raw_syscall(SYS_pread64, hole->fd, (long)(hole->start + done),
				     (long)(hole->length - done), (long)(hole->offset + done), 0);

		if (n <= 0 && n != -EINTR)
			break; /* no memory: zeros remain; the kernel is about to kill the child */
		done += n > 0 ? (uint64_t)n : 0;
	}
	if (hole->prot != (PROT_READ | PROT_WRITE))
		raw_syscall(SYS_mprotect, (long)hole->start, (long)hole->length, hole->prot, 0, 0);
}

static void
on_fault(int signo, siginfo_t *info, void *context)
{
	uint64_t address = (uint64_t)(uintptr_t)info->si_addr;

	if (raw_syscall(SYS_getpid, 0, 0, 0, 0, 0) != during.parent) {
		for (size_t i = 0; i < during.count; i++) {
			struct hole *hole = &during.hole[i];

			if (address - hole->start < hole->length && !hole->filled && !hole->hot) {
				fill_hole(hole);
				return;
			}
		}
	}
	/* Not a hole: act like the previous handler. */
	if ((during.old.sa_flags & SA_SIGINFO) != 0)
		during.old.sa_sigaction(signo, info, context);
	else if (during.old.sa_handler != SIG_DFL && during.old.sa_handler != SIG_IGN)
		during.old.sa_handler(signo);
	else
		sigaction(SIGSEGV, &during.old, NULL); /* the fault repeats and has its default effect */
}

/* ---- preparing ---- */

static bool
entry_overlaps(const struct map_entry *e, uint64_t from, uint64_t to)
{
	return e->start < to && e->end > from;
}

/* True if the mapping contains this thread's stack or thread control block. */
static bool
is_hot(const struct map_entry *e)
{
	uint64_t sp = (uint64_t)(uintptr_t)__builtin_frame_address(0);
	uint64_t tcb = (uint64_t)pthread_self();

	return entry_overlaps(e, sp - STACK_BELOW, sp + STACK_ABOVE) ||
	       entry_overlaps(e, tcb - TCB_NEAR, tcb + TCB_NEAR);
}

static bool
more_room(void)
{
	size_t room = during.room == 0 ? 128 : 2 * during.room;
	struct hole *hole =
		mmap(NULL, room * sizeof(*hole), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (hole == MAP_FAILED)
		return false;
	if (during.room > 0) {
		memcpy(hole, during.hole, during.count * sizeof(*hole));
		munmap(during.hole, during.room * sizeof(*hole));
	}
	during.hole = hole;
	during.room = room;
	return true;
}

static void
collect_holes(void)
{
	struct map_entry e;

	during.count = 0;
	during.bytes = 0;
	if (maps_open(0) != 0 && (!reserve_has(0) || maps_open_lent(reserve.fd[0]) != 0))
		return;
	while (maps_next(&e)) {
		struct file *file = e.shared && e.ino != 0 ? ranges_find(e.dev, e.ino) : NULL;

		if (file == NULL || (during.count == during.room && !more_room()))
			continue;
		during.hole[during.count++] = (struct hole){.start = e.start,
							    .length = e.end - e.start,
							    .offset = e.offset,
							    .file = file,
							    .fd = file->fd,
							    .prot = e.prot,
							    .hot = is_hot(&e)};
		during.bytes += e.end - e.start;
	}
	maps_close();
}

static void
move_hot(bool to_private)
{
	for (size_t i = 0; i < during.count; i++) {
		const struct hole *hole = &during.hole[i];
		struct transplant t = {.start = hole->start,
				       .length = hole->length,
				       .prot = hole->prot,
				       .to_fd = to_private ? -1 : hole->fd,
				       .to_offset = hole->offset,
				       .from_fd = to_private ? hole->fd : -1,
				       .from_offset = hole->offset,
				       .unpinned = true};

		if (hole->hot && to_private)
			ranges_unguard(hole->file, hole->start, hole->start + hole->length);
		if (hole->hot)
			transplant(&t);
	}
}

static void
fork_prepare(void)
{
	struct sigaction action = {.sa_sigaction = on_fault,
				   .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};

	watcher_fork_prepare();
	ranges_lock();
	during.active = false;
	if (!ranges_any())
		return;
	reserve_drop(1);
	reserve_drop(2);
	/* Drop cached registrations: their private pages are copied by the kernel, on write. */
	range_cache_drop(0, UINT64_MAX);
	collect_holes();
	if (during.count == 0) {
		reserve_fill();
		return;
	}
	during.active = true;
	during.parent = getpid();
	move_hot(true);
	if (pipe2(during.pipe, O_CLOEXEC) != 0)
		during.pipe[0] = during.pipe[1] = -1;
	sigemptyset(&action.sa_mask);
	/* Stored before on_fault() can run on another thread. */
	sigaction(SIGSEGV, NULL, &during.old);
	sigaction(SIGSEGV, &action, NULL);
}

static void
close_pipe(int end)
{
	if (during.pipe[end] >= 0)
		close(during.pipe[end]);
	during.pipe[end] = -1;
}

/* Also runs if the fork failed: then no other process holds the pipe, and poll() returns at once. */
static void
fork_parent(void)
{
	if (during.active) {
		struct pollfd end = {.fd = during.pipe[0], .events = POLLIN};
		uint64_t give_up = one_now_ns() + (CHILD_TIMEOUT_MS + (during.bytes >> 20)) * 1000000ull;
		int left = 0;

		sigaction(SIGSEGV, &during.old, NULL);
		close_pipe(1);
		while (end.fd >= 0) {
			uint64_t now = one_now_ns();

			left = now < give_up ? (int)((give_up - now) / 1000000) + 1 : 0;
			/* end of file: the child closed the pipe, or died */
			if (poll(&end, 1, left) >= 0 || errno != EINTR)
				break;
		}
		close_pipe(0);
		move_hot(false);
		reserve_fill(); /* failure is retried at the next fork or attachment */
	}
	ranges_unlock();
	watcher_fork_parent();
}

static void
fork_child(void)
{
	if (during.active) {
		for (size_t i = 0; i < during.count; i++) {
			if (!during.hole[i].filled && !during.hole[i].hot)
				fill_hole(&during.hole[i]);
		}
		sigaction(SIGSEGV, &during.old, NULL);
		close_pipe(1); /* lets the parent continue */
		close_pipe(0);
	}
	/* The descriptors lead to the parent's /proc/self/maps. */
	for (int i = 0; i < 3; i++)
		reserve_drop(i);
	ranges_fork_child();
	mem_fork_child();
	watcher_fork_child();
}

static void
install_handlers(void)
{
	install_error = -pthread_atfork(fork_prepare, fork_parent, fork_child);
}

static int
fork_install(void)
{
	int error;

	pthread_once(&install_once, install_handlers);
	if (install_error != 0)
		return install_error;
	ranges_lock();
	error = reserve_fill();
	ranges_unlock();
	return error;
}

/* ---- beginning and end of an attachment ---- */

int
one_at_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	int error = fork_install();

	return error != 0 ? error : -pthread_atfork(prepare, parent, child);
}

int
one_attach(const struct one_attach *args, struct one_client **out)
{
	int error = fork_install();

	return error != 0 ? error : client_attach(args, out);
}

void
one_detach(struct one_client *client)
{
	if (!client_foreign(client))
		mem_release_all(client);
	client_detach(client);
}
