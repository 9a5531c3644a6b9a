/* SPDX-License-Identifier: BSD-3-Clause */
/* Payloads that are moved together with the computation of the next frame's ICRC: which may be deferred so,
 * and that all are in place before anyone is notified. */
#include "harness.h"

#define OK ONE_STATUS_SUCCESS
#define MTU 1024u

static bool
is_there(const struct pair *p, uint32_t first, uint32_t count)
{
	return memcmp(p->b.area + first * MTU, p->a.area + first * MTU, (size_t)count * MTU) == 0;
}

static bool
is_zero(const uint8_t *at, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		if (at[i] != 0)
			return false;
	return true;
}

/* A has sent a message of `packets` packets to the start of B's area. */
static struct pair *
written(const struct pair_options *options, uint8_t op, uint32_t packets)
{
	struct pair *p = pair_new(options);
	struct work work = make_work(&p->a, op, 1, 0, packets * MTU, 0);

	fill(p->a.area, packets * MTU, 1);
	post(p, &p->a, &work);
	flush_output(p, &p->a);
	assert_int_equal(p->a.num_out, packets);
	return p;
}

static void
expect_written(struct pair *p, uint32_t packets)
{
	pump(p);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, packets * MTU);
	assert_true(is_there(p, 0, packets));
	assert_true(is_zero(p->b.area + packets * MTU, MTU));
	pair_free(p);
}

/* Duplicate the first frame that `from` has sent. */
static void
duplicate_first(struct end *from)
{
	struct frame copy = from->out[0];

	copy.bytes = malloc(copy.len);
	memcpy(copy.bytes, from->out[0].bytes, copy.len);
	memmove(from->out + 1, from->out, from->num_out++ * sizeof(from->out[0]));
	from->out[0] = copy;
}

static void
test_moved_by_the_next_frame(void **state)
{
	struct pair *p = written(&(struct pair_options){.mtu = MTU}, ONE_OP_WRITE, 4);

	deliver_in_burst(p, &p->a);
	assert_true(is_zero(p->b.area, MTU));
	deliver_in_burst(p, &p->a);
	assert_true(is_there(p, 0, 1));
	assert_true(is_zero(p->b.area + MTU, MTU));
	end_burst(&p->b);
	assert_true(is_there(p, 0, 2));
	deliver_in_burst(p, &p->a);
	assert_true(is_zero(p->b.area + 2 * MTU, MTU));
	/* The last packet is placed at once, since applications poll for the last bytes. */
	deliver_in_burst(p, &p->a);
	assert_true(is_there(p, 0, 4));
	end_burst(&p->b);
	expect_written(p, 4);
}

/* When a message completes, all of it is in place. */
static void
test_in_place_when_reported(void **state)
{
	struct pair *p = pair_new(&(struct pair_options){.mtu = MTU});

	fill(p->a.area, 3 * MTU, 1);
	post_simple(p, &p->a, ONE_OP_WRITE_IMM, 1, 0, 3 * MTU, 0);
	post_recv(&p->b, 2, 0, 0);
	flush_output(p, &p->a);
	while (p->b.num_done == 0)
		assert_true(deliver_in_burst(p, &p->a));
	assert_true(is_there(p, 0, 3));
	end_burst(&p->b);
	expect_written(p, 3);
}

/* Placed at once: payloads too short to gain from deferral, and the last packet of a message. */
static void
test_at_once(void **state)
{
	static const struct {
		uint16_t mtu;
		uint32_t len;
	} cases[] = {{256, 512}, {MTU, MTU}, {4096, 700}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct pair *p = pair_new(&(struct pair_options){.mtu = cases[i].mtu});
		uint32_t first = cases[i].len < cases[i].mtu ? cases[i].len : cases[i].mtu;

		fill(p->a.area, cases[i].len, 1);
		post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, cases[i].len, 0);
		flush_output(p, &p->a);
		deliver_in_burst(p, &p->a);
		assert_memory_equal(p->b.area, p->a.area, first);
		end_burst(&p->b);
		pump(p);
		assert_memory_equal(p->b.area, p->a.area, cases[i].len);
		pair_free(p);
	}
}

/* A duplicate does not overwrite memory that the application has changed since. */
static void
test_duplicates(void **state)
{
	struct pair *p = written(&(struct pair_options){.mtu = MTU}, ONE_OP_WRITE, 3);
	uint8_t mine[MTU];

	for (int i = 0; i < 2; i++) {
		duplicate_first(&p->a);
		deliver_in_burst(p, &p->a);
		end_burst(&p->b);
		assert_true(is_there(p, 0, (uint32_t)i + 1));
		fill(mine, MTU, 9);
		memcpy(p->b.area + i * MTU, mine, MTU);
		deliver_in_burst(p, &p->a);
		end_burst(&p->b);
		assert_memory_equal(p->b.area + i * MTU, mine, MTU);
		memcpy(p->b.area + i * MTU, p->a.area + i * MTU, MTU);
	}
	assert_int_equal(p->b.env.rc.counter[RC_COUNT_DUPLICATE], 2);
	/* The original and its duplicate are in one burst, while the move of the original is deferred. */
	duplicate_first(&p->a);
	deliver_in_burst(p, &p->a);
	deliver_in_burst(p, &p->a);
	end_burst(&p->b);
	expect_written(p, 3);
}

/* A payload behind a hole is not moved. A deferred one before the hole is moved with a frame that is
 * dropped. */
static void
test_hole(void **state)
{
	struct pair *p = written(&(struct pair_options){.mtu = MTU}, ONE_OP_WRITE, 5);

	deliver_in_burst(p, &p->a);
	drop_one(&p->a);
	deliver_in_burst(p, &p->a);
	assert_true(is_there(p, 0, 1));
	end_burst(&p->b);
	assert_int_equal(p->b.env.rc.counter[RC_COUNT_OUT_OF_SEQUENCE], 1);
	assert_true(is_zero(p->b.area + MTU, 4 * MTU));
	expect_written(p, 5);
}

/* The frame that fills a hole also places the held ones, which are freed before the next frame. */
static void
test_filled_hole(void **state)
{
	struct pair *p = written(&(struct pair_options){.mtu = MTU, .selective = true}, ONE_OP_WRITE, 6);

	deliver_in_burst(p, &p->a);
	drop_one(&p->a);
	for (int i = 0; i < 3; i++)
		deliver_in_burst(p, &p->a);
	end_burst(&p->b);
	drop_one(&p->a);
	assert_int_equal(p->b.env.holds, 3);
	assert_true(is_zero(p->b.area + MTU, 5 * MTU));
	flush_output(p, &p->b);
	deliver_one(p, &p->b);
	flush_output(p, &p->a);
	assert_int_equal(p->a.out[0].packet.psn, 0x1001);
	deliver_in_burst(p, &p->a);
	assert_int_equal(p->b.env.holds, 0);
	assert_true(is_there(p, 0, 5));
	end_burst(&p->b);
	pump(p);
	assert_true(run_timer(p)); /* for the last packet */
	expect_written(p, 6);
}

/* A frame that is dropped still moves the deferred payload. */
static void
test_bad_frame(void **state)
{
	struct pair *p = written(&(struct pair_options){.mtu = MTU}, ONE_OP_WRITE, 3);
	struct wire_packet packet;
	struct frame *bad = &p->a.out[0];

	deliver_in_burst(p, &p->a);
	assert_true(is_zero(p->b.area, MTU));
	bad->bytes[bad->len - 10] ^= 1;
	assert_int_equal(test_env_parse(&p->b.env, bad->bytes, bad->len, &packet), WIRE_DROP_ICRC);
	assert_true(is_there(p, 0, 1));
	bad->bytes[bad->len - 10] ^= 1;
	deliver_in_burst(p, &p->a);
	assert_true(is_zero(p->b.area + MTU, 2 * MTU));
	/* a frame so short that it is not parsed */
	assert_int_equal(test_env_parse(&p->b.env, bad->bytes, WIRE_ETH_LEN - 1, &packet), WIRE_DROP_SHORT);
	assert_true(is_there(p, 0, 2));
	drop_one(&p->a);
	end_burst(&p->b);
	pump(p);
	assert_true(run_timer(p)); /* for the last packet */
	expect_written(p, 3);
}

static void
test_read(void **state)
{
	struct pair *p = pair_new(&(struct pair_options){.mtu = MTU});

	fill(p->b.area, 3 * MTU, 1);
	post_simple(p, &p->a, ONE_OP_READ, 1, 0, 3 * MTU, 0);
	flush_output(p, &p->a);
	deliver_one(p, &p->a);
	flush_output(p, &p->b);
	assert_int_equal(p->b.num_out, 3);
	deliver_in_burst(p, &p->b);
	assert_true(is_zero(p->a.area, MTU));
	duplicate_first(&p->b);
	deliver_in_burst(p, &p->b);
	assert_true(is_there(p, 0, 1));
	deliver_in_burst(p, &p->b); /* a duplicate */
	assert_true(is_there(p, 0, 2));
	assert_int_equal(p->a.num_done, 0);
	deliver_in_burst(p, &p->b);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, 3 * MTU);
	assert_true(is_there(p, 0, 3));
	end_burst(&p->a);
	assert_true(is_zero(p->a.area + 3 * MTU, MTU));
	pair_free(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_moved_by_the_next_frame),
		cmocka_unit_test(test_in_place_when_reported),
		cmocka_unit_test(test_at_once),
		cmocka_unit_test(test_duplicates),
		cmocka_unit_test(test_hole),
		cmocka_unit_test(test_filled_hole),
		cmocka_unit_test(test_bad_frame),
		cmocka_unit_test(test_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
