/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "client/order.h"
#include "client/explain.h"
#include "range_cache.h"
#include "ranges.h"
#include "stay.h"
#include "transplant.h"

#define BYTES_DEFAULT (2ull << 30)
#define STACK_SIZE (256u * 1024u)
#define BUSY_NS 50000 /* before ranges_lock is tried again */

enum state {
	STATE_FREE,       /* guards no range; events of earlier mappings may still arrive */
	STATE_REGISTERED, /* the range is registered */
	STATE_CACHED,     /* the range is cached */
};

struct guard {
	_Atomic int fd; /* a userfaultfd, never closed here; -1: the program has closed it */
	_Atomic enum state state;
	/* A mapping of the range changed while the range was registered. Stored by the keeper thread before
	 * the thread that made the change continues; loaded by range_cache_put, range_cache_intact and
	 * range_cache_was_touched. */
	_Atomic bool touched;
	struct range *range;
	uint64_t used; /* cache.uses when the range was cached: the range with the lowest is dropped first */
};

static struct {
	struct guard guard[RANGE_CACHE_MAX];
	_Atomic uint32_t count; /* guards that have had a descriptor; never decreases */
	uint32_t most;
	uint64_t limit, bytes, uses; /* `bytes` are cached now */
	_Atomic int wake;            /* eventfd, written when a guard is opened */
	bool known;                  /* `limit` and `most` are set */
	_Atomic bool running;
} cache;

/* ---- limits ---- */

/* Parses a number of bytes with an optional suffix K, M or G. */
static uint64_t
limit_of(const char *text)
{
	char *end = NULL;
	uint64_t value = text != NULL ? strtoull(text, &end, 10) : BYTES_DEFAULT;
	unsigned int shift = 0;

	if (text == NULL)
		return value;
	if (*end == 'K')
		shift = 10;
	else if (*end == 'M')
		shift = 20;
	else if (*end == 'G')
		shift = 30;
	if (end == text || text[0] == '-' || end[shift != 0] != '\0' || value > UINT64_MAX >> shift) {
		one_warn("ONESIDE_REGISTRATION_CACHE = %.32s: this is not a size; write bytes, as in 512M",
			 text);
		return BYTES_DEFAULT;
	}
	return value << shift;
}

bool
range_cache_usable(void)
{
	struct rlimit files;
	int fd;

	if (cache.known)
		return cache.limit != 0 && cache.most != 0;
	cache.known = true;
	cache.limit = limit_of(secure_getenv("ONESIDE_REGISTRATION_CACHE"));
	/* Each cached range takes two descriptors, and most of the limit must remain for the application. */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0)
		cache.most = files.rlim_cur / 16 < RANGE_CACHE_MAX ? (uint32_t)(files.rlim_cur / 16)
								   : RANGE_CACHE_MAX;
	/* Files of cached ranges continue for BEHIND bytes (files.h): cache nothing under a limit. */
	if (getrlimit(RLIMIT_FSIZE, &files) != 0 || files.rlim_cur != RLIM_INFINITY)
		cache.most = 0;
	fd = cache.limit != 0 && cache.most != 0 ? transplant_guard_open() : -1;
	if (fd >= 0)
		close(fd);
	else
		cache.most = 0;
	return cache.limit != 0 && cache.most != 0;
}

/* ---- guards ---- */

static bool
is_guard(const struct guard *guard)
{
	return transplant_is_guard(one_load_alone(&guard->fd));
}

/* Reads all pending events, so that the waiting threads continue. */
static void
guard_drain(const struct guard *guard)
{
	struct uffd_msg msg;

	while (is_guard(guard) && read(one_load_alone(&guard->fd), &msg, sizeof(msg)) == sizeof(msg))
		;
}

int
range_cache_guard_fd(const struct range *range)
{
	return range->guard != NULL && is_guard(range->guard) ? one_load_alone(&range->guard->fd) : -1;
}

void
range_cache_unguard(const struct range *range, uint64_t start, uint64_t end)
{
	struct uffdio_range part = {.start = start, .len = end - start};

	/* Fails, harmlessly, where no guard is set. */
	if (range->guard != NULL)
		ioctl(one_load_alone(&range->guard->fd), UFFDIO_UNREGISTER, &part);
}

void
range_cache_leave(struct range *range)
{
	struct guard *guard = range->guard;

	if (guard == NULL)
		return;
	if (one_load_locked(&guard->state) == STATE_CACHED)
		cache.bytes -= range->length;
	range->guard = NULL;
	guard->range = NULL;
	/* Pairs with the loads in guard_serve: from now on the keeper thread only drains events. */
	atomic_store_explicit(&guard->state, STATE_FREE, memory_order_release);
	guard_drain(guard);
}

/* ---- the keeper thread ---- */

/* Handles the events of one guard. False: another thread holds ranges_lock, try again later. */
static bool
guard_serve(struct guard *guard)
{
	/* Pairs with the stores in range_cache_put, range_cache_take, range_cache_leave. */
	if (atomic_load_explicit(&guard->state, memory_order_acquire) != STATE_CACHED) {
		/* Pairs with the loads in range_cache_put, range_cache_intact, range_cache_was_touched. */
		atomic_store_explicit(&guard->touched, true, memory_order_release);
		guard_drain(guard);
		if (!is_guard(guard))
			one_store_alone(&guard->fd, -1);
		return true;
	}
	if (!ranges_trylock())
		return false;
	if (one_load_locked(&guard->state) == STATE_CACHED) {
		one_store_alone(&guard->touched, true);
		ranges_give_up(guard->range);
	}
	guard_drain(guard);
	ranges_unlock();
	return true;
}

static void *
keeper_main(void *arg)
{
	const struct timespec busy_wait = {.tv_nsec = BUSY_NS};
	struct pollfd set[2 + RANGE_CACHE_MAX];

	for (;;) {
		/* Pairs with the store in guard_open. */
		uint32_t n = atomic_load_explicit(&cache.count, memory_order_acquire);
		bool busy = false;
		uint64_t value;

		set[0] = (struct pollfd){.fd = one_load_alone(&cache.wake), .events = POLLIN};
		set[1] = (struct pollfd){.fd = stay_fd(), .events = POLLIN};
		for (uint32_t i = 0; i < n; i++)
			set[2 + i] =
				(struct pollfd){.fd = one_load_alone(&cache.guard[i].fd), .events = POLLIN};
		if (poll(set, 2 + n, -1) <= 0)
			continue;
		if ((set[0].revents & POLLNVAL) != 0)
			one_store_alone(&cache.wake, -1);
		else if (set[0].revents != 0 && read(set[0].fd, &value, sizeof(value)) < 0)
			continue;
		if (set[1].revents != 0)
			stay_serve();
		for (uint32_t i = 0; i < n; i++) {
			if (set[2 + i].revents != 0 && !guard_serve(&cache.guard[i]))
				busy = true;
		}
		if (busy)
			nanosleep(&busy_wait, NULL);
	}
	return NULL;
}

/* Started once for the life of the process: a guard may report events at any time. */
static int
keeper_start(void)
{
	pthread_t thread;
	void *stack;
	int error, wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	if (wake < 0)
		return -errno;
	one_store_alone(&cache.wake, wake);
	error = stay_open();
	if (error == 0)
		error = client_thread_apart(&thread, STACK_SIZE, keeper_main, NULL, &stack);
	if (error != 0) {
		close(wake);
		return error;
	}
	pthread_detach(thread);
	one_store_alone(&cache.running, true);
	return 0;
}

bool
range_cache_was_touched(const struct range *range)
{
	/* Pairs with the store in guard_serve. */
	return range->guard != NULL && atomic_load_explicit(&range->guard->touched, memory_order_acquire);
}

uint32_t
range_cache_threads(void)
{
	return one_load_alone(&cache.running) ? 1 : 0;
}

/* ---- cached ranges ---- */

/* Opens the userfaultfd of entry `i` of the table. */
static struct guard *
guard_open(uint32_t i)
{
	struct guard *guard = &cache.guard[i];
	const uint64_t one = 1;
	int fd;

	/* No guard exists yet, so no thread waits for the keeper thread while threads are created. */
	if (range_cache_threads() == 0 && (transplant_stand_by() != 0 || keeper_start() != 0))
		cache.most = 0;
	if (i >= cache.most)
		return NULL;
	fd = transplant_guard_open();
	if (fd < 0)
		return NULL;
	one_store_alone(&guard->fd, fd);
	/* Pairs with the load in keeper. */
	if (i == one_load_locked(&cache.count))
		atomic_store_explicit(&cache.count, i + 1, memory_order_release);
	if (write(one_load_alone(&cache.wake), &one, sizeof(one)) == sizeof(one))
		return guard;
	/* The keeper thread would not poll the new descriptor. */
	cache.most = 0;
	one_store_alone(&guard->fd, -1);
	close(fd);
	return NULL;
}

/* The guard whose range was cached first; NULL: no range is cached. */
static struct guard *
oldest_guard(void)
{
	struct guard *found = NULL;

	for (uint32_t i = 0; i < one_load_locked(&cache.count); i++) {
		struct guard *guard = &cache.guard[i];

		if (one_load_locked(&guard->state) == STATE_CACHED &&
		    (found == NULL || guard->used < found->used))
			found = guard;
	}
	return found;
}

bool
range_cache_drop_oldest(void)
{
	struct guard *guard = oldest_guard();

	if (guard != NULL)
		ranges_give_up(guard->range);
	return guard != NULL;
}

static struct guard *
guard_get(void)
{
	uint32_t n = one_load_locked(&cache.count);
	struct guard *guard;

	for (uint32_t i = 0; i < n; i++) {
		if (cache.guard[i].range == NULL)
			return is_guard(&cache.guard[i]) ? &cache.guard[i] : guard_open(i);
	}
	guard = guard_open(n);
	if (guard != NULL || !range_cache_drop_oldest())
		return guard;
	return guard_get();
}

/* Guards the range. False: no guard can be had, or not all of the range is mapped where it was adopted. */
static bool
guard_set(struct range *range)
{
	struct uffdio_register reg = {.range = {.start = range->start, .len = range->length},
				      .mode = UFFDIO_REGISTER_MODE_WP};
	struct guard *guard = guard_get();

	if (guard == NULL)
		return false;
	one_store_alone(&guard->touched, false);
	guard->range = range;
	range->guard = guard;
	one_store_alone(&guard->state, STATE_REGISTERED);
	if (ioctl(one_load_alone(&guard->fd), UFFDIO_REGISTER, &reg) == 0 && range_is_whole(range))
		return true;
	range_cache_unguard(range, range->start, range->start + range->length);
	range_cache_leave(range);
	return false;
}

bool
range_cache_put(struct range *range)
{
	struct guard *guard = range->guard;

	if (!range->file->lasting || range->file->slab || range->locked || !range_cache_usable() ||
	    range->length > cache.limit)
		return false;
	if (guard == NULL && !guard_set(range))
		return false;
	guard = range->guard;
	/* Pairs with the store in guard_serve: a thread that changed a mapping continues only after it. */
	if (atomic_load_explicit(&guard->touched, memory_order_acquire) || !is_guard(guard))
		return false;
	while (cache.bytes > cache.limit - range->length)
		range_cache_drop_oldest();
	cache.bytes += range->length;
	guard->used = ++cache.uses;
	/* Pairs with the load in guard_serve. */
	atomic_store_explicit(&guard->state, STATE_CACHED, memory_order_release);
	return true;
}

void
range_cache_take(struct range *range)
{
	struct guard *guard = range->guard;

	if (guard == NULL || one_load_locked(&guard->state) != STATE_CACHED)
		return;
	cache.bytes -= range->length;
	/* Pairs with the load in guard_serve. */
	atomic_store_explicit(&guard->state, STATE_REGISTERED, memory_order_release);
}

/*
 * UFFDIO_CONTINUE serves as a question here and installs no page of an intact range:
 *
 *   EAGAIN   the keeper thread has not yet read all events of the guard; the kernel queues an event before
 *            the thread that caused it continues
 *   ENOENT   no single mapping with the guard covers the range
 *   EEXIST   one does, and its first page is present
 *
 * Events read earlier are noted in `touched`, or have dropped the range. The first page shows the rights of
 * the mapping.
 */
bool
range_cache_intact(const struct range *range, bool write)
{
	struct uffdio_continue all = {.range = {.start = range->start, .len = range->length}};
	void *first = (void *)(uintptr_t)range->start;
	struct guard *guard = range->guard;

	if (guard == NULL || ioctl(one_load_alone(&guard->fd), UFFDIO_CONTINUE, &all) == 0 || errno != EEXIST)
		return false;
	if (madvise(first, page_size(), MADV_POPULATE_READ) != 0 ||
	    (write && madvise(first, page_size(), MADV_POPULATE_WRITE) != 0))
		return false;
	/* Pairs with the store in guard_serve. Loaded after UFFDIO_CONTINUE has found no unread event. */
	return !atomic_load_explicit(&guard->touched, memory_order_acquire);
}

bool
range_cache_drop(uint64_t start, uint64_t end)
{
	bool any = false;

	for (uint32_t i = 0; i < one_load_locked(&cache.count); i++) {
		struct guard *guard = &cache.guard[i];

		if (one_load_locked(&guard->state) != STATE_CACHED || guard->range->start >= end ||
		    guard->range->start + guard->range->length <= start)
			continue;
		ranges_give_up(guard->range);
		any = true;
	}
	return any;
}

void
range_cache_fork_child(void)
{
	for (uint32_t i = 0; i < one_load_locked(&cache.count); i++) {
		if (is_guard(&cache.guard[i]))
			close(one_load_alone(&cache.guard[i].fd));
	}
	if (range_cache_threads() != 0)
		close(one_load_alone(&cache.wake));
	memset(&cache, 0, sizeof(cache));
}
