/* SPDX-License-Identifier: BSD-3-Clause */
/* Rings without a data plane: the test plays the core. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/unit.h"
#include "client/client.h"
#include "client/internal.h"

#define LOG2 3u
#define SIZE (1u << LOG2)

/* ---- completion rings ---- */

struct cq_fixture {
	struct one_cq cq;
	struct one_cq_bundle bundle;
	struct one_cq_shm shm;
	struct one_cqe ring[SIZE];
	uint32_t tail; /* the core's */
};

static void
cq_init(struct cq_fixture *f)
{
	memset(f, 0, sizeof(*f));
	f->bundle.rings = 1;
	f->cq.bundle = &f->bundle;
	f->cq.num_rings = 1;
	f->cq.at = (struct one_cq_ring){.shm = &f->shm, .ring = f->ring, .log2 = LOG2, .lump = SIZE / 4};
}

static void
cq_put(struct cq_fixture *f, uint8_t type, uint64_t cookie)
{
	struct one_cqe *slot = &f->ring[one_ring_slot(f->tail, LOG2)];

	slot->type = type;
	slot->cookie = cookie;
	atomic_store_explicit(&slot->phase, one_ring_phase(f->tail, LOG2), memory_order_release);
	f->tail++;
	atomic_store(&f->shm.tail, f->tail);
}

static void
test_cq_fresh_memory_is_empty(void **state)
{
	struct cq_fixture f;
	struct one_cqe out;

	cq_init(&f);
	assert_int_equal(one_cq_poll(&f.cq, &out), 0);
	assert_int_equal(one_cq_pending(&f.cq, 100), 0);
}

static void
test_cq_phase_wraps(void **state)
{
	struct cq_fixture f;
	struct one_cqe out;
	uint64_t next = 0;

	cq_init(&f);
	/* Batches of every size, so that each slot is first and last of a lap, in both phases. */
	for (uint64_t put = 0; put < 10000;) {
		uint32_t batch = 1 + (uint32_t)(put % SIZE);

		for (uint32_t i = 0; i < batch; i++)
			cq_put(&f, ONE_CQE_SEND, put++);
		assert_int_equal(one_cq_pending(&f.cq, 1000), batch);
		assert_int_equal(one_cq_pending(&f.cq, 2), batch < 2 ? batch : 2);
		for (uint32_t i = 0; i < batch; i++) {
			assert_int_equal(one_cq_poll(&f.cq, &out), 1);
			assert_int_equal(out.cookie, next++);
		}
		assert_int_equal(one_cq_poll(&f.cq, &out), 0);
	}
}

static void
test_cq_index_wraps(void **state)
{
	struct cq_fixture f;
	struct one_cqe out;

	cq_init(&f);
	/* The free-running index overflows in the middle of a full ring. */
	f.tail = f.cq.at.head = f.cq.at.published = UINT32_MAX - 3;
	for (uint32_t i = 0; i < SIZE; i++) {
		uint32_t index = f.tail - SIZE + i;

		f.ring[one_ring_slot(index, LOG2)].phase = one_ring_phase(index, LOG2);
	}
	assert_int_equal(one_cq_poll(&f.cq, &out), 0);
	for (uint32_t i = 0; i < SIZE; i++)
		cq_put(&f, ONE_CQE_SEND, 100 + i);
	for (uint32_t i = 0; i < SIZE; i++) {
		assert_int_equal(one_cq_poll(&f.cq, &out), 1);
		assert_int_equal(out.cookie, 100 + i);
	}
	assert_int_equal(one_cq_poll(&f.cq, &out), 0);
}

static void
test_cq_publishes_head(void **state)
{
	struct cq_fixture f;
	struct one_cqe out;

	cq_init(&f);
	for (uint32_t i = 0; i < SIZE; i++)
		cq_put(&f, ONE_CQE_SEND, i);
	for (uint32_t i = 1; i <= SIZE - 1; i++) {
		assert_int_equal(one_cq_poll(&f.cq, &out), 1);
		/* The published head lags by less than a quarter of the ring. */
		assert_true(i - atomic_load(&f.shm.head) < SIZE / 4);
		assert_true(atomic_load(&f.shm.head) <= i);
	}
	assert_int_equal(one_cq_poll(&f.cq, &out), 1);
	assert_int_equal(one_cq_poll(&f.cq, &out), 0);
	/* When the ring is found empty, the whole head is published. */
	assert_int_equal(atomic_load(&f.shm.head), SIZE);
	cq_put(&f, ONE_CQE_SEND, 1);
	assert_int_equal(one_cq_poll(&f.cq, &out), 1);
	assert_int_equal(one_cq_poll(&f.cq, &out), 0);
	assert_int_equal(atomic_load(&f.shm.head), SIZE + 1);
}

static void
test_cq_tiny_ring_publishes_each(void **state)
{
	struct cq_fixture f;
	struct one_cqe out;

	cq_init(&f);
	f.cq.at.log2 = f.cq.at.lump = 0;
	for (uint32_t i = 0; i < 5; i++) {
		f.ring[0].cookie = i;
		f.ring[0].phase = one_ring_phase(i, 0);
		assert_int_equal(one_cq_poll(&f.cq, &out), 1);
		assert_int_equal(out.cookie, i);
		assert_int_equal(atomic_load(&f.shm.head), i + 1);
		assert_int_equal(one_cq_poll(&f.cq, &out), 0);
	}
}

static void
test_cq_switch_waits_for_resize(void **state)
{
	struct cq_fixture f;
	struct one_cqe out;

	cq_init(&f);
	cq_put(&f, ONE_CQE_SEND, 1);
	cq_put(&f, ONE_CQE_SWITCHED, 0);
	assert_int_equal(one_cq_pending(&f.cq, 10), 1);
	assert_int_equal(one_cq_poll(&f.cq, &out), 1);
	/* The core has switched, but one_cq_resize() has not returned: no entry is available, and no harm is
	 * done. */
	assert_int_equal(one_cq_poll(&f.cq, &out), 0);
	assert_int_equal(one_cq_poll(&f.cq, &out), 0);
	assert_int_equal(f.cq.at.head, 1);
}

/* ---- bundles ---- */

#define RINGS 3u
#define MANY_LOG2 8u

/* A bundle in the data plane's layout, and an attachment whose arena holds nothing else. */
struct bundle_fixture {
	struct one_client client;
	struct one_arena header;
	struct one_cq cq;
	uint32_t tail[RINGS];
	struct {
		struct one_cq_bundle bundle;
		struct {
			struct one_cq_shm shm;
			struct one_cqe entry[1u << MANY_LOG2];
		} ring[RINGS];
	} arena;
};

static void
bundle_init(struct bundle_fixture *f)
{
	memset(f, 0, sizeof(*f));
	f->client.sock = -1;
	f->client.arena = (uint8_t *)&f->arena;
	f->client.header = &f->header;
	f->client.info.arena_size = sizeof(f->arena);
	f->arena.bundle.rings = 1;
	f->cq = (struct one_cq){.client = &f->client,
				.bundle = &f->arena.bundle,
				.num_rings = 1,
				.at = {.shm = &f->arena.ring[0].shm,
				       .ring = f->arena.ring[0].entry,
				       .log2 = MANY_LOG2,
				       .lump = 1u << (MANY_LOG2 - 2)}};
}

static void
bundle_add(struct bundle_fixture *f, uint32_t number)
{
	uint64_t offset = (uint64_t)((uint8_t *)&f->arena.ring[number] - (uint8_t *)&f->arena);

	f->arena.bundle.place[number] = one_cq_ring_place(offset, MANY_LOG2);
	f->arena.bundle.rings = number + 1;
}

/* The cookie names the ring and the index in that ring. */
static void
bundle_put(struct bundle_fixture *f, uint32_t number, uint32_t count)
{
	for (; count > 0; count--) {
		uint32_t index = f->tail[number]++;
		struct one_cqe *slot = &f->arena.ring[number].entry[one_ring_slot(index, MANY_LOG2)];

		slot->type = ONE_CQE_SEND;
		slot->object = number * 1000 + index % 1000 + 1;
		slot->cookie = (uint64_t)number << 32 | index;
		slot->phase = one_ring_phase(index, MANY_LOG2);
	}
}

/* Poll an entry, and check that it is the next of its ring. */
static uint32_t
bundle_take(struct bundle_fixture *f, uint32_t next[RINGS])
{
	struct one_cqe out;
	uint32_t number;

	assert_int_equal(one_cq_poll(&f->cq, &out), 1);
	number = (uint32_t)(out.cookie >> 32);
	assert_int_equal((uint32_t)out.cookie, next[number]);
	next[number]++;
	return number;
}

static void
test_bundle_grows(void **state)
{
	uint32_t next[RINGS] = {0};
	struct bundle_fixture f;
	struct one_cqe out;

	bundle_init(&f);
	bundle_put(&f, 0, 2);
	assert_int_equal(bundle_take(&f, next), 0);
	for (uint32_t i = 1; i < RINGS; i++) {
		bundle_add(&f, i);
		bundle_put(&f, i, 3);
	}
	assert_int_equal(one_cq_pending(&f.cq, 100), 7);
	assert_int_equal(one_cq_pending(&f.cq, 5), 5);
	for (uint32_t i = 0; i < 7; i++)
		bundle_take(&f, next);
	assert_int_equal(one_cq_poll(&f.cq, &out), 0);
	/* The data plane sees the heads of all rings. */
	for (uint32_t i = 0; i < RINGS; i++)
		assert_int_equal(f.arena.ring[i].shm.head, f.tail[i]);
	assert_int_equal(one_cq_pending(&f.cq, 100), 0);
	bundle_put(&f, 1, 2);
	assert_int_equal(one_cq_object(&f.cq, 0, 0), 0);
	assert_int_equal(one_cq_object(&f.cq, 1, 1), 1005);
	assert_int_equal(one_cq_object(&f.cq, 1, 2), 0);
	one_cq_forget(&f.cq);
}

static void
bundle_put_after(struct bundle_fixture *f, uint32_t number, uint32_t other, uint64_t count)
{
	uint32_t index = f->tail[number]++;
	struct one_cqe *slot = &f->arena.ring[number].entry[one_ring_slot(index, MANY_LOG2)];

	*slot = (struct one_cqe){.type = ONE_CQE_AFTER, .object = other, .cookie = count};
	slot->phase = one_ring_phase(index, MANY_LOG2);
}

/* A queue pair moves from ring 0 to 1, to 2, and back to 0: its entries stay in order. */
static void
test_bundle_after(void **state)
{
	static const uint32_t rings[] = {0, 0, 1, 2, 2, 0}, indices[] = {0, 1, 1, 1, 2, 3};
	struct bundle_fixture f;
	struct one_cqe out;

	bundle_init(&f);
	for (uint32_t i = 1; i < RINGS; i++)
		bundle_add(&f, i);
	bundle_put(&f, 0, 2);
	bundle_put_after(&f, 1, 0, 2);
	bundle_put(&f, 1, 1);
	bundle_put_after(&f, 2, 1, 2);
	bundle_put(&f, 2, 2);
	bundle_put_after(&f, 0, 2, 3);
	bundle_put(&f, 0, 1);
	for (uint32_t start = 0; start < RINGS; start++) {
		struct bundle_fixture g = f;

		g.cq.client = &g.client;
		g.client.arena = (uint8_t *)&g.arena;
		g.cq.bundle = &g.arena.bundle;
		g.cq.at.shm = &g.arena.ring[0].shm;
		g.cq.at.ring = g.arena.ring[0].entry;
		assert_int_equal(one_cq_pending(&g.cq, 100), 6);
		assert_int_equal(one_cq_object(&g.cq, 1, 0), UINT32_MAX);
		assert_int_equal(one_cq_object(&g.cq, 1, 1), 1002);
		if (start != 0) { /* begin at any ring */
			g.cq.rings[0] = g.cq.at;
			g.cq.at = g.cq.rings[start];
			g.cq.turn = start;
		}
		for (uint32_t i = 0; i < 6; i++) {
			assert_int_equal(one_cq_poll(&g.cq, &out), 1);
			assert_int_equal(out.cookie, (uint64_t)rings[i] << 32 | indices[i]);
		}
		assert_int_equal(one_cq_poll(&g.cq, &out), 0);
		one_cq_forget(&g.cq);
	}
}

/* The count of ONE_CQE_AFTER goes on when a ring is resized, and leaves out ONE_CQE_SWITCHED. */
static void
test_bundle_after_resize(void **state)
{
	struct bundle_fixture f;
	struct one_cqe out;

	bundle_init(&f);
	bundle_add(&f, 1);
	f.cq.at.base = 40; /* entries taken before the resize */
	bundle_put(&f, 0, 1);
	bundle_put_after(&f, 1, 0, 41);
	bundle_put(&f, 1, 1);
	assert_int_equal(one_cq_pending(&f.cq, 100), 2);
	f.cq.rings[0] = f.cq.at;
	f.cq.at = f.cq.rings[1];
	f.cq.turn = 1;
	assert_int_equal(one_cq_poll(&f.cq, &out), 1);
	assert_int_equal(out.cookie, 0);
	assert_int_equal(one_cq_poll(&f.cq, &out), 1);
	assert_int_equal(out.cookie, 1ull << 32 | 1);
	one_cq_forget(&f.cq);
}

/* The index of ring 0 wraps while entries of ring 1 wait for them. */
static void
test_bundle_after_wrap(void **state)
{
	struct bundle_fixture f;
	struct one_cqe out;
	uint32_t taken = 0;

	bundle_init(&f);
	bundle_add(&f, 1);
	f.tail[0] = f.cq.at.head = f.cq.at.published = UINT32_MAX - 1;
	for (uint32_t i = 0; i < 1u << MANY_LOG2; i++)
		f.arena.ring[0].entry[one_ring_slot(f.tail[0] + i, MANY_LOG2)].phase =
			!one_ring_phase(f.tail[0] + i, MANY_LOG2);
	bundle_put(&f, 0, 5);
	for (uint32_t i = 0; i < 5; i++) {
		bundle_put_after(&f, 1, 0, (uint64_t)UINT32_MAX + i);
		bundle_put(&f, 1, 1);
	}
	for (uint32_t i = 0; i < 10; i++) {
		assert_int_equal(one_cq_poll(&f.cq, &out), 1);
		taken += out.cookie >> 32 == 0;
		assert_true(out.cookie >> 32 == 0 || taken > (uint32_t)out.cookie / 2);
	}
	assert_true(one_cq_taken(one_cq_ring(&f.cq, 0)) == UINT32_MAX + 4ull);
	assert_int_equal(one_cq_poll(&f.cq, &out), 0);
	one_cq_forget(&f.cq);
}

/* Counts may be as old as they like. */
static void
test_bundle_after_many(void **state)
{
	struct bundle_fixture f;
	struct one_cqe out;

	bundle_init(&f);
	bundle_add(&f, 1);
	f.cq.at.base = 3u << 30;
	bundle_put_after(&f, 1, 0, 41);
	bundle_put(&f, 1, 1);
	assert_int_equal(one_cq_poll(&f.cq, &out), 1);
	one_cq_forget(&f.cq);
}

/* Counts that no data plane stores end no loop, and lose no entry that can be taken. */
static void
test_bundle_after_hostile(void **state)
{
	struct bundle_fixture f;
	struct one_cqe out;

	bundle_init(&f);
	bundle_add(&f, 1);
	bundle_put_after(&f, 0, 1, 1000);
	bundle_put_after(&f, 1, 0, 1000);
	assert_int_equal(one_cq_poll(&f.cq, &out), 0);
	one_cq_forget(&f.cq);
	bundle_init(&f);
	bundle_put_after(&f, 0, 77, 1);
	bundle_put(&f, 0, 1);
	assert_int_equal(one_cq_poll(&f.cq, &out), 1);
	one_cq_forget(&f.cq);
}

static void
bundle_store(struct bundle_fixture *f, uint32_t ring, struct one_cqe entry)
{
	uint32_t index = f->tail[ring]++;
	struct one_cqe *slot = &f->arena.ring[ring].entry[one_ring_slot(index, MANY_LOG2)];

	*slot = entry;
	slot->phase = one_ring_phase(index, MANY_LOG2);
}

/* Like a core that executes the command of report `number`, which needs no entry. `after` 0: the report
 * before is in this ring. */
static void
bundle_count(struct bundle_fixture *f, uint32_t ring, uint32_t number, uint32_t other, uint32_t after)
{
	if (after != 0)
		bundle_store(f, ring,
			     (struct one_cqe){.type = ONE_CQE_AFTER_REPORT,
					      .object = other,
					      .imm = after,
					      .length = number});
	f->arena.ring[ring].shm.reports = number;
}

static void
bundle_report(struct bundle_fixture *f, uint32_t ring, uint32_t number, uint32_t other, uint32_t after)
{
	bundle_count(f, ring, number, other, after);
	bundle_store(f, ring,
		     (struct one_cqe){.type = ONE_CQE_CONNECT,
				      .length = number,
				      .cookie = (uint64_t)ring << 32 | number});
}

/* An event of the core itself. */
static void
bundle_event(struct bundle_fixture *f, uint32_t ring)
{
	bundle_report(f, ring, 0, 0, 0);
}

static void
bundle_start_two(struct bundle_fixture *f)
{
	bundle_init(f);
	bundle_add(f, 1);
}

static void
expect_report(struct bundle_fixture *f, uint32_t ring, uint32_t number)
{
	struct one_cqe out;

	assert_int_equal(one_cq_poll(&f->cq, &out), 1);
	assert_int_equal(out.type, ONE_CQE_CONNECT);
	assert_int_equal(out.cookie, (uint64_t)ring << 32 | number);
}

/* A report waits for the one before, even if the core of that one is late. */
static void
test_bundle_report_late(void **state)
{
	struct bundle_fixture f;
	struct one_cqe out;

	bundle_start_two(&f);
	bundle_report(&f, 1, 1, 0, 1);
	bundle_put(&f, 0, 1);
	assert_int_equal(one_cq_pending(&f.cq, 100), 2);
	assert_int_equal(one_cq_object(&f.cq, 1, 0), UINT32_MAX);
	assert_int_equal(one_cq_poll(&f.cq, &out), 1);
	assert_int_equal(out.type, ONE_CQE_SEND);
	assert_int_equal(one_cq_poll(&f.cq, &out), 0);
	bundle_report(&f, 0, 1, 0, 0);
	bundle_report(&f, 0, 2, 1, 1);
	expect_report(&f, 0, 1);
	expect_report(&f, 1, 1);
	expect_report(&f, 0, 2);
	assert_int_equal(one_cq_poll(&f.cq, &out), 0);
	one_cq_forget(&f.cq);
}

/* A report that needed no entry, or whose entry found no room, is not waited for. */
static void
test_bundle_report_without_entry(void **state)
{
	struct bundle_fixture f;
	struct one_cqe out;

	bundle_start_two(&f);
	bundle_report(&f, 1, 1, 0, UINT32_MAX);
	f.arena.ring[0].shm.reports = UINT32_MAX - 1;
	assert_int_equal(one_cq_poll(&f.cq, &out), 0);
	f.arena.ring[0].shm.reports = 1; /* the number after UINT32_MAX */
	expect_report(&f, 1, 1);
	one_cq_forget(&f.cq);
}

/* The core has reported by itself what the command's number stands for. */
static void
test_bundle_report_of_core(void **state)
{
	struct bundle_fixture f;

	bundle_start_two(&f);
	bundle_event(&f, 0);
	f.arena.ring[0].shm.reports = 1;
	bundle_report(&f, 1, 1, 0, 1);
	one_cq_grow(&f.cq);
	f.cq.rings[0] = f.cq.at;
	f.cq.at = f.cq.rings[1];
	f.cq.turn = 1;
	expect_report(&f, 0, 0);
	expect_report(&f, 1, 1);
	one_cq_forget(&f.cq);
}

/* Ring 0 waits for ring 1, because a queue pair has moved from there. Ring 1 does not wait for what is
 * behind. */
static void
test_bundle_report_and_move(void **state)
{
	struct bundle_fixture f;

	bundle_start_two(&f);
	bundle_report(&f, 0, 1, 0, 0);
	bundle_report(&f, 1, 1, 0, 1);
	bundle_put_after(&f, 0, 1, 2);
	bundle_event(&f, 0);
	f.arena.ring[0].shm.reports = 1;
	expect_report(&f, 0, 1);
	expect_report(&f, 1, 1);
	expect_report(&f, 0, 0);
	one_cq_forget(&f.cq);
}

/* A queue pair had moved to ring 0, and all entries before it have been taken. */
static void
test_bundle_report_after_move(void **state)
{
	struct bundle_fixture f;
	struct one_cqe out;

	bundle_start_two(&f);
	bundle_put(&f, 1, 1);
	bundle_report(&f, 1, 1, 0, 1);
	assert_int_equal(one_cq_poll(&f.cq, &out), 1);
	assert_int_equal(f.cq.turn, 1);
	bundle_put_after(&f, 0, 1, 1);
	bundle_event(&f, 0);
	f.arena.ring[0].shm.reports = 1;
	expect_report(&f, 0, 0);
	expect_report(&f, 1, 1);
	one_cq_forget(&f.cq);
}

/* Nothing waits for a core that has ended: what it has stored can be taken, still in order. */
static void
test_bundle_report_of_dead(void **state)
{
	struct bundle_fixture f;
	struct one_cqe out;

	bundle_start_two(&f);
	bundle_report(&f, 1, 1, 0, 2);
	bundle_put(&f, 1, 1);
	bundle_report(&f, 0, 1, 0, 0);
	expect_report(&f, 0, 1);
	assert_int_equal(one_cq_poll(&f.cq, &out), 0);
	bundle_report(&f, 0, 2, 0, 0);
	f.arena.ring[0].shm.reports = 1; /* it ended between the two stores */
	atomic_store(&f.client.dead, true);
	f.cq.rings[0] = f.cq.at;
	f.cq.at = f.cq.rings[1];
	f.cq.turn = 1;
	expect_report(&f, 0, 2);
	expect_report(&f, 1, 1);
	assert_int_equal(one_cq_poll(&f.cq, &out), 1);
	assert_int_equal(out.type, ONE_CQE_SEND);
	one_cq_forget(&f.cq);
	bundle_start_two(&f);
	bundle_report(&f, 1, 1, 0, 2);
	atomic_store(&f.client.dead, true);
	expect_report(&f, 1, 1);
	one_cq_forget(&f.cq);
}

/* Entries of a resized ring are in private memory; those after the resize are in the new ring. */
static void
test_bundle_report_resize(void **state)
{
	struct bundle_fixture f;
	struct one_cqe out;

	bundle_init(&f);
	for (uint32_t i = 1; i < RINGS; i++)
		bundle_add(&f, i);
	bundle_report(&f, 1, 1, 0, 2);
	f.arena.ring[0].shm.reports = 9; /* of private memory: it is not read */
	f.cq.at.next_shm = &f.arena.ring[2].shm;
	f.cq.at.next_ring = f.arena.ring[2].entry;
	f.cq.at.next_log2 = MANY_LOG2;
	f.arena.bundle.rings = 2;
	assert_int_equal(one_cq_poll(&f.cq, &out), 0);
	bundle_report(&f, 2, 2, 0, 0);
	assert_int_equal(one_cq_poll(&f.cq, &out), 0);
	f.arena.ring[2].shm.reports = 3;
	f.arena.ring[2].entry[0].length = 3;
	expect_report(&f, 1, 1);
	one_cq_forget(&f.cq);
}

/* An event of the core behind a later report, in the new ring of a resized one, is not waited for: the report
 * waits itself. */
static void
test_bundle_report_resize_and_event(void **state)
{
	struct bundle_fixture f;

	bundle_init(&f);
	for (uint32_t i = 1; i < RINGS; i++)
		bundle_add(&f, i);
	bundle_report(&f, 1, 1, 0, 1);
	bundle_report(&f, 0, 2, 1, 1);
	bundle_put_after(&f, 0, 0, 0);
	f.arena.ring[0].entry[2].type = ONE_CQE_SWITCHED;
	bundle_event(&f, 2);
	f.arena.ring[2].shm.reports = 2;
	f.cq.at.next_shm = &f.arena.ring[2].shm;
	f.cq.at.next_ring = f.arena.ring[2].entry;
	f.cq.at.next_log2 = MANY_LOG2;
	f.arena.bundle.rings = 2;
	expect_report(&f, 1, 1);
	expect_report(&f, 0, 2);
	expect_report(&f, 2, 0);
	one_cq_forget(&f.cq);
}

#define ISSUED 24u

/* Reports are issued in any pattern, some need no entry, cores execute them at any time, and the application
 * polls in between. */
static void
test_bundle_reports_in_order(void **state)
{
	for (unsigned int seed = 1; seed <= 3000; seed++) {
		uint32_t ring[ISSUED], number[ISSUED], sent[RINGS] = {0}, executed[RINGS] = {0}, next = 0;
		bool needed[ISSUED];
		struct bundle_fixture f;
		struct one_cqe out;
		unsigned int random = seed;

		bundle_init(&f);
		for (uint32_t i = 1; i < RINGS; i++)
			bundle_add(&f, i);
		for (uint32_t i = 0; i < ISSUED; i++) {
			ring[i] = (uint32_t)rand_r(&random) % RINGS;
			number[i] = ++sent[ring[i]];
			needed[i] = i == ISSUED - 1 || rand_r(&random) % 3 != 0;
		}
		while (next < ISSUED) {
			uint32_t core = (uint32_t)rand_r(&random) % RINGS, i = 0;

			while (i < ISSUED && (ring[i] != core || number[i] != executed[core] + 1))
				i++;
			if (i < ISSUED) {
				bool other = i > 0 && ring[i - 1] != core;

				executed[core]++;
				(needed[i] ? bundle_report : bundle_count)(&f, core, number[i],
									   other ? ring[i - 1] : 0,
									   other ? number[i - 1] : 0);
			}
			while (rand_r(&random) % 4 != 0 && one_cq_poll(&f.cq, &out) == 1) {
				while (!needed[next])
					next++;
				assert_int_equal(out.cookie, (uint64_t)ring[next] << 32 | number[next]);
				next++;
			}
		}
		one_cq_forget(&f.cq);
	}
}

static void
test_bundle_takes_turns(void **state)
{
	uint32_t next[RINGS] = {0}, last = 0, run = 0, seen = 0;
	struct bundle_fixture f;

	bundle_init(&f);
	bundle_put(&f, 0, 1);
	bundle_take(&f, next);
	for (uint32_t i = 1; i < RINGS; i++)
		bundle_add(&f, i);
	for (uint32_t i = 0; i < RINGS; i++)
		bundle_put(&f, i, 200);
	for (uint32_t i = 0; i < RINGS * 100; i++) {
		uint32_t number = bundle_take(&f, next);

		run = number == last ? run + 1 : 1;
		last = number;
		seen |= 1u << number;
		/* The first turn began when there was a single ring. */
		assert_true(run <= ONE_CQ_TURN || i < 1u << (MANY_LOG2 - 2));
	}
	assert_int_equal(seen, (1u << RINGS) - 1);
	one_cq_forget(&f.cq);
}

static void
test_bundle_arms_all(void **state)
{
	uint32_t next[RINGS] = {0};
	struct bundle_fixture f;

	bundle_init(&f);
	bundle_add(&f, 1);
	bundle_put(&f, 1, 3);
	for (int i = 0; i < 3; i++)
		bundle_take(&f, next);
	bundle_add(&f, 2); /* a ring not yet known to the library */
	one_wait_arm(&f.cq, 7 | ONE_ARM_NEXT, 1);
	assert_int_equal(f.arena.bundle.arm, one_arm(1, 7 | ONE_ARM_NEXT, 0));
	for (uint32_t i = 0; i < RINGS; i++)
		assert_int_equal(f.arena.ring[i].shm.arm, one_arm(1, 7 | ONE_ARM_NEXT, i == 1 ? 3 : 0));
	assert_true(one_wait_armed(&f.cq, 7 | ONE_ARM_NEXT));
	f.arena.bundle.arm = 0; /* like a core that answers */
	assert_false(one_wait_armed(&f.cq, 7 | ONE_ARM_NEXT));
	/* No core knows the number of entries in all rings. */
	one_wait_arm(&f.cq, 7, 5);
	assert_int_equal(f.arena.ring[1].shm.arm, one_arm(2, 7 | ONE_ARM_ANY, 3));
	assert_true(one_wait_armed(&f.cq, 7));
	one_cq_forget(&f.cq);
}

static void
test_bundle_of_a_liar(void **state)
{
	static const uint64_t places[] = {1, UINT64_MAX, 1ull << 40, 63, 1u << MANY_LOG2};
	struct bundle_fixture f;
	struct one_cqe out;

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		bundle_init(&f);
		f.arena.bundle.place[1] = places[i] | 19;
		f.arena.bundle.rings = 2;
		assert_int_equal(one_cq_poll(&f.cq, &out), 0);
		assert_true(one_client_dead(&f.client));
		one_cq_forget(&f.cq);
	}
	bundle_init(&f);
	f.arena.bundle.rings = ONE_LANES_MAX + 1;
	assert_int_equal(one_cq_poll(&f.cq, &out), 0);
	assert_true(one_client_dead(&f.client));
}

/* ---- work rings ---- */

struct qp_fixture {
	struct one_qp qp;
	struct one_qp_shm shm;
	struct one_arena arena;
	struct one_wqe sq[SIZE], rq[SIZE];
	uint32_t head, done; /* the core's */
};

static struct one_doorbells doorbells;

static void
qp_init(struct qp_fixture *f, uint32_t max_wr)
{
	memset(f, 0, sizeof(*f));
	memset((void *)&doorbells, 0, sizeof(doorbells));
	f->qp.shm = &f->shm;
	f->qp.arena = &f->arena;
	f->qp.sq = f->sq;
	f->qp.rq = f->rq;
	f->qp.sq_log2 = f->qp.rq_log2 = LOG2;
	f->qp.max_send_wr = f->qp.max_recv_wr = max_wr;
	f->qp.doorbells = &doorbells;
	f->qp.doorbell = 130;
}

/* Take a request from the send ring as a core does, if it is complete. */
static bool
sq_take(struct qp_fixture *f, struct one_wqe *wqe, struct one_sge *sge)
{
	const struct one_wqe *slot = &f->sq[one_ring_slot(f->head, LOG2)];
	uint32_t slots;

	if (slot->phase != one_ring_phase(f->head, LOG2))
		return false;
	memcpy((void *)wqe, (const void *)slot, sizeof(*wqe));
	slots = one_wqe_slots(wqe->num_sge);
	sge[0] = wqe->sge;
	for (uint32_t i = 1; i < wqe->num_sge; i++) {
		uint32_t at = f->head + 1 + (i - 1) / ONE_SGE_PER_EXT;
		const struct one_wqe_ext *ext = (const void *)&f->sq[one_ring_slot(at, LOG2)];

		assert_int_equal(ext->phase, one_ring_phase(at, LOG2));
		for (uint32_t b = 0; b < sizeof(ext->reserved); b++)
			assert_int_equal(ext->reserved[b], 0);
		sge[i] = ext->sge[(i - 1) % ONE_SGE_PER_EXT];
	}
	f->head += slots;
	return true;
}

static void
test_post_and_take(void **state)
{
	struct qp_fixture f;
	struct one_wqe *wqe, got;
	struct one_sge sge[ONE_MAX_SGE];

	qp_init(&f, SIZE);
	assert_false(sq_take(&f, &got, sge));
	/* Every number of sges at every slot of the ring, for many laps. */
	for (uint32_t n = 0; n < 1000; n++) {
		uint32_t pieces = n % (ONE_MAX_SGE + 1);

		wqe = one_send_reserve(&f.qp, pieces);
		assert_non_null(wqe);
		assert_int_equal(wqe->num_sge, pieces);
		wqe->op = ONE_OP_WRITE;
		wqe->cookie = n;
		memset(wqe->inline_data, 0xee, sizeof(wqe->inline_data));
		for (uint32_t i = 0; i < pieces; i++)
			one_post_sge(&f.qp, wqe, i, 0x1000 * n + i, n + i, ~i);
		assert_false(sq_take(&f, &got, sge)); /* not before commit */
		one_send_commit(&f.qp, wqe);
		assert_true(sq_take(&f, &got, sge));
		assert_int_equal(got.cookie, n);
		for (uint32_t i = 0; i < pieces; i++) {
			assert_int_equal(sge[i].addr, 0x1000 * n + i);
			assert_int_equal(sge[i].len, n + i);
			assert_int_equal(sge[i].lkey, ~i);
		}
		assert_false(sq_take(&f, &got, sge));
		assert_int_equal(f.head, f.qp.sq_tail);
		atomic_store(&f.shm.sq_head, f.head);
		atomic_store(&f.shm.sq_done, n + 1);
	}
}

static void
test_full_by_requests(void **state)
{
	struct qp_fixture f;
	struct one_wqe *wqe;

	qp_init(&f, 3);
	for (int i = 0; i < 3; i++) {
		wqe = one_send_reserve(&f.qp, 1);
		assert_non_null(wqe);
		one_send_commit(&f.qp, wqe);
	}
	assert_null(one_send_reserve(&f.qp, 1));
	assert_int_equal(one_send_outstanding(&f.qp), 3);
	atomic_store(&f.shm.sq_head, 3); /* taken, but not completed */
	assert_null(one_send_reserve(&f.qp, 1));
	atomic_store(&f.shm.sq_done, 1);
	assert_non_null(one_send_reserve(&f.qp, 1));
	assert_int_equal(one_send_outstanding(&f.qp), 2);
}

static void
test_full_by_slots(void **state)
{
	struct qp_fixture f;
	struct one_wqe *wqe;

	qp_init(&f, 1000);
	for (uint32_t i = 0; i < 2; i++) {
		wqe = one_send_reserve(&f.qp, ONE_MAX_SGE); /* four slots */
		assert_non_null(wqe);
		one_send_commit(&f.qp, wqe);
	}
	assert_null(one_send_reserve(&f.qp, 0));
	atomic_store(&f.shm.sq_done, 1);
	assert_null(one_send_reserve(&f.qp, 0)); /* completed, but its slots are not free */
	atomic_store(&f.shm.sq_head, 4);
	assert_non_null(one_send_reserve(&f.qp, 0));
	assert_non_null(one_send_reserve(&f.qp, ONE_MAX_SGE));
	assert_null(one_send_reserve(&f.qp, ONE_MAX_SGE + 1)); /* more sges than a request may have */
}

static void
test_counters_beyond_reason(void **state)
{
	struct qp_fixture f;
	struct one_wqe *wqe;

	qp_init(&f, 4);
	for (int i = 0; i < 4; i++) {
		wqe = one_send_reserve(&f.qp, 1);
		one_send_commit(&f.qp, wqe);
	}
	/* Counters beyond the posted ones, and counters that go back, are ignored. */
	atomic_store(&f.shm.sq_done, 5);
	atomic_store(&f.shm.sq_head, 5);
	assert_null(one_send_reserve(&f.qp, 1));
	assert_int_equal(one_send_outstanding(&f.qp), 4);
	atomic_store(&f.shm.sq_done, 3);
	assert_int_equal(one_send_outstanding(&f.qp), 1);
	atomic_store(&f.shm.sq_done, 1);
	assert_int_equal(one_send_outstanding(&f.qp), 1);
}

static void
test_receives_are_apart(void **state)
{
	struct qp_fixture f;
	struct one_wqe *wqe;

	qp_init(&f, 2);
	for (uint32_t i = 0; i < 2; i++) {
		wqe = one_recv_reserve(&f.qp, 2);
		assert_ptr_equal(wqe, &f.rq[i * 2]);
		wqe->op = ONE_OP_RECV;
		wqe->cookie = i;
		one_post_sge(&f.qp, wqe, 0, 1, 2, 3);
		one_post_sge(&f.qp, wqe, 1, 4, 5, 6);
		one_recv_commit(&f.qp, wqe);
	}
	assert_null(one_recv_reserve(&f.qp, 1));
	assert_int_equal(one_recv_outstanding(&f.qp), 2);
	assert_int_equal(one_send_outstanding(&f.qp), 0);
	assert_int_equal(((struct one_wqe_ext *)(void *)&f.rq[1])->sge[0].addr, 4);
	atomic_store(&f.shm.rq_done, 2);
	atomic_store(&f.shm.rq_head, 4);
	assert_int_equal(one_recv_outstanding(&f.qp), 0);
	assert_non_null(one_recv_reserve(&f.qp, 1));
}

static void
test_doorbell(void **state)
{
	struct qp_fixture f;
	struct one_wqe *wqe;

	qp_init(&f, 2);
	wqe = one_send_reserve(&f.qp, 0);
	assert_int_equal(doorbells.qp[130], 0);
	one_send_commit(&f.qp, wqe);
	assert_int_equal(doorbells.qp[130], 1);
	assert_int_equal(doorbells.group[2], 1);
	doorbells.qp[130] = 0;
	doorbells.group[2] = 0;
	wqe = one_recv_reserve(&f.qp, 0);
	one_recv_commit(&f.qp, wqe);
	assert_int_equal(doorbells.qp[130], 1);
	assert_int_equal(doorbells.group[2], 1);
}

/* The cost of a post to the application, alone on its core: printed, not checked. */
static void
test_post_cost(void **state)
{
	const uint32_t rounds = 2000000;
	struct qp_fixture *f = malloc(sizeof(*f));
	uint64_t start, took;

	qp_init(f, SIZE);
	start = one_now_ns();
	for (uint32_t i = 0; i < rounds; i++) {
		struct one_wqe *wqe = one_send_reserve(&f->qp, 1);

		wqe->op = ONE_OP_WRITE;
		wqe->flags = 0;
		wqe->inline_len = 0;
		wqe->length = 8;
		wqe->cookie = i;
		wqe->remote_addr = i;
		wqe->rkey = 7;
		wqe->imm = 0;
		one_post_sge(&f->qp, wqe, 0, i, 8, 9);
		one_send_commit(&f->qp, wqe);
		atomic_store_explicit(&f->shm.sq_head, i + 1, memory_order_relaxed);
		atomic_store_explicit(&f->shm.sq_done, i + 1, memory_order_relaxed);
	}
	took = one_now_ns() - start;
	printf("post: %.1f ns\n", (double)took / rounds);
	assert_int_equal(f->qp.sq_posted, rounds);
	free(f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cq_fresh_memory_is_empty),
		cmocka_unit_test(test_cq_phase_wraps),
		cmocka_unit_test(test_cq_index_wraps),
		cmocka_unit_test(test_cq_publishes_head),
		cmocka_unit_test(test_cq_tiny_ring_publishes_each),
		cmocka_unit_test(test_cq_switch_waits_for_resize),
		cmocka_unit_test(test_bundle_grows),
		cmocka_unit_test(test_bundle_after),
		cmocka_unit_test(test_bundle_after_resize),
		cmocka_unit_test(test_bundle_after_wrap),
		cmocka_unit_test(test_bundle_after_many),
		cmocka_unit_test(test_bundle_after_hostile),
		cmocka_unit_test(test_bundle_report_late),
		cmocka_unit_test(test_bundle_report_without_entry),
		cmocka_unit_test(test_bundle_report_of_core),
		cmocka_unit_test(test_bundle_report_and_move),
		cmocka_unit_test(test_bundle_report_after_move),
		cmocka_unit_test(test_bundle_report_of_dead),
		cmocka_unit_test(test_bundle_report_resize),
		cmocka_unit_test(test_bundle_report_resize_and_event),
		cmocka_unit_test(test_bundle_reports_in_order),
		cmocka_unit_test(test_bundle_takes_turns),
		cmocka_unit_test(test_bundle_arms_all),
		cmocka_unit_test(test_bundle_of_a_liar),
		cmocka_unit_test(test_post_and_take),
		cmocka_unit_test(test_full_by_requests),
		cmocka_unit_test(test_full_by_slots),
		cmocka_unit_test(test_counters_beyond_reason),
		cmocka_unit_test(test_receives_are_apart),
		cmocka_unit_test(test_doorbell),
		cmocka_unit_test(test_post_cost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
