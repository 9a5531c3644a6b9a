/* SPDX-License-Identifier: BSD-3-Clause */
/* Each kind of memory, registered by verbs, as source and destination of WRITE, READ, SEND and receive. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory_kinds.h"
#include "verbs_side.h"

#define PIECE (1ul << 20)
#define ODD 12345u /* bytes that cross the end of a 2 MiB page */
#define ODD_AT ((2ul << 20) - 777)

static void
whole_there_and_back(struct verbs_side *s, const struct ibv_mr *mr, uint8_t *at, const struct verbs_remote *r,
		     const char *name)
{
	pair_pattern(at, mr->length, 1);
	for (size_t i = 0; i < mr->length; i += PIECE)
		verbs_do(s, IBV_WR_RDMA_WRITE, mr, at + i, PIECE, r, i);
	memset(at, 0, mr->length);
	for (size_t i = 0; i < mr->length; i += PIECE)
		verbs_do(s, IBV_WR_RDMA_READ, mr, at + i, PIECE, r, i);
	CHECK(s->pair, pair_pattern_check(at, mr->length, 1) == mr->length, "%s: written and read", name);
}

/* The server sends each message back. */
static void
message_there_and_back(struct verbs_side *s, const struct ibv_mr *mr, uint8_t *at, const char *name)
{
	uint8_t *back = at + 4 * PIECE - 99;

	pair_pattern(at + ODD_AT, ODD, 7);
	verbs_receive(s, mr, back, ODD);
	verbs_do(s, IBV_WR_SEND, mr, at + ODD_AT, ODD, NULL, 0);
	pair_barrier(s->pair);
	verbs_complete(s, IBV_WC_RECV);
	CHECK(s->pair, pair_pattern_check(back, ODD, 7) == ODD, "%s: sent and received", name);
}

static void
try_memory(struct verbs_side *s, const char *name, uint8_t *at, bool copied, const struct verbs_remote *r)
{
	const char *said;
	struct ibv_mr *mr;

	pair_barrier(s->pair);
	kind_listen();
	mr = ibv_reg_mr(s->pd, at, KIND_SIZE,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	said = kind_copied();
	CHECK(s->pair, mr != NULL, "%s: ibv_reg_mr: %s", name, strerror(errno));
	CHECK(s->pair, (said != NULL) == copied, "%s: %s", name, said != NULL ? said : "in place");
	whole_there_and_back(s, mr, at, r, name);
	message_there_and_back(s, mr, at, name);
	CHECK(s->pair, ibv_dereg_mr(mr) == 0, "%s: ibv_dereg_mr", name);
	CHECK(s->pair, pair_pattern_check(at + ODD_AT, ODD, 7) == ODD, "%s: after deregistering", name);
}

/* A file registered by its descriptor; the program's own mapping shows what arrives. */
static void
try_file(struct verbs_side *s, const struct verbs_remote *r)
{
	int fd = memfd_create("memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct ibv_mr *mr;
	uint8_t *at;

	CHECK(s->pair, ftruncate(fd, KIND_SIZE) == 0, "a memfd: %s", strerror(errno));
	at = mmap(NULL, KIND_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	pair_barrier(s->pair);
	mr = ibv_reg_dmabuf_mr(s->pd, 0, KIND_SIZE, (uintptr_t)at, fd,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	CHECK(s->pair, mr != NULL, "ibv_reg_dmabuf_mr: %s", strerror(errno));
	whole_there_and_back(s, mr, at, r, "a file by its descriptor");
	message_there_and_back(s, mr, at, "a file by its descriptor");
	CHECK(s->pair, ibv_dereg_mr(mr) == 0, "a file by its descriptor: ibv_dereg_mr");
	munmap(at, KIND_SIZE);
	close(fd);
}

/* Sends the number of rounds that the server is to answer. */
static void
announce(struct pair *pair, uint32_t rounds)
{
	pair_send(pair, &rounds, sizeof(rounds));
}

static void
kinds_client(struct pair *pair)
{
	struct verbs_remote r;
	struct verbs_side s;

	verbs_side_start(&s, pair);
	r = verbs_take(&s);
	for (uint32_t i = 0; i < num_memory_kinds; i++) {
		const struct kind *kind = &memory_kinds[i];
		const char *reason = "";
		uint8_t *at = kind->make(&reason);

		if (at == NULL) {
			printf("  left out: %s: %s\n", kind->name, reason);
			continue;
		}
		announce(pair, 2); /* the second round may find the registration cached */
		for (int round = 0; round < 2; round++)
			try_memory(&s, kind->name, at, kind->way == KIND_COPIED, &r);
	}
	announce(pair, 1);
	try_file(&s, &r);
	announce(pair, 0);
	verbs_side_close(&s);
}

static void
answering_server(struct pair *pair)
{
	uint8_t *at = mmap(NULL, KIND_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct verbs_side s;
	struct ibv_mr *mr;
	uint32_t rounds;

	verbs_side_start(&s, pair);
	mr = verbs_register(&s, at, KIND_SIZE);
	verbs_offer(&s, mr);
	for (pair_recv(pair, &rounds, sizeof(rounds)); rounds != 0;
	     pair_recv(pair, &rounds, sizeof(rounds))) {
		for (; rounds > 0; rounds--) {
			verbs_receive(&s, mr, at, ODD);
			pair_barrier(pair);
			verbs_complete(&s, IBV_WC_RECV);
			pair_barrier(pair);
			verbs_do(&s, IBV_WR_SEND, mr, at, ODD, NULL, 0);
		}
	}
	ibv_dereg_mr(mr);
	verbs_side_close(&s);
}

/* ---- without userfaultfd ---- */

/* Forbids userfaultfd by seccomp, as container runtimes do. */
static int
forbid_userfaultfd(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_userfaultfd, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xaa00 /* USERFAULTFD_IOC_NEW */, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
			       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0
		       ? 0
		       : -errno;
}

static void *
wait_for_ever(void *unused)
{
	for (;;)
		pause();
	return unused;
}

/*
 * Memory is adopted in place while the program has one thread, and copied when another thread could not be
 * held back.
 */
static void
seccomp_client(struct pair *pair)
{
	const char *reason = "";
	struct verbs_remote r;
	struct verbs_side s;
	pthread_t thread;
	uint8_t *at;

	CHECK(pair, forbid_userfaultfd() == 0, "seccomp: %s", strerror(errno));
	verbs_side_start(&s, pair);
	r = verbs_take(&s);
	announce(pair, 2);
	at = memory_kinds[0].make(&reason);
	CHECK(pair, at != NULL, "%s", reason);
	try_memory(&s, "one thread without userfaultfd", at, false, &r);
	CHECK(pair, pthread_create(&thread, NULL, wait_for_ever, NULL) == 0, "pthread_create");
	try_memory(&s, "two threads without userfaultfd", at, true, &r);
	announce(pair, 0);
	verbs_side_close(&s);
}

/* ---- the data plane shows that memory is copied ---- */

#define SHOWN 65536u

/* SHOW_MEMORY is a command that prints this data plane's memory as JSON. */
static void
shown_client(struct pair *pair)
{
	uint8_t stack[SHOWN];
	struct verbs_remote r;
	struct verbs_side s;
	struct ibv_mr *mr;
	char text[4096];
	FILE *shown;
	size_t n;

	CHECK(pair, getenv("SHOW_MEMORY") != NULL, "SHOW_MEMORY is not set");
	verbs_side_start(&s, pair);
	r = verbs_take(&s);
	memset(stack, 1, sizeof(stack));
	mr = verbs_register(&s, stack, sizeof(stack));
	verbs_do(&s, IBV_WR_RDMA_WRITE, mr, stack, sizeof(stack), &r, 0);
	shown = popen(getenv("SHOW_MEMORY"), "r");
	CHECK(pair, shown != NULL, "popen: %s", strerror(errno));
	n = fread(text, 1, sizeof(text) - 1, shown);
	text[n] = '\0';
	CHECK(pair, pclose(shown) == 0, "%s", text);
	CHECK(pair, strstr(text, "\"method\": \"copied\"") != NULL, "%s", text);
	CHECK(pair, strstr(text, "\"client_copied_bytes\": 65536") != NULL, "%s", text);
	ibv_dereg_mr(mr);
	announce(pair, 0);
	verbs_side_close(&s);
}

static const struct pair_case cases[] = {
	{"kinds", answering_server, kinds_client, false},
	{"seccomp", answering_server, seccomp_client, false},
	{"shown", answering_server, shown_client, false},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
