/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_lcore.h>

#include "control/daemon/notify.h"
#include "control/daemon/watchdog.h"
#include "control/loop/log.h"
#include "dataplane/engine.h"

#define LOOKS 4 /* in the manager's time: one that comes late, and one that is not heard, are no harm */
#define NS_PER_US 1000ull

static struct {
	uint64_t interval; /* 0: there is none */
	uint64_t next;
	bool standing;                 /* said once */
	uint64_t loops[RTE_MAX_LCORE]; /* of each core, when it had turned last */
} watchdog;

/* The number in a variable of the environment; 0: none. */
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
		return; /* it is another process that the manager listens to */
	if (us >= LOOKS && us < UINT64_MAX / NS_PER_US)
		watchdog.interval = us * NS_PER_US / LOOKS;
	watchdog.next = now + watchdog.interval;
	memset(watchdog.loops, 0, sizeof(watchdog.loops));
}

uint64_t
watchdog_deadline(void)
{
	return watchdog.interval == 0 ? UINT64_MAX : watchdog.next;
}

/* A core that has not turned since all had last; -1: there is none.  One that sleeps wakes ten times a
 * second.
 */
static int
standing_core(void)
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
	standing = standing_core();
	if (standing < 0) {
		watchdog.standing = false;
		notify_service("WATCHDOG=1", false);
	} else if (!watchdog.standing) {
		watchdog.standing = true;
		log_error(
			"event=core_stands core=%d text=\"the service manager's watchdog is not told that all is well\"\n",
			standing);
	}
}
