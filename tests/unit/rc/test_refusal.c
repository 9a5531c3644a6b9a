/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests that a responder refuses: the NAK of each, and the completion of work then. */
#include "harness.h"

#define OK ONE_STATUS_SUCCESS
#define INVALID 0x61
#define ACCESS 0x62
#define OPERATION 0x63

/* B receives a packet forged by the test, must refuse it with `syndrome`, and fails. */
static void
expect_refused(struct pair *p, const struct wire_build *build, uint8_t syndrome)
{
	struct wire_build b = *build;

	inject(p, &p->a, &b, NULL);
	assert_int_equal(rc_state(p->b.qp), RC_RTS); /* until the NAK has been sent */
	flush_output(p, &p->b);
	expect_reply(&p->b, syndrome, b.psn);
	assert_int_equal(rc_state(p->b.qp), RC_ERROR);
	assert_int_equal(p->b.failures, 1);
	assert_int_equal(p->b.error, RC_ERROR_RESPONDER);
}

static struct wire_build
request(struct pair *p, uint8_t opcode, uint32_t payload_len)
{
	struct wire_build b = {
		.opcode = opcode,
		.psn = 0x1000,
		.ack_request = true,
		.remote_addr = p->b.remote.va,
		.rkey = p->b.remote.key,
		.dma_length = payload_len,
		.payload_len = payload_len,
	};

	return b;
}

/* Each state accepts only the packets legal in it. */
static void
test_states(void **state)
{
	struct pair *p = pair_new(&(struct pair_options){.b_state = RC_RTR});
	struct wire_build ack = {.opcode = WIRE_ACKNOWLEDGE, .psn = 0x500, .syndrome = 0x1f};
	struct wire_build write = request(p, WIRE_WRITE_ONLY, 4);

	inject(p, &p->a, &ack, NULL);
	assert_int_equal(p->b.env.rc.counter[RC_COUNT_DROP_STATE], 1);
	rc_reset(p->b.qp);
	inject(p, &p->a, &write, NULL);
	assert_int_equal(p->b.env.rc.counter[RC_COUNT_DROP_STATE], 2);
	rc_connect(p->b.qp, &p->b.attr, RC_RTS);
	rc_flush(p->b.qp);
	inject(p, &p->a, &write, NULL);
	assert_int_equal(p->b.env.rc.counter[RC_COUNT_DROP_STATE], 3);
	assert_int_equal(p->b.area[0], 0);
	assert_false(rc_wants_output(p->b.qp));
	assert_int_equal(rc_output(p->b.qp, 8, p->now), 0);
	pair_free(p);
}

/* Packets from or to another address are dropped. */
static void
test_addresses(void **state)
{
	struct pair *p = pair_new(NULL);
	struct wire_build write = request(p, WIRE_WRITE_ONLY, 4);

	p->a.attr.path.src.gid[15] = 99;
	inject(p, &p->a, &write, NULL);
	p->a.attr.path.src.gid[15] = 1;
	p->a.attr.path.dst.gid[15] = 99;
	inject(p, &p->a, &write, NULL);
	assert_int_equal(p->b.env.rc.counter[RC_COUNT_DROP_ADDRESS], 2);
	assert_int_equal(p->b.area[0], 0);
	p->a.attr.path.dst.gid[15] = 2;
	inject(p, &p->a, &write, NULL);
	assert_int_equal(p->b.area[0], 0x5a);
	pair_free(p);
}

static void
test_other_transports(void **state)
{
	struct pair *p = pair_new(NULL);
	struct wire_build b = {.opcode = WIRE_UD_SEND_ONLY, .psn = 0x1000, .payload_len = 8};

	inject(p, &p->a, &b, NULL);
	assert_int_equal(p->b.env.rc.counter[RC_COUNT_DROP_OPCODE], 1);
	assert_int_equal(rc_state(p->b.qp), RC_RTS);
	assert_false(rc_wants_output(p->b.qp));
	pair_free(p);
}

/* A packet ahead of the expected one is dropped, even if invalid: it cannot break the connection. */
static void
test_only_the_expected_packet_can_break(void **state)
{
	struct pair *p = pair_new(NULL);
	struct wire_build b = request(p, WIRE_WRITE_ONLY, 4);

	b.rkey = 1;
	b.psn = 0x1001;
	inject(p, &p->a, &b, NULL);
	b.psn = 0x1000 + (1u << 23) - 1;
	inject(p, &p->a, &b, NULL);
	b.psn = 0xfff;
	inject(p, &p->a, &b, NULL);
	b.psn = 0x1000 + (1u << 23);
	inject(p, &p->a, &b, NULL);
	assert_int_equal(p->b.env.rc.counter[RC_COUNT_OUT_OF_SEQUENCE], 2);
	assert_int_equal(p->b.env.rc.counter[RC_COUNT_DUPLICATE], 2);
	assert_int_equal(rc_state(p->b.qp), RC_RTS);
	pair_free(p);
}

/* Opcodes that do not fit the message in progress are refused. */
static void
test_opcode_sequence(void **state)
{
	static const uint8_t orphans[] = {WIRE_SEND_MIDDLE,   WIRE_SEND_LAST,    WIRE_SEND_LAST_IMM,
					  WIRE_SEND_LAST_INV, WIRE_WRITE_MIDDLE, WIRE_WRITE_LAST,
					  WIRE_WRITE_LAST_IMM};
	static const uint8_t in_write[] = {WIRE_SEND_MIDDLE,  WIRE_SEND_LAST,   WIRE_SEND_ONLY,
					   WIRE_SEND_FIRST,   WIRE_WRITE_FIRST, WIRE_WRITE_ONLY,
					   WIRE_READ_REQUEST, WIRE_FETCH_ADD};
	struct wire_build b;
	struct pair *p;

	for (size_t i = 0; i < sizeof(orphans); i++) {
		p = pair_new(NULL);
		b = request(p, orphans[i], 1024);
		expect_refused(p, &b, INVALID);
		assert_int_equal(p->b.num_done, 0);
		pair_free(p);
	}
	for (size_t i = 0; i < sizeof(in_write); i++) {
		p = pair_new(NULL);
		b = request(p, WIRE_WRITE_FIRST, 1024);
		b.dma_length = 4000;
		inject(p, &p->a, &b, NULL);
		b.opcode = in_write[i];
		b.psn++;
		if (b.opcode == WIRE_READ_REQUEST || b.opcode == WIRE_FETCH_ADD)
			b.payload_len = 0;
		expect_refused(p, &b, INVALID);
		pair_free(p);
	}
	/* Inside a SEND the receive in progress fails, too. */
	p = pair_new(NULL);
	post_recv(&p->b, 7, 0, 5000);
	b = request(p, WIRE_SEND_FIRST, 1024);
	inject(p, &p->a, &b, NULL);
	b.opcode = WIRE_WRITE_MIDDLE;
	b.psn++;
	expect_refused(p, &b, INVALID);
	expect_done(&p->b, 0, 7, ONE_CQE_RECV, ONE_STATUS_LOCAL_QP, 0);
	pair_free(p);
}

/* Operations that the queue pair does not allow its peer are refused. */
static void
test_access_of_the_queue_pair(void **state)
{
	static const uint8_t opcodes[] = {WIRE_WRITE_ONLY, WIRE_READ_REQUEST, WIRE_FETCH_ADD,
					  WIRE_COMPARE_SWAP};
	static const uint32_t needed[] = {ONE_ACCESS_REMOTE_WRITE, ONE_ACCESS_REMOTE_READ,
					  ONE_ACCESS_REMOTE_ATOMIC, ONE_ACCESS_REMOTE_ATOMIC};

	for (int i = 0; i < 4; i++) {
		struct pair *p = pair_new(NULL);
		struct wire_build b = request(p, opcodes[i], 0);

		p->b.attr.access &= ~needed[i];
		rc_connect(p->b.qp, &p->b.attr, RC_RTS);
		expect_refused(p, &b, INVALID);
		pair_free(p);
	}
}

/* READs and atomics beyond the agreed depth are refused. */
static void
test_too_many_reads(void **state)
{
	struct pair *p = pair_new(&(struct pair_options){.rd_atomic = 3});
	struct wire_build b = request(p, WIRE_READ_REQUEST, 0);

	for (int i = 0; i < 4; i++) { /* some peers round 3 up to 4 */
		inject(p, &p->a, &b, NULL);
		b.psn++;
	}
	inject(p, &p->a, &b, NULL);
	flush_output(p, &p->b);
	assert_int_equal(p->b.num_out, 5); /* earlier requests are answered before the NAK */
	assert_int_equal(p->b.out[3].packet.opcode, WIRE_READ_RESPONSE_ONLY);
	expect_reply(&p->b, INVALID, 0x1004);
	assert_int_equal(rc_state(p->b.qp), RC_ERROR);
	pair_free(p);

	p = pair_new(NULL);
	b = request(p, WIRE_FETCH_ADD, 0);
	p->b.attr.rd_atomic_in = 0;
	rc_connect(p->b.qp, &p->b.attr, RC_RTS);
	expect_refused(p, &b, INVALID);
	pair_free(p);
}

/* A READ that is answered again does not count toward the depth. */
static void
test_replays_are_not_counted(void **state)
{
	struct pair *p = pair_new(&(struct pair_options){.rd_atomic = 1});
	struct wire_build b = request(p, WIRE_READ_REQUEST, 0);

	inject(p, &p->a, &b, NULL);
	flush_output(p, &p->b);
	inject(p, &p->a, &b, NULL);
	b.psn++;
	inject(p, &p->a, &b, NULL);
	flush_output(p, &p->b);
	assert_int_equal(rc_state(p->b.qp), RC_RTS);
	assert_int_equal(p->b.out[p->b.num_out - 1].packet.psn, 0x1001);
	pair_free(p);
}

/* Payload lengths that do not fit the opcode are refused. */
static void
test_payload_lengths(void **state)
{
	static const struct {
		uint8_t opcode;
		uint32_t len;
	} wrong[] = {
		{WIRE_SEND_FIRST, 1020},     {WIRE_SEND_FIRST, 1028},    {WIRE_SEND_FIRST, 0},
		{WIRE_SEND_ONLY, 1025},      {WIRE_SEND_ONLY_IMM, 2048}, {WIRE_SEND_ONLY_INV, 1028},
		{WIRE_WRITE_FIRST, 512},     {WIRE_WRITE_FIRST, 1025},   {WIRE_WRITE_ONLY, 1028},
		{WIRE_READ_REQUEST, 4},      {WIRE_FETCH_ADD, 8},        {WIRE_COMPARE_SWAP, 1},
		{WIRE_WRITE_ONLY_IMM, 1025},
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct pair *p = pair_new(NULL);
		struct wire_build b = request(p, wrong[i].opcode, wrong[i].len);

		if (b.opcode == WIRE_WRITE_FIRST)
			b.dma_length = 5000;
		post_recv(&p->b, 1, 0, 5000);
		expect_refused(p, &b, INVALID);
		pair_free(p);
	}
	/* The last packet of several is never empty, and a middle one is always full. */
	for (uint8_t last = 0; last < 2; last++) {
		struct pair *p = pair_new(NULL);
		struct wire_build b = request(p, WIRE_SEND_FIRST, 1024);

		post_recv(&p->b, 1, 0, 5000);
		inject(p, &p->a, &b, NULL);
		b.opcode = last ? WIRE_SEND_LAST : WIRE_SEND_MIDDLE;
		b.payload_len = last ? 0 : 1020;
		b.psn++;
		expect_refused(p, &b, INVALID);
		expect_done(&p->b, 0, 1, ONE_CQE_RECV, ONE_STATUS_LOCAL_QP, 0);
		pair_free(p);
	}
}

/* A message whose packets do not add up to the announced length is refused. */
static void
test_announced_lengths(void **state)
{
	static const struct {
		uint8_t first;
		uint32_t first_len, announced;
		uint8_t second; /* 0: no second packet */
		uint32_t second_len;
	} wrong[] = {
		{WIRE_WRITE_ONLY, 8, 9, 0, 0},
		{WIRE_WRITE_ONLY, 8, 7, 0, 0},
		{WIRE_WRITE_ONLY, 0, 1, 0, 0},
		{WIRE_WRITE_FIRST, 1024, 1024, 0, 0},
		{WIRE_WRITE_FIRST, 1024, 100, 0, 0},
		{WIRE_WRITE_FIRST, 1024, 0x80000001u, 0, 0},
		{WIRE_READ_REQUEST, 0, 0x80000001u, 0, 0},
		{WIRE_WRITE_FIRST, 1024, 2000, WIRE_WRITE_LAST, 975},
		{WIRE_WRITE_FIRST, 1024, 2000, WIRE_WRITE_LAST, 977},
		{WIRE_WRITE_FIRST, 1024, 2000, WIRE_WRITE_MIDDLE, 1024},
		{WIRE_WRITE_FIRST, 1024, 2048, WIRE_WRITE_MIDDLE, 1024},
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct pair *p = pair_new(NULL);
		struct wire_build b = request(p, wrong[i].first, wrong[i].first_len);

		b.dma_length = wrong[i].announced;
		if (wrong[i].second != 0) {
			inject(p, &p->a, &b, NULL);
			b.opcode = wrong[i].second;
			b.payload_len = wrong[i].second_len;
			b.psn++;
		}
		expect_refused(p, &b, INVALID);
		pair_free(p);
	}
}

/* Each operation is refused with each kind of wrong key. */
static void
test_remote_keys(void **state)
{
	static const uint8_t opcodes[] = {WIRE_WRITE_ONLY, WIRE_WRITE_FIRST, WIRE_READ_REQUEST,
					  WIRE_FETCH_ADD};

	for (int o = 0; o < 4; o++) {
		for (int how = 0; how < 8; how++) {
			struct pair *p = pair_new(NULL);
			struct wire_build b = request(p, opcodes[o], o == 0 ? 16 : o == 1 ? 1024 : 0);

			b.dma_length = o == 1 ? 2048 : 16;
			switch (how) {
			case 0:
				b.rkey ^= 1; /* all 32 bits are compared */
				break;
			case 1:
				b.rkey = p->b.local.key;
				break;
			case 2:
				p->b.remote.pz = 8;
				break;
			case 3:
				p->b.remote.qpn = 0x999;
				break;
			case 4:
				b.remote_addr -= 8;
				break;
			case 5:
				b.remote_addr += AREA;
				break;
			case 6:
				b.remote_addr = UINT64_MAX - 7;
				break;
			default:
				mem_remove(p->mem, b.rkey);
				break;
			}
			expect_refused(p, &b, ACCESS);
			assert_int_equal(p->b.area[0], 0);
			pair_free(p);
		}
	}
}

/* The range of the whole message is checked with the first packet. Nothing is placed. */
static void
test_range_of_the_whole_message(void **state)
{
	struct pair *p = pair_new(NULL);
	struct wire_build b = request(p, WIRE_WRITE_FIRST, 1024);

	b.remote_addr += AREA - 2000;
	b.dma_length = 2001;
	expect_refused(p, &b, ACCESS);
	assert_int_equal(p->b.area[AREA - 2000], 0);
	pair_free(p);
}

static void
test_key_of_this_queue_pair(void **state)
{
	struct pair *p = pair_new(NULL);

	p->b.remote.qpn = 0x222;
	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 8, 0);
	pump(p);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, 8);
	pair_free(p);
}

/* A key is removed in the middle of a message. */
static void
test_key_revoked_midway(void **state)
{
	struct pair *p = pair_new(NULL);

	fill(p->a.area, 5000, 1);
	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 5000, 0);
	flush_output(p, &p->a);
	deliver_one(p, &p->a);
	deliver_one(p, &p->a);
	mem_remove(p->mem, p->b.remote.key);
	pump(p);
	assert_memory_equal(p->b.area, p->a.area, 2048);
	assert_int_equal(p->b.area[2048], 0);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, ONE_STATUS_REMOTE_ACCESS, 0);
	assert_int_equal(p->b.error, RC_ERROR_RESPONDER);
	pair_free(p);

	/* For a READ a NAK replaces the response that cannot be given. */
	p = pair_new(NULL);
	post_simple(p, &p->a, ONE_OP_READ, 1, 0, 5000, 0);
	flush_output(p, &p->a);
	deliver_one(p, &p->a);
	rc_output(p->b.qp, 2, p->now);
	mem_remove(p->mem, p->b.remote.key);
	flush_output(p, &p->b);
	assert_int_equal(p->b.num_out, 3);
	expect_reply(&p->b, ACCESS, 0x1002);
	assert_int_equal(rc_state(p->b.qp), RC_ERROR);
	pump(p);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, ONE_STATUS_REMOTE_ACCESS, 0);
	pair_free(p);
}

/* Atomics must be aligned. The key is checked first. */
static void
test_atomic_alignment(void **state)
{
	struct pair *p = pair_new(NULL);
	struct wire_build b = request(p, WIRE_COMPARE_SWAP, 0);

	b.remote_addr += 4;
	expect_refused(p, &b, INVALID);
	pair_free(p);
}

/* A SEND longer than its receive is refused. */
static void
test_send_longer_than_receive(void **state)
{
	for (uint32_t len = 1500; len <= 4000; len += 2500) {
		struct pair *p = pair_new(NULL);

		post_recv(&p->b, 5, 0, len - 1);
		post_recv(&p->b, 6, 0, 100);
		post_simple(p, &p->a, ONE_OP_SEND, 1, 0, len, 0);
		post_simple(p, &p->a, ONE_OP_SEND, 2, 0, 8, 0);
		pump(p);
		expect_done(&p->b, 0, 5, ONE_CQE_RECV, ONE_STATUS_LOCAL_LENGTH, 0);
		assert_int_equal(p->b.num_done, 1); /* the second receive is still in its ring */
		expect_done(&p->a, 0, 1, ONE_CQE_SEND, ONE_STATUS_REMOTE_INVALID, 0);
		expect_done(&p->a, 1, 2, ONE_CQE_SEND, ONE_STATUS_FLUSHED, 0);
		assert_int_equal(p->b.env.rc.counter[RC_COUNT_NAK_INVALID_SENT], 1);
		pair_free(p);
	}
}

static void
test_receive_with_a_bad_key(void **state)
{
	struct pair *p = pair_new(NULL);

	post_recv(&p->b, 5, 0, 100)->sge[0].lkey = p->b.remote.key; /* no local rights */
	post_simple(p, &p->a, ONE_OP_SEND, 1, 0, 8, 0);
	pump(p);
	expect_done(&p->b, 0, 5, ONE_CQE_RECV, ONE_STATUS_LOCAL_PROTECTION, 0);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, ONE_STATUS_REMOTE_OPERATION, 0);
	pair_free(p);

	/* An sge that exceeds its region fails only if the message needs the excess. */
	for (uint32_t len = 50; len <= 51; len++) {
		p = pair_new(NULL);
		post_recv(&p->b, 5, AREA - 50, 100);
		post_simple(p, &p->a, ONE_OP_SEND, 1, 0, len, 0);
		pump(p);
		expect_done(&p->b, 0, 5, ONE_CQE_RECV,
			    len == 50 ? ONE_STATUS_SUCCESS : ONE_STATUS_LOCAL_PROTECTION, len == 50 ? 50 : 0);
		pair_free(p);
	}

	p = pair_new(NULL);
	post_recv(&p->b, 5, 0, 100)->status = ONE_STATUS_LOCAL_QP;
	post_simple(p, &p->a, ONE_OP_SEND, 1, 0, 8, 0);
	pump(p);
	expect_done(&p->b, 0, 5, ONE_CQE_RECV, ONE_STATUS_LOCAL_QP, 0);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, ONE_STATUS_REMOTE_OPERATION, 0);
	pair_free(p);
}

/* The lack of a receive is reported before errors of length and key, in the standard's order. */
static void
test_rnr_before_length_and_key(void **state)
{
	struct pair *p = pair_new(NULL);
	struct wire_build b = request(p, WIRE_WRITE_ONLY_IMM, 2000);

	b.rkey = 1;
	inject(p, &p->a, &b, NULL);
	flush_output(p, &p->b);
	expect_reply(&p->b, 0x20 | 12, 0x1000);
	assert_int_equal(rc_state(p->b.qp), RC_RTS);
	post_recv(&p->b, 1, 0, 0);
	b.payload_len = 20;
	b.dma_length = 20;
	expect_refused(p, &b, ACCESS);
	expect_done(&p->b, 0, 1, ONE_CQE_RECV, ONE_STATUS_FLUSHED, 0);
	pair_free(p);
}

/* A SEND with Invalidate is refused if its key cannot be invalidated. */
static void
test_invalidate_refused(void **state)
{
	struct pair *p = pair_new(NULL);

	p->b.refuse_invalidate = true;
	post_recv(&p->b, 1, 0, 100);
	post_simple(p, &p->a, ONE_OP_SEND_INV, 1, 0, 8, 0);
	pump(p);
	expect_done(&p->b, 0, 1, ONE_CQE_RECV, ONE_STATUS_LOCAL_PROTECTION, 0);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, ONE_STATUS_REMOTE_OPERATION, 0);
	pair_free(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_states),
		cmocka_unit_test(test_addresses),
		cmocka_unit_test(test_other_transports),
		cmocka_unit_test(test_only_the_expected_packet_can_break),
		cmocka_unit_test(test_opcode_sequence),
		cmocka_unit_test(test_access_of_the_queue_pair),
		cmocka_unit_test(test_too_many_reads),
		cmocka_unit_test(test_replays_are_not_counted),
		cmocka_unit_test(test_payload_lengths),
		cmocka_unit_test(test_announced_lengths),
		cmocka_unit_test(test_remote_keys),
		cmocka_unit_test(test_range_of_the_whole_message),
		cmocka_unit_test(test_key_of_this_queue_pair),
		cmocka_unit_test(test_key_revoked_midway),
		cmocka_unit_test(test_atomic_alignment),
		cmocka_unit_test(test_send_longer_than_receive),
		cmocka_unit_test(test_receive_with_a_bad_key),
		cmocka_unit_test(test_rnr_before_length_and_key),
		cmocka_unit_test(test_invalidate_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
