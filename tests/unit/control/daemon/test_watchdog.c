/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages to the service manager in virtual time, while cores run and while one is stuck. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "control/daemon/daemon.h"
#include "dataplane/engine.h"

#define S 1000000000ull
#define CORES 3

int control_logtype;
static uint64_t loops[CORES];
static int manager = -1;

uint32_t
engine_num_cores(void)
{
	return CORES;
}

void
engine_stats(uint32_t core, struct engine_stats *out)
{
	memset(out, 0, sizeof(*out));
	out->loops = loops[core];
}

static void
turn(uint32_t all_but)
{
	for (uint32_t i = 0; i < CORES; i++)
		loops[i] += i != all_but;
}

static int
setup(void **state)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	char name[64];

	(void)state;
	snprintf(name, sizeof(name), "@oneside-watchdog-%d", getpid());
	memcpy(addr.sun_path + 1, name + 1, strlen(name + 1));
	manager = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(manager, (struct sockaddr *)&addr,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name))),
			 0);
	setenv("NOTIFY_SOCKET", name, 1);
	setenv("WATCHDOG_USEC", "8000000", 1);
	unsetenv("WATCHDOG_PID");
	memset(loops, 0, sizeof(loops));
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	return close(manager);
}

/* Returns the number of WATCHDOG=1 messages since the last call; there are no others. */
static unsigned int
reported(void)
{
	char text[64];
	unsigned int count = 0;

	for (ssize_t n; (n = recv(manager, text, sizeof(text), 0)) > 0; count++) {
		assert_int_equal(n, strlen("WATCHDOG=1"));
		assert_memory_equal(text, "WATCHDOG=1", (size_t)n);
	}
	return count;
}

static void
reported_while_all_turn(void **state)
{
	(void)state;
	watchdog_init(100 * S);
	assert_int_equal(watchdog_deadline(), 102 * S); /* a quarter of the manager's interval */
	turn(CORES);
	watchdog_poll(102 * S - 1);
	assert_int_equal(reported(), 0);
	watchdog_poll(102 * S);
	assert_int_equal(reported(), 1);
	assert_int_equal(watchdog_deadline(), 104 * S);
	for (uint64_t now = 104; now < 120; now += 2) {
		turn(CORES);
		watchdog_poll(now * S);
	}
	assert_int_equal(reported(), 8);
}

static void
no_report_while_one_is_stuck(void **state)
{
	(void)state;
	for (uint32_t core = 0; core < CORES; core++) {
		watchdog_init(0);
		turn(CORES);
		watchdog_poll(2 * S);
		assert_int_equal(reported(), 1);
		for (uint64_t now = 4; now < 20; now += 2) {
			turn(core);
			watchdog_poll(now * S);
		}
		assert_int_equal(reported(), 0);
		turn(CORES);
		watchdog_poll(20 * S);
		assert_int_equal(reported(), 1);
	}
}

static void
not_before_a_core_has_begun(void **state)
{
	(void)state;
	watchdog_init(0);
	turn(1);
	watchdog_poll(2 * S);
	assert_int_equal(reported(), 0);
}

/* After a long pause of the control thread there is one message; the next comes after the usual interval. */
static void
reported_once_after_a_gap(void **state)
{
	(void)state;
	watchdog_init(0);
	turn(CORES);
	watchdog_poll(1000 * S);
	watchdog_poll(1000 * S + 1);
	assert_int_equal(reported(), 1);
	assert_int_equal(watchdog_deadline(), 1002 * S);
}

/* A manager that does not read does not block the control thread. */
static void
never_waits(void **state)
{
	(void)state;
	watchdog_init(0);
	for (uint64_t now = 2; now < 20000; now += 2) {
		turn(CORES);
		watchdog_poll(now * S);
	}
	assert_true(reported() > 0);
	turn(CORES);
	watchdog_poll(20000 * S);
	assert_int_equal(reported(), 1);
}

static void
nobody_asks(void **state)
{
	static const char *const none[] = {NULL, "", "0", "3", "-5", "8s", "99999999999999999999"};
	char other[32];

	(void)state;
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
		unsetenv("WATCHDOG_USEC");
		if (none[i] != NULL)
			setenv("WATCHDOG_USEC", none[i], 1);
		watchdog_init(0);
		assert_int_equal(watchdog_deadline(), UINT64_MAX);
		turn(CORES);
		watchdog_poll(100 * S);
	}
	/* WATCHDOG_PID names another process: the variables were inherited. */
	setenv("WATCHDOG_USEC", "8000000", 1);
	snprintf(other, sizeof(other), "%d", getppid());
	setenv("WATCHDOG_PID", other, 1);
	watchdog_init(0);
	assert_int_equal(watchdog_deadline(), UINT64_MAX);
	assert_int_equal(reported(), 0);
	snprintf(other, sizeof(other), "%d", getpid());
	setenv("WATCHDOG_PID", other, 1);
	watchdog_init(0);
	assert_int_equal(watchdog_deadline(), 2 * S);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(reported_while_all_turn, setup, teardown),
		cmocka_unit_test_setup_teardown(no_report_while_one_is_stuck, setup, teardown),
		cmocka_unit_test_setup_teardown(not_before_a_core_has_begun, setup, teardown),
		cmocka_unit_test_setup_teardown(reported_once_after_a_gap, setup, teardown),
		cmocka_unit_test_setup_teardown(never_waits, setup, teardown),
		cmocka_unit_test_setup_teardown(nobody_asks, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
