/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounced access: queues of accesses of one party. */
#include "bouncing.h"

#include <errno.h>
#include <string.h>

/* Queue a write of one byte, whose value and note are its offset. */
static int
enqueue(struct fixture *f, uint32_t party, const struct mem_region *there, uint32_t i)
{
	struct mem_sge piece = piece_of(there, i, 1);
	uint8_t value = (uint8_t)(i + 1);

	return bounce_queue_scatter(&f->party[party], BOUNCE_ARRIVED, &piece, 1, &value, &i, sizeof(i));
}

static uint32_t
oldest(struct fixture *f, uint32_t party)
{
	return *(const uint32_t *)bounce_queue_oldest(&f->party[party], BOUNCE_ARRIVED);
}

/* Remove the oldest access, which is done, and return its result. Its mapped sges are written here. */
static int
dequeue_list(struct bounce_party *party, const struct mem_sge *list, uint32_t num)
{
	int error = bounce_queue_result(party, BOUNCE_ARRIVED);

	assert_true(bounce_queue_done(party, BOUNCE_ARRIVED));
	if (error == 0)
		bounce_queue_place(party, BOUNCE_ARRIVED, list, num);
	bounce_queue_pop(party, BOUNCE_ARRIVED);
	return error;
}

static int
dequeue(struct fixture *f, uint32_t party, const struct mem_region *there)
{
	struct mem_sge piece = piece_of(there, oldest(f, party), 1);

	return dequeue_list(&f->party[party], &piece, 1);
}

/* The queue of one party holds all accesses, which it completes in order. Then the other party is served. */
static void
test_queue(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[ONE_COPIES + 1] = {0}, out[1];
	struct mem_region there = region_of(f->c.bounce, bytes, sizeof(bytes));
	struct mem_sge piece = piece_of(&there, 0, 1);

	assert_false(bounce_queued(&f->party[0], BOUNCE_ARRIVED));
	for (uint32_t i = 0; i < ONE_COPIES; i++)
		assert_int_equal(enqueue(f, 0, &there, i), 0);
	assert_int_equal(bounce_gather(&f->party[1], 0, &piece, 1, out, 1), -EAGAIN);
	assert_null(f->party[1].job[0]);
	assert_int_equal(enqueue(f, 0, &there, ONE_COPIES), -EAGAIN);
	await(f, 0, ONE_COPIES);
	for (uint32_t i = 0; i < ONE_COPIES; i++) {
		assert_true(bounce_queue_done(&f->party[0], BOUNCE_ARRIVED));
		assert_int_equal(oldest(f, 0), i);
		assert_int_equal(dequeue(f, 0, &there), 0);
		assert_int_equal(bytes[i], i + 1);
	}
	assert_false(bounce_queued(&f->party[0], BOUNCE_ARRIVED));
	assert_int_equal(bytes[ONE_COPIES], 0);
	await(f, 1, 1);
	assert_int_equal(bounce_gather(&f->party[1], 0, &piece, 1, out, 1), -EAGAIN);
	await(f, 1, 1);
	assert_int_equal(bounce_gather(&f->party[1], 0, &piece, 1, out, 1), 0);
	await(f, 0, ONE_COPIES + 1 - f->woken[0]); /* the party had asked for one more */
	assert_int_equal(enqueue(f, 0, &there, ONE_COPIES), 0);
	await(f, 0, 1);
	assert_int_equal(dequeue(f, 0, &there), 0);
	assert_int_equal(bytes[ONE_COPIES], ONE_COPIES + 1);
}

/* Refused: lists without bounced memory, notes that are too long, and unmapped memory. */
static void
test_queue_refused(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[2][8] = {0}, here[8] = {0}, value[8] = {1, 2, 3, 4, 5, 6, 7, 8}, note[BOUNCE_NOTE + 1];
	struct mem_region there = region_of(f->c.bounce, bytes, sizeof(bytes)),
			  nowhere = region_of(f->c.bounce, (void *)0x10, 64),
			  near = {.va = 0x1000, .length = 8, .base = here};
	struct mem_sge list[2] = {piece_of(&there, 0, 4), piece_of(&near, 0, 4)};
	struct bounce_party *party = &f->party[0];

	memset(note, 0, sizeof(note));
	assert_int_equal(bounce_queue_scatter(party, BOUNCE_ARRIVED, &list[1], 1, value, note, 1), -EFAULT);
	assert_int_equal(bounce_queue_scatter(party, BOUNCE_ARRIVED, list, 2, value, note, sizeof(note)),
			 -EFAULT);
	assert_false(bounce_queued(party, BOUNCE_ARRIVED));
	/* Mapped sges are written at the end. */
	assert_int_equal(bounce_queue_scatter(party, BOUNCE_ARRIVED, list, 2, value, note, BOUNCE_NOTE), 0);
	await(f, 0, 1);
	assert_int_equal(here[0], 0);
	assert_int_equal(dequeue_list(party, list, 2), 0);
	assert_int_equal(here[0], 5);
	memset(here, 0, sizeof(here));
	list[0] = piece_of(&nowhere, 0, 4);
	assert_int_equal(bounce_queue_scatter(party, BOUNCE_ARRIVED, list, 2, value, note, 1), 0);
	await(f, 0, 1);
	assert_int_equal(dequeue_list(party, list, 2), -EFAULT);
	assert_int_equal(here[0], 0);
	assert_false(bounce_queued(party, BOUNCE_ARRIVED));
}

/* No result in a queue is dropped in favour of waiting parties, however long it is not fetched. */
static void
test_queue_kept(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[ONE_COPIES], out[1];
	struct mem_region there = region_of(f->c.bounce, bytes, sizeof(bytes));
	struct mem_sge piece = piece_of(&there, 0, 1);

	for (uint32_t i = 0; i < ONE_COPIES; i++)
		assert_int_equal(enqueue(f, 0, &there, i), 0);
	assert_int_equal(bounce_gather(&f->party[1], 0, &piece, 1, out, 1), -EAGAIN);
	await(f, 0, ONE_COPIES);
	for (uint32_t i = 0; i < 1000; i++)
		bounce_poll(&f->c.list, wake, f);
	assert_int_equal(f->woken[1], 0);
	assert_int_equal(dequeue(f, 0, &there), 0);
	await(f, 1, 1);
	for (uint32_t i = 1; i < ONE_COPIES; i++) {
		assert_int_equal(oldest(f, 0), i);
		assert_int_equal(dequeue(f, 0, &there), 0);
	}
}

/* Accesses ended before the copy thread handles them are not carried out. The rest fail when the application
 * ends. */
static void
test_queue_ended(void **state)
{
	uint8_t bytes[8] = {0};
	struct fixture *f = *state;
	struct mem_region there = region_of(f->c.bounce, bytes, sizeof(bytes));

	copying_stop(&f->c);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(enqueue(f, i / 4, &there, i), 0);
	bounce_poll(&f->c.list, wake, f); /* hands the accesses over */
	bounce_queue_pop(&f->party[0], BOUNCE_ARRIVED);
	bounce_queue_pop(&f->party[0], BOUNCE_ARRIVED);
	assert_int_equal(oldest(f, 0), 2);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(f->c.shm->request[i].cancelled, i < 2);
	bounce_leave(&f->party[0]);
	assert_false(bounce_queued(&f->party[0], BOUNCE_ARRIVED));
	/* The newest access of each party was handed over last. */
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(f->c.shm->request[i].cancelled, i < 3 || i == 6);
	bounce_detach(f->c.bounce, wake, f);
	assert_int_equal(f->woken[0], 0);
	assert_int_equal(f->woken[1], 4);
	for (uint32_t i = 4; i < 8; i++) {
		assert_true(bounce_queue_done(&f->party[1], BOUNCE_ARRIVED));
		assert_int_equal(oldest(f, 1), i);
		assert_int_equal(dequeue(f, 1, &there), -EFAULT);
	}
	assert_int_equal(enqueue(f, 1, &there, 0), -EFAULT);
}

/* A queued write is extended by adjacent memory until it is handed over, and by no other memory. */
static void
test_queue_extended(void **state)
{
	static uint8_t bytes[BOUNCE_LEN + 64], value[BOUNCE_LEN];
	struct fixture *f = *state;
	struct mem_region there = region_of(f->c.bounce, bytes, sizeof(bytes));
	struct mem_sge first = piece_of(&there, 8, 16), next = piece_of(&there, 24, 16),
		       gap = piece_of(&there, 41, 1), most = piece_of(&there, 40, BOUNCE_LEN - 32), more;
	struct bounce_party *party = &f->party[0];
	uint8_t out[4];

	for (size_t i = 0; i < sizeof(value); i++)
		value[i] = (uint8_t)(i * 7 + i / 256 + 1);
	memset(bytes, 0, sizeof(bytes));
	assert_false(bounce_queue_extend(party, BOUNCE_ARRIVED, &first, value));
	assert_int_equal(bounce_queue_scatter(party, BOUNCE_ARRIVED, &first, 1, value, NULL, 0), 0);
	assert_false(bounce_queue_extend(party, BOUNCE_LANDED, &next, value));
	assert_false(bounce_queue_extend(party, BOUNCE_ARRIVED, &gap, value));
	assert_true(bounce_queue_extend(party, BOUNCE_ARRIVED, &next, value + 16));
	assert_int_equal(bytes[8], 0); /* not handed over yet */
	more = piece_of(&there, 40, BOUNCE_LEN - 31);
	assert_false(bounce_queue_extend(party, BOUNCE_ARRIVED, &more, value + 32));
	/* A write of the maximum length is handed over at once. */
	assert_true(bounce_queue_extend(party, BOUNCE_ARRIVED, &most, value + 32));
	more = piece_of(&there, 8 + BOUNCE_LEN, 1);
	assert_false(bounce_queue_extend(party, BOUNCE_ARRIVED, &more, value));
	await(f, 0, 1);
	assert_int_equal(dequeue_list(party, NULL, 0), 0);
	assert_memory_equal(bytes + 8, value, BOUNCE_LEN);
	assert_int_equal(bytes[7] | bytes[8 + BOUNCE_LEN], 0);
	/* A write ended before it is handed over is never carried out. */
	memset(bytes, 0, 64);
	assert_int_equal(bounce_queue_scatter(party, BOUNCE_ARRIVED, &first, 1, value, NULL, 0), 0);
	bounce_queue_pop(party, BOUNCE_ARRIVED);
	assert_int_equal(bounce_gather(party, 0, &(struct mem_sge){&there, there.va + 8, 4}, 1, out, 1),
			 -EAGAIN);
	await(f, 0, 1);
	assert_int_equal(bounce_gather(party, 0, &(struct mem_sge){&there, there.va + 8, 4}, 1, out, 1), 0);
	assert_int_equal(out[0], 0);
}

/* Reads ahead are dropped in favour of a waiting party, but not data that is about to be sent. */
static void
test_queue_ahead(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[ONE_COPIES] = {7}, out[1];
	struct mem_region there = region_of(f->c.bounce, bytes, sizeof(bytes));
	struct mem_sge piece = piece_of(&there, 0, 1);

	assert_int_equal(bounce_queue_gather(&f->party[0], BOUNCE_LEAVING, &piece, 1, NULL, 0), 0);
	for (uint32_t i = 1; i < ONE_COPIES; i++)
		assert_int_equal(bounce_queue_gather(&f->party[0], BOUNCE_AHEAD, &piece, 1, NULL, 0), 0);
	assert_int_equal(bounce_queue_count(&f->party[0], BOUNCE_AHEAD), ONE_COPIES - 1);
	await(f, 0, ONE_COPIES);
	assert_int_equal(bounce_gather(&f->party[1], 0, &piece, 1, out, 1), -EAGAIN);
	assert_int_equal(bounce_queue_data(&f->party[0], BOUNCE_AHEAD)[0], 7);
	await(f, 1, 1);
	assert_int_equal(bounce_queue_count(&f->party[0], BOUNCE_AHEAD), 0);
	assert_int_equal(bounce_queue_count(&f->party[0], BOUNCE_LEAVING), 1);
	assert_true(bounce_queue_done(&f->party[0], BOUNCE_LEAVING));
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_queue),       TEST(test_queue_refused),  TEST(test_queue_kept),
		TEST(test_queue_ended), TEST(test_queue_extended), TEST(test_queue_ahead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
