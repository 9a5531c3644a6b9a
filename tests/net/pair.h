/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests that need two applications: a case has two functions, which run in two processes, each attached to
 * its own data plane (or both to one). The two talk over a pipe: pair_send, pair_recv, pair_barrier.
 *
 * A failed check prints its place and reason, and ends the case in both processes.
 */
#ifndef TESTS_NET_PAIR_H
#define TESTS_NET_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/*
 * Factor of time limits, which assume a processor of one's own: a busy machine may give each process one
 * fiftieth.
 */
#define PAIR_SHARE 50u

struct pair {
	const char *socket; /* of this process's data plane */
	int fd;             /* to the other process of the pair */
	pid_t peer;         /* in the client: the server's process */
	bool local;         /* both processes use one data plane */
	bool failed;
};

struct pair_case {
	const char *name;
	void (*server)(struct pair *pair);
	void (*client)(struct pair *pair);
	bool server_dies; /* the client kills the server by SIGKILL, which is no failure */
};

/*
 * Runs the cases named in argv, or all if none is named: argv = CLIENT_SOCKET SERVER_SOCKET [CASE...].
 * Prints a line for each and "N passed, N failed"; returns the exit status.
 */
int pair_main(int argc, char **argv, const struct pair_case *cases, uint32_t num_cases);

void pair_send(struct pair *pair, const void *data, size_t len);
void pair_recv(struct pair *pair, void *data, size_t len);
void pair_barrier(struct pair *pair);

_Noreturn void pair_fail(struct pair *pair, const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

#define CHECK(pair, condition, ...)                                       \
	do {                                                              \
		if (!(condition))                                         \
			pair_fail(pair, __FILE__, __LINE__, __VA_ARGS__); \
	} while (0)

/*
 * Fill memory with a reproducible pattern, and check it. The check returns the offset of the first
 * difference, or `len`.
 */
void pair_pattern(uint8_t *data, size_t len, uint32_t seed);
size_t pair_pattern_check(const uint8_t *data, size_t len, uint32_t seed);

uint64_t pair_now_ms(void);

#endif
