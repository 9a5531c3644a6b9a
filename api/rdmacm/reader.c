/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The thread that reads the rings of all devices, and passes each event to the channel of its id.
 *
 * Programs poll a channel's descriptor, and then call rdma_get_cm_event(), which waits.  So the descriptor
 * must be readable exactly while its channel has events.  A ring's descriptor cannot serve: it is readable
 * when the ring may have an event, for any channel or for none.
 */
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rdmacm/device.h"

#define DEVICES_AT_ONCE 8
#define AGAIN_MS 1000

static int set = -1;    /* epoll set of the devices' descriptors and `change`; created with the thread */
static int change = -1; /* eventfd: devices were opened or lost */
static bool (*drain)(void);

static void *
reader_loop(void *arg)
{
	struct epoll_event ready[DEVICES_AT_ONCE];
	bool satisfied = true;

	for (;;) {
		if (epoll_wait(set, ready, DEVICES_AT_ONCE, satisfied ? -1 : AGAIN_MS) < 0 && errno != EINTR)
			return NULL;
		pthread_mutex_lock(&cma_lock);
		satisfied = drain();
		pthread_mutex_unlock(&cma_lock);
	}
}

static void
signal_change(void)
{
	uint64_t one = 1;
	ssize_t n = write(change, &one, sizeof(one));

	(void)n; /* a full counter has woken the thread */
}

/* Does nothing before the thread starts, which adds the open devices itself. */
int
reader_watch(const struct device *device)
{
	struct epoll_event event = {.events = EPOLLIN};

	if (set < 0)
		return 0;
	signal_change();
	return epoll_ctl(set, EPOLL_CTL_ADD, device->cm.fd, &event) != 0 ? -errno : 0;
}

static int
watch_devices(void)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};
	int error = epoll_ctl(set, EPOLL_CTL_ADD, change, &event) != 0 ? -errno : 0;

	for (const struct device *d = devices; d != NULL && error == 0; d = d->next)
		error = reader_watch(d);
	return -error;
}

static void
close_set(void)
{
	close(set);
	close(change);
	set = change = -1;
}

/* The thread runs until the process ends, because lost devices may come back. */
int
reader_start(bool (*take)(void))
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;
	int error;

	if (set >= 0)
		return 0;
	set = epoll_create1(EPOLL_CLOEXEC);
	change = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (set < 0 || change < 0) {
		error = -errno;
		close_set();
		return error;
	}
	drain = take;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	/* The thread blocks all signals, so that the program's handlers run on its own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	error = watch_devices();
	if (error == 0)
		error = pthread_create(&thread, &attr, reader_loop, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (error != 0)
		close_set();
	return -error;
}

void
reader_leave(const struct device *device)
{
	epoll_ctl(set, EPOLL_CTL_DEL, device->cm.fd, NULL);
	signal_change();
}

void
reader_fork_child(void)
{
	if (set >= 0)
		close_set();
}
