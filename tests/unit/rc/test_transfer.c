/* SPDX-License-Identifier: BSD-3-Clause */
/* Every operation without errors: segmentation, opcodes, data, completions. */
#include "harness.h"

#define OK ONE_STATUS_SUCCESS

static void
test_write_sizes(void **state)
{
	static const uint16_t mtus[] = {256, 512, 1024, 2048, 4096};

	for (size_t m = 0; m < 5; m++) {
		uint32_t mtu = mtus[m];
		uint32_t sizes[] = {0, 1, 3, 4, 5, mtu - 1, mtu, mtu + 1, 2 * mtu, 2 * mtu + 3, 100000};

		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
			struct pair *p = pair_new(&(struct pair_options){.mtu = (uint16_t)mtu});
			uint32_t n = sizes[s] == 0 ? 1 : (sizes[s] + mtu - 1) / mtu;

			fill(p->a.area, AREA, 1);
			post_simple(p, &p->a, ONE_OP_WRITE, 5, 77, sizes[s], 131);
			flush_output(p, &p->a);
			for (uint32_t i = 0; i < p->a.num_out; i++) {
				const struct wire_packet *w = &p->a.out[i].packet;
				uint8_t opcode = n == 1       ? WIRE_WRITE_ONLY
						 : i == 0     ? WIRE_WRITE_FIRST
						 : i == n - 1 ? WIRE_WRITE_LAST
							      : WIRE_WRITE_MIDDLE;

				assert_int_equal(w->opcode, opcode);
				assert_int_equal(w->psn, 0x1000 + i);
				if (i == n - 1)
					assert_true(w->ack_request);
				if (i == 0)
					assert_int_equal(w->dma_length, sizes[s]);
			}
			pump(p);
			assert_int_equal(p->a.frames, n);
			assert_int_equal(p->a.num_done, 1);
			expect_done(&p->a, 0, 5, ONE_CQE_SEND, OK, sizes[s]);
			assert_int_equal(p->b.num_done, 0);
			assert_memory_equal(p->b.area + 131, p->a.area + 77, sizes[s]);
			assert_int_equal(p->b.area[130], 0);
			assert_int_equal(p->b.area[131 + sizes[s]], 0);
			assert_true(rc_idle(p->a.qp));
			assert_int_equal(rc_deadline(p->a.qp), RC_NEVER);
			pair_free(p);
		}
	}
}

static void
test_send_kinds(void **state)
{
	static const uint8_t ops[] = {ONE_OP_SEND, ONE_OP_SEND_IMM, ONE_OP_SEND_INV};
	static const uint32_t sizes[] = {0, 7, 1024, 1025, 5000};

	for (int o = 0; o < 3; o++) {
		for (int s = 0; s < 5; s++) {
			struct pair *p = pair_new(NULL);
			struct work work = make_work(&p->a, ops[o], 9, 64, sizes[s], 0);

			fill(p->a.area, AREA, 2);
			work.imm = 0xdeadbeef;
			work.flags = ONE_WQE_SOLICITED | ONE_WQE_UNSIGNALED;
			post_recv(&p->b, 42, 300, 6000)->flags = ONE_WQE_UNSIGNALED;
			post(p, &p->a, &work);
			pump(p);
			expect_done(&p->a, 0, 9, ONE_CQE_SEND, OK, sizes[s]);
			assert_int_equal(p->a.done[0].op, ops[o]);
			assert_int_equal(p->a.done[0].wqe_flags, work.flags);
			expect_done(&p->b, 0, 42, ONE_CQE_RECV, OK, sizes[s]);
			assert_int_equal(p->b.done[0].solicited, 1);
			assert_int_equal(p->b.done[0].wqe_flags, ONE_WQE_UNSIGNALED);
			assert_int_equal(p->b.done[0].cqe_flags, o == 0   ? 0
								 : o == 1 ? ONE_CQE_IMM
									  : ONE_CQE_INV);
			if (o > 0)
				assert_int_equal(p->b.done[0].imm, 0xdeadbeef);
			assert_int_equal(p->b.invalidations, o == 2 ? 1 : 0);
			assert_memory_equal(p->b.area + 300, p->a.area + 64, sizes[s]);
			pair_free(p);
		}
	}
}

static void
test_write_imm(void **state)
{
	static const uint32_t sizes[] = {0, 10, 3000};

	for (int s = 0; s < 3; s++) {
		struct pair *p = pair_new(NULL);
		struct work work = make_work(&p->a, ONE_OP_WRITE_IMM, 1, 0, sizes[s], 512);

		fill(p->a.area, AREA, 3);
		work.imm = 77;
		post_recv(&p->b, 2, 0, 0);
		post(p, &p->a, &work);
		pump(p);
		expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, sizes[s]);
		expect_done(&p->b, 0, 2, ONE_CQE_RECV_WRITE_IMM, OK, sizes[s]);
		assert_int_equal(p->b.done[0].imm, 77);
		assert_int_equal(p->b.done[0].cqe_flags, ONE_CQE_IMM);
		assert_memory_equal(p->b.area + 512, p->a.area, sizes[s]);
		pair_free(p);
	}
}

static void
test_zero_length_needs_no_key(void **state)
{
	struct pair *p = pair_new(NULL);
	struct work work = make_work(&p->a, ONE_OP_WRITE, 1, 0, 0, 0);

	work.rkey = 0;
	work.remote_addr = 0;
	work.num_sge = 0;
	post(p, &p->a, &work);
	work.op = ONE_OP_READ;
	work.cookie = 2;
	post(p, &p->a, &work);
	pump(p);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, 0);
	expect_done(&p->a, 1, 2, ONE_CQE_SEND, OK, 0);
	pair_free(p);
}

static void
test_read_sizes(void **state)
{
	static const uint32_t sizes[] = {0, 1, 1023, 1024, 1025, 4096, 131072, 131073, 500001};

	for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
		struct pair *p = pair_new(NULL);

		fill(p->b.area, AREA, 4);
		post_simple(p, &p->a, ONE_OP_READ, 3, 11, sizes[s], 2222);
		pump(p);
		expect_done(&p->a, 0, 3, ONE_CQE_SEND, OK, sizes[s]);
		assert_int_equal(p->a.done[0].op, ONE_OP_READ);
		assert_memory_equal(p->a.area + 11, p->b.area + 2222, sizes[s]);
		assert_int_equal(p->a.area[11 + sizes[s]], 0);
		pair_free(p);
	}
}

static void
test_read_response_opcodes(void **state)
{
	struct pair *p = pair_new(NULL);

	post_simple(p, &p->a, ONE_OP_READ, 3, 0, 3000, 0);
	flush_output(p, &p->a);
	assert_int_equal(p->a.num_out, 1);
	assert_int_equal(p->a.out[0].packet.opcode, WIRE_READ_REQUEST);
	assert_int_equal(p->a.out[0].packet.dma_length, 3000);
	deliver_one(p, &p->a);
	flush_output(p, &p->b);
	assert_int_equal(p->b.num_out, 3);
	assert_int_equal(p->b.out[0].packet.opcode, WIRE_READ_RESPONSE_FIRST);
	assert_int_equal(p->b.out[1].packet.opcode, WIRE_READ_RESPONSE_MIDDLE);
	assert_int_equal(p->b.out[2].packet.opcode, WIRE_READ_RESPONSE_LAST);
	assert_int_equal(p->b.out[2].packet.psn, 0x1002);
	assert_int_equal(p->b.out[2].packet.msn, 1);
	pump(p);
	/* The next request comes after the PSNs of the responses. */
	post_simple(p, &p->a, ONE_OP_WRITE, 3, 0, 8, 0);
	flush_output(p, &p->a);
	assert_int_equal(p->a.out[0].packet.psn, 0x1003);
	pair_free(p);
}

static void
test_atomics(void **state)
{
	struct pair *p = pair_new(NULL);
	struct work work = make_work(&p->a, ONE_OP_FETCH_ADD, 1, 0, 8, 64);

	store64(p->b.area + 64, UINT64_MAX - 1);
	work.add_or_swap = 5;
	post(p, &p->a, &work);
	pump(p);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, 8);
	assert_true(load64(p->a.area) == UINT64_MAX - 1);
	assert_true(load64(p->b.area + 64) == 3);

	work.op = ONE_OP_CMP_SWAP;
	work.compare = 4;
	work.add_or_swap = 100;
	post(p, &p->a, &work);
	pump(p);
	assert_true(load64(p->a.area) == 3);
	assert_true(load64(p->b.area + 64) == 3);
	work.compare = 3;
	work.cookie = 2;
	post(p, &p->a, &work);
	pump(p);
	expect_done(&p->a, 2, 2, ONE_CQE_SEND, OK, 8);
	assert_true(load64(p->a.area) == 3);
	assert_true(load64(p->b.area + 64) == 100);
	pair_free(p);
}

static void
test_inline(void **state)
{
	struct pair *p = pair_new(NULL);
	struct work work = make_work(&p->a, ONE_OP_WRITE, 1, 0, 24, 100);

	work.flags = ONE_WQE_INLINE;
	work.num_sge = 0;
	memcpy(work.inline_data, "abcdefghijklmnopqrstuvwx", 24);
	post(p, &p->a, &work);
	work.op = ONE_OP_SEND;
	work.length = 3;
	post_recv(&p->b, 1, 500, 3);
	post(p, &p->a, &work);
	pump(p);
	assert_int_equal(p->a.num_done, 2);
	assert_memory_equal(p->b.area + 100, "abcdefghijklmnopqrstuvwx", 24);
	assert_memory_equal(p->b.area + 500, "abc", 3);
	pair_free(p);
}

/* Sges of uneven lengths on both sides, some of them empty, compared with a flat copy. */
static void
test_scatter_gather(void **state)
{
	static const uint32_t lens[8] = {1, 0, 2000, 7, 1024, 333, 0, 4000};
	struct pair *p = pair_new(NULL);
	struct work work = make_work(&p->a, ONE_OP_SEND, 1, 0, 0, 0);
	uint8_t flat[8000];
	uint32_t total = 0;
	struct recv_work *recv = post_recv(&p->b, 2, 0, 0);

	fill(p->a.area, AREA, 5);
	work.num_sge = 8;
	for (uint32_t i = 0; i < 8; i++) {
		work.sge[i].addr = p->a.local.va + 5000 * i;
		work.sge[i].len = lens[i];
		work.sge[i].lkey = lens[i] ? p->a.local.key : 0;
		memcpy(flat + total, p->a.area + 5000 * i, lens[i]);
		total += lens[i];
	}
	work.length = total;
	recv->num_sge = 8;
	recv->length = 0;
	for (uint32_t i = 0; i < 8; i++) {
		recv->sge[i].addr = p->b.local.va + 10000 * i;
		recv->sge[i].len = lens[7 - i];
		recv->sge[i].lkey = lens[7 - i] ? p->b.local.key : 0;
		recv->length += lens[7 - i];
	}
	post(p, &p->a, &work);
	/* Then a READ back into several sges. */
	work.op = ONE_OP_READ;
	work.cookie = 3;
	post(p, &p->a, &work);
	pump(p);
	expect_done(&p->b, 0, 2, ONE_CQE_RECV, OK, total);
	total = 0;
	for (uint32_t i = 0; i < 8; i++) {
		assert_memory_equal(p->b.area + 10000 * i, flat + total, lens[7 - i]);
		total += lens[7 - i];
	}
	expect_done(&p->a, 1, 3, ONE_CQE_SEND, OK, total);
	total = 0;
	for (uint32_t i = 0; i < 8; i++) {
		assert_memory_equal(p->a.area + 5000 * i, p->b.area + total, lens[i]);
		total += lens[i];
	}
	pair_free(p);
}

static void
test_acks_are_coalesced(void **state)
{
	struct pair *p = pair_new(NULL);

	for (uint32_t i = 0; i < 10; i++)
		post_simple(p, &p->a, ONE_OP_WRITE, i, 0, 8, 8 * i);
	flush_output(p, &p->a);
	while (deliver_one(p, &p->a))
		;
	flush_output(p, &p->b);
	assert_int_equal(p->b.num_out, 1);
	expect_reply(&p->b, 0x1f, 0x1009);
	assert_int_equal(p->b.out[0].packet.msn, 10);
	deliver_one(p, &p->b);
	assert_int_equal(p->a.num_done, 10);
	for (uint32_t i = 0; i < 10; i++)
		expect_done(&p->a, i, i, ONE_CQE_SEND, OK, 8);
	pair_free(p);
}

/* ACKs are requested by the last packet, before a stall, and at intervals. */
static void
test_ack_request_bits(void **state)
{
	struct pair *p = pair_new(&(struct pair_options){.mtu = 256, .other_peer = true});
	uint32_t asked = 0;

	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 256 * 400, 0);
	flush_output(p, &p->a);
	/* Soft-RoCE itself allows at most this many. */
	assert_int_equal(p->a.num_out, 128);
	for (uint32_t i = 0; i < 128; i++)
		asked += p->a.out[i].packet.ack_request;
	assert_true(p->a.out[127].packet.ack_request);
	assert_in_range(asked, 2, 4);
	pump(p);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, 256 * 400);
	pair_free(p);
}

static void
test_window_is_bounded(void **state)
{
	struct pair *p = pair_new(&(struct pair_options){.mtu = 256});

	for (int i = 0; i < 20; i++) {
		post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, AREA, 0);
		pump(p);
	}
	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, AREA, 0);
	flush_output(p, &p->a);
	assert_in_range(p->a.num_out, 1000, 1024);
	pump(p);
	assert_int_equal(p->a.num_done, 21);
	assert_int_equal(p->a.env.rc.counter[RC_COUNT_RETRANSMIT], 0);
	pair_free(p);
}

static void
test_psn_wraps(void **state)
{
	struct pair *p = pair_new(&(struct pair_options){.psn = 0xfffffe});

	fill(p->a.area, AREA, 8);
	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 5000, 0);
	post_simple(p, &p->a, ONE_OP_READ, 2, 10000, 5000, 0);
	pump(p);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, 5000);
	expect_done(&p->a, 1, 2, ONE_CQE_SEND, OK, 5000);
	assert_memory_equal(p->a.area, p->a.area + 10000, 5000);
	pair_free(p);
}

static void
test_ipv6(void **state)
{
	struct pair *p = pair_new(NULL);

	for (int i = 0; i < 2; i++) {
		struct end *end = i ? &p->b : &p->a;

		memset(end->attr.path.src.gid, i ? 0x20 : 0x30, 16);
		memset(end->attr.path.dst.gid, i ? 0x30 : 0x20, 16);
		rc_connect(end->qp, &end->attr, RC_RTS);
	}
	fill(p->a.area, 5000, 1);
	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 5000, 0);
	pump(p);
	expect_done(&p->a, 0, 1, ONE_CQE_SEND, OK, 5000);
	assert_memory_equal(p->b.area, p->a.area, 5000);
	pair_free(p);
}

static void
test_bind_is_a_fence(void **state)
{
	struct pair *p = pair_new(NULL);
	struct work bind = make_work(&p->a, ONE_OP_BIND, 2, 0, 100, 0);

	bind.rkey = 0xabcd;
	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 8, 0);
	post(p, &p->a, &bind);
	post_simple(p, &p->a, ONE_OP_WRITE, 3, 0, 8, 0);
	flush_output(p, &p->a);
	assert_int_equal(p->a.num_out, 1);
	assert_int_equal(p->a.binds, 0);
	pump(p);
	assert_int_equal(p->a.num_done, 1);
	assert_int_equal(p->a.binds, 1);
	assert_int_equal(p->a.bound.rkey, 0xabcd);
	assert_int_equal(p->a.frames, 1);
	assert_false(rc_idle(p->a.qp));
	rc_bind_done(p->a.qp, true, p->now);
	rc_bind_done(p->a.qp, true, p->now); /* without effect */
	pump(p);
	assert_int_equal(p->a.num_done, 3);
	expect_done(&p->a, 1, 2, ONE_CQE_BIND, OK, 0);
	assert_int_equal(p->a.done[1].imm, 0xabcd);
	expect_done(&p->a, 2, 3, ONE_CQE_SEND, OK, 8);

	p->a.bind_at_once = true;
	p->a.bind_result = true;
	post(p, &p->a, &bind);
	post(p, &p->a, &bind);
	post_simple(p, &p->a, ONE_OP_WRITE, 4, 0, 8, 0);
	pump(p);
	assert_int_equal(p->a.num_done, 6);
	assert_int_equal(p->a.binds, 3);
	pair_free(p);
}

static void
test_bind_fails(void **state)
{
	struct pair *p = pair_new(NULL);
	struct work bind = make_work(&p->a, ONE_OP_BIND, 2, 0, 100, 0);

	post(p, &p->a, &bind);
	post_simple(p, &p->a, ONE_OP_WRITE, 3, 0, 8, 0);
	pump(p);
	rc_bind_done(p->a.qp, false, p->now);
	expect_done(&p->a, 0, 2, ONE_CQE_BIND, ONE_STATUS_BIND_FAILED, 0);
	expect_done(&p->a, 1, 3, ONE_CQE_SEND, ONE_STATUS_FLUSHED, 0);
	assert_int_equal(p->a.failures, 1);
	pair_free(p);
}

static void
test_fence_waits_for_reads(void **state)
{
	struct pair *p = pair_new(NULL);
	struct work fenced = make_work(&p->a, ONE_OP_WRITE, 3, 0, 8, 0);

	fenced.flags = ONE_WQE_FENCE;
	post_simple(p, &p->a, ONE_OP_READ, 1, 0, 5000, 0);
	post_simple(p, &p->a, ONE_OP_WRITE, 2, 0, 8, 0);
	post(p, &p->a, &fenced);
	flush_output(p, &p->a);
	assert_int_equal(p->a.num_out, 2); /* the unfenced write is not held back */
	pump(p);
	assert_int_equal(p->a.num_done, 3);
	assert_int_equal(p->a.frames, 3);
	pair_free(p);
}

static void
test_read_limit(void **state)
{
	struct pair *p = pair_new(&(struct pair_options){.rd_atomic = 2});

	for (uint32_t i = 0; i < 5; i++)
		post_simple(p, &p->a, ONE_OP_READ, i, 100 * i, 100, 0);
	post_simple(p, &p->a, ONE_OP_WRITE, 5, 0, 100, 0);
	flush_output(p, &p->a);
	assert_int_equal(p->a.num_out, 2); /* and nothing overtakes the rest */
	pump(p);
	assert_int_equal(p->a.num_done, 6);
	for (uint32_t i = 0; i < 6; i++)
		expect_done(&p->a, i, i, ONE_CQE_SEND, OK, 100);
	pair_free(p);
}

static void
test_established(void **state)
{
	struct pair *p = pair_new(&(struct pair_options){.b_state = RC_RTR});
	struct work work = make_work(&p->b, ONE_OP_WRITE, 1, 0, 8, 0);

	assert_int_equal(rc_post(p->b.qp, &work, p->now), -ENOTCONN);
	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 8, 0);
	post_simple(p, &p->a, ONE_OP_WRITE, 2, 0, 8, 0);
	pump(p);
	assert_int_equal(p->b.established, 1);
	assert_int_equal(rc_state(p->b.qp), RC_RTS);
	assert_int_equal(p->a.num_done, 2);
	post(p, &p->b, &work);
	pump(p);
	assert_int_equal(p->b.num_done, 1);
	pair_free(p);
}

/* Without free frames nothing is lost, and output continues later. */
static void
test_starved_of_frames(void **state)
{
	struct pair *p = pair_new(NULL);

	p->a.starve = true;
	p->b.starve = true;
	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 5000, 0);
	post_simple(p, &p->a, ONE_OP_READ, 2, 0, 5000, 0);
	assert_int_equal(rc_output(p->a.qp, 8, p->now), 0);
	assert_true(rc_wants_output(p->a.qp));
	p->a.starve = false;
	pump(p);
	assert_true(rc_wants_output(p->b.qp));
	assert_int_equal(p->a.num_done, 0);
	p->b.starve = false;
	pump(p);
	assert_int_equal(p->a.num_done, 2);
	assert_int_equal(p->a.env.rc.counter[RC_COUNT_RETRANSMIT], 0);
	pair_free(p);
}

static void
test_output_budget(void **state)
{
	struct pair *p = pair_new(NULL);

	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 100000, 0);
	assert_int_equal(rc_output(p->a.qp, 3, p->now), 3);
	assert_int_equal(p->a.num_out, 3);
	assert_true(rc_wants_output(p->a.qp));
	pump(p);
	/* A long READ by the peer leaves half of the frames to our own requests. */
	post_simple(p, &p->a, ONE_OP_READ, 2, 0, 50000, 0);
	flush_output(p, &p->a);
	deliver_one(p, &p->a);
	post_simple(p, &p->b, ONE_OP_WRITE, 3, 0, 50000, 0);
	assert_int_equal(rc_output(p->b.qp, 8, p->now), 8);
	assert_int_equal(p->b.out[3].packet.opcode, WIRE_READ_RESPONSE_MIDDLE);
	assert_int_equal(p->b.out[4].packet.opcode, WIRE_WRITE_FIRST);
	pump(p);
	assert_int_equal(p->a.num_done, 2);
	assert_int_equal(p->b.num_done, 1);
	pair_free(p);
}

/* A queue pair that has sent everything wants no further output, even when it has used up its budget. */
static void
test_output_budget_is_just_enough(void **state)
{
	struct pair *p = pair_new(NULL);

	for (uint32_t i = 0; i < 4; i++)
		post_simple(p, &p->a, ONE_OP_WRITE, i, 0, 64, 0);
	assert_int_equal(rc_output(p->a.qp, 3, p->now), 3);
	assert_true(rc_wants_output(p->a.qp));
	assert_int_equal(rc_output(p->a.qp, 1, p->now), 1);
	assert_false(rc_wants_output(p->a.qp));
	post_simple(p, &p->a, ONE_OP_WRITE, 4, 0, 64, 0);
	assert_true(rc_wants_output(p->a.qp));
	pump(p);
	assert_int_equal(p->a.num_done, 5);
	pair_free(p);
}

static void
test_limits_of_posting(void **state)
{
	struct pair *p = pair_new(NULL);
	struct work work = make_work(&p->a, ONE_OP_WRITE, 1, 0, 8, 0);
	uint32_t n = 0;

	while (rc_post(p->a.qp, &work, p->now) == 0)
		n++;
	assert_int_equal(n, 1024);
	assert_int_equal(rc_post(p->a.qp, &work, p->now), -EAGAIN);
	pump(p);
	assert_int_equal(p->a.num_done, n);
	/* Many messages of 2 GiB: posting stops while their PSNs are still comparable. */
	work.length = ONE_MESSAGE_MAX;
	work.sge[0].len = ONE_MESSAGE_MAX;
	n = 0;
	while (rc_post(p->a.qp, &work, p->now) == 0)
		n++;
	assert_in_range(n, 100, 512);
	pair_free(p);
}

/* The pool is shared. Every node returns to it, however the work ends. */
static void
test_pool(void **state)
{
	struct pair *p = pair_new(NULL);
	struct work work = make_work(&p->a, ONE_OP_WRITE, 1, 0, 8, 0);
	void *memory = malloc(rc_pool_size(3));

	p->a.env.rc.pool = rc_pool_init(memory, 3);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < 3; i++)
			post(p, &p->a, &work);
		assert_int_equal(rc_post(p->a.qp, &work, p->now), -EAGAIN);
		if (round == 0)
			pump(p);
		else if (round == 1)
			rc_flush(p->a.qp);
		else
			rc_reset(p->a.qp);
		if (round > 0)
			rc_connect(p->a.qp, &p->a.attr, RC_RTS);
	}
	assert_int_equal(p->a.num_done, 6);
	rc_reset(p->a.qp);
	free(memory);
	pair_free(p);
}

/* Queue pairs of silent peers leave nodes of the pool to other queue pairs. */
static void
test_pool_is_never_one_sides(void **state)
{
	enum { SILENT = 20, NODES = 256 };
	struct pair *p = pair_new(NULL);
	struct work work = make_work(&p->a, ONE_OP_WRITE, 1, 0, 8, 0);
	struct rc_qp *silent[SILENT];
	void *memory = malloc(rc_pool_size(NODES));
	uint32_t held = 0;

	p->a.env.rc.pool = rc_pool_init(memory, NODES);
	for (int i = 0; i < SILENT; i++) {
		silent[i] = calloc(1, rc_qp_size());
		rc_init(silent[i], &p->a.env.rc, 0, p);
		rc_connect(silent[i], &p->a.attr, RC_RTS);
		while (rc_post(silent[i], &work, p->now) == 0)
			held++;
	}
	assert_true(held < NODES);
	for (int i = 0; i < 10; i++) {
		post(p, &p->a, &work);
		pump(p);
	}
	assert_int_equal(p->a.num_done, 10);
	for (int i = 0; i < SILENT; i++) {
		rc_reset(silent[i]);
		free(silent[i]);
	}
	rc_reset(p->a.qp);
	free(memory);
	pair_free(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_write_sizes),
		cmocka_unit_test(test_send_kinds),
		cmocka_unit_test(test_write_imm),
		cmocka_unit_test(test_zero_length_needs_no_key),
		cmocka_unit_test(test_read_sizes),
		cmocka_unit_test(test_read_response_opcodes),
		cmocka_unit_test(test_atomics),
		cmocka_unit_test(test_inline),
		cmocka_unit_test(test_scatter_gather),
		cmocka_unit_test(test_acks_are_coalesced),
		cmocka_unit_test(test_ack_request_bits),
		cmocka_unit_test(test_window_is_bounded),
		cmocka_unit_test(test_psn_wraps),
		cmocka_unit_test(test_ipv6),
		cmocka_unit_test(test_bind_is_a_fence),
		cmocka_unit_test(test_bind_fails),
		cmocka_unit_test(test_fence_waits_for_reads),
		cmocka_unit_test(test_read_limit),
		cmocka_unit_test(test_established),
		cmocka_unit_test(test_starved_of_frames),
		cmocka_unit_test(test_output_budget),
		cmocka_unit_test(test_output_budget_is_just_enough),
		cmocka_unit_test(test_limits_of_posting),
		cmocka_unit_test(test_pool),
		cmocka_unit_test(test_pool_is_never_one_sides),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
