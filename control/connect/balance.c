/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice of queue pairs that move: see balance.h. */
#include "control/connect/balance.h"

#include <string.h>

#define SECOND_NS 1000000000u
#define WHOLE 1000u    /* thousandths of a core */
#define HEARD_BITS 24u /* the lower bits of engine_qp_heard() count packets */

/* ---- looks ---- */

static uint64_t
rate_since(const struct balance_mark *mark, uint64_t now, uint64_t work)
{
	return (uint64_t)((unsigned __int128)(work - mark->work) * SECOND_NS / (now - mark->at));
}

static void
measure_loads(struct balance *balance, uint64_t passed, const uint64_t *busy, uint32_t cores, uint32_t *load)
{
	for (uint32_t i = 0; i < cores; i++) {
		uint64_t share = (busy[i] - balance->busy[i]) * WHOLE / passed;

		load[i] = share < WHOLE ? (uint32_t)share : WHOLE;
	}
}

static void
compare_loads(struct balance *balance, const uint32_t *load, uint32_t cores)
{
	uint32_t most = 0, least = 0;

	for (uint32_t i = 1; i < cores; i++) {
		if (load[i] > load[most])
			most = i;
		if (load[i] < load[least])
			least = i;
	}
	/* A core that was the busiest stays so while its gap is large, whichever core is busier by a little.
	 */
	if (balance->looks > 0 && load[balance->from] >= load[least] + BALANCE_GAP)
		most = balance->from;
	if (most != balance->from)
		balance->looks = balance->wide_looks = 0;
	balance->from = most;
	balance->to = least;
	balance->load = load[most];
	balance->gap = load[most] - load[least];
	balance->looks = balance->gap >= BALANCE_GAP ? balance->looks + 1 : 0;
	if (balance->gap >= BALANCE_WIDE_GAP)
		balance->wide_looks++;
	else if (balance->wide_looks > 0)
		balance->wide_looks--;
}

/* True if it is time to choose after `more` looks with the present gap. */
static bool
is_due(const struct balance *balance, uint32_t more)
{
	return (balance->looks > 0 && balance->looks + more >= BALANCE_LOOKS) ||
	       (balance->wide_looks > 0 && balance->wide_looks + more >= BALANCE_WIDE_LOOKS);
}

static enum balance_step
next_step(struct balance *balance, uint64_t now, uint64_t work)
{
	if (balance->looks == 1)
		balance->mark = (struct balance_mark){now, work};
	if (is_due(balance, 0)) {
		balance->rate = rate_since(&balance->mark, now, work);
		balance->looks = balance->wide_looks = 0;
		return BALANCE_CHOOSE;
	}
	if (!is_due(balance, 1))
		return BALANCE_NOTHING;
	balance->sample++;
	return BALANCE_SAMPLE;
}

/* The first look of a trial only sets the mark, since the queue pairs were on their way before. */
static enum balance_step
try_choice(struct balance *balance, uint64_t now, uint64_t work)
{
	uint64_t before = balance->rate;

	if (balance->trial-- == BALANCE_TRIAL_LOOKS)
		balance->mark = (struct balance_mark){now, work};
	if (balance->trial > 0)
		return BALANCE_NOTHING;
	balance->rate = rate_since(&balance->mark, now, work);
	return balance->rate < before / WHOLE * BALANCE_WORTH ? BALANCE_UNDO : BALANCE_NOTHING;
}

enum balance_step
balance_look(struct balance *balance, uint64_t now, const uint64_t *busy, uint64_t work, uint32_t cores)
{
	uint64_t passed = now - balance->looked_at;
	uint32_t load[ONE_LANES_MAX] = {0};
	bool is_first = balance->looked_at == 0;

	if (!is_first && passed < BALANCE_LOOK_NS)
		return BALANCE_NOTHING;
	if (!is_first)
		measure_loads(balance, passed, busy, cores, load);
	balance->looked_at = now;
	memcpy(balance->busy, busy, cores * sizeof(busy[0]));
	if (is_first)
		return BALANCE_NOTHING;
	if (balance->trial > 0)
		return try_choice(balance, now, work);
	compare_loads(balance, load, cores);
	return next_step(balance, now, work);
}

/* ---- queue pairs ---- */

void
balance_sample(const struct balance *balance, struct balance_item *item, uint32_t heard)
{
	item->heard = heard;
	item->sample = balance->sample;
}

uint32_t
balance_work(const struct balance *balance, const struct balance_item *item, uint32_t heard)
{
	if (item->sample != balance->sample)
		return 0;
	return (heard - item->heard) & ((1u << HEARD_BITS) - 1);
}

void
balance_try(struct balance *balance, struct balance_item *item)
{
	item->trial = balance->sample;
	balance->trial = BALANCE_TRIAL_LOOKS;
}

bool
balance_is_tried(const struct balance *balance, const struct balance_item *item)
{
	return item->trial == balance->sample;
}

bool
balance_rests(const struct balance_item *item, uint64_t now)
{
	return now < item->rests_until;
}

void
balance_moved(struct balance_item *item, uint64_t now)
{
	item->rests_until = now + (BALANCE_REST_NS << item->moves);
	if (item->moves < BALANCE_RESTS)
		item->moves++;
}

/* ---- the choice ---- */

void
balance_choose_begin(struct balance *balance, uint64_t work)
{
	/* Moving half the gap makes the loads equal; moving a part x changes the gap by twice x. */
	balance->goal = work * balance->gap / 2 / balance->load;
	balance->least = work * BALANCE_GAIN / 2 / balance->load;
	balance->most = work * (balance->gap - BALANCE_GAIN / 2) / balance->load;
	balance->over = (struct balance_pick){NULL, 0};
	balance->num_picked = 0;
	balance->picked_work = 0;
}

static uint32_t
smallest_pick(const struct balance *balance)
{
	uint32_t smallest = 0;

	for (uint32_t i = 1; i < balance->num_picked; i++)
		if (balance->pick[i].work < balance->pick[smallest].work)
			smallest = i;
	return smallest;
}

/* Picks the queue pair, in place of the smallest one if there is no room. */
static bool
pick_fitting(struct balance *balance, void *item, uint64_t work)
{
	struct balance_pick *pick = &balance->pick[balance->num_picked];
	uint64_t instead = 0;

	if (balance->num_picked == BALANCE_PICKS) {
		pick = &balance->pick[smallest_pick(balance)];
		instead = pick->work;
	}
	if (work <= instead || balance->picked_work - instead + work > balance->goal)
		return false;
	balance->picked_work += work - instead;
	balance->num_picked += instead == 0;
	*pick = (struct balance_pick){item, work};
	return true;
}

void
balance_offer(struct balance *balance, void *item, uint64_t work)
{
	if (pick_fitting(balance, item, work))
		return;
	if (work > balance->goal && work <= balance->most &&
	    (balance->over.item == NULL || work < balance->over.work))
		balance->over = (struct balance_pick){item, work};
}

uint32_t
balance_choose_end(struct balance *balance)
{
	/* Many small queue pairs reach the goal in several rounds. */
	if (balance->picked_work >= balance->least || balance->num_picked == BALANCE_PICKS)
		return balance->num_picked;
	balance->num_picked = 0;
	if (balance->over.item != NULL)
		balance->pick[balance->num_picked++] = balance->over;
	return balance->num_picked;
}
