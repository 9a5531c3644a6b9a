/* SPDX-License-Identifier: BSD-3-Clause */
/* Hosts are taken over by another process (doc/upgrade.md): all their queue pairs are frozen at one moment,
 * frames for them are lost, and a while later they are thawed in the other process, whose clock has another
 * origin; or that process is refused or dies, and they go on where they were. The two cores of moves.c are
 * the two processes. */
#include "sim.h"

#define TAKEOVERS 6u /* limit of attempts per host */

void
takeovers_draw(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->hosts / 2; i++) {
		sim->host[i].takeovers = 1 + sim_below(sim, TAKEOVERS);
		sim->host[i].give_at = sim_below(sim, 2 * MS);
	}
	for (uint32_t i = 0; i < sim->sides; i++)
		sim->side[i]->lossy = true;
}

static bool
is_of(const struct sim *sim, const struct side *side, uint32_t host)
{
	return (uint32_t)(side->host - sim->host) % (sim->hosts / 2) == host;
}

/* Frames that a process had received are lost with it. */
static void
lose_inbox(struct host *host)
{
	struct frame *frame;

	while ((frame = host->inbox) != NULL) {
		host->inbox = frame->next;
		frame_free(frame);
	}
	host->inbox_end = &host->inbox;
}

static void
go_on(struct sim *sim, uint32_t host, bool lost)
{
	for (uint32_t i = 0; i < sim->sides; i++) {
		struct side *side = sim->side[i];

		if (side->record == NULL || !is_of(sim, side, host))
			continue;
		moves_end(sim, side);
		if (lost)
			rc_repeat_lost(side->qp, host_now(side->host));
	}
}

static void
roll_back(struct sim *sim, uint32_t host)
{
	for (uint32_t i = 0; i < sim->sides; i++)
		if (sim->side[i]->record != NULL && is_of(sim, sim->side[i], host))
			moves_return(sim, sim->side[i]);
}

static void
give(struct sim *sim, uint32_t host)
{
	struct host *one = &sim->host[host], *other = &sim->host[host + sim->hosts / 2];
	int error = 0;

	one->give_at = NEVER;
	for (uint32_t i = 0; i < sim->sides && error != -EAGAIN; i++)
		if (is_of(sim, sim->side[i], host))
			error = moves_freeze(sim, sim->side[i]);
	if (error == -EAGAIN) {
		roll_back(sim, host);
		go_on(sim, host, false);
		if (--one->takeovers > 0)
			one->give_at = sim->now + 1 + sim_below(sim, 100 * US);
		return;
	}
	lose_inbox(one);
	lose_inbox(other);
	one->take_at = sim->now + 1 + sim_below(sim, sim_below(sim, 4) == 0 ? 100 * MS : MS);
}

static void
take(struct sim *sim, uint32_t host)
{
	struct host *one = &sim->host[host];
	bool commits = sim_below(sim, 4) != 0;

	one->take_at = NEVER;
	if (--one->takeovers > 0)
		one->give_at = sim->now + 1 + sim_below(sim, 5 * MS);
	/* The new process builds everything before the commit. */
	for (uint32_t i = 0; i < sim->sides; i++) {
		struct side *side = sim->side[i];

		if (side->record != NULL && is_of(sim, side, host) && !moves_try(side))
			commits = false;
	}
	for (uint32_t i = 0; i < sim->sides && !commits; i++)
		if (sim->side[i]->record != NULL && is_of(sim, sim->side[i], host))
			rc_reset(sim->side[i]->qp);
	if (!commits)
		roll_back(sim, host);
	for (uint32_t i = 0; i < sim->sides && commits; i++)
		if (sim->side[i]->record != NULL && is_of(sim, sim->side[i], host))
			rc_frozen_free(&sim->side[i]->from->env.rc, &sim->side[i]->frozen);
	go_on(sim, host, true);
	sim->totals->takeovers++;
	sim->totals->rollbacks += !commits;
}

void
takeovers_run(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->hosts; i++) {
		if (sim->host[i].give_at <= sim->now)
			give(sim, i);
		else if (sim->host[i].take_at <= sim->now)
			take(sim, i);
	}
}

uint64_t
takeovers_next(const struct sim *sim)
{
	uint64_t next = NEVER;

	for (uint32_t i = 0; i < sim->hosts; i++) {
		next = sim->host[i].give_at < next ? sim->host[i].give_at : next;
		next = sim->host[i].take_at < next ? sim->host[i].take_at : next;
	}
	return next;
}
