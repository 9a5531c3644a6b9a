/* SPDX-License-Identifier: BSD-3-Clause */
/* Timers of a core. A timer is embedded in the object that it serves. */
#ifndef DATAPLANE_CORE_TIMER_H
#define DATAPLANE_CORE_TIMER_H

#include <stdint.h>
#include <sys/queue.h>

struct core;

#define TIMER_NEVER UINT64_MAX

struct timer_calls;

struct timer {
	TAILQ_ENTRY(timer) link;
	uint64_t at; /* ns, deadline queued; TIMER_NEVER: not in the wheel */
	const struct timer_calls *calls;
	uint32_t slot;
};
TAILQ_HEAD(timer_list, timer);

void timer_init(struct core *core);                                        /* initializes the wheel */
void timer_set(struct core *core, struct timer *timer, uint64_t deadline); /* no effect unless earlier */
void timer_cancel(struct core *core, struct timer *timer);

/* Called for a timer whose slot is due: deadline() returns its current deadline (TIMER_NEVER: none), expire()
 * acts if the deadline has passed. */
struct timer_calls {
	uint64_t (*deadline)(const struct timer *timer);
	void (*expire)(struct core *core, struct timer *timer);
};
void timer_run(struct core *core);
uint64_t timer_next(const struct core *core); /* ns; TIMER_NEVER: none */

#endif
