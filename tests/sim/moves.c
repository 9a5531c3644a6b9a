/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs that move between the two cores of their host: frozen at any moment, and thawed a while later
 * on the other core, whose clock has another origin. A core hands frames over that are for the other one;
 * while a queue pair is frozen they wait for it. */
#include "sim.h"

#define MOVES 40u /* limit of attempts per side */

static struct host *
other_core(const struct host *host)
{
	struct sim *sim = host->sim;
	uint32_t index = (uint32_t)(host - sim->host), originals = sim->hosts / 2;

	return &sim->host[index < originals ? index + originals : index - originals];
}

void
moves_draw(struct sim *sim)
{
	for (uint32_t i = 0; i < sim->sides; i++) {
		sim->side[i]->moves = 1 + sim_below(sim, MOVES);
		sim->side[i]->move_at = sim_below(sim, 500 * US);
	}
}

int
moves_freeze(struct sim *sim, struct side *side)
{
	uint32_t size = rc_record_size(side->posted - side->done);
	int rc;

	side->record = malloc(size); /* exactly as large as it needs to be */
	rc = rc_freeze(side->qp, side->record, size, &side->frozen, host_now(side->host));
	if (rc != 0) {
		if (rc != -EAGAIN && rc != -ENOTCONN)
			sim_fail(sim, side, "is not frozen: %d", rc);
		free(side->record);
		side->record = NULL;
		return rc;
	}
	side->record_len = rc_record_size(side->frozen.count);
	sim_log(sim, side, "is frozen");
	free(side->qp);
	side->qp = calloc(1, rc_qp_size());
	side->from = side->host;
	side->host = other_core(side->host);
	return 0;
}

bool
moves_try(struct side *side)
{
	rc_init(side->qp, &side->host->env.rc, side->host->lane, side);
	return rc_record_check(side->record, side->record_len) == 0 &&
	       rc_thaw(side->qp, &side->attr, side->record, host_now(side->host)) == 0 &&
	       rc_check_thawed(side->qp) == 0;
}

void
moves_return(struct sim *sim, struct side *side)
{
	side->host = side->from;
	rc_frozen_free(&side->from->env.rc, &side->frozen);
	if (!moves_try(side))
		sim_fail(sim, side, "cannot be thawed where it was");
}

void
moves_end(struct sim *sim, struct side *side)
{
	sim_log(sim, side, "is thawed on core %u", (unsigned)(side->host - sim->host));
	free(side->record);
	side->record = NULL;
	if (rc_deadline(side->qp) == 0)
		sim_fail(sim, side, "a timer has lost its time");
	if (side->host->poll_at > sim->now + 1)
		side->host->poll_at = sim->now + 1;
}

static void
begin(struct sim *sim, struct side *side)
{
	int rc = moves_freeze(sim, side);

	side->move_at = --side->moves == 0 ? NEVER : sim->now + 1 + sim_below(sim, 500 * US);
	if (rc == 0)
		side->thaw_at = sim->now + 1 + sim_below(sim, 200 * US);
}

static void
finish(struct sim *sim, struct side *side)
{
	side->thaw_at = NEVER;
	/* Without enough nodes there, or by chance as for want of something else, the queue pair returns. */
	if (sim_below(sim, 8) != 0 && moves_try(side)) {
		rc_frozen_free(&side->from->env.rc, &side->frozen);
		sim->totals->moves++;
	} else {
		moves_return(sim, side);
	}
	moves_end(sim, side);
	if (side->waiting == NULL)
		return;
	*side->host->inbox_end = side->waiting;
	side->host->inbox_end = side->waiting_end;
	side->waiting = NULL;
}

void
moves_run(struct sim *sim, struct side *side)
{
	if (side->thaw_at <= sim->now)
		finish(sim, side);
	else if (side->move_at <= sim->now && side->record == NULL)
		begin(sim, side);
}

uint64_t
moves_next(const struct side *side)
{
	return side->record != NULL ? side->thaw_at : side->move_at;
}

bool
moves_take(struct side *side, const struct host *host, struct frame *frame)
{
	if (side->record != NULL && side->lossy) {
		frame_free(frame);
		return true;
	}
	if (side->record != NULL) {
		if (side->waiting == NULL)
			side->waiting_end = &side->waiting;
		frame->next = NULL;
		*side->waiting_end = frame;
		side->waiting_end = &frame->next;
		return true;
	}
	if (side->host == host)
		return false;
	frame->next = NULL;
	*side->host->inbox_end = frame;
	side->host->inbox_end = &frame->next;
	return true;
}
