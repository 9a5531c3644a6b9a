/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What fork does to attachments and to adopted memory.
 *
 * Adopted pages are shared memory, so a child would share them with its parent.  They are therefore marked
 * MADV_DONTFORK: the child gets holes, and fills them with private copies in its fork handler, before it
 * runs on, while the parent waits in its own.  What the C library does in the child before handlers run (it
 * resets locks, some of which may lie beside a registered buffer) can fall into a hole: a SIGSEGV handler,
 * there only during the fork, then fills it at once.  So nothing that a child does ever reaches the
 * parent's registered pages.
 *
 * Attachments stay the parent's: the child closes its copies of their descriptors.
 *
 * The copy is taken while other threads of the parent, and the data plane, go on:
 * of what they store in that moment the child may see part.  (A child of a process
 * with threads may only call async-signal-safe functions before exec in any case.)
 *
 * The stack and the thread control block of the forking thread are needed by the
 * child before it can do anything.  Should they be adopted (someone registered a
 * buffer on that thread's stack), they become private for the time of the fork and
 * are adopted again after it; what the data plane stores there meanwhile is lost.
 *
 * A process that has no descriptor left can fork all the same: those that it takes
 * are held in reserve from the first attachment on.
 *
 * vfork and posix_spawn (and so system and popen) run no handlers and need none.
 * Children made by clone(2) directly find holes in place of registered memory.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/adopt/keep.h"
#include "client/adopt/maps.h"
#include "client/adopt/ranges.h"
#include "client/adopt/raw.h"
#include "client/adopt/transplant.h"

/* How long the parent waits for the child's copies: this, and a second for each GiB. */
#define CHILD_TIMEOUT_MS 10000
#define STACK_BELOW (64u * 1024u) /* what the way through fork may need */
#define STACK_ABOVE (16u * 1024u)
#define TCB_NEAR (8u * 1024u)

/* An adopted mapping as it was when the fork was prepared. */
struct hole {
	uint64_t start, length, offset;
	struct file *file;
	int fd;
	int prot;
	bool hot;    /* private for the time of the fork: the child has it already */
	bool filled; /* in the child */
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int install_error;

/* Valid between prepare and the handlers after it; the locks are held all the time. */
static struct {
	struct hole *hole; /* in pages of its own */
	size_t count, room;
	uint64_t bytes;
	pid_t parent;
	int pipe[2];
	bool active;
	struct sigaction old;
} during = {.pipe = {-1, -1}};

/*
 * Descriptors of /proc/self/maps: the first is read when no other can be opened, the others
 * are room for the pipe, and for what moving the thread's stack takes.  Under ranges_lock.
 */
static struct {
	int fd[3];
	dev_t dev;
	ino_t ino;
} reserve = {.fd = {-1, -1, -1}};

/* A program that closes whatever is open may have another file there. */
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
fill(struct hole *hole)
{
	long at = raw_syscall(SYS_mmap, (long)hole->start, (long)hole->length, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
	uint64_t done = 0;

	hole->filled = true;
	while (at == (long)hole->start && done < hole->length) {
		long n = raw_syscall(SYS_pread64, hole->fd, (long)(hole->start + done),
				     (long)(hole->length - done), (long)(hole->offset + done), 0);

		if (n <= 0 && n != -EINTR)
			break; /* no memory: zeros, in a child that is about to be killed for it */
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
				fill(hole);
				return;
			}
		}
	}
	/* Not ours: as if we were not here. */
	if ((during.old.sa_flags & SA_SIGINFO) != 0)
		during.old.sa_sigaction(signo, info, context);
	else if (during.old.sa_handler != SIG_DFL && during.old.sa_handler != SIG_IGN)
		during.old.sa_handler(signo);
	else
		sigaction(SIGSEGV, &during.old, NULL); /* the fault comes again, and has its effect */
}

/* ---- preparing ---- */

static bool
overlaps(const struct map_entry *e, uint64_t from, uint64_t to)
{
	return e->start < to && e->end > from;
}

/* What this thread stands on. */
static bool
is_hot(const struct map_entry *e)
{
	uint64_t sp = (uint64_t)(uintptr_t)__builtin_frame_address(0);
	uint64_t tcb = (uint64_t)pthread_self();

	return overlaps(e, sp - STACK_BELOW, sp + STACK_ABOVE) || overlaps(e, tcb - TCB_NEAR, tcb + TCB_NEAR);
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
collect(void)
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
heat(bool to_private)
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
prepare(void)
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
	/* What nobody has registered is copied by the kernel, when it is stored to. */
	keep_drop(0, UINT64_MAX);
	collect();
	if (during.count == 0) {
		reserve_fill();
		return;
	}
	during.active = true;
	during.parent = getpid();
	heat(true);
	if (pipe2(during.pipe, O_CLOEXEC) != 0)
		during.pipe[0] = during.pipe[1] = -1;
	sigemptyset(&action.sa_mask);
	/* Known before another thread can come into on_fault. */
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

/* Also when the fork has failed: then nobody else holds the pipe. */
static void
parent(void)
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
			/* the child says so, or has died: end of file */
			if (poll(&end, 1, left) >= 0 || errno != EINTR)
				break;
		}
		close_pipe(0);
		heat(false);
		reserve_fill(); /* what cannot be had now is asked for again at the next fork or attachment */
	}
	ranges_unlock();
	watcher_fork_parent();
}

static void
child(void)
{
	if (during.active) {
		for (size_t i = 0; i < during.count; i++) {
			if (!during.hole[i].filled && !during.hole[i].hot)
				fill(&during.hole[i]);
		}
		sigaction(SIGSEGV, &during.old, NULL);
		close_pipe(1); /* the parent may go on */
		close_pipe(0);
	}
	/* They lead to the parent's mappings. */
	for (int i = 0; i < 3; i++)
		reserve_drop(i);
	ranges_fork_child();
	mem_fork_child();
	watcher_fork_child();
}

static void
install(void)
{
	install_error = -pthread_atfork(prepare, parent, child);
}

int
fork_install(void)
{
	int error;

	pthread_once(&once, install);
	if (install_error != 0)
		return install_error;
	ranges_lock();
	error = reserve_fill();
	ranges_unlock();
	return error;
}
