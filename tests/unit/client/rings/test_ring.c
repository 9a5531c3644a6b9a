/* SPDX-License-Identifier: BSD-3-Clause */
/* Rings, without a data plane: the test is the engine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "client/client.h"

#define LOG2 3u
#define SIZE (1u << LOG2)

/* ---- completion rings ---- */

struct cq_fixture {
	struct one_cq cq;
	struct one_cq_shm shm;
	struct one_cqe ring[SIZE];
	uint32_t tail; /* the engine's */
};

static void
cq_init(struct cq_fixture *f)
{
	memset(f, 0, sizeof(*f));
	f->cq.shm = &f->shm;
	f->cq.ring = f->ring;
	f->cq.log2 = LOG2;
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
	f.tail = f.cq.head = f.cq.published = UINT32_MAX - 3;
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
		/* never further behind than a quarter of the ring */
		assert_true(i - atomic_load(&f.shm.head) < SIZE / 4);
		assert_true(atomic_load(&f.shm.head) <= i);
	}
	assert_int_equal(one_cq_poll(&f.cq, &out), 1);
	assert_int_equal(one_cq_poll(&f.cq, &out), 0);
	/* found empty: all of it */
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
	f.cq.log2 = 0;
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
	/* The engine has switched, one_cq_resize has not returned: nothing to take, no harm done. */
	assert_int_equal(one_cq_poll(&f.cq, &out), 0);
	assert_int_equal(one_cq_poll(&f.cq, &out), 0);
	assert_int_equal(f.cq.head, 1);
}

/* ---- work rings ---- */

struct qp_fixture {
	struct one_qp qp;
	struct one_qp_shm shm;
	struct one_arena arena;
	struct one_wqe sq[SIZE], rq[SIZE];
	uint32_t head, done; /* the engine's */
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

/* The engine's view: takes a request of the send ring if it is all there. */
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
	/* Every number of pieces at every place of the ring, through many laps. */
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
	atomic_store(&f.shm.sq_head, 3); /* taken is not done */
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
	assert_null(one_send_reserve(&f.qp, 0)); /* done, but the slots are not free */
	atomic_store(&f.shm.sq_head, 4);
	assert_non_null(one_send_reserve(&f.qp, 0));
	assert_non_null(one_send_reserve(&f.qp, ONE_MAX_SGE));
	assert_null(one_send_reserve(&f.qp, ONE_MAX_SGE + 1)); /* not a request at all */
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
	/* more than was posted, and backwards: not believed */
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

/* What a post costs the application, alone on its core: printed, not judged. */
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
