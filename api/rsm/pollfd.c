/* SPDX-License-Identifier: BSD-3-Clause */
/* Poll descriptors of segments. A descriptor is the read end of a pipe. The pipe contains a byte while events
 * are pending, so that poll and epoll report POLLIN and POLLRDNORM, level triggered. The write end is closed
 * when no event can come any more (POLLHUP). Each attachment with descriptors has a pump thread, which
 * updates the pipes. */
#include "client/wait.h"
#include "rsm/segment_object.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PUMP_SLEEP_NS 1000000000ull

/* Indexed by descriptor: the segment, and the process that opened the descriptor (this one or an
 * ancestor). */
static struct polled {
	void *handle;
	uint32_t process;
} * polled;
static int polled_room;

static int
polled_add(int fd, void *handle)
{
	int error = 0;

	pthread_mutex_lock(&rsm_polled_lock);
	if (fd >= polled_room) {
		size_t room = 2 * (size_t)fd + 16;
		struct polled *more = realloc(polled, room * sizeof(*more));

		if (more == NULL) {
			error = -ENOMEM;
		} else {
			memset(more + polled_room, 0, (room - (size_t)polled_room) * sizeof(*more));
			polled = more;
			polled_room = (int)room;
		}
	}
	if (error == 0)
		polled[fd] = (struct polled){handle, rsm_this_process()};
	pthread_mutex_unlock(&rsm_polled_lock);
	return error;
}

static void
polled_remove(int fd)
{
	pthread_mutex_lock(&rsm_polled_lock);
	polled[fd].handle = NULL;
	pthread_mutex_unlock(&rsm_polled_lock);
}

/* Returns the segment of a descriptor; NULL if the descriptor is the application's own, or the parent's. */
static void *
polled_find(int fd)
{
	void *handle = NULL;

	pthread_mutex_lock(&rsm_polled_lock);
	if (fd >= 0 && fd < polled_room && polled[fd].process == rsm_this_process())
		handle = polled[fd].handle;
	pthread_mutex_unlock(&rsm_polled_lock);
	return handle;
}

void
rsm_pollfd_sync(struct rsm_events *events, bool ended)
{
	bool pending;
	char byte = 0;

	if (events->pipe[0] < 0)
		return;
	pending = rsm_events_pending(events) > 0;
	if (pending && !events->lit && events->pipe[1] >= 0)
		events->lit = write(events->pipe[1], &byte, 1) == 1;
	else if (!pending && events->lit)
		events->lit = read(events->pipe[0], &byte, 1) != 1;
	if (ended && events->pipe[1] >= 0) {
		close(events->pipe[1]);
		events->pipe[1] = -1;
	}
}

void
rsm_pollfd_close(struct rsm_events *events)
{
	for (int i = 0; i < 2; i++) {
		if (events->pipe[i] >= 0)
			close(events->pipe[i]);
		events->pipe[i] = -1;
	}
}

/* ---- the pump ---- */

static void
pump_table(struct rsm_table *slots, struct rsm_link *link)
{
	uint32_t used = rsm_table_used(slots);

	for (uint32_t i = 0; i < used; i++) {
		struct rsm_event_segment segment;
		void *handle = rsm_slot_polled(slots, i, link);

		if (handle == NULL || rsm_event_lock(handle, &segment) != RSM_SUCCESS)
			continue;
		if (segment.link == link) {
			rsm_event_arm(&segment);
			rsm_pollfd_sync(segment.events, rsm_event_ended(&segment));
		}
		rsm_slot_unlock(segment.slot);
	}
}

static void *
pump(void *arg)
{
	struct rsm_link *link = arg;
	bool stay = true;

	while (stay) {
		uint32_t ticket = one_wait_begin(link->client, link->channel);
		bool lost = rsm_link_lost(link);

		pump_table(&rsm_imports, link);
		pump_table(&rsm_exports, link);
		pthread_mutex_lock(&link->lock);
		if (link->polled == 0 || lost)
			stay = link->pump = false;
		pthread_mutex_unlock(&link->lock);
		if (stay)
			one_wait_sleep(link->client, link->channel, ticket, one_now_ns() + PUMP_SLEEP_NS);
	}
	rsm_link_put(link);
	return NULL;
}

/* The thread blocks all signals: the application's threads handle them. */
static int
start_thread(struct rsm_link *link)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t thread;
	int error;

	sigfillset(&all);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, (size_t)PTHREAD_STACK_MIN + 64 * 1024);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	error = pthread_create(&thread, &attr, pump, rsm_link_get(link));
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (error != 0)
		rsm_link_put(link);
	return error;
}

/* Counts a segment with a descriptor, and starts the pump if necessary. */
static int
pump_add(struct rsm_link *link)
{
	int error = 0;

	pthread_mutex_lock(&link->lock);
	if (!link->pump) {
		error = start_thread(link);
		link->pump = error == 0;
	}
	if (error == 0)
		link->polled++;
	pthread_mutex_unlock(&link->lock);
	if (error == 0)
		one_channel_wake(link->client, link->channel);
	return error;
}

static void
pump_drop(struct rsm_link *link)
{
	pthread_mutex_lock(&link->lock);
	link->polled--;
	pthread_mutex_unlock(&link->lock);
	one_channel_wake(link->client, link->channel);
}

/* ---- the calls ---- */

static int
make(struct rsm_event_segment *segment, void *handle)
{
	struct rsm_events *events = segment->events;

	if (pipe2(events->pipe, O_CLOEXEC | O_NONBLOCK) != 0) {
		events->pipe[0] = events->pipe[1] = -1;
		return RSMERR_INSUFFICIENT_RESOURCES;
	}
	events->lit = false;
	if (polled_add(events->pipe[0], handle) == 0) {
		/* Pairs with the load in rsm_slot_polled() on the pump thread; pump_add() starts or wakes
		 * that thread. */
		one_store_alone(&segment->slot->polled_by, segment->link);
		if (pump_add(segment->link) == 0)
			return RSM_SUCCESS;
		one_store_alone(&segment->slot->polled_by, NULL);
		polled_remove(events->pipe[0]);
	}
	rsm_pollfd_close(events);
	return RSMERR_INSUFFICIENT_MEM;
}

static void
unmake(struct rsm_event_segment *segment)
{
	struct rsm_events *events = segment->events;
	struct rsm_link *link;

	polled_remove(events->pipe[0]);
	rsm_pollfd_close(events);
	/* Every store is under the slot's lock, which is held, so no atomic exchange is needed. */
	link = one_load_locked(&segment->slot->polled_by);
	one_store_alone(&segment->slot->polled_by, NULL);
	pump_drop(link);
}

int
rsm_do_memseg_get_pollfd(void *memseg, struct pollfd *fd)
{
	struct rsm_event_segment segment;
	int result = rsm_event_lock(memseg, &segment);

	if (result != RSM_SUCCESS)
		return result;
	if (fd == NULL)
		result = RSMERR_BAD_ADDR;
	else if (segment.events->polled == 0)
		result = make(&segment, memseg);
	if (result == RSM_SUCCESS) {
		segment.events->polled++;
		rsm_pollfd_sync(segment.events, rsm_event_ended(&segment));
		fd->fd = segment.events->pipe[0];
		fd->events = POLLRDNORM;
	}
	rsm_slot_unlock(segment.slot);
	return result;
}

int
rsm_do_memseg_release_pollfd(void *memseg)
{
	struct rsm_event_segment segment;
	int result = rsm_event_lock(memseg, &segment);

	if (result != RSM_SUCCESS)
		return result;
	if (segment.events->polled > 0 && --segment.events->polled == 0)
		unmake(&segment);
	rsm_slot_unlock(segment.slot);
	return RSM_SUCCESS;
}

/* Updates the pipes first: the pump may not have seen all pending events. */
static void
refresh(const struct pollfd *fds, nfds_t nfds)
{
	struct rsm_event_segment segment;

	for (nfds_t i = 0; i < nfds; i++) {
		void *handle = polled_find(fds[i].fd);

		if (handle == NULL || rsm_event_lock(handle, &segment) != RSM_SUCCESS)
			continue;
		rsm_pollfd_sync(segment.events, rsm_event_ended(&segment));
		rsm_slot_unlock(segment.slot);
	}
}

/* Takes an event of a segment that poll() reported ready. Returns the value for revents. */
static short
consume(void *handle, short revents)
{
	struct rsm_event_segment segment;
	bool taken;

	if (rsm_event_lock(handle, &segment) != RSM_SUCCESS)
		return POLLNVAL;
	taken = rsm_events_take(segment.events);
	rsm_slot_unlock(segment.slot);
	return taken ? POLLRDNORM : revents & (POLLHUP | POLLERR | POLLNVAL);
}

static int
poll_error(int error)
{
	switch (error) {
	case EINTR:
		return RSMERR_INTERRUPTED;
	case EFAULT:
		return RSMERR_BAD_ADDR;
	case EINVAL:
		return RSMERR_BAD_ARGS_ERRORS;
	case ENOMEM:
		return RSMERR_INSUFFICIENT_MEM;
	default:
		return RSMERR_INSUFFICIENT_RESOURCES;
	}
}

int
rsm_do_intr_signal_wait_pollfd(struct pollfd fds[], nfds_t nfds, int timeout, int *numfdsp)
{
	int ready, num = 0;

	if (numfdsp != NULL)
		*numfdsp = 0;
	/* The first poll() checks the array: it fails if the array is not readable, or longer than
	 * allowed. */
	ready = poll(fds, nfds, 0);
	if (ready >= 0) {
		refresh(fds, nfds);
		ready = poll(fds, nfds, timeout < 0 ? -1 : timeout);
	}
	if (ready < 0)
		return poll_error(errno);
	for (nfds_t i = 0; ready > 0 && i < nfds; i++) {
		void *handle = fds[i].revents == 0 ? NULL : polled_find(fds[i].fd);

		if (handle != NULL)
			fds[i].revents = consume(handle, fds[i].revents);
		if (fds[i].revents != 0)
			num++;
	}
	if (num == 0)
		return RSMERR_TIMEOUT; /* also if other threads took the events */
	if (numfdsp != NULL)
		*numfdsp = num;
	return RSM_SUCCESS;
}
