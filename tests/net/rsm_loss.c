/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The peer vanishes under importers that are idle, and comes back.
 *
 *   rsm_loss SOCKET EXPORTERS-SOCKET CUT HEAL     CUT and HEAL are shell commands
 *
 * Both data planes have the default keep-alive time, 2 s.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
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

#define SEGMENT 0x400300u
#define SIZE 65536u
#define SHARE 50u                   /* a busy machine may give each process one fiftieth of a processor */
#define BOUND_MS (3500u * SHARE)    /* the keep-alive time, and a delay for other threads on the processor */
#define CONNECT_MS (13000u * SHARE) /* four keep-alive times after the loss was reported */
#define BACK_MS (30000u * SHARE)

static rsmapi_controller_handle_t controller;
static rsm_node_id_t node; /* of the exporter */
static pid_t exporter;
static char port[] = "p0";

#define CHECK(condition, ...)                                   \
	do {                                                    \
		if (!(condition)) {                             \
			fprintf(stderr, "line %d: ", __LINE__); \
			fprintf(stderr, __VA_ARGS__);           \
			fputc('\n', stderr);                    \
			if (exporter > 0)                       \
				kill(exporter, SIGKILL);        \
			exit(1);                                \
		}                                               \
	} while (0)

static uint64_t
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static bool
is_loss(int error)
{
	return error == RSMERR_CONN_ABORTED || error == RSMERR_REMOTE_NODE_UNREACHABLE;
}

/* Publishes a segment, and again whenever its data plane has come back. */
static void export(const char *socket, int report)
{
	rsm_memseg_export_handle_t segment;
	rsm_topology_t *topology;
	rsm_memseg_id_t id = SEGMENT;
	void *memory = aligned_alloc(4096, SIZE);
	bool reported = false;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setenv("ONESIDE_SOCKET", socket, 1);
	memset(memory, 1, SIZE);
	if (rsm_get_controller(port, &controller) != RSM_SUCCESS ||
	    rsm_get_interconnect_topology(&topology) != RSM_SUCCESS ||
	    rsm_memseg_export_create(controller, &segment, memory, SIZE, 0) != RSM_SUCCESS)
		_exit(1);
	for (;;) {
		int error = rsm_memseg_export_publish(segment, &id, NULL, 0);

		if (error == RSM_SUCCESS && !reported) {
			reported = true;
			if (write(report, &topology->topology_hdr.local_nodeid, sizeof(node)) != sizeof(node))
				_exit(1);
		}
		usleep(100000);
	}
}

static void
start_exporter(const char *socket)
{
	int fds[2];

	CHECK(pipe(fds) == 0, "pipe");
	exporter = fork();
	if (exporter == 0)
		export(socket, fds[1]);
	close(fds[1]);
	CHECK(read(fds[0], &node, sizeof(node)) == sizeof(node), "the exporter does not start");
	close(fds[0]);
}

static _Atomic bool lost; /* the waiting threads have seen the loss */

struct waiter {
	pthread_t thread;
	rsm_memseg_import_handle_t import;
	int error;
	uint64_t at;
};

static void *
wait_for_ever(void *arg)
{
	struct waiter *waiter = arg;

	waiter->error = rsm_intr_signal_wait(waiter->import, -1);
	waiter->at = now_ms();
	return NULL;
}

/* Puts continuously, also at the moment of the loss. */
static void *
put_for_ever(void *arg)
{
	struct waiter *waiter = arg;
	static uint8_t data[SIZE];
	rsmapi_barrier_t barrier = {0};

	waiter->error = rsm_memseg_import_init_barrier(waiter->import, RSM_BARRIER_SEGMENT, &barrier);
	while (waiter->error == RSM_SUCCESS) {
		waiter->error = rsm_memseg_import_put(waiter->import, 0, data, sizeof(data));
		usleep(1000);
	}
	waiter->at = now_ms();
	rsm_memseg_import_destroy_barrier(&barrier);
	return NULL;
}

/* Puts and gets in a span, which reports a loss only at its end. */
static void *
put_in_span(void *arg)
{
	struct waiter *spanner = arg;
	static uint8_t data[SIZE];
	rsmapi_barrier_t barrier = {0};

	spanner->error = rsm_memseg_import_init_barrier(spanner->import, RSM_BARRIER_SEGMENT, &barrier);
	if (spanner->error == RSM_SUCCESS)
		spanner->error = rsm_memseg_import_set_mode(spanner->import, RSM_BARRIER_MODE_EXPLICIT);
	if (spanner->error == RSM_SUCCESS)
		spanner->error = rsm_memseg_import_open_barrier(&barrier);
	while (spanner->error == RSM_SUCCESS && !atomic_load(&lost)) {
		spanner->error = rsm_memseg_import_put(spanner->import, 0, data, 1000);
		if (spanner->error == RSM_SUCCESS)
			spanner->error = rsm_memseg_import_get(spanner->import, 0, data, 1000);
		usleep(1000);
	}
	if (spanner->error == RSM_SUCCESS) {
		spanner->at = now_ms();
		spanner->error = rsm_memseg_import_close_barrier(&barrier);
	}
	rsm_memseg_import_destroy_barrier(&barrier);
	return NULL;
}

static rsm_memseg_import_handle_t
connect_segment(void)
{
	rsm_memseg_import_handle_t import;
	uint64_t start = now_ms();
	int error;

	do {
		error = rsm_memseg_import_connect(controller, node, SEGMENT, RSM_PERM_RDWR, &import);
		CHECK(error == RSM_SUCCESS || now_ms() - start < BACK_MS, "no connection: %d", error);
		if (error != RSM_SUCCESS)
			usleep(50000);
	} while (error != RSM_SUCCESS);
	return import;
}

int
main(int argc, char **argv)
{
	rsm_memseg_import_handle_t idle, polled;
	rsmapi_barrier_t barrier = {0};
	struct waiter waiter, putter, spanner = {0};
	rsm_memseg_import_handle_t none;
	struct pollfd fd;
	uint64_t cut, reported, value = 5;
	int error;

	if (argc != 5)
		return 2;
	alarm(120 * SHARE);
	start_exporter(argv[2]);
	setenv("ONESIDE_SOCKET", argv[1], 1);
	CHECK(rsm_get_controller(port, &controller) == RSM_SUCCESS, "no controller");
	waiter.import = connect_segment();
	idle = connect_segment();
	polled = connect_segment();
	putter.import = connect_segment();
	spanner.import = connect_segment();
	CHECK(rsm_memseg_import_init_barrier(idle, RSM_BARRIER_SEGMENT, &barrier) == RSM_SUCCESS,
	      "init_barrier");
	CHECK(rsm_memseg_import_put64(idle, 0, &value, 1) == RSM_SUCCESS, "put");
	CHECK(rsm_memseg_get_pollfd(polled, &fd) == RSM_SUCCESS, "get_pollfd");
	CHECK(pthread_create(&waiter.thread, NULL, wait_for_ever, &waiter) == 0, "pthread_create");
	sleep(3); /* idle for longer than the keep-alive time, without any effect */
	CHECK(rsm_memseg_import_put64(idle, 0, &value, 1) == RSM_SUCCESS, "put after a time of idleness");
	CHECK(poll(&fd, 1, 0) == 0, "revents %#x while all is well", fd.revents);

	CHECK(pthread_create(&putter.thread, NULL, put_for_ever, &putter) == 0, "pthread_create");
	CHECK(pthread_create(&spanner.thread, NULL, put_in_span, &spanner) == 0, "pthread_create");
	usleep(200000);

	CHECK(system(argv[3]) == 0, "%s", argv[3]);
	cut = now_ms();
	CHECK(poll(&fd, 1, BOUND_MS) == 1 && fd.revents == POLLHUP, "poll after %u ms: %#x",
	      (unsigned)(now_ms() - cut), fd.revents);
	pthread_join(waiter.thread, NULL);
	CHECK(is_loss(waiter.error), "the waiter: %d", waiter.error);
	CHECK(waiter.at <= cut + BOUND_MS, "the waiter is notified after %u ms", (unsigned)(waiter.at - cut));
	pthread_join(putter.thread, NULL);
	CHECK(is_loss(putter.error), "the one that puts: %d", putter.error);
	CHECK(putter.at <= cut + BOUND_MS, "a put is blocked for %u ms", (unsigned)(putter.at - cut));
	atomic_store(&lost, true);
	pthread_join(spanner.thread, NULL);
	CHECK(spanner.at >= cut, "the loss was reported inside the span: %d", spanner.error);
	CHECK(is_loss(spanner.error), "the end of the span: %d", spanner.error);
	error = rsm_memseg_import_connect(controller, node, SEGMENT, RSM_PERM_RDWR, &none);
	CHECK(error == RSMERR_REMOTE_NODE_UNREACHABLE || error == RSMERR_CTLR_NOT_PRESENT,
	      "connecting to what is not there: %d", error);
	CHECK(now_ms() - cut < CONNECT_MS, "connecting to what is not there takes %u ms",
	      (unsigned)(now_ms() - cut));
	printf("notified after %d ms\n", (int)(waiter.at - cut));
	reported = now_ms();
	error = rsm_memseg_import_put64(idle, 0, &value, 1);
	CHECK(is_loss(error), "put: %d", error);
	error = rsm_intr_signal_post(idle, 0);
	CHECK(is_loss(error), "post: %d", error);
	CHECK(now_ms() - reported < BOUND_MS, "blocked for %u ms", (unsigned)(now_ms() - reported));
	CHECK(rsm_memseg_release_pollfd(polled) == RSM_SUCCESS &&
		      rsm_memseg_import_disconnect(polled) == RSM_SUCCESS &&
		      rsm_memseg_import_disconnect(idle) == RSM_SUCCESS &&
		      rsm_memseg_import_disconnect(waiter.import) == RSM_SUCCESS &&
		      rsm_memseg_import_disconnect(putter.import) == RSM_SUCCESS &&
		      rsm_memseg_import_disconnect(spanner.import) == RSM_SUCCESS,
	      "disconnect");

	CHECK(system(argv[4]) == 0, "%s", argv[4]);
	idle = connect_segment();
	CHECK(rsm_memseg_import_init_barrier(idle, RSM_BARRIER_SEGMENT, &barrier) == RSM_SUCCESS,
	      "init_barrier");
	CHECK(rsm_memseg_import_put64(idle, 0, &value, 1) == RSM_SUCCESS, "put after it came back");
	CHECK(rsm_memseg_import_disconnect(idle) == RSM_SUCCESS, "disconnect");
	kill(exporter, SIGKILL);
	waitpid(exporter, NULL, 0);
	return 0;
}
