/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timers of a core: a wheel of lists, 4.1 us per slot, 16.8 ms around.
 *
 * Every acknowledgement moves a retransmission timer, so moving must be free: a timer that moves to a later
 * time stays in its slot, and is asked for its deadline again when the slot is due. Deadlines beyond the
 * horizon wait in the farthest slot. Timers fire late by up to two slots, never early.
 */
#include "core.h"

void
timer_init(struct core *core)
{
	for (uint32_t i = 0; i < TIMER_SLOTS; i++)
		TAILQ_INIT(&core->wheel[i]);
	core->timer_tick = core->now >> TIMER_SHIFT;
}

void
timer_cancel(struct core *core, struct timer *timer)
{
	if (timer->at == TIMER_NEVER)
		return;
	TAILQ_REMOVE(&core->wheel[timer->slot], timer, link);
	timer->at = TIMER_NEVER;
	core->timers--;
}

void
timer_set(struct core *core, struct timer *timer, uint64_t deadline)
{
	uint64_t tick = deadline >> TIMER_SHIFT, first = core->now >> TIMER_SHIFT;

	if (deadline >= timer->at)
		return;
	timer_cancel(core, timer);
	if (first < core->timer_tick)
		first = core->timer_tick;
	if (tick < first)
		tick = first;
	if (tick >= core->timer_tick + TIMER_SLOTS)
		tick = core->timer_tick + TIMER_SLOTS - 1;
	timer->at = deadline;
	timer->slot = (uint32_t)(tick % TIMER_SLOTS);
	TAILQ_INSERT_TAIL(&core->wheel[timer->slot], timer, link);
	core->timers++;
}

void
timer_run(struct core *core)
{
	uint64_t now_tick = core->now >> TIMER_SHIFT;
	uint32_t budget = CORE_TIMEOUTS;

	if (core->timers == 0) {
		core->timer_tick = now_tick;
		return;
	}
	/* After a long pause every slot is visited once. */
	if (now_tick > core->timer_tick + TIMER_SLOTS)
		core->timer_tick = now_tick - TIMER_SLOTS;
	while (core->timer_tick < now_tick) {
		struct timer_list *slot = &core->wheel[core->timer_tick % TIMER_SLOTS];
		struct timer *timer;

		while ((timer = TAILQ_FIRST(slot)) != NULL) {
			uint64_t deadline;

			if (budget-- == 0)
				return;
			timer_cancel(core, timer);
			deadline = timer->calls->deadline(timer);
			if (deadline <= core->now) {
				timer->calls->expire(core, timer);
				deadline = timer->calls->deadline(timer);
			}
			timer_set(core, timer, deadline);
		}
		core->timer_tick++;
	}
}

uint64_t
timer_next(const struct core *core)
{
	if (core->timers == 0)
		return TIMER_NEVER;
	for (uint64_t tick = core->timer_tick; tick < core->timer_tick + TIMER_SLOTS; tick++)
		if (!TAILQ_EMPTY(&core->wheel[tick % TIMER_SLOTS]))
			return (tick + 1) << TIMER_SHIFT;
	return TIMER_NEVER;
}
