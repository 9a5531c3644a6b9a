/* SPDX-License-Identifier: BSD-3-Clause */
/* The layouts, constants and error codes of api/dat2 against the headers of a 2.0 installation. */
#include "tests/unit/unit.h"
#include "dat2/dat2.h"
#include "layout.h"

#define NAME(name) DAT2_##name
#define SUBTYPE(name) {#name, 0},
#define RENAMED(type, ours, theirs) {#type "." #ours, offsetof(DAT2_##type, ours)},

const struct layout layout_ours[] = {
#include "layout.inc"
	{0, 0},
};

#undef SIZE
#undef FIELD
#undef VALUE
#undef ALIKE
#undef SUBTYPE
#undef RENAMED
#define SIZE(type)
#define FIELD(type, member)
#define VALUE(name)
#define ALIKE(name)
#define RENAMED(type, ours, theirs)
#define SUBTYPE(name) {#name, DAT_ERROR(DAT_INVALID_PARAMETER, DAT_##name)},

static const struct layout errors[] = {
#include "layout.inc"
	{"NOT_IMPLEMENTED", DAT_ERROR(DAT_NOT_IMPLEMENTED, DAT_NO_SUBTYPE)},
	{"QUEUE_EMPTY", DAT_QUEUE_EMPTY},
	{"TIMEOUT_EXPIRED", DAT_TIMEOUT_EXPIRED},
	{0, 0},
};

static uint64_t
theirs(const char *name)
{
	for (const struct layout *at = layout_theirs; at->name != NULL; at++) {
		if (strcmp(at->name, name) == 0)
			return at->value;
	}
	fail_msg("%s is not in the list", name);
	return 0;
}

static bool
is_error(const char *name)
{
	for (const struct layout *at = errors; at->name != NULL; at++) {
		if (strcmp(at->name, name) == 0)
			return true;
	}
	return false;
}

static void
layouts_agree(void **state)
{
	uint32_t compared = 0;

	for (const struct layout *at = layout_ours; at->name != NULL; at++) {
		if (is_error(at->name))
			continue;
		if (at->value != theirs(at->name))
			fail_msg("%s: %llu here, %llu there", at->name, (unsigned long long)at->value,
				 (unsigned long long)theirs(at->name));
		compared++;
	}
	assert_true(compared > 200);
}

static void
errors_agree(void **state)
{
	for (const struct layout *at = errors; at->name != NULL; at++) {
		DAT_RETURN converted = dat2_return((DAT_RETURN)at->value);

		if (converted != theirs(at->name))
			fail_msg("%s: %#x here, %#llx there", at->name, converted,
				 (unsigned long long)theirs(at->name));
	}
	assert_int_equal(dat2_return(DAT_SUCCESS), 0);
}

static void
moved_arguments(void **state)
{
	static const uint8_t moved[] = {1, 3};

	assert_int_equal(dat2_return_moved(BAD_ARG(1), moved, 2), dat2_return(BAD_ARG(1)));
	assert_int_equal(dat2_return_moved(BAD_ARG(2), moved, 2), dat2_return(BAD_ARG(3)));
	assert_int_equal(dat2_return_moved(BAD_ARG(3), moved, 2), dat2_return(BAD_ARG(3)));
	assert_int_equal(dat2_return_moved(BAD_HANDLE(EP), moved, 2), dat2_return(BAD_HANDLE(EP)));
	assert_int_equal(dat2_return_moved(DAT_SUCCESS, moved, 2), DAT_SUCCESS);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layouts_agree),
		cmocka_unit_test(errors_agree),
		cmocka_unit_test(moved_arguments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
