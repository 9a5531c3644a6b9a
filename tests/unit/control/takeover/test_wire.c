/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between the two processes of a take-over. */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/takeover/wire.h"
#include "dataplane/base/clock.h"
#include "tests/unit/unit.h"

int control_logtype;

static void
make_pair(int ends[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
}

/* The old process refuses and goes on while a commit is under way to it: the new one has to hear the refusal,
 * or two would serve. */
static void
test_refusal_outlives_an_unread_commit(void **state)
{
	struct takeover_message message;
	int ends[2];

	make_pair(ends);
	assert_int_equal(takeover_say(ends[1], TAKEOVER_COMMIT, 0, NULL, 0, clock_now()), 0);
	takeover_refuse(ends[0], "not ready in time");
	close(ends[0]);
	assert_int_equal(takeover_hear(ends[1], &message, clock_now()), TAKEOVER_REFUSED);
	assert_string_equal(message.text, "not ready in time");
	assert_int_equal(takeover_hear(ends[1], &message, clock_now()), -EPIPE);
	close(ends[1]);
}

static void
test_end_without_a_word(void **state)
{
	struct takeover_message message;
	int ends[2];

	make_pair(ends);
	assert_int_equal(takeover_hear(ends[1], &message, clock_now()), -ETIMEDOUT);
	assert_int_equal(takeover_say(ends[1], TAKEOVER_COMMIT, 0, NULL, 0, clock_now()), 0);
	close(ends[0]);
	/* Without a deadline, too. */
	assert_int_equal(takeover_hear(ends[1], &message, UINT64_MAX), -EPIPE);
	close(ends[1]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refusal_outlives_an_unread_commit),
		cmocka_unit_test(test_end_without_a_word),
	};

	return cmocka_run_group_tests_name("control: take-over", tests, NULL, NULL);
}
