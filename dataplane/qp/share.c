/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * DRR scheduler (deficit round robin: Shreedhar and Varghese, SIGCOMM 1995). A core's time, and with it the
 * room in its ports' rings, is shared between users by weight, and a user's part equally between its clients.
 * The measure is what their work costs, not how many clients or queue pairs are busy.
 *
 * In each loop each user with work gets a turn, in which its clients get theirs. At the beginning of a turn
 * the credit (DRR's deficit counter) grows by a quantum; the cost of the turn is subtracted. Polling a queue
 * pair is not cut short: a turn may cost more than the credit, and then the next turns are shorter. The
 * heaviest user at work has the quantum SHARE_QUANTUM, the others have less, so that no weight makes turns
 * longer. If a turn ends because a port takes no more, the user or client remains first in the next loop,
 * with its remaining credit, so that room is shared as time is. A client alone has no limits.
 *
 * A user above a ceiling (user.h) has no turns until a timer expires, and its core may sleep meanwhile.
 *
 * Input from a client's peers cannot be postponed, and belongs to no turn. A client takes requests and makes
 * frames, including responses to READs of its peers, only in its turns. A user with a ceiling may have no
 * turn for long, and its peers would assume that packets were lost. So the user acknowledges at once and,
 * while held, answers READs with a part (SHARE_ANSWERS) of the bytes of its turns, which count towards its
 * ceiling.
 */
#include "dataplane/core/stats.h"
#include "dataplane/qp/transport.h"

static inline uint64_t
share_cost(const struct core *core)
{
	return core->drr.cost + core->stats.work * SHARE_REQUEST + core->stats.local_bytes;
}

bool
share_lasts(const struct core *core)
{
	return share_cost(core) < core->drr.cost_end;
}

/* ---- who is busy ---- */

static void
group_unqueue(struct core *core, struct share_group *group)
{
	if (!group->queued)
		return;
	group->queued = false;
	TAILQ_REMOVE(&core->drr.busy, group, link);
	core->drr.groups--;
}

void
share_leave(struct core *core, struct engine_client *client)
{
	struct share_group *group = client->share.group;

	if (!client->share.busy)
		return;
	client->share.busy = false;
	TAILQ_REMOVE(&group->busy, client, share.link);
	group->count--;
	core->drr.clients -= !group->held;
	if (group->count > 0)
		return;
	group_unqueue(core, group);
	group->held = false;
	timer_cancel(core, &group->timer);
}

static void
group_hold(struct core *core, struct share_group *group, const uint64_t room[CEILINGS], uint64_t due)
{
	struct engine_client *client;

	group_unqueue(core, group);
	core->drr.clients -= group->count;
	group->held = true;
	if (room[CEILING_BYTES] != 0) /* not held because of bytes */
		group->answer_room = (int64_t)RTE_MIN(room[CEILING_BYTES], (uint64_t)INT64_MAX / 2);
	core->stats.held++;
	timer_set(core, &group->timer, core->now + (due - core->real_at));
	/* Answer what peers requested before. */
	TAILQ_FOREACH(client, &group->busy, share.link)
		rcio_answer_run(core, &client->share.run);
}

/* Computed from the present ceilings, which may have been changed. */
static uint64_t
group_deadline(const struct timer *timer)
{
	const struct share_group *group = container_of(timer, const struct share_group, timer);
	const struct core *core = group->core;
	uint64_t room[CEILINGS], due;

	if (!group->held)
		return TIMER_NEVER;
	return user_admits(group->user, core->real_at, room, &due) ? core->now
								   : core->now + (due - core->real_at);
}

static void
group_release(struct core *core, struct timer *timer)
{
	struct share_group *group = container_of(timer, struct share_group, timer);

	group->held = false;
	group->queued = true;
	TAILQ_INSERT_TAIL(&core->drr.busy, group, link);
	core->drr.groups++;
	core->drr.clients += group->count;
	core->polled_in_vain = 0; /* do not sleep: its turn is in the next loop */
}

const struct timer_calls share_timer_calls = {.deadline = group_deadline, .expire = group_release};

/* ---- a client's turn ---- */

static inline uint64_t
progress_made(const struct core *core)
{
	return core->stats.work + core->stats.local_bytes + core->stats.completions;
}

static bool
poll_hot(struct core *core, struct share *share)
{
	uint32_t polls = RTE_MIN(share->hot_count, (uint32_t)CORE_HOT_POLLS);
	uint64_t before = progress_made(core);

	/* Round robin, even if there are more queue pairs than one loop polls. If a queue pair leaves the
	 * list, the last one takes its place. */
	for (uint32_t i = 0; i < polls && share->hot_count > 0 && share_lasts(core); i++) {
		if (share->hot_next >= share->hot_count)
			share->hot_next = 0;
		core->drr.cost += SHARE_POLL;
		qp_poll(core, share->hot[share->hot_next++]);
	}
	return progress_made(core) != before;
}

static inline bool
has_work(const struct share *share)
{
	return share->hot_count > 0 || !TAILQ_EMPTY(&share->run);
}

/* Output gets half of the credit, even if the client posts without end. */
static uint32_t
serve_lane(struct core *core, struct share *share, uint64_t credit)
{
	uint64_t start = share_cost(core);
	uint32_t done = 0;

	if (share->hot_count > 0) {
		core->drr.cost_end = start + (TAILQ_EMPTY(&share->run) ? credit : credit / 2);
		done += poll_hot(core, share);
		/* Among others, one pass over the rings does not end the turn: clients with few queue pairs
		 * would get less. */
		while (core->drr.contended && share_lasts(core) && poll_hot(core, share))
			done++;
	}
	stage_end(core, ENGINE_STAGE_WORK);
	core->drr.cost_end = start + credit;
	if (!TAILQ_EMPTY(&share->run))
		done += rcio_run(core, &share->run);
	stage_end(core, ENGINE_STAGE_OUTPUT);
	return done;
}

/* Give a client its turn among others. The turn ends at cost `end` at the latest, when the user's does. */
static uint32_t
take_turn(struct core *core, struct share_group *group, struct engine_client *client, uint64_t end)
{
	struct share *share = &client->share;
	uint64_t start = share_cost(core), refused = core->stats.backpressure;
	uint32_t done = 0;

	if (!core->drr.contended)
		return serve_lane(core, share, end - start);
	if (share->credit <= 0)
		share->credit += SHARE_QUANTUM;
	if (share->credit > 0) {
		core->env.throttle = share->flight >= core->drr.flight_most ? RC_THROTTLED : RC_UNTHROTTLED;
		done = serve_lane(core, share, RTE_MIN((uint64_t)share->credit, end - start));
		share->credit -= (int64_t)(share_cost(core) - start);
	}
	core->drr.cut_short |= share->credit <= 0;
	if (share->credit > 0 && (core->stats.backpressure != refused || share_cost(core) >= end))
		return done; /* stays first */
	TAILQ_REMOVE(&group->busy, client, share.link);
	TAILQ_INSERT_TAIL(&group->busy, client, share.link);
	return done;
}

/* ---- a user's ---- */

/* Returns the packets that each of the group's clients may have in flight. Users have equal limits, scaled by
 * weight, which each user's clients divide once they use them up. */
static uint32_t
flight_most(const struct core *core, const struct share_group *group, uint32_t weight, uint32_t heaviest)
{
	uint32_t most = SHARE_FLIGHT * weight / heaviest, flight = 0;
	const struct engine_client *client;

	if (core->drr.groups <= 1)
		return SHARE_FLIGHT;
	TAILQ_FOREACH(client, &group->busy, share.link)
		flight += client->share.flight;
	return flight < most ? SHARE_FLIGHT : most / group->count;
}

static uint32_t
serve_each(struct core *core, struct share_group *group, uint64_t end)
{
	struct engine_client *client = TAILQ_FIRST(&group->busy), *next;
	uint32_t done = 0;

	for (uint32_t turns = group->count; turns > 0 && share_cost(core) < end; turns--, client = next) {
		next = TAILQ_NEXT(client, share.link);
		done += take_turn(core, group, client, end);
		if (!has_work(&client->share))
			share_leave(core, client);
	}
	return done;
}

/* Among other users, serve until the user's credit is used up; else serve each client once. */
static uint32_t
serve_clients(struct core *core, struct share_group *group, uint64_t credit)
{
	uint64_t end = share_cost(core) + credit;
	uint32_t done = 0;

	do {
		core->drr.cut_short = false;
		done += serve_each(core, group, end);
	} while (core->drr.cut_short && core->drr.groups > 1 && group->queued && share_cost(core) < end);
	return done;
}

/* Amounts that ceilings limit, of all users on the core. */
static void
count_done(const struct core *core, uint64_t done[CEILINGS])
{
	done[CEILING_OPS] = core->stats.work;
	done[CEILING_BYTES] = core->drr.frame_bytes + core->stats.local_bytes + core->env.asked;
	done[CEILING_WAKES] = 0; /* wake_channel() charges them */
}

/* Charge what was done since `since`, and what was answered outside turns. */
static void
group_charge(struct core *core, struct share_group *group, const uint64_t since[CEILINGS])
{
	uint64_t done[CEILINGS];
	int64_t room;

	count_done(core, done);
	for (int i = 0; i < CEILINGS; i++)
		done[i] -= since[i];
	room = group->answer_room + (int64_t)(done[CEILING_BYTES] / SHARE_ANSWERS);
	group->answer_room = RTE_MIN(room, (int64_t)CORE_RUN_BYTES);
	done[CEILING_BYTES] += group->answered;
	group->answered = 0;
	user_charge(group->user, core->real_at, done);
}

/* Limit a poll to the room below the ceilings, as far as it can be cut short. */
static void
set_budgets(struct core *core, const uint64_t room[CEILINGS])
{
	struct core_drr *drr = &core->drr;
	uint64_t bytes = room[CEILING_BYTES], frames = RTE_MAX(bytes / SHARE_PACKET, 1u);
	uint64_t polls = RTE_MAX(frames, (uint64_t)CORE_RUN_BUDGET);

	polls = RTE_MIN(polls, room[CEILING_OPS]);
	drr->poll_budget = (uint32_t)RTE_MIN(polls, (uint64_t)drr->poll_budget);
	drr->run_budget = (uint32_t)RTE_MIN(frames, (uint64_t)CORE_RUN_BUDGET);
	core->env.ask_end = bytes < SHARE_UNBOUNDED ? core->env.asked + bytes : 0;
}

/* Serve below the user's ceilings. If a poll does more, later turns are shorter. */
static uint32_t
serve_limited(struct core *core, struct share_group *group, uint64_t credit, const uint64_t room[CEILINGS])
{
	uint32_t polls = core->drr.poll_budget, served;
	uint64_t before[CEILINGS];

	count_done(core, before);
	set_budgets(core, room);
	if (room[CEILING_OPS] < SHARE_UNBOUNDED / SHARE_REQUEST)
		credit = RTE_MIN(credit, room[CEILING_OPS] * SHARE_REQUEST);
	served = serve_clients(core, group, RTE_MIN(credit, room[CEILING_BYTES]));
	core->drr.poll_budget = polls;
	core->drr.run_budget = CORE_RUN_BUDGET;
	core->env.ask_end = 0;
	group_charge(core, group, before);
	return served;
}

static uint32_t
group_turn(struct core *core, struct share_group *group)
{
	uint64_t start = share_cost(core), refused = core->stats.backpressure, credit = SHARE_UNBOUNDED;
	uint64_t room[CEILINGS], due;
	/* Relaxed: pairs with the store in engine_user_set(). */
	uint32_t weight = atomic_load_explicit(&group->user->weight, memory_order_relaxed);
	uint32_t heaviest = RTE_MAX(core->drr.heaviest, weight), done = 0;
	bool limited = user_is_limited(group->user), waits = false;

	if (limited && !user_admits(group->user, core->real_at, room, &due)) {
		group_hold(core, group, room, due);
		return 0;
	}
	core->drr.flight_most = flight_most(core, group, weight, heaviest);
	if (core->drr.groups > 1) {
		if (group->credit <= 0)
			group->credit += RTE_MAX((int64_t)SHARE_QUANTUM * weight / heaviest, 1);
		waits = group->credit <= 0;
		credit = waits ? 0 : (uint64_t)group->credit;
	}
	if (!waits)
		done = limited ? serve_limited(core, group, credit, room)
			       : serve_clients(core, group, credit);
	if (credit != SHARE_UNBOUNDED)
		group->credit -= (int64_t)(share_cost(core) - start);
	if (done > 0 || waits || core->stats.backpressure != refused)
		core->drr.heaviest_now = RTE_MAX(core->drr.heaviest_now, weight);
	if (!group->queued || (group->credit > 0 && core->stats.backpressure != refused))
		return done; /* has left, or stays first */
	TAILQ_REMOVE(&core->drr.busy, group, link);
	TAILQ_INSERT_TAIL(&core->drr.busy, group, link);
	return done;
}

/* The heaviest user was at work in this round or the last: one poll may come too early to find work. */
static uint32_t
take_round(struct core *core)
{
	struct share_group *group = TAILQ_FIRST(&core->drr.busy), *next;
	uint32_t before = core->drr.heaviest_now, done = 0;

	core->drr.heaviest_now = 0;
	for (uint32_t turns = core->drr.groups; turns > 0; turns--, group = next) {
		next = TAILQ_NEXT(group, link);
		done += group_turn(core, group);
	}
	core->drr.heaviest = RTE_MAX(core->drr.heaviest_now, before);
	core->env.throttle = RC_UNTHROTTLED;
	return done;
}

void
share_poll(struct core *core, struct engine_qp *qp)
{
	struct share_group *group = qp->client->share.group;
	uint64_t start = share_cost(core), before[CEILINGS], room[CEILINGS], due;
	bool limited = user_is_limited(group->user);

	/* Otherwise ends of connections would bypass the ceiling. */
	if (limited && !user_admits(group->user, core->real_at, room, &due))
		return;
	count_done(core, before);
	qp_poll(core, qp);
	if (limited)
		group_charge(core, group, before);
	share_charge(core, qp->client, share_cost(core) - start);
}

uint32_t
share_run(struct core *core)
{
	struct share_group *group = TAILQ_FIRST(&core->drr.busy);
	struct engine_client *client;
	uint32_t done;

	core->drr.contended = core->drr.clients > 1;
	core->drr.poll_budget = core->drr.contended ? CORE_RUN_BUDGET : CORE_WORK_BUDGET;
	core->drr.tx_most = core->drr.contended ? TX_SHARED : TX_HIGH;
	if (unlikely(core->drr.contended) || unlikely(user_is_limited(group->user)))
		return take_round(core);
	client = TAILQ_FIRST(&group->busy);
	done = serve_lane(core, &client->share, SHARE_UNBOUNDED);
	if (!has_work(&client->share))
		share_leave(core, client);
	return done;
}
