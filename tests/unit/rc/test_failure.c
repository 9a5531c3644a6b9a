/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors of a requester: work that it refuses, NAKs and responses that break it, and the completion of its
 * work then. */
#include "harness.h"

#define OK ONE_STATUS_SUCCESS
#define INVALID 0x61
#define ACCESS 0x62
#define OPERATION 0x63

/* ---- the requester ---- */

static void
test_local_keys(void **state)
{
	static const uint8_t ops[] = {ONE_OP_SEND, ONE_OP_WRITE, ONE_OP_READ, ONE_OP_FETCH_ADD};

	for (int o = 0; o < 4; o++) {
		struct pair *p = pair_new(NULL);
		struct work bad = make_work(&p->a, ops[o], 2, 0, 8, 0);

		bad.sge[0].lkey = p->a.remote.key;
		post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 8, 0);
		post(p, &p->a, &bad);
		post_simple(p, &p->a, ONE_OP_WRITE, 3, 0, 8, 0);
		flush_output(p, &p->a);
		/* The bad request and the ones after it are not sent. Earlier requests complete first. */
		assert_int_equal(p->a.num_out, 1);
		assert_int_equal(p->a.num_done, 0);
		pump(p);
		expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, 8);
		expect_done(&p->a, 1, 2, ONE_CQE_SEND, ONE_STATUS_LOCAL_PROTECTION, 0);
		expect_done(&p->a, 2, 3, ONE_CQE_SEND, ONE_STATUS_FLUSHED, 0);
		assert_int_equal(p->a.error, RC_ERROR_REQUESTER);
		assert_int_equal(p->a.frames, 1);
		pair_free(p);
	}
}

/* An atomic has exactly one sge, for its result. */
static void
test_atomic_pieces(void **state)
{
	static const uint8_t ops[] = {ONE_OP_FETCH_ADD, ONE_OP_CMP_SWAP};

	for (int o = 0; o < 2; o++) {
		for (uint8_t num = 0; num <= 2; num += 2) {
			struct pair *p = pair_new(NULL);
			struct work bad = make_work(&p->a, ops[o], 1, 0, 8, 0);

			bad.num_sge = num;
			post(p, &p->a, &bad);
			pump(p);
			expect_done(&p->a, 0, 1, ONE_CQE_SEND, ONE_STATUS_LOCAL_QP, 0);
			assert_int_equal(p->a.frames, 0);
			pair_free(p);
		}
	}
}

static void
test_local_rights(void **state)
{
	struct pair *p = pair_new(NULL);

	p->a.local.access = ONE_ACCESS_LOCAL_READ;
	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 8, 0);
	post_simple(p, &p->a, ONE_OP_READ, 2, 0, 8, 0);
	pump(p);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, 8);
	expect_done(&p->a, 1, 2, ONE_CQE_SEND, ONE_STATUS_LOCAL_PROTECTION, 0);
	pair_free(p);

	p = pair_new(NULL);
	p->a.local.access = ONE_ACCESS_LOCAL_WRITE;
	post_simple(p, &p->a, ONE_OP_READ, 1, 0, 8, 0);
	post_simple(p, &p->a, ONE_OP_WRITE, 2, 0, 8, 0);
	pump(p);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, 8);
	expect_done(&p->a, 1, 2, ONE_CQE_SEND, ONE_STATUS_LOCAL_PROTECTION, 0);
	pair_free(p);
}

/* With a bad sge at the end of a list not even the first packet is sent. */
static void
test_bad_last_piece(void **state)
{
	struct pair *p = pair_new(NULL);
	struct work work = make_work(&p->a, ONE_OP_WRITE, 1, 0, 5000, 0);

	work.num_sge = 2;
	work.sge[0].len = 4000;
	work.sge[1] = work.sge[0];
	work.sge[1].len = 1000;
	work.sge[1].lkey = 0;
	post(p, &p->a, &work);
	pump(p);
	assert_int_equal(p->a.frames, 0);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, ONE_STATUS_LOCAL_PROTECTION, 0);
	pair_free(p);
}

static void
test_malformed_work(void **state)
{
	for (int how = 0; how < 10; how++) {
		struct pair *p = pair_new(NULL);
		struct work work = make_work(&p->a, ONE_OP_WRITE, 1, 0, 100, 0);
		uint8_t status = ONE_STATUS_LOCAL_QP;

		switch (how) {
		case 0:
			work.op = 0;
			break;
		case 1:
			work.op = ONE_OP_RECV;
			break;
		case 2:
			work.op = 255;
			break;
		case 3:
			work.num_sge = 9;
			break;
		case 4:
			work.flags = ONE_WQE_INLINE;
			work.length = 25;
			break;
		case 5:
			work.flags = ONE_WQE_INLINE;
			work.op = ONE_OP_READ;
			work.length = 8;
			break;
		case 6:
			work.length = ONE_MESSAGE_MAX + 1;
			status = ONE_STATUS_LOCAL_LENGTH;
			break;
		case 7:
			work.status = status = ONE_STATUS_LOCAL_PROTECTION;
			break;
		case 8:
			work.length = 101; /* more than the sges have */
			break;
		default:
			work.op = ONE_OP_READ;
			work.length = 101;
			status = ONE_STATUS_LOCAL_LENGTH;
			break;
		}
		post(p, &p->a, &work);
		pump(p);
		assert_int_equal(p->a.num_done, 1);
		assert_int_equal(p->a.done[0].status, status);
		assert_int_equal(p->a.frames, 0);
		assert_int_equal(rc_state(p->a.qp), RC_ERROR);
		assert_int_equal(rc_post(p->a.qp, &work, p->now), -ENOTCONN);
		pair_free(p);
	}
}

static void
test_reads_without_depth(void **state)
{
	struct pair *p = pair_new(NULL);

	p->a.attr.rd_atomic_out = 0;
	rc_connect(p->a.qp, &p->a.attr, RC_RTS);
	post_simple(p, &p->a, ONE_OP_READ, 1, 0, 8, 0);
	pump(p);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, ONE_STATUS_LOCAL_QP, 0);
	pair_free(p);
}

static void
test_nak_statuses(void **state)
{
	static const uint8_t syndromes[] = {INVALID, ACCESS, OPERATION};
	static const uint8_t statuses[] = {ONE_STATUS_REMOTE_INVALID, ONE_STATUS_REMOTE_ACCESS,
					   ONE_STATUS_REMOTE_OPERATION};

	for (int i = 0; i < 3; i++) {
		struct pair *p = pair_new(NULL);
		struct wire_build b = {.opcode = WIRE_ACKNOWLEDGE, .psn = 0x1001, .syndrome = syndromes[i]};

		for (uint32_t n = 0; n < 3; n++)
			post_simple(p, &p->a, ONE_OP_WRITE, n, 0, 8, 0);
		flush_output(p, &p->a);
		inject(p, &p->b, &b, NULL);
		expect_done(&p->a, 0, 0, ONE_CQE_SEND, OK, 8);
		expect_done(&p->a, 1, 1, ONE_CQE_SEND, statuses[i], 0);
		expect_done(&p->a, 2, 2, ONE_CQE_SEND, ONE_STATUS_FLUSHED, 0);
		assert_int_equal(p->a.failures, 1);
		pair_free(p);
	}
}

/* The refused request completes with the reason. A READ before it, whose response was lost, is flushed. */
static void
test_nak_behind_a_lost_read(void **state)
{
	struct pair *p = pair_new(NULL);
	struct wire_build b = {.opcode = WIRE_ACKNOWLEDGE, .psn = 0x1001, .syndrome = ACCESS};

	post_simple(p, &p->a, ONE_OP_READ, 0, 0, 8, 0);
	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 8, 0);
	flush_output(p, &p->a);
	inject(p, &p->b, &b, NULL);
	expect_done(&p->a, 0, 0, ONE_CQE_SEND, ONE_STATUS_FLUSHED, 0);
	expect_done(&p->a, 1, 1, ONE_CQE_SEND, ONE_STATUS_REMOTE_ACCESS, 0);
	pair_free(p);
}

static void
test_bad_responses(void **state)
{
	static const struct {
		uint8_t opcode;
		uint32_t len;
	} wrong[] = {
		{WIRE_READ_RESPONSE_FIRST, 1020},  {WIRE_READ_RESPONSE_FIRST, 0},
		{WIRE_READ_RESPONSE_MIDDLE, 2048}, {WIRE_READ_RESPONSE_ONLY, 1024},
		{WIRE_READ_RESPONSE_LAST, 1024},
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct pair *p = pair_new(NULL);
		struct wire_build b = {.opcode = wrong[i].opcode, .psn = 0x1000, .payload_len = wrong[i].len};

		post_simple(p, &p->a, ONE_OP_READ, 1, 0, 3000, 0);
		flush_output(p, &p->a);
		inject(p, &p->b, &b, NULL);
		expect_done(&p->a, 0, 1, ONE_CQE_SEND, ONE_STATUS_BAD_RESPONSE, 0);
		assert_int_equal(p->a.area[0], 0);
		pair_free(p);
	}
}

/* An ACK or a response of a PSN not yet sent is dropped, even of the very next one. */
static void
test_response_to_nothing(void **state)
{
	static const uint8_t opcodes[] = {WIRE_ACKNOWLEDGE, WIRE_READ_RESPONSE_ONLY};

	for (size_t i = 0; i < sizeof(opcodes); i++) {
		struct pair *p = pair_new(NULL);
		struct wire_build b = {.opcode = opcodes[i], .psn = 0x1001, .syndrome = 0x1f};

		post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 8, 0);
		flush_output(p, &p->a);
		inject(p, &p->b, &b, NULL);
		assert_int_equal(p->a.num_done, 0);
		assert_int_equal(p->a.env.rc.counter[RC_COUNT_DROP_RESPONSE], 1);
		pump(p);
		expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, 8);
		pair_free(p);
	}
}

/* ---- flush and reset ---- */

static void
test_flush(void **state)
{
	struct pair *p = pair_new(NULL);

	post_recv(&p->b, 9, 0, 5000);
	for (uint32_t i = 0; i < 3; i++)
		post_simple(p, &p->a, ONE_OP_SEND, i, 0, 3000, 0);
	post_simple(p, &p->b, ONE_OP_WRITE, 4, 0, 8, 0);
	flush_output(p, &p->a);
	deliver_one(p, &p->a);
	rc_flush(p->a.qp);
	for (uint32_t i = 0; i < 3; i++)
		expect_done(&p->a, i, i, ONE_CQE_SEND, ONE_STATUS_FLUSHED, 0);
	rc_flush(p->b.qp); /* with a receive in progress */
	assert_int_equal(p->b.num_done, 2);
	expect_done(&p->b, 0, 4, ONE_CQE_SEND, ONE_STATUS_FLUSHED, 0);
	expect_done(&p->b, 1, 9, ONE_CQE_RECV, ONE_STATUS_FLUSHED, 0);
	assert_int_equal(p->a.failures + p->b.failures, 0);
	assert_int_equal(rc_state(p->a.qp), RC_ERROR);
	rc_flush(p->a.qp);
	rc_timeout(p->a.qp, p->now + 1000 * MS);
	rc_bind_done(p->a.qp, true, p->now);
	assert_int_equal(p->a.num_done, 3);
	pair_free(p);
}

/* After an error and a reset a queue pair works again with new PSNs, and drops frames of the former
 * connection. */
static void
test_reset_and_reuse(void **state)
{
	struct pair *p = pair_new(NULL);

	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 5000, 0);
	flush_output(p, &p->a);
	rc_flush(p->a.qp);
	rc_reset(p->a.qp);
	rc_reset(p->b.qp);
	p->a.attr.send_psn = p->b.attr.recv_psn = 0x700000;
	p->b.attr.send_psn = p->a.attr.recv_psn = 0x900000;
	rc_connect(p->a.qp, &p->a.attr, RC_RTS);
	rc_connect(p->b.qp, &p->b.attr, RC_RTS);
	fill(p->a.area, 5000, 3);
	while (deliver_one(p, &p->a)) /* frames of the former connection */
		;
	assert_int_equal(p->b.area[0], 0);
	post_simple(p, &p->a, ONE_OP_WRITE, 2, 0, 5000, 0);
	pump(p);
	expect_done(&p->a, 1, 2, ONE_CQE_SEND, OK, 5000);
	assert_memory_equal(p->b.area, p->a.area, 5000);
	pair_free(p);
}

/* Memory of bounced access whose application has no copy thread any more. */
static void
test_gone_memory(void **state)
{
	struct pair *p;

	for (int o = 0; o < 5; o++) {
		static const uint8_t ops[] = {ONE_OP_WRITE, ONE_OP_READ, ONE_OP_FETCH_ADD, ONE_OP_SEND};
		bool far = o < 4;
		uint8_t op = far ? ops[o] : ONE_OP_WRITE;

		p = pair_new(NULL);
		if (far) {
			p->b.remote.base = p->b.local.base = NULL;
		} else {
			p->a.local.base = NULL;
		}
		post_recv(&p->b, 1, 0, 100);
		post_simple(p, &p->a, op, 1, 0, 8, 0);
		pump(p);
		expect_done(&p->a, 0, 1, ONE_CQE_SEND,
			    far ? ONE_STATUS_REMOTE_OPERATION : ONE_STATUS_LOCAL_PROTECTION, 0);
		if (op == ONE_OP_SEND)
			expect_done(&p->b, 0, 1, ONE_CQE_RECV, ONE_STATUS_LOCAL_PROTECTION, 0);
		pair_free(p);
	}
	p = pair_new(NULL); /* the destination of a READ */
	p->a.local.base = NULL;
	post_simple(p, &p->a, ONE_OP_READ, 1, 0, 8, 0);
	pump(p);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, ONE_STATUS_LOCAL_PROTECTION, 0);
	pair_free(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_local_keys),     cmocka_unit_test(test_atomic_pieces),
		cmocka_unit_test(test_local_rights),   cmocka_unit_test(test_bad_last_piece),
		cmocka_unit_test(test_malformed_work), cmocka_unit_test(test_reads_without_depth),
		cmocka_unit_test(test_nak_statuses),   cmocka_unit_test(test_nak_behind_a_lost_read),
		cmocka_unit_test(test_bad_responses),  cmocka_unit_test(test_response_to_nothing),
		cmocka_unit_test(test_flush),          cmocka_unit_test(test_reset_and_reuse),
		cmocka_unit_test(test_gone_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
