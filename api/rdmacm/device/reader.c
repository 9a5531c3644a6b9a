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
#include <unistd.h>

#include "rdmacm/device/device.h"

#define DEVICES_AT_ONCE 8

static int set = -1; /* of the devices' descriptors; made with the thread */
static void (*drain)(void);

static void *
reader(void *arg)
{
	struct epoll_event ready[DEVICES_AT_ONCE];

	for (;;) {
		if (epoll_wait(set, ready, DEVICES_AT_ONCE, -1) < 0 && errno != EINTR)
			return NULL;
		pthread_mutex_lock(&cma_lock);
		drain();
		pthread_mutex_unlock(&cma_lock);
	}
}

/* Those that are open when the thread starts it watches from the beginning. */
int
reader_watch(const struct device *device)
{
	struct epoll_event event = {.events = EPOLLIN};

	return set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, device->cm.fd, &event) != 0 ? -errno : 0;
}

static int
watch(void)
{
	int error = 0;

	for (const struct device *d = devices; d != NULL && error == 0; d = d->next)
		error = reader_watch(d);
	return -error;
}

/* For the life of the process: devices that are lost may come back. */
int
reader_start(void (*take)(void))
{
	pthread_attr_t attr;
	pthread_t thread;
	sigset_t all, old;
	int error;

	if (set >= 0)
		return 0;
	set = epoll_create1(EPOLL_CLOEXEC);
	if (set < 0)
		return -errno;
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
	if (error == 0)
		return 0;
	close(set);
	set = -1;
	return -error;
}

void
reader_leave(const struct device *device)
{
	epoll_ctl(set, EPOLL_CTL_DEL, device->cm.fd, NULL);
}
