/* SPDX-License-Identifier: BSD-3-Clause */
/* Ceilings of a user, in virtual time, across the user's attachments on two cores. */
#include "sides.h"

#define STEP_NS 100000ull
#define STEPS (1000000000 / STEP_NS) /* one second */

static struct side side[2];
static struct engine_user *user;

/* Start two attachments of one user, one on each core. */
static void
begin_both(const struct engine_share *share, uint32_t pairs, uint32_t len, bool local)
{
	user = engine_user_new(share);
	assert_non_null(user);
	for (int i = 0; i < 2; i++)
		begin_of(&side[i], user, pairs, len, local);
	assert_ptr_not_equal(side[0].app.client->core, side[1].app.client->core);
}

/* Count the writes that complete within one second. */
static uint64_t
done_in_a_second(uint32_t sides)
{
	uint64_t before = side[0].done + side[1].done;

	for (uint32_t i = 0; i < STEPS; i++) {
		for (uint32_t j = 0; j < sides; j++)
			post_all(&side[j]);
		turn_for(STEP_NS);
	}
	return side[0].done + side[1].done - before;
}

/*
 * Up to 2 % off: the outstanding work, up to MAX_WR per queue pair, differs between start and end of the
 * second.
 */
static void
assert_within(uint64_t done, uint64_t wanted)
{
	if (done * 100 < wanted * 98 || done * 100 > wanted * 102)
		fail_msg("%lu in a second, not %lu", done, wanted);
}

static bool
all_done(struct side *s)
{
	struct one_cqe cqe;

	while (ring_poll(&s->sends, &cqe)) {
		assert_int_equal(cqe.status, ONE_STATUS_SUCCESS);
		s->open[cqe.cookie]--;
	}
	for (uint32_t i = 0; i < s->pairs; i++)
		if (s->open[i] != 0)
			return false;
	return true;
}

/* Work held by the ceiling is not lost: without a ceiling all of it completes. */
static void
end_both(void)
{
	engine_user_set(user, &(struct engine_share){.weight = 1});
	for (uint32_t i = 0; i < STEPS; i++) {
		bool first = all_done(&side[0]), second = all_done(&side[1]); /* both must poll */

		if (first && second)
			break;
		turn_for(STEP_NS);
	}
	for (int i = 0; i < 2; i++) {
		assert_true(all_done(&side[i]));
		end(&side[i]);
	}
	engine_user_free(user);
}

static void
test_ops(void **state)
{
	static const uint64_t rates[] = {1000, 30000, 1000000};

	for (size_t i = 0; i < RTE_DIM(rates); i++) {
		begin_both(&(struct engine_share){.weight = 1, .max_ops = rates[i]}, 4, 8, true);
		done_in_a_second(2); /* uses up the saved credit */
		assert_within(done_in_a_second(2), rates[i]);
		assert_within(done_in_a_second(1), rates[i]);
		assert_true(engine.core[0]->stats.held > 0);
		end_both();
	}
}

static void
test_bytes(void **state)
{
	static const uint64_t rate = 256 << 20;

	begin_both(&(struct engine_share){.weight = 1, .max_bytes = rate}, 2, 65536, true);
	done_in_a_second(2);
	assert_within(done_in_a_second(2), rate / 65536);
	end_both();
}

/* Headers are charged. Acknowledgements are not: they answer a peer. */
static void
test_bytes_of_frames(void **state)
{
	static const uint64_t rate = 16 << 20, frame = 1024 + 58 + 16;

	begin_both(&(struct engine_share){.weight = 1, .max_bytes = rate}, 2, 1024, false);
	done_in_a_second(2);
	assert_within(done_in_a_second(2), rate / frame);
	end_both();
}

static void
post_read(struct side *s, uint32_t pair, uint32_t len)
{
	struct one_wqe *wqe = pair_send(&s->from[pair]);
	const struct mem_region *region = &s->memory.region;

	wqe->op = ONE_OP_READ;
	wqe->num_sge = 1;
	wqe->length = len;
	wqe->remote_addr = region->va;
	wqe->rkey = region->key;
	wqe->cookie = pair;
	wqe->sge = (struct one_sge){.addr = region->va, .len = len, .lkey = region->key};
	pair_commit_send(&s->from[pair]);
}

/* Data read while there was no ceiling is no debt under a later ceiling. */
static void
test_reads_before(void **state)
{
	static const uint64_t rate = 16 << 20, frame = 1024 + 58 + 16;
	struct one_cqe cqe;

	begin_both(&(struct engine_share){.weight = 1}, 2, 1024, false);
	for (uint32_t i = 0; i < 64; i++) {
		cqe.type = 0;
		post_read(&side[0], 0, LONG);
		for (uint32_t j = 0; j < STEPS && !ring_poll(&side[0].sends, &cqe); j++)
			turn_for(STEP_NS);
		assert_int_equal(cqe.type, ONE_CQE_SEND);
		assert_int_equal(cqe.status, ONE_STATUS_SUCCESS);
	}
	engine_user_set(user, &(struct engine_share){.weight = 1, .max_bytes = rate});
	done_in_a_second(2);
	assert_within(done_in_a_second(2), rate / frame);
	end_both();
}

/*
 * A user is held for longer than eight ACK timeouts of its connections, at both ends. No connection breaks,
 * since no packet could be retransmitted.
 */
static void
test_long_pause(void **state)
{
	begin_both(&(struct engine_share){.weight = 1, .max_bytes = 1 << 20}, 2, 1024, false);
	for (int i = 0; i < 2; i++)
		side[i].pairs = 1; /* the first pair writes; the other reads */
	for (uint32_t i = 0; i < 6; i++) {
		for (int j = 0; j < 2; j++) {
			post_read(&side[j], 1, LONG);
			side[j].open[1]++;
		}
		done_in_a_second(2);
	}
	assert_true(engine.core[0]->stats.held > 0);
	for (int i = 0; i < 2; i++)
		side[i].pairs = 2;
	end_both();
}

static void
test_both_ceilings(void **state)
{
	begin_both(&(struct engine_share){.weight = 1, .max_ops = 2000, .max_bytes = 1 << 30}, 2, 65536,
		   true);
	done_in_a_second(2);
	assert_within(done_in_a_second(2), 2000);
	end_both();
}

/* The ceiling rises, falls and disappears while work waits. */
static void
test_changes(void **state)
{
	static const uint64_t rates[] = {50000, 500, 10000};

	begin_both(&(struct engine_share){.weight = 1, .max_ops = 100}, 4, 8, true);
	done_in_a_second(2);
	for (size_t i = 0; i < RTE_DIM(rates); i++) {
		engine_user_set(user, &(struct engine_share){.weight = 1, .max_ops = rates[i]});
		done_in_a_second(2);
		assert_within(done_in_a_second(2), rates[i]);
	}
	engine_user_set(user, &(struct engine_share){.weight = 1});
	assert_true(done_in_a_second(2) > 10 * rates[0]);
	end_both();
}

/* While a user is held nothing is polled, and only the timer keeps the core from a long sleep. */
static void
test_sleep(void **state)
{
	struct core *core;
	uint64_t looks, due, waits = 0;

	begin_both(&(struct engine_share){.weight = 1, .max_ops = 100}, 4, 8, true);
	core = side[0].app.client->core;
	done_in_a_second(1);
	for (uint32_t i = 0; i < STEPS; i++) {
		post_all(&side[0]);
		looks = core->drr.cost;
		turn_for(STEP_NS);
		if (!side[0].app.client->share.group->held)
			continue;
		waits++;
		due = timer_next(core);
		assert_int_equal(core->drr.clients, 0);
		assert_true(due != TIMER_NEVER && due <= core->now + (TIMER_SLOTS << TIMER_SHIFT));
		turn_for(STEP_NS);
		assert_true(core->drr.cost == looks || !side[0].app.client->share.group->held || waits < 2);
	}
	assert_true(waits > STEPS / 4);
	end_both();
}

/* An attachment may end while its user is above a ceiling. */
static void
test_end(void **state)
{
	begin_both(&(struct engine_share){.weight = 1, .max_ops = 1}, 4, 8, true);
	done_in_a_second(2);
	assert_true(side[0].app.client->share.group->held);
	for (int i = 0; i < 2; i++) {
		struct core *core = side[i].app.client->core;

		end(&side[i]);
		assert_int_equal(core->drr.clients, 0);
		assert_int_equal(core->drr.groups, 0);
		assert_int_equal(core->timers, 0);
	}
	engine_user_free(user);
}

/* The debt that the last attachment of a user leaves. */
static void
test_debt(void **state)
{
	const uint64_t none[CEILINGS] = {0}, done[CEILINGS] = {[CEILING_BYTES] = 1 << 30};

	user = engine_user_new(&(struct engine_share){.weight = 1, .max_bytes = 1 << 20});
	user_charge(user, engine_now(rte_rdtsc()), none);
	assert_int_equal(engine_user_debt(user), 0);
	user_charge(user, engine_now(rte_rdtsc()), done);
	assert_in_range(engine_user_debt(user), 1, 1024 * 1000000000ull);
	/* A changed rate cancels the debt. */
	engine_user_set(user, &(struct engine_share){.weight = 1, .max_bytes = 1 << 21});
	assert_int_equal(engine_user_debt(user), 0);
	engine_user_free(user);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ops),           cmocka_unit_test(test_debt),
		cmocka_unit_test(test_bytes),         cmocka_unit_test(test_bytes_of_frames),
		cmocka_unit_test(test_reads_before),  cmocka_unit_test(test_long_pause),
		cmocka_unit_test(test_both_ceilings), cmocka_unit_test(test_changes),
		cmocka_unit_test(test_sleep),         cmocka_unit_test(test_end),
	};

	return cmocka_run_group_tests(tests, group_start_two, group_stop);
}
