/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer that answers late, and how long a requester waits for its answers. */
#include "harness.h"

static bool
lose_all(struct pair *p, struct end *from, const struct frame *frame)
{
	return true;
}

/* A timeout probes with a few packets; a late ACK for the rest saves sending it twice. */
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

/* How long a request posted now would be waited for. */
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

/* Its repeat is answered after so long. */
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

/* An expiry that was wrong, as two late ACKs show: little is sent twice, and next time it waits longer. */
static void
test_late_peer(void **state)
{
	struct pair *p = pair_new(NULL);
	uint32_t before;

	for (int i = 0; i < 3; i++) { /* slow start has to come that far */
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
	while (deliver_one(p, &p->a)) { /* an ACK whenever one is asked for */
		flush_output(p, &p->b);
		while (deliver_one(p, &p->b))
			;
		flush_output(p, &p->a);
	}
	assert_int_equal(p->a.env.rc.counter[RC_COUNT_TIMEOUT], 1);
	assert_in_range(p->a.env.rc.counter[RC_COUNT_RETRANSMIT], 1, 8);
	assert_in_range(patience(p), 4 * MS, 4 * MS + 100 * US);

	/* One that was right halves that: all was lost. */
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

/* Ends that share processors wait for longer than a scheduler's turn, until losses prove that to be needless.
 */
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

/* The answer to a repeat proves a loss only where it takes a round trip. */
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
