/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections made out of band: how oneside ends recognize each other, and what others see of it. */
#include "harness.h"

#define PORT 0xc001u /* source port of both ends before a hello */
#define MOST 8u      /* hellos that an end sends without being asked */
#define WAIT (5 * MS)

static const struct pair_options hello = {.hello = true, .other_peer = true};

static uint64_t
count_of(const struct end *end, enum rc_counter counter)
{
	return end->env.rc.counter[counter];
}

static void
write_some(struct pair *p, struct end *end, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		post_simple(p, end, ONE_OP_WRITE, 1, 0, 64, 0);
}

static bool
is_recognized(const struct pair *p)
{
	return count_of(&p->a, RC_COUNT_RECOGNIZED) == 1 && count_of(&p->b, RC_COUNT_RECOGNIZED) == 1;
}

/* Both ends pack, repeat selectively, send from the ports that the other asked for, and can be marked. */
static void
expect_oneside(struct pair *p)
{
	struct end *ends[2] = {&p->a, &p->b};
	const uint16_t ports[2] = {HELLO_PORT_B, HELLO_PORT_A};

	assert_true(is_recognized(p));
	for (uint32_t i = 0; i < 2; i++) {
		uint64_t retransmitted = count_of(ends[i], RC_COUNT_RETRANSMIT);
		const uint8_t *ip;

		write_some(p, ends[i], 5);
		flush_output(p, ends[i]);
		assert_int_equal(ends[i]->num_out, 1);
		assert_int_equal(ends[i]->out[0].packet.opcode, WIRE_PACKED_REQUESTS);
		assert_int_equal(ends[i]->out[0].packet.udp_src_port, ports[i]);
		ip = ends[i]->out[0].bytes + 14;
		assert_int_equal(ip[1] & 3, WIRE_ECT);
		pump(p);
		post_simple(p, ends[i], ONE_OP_WRITE, 1, 0, 4 * 1024, 0);
		flush_output(p, ends[i]);
		drop_one(ends[i]);
		pump(p);
		assert_int_equal(count_of(ends[i], RC_COUNT_RETRANSMIT), retransmitted + 1);
	}
}

static void
test_ends_recognize_each_other(void **state)
{
	struct pair *p = pair_new(&hello);

	write_some(p, &p->a, 3);
	flush_output(p, &p->a);
	assert_int_equal(p->a.num_out, 3); /* nothing is known yet */
	pump(p);
	assert_int_equal(count_of(&p->a, RC_COUNT_CNP_SENT) + count_of(&p->b, RC_COUNT_CNP_SENT), 0);
	expect_oneside(p);
	assert_int_equal(count_of(&p->a, RC_COUNT_DROP_ADDRESS) + count_of(&p->b, RC_COUNT_DROP_ADDRESS), 0);
	pair_free(p);
}

static bool
lose_hello(struct pair *p, struct end *from, const struct frame *frame)
{
	return frame->packet.opcode == WIRE_CNP && p->counter-- == 0;
}

/* A queue pair that only responds stays in RTR. */
static void
test_responder_in_rtr(void **state)
{
	struct pair_options options = hello;
	struct pair *p;

	options.b_state = RC_RTR;
	p = pair_new(&options);
	p->b.stays = true;
	write_some(p, &p->a, 3);
	pump(p);
	assert_int_equal(rc_state(p->b.qp), RC_RTR);
	assert_true(is_recognized(p));
	write_some(p, &p->a, 5);
	flush_output(p, &p->a);
	assert_int_equal(p->a.num_out, 1);
	assert_int_equal(p->a.out[0].packet.udp_src_port, HELLO_PORT_B);
	pump(p);
	pair_free(p);
}

/* Whichever hello is lost, traffic that goes on brings another. */
static void
test_lost_hellos(void **state)
{
	for (uint32_t lost = 0; lost < 4; lost++) {
		struct pair *p = pair_new(&hello);

		p->lose = lose_hello;
		p->counter = lost;
		for (uint32_t i = 0; i < 4; i++) {
			write_some(p, &p->a, 2);
			pump(p);
			p->now += WAIT;
		}
		p->lose = NULL;
		expect_oneside(p);
		pair_free(p);
	}
}

static bool
count_hello(struct pair *p, struct end *from, const struct frame *frame)
{
	assert_int_equal(frame->packet.udp_src_port, PORT);
	if (frame->packet.opcode == WIRE_CNP)
		p->counter++;
	return false;
}

/* A peer that sends from the port by chance, and answers no hello, is left in peace. */
static void
test_other_peer_at_the_port(void **state)
{
	struct pair *p = pair_new(&hello);

	p->lose = count_hello;
	p->b.attr.hello_port = 0;
	rc_reset(p->b.qp);
	rc_connect(p->b.qp, &p->b.attr, RC_RTS);
	for (uint32_t i = 0; i < 3 * MOST; i++) {
		write_some(p, &p->a, 2);
		pump(p);
		p->now += WAIT;
	}
	assert_int_equal(p->counter, MOST);
	assert_int_equal(count_of(&p->a, RC_COUNT_PACKED_SENT), 0);
	assert_int_equal(count_of(&p->a, RC_COUNT_RECOGNIZED) + count_of(&p->b, RC_COUNT_RECOGNIZED), 0);
	pair_free(p);
}

/* A peer that sends from any other port gets the frames that it would get without hellos. */
static void
test_other_peer_elsewhere(void **state)
{
	struct pair *p = pair_new(&hello);

	p->b.attr.hello_port = 0;
	p->b.attr.path.udp_src_port = PORT + 1;
	rc_reset(p->b.qp);
	rc_connect(p->b.qp, &p->b.attr, RC_RTS);
	for (uint32_t i = 0; i < MOST; i++) {
		write_some(p, &p->a, 2);
		flush_output(p, &p->a);
		assert_int_equal(p->a.num_out, 2);
		assert_int_equal(p->a.out[0].packet.opcode, WIRE_WRITE_ONLY);
		pump(p);
		p->now += WAIT;
	}
	pair_free(p);
}

/* Change the PSN of the next request that a hello names. */
static void
store_next(uint8_t *data, uint32_t psn)
{
	const uint8_t bytes[4] = {0, (uint8_t)(psn >> 16), (uint8_t)(psn >> 8), (uint8_t)psn};

	memcpy(data + 8, bytes, sizeof(bytes));
}

/* Take the first hello that B sends. */
static struct frame
take_hello(struct pair *p)
{
	struct frame frame = {0};

	write_some(p, &p->a, 1);
	flush_output(p, &p->a);
	deliver_one(p, &p->a);
	flush_output(p, &p->b);
	for (uint32_t i = 0; i < p->b.num_out; i++)
		if (p->b.out[i].packet.opcode == WIRE_CNP)
			frame = p->b.out[i];
	assert_non_null(frame.bytes);
	return frame;
}

/* A hello changes no connection for which none is expected, and is no congestion for any. */
static void
test_unexpected_hello(void **state)
{
	struct pair *p = pair_new(&hello), *other = pair_new(&(struct pair_options){.other_peer = true});
	struct frame frame = take_hello(p);

	for (uint32_t i = 0; i < 2; i++) {
		write_some(other, &other->a, 20);
		flush_output(other, &other->a);
		rc_input(other->a.qp, &frame.packet, other->now);
		write_some(other, &other->a, 20);
		flush_output(other, &other->a);
		assert_int_equal(other->a.num_out, 40);
		assert_int_equal(other->a.out[39].packet.udp_src_port, PORT);
		pump(other);
	}
	assert_int_equal(count_of(&other->a, RC_COUNT_RECOGNIZED), 0);
	pair_free(other);
	pair_free(p);
}

/* To a queue pair in RTR, a hello has to name a next request that the peer may send. */
static void
test_forged_hello_in_rtr(void **state)
{
	static const struct {
		uint32_t next;
		bool counts;
	} hellos[] = {{0x1000, true}, {0x1001, true}, {0x1000 + 1153, false}, {0x1000 - 2049, false}};

	for (uint32_t i = 0; i < sizeof(hellos) / sizeof(hellos[0]); i++) {
		struct pair_options options = hello;
		struct frame frame;
		struct pair *p;

		options.b_state = RC_RTR;
		p = pair_new(&options);
		frame = take_hello(p);
		rc_reset(p->b.qp);
		rc_connect(p->b.qp, &p->b.attr, RC_RTR);
		frame.packet.src = p->a.attr.path.src;
		frame.packet.dst = p->b.attr.path.src;
		store_next((uint8_t *)(uintptr_t)wire_cnp_data(&frame.packet), hellos[i].next);
		rc_input(p->b.qp, &frame.packet, p->now);
		assert_int_equal(count_of(&p->b, RC_COUNT_RECOGNIZED), hellos[i].counts);
		pair_free(p);
	}
}

/* A hello from another port, or with a PSN that the peer cannot expect, is forged. */
static void
test_forged_hello(void **state)
{
	static const struct {
		uint32_t psn;
		uint16_t port;
		bool counts;
	} hellos[] = {
		{0x1001, PORT, true},         {0x1001, HELLO_PORT_A, true},  {0x1000, PORT, true},
		{0x1001, PORT + 1, false},    {0x1001, HELLO_PORT_B, false}, {0x1002, PORT, false},
		{0x1000 - 2049, PORT, false}, {0x800000, PORT, false},
	};

	for (uint32_t i = 0; i < sizeof(hellos) / sizeof(hellos[0]); i++) {
		struct pair *p = pair_new(&hello);
		struct frame frame = take_hello(p);

		frame.packet.psn = hellos[i].psn;
		frame.packet.udp_src_port = hellos[i].port;
		rc_input(p->a.qp, &frame.packet, p->now);
		assert_int_equal(count_of(&p->a, RC_COUNT_RECOGNIZED), hellos[i].counts);
		pump(p); /* the peer's own hello counts, too */
		expect_oneside(p);
		pair_free(p);
	}
}

/* A hello gets one answer, and none if its sender knows that its own has arrived. */
static void
test_no_storm(void **state)
{
	struct pair *p = pair_new(&hello);
	struct frame frame = take_hello(p);
	uint8_t *bytes = malloc(frame.len);
	struct wire_packet packet;

	memcpy(bytes, frame.bytes, frame.len);
	pump(p);
	expect_oneside(p);
	assert_int_equal(wire_parse(bytes, frame.len, &packet), WIRE_OK);
	packet.udp_src_port = HELLO_PORT_A;
	rc_input(p->a.qp, &packet, p->now);
	flush_output(p, &p->a);
	assert_int_equal(p->a.num_out, 1);
	assert_int_equal(p->a.out[0].packet.opcode, WIRE_CNP);
	deliver_one(p, &p->a);
	flush_output(p, &p->b);
	assert_int_equal(p->b.num_out, 0);
	free(bytes);
	pair_free(p);
}

/* After the hellos a frame from the former port, which everybody can compute, does not count. */
static void
test_former_port(void **state)
{
	struct pair *p = pair_new(&hello);
	struct wire_packet packet = {.opcode = WIRE_WRITE_ONLY, .psn = 0x1001, .udp_src_port = PORT};

	write_some(p, &p->a, 1);
	pump(p);
	assert_true(is_recognized(p));
	packet.src = p->a.attr.path.src;
	packet.dst = p->b.attr.path.src;
	rc_input(p->b.qp, &packet, p->now);
	assert_int_equal(count_of(&p->b, RC_COUNT_DROP_ADDRESS), 1);
	expect_oneside(p);
	pair_free(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ends_recognize_each_other),
		cmocka_unit_test(test_responder_in_rtr),
		cmocka_unit_test(test_lost_hellos),
		cmocka_unit_test(test_other_peer_at_the_port),
		cmocka_unit_test(test_other_peer_elsewhere),
		cmocka_unit_test(test_unexpected_hello),
		cmocka_unit_test(test_forged_hello_in_rtr),
		cmocka_unit_test(test_forged_hello),
		cmocka_unit_test(test_no_storm),
		cmocka_unit_test(test_former_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
