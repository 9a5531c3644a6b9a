/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Processes that export, import, map, revoke, signal and die at random, and check every block they move.
 *
 *   rsm_torture SECONDS SEED SOCKET...      processes are spread over the sockets
 *
 * A segment has an area for every process. A word in an area names its writer and its place. A death or a
 * rebind may leave any mixture of old and new words, but a word that was never stored there is noticed. After
 * a put, an importer gets the block back and compares. An exporter that has withdrawn its segment fills the
 * memory and checks that nobody changes it any more.
 */
#include <errno.h>
#include <rsmapi.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PROCESSES 6u
#define AREA 16384u
#define WORDS (AREA / 8u)
#define SIZE (AREA * PROCESSES + 8192u)
#define SEGMENT 0x500000u
#define IMPORTS 4u

static struct board {
	_Atomic bool stop;
	_Atomic bool failed;
	_Atomic uint32_t node[PROCESSES];
	_Atomic uint64_t puts, gets, maps, signals, events, aborts, withdrawals, deaths, rebinds;
} * board;

static uint32_t self;
static uint64_t random_state;

#define FAIL(...)                                                         \
	do {                                                              \
		fprintf(stderr, "process %u, line %d: ", self, __LINE__); \
		fprintf(stderr, __VA_ARGS__);                             \
		fputc('\n', stderr);                                      \
		atomic_store(&board->failed, true);                       \
		_exit(1);                                                 \
	} while (0)

static uint64_t
number(uint64_t below)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % below;
}

static uint64_t
word_of(uint32_t writer, uint32_t sequence, uint32_t place)
{
	return (uint64_t)(writer + 1) << 56 | (uint64_t)sequence << 24 | place;
}

#define SEQUENCE_BYTES 0x00ffffffff000000ull

/*
 * Can `word` be the rest of storing `of`, interrupted by a rebind or a death? Each byte must be that of
 * `of`, or zero. Bytes set in `any` may have any value.
 */
static bool
is_remains(uint64_t word, uint64_t of, uint64_t any)
{
	for (int k = 0; k < 64; k += 8) {
		uint64_t byte = word >> k & 0xff;

		if ((any >> k & 0xff) == 0 && byte != 0 && byte != (of >> k & 0xff))
			return false;
	}
	return true;
}

/* ---- the exporter ---- */

struct exporter {
	rsmapi_controller_handle_t controller;
	rsm_memseg_export_handle_t export;
	uint64_t *memory, *other;
	bool published;
};

static void
exporter_check(const struct exporter *e)
{
	for (uint32_t k = 0; k < SIZE / 8; k++) {
		uint64_t word = ((volatile uint64_t *)e->memory)[k];

		if (word == 0)
			continue;
		if (k >= WORDS * PROCESSES ||
		    !is_remains(word, word_of(k / WORDS, 0, k % WORDS), SEQUENCE_BYTES))
			FAIL("word %u of the own segment is %#lx", k, word);
	}
}

static void
exporter_publish(struct exporter *e)
{
	rsm_memseg_id_t id = SEGMENT + self;
	int error;

	memset(e->memory, 0, SIZE);
	error = rsm_memseg_export_publish(e->export, &id, NULL, 0);
	if (error == RSMERR_SEGID_IN_USE)
		return; /* still taken by this process's predecessor, which is about to go */
	if (error != RSM_SUCCESS)
		FAIL("publish: %d", error);
	e->published = true;
}

static void
exporter_withdraw(struct exporter *e)
{
	int error;

	exporter_check(e);
	if (number(4) == 0) {
		error = rsm_memseg_export_destroy(e->export);
		if (error == RSM_SUCCESS)
			error = rsm_memseg_export_create(e->controller, &e->export, e->memory, SIZE,
							 RSM_ALLOW_REBIND);
	} else {
		error = rsm_memseg_export_unpublish(e->export);
	}
	if (error != RSM_SUCCESS)
		FAIL("unpublish or destroy: %d", error);
	e->published = false;
	memset(e->memory, 0xEE, SIZE);
	usleep((useconds_t)number(3000));
	for (uint32_t k = 0; k < SIZE / 8; k++)
		if (((volatile uint64_t *)e->memory)[k] != 0xEEEEEEEEEEEEEEEEull)
			FAIL("word %u was changed after the segment was withdrawn: %#lx", k, e->memory[k]);
	atomic_fetch_add(&board->withdrawals, 1);
}

/* Importers may write during a rebind: the new memory may then hold any mixture of their words. */
static void
exporter_rebind(struct exporter *e)
{
	uint64_t *old = e->memory;
	int error;

	memset(e->other, 0, SIZE);
	error = rsm_memseg_export_rebind(e->export, e->other, 0, SIZE);
	if (error != RSM_SUCCESS)
		FAIL("rebind: %d", error);
	e->memory = e->other;
	e->other = old;
	exporter_check(e);
	atomic_fetch_add(&board->rebinds, 1);
}

static void
exporter_step(struct exporter *e)
{
	if (!e->published) {
		exporter_publish(e);
		return;
	}
	switch (number(12)) {
	case 0:
		exporter_withdraw(e);
		break;
	case 1:
		exporter_rebind(e);
		break;
	case 2:
		if (rsm_intr_signal_post(e->export, number(2) ? RSM_SIGPOST_NO_ACCUMULATE : 0) != RSM_SUCCESS)
			FAIL("post to the importers");
		break;
	default:
		while (rsm_intr_signal_wait(e->export, 0) == RSM_SUCCESS)
			atomic_fetch_add(&board->events, 1);
		exporter_check(e);
		break;
	}
}

/* ---- importers ---- */

struct importer {
	rsm_memseg_import_handle_t import; /* NULL: not connected */
	rsmapi_barrier_t barrier;
	uint64_t *map;
	uint32_t sequence;
};

static void
importer_end(struct importer *i)
{
	if (i->map != NULL && rsm_memseg_import_unmap(i->import) != RSM_SUCCESS)
		FAIL("unmap");
	i->map = NULL;
	if (rsm_memseg_import_destroy_barrier(&i->barrier) != RSM_SUCCESS ||
	    rsm_memseg_import_disconnect(i->import) != RSM_SUCCESS)
		FAIL("disconnect");
	i->import = NULL;
}

/* Returns true, and ends the import, if `error` reports its end, which may come at any time. */
static bool
is_over(struct importer *i, int error, const char *what)
{
	if (error == RSM_SUCCESS)
		return false;
	if (error != RSMERR_CONN_ABORTED && error != RSMERR_BARRIER_FAILURE &&
	    error != RSMERR_REMOTE_NODE_UNREACHABLE)
		FAIL("%s: %d", what, error);
	if (i->map != NULL) {
		/* The mapping has become a private copy: stores must not fault. */
		volatile uint64_t *map = i->map;

		for (uint32_t k = 0; k < SIZE / 8; k += 512)
			map[k] = map[k] + 1;
	}
	importer_end(i);
	atomic_fetch_add(&board->aborts, 1);
	return true;
}

static void
importer_begin(struct importer *i, rsmapi_controller_handle_t controller)
{
	uint32_t to = (uint32_t)number(PROCESSES);
	uint32_t node = atomic_load(&board->node[to]);
	void *address = NULL;
	int error;

	if (node == 0)
		return;
	error = rsm_memseg_import_connect(controller, node, SEGMENT + to, RSM_PERM_RDWR, &i->import);
	switch (error) {
	case RSM_SUCCESS:
		break;
	case RSMERR_SEG_NOT_PUBLISHED:
	case RSMERR_CONN_ABORTED:
	case RSMERR_INTERRUPTED:
	case RSMERR_REMOTE_NODE_UNREACHABLE:
	case RSMERR_INSUFFICIENT_RESOURCES:
		i->import = NULL;
		return;
	default:
		FAIL("connect: %d", error);
	}
	memset(&i->barrier, 0, sizeof(i->barrier));
	if (rsm_memseg_import_init_barrier(i->import, RSM_BARRIER_SEGMENT, &i->barrier) != RSM_SUCCESS)
		FAIL("init_barrier");
	if (node != atomic_load(&board->node[self]) || number(2) == 0)
		return;
	error = rsm_memseg_import_map(i->import, &address, RSM_MAP_NONE, RSM_PERM_RDWR, 0, SIZE);
	if (error == RSM_SUCCESS)
		atomic_fetch_add(&board->maps, 1);
	if (error == RSM_SUCCESS)
		i->map = address;
	else
		is_over(i, error, "map");
}

/* Puts pieces of any size in a span, which reports errors only at its end. */
static int
put_span(struct importer *i, off_t at, uint64_t *block, uint32_t count)
{
	int error = RSM_SUCCESS, end;

	if (rsm_memseg_import_set_mode(i->import, RSM_BARRIER_MODE_EXPLICIT) != RSM_SUCCESS ||
	    rsm_memseg_import_open_barrier(&i->barrier) != RSM_SUCCESS)
		FAIL("no span");
	for (uint32_t from = 0, n; from < count; from += n) {
		n = 1 + (uint32_t)number(count - from);
		if (rsm_memseg_import_put(i->import, at + (off_t)from * 8, block + from, n * 8) !=
		    RSM_SUCCESS)
			FAIL("a put inside a span reported something");
		if (error == RSM_SUCCESS && number(3) == 0)
			error = rsm_memseg_import_order_barrier(&i->barrier);
	}
	end = rsm_memseg_import_close_barrier(&i->barrier);
	if (rsm_memseg_import_set_mode(i->import, RSM_BARRIER_MODE_IMPLICIT) != RSM_SUCCESS)
		FAIL("set_mode");
	return error != RSM_SUCCESS ? error : end;
}

static int
put_vector(struct importer *i, off_t at, uint64_t *block, uint32_t count)
{
	rsm_iovec_t pieces[RSM_MAX_SGIOREQS];
	rsm_scat_gath_t sg = {.remote_handle = i->import, .iovec = pieces};
	int error;

	for (uint32_t from = 0, n; from < count; from += n) {
		bool last = sg.io_request_count == RSM_MAX_SGIOREQS - 1;

		n = last ? count - from : 1 + (uint32_t)number(count - from);
		pieces[sg.io_request_count++] = (rsm_iovec_t){.io_type = RSM_VA_TYPE,
							      .local.vaddr = (caddr_t)block,
							      .local_offset = from * 8,
							      .remote_offset = (size_t)at + from * 8,
							      .transfer_length = n * 8};
	}
	error = rsm_memseg_import_putv(&sg);
	if ((error == RSM_SUCCESS) != (sg.io_residual_count == 0))
		FAIL("putv: %d, and %lu entries not done", error, sg.io_residual_count);
	return error;
}

static int
put_block(struct importer *i, off_t at, uint64_t *block, uint32_t count)
{
	switch (number(4)) {
	case 0:
		return rsm_memseg_import_put64(i->import, at, block, count);
	case 1:
		return rsm_memseg_import_put(i->import, at, block, count * 8);
	case 2:
		return put_vector(i, at, block, count);
	default:
		return put_span(i, at, block, count);
	}
}

static void
importer_move(struct importer *i)
{
	uint32_t first = (uint32_t)number(WORDS), count = 1 + (uint32_t)number(number(2) ? 4 : WORDS - first);
	uint64_t block[WORDS], back[WORDS];
	off_t at;
	int error;

	if (first + count > WORDS)
		count = WORDS - first;
	at = (off_t)self * AREA + (off_t)first * 8;
	i->sequence = (i->sequence + 1) & 0xffffff;
	for (uint32_t k = 0; k < count; k++)
		block[k] = word_of(self, i->sequence, first + k);
	memset(back, 0, sizeof(back));
	error = put_block(i, at, block, count);
	if (is_over(i, error, "put"))
		return;
	error = rsm_memseg_import_get(i->import, at, back, count * 8);
	if (is_over(i, error, "get"))
		return;
	atomic_fetch_add(&board->puts, 1);
	for (uint32_t k = 0; k < count; k++) {
		if (back[k] == block[k])
			continue;
		/* A rebind or a new publication since the put has emptied the memory, or a part of it. */
		if (!is_remains(back[k], block[k], 0))
			FAIL("word %u of %u that was put came back as %#lx", k, count, back[k]);
	}
	atomic_fetch_add(&board->gets, 1);
}

static void
importer_step(struct importer *i, rsmapi_controller_handle_t controller)
{
	int error;

	if (i->import == NULL) {
		importer_begin(i, controller);
		return;
	}
	switch (number(16)) {
	case 0:
		importer_end(i);
		break;
	case 1:
		error = rsm_intr_signal_post(i->import, number(2) ? RSM_SIGPOST_NO_ACCUMULATE : 0);
		if (!is_over(i, error, "post"))
			atomic_fetch_add(&board->signals, 1);
		break;
	case 2:
		error = rsm_intr_signal_wait(i->import, (int)number(3));
		if (error != RSMERR_TIMEOUT)
			is_over(i, error, "wait");
		break;
	default:
		importer_move(i);
		break;
	}
}

/* ---- processes ---- */

static void
work(const char *socket)
{
	static char name[] = "p0";
	struct importer importer[IMPORTS] = {{0}};
	struct exporter e = {0};
	rsm_topology_t *topology;

	setenv("ONESIDE_SOCKET", socket, 1);
	if (rsm_get_controller(name, &e.controller) != RSM_SUCCESS ||
	    rsm_get_interconnect_topology(&topology) != RSM_SUCCESS)
		FAIL("no controller");
	e.memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	e.other = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (rsm_memseg_export_create(e.controller, &e.export, e.memory, SIZE, RSM_ALLOW_REBIND) !=
	    RSM_SUCCESS)
		FAIL("create");
	atomic_store(&board->node[self], topology->topology_hdr.local_nodeid);
	rsm_free_interconnect_topology(topology);
	while (!atomic_load(&board->stop)) {
		if (number(8) == 0)
			exporter_step(&e);
		else
			importer_step(&importer[number(IMPORTS)], e.controller);
		if (number(4000) == 0)
			raise(SIGKILL);
	}
	for (uint32_t k = 0; k < IMPORTS; k++)
		if (importer[k].import != NULL)
			importer_end(&importer[k]);
	if (e.published)
		exporter_withdraw(&e);
	if (rsm_memseg_export_destroy(e.export) != RSM_SUCCESS ||
	    rsm_release_controller(e.controller) != RSM_SUCCESS)
		FAIL("destroy or release");
	_exit(0);
}

static pid_t
start(uint32_t index, uint64_t seed, uint32_t life, const char *socket)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	self = index;
	random_state = (seed + 1) * 0x9E3779B97F4A7C15ull ^ (uint64_t)index << 32 ^ life;
	random_state |= 1;
	for (int k = 0; k < 8; k++)
		number(2);
	work(socket);
	_exit(1);
}

static time_t
now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec;
}

int
main(int argc, char **argv)
{
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 0;
	uint32_t sockets = (uint32_t)argc - 3, lives = 0, running = 0;
	pid_t pid[PROCESSES];
	time_t end, stopped = 0;

	if (argc < 4)
		return 2;
	if (seed == 0)
		seed = (uint64_t)time(NULL) ^ (uint64_t)getpid() << 32;
	printf("seed %lu\n", seed);
	fflush(stdout);
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	end = now() + atoi(argv[1]);
	for (uint32_t k = 0; k < PROCESSES; k++, running++)
		pid[k] = start(k, seed, lives++, argv[3 + k % sockets]);
	while (running > 0) {
		int status;
		pid_t dead = waitpid(-1, &status, WNOHANG);

		/* A slow machine gets more time, until something has been tested. */
		if (stopped == 0 && ((now() >= end && board->puts != 0 && board->withdrawals != 0) ||
				     atomic_load(&board->failed))) {
			atomic_store(&board->stop, true);
			stopped = now();
		}
		if (stopped != 0 && now() >= stopped + 20 * 50) {
			fprintf(stderr, "a process hangs\n");
			for (uint32_t k = 0; k < PROCESSES; k++)
				kill(pid[k], SIGABRT);
			return 1;
		}
		if (dead <= 0) {
			usleep(2000);
			continue;
		}
		running--;
		for (uint32_t k = 0; k < PROCESSES; k++) {
			if (pid[k] != dead)
				continue;
			pid[k] = 0x7fffffff; /* no process */
			if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
				atomic_fetch_add(&board->deaths, 1);
			} else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
				fprintf(stderr, "process %u ended with status %#x\n", k, status);
				atomic_store(&board->failed, true);
			}
			if (!atomic_load(&board->stop)) {
				pid[k] = start(k, seed, lives++, argv[3 + k % sockets]);
				running++;
			}
		}
	}
	printf("%lu puts, %lu compared, %lu maps, %lu signals, %lu events, %lu aborted, %lu withdrawals, %lu rebinds, %lu deaths\n",
	       board->puts, board->gets, board->maps, board->signals, board->events, board->aborts,
	       board->withdrawals, board->rebinds, board->deaths);
	if (board->failed || board->puts == 0 || board->withdrawals == 0)
		return 1;
	return 0;
}
