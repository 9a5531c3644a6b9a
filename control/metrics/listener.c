/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Metrics over HTTP. A separate thread accepts, reads, renders and writes, so that slow, malformed or
 * frequent requests cost cores nothing, and the control thread only a snapshot, at most ten times a second.
 *
 * Connections are few, carry one request each, and have a time limit. The thread accepts at most
 * ACCEPTS_A_SECOND connections a second, at a lower priority than other threads.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "control/metrics/http.h"
#include "control/metrics/metrics.h"
#include "control/metrics/render.h"
#include "dataplane/base/clock.h"

#define CONNECTIONS 16u
/* limit for each: reading the request, waiting for the snapshot, sending the answer */
#define PHASE_NS (10 * NS_PER_S)
#define CROWDED_NS NS_PER_S      /* limit for the peer while all connections are in use, and for lingering */
#define FRESH_NS (NS_PER_S / 10) /* lifetime of a rendered text */
#define ACCEPTS_A_SECOND 100u
#define NICE 10

enum phase { FREE, READING, WAITING, WRITING, LINGERING };

struct connection {
	enum phase phase;
	int fd;
	uint64_t since; /* start of this phase */
	struct metrics_request request;
	char head[METRICS_HEAD_MAX];
	size_t got;
	char *answer; /* from malloc() */
	size_t len, sent;
};

/* Owner of the snapshot. */
enum turn { TURN_THREAD, TURN_ASKED, TURN_ANSWERED };

static struct {
	pthread_t thread;
	bool running;
	struct listening listening;
	/* shared by both threads */
	int ask_fd, wake_fd; /* eventfds: wake the control thread, wake the listener thread */
	_Atomic bool stop;
	_Atomic int turn; /* enum turn; storing it hands the snapshot over */
	/* owned by the control thread while TURN_ASKED, else by the listener thread */
	struct metrics_snapshot snapshot;
	struct watch watch;
	/* owned by the listener thread */
	struct connection connection[CONNECTIONS];
	/* rendered snapshots, indexed by `openmetrics`; empty: not rendered yet */
	struct metrics_text text[2];
	uint64_t asked_at;
	uint64_t second; /* second in which `accepts` connections were accepted */
	uint32_t accepts;
} listener = {.listening.fd = -1, .ask_fd = -1, .wake_fd = -1};

static uint64_t started;

/* ---- the control thread ---- */

static void
take_snapshot(struct metrics_snapshot *out)
{
	metrics_snapshot_take(out);
	out->started = started;
}

static void
snapshot_asked(struct watch *watch, uint32_t events)
{
	eventfd_t value;

	eventfd_read(listener.ask_fd, &value);
	/* Pairs with the store in serve_waiting(). */
	if (atomic_load_explicit(&listener.turn, memory_order_acquire) != TURN_ASKED)
		return;
	take_snapshot(&listener.snapshot);
	/* Pairs with the load in serve_waiting(). */
	atomic_store_explicit(&listener.turn, TURN_ANSWERED, memory_order_release);
	eventfd_write(listener.wake_fd, 1);
}

int
metrics_render(struct metrics_text *text)
{
	struct metrics_snapshot *snapshot = malloc(sizeof(*snapshot));

	if (snapshot == NULL)
		return -ENOMEM;
	take_snapshot(snapshot);
	metrics_write(text, snapshot);
	free(snapshot);
	return text->failed ? -ENOMEM : 0;
}

/* ---- listener thread: one connection ---- */

static void
enter_phase(struct connection *c, enum phase phase, uint64_t now)
{
	c->phase = phase;
	c->since = now;
}

static void
end_connection(struct connection *c)
{
	close(c->fd);
	free(c->answer);
	c->answer = NULL;
	c->phase = FREE;
}

/* Reads what the peer still sends: closing with unread data would send a reset, and lose the answer. */
static void
linger_connection(struct connection *c, uint64_t now)
{
	shutdown(c->fd, SHUT_WR);
	enter_phase(c, LINGERING, now);
}

static void
write_some(struct connection *c, uint64_t now)
{
	ssize_t n = send(c->fd, c->answer + c->sent, c->len - c->sent, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		end_connection(c);
	else if (n > 0 && (c->sent += (size_t)n) == c->len)
		linger_connection(c, now);
}

/* Allocates an answer. False: out of memory, and the connection is closed. */
static bool
make_room(struct connection *c, size_t len, uint64_t now)
{
	c->answer = malloc(len);
	c->len = len;
	enter_phase(c, WRITING, now);
	if (c->answer == NULL)
		end_connection(c);
	return c->answer != NULL;
}

static void
refuse_request(struct connection *c, unsigned int status, uint64_t now)
{
	if (!make_room(c, METRICS_ANSWER_HEAD, now))
		return;
	c->len = metrics_http_refuse(c->answer, status);
	write_some(c, now);
}

static void
answer_request(struct connection *c, const struct metrics_text *text, uint64_t now)
{
	char head[METRICS_ANSWER_HEAD];
	size_t len = metrics_http_head(head, &c->request, text->len);

	if (!make_room(c, len + (c->request.head ? 0 : text->len), now))
		return;
	memcpy(c->answer, head, len);
	memcpy(c->answer + len, text->at, c->len - len);
	write_some(c, now);
}

/* Bytes received, or 0. Closes the connection at its end or on errors. */
static size_t
receive_bytes(struct connection *c, char *to, size_t room)
{
	ssize_t n = recv(c->fd, to, room, MSG_DONTWAIT);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		end_connection(c);
	return n > 0 ? (size_t)n : 0;
}

static void
read_some(struct connection *c, uint64_t now)
{
	size_t seen = c->got, n = receive_bytes(c, c->head + c->got, sizeof(c->head) - c->got);
	unsigned int status;

	if (n == 0)
		return;
	c->got += n;
	if (!metrics_http_whole(c->head, c->got, seen)) {
		if (c->got == sizeof(c->head))
			refuse_request(c, 431, now);
		return;
	}
	status = metrics_http_parse(c->head, c->got, &c->request);
	if (status != 200)
		refuse_request(c, status, now);
	else
		enter_phase(c, WAITING, now);
}

static void
serve_connection(struct connection *c, uint64_t now)
{
	switch (c->phase) {
	case READING:
		read_some(c, now);
		break;
	case WRITING:
		write_some(c, now);
		break;
	case LINGERING:
		receive_bytes(c, c->head, sizeof(c->head)); /* discarded */
		break;
	default: /* the peer has disconnected */
		end_connection(c);
	}
}

/* ---- listener thread: all connections ---- */

static void
accept_some(uint64_t now)
{
	for (uint32_t i = 0; i < CONNECTIONS; i++) {
		struct connection *c = &listener.connection[i];

		if (c->phase != FREE)
			continue;
		if (listener.accepts >= ACCEPTS_A_SECOND)
			return;
		c->fd = accept4(listener.listening.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (c->fd < 0) {
			/* Out of descriptors, poll() would return at once for ever: accept none until the
			 * next second. */
			if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
				listener.accepts = ACCEPTS_A_SECOND;
			return;
		}
		listener.accepts++;
		enter_phase(c, READING, now);
		c->got = c->len = c->sent = 0;
	}
}

static uint64_t
deadline_of(const struct connection *c, bool crowded)
{
	switch (c->phase) {
	case FREE:
		return UINT64_MAX;
	case WAITING: /* the delay is the data plane's */
		return c->since + PHASE_NS;
	case LINGERING:
		return c->since + CROWDED_NS;
	default:
		return c->since + (crowded ? CROWDED_NS : PHASE_NS);
	}
}

static bool
any_in(enum phase phase)
{
	for (uint32_t i = 0; i < CONNECTIONS; i++)
		if (listener.connection[i].phase == phase)
			return true;
	return false;
}

/* Answers with an error if the socket has room. */
static void
expire_connection(struct connection *c, uint64_t now)
{
	if (c->phase == READING)
		refuse_request(c, 408, now);
	else if (c->phase == WAITING)
		refuse_request(c, 503, now);
	if (c->phase != FREE)
		end_connection(c);
}

static void
expire_all(uint64_t now)
{
	bool crowded = !any_in(FREE);

	for (uint32_t i = 0; i < CONNECTIONS; i++)
		if (deadline_of(&listener.connection[i], crowded) <= now)
			expire_connection(&listener.connection[i], now);
}

static const struct metrics_text *
text_for(const struct metrics_request *request)
{
	struct metrics_text *text = &listener.text[request->openmetrics];

	if (text->len == 0 && !text->failed) {
		metrics_text_init(text, request->openmetrics);
		metrics_write(text, &listener.snapshot);
	}
	return text;
}

static void
serve_waiting(uint64_t now)
{
	bool fresh = listener.asked_at != 0 && now - listener.asked_at < FRESH_NS;

	if (!any_in(WAITING))
		return;
	/* Pairs with the store in snapshot_asked(). */
	switch (atomic_load_explicit(&listener.turn, memory_order_acquire)) {
	case TURN_ASKED:
		return;
	case TURN_ANSWERED:
		fresh = true;
		metrics_text_free(&listener.text[0]);
		metrics_text_free(&listener.text[1]);
		atomic_store_explicit(&listener.turn, TURN_THREAD,
				      /* only this thread stores and reads TURN_THREAD */
				      memory_order_relaxed);
	}
	if (!fresh) {
		listener.asked_at = now;
		/* Pairs with the load in snapshot_asked(). */
		atomic_store_explicit(&listener.turn, TURN_ASKED, memory_order_release);
		eventfd_write(listener.ask_fd, 1);
		return;
	}
	for (uint32_t i = 0; i < CONNECTIONS; i++) {
		struct connection *c = &listener.connection[i];
		const struct metrics_text *text;

		if (c->phase != WAITING)
			continue;
		text = text_for(&c->request);
		if (text->failed)
			refuse_request(c, 503, now);
		else
			answer_request(c, text, now);
	}
}

/* Fills the poll set; returns the timeout in milliseconds, or -1 for none. */
static int
prepare_poll(struct pollfd fds[2 + CONNECTIONS], uint64_t now)
{
	uint64_t deadline = UINT64_MAX;
	bool crowded = !any_in(FREE), takes = !crowded;

	if (now / NS_PER_S != listener.second) {
		listener.second = now / NS_PER_S;
		listener.accepts = 0;
	}
	fds[0] = (struct pollfd){.fd = listener.wake_fd, .events = POLLIN};
	for (uint32_t i = 0; i < CONNECTIONS; i++) {
		const struct connection *c = &listener.connection[i];

		fds[2 + i] = (struct pollfd){.fd = c->phase == FREE ? -1 : c->fd,
					     .events = c->phase == WRITING   ? POLLOUT
						       : c->phase == WAITING ? 0
									     : POLLIN};
		if (deadline_of(c, crowded) < deadline)
			deadline = deadline_of(c, crowded);
	}
	if (listener.accepts >= ACCEPTS_A_SECOND) {
		takes = false;
		if ((listener.second + 1) * NS_PER_S < deadline)
			deadline = (listener.second + 1) * NS_PER_S;
	}
	fds[1] = (struct pollfd){.fd = takes ? listener.listening.fd : -1, .events = POLLIN};
	if (deadline == UINT64_MAX)
		return -1;
	return deadline <= now ? 0 : (int)((deadline - now) / NS_PER_MS + 1);
}

static void *
listener_main(void *argument)
{
	struct pollfd fds[2 + CONNECTIONS];
	eventfd_t value;

	setpriority(PRIO_PROCESS, 0, NICE); /* Linux: this thread only */
	/* Pairs with the store in metrics_fini(). */
	while (!atomic_load_explicit(&listener.stop, memory_order_acquire)) {
		uint64_t now = clock_now();
		int n = poll(fds, 2 + CONNECTIONS, prepare_poll(fds, now));

		if (n < 0 && errno != EINTR)
			break;
		now = clock_now();
		if (n > 0 && fds[0].revents != 0)
			eventfd_read(listener.wake_fd, &value);
		for (uint32_t i = 0; i < CONNECTIONS && n > 0; i++)
			if (fds[2 + i].fd >= 0 && fds[2 + i].revents != 0)
				serve_connection(&listener.connection[i], now);
		expire_all(now);
		if (n > 0 && fds[1].revents != 0)
			accept_some(now);
		serve_waiting(now);
	}
	return NULL;
}

/* ---- start and end ---- */

static int
start_listener(const struct config *config, char *why, size_t why_len)
{
	int error;

	error = metrics_open(&config->metrics, &listener.listening, why, why_len);
	if (error != 0)
		return error;
	listener.ask_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	listener.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	error = listener.ask_fd < 0 || listener.wake_fd < 0 ? -errno : 0;
	listener.watch.ready = snapshot_asked;
	if (error == 0)
		error = control_watch(listener.ask_fd, &listener.watch, EPOLLIN);
	if (error == 0)
		error = -pthread_create(&listener.thread, NULL, listener_main, NULL);
	if (error != 0)
		snprintf(why, why_len, "metrics %s: %s", config->metrics.text, strerror(-error));
	listener.running = error == 0;
	return error;
}

static void
close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

int
metrics_init(const struct config *config, char *why, size_t why_len)
{
	int error;

	started = (uint64_t)time(NULL);
	atomic_store_explicit(&listener.stop, false, memory_order_relaxed); /* no thread runs yet */
	atomic_store_explicit(&listener.turn, TURN_THREAD, memory_order_relaxed);
	listener.asked_at = 0;
	if (config->metrics.family == 0)
		return 0;
	error = start_listener(config, why, why_len);
	if (error != 0)
		metrics_fini();
	return error;
}

void
metrics_fini(void)
{
	if (listener.running) {
		/* Pairs with the load in listener_main(). */
		atomic_store_explicit(&listener.stop, true, memory_order_release);
		eventfd_write(listener.wake_fd, 1);
		pthread_join(listener.thread, NULL);
		listener.running = false;
	}
	for (uint32_t i = 0; i < CONNECTIONS; i++)
		if (listener.connection[i].phase != FREE)
			end_connection(&listener.connection[i]);
	metrics_text_free(&listener.text[0]);
	metrics_text_free(&listener.text[1]);
	listening_close(&listener.listening);
	close_fd(&listener.ask_fd);
	close_fd(&listener.wake_fd);
}
