/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Metrics over HTTP, by libmicrohttpd. A separate thread of lower priority runs it and renders, so that slow,
 * malformed or frequent requests cost cores nothing, and the control thread only a snapshot, at most ten
 * times a second.
 *
 * Connections are few, carry one request each, and have a time limit, which is shorter while all are in use.
 */
#include <errno.h>
#include <microhttpd.h>
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

#include "control/metrics/metrics.h"
#include "control/metrics/render.h"
#include "dataplane/base/clock.h"

#define CONNECTIONS 16u
#define CONNECTION_MEMORY 8192u  /* bytes; a request's head must fit in */
#define LIMIT_NS (10 * NS_PER_S) /* of a connection, and of waiting for a snapshot */
#define CROWDED_NS NS_PER_S      /* of a connection while all are in use */
#define FRESH_NS (NS_PER_S / 10) /* lifetime of a snapshot */
#define PACE_MS 10               /* pause for each connection accepted, and after each MHD_run() */
#define NICE 10

struct connection {
	int fd; /* -1: unused */
	uint64_t since;
};

static struct {
	pthread_t thread;
	bool running;
	struct listening listening;
	struct MHD_Daemon *daemon; /* used by the listener thread while it runs */
	/* shared by both threads */
	int ask_fd, wake_fd; /* eventfds: wake the control thread, wake the listener thread */
	_Atomic bool stop;
	_Atomic bool asked; /* storing it hands the snapshot over */
	/* owned by the control thread while `asked`, else by the listener thread */
	struct metrics_snapshot snapshot;
	struct watch watch;
	/* owned by the listener thread */
	struct connection connection[CONNECTIONS];
	/* in the last MHD_run() */
	bool closed; /* a connection was closed */
	int accepted;
	/* rendered snapshots, indexed by `openmetrics`; NULL: not rendered yet */
	struct MHD_Response *response[2];
	uint64_t answered_at;
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
	/* Pairs with the store in ask_snapshot(). */
	if (!atomic_load_explicit(&listener.asked, memory_order_acquire))
		return;
	take_snapshot(&listener.snapshot);
	/* Pairs with the loads in ask_snapshot(). */
	atomic_store_explicit(&listener.asked, false, memory_order_release);
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

/* ---- listener thread: requests ---- */

static void
forget_responses(void)
{
	for (uint32_t i = 0; i < 2; i++)
		if (listener.response[i] != NULL)
			MHD_destroy_response(listener.response[i]); /* those being sent keep it */
	listener.response[0] = listener.response[1] = NULL;
}

/* Waits for a new snapshot. False: the control thread has given none in time, or this thread is to end. */
static bool
ask_snapshot(void)
{
	uint64_t now = clock_now(), deadline = now + LIMIT_NS;
	eventfd_t value;

	/* Pairs with the store in snapshot_asked(). A snapshot for which nobody has waited is too old. */
	if (!atomic_load_explicit(&listener.asked, memory_order_acquire)) {
		/* Pairs with the load in snapshot_asked(). */
		atomic_store_explicit(&listener.asked, true, memory_order_release);
		eventfd_write(listener.ask_fd, 1);
	}
	/* The first pairs with the store in snapshot_asked(), the second with that in metrics_fini(). */
	while (atomic_load_explicit(&listener.asked, memory_order_acquire)) {
		struct pollfd wake = {.fd = listener.wake_fd, .events = POLLIN};

		if (now >= deadline || atomic_load_explicit(&listener.stop, memory_order_acquire))
			return false;
		if (poll(&wake, 1, (int)((deadline - now) / NS_PER_MS + 1)) > 0)
			eventfd_read(listener.wake_fd, &value);
		now = clock_now();
	}
	listener.answered_at = now;
	return true;
}

static struct MHD_Response *
render_response(bool openmetrics)
{
	struct MHD_Response *response = NULL;
	struct metrics_text text;

	metrics_text_init(&text, openmetrics);
	metrics_write(&text, &listener.snapshot);
	if (!text.failed)
		response = MHD_create_response_from_buffer(text.len, text.at, MHD_RESPMEM_MUST_FREE);
	if (response == NULL) {
		metrics_text_free(&text);
		return NULL;
	}
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE,
				openmetrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
					    : "text/plain; version=0.0.4; charset=utf-8");
	MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	return response;
}

/* NULL: there are no metrics now. */
static struct MHD_Response *
current_response(bool openmetrics)
{
	if (listener.answered_at == 0 || clock_now() - listener.answered_at >= FRESH_NS) {
		if (!ask_snapshot())
			return NULL;
		forget_responses();
	}
	if (listener.response[openmetrics] == NULL)
		listener.response[openmetrics] = render_response(openmetrics);
	return listener.response[openmetrics];
}

static enum MHD_Result
refuse_request(struct MHD_Connection *connection, unsigned int status, const char *text)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(strlen(text), (void *)(uintptr_t)text,
									MHD_RESPMEM_PERSISTENT);
	enum MHD_Result result;

	if (response == NULL)
		return MHD_NO;
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, "text/plain; charset=utf-8");
	MHD_add_response_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
	result = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return result;
}

/* Called by MHD_run() for each request, before its body is read. */
static enum MHD_Result
answer_request(void *user, struct MHD_Connection *connection, const char *url, const char *method,
	       const char *version, const char *body, size_t *body_len, void **request)
{
	struct MHD_Response *response;
	const char *accepted;

	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
		return refuse_request(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "Use GET.\n");
	if (strcmp(url, "/metrics") != 0)
		return refuse_request(connection, MHD_HTTP_NOT_FOUND, "Only /metrics exists here.\n");
	accepted = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_ACCEPT);
	response = current_response(accepted != NULL &&
				    strcasestr(accepted, "application/openmetrics-text") != NULL);
	if (response == NULL)
		return refuse_request(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
				      "Metrics are not available now; try again later.\n");
	return MHD_queue_response(connection, MHD_HTTP_OK, response);
}

/* ---- listener thread: connections ---- */

static void
note_connection(void *user, struct MHD_Connection *connection, void **context,
		enum MHD_ConnectionNotificationCode code)
{
	struct connection *c = *context;

	if (code == MHD_CONNECTION_NOTIFY_CLOSED && c != NULL) {
		c->fd = -1;
		listener.closed = true;
	}
	for (uint32_t i = 0; code == MHD_CONNECTION_NOTIFY_STARTED && i < CONNECTIONS; i++) {
		c = &listener.connection[i];
		if (c->fd >= 0)
			continue;
		c->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
		c->since = clock_now();
		listener.accepted++;
		*context = c;
		return;
	}
}

/* Shuts connections down whose time is over; libmicrohttpd then closes them. Returns the next deadline. */
static uint64_t
expire_connections(uint64_t now)
{
	uint64_t next = UINT64_MAX, limit = CROWDED_NS;

	for (uint32_t i = 0; i < CONNECTIONS; i++)
		if (listener.connection[i].fd < 0)
			limit = LIMIT_NS;
	for (uint32_t i = 0; i < CONNECTIONS; i++) {
		struct connection *c = &listener.connection[i];

		if (c->fd < 0)
			continue;
		if (c->since + limit <= now) {
			shutdown(c->fd, SHUT_RDWR);
			c->since = now;
		}
		if (c->since + limit < next)
			next = c->since + limit;
	}
	return next;
}

/* Returns milliseconds, or -1: until something happens. */
static int
poll_timeout(uint64_t now)
{
	uint64_t deadline = expire_connections(now);
	MHD_UNSIGNED_LONG_LONG ms;
	int timeout = deadline == UINT64_MAX ? -1 : (int)((deadline - now) / NS_PER_MS + 1);

	/* At its limit of connections libmicrohttpd forgets the listening socket until the next MHD_run(). */
	if (listener.closed)
		return 0;
	if (MHD_get_timeout(listener.daemon, &ms) == MHD_YES && (timeout < 0 || ms < (unsigned int)timeout))
		return (int)ms;
	return timeout;
}

/* Limits connections to 100 a second. Out of descriptors the listening socket stays readable, and poll()
 * would return at once for ever. */
static void
pause_listener(struct pollfd *wake)
{
	poll(wake, 1, PACE_MS * (listener.accepted > 0 ? listener.accepted : 1));
}

static void *
listener_main(void *argument)
{
	struct pollfd fds[] = {
		{.fd = MHD_get_daemon_info(listener.daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
		 .events = POLLIN},
		{.fd = listener.wake_fd, .events = POLLIN},
	};
	eventfd_t value;

	setpriority(PRIO_PROCESS, 0, NICE); /* Linux: this thread only */
	/* Pairs with the store in metrics_fini(). */
	while (!atomic_load_explicit(&listener.stop, memory_order_acquire)) {
		if (poll(fds, 2, poll_timeout(clock_now())) > 0 && fds[1].revents != 0)
			eventfd_read(listener.wake_fd, &value);
		listener.closed = false;
		listener.accepted = 0;
		MHD_run(listener.daemon);
		pause_listener(&fds[1]);
	}
	return NULL;
}

/* ---- start and end ---- */

static int
start_daemon(void)
{
	for (uint32_t i = 0; i < CONNECTIONS; i++)
		listener.connection[i].fd = -1;
	errno = 0;
	listener.daemon = MHD_start_daemon(
		MHD_USE_EPOLL, 0, NULL, NULL, answer_request, NULL, MHD_OPTION_LISTEN_SOCKET,
		listener.listening.fd, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY, MHD_OPTION_STRICT_FOR_CLIENT,
		1, MHD_OPTION_NOTIFY_CONNECTION, note_connection, NULL, MHD_OPTION_END);
	if (listener.daemon != NULL)
		return 0;
	return errno != 0 ? -errno : -ENOMEM;
}

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
		error = start_daemon();
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
	atomic_store_explicit(&listener.asked, false, memory_order_relaxed);
	listener.answered_at = 0;
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
		/* Pairs with the loads in listener_main() and ask_snapshot(). */
		atomic_store_explicit(&listener.stop, true, memory_order_release);
		eventfd_write(listener.wake_fd, 1);
		pthread_join(listener.thread, NULL);
		listener.running = false;
	}
	if (listener.daemon != NULL) {
		MHD_quiesce_daemon(listener.daemon); /* listening_close() closes the socket */
		MHD_stop_daemon(listener.daemon);
		listener.daemon = NULL;
	}
	forget_responses();
	listening_close(&listener.listening);
	close_fd(&listener.ask_fd);
	close_fd(&listener.wake_fd);
}
