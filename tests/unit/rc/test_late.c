/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer that answers late, and the retransmission timeout of its requester. */
#include "harness.h"

static bool
lose_all(struct pair *p, struct end *from, const struct frame *frame)
{
	return true;
}

/* A timeout probes with a few packets. A late ACK for the rest avoids further retransmissions. */
static void
test_late_ack(void **state)
{
	struct pair *p = pair_new(NULL);

	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 60 * 1024, 0);
	flush_output(p, &p->a);
	assert_int_equal(p->a.num_out, 60);
	assert_true(run_timer(p));
	for (int i = 0; i < 10; i++)
		rc_output(p->a.qp, 64, p->now);
	assert_in_range(p->a.frames, 61, 68);
	pump(p);
	assert_int_equal(p->a.num_done, 1);
	assert_in_range(p->a.frames, 61, 68);
	pair_free(p);
}

static void
warm_up(struct pair *p)
{
	for (int i = 0; i < 50; i++) {
		post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 8, 0);
		pump(p);
	}
}

/* The retransmission timeout of a request posted now. */
static uint64_t
patience(struct pair *p)
{
	uint64_t time;

	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 8, 0);
	flush_output(p, &p->a);
	time = rc_deadline(p->a.qp) - p->now;
	pump(p);
	return time;
}

/* Lose a request; its retransmission is answered `takes` ns later. */
static void
lose_one_request(struct pair *p, uint64_t takes)
{
	uint64_t timeouts = p->a.env.rc.counter[RC_COUNT_TIMEOUT];

	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 8, 0);
	p->lose = lose_all;
	pump(p);
	p->lose = NULL;
	assert_true(run_timer(p));
	assert_int_equal(p->a.env.rc.counter[RC_COUNT_TIMEOUT], timeouts + 1);
	flush_output(p, &p->a);
	p->now += takes;
	pump(p);
}

/* A spurious timeout, detected by two late ACKs: little is retransmitted, and the next timeout is longer. */
static void
test_late_peer(void **state)
{
	struct pair *p = pair_new(NULL);
	uint32_t before;

	for (int i = 0; i < 3; i++) { /* so that slow start opens the window far enough */
		post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 120 * 1024, 0);
		pump(p);
	}
	warm_up(p);
	assert_true(patience(p) == 2 * MS);
	before = p->a.frames;
	for (uint64_t i = 0; i < 4; i++)
		post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 120 * 1024, 0);
	flush_output(p, &p->a);
	assert_in_range(p->a.frames - before, 200, 480);
	assert_true(run_timer(p));
	flush_output(p, &p->a);
	while (deliver_one(p, &p->a)) { /* B acknowledges at every request for an ACK */
		flush_output(p, &p->b);
		while (deliver_one(p, &p->b))
			;
		flush_output(p, &p->a);
	}
	assert_int_equal(p->a.env.rc.counter[RC_COUNT_TIMEOUT], 1);
	assert_in_range(p->a.env.rc.counter[RC_COUNT_RETRANSMIT], 1, 8);
	assert_in_range(patience(p), 4 * MS, 4 * MS + 100 * US);

	/* A justified timeout, after a loss of everything, halves the timeout again. */
	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 8, 0);
	p->lose = lose_all;
	pump(p);
	p->lose = NULL;
	assert_true(run_timer(p));
	pump(p);
	assert_int_equal(p->a.env.rc.counter[RC_COUNT_TIMEOUT], 2);
	assert_in_range(patience(p), 2 * MS, 2 * MS + 100 * US);
	pair_free(p);
}

/* Ends that share processors wait longer than a scheduler's time slice, until losses show that to be
 * unnecessary. */
static void
test_yielding_peer(void **state)
{
	static const struct pair_options both[] = {{.yields = true},
						   {.peer_yields = true},
						   {.yields = true, .selective = true},
						   {.peer_yields = true, .selective = true}};

	for (size_t i = 0; i < sizeof(both) / sizeof(both[0]); i++) {
		struct pair *p = pair_new(&both[i]);

		assert_true(patience(p) == 32 * MS);
		warm_up(p);
		assert_true(patience(p) == 32 * MS);
		lose_one_request(p, 0);
		assert_in_range(patience(p), 16 * MS, 16 * MS + 100 * US);
		pair_free(p);
	}
}

/* The answer to a retransmission proves a loss only if it takes no longer than a round trip. */
static void
test_late_for_both(void **state)
{
	struct pair *p = pair_new(&(struct pair_options){.yields = true});

	warm_up(p);
	lose_one_request(p, 10 * MS);
	assert_true(patience(p) == 32 * MS);
	pair_free(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_late_ack),
		cmocka_unit_test(test_late_peer),
		cmocka_unit_test(test_yielding_peer),
		cmocka_unit_test(test_late_for_both),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
