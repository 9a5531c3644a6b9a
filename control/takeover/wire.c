/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/takeover/wire.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/base/log.h"
#include "control/base/scm.h"
#include "dataplane/base/clock.h"

#define NS_PER_MS 1000000ull
#define WAIT_MS 60000u /* of one poll() */

const char *const takeover_step_name[TAKEOVER_STEPS] = {
	[TAKEOVER_GIVE_ASKED] = "give-asked",       [TAKEOVER_GIVE_STOPPED] = "give-stopped",
	[TAKEOVER_GIVE_WRITTEN] = "give-written",   [TAKEOVER_GIVE_CLOSED] = "give-closed",
	[TAKEOVER_GIVE_SENT] = "give-sent",         [TAKEOVER_GIVE_COMMITTED] = "give-committed",
	[TAKEOVER_GIVE_ANSWERED] = "give-answered", [TAKEOVER_TAKE_CONNECTED] = "take-connected",
	[TAKEOVER_TAKE_PREPARED] = "take-prepared", [TAKEOVER_TAKE_RECEIVED] = "take-received",
	[TAKEOVER_TAKE_OPENED] = "take-opened",     [TAKEOVER_TAKE_BUILT] = "take-built",
	[TAKEOVER_TAKE_READY] = "take-ready",       [TAKEOVER_TAKE_COMMITTED] = "take-committed",
};

void
takeover_step(enum takeover_step step)
{
	const char *kill = getenv("ONESIDE_TAKEOVER_KILL"), *stop = getenv("ONESIDE_TAKEOVER_STOP");
	uint64_t now = clock_now();

	log_info("event=takeover_step step=%s at_us=%llu\n", takeover_step_name[step],
		 (unsigned long long)(now / 1000));
	if (kill != NULL && strcmp(kill, takeover_step_name[step]) == 0)
		raise(SIGKILL);
	if (stop != NULL && strcmp(stop, takeover_step_name[step]) == 0)
		raise(SIGSTOP);
}

int
takeover_peer(int socket, struct ucred *cred)
{
	socklen_t len = sizeof(*cred);

	*cred = (struct ucred){.uid = (uid_t)-1};
	getsockopt(socket, SOL_SOCKET, SO_PEERCRED, cred, &len);
	return cred->pid > 0 ? (int)syscall(SYS_pidfd_open, cred->pid, 0) : -1;
}

int
takeover_wait(int descriptor, short what, uint64_t deadline)
{
	struct pollfd fd = {.fd = descriptor, .events = what};

	for (;;) {
		uint64_t now = clock_now(), left = now >= deadline ? 0 : (deadline - now) / NS_PER_MS + 1;
		int n = poll(&fd, 1, (int)RTE_MIN(left, WAIT_MS));

		if (n > 0)
			return 0;
		if (n == 0 && clock_now() >= deadline)
			return -ETIMEDOUT;
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

int
takeover_send(int socket, const void *message, size_t size, const int *fds, uint32_t num, uint64_t deadline)
{
	union {
		char bytes[CMSG_SPACE(TAKEOVER_FDS * sizeof(int))];
		struct cmsghdr align;
	} ancillary = {0};
	struct iovec iov = {(void *)(uintptr_t)message, size};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
	struct cmsghdr *cmsg;

	if (num > 0) {
		header.msg_control = &ancillary;
		header.msg_controllen = CMSG_SPACE(num * sizeof(int));
		cmsg = CMSG_FIRSTHDR(&header);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(num * sizeof(int));
		memcpy(CMSG_DATA(cmsg), fds, num * sizeof(int));
	}
	while (sendmsg(socket, &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		int error = errno == EAGAIN  ? takeover_wait(socket, POLLOUT, deadline)
			    : errno == EINTR ? 0
					     : -errno;

		if (error != 0)
			return error;
	}
	return 0;
}

int
takeover_say(int socket, enum takeover_kind kind, uint32_t count, const int *fds, uint32_t num,
	     uint64_t deadline)
{
	const struct takeover_message message = {.magic = TAKEOVER_MAGIC, .kind = kind, .count = count};

	return takeover_send(socket, &message, sizeof(message), fds, num, deadline);
}

void
takeover_refuse(int socket, const char *text)
{
	struct takeover_message message = {.magic = TAKEOVER_MAGIC, .kind = TAKEOVER_REFUSED};

	snprintf(message.text, sizeof(message.text), "%s", text);
	takeover_send(socket, &message, sizeof(message), NULL, 0, clock_now());
}

static void
take_fds(struct msghdr *header, int *fds, uint32_t *num)
{
	struct scm_cursor cursor = {0};
	int fd;

	*num = 0;
	while (scm_next_fd(header, &cursor, &fd)) {
		if (*num < TAKEOVER_FDS && fds != NULL)
			fds[(*num)++] = fd;
		else
			close(fd);
	}
}

int
takeover_receive_into(int socket, void *to, size_t size, int *fds, uint32_t *num, uint64_t deadline)
{
	union {
		char bytes[CMSG_SPACE(TAKEOVER_FDS * sizeof(int)) + CMSG_SPACE(64)];
		struct cmsghdr align;
	} ancillary;
	struct iovec iov = {to, size};
	uint32_t none;

	for (;;) {
		struct msghdr header = {.msg_iov = &iov,
					.msg_iovlen = 1,
					.msg_control = &ancillary,
					.msg_controllen = sizeof(ancillary.bytes)};
		ssize_t n;
		int error = takeover_wait(socket, POLLIN, deadline);

		if (error != 0)
			return error;
		n = recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		/* ECONNRESET, once: the other process has closed without reading all.  What it said before
		 * still waits here. */
		if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNRESET))
			continue;
		if (n < 0)
			return -errno;
		take_fds(&header, fds, num != NULL ? num : &none);
		if ((header.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) != 0)
			return -EMFILE;
		return n == 0 ? -EPIPE : (int)n;
	}
}

int
takeover_hear(int socket, struct takeover_message *message, uint64_t deadline)
{
	int n = takeover_receive_into(socket, message, sizeof(*message), NULL, NULL, deadline);

	if (n < 0)
		return n;
	if (n != (int)sizeof(*message) || message->magic != TAKEOVER_MAGIC)
		return -EPROTO;
	message->text[sizeof(message->text) - 1] = '\0';
	return (int)message->kind;
}
