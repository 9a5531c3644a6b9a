/* SPDX-License-Identifier: BSD-3-Clause */
/* Listening sockets that a process takes over from another. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/base/listening.h"
#include "tests/unit/unit.h"

static char folder[] = "/tmp/oneside-listening-XXXXXX";
static char used[64], dropped[64];

/* Returns the process that a caller of the socket sees, or -errno. */
static int
process_at(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct ucred cred = {.pid = 0};
	socklen_t len = sizeof(cred);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0), error = 0;

	strcpy(address.sun_path, path);
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
	    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0)
		error = -errno;
	close(fd);
	return error != 0 ? error : (int)cred.pid;
}

/* Returns 0 if the sockets are the successor's as they should be. */
static int
succeed(const int fds[2], pid_t old)
{
	struct listening listening;
	struct stat st;
	char why[256];

	if (!listening_inherit(fds[0]) || !listening_inherit(fds[1]))
		return 1;
	if (listening_open(&listening, "socket", used, 0600, why, sizeof(why)) != 0 || listening.fd != fds[0])
		return 2;
	/* Until the commit, all is as before. */
	if (process_at(used) != old || process_at(dropped) != old)
		return 3;
	listening_commit();
	if (process_at(used) != getpid())
		return 4;
	if (stat(used, &st) != 0 || (st.st_mode & 0777) != 0600)
		return 5;
	if (process_at(dropped) != -ENOENT || stat(dropped, &st) == 0)
		return 6;
	listening_close(&listening);
	return process_at(used) == -ENOENT ? 0 : 7;
}

static void
test_successor(void **state)
{
	struct listening first, second;
	int fds[2], status;
	char why[256];
	pid_t old = getpid(), child;

	assert_non_null(mkdtemp(folder));
	snprintf(used, sizeof(used), "%s/used", folder);
	snprintf(dropped, sizeof(dropped), "%s/dropped", folder);
	assert_int_equal(listening_open(&first, "socket", used, 0666, why, sizeof(why)), 0);
	assert_int_equal(listening_open(&second, "metrics", dropped, 0666, why, sizeof(why)), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		fds[0] = dup(first.fd);
		fds[1] = dup(second.fd);
		close(first.fd);
		close(second.fd);
		_exit(succeed(fds, old));
	}
	/* The old process ends without touching the sockets. */
	close(first.fd);
	close(second.fd);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(rmdir(folder), 0);
	/* The list of open sockets must not point to this function's variables. */
	first.fd = second.fd = -1;
	listening_close(&first);
	listening_close(&second);
}

/* Returns a socket that listens at a port of two bytes that a name of a file may have. */
static int
listen_inet(struct sockaddr_in *address)
{
	socklen_t len = sizeof(*address);
	uint8_t byte[2];
	int fd;

	for (;;) {
		*address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
		fd = socket(AF_INET, SOCK_STREAM, 0);
		assert_int_equal(bind(fd, (const struct sockaddr *)address, sizeof(*address)), 0);
		assert_int_equal(listen(fd, 1), 0);
		assert_int_equal(getsockname(fd, (struct sockaddr *)address, &len), 0);
		memcpy(byte, &address->sin_port, sizeof(byte));
		if (byte[0] != 0 && byte[1] != 0 && byte[0] != '/' && byte[1] != '/')
			return fd;
		close(fd);
	}
}

/* A TCP socket that the successor does not want has no file: none is removed. */
static void
test_inet_dropped(void **state)
{
	char inside[] = "/tmp/oneside-listening-XXXXXX", name[3 + sizeof(struct in_addr)] = "";
	struct sockaddr_in address;
	int fd = listen_inet(&address), file;

	/* The name that the address would be as a path. */
	memcpy(name, &address.sin_port, 2);
	memcpy(name + 2, &address.sin_addr, sizeof(address.sin_addr));
	assert_non_null(mkdtemp(inside));
	assert_int_equal(chdir(inside), 0);
	file = open(name, O_CREAT | O_WRONLY, 0600);
	assert_true(file >= 0);
	close(file);
	assert_true(listening_inherit(fd));
	listening_commit();
	assert_int_equal(fcntl(fd, F_GETFD), -1); /* callers wait for nobody */
	assert_int_equal(unlink(name), 0);
	assert_int_equal(chdir("/"), 0);
	assert_int_equal(rmdir(inside), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_successor),
		cmocka_unit_test(test_inet_dropped),
	};

	return cmocka_run_group_tests_name("control: listening", tests, NULL, NULL);
}
