/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that a stranger forges in A's name before A sends them: which of them B holds, and with what
 * effect. */
#include "dataplane/rc/rc_internal.h"
#include "harness.h"

#define OK ONE_STATUS_SUCCESS
#define PSN 0x1000u /* the first PSN that B expects */
#define GOOD_PORT 0xc001
#define OTHER_PORT 0xc002

static const struct pair_options selective = {.selective = true};

static void
forge_send(struct pair *p, uint16_t udp_src_port, uint32_t psn)
{
	const struct wire_build b = {
		.opcode = WIRE_SEND_ONLY, .psn = psn, .ack_request = true, .payload_len = 4};

	p->a.attr.path.udp_src_port = udp_src_port;
	inject(p, &p->a, &b, "EVIL");
	p->a.attr.path.udp_src_port = GOOD_PORT;
}

static void
forge_answer(struct pair *p, uint16_t udp_src_port, uint8_t syndrome)
{
	const struct wire_build b = {.opcode = WIRE_ACKNOWLEDGE, .psn = PSN, .syndrome = syndrome};

	p->b.attr.path.udp_src_port = udp_src_port;
	inject(p, &p->b, &b, NULL);
	p->b.attr.path.udp_src_port = GOOD_PORT;
}

/* A sweep over all PSNs by a host that sees no frame of the connection, and so does not know the UDP source
 * port. */
static void
test_sweep_without_the_port(void **state)
{
	const uint32_t stride = 1000;
	struct pair *p = pair_new(&selective);
	uint32_t frames = 0;

	for (uint32_t psn = PSN + 1; psn < PSN + (1u << 24); psn += stride, frames++)
		forge_send(p, OTHER_PORT, psn);
	assert_int_equal(p->b.env.holds, 0);
	assert_int_equal(p->b.env.rc.counter[RC_COUNT_DROP_ADDRESS], frames);
	assert_false(rc_wants_output(p->b.qp));
	pair_free(p);
}

/* From another source port B drops the expected request, and A drops ACKs, NAKs and CNPs. */
static void
test_other_frames_without_the_port(void **state)
{
	const struct wire_build cnp = {.opcode = WIRE_CNP};
	struct pair *p = pair_new(&selective);

	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 8, 0);
	flush_output(p, &p->a);
	forge_answer(p, OTHER_PORT, 0x62);
	forge_answer(p, OTHER_PORT, 0x1f);
	p->b.attr.path.udp_src_port = OTHER_PORT;
	inject(p, &p->b, &cnp, NULL);
	p->b.attr.path.udp_src_port = GOOD_PORT;
	assert_int_equal(p->a.env.rc.counter[RC_COUNT_DROP_ADDRESS], 2);
	assert_int_equal(p->a.env.rc.counter[RC_COUNT_CNP_RECEIVED], 1); /* each CNP is counted */
	assert_false(p->a.qp->req.congested);
	assert_int_equal(p->a.num_done, 0);
	post_recv(&p->b, 2, 0, 8);
	forge_send(p, OTHER_PORT, PSN);
	assert_int_equal(p->b.num_done, 0);
	pump(p);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, 8);
	pair_free(p);
}

/* A peer of another make may change its source port. Packets that it sends ahead are never held. */
static void
test_port_of_other_make(void **state)
{
	const struct pair_options other = {.other_peer = true};
	struct pair *p = pair_new(&other);

	post_recv(&p->b, 1, 0, 8);
	post_recv(&p->b, 2, 8, 8);
	forge_send(p, GOOD_PORT, PSN + 1);
	assert_int_equal(p->b.env.holds, 0);
	forge_send(p, OTHER_PORT, PSN);
	assert_int_equal(p->b.num_done, 1);
	pair_free(p);
}

/* B holds no packet farther ahead than a peer can have in flight. */
static void
test_what_cannot_be_sent_is_not_held(void **state)
{
	struct pair *p = pair_new(&selective);

	forge_send(p, GOOD_PORT, PSN + RC_AHEAD_MAX);
	forge_send(p, GOOD_PORT, PSN + RC_SCOREBOARD - 1);
	assert_int_equal(p->b.env.holds, 0);
	assert_int_equal(p->b.env.rc.counter[RC_COUNT_OUT_OF_SEQUENCE], 2);
	forge_send(p, GOOD_PORT, PSN + RC_AHEAD_MAX - 1);
	assert_int_equal(p->b.env.holds, 1);
	/* A peer that was notified of the held one may send one more. */
	forge_send(p, GOOD_PORT, PSN + RC_AHEAD_MAX + 1);
	assert_int_equal(p->b.env.holds, 1);
	forge_send(p, GOOD_PORT, PSN + RC_AHEAD_MAX);
	assert_int_equal(p->b.env.holds, 2);
	pair_free(p);
}

/* A later frame from A replaces a forged one with the same PSN. */
static void
test_later_frame_wins(void **state)
{
	struct pair *p = pair_new(&selective);

	post_recv(&p->b, 1, 0, 8);
	post_recv(&p->b, 2, 8, 8);
	forge_send(p, GOOD_PORT, PSN + 1);
	assert_int_equal(p->b.env.holds, 1);
	flush_output(p, &p->b);
	while (p->b.num_out > 0)
		drop_one(&p->b);
	memcpy(p->a.area, "one two ", 8);
	post_simple(p, &p->a, ONE_OP_SEND, 3, 0, 4, 0);
	post_simple(p, &p->a, ONE_OP_SEND, 4, 4, 4, 0);
	flush_output(p, &p->a);
	assert_int_equal(p->a.num_out, 2);
	drop_one(&p->a);
	pump(p);
	expect_done(&p->b, 0, 1, ONE_CQE_RECV, OK, 4);
	expect_done(&p->b, 1, 2, ONE_CQE_RECV, OK, 4);
	assert_memory_equal(p->b.area, "one ", 4);
	assert_memory_equal(p->b.area + 8, "two ", 4);
	assert_int_equal(p->b.env.holds, 0);
	pair_free(p);
}

/* With each filled hole B reports that it holds a later packet. A, which has not sent that one, takes the
 * report as an acknowledgement of what it has sent. */
static void
test_acknowledged_before_a_forged_one(void **state)
{
	struct pair *p = pair_new(&selective);

	forge_send(p, GOOD_PORT, PSN + 9);
	pump(p);
	for (uint32_t i = 0; i < 3; i++) {
		post_simple(p, &p->a, ONE_OP_WRITE, i, 0, 2 * 1024, 0);
		flush_output(p, &p->a);
		drop_one(&p->a);
		pump(p);
		expect_done(&p->a, i, i, ONE_CQE_SEND, OK, 2 * 1024);
		assert_int_equal(p->b.env.holds, 1);
	}
	assert_int_equal(p->a.env.rc.counter[RC_COUNT_TIMEOUT], 0);
	assert_int_equal(p->a.env.rc.counter[RC_COUNT_RETRANSMIT], 3);
	assert_int_equal(rc_deadline(p->a.qp), RC_NEVER);
	pair_free(p);
}

/* B has executed a request that A did not send, so A's next request would be dropped as a duplicate: the
 * connection fails at once. */
static void
test_forged_one_is_executed(void **state)
{
	struct pair *p = pair_new(&selective);

	post_recv(&p->b, 1, 0, 8);
	forge_send(p, GOOD_PORT, PSN + 1);
	post_simple(p, &p->a, ONE_OP_WRITE, 2, 0, 8, 16);
	pump(p);
	expect_done(&p->a, 0, 2, ONE_CQE_SEND, ONE_STATUS_BAD_RESPONSE, 0);
	assert_int_equal(p->a.failures, 1);
	assert_int_equal(p->a.env.rc.counter[RC_COUNT_TIMEOUT], 0);
	pair_free(p);
}

/* The response of a READ is lost while B holds a later forged packet: A requests the READ again. */
static void
test_lost_response_before_a_forged_one(void **state)
{
	struct pair *p = pair_new(&selective);

	fill(p->b.area, 8, 1);
	forge_send(p, GOOD_PORT, PSN + 5);
	pump(p);
	post_simple(p, &p->a, ONE_OP_READ, 1, 0, 8, 0);
	flush_output(p, &p->a);
	deliver_one(p, &p->a);
	flush_output(p, &p->b);
	drop_one(&p->b);
	pump(p);
	while (p->a.num_done == 0 && run_timer(p))
		pump(p);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, 8);
	assert_memory_equal(p->a.area, p->b.area, 8);
	pair_free(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sweep_without_the_port),
		cmocka_unit_test(test_other_frames_without_the_port),
		cmocka_unit_test(test_port_of_other_make),
		cmocka_unit_test(test_what_cannot_be_sent_is_not_held),
		cmocka_unit_test(test_later_frame_wins),
		cmocka_unit_test(test_acknowledged_before_a_forged_one),
		cmocka_unit_test(test_forged_one_is_executed),
		cmocka_unit_test(test_lost_response_before_a_forged_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
