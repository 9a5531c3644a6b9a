/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that the copy thread may access: compared with the definition, found without a search of all of it,
 * and forgotten in a child. */
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "client/copier.h"

#define MANY 20000u
#define CHILD_S 20 /* limit for a child that loops over a list forever */

static struct copied_set set;
static struct copied memory[MANY];

static bool
expected(uint32_t n, uint64_t addr, uint64_t len, bool write)
{
	for (uint32_t i = 0; i < n; i++)
		if (memory[i].set != NULL && addr >= memory[i].start &&
		    addr + len <= memory[i].start + memory[i].length && (memory[i].write || !write))
			return true;
	return false;
}

static void
put(struct copied *at, uint64_t start, uint64_t length, bool write)
{
	*at = (struct copied){.start = start, .length = length, .write = write};
	copied_add(&set, at);
}

static bool
covers(uint64_t addr, uint64_t len, bool write)
{
	uint64_t at;

	if (!copied_find(&set, addr, len, write, &at))
		return false;
	assert_int_equal(at, addr);
	return true;
}

/* Overlapping ranges of all lengths are added and removed; each query is compared with the definition. */
static void
test_random(void **state)
{
	const uint32_t n = 40;
	unsigned int seed = 5;

	for (uint32_t step = 0; step < 200000; step++) {
		uint32_t i = (uint32_t)rand_r(&seed) % n, bits = (uint32_t)rand_r(&seed) % 12;
		uint64_t addr = (uint64_t)rand_r(&seed) % 4096,
			 len = 1 + (uint64_t)rand_r(&seed) % (1u << bits);
		bool write = (rand_r(&seed) & 1) != 0;

		if (step % 8 == 0) {
			copied_remove(&memory[i]);
			put(&memory[i], addr, len, write);
		} else if (step % 64 == 1) {
			copied_remove(&memory[i]);
		}
		assert_int_equal(covers(addr, len, write), expected(n, addr, len, write));
	}
	copied_clear(&set);
	assert_false(covers(0, 1, false));
	for (uint32_t i = 0; i < n; i++)
		assert_null(memory[i].set);
}

static void
test_edges(void **state)
{
	put(&memory[0], UINT64_MAX - 4095, 4095, true);
	put(&memory[1], 0, 1, false);
	assert_true(covers(UINT64_MAX - 1, 1, true));
	assert_false(covers(UINT64_MAX, 1, true));
	assert_false(covers(UINT64_MAX - 1, 3, true)); /* the end wraps */
	assert_true(covers(0, 1, false));
	assert_false(covers(0, 1, true));
	assert_false(covers(0, UINT64_MAX, false));
	copied_clear(&set);
}

static uint32_t
longest(void)
{
	uint32_t most = 0;

	for (uint32_t i = 0; i < COPIED_BUCKETS; i++) {
		const struct copied *one;
		uint32_t n = 0;

		LIST_FOREACH(one, &set.bucket[i], link)
			n++;
		most = n > most ? n : most;
	}
	return most;
}

/* With tens of thousands of buffers no bucket has more than some dozens. */
static void
test_many(void **state)
{
	for (uint32_t i = 0; i < MANY; i++)
		put(&memory[i], 0x7f0000000000ull + i * 10240ull, 8192, i % 2 == 0);
	assert_in_range(longest(), 1, 50);
	for (uint32_t i = 0; i < MANY; i++) {
		assert_true(covers(memory[i].start + 4096, 4096, false));
		assert_int_equal(covers(memory[i].start, 8192, true), memory[i].write);
		assert_false(covers(memory[i].start + 1, 8192, false));
	}
	copied_clear(&set);
}

/* A fork while another thread is in the middle of copied_add(). */
static void
test_forked(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const struct copier_place place = {.arena_fd = memfd_create("arena", MFD_CLOEXEC), .wake_fd = -1};
	static struct copied one = {.start = 4096, .length = 1};
	struct copier *copier;
	int status;
	pid_t pid;

	assert_int_equal(ftruncate(place.arena_fd, (off_t)(page + sizeof(struct one_copies))), 0);
	assert_int_equal(copier_start(&place, page, &one, &copier), 0);
	pid = fork();
	if (pid == 0) {
		one.set = NULL;
		alarm(CHILD_S);
		copier_forget(copier);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	copier_stop(copier);
	close(place.arena_fd);
}

#define LANES 2u

static void
ask(struct one_copies *copies, struct one_copies *first, uint32_t sequence, uint8_t *from)
{
	struct one_copy_request *request = &copies->request[sequence % ONE_COPIES];

	request->span[0] = (struct one_copy_span){.addr = (uintptr_t)from, .len = 8};
	request->sequence = sequence;
	request->slot = 1;
	request->op = ONE_COPY_OUT;
	request->num_spans = 1;
	atomic_store(&request->phase, one_ring_phase(sequence, ONE_COPY_LOG2));
	/* Like a core: the thread sleeps on the first lane's word. */
	atomic_fetch_add(&first->wake.word, 1);
	syscall(SYS_futex, &first->wake.word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void
await(const struct one_copies *copies, uint32_t sequence)
{
	const struct one_copy_answer *answer = &copies->answer[sequence % ONE_COPIES];

	while (atomic_load(&answer->phase) != one_ring_phase(sequence, ONE_COPY_LOG2))
		sched_yield();
	assert_int_equal(answer->sequence, sequence);
	assert_int_equal(answer->error, 0);
}

/* A lane that is created later is served by the same thread. A lane outside the arena is not accessed. */
static void
test_lanes(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const size_t size = (sizeof(struct one_copies) + page - 1) / page * page;
	const struct copier_place place = {.arena_fd = memfd_create("arena", MFD_CLOEXEC), .wake_fd = -1};
	static uint8_t bytes[8] = "payload";
	static struct copied one;
	struct one_copies *lane[LANES];
	struct copier *copier;

	assert_int_equal(ftruncate(place.arena_fd, (off_t)(page + LANES * size)), 0);
	for (uint32_t i = 0; i < LANES; i++) {
		lane[i] = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, place.arena_fd,
			       (off_t)(page + i * size));
		assert_true(lane[i] != MAP_FAILED);
	}
	one = (struct copied){.start = (uintptr_t)bytes, .length = sizeof(bytes), .write = true};
	assert_int_equal(copier_start(&place, page, &one, &copier), 0);
	ask(lane[0], lane[0], 0, bytes);
	await(lane[0], 0);
	atomic_store(&lane[0]->next, page + size);
	for (uint32_t i = 0; i < 2 * ONE_COPIES; i++) {
		ask(lane[1], lane[0], i, bytes);
		await(lane[1], i);
	}
	assert_memory_equal(lane[1]->slot[1], bytes, sizeof(bytes));
	atomic_store(&lane[1]->next, page + 2 * size);
	ask(lane[0], lane[0], 1, bytes);
	await(lane[0], 1);
	copier_stop(copier);
	for (uint32_t i = 0; i < LANES; i++)
		munmap(lane[i], size);
	close(place.arena_fd);
}

/* Memory that moves keeps the addresses that requests name. */
static void
test_moved(void **state)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const struct copier_place place = {.arena_fd = memfd_create("arena", MFD_CLOEXEC), .wake_fd = -1};
	static uint8_t before[8] = "before ", after[8] = "after  ";
	static struct copied one = {.start = 1ull << 63, .length = sizeof(before), .write = true};
	uint8_t *named = (uint8_t *)(uintptr_t)one.start;
	struct one_copies *copies;
	struct copier *copier;

	assert_int_equal(ftruncate(place.arena_fd, (off_t)(page + sizeof(*copies))), 0);
	copies = mmap(NULL, sizeof(*copies), PROT_READ | PROT_WRITE, MAP_SHARED, place.arena_fd, (off_t)page);
	assert_true(copies != MAP_FAILED);
	one.shift = (uintptr_t)before - one.start;
	assert_int_equal(copier_start(&place, page, &one, &copier), 0);
	ask(copies, copies, 0, named);
	await(copies, 0);
	assert_memory_equal(copies->slot[1], before, sizeof(before));
	copier_move(&one, (uintptr_t)after);
	ask(copies, copies, 1, named);
	await(copies, 1);
	assert_memory_equal(copies->slot[1], after, sizeof(after));
	copier_stop(copier);
	munmap(copies, sizeof(*copies));
	close(place.arena_fd);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random), cmocka_unit_test(test_edges), cmocka_unit_test(test_many),
		cmocka_unit_test(test_forked), cmocka_unit_test(test_lanes), cmocka_unit_test(test_moved),
	};

	return cmocka_run_group_tests_name("copied", tests, NULL, NULL);
}
