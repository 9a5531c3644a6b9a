/* SPDX-License-Identifier: BSD-3-Clause */
/* Packets that are lost, duplicated, late, or refused for lack of a receive. */
#include "harness.h"

#define OK ONE_STATUS_SUCCESS

/* Deliver all that `from` wants to send. */
static void
carry(struct pair *p, struct end *from)
{
	p->now += US;
	flush_output(p, from);
	while (deliver_in_burst(p, from))
		;
	end_burst(from->peer);
}

static void
test_one_nak_per_hole(void **state)
{
	struct pair *p = pair_new(NULL);

	fill(p->a.area, AREA, 1);
	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 6000, 0);
	flush_output(p, &p->a);
	assert_int_equal(p->a.num_out, 6);
	deliver_one(p, &p->a);
	drop_one(&p->a); /* the second packet */
	for (int i = 0; i < 4; i++) {
		deliver_one(p, &p->a);
		flush_output(p, &p->b);
	}
	assert_int_equal(p->b.num_out, 1);
	expect_reply(&p->b, 0x60, 0x1001);
	deliver_one(p, &p->b);
	/* Go-back-N: retransmission from the hole on, with the same PSNs. */
	flush_output(p, &p->a);
	assert_int_equal(p->a.num_out, 5);
	assert_int_equal(p->a.out[0].packet.psn, 0x1001);
	assert_int_equal(p->a.out[0].packet.opcode, WIRE_WRITE_MIDDLE);
	pump(p);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, 6000);
	assert_memory_equal(p->b.area, p->a.area, 6000);
	assert_int_equal(p->a.env.rc.counter[RC_COUNT_RETRANSMIT], 5);
	assert_int_equal(p->b.env.rc.counter[RC_COUNT_NAK_SEQ_SENT], 1);
	/* The next hole gets a NAK of its own. */
	post_simple(p, &p->a, ONE_OP_WRITE, 2, 0, 8, 0);
	post_simple(p, &p->a, ONE_OP_WRITE, 3, 0, 8, 0);
	flush_output(p, &p->a);
	drop_one(&p->a);
	deliver_one(p, &p->a);
	flush_output(p, &p->b);
	expect_reply(&p->b, 0x60, 0x1006);
	pump(p);
	assert_int_equal(p->a.num_done, 3);
	pair_free(p);
}

/* Duplicates of a NAK within a round trip after going back do not cause a further retransmission. */
static void
test_echoes_of_a_nak(void **state)
{
	struct pair *p = pair_new(NULL);
	struct wire_build nak = {.opcode = WIRE_ACKNOWLEDGE, .psn = 0x1000, .syndrome = 0x60};

	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 8, 0);
	post_simple(p, &p->a, ONE_OP_WRITE, 2, 0, 8, 0);
	flush_output(p, &p->a);
	inject(p, &p->b, &nak, NULL);
	flush_output(p, &p->a);
	assert_int_equal(p->a.frames, 4);
	inject(p, &p->b, &nak, NULL);
	inject(p, &p->b, &nak, NULL);
	flush_output(p, &p->a);
	assert_int_equal(p->a.frames, 4);
	p->now += 3 * MS; /* later the NAK reports another loss */
	inject(p, &p->b, &nak, NULL);
	flush_output(p, &p->a);
	assert_int_equal(p->a.frames, 6);
	pump(p);
	assert_int_equal(p->a.num_done, 2);
	pair_free(p);
}

static void
test_nak_acknowledges_what_is_before(void **state)
{
	struct pair *p = pair_new(NULL);
	struct wire_build nak = {.opcode = WIRE_ACKNOWLEDGE, .psn = 0x1002, .syndrome = 0x60};

	for (uint32_t i = 0; i < 3; i++)
		post_simple(p, &p->a, ONE_OP_WRITE, i, 0, 8, 0);
	flush_output(p, &p->a);
	inject(p, &p->b, &nak, NULL);
	assert_int_equal(p->a.num_done, 2);
	pair_free(p);
}

static void
test_duplicate_write(void **state)
{
	struct pair *p = pair_new(NULL);
	struct wire_build b = {.opcode = WIRE_WRITE_ONLY, .psn = 0x1000, .dma_length = 4, .payload_len = 4};

	b.remote_addr = p->b.remote.va;
	b.rkey = p->b.remote.key;
	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 4, 0);
	post_simple(p, &p->a, ONE_OP_WRITE, 2, 0, 4, 0);
	pump(p);
	inject(p, &p->a, &b, "dupe");
	assert_memory_equal(p->b.area, "\0\0\0\0", 4);
	/* A duplicate is acknowledged with the newest executed PSN, whether or not it requests an ACK. */
	flush_output(p, &p->b);
	expect_reply(&p->b, 0x1f, 0x1001);
	assert_int_equal(p->b.env.rc.counter[RC_COUNT_DUPLICATE], 1);
	pair_free(p);
}

static void
test_duplicate_send_takes_no_receive(void **state)
{
	struct pair *p = pair_new(NULL);
	struct wire_build b = {.opcode = WIRE_SEND_ONLY, .psn = 0x1000, .payload_len = 4};

	post_recv(&p->b, 1, 0, 100);
	post_recv(&p->b, 2, 100, 100);
	post_simple(p, &p->a, ONE_OP_SEND, 1, 0, 4, 0);
	pump(p);
	for (int i = 0; i < 3; i++)
		inject(p, &p->a, &b, NULL);
	assert_int_equal(p->b.num_done, 1);
	assert_int_equal(p->b.recv_head, 1);
	flush_output(p, &p->b);
	assert_int_equal(p->b.num_out, 1);
	pair_free(p);
}

/* An ACK for a repeated WRITE must not cover a later READ, whose response may be what was lost. */
static void
test_duplicate_before_read(void **state)
{
	struct pair *p = pair_new(NULL);
	struct wire_build b = {.opcode = WIRE_WRITE_ONLY, .psn = 0x1000};

	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 0, 0);
	post_simple(p, &p->a, ONE_OP_READ, 2, 0, 8, 0);
	post_simple(p, &p->a, ONE_OP_WRITE, 3, 0, 0, 0);
	pump(p);
	inject(p, &p->a, &b, NULL);
	flush_output(p, &p->b);
	expect_reply(&p->b, 0x1f, 0x1000);
	pair_free(p);
}

static void
test_duplicate_atomic(void **state)
{
	struct pair *p = pair_new(NULL);
	struct work work = make_work(&p->a, ONE_OP_FETCH_ADD, 1, 0, 8, 0);

	store64(p->b.area, 40);
	work.add_or_swap = 2;
	post(p, &p->a, &work);
	carry(p, &p->a);
	flush_output(p, &p->b);
	drop_one(&p->b); /* the response */
	assert_true(run_timer(p));
	pump(p);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, 8);
	assert_true(load64(p->a.area) == 40);
	assert_true(load64(p->b.area) == 42);
	assert_int_equal(p->b.env.rc.counter[RC_COUNT_DUPLICATE], 1);
	pair_free(p);
}

static void
test_read_restarts_where_it_stopped(void **state)
{
	struct pair *p = pair_new(NULL);

	fill(p->b.area, AREA, 2);
	post_simple(p, &p->a, ONE_OP_READ, 1, 0, 5000, 64);
	carry(p, &p->a);
	flush_output(p, &p->b);
	assert_int_equal(p->b.num_out, 5);
	deliver_one(p, &p->b);
	deliver_one(p, &p->b);
	drop_one(&p->b);
	deliver_one(p, &p->b); /* a gap implies a NAK */
	assert_int_equal(p->a.env.rc.counter[RC_COUNT_NAK_IMPLIED], 1);
	deliver_one(p, &p->b);
	flush_output(p, &p->a);
	assert_int_equal(p->a.num_out, 1);
	assert_int_equal(p->a.out[0].packet.psn, 0x1002);
	assert_int_equal(p->a.out[0].packet.dma_length, 5000 - 2048);
	assert_true(p->a.out[0].packet.remote_addr == p->b.remote.va + 64 + 2048);
	deliver_one(p, &p->a);
	flush_output(p, &p->b);
	assert_int_equal(p->b.num_out, 3);
	assert_int_equal(p->b.out[0].packet.opcode, WIRE_READ_RESPONSE_FIRST);
	assert_int_equal(p->b.out[2].packet.opcode, WIRE_READ_RESPONSE_LAST);
	pump(p);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, 5000);
	assert_memory_equal(p->a.area, p->b.area + 64, 5000);
	pair_free(p);
}

/* Some peers continue a restarted READ with MIDDLE or LAST. */
static void
test_read_restart_with_middle(void **state)
{
	struct pair *p = pair_new(NULL);
	struct wire_build b = {.opcode = WIRE_READ_RESPONSE_MIDDLE, .psn = 0x1001, .payload_len = 1024};

	post_simple(p, &p->a, ONE_OP_READ, 1, 0, 3000, 0);
	carry(p, &p->a);
	flush_output(p, &p->b);
	deliver_one(p, &p->b);
	drop_one(&p->b);
	drop_one(&p->b);
	assert_true(run_timer(p));
	flush_output(p, &p->a);
	drop_one(&p->a);
	inject(p, &p->b, &b, NULL);
	b.opcode = WIRE_READ_RESPONSE_LAST;
	b.psn++;
	b.payload_len = 3000 - 2048;
	inject(p, &p->b, &b, NULL);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, 3000);
	assert_int_equal(p->a.area[1024], 0x5a);
	assert_int_equal(p->a.area[2999], 0x5a);
	pair_free(p);
}

/* An ACK beyond a READ without its response makes the requester repeat the READ, and completes nothing after
 * it. */
static void
test_ack_beyond_read(void **state)
{
	struct pair *p = pair_new(NULL);

	fill(p->b.area, 100, 3);
	post_simple(p, &p->a, ONE_OP_WRITE, 0, 200, 8, 200);
	post_simple(p, &p->a, ONE_OP_READ, 1, 0, 100, 0);
	post_simple(p, &p->a, ONE_OP_WRITE, 2, 200, 8, 200);
	carry(p, &p->a);
	flush_output(p, &p->b);
	assert_int_equal(p->b.num_out, 2); /* the READ response acknowledges the first WRITE */
	drop_one(&p->b);
	deliver_one(p, &p->b);
	assert_int_equal(p->a.num_done, 1);
	pump(p);
	assert_int_equal(p->a.num_done, 3);
	assert_memory_equal(p->a.area, p->b.area, 100);
	assert_int_equal(p->a.env.rc.counter[RC_COUNT_TIMEOUT], 0);
	pair_free(p);
}

/* Responses follow the order of requests: the ACK of a request after a READ follows the READ's last
 * response. */
static void
test_ack_waits_for_responses(void **state)
{
	struct pair *p = pair_new(NULL);

	post_simple(p, &p->a, ONE_OP_READ, 1, 0, 5000, 0);
	post_simple(p, &p->a, ONE_OP_WRITE, 2, 0, 8, 0);
	carry(p, &p->a);
	assert_int_equal(rc_output(p->b.qp, 2, p->now), 2);
	assert_int_equal(rc_output(p->b.qp, 2, p->now), 2);
	for (uint32_t i = 0; i < 4; i++)
		assert_int_not_equal(p->b.out[i].packet.opcode, WIRE_ACKNOWLEDGE);
	flush_output(p, &p->b);
	expect_reply(&p->b, 0x1f, 0x1005);
	pump(p);
	assert_int_equal(p->a.env.rc.counter[RC_COUNT_RETRANSMIT], 0);
	pair_free(p);
}

static void
test_replay_is_checked(void **state)
{
	struct pair *p = pair_new(NULL);
	struct wire_build b = {.opcode = WIRE_READ_REQUEST, .psn = 0x1001, .dma_length = 976};

	post_simple(p, &p->a, ONE_OP_READ, 1, 0, 2000, 0);
	pump(p);
	b.remote_addr = p->b.remote.va + 1024;
	b.rkey = p->b.remote.key;
	inject(p, &p->a, &b, NULL);
	assert_true(rc_wants_output(p->b.qp));
	flush_output(p, &p->b);
	assert_int_equal(p->b.out[0].packet.opcode, WIRE_READ_RESPONSE_ONLY);
	assert_int_equal(p->b.out[0].packet.psn, 0x1001);
	b.dma_length = 977; /* beyond the original range */
	inject(p, &p->a, &b, NULL);
	b.dma_length = 976;
	b.remote_addr++;
	inject(p, &p->a, &b, NULL);
	b.remote_addr--;
	b.rkey = p->b.local.key;
	inject(p, &p->a, &b, NULL);
	b.rkey = p->b.remote.key;
	b.psn = 0x900; /* no READ with this PSN is known */
	inject(p, &p->a, &b, NULL);
	b.psn = 0x1001;
	b.opcode = WIRE_FETCH_ADD;
	inject(p, &p->a, &b, NULL);
	b.opcode = WIRE_READ_REQUEST;
	mem_remove(p->mem, p->b.remote.key);
	inject(p, &p->a, &b, NULL);
	assert_false(rc_wants_output(p->b.qp));
	assert_int_equal(p->b.env.rc.counter[RC_COUNT_DROP_REPLAY], 6);
	assert_int_equal(rc_state(p->b.qp), RC_RTS);
	pair_free(p);
}

static void
test_receiver_not_ready(void **state)
{
	struct pair *p = pair_new(NULL);
	uint64_t asked;

	fill(p->a.area, AREA, 4);
	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 8, 0);
	post_simple(p, &p->a, ONE_OP_SEND, 2, 0, 3000, 0);
	carry(p, &p->a);
	flush_output(p, &p->b);
	assert_int_equal(p->b.num_out, 1); /* and no NAK for the packets after it */
	expect_reply(&p->b, 0x20 | 12, 0x1001);
	asked = p->now;
	deliver_one(p, &p->b);
	assert_int_equal(p->a.num_done, 1); /* the RNR NAK acknowledges the WRITE before it */
	assert_false(rc_wants_output(p->a.qp));
	assert_true(rc_deadline(p->a.qp) == asked + 640 * US);
	/* A sequence NAK of the same PSN does not shorten the wait. */
	inject(p, &p->b, &(struct wire_build){.opcode = WIRE_ACKNOWLEDGE, .psn = 0x1001, .syndrome = 0x60},
	       NULL);
	post_simple(p, &p->a, ONE_OP_WRITE, 3, 0, 8, 0);
	rc_timeout(p->a.qp, asked + 639 * US);
	assert_int_equal(rc_output(p->a.qp, 9, asked + 639 * US), 0);
	post_recv(&p->b, 9, 100, 3000);
	assert_true(run_timer(p));
	pump(p);
	assert_int_equal(p->a.num_done, 3);
	expect_done(&p->b, 0, 9, ONE_CQE_RECV, OK, 3000);
	assert_memory_equal(p->b.area + 100, p->a.area, 3000);
	assert_int_equal(p->a.env.rc.counter[RC_COUNT_TIMEOUT], 0);
	pair_free(p);
}

/* Only the LAST packet of a WRITE with immediate waits for a receive. */
static void
test_rnr_of_write_imm(void **state)
{
	struct pair *p = pair_new(NULL);

	fill(p->a.area, AREA, 5);
	post_simple(p, &p->a, ONE_OP_WRITE_IMM, 1, 0, 3000, 0);
	pump(p);
	assert_memory_equal(p->b.area, p->a.area, 2048);
	assert_int_equal(p->b.area[2048], 0);
	post_recv(&p->b, 2, 0, 0);
	assert_true(run_timer(p));
	flush_output(p, &p->a);
	assert_int_equal(p->a.num_out, 1);
	assert_int_equal(p->a.out[0].packet.opcode, WIRE_WRITE_LAST_IMM);
	pump(p);
	expect_done(&p->b, 0, 2, ONE_CQE_RECV_WRITE_IMM, OK, 3000);
	assert_memory_equal(p->b.area, p->a.area, 3000);
	pair_free(p);
}

static void
test_rnr_exceeded(void **state)
{
	struct pair *p = pair_new(&(struct pair_options){.rnr_retry = 2});

	post_simple(p, &p->a, ONE_OP_SEND, 1, 0, 8, 0);
	post_simple(p, &p->a, ONE_OP_WRITE, 2, 0, 8, 0);
	pump(p);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(p->a.num_done, 0);
		assert_true(run_timer(p));
		pump(p);
	}
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, ONE_STATUS_RNR_EXCEEDED, 0);
	expect_done(&p->a, 1, 2, ONE_CQE_SEND, ONE_STATUS_FLUSHED, 0);
	assert_int_equal(p->a.error, RC_ERROR_REQUESTER);
	assert_int_equal(rc_state(p->b.qp), RC_RTS);
	pair_free(p);
}

static void
test_rnr_without_limit(void **state)
{
	struct pair *p = pair_new(NULL);

	post_simple(p, &p->a, ONE_OP_SEND, 1, 0, 8, 0);
	for (int i = 0; i < 1000; i++) {
		pump(p);
		assert_int_equal(p->a.num_done, 0);
		assert_true(run_timer(p));
	}
	post_recv(&p->b, 1, 0, 8);
	pump(p);
	assert_int_equal(p->a.num_done, 1);
	pair_free(p);
}

static bool
lose_all(struct pair *p, struct end *from, const struct frame *frame)
{
	return true;
}

/* Early retransmissions use up no retry: the peer has retry_count + 1 timeouts of the CM's attributes. */
static void
test_retry_exceeded(void **state)
{
	struct pair *p = pair_new(&(struct pair_options){.timeout = 12, .retry_count = 3});
	uint64_t start = p->now, timeout = 4096ull << 12, last = 0, gap = 0;

	p->lose = lose_all;
	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 8, 0);
	post_simple(p, &p->a, ONE_OP_READ, 2, 0, 8, 0);
	for (int i = 0; p->a.num_done == 0; i++) {
		assert_true(i < 50);
		pump(p);
		assert_true(run_timer(p));
		/* The interval doubles up to the timeout. */
		assert_true(last == 0 || p->now - last + 10 * US >= gap);
		assert_true(last == 0 || p->now - last <= timeout + 10 * US);
		gap = p->now - (last ? last : p->now);
		last = p->now;
	}
	assert_in_range(p->now - start, 4 * timeout, 5 * timeout - 1);
	assert_in_range(p->a.env.rc.counter[RC_COUNT_TIMEOUT], 5, 10);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, ONE_STATUS_RETRY_EXCEEDED, 0);
	expect_done(&p->a, 1, 2, ONE_CQE_SEND, ONE_STATUS_FLUSHED, 0);
	assert_int_equal(p->a.failures, 1);
	assert_int_equal(p->a.error, RC_ERROR_REQUESTER);
	assert_int_equal(rc_deadline(p->a.qp), RC_NEVER);
	assert_int_equal(rc_unacknowledged(p->a.qp), 8);
	pair_free(p);
}

static bool
lose_long(struct pair *p, struct end *from, const struct frame *frame)
{
	return frame->len > 1000;
}

/* A path carries short packets only: the payload of the packet that was lost is known. */
static void
test_unacknowledged(void **state)
{
	static const struct {
		uint8_t op;
		uint32_t length, lost;
	} posted[] = {{ONE_OP_WRITE, 3000, 1024}, {ONE_OP_READ, 3000, 1024}, {ONE_OP_WRITE, 1010, 1010}};

	for (size_t i = 0; i < sizeof(posted) / sizeof(posted[0]); i++) {
		struct pair *p = pair_new(&(struct pair_options){.timeout = 12, .retry_count = 1});

		p->lose = lose_long;
		post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 8, 0);
		post_simple(p, &p->a, posted[i].op, 2, 0, posted[i].length, 0);
		do
			pump(p);
		while (p->a.num_done < 2 && run_timer(p));
		expect_done(&p->a, 1, 2, ONE_CQE_SEND, ONE_STATUS_RETRY_EXCEEDED, 0);
		assert_int_equal(rc_unacknowledged(p->a.qp), posted[i].lost);
		pair_free(p);
	}
}

/* With a timeout of seconds the requester still retransmits twice a second, and accepts an answer up to the
 * end. */
static void
test_long_timeout(void **state)
{
	const uint64_t timeout = 4096ull << 19; /* 2.1 s */

	for (int answers = 0; answers < 2; answers++) {
		struct pair *p = pair_new(&(struct pair_options){.timeout = 19, .retry_count = 7});
		uint64_t start = p->now, last = p->now;

		p->lose = lose_all;
		post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 8, 0);
		while (p->a.num_done == 0) {
			if (answers && p->now - start > 8 * timeout - timeout / 2)
				p->lose = NULL;
			pump(p);
			if (p->a.num_done > 0)
				break;
			assert_true(run_timer(p));
			assert_true(p->now - last <= 540 * MS);
			last = p->now;
		}
		expect_done(&p->a, 0, 1, ONE_CQE_SEND,
			    answers ? ONE_STATUS_SUCCESS : ONE_STATUS_RETRY_EXCEEDED, answers ? 8 : 0);
		assert_in_range(p->now - start, answers ? 7 * timeout : 8 * timeout, 10 * timeout);
		assert_int_equal(p->a.failures, !answers);
		pair_free(p);
	}
}

static void
test_no_timeout_never_gives_up(void **state)
{
	struct pair *p = pair_new(NULL);

	p->a.attr.timeout = 0;
	rc_connect(p->a.qp, &p->a.attr, RC_RTS);
	p->lose = lose_all;
	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 8, 0);
	for (int i = 0; i < 100; i++) {
		pump(p);
		assert_true(run_timer(p));
	}
	assert_int_equal(p->a.num_done, 0);
	p->lose = NULL;
	pump(p);
	assert_int_equal(p->a.num_done, 1);
	pair_free(p);
}

/* Measured round trips set the timer, with a lower bound since peers share processors. */
static void
test_timer_follows_the_round_trip(void **state)
{
	struct pair *p = pair_new(NULL);

	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 8, 0);
	flush_output(p, &p->a);
	assert_true(rc_deadline(p->a.qp) == p->now + 10 * MS); /* no round trip has been measured yet */
	pump(p);
	for (int i = 0; i < 50; i++) {
		post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 8, 0);
		pump(p);
	}
	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 8, 0);
	flush_output(p, &p->a);
	assert_true(rc_deadline(p->a.qp) == p->now + 2 * MS);
	pump(p);
	for (int i = 0; i < 50; i++) { /* the path becomes slow */
		post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 8, 0);
		flush_output(p, &p->a);
		p->now += 9 * MS;
		pump(p);
	}
	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 8, 0);
	flush_output(p, &p->a);
	assert_in_range(rc_deadline(p->a.qp) - p->now, 8 * MS, 20 * MS);
	pair_free(p);
}

static void
test_stale_responses(void **state)
{
	struct pair *p = pair_new(NULL);
	struct wire_build b = {.opcode = WIRE_ACKNOWLEDGE, .syndrome = 0x1f};

	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 8, 0);
	flush_output(p, &p->a);
	b.psn = 0xfff; /* a duplicate of the last ACK */
	inject(p, &p->b, &b, NULL);
	b.psn = 0x1001; /* not sent yet */
	inject(p, &p->b, &b, NULL);
	b.syndrome = 0x61;
	inject(p, &p->b, &b, NULL);
	b.psn = 0x1000;
	b.syndrome = 0x40; /* reserved type */
	inject(p, &p->b, &b, NULL);
	b.syndrome = 0x9f;
	inject(p, &p->b, &b, NULL);
	b.syndrome = 0x65; /* reserved NAK code */
	inject(p, &p->b, &b, NULL);
	b.opcode = WIRE_READ_RESPONSE_ONLY; /* the request is no READ */
	inject(p, &p->b, &b, NULL);
	b.opcode = WIRE_ATOMIC_ACKNOWLEDGE;
	inject(p, &p->b, &b, NULL);
	assert_int_equal(p->a.num_done, 0);
	assert_int_equal(rc_state(p->a.qp), RC_RTS);
	assert_int_equal(p->a.env.rc.counter[RC_COUNT_DROP_RESPONSE], 5);
	pump(p);
	assert_int_equal(p->a.num_done, 1);
	pair_free(p);
}

/* Lose a third of all frames, by a pseudo-random sequence. */
static bool
lose_some(struct pair *p, struct end *from, const struct frame *frame)
{
	p->counter = p->counter * 1103515245u + 12345u;
	return (p->counter >> 16) % 3 == 0;
}

static void
test_heavy_loss(void **state)
{
	struct pair *p = pair_new(&(struct pair_options){.mtu = 256});

	fill(p->a.area, AREA, 6);
	p->lose = lose_some;
	for (uint32_t i = 0; i < 40; i++)
		post_simple(p, &p->a, i % 4 == 3 ? ONE_OP_READ : ONE_OP_WRITE, i, 4000 * i, 4000, 4000 * i);
	for (int i = 0; p->a.num_done < 40; i++) {
		assert_true(i < 2000);
		pump(p);
		if (p->a.num_done < 40)
			run_timer(p);
	}
	for (uint32_t i = 0; i < 40; i++) {
		expect_done(&p->a, i, i, ONE_CQE_SEND, OK, 4000);
		assert_memory_equal(p->a.area + 4000 * i, p->b.area + 4000 * i, 4000);
	}
	pair_free(p);
}

static void
test_congestion(void **state)
{
	struct pair *p = pair_new(&(struct pair_options){.mtu = 256});
	struct wire_packet marked;

	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 100000, 0);
	flush_output(p, &p->a);
	assert_int_equal(p->a.num_out, 256);
	for (int i = 0; i < 3; i++) {
		marked = p->a.out[0].packet;
		marked.congestion = true;
		rc_input(p->b.qp, &marked, p->now);
		drop_one(&p->a);
	}
	flush_output(p, &p->b);
	assert_int_equal(p->b.env.rc.counter[RC_COUNT_CNP_SENT], 1); /* at most one in 50 us */
	assert_int_equal(p->b.out[0].packet.opcode, WIRE_CNP);
	deliver_one(p, &p->b);
	assert_int_equal(p->a.env.rc.counter[RC_COUNT_CNP_RECEIVED], 1);
	/* A CNP is not answered with a CNP, even if marked. */
	inject(p, &p->b, &(struct wire_build){.opcode = WIRE_CNP}, NULL);
	assert_false(rc_wants_output(p->a.qp));
	while (p->a.num_out > 0)
		deliver_one(p, &p->a);
	pump(p);
	assert_int_equal(p->a.num_done, 1);
	pair_free(p);
}

/* Suppressed work is counted as retired before later work completes, and its node returns to the pool. */
static void
test_suppressed_are_counted_in_order(void **state)
{
	enum { WORKS = 400 };
	static const uint8_t ops[] = {ONE_OP_WRITE, ONE_OP_WRITE, ONE_OP_WRITE, ONE_OP_READ};
	bool reported[WORKS];

	for (uint32_t round = 0; round < 20; round++) {
		struct pair *p = pair_new(&(struct pair_options){.selective = round % 2 == 1});
		uint32_t seed = round, done = 0, silent = 0;

		p->counter = round;
		p->lose = round % 4 == 0 ? NULL : lose_some;
		for (uint32_t i = 0; i < WORKS; i++) {
			struct work work;

			seed = seed * 1103515245u + 12345u;
			work = make_work(&p->a, ops[(seed >> 8) % 4], i, i * 2048, (seed >> 16) % 1500,
					 i * 2048);
			work.flags = (seed >> 12) % 4 == 0 ? 0 : ONE_WQE_SUPPRESS;
			reported[i] = work.flags == 0 || work.op == ONE_OP_READ;
			post(p, &p->a, &work);
		}
		pump(p);
		while (!rc_idle(p->a.qp)) {
			assert_true(run_timer(p));
			pump(p);
		}
		for (uint32_t i = 0; i < WORKS; i++) {
			if (!reported[i]) {
				silent++;
				continue;
			}
			assert_int_equal(p->a.done[done].cookie, i);
			assert_int_equal(p->a.silent[done], silent);
			done++;
		}
		assert_int_equal(p->a.num_done, done);
		assert_int_equal(p->a.retired, silent);
		assert_int_equal(p->a.env.rc.counter[RC_COUNT_RETRY_EXCEEDED], 0);
		for (uint32_t i = 0; i < 1024; i++) /* the limit of outstanding work */
			post_simple(p, &p->a, ONE_OP_WRITE, i, 0, 8, 0);
		pair_free(p);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_nak_per_hole),
		cmocka_unit_test(test_echoes_of_a_nak),
		cmocka_unit_test(test_nak_acknowledges_what_is_before),
		cmocka_unit_test(test_duplicate_write),
		cmocka_unit_test(test_duplicate_send_takes_no_receive),
		cmocka_unit_test(test_duplicate_before_read),
		cmocka_unit_test(test_duplicate_atomic),
		cmocka_unit_test(test_read_restarts_where_it_stopped),
		cmocka_unit_test(test_read_restart_with_middle),
		cmocka_unit_test(test_ack_beyond_read),
		cmocka_unit_test(test_ack_waits_for_responses),
		cmocka_unit_test(test_replay_is_checked),
		cmocka_unit_test(test_receiver_not_ready),
		cmocka_unit_test(test_rnr_of_write_imm),
		cmocka_unit_test(test_rnr_exceeded),
		cmocka_unit_test(test_rnr_without_limit),
		cmocka_unit_test(test_retry_exceeded),
		cmocka_unit_test(test_unacknowledged),
		cmocka_unit_test(test_long_timeout),
		cmocka_unit_test(test_no_timeout_never_gives_up),
		cmocka_unit_test(test_timer_follows_the_round_trip),
		cmocka_unit_test(test_stale_responses),
		cmocka_unit_test(test_heavy_loss),
		cmocka_unit_test(test_congestion),
		cmocka_unit_test(test_suppressed_are_counted_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
