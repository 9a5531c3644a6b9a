/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory without mapping: what a party scatters in order, without a slot for each. */
#include "reaching.h"

#include <errno.h>
#include <string.h>

/* One byte, the value of which is its place and its note. */
static int
enqueue(struct fixture *f, uint32_t party, const struct mem_region *there, uint32_t i)
{
	struct mem_sge piece = piece_of(there, i, 1);
	uint8_t value = (uint8_t)(i + 1);

	return reach_queue_scatter(&f->party[party], &piece, 1, &value, &i, sizeof(i));
}

static uint32_t
oldest(struct fixture *f, uint32_t party)
{
	const uint32_t *note = reach_queue_first(&f->party[party]);

	return note != NULL ? *note : UINT32_MAX;
}

static int
dequeue(struct fixture *f, uint32_t party, const struct mem_region *there)
{
	struct mem_sge piece = piece_of(there, oldest(f, party), 1);

	return reach_queue_end(&f->party[party], &piece, 1);
}

/* All jobs in the queue of one party, which ends them in order; the other has its turn. */
static void
test_queue(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[ONE_COPIES + 1] = {0}, out[1];
	struct mem_region there = region_of(f->c.reach, bytes, sizeof(bytes));
	struct mem_sge piece = piece_of(&there, 0, 1);

	assert_false(reach_queued(&f->party[0]));
	assert_null(reach_queue_first(&f->party[0]));
	for (uint32_t i = 0; i < ONE_COPIES; i++)
		assert_int_equal(enqueue(f, 0, &there, i), 0);
	assert_int_equal(reach_gather(&f->party[1], 0, &piece, 1, out, 1), -EAGAIN);
	assert_null(f->party[1].job[0]);
	assert_int_equal(enqueue(f, 0, &there, ONE_COPIES), -EAGAIN);
	await(f, 0, ONE_COPIES);
	for (uint32_t i = 0; i < ONE_COPIES; i++) {
		assert_true(reach_queue_done(&f->party[0]));
		assert_int_equal(oldest(f, 0), i);
		assert_int_equal(dequeue(f, 0, &there), 0);
		assert_int_equal(bytes[i], i + 1);
	}
	assert_false(reach_queued(&f->party[0]));
	assert_int_equal(bytes[ONE_COPIES], 0);
	await(f, 1, 1);
	assert_int_equal(reach_gather(&f->party[1], 0, &piece, 1, out, 1), -EAGAIN);
	await(f, 1, 1);
	assert_int_equal(reach_gather(&f->party[1], 0, &piece, 1, out, 1), 0);
	await(f, 0, ONE_COPIES + 1 - f->woken[0]); /* it had asked for one more */
	assert_int_equal(enqueue(f, 0, &there, ONE_COPIES), 0);
	await(f, 0, 1);
	assert_int_equal(dequeue(f, 0, &there), 0);
	assert_int_equal(bytes[ONE_COPIES], ONE_COPIES + 1);
}

/* Of two applications' lists, of none's, of memory that is not there, and ended as another access than it
 * was. */
static void
test_queue_refused(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[2][8] = {0}, here[8] = {0}, value[8] = {1, 2, 3, 4, 5, 6, 7, 8}, note[REACH_NOTE + 1];
	struct mem_region there = region_of(f->c.reach, bytes, sizeof(bytes)),
			  nowhere = region_of(f->c.reach, (void *)0x10, 64),
			  near = {.va = 0x1000, .length = 8, .base = here};
	struct mem_sge list[2] = {piece_of(&there, 0, 4), piece_of(&near, 0, 4)};
	struct reach_party *party = &f->party[0];

	memset(note, 0, sizeof(note));
	assert_int_equal(reach_queue_scatter(party, &list[1], 1, value, note, 1), -EFAULT);
	assert_int_equal(reach_queue_scatter(party, list, 2, value, note, sizeof(note)), -EFAULT);
	assert_false(reach_queued(party));
	/* Pieces with mapping are written at the end. */
	assert_int_equal(reach_queue_scatter(party, list, 2, value, note, REACH_NOTE), 0);
	await(f, 0, 1);
	assert_int_equal(here[0], 0);
	assert_int_equal(reach_queue_end(party, list, 2), 0);
	assert_int_equal(here[0], 5);
	/* To another place, which is not written. */
	memset(here, 0, sizeof(here));
	assert_int_equal(reach_queue_scatter(party, list, 2, value, note, 1), 0);
	await(f, 0, 1);
	list[0].va += 8;
	assert_int_equal(reach_queue_end(party, list, 2), -EFAULT);
	assert_int_equal(here[0], 0);
	assert_int_equal(bytes[1][0], 0);
	list[0] = piece_of(&nowhere, 0, 4);
	assert_int_equal(reach_queue_scatter(party, list, 2, value, note, 1), 0);
	await(f, 0, 1);
	assert_int_equal(reach_queue_end(party, list, 2), -EFAULT);
	assert_int_equal(here[0], 0);
	assert_false(reach_queued(party));
}

/* No outcome of a queue is dropped for those that wait, however long it is not fetched. */
static void
test_queue_kept(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[ONE_COPIES], out[1];
	struct mem_region there = region_of(f->c.reach, bytes, sizeof(bytes));
	struct mem_sge piece = piece_of(&there, 0, 1);

	for (uint32_t i = 0; i < ONE_COPIES; i++)
		assert_int_equal(enqueue(f, 0, &there, i), 0);
	assert_int_equal(reach_gather(&f->party[1], 0, &piece, 1, out, 1), -EAGAIN);
	await(f, 0, ONE_COPIES);
	for (uint32_t i = 0; i < 1000; i++)
		reach_poll(&f->c.list, wake, f);
	assert_int_equal(f->woken[1], 0);
	assert_int_equal(dequeue(f, 0, &there), 0);
	await(f, 1, 1);
	for (uint32_t i = 1; i < ONE_COPIES; i++) {
		assert_int_equal(oldest(f, 0), i);
		assert_int_equal(dequeue(f, 0, &there), 0);
	}
}

/* Ended before they are carried out: they do not happen.  At the end of the application those that are left
 * fail. */
static void
test_queue_ended(void **state)
{
	uint8_t bytes[8] = {0};
	struct fixture *f = *state;
	struct mem_region there = region_of(f->c.reach, bytes, sizeof(bytes));

	copying_stop(&f->c);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(enqueue(f, i / 4, &there, i), 0);
	assert_int_equal(reach_queue_end(&f->party[0], NULL, 0), -EFAULT);
	assert_int_equal(dequeue(f, 0, &there), -EFAULT);
	assert_int_equal(oldest(f, 0), 2);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(f->c.shm->request[i].cancelled, i < 2);
	reach_leave(&f->party[0]);
	assert_false(reach_queued(&f->party[0]));
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(f->c.shm->request[i].cancelled, i < 4);
	reach_detach(f->c.reach, wake, f);
	assert_int_equal(f->woken[0], 0);
	assert_int_equal(f->woken[1], 4);
	for (uint32_t i = 4; i < 8; i++) {
		assert_true(reach_queue_done(&f->party[1]));
		assert_int_equal(oldest(f, 1), i);
		assert_int_equal(dequeue(f, 1, &there), -EFAULT);
	}
	assert_int_equal(enqueue(f, 1, &there, 0), -EFAULT);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_queue),
		TEST(test_queue_refused),
		TEST(test_queue_kept),
		TEST(test_queue_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
