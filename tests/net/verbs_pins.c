/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that the kernel or a device uses while verbs register it, with a real data plane. Whatever is
 * registered, deregistered, evicted, forked or unmapped meanwhile, device, program and peer see the same
 * bytes.
 *
 * PIN_ROUNDS is the number of rounds. PIN_FILE names a file that may be created, on a file system with direct
 * I/O.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "tests/kernel_moves.h"
#include "tests/uring.h"
#include "verbs_side.h"

#define PAGE 4096ul
#define BUFFER (16 * PAGE)
#define EVICTED 70u /* more ranges than the registration cache holds */

static uint32_t
rounds(void)
{
	const char *text = getenv("PIN_ROUNDS");

	return text != NULL ? (uint32_t)strtoul(text, NULL, 0) : 50;
}

static uint8_t *
pages(struct pair *pair, size_t length)
{
	uint8_t *at = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(pair, at != MAP_FAILED, "mmap: %s", strerror(errno));
	return at;
}

static uint32_t
draw(uint32_t *seed, uint32_t below)
{
	*seed = *seed * 1664525u + 1013904223u;
	return (*seed >> 8) % below;
}

static int
scratch_file(struct pair *pair, const char *suffix, int flags)
{
	char path[256];
	int fd;

	CHECK(pair, getenv("PIN_FILE") != NULL, "PIN_FILE is not set");
	snprintf(path, sizeof(path), "%s.%s", getenv("PIN_FILE"), suffix);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	CHECK(pair, fd >= 0 && ftruncate(fd, BUFFER) == 0, "%s: %s", path, strerror(errno));
	if (flags != 0) {
		close(fd);
		fd = open(path, O_RDWR | O_CLOEXEC | flags);
	}
	unlink(path);
	return fd;
}

/* ---- the peer, whose memory is the other copy ---- */

struct world {
	struct verbs_side side;
	struct verbs_remote remote;
	struct ibv_mr *plain; /* region of `copy` */
	uint8_t *copy;
};

static void
world_start(struct world *w, struct pair *pair)
{
	verbs_side_start(&w->side, pair);
	w->remote = verbs_take(&w->side);
	w->copy = pages(pair, BUFFER);
	w->plain = verbs_register(&w->side, w->copy, BUFFER);
}

static void
world_end(struct world *w)
{
	ibv_dereg_mr(w->plain);
	pair_barrier(w->side.pair);
	verbs_side_close(&w->side);
}

static void
passive_server(struct pair *pair)
{
	struct verbs_side s;
	struct ibv_mr *mr;

	verbs_side_start(&s, pair);
	mr = verbs_register(&s, pages(pair, BUFFER), BUFFER);
	verbs_offer(&s, mr);
	pair_barrier(pair);
	ibv_dereg_mr(mr);
	verbs_side_close(&s);
}

/*
 * Checks that the data plane sends the bytes at `at`, and that the program finds there the bytes that the
 * data plane places.
 */
static void
check_peer(struct world *w, const struct ibv_mr *mr, uint8_t *at, size_t length, uint32_t seed)
{
	struct pair *pair = w->side.pair;

	verbs_do(&w->side, IBV_WR_RDMA_WRITE, mr, at, length, &w->remote, 0);
	verbs_do(&w->side, IBV_WR_RDMA_READ, w->plain, w->copy, length, &w->remote, 0);
	CHECK(pair, memcmp(w->copy, at, length) == 0, "the data plane has sent other bytes");
	pair_pattern(w->copy, length, seed);
	verbs_do(&w->side, IBV_WR_RDMA_WRITE, w->plain, w->copy, length, &w->remote, 0);
	verbs_do(&w->side, IBV_WR_RDMA_READ, mr, at, length, &w->remote, 0);
	CHECK(pair, pair_pattern_check(at, length, seed) == length,
	      "the data plane has placed bytes elsewhere");
}

/* ---- fixed buffers ---- */

struct model {
	struct world world;
	struct uring ring;
	uint8_t *p;
	size_t length; /* of the mapped part */
	uint32_t seed, random, round, action;
	bool pinned;
	struct ibv_mr *mr; /* NULL: not registered */
	int file;
};

/* Checks that the device writes the memory's bytes to the file, and the file's bytes into the memory. */
static void
check_device(struct model *m)
{
	struct pair *pair = m->world.side.pair;
	uint8_t data[BUFFER];
	int length = (int)m->length;

	CHECK(pair, uring_io(&m->ring, IORING_OP_WRITE_FIXED, m->file, m->p, m->length, 0) == length,
	      "WRITE_FIXED");
	CHECK(pair, pread(m->file, data, m->length, 0) == length && memcmp(data, m->p, m->length) == 0,
	      "the device has written other bytes");
	pair_pattern(data, m->length, ++m->seed);
	CHECK(pair, pwrite(m->file, data, m->length, 0) == length, "pwrite");
	CHECK(pair, uring_io(&m->ring, IORING_OP_READ_FIXED, m->file, m->p, m->length, 0) == length,
	      "READ_FIXED");
	CHECK(pair, memcmp(data, m->p, m->length) == 0, "the device has read bytes to elsewhere");
}

static void
check_all(struct model *m)
{
	struct pair *pair = m->world.side.pair;

	CHECK(pair, pair_pattern_check(m->p, m->length, m->seed) == m->length,
	      "round %u, action %u: the memory has changed at %zu of %zu", m->round, m->action,
	      pair_pattern_check(m->p, m->length, m->seed), m->length);
	pair_pattern(m->p, m->length, ++m->seed);
	if (m->pinned)
		check_device(m);
	if (m->mr != NULL)
		check_peer(&m->world, m->mr, m->p, m->length, ++m->seed);
	if (m->pinned)
		check_device(m);
}

static void
change_registration(struct model *m)
{
	if (m->mr == NULL)
		m->mr = verbs_register(&m->world.side, m->p, m->length);
	else if (ibv_dereg_mr(m->mr) == 0)
		m->mr = NULL;
}

static void
change_pin(struct model *m)
{
	int error = m->pinned ? uring_unpin(&m->ring) : uring_pin(&m->ring, m->p, m->length);

	CHECK(m->world.side.pair, error == 0, "io_uring_register: %s", strerror(-error));
	m->pinned = !m->pinned;
}

/* A child sees the memory's bytes, and its stores do not change them for the parent. */
static void
fork_child(struct model *m)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		bool same = pair_pattern_check(m->p, m->length, m->seed) == m->length;

		memset(m->p, 0, m->length);
		_exit(same ? 0 : 1);
	}
	CHECK(m->world.side.pair, waitpid(pid, &status, 0) == pid && status == 0, "a child has other bytes");
}

/* Registers and deregisters more memory than stays cached: all that was cached before is given back. */
static void
evict(struct verbs_side *side)
{
	struct pair *pair = side->pair;
	uint8_t *at = pages(pair, EVICTED * 20 * PAGE);
	struct ibv_mr *mr[EVICTED];

	for (uint32_t i = 0; i < EVICTED; i++)
		mr[i] = verbs_register(side, at + i * 20 * PAGE, 19 * PAGE);
	for (uint32_t i = 0; i < EVICTED; i++)
		CHECK(pair, ibv_dereg_mr(mr[i]) == 0, "ibv_dereg_mr");
	munmap(at, EVICTED * 20 * PAGE);
}

/* Unmaps half of the memory; the next time unmaps the rest and maps new memory. */
static void
change_length(struct model *m)
{
	size_t half = BUFFER / 2;

	if (m->mr != NULL)
		change_registration(m);
	if (m->length == BUFFER) {
		munmap(m->p + half, half);
		m->length = half;
		if (m->pinned) /* still pinned with the old length */
			change_pin(m);
		return;
	}
	if (m->pinned)
		change_pin(m);
	munmap(m->p, half);
	m->p = pages(m->world.side.pair, BUFFER);
	m->length = BUFFER;
	pair_pattern(m->p, m->length, m->seed);
}

static void
one_round(struct model *m)
{
	m->round++;
	m->action = draw(&m->random, 12);
	switch (m->action) {
	case 0:
	case 1:
	case 2:
	case 3:
		change_registration(m);
		break;
	case 4:
	case 5:
	case 6:
		change_pin(m);
		break;
	case 7:
	case 8:
		fork_child(m);
		break;
	case 9:
		evict(&m->world.side);
		break;
	default:
		change_length(m);
	}
	check_all(m);
}

static void
fixed_client(struct pair *pair)
{
	struct model m = {.length = BUFFER, .random = 4711};
	int error;

	world_start(&m.world, pair);
	m.p = pages(pair, BUFFER);
	m.file = scratch_file(pair, "fixed", 0);
	pair_pattern(m.p, m.length, m.seed);
	error = uring_open(&m.ring);
	if (error != 0)
		printf("  left out: io_uring: %s\n", strerror(-error));
	for (uint32_t i = 0; error == 0 && i < rounds(); i++)
		one_round(&m);
	if (m.mr != NULL)
		change_registration(&m);
	world_end(&m.world);
}

/* ---- direct I/O in flight ---- */

#define DIRECT (8 * PAGE) /* the first half; the data plane uses the other */

struct reader {
	uint8_t *p;
	int fd;
	_Atomic uint32_t reads, wrong;
	atomic_bool stop;
};

static void *
read_directly(void *argument)
{
	struct reader *r = argument;

	while (!atomic_load(&r->stop)) {
		memset(r->p, 0, DIRECT);
		if (pread(r->fd, r->p, DIRECT, 0) != (ssize_t)DIRECT ||
		    pair_pattern_check(r->p, DIRECT, 3) != DIRECT)
			atomic_fetch_add(&r->wrong, 1);
		atomic_fetch_add(&r->reads, 1);
	}
	return NULL;
}

static bool
reader_start(struct pair *pair, struct reader *r, pthread_t *thread)
{
	pair_pattern(r->p, DIRECT, 3);
	r->fd = scratch_file(pair, "direct", O_DIRECT);
	if (r->fd < 0 || pwrite(r->fd, r->p, DIRECT, 0) != (ssize_t)DIRECT) {
		printf("  left out: direct I/O: %s\n", strerror(errno));
		return false;
	}
	CHECK(pair, pthread_create(thread, NULL, read_directly, r) == 0, "pthread_create");
	return true;
}

static void
direct_client(struct pair *pair)
{
	struct reader r = {.stop = false};
	struct world w;
	pthread_t thread;
	struct ibv_mr *mr;

	world_start(&w, pair);
	r.p = pages(pair, BUFFER);
	if (reader_start(pair, &r, &thread)) {
		for (uint32_t i = 0; i < rounds() || atomic_load(&r.reads) < rounds(); i++) {
			mr = verbs_register(&w.side, r.p, BUFFER);
			check_peer(&w, mr, r.p + DIRECT, BUFFER - DIRECT, i);
			CHECK(pair, ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
			if (i % 8 == 7)
				evict(&w.side);
			CHECK(pair, atomic_load(&r.wrong) == 0, "a direct read went elsewhere, round %u", i);
		}
		atomic_store(&r.stop, true);
		pthread_join(thread, NULL);
		CHECK(pair, atomic_load(&r.wrong) == 0, "a direct read went elsewhere");
	}
	world_end(&w);
}

/* ---- vmsplice, and another process ---- */

/* Stores to the test's memory and reads it back, until killed. */
_Noreturn static void
write_from_outside(pid_t to, uint64_t *word)
{
	struct iovec there = {word, sizeof(*word)};
	uint64_t value = 0, found;
	struct iovec here = {&value, sizeof(value)}, back = {&found, sizeof(found)};

	for (;; value++) {
		if (process_vm_writev(to, &here, 1, &there, 1, 0) == (ssize_t)sizeof(value) &&
		    (process_vm_readv(to, &back, 1, &there, 1, 0) != (ssize_t)sizeof(found) ||
		     found != value))
			_exit(1);
	}
}

/* A pipe holds the bytes that pages had when they were given to it. */
static void
check_vmsplice(struct world *w, uint8_t *p, uint32_t seed)
{
	struct pair *pair = w->side.pair;
	uint8_t out[4 * PAGE];
	struct iovec given = {p, sizeof(out)};
	struct ibv_mr *mr;
	int fd[2];

	CHECK(pair, pipe(fd) == 0, "pipe");
	pair_pattern(p, sizeof(out), seed);
	CHECK(pair, vmsplice(fd[1], &given, 1, 0) == (ssize_t)sizeof(out), "vmsplice: %s", strerror(errno));
	mr = verbs_register(&w->side, p, BUFFER);
	CHECK(pair, read(fd[0], out, sizeof(out)) == (ssize_t)sizeof(out), "read: %s", strerror(errno));
	CHECK(pair, pair_pattern_check(out, sizeof(out), seed) == sizeof(out), "a pipe has other bytes");
	check_peer(w, mr, p, sizeof(out), seed + 1);
	CHECK(pair, ibv_dereg_mr(mr) == 0, "ibv_dereg_mr");
	close(fd[0]);
	close(fd[1]);
}

static void
others_client(struct pair *pair)
{
	uint8_t *p = pages(pair, BUFFER);
	bool found = kernel_moves();
	pid_t child = found ? fork() : -1;
	struct world w;
	int status;

	if (child == 0)
		write_from_outside(getppid(), (uint64_t *)(void *)(p + BUFFER - PAGE));
	CHECK(pair, child > 0 || !found, "fork");
	if (!found)
		printf("  left out: stores of another process, which are not found before Linux 6.8\n");
	world_start(&w, pair);
	for (uint32_t i = 0; i < rounds(); i++)
		check_vmsplice(&w, p, 2 * i);
	CHECK(pair, !found || waitpid(child, &status, WNOHANG) == 0, "a store of another process was lost");
	if (found)
		kill(child, SIGKILL);
	while (found && waitpid(child, &status, 0) < 0 && errno == EINTR)
		;
	world_end(&w);
}

static const struct pair_case cases[] = {
	{"fixed_buffers", passive_server, fixed_client, false},
	{"direct_io", passive_server, direct_client, false},
	{"others", passive_server, others_client, false},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
