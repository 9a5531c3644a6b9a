/* SPDX-License-Identifier: BSD-3-Clause */
/* Selective repeat: what exactly is retransmitted, and when. */
#include "harness.h"

#define OK ONE_STATUS_SUCCESS
#define MTU 1024u

static const struct pair_options selective = {.selective = true, .mtu = MTU};

/* Deliver all frames of `from` but those whose positions are bits of `lost`. */
static void
carry_but(struct pair *p, struct end *from, uint32_t lost)
{
	p->now += US;
	flush_output(p, from);
	for (uint32_t i = 0; from->num_out > 0; i++) {
		if (lost >> i & 1)
			drop_one(from);
		else
			deliver_in_burst(p, from);
	}
	end_burst(from->peer);
}

/* A READs ten packets from B, and the responses in `lost` do not arrive. */
static struct pair *
read_with_losses(uint32_t lost)
{
	struct pair *p = pair_new(&selective);

	fill(p->b.area, 10 * MTU, 1);
	post_simple(p, &p->a, ONE_OP_READ, 1, 0, 10 * MTU, 0);
	carry_but(p, &p->a, 0);
	flush_output(p, &p->b);
	assert_int_equal(p->b.num_out, 10);
	carry_but(p, &p->b, lost);
	flush_output(p, &p->a);
	return p;
}

static void
expect_read(struct pair *p)
{
	assert_int_equal(p->a.num_done, 1);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, 10 * MTU);
	assert_memory_equal(p->a.area, p->b.area, 10 * MTU);
	assert_int_equal(p->a.env.rc.counter[RC_COUNT_TIMEOUT], 0);
	assert_int_equal(p->a.env.holds, 0);
	pair_free(p);
}

static void
expect_frame(const struct end *end, uint32_t index, uint8_t opcode, uint32_t psn)
{
	assert_true(index < end->num_out);
	assert_int_equal(end->out[index].packet.opcode, opcode);
	assert_int_equal(end->out[index].packet.psn, psn);
}

static void
test_hole_of_a_write(void **state)
{
	struct pair *p = pair_new(&selective);

	fill(p->a.area, 6 * MTU, 1);
	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 6 * MTU, 0);
	carry_but(p, &p->a, 1u << 1 | 1u << 3);
	assert_int_equal(p->b.env.holds, 3);
	flush_output(p, &p->b);
	expect_reply(&p->b, 0x60, 0x1001);
	assert_int_equal(p->b.out[p->b.num_out - 1].packet.payload_len, 4);
	assert_int_equal(p->b.out[p->b.num_out - 1].packet.payload[0], 1u << 0 | 1u << 2 | 1u << 3);
	carry_but(p, &p->b, 0);
	flush_output(p, &p->a);
	assert_int_equal(p->a.num_out, 2);
	expect_frame(&p->a, 0, WIRE_WRITE_MIDDLE, 0x1001);
	expect_frame(&p->a, 1, WIRE_WRITE_MIDDLE, 0x1003);
	pump(p);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, 6 * MTU);
	assert_memory_equal(p->b.area, p->a.area, 6 * MTU);
	assert_int_equal(p->b.env.holds, 0);
	pair_free(p);
}

/* Two parts of one READ are requested again before either is answered. */
static void
test_parts_of_a_read(void **state)
{
	struct pair *p = read_with_losses(1u << 2 | 1u << 5 | 1u << 6);

	assert_int_equal(p->a.num_out, 2);
	expect_frame(&p->a, 0, WIRE_READ_REQUEST, 0x1002);
	assert_int_equal(p->a.out[0].packet.dma_length, MTU);
	expect_frame(&p->a, 1, WIRE_READ_REQUEST, 0x1005);
	assert_int_equal(p->a.out[1].packet.dma_length, 2 * MTU);
	carry_but(p, &p->a, 0);
	flush_output(p, &p->b);
	assert_int_equal(p->b.num_out, 3);
	expect_frame(&p->b, 0, WIRE_READ_RESPONSE_ONLY, 0x1002);
	expect_frame(&p->b, 1, WIRE_READ_RESPONSE_ONLY, 0x1005);
	expect_frame(&p->b, 2, WIRE_READ_RESPONSE_ONLY, 0x1006);
	pump(p);
	expect_read(p);
}

/* A part is requested again while the rest is still being sent for the first time. */
static void
test_part_of_a_read_under_way(void **state)
{
	struct pair *p = pair_new(&selective);

	fill(p->b.area, 10 * MTU, 1);
	post_simple(p, &p->a, ONE_OP_READ, 1, 0, 10 * MTU, 0);
	carry_but(p, &p->a, 0);
	rc_output(p->b.qp, 5, p->now);
	assert_int_equal(p->b.num_out, 5);
	for (uint32_t i = 0; i < 5; i++) {
		if (i == 1)
			drop_one(&p->b);
		else
			deliver_one(p, &p->b);
	}
	carry_but(p, &p->a, 0);
	flush_output(p, &p->b);
	assert_int_equal(p->b.num_out, 6);
	expect_frame(&p->b, 0, WIRE_READ_RESPONSE_ONLY, 0x1001);
	expect_frame(&p->b, 1, WIRE_READ_RESPONSE_MIDDLE, 0x1005);
	expect_frame(&p->b, 5, WIRE_READ_RESPONSE_LAST, 0x1009);
	pump(p);
	expect_read(p);
}

/* A repeated request, or its response, is lost. The response of a later one reveals that, before any
 * timeout. */
static void
test_lost_repeat(void **state)
{
	for (int answer = 0; answer < 2; answer++) {
		struct pair *p = read_with_losses(1u << 2 | 1u << 5);

		assert_int_equal(p->a.num_out, 2);
		carry_but(p, &p->a, answer ? 0 : 1u << 0);
		flush_output(p, &p->b);
		assert_int_equal(p->b.num_out, 1 + answer);
		carry_but(p, &p->b, answer ? 1u << 0 : 0);
		flush_output(p, &p->a);
		assert_int_equal(p->a.num_out, 1);
		expect_frame(&p->a, 0, WIRE_READ_REQUEST, 0x1002);
		pump(p);
		expect_read(p);
	}
}

/* A response in the middle of one repeated request is lost. */
static void
test_lost_answer_of_many(void **state)
{
	struct pair *p = read_with_losses(0xfeu);

	assert_int_equal(p->a.num_out, 1);
	carry_but(p, &p->a, 0);
	carry_but(p, &p->b, 1u << 3);
	flush_output(p, &p->a);
	assert_int_equal(p->a.num_out, 1);
	expect_frame(&p->a, 0, WIRE_READ_REQUEST, 0x1004);
	assert_int_equal(p->a.out[0].packet.dma_length, MTU);
	pump(p);
	expect_read(p);
}

/* A repeated READ is checked again, both when requested and when sent. */
static void
test_key_is_gone(void **state)
{
	for (int asked = 0; asked < 2; asked++) {
		struct pair *p = read_with_losses(1u << 2 | 1u << 5);

		if (asked)
			carry_but(p, &p->a, 0);
		mem_remove(p->mem, p->b.remote.key);
		carry_but(p, &p->a, 0);
		flush_output(p, &p->b);
		assert_int_equal(p->b.num_out, 0);
		assert_int_equal(p->b.env.rc.counter[RC_COUNT_DROP_REPLAY], 2);
		assert_int_equal(rc_state(p->b.qp), RC_RTS);
		assert_int_equal(p->a.num_done, 0);
		pair_free(p);
	}
}

/* Without a scoreboard B goes back within the READ. */
static void
test_without_a_scoreboard(void **state)
{
	struct pair *p = pair_new(&selective);

	p->b.env.rc.scoreboards = NULL;
	fill(p->b.area, 10 * MTU, 1);
	post_simple(p, &p->a, ONE_OP_READ, 1, 0, 10 * MTU, 0);
	carry_but(p, &p->a, 0);
	carry_but(p, &p->b, 1u << 2 | 1u << 5);
	carry_but(p, &p->a, 0);
	flush_output(p, &p->b);
	assert_int_equal(p->b.num_out, 4); /* from the first hole to the second */
	pump(p);
	expect_read(p);
}

/* A READ request is lost, and the probe requests its last response alone. B holds the probe behind the hole,
 * and passes over it with the READ that fills the hole. Nothing stays held, so a later loss is repaired as
 * usual. */
static void
test_probe_of_a_read(void **state)
{
	struct pair *p = pair_new(&selective);

	fill(p->b.area, 10 * MTU, 1);
	post_simple(p, &p->a, ONE_OP_READ, 1, 0, 10 * MTU, 0);
	carry_but(p, &p->a, 1u << 0);
	assert_true(run_timer(p));
	flush_output(p, &p->a);
	expect_frame(&p->a, 0, WIRE_READ_REQUEST, 0x1009);
	carry_but(p, &p->a, 0);
	assert_int_equal(p->b.env.holds, 1);
	pump(p);
	assert_int_equal(p->a.num_done, 1);
	assert_memory_equal(p->a.area, p->b.area, 10 * MTU);
	assert_int_equal(p->b.env.holds, 0);
	post_simple(p, &p->a, ONE_OP_WRITE, 2, 0, 3 * MTU, 0);
	carry_but(p, &p->a, 1u << 1);
	carry_but(p, &p->b, 0);
	carry_but(p, &p->a, 0);
	flush_output(p, &p->b);
	expect_reply(&p->b, 0x1f, 0x100c);
	pair_free(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hole_of_a_write),          cmocka_unit_test(test_parts_of_a_read),
		cmocka_unit_test(test_part_of_a_read_under_way), cmocka_unit_test(test_lost_repeat),
		cmocka_unit_test(test_lost_answer_of_many),      cmocka_unit_test(test_key_is_gone),
		cmocka_unit_test(test_without_a_scoreboard),     cmocka_unit_test(test_probe_of_a_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
