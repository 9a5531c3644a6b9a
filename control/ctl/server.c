/* SPDX-License-Identifier: BSD-3-Clause */
/* Control socket: connections of callers, and the order in which they are served. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/attach/client.h"
#include "control/attach/identity.h"
#include "control/attach/reaper.h"
#include "control/base/listening.h"
#include "control/base/scm.h"
#include "control/ctl/internal.h"
#include "dataplane/base/clock.h"

enum {
	CALLERS_MAX = 32,
	CALLERS_OF_READERS = 24, /* the remaining ones are reserved for administrators */
	CALLERS_OF_UID = 8,
};
#define ASK_NS (60 * NS_PER_S)  /* idle limit until the next request */
#define TAKE_NS (10 * NS_PER_S) /* limit for the caller to take an answer */
#define LATER_NS (100 * NS_PER_MS)

struct ctl_callers ctl_callers = TAILQ_HEAD_INITIALIZER(ctl_callers);
struct ctl_source ctl_source;

static struct ctl_callers turns = TAILQ_HEAD_INITIALIZER(turns);
static struct listening listening = {.fd = -1};
static struct watch listen_watch;
static bool connecting;  /* a connection waits for accept() */
static bool accepted;    /* the last step accepted one, so a request is next */
static uint64_t next_at; /* earliest time of the next step */

#define CALLER(pointer) ((struct ctl_caller *)(void *)((char *)(pointer)-offsetof(struct ctl_caller, watch)))

/* ---- answers ---- */

static void
watch_for(struct ctl_caller *caller, uint32_t what)
{
	struct epoll_event event = {.events = what | EPOLLONESHOT, .data.ptr = &caller->watch};

	if (!caller->gone && epoll_ctl(control.epoll, EPOLL_CTL_MOD, caller->fd, &event) != 0)
		caller->gone = true;
}

/* SEQPACKET: the socket takes a packet whole or not at all. */
static void
send_answer(struct ctl_caller *caller)
{
	ssize_t n = send(caller->fd, caller->answer, strlen(caller->answer), MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		watch_for(caller, EPOLLOUT);
		return;
	}
	free(caller->answer);
	caller->answer = NULL;
	if (n < 0)
		caller->gone = true;
	caller->deadline = caller->traces ? NEVER : control.now + ASK_NS;
	watch_for(caller, EPOLLIN);
}

static char *
print_packet(json_t *packet)
{
	char *text = packet != NULL ? json_dumps(packet, JSON_COMPACT) : NULL;

	json_decref(packet);
	if (text != NULL && strlen(text) <= CTL_ANSWER_MAX)
		return text;
	free(text);
	return NULL;
}

void
ctl_answer(struct ctl_caller *caller, json_t *answer)
{
	caller->answer = print_packet(answer);
	caller->deadline = control.now + TAKE_NS;
	if (caller->answer == NULL)
		caller->gone = true;
	else
		send_answer(caller);
}

static void
send_text(struct ctl_caller *caller, const char *what, const char *format, va_list args)
{
	char text[1024];

	vsnprintf(text, sizeof(text), format, args);
	ctl_printable(text);
	ctl_answer(caller, json_pack("{s:s}", what, text));
}

void
ctl_refuse(struct ctl_caller *caller, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	send_text(caller, "error", format, args);
	va_end(args);
}

void
ctl_done(struct ctl_caller *caller, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	send_text(caller, "done", format, args);
	va_end(args);
}

bool
ctl_push(struct ctl_caller *caller, json_t *packet)
{
	char *text = print_packet(packet);
	bool taken =
		text != NULL && caller->answer == NULL &&
		send(caller->fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)strlen(text);

	free(text);
	return taken;
}

int
ctl_give_away(struct ctl_caller *caller)
{
	int fd = caller->fd;

	epoll_ctl(control.epoll, EPOLL_CTL_DEL, fd, NULL);
	caller->fd = -1;
	caller->gone = true;
	return fd;
}

/* ---- requests ---- */

static void (*const handlers[CTL_COMMANDS])(struct ctl_caller *caller, const struct ctl_request *request) = {
	[CTL_SHOW] = ctl_show,
	[CTL_TRACE] = ctl_trace_start,
	[CTL_METRICS] = ctl_metrics,
	[CTL_RELOAD] = ctl_reload,
	[CTL_PEER_ADD] = ctl_reload,
	[CTL_PEER_REMOVE] = ctl_reload,
	[CTL_CLIENT_KILL] = ctl_client_kill,
	[CTL_DRAIN] = ctl_drain,
	[CTL_LOG_LEVEL] = ctl_log_level,
	[CTL_MOVE] = ctl_move,
	[CTL_TAKE_OVER] = ctl_take_over,
	[CTL_UPGRADE] = ctl_upgrade,
};

static void
carry_out(struct ctl_caller *caller, const struct ctl_request *request)
{
	if (ctl_commands[request->command].needs == CTL_CHANGE)
		log_notice("event=command command=%s pid=%u uid=%u\n", ctl_commands[request->command].name,
			   caller->cred.pid, caller->cred.uid);
	handlers[request->command](caller, request);
}

static void
handle_request(struct ctl_caller *caller, const char *text, size_t len)
{
	struct ctl_request request;
	char why[512];
	int error = ctl_parse(text, len, &request, why, sizeof(why));

	if (error != 0 || request.command != CTL_METRICS)
		ctl_metrics_forget(caller);
	if (error != 0)
		ctl_refuse(caller, "%s", why);
	else if (ctl_commands[request.command].needs > caller->rights)
		ctl_refuse(
			caller,
			"%s: uid %u may only show and trace; ask as root, or as a member of ctl_admin_group",
			ctl_commands[request.command].name, caller->cred.uid);
	else
		carry_out(caller, &request);
}

/* No request carries descriptors. A reaper closes them, since close() may block. */
static void
discard_fds(struct ctl_caller *caller, struct msghdr *header)
{
	struct scm_cursor cursor = {0};
	int fd;

	while (scm_next_fd(header, &cursor, &fd)) {
		reaper_discard(caller->cred.uid, fd);
		caller->gone = true;
	}
}

static void
read_request(struct ctl_caller *caller)
{
	char text[CTL_REQUEST_MAX + 1];
	union ancillary ancillary;
	struct iovec iov = {text, sizeof(text)};
	struct msghdr header = {.msg_iov = &iov,
				.msg_iovlen = 1,
				.msg_control = &ancillary,
				.msg_controllen = sizeof(ancillary.bytes)};
	ssize_t n = recvmsg(caller->fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
		watch_for(caller, EPOLLIN);
		return;
	}
	if (n <= 0 || caller->traces) {
		caller->gone = true;
		return;
	}
	caller->deadline = NEVER; /* until the request is answered */
	discard_fds(caller, &header);
	if (!caller->gone)
		handle_request(caller, text, (size_t)n);
}

static void
caller_ready(struct watch *watch, uint32_t events)
{
	struct ctl_caller *caller = CALLER(watch);

	if (caller->in_turn || caller->gone)
		return;
	caller->in_turn = true;
	TAILQ_INSERT_TAIL(&turns, caller, turn);
}

/* ---- connections ---- */

static enum ctl_rights
rights_of(const struct ctl_caller *caller)
{
	const struct ucred *cred = &caller->cred;
	const gid_t admin = ctl_source.config->ctl_admin_group, group = ctl_source.config->ctl_group;

	if (cred->uid == 0 || cred->uid == geteuid())
		return CTL_CHANGE;
	if (admin != CONFIG_NO_GROUP && (cred->gid == admin || identity_in_group(caller->fd, admin)))
		return CTL_CHANGE;
	if (group != CONFIG_NO_GROUP && (cred->gid == group || identity_in_group(caller->fd, group)))
		return CTL_LOOK;
	return CTL_NOTHING;
}

/* Reason to refuse this caller, or NULL. */
static const char *
refusal_reason(const struct ctl_caller *one)
{
	uint32_t all = 0, of_uid = 0;
	const struct ctl_caller *caller;

	if (one->rights == CTL_NOTHING)
		return "this user may not access the data plane; ask as root, or as a member of ctl_group";
	TAILQ_FOREACH(caller, &ctl_callers, link) {
		all++;
		of_uid += caller->cred.uid == one->cred.uid;
	}
	if (one->rights == CTL_LOOK && of_uid >= CALLERS_OF_UID)
		return "this user has 8 connections, the most allowed; close one";
	if (all >= (one->rights == CTL_LOOK ? CALLERS_OF_READERS : CALLERS_MAX))
		return "all connections of the control socket are in use; try again later, or as root";
	return NULL;
}

static void
turn_away(struct ctl_caller *caller, const char *why)
{
	ctl_push(caller, json_pack("{s:s}", "error", why));
	reaper_close_socket(caller->cred.uid, caller->fd);
	free(caller);
}

static void
add_caller(int fd)
{
	struct ctl_caller *caller = calloc(1, sizeof(*caller));
	socklen_t len = sizeof(caller->cred);
	const char *why;

	if (caller == NULL || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &caller->cred, &len) != 0) {
		free(caller);
		reaper_close_socket(getuid(), fd);
		return;
	}
	caller->fd = fd;
	caller->rights = rights_of(caller);
	caller->watch.ready = caller_ready;
	caller->deadline = control.now + ASK_NS;
	why = refusal_reason(caller);
	if (why == NULL && control_watch(fd, &caller->watch, EPOLLIN | EPOLLONESHOT) != 0)
		why = "epoll cannot watch the connection; try again later";
	if (why != NULL)
		turn_away(caller, why);
	else
		TAILQ_INSERT_TAIL(&ctl_callers, caller, link);
}

static void
listen_ready(struct watch *watch, uint32_t events)
{
	connecting = true;
}

static void
accept_one(void)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.ptr = &listen_watch};
	int fd = -1;

	if (!reapers_late())
		fd = accept4(listening.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		add_caller(fd);
	else if (reapers_late() || (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)) {
		next_at = control.now + LATER_NS; /* out of descriptors, for example */
		return;
	}
	connecting = epoll_ctl(control.epoll, EPOLL_CTL_MOD, listening.fd, &event) != 0;
}

static void
forget_caller(struct ctl_caller *caller)
{
	TAILQ_REMOVE(&ctl_callers, caller, link);
	if (caller->in_turn)
		TAILQ_REMOVE(&turns, caller, turn);
	ctl_reload_forget(caller);
	ctl_upgrade_forget(caller);
	ctl_metrics_forget(caller);
	if (caller->traces)
		ctl_trace_stop();
	if (caller->fd >= 0) {
		epoll_ctl(control.epoll, EPOLL_CTL_DEL, caller->fd, NULL);
		reaper_close_socket(caller->cred.uid, caller->fd);
	}
	free(caller->answer);
	free(caller);
}

/* ---- the loop ---- */

static void
serve_one(void)
{
	struct ctl_caller *caller = TAILQ_FIRST(&turns);

	accepted = connecting && !(accepted && caller != NULL);
	if (accepted) {
		accept_one();
		return;
	}
	TAILQ_REMOVE(&turns, caller, turn);
	caller->in_turn = false;
	if (caller->answer != NULL)
		send_answer(caller);
	else
		read_request(caller);
}

static bool
any_waiting(void)
{
	return connecting || !TAILQ_EMPTY(&turns);
}

void
ctl_poll(void)
{
	struct ctl_caller *caller, *next;

	ctl_trace_poll();
	if (any_waiting() && control.now >= next_at) {
		uint64_t begin = clock_now(), end;

		next_at = begin;
		serve_one();
		end = clock_now();
		if (next_at <= end)
			next_at = end + CTL_SHARE * (end - begin);
	}
	for (caller = TAILQ_FIRST(&ctl_callers); caller != NULL; caller = next) {
		next = TAILQ_NEXT(caller, link);
		if (caller->gone || (!caller->in_turn && control.now >= caller->deadline))
			forget_caller(caller);
	}
}

uint64_t
ctl_deadline(void)
{
	uint64_t deadline = ctl_trace_deadline();
	const struct ctl_caller *caller;

	if (any_waiting() && next_at < deadline)
		deadline = next_at;
	TAILQ_FOREACH(caller, &ctl_callers, link)
		if (caller->deadline < deadline && !caller->in_turn)
			deadline = caller->deadline;
	return deadline;
}

/* With a group configured, anyone may connect, and an answer explains the refusal; without one, only the
 * owner may. */
static mode_t
socket_mode(void)
{
	const struct config *config = ctl_source.config;

	return config->ctl_group == CONFIG_NO_GROUP && config->ctl_admin_group == CONFIG_NO_GROUP ? 0600
												  : 0666;
}

void
ctl_permissions(void)
{
	struct ctl_caller *caller;

	/* Connected callers get the rights of the new configuration; ctl_poll() disconnects those without
	 * any. */
	TAILQ_FOREACH(caller, &ctl_callers, link) {
		caller->rights = rights_of(caller);
		caller->gone |= caller->rights == CTL_NOTHING;
	}
	if (listening.fd >= 0 && chmod(listening.address.sun_path, socket_mode()) != 0)
		log_warning("event=ctl_permissions path=\"%s\" error=\"%s\"\n", listening.address.sun_path,
			    strerror(errno));
}

int
ctl_open(const struct ctl_source *source, char *why, size_t why_len)
{
	char path[CONFIG_PATH_MAX];
	int error;

	ctl_source = *source;
	next_at = 0;
	connecting = accepted = false;
	ctl_source.started = control.now;
	ctl_log_open();
	json_object_seed(0); /* seed 0: reads /dev/urandom */
	/* config_validate() checked the length. */
	config_ctl_path(source->config, path);
	error = listening_open(&listening, "ctl", path, socket_mode(), why, why_len);
	if (error != 0)
		return error;
	listen_watch.ready = listen_ready;
	error = control_watch(listening.fd, &listen_watch, EPOLLIN | EPOLLONESHOT);
	if (error == 0)
		error = ctl_reload_open();
	if (error == 0)
		error = ctl_upgrade_open();
	if (error == 0)
		return 0;
	listening_close(&listening);
	return config_refuse(why, why_len, error, "ctl %s: %s", path, strerror(-error));
}

void
ctl_close(void)
{
	listening_close(&listening);
	connecting = false;
	while (!TAILQ_EMPTY(&ctl_callers))
		forget_caller(TAILQ_FIRST(&ctl_callers));
	ctl_reload_close();
	ctl_upgrade_close();
}
