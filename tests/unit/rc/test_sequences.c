/* SPDX-License-Identifier: BSD-3-Clause */
/* Rare sequences: PSNs that wrap, and delays in between. */
#include <sys/mman.h>

#include "harness.h"

/* Consume `count` PSNs by a READ of B. The test requests its last response again at once, so that only this
 * one is sent. */
static void
pass_psns(struct pair *p, uint32_t psn, uint32_t count, const struct mem_region *region)
{
	struct wire_build b = {.opcode = WIRE_READ_REQUEST, .psn = psn, .rkey = region->key};

	b.remote_addr = region->va;
	b.dma_length = count * 256;
	inject(p, &p->a, &b, NULL);
	b.psn = (psn + count - 1) & 0xffffff;
	b.remote_addr += (uint64_t)(count - 1) * 256;
	b.dma_length = 256;
	inject(p, &p->a, &b, NULL);
	flush_output(p, &p->b);
	assert_int_equal(p->b.num_out, 1);
	assert_int_equal(p->b.out[0].packet.psn, b.psn);
	drop_one(&p->b);
}

/* PSNs have wrapped to that of an atomic still remembered: a new atomic's duplicate gets the new result, not
 * the old. */
static void
test_duplicate_atomic_after_a_wrap(void **state)
{
	const struct pair_options options = {.mtu = 256, .rd_atomic = 8};
	const size_t half = (size_t)1 << 31;
	struct pair *p = pair_new(&options);
	struct wire_build b = {.opcode = WIRE_FETCH_ADD, .psn = 0x1000, .swap_add = 1};
	struct mem_region large = p->b.remote;

	b.remote_addr = large.va;
	b.rkey = large.key;
	store64(p->b.area, 40);
	inject(p, &p->a, &b, NULL);
	flush_output(p, &p->b);
	assert_true(p->b.out[0].packet.atomic_ack == 40);
	drop_one(&p->b);
	large.key ^= 0x0000ff00;
	large.length = half;
	large.base = mmap(NULL, half, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_true(large.base != MAP_FAILED);
	mem_publish(p->mem, &large);
	pass_psns(p, 0x1001, 0x800000, &large);
	pass_psns(p, 0x801001, 0x7fffff, &large);
	for (int i = 0; i < 2; i++) { /* the second is a duplicate */
		inject(p, &p->a, &b, NULL);
		flush_output(p, &p->b);
		assert_int_equal(p->b.num_out, 1);
		assert_int_equal(p->b.out[0].packet.opcode, WIRE_ATOMIC_ACKNOWLEDGE);
		assert_true(p->b.out[0].packet.atomic_ack == 41);
		drop_one(&p->b);
	}
	assert_true(load64(p->b.area) == 42);
	munmap(large.base, half);
	pair_free(p);
}

/* Little is allowed in flight, from the start or the middle of a long message on: an outstanding packet, or
 * one more, requests the ACK that lets the rest follow. */
static void
test_held(void **state)
{
	for (uint32_t before = 0; before <= 20; before++) {
		struct pair *p = pair_new(NULL);

		fill(p->a.area, 40960, before);
		post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 40960, 0);
		rc_output(p->a.qp, before, p->now);
		p->a.env.rc.throttle = RC_THROTTLED;
		for (int i = 0; i < 100 && p->a.num_done == 0; i++) {
			rc_output(p->a.qp, 1, p->now);
			rc_output(p->a.qp, 1, p->now);
			assert_true(rc_flight(p->a.qp) <= before + 2);
			while (deliver_one(p, &p->a))
				;
			rc_output(p->b.qp, 1, p->now);
			deliver_one(p, &p->b);
		}
		expect_done(&p->a, 0, 1, ONE_CQE_SEND, ONE_STATUS_SUCCESS, 40960);
		assert_memory_equal(p->b.area, p->a.area, 40960);
		p->a.env.rc.throttle = RC_UNTHROTTLED;
		pair_free(p);
	}
}

/* The congestion window shrinks below what is in flight of a long message, none of which has requested an
 * ACK. */
static void
test_cut(void **state)
{
	const struct wire_build cnp = {.opcode = WIRE_CNP};

	for (uint32_t before = 1; before <= 20; before++) {
		struct pair *p = pair_new(NULL);

		fill(p->a.area, 40960, before);
		post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 40960, 0);
		rc_output(p->a.qp, before, p->now);
		inject(p, &p->b, &cnp, NULL);
		flush_output(p, &p->a);
		assert_true(rc_flight(p->a.qp) <= before + 2);
		pump(p);
		expect_done(&p->a, 0, 1, ONE_CQE_SEND, ONE_STATUS_SUCCESS, 40960);
		assert_memory_equal(p->b.area, p->a.area, 40960);
		pair_free(p);
	}
}

/* A probe for a possible loss requests an ACK even if the packet did not when first sent. */
static void
test_probe_in_the_middle(void **state)
{
	const struct pair_options options = {.selective = true};
	struct pair *p = pair_new(&options);

	post_simple(p, &p->a, ONE_OP_WRITE, 1, 0, 10240, 0);
	rc_output(p->a.qp, 3, p->now);
	assert_int_equal(p->a.num_out, 3);
	deliver_one(p, &p->a);
	deliver_one(p, &p->a);
	drop_one(&p->a);
	assert_true(run_timer(p));
	rc_output(p->a.qp, 1, p->now);
	assert_int_equal(p->a.out[0].packet.psn, 0x1002);
	deliver_one(p, &p->a);
	flush_output(p, &p->b);
	expect_reply(&p->b, 0x1f, 0x1002);
	pair_free(p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_duplicate_atomic_after_a_wrap),
		cmocka_unit_test(test_held),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_probe_in_the_middle),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
