/* SPDX-License-Identifier: BSD-3-Clause */
/* What the copy thread may touch: by the definition, found without looking at all there is, and forgotten in
 * a child. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/attach/copier.h"

#define MANY 20000u
#define CHILD_S 20 /* one that walks a list for ever ends here */

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

/* Ranges of all lengths that overlap, come and go: as the definition says. */
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
		assert_int_equal(copied_covers(&set, addr, len, write), expected(n, addr, len, write));
	}
	copied_clear(&set);
	assert_false(copied_covers(&set, 0, 1, false));
	for (uint32_t i = 0; i < n; i++)
		assert_null(memory[i].set);
}

static void
test_edges(void **state)
{
	put(&memory[0], UINT64_MAX - 4095, 4095, true);
	put(&memory[1], 0, 1, false);
	assert_true(copied_covers(&set, UINT64_MAX - 1, 1, true));
	assert_false(copied_covers(&set, UINT64_MAX, 1, true));
	assert_false(copied_covers(&set, UINT64_MAX - 1, 3, true)); /* it wraps */
	assert_true(copied_covers(&set, 0, 1, false));
	assert_false(copied_covers(&set, 0, 1, true));
	assert_false(copied_covers(&set, 0, UINT64_MAX, false));
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

/* Tens of thousands of buffers make no list of more than some dozens. */
static void
test_many(void **state)
{
	for (uint32_t i = 0; i < MANY; i++)
		put(&memory[i], 0x7f0000000000ull + i * 10240ull, 8192, i % 2 == 0);
	assert_in_range(longest(), 1, 50);
	for (uint32_t i = 0; i < MANY; i++) {
		assert_true(copied_covers(&set, memory[i].start + 4096, 4096, false));
		assert_int_equal(copied_covers(&set, memory[i].start, 8192, true), memory[i].write);
		assert_false(copied_covers(&set, memory[i].start + 1, 8192, false));
	}
	copied_clear(&set);
}

/* A fork finds another thread between the steps of copied_add. */
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

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_many),
		cmocka_unit_test(test_forked),
	};

	return cmocka_run_group_tests_name("copied", tests, NULL, NULL);
}
