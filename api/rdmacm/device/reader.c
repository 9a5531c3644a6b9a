/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One thread reads the rings of all devices, and hands each event to the channel of its id.
 *
 * A channel's descriptor is readable exactly while there are events for it: programs poll it, and then call
 * rdma_get_cm_event(), which waits.  The ring's own descriptor says only that there may be something, for
 * any channel, or for none.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rdmacm/device/device.h"

#define DEVICES_AT_ONCE 8
#define AGAIN_MS 1000

static int set = -1;    /* of the devices' descriptors and `change`; made with the thread */
static int change = -1; /* an eventfd: devices have come or gone */
static bool (*drain)(void);

static void *
reader(void *arg)
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
say_change(void)
{
	uint64_t one = 1;
	ssize_t n = write(change, &one, sizeof(one));

	(void)n; /* a full counter has been told of */
}

/* Those that are open when the thread starts it watches from the beginning. */
int
reader_watch(const struct device *device)
{
	struct epoll_event event = {.events = EPOLLIN};

	if (set < 0)
		return 0;
	say_change();
	return epoll_ctl(set, EPOLL_CTL_ADD, device->cm.fd, &event) != 0 ? -errno : 0;
}

static int
watch(void)
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

/* For the life of the process: devices that are lost may come back. */
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
	/* The program's handlers run on its own threads. */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	error = watch();
	if (error == 0)
		error = pthread_create(&thread, &attr, reader, NULL);
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
	say_change();
}

void
reader_fork_child(void)
{
	if (set >= 0)
		close_set();
}
