/* SPDX-License-Identifier: BSD-3-Clause */
/* Bounced access: the core's side, and the application's copy thread, which may have to wait. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "dataplane/mem/channel.h"
#include "bouncing.h"
#include "tests/stuck.h"

/* ---- accesses ---- */

/* Lists that include mapped sges, in both directions. */
static void
test_pieces(void **state)
{
	struct fixture *f = *state;
	uint8_t there[3][2000], here[3000], buffer[BOUNCE_LEN], out[BOUNCE_LEN];
	struct mem_region far[3], near = {.va = 0x1000, .length = sizeof(here), .base = here};
	struct mem_sge pieces[5];
	uint32_t len = 0;

	for (uint32_t i = 0; i < sizeof(buffer); i++)
		buffer[i] = (uint8_t)(i * 7 + i / 256 + 1);
	for (int i = 0; i < 3; i++)
		far[i] = region_of(f->c.bounce, there[i], sizeof(there[i]));
	pieces[0] = piece_of(&far[0], 3, 1001);
	pieces[1] = piece_of(&near, 0, 17);
	pieces[2] = piece_of(&far[1], 0, 2000);
	pieces[3] = piece_of(&near, 100, 2000);
	pieces[4] = piece_of(&far[2], 1, 5);
	for (int i = 0; i < 5; i++)
		len += pieces[i].len;
	assert_int_equal(bounce_scatter(&f->party[0], 2, pieces, 5, buffer, 1), -EAGAIN);
	assert_int_equal(bounce_scatter(&f->party[0], 2, pieces, 5, buffer, 1), -EAGAIN);
	/* The bytes are staged: the buffer is free. */
	memcpy(out, buffer, len);
	memset(buffer, 0, len);
	await(f, 0, 1);
	assert_true(bounce_done(&f->party[0], 2));
	assert_int_equal(bounce_scatter(&f->party[0], 2, pieces, 5, buffer, 1), 0);
	assert_false(bounce_done(&f->party[0], 2));
	memcpy(buffer, out, len);
	memset(out, 0, len);
	assert_memory_equal(there[0] + 3, buffer, 1001);
	assert_memory_equal(here, buffer + 1001, 17);
	assert_memory_equal(there[1], buffer + 1018, 2000);
	assert_memory_equal(here + 100, buffer + 3018, 2000);
	assert_memory_equal(there[2] + 1, buffer + 5018, 5);
	assert_int_equal(bounce_gather(&f->party[0], 1, pieces, 5, out, 1), -EAGAIN);
	await(f, 0, 1);
	assert_int_equal(bounce_gather(&f->party[0], 1, pieces, 5, out, 1), 0);
	assert_memory_equal(out, buffer, len);
	assert_true(LIST_EMPTY(&f->c.list) || bounce_poll(&f->c.list, wake, f) == 0);
	assert_true(LIST_EMPTY(&f->c.list));
}

static void
test_faults(void **state)
{
	struct fixture *f = *state;
	struct fixture *other;
	uint8_t bytes[64];
	void *second;
	struct mem_region nowhere = region_of(f->c.bounce, (void *)0x10, 64),
			  mine = region_of(f->c.bounce, bytes, sizeof(bytes)), strange,
			  nobody = region_of(NULL, bytes, sizeof(bytes));
	struct mem_sge piece = piece_of(&nowhere, 0, 64), none = piece_of(&nobody, 0, 8),
		       large[2] = {piece_of(&mine, 0, BOUNCE_LEN), piece_of(&mine, 0, 1)}, two[2];

	setup(&second);
	other = second;
	strange = region_of(other->c.bounce, bytes, sizeof(bytes));
	two[0] = piece_of(&mine, 0, 8);
	two[1] = piece_of(&strange, 0, 8);
	assert_int_equal(bounce_gather(&f->party[0], 0, &piece, 1, bytes, 1), -EAGAIN);
	await(f, 0, 1);
	assert_int_equal(bounce_gather(&f->party[0], 0, &piece, 1, bytes, 1), -EFAULT);
	assert_null(f->party[0].job[0]);
	assert_int_equal(bounce_gather(&f->party[0], 0, two, 2, bytes, 1), -EFAULT); /* two applications */
	assert_int_equal(bounce_gather(&f->party[0], 0, large, 2, bytes, 1), -EFAULT);
	assert_int_equal(bounce_gather(&f->party[0], 0, &none, 1, bytes, 1), -EFAULT);
	assert_int_equal(f->c.faults + other->c.faults, 0);
	teardown(&second);
}

static int
gather(struct fixture *f, const struct mem_sge *piece, void *out)
{
	int error = bounce_gather(&f->party[0], 0, piece, 1, out, 1);

	assert_int_equal(error, -EAGAIN);
	await(f, 0, 1);
	return bounce_gather(&f->party[0], 0, piece, 1, out, 1);
}

static int
scatter(struct fixture *f, const struct mem_sge *piece, const void *in)
{
	int error = bounce_scatter(&f->party[0], 0, piece, 1, in, 1);

	assert_int_equal(error, -EAGAIN);
	await(f, 0, 1);
	return bounce_scatter(&f->party[0], 0, piece, 1, in, 1);
}

/* Each length at each alignment, the maximum, and partly unmapped memory: no partial copy may count as
 * success. */
static void
test_lengths(void **state)
{
	struct fixture *f = *state;
	size_t page = (size_t)sysconf(_SC_PAGESIZE), len = 2 * BOUNCE_LEN;
	uint8_t *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mem_region there = region_of(f->c.bounce, memory, len);
	uint8_t mine[BOUNCE_LEN], out[BOUNCE_LEN];
	struct mem_sge piece;
	uint64_t bytes;

	for (size_t i = 0; i < sizeof(mine); i++)
		mine[i] = (uint8_t)(i * 13 + i / 256);
	for (uint32_t n = 1; n < 20; n++) {
		for (uint32_t at = 0; at < 9; at++) {
			memset(memory, 0, 64);
			piece = piece_of(&there, at, n);
			assert_int_equal(scatter(f, &piece, mine), 0);
			assert_memory_equal(memory + at, mine, n);
			assert_int_equal(memory[at + n], 0);
		}
	}
	bytes = bounce_bytes(f->c.bounce);
	piece = piece_of(&there, 5, BOUNCE_LEN);
	assert_int_equal(scatter(f, &piece, mine), 0);
	assert_int_equal(gather(f, &piece, out), 0);
	assert_memory_equal(out, mine, BOUNCE_LEN);
	assert_int_equal(bounce_bytes(f->c.bounce) - bytes, 2 * BOUNCE_LEN);
	assert_int_equal(munmap(memory + page, page), 0);
	piece = piece_of(&there, page / 2, (uint32_t)page);
	assert_int_equal(gather(f, &piece, out), -EFAULT);
	assert_int_equal(scatter(f, &piece, mine), -EFAULT);
	assert_int_equal(mprotect(memory, page, PROT_READ), 0);
	piece = piece_of(&there, 0, 8);
	assert_int_equal(gather(f, &piece, out), 0);
	assert_int_equal(scatter(f, &piece, mine), -EFAULT);
	assert_int_equal(bounce_bytes(f->c.bounce) - bytes, 2 * BOUNCE_LEN + 8);
	bounce_inherit(f->c.bounce, 100); /* another process has moved them */
	assert_int_equal(bounce_bytes(f->c.bounce) - bytes, 2 * BOUNCE_LEN + 108);
	munmap(memory, len);
}

/* ---- an application that breaks the rules ---- */

static void
forge(struct fixture *f, uint32_t place, uint32_t sequence, uint32_t error)
{
	struct one_copy_answer *answer = &f->c.shm->answer[place % ONE_COPIES];

	answer->sequence = sequence;
	answer->error = error;
	atomic_store(&answer->phase, one_ring_phase(place, ONE_COPY_LOG2));
}

/* A faulty answer ends in one fault: no further answer is accepted, and waiting parties go on when
 * detached. */
static void
expect_fault(uint32_t place, uint32_t sequence, uint32_t error)
{
	struct mem_region mine;
	struct mem_sge piece;
	struct fixture *f;
	uint8_t out[8];
	void *state;

	setup(&state);
	f = state;
	copying_stop(&f->c);
	mine = region_of(f->c.bounce, out, sizeof(out));
	piece = piece_of(&mine, 0, 8);
	for (uint32_t i = 0; i < 2; i++)
		assert_int_equal(bounce_gather(&f->party[i], 0, &piece, 1, out, 1), -EAGAIN);
	forge(f, place, sequence, error);
	for (uint32_t i = 0; i < 3; i++) {
		bounce_poll(&f->c.list, wake, f);
		forge(f, 0, 0, 0);
	}
	assert_int_equal(f->c.faults, 1);
	assert_int_equal(f->num_order, 0);
	assert_false(bounce_due(&f->c.list));
	assert_int_equal(bounce_gather(&f->party[0], 0, &piece, 1, out, 1), -EAGAIN);
	bounce_detach(f->c.bounce, wake, f);
	assert_int_equal(f->woken[0] + f->woken[1], 2);
	assert_int_equal(bounce_gather(&f->party[0], 0, &piece, 1, out, 1), -EFAULT);
	teardown(&state);
}

static void
test_forged(void **state)
{
	expect_fault(0, 1, 0);          /* for a later request */
	expect_fault(0, UINT32_MAX, 0); /* for an earlier request */
	expect_fault(0, 0, EPERM);      /* with an undefined error */
	expect_fault(0, 0, UINT32_MAX);
}

/* An answer without a request is ignored, as is a later answer before the next one. */
static void
test_unasked(void **state)
{
	struct fixture *f = *state;
	uint8_t there[8] = {7}, out[8] = {0};
	struct mem_region mine = region_of(f->c.bounce, there, sizeof(there));
	struct mem_sge piece = piece_of(&mine, 0, 8);

	copying_stop(&f->c);
	forge(f, 0, 0, 0);
	assert_false(bounce_due(&f->c.list));
	assert_int_equal(bounce_poll(&f->c.list, wake, f), 0);
	atomic_store(&f->c.shm->answer[0].phase, 0);
	assert_int_equal(bounce_gather(&f->party[0], 0, &piece, 1, out, 1), -EAGAIN);
	forge(f, 1, 1, 0);
	assert_false(bounce_due(&f->c.list));
	assert_int_equal(bounce_poll(&f->c.list, wake, f), 0);
	forge(f, 0, 0, 0);
	assert_true(bounce_due(&f->c.list));
	assert_int_equal(bounce_poll(&f->c.list, wake, f), 1);
	assert_int_equal(f->c.faults, 0);
	/* The contents are the application's own responsibility. */
	f->c.shm->slot[ONE_COPIES - 1][0] = 99;
	assert_int_equal(bounce_gather(&f->party[0], 0, &piece, 1, out, 1), 0);
	assert_int_equal(out[0], 99);
}

/* Changes by the application to requests and staging memory do not affect the core. */
static void
test_scribbled(void **state)
{
	struct fixture *f = *state;
	uint8_t there[64], out[64], canary[64];
	struct mem_region mine = region_of(f->c.bounce, there, sizeof(there));
	struct mem_sge piece = piece_of(&mine, 0, 64);

	copying_stop(&f->c);
	memset(canary, 5, sizeof(canary));
	for (uint32_t i = 0; i < 100; i++) {
		memset(f->c.shm->request, (int)i, sizeof(f->c.shm->request));
		assert_int_equal(bounce_scatter(&f->party[0], 0, &piece, 1, canary, i), -EAGAIN);
		memset(f->c.shm->request, 0xff, sizeof(f->c.shm->request));
		memset(f->c.shm->slot, 0xff, sizeof(f->c.shm->slot));
		forge(f, i, i, 0);
		assert_int_equal(bounce_poll(&f->c.list, wake, f), 1);
		assert_int_equal(bounce_scatter(&f->party[0], 0, &piece, 1, canary, i), 0);
		assert_int_equal(bounce_gather(&f->party[0], 1, &piece, 1, out, i), -EAGAIN);
		bounce_cancel(&f->party[0], 1);
		i++;
		forge(f, i, i, EFAULT);
		assert_int_equal(bounce_poll(&f->c.list, wake, f), 1);
	}
	assert_int_equal(f->c.faults, 0);
}

/* The copy thread checks requests, too: none makes it leave its slot. */
static void
test_bad_requests(void **state)
{
	static const struct one_copy_span bad[] = {{0, 1, ONE_COPY_LEN},
						   {0, ONE_COPY_LEN, 1},
						   {0, UINT32_MAX, 2},
						   {0, 2, UINT32_MAX},
						   {0, 0, 0}};
	struct fixture *f = *state;
	uint8_t there[8];

	for (uint32_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct one_copy_request *request = &f->c.shm->request[i];

		request->span[0] = bad[i];
		request->span[0].addr = (uintptr_t)there;
		request->slot = UINT32_MAX;
		request->op = i % 2 == 0 ? ONE_COPY_IN : ONE_COPY_OUT;
		request->num_spans = UINT8_MAX;
		atomic_store(&request->phase, 1);
		channel_signal(&f->c.shm->wake, 1);
		while (atomic_load(&f->c.shm->answer[i].phase) != 1)
			sched_yield();
		assert_int_equal(f->c.shm->answer[i].error, EFAULT);
		assert_int_equal(f->c.shm->answer[i].sequence, i);
	}
}

/* A result is only for the call that asked for it. */
static void
test_another_call(void **state)
{
	struct fixture *f = *state;
	uint8_t there[64], out[64];
	struct mem_region region = region_of(f->c.bounce, there, sizeof(there));
	struct mem_sge piece = piece_of(&region, 0, 64), part = piece_of(&region, 0, 32);

	memset(there, 1, sizeof(there));
	assert_int_equal(bounce_gather(&f->party[0], 0, &piece, 1, out, 1), -EAGAIN);
	await(f, 0, 1);
	memset(there, 2, sizeof(there));
	assert_int_equal(bounce_gather(&f->party[0], 0, &piece, 1, out, 2), -EAGAIN);
	await(f, 0, 1);
	assert_int_equal(bounce_gather(&f->party[0], 0, &part, 1, out, 2), -EAGAIN);
	await(f, 0, 1);
	memset(there, 3, sizeof(there));
	assert_int_equal(bounce_scatter(&f->party[0], 0, &part, 1, out, 2), -EAGAIN);
	await(f, 0, 1);
	assert_int_equal(bounce_gather(&f->party[0], 0, &part, 1, out, 2), -EAGAIN);
	await(f, 0, 1);
	assert_int_equal(bounce_gather(&f->party[0], 0, &part, 1, out, 2), 0);
	assert_int_equal(there[63], 3);
}

static uint64_t
atomic_op(struct fixture *f, const struct mem_region *region, const uint64_t *compare, uint64_t operand)
{
	uint64_t found = 0;

	assert_int_equal(bounce_atomic(&f->party[0], 0, region, region->va, compare, operand, &found, 5),
			 -EAGAIN);
	await(f, 0, 1);
	assert_int_equal(bounce_atomic(&f->party[0], 0, region, region->va, compare, operand, &found, 5), 0);
	return found;
}

static void
test_atomics(void **state)
{
	struct fixture *f = *state;
	uint64_t word = 40, found;
	struct mem_region region = region_of(f->c.bounce, &word, 8);

	assert_int_equal(atomic_op(f, &region, NULL, 2), 40);
	assert_int_equal(word, 42);
	assert_int_equal(atomic_op(f, &region, &(uint64_t){42}, 7), 42);
	assert_int_equal(word, 7);
	assert_int_equal(atomic_op(f, &region, &(uint64_t){42}, 9), 7);
	assert_int_equal(word, 7);
	assert_int_equal(bounce_atomic(&f->party[0], 0, &region, region.va + 4, NULL, 1, &found, 1), -EFAULT);
}

/* Two attachments of one process, each with a copy thread. */
static void
test_atomics_of_two(void **state)
{
	uint64_t word = 0;
	struct fixture *f[2];
	void *second;

	setup(&second);
	f[0] = *state;
	f[1] = second;
	for (uint32_t i = 0; i < 300; i++) {
		struct mem_region region[2] = {region_of(f[0]->c.bounce, &word, 8),
					       region_of(f[1]->c.bounce, &word, 8)};
		uint64_t found;

		for (int k = 0; k < 2; k++)
			assert_int_equal(bounce_atomic(&f[k]->party[0], 0, &region[k], region[k].va, NULL, 1,
						       &found, i),
					 -EAGAIN);
		for (int k = 0; k < 2; k++) {
			await(f[k], 0, 1);
			assert_int_equal(bounce_atomic(&f[k]->party[0], 0, &region[k], region[k].va, NULL, 1,
						       &found, i),
					 0);
		}
	}
	assert_int_equal(word, 600);
	teardown(&second);
}

/* ---- memory that does not answer ---- */

static bool
stuck_here(struct stuck *stuck)
{
	if (stuck_open(stuck, NULL, 4))
		return true;
	print_message("this user may not have others wait: not tested\n");
	return false;
}

static void
await_since(const struct fixture *f, bool waits)
{
	while ((bounce_since(f->c.bounce) != 0) != waits)
		sched_yield();
}

/* Parties that wait for other memory are served meanwhile, and nothing here blocks. */
static void
test_stuck(void **state)
{
	struct fixture *f = *state, *other;
	struct mem_region there, fine;
	struct mem_sge piece;
	struct stuck stuck;
	uint8_t bytes[64], out[64];
	void *second;
	uint32_t mark;

	if (!stuck_here(&stuck))
		skip();
	assert_int_equal(bounce_since(f->c.bounce), 0);
	assert_true(bounce_passed(f->c.bounce, bounce_mark(f->c.bounce)));
	there = region_of(f->c.bounce, stuck.memory, stuck.len);
	piece = piece_of(&there, 0, 64);
	assert_int_equal(bounce_gather(&f->party[0], 0, &piece, 1, out, 1), -EAGAIN);
	mark = bounce_mark(f->c.bounce);
	await_since(f, true);

	setup(&second);
	other = second;
	fine = region_of(other->c.bounce, bytes, sizeof(bytes));
	memset(bytes, 9, sizeof(bytes));
	for (uint32_t i = 0; i < 100; i++) {
		struct mem_sge there_too = piece_of(&fine, 0, 64);

		assert_int_equal(bounce_gather(&other->party[1], 0, &there_too, 1, out, i), -EAGAIN);
		await(other, 1, 1);
		assert_int_equal(bounce_gather(&other->party[1], 0, &there_too, 1, out, i), 0);
		assert_int_equal(out[63], 9);
	}
	teardown(&second);

	assert_int_equal(bounce_poll(&f->c.list, wake, f), 0);
	assert_false(bounce_passed(f->c.bounce, mark));
	assert_int_equal(f->woken[0], 0);
	stuck_answer(&stuck);
	await(f, 0, 1);
	assert_true(bounce_passed(f->c.bounce, mark));
	assert_int_equal(bounce_gather(&f->party[0], 0, &piece, 1, out, 1), 0);
	assert_int_equal(out[63], 0);
	stuck_close(&stuck);
}

/* An access cancelled in the queue is not carried out. */
static void
test_cancel(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[64] = {0}, ones[64];
	struct mem_region there, here = region_of(f->c.bounce, bytes, sizeof(bytes));
	struct mem_sge piece, write = piece_of(&here, 0, 64);
	struct stuck stuck;

	if (!stuck_here(&stuck))
		skip();
	memset(ones, 1, sizeof(ones));
	there = region_of(f->c.bounce, stuck.memory, stuck.len);
	piece = piece_of(&there, 0, 64);
	assert_int_equal(bounce_gather(&f->party[0], 0, &piece, 1, bytes, 1), -EAGAIN);
	assert_int_equal(bounce_scatter(&f->party[1], 0, &write, 1, ones, 1), -EAGAIN);
	assert_int_equal(bounce_scatter(&f->party[2], 0, &write, 1, ones, 1), -EAGAIN);
	await_since(f, true);
	bounce_cancel(&f->party[1], 0);
	bounce_leave(&f->party[2]);
	bounce_leave(&f->party[0]); /* an access under way */
	stuck_answer(&stuck);
	while (!LIST_EMPTY(&f->c.list))
		bounce_poll(&f->c.list, wake, f);
	assert_int_equal(f->num_order, 0);
	assert_int_equal(bytes[0], 0);
	/* All accesses are free again. */
	for (uint32_t i = 0; i < ONE_COPIES; i++)
		assert_int_equal(bounce_scatter(&f->party[i], 1, &write, 1, ones, 2), -EAGAIN);
	for (uint32_t i = 0; i < ONE_COPIES; i++)
		assert_non_null(f->party[i].job[1]);
	await(f, ONE_COPIES - 1, 1);
	stuck_close(&stuck);
}

/* More parties than accesses: they are served in turn, even if holders of an access do not fetch its
 * result. */
static void
test_starved(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[64] = {0}, out[64];
	struct mem_region here = region_of(f->c.bounce, bytes, sizeof(bytes));
	struct mem_sge piece = piece_of(&here, 0, 64);
	uint32_t held = 0, served = 0, last;

	for (uint32_t i = 0; i < PARTIES; i++)
		assert_int_equal(bounce_gather(&f->party[i], 0, &piece, 1, out, 1), -EAGAIN);
	for (uint32_t i = 0; i < PARTIES; i++)
		held += f->party[i].job[0] != NULL;
	assert_int_equal(held, ONE_COPIES);
	await(f, ONE_COPIES - 1, 1);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(bounce_gather(&f->party[i], 0, &piece, 1, out, 1), 0);
	/* Parties 8 to ONE_COPIES - 1 keep their accesses. The others retry when woken, as transports do. */
	while (served < PARTIES - ONE_COPIES) {
		bounce_poll(&f->c.list, wake, f);
		for (uint32_t i = ONE_COPIES; i < PARTIES; i++) {
			if (f->woken[i] == 0)
				continue;
			f->woken[i] = 0;
			served += bounce_gather(&f->party[i], 0, &piece, 1, out, 1) == 0;
		}
		sched_yield();
	}
	assert_int_equal(served, PARTIES - ONE_COPIES);
	/* The remaining accesses sufficed so far. When all are kept, results not fetched are dropped in
	 * time. */
	for (last = ONE_COPIES; last < PARTIES; last++) {
		assert_int_equal(bounce_gather(&f->party[last], 0, &piece, 1, out, 2), -EAGAIN);
		if (f->party[last].job[0] == NULL)
			break;
	}
	assert_in_range(last, ONE_COPIES + 8, 2 * ONE_COPIES);
	f->woken[last] = 0;
	await(f, last, 1);
	assert_int_equal(bounce_gather(&f->party[last], 0, &piece, 1, out, 2), -EAGAIN);
	assert_non_null(f->party[last].job[0]);
}

/* The result of an access that changed memory is not dropped in favour of others, however long it is kept. */
static void
test_starved_by_changes(void **state)
{
	struct fixture *f = *state;
	uint8_t bytes[64] = {0}, out[64];
	uint64_t word = 40, found = 0;
	struct mem_region here = region_of(f->c.bounce, bytes, sizeof(bytes)),
			  there = region_of(f->c.bounce, &word, sizeof(word));
	struct mem_sge piece = piece_of(&here, 0, 64);

	assert_int_equal(bounce_atomic(&f->party[0], 0, &there, there.va, NULL, 1, &found, 1), -EAGAIN);
	for (uint32_t i = 1; i < ONE_COPIES; i++)
		assert_int_equal(bounce_scatter(&f->party[i], 0, &piece, 1, bytes, 1), -EAGAIN);
	await(f, ONE_COPIES - 1, 1);
	assert_int_equal(bounce_gather(&f->party[ONE_COPIES], 0, &piece, 1, out, 1), -EAGAIN);
	for (uint32_t i = 0; i < 1000; i++)
		bounce_poll(&f->c.list, wake, f);
	assert_int_equal(f->woken[ONE_COPIES], 0);
	assert_int_equal(bounce_atomic(&f->party[0], 0, &there, there.va, NULL, 1, &found, 1), 0);
	assert_true(found == 40 && word == 41);
	await(f, ONE_COPIES, 1);
	assert_int_equal(bounce_gather(&f->party[ONE_COPIES], 0, &piece, 1, out, 1), -EAGAIN);
	await(f, ONE_COPIES, 1);
	assert_int_equal(bounce_gather(&f->party[ONE_COPIES], 0, &piece, 1, out, 1), 0);
}

/* After the end of a process that never answers, nobody waits for it. */
static void
test_detach(void **state)
{
	struct fixture *f;
	struct mem_region there;
	struct mem_sge piece;
	struct stuck stuck;
	uint8_t out[64];
	void *second;

	if (!stuck_here(&stuck))
		skip();
	setup(&second);
	f = second;
	there = region_of(f->c.bounce, stuck.memory, stuck.len);
	piece = piece_of(&there, 0, 64);
	for (uint32_t i = 0; i < 20; i++)
		assert_int_equal(bounce_gather(&f->party[i], 0, &piece, 1, out, 1), -EAGAIN);
	await_since(f, true);
	bounce_detach(f->c.bounce, wake, f);
	for (uint32_t i = 0; i < 20; i++) {
		assert_int_equal(f->woken[i], 1);
		assert_null(f->party[i].job[0]);
		assert_null(f->party[i].starved);
	}
	assert_true(LIST_EMPTY(&f->c.list));
	/* No further access to its memory is begun. */
	assert_int_equal(bounce_gather(&f->party[0], 0, &piece, 1, out, 2), -EFAULT);
	assert_true(LIST_EMPTY(&f->c.list));
	stuck_answer(&stuck);
	teardown(&second);
	stuck_close(&stuck);
}

int
main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_pieces),
		TEST(test_faults),
		TEST(test_lengths),
		cmocka_unit_test(test_forged),
		TEST(test_unasked),
		TEST(test_scribbled),
		TEST(test_bad_requests),
		TEST(test_another_call),
		TEST(test_atomics),
		TEST(test_atomics_of_two),
		TEST(test_stuck),
		TEST(test_cancel),
		TEST(test_starved),
		TEST(test_starved_by_changes),
		cmocka_unit_test(test_detach),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
