/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests to the control socket, and answers. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "config/ctl_path.h"
#include "control/onesidectl/onesidectl.h"

#define ANSWER_ROOM 65537u
#define WAIT_S 30  /* limit for an answer: the data plane may be busy or read a file */
#define RETRIES 20 /* of a connection, each second */

static int connection = -1;

/* Returns a connection, or -errno of connect(). */
static int
try_connect(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	const struct timeval wait = {.tv_sec = WAIT_S};
	const char *path = onesidectl_options.socket;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), error;

	if (strlen(path) >= sizeof(address.sun_path))
		onesidectl_fail("socket %s: the path is too long; give a shorter one by --socket PATH", path);
	strcpy(address.sun_path, path);
	if (fd < 0)
		onesidectl_fail("socket: %s", strerror(errno));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
		return fd;
	error = errno;
	close(fd);
	return -error;
}

int
ask_connect(void)
{
	const char *path = onesidectl_options.socket;
	int fd = try_connect();

	if (fd >= 0)
		return fd;
	if (fd == -EACCES)
		onesidectl_fail(
			"socket %s: this user may not access the data plane; run as root, or set the data plane's ctl_group to a group of this user",
			path);
	if (fd == -ENOENT || fd == -ECONNREFUSED)
		onesidectl_fail(
			"socket %s: no data plane listens (%s); start one (systemctl start oneside), or give --socket PATH",
			path, strerror(-fd));
	onesidectl_fail("socket %s: %s; give --socket PATH", path, strerror(-fd));
}

void
ask_send(int fd, json_t *request)
{
	char *text = json_dumps(request, JSON_COMPACT);

	json_decref(request);
	if (text == NULL)
		onesidectl_fail("out of memory, or a word is not UTF-8; write ASCII");
	/* A refused caller gets EPIPE here; the reason is still to be received. */
	if (send(fd, text, strlen(text), MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
		onesidectl_fail("socket %s: %s", onesidectl_options.socket, strerror(errno));
	free(text);
}

/* False if a terminal would interpret the text: escape sequences begin with a control character, including
 * U+0080 to U+009F. */
static bool
is_text(const char *text)
{
	for (const uint8_t *c = (const uint8_t *)text; *c != 0; c++)
		if ((*c < ' ' && *c != '\n') || *c == 0x7f || (c[0] == 0xc2 && c[1] < 0xa0))
			return false;
	return true;
}

/* Answers are untrusted: any program may serve the socket, and they are printed unchanged. */
static bool
is_printable(json_t *value)
{
	const char *name;
	json_t *part;
	size_t i;

	json_object_foreach(value, name, part) {
		if (!is_text(name) || !is_printable(part))
			return false;
	}
	json_array_foreach(value, i, part) {
		if (!is_printable(part))
			return false;
	}
	return !json_is_string(value) || is_text(json_string_value(value));
}

/* The application socket closes a connection that does not begin with an attach request. */
static _Noreturn void
fail_ended(void)
{
	const char *path = onesidectl_options.socket;
	char beside[sizeof(((struct sockaddr_un *)0)->sun_path) + 8];

	if (ctl_path_beside(path, beside, sizeof(beside)) && access(beside, F_OK) == 0)
		onesidectl_fail("socket %s: this socket is for applications; give --socket %s", path, beside);
	onesidectl_fail("socket %s: the data plane closed the connection; see its log", path);
}

json_t *
ask_answer_or_end(int fd)
{
	static char text[ANSWER_ROOM];
	ssize_t n;
	json_t *answer, *error;

	do
		n = recv(fd, text, sizeof(text), 0);
	while (n < 0 && errno == EINTR);
	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
		onesidectl_fail("socket %s: no answer within %d seconds; see the data plane's log",
				onesidectl_options.socket, WAIT_S);
	if (n < 0 && errno != ECONNRESET)
		onesidectl_fail("socket %s: %s", onesidectl_options.socket, strerror(errno));
	if (n <= 0)
		return NULL;
	answer = json_loadb(text, (size_t)n, 0, NULL);
	if (!json_is_object(answer))
		onesidectl_fail(
			"socket %s: the answer is not JSON; check that a data plane of this version listens",
			onesidectl_options.socket);
	if (!is_printable(answer))
		onesidectl_fail(
			"socket %s: the answer has control characters; check that a data plane listens",
			onesidectl_options.socket);
	error = json_object_get(answer, "error");
	if (json_is_string(error))
		onesidectl_fail("%s", json_string_value(error));
	return answer;
}

json_t *
ask_answer(int fd)
{
	json_t *answer = ask_answer_or_end(fd);

	if (answer == NULL)
		fail_ended();
	return answer;
}

static void
limit_wait(void)
{
	const struct timeval wait = {.tv_sec = WAIT_S};

	setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
}

void
ask_disconnect(void)
{
	if (connection >= 0)
		close(connection);
	connection = -1;
}

void
ask_wait(void)
{
	for (int tries = WAIT_S * RETRIES; (connection = try_connect()) < 0 && tries > 0; tries--)
		usleep(1000000 / RETRIES);
	if (connection < 0)
		connection = ask_connect();
	limit_wait();
}

json_t *
ask_one(json_t *request)
{
	if (connection < 0) {
		connection = ask_connect();
		limit_wait();
	}
	ask_send(connection, request);
	return ask_answer(connection);
}

/* Requires progress from page to page: otherwise a bad answer would loop for ever. */
json_t *
ask_next(const json_t *page, const json_t *from)
{
	json_t *next = json_object_get(page, "next");

	if (next != NULL && json_integer_value(next) <= json_integer_value(from))
		onesidectl_fail(
			"socket %s: the answer's pages do not advance; check that a data plane listens",
			onesidectl_options.socket);
	return json_incref(next);
}

json_t *
ask_list(const char *what, const json_t *filters)
{
	json_t *all = json_array(), *from, *next = NULL;

	do {
		json_t *request = json_pack("{s:s, s:s}", "command", "show", "what", what), *page;

		json_object_update(request, (json_t *)(uintptr_t)filters);
		if (next != NULL)
			json_object_set(request, "from", next);
		page = ask_one(request);
		json_array_extend(all, json_object_get(page, what));
		from = next;
		next = ask_next(page, from);
		json_decref(from);
		json_decref(page);
	} while (next != NULL);
	return json_pack("{s:o}", what, all);
}

void
ask_change(json_t *request)
{
	json_t *answer = ask_one(request);
	const char *done = json_string_value(json_object_get(answer, "done"));

	if (!onesidectl_json(answer, JSON_INDENT(2)))
		puts(done != NULL ? done : "done");
	json_decref(answer);
}
