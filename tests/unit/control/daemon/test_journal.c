/* SPDX-License-Identifier: BSD-3-Clause */
/* The log on standard error: for people, for systemd's journal, and with a reader that is too slow. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/unit.h"

#include <rte_log.h>

#include "control/daemon/daemon.h"

static int saved, reading;
static char text[1 << 17];

/* Makes standard error a pipe; JOURNAL_STREAM names it, or another file. */
static void
begin(bool journal)
{
	struct stat st;
	char name[64];
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	reading = ends[0];
	saved = dup(STDERR_FILENO);
	assert_true(saved >= 0);
	assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
	close(ends[1]);
	assert_int_equal(fstat(STDERR_FILENO, &st), 0);
	snprintf(name, sizeof(name), "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino + !journal);
	setenv("JOURNAL_STREAM", name, 1);
	journal_open();
}

/* Returns the output since the last call. */
static const char *
written(void)
{
	ssize_t n;

	assert_int_equal(fcntl(reading, F_SETFL, O_NONBLOCK), 0);
	n = read(reading, text, sizeof(text) - 1);
	text[n < 0 ? 0 : n] = '\0';
	return text;
}

static int
end(void **state)
{
	dup2(saved, STDERR_FILENO);
	close(saved);
	close(reading);
	unsetenv("JOURNAL_STREAM");
	return 0;
}

static void
test_journal(void **state)
{
	begin(true);
	rte_log(RTE_LOG_ERR, RTE_LOGTYPE_USER1, "one %d\n", 1);
	rte_log(RTE_LOG_NOTICE, RTE_LOGTYPE_USER1, "two\nthree\n");
	assert_string_equal(written(), "<3>one 1\n<5>two\n<5>three\n");
	assert_string_equal(journal_priority(RTE_LOG_EMERG), "<0>");
	assert_string_equal(journal_priority(RTE_LOG_WARNING), "<4>");
	assert_string_equal(journal_priority(RTE_LOG_DEBUG), "<7>");
	assert_string_equal(journal_priority(0), "<0>");
	assert_string_equal(journal_priority(99), "<7>");
}

/* For people a line begins with the time in UTC and the level. */
static void
test_people(void **state)
{
	const char *line;
	int y, mo, d, h, mi, s, ms, len = 0;

	begin(false);
	rte_log(RTE_LOG_WARNING, RTE_LOGTYPE_USER1, "one\n");
	line = written();
	assert_int_equal(sscanf(line, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ %n", &y, &mo, &d, &h, &mi, &s, &ms, &len),
			 7);
	assert_string_equal(line + len, "warning one\n");
	assert_string_equal(journal_priority(RTE_LOG_ERR), "");
}

/* A line written in parts is one line; a line that is too long is cut. */
static void
test_lines(void **state)
{
	static char large[5000];

	begin(true);
	rte_log(RTE_LOG_ERR, RTE_LOGTYPE_USER1, "a");
	assert_string_equal(written(), "");
	rte_log(RTE_LOG_ERR, RTE_LOGTYPE_USER1, "b");
	rte_log(RTE_LOG_ERR, RTE_LOGTYPE_USER1, "c\n");
	assert_string_equal(written(), "<3>abc\n");
	memset(large, 'x', sizeof(large) - 1);
	rte_log(RTE_LOG_ERR, RTE_LOGTYPE_USER1, "%s\n", large);
	rte_log(RTE_LOG_ERR, RTE_LOGTYPE_USER1, "next\n");
	written();
	assert_int_equal(strchr(text, '\n') - text, 2047);
	assert_string_equal(strchr(text, '\n'), "\n<3>next\n");
}

/* With no reader, writing does not block. The lost lines are counted once there is a reader. */
static void
test_nobody_reads(void **state)
{
	char wanted[160];
	int lines = 20000;

	begin(true);
	for (int i = 0; i < lines; i++)
		rte_log(RTE_LOG_ERR, RTE_LOGTYPE_USER1, "line %d\n", i);
	for (const char *at = written(); (at = strchr(at, '\n')) != NULL; at++)
		lines--;
	assert_true(lines > 0);
	rte_log(RTE_LOG_ERR, RTE_LOGTYPE_USER1, "again\n");
	snprintf(
		wanted, sizeof(wanted),
		"<4>control: event=log_lost lines=%d text=\"lines dropped: the reader of standard error was too slow\"\n<3>again\n",
		lines);
	assert_string_equal(written(), wanted);
	rte_log(RTE_LOG_ERR, RTE_LOGTYPE_USER1, "and again\n");
	assert_string_equal(written(), "<3>and again\n");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_journal, end),
		cmocka_unit_test_teardown(test_people, end),
		cmocka_unit_test_teardown(test_lines, end),
		cmocka_unit_test_teardown(test_nobody_reads, end),
	};

	return cmocka_run_group_tests_name("journal", tests, NULL, NULL);
}
