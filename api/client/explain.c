/* SPDX-License-Identifier: BSD-3-Clause */
/* Reports the reasons of refused calls: see explain.h. */
#include "client/explain.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define NOTE_MAX 400

bool one_explaining;

static struct stat first_stderr; /* when this library was loaded */

static __thread struct {
	uint32_t code; /* 0: nothing noted */
	char note[NOTE_MAX];
	char cause[NOTE_MAX];
} said;

void
one_warn_in(int file, const char *format, ...)
{
	static const char head[] = "oneside: ";
	char line[NOTE_MAX];
	int before = errno, len = sizeof(head) - 1;
	va_list args;

	memcpy(line, head, sizeof(head));
	va_start(args, format);
	len += vsnprintf(line + len, sizeof(line) - sizeof(head), format, args);
	va_end(args);
	if (len >= (int)sizeof(line) - 1)
		len = (int)sizeof(line) - 2;
	line[len++] = '\n';
	if (write(file, line, (size_t)len) < 0)
		errno = before;
	errno = before;
}

void
one_warn_gone(int sock)
{
	static _Atomic time_t last; /* the exchange lets one thread a second print */
	struct sockaddr_un address = {.sun_path = ""};
	socklen_t len = sizeof(address) - 1;
	struct timespec now;
	struct stat st;
	/* A copy: the program may give the number 2 to another file between the look and the write. */
	int before = errno, file = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);

	clock_gettime(CLOCK_MONOTONIC, &now);
	/* A pipe that nobody reads would stop all who wait for the watcher. */
	if (file >= 0 && poll(&(struct pollfd){.fd = file, .events = POLLOUT}, 1, 0) == 1 &&
	    fstat(file, &st) == 0 && st.st_dev == first_stderr.st_dev && st.st_ino == first_stderr.st_ino &&
	    atomic_exchange_explicit(&last, now.tv_sec, memory_order_relaxed) != now.tv_sec) {
		getpeername(sock, (struct sockaddr *)&address, &len);
		one_warn_in(
			file,
			"the data plane at %s has gone, or has ended this attachment: work is flushed, and connections are broken; see its log, and open again when it serves",
			address.sun_path);
	}
	if (file >= 0)
		close(file);
	errno = before;
}

__attribute__((constructor)) static void
read_environment(void)
{
	const char *wanted = secure_getenv("ONESIDE_DEBUG");
	char *end = NULL;
	int before = errno;

	if (fstat(STDERR_FILENO, &first_stderr) != 0)
		memset(&first_stderr, 0, sizeof(first_stderr));
	errno = before;
	one_explaining = wanted != NULL && strtoul(wanted, &end, 0) != 0;
	if (wanted != NULL && (end == wanted || *end != '\0'))
		one_warn("ONESIDE_DEBUG = %.32s: this is not a number; write 1, or 0", wanted);
}

const char *
one_attach_reason(int error)
{
	switch (error) {
	case -ENODEV:
		return "it has no port of this name";
	case -EPROTO:
		return "it is of another version";
	case -EPROTOTYPE:
		return "this socket is not for applications";
	case -ENAMETOOLONG:
		return "the path is longer than a socket's may be";
	case -EMFILE:
	case -ENFILE:
		return "no descriptor is left to this process, or to the system";
	case -ECONNRESET:
		return "it turned this process away";
	case -EDQUOT:
		return "there are too many attachments";
	default:
		return strerror(-error);
	}
}

const char *
one_attach_remedy(int error)
{
	switch (error) {
	case -ENODEV:
		return "its configuration names them";
	case -ENOENT:
	case -ECONNREFUSED:
		return "start oneside-dataplane(8), or set ONESIDE_SOCKET to where it listens";
	case -EPROTOTYPE:
		return "let ONESIDE_SOCKET name the one for applications; the one in .ctl is onesidectl's";
	case -ENAMETOOLONG:
		return "give one of at most 107 bytes";
	case -EACCES:
	case -EPERM:
		return "be of the group that may attach: socket_mode in oneside.conf(5), and the socket's group";
	case -EPROTO:
		return "install libraries and data plane of one release";
	case -EMFILE:
	case -ENFILE:
		return "close some, or raise the limit (ulimit -n)";
	case -EDQUOT:
		return "close others, or raise max_clients or max_clients_per_uid in oneside.conf(5)";
	default:
		return "see the data plane's log";
	}
}

void
one_attach_text(int error, const char *path, char text[ONE_ATTACH_TEXT])
{
	bool none = error == -ENOENT || error == -ECONNREFUSED;

	snprintf(text, ONE_ATTACH_TEXT, "%s at %s: %s; %s",
		 none ? "no data plane serves" : "no attachment to the data plane", path,
		 one_attach_reason(error), one_attach_remedy(error));
}

void
one_note(uint32_t code, const char *format, ...)
{
	int before = errno;
	va_list args;

	va_start(args, format);
	vsnprintf(said.note, sizeof(said.note), format, args);
	va_end(args);
	said.code = code;
	errno = before;
}

void
one_note_reason(const char *format, ...)
{
	int before = errno;
	va_list args;

	va_start(args, format);
	vsnprintf(said.cause, sizeof(said.cause), format, args);
	va_end(args);
	errno = before;
}

const char *
one_noted(uint32_t code)
{
	return code != 0 && said.code == code ? said.note : NULL;
}

const char *
one_noted_cause(void)
{
	return said.cause[0] != '\0' ? said.cause : NULL;
}

static const char *
subject_name(uint32_t subject)
{
	static const char *const name[] = {
		[ONE_SUBJECT_NONE] = "request",
		[ONE_SUBJECT_VERSION] = "protocol version",
		[ONE_SUBJECT_PORT] = "port",
		[ONE_SUBJECT_PZ] = "protection zone",
		[ONE_SUBJECT_CQ_SEND] = "send queue",
		[ONE_SUBJECT_CQ_RECV] = "receive queue",
		[ONE_SUBJECT_CQ_CONN] = "event queue",
		[ONE_SUBJECT_QP] = "queue pair",
		[ONE_SUBJECT_SRQ] = "shared receives",
		[ONE_SUBJECT_LISTENER] = "service",
		[ONE_SUBJECT_CR] = "connection request",
		[ONE_SUBJECT_REGION] = "memory",
		[ONE_SUBJECT_MR] = "memory region",
		[ONE_SUBJECT_MW] = "memory window",
		[ONE_SUBJECT_SEGMENT] = "segment",
		[ONE_SUBJECT_ADDRESS] = "address",
		[ONE_SUBJECT_LENGTH] = "length",
		[ONE_SUBJECT_ACCESS] = "access rights",
		[ONE_SUBJECT_COUNT] = "count",
		[ONE_SUBJECT_QUOTA] = "quota",
		[ONE_SUBJECT_MEMORY] = "memory",
		[ONE_SUBJECT_CHANNEL] = "channel",
		[ONE_SUBJECT_AH] = "address handle",
	};

	return subject < sizeof(name) / sizeof(name[0]) && name[subject] != NULL ? name[subject] : "request";
}

/* True if a key can be printed: the data plane's message is checked like any input. */
static bool
is_name(const char *key, size_t room)
{
	size_t len = strnlen(key, room);

	return len > 0 && len < room &&
	       strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") == len;
}

static void
note_limit(uint64_t value, const struct one_limit *limit)
{
	const char *key = is_name(limit->key, sizeof(limit->key)) ? limit->key : "";
	bool configured = strncmp(key, "max_", 4) == 0;

	if (value == 0 && key[0] == '\0')
		snprintf(said.cause, sizeof(said.cause),
			 "the data plane = draining: it begins nothing new; wait for the one that follows");
	else if (key[0] == '\0')
		snprintf(said.cause, sizeof(said.cause),
			 "the data plane's limit = %" PRIu64
			 ": it is reached, and no key of oneside.conf(5) raises it; free what is not needed",
			 value);
	else
		snprintf(said.cause, sizeof(said.cause),
			 "the data plane's limit = %" PRIu64
			 ": it is reached; free what is not needed, or raise %s%s%s",
			 value, configured ? "" : "the data plane's ", key,
			 configured ? " in oneside.conf(5)" : "");
}

void
one_note_cause(int error, uint32_t subject, uint64_t value, const struct one_limit *limit)
{
	int before = errno;

	if (subject == ONE_SUBJECT_QUOTA)
		note_limit(value, limit);
	else if (error == -EBADF)
		snprintf(
			said.cause, sizeof(said.cause),
			"a descriptor of this library was closed by the program; leave descriptors of others open, then close and open again");
	else if (error == -ECONNRESET)
		snprintf(
			said.cause, sizeof(said.cause),
			"connection to the data plane lost: the data plane ended, ended this attachment, or did not run for 30 s; see its log, then close and open again");
	else
		snprintf(said.cause, sizeof(said.cause),
			 "%s = %#" PRIx64 ": the data plane refused it, %s; see its log",
			 subject_name(subject), value,
			 error < 0 ? strerror(-error) : "for the reason of the code");
	errno = before;
}

void
one_explain_nothing(void)
{
	said.code = 0;
	said.cause[0] = '\0';
}

void
one_explain(const char *function, const char *text, const char *code)
{
	char line[NOTE_MAX + 256];
	int before = errno, len;

	len = snprintf(line, sizeof(line) - 1, "oneside: %s: %s (%s)", function, text, code);
	if (len >= (int)sizeof(line) - 1)
		len = (int)sizeof(line) - 2;
	/* The text may contain a string of the application's. */
	for (int i = 0; i < len; i++) {
		if (line[i] == '\n' || line[i] == '\r')
			line[i] = ' ';
	}
	line[len++] = '\n';
	/* A single write keeps lines of several threads apart. A failure cannot be reported. */
	if (write(STDERR_FILENO, line, (size_t)len) < 0)
		errno = before;
	one_explain_nothing();
	errno = before;
}

uint64_t
one_argument_bits(const struct one_argument *argument)
{
	uint64_t bits = 0;

	memcpy(&bits, argument->at, argument->size < sizeof(bits) ? argument->size : sizeof(bits));
	return bits;
}

void
one_argument_text(const struct one_argument *argument, char *text, size_t size)
{
	uint64_t bits = one_argument_bits(argument);

	switch (argument->kind) {
	case ONE_ARGUMENT_SIGNED:
		snprintf(text, size, "%s = %" PRId64, argument->name,
			 argument->size == sizeof(int32_t) ? (int64_t)(int32_t)bits : (int64_t)bits);
		break;
	case ONE_ARGUMENT_UNSIGNED:
		snprintf(text, size, "%s = %" PRIu64, argument->name, bits);
		break;
	case ONE_ARGUMENT_TEXT:
		if (bits != 0) {
			snprintf(text, size, "%s = \"%.64s\"", argument->name, (const char *)(uintptr_t)bits);
			break;
		}
		/* fallthrough */
	default:
		snprintf(text, size, bits == 0 ? "%s = 0" : "%s = %#" PRIx64, argument->name, bits);
	}
}
