/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Metrics by HTTP.  A thread of its own accepts, reads, renders and writes, so that who asks slowly, wrongly
 * or too often costs neither the control thread nor a core anything: the control thread takes a snapshot for
 * it, ten times a second at most.
 *
 * Connections are few, each has one request, and all of a connection a time limit.  The thread takes so many
 * a second, and has less weight than others of its processor.
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
#include "control/metrics/open.h"
#include "control/metrics/render.h"
#include "dataplane/compat/clock.h"

#define CONNECTIONS 16u
#define PHASE_NS (10 * NS_PER_S) /* for the request to come, for the snapshot, for the answer to be taken */
#define CROWDED_NS NS_PER_S /* the far end's part of it while there is no room for others, and to close */
#define FRESH_NS (NS_PER_S / 10) /* a text is given out so long */
#define ACCEPTS_A_SECOND 100u
#define NICE 10

enum phase { FREE, READING, WAITING, WRITING, LINGERING };

struct connection {
	enum phase phase;
	int fd;
	uint64_t since; /* it is in this phase */
	struct metrics_request request;
	char head[METRICS_HEAD_MAX];
	size_t got;
	char *answer; /* from malloc */
	size_t len, sent;
};

/* Whose the snapshot is. */
enum turn { TURN_THREAD, TURN_ASKED, TURN_ANSWERED };

static struct {
	pthread_t thread;
	bool running;
	struct listening listening;
	/* between the two threads */
	int ask_fd, wake_fd; /* eventfds: for the control thread, for ours */
	_Atomic bool stop;
	_Atomic int turn;                 /* enum turn: whoever passes it on has done with the snapshot */
	struct metrics_snapshot snapshot; /* the control thread's while asked, else the other's */
	struct watch watch;
	/* the thread's */
	struct connection connection[CONNECTIONS];
	struct metrics_text text[2]; /* of the snapshot, by whether in OpenMetrics; empty: not rendered yet */
	uint64_t asked_at;
	uint64_t second; /* in which `accepts` were taken */
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
asked(struct watch *watch, uint32_t events)
{
	eventfd_t value;

	eventfd_read(listener.ask_fd, &value);
	/* Pairs with the store in ask(). */
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

/* ---- the thread: a connection ---- */

static void
enter(struct connection *c, enum phase phase, uint64_t now)
{
	c->phase = phase;
	c->since = now;
}

static void
end(struct connection *c)
{
	close(c->fd);
	free(c->answer);
	c->answer = NULL;
	c->phase = FREE;
}

/* Whatever it still sends is read, so that the answer is not lost by a reset. */
static void
linger(struct connection *c, uint64_t now)
{
	shutdown(c->fd, SHUT_WR);
	enter(c, LINGERING, now);
}

static void
write_some(struct connection *c, uint64_t now)
{
	ssize_t n = send(c->fd, c->answer + c->sent, c->len - c->sent, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && errno != EAGAIN && errno != EINTR)
		end(c);
	else if (n > 0 && (c->sent += (size_t)n) == c->len)
		linger(c, now);
}

/* Room for an answer; false: there is none, and the connection has ended. */
static bool
make_room(struct connection *c, size_t len, uint64_t now)
{
	c->answer = malloc(len);
	c->len = len;
	enter(c, WRITING, now);
	if (c->answer == NULL)
		end(c);
	return c->answer != NULL;
}

static void
refuse(struct connection *c, unsigned int status, uint64_t now)
{
	if (!make_room(c, METRICS_ANSWER_HEAD, now))
		return;
	c->len = metrics_http_refuse(c->answer, status);
	write_some(c, now);
}

static void
answer(struct connection *c, const struct metrics_text *text, uint64_t now)
{
	char head[METRICS_ANSWER_HEAD];
	size_t len = metrics_http_head(head, &c->request, text->len);

	if (!make_room(c, len + (c->request.head ? 0 : text->len), now))
		return;
	memcpy(c->answer, head, len);
	memcpy(c->answer + len, text->at, c->len - len);
	write_some(c, now);
}

/* What has come; 0: nothing, and at its end that of the connection. */
static size_t
receive(struct connection *c, char *to, size_t room)
{
	ssize_t n = recv(c->fd, to, room, MSG_DONTWAIT);

	if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
		end(c);
	return n > 0 ? (size_t)n : 0;
}

static void
read_some(struct connection *c, uint64_t now)
{
	size_t seen = c->got, n = receive(c, c->head + c->got, sizeof(c->head) - c->got);
	unsigned int status;

	if (n == 0)
		return;
	c->got += n;
	if (!metrics_http_whole(c->head, c->got, seen)) {
		if (c->got == sizeof(c->head))
			refuse(c, 431, now);
		return;
	}
	status = metrics_http_parse(c->head, c->got, &c->request);
	if (status != 200)
		refuse(c, status, now);
	else
		enter(c, WAITING, now);
}

static void
step(struct connection *c, uint64_t now)
{
	switch (c->phase) {
	case READING:
		read_some(c, now);
		break;
	case WRITING:
		write_some(c, now);
		break;
	case LINGERING:
		receive(c, c->head, sizeof(c->head)); /* which nobody looks at any more */
		break;
	default: /* the far end has gone */
		end(c);
	}
}

/* ---- the thread: all of them ---- */

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
			/* Without descriptors it would be woken for ever: none until the next second. */
			if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
				listener.accepts = ACCEPTS_A_SECOND;
			return;
		}
		listener.accepts++;
		enter(c, READING, now);
		c->got = c->len = c->sent = 0;
	}
}

static uint64_t
deadline_of(const struct connection *c, bool crowded)
{
	switch (c->phase) {
	case FREE:
		return UINT64_MAX;
	case WAITING: /* for us */
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

/* What can be said at once is said. */
static void
expire(struct connection *c, uint64_t now)
{
	if (c->phase == READING)
		refuse(c, 408, now);
	else if (c->phase == WAITING)
		refuse(c, 503, now);
	if (c->phase != FREE)
		end(c);
}

static void
expire_all(uint64_t now)
{
	bool crowded = !any_in(FREE);

	for (uint32_t i = 0; i < CONNECTIONS; i++)
		if (deadline_of(&listener.connection[i], crowded) <= now)
			expire(&listener.connection[i], now);
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
	/* Pairs with the store in asked(). */
	switch (atomic_load_explicit(&listener.turn, memory_order_acquire)) {
	case TURN_ASKED:
		return;
	case TURN_ANSWERED:
		fresh = true;
		metrics_text_free(&listener.text[0]);
		metrics_text_free(&listener.text[1]);
		atomic_store_explicit(&listener.turn, TURN_THREAD,
				      memory_order_relaxed); /* read here alone */
	}
	if (!fresh) {
		listener.asked_at = now;
		/* Pairs with the load in asked(). */
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
			refuse(c, 503, now);
		else
			answer(c, text, now);
	}
}

/* Fills in what is waited for, and returns the time limit in milliseconds; -1: none. */
static int
prepare(struct pollfd fds[2 + CONNECTIONS], uint64_t now)
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

	setpriority(PRIO_PROCESS, 0, NICE); /* of this thread alone */
	/* Pairs with the store in metrics_fini. */
	while (!atomic_load_explicit(&listener.stop, memory_order_acquire)) {
		uint64_t now = clock_now();
		int n = poll(fds, 2 + CONNECTIONS, prepare(fds, now));

		if (n < 0 && errno != EINTR)
			break;
		now = clock_now();
		if (n > 0 && fds[0].revents != 0)
			eventfd_read(listener.wake_fd, &value);
		for (uint32_t i = 0; i < CONNECTIONS && n > 0; i++)
			if (fds[2 + i].fd >= 0 && fds[2 + i].revents != 0)
				step(&listener.connection[i], now);
		expire_all(now);
		if (n > 0 && fds[1].revents != 0)
			accept_some(now);
		serve_waiting(now);
	}
	return NULL;
}

/* ---- start and end ---- */

static int
start(const struct config *config, char *why, size_t why_len)
{
	int error;

	error = metrics_open(&config->metrics, &listener.listening, why, why_len);
	if (error != 0)
		return error;
	listener.ask_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	listener.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	error = listener.ask_fd < 0 || listener.wake_fd < 0 ? -errno : 0;
	listener.watch.ready = asked;
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
	atomic_store_explicit(&listener.stop, false, memory_order_relaxed); /* no thread runs */
	atomic_store_explicit(&listener.turn, TURN_THREAD, memory_order_relaxed);
	listener.asked_at = 0;
	if (config->metrics.family == 0)
		return 0;
	error = start(config, why, why_len);
	if (error != 0)
		metrics_fini();
	return error;
}

void
metrics_fini(void)
{
	if (listener.running) {
		/* Pairs with the load in listener_main. */
		atomic_store_explicit(&listener.stop, true, memory_order_release);
		eventfd_write(listener.wake_fd, 1);
		pthread_join(listener.thread, NULL);
		listener.running = false;
	}
	for (uint32_t i = 0; i < CONNECTIONS; i++)
		if (listener.connection[i].phase != FREE)
			end(&listener.connection[i]);
	metrics_text_free(&listener.text[0]);
	metrics_text_free(&listener.text[1]);
	listening_close(&listener.listening);
	close_fd(&listener.ask_fd);
	close_fd(&listener.wake_fd);
}
