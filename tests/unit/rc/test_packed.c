/* SPDX-License-Identifier: BSD-3-Clause */
/* Several requests or responses packed into one frame: what is packed, what is executed, and malformed
 * frames. */
#include "dataplane/rc/rc_internal.h"
#include "harness.h"

#define OK ONE_STATUS_SUCCESS
#define PSN 0x1000u /* the first PSN that B expects */
#define MTU 256u

static const struct pair_options packed = {.packed = true, .rd_atomic = 8};

static uint64_t
packed_sent(const struct end *end)
{
	return end->env.rc.counter[RC_COUNT_PACKED_SENT];
}

static void
post_writes(struct pair *p, uint32_t count, uint32_t len)
{
	for (uint32_t i = 0; i < count; i++)
		post_simple(p, &p->a, ONE_OP_WRITE, i, i * len, len, 4096 + i * len);
}

static void
expect_writes(struct pair *p, uint32_t count, uint32_t len)
{
	assert_int_equal(p->a.num_done, count);
	for (uint32_t i = 0; i < count; i++)
		expect_done(&p->a, i, i, ONE_CQE_SEND, OK, len);
	assert_memory_equal(p->b.area + 4096, p->a.area, count * len);
}

static struct pair *
filled(const struct pair_options *options)
{
	struct pair *p = pair_new(options);

	fill(p->a.area, AREA, 1);
	fill(p->b.area, AREA, 2);
	return p;
}

static void
test_writes_leave_together(void **state)
{
	struct pair *p = filled(&packed);

	post_writes(p, 7, 61);
	flush_output(p, &p->a);
	assert_int_equal(p->a.num_out, 1);
	assert_int_equal(p->a.out[0].packet.opcode, WIRE_PACKED_REQUESTS);
	assert_int_equal(p->a.out[0].packet.count, 7);
	assert_int_equal(p->a.out[0].packet.psn, PSN);
	pump(p);
	expect_writes(p, 7, 61);
	assert_int_equal(packed_sent(&p->a), 1);
	assert_int_equal(p->b.env.rc.counter[RC_COUNT_ACK_SENT], 1);
	pair_free(p);
}

/* With nothing to pack, the frames of a peer that packs equal those of one that does not. */
static void
test_alone_leaves_as_ever(void **state)
{
	struct pair *p[2] = {filled(&packed), filled(&(struct pair_options){.selective = true})};

	for (uint32_t i = 0; i < 3; i++) {
		for (uint32_t k = 0; k < 2; k++) {
			post_simple(p[k], &p[k]->a, ONE_OP_WRITE, i, 0, 100, 0);
			flush_output(p[k], &p[k]->a);
			assert_int_equal(p[k]->a.num_out, 1);
		}
		assert_int_equal(p[0]->a.out[0].len, p[1]->a.out[0].len);
		assert_memory_equal(p[0]->a.out[0].bytes, p[1]->a.out[0].bytes, p[0]->a.out[0].len);
		pump(p[0]);
		pump(p[1]);
	}
	assert_int_equal(packed_sent(&p[0]->a), 0);
	pair_free(p[0]);
	pair_free(p[1]);
}

/* Without the peer's announcement each request has a frame of its own, and packed frames of the peer are
 * dropped. */
static void
test_only_where_both_announced_it(void **state)
{
	const uint8_t body[4] = {WIRE_SEND_ONLY};
	const struct wire_build b = {
		.opcode = WIRE_PACKED_REQUESTS, .psn = PSN, .count = 1, .payload_len = sizeof(body)};
	struct pair *p = filled(&(struct pair_options){.selective = true});

	post_writes(p, 5, 64);
	flush_output(p, &p->a);
	assert_int_equal(p->a.num_out, 5);
	pump(p);
	expect_writes(p, 5, 64);
	post_recv(&p->b, 1, 0, 8);
	inject(p, &p->a, &b, body);
	assert_int_equal(p->b.env.rc.counter[RC_COUNT_DROP_OPCODE], 1);
	assert_int_equal(p->b.num_done, 0);
	pair_free(p);
}

/* Requests of every kind that takes one PSN share a frame. Their responses return in one, too. */
static void
test_all_kinds(void **state)
{
	struct pair *p = filled(&packed);
	struct work work;

	for (uint32_t i = 0; i < 4; i++)
		post_recv(&p->b, 100 + i, 1024 * i, 64);
	store64(p->b.area + 8192, 5);
	post_simple(p, &p->a, ONE_OP_SEND, 0, 0, 33, 0);
	post_simple(p, &p->a, ONE_OP_WRITE, 1, 64, 64, 16384);
	post_simple(p, &p->a, ONE_OP_WRITE_IMM, 2, 128, 1, 17000);
	work = make_work(&p->a, ONE_OP_FETCH_ADD, 3, 2048, 8, 8192);
	work.add_or_swap = 2;
	post(p, &p->a, &work);
	post_simple(p, &p->a, ONE_OP_READ, 4, 2056, 40, 32768);
	work = make_work(&p->a, ONE_OP_CMP_SWAP, 5, 2100, 8, 8192);
	work.result.addr = p->a.local.va + 2104;
	work.compare = 7;
	work.add_or_swap = 11;
	post(p, &p->a, &work);
	post_simple(p, &p->a, ONE_OP_SEND_IMM, 6, 256, 0, 0);
	post_simple(p, &p->a, ONE_OP_SEND_INV, 7, 300, 64, 0);
	flush_output(p, &p->a);
	assert_int_equal(p->a.num_out, 1);
	assert_int_equal(p->a.out[0].packet.count, 8);
	pump(p);
	assert_int_equal(p->a.num_done, 8);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(p->a.done[i].status, OK);
	assert_int_equal(p->b.num_done, 4);
	assert_memory_equal(p->b.area, p->a.area, 33);
	assert_memory_equal(p->b.area + 16384, p->a.area + 64, 64);
	assert_memory_equal(p->a.area + 2056, p->b.area + 32768, 40);
	assert_int_equal(load64(p->a.area + 2048), 5);
	assert_int_equal(load64(p->a.area + 2104), 7);
	assert_int_equal(load64(p->b.area + 8192), 11);
	assert_int_equal(p->b.invalidations, 1);
	assert_int_equal(packed_sent(&p->b), 1);
	pair_free(p);
}

/* A packed frame is at most as long as the first frame of a long WRITE, and has at most 64 requests. */
static void
test_bounds(void **state)
{
	struct pair *p = filled(&(struct pair_options){.packed = true, .mtu = 4096});
	uint32_t longest = 14 + 20 + 8 + 12 + 16 + 4096 + 4;

	post_writes(p, 200, 8); /* opens the congestion window */
	pump(p);
	post_writes(p, 200, 8);
	for (uint32_t i = 0; i < 100; i++)
		post_simple(p, &p->a, ONE_OP_WRITE, i, 0, 700 + i, 65536 + i * 1000);
	flush_output(p, &p->a);
	assert_int_equal(p->a.out[0].packet.count, WIRE_PACKED_MAX);
	for (uint32_t i = 0; i < p->a.num_out; i++)
		assert_true(p->a.out[i].len <= longest && p->a.out[i].packet.count <= WIRE_PACKED_MAX);
	pump(p);
	assert_int_equal(p->a.num_done, 500);
	assert_memory_equal(p->b.area + 4096, p->a.area, 1600);
	pair_free(p);
}

/* A fenced request, a long message, a list of sges and a bad request end a packed frame, and are sent
 * unpacked. */
static void
test_what_is_not_packed(void **state)
{
	struct pair *p = filled(&(struct pair_options){.packed = true, .mtu = MTU});
	struct work work = make_work(&p->a, ONE_OP_WRITE, 2, 0, 16, 512);

	post_writes(p, 2, 16);
	work.flags = ONE_WQE_FENCE;
	post(p, &p->a, &work);
	post_simple(p, &p->a, ONE_OP_WRITE, 3, 0, MTU + 1, 1024);
	work = make_work(&p->a, ONE_OP_WRITE, 4, 0, 16, 2048);
	work.num_sge = 2;
	work.sge[0].len = work.sge[1].len = 8;
	work.sge[1].addr = work.sge[0].addr + 8;
	work.sge[1].lkey = work.sge[0].lkey;
	post(p, &p->a, &work);
	flush_output(p, &p->a);
	assert_int_equal(p->a.num_out, 5);
	assert_int_equal(packed_sent(&p->a), 1);
	assert_int_equal(p->a.out[0].packet.count, 2);
	pump(p);
	assert_int_equal(p->a.num_done, 5);
	work = make_work(&p->a, ONE_OP_WRITE, 7, 0, 16, 2048);
	work.sge[0].lkey++;
	post_writes(p, 2, 16);
	post(p, &p->a, &work);
	pump(p);
	expect_done(&p->a, 5, 0, ONE_CQE_SEND, OK, 16);
	expect_done(&p->a, 6, 1, ONE_CQE_SEND, OK, 16);
	expect_done(&p->a, 7, 7, ONE_CQE_SEND, ONE_STATUS_LOCAL_PROTECTION, 0);
	pair_free(p);
}

/* Lost packed requests are retransmitted unpacked. */
static void
test_lost(void **state)
{
	struct pair *p = filled(&packed);

	post_writes(p, 5, 64);
	flush_output(p, &p->a);
	drop_one(&p->a);
	while (p->a.num_done < 5) {
		assert_true(run_timer(p));
		pump(p);
	}
	expect_writes(p, 5, 64);
	assert_int_equal(packed_sent(&p->a), 1);
	assert_true(p->a.env.rc.counter[RC_COUNT_RETRANSMIT] >= 5);
	pair_free(p);
}

/* A packed frame behind a hole is held under each of its PSNs. Only the hole is retransmitted. */
static void
test_early_frame_is_held(void **state)
{
	struct pair *p = filled(&packed);

	post_writes(p, 1, 64);
	flush_output(p, &p->a);
	drop_one(&p->a);
	for (uint32_t i = 1; i < 6; i++)
		post_simple(p, &p->a, ONE_OP_WRITE, i, i * 64, 64, 4096 + i * 64);
	flush_output(p, &p->a);
	assert_int_equal(p->a.num_out, 1);
	assert_int_equal(p->a.out[0].packet.count, 5);
	assert_true(deliver_one(p, &p->a));
	assert_int_equal(p->b.env.holds, 5);
	assert_int_not_equal(memcmp(p->b.area + 4096 + 64, p->a.area + 64, 320), 0);
	pump(p);
	expect_writes(p, 6, 64);
	assert_int_equal(p->a.env.rc.counter[RC_COUNT_RETRANSMIT], 1);
	assert_int_equal(p->b.env.holds, 0);
	pair_free(p);
}

/* A duplicate of a packed frame is one of each request in it, atomics included. */
static void
test_duplicate_frame(void **state)
{
	struct pair *p = filled(&packed);
	const struct frame *frame = &p->a.out[0];
	struct work work = make_work(&p->a, ONE_OP_FETCH_ADD, 1, 2048, 8, 8192);
	struct wire_packet again;
	uint8_t *copy;

	store64(p->b.area + 8192, 5);
	work.add_or_swap = 2;
	post_writes(p, 1, 64);
	post(p, &p->a, &work);
	flush_output(p, &p->a);
	assert_int_equal(p->a.num_out, 1);
	copy = malloc(frame->len);
	memcpy(copy, frame->bytes, frame->len);
	assert_int_equal(wire_parse(copy, frame->len, &again), WIRE_OK);
	assert_true(deliver_one(p, &p->a));
	rc_input(p->b.qp, &again, p->now);
	assert_int_equal(p->b.env.rc.counter[RC_COUNT_DUPLICATE], 2);
	assert_int_equal(load64(p->b.area + 8192), 7);
	pump(p);
	assert_int_equal(p->a.num_done, 2);
	assert_int_equal(load64(p->a.area + 2048), 5);
	free(copy);
	pair_free(p);
}

/* The second of four SENDs finds no receive: no later one overtakes it. */
static void
test_receiver_not_ready_in_the_midst(void **state)
{
	struct pair *p = filled(&packed);

	post_recv(&p->b, 100, 0, 64);
	for (uint32_t i = 0; i < 4; i++)
		post_simple(p, &p->a, ONE_OP_SEND, i, i * 64, 64, 0);
	flush_output(p, &p->a);
	assert_int_equal(p->a.num_out, 1);
	pump(p);
	assert_int_equal(p->a.num_done, 1);
	assert_int_equal(p->b.num_done, 1);
	assert_int_equal(p->b.env.rc.counter[RC_COUNT_RNR_SENT], 1);
	for (uint32_t i = 1; i < 4; i++)
		post_recv(&p->b, 100 + i, i * 64, 64);
	while (p->a.num_done < 4) {
		assert_true(run_timer(p));
		pump(p);
	}
	for (uint32_t i = 0; i < 4; i++)
		expect_done(&p->b, i, 100 + i, ONE_CQE_RECV, OK, 64);
	assert_memory_equal(p->b.area, p->a.area, 256);
	assert_int_equal(p->b.env.holds, 0);
	pair_free(p);
}

/* The second of four WRITEs has an invalid key: no later one is executed. */
static void
test_refused_in_the_midst(void **state)
{
	struct pair *p = filled(&packed);
	struct work work;

	post_writes(p, 1, 64);
	work = make_work(&p->a, ONE_OP_WRITE, 1, 64, 64, 4096 + 64);
	work.rkey ^= 0xff;
	post(p, &p->a, &work);
	for (uint32_t i = 2; i < 4; i++)
		post_simple(p, &p->a, ONE_OP_WRITE, i, i * 64, 64, 4096 + i * 64);
	pump(p);
	expect_done(&p->a, 0, 0, ONE_CQE_SEND, OK, 64);
	expect_done(&p->a, 1, 1, ONE_CQE_SEND, ONE_STATUS_REMOTE_ACCESS, 0);
	expect_done(&p->a, 2, 2, ONE_CQE_SEND, ONE_STATUS_FLUSHED, 0);
	expect_done(&p->a, 3, 3, ONE_CQE_SEND, ONE_STATUS_FLUSHED, 0);
	assert_memory_equal(p->b.area + 4096, p->a.area, 64);
	assert_int_not_equal(memcmp(p->b.area + 4096 + 128, p->a.area + 128, 128), 0);
	pair_free(p);
}

/* Lost packed responses are requested again. Early ones are held. */
static void
test_responses_lost(void **state)
{
	struct pair *p = filled(&packed);

	for (uint32_t i = 0; i < 4; i++)
		post_simple(p, &p->a, ONE_OP_READ, i, i * 64, 64, 4096 + i * 64);
	flush_output(p, &p->a);
	assert_true(deliver_one(p, &p->a));
	flush_output(p, &p->b);
	assert_int_equal(p->b.num_out, 1);
	assert_int_equal(p->b.out[0].packet.opcode, WIRE_PACKED_RESPONSES);
	drop_one(&p->b);
	for (uint32_t i = 4; i < 8; i++)
		post_simple(p, &p->a, ONE_OP_READ, i, i * 64, 64, 4096 + i * 64);
	flush_output(p, &p->a);
	assert_true(deliver_one(p, &p->a));
	flush_output(p, &p->b);
	assert_int_equal(p->b.num_out, 1);
	assert_true(deliver_one(p, &p->b));
	assert_int_equal(p->a.env.holds, 4);
	while (p->a.num_done < 8) {
		pump(p);
		assert_true(p->a.num_done == 8 || run_timer(p));
	}
	assert_memory_equal(p->a.area, p->b.area + 4096, 512);
	assert_int_equal(p->a.env.holds, 0);
	pair_free(p);
}

/* ---- malformed frames ---- */

#define SEND(len) WIRE_SEND_ONLY, 0, 0, len

static const struct lie {
	const char *what;
	uint16_t count;
	uint8_t len;       /* of the body, in bytes */
	uint8_t delivered; /* SENDs executed before the error */
	uint8_t body[24];
} lies[] = {
	{"a count of none", 0, 4, 0, {SEND(0)}},
	{"a count beyond the most", 65, 4, 0, {SEND(0)}},
	{"a count of all ones", 0xffff, 4, 0, {SEND(0)}},
	{"fewer than it says", 3, 8, 2, {SEND(0), SEND(0)}},
	{"more than it says", 1, 8, 1, {SEND(0), SEND(0)}},
	{"nothing at all", 1, 0, 0, {0}},
	{"a payload that ends behind the frame", 1, 4, 0, {SEND(1)}},
	{"a payload that ends behind the frame, later", 2, 12, 1, {SEND(4), 1, 2, 3, 4, SEND(1)}},
	{"the longest payload", 1, 4, 0, {WIRE_SEND_ONLY, 0, 0xff, 0xff}},
	{"zeros behind a payload that end behind the frame", 2, 12, 1, {SEND(0), SEND(5), 1, 2, 3, 4}},
	{"half of an extension header", 1, 12, 0, {WIRE_WRITE_ONLY, 0, 0, 0}},
	{"no extension header", 2, 8, 1, {SEND(0), WIRE_SEND_ONLY_IMM, 0, 0, 0}},
	{"bits beside SE", 1, 4, 0, {WIRE_SEND_ONLY, 0x40, 0, 0}},
	{"the lowest bit beside SE", 2, 8, 1, {SEND(0), WIRE_SEND_ONLY, 0x81, 0, 0}},
	{"a packed frame inside", 1, 8, 0, {WIRE_PACKED_REQUESTS, 0, 0, 0, 0, 1, 0, 0}},
	{"packed responses inside", 1, 8, 0, {WIRE_PACKED_RESPONSES, 0, 0, 0, 0, 1, 0, 0}},
	{"a response", 1, 8, 0, {WIRE_READ_RESPONSE_ONLY, 0, 0, 0}},
	{"an acknowledgement", 2, 12, 1, {SEND(0), WIRE_ACKNOWLEDGE, 0, 0, 0}},
	{"a CNP", 1, 20, 0, {WIRE_CNP, 0, 0, 0}},
	{"a datagram", 1, 12, 0, {WIRE_UD_SEND_ONLY, 0, 0, 0}},
	{"the first part of a message", 1, 8, 0, {WIRE_SEND_FIRST, 0, 0, 4}},
	{"the last part of a message", 1, 8, 0, {WIRE_WRITE_LAST, 0, 0, 4}},
};

static struct pair *
with_receives(void)
{
	struct pair *p = pair_new(&packed);

	for (uint32_t i = 0; i < 8; i++)
		post_recv(&p->b, i, 64 * i, 64);
	return p;
}

/* Input a packed frame in a buffer of its exact length, `gap` PSNs after the expected one. */
static void
inject_body(struct pair *p, uint8_t opcode, uint32_t gap, uint16_t count, const uint8_t *body, uint32_t len)
{
	const struct wire_build b = {
		.opcode = opcode, .psn = PSN + gap, .ack_request = true, .count = count, .payload_len = len};

	inject(p, &p->a, &b, body);
}

static void
test_lies(void **state)
{
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct pair *p = with_receives();

		inject_body(p, WIRE_PACKED_REQUESTS, 0, lies[i].count, lies[i].body, lies[i].len);
		if (p->b.env.rc.counter[RC_COUNT_DROP_PACKED] != 1 || p->b.num_done != lies[i].delivered)
			fail_msg("%s: %u delivered", lies[i].what, p->b.num_done);
		assert_int_equal(p->b.failures, 0);
		assert_null(p->b.env.rc.frame);
		pair_free(p);
	}
}

/* Malformed frames behind a hole: the requests held from them are executed when the hole is filled, and
 * nothing else. */
static void
test_lies_behind_a_hole(void **state)
{
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		struct pair *p = with_receives();

		inject_body(p, WIRE_PACKED_REQUESTS, 1, lies[i].count, lies[i].body, lies[i].len);
		assert_int_equal(p->b.env.rc.counter[RC_COUNT_DROP_PACKED], 1);
		assert_int_equal(p->b.num_done, 0);
		assert_int_equal(p->b.env.holds, lies[i].delivered);
		inject(p, &p->a, &(struct wire_build){.opcode = WIRE_SEND_ONLY, .psn = PSN}, NULL);
		assert_int_equal(p->b.num_done, 1 + lies[i].delivered);
		assert_int_equal(p->b.env.holds, 0);
		pair_free(p);
	}
}

/* Every opcode, inside a packed frame of requests and inside one of responses. */
static void
test_opcodes_inside(void **state)
{
	static const uint8_t requests[] = {WIRE_SEND_ONLY,    WIRE_SEND_ONLY_IMM,  WIRE_SEND_ONLY_INV,
					   WIRE_WRITE_ONLY,   WIRE_WRITE_ONLY_IMM, WIRE_READ_REQUEST,
					   WIRE_COMPARE_SWAP, WIRE_FETCH_ADD};
	static const uint8_t responses[] = {WIRE_READ_RESPONSE_ONLY, WIRE_ATOMIC_ACKNOWLEDGE};

	struct pair *lying = with_receives();
	uint32_t dropped = 0;

	for (uint32_t opcode = 0; opcode < 256; opcode++) {
		int extensions = wire_extension_len((uint8_t)opcode);
		uint32_t len = 4 + (extensions > 0 ? (uint32_t)extensions : 0);
		uint8_t body[64] = {(uint8_t)opcode};

		for (uint32_t kind = 0; kind < 2; kind++) {
			const uint8_t *set = kind == 0 ? requests : responses;
			bool may = memchr(set, (int)opcode, kind == 0 ? sizeof(requests) : sizeof(responses));
			struct pair *p =
				may ? pair_new(&packed) : lying; /* if permitted, its state changes */

			inject_body(p, WIRE_PACKED_REQUESTS + (uint8_t)kind, 0, 1, body, len);
			dropped += !may;
			assert_int_equal(p->b.env.rc.counter[RC_COUNT_DROP_PACKED], may ? 0 : dropped);
			if (may)
				pair_free(p);
		}
	}
	assert_int_equal(dropped, 512 - sizeof(requests) - sizeof(responses));
	assert_int_equal(lying->b.qp->rsp.epsn, PSN);
	pair_free(lying);
}

/* Packed requests pass the checks of others: a READ with a payload, a wrong length, an address outside any
 * key. */
static void
test_checks_inside(void **state)
{
	uint8_t body[64] = {WIRE_READ_REQUEST, 0, 0, 4};
	struct pair *p = with_receives();

	inject_body(p, WIRE_PACKED_REQUESTS, 0, 1, body, 24);
	flush_output(p, &p->b);
	expect_reply(&p->b, 0x61, PSN);
	assert_int_equal(p->b.failures, 1);
	pair_free(p);
	p = with_receives();
	body[0] = WIRE_WRITE_ONLY; /* with a DMA length of 0 */
	inject_body(p, WIRE_PACKED_REQUESTS, 0, 1, body, 24);
	flush_output(p, &p->b);
	expect_reply(&p->b, 0x61, PSN);
	pair_free(p);
	p = with_receives();
	body[19] = 4;
	inject_body(p, WIRE_PACKED_REQUESTS, 0, 1, body, 24);
	flush_output(p, &p->b);
	expect_reply(&p->b, 0x62, PSN);
	pair_free(p);
}

/* Packed responses without a request are dropped. */
static void
test_responses_for_nothing(void **state)
{
	const uint8_t body[8] = {WIRE_READ_RESPONSE_ONLY, 0, 0, 0, 0x1f};
	struct pair *p = with_receives();

	inject_body(p, WIRE_PACKED_RESPONSES, 0, 1, body, 8);
	assert_int_equal(p->b.env.rc.counter[RC_COUNT_DROP_RESPONSE], 1);
	assert_int_equal(p->b.failures, 0);
	pair_free(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_writes_leave_together),
		cmocka_unit_test(test_alone_leaves_as_ever),
		cmocka_unit_test(test_only_where_both_announced_it),
		cmocka_unit_test(test_all_kinds),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_what_is_not_packed),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_early_frame_is_held),
		cmocka_unit_test(test_duplicate_frame),
		cmocka_unit_test(test_receiver_not_ready_in_the_midst),
		cmocka_unit_test(test_refused_in_the_midst),
		cmocka_unit_test(test_responses_lost),
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_lies_behind_a_hole),
		cmocka_unit_test(test_opcodes_inside),
		cmocka_unit_test(test_checks_inside),
		cmocka_unit_test(test_responses_for_nothing),
	};

	wire_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
