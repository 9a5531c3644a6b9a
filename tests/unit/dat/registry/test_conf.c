/* SPDX-License-Identifier: BSD-3-Clause */
/* The parser of dat.conf, and the IA parameters of oneside's entries. */
#include "fixture.h"

#include <errno.h>

#include "dat/params.h"
#include "dat/registry/conf.h"

static struct conf_entry *
parse(const char *line, int expected)
{
	struct conf_entry *entry = NULL;

	assert_int_equal(conf_parse_line(line, &entry), expected);
	assert_int_equal(entry != NULL, expected == 1);
	return entry;
}

static void
good_lines(void **state)
{
	struct conf_entry *e =
		parse("OpenIB-cma u1.2 nonthreadsafe default libdaplcma.so.1 dapl.1.2 \"ib0 0\" \"\"", 1);

	assert_string_equal(e->info.ia_name, "OpenIB-cma");
	assert_int_equal(e->info.dapl_version_major, 1);
	assert_int_equal(e->info.dapl_version_minor, 2);
	assert_false(e->info.is_thread_safe);
	assert_string_equal(e->library, "libdaplcma.so.1");
	assert_string_equal(e->params, "ib0 0");
	assert_string_equal(e->platform, "");
	assert_false(conf_is_ours(e));
	conf_free(e);

	e = parse(
		"\t\"my ia\"  u2.0\tthreadsafe default /lib/libdat.so.1 a.b.c.10.20 \"a \\\"quoted\\\" \\\\ word\" \"driver_name=tavor\" # and a comment",
		1);
	assert_string_equal(e->info.ia_name, "my ia");
	assert_int_equal(e->info.dapl_version_major, 2);
	assert_true(e->info.is_thread_safe);
	assert_string_equal(e->params, "a \"quoted\" \\ word");
	assert_string_equal(e->platform, "driver_name=tavor");
	assert_true(conf_is_ours(e));
	conf_free(e);

	e = parse("x u1.2 threadsafe default builtin one.0.1 p q#comment", 1);
	assert_string_equal(e->platform, "q");
	assert_true(conf_is_ours(e));
	conf_free(e);
}

static void
lines_of_no_interest(void **state)
{
	parse("", 0);
	parse("   \t ", 0);
	parse("# ib0 u1.2 nonthreadsafe default lib.so dapl.1.2 \"\" \"\"", 0);
	parse("ib0 k1.2 nonthreadsafe default lib.so dapl.1.2 \"\" \"\"", 0);
	parse("ib0 u1.2 nonthreadsafe nondefault lib.so dapl.1.2 \"\" \"\"", 0);
}

static void
malformed_lines(void **state)
{
	static const char *const lines[] = {
		"ib0",
		"ib0 u1.2 nonthreadsafe default lib.so dapl.1.2 \"\"",
		"ib0 u1.2 nonthreadsafe default lib.so dapl.1.2 \"\" \"\" more",
		"ib0 1.2 nonthreadsafe default lib.so dapl.1.2 \"\" \"\"",
		"ib0 u1 nonthreadsafe default lib.so dapl.1.2 \"\" \"\"",
		"ib0 u1.2x nonthreadsafe default lib.so dapl.1.2 \"\" \"\"",
		"ib0 u.2 nonthreadsafe default lib.so dapl.1.2 \"\" \"\"",
		"ib0 u1.99999999999 nonthreadsafe default lib.so dapl.1.2 \"\" \"\"",
		"ib0 u1.-2 nonthreadsafe default lib.so dapl.1.2 \"\" \"\"",
		"ib0 u1.2 safe default lib.so dapl.1.2 \"\" \"\"",
		"ib0 u1.2 threadsafe yes lib.so dapl.1.2 \"\" \"\"",
		"ib0 u1.2 threadsafe default \"\" dapl.1.2 \"\" \"\"",
		"ib0 u1.2 threadsafe default lib.so dapl \"\" \"\"",
		"ib0 u1.2 threadsafe default lib.so dapl.1 \"\" \"\"",
		"ib0 u1.2 threadsafe default lib.so .1.2 \"\" \"\"",
		"ib0 u1.2 threadsafe default lib.so dapl.1.x \"\" \"\"",
		"\"\" u1.2 threadsafe default lib.so dapl.1.2 \"\" \"\"",
		"ib0 u1.2 threadsafe default lib.so dapl.1.2 \"\" \"open",
		"ib0 u1.2 threadsafe default lib.so dapl.1.2 \"\" \"open\\\"",
		"ib0 u1.2 threadsafe default lib.so dapl.1.2 \"a\"b \"\"",
	};
	char name[400];

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		parse(lines[i], -EINVAL);
	/* a name of 255 characters is the longest */
	memset(name, 'n', sizeof(name));
	strcpy(&name[255], " u1.2 threadsafe default lib.so dapl.1.2 \"\" \"\"");
	conf_free(parse(name, 1));
	memset(name, 'n', 256);
	strcpy(&name[256], " u1.2 threadsafe default lib.so dapl.1.2 \"\" \"\"");
	parse(name, -EINVAL);
}

/* A file is read on after malformed lines, and keeps its order. */
static void
whole_file(void **state)
{
	char text[] = "# first\n"
		      "a u1.2 threadsafe default liba.so x.1.2 \"\" \"\"\n"
		      "nonsense\n"
		      "b u2.0 nonthreadsafe default libb.so x.1.2 \"\" \"\"\n"
		      "\n"
		      "a u1.2 threadsafe default libc.so x.1.2 \"\" \"\"";
	FILE *file = fmemopen(text, strlen(text), "r");
	struct conf_entry *list = NULL;
	int first = 0;

	assert_non_null(file);
	assert_int_equal(conf_parse(file, &list, &first), 1);
	assert_int_equal(first, 3);
	fclose(file);
	assert_string_equal(list->library, "liba.so");
	assert_string_equal(list->next->library, "libb.so");
	assert_string_equal(list->next->next->library, "libc.so");
	assert_null(list->next->next->next);
	conf_free(list);
}

static void
parameters(void **state)
{
	char sock[16], port[8];

	assert_ok(ia_params("", sock, sizeof(sock), port, sizeof(port)));
	assert_string_equal(sock, "");
	assert_string_equal(port, "");
	assert_ok(ia_params("  socket=/a/b\tport=p0 ", sock, sizeof(sock), port, sizeof(port)));
	assert_string_equal(sock, "/a/b");
	assert_string_equal(port, "p0");
	assert_ok(ia_params("p1", sock, sizeof(sock), port, sizeof(port)));
	assert_string_equal(port, "p1");
	assert_true(ia_params("speed=9", sock, sizeof(sock), port, sizeof(port)) != DAT_SUCCESS);
	assert_true(ia_params("port=12345678", sock, sizeof(sock), port, sizeof(port)) != DAT_SUCCESS);
	assert_true(ia_params("socket=/123456789/12345", sock, sizeof(sock), port, sizeof(port)) !=
		    DAT_SUCCESS);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_lines),      cmocka_unit_test(lines_of_no_interest),
		cmocka_unit_test(malformed_lines), cmocka_unit_test(whole_file),
		cmocka_unit_test(parameters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
