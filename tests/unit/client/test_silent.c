/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer on the socket is stuck, or no data plane, or its reply cannot be received: each has an error of its
 * own. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "client/client.h"

/* Let the library's time limits, which are in seconds, expire a hundred times faster. */
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

/* The queue of connections to accept is full. */
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

/* ---- replies ---- */

static const char json[] = "{\"error\": \"a request has to be JSON\"}";

static int
take_request(const struct silent *silent, struct one_msg *msg)
{
	int sock = accept(silent->listener, NULL, NULL);

	assert_true(sock >= 0);
	assert_int_equal(recv(sock, msg, sizeof(*msg), 0), sizeof(*msg));
	return sock;
}

static void *
answer_by_json(void *silent)
{
	struct one_msg msg;
	int sock = take_request(silent, &msg);

	assert_int_equal(send(sock, json, strlen(json), 0), strlen(json));
	close(sock);
	return NULL;
}

/* Reply with two descriptors, for which the process has no room by then. */
static void *
answer_with_descriptors(void *silent)
{
	union {
		char bytes[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control = {.align = {CMSG_LEN(2 * sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
	const int fds[2] = {STDERR_FILENO, STDERR_FILENO};
	struct one_reply reply = {.type = ONE_MSG_HELLO};
	struct iovec iov = {&reply, sizeof(reply)};
	struct msghdr header = {.msg_iov = &iov,
				.msg_iovlen = 1,
				.msg_control = &control,
				.msg_controllen = sizeof(control.bytes)};
	struct rlimit limit;
	struct one_msg msg;
	int sock = take_request(silent, &msg), next = dup(sock);

	close(next);
	memcpy(CMSG_DATA(&control.align), fds, sizeof(fds));
	reply.seq = msg.seq;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = (rlim_t)next;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(sendmsg(sock, &header, 0), sizeof(reply));
	close(sock);
	return NULL;
}

static int
attach_to(struct silent *silent, void *(*answer)(void *))
{
	struct rlimit limit;
	pthread_t thread;
	int error;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(pthread_create(&thread, NULL, answer, silent), 0);
	error = attach(silent);
	pthread_join(thread, NULL);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	return error;
}

static void
test_control_socket(void **state)
{
	assert_int_equal(attach_to(*state, answer_by_json), -EPROTOTYPE);
}

static void
test_no_descriptors(void **state)
{
	assert_int_equal(attach_to(*state, answer_with_descriptors), -EMFILE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_no_answer, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_room_to_wait, setup, teardown),
		cmocka_unit_test_setup_teardown(test_control_socket, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_descriptors, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
