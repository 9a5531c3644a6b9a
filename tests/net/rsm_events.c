/* SPDX-License-Identifier: BSD-3-Clause */
/* RSMAPI between two applications: signals, poll descriptors, and waiters when the peer goes. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "rsm_pair.h"

#define LONG_MS ((int)(20000 * PAIR_SHARE))

static void
count_events(struct pair *pair, void *segment, uint32_t expected)
{
	for (uint32_t k = 0; k < expected; k++)
		CHECK(pair, rsm_intr_signal_wait(segment, LONG_MS) == RSM_SUCCESS,
		      "event %u of %u did not come", k, expected);
	RSM_CHECK(pair, rsm_intr_signal_wait(segment, 0), RSMERR_TIMEOUT);
}

/* ---- posting and waiting ---- */

static void
signals_server(struct pair *pair)
{
	struct exporter e;
	rsm_node_id_t peer;
	uint64_t start;

	exporter_open(&e, pair, &peer);
	RSM_CHECK(pair, rsm_intr_signal_wait(e.export, 0), RSMERR_TIMEOUT);
	RSM_CHECK(pair, rsm_intr_signal_post(e.export, 0), RSM_SUCCESS); /* no importer exists */
	start = pair_now_ms();
	RSM_CHECK(pair, rsm_intr_signal_wait(e.export, 100), RSMERR_TIMEOUT);
	CHECK(pair, pair_now_ms() - start >= 99, "a wait of 100 ms took %u",
	      (unsigned)(pair_now_ms() - start));
	publish(&e, pair, peer, 0666);
	pair_barrier(pair); /* the segment is published */
	count_events(pair, e.export, 100);
	pair_barrier(pair); /* signals of the importer that does not accumulate */
	pair_barrier(pair);
	count_events(pair, e.export, 1);
	/* Signals to importers reach both of the peer's import segments. */
	for (int k = 0; k < 50; k++)
		RSM_CHECK(pair, rsm_intr_signal_post(e.export, 0), RSM_SUCCESS);
	pair_barrier(pair);
	pair_barrier(pair); /* the importer has counted them */
	for (int k = 0; k < 50; k++)
		RSM_CHECK(pair, rsm_intr_signal_post(e.export, RSM_SIGPOST_NO_ACCUMULATE), RSM_SUCCESS);
	pair_barrier(pair);
	/* A signal arrives after the data that was put before it. */
	for (uint64_t k = 1; k <= 200; k++) {
		RSM_CHECK(pair, rsm_intr_signal_wait(e.export, -1), RSM_SUCCESS);
		CHECK(pair, *(volatile uint64_t *)(void *)(e.base + 8 * k) == k,
		      "signal %lu came before its data", k);
		RSM_CHECK(pair, rsm_intr_signal_post(e.export, 0), RSM_SUCCESS);
	}
	/* Vectors with an implicit signal. */
	count_events(pair, e.export, 4);
	pair_barrier(pair);
	exporter_close(&e, pair);
}

static void
vector_signals(struct importer *i, struct pair *pair)
{
	uint64_t value = 77;
	rsm_iovec_t iovec = {.io_type = RSM_VA_TYPE, .transfer_length = 8};
	rsm_scat_gath_t sg = {.io_request_count = 1, .remote_handle = i->import, .iovec = &iovec};

	iovec.local.vaddr = (caddr_t)&value;
	sg.flags = RSM_IMPLICIT_SIGPOST;
	for (int k = 0; k < 3; k++)
		RSM_CHECK(pair, rsm_memseg_import_putv(&sg), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_import_getv(&sg), RSM_SUCCESS);
	CHECK(pair, sg.flags == RSM_IMPLICIT_SIGPOST, "flags were changed");
	/* A vector that fails posts no signal. */
	iovec.remote_offset = SIZE;
	RSM_CHECK(pair, rsm_memseg_import_putv(&sg), RSMERR_BAD_LENGTH);
}

static void
signals_client(struct pair *pair)
{
	rsm_memseg_import_handle_t other;
	struct importer i;

	importer_open(&i, pair);
	pair_barrier(pair);
	importer_connect(&i, pair, RSM_PERM_RDWR);
	/* An import without any right to the data can still exchange signals. */
	RSM_CHECK(pair, rsm_memseg_import_connect(i.controller, i.node, SEGMENT, 0, &other), RSM_SUCCESS);
	for (int k = 0; k < 50; k++) {
		RSM_CHECK(pair, rsm_intr_signal_post(i.import, 0), RSM_SUCCESS);
		RSM_CHECK(pair, rsm_intr_signal_post(other, 0), RSM_SUCCESS);
	}
	pair_barrier(pair); /* the exporter has taken all signals */
	for (int k = 0; k < 20; k++)
		RSM_CHECK(pair, rsm_intr_signal_post(i.import, RSM_SIGPOST_NO_ACCUMULATE), RSM_SUCCESS);
	pair_barrier(pair);
	pair_barrier(pair);
	count_events(pair, i.import, 50);
	count_events(pair, other, 50);
	pair_barrier(pair);
	pair_barrier(pair);
	count_events(pair, i.import, 1);
	count_events(pair, other, 1);
	for (uint64_t k = 1; k <= 200; k++) {
		RSM_CHECK(pair, rsm_memseg_import_put64(i.import, (off_t)(8 * k), &k, 1), RSM_SUCCESS);
		RSM_CHECK(pair, rsm_intr_signal_post(i.import, 0), RSM_SUCCESS);
		RSM_CHECK(pair, rsm_intr_signal_wait(i.import, -1), RSM_SUCCESS);
	}
	vector_signals(&i, pair);
	pair_barrier(pair);
	RSM_CHECK(pair, rsm_memseg_import_disconnect(other), RSM_SUCCESS);
	importer_disconnect(&i, pair);
	RSM_CHECK(pair, rsm_intr_signal_post(i.import, 0), RSMERR_BAD_SEG_HNDL);
	RSM_CHECK(pair, rsm_intr_signal_wait(i.import, 0), RSMERR_BAD_SEG_HNDL);
}

/* ---- UNIX signals ---- */

static void
on_signal(int number)
{
	(void)number;
}

static void
interrupted_server(struct pair *pair)
{
	struct exporter e;
	rsm_node_id_t peer;

	exporter_open(&e, pair, &peer);
	publish(&e, pair, peer, 0666);
	pair_barrier(pair);
	pair_barrier(pair);
	exporter_close(&e, pair);
}

static void
interrupted_client(struct pair *pair)
{
	/*
	 * A repeating timer, since the first signal may come before the thread sleeps. Not SIGALRM, which
	 * limits the case's time.
	 */
	const struct itimerspec often = {.it_value = {.tv_nsec = 100000000},
					 .it_interval = {.tv_nsec = 100000000}};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
	struct sigaction restart = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
	timer_t timer;
	struct pollfd fd;
	struct importer i;
	int num;

	importer_open(&i, pair);
	pair_barrier(pair);
	importer_connect(&i, pair, RSM_PERM_RDWR);
	RSM_CHECK(pair, rsm_memseg_get_pollfd(i.import, &fd), RSM_SUCCESS);
	CHECK(pair,
	      sigaction(SIGUSR1, &restart, NULL) == 0 && timer_create(CLOCK_MONOTONIC, &event, &timer) == 0 &&
		      timer_settime(timer, 0, &often, NULL) == 0,
	      "timer");
	RSM_CHECK(pair, rsm_intr_signal_wait(i.import, -1), RSMERR_INTERRUPTED);
	RSM_CHECK(pair, rsm_intr_signal_wait(i.import, LONG_MS), RSMERR_INTERRUPTED);
	RSM_CHECK(pair, rsm_intr_signal_wait_pollfd(&fd, 1, -1, &num), RSMERR_INTERRUPTED);
	timer_delete(timer);
	RSM_CHECK(pair, rsm_memseg_release_pollfd(i.import), RSM_SUCCESS);
	importer_disconnect(&i, pair);
	pair_barrier(pair);
}

/* ---- poll descriptors ---- */

static void
pollfd_server(struct pair *pair)
{
	struct pollfd fds[3], again;
	struct exporter e;
	rsm_node_id_t peer;
	int pipes[2], num = -1;

	exporter_open(&e, pair, &peer);
	publish(&e, pair, peer, 0666);
	CHECK(pair, pipe(pipes) == 0, "pipe");
	RSM_CHECK(pair, rsm_memseg_release_pollfd(e.export), RSM_SUCCESS); /* harmless without a reference */
	RSM_CHECK(pair, rsm_memseg_get_pollfd(e.export, &fds[0]), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_get_pollfd(e.export, &again), RSM_SUCCESS);
	CHECK(pair, fds[0].fd == again.fd && fds[0].events == POLLRDNORM, "descriptors %d, %d", fds[0].fd,
	      again.fd);
	fds[1] = (struct pollfd){.fd = pipes[0], .events = POLLIN};
	fds[2] = (struct pollfd){.fd = -1};
	RSM_CHECK(pair, rsm_intr_signal_wait_pollfd(fds, 3, 50, &num), RSMERR_TIMEOUT);
	CHECK(pair, num == 0, "%d descriptors are ready", num);
	CHECK(pair, poll(fds, 1, 0) == 0, "ready before any event");
	pair_barrier(pair); /* the importer has posted two events */
	CHECK(pair, poll(fds, 1, LONG_MS) == 1 && fds[0].revents == POLLRDNORM, "poll: revents %#x",
	      fds[0].revents);
	CHECK(pair, poll(fds, 1, 0) == 1, "poll took the event");
	pair_barrier(pair); /* both events have arrived */
	CHECK(pair, write(pipes[1], "x", 1) == 1, "write");
	RSM_CHECK(pair, rsm_intr_signal_wait_pollfd(fds, 3, LONG_MS, &num), RSM_SUCCESS);
	CHECK(pair, num == 2 && fds[0].revents == POLLRDNORM && fds[1].revents == POLLIN, "%d: %#x, %#x", num,
	      fds[0].revents, fds[1].revents);
	CHECK(pair, poll(fds, 1, 0) == 1, "it took both events");
	RSM_CHECK(pair, rsm_intr_signal_wait(e.export, 0), RSM_SUCCESS);
	CHECK(pair, poll(fds, 1, 0) == 0, "ready after the last event was taken");
	RSM_CHECK(pair, rsm_intr_signal_wait_pollfd(fds, 1, 0, NULL), RSMERR_TIMEOUT);
	RSM_CHECK(pair, rsm_memseg_export_destroy(e.export), RSMERR_POLLFD_IN_USE);
	RSM_CHECK(pair, rsm_memseg_release_pollfd(e.export), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_memseg_export_destroy(e.export), RSMERR_POLLFD_IN_USE);
	RSM_CHECK(pair, rsm_memseg_release_pollfd(e.export), RSM_SUCCESS);
	pair_barrier(pair);
	pair_barrier(pair); /* from here on the importer polls */
	for (int k = 0; k < 3; k++)
		RSM_CHECK(pair, rsm_intr_signal_post(e.export, 0), RSM_SUCCESS);
	pair_barrier(pair);
	RSM_CHECK(pair, rsm_memseg_export_unpublish(e.export), RSM_SUCCESS);
	pair_barrier(pair);
	exporter_close(&e, pair);
}

static void
pollfd_client(struct pair *pair)
{
	struct epoll_event event = {.events = EPOLLRDNORM}, got;
	int epoll = epoll_create1(0);
	struct importer i;
	struct pollfd fd;
	uint64_t start;
	int num;

	importer_open(&i, pair);
	pair_barrier(pair);
	importer_connect(&i, pair, RSM_PERM_RDWR);
	RSM_CHECK(pair, rsm_intr_signal_post(i.import, 0), RSM_SUCCESS);
	RSM_CHECK(pair, rsm_intr_signal_post(i.import, 0), RSM_SUCCESS);
	pair_barrier(pair);
	pair_barrier(pair);
	RSM_CHECK(pair, rsm_memseg_get_pollfd(i.import, &fd), RSM_SUCCESS);
	CHECK(pair, epoll >= 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, fd.fd, &event) == 0, "epoll_ctl");
	CHECK(pair, epoll_wait(epoll, &got, 1, 0) == 0, "epoll: ready before any event");
	pair_barrier(pair);
	for (int k = 0; k < 3; k++) {
		CHECK(pair, epoll_wait(epoll, &got, 1, LONG_MS) == 1 && got.events == EPOLLRDNORM,
		      "epoll: %#x", got.events);
		RSM_CHECK(pair, rsm_intr_signal_wait(i.import, LONG_MS), RSM_SUCCESS);
	}
	RSM_CHECK(pair, rsm_intr_signal_wait(i.import, 0), RSMERR_TIMEOUT);
	CHECK(pair, epoll_wait(epoll, &got, 1, 0) == 0, "epoll: ready after the last event was taken");
	pair_barrier(pair);
	/* When the exporter withdraws the segment, the importer's poll descriptor reports a hang-up. */
	start = pair_now_ms();
	CHECK(pair, epoll_wait(epoll, &got, 1, LONG_MS) == 1 && (got.events & EPOLLHUP) != 0, "epoll: %#x",
	      got.events);
	CHECK(pair, pair_now_ms() - start < 5000 * PAIR_SHARE, "notified after %u ms",
	      (unsigned)(pair_now_ms() - start));
	RSM_CHECK(pair, rsm_intr_signal_wait_pollfd(&fd, 1, LONG_MS, &num), RSM_SUCCESS);
	CHECK(pair, num == 1 && fd.revents == POLLHUP, "revents %#x", fd.revents);
	RSM_CHECK(pair, rsm_intr_signal_wait(i.import, -1), RSMERR_CONN_ABORTED);
	RSM_CHECK(pair, rsm_memseg_import_disconnect(i.import), RSMERR_POLLFD_IN_USE);
	RSM_CHECK(pair, rsm_memseg_release_pollfd(i.import), RSM_SUCCESS);
	importer_disconnect(&i, pair);
	close(epoll);
	pair_barrier(pair);
}

/* ---- waiters are woken when the segment goes ---- */

struct waiter {
	pthread_t thread;
	_Atomic pid_t tid;
	void *segment;
	int result;
	uint64_t ended_ms;
};

static void *
wait_for_ever(void *arg)
{
	struct waiter *waiter = arg;

	atomic_store(&waiter->tid, gettid());
	waiter->result = rsm_intr_signal_wait(waiter->segment, -1);
	waiter->ended_ms = pair_now_ms();
	return NULL;
}

/* Starts a waiter; returns when it sleeps in its wait. */
static void
start_waiter(struct waiter *waiter, void *segment, struct pair *pair)
{
	char path[64], line[512], *state = NULL;

	*waiter = (struct waiter){.segment = segment};
	CHECK(pair, pthread_create(&waiter->thread, NULL, wait_for_ever, waiter) == 0, "pthread_create");
	while (state == NULL || state[2] != 'S') {
		FILE *stat;

		usleep(1000);
		snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)atomic_load(&waiter->tid));
		stat = fopen(path, "r");
		state = stat != NULL && fgets(line, sizeof(line), stat) != NULL ? strrchr(line, ')') : NULL;
		if (stat != NULL)
			fclose(stat);
	}
}

static void
woken_server(struct pair *pair)
{
	struct waiter waiter;
	struct exporter e;
	rsm_node_id_t peer;

	exporter_open(&e, pair, &peer);
	publish(&e, pair, peer, 0666);
	pair_barrier(pair);
	pair_barrier(pair); /* the importer has disconnected under its own waiter, and waits again */
	start_waiter(&waiter, e.export, pair);
	RSM_CHECK(pair, rsm_memseg_export_unpublish(e.export), RSM_SUCCESS);
	pthread_join(waiter.thread, NULL);
	CHECK(pair, waiter.result == RSMERR_CONN_ABORTED, "the exporter's waiter: %d", waiter.result);
	pair_barrier(pair);
	publish(&e, pair, peer, 0666);
	pair_barrier(pair);
	for (;;)
		pause(); /* until the importer kills this process */
}

static void
woken_client(struct pair *pair)
{
	struct waiter waiter;
	struct importer i;
	struct pollfd fd;
	uint64_t killed;

	importer_open(&i, pair);
	pair_barrier(pair);
	importer_connect(&i, pair, RSM_PERM_RDWR);
	start_waiter(&waiter, i.import, pair);
	importer_disconnect(&i, pair);
	pthread_join(waiter.thread, NULL);
	CHECK(pair, waiter.result == RSMERR_CONN_ABORTED, "the waiter of a disconnected import: %d",
	      waiter.result);
	importer_connect(&i, pair, RSM_PERM_RDWR);
	pair_barrier(pair);
	RSM_CHECK(pair, rsm_intr_signal_wait(i.import, -1), RSMERR_CONN_ABORTED); /* by unpublish */
	RSM_CHECK(pair, rsm_intr_signal_post(i.import, 0), RSMERR_CONN_ABORTED);
	pair_barrier(pair);
	importer_disconnect(&i, pair);
	pair_barrier(pair);
	importer_connect(&i, pair, RSM_PERM_RDWR);
	start_waiter(&waiter, i.import, pair);
	RSM_CHECK(pair, rsm_memseg_get_pollfd(i.import, &fd), RSM_SUCCESS);
	killed = pair_now_ms();
	CHECK(pair, kill(pair->peer, SIGKILL) == 0, "kill");
	pthread_join(waiter.thread, NULL);
	CHECK(pair, waiter.result == RSMERR_CONN_ABORTED, "the waiter of a dead exporter's segment: %d",
	      waiter.result);
	CHECK(pair, waiter.ended_ms - killed < 5000 * PAIR_SHARE, "woken after %u ms",
	      (unsigned)(waiter.ended_ms - killed));
	CHECK(pair, poll(&fd, 1, LONG_MS) == 1 && fd.revents == POLLHUP, "poll: %#x", fd.revents);
	CHECK(pair, pair_now_ms() - killed < 5000 * PAIR_SHARE, "the descriptor is readable after %u ms",
	      (unsigned)(pair_now_ms() - killed));
	RSM_CHECK(pair, rsm_memseg_release_pollfd(i.import), RSM_SUCCESS);
	importer_disconnect(&i, pair);
}

static const struct pair_case cases[] = {
	{"signals", signals_server, signals_client, false},
	{"interrupted", interrupted_server, interrupted_client, false},
	{"pollfd", pollfd_server, pollfd_client, false},
	{"woken", woken_server, woken_client, true},
};

int
main(int argc, char **argv)
{
	return pair_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
