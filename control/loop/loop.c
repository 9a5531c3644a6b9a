/* SPDX-License-Identifier: BSD-3-Clause */
/* Random numbers and descriptors of the control thread. */
#include "control/loop/loop.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/random.h>

/* Lines that others bring about: so many at once, and then one for each interval, which a day fills 4 MB
 * with. */
#define LOG_LINES 50u
#define LOG_INTERVAL (4 * NS_PER_S)
#define LOG_LEFT_OUT (60 * NS_PER_S) /* interval of the line that says how many are missing */

RTE_LOG_REGISTER(control_logtype, oneside.control, NOTICE);

struct control control = {.epoll = -1, .stop_fd = -1, .listen_fd = -1};

uint64_t
control_random(void)
{
	static uint64_t pool[32];
	static unsigned int left;

	if (left == 0) {
		/* Up to 256 bytes are given whole, and never fail once the system has started. */
		while (getrandom(pool, sizeof(pool), 0) != (ssize_t)sizeof(pool))
			;
		left = sizeof(pool) / sizeof(pool[0]);
	}
	return pool[--left];
}

uint64_t log_suppressed;

bool
log_allowed(void)
{
	static uint64_t used_until; /* each line uses an interval, */
	static uint64_t report_at;  /* and when the first that found none left is reported */
	static uint32_t left_out;

	if (left_out != 0 && control.now >= report_at) {
		log_notice("event=lines_left_out lines=%u text=\"they were like the last ones\"\n", left_out);
		left_out = 0;
	}
	if (used_until < control.now)
		used_until = control.now;
	if (used_until - control.now >= LOG_LINES * LOG_INTERVAL) {
		if (left_out++ == 0)
			report_at = control.now + LOG_LEFT_OUT;
		log_suppressed++;
		return false;
	}
	used_until += LOG_INTERVAL;
	return true;
}

int
control_watch(int fd, struct watch *watch, uint32_t events)
{
	struct epoll_event event = {.events = events, .data.ptr = watch};

	return epoll_ctl(control.epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}
