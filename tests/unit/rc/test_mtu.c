/* SPDX-License-Identifier: BSD-3-Clause */
/* Path MTUs that are no power of two: lengths around the boundaries of packets, and losses. */
#include "dataplane/rc/rc_internal.h"
#include "harness.h"

#define OK ONE_STATUS_SUCCESS

static const uint16_t mtus[] = {320, 1344, 1408, 3712, 8896, RC_MTU_MAX};

static struct pair *
pair_of(uint16_t mtu)
{
	struct pair *p = pair_new(&(struct pair_options){.mtu = mtu, .packed = true});

	fill(p->a.area, AREA, 1);
	fill(p->b.area, AREA, 2);
	return p;
}

/* Check the number of packets, and that all but the last are full. */
static void
expect_packets(const struct end *end, uint32_t len, uint16_t mtu)
{
	uint32_t packets = len <= mtu ? 1 : (len - 1) / mtu + 1;

	assert_int_equal(end->num_out, packets);
	for (uint32_t i = 0; i < packets; i++)
		assert_int_equal(end->out[i].packet.payload_len,
				 i + 1 < packets ? mtu : len - (packets - 1) * mtu);
}

static void
one_length(struct pair *p, uint8_t op, uint32_t len, uint16_t mtu)
{
	struct end *from = op == ONE_OP_READ ? &p->b : &p->a;
	uint32_t done = p->a.num_done;

	if (op == ONE_OP_SEND)
		post_recv(&p->b, 1, AREA / 2, AREA / 2);
	post_simple(p, &p->a, op, 1, 0, len, AREA / 2);
	flush_output(p, &p->a);
	if (op == ONE_OP_READ) {
		assert_true(deliver_one(p, &p->a));
		flush_output(p, &p->b);
	}
	expect_packets(from, len, mtu);
	pump(p);
	expect_done(&p->a, done, 1, ONE_CQE_SEND, OK, len);
	assert_memory_equal(p->b.area + AREA / 2, p->a.area, len);
}

static void
test_lengths(void **state)
{
	static const uint8_t ops[] = {ONE_OP_WRITE, ONE_OP_SEND, ONE_OP_READ};

	for (size_t m = 0; m < sizeof(mtus) / sizeof(mtus[0]); m++) {
		const uint32_t lens[] = {0,
					 1,
					 mtus[m] - 1u,
					 mtus[m],
					 mtus[m] + 1u,
					 2u * mtus[m],
					 2u * mtus[m] + 63,
					 3u * mtus[m] - 1};
		struct pair *p = pair_of(mtus[m]);

		pump(p);
		for (size_t i = 0; i < 3 * sizeof(lens) / sizeof(lens[0]); i++) {
			fill(p->a.area, AREA / 2, (uint32_t)i);
			one_length(p, ops[i % 3], lens[i / 3], mtus[m]);
		}
		pair_free(p);
	}
}

static bool
lose_some(struct pair *p, struct end *from, const struct frame *frame)
{
	return ++p->counter % 7 == 0;
}

/* Selective repeat requests parts of a READ, and retransmits parts of a WRITE, by their offset. */
static void
test_loss(void **state)
{
	for (size_t m = 0; m < sizeof(mtus) / sizeof(mtus[0]); m++) {
		struct pair *p = pair_of(mtus[m]);
		uint32_t len = AREA / 2 - 1;

		p->lose = lose_some;
		post_simple(p, &p->a, ONE_OP_WRITE, 0, 0, len, AREA / 2);
		post_simple(p, &p->a, ONE_OP_READ, 1, 0, len, AREA / 2);
		while (p->a.num_done < 2) {
			pump(p);
			assert_true(p->a.num_done == 2 || run_timer(p));
		}
		expect_done(&p->a, 0, 0, ONE_CQE_SEND, OK, len);
		expect_done(&p->a, 1, 1, ONE_CQE_SEND, OK, len);
		assert_memory_equal(p->b.area + AREA / 2, p->a.area, len);
		assert_true(p->a.env.rc.counter[RC_COUNT_RETRANSMIT] > 0);
		pair_free(p);
	}
}

/* An invalid path MTU is replaced by one that the transport supports. */
static void
test_attributes(void **state)
{
	static const uint16_t given[][2] = {{0, 256},
					    {255, 256},
					    {256, 256},
					    {1500, 1472},
					    {4096, 4096},
					    {RC_MTU_MAX, RC_MTU_MAX},
					    {UINT16_MAX, RC_MTU_MAX}};
	struct pair *p = pair_new(NULL);

	for (size_t i = 0; i < sizeof(given) / sizeof(given[0]); i++) {
		p->a.attr.path_mtu = given[i][0];
		rc_reset(p->a.qp);
		rc_connect(p->a.qp, &p->a.attr, RC_RTS);
		assert_int_equal(p->a.qp->mtu, given[i][1]);
	}
	pair_free(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_loss),
		cmocka_unit_test(test_attributes),
	};

	wire_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
