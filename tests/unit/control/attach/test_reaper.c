/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors that take long to close (control/attach/reaper.c) delay the user that sent them, and nobody
 * else. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/unit.h"
#include "tests/unit/control/fds.h"
#include "control/attach/reaper.h"
#include "control/attach/worker.h"
#include "control/base/loop.h"

#define STEP_NS (10 * NS_PER_MS) /* more than the interval of the reapers' polls */

static uint32_t base_fds;
static _Atomic int stuck = -1;
static int listener, peers[16];
static struct sockaddr_in address = {.sin_family = AF_INET};
static uint32_t num_peers;
static sem_t answer;

bool
log_allowed_to(uint32_t uid)
{
	return false;
}

int __real_close(int fd);
int __wrap_close(int fd);

/* Closing `stuck` blocks until `answer`, whatever signals come, as for a file whose server is dead. */
int
__wrap_close(int fd)
{
	int file = fd;

	/* Block once: the descriptor's number may be reused. */
	if (atomic_compare_exchange_strong(&stuck, &file, -1))
		while (sem_wait(&answer) != 0)
			;
	return __real_close(fd);
}

/* Waits until at most `n` descriptors are open; false if that takes too long.  Without `poll` no thread gets
 * a signal. */
static bool
await_fds(uint32_t n, bool poll)
{
	for (int i = 0; i < 20000; i++) {
		control.now += STEP_NS;
		workers_poll();
		if (poll)
			reapers_poll();
		if (count_fds() <= n)
			return true;
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return false;
}

/* A connection with unread data and SO_LINGER: closing it blocks for up to an hour. */
static int
lingering(void)
{
	static char data[1 << 16];
	const struct linger linger = {.l_onoff = 1, .l_linger = 3600};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	peers[num_peers++] = accept(listener, NULL, NULL);
	while (send(fd, data, sizeof(data), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	return fd;
}

static void
close_peers(void)
{
	while (num_peers > 0)
		close(peers[--num_peers]);
}

/* Sends a message of `len` bytes with the descriptor, and closes ours. */
static void
send_fd(int to, int fd, size_t len)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} ancillary;
	struct iovec iov = {"x", len};
	struct msghdr header = {.msg_iov = &iov,
				.msg_iovlen = 1,
				.msg_control = &ancillary,
				.msg_controllen = sizeof(ancillary)};
	struct cmsghdr *cmsg = CMSG_FIRSTHDR(&header);

	memset(&ancillary, 0, sizeof(ancillary));
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(cmsg), &fd, sizeof(fd));
	assert_int_equal(sendmsg(to, &header, 0), len);
	__real_close(fd);
}

/* Returns a socket with `fd` in a queued message. */
static int
holder(int type, int fd, size_t len)
{
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ends), 0);
	send_fd(ends[1], fd, len);
	close(ends[1]);
	return ends[0];
}

/* Returns a listening socket with a queued connection that holds `fd`. */
static int
listening_holder(int fd)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	socklen_t len = sizeof(name);
	int server = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int client = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(server, (struct sockaddr *)&name, sizeof(name.sun_family)), 0);
	assert_int_equal(listen(server, 1), 0);
	assert_int_equal(getsockname(server, (struct sockaddr *)&name, &len), 0);
	assert_int_equal(connect(client, (struct sockaddr *)&name, len), 0);
	send_fd(client, fd, 1);
	close(client);
	return server;
}

/* The reapers need no signals here: no close() blocks at all. */
static void
test_queues(void **state)
{
	reaper_discard(1, lingering());
	reaper_discard(1, holder(SOCK_STREAM, lingering(), 1));
	reaper_discard(1, holder(SOCK_DGRAM, holder(SOCK_SEQPACKET, lingering(), 1), 1));
	reaper_discard(1, listening_holder(lingering()));
	reaper_close_socket(1, holder(SOCK_SEQPACKET, lingering(), 1));
	reaper_close_socket(1, holder(SOCK_SEQPACKET, lingering(), 0)); /* the message has no bytes */
	/* The peers remain, and an eventfd of each of the user's two workers. */
	assert_true(await_fds(base_fds + num_peers + 2, false));
	close_peers();
	assert_true(await_fds(base_fds, true));
}

/* A file that does not close delays what its user sends later, and nothing else. */
static void
test_stuck(void **state)
{
	uint32_t before;

	stuck = open("/dev/null", O_RDONLY | O_CLOEXEC);
	reaper_discard(1, stuck);
	while (!reaper_full(1))
		reaper_discard(1, dup(STDIN_FILENO));
	assert_false(reaper_stuck(1));
	before = count_fds();
	/* Other users' descriptors, and this user's own connections, are still closed, even connections with
	 * lingering descriptors in unread messages: the user's full reaper does not take those, so the
	 * kernel closes them, and a signal interrupts it. */
	for (int i = 0; i < 200; i++) {
		reaper_close_socket(2, socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
		reaper_close_socket(1, socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
		reaper_discard(2, dup(STDIN_FILENO));
	}
	assert_true(await_fds(before + 2, false));
	reaper_close_socket(2, holder(SOCK_SEQPACKET, lingering(), 1));
	assert_true(await_fds(before + num_peers + 2, false));
	for (int i = 0; i < 8; i++)
		reaper_close_socket(1, holder(SOCK_SEQPACKET, lingering(), 1));
	assert_true(await_fds(before + num_peers, true));
	assert_true(reaper_full(1));
	for (int i = 0; i < 1000 && !reaper_stuck(1); i++) {
		control.now += STEP_NS;
		reapers_poll();
	}
	assert_true(reaper_stuck(1));
	assert_false(reaper_full(2));
	sem_post(&answer);
	close_peers();
	assert_true(await_fds(base_fds, true));
	assert_false(reaper_full(1));
}

/* Without free descriptors no thread can be made. A connected user has its reapers already; the control
 * thread itself closes descriptors of others. */
static void
test_no_descriptors(void **state)
{
	const int sent = dup(STDIN_FILENO), socket_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0),
		  stranger = dup(STDIN_FILENO);
	struct rlimit before, none;

	assert_int_equal(reaper_hold(1), 0);
	assert_int_equal(reaper_hold(1), 0);
	getrlimit(RLIMIT_NOFILE, &before);
	none = before;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(reaper_hold(2), -EAGAIN);
	reaper_discard(1, sent);
	reaper_discard(2, stranger);
	reaper_close_socket(2, socket_fd);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	/* Two eventfds remain while the user has a connection. */
	assert_true(await_fds(base_fds + 2, true));
	reaper_release(1);
	workers_poll();
	assert_int_equal(count_fds(), base_fds + 2);
	reaper_release(1);
	assert_true(await_fds(base_fds, true));
}

/* So many connections wait for close() that descriptors run short: none is accepted until some are closed. */
static void
test_late(void **state)
{
	struct rlimit limit;
	uint32_t n = 0;

	getrlimit(RLIMIT_NOFILE, &limit);
	assert_false(reapers_late());
	stuck = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	for (reaper_close_socket(1, stuck); !reapers_late(); n++)
		reaper_close_socket(1, socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
	assert_true(n < limit.rlim_cur / 2);
	assert_true(reapers_deadline() <= control.now + STEP_NS);
	sem_post(&answer);
	assert_true(await_fds(base_fds, true));
	assert_false(reapers_late());
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_queues),
		cmocka_unit_test(test_stuck),
		cmocka_unit_test(test_late),
		cmocka_unit_test(test_no_descriptors),
	};
	struct rlimit limit;
	socklen_t len = sizeof(address);

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max < 1024 ? limit.rlim_max : 1024;
	setrlimit(RLIMIT_NOFILE, &limit);
	sem_init(&answer, 0, 0);
	control.epoll = epoll_create1(EPOLL_CLOEXEC);
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(listener, 16) != 0 ||
	    getsockname(listener, (struct sockaddr *)&address, &len) != 0 || workers_init() != 0 ||
	    reapers_start() != 0)
		return 1;
	base_fds = count_fds();
	return cmocka_run_group_tests_name("control: reapers", tests, NULL, NULL);
}
