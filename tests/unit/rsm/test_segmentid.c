/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../unit.h"
#include <rsmapi.h>

#define UNTOUCHED 77u

static char path[] = "/tmp/rsm-segmentid-XXXXXX";
static rsm_memseg_id_t base;
static uint32_t length;

static int
lookup(const char *text, const char *appid)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	base = length = UNTOUCHED;
	return rsm_get_segmentid_range(appid, &base, &length);
}

static void
expect(const char *text, const char *appid, uint32_t want_base, uint32_t want_length)
{
	assert_int_equal(lookup(text, appid), RSM_SUCCESS);
	assert_int_equal(base, want_base);
	assert_int_equal(length, want_length);
}

static void
expect_error(const char *text, const char *appid, int error)
{
	assert_int_equal(lookup(text, appid), error);
	assert_int_equal(base, UNTOUCHED);
	assert_int_equal(length, UNTOUCHED);
}

static void
test_found(void **state)
{
	expect("reserved\tMYAPP\t0x600000\t1000\n", "MYAPP", 0x600000, 1000);
	expect("# comment\n  # another\nreserved OTHER 0x500000 10\nreserved MYAPP 600000 1000\n", "MYAPP",
	       0x600000, 1000);
	expect("reserved MYAPP 0x600000 1000", "MYAPP", 0x600000, 1000); /* no newline at the end */
	expect("  reserved   MYAPP\t 0X6FF00A  1 \r\n", "MYAPP", 0x6ff00a, 1);
	expect("reserved MYAPP 0xffffffff 1\n", "MYAPP", 0xffffffff, 1);
}

static void
test_keyword_and_case(void **state)
{
	expect("reserve MYAPP 0x600000 5\n", "MYAPP", 0x600000, 5);
	expect("RESERVED MyApp 0x600000 5\n", "mYaPP", 0x600000, 5);
	expect_error("keep MYAPP 0x600000 5\n", "MYAPP", RSMERR_BAD_CONF);
	/* Keywords of other applications are ignored. */
	expect("keep OTHER 0x600000 5\nreserved MYAPP 0x700000 6\n", "MYAPP", 0x700000, 6);
}

static void
test_first_entry_counts(void **state)
{
	expect("reserved A 0x600000 5\nreserved A 0x700000 6\n", "A", 0x600000, 5);
}

static void
test_not_found(void **state)
{
	expect_error("", "MYAPP", RSMERR_BAD_APPID);
	expect_error("# reserved MYAPP 0x600000 5\n", "MYAPP", RSMERR_BAD_APPID);
	expect_error("reserved MYAPP2 0x600000 5\n", "MYAPP", RSMERR_BAD_APPID);
}

static void
test_malformed(void **state)
{
	char line[400];

	expect_error("\nreserved MYAPP 0x600000 5\n", "MYAPP", RSMERR_BAD_CONF);
	expect_error("reserved OTHER 0x600000\nreserved MYAPP 0x600000 5\n", "MYAPP", RSMERR_BAD_CONF);
	expect_error("reserved MYAPP 0x600000\n", "MYAPP", RSMERR_BAD_CONF);
	expect_error("reserved MYAPP 0xZZ 5\n", "MYAPP", RSMERR_BAD_CONF);
	expect_error("reserved MYAPP 0x600000 5x\n", "MYAPP", RSMERR_BAD_CONF);
	expect_error("reserved MYAPP 0x600000 -5\n", "MYAPP", RSMERR_BAD_CONF);
	expect_error("reserved MYAPP 0x600000 0\n", "MYAPP", RSMERR_BAD_CONF);
	expect_error("reserved MYAPP 0x1ffffffff 5\n", "MYAPP", RSMERR_BAD_CONF);
	expect_error("reserved MYAPP 0xffffffff 2\n", "MYAPP", RSMERR_BAD_CONF);
	/* Lines after the match are ignored. */
	expect("reserved MYAPP 0x600000 5\n\n", "MYAPP", 0x600000, 5);

	memset(line, 'x', sizeof(line) - 1);
	line[sizeof(line) - 1] = '\0';
	expect_error(line, "MYAPP", RSMERR_BAD_CONF);
	line[0] = '#';
	expect_error(line, "MYAPP", RSMERR_BAD_APPID);
}

static void
test_line_length(void **state)
{
	char text[600];
	int n = snprintf(text, sizeof(text), "reserved MYAPP 0x600000 5");

	memset(text + n, ' ', sizeof(text) - (size_t)n);
	text[255] = '\n';
	text[256] = '\0';
	expect(text, "MYAPP", 0x600000, 5);
	memset(text, ' ', 600);
	text[0] = '#';
	strcpy(text + 500, "\nreserved MYAPP 0x600000 5\n");
	expect(text, "MYAPP", 0x600000, 5);
}

static void
test_pointers(void **state)
{
	assert_int_equal(rsm_get_segmentid_range(NULL, &base, &length), RSMERR_BAD_ADDR);
	assert_int_equal(rsm_get_segmentid_range("A", NULL, &length), RSMERR_BAD_ADDR);
	assert_int_equal(rsm_get_segmentid_range("A", &base, NULL), RSMERR_BAD_ADDR);
}

static void
test_no_file(void **state)
{
	setenv("RSM_SEGMENTID_FILE", "/nonexistent/rsm.segmentid", 1);
	assert_int_equal(rsm_get_segmentid_range("A", &base, &length), RSMERR_BAD_CONF);
	setenv("RSM_SEGMENTID_FILE", path, 1);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_found),     cmocka_unit_test(test_keyword_and_case),
		cmocka_unit_test(test_not_found), cmocka_unit_test(test_first_entry_counts),
		cmocka_unit_test(test_malformed), cmocka_unit_test(test_line_length),
		cmocka_unit_test(test_pointers),  cmocka_unit_test(test_no_file),
	};
	int fd = mkstemp(path), failed;

	if (fd < 0)
		return 1;
	close(fd);
	setenv("RSM_SEGMENTID_FILE", path, 1);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	return failed;
}
