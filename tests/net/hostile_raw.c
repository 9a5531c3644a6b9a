/* SPDX-License-Identifier: BSD-3-Clause */
/* Attachments without the library: messages built by hand. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "hostile.h"

int
raw_connect(void)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", socket_path);
	must(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0, "connect");
	return fd;
}

bool
raw_send(int fd, const void *data, size_t len, const int *fds, uint32_t num_fds)
{
	union {
		char bytes[CMSG_SPACE(253 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {.iov_base = (void *)(uintptr_t)data, .iov_len = len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (num_fds > 0) {
		struct cmsghdr *cmsg;

		memset(&control, 0, sizeof(control));
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE(num_fds * sizeof(int));
		cmsg = CMSG_FIRSTHDR(&msg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(num_fds * sizeof(int));
		memcpy(CMSG_DATA(cmsg), fds, num_fds * sizeof(int));
	}
	/* The data plane is allowed to have hung up already. */
	return sendmsg(fd, &msg, MSG_NOSIGNAL) >= 0;
}

/* Returns the attachment's arena, or -1 if HELLO was refused. */
int
raw_attach(int fd)
{
	union {
		char bytes[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct one_msg msg = hello();
	struct one_reply reply;
	struct iovec iov = {.iov_base = &reply, .iov_len = sizeof(reply)};
	struct msghdr header = {.msg_iov = &iov,
				.msg_iovlen = 1,
				.msg_control = control.bytes,
				.msg_controllen = sizeof(control.bytes)};
	int fds[2];

	raw_send(fd, &msg, sizeof(msg), NULL, 0);
	if (recvmsg(fd, &header, MSG_CMSG_CLOEXEC) != sizeof(reply) || reply.error != 0 ||
	    CMSG_FIRSTHDR(&header) == NULL)
		return -1;
	memcpy(fds, CMSG_DATA(CMSG_FIRSTHDR(&header)), sizeof(fds));
	close(fds[1]);
	return fds[0];
}

/* Waits until the data plane replies or hangs up; closes `fd`; returns whether a reply came. */
bool
answer_or_end(int fd)
{
	struct timeval limit = {.tv_sec = 5 * SHARE};
	uint8_t buffer[4096];
	ssize_t n;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	n = recv(fd, buffer, sizeof(buffer), 0);
	must(n >= 0 || errno == ECONNRESET, "no answer and no end");
	close(fd);
	return n > 0;
}

struct one_msg
hello(void)
{
	struct one_msg msg;

	memset(&msg, 0, sizeof(msg));
	msg.type = ONE_MSG_HELLO;
	msg.seq = 1;
	msg.hello.magic = ONE_MSG_MAGIC;
	msg.hello.version = ONE_ABI_VERSION;
	msg.hello.kind = ONE_KIND_DAT;
	return msg;
}

/* Sends a request; returns the error in the reply. */
int
raw_call(int fd, const struct one_msg *msg, struct one_reply *reply)
{
	raw_send(fd, msg, sizeof(*msg), NULL, 0);
	must(recv(fd, reply, sizeof(*reply), 0) == sizeof(*reply), "no answer");
	return reply->error;
}
