/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes each send to a socket slow: the kernel notifies each epoll instance on the sender's processor. */
#ifndef TESTS_UNIT_WATCHERS_H
#define TESTS_UNIT_WATCHERS_H

#include <sys/epoll.h>
#include <sys/resource.h>

#include "tests/unit/unit.h"

#define WATCHERS 3000u

static inline void
watch_socket(int fd, int watchers[WATCHERS])
{
	struct epoll_event event = {.events = EPOLLIN};
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	for (uint32_t i = 0; i < WATCHERS; i++) {
		watchers[i] = epoll_create1(0);
		assert_true(watchers[i] >= 0);
		assert_int_equal(epoll_ctl(watchers[i], EPOLL_CTL_ADD, fd, &event), 0);
	}
}

#endif
