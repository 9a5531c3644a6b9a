/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client/order.h"
#include "ranges.h"
#include "raw.h"
#include "stay.h"
#include "transplant.h"

#define DUE 32u /* ranges in the table at which giving back is first tried again */

struct stay {
	struct stay *next;
	struct range *range;
	uint64_t start, length, offset; /* current: `start` follows mremap */
	int fd;                         /* of the file */
	bool punched;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct stay *all;
static _Atomic int uffd = -1;
static uint32_t count, due = DUE;
/* A range was unmapped altogether. Stored by the keeper thread after punching; loaded by stay_is_due. */
static _Atomic bool gone;

/* ---- events ---- */

/* Frees pages of the file at [start, end), as far as they are the range's. */
static void
punch_pages(struct stay *s, uint64_t start, uint64_t end)
{
	uint64_t from = start > s->start ? start : s->start;
	uint64_t to = end < s->start + s->length ? end : s->start + s->length;

	if (from >= to)
		return;
	raw_syscall(SYS_fallocate, s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		    (long)(s->offset + (from - s->start)), (long)(to - from), 0);
	s->punched = true;
}

/* Cuts off what was unmapped at either end; the rest stays watched. */
static void
cut_ends(struct stay *s, uint64_t start, uint64_t end)
{
	uint64_t last = s->start + s->length;

	if (start <= s->start && end > s->start) {
		uint64_t by = (end < last ? end : last) - s->start;

		s->start += by;
		s->offset += by;
		s->length -= by;
	} else if (start < last && end >= last) {
		s->length = start - s->start;
	}
	if (s->length == 0)
		one_store_alone(&gone, true);
}

static void
handle_event(struct stay *s, const struct uffd_msg *msg)
{
	switch (msg->event) {
	case UFFD_EVENT_REMOVE:
		punch_pages(s, msg->arg.remove.start, msg->arg.remove.end);
		break;
	case UFFD_EVENT_UNMAP:
		punch_pages(s, msg->arg.remove.start, msg->arg.remove.end);
		cut_ends(s, msg->arg.remove.start, msg->arg.remove.end);
		break;
	case UFFD_EVENT_REMAP:
		if (msg->arg.remap.from <= s->start &&
		    msg->arg.remap.from + msg->arg.remap.len >= s->start + s->length)
			s->start = msg->arg.remap.to + (s->start - msg->arg.remap.from);
		break;
	default:
		break;
	}
}

/* ---- threads that wait in madvise ---- */

/* Parses "number 0xARGUMENT 0xARGUMENT ..." of the thread's system call. False: the thread is in none. */
static bool
thread_call(int tasks, const char *tid, uint64_t *call)
{
	char path[64] = "", text[256], *at = text;
	long fd, n;

	strncat(path, tid, 32);
	strcat(path, "/syscall");
	fd = raw_syscall(SYS_openat, tasks, (long)path, O_RDONLY | O_CLOEXEC, 0, 0);
	if (fd < 0)
		return false;
	n = raw_syscall(SYS_read, fd, (long)text, sizeof(text) - 1, 0, 0);
	raw_syscall(SYS_close, fd, 0, 0, 0, 0);
	text[n > 0 ? n : 0] = '\0';
	for (uint32_t i = 0; i < 4; i++) {
		char *end;

		call[i] = strtoull(at, &end, 0);
		if (end == at)
			return false;
		at = end;
	}
	return true;
}

static void
punch_for(int tasks, const char *tid, struct stay *first, bool only)
{
	uint64_t call[4];

	if (!thread_call(tasks, tid, call) || call[0] != SYS_madvise ||
	    (call[3] != MADV_DONTNEED && call[3] != MADV_REMOVE))
		return;
	for (struct stay *s = first; s != NULL; s = only ? NULL : s->next)
		punch_pages(s, call[1], call[1] + call[2]);
}

/* Frees pages for all threads that wait in madvise, before their events are read: stay.h. */
static void
punch_for_waiting(struct stay *first, bool only)
{
	char entries[2048] __attribute__((aligned(8)));
	long n, tasks = raw_syscall(SYS_openat, AT_FDCWD, (long)"/proc/self/task",
				    O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0);

	while (tasks >= 0 &&
	       (n = raw_syscall(SYS_getdents64, tasks, (long)entries, sizeof(entries), 0, 0)) > 0) {
		for (long at = 0; at < n;) {
			const struct raw_dirent *entry = (const void *)(entries + at);

			if (entry->name[0] != '.')
				punch_for((int)tasks, entry->name, first, only);
			at += entry->reclen;
		}
	}
	if (tasks >= 0)
		raw_syscall(SYS_close, tasks, 0, 0, 0, 0);
}

/* ---- the keeper thread ---- */

/* True if an event waits, and the pages of all threads that wait are freed: read() may take any of their
 * events. */
static bool
event_is_due(int fd, struct stay *first, bool only)
{
	struct pollfd set = {.fd = fd, .events = POLLIN};

	if (poll(&set, 1, 0) <= 0)
		return false;
	punch_for_waiting(first, only);
	return true;
}

void
stay_serve(void)
{
	struct uffd_msg msg;

	if (!transplant_is_guard(stay_fd())) {
		one_store_alone(&uffd, -1);
		return;
	}
	pthread_mutex_lock(&lock);
	while (event_is_due(stay_fd(), all, false) && read(stay_fd(), &msg, sizeof(msg)) == sizeof(msg)) {
		for (struct stay *s = all; s != NULL; s = s->next)
			handle_event(s, &msg);
	}
	pthread_mutex_unlock(&lock);
}

int
stay_open(void)
{
	int fd = transplant_guard_open();

	if (fd < 0)
		return -EOPNOTSUPP;
	one_store_alone(&uffd, fd);
	return 0;
}

int
stay_fd(void)
{
	return one_load_alone(&uffd);
}

/* ---- the table ---- */

/* Lets the table's userfaultfd watch the range instead of the guard, which may be -1. Parts that are not
 * mapped there any more need no watching. */
static void
watch_range(const struct stay *s, int guard)
{
	struct uffdio_register reg = {.range = {.start = s->start, .len = s->length},
				      .mode = UFFDIO_REGISTER_MODE_WP};

	if (guard >= 0)
		ioctl(guard, UFFDIO_UNREGISTER, &reg.range);
	ioctl(stay_fd(), UFFDIO_REGISTER, &reg);
}

/* Handles all pending events of the guard. A thread that waits for one continues when the event is read, and
 * may change the range again at once: the table's userfaultfd watches the range by then. */
static void
serve_guard(struct stay *s, int guard)
{
	struct uffd_msg msg;

	while (event_is_due(guard, s, true) && read(guard, &msg, sizeof(msg)) == sizeof(msg)) {
		handle_event(s, &msg);
		if (msg.event == UFFD_EVENT_REMAP)
			watch_range(s, guard);
	}
}

bool
stay_add(struct range *range, int guard)
{
	struct stay *s = range->stay == NULL ? cell_new() : NULL;

	if (s == NULL)
		return range->stay != NULL;
	*s = (struct stay){.range = range,
			   .start = range->start,
			   .length = range->length,
			   .offset = range->offset,
			   .fd = range->file->fd};
	range->stay = s;
	pthread_mutex_lock(&lock);
	s->next = all;
	all = s;
	count++;
	watch_range(s, guard);
	if (guard >= 0)
		serve_guard(s, guard);
	if (s->length == range->length)
		range->start = s->start;
	pthread_mutex_unlock(&lock);
	return true;
}

void
stay_remove(struct range *range)
{
	struct stay *s = range->stay, **at = &all;
	struct uffdio_range old;

	if (s == NULL)
		return;
	pthread_mutex_lock(&lock);
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	count--;
	pthread_mutex_unlock(&lock);
	old = (struct uffdio_range){.start = s->start, .len = s->length};
	if (s->length != 0)
		ioctl(stay_fd(), UFFDIO_UNREGISTER, &old);
	range->punched = range->punched || s->punched;
	range->stay = NULL;
	cell_free(s);
}

struct range *
stay_next(const struct range *range)
{
	const struct stay *next = range == NULL ? all : range->stay->next;

	return next != NULL ? next->range : NULL;
}

bool
stay_is_due(void)
{
	bool is_due = one_load_alone(&gone) || count >= due;

	if (is_due) {
		one_store_alone(&gone, false);
		due = 2 * count + DUE;
	}
	return is_due;
}

void
stay_fork_child(void)
{
	if (transplant_is_guard(stay_fd()))
		close(stay_fd());
	one_store_alone(&uffd, -1);
	one_store_alone(&gone, false);
	all = NULL;
	count = 0;
	pthread_mutex_init(&lock, NULL);
}
