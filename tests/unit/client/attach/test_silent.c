/* SPDX-License-Identifier: BSD-3-Clause */
/* A data plane that is there and does nothing: it is given up after a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/client.h"

/* The library's times, which are in seconds, pass a hundred times faster. */
int
setsockopt(int sock, int level, int name, const void *value, socklen_t len)
{
	struct timeval time;

	if (level == SOL_SOCKET && (name == SO_RCVTIMEO || name == SO_SNDTIMEO)) {
		memcpy(&time, value, sizeof(time));
		time.tv_usec = time.tv_sec * 10000;
		time.tv_sec = 0;
		value = &time;
	}
	return (int)syscall(SYS_setsockopt, sock, level, name, value, len);
}

struct silent {
	char dir[32];
	struct sockaddr_un addr;
	int listener;
};

static int
setup(void **state)
{
	struct silent *silent = calloc(1, sizeof(*silent));

	assert_non_null(silent);
	strcpy(silent->dir, "/tmp/oneside-silent-XXXXXX");
	assert_non_null(mkdtemp(silent->dir));
	silent->addr.sun_family = AF_UNIX;
	strcat(strcpy(silent->addr.sun_path, silent->dir), "/socket");
	silent->listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	assert_int_equal(bind(silent->listener, (struct sockaddr *)&silent->addr, sizeof(silent->addr)), 0);
	assert_int_equal(listen(silent->listener, 0), 0);
	*state = silent;
	return 0;
}

static int
teardown(void **state)
{
	struct silent *silent = *state;

	close(silent->listener);
	unlink(silent->addr.sun_path);
	rmdir(silent->dir);
	free(silent);
	return 0;
}

static int
attach(const struct silent *silent)
{
	const struct one_attach args = {.kind = ONE_KIND_DAT, .socket = silent->addr.sun_path};
	struct one_client *client;

	return one_attach(&args, &client);
}

static void
test_no_answer(void **state)
{
	assert_int_equal(attach(*state), -ETIMEDOUT);
}

/* Others wait to be accepted, as many as may. */
static void
test_no_room_to_wait(void **state)
{
	const struct silent *silent = *state;
	int others[16], n = 0, failed;

	do {
		others[n] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
		failed = connect(others[n], (const struct sockaddr *)&silent->addr, sizeof(silent->addr));
	} while (failed == 0 && ++n < 16);
	assert_int_equal(failed, -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(attach(silent), -ETIMEDOUT);
	for (int i = 0; i <= n; i++)
		close(others[i]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_answer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_room_to_wait, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
