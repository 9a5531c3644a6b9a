/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Applications whose registered memory does not answer: it could not be adopted, and an access to it waits
 * for a page that does not come. Whatever operation uses the memory, other applications on the same core are
 * served as usual. When the page comes after all, the operation completes correctly; when it does not, the
 * memory's owner is detached.
 *
 * The server is the hostile application. An honest application of the same data plane runs next to it; its
 * last request begins and ends while the memory does not answer.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dat_pair.h"
#include "stuck_file.h"

#define SOCKET_MAX 128u
#define PAGES 16u
#define LEN 9000u     /* several packets */
#define WAIT_MS 100u  /* time in which no completion may come */
#define MEANWHILE 50u /* requests of the honest application that must be served meanwhile */

/* ---- the honest application ---- */

struct honest {
	pid_t pid;
	int fd;
	_Atomic uint32_t *served; /* shared with the child; orders no other access */
};

struct report {
	uint32_t requests, slowest_ms;
};

/* Connects two endpoints of one process to each other. */
static void
honest_connect(struct dat_side *s, DAT_EP_HANDLE ep[2])
{
	static char name[] = "oneside";
	DAT_CONN_QUAL qual;
	DAT_IA_ATTR attr;
	DAT_PSP_HANDLE psp;
	DAT_EVENT event;

	DAT_CHECK(s, dat_ia_open(name, 8, &s->async, &s->ia));
	DAT_CHECK(s, dat_pz_create(s->ia, &s->pz));
	DAT_CHECK(s, dat_evd_create(s->ia, 16, DAT_HANDLE_NULL, DAT_EVD_CR_FLAG, &s->cr));
	DAT_CHECK(s, dat_evd_create(s->ia, 16, DAT_HANDLE_NULL, DAT_EVD_CONNECTION_FLAG, &s->conn));
	DAT_CHECK(s, dat_evd_create(s->ia, 64, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &s->recv));
	DAT_CHECK(s, dat_evd_create(s->ia, 64, DAT_HANDLE_NULL, DAT_EVD_DTO_FLAG, &s->request));
	DAT_CHECK(s, dat_ia_query(s->ia, NULL, DAT_IA_FIELD_ALL, &attr, 0, NULL));
	DAT_CHECK(s, dat_psp_create_any(s->ia, &qual, s->cr, DAT_PSP_CONSUMER_FLAG, &psp));
	for (int i = 0; i < 2; i++)
		DAT_CHECK(s, dat_ep_create(s->ia, s->pz, s->recv, s->request, s->conn, NULL, &ep[i]));
	DAT_CHECK(s, dat_ep_connect(ep[0], attr.ia_address_ptr, qual, 10000000, 0, NULL, DAT_QOS_BEST_EFFORT,
				    DAT_CONNECT_DEFAULT_FLAG));
	dat_side_expect(s, s->cr, DAT_CONNECTION_REQUEST_EVENT, 10000, &event);
	DAT_CHECK(s, dat_cr_accept(event.event_data.cr_arrival_event_data.cr_handle, ep[1], 0, NULL));
	for (int i = 0; i < 2; i++)
		dat_side_expect(s, s->conn, DAT_CONNECTION_EVENT_ESTABLISHED, 10000, &event);
	s->ep = ep[0];
}

static void
honest_run(struct pair *pair, int fd, _Atomic uint32_t *served)
{
	struct report report = {0};
	struct dat_remote remote;
	struct dat_buffer b;
	struct dat_side s;
	DAT_EP_HANDLE ep[2];
	char go;

	memset(&s, 0, sizeof(s));
	s.pair = pair;
	honest_connect(&s, ep);
	dat_buffer_make(&s, &b, 4096, DAT_MEM_PRIV_ALL_FLAG);
	remote = (struct dat_remote){
		.address = (uintptr_t)b.data + 2048, .length = 2048, .context = b.rmr_context};
	/*
	 * Report readiness; then write until the other end of the socket is closed, and once more after
	 * that.
	 */
	CHECK(pair, write(fd, "r", 1) == 1, "nobody there");
	for (bool last = false; !last;) {
		uint64_t begin, took;

		last = recv(fd, &go, 1, MSG_DONTWAIT) == 0;
		begin = pair_now_ms();

		DAT_CHECK(&s, dat_write(s.ep, &b, 0, 64, 1, &remote, 0, DAT_COMPLETION_DEFAULT_FLAG));
		dat_side_complete(&s, s.request, 1, DAT_DTO_SUCCESS, 64);
		took = pair_now_ms() - begin;
		report.requests++;
		atomic_store_explicit(served, report.requests, memory_order_relaxed);
		if (took > report.slowest_ms)
			report.slowest_ms = (uint32_t)took;
		usleep(200);
	}
	CHECK(pair, write(fd, &report, sizeof(report)) == (ssize_t)sizeof(report), "nobody there");
	dat_side_close(&s);
}

static void
honest_start(struct pair *pair, struct honest *honest)
{
	void *shared = mmap(NULL, sizeof(*honest->served), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			    -1, 0);
	int fds[2];
	char ready;

	CHECK(pair, shared != MAP_FAILED, "no memory");
	honest->served = shared;
	CHECK(pair, socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0, "no socket pair");
	honest->pid = fork();
	if (honest->pid == 0) {
		close(fds[0]);
		honest_run(pair, fds[1], honest->served);
		_exit(0);
	}
	close(fds[1]);
	honest->fd = fds[0];
	CHECK(pair, read(honest->fd, &ready, 1) == 1, "the honest application does not come up");
}

/* Waits for MEANWHILE more requests. Hangs if the data plane does not serve the honest application. */
static void
honest_await(const struct honest *honest)
{
	uint32_t until = atomic_load_explicit(honest->served, memory_order_relaxed) + MEANWHILE;

	while (atomic_load_explicit(honest->served, memory_order_relaxed) < until)
		usleep(1000);
}

static void
honest_stop(struct pair *pair, const struct honest *honest)
{
	struct report report;
	int status;

	shutdown(honest->fd, SHUT_WR);
	CHECK(pair, recv(honest->fd, &report, sizeof(report), MSG_WAITALL) == (ssize_t)sizeof(report),
	      "the honest application has failed");
	CHECK(pair, waitpid(honest->pid, &status, 0) == honest->pid && status == 0,
	      "the honest application ended badly");
	printf("  beside it: %u requests, the slowest in %u ms\n", report.requests, report.slowest_ms);
	close(honest->fd);
}

/* ---- the hostile application ---- */

/*
 * Registers a private mapping of an ordinary file, which can be read, and then replaces it by the file that
 * does not answer.
 */
static void
make_stuck(struct dat_side *s, struct dat_buffer *b, struct stuck_file *stuck)
{
	size_t size = PAGES * (size_t)sysconf(_SC_PAGESIZE);
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	DAT_REGION_DESCRIPTION region;
	DAT_VLEN registered;
	DAT_VADDR address;

	memset(b, 0, sizeof(*b));
	memset(&region, 0, sizeof(region));
	b->size = size;
	b->data = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	CHECK(s->pair, fd >= 0 && (void *)b->data != MAP_FAILED, "no private mapping");
	close(fd);
	region.for_va = b->data;
	DAT_CHECK(s, dat_lmr_create(s->ia, DAT_MEM_TYPE_VIRTUAL, region, size, s->pz, DAT_MEM_PRIV_ALL_FLAG,
				    &b->lmr, &b->lmr_context, &b->rmr_context, &registered, &address));
	CHECK(s->pair, stuck_file_open(stuck, size), "no file that does not answer");
	CHECK(s->pair,
	      mmap(b->data, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, stuck->fd, 0) == b->data,
	      "no mapping of it");
}

enum what { INTO, OUT_OF, RECEIVE, SOURCE, LANDING };

/* A case in which the server's memory answers late. */
static void
late_server(struct pair *pair, enum what what)
{
	struct dat_buffer b, good;
	struct dat_remote remote;
	struct honest honest;
	struct stuck_file stuck;
	struct dat_side s;

	honest_start(pair, &honest);
	dat_side_open(&s, pair, true);
	make_stuck(&s, &b, &stuck);
	dat_buffer_make(&s, &good, LEN, DAT_MEM_PRIV_ALL_FLAG);
	s.ep = dat_side_ep(&s);
	if (what == RECEIVE)
		DAT_CHECK(&s, dat_recv(s.ep, &b, 1, LEN, 1));
	dat_side_connect(&s, true);
	dat_buffer_offer(&s, &b);
	dat_remote_take(&s, &remote);
	if (what == SOURCE)
		DAT_CHECK(&s, dat_write(s.ep, &b, 1, LEN, 1, &remote, 0, DAT_COMPLETION_DEFAULT_FLAG));
	if (what == LANDING)
		DAT_CHECK(&s, dat_read(s.ep, &b, 1, LEN, 1, &remote, 0, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_nothing(&s, what == RECEIVE ? s.recv : s.request, WAIT_MS);
	honest_await(&honest);
	dat_side_nothing(&s, what == RECEIVE ? s.recv : s.request, 1);
	pair_barrier(pair);
	pair_barrier(pair); /* no completion at the client either */
	honest_stop(pair, &honest);
	stuck_file_answer(&stuck);
	if (what == SOURCE || what == LANDING)
		dat_side_complete(&s, s.request, 1, DAT_DTO_SUCCESS, LEN);
	if (what == RECEIVE)
		dat_side_complete(&s, s.recv, 1, DAT_DTO_SUCCESS, LEN);
	pair_barrier(pair);
	if (what == INTO || what == RECEIVE || what == LANDING)
		CHECK(pair, pair_pattern_check(b.data + 1, LEN, what) == LEN, "wrong data");
	/* Accesses have ended, so freeing does not wait. */
	DAT_CHECK(&s, dat_ep_disconnect(s.ep, DAT_CLOSE_ABRUPT_FLAG));
	DAT_CHECK(&s, dat_lmr_free(b.lmr));
	pair_barrier(pair);
	dat_side_close(&s);
	stuck_file_close(&stuck);
}

static void
late_client(struct pair *pair, enum what what)
{
	struct dat_remote remote;
	struct dat_buffer b;
	struct dat_side s;

	dat_side_open(&s, pair, false);
	dat_buffer_make(&s, &b, LEN, DAT_MEM_PRIV_ALL_FLAG);
	pair_pattern(b.data, LEN, what);
	dat_side_connect(&s, false);
	dat_remote_take(&s, &remote);
	dat_buffer_offer(&s, &b);
	if (what == INTO)
		DAT_CHECK(&s, dat_write(s.ep, &b, 0, LEN, 1, &remote, 1, DAT_COMPLETION_DEFAULT_FLAG));
	if (what == OUT_OF)
		DAT_CHECK(&s, dat_read(s.ep, &b, 0, LEN, 1, &remote, 1, DAT_COMPLETION_DEFAULT_FLAG));
	if (what == RECEIVE)
		DAT_CHECK(&s, dat_send(s.ep, &b, 0, LEN, 1, DAT_COMPLETION_DEFAULT_FLAG));
	pair_barrier(pair);
	dat_side_nothing(&s, s.request, 1);
	pair_barrier(pair);
	if (what == INTO || what == OUT_OF || what == RECEIVE)
		dat_side_complete(&s, s.request, 1, DAT_DTO_SUCCESS, LEN);
	pair_barrier(pair);
	/* The late pages are of zeros. */
	for (size_t i = 0; (what == OUT_OF || what == SOURCE) && i < LEN; i++)
		CHECK(pair, b.data[i] == 0, "wrong data");
	pair_barrier(pair);
	dat_side_close(&s);
}

#define LATE(name, what)                             \
	static void name##_server(struct pair *pair) \
	{                                            \
		late_server(pair, what);             \
	}                                            \
	static void name##_client(struct pair *pair) \
	{                                            \
		late_client(pair, what);             \
	}
LATE(into, INTO)
LATE(out_of, OUT_OF)
LATE(receive, RECEIVE)
LATE(source, SOURCE)
LATE(landing, LANDING)

/*
 * The server's memory never answers: the server is detached, and its peer sees the end of the connection.
 * The pending access delays no other application. (The server itself cannot change its mappings meanwhile.)
 */
static void
never_server(struct pair *pair)
{
	char socket[SOCKET_MAX] = "";
	struct stuck_file stuck;
	struct honest honest;
	struct dat_buffer b;
	struct dat_side s;
	DAT_EVENT event;

	honest_start(pair, &honest);
	dat_side_open(&s, pair, true);
	make_stuck(&s, &b, &stuck);
	dat_side_connect(&s, true);
	dat_buffer_offer(&s, &b);
	dat_side_expect(&s, s.async, DAT_ASYNC_ERROR_IA_CATASTROPHIC, 20000, &event);
	honest_stop(pair, &honest);
	snprintf(socket, sizeof(socket), "%s", pair->socket);
	pair_send(pair, socket, sizeof(socket));
	pair_barrier(pair);
	stuck_file_close(&stuck);
}

static void
never_client(struct pair *pair)
{
	char socket[SOCKET_MAX];
	struct dat_remote remote;
	struct honest honest;
	struct dat_buffer b;
	struct dat_side s;

	dat_side_start(&s, pair, false, &b, LEN);
	dat_remote_take(&s, &remote);
	DAT_CHECK(&s, dat_write(s.ep, &b, 0, LEN, 1, &remote, 1, DAT_COMPLETION_DEFAULT_FLAG));
	dat_side_expect_end(&s);
	dat_side_close(&s);
	/* Applications of the same user can still attach to that data plane. */
	pair_recv(pair, socket, sizeof(socket));
	setenv("ONESIDE_SOCKET", socket, 1);
	honest_start(pair, &honest);
	honest_await(&honest);
	honest_stop(pair, &honest);
	pair_barrier(pair);
}

static const struct pair_case cases[] = {
	{"into", into_server, into_client, false},          {"out_of", out_of_server, out_of_client, false},
	{"receive", receive_server, receive_client, false}, {"source", source_server, source_client, false},
	{"landing", landing_server, landing_client, false}, {"never", never_server, never_client, false},
};

int
main(int argc, char **argv)
{
	struct stuck_file stuck;

	if (!stuck_file_open(&stuck, 4096)) {
		printf("this user cannot mount a file system of its own: nothing is tested\n");
		return 77;
	}
	stuck_file_close(&stuck);
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
