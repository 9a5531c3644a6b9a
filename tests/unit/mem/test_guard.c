/* SPDX-License-Identifier: BSD-3-Clause */
/* Files truncated under a mapping: the memory that the fault handler replaces. */
#include <stdbool.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "dataplane/mem/guard.h"

#define MIB (1ul << 20)
#define PIECE (2 * MIB)
#define PIECES 1024u /* limit of pieces that the handler replaces one by one */

static int owner, event_fd, file, guard;
static uint8_t *bytes;

/* cmocka installs its own signal handlers for each test, so install ours again. */
static void
begin_test(void)
{
	event_fd = eventfd(0, EFD_NONBLOCK);
	assert_true(event_fd >= 0);
	assert_int_equal(guard_init(event_fd), 0);
}

static void
end_test(void)
{
	guard_fini();
	close(event_fd);
}

/* Map `len` bytes of a file that has only `present`. */
static void
map_short_file(size_t len, size_t present)
{
	file = memfd_create("short", 0);
	assert_true(file >= 0);
	assert_int_equal(ftruncate(file, (off_t)present), 0);
	bytes = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
	assert_ptr_not_equal(bytes, MAP_FAILED);
	guard = engine_guard_add(bytes, len, &owner);
	assert_true(guard > 0);
}

static uint32_t
unmap_file(size_t len)
{
	uint32_t pieces = engine_guard_remove(guard);

	munmap(bytes, len);
	close(file);
	return pieces;
}

/* Count the mappings that [bytes, bytes + len) consists of. */
static uint32_t
num_mappings(size_t len)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long from, to;
	uint32_t n = 0;

	assert_non_null(maps);
	while (fscanf(maps, "%lx-%lx%*[^\n]", &from, &to) == 2)
		n += to > (uintptr_t)bytes && from < (uintptr_t)bytes + len;
	fclose(maps);
	return n;
}

static bool
is_still_file(size_t at)
{
	uint8_t stored = 0;

	*(volatile uint8_t *)(bytes + at) = 0x5a;
	return pread(file, &stored, 1, (off_t)at) == 1 && stored == 0x5a;
}

static void
test_replaces_what_faulted(void **state)
{
	begin_test();
	map_short_file(16 * MIB, 12 * MIB);
	assert_null(engine_guard_fault());
	*(volatile uint8_t *)(bytes + 13 * MIB) = 1;
	assert_int_equal(bytes[13 * MIB], 1);
	assert_ptr_equal(engine_guard_fault(), &owner);
	assert_true(is_still_file(0));
	assert_true(is_still_file(10 * MIB - 1));
	assert_int_equal(unmap_file(16 * MIB), 1);
	engine_guard_unmapped(1);
	end_test();
}

/* The first and last piece do not exceed the mapping. */
static void
test_stays_in_mapping(void **state)
{
	uint8_t *around = mmap(NULL, 3 * PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *piece = (uint8_t *)(((uintptr_t)around + PIECE - 1) & ~(PIECE - 1));

	begin_test();
	assert_ptr_not_equal(around, MAP_FAILED);
	file = memfd_create("short", 0);
	bytes = mmap(piece + 4096, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0);
	assert_ptr_equal(bytes, piece + 4096);
	guard = engine_guard_add(bytes, 8192, &owner);
	bytes[-1] = bytes[8192] = 7;
	*(volatile uint8_t *)(bytes + 8191) = 1;
	assert_int_equal(bytes[-1], 7);
	assert_int_equal(bytes[8192], 7);
	assert_int_equal(engine_guard_remove(guard), 1);
	engine_guard_unmapped(1);
	close(file);
	munmap(around, 3 * PIECE);
	end_test();
}

static void
touch_every_other_piece(uint32_t from, uint32_t to)
{
	for (uint32_t i = from; i < to; i++)
		*(volatile uint8_t *)(bytes + 2 * i * PIECE) = 1;
}

/* An application cannot use up the kernel's limit of mappings per process. */
static void
test_number_of_pieces_is_bounded(void **state)
{
	const size_t len = 2 * (PIECES + 1) * PIECE;

	begin_test();
	map_short_file(len, 0);
	touch_every_other_piece(0, PIECES);
	assert_in_range(num_mappings(len), PIECES, 2 * PIECES + 1);
	touch_every_other_piece(PIECES, PIECES + 1);
	assert_int_equal(num_mappings(len), 1);
	assert_int_equal(unmap_file(len), PIECES);

	/* Until the replaced pieces are unmapped, no further ones are replaced singly. */
	map_short_file(4 * PIECE, 0);
	touch_every_other_piece(0, 1);
	assert_int_equal(num_mappings(4 * PIECE), 1);
	assert_int_equal(unmap_file(4 * PIECE), 0);

	engine_guard_unmapped(PIECES);
	map_short_file(4 * PIECE, 0);
	touch_every_other_piece(0, 1);
	assert_in_range(num_mappings(4 * PIECE), 2, 3);
	assert_int_equal(unmap_file(4 * PIECE), 1);
	engine_guard_unmapped(1);
	end_test();
}

#define T(f) cmocka_unit_test(f)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_replaces_what_faulted),
		T(test_stays_in_mapping),
		T(test_number_of_pieces_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
