/* SPDX-License-Identifier: BSD-3-Clause */
/* A process that takes over: its arguments, and what the old process learns of its end. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "control/takeover/launch.h"

#define WORDS 16

static char why[LAUNCH_WHY];

/* Splits at blanks. */
static int
split(char *text, char *word[WORDS])
{
	int n = 0;

	for (char *save = NULL, *next = strtok_r(text, " ", &save); next != NULL;
	     next = strtok_r(NULL, " ", &save))
		word[n++] = next;
	return n;
}

static void
assert_upgrade(const char *from, const char *to)
{
	char text[512], built[512] = "", *word[WORDS], **new;
	int n;

	snprintf(text, sizeof(text), "%s", from);
	n = split(text, word);
	new = takeover_arguments(n, word, "/bin/new");
	assert_non_null(new);
	for (n = 0; new[n] != NULL; n++)
		strcat(strcat(built, n > 0 ? " " : ""), new[n]);
	assert_string_equal(built, to);
	free(new);
}

static void
test_arguments(void **state)
{
	assert_upgrade("old", "/bin/new --file-prefix=rte.1 -- --take-over");
	assert_upgrade("old -l 0,1", "/bin/new -l 0,1 --file-prefix=rte.1 -- --take-over");
	assert_upgrade("old -l 0,1 -- --config f",
		       "/bin/new -l 0,1 --file-prefix=rte.1 -- --config f --take-over");
	assert_upgrade("old --file-prefix x --no-pci --",
		       "/bin/new --no-pci --file-prefix=x.1 -- --take-over");
	/* EAL uses the last one, and takes abbreviations. */
	assert_upgrade("old --file-prefix=x --file-pre y -m 1 --",
		       "/bin/new -m 1 --file-prefix=y.1 -- --take-over");
	assert_upgrade("old --file-prefix", "/bin/new --file-prefix --file-prefix=rte.1 -- --take-over");
	assert_upgrade("old --file-prefix-more --",
		       "/bin/new --file-prefix-more --file-prefix=rte.1 -- --take-over");
	/* Options after the -- are not EAL's. */
	assert_upgrade("old -- --file-prefix=x",
		       "/bin/new --file-prefix=rte.1 -- --file-prefix=x --take-over");
}

/* The names do not grow, and differ from the one before. */
static void
test_prefixes(void **state)
{
	assert_upgrade("old --file-prefix=x.1 -- --take-over", "/bin/new --file-prefix=x.2 -- --take-over");
	assert_upgrade("old --file-prefix=x.2 -- --take-over", "/bin/new --file-prefix=x.1 -- --take-over");
	/* Names of administrators' data planes. */
	assert_upgrade("old --file-prefix=x.1 --", "/bin/new --file-prefix=x.1.1 -- --take-over");
	assert_upgrade("old --file-prefix=x.1.1 -- --take-over",
		       "/bin/new --file-prefix=x.1.2 -- --take-over");
	assert_upgrade("old --file-prefix=x -- --take-over", "/bin/new --file-prefix=x.1 -- --take-over");
	assert_upgrade("old --file-prefix=.1 -- --take-over", "/bin/new --file-prefix=.1.1 -- --take-over");
}

/* Returns after the process has ended; `why` has the reason. */
static void
launch(const char *binary)
{
	int done = eventfd(0, EFD_CLOEXEC);
	struct pollfd ended = {.fd = done, .events = POLLIN};

	assert_int_equal(takeover_launch(binary, done, why, sizeof(why)), 0);
	assert_int_equal(poll(&ended, 1, 60000), 1);
	takeover_launch_join(why);
	close(done);
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no zombie */
	assert_int_equal(errno, ECHILD);
}

static void
assert_why(const char *text)
{
	if (strstr(why, text) == NULL)
		fail_msg("\"%s\" lacks \"%s\"", why, text);
}

static void
test_end(void **state)
{
	launch("/bin/false");
	assert_why("/bin/false has ended without a reason, with status 1");
	launch("/nonexistent/oneside-dataplane");
	assert_why("file /nonexistent/oneside-dataplane: No such file or directory");
	launch("/etc/passwd");
	assert_why("file /etc/passwd: Permission denied");
	assert_int_not_equal(takeover_launch("oneside-dataplane", -1, why, sizeof(why)), 0);
	assert_why("file oneside-dataplane: its path is relative");
}

/* The new process is this program, and reports what it has got. */
static void
test_inherited(void **state)
{
	int leaks = dup(STDIN_FILENO);
	cpu_set_t all, one;

	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	CPU_ZERO(&one);
	for (size_t cpu = 0; CPU_COUNT(&one) == 0; cpu++)
		if (CPU_ISSET(cpu, &all))
			CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0); /* as EAL does */
	setenv("WATCHDOG_PID", "1", 1);
	setenv("WATCHDOG_USEC", "2", 1);
	launch(NULL);
	assert_int_equal(sched_setaffinity(0, sizeof(all), &all), 0);
	close(leaks);
	snprintf(why + strlen(why), 2, ";");
	char text[128];

	snprintf(text, sizeof(text), ": %d processors, 4 descriptors, no watchdog of 1, --take-over;",
		 CPU_COUNT(&all));
	assert_why(text);
}

static void
test_replaced(void **state)
{
	assert_false(takeover_is_replaced());
}

static int
be_new_process(int argc, char **argv)
{
	char text[128];
	cpu_set_t all;
	int open = 0;

	for (int fd = 0; fd < 100; fd++)
		open += fcntl(fd, F_GETFD) >= 0;
	sched_getaffinity(0, sizeof(all), &all);
	snprintf(text, sizeof(text), "%d processors, %d descriptors, %s, %s", CPU_COUNT(&all), open,
		 getenv("WATCHDOG_PID") == NULL && getenv("WATCHDOG_USEC") != NULL ? "no watchdog of 1"
										   : "a watchdog",
		 argv[argc - 1]);
	takeover_explain(text);
	takeover_explain_end();
	return EXIT_FAILURE;
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arguments), cmocka_unit_test(test_prefixes), cmocka_unit_test(test_end),
		cmocka_unit_test(test_inherited), cmocka_unit_test(test_replaced),
	};
	bool is_new = getenv("ONESIDE_REASON_FD") != NULL;

	takeover_remember(argc, argv);
	if (is_new)
		return be_new_process(argc, argv);
	return cmocka_run_group_tests_name("control: launch", tests, NULL, NULL);
}
