/* SPDX-License-Identifier: BSD-3-Clause */
/* States that versions have written (tests/data/takeover, by tests/net/takeover.sh golden): this version
 * knows each of their records, or has another TAKEOVER_VERSION, which says beforehand that it cannot take
 * over from them. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/takeover/takeover.h"
#include "dataplane/base/record.h"
#include "dataplane/base/record_type.h"
#include "tests/unit/unit.h"

static const char *golden; /* the program's argument */

static struct record_in
open_golden(void)
{
	int fd = open(golden, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *bytes;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_true(bytes != MAP_FAILED);
	close(fd);
	return (struct record_in){.bytes = bytes, .length = (size_t)st.st_size};
}

static void
test_known(void **state)
{
	/* Nothing that lasts: requests, rings and doorbells out of use; and what the programs do not make. */
	static const bool may_lack[RECORD_TYPES] = {
		[RECORD_FORWARD] = true, [RECORD_CQ_OLD] = true, [RECORD_SETUP] = true,
		[RECORD_CR] = true,      [RECORD_MW] = true,     [RECORD_AH] = true};
	struct record_in in = open_golden();
	bool seen[RECORD_TYPES] = {false};
	struct record record = {.head = {.type = 0}};
	int more;

	while ((more = record_take(&in, &record)) > 0) {
		assert_in_range(record.head.type, RECORD_START, RECORD_TYPES - 1);
		if (!record_is_known(&record))
			fail_msg(
				"type %u, version %u, %u bytes: not a record of this version; write another version into its RECORD_FORM and TAKEOVER_VERSION",
				record.head.type, record.head.version, record.head.length);
		seen[record.head.type] = true;
	}
	assert_int_equal(more, 0);
	assert_int_equal(record.head.type, RECORD_END);
	assert_int_equal(record.head.version, TAKEOVER_VERSION);
	for (uint32_t i = RECORD_START; i < RECORD_TYPES; i++)
		if (!seen[i] && !may_lack[i])
			fail_msg("the golden file has no record of type %u; write another one", i);
}

/* Any other length or version of a record with a form is not known. */
static void
test_changed(void **state)
{
	struct record_in in = open_golden();
	struct record record;
	uint32_t changed = 0;

	while (record_take(&in, &record) > 0) {
		struct record other = record;

		other.head.version++;
		other.head.length += 8;
		changed += !record_is_known(&other);
	}
	assert_true(changed > 20);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known),
		cmocka_unit_test(test_changed),
	};

	/* Links the readers, whose objects have the forms. */
	int (*volatile reader)(struct config * config, char *why, size_t why_len) = takeover_build;

	if (argc != 2 || reader == NULL)
		return 1;
	golden = argv[1];
	return cmocka_run_group_tests_name("control: golden", tests, NULL, NULL);
}
