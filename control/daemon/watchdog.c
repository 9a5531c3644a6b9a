/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <rte_lcore.h>

#include "control/daemon/daemon.h"
#include "control/base/log.h"
#include "dataplane/engine.h"

#define POLLS 4 /* per watchdog interval: one late or lost notification does no harm */
#define NS_PER_US 1000ull

static struct {
	uint64_t interval; /* ns; 0: no watchdog */
	uint64_t next;
	bool standing;                 /* reported already */
	uint64_t loops[RTE_MAX_LCORE]; /* each core's loop count when all had last made progress */
} watchdog;

/* Number in an environment variable, or 0. */
static uint64_t
number_of(const char *name)
{
	const char *text = getenv(name);
	unsigned long long number;
	char *end;

	if (text == NULL || *text < '0' || *text > '9')
		return 0;
	errno = 0;
	number = strtoull(text, &end, 10);
	return errno == 0 && *end == '\0' ? number : 0;
}

void
watchdog_init(uint64_t now)
{
	uint64_t pid = number_of("WATCHDOG_PID"), us = number_of("WATCHDOG_USEC");

	watchdog.interval = 0;
	watchdog.standing = false;
	if (getenv("WATCHDOG_PID") != NULL && pid != (uint64_t)getpid())
		return; /* the manager watches another process */
	if (us >= POLLS && us < UINT64_MAX / NS_PER_US)
		watchdog.interval = us * NS_PER_US / POLLS;
	watchdog.next = now + watchdog.interval;
	memset(watchdog.loops, 0, sizeof(watchdog.loops));
}

uint64_t
watchdog_deadline(void)
{
	return watchdog.interval == 0 ? UINT64_MAX : watchdog.next;
}

/* A core without progress since the last time that all made progress, or -1. A sleeping core wakes ten times
 * a second. */
static int
stuck_core(void)
{
	uint64_t loops[RTE_MAX_LCORE];
	struct engine_stats stats;
	int standing = -1;

	for (uint32_t i = 0; i < engine_num_cores(); i++) {
		engine_stats(i, &stats);
		loops[i] = stats.loops;
		if (loops[i] == watchdog.loops[i])
			standing = (int)i;
	}
	if (standing < 0)
		memcpy(watchdog.loops, loops, engine_num_cores() * sizeof(loops[0]));
	return standing;
}

void
watchdog_poll(uint64_t now)
{
	int standing;

	if (watchdog.interval == 0 || now < watchdog.next)
		return;
	watchdog.next = now + watchdog.interval;
	standing = stuck_core();
	if (standing < 0) {
		watchdog.standing = false;
		notify_service("WATCHDOG=1", false);
	} else if (!watchdog.standing) {
		watchdog.standing = true;
		log_error("event=core_stuck core=%d text=\"no progress; WATCHDOG=1 withheld\"\n", standing);
	}
}

/* Notifies the service manager by a datagram to the socket in NOTIFY_SOCKET. */
void
notify_service(const char *state, bool waits)
{
	static const struct timeval limit = {.tv_sec = 1};
	const char *name = getenv("NOTIFY_SOCKET");
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	size_t len = name == NULL ? 0 : strlen(name);
	int fd;

	if (len < 2 || len > sizeof(addr.sun_path) || (name[0] != '/' && name[0] != '@'))
		return;
	memcpy(addr.sun_path, name, len);
	if (name[0] == '@')
		addr.sun_path[0] = '\0'; /* abstract namespace */
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	/* The process that takes over does not wait for longer than 5 s. */
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	sendto(fd, state, strlen(state), MSG_NOSIGNAL | (waits ? 0 : MSG_DONTWAIT),
	       (const struct sockaddr *)&addr, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len));
	close(fd);
}
