/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whose turn it is: a core's time, and with it the room in its ports' rings, is shared between clients by
 * deficit round robin over what their work costs (Shreedhar and Varghese, SIGCOMM 1995), not by how many
 * queue pairs they keep busy.
 *
 * In each loop each client that has something to do gets a turn.  At its beginning its credit grows by its
 * quantum, and what it causes is taken off: a queue pair's look is not cut short, so that a turn may cost
 * more than the credit, and the next ones are shorter.  A client whose turn ends since a port takes no more
 * is the first of the next loop, with what it has left: room goes round as time does.  A client alone has no
 * limits.
 *
 * What its peers send to a client is not its turn's: it cannot be put off.
 */
#include "dataplane/core/stats.h"
#include "dataplane/qp/transport.h"

static inline uint64_t
share_cost(const struct core *core)
{
	return core->cost + core->stats.work * SHARE_REQUEST + core->stats.local_bytes;
}

bool
share_lasts(const struct core *core)
{
	return share_cost(core) < core->cost_end;
}

void
share_leave(struct core *core, struct engine_client *client)
{
	if (!client->share.busy)
		return;
	client->share.busy = false;
	TAILQ_REMOVE(&core->busy, client, share.link);
	core->busy_count--;
}

static inline uint64_t
progress(const struct core *core)
{
	return core->stats.work + core->stats.local_bytes + core->stats.completions;
}

static bool
poll_hot(struct core *core, struct share *share)
{
	uint32_t looks = RTE_MIN(share->hot_count, (uint32_t)CORE_HOT_LOOKS);
	uint64_t before = progress(core);

	/* Round robin, also when there are more than are looked at in one loop.  A queue pair that
	 * leaves the list gives its place to the last one. */
	for (uint32_t i = 0; i < looks && share->hot_count > 0 && share_lasts(core); i++) {
		if (share->hot_next >= share->hot_count)
			share->hot_next = 0;
		core->cost += SHARE_LOOK;
		qp_poll(core, share->hot[share->hot_next++]);
	}
	return progress(core) != before;
}

static inline bool
has_work(const struct share *share)
{
	return share->hot_count > 0 || !TAILQ_EMPTY(&share->run);
}

/* What it has begun gets the other half of its credit, if it posts more and more. */
static uint32_t
serve(struct core *core, struct share *share, uint64_t credit)
{
	uint64_t start = share_cost(core);
	uint32_t done = 0;

	if (share->hot_count > 0) {
		core->cost_end = start + (TAILQ_EMPTY(&share->run) ? credit : credit / 2);
		done += poll_hot(core, share);
		/* Among others a turn is not over when each was looked at, or those with few would have less.
		 */
		while (core->contended && share_lasts(core) && poll_hot(core, share))
			done++;
	}
	stage_end(core, ENGINE_STAGE_WORK);
	core->cost_end = start + credit;
	if (!TAILQ_EMPTY(&share->run))
		done += rcio_run(core, &share->run);
	stage_end(core, ENGINE_STAGE_OUTPUT);
	return done;
}

/* Its turn among others. */
static uint32_t
take_turn(struct core *core, struct engine_client *client)
{
	struct share *share = &client->share;
	uint64_t start = share_cost(core), refused = core->stats.backpressure;
	uint32_t done = 0;

	if (share->credit <= 0)
		share->credit += SHARE_QUANTUM;
	if (share->credit > 0) {
		core->env.held = share->flight >= SHARE_FLIGHT;
		done = serve(core, share, (uint64_t)share->credit);
		share->credit -= (int64_t)(share_cost(core) - start);
	}
	if (share->credit > 0 && core->stats.backpressure != refused)
		return done; /* it stays in front */
	TAILQ_REMOVE(&core->busy, client, share.link);
	TAILQ_INSERT_TAIL(&core->busy, client, share.link);
	return done;
}

uint32_t
share_run(struct core *core)
{
	struct engine_client *client = TAILQ_FIRST(&core->busy), *next;
	uint32_t turns = core->busy_count, done = 0;

	core->contended = turns > 1;
	core->env.held = false;
	if (likely(turns == 1)) {
		done = serve(core, &client->share, SHARE_UNBOUNDED);
		if (!has_work(&client->share))
			share_leave(core, client);
		return done;
	}
	for (; turns > 0; turns--, client = next) {
		next = TAILQ_NEXT(client, share.link);
		done += take_turn(core, client);
		if (!has_work(&client->share))
			share_leave(core, client);
	}
	return done;
}
