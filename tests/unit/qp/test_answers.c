/* SPDX-License-Identifier: BSD-3-Clause */
/* A user above its ceiling: service to its peers, and the charging of READs and of connections that end. */
#include "sides.h"

#define STEP_NS 20000ull
#define STEPS (1000000000 / STEP_NS) /* one second */
#define FRAME (1024 + 58 + 16)
#define RATE (16u << 20)

static struct side side; /* the user under test, which writes to itself, */
static struct engine_user *user;
static struct side peer; /* and another user, whose queue pairs are connected to the first user's `to` */

static void
begin_both(const struct engine_share *share, uint32_t pairs)
{
	user = engine_user_new(share);
	assert_non_null(user);
	begin_of(&side, user, 2, 1024, false);
	begin(&peer, 0, 0, false);
	assert_ptr_not_equal(side.app.client->core, peer.app.client->core);
	for (; peer.pairs < pairs; peer.pairs++) {
		struct pair *far = &peer.from[peer.pairs], *near = &peer.to[peer.pairs];

		pair_new(&peer.app, &peer.sends, NULL, NULL, NULL, far);
		pair_new(&side.app, &side.sends, NULL, NULL, NULL, near);
		pair_connect(far, near, RC_RTS, false);
		pair_connect(near, far, RC_RTS, false);
		peer.open[peer.pairs] = 0;
	}
}

static void
end_both(void)
{
	end(&peer);
	end(&side);
	engine_user_free(user);
}

static void
post_read(struct pair *pair, struct memory *to, struct memory *from, uint32_t len, uint64_t cookie)
{
	struct one_wqe *wqe = pair_send(pair);

	wqe->op = ONE_OP_READ;
	wqe->num_sge = 1;
	wqe->length = len;
	wqe->remote_addr = from->region.va;
	wqe->rkey = from->region.key;
	wqe->cookie = cookie;
	wqe->sge = (struct one_sge){.addr = to->region.va, .len = len, .lkey = to->region.key};
	pair_commit_send(pair);
}

/* Count the successful completions in the ring. */
static uint64_t
taken(struct side *s)
{
	struct one_cqe cqe;
	uint64_t n = 0;

	for (; ring_poll(&s->sends, &cqe); n++) {
		assert_int_equal(cqe.status, ONE_STATUS_SUCCESS);
		s->open[cqe.cookie]--;
	}
	return n;
}

static bool
held(void)
{
	return side.app.client->share.group->held;
}

/* Single writes of a peer are acknowledged within a few loops, even while the user is above its ceiling. */
static void
test_acknowledged(void **state)
{
	struct core *core;
	uint64_t timeouts, done = 0, waits = 0;

	begin_both(&(struct engine_share){.weight = 1, .max_bytes = 1 << 20}, 1);
	core = peer.app.client->core;
	timeouts = core->env.counter[RC_COUNT_TIMEOUT];
	for (uint32_t i = 0; i < STEPS; i++) {
		post_all(&side);
		done += taken(&peer);
		if (peer.open[0] == 0) {
			post_write(&peer.from[0], &peer.memory, &side.memory, 8, 0);
			peer.open[0]++;
		}
		turn_for(STEP_NS);
		waits += held();
	}
	assert_true(waits > STEPS * 9 / 10);
	assert_int_equal(core->env.counter[RC_COUNT_TIMEOUT], timeouts);
	assert_true(done >= STEPS / 8);
	end_both();
}

/* READs by peers are charged to the user. Neither the peers nor the user itself get everything. */
static void
test_read_by_peers(void **state)
{
	uint64_t own = 0, read = 0;

	begin_both(&(struct engine_share){.weight = 1, .max_bytes = RATE}, 4);
	for (uint32_t i = 0; i < 2 * STEPS; i++) {
		if (i == STEPS) {
			own = side.done;
			read = 0;
		}
		post_all(&side);
		read += taken(&peer);
		for (uint32_t j = 0; j < peer.pairs; j++)
			for (; peer.open[j] < MAX_WR; peer.open[j]++)
				post_read(&peer.from[j], &peer.memory, &side.memory, 1024, j);
		turn_for(STEP_NS);
	}
	own = side.done - own;
	if ((own + read) * FRAME * 100 > RATE * 105ull || own * FRAME < RATE / 8 || read * FRAME < RATE / 4)
		fail_msg("%lu writes and %lu reads by peers in a second", own, read);
	end_both();
}

/* A ceiling of requests does not delay READs by peers: only the user's own requests are held. */
static void
test_read_beside_ops(void **state)
{
	uint64_t read = 0;

	begin_both(&(struct engine_share){.weight = 1, .max_ops = 100}, 1);
	for (uint32_t i = 0; i < STEPS; i++) {
		post_all(&side);
		read += taken(&peer);
		if (peer.open[0] == 0) {
			post_read(&peer.from[0], &peer.memory, &side.memory, 16384, 0);
			peer.open[0]++;
		}
		turn_for(STEP_NS);
	}
	if (read < STEPS / 16)
		fail_msg("%lu reads", read);
	end_both();
}

/* A READ is requested in pieces as the ceiling allows, so that no debt remains when its data has arrived. */
static void
test_read_in_pieces(void **state)
{
	uint32_t steps = 0, pause = 0, longest = 0;

	begin_both(&(struct engine_share){.weight = 1, .max_bytes = RATE}, 1);
	post_read(&peer.to[0], &side.memory, &peer.memory, LONG, 0);
	for (side.open[0] = 1; side.open[0] != 0; steps++) {
		assert_true(steps < STEPS);
		turn_for(STEP_NS);
		taken(&side);
		pause = held() ? pause + 1 : 0;
		longest = RTE_MAX(longest, pause);
	}
	/*
	 * 1 MiB in pieces of 128 KiB. Saved credit covers part of the first piece; the last is not yet paid.
	 */
	assert_in_range(steps * STEP_NS / 1000, 50000, 75000);
	assert_in_range(longest * STEP_NS / 1000, 3000, 10000);
	post_write(&side.from[0], &side.memory, &side.memory, 8, 0);
	for (side.open[0] = 1, steps = 0; side.open[0] != 0; steps++) {
		assert_true(steps * STEP_NS < 10000000);
		turn_for(STEP_NS);
		taken(&side);
	}
	end_both();
}

static void
test_read_rate(void **state)
{
	static const uint32_t len = 65536;
	uint64_t read = 0;

	begin_both(&(struct engine_share){.weight = 1, .max_bytes = RATE}, 2);
	for (uint32_t i = 0; i < 2 * STEPS; i++) {
		read = i == STEPS ? 0 : read + taken(&side);
		for (uint32_t j = 0; j < 2; j++)
			for (; side.open[j] < 4; side.open[j]++)
				post_read(&peer.to[j], &side.memory, &peer.memory, len, j);
		turn_for(STEP_NS);
	}
	assert_in_range(read, RATE / len * 96 / 100, RATE / len * 102 / 100);
	end_both();
}

/* Requests posted before a connection ends are begun, but not above the ceiling. */
static void
test_ends(void **state)
{
	static const uint64_t rate = 100;
	uint64_t done = 0, start = fixture_tsc(), seconds;
	struct one_cqe cqe;

	begin_both(&(struct engine_share){.weight = 1, .max_ops = rate}, 0);
	for (uint32_t i = 0; i < 1000 || done == 0; i++) {
		struct pair *from = &side.from[0], *to = &side.to[0];

		for (uint32_t j = 0; j < 8; j++)
			post_write(from, &side.memory, &side.memory, 8, 0);
		command((struct engine_command){.type = ENGINE_QP_FLUSH, .qp = from->qp});
		while (ring_poll(&side.sends, &cqe))
			done += cqe.status == ONE_STATUS_SUCCESS;
		for (int j = 0; j < 2; j++)
			command((struct engine_command){.type = ENGINE_QP_RESET,
							.qp = j == 0 ? from->qp : to->qp});
		pair_connect(from, to, RC_RTS, true);
		pair_connect(to, from, RC_RTS, true);
	}
	seconds = (fixture_tsc() - start) / rte_get_tsc_hz() + 1;
	if (done > rate * seconds + CORE_WORK_BUDGET)
		fail_msg("%lu in less than %lu seconds", done, seconds);
	end_both();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_acknowledged),    cmocka_unit_test(test_read_by_peers),
		cmocka_unit_test(test_read_beside_ops), cmocka_unit_test(test_read_in_pieces),
		cmocka_unit_test(test_read_rate),       cmocka_unit_test(test_ends),
	};

	return cmocka_run_group_tests(tests, group_start_two, group_stop);
}
