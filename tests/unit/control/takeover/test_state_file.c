/* SPDX-License-Identifier: BSD-3-Clause */
/* The file of a take-over's state: its contents, seals, and room that was made in advance, or not. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "tests/unit/control/fds.h"
#include "control/takeover/state_file.h"

#define RECORD_BYTES 4096u

static void
write_records(struct record_out *out, uint32_t num)
{
	takeover_state_begin(out);
	for (uint32_t i = 0; i < num; i++)
		memset(record_append(out, 7, 1, i, RECORD_BYTES), (int)(i % 251), RECORD_BYTES);
	assert_false(out->failed);
}

static void
expect_records(int fd, uint32_t num)
{
	struct record_in in = {.at = 0};
	struct record record;
	struct stat st;

	assert_int_equal(fcntl(fd, F_GET_SEALS), F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	assert_int_equal(fstat(fd, &st), 0);
	in.length = (size_t)st.st_size;
	in.bytes = mmap(NULL, in.length, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_true(in.bytes != MAP_FAILED);
	for (uint32_t i = 0; i < num; i++) {
		assert_int_equal(record_take(&in, &record), 1);
		assert_int_equal(record.head.id, i);
		assert_int_equal(record.bytes[RECORD_BYTES - 1], i % 251);
	}
	assert_int_equal(record_take(&in, &record), 0);
	munmap((void *)(uintptr_t)in.bytes, in.length);
	close(fd);
}

static void
pass(size_t prepared, uint32_t num)
{
	struct record_out out;
	uint32_t before = count_fds();

	if (prepared > 0)
		takeover_state_prepare(prepared);
	write_records(&out, num);
	expect_records(takeover_state_seal(&out), num);
	takeover_state_end(&out);
	assert_null(out.bytes);
	assert_int_equal(count_fds(), before);
}

static void
contents_are_sealed(void **state)
{
	pass(0, 100);
	pass(1 << 20, 100);
	pass(5000, 1000); /* grows */
	pass(0, 1);
}

static void
preparation_is_dropped(void **state)
{
	struct record_out out;
	uint32_t before = count_fds();

	takeover_state_prepare(1 << 20);
	takeover_state_prepare(1 << 16);
	takeover_state_end(NULL);
	write_records(&out, 3);
	takeover_state_end(&out);
	assert_int_equal(count_fds(), before);
	pass(0, 2);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(contents_are_sealed),
		cmocka_unit_test(preparation_is_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
