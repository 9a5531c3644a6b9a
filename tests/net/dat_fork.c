/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Children of a uDAPL application, while its peer writes to and reads from its memory: children neither
 * share nor disturb that memory, and the programs that they execute run.
 */
#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dat_pair.h"

#define SIZE (1u << 20)
#define CHILDREN 12

extern char **environ;

/*
 * The peer's rounds, until the server stops it: write one byte value over all memory, read it back,
 * compare.
 */
static void
traffic_client(struct pair *pair)
{
	struct dat_buffer b;
	struct dat_remote r;
	struct dat_side s;
	uint32_t stop = 0, rounds = 0;

	dat_side_open(&s, pair, false);
	dat_buffer_make(&s, &b, 2 * SIZE, DAT_MEM_PRIV_ALL_FLAG);
	dat_side_connect(&s, false);
	dat_remote_take(&s, &r);
	while (stop == 0) {
		uint8_t value = (uint8_t)(rounds++ % 100 + 1);

		memset(b.data, value, SIZE);
		DAT_CHECK(&s, dat_write(s.ep, &b, 0, SIZE, 1, &r, 0, DAT_COMPLETION_DEFAULT_FLAG));
		DAT_CHECK(&s, dat_read(s.ep, &b, SIZE, SIZE, 2, &r, 0, DAT_COMPLETION_BARRIER_FENCE_FLAG));
		dat_side_complete(&s, s.request, 1, DAT_DTO_SUCCESS, SIZE);
		dat_side_complete(&s, s.request, 2, DAT_DTO_SUCCESS, SIZE);
		/* Children store 0xCC in their copies: none of these may be read here. */
		for (size_t i = 0; i < SIZE; i++)
			CHECK(pair, b.data[SIZE + i] == value, "round %u, byte %zu: 0x%02x instead of 0x%02x",
			      rounds, i, b.data[SIZE + i], value);
		pair_send(pair, &rounds, sizeof(rounds));
		pair_recv(pair, &stop, sizeof(stop));
	}
	pair_barrier(pair);
	dat_side_close(&s);
}

/* Answers one round of the peer; `stop` makes it the last. */
static void
round_trip(struct pair *pair, bool stop)
{
	uint32_t rounds, answer = stop;

	pair_recv(pair, &rounds, sizeof(rounds));
	pair_send(pair, &answer, sizeof(answer));
}

static void
expect_status(struct pair *pair, pid_t pid, int expected, const char *what)
{
	int status = -1;

	CHECK(pair, waitpid(pid, &status, 0) == pid, "waitpid: %s", strerror(errno));
	CHECK(pair, WIFEXITED(status) && WEXITSTATUS(status) == expected, "%s ended with status 0x%x", what,
	      status);
}

struct bench {
	struct dat_side s;
	struct dat_buffer b;
	uint8_t *copy;
};

static void
begin(struct bench *x, struct pair *pair)
{
	dat_side_open(&x->s, pair, true);
	dat_buffer_make(&x->s, &x->b, SIZE, DAT_MEM_PRIV_ALL_FLAG);
	x->copy = malloc(SIZE);
	CHECK(pair, x->copy != NULL, "malloc");
	dat_side_connect(&x->s, true);
	dat_buffer_offer(&x->s, &x->b);
	round_trip(pair, false);
}

static void
finish(struct bench *x)
{
	round_trip(x->s.pair, true);
	dat_side_nothing(&x->s, x->s.conn, 20);
	dat_side_nothing(&x->s, x->s.async, 1);
	pair_barrier(x->s.pair);
	/* The memory is the application's own again, with the peer's last write. */
	DAT_CHECK(&x->s, dat_lmr_free(x->b.lmr));
	for (size_t i = 1; i < SIZE; i++)
		CHECK(x->s.pair, x->b.data[i] == x->b.data[0], "byte %zu after dat_lmr_free", i);
	free(x->copy);
	dat_side_close(&x->s);
}

/* In a child: its copy does not change while the peer writes on, and its calls have no effect. */
static int
child_main(struct bench *x)
{
	DAT_EVD_HANDLE async = DAT_HANDLE_NULL;
	DAT_IA_HANDLE ia;
	DAT_PZ_HANDLE pz;
	DAT_EVENT event;

	memcpy(x->copy, x->b.data, SIZE);
	usleep(30000);
	if (memcmp(x->copy, x->b.data, SIZE) != 0)
		return 1;
	memset(x->b.data, 0xCC, SIZE);
	/* Handles of the parent's IA have no effect in a child, and crash nothing. */
	dat_send(x->s.ep, &x->b, 0, 64, 666, DAT_COMPLETION_DEFAULT_FLAG);
	if (dat_evd_dequeue(x->s.request, &event) == DAT_SUCCESS)
		return 2;
	if (dat_pz_create(x->s.ia, &pz) == DAT_SUCCESS)
		return 3;
	if (dat_lmr_free(x->b.lmr) == DAT_SUCCESS && x->b.data[SIZE / 2] != 0xCC)
		return 4;
	/* A child can open an IA of its own. */
	if (dat_ia_open((char[]){"oneside"}, 8, &async, &ia) != DAT_SUCCESS)
		return 5;
	if (dat_pz_create(ia, &pz) != DAT_SUCCESS)
		return 6;
	if (dat_ia_close(ia, DAT_CLOSE_ABRUPT_FLAG) != DAT_SUCCESS)
		return 7;
	return dat_ia_close(x->s.ia, DAT_CLOSE_ABRUPT_FLAG) == DAT_SUCCESS ? 0 : 8;
}

static void
fork_server(struct pair *pair)
{
	pid_t pid[CHILDREN];
	struct bench x;

	begin(&x, pair);
	for (int i = 0; i < CHILDREN; i++) {
		pid[i] = fork();
		if (pid[i] == 0) {
			alarm(30 * PAIR_SHARE);
			_exit(child_main(&x));
		}
		CHECK(pair, pid[i] > 0, "fork: %s", strerror(errno));
		round_trip(pair, false);
	}
	for (int i = 0; i < CHILDREN; i++)
		expect_status(pair, pid[i], 0, "a child");
	/* No post of a child was executed. */
	dat_side_nothing(&x.s, x.s.request, 20);
	finish(&x);
}

/* Children execute programs by fork and exec, posix_spawn, system and popen. */
static void
exec_server(struct pair *pair)
{
	char *const argv[] = {"sh", "-c", "exit 7", NULL};
	struct bench x;

	begin(&x, pair);
	for (int i = 0; i < CHILDREN; i++) {
		char line[32] = "";
		FILE *pipe;
		pid_t pid;

		pid = fork();
		if (pid == 0) {
			memset(x.b.data, 0xCC, SIZE);
			execv("/bin/sh", argv);
			_exit(1);
		}
		CHECK(pair, pid > 0, "fork: %s", strerror(errno));
		expect_status(pair, pid, 7, "a program after fork");
		round_trip(pair, false);
		CHECK(pair, posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ) == 0, "posix_spawn");
		expect_status(pair, pid, 7, "a program of posix_spawn");
		pid = vfork();
		if (pid == 0) {
			execv("/bin/sh", argv);
			_exit(1);
		}
		expect_status(pair, pid, 7, "a program after vfork");
		round_trip(pair, false);
		CHECK(pair, WEXITSTATUS(system("exit 5")) == 5, "system");
		pipe = popen("echo here", "r");
		CHECK(pair,
		      pipe != NULL && fgets(line, sizeof(line), pipe) != NULL && strcmp(line, "here\n") == 0,
		      "popen");
		CHECK(pair, pclose(pipe) == 0, "pclose");
		round_trip(pair, false);
	}
	finish(&x);
}

/* When the parent dies, surviving children do not keep its connection open. */
static void
orphan_server(struct pair *pair)
{
	struct bench x;
	pid_t pid;

	begin(&x, pair);
	pid = fork();
	if (pid == 0) {
		/* The child outlives the client's wait, unless the client has ended. */
		char byte;

		alarm(40 * PAIR_SHARE);
		_exit(recv(pair->fd, &byte, 1, 0) == 0 ? 0 : 1);
	}
	CHECK(pair, pid > 0, "fork: %s", strerror(errno));
	kill(getpid(), SIGKILL);
}

static void
orphan_client(struct pair *pair)
{
	struct dat_remote r;
	struct dat_buffer b;
	struct dat_side s;
	uint32_t rounds = 1, stop;
	uint64_t start;

	dat_side_start(&s, pair, false, &b, 64);
	dat_remote_take(&s, &r);
	pair_send(pair, &rounds, sizeof(rounds));
	pair_recv(pair, &stop, sizeof(stop));
	start = pair_now_ms();
	dat_side_expect_end(&s);
	CHECK(pair, pair_now_ms() - start < 10000 * PAIR_SHARE,
	      "the end of the parent was seen after %llu ms", (unsigned long long)(pair_now_ms() - start));
	dat_side_close(&s);
}

static const struct pair_case cases[] = {
	{"fork", fork_server, traffic_client, false},
	{"exec", exec_server, traffic_client, false},
	{"orphan", orphan_server, orphan_client, true},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
