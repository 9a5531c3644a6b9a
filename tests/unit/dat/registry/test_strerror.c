/* SPDX-License-Identifier: BSD-3-Clause */
/* dat_strerror() returns the names of symbols. */
#include "fixture.h"

static void
names(DAT_RETURN value, const char *major, const char *minor)
{
	const char *got_major = NULL, *got_minor = NULL;

	assert_ok(dat_strerror(value, &got_major, &got_minor));
	assert_string_equal(got_major, major);
	assert_string_equal(got_minor, minor);
}

static void
known_codes(void **state)
{
	names(DAT_SUCCESS, "DAT_SUCCESS", "");
	names(DAT_QUEUE_EMPTY, "DAT_QUEUE_EMPTY", "");
	names(DAT_CLASS_ERROR | DAT_QUEUE_EMPTY, "DAT_QUEUE_EMPTY", "");
	names(BAD_STATE(EP_CONNECTED), "DAT_INVALID_STATE", "DAT_INVALID_STATE_EP_CONNECTED");
	names(BAD_ARG(1), "DAT_INVALID_PARAMETER", "DAT_INVALID_ARG1");
	names(ERROR(DAT_PROVIDER_NOT_FOUND, DAT_THREAD_SAFETY_NOT_FOUND), "DAT_PROVIDER_NOT_FOUND",
	      "DAT_THREAD_SAFETY_NOT_FOUND");
	names(ERROR(DAT_CONN_QUAL_UNAVAILABLE, 0), "DAT_CONN_QUAL_UNAVAILABLE", "");
	names(ERROR(DAT_NOT_IMPLEMENTED, 0), "DAT_NOT_IMPLEMENTED", "");
}

/* All 22 types and all 102 subtypes, and no others. */
static void
every_code(void **state)
{
	const char *major, *minor;
	uint32_t types = 0, subtypes = 0;

	for (uint32_t type = 0; type < 0x4000; type++)
		types += dat_strerror(type << 16, &major, &minor) == DAT_SUCCESS;
	assert_int_equal(types, 22);
	for (uint32_t subtype = 0; subtype <= 0xffff; subtype++)
		subtypes += dat_strerror(subtype, &major, &minor) == DAT_SUCCESS;
	assert_int_equal(subtypes, 102);
}

static void
wrong_arguments(void **state)
{
	const char *major = NULL, *minor = NULL;

	assert_ret(dat_strerror(0x00150000, &major, &minor), BAD_ARG(1));
	assert_non_null(major);
	assert_string_equal(minor, "");
	assert_ret(dat_strerror(102, &major, &minor), BAD_ARG(1));
	assert_string_equal(major, "DAT_SUCCESS");
	assert_non_null(minor);
	assert_ok(dat_strerror(DAT_SUCCESS, &major, NULL));
	minor = NULL;
	assert_ret(dat_strerror(DAT_SUCCESS, NULL, &minor), BAD_ARG(2));
	assert_string_equal(minor, "");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_codes),
		cmocka_unit_test(every_code),
		cmocka_unit_test(wrong_arguments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
