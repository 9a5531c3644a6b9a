/* SPDX-License-Identifier: BSD-3-Clause */
/* Random numbers and descriptors of the control thread. */
#include "control/base/loop.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/random.h>

RTE_LOG_REGISTER(control_logtype, oneside.control, NOTICE);

struct control control = {.epoll = -1, .stop_fd = -1, .listen_fd = -1};

uint64_t
control_random(void)
{
	static uint64_t pool[32];
	static unsigned int left;

	if (left == 0) {
		/* getrandom() returns up to 256 bytes at once, and does not fail once the kernel's pool is
		 * initialized. */
		while (getrandom(pool, sizeof(pool), 0) != (ssize_t)sizeof(pool))
			;
		left = sizeof(pool) / sizeof(pool[0]);
	}
	return pool[--left];
}

int
control_watch(int fd, struct watch *watch, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = watch};

	return epoll_ctl(control.epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}
