/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs of packets from the middle of a message, which are processed like the packet before them: all that
 * qualify are, and no packet that must not be. */
#include "harness.h"

#define OK ONE_STATUS_SUCCESS
#define MTU 1024u
#define BTH (WIRE_ETH_LEN + 20 + 8)

/* A has sent a message of `packets` packets to the start of B's area. */
static struct pair *
written(const struct pair_options *options, uint32_t packets)
{
	struct pair *p = pair_new(options);

	fill(p->a.area, packets * options->mtu, 1);
	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, packets * options->mtu, 0);
	flush_output(p, &p->a);
	assert_int_equal(p->a.num_out, packets);
	return p;
}

/* Deliver `frames` frames in one burst; returns how many were processed like the one before. */
static uint32_t
deliver(struct pair *p, struct end *from, uint32_t frames)
{
	uint32_t before = from->peer->env.alike;

	for (uint32_t i = 0; i < frames; i++)
		assert_true(deliver_in_burst(p, from));
	end_burst(from->peer);
	return from->peer->env.alike - before;
}

static void
expect_placed(const struct pair *p, uint32_t len)
{
	assert_memory_equal(p->b.area, p->a.area, len);
	for (uint32_t i = len; i < len + 2 * MTU; i++)
		assert_int_equal(p->b.area[i], 0);
}

static void
expect_written(struct pair *p, uint32_t len)
{
	pump(p);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, len);
	expect_placed(p, len);
	pair_free(p);
}

/* All middle packets but the first are in the run, whether payloads are moved at once or deferred. */
static void
test_write(void **state)
{
	static const uint16_t mtus[] = {256, 1024, 4096};

	for (size_t i = 0; i < sizeof(mtus) / sizeof(mtus[0]); i++) {
		struct pair *p = written(&(struct pair_options){.mtu = mtus[i]}, 12);

		assert_int_equal(deliver(p, &p->a, 12), 9);
		expect_written(p, 12u * mtus[i]);
	}
}

/* A run ends with its burst. */
static void
test_bursts(void **state)
{
	struct pair *p = written(&(struct pair_options){.mtu = MTU}, 12);

	assert_int_equal(deliver(p, &p->a, 4), 2);
	assert_int_equal(deliver(p, &p->a, 1), 0);
	assert_int_equal(deliver(p, &p->a, 5), 4);
	assert_int_equal(deliver(p, &p->a, 2), 0);
	expect_written(p, 12 * MTU);
}

static void
test_key_gone(void **state)
{
	struct pair *p = written(&(struct pair_options){.mtu = MTU}, 12);

	assert_int_equal(deliver(p, &p->a, 6), 4);
	mem_remove(p->mem, p->b.remote.key);
	assert_int_equal(deliver(p, &p->a, 1), 0);
	expect_placed(p, 6 * MTU);
	flush_output(p, &p->b);
	expect_reply(&p->b, 0x62, 0x1006);
	assert_int_equal(p->b.failures, 1);
	pair_free(p);
}

/* A packet of a run may request an acknowledgement: it is acknowledged. */
static void
test_acknowledged(void **state)
{
	struct pair *p = written(&(struct pair_options){.mtu = MTU}, 6);
	uint8_t *frame = p->a.out[3].bytes;

	frame[BTH + 8] |= 0x80;
	wire_seal(frame, p->a.out[3].len);
	assert_int_equal(deliver(p, &p->a, 4), 2);
	flush_output(p, &p->b);
	assert_int_equal(p->b.num_out, 1);
	expect_reply(&p->b, 0x1f, 0x1003);
	assert_int_equal(rc_deadline(p->b.qp), RC_NEVER);
	expect_written(p, 6 * MTU);
}

static void
test_hole(void **state)
{
	struct pair *p = written(&(struct pair_options){.mtu = MTU}, 12);

	for (int i = 0; i < 4; i++)
		deliver_in_burst(p, &p->a);
	drop_one(&p->a);
	assert_int_equal(deliver(p, &p->a, 5), 0);
	expect_placed(p, 4 * MTU);
	assert_int_equal(p->b.env.rc.counter[RC_COUNT_OUT_OF_SEQUENCE], 5);
	expect_written(p, 12 * MTU);
}

/* There are no runs while packets behind a hole are held, nor with the packet that fills it. */
static void
test_held(void **state)
{
	struct pair *p = written(&(struct pair_options){.mtu = MTU, .selective = true}, 12);

	deliver(p, &p->a, 4);
	drop_one(&p->a);
	assert_int_equal(deliver(p, &p->a, 5), 0);
	assert_int_equal(p->b.env.holds, 5);
	expect_placed(p, 4 * MTU);
	expect_written(p, 12 * MTU);
}

/* A duplicate in the middle of a run is not placed again. */
static void
test_duplicate(void **state)
{
	struct pair *p = written(&(struct pair_options){.mtu = MTU}, 12);
	struct frame *out = p->a.out;

	memmove(out + 5, out + 4, (p->a.num_out++ - 4) * sizeof(out[0]));
	out[4].bytes = malloc(out[3].len);
	memcpy(out[4].bytes, out[3].bytes, out[3].len);
	out[4].bytes[out[4].len - 10] ^= 1; /* different payload */
	wire_seal(out[4].bytes, out[4].len);
	assert_int_equal(deliver(p, &p->a, 8), 4);
	assert_int_equal(p->b.env.rc.counter[RC_COUNT_DUPLICATE], 1);
	expect_placed(p, 7 * MTU);
	expect_written(p, 12 * MTU);
}

/* A frame equals the one before, but has the PSN of the message's last packet: refused as too long. */
static void
test_too_long(void **state)
{
	struct pair *p = written(&(struct pair_options){.mtu = MTU}, 6);
	struct frame *last = &p->a.out[5];

	last->bytes[BTH] = WIRE_WRITE_MIDDLE;
	last->bytes[BTH + 8] = 0;
	wire_seal(last->bytes, last->len);
	assert_int_equal(deliver(p, &p->a, 6), 3);
	expect_placed(p, 5 * MTU);
	flush_output(p, &p->b);
	expect_reply(&p->b, 0x61, 0x1005);
	assert_int_equal(p->b.failures, 1);
	pair_free(p);
}

/* A packet with another opcode or length in the middle of a run is refused. */
static void
test_misfits(void **state)
{
	static const struct {
		uint8_t opcode;
		uint32_t len;
	} misfits[] = {{WIRE_WRITE_MIDDLE, MTU / 2}, {WIRE_WRITE_MIDDLE, 2 * MTU}, {WIRE_SEND_MIDDLE, MTU}};

	for (size_t i = 0; i < sizeof(misfits) / sizeof(misfits[0]); i++) {
		struct pair *p = written(&(struct pair_options){.mtu = MTU}, 8);
		struct wire_build b = {.opcode = misfits[i].opcode,
				       .qpn = p->a.attr.peer_qpn,
				       .psn = 0x1004,
				       .payload_len = misfits[i].len};
		struct frame *frame = &p->a.out[4];
		struct wire_template template;

		wire_template_init(&template, &p->a.attr.path);
		free(frame->bytes);
		frame->len = wire_frame_len(&template, b.opcode, b.payload_len);
		frame->bytes = calloc(1, frame->len);
		wire_build(&template, &b, frame->bytes);
		wire_seal(frame->bytes, frame->len);
		assert_int_equal(deliver(p, &p->a, 6), 2);
		expect_placed(p, 4 * MTU);
		flush_output(p, &p->b);
		expect_reply(&p->b, 0x61, 0x1004);
		pair_free(p);
	}
}

/* A frame with a bad ICRC is dropped, and the run continues with the next good frame. */
static void
test_bad_frame(void **state)
{
	struct pair *p = written(&(struct pair_options){.mtu = MTU}, 8);
	struct wire_packet packet;
	struct frame *bad;

	for (int i = 0; i < 3; i++)
		deliver_in_burst(p, &p->a);
	bad = &p->a.out[0];
	bad->bytes[bad->len - 10] ^= 1;
	assert_int_equal(test_env_parse(&p->b.env, bad->bytes, bad->len, &packet), WIRE_DROP_ICRC);
	bad->bytes[bad->len - 10] ^= 1;
	assert_int_equal(deliver(p, &p->a, 2), 2);
	expect_placed(p, 5 * MTU);
	expect_written(p, 8 * MTU);
}

/* Packets marked for congestion are not in a run, so that each mark is counted. */
static void
test_marked(void **state)
{
	struct pair *p = written(&(struct pair_options){.mtu = MTU}, 8);

	for (uint32_t i = 0; i < 8; i++) {
		uint8_t *ip = p->a.out[i].bytes + WIRE_ETH_LEN;

		/* The header's checksum decreases by what the field increases. */
		assert_int_equal(ip[1], 0);
		ip[1] = 3;
		assert_true(ip[11] >= 3);
		ip[11] -= 3;
	}
	assert_int_equal(deliver(p, &p->a, 8), 0);
	expect_written(p, 8 * MTU);
}

/* Runs of READ responses, across the ends of single requests. */
static void
test_read(void **state)
{
	static const uint16_t mtus[] = {256, 1024};

	for (size_t i = 0; i < sizeof(mtus) / sizeof(mtus[0]); i++) {
		struct pair *p = pair_new(&(struct pair_options){.mtu = mtus[i]});
		uint32_t len = 300u * mtus[i] + 7;

		fill(p->b.area, len, 1);
		post_simple(p, &p->a, ONE_OP_READ, 1, 0, len, 0);
		pump(p);
		expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, len);
		expect_placed(p, len);
		/* Requests of 128, 128 and 45 packets. Not in a run: the first and last packet of each, the
		 * first middle one, and, while the congestion window is small, the first of a burst. */
		assert_in_range(p->a.env.alike, 250, 126 - 1 + 126 - 1 + 43 - 1);
		assert_int_equal(p->a.env.rc.counter[RC_COUNT_BAD_RESPONSE], 0);
		pair_free(p);
	}
}

/* Several sges form no run: each has a key of its own. */
static void
test_read_list(void **state)
{
	struct pair *p = pair_new(&(struct pair_options){.mtu = MTU});
	struct work work = make_work(&p->a, ONE_OP_READ, 1, 0, 12 * MTU, 0);

	fill(p->b.area, 12 * MTU, 1);
	work.num_sge = 2;
	work.sge[1] = work.sge[0];
	work.sge[0].len = work.sge[1].len = 6 * MTU;
	work.sge[1].addr += 6 * MTU;
	post(p, &p->a, &work);
	pump(p);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, 12 * MTU);
	expect_placed(p, 12 * MTU);
	assert_int_equal(p->a.env.alike, 0);
	pair_free(p);
}

static void
test_read_key_gone(void **state)
{
	struct pair *p = pair_new(&(struct pair_options){.mtu = MTU});

	fill(p->b.area, 12 * MTU, 1);
	post_simple(p, &p->a, ONE_OP_READ, 1, 0, 12 * MTU, 0);
	flush_output(p, &p->a);
	deliver_one(p, &p->a);
	flush_output(p, &p->b);
	assert_int_equal(p->b.num_out, 12);
	assert_int_equal(deliver(p, &p->b, 6), 4);
	mem_remove(p->mem, p->a.local.key);
	assert_int_equal(deliver(p, &p->b, 1), 0);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, ONE_STATUS_LOCAL_PROTECTION, 0);
	assert_memory_equal(p->a.area, p->b.area, 6 * MTU);
	assert_int_equal(p->a.area[6 * MTU], 0);
	pair_free(p);
}

static void
test_read_hole(void **state)
{
	struct pair *p = pair_new(&(struct pair_options){.mtu = MTU});

	fill(p->b.area, 12 * MTU, 1);
	post_simple(p, &p->a, ONE_OP_READ, 1, 0, 12 * MTU, 0);
	flush_output(p, &p->a);
	deliver_one(p, &p->a);
	flush_output(p, &p->b);
	for (int i = 0; i < 4; i++)
		deliver_in_burst(p, &p->b);
	drop_one(&p->b);
	assert_int_equal(deliver(p, &p->b, 5), 0);
	assert_int_equal(p->a.env.alike, 2);
	assert_int_equal(p->a.area[4 * MTU] | p->a.area[5 * MTU] | p->a.area[5 * MTU + 1], 0);
	pump(p);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, 12 * MTU);
	expect_placed(p, 12 * MTU);
	pair_free(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_write),     cmocka_unit_test(test_bursts),
		cmocka_unit_test(test_key_gone),  cmocka_unit_test(test_acknowledged),
		cmocka_unit_test(test_hole),      cmocka_unit_test(test_held),
		cmocka_unit_test(test_duplicate), cmocka_unit_test(test_too_long),
		cmocka_unit_test(test_misfits),   cmocka_unit_test(test_bad_frame),
		cmocka_unit_test(test_marked),    cmocka_unit_test(test_read),
		cmocka_unit_test(test_read_list), cmocka_unit_test(test_read_key_gone),
		cmocka_unit_test(test_read_hole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
