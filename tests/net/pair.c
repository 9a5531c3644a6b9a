/* SPDX-License-Identifier: BSD-3-Clause */
#include "pair.h"

#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Less than the test's own limit, so that the hanging case is named; more than its longest wait. */
#define CASE_SECONDS 1200
#define FRAMES 64

_Noreturn void
pair_fail(struct pair *pair, const char *file, int line, const char *format, ...)
{
	va_list args;

	fprintf(stderr, "  %s:%d: ", file, line);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\n");
	fflush(stderr);
	_exit(1);
}

void
pair_send(struct pair *pair, const void *data, size_t len)
{
	CHECK(pair, send(pair->fd, data, len, MSG_NOSIGNAL) == (ssize_t)len, "the other process has gone");
}

void
pair_recv(struct pair *pair, void *data, size_t len)
{
	size_t got = 0;

	while (got < len) {
		ssize_t n = recv(pair->fd, (uint8_t *)data + got, len - got, 0);

		if (n < 0 && errno == EINTR)
			continue;
		CHECK(pair, n > 0, "the other process has gone");
		got += (size_t)n;
	}
}

void
pair_barrier(struct pair *pair)
{
	char mine = 'b', theirs;

	pair_send(pair, &mine, 1);
	pair_recv(pair, &theirs, 1);
	CHECK(pair, theirs == 'b', "the two halves of the case are out of step");
}

void
pair_pattern(uint8_t *data, size_t len, uint32_t seed)
{
	uint32_t x = seed * 2654435761u + 1;

	for (size_t i = 0; i < len; i++) {
		x = x * 1664525u + 1013904223u;
		data[i] = (uint8_t)(x >> 24);
	}
}

size_t
pair_pattern_check(const uint8_t *data, size_t len, uint32_t seed)
{
	uint32_t x = seed * 2654435761u + 1;

	for (size_t i = 0; i < len; i++) {
		x = x * 1664525u + 1013904223u;
		if (data[i] != (uint8_t)(x >> 24))
			return i;
	}
	return len;
}

uint64_t
pair_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* Prints a backtrace: the only information from a machine that nobody can inspect. */
static void
on_alarm(int signo)
{
	void *frame[FRAMES];

	backtrace_symbols_fd(frame, backtrace(frame, FRAMES), STDERR_FILENO);
	signal(signo, SIG_DFL);
	raise(signo);
}

static pid_t
start(const struct pair_case *c, bool server, struct pair *pair, int other_fd)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	close(other_fd);
	setenv("ONESIDE_SOCKET", pair->socket, 1);
	/* A hanging case fails. */
	signal(SIGALRM, on_alarm);
	alarm(CASE_SECONDS);
	(server ? c->server : c->client)(pair);
	fflush(stdout);
	_exit(0);
}

static bool
ends_soon(pid_t pid)
{
	for (int i = 0; i < 500; i++) {
		siginfo_t info = {0};

		if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT | WNOHANG) != 0 || info.si_pid == pid)
			return true;
		usleep(10000);
	}
	return false;
}

/*
 * Ends the process that waits for a failed one: it may notice the failure by itself, then gets SIGALRM to
 * print a backtrace, unless the case handles that signal, then SIGKILL.
 */
static void
end_other(pid_t pid)
{
	if (ends_soon(pid))
		return;
	kill(pid, SIGALRM);
	if (!ends_soon(pid))
		kill(pid, SIGKILL);
}

static bool
ended_well(pid_t pid, const char *who, bool may_be_killed)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		return false;
	if (WIFSIGNALED(status)) {
		if (may_be_killed && WTERMSIG(status) == SIGKILL)
			return true;
		fprintf(stderr, "  %s: %s\n", who,
			WTERMSIG(status) == SIGALRM ? "hung" : strsignal(WTERMSIG(status)));
		return false;
	}
	return WEXITSTATUS(status) == 0;
}

static bool
run(const struct pair_case *c, const char *client_socket, const char *server_socket)
{
	struct pair server = {.socket = server_socket}, client = {.socket = client_socket};
	bool server_ok, client_ok;
	pid_t server_pid, client_pid;
	siginfo_t first;
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
		return false;
	server.local = client.local = strcmp(client_socket, server_socket) == 0;
	server.fd = fds[0];
	client.fd = fds[1];
	server_pid = start(c, true, &server, fds[1]);
	client.peer = server_pid;
	client_pid = start(c, false, &client, fds[0]);
	close(fds[0]);
	close(fds[1]);
	if (waitid(P_ALL, 0, &first, WEXITED | WNOWAIT) == 0 &&
	    (first.si_code != CLD_EXITED || first.si_status != 0) &&
	    !(c->server_dies && first.si_pid == server_pid))
		end_other(first.si_pid == client_pid ? server_pid : client_pid);
	client_ok = ended_well(client_pid, "client", false);
	server_ok = ended_well(server_pid, "server", c->server_dies);
	return client_ok && server_ok;
}

int
pair_main(int argc, char **argv, const struct pair_case *cases, uint32_t num_cases)
{
	uint32_t passed = 0, failed = 0;

	if (argc < 3) {
		fprintf(stderr, "usage: %s CLIENT_SOCKET SERVER_SOCKET [CASE...]\ncases:\n", argv[0]);
		for (uint32_t i = 0; i < num_cases; i++)
			fprintf(stderr, "  %s\n", cases[i].name);
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	backtrace((void *[1]){NULL}, 1); /* loads libraries now: a signal handler must not */
	for (uint32_t i = 0; i < num_cases; i++) {
		bool wanted = argc == 3, ok;
		uint64_t before = pair_now_ms();

		for (int k = 3; k < argc; k++)
			wanted |= strcmp(argv[k], cases[i].name) == 0;
		if (!wanted)
			continue;
		ok = run(&cases[i], argv[1], argv[2]);
		printf("%-6s %s (%llu ms)\n", ok ? "ok" : "FAILED", cases[i].name,
		       (unsigned long long)(pair_now_ms() - before));
		ok ? passed++ : failed++;
	}
	printf("%u passed, %u failed\n", passed, failed);
	return failed == 0 && passed > 0 ? 0 : 1;
}
