/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests and replies on the control socket. */
#include <sys/socket.h>
#include <unistd.h>

#include "client/internal.h"
#include "client/tell.h"

int
client_check(const struct one_client *client)
{
	if (client_foreign(client))
		return -ECHILD;
	return one_client_dead(client) ? -ECONNRESET : 0;
}

void
client_fail(struct one_client *client)
{
	shutdown(client->sock, SHUT_RDWR);
}

static int
send_request(int sock, struct one_msg *msg, const int *fds, uint32_t num_fds)
{
	union {
		char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(ONE_MSG_FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	/* The kernel would add the real ids, but those that count are the effective ones. */
	const struct ucred self = {.pid = getpid(), .uid = geteuid(), .gid = getegid()};
	struct iovec iov = {.iov_base = msg, .iov_len = sizeof(*msg)};
	struct msghdr hdr = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = CMSG_SPACE(sizeof(self))};
	struct cmsghdr *cmsg = &control.align;
	ssize_t n;

	memset(&control, 0, sizeof(control));
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_CREDENTIALS;
	cmsg->cmsg_len = CMSG_LEN(sizeof(self));
	memcpy(CMSG_DATA(cmsg), &self, sizeof(self));
	if (num_fds > 0) {
		hdr.msg_controllen += CMSG_SPACE(num_fds * sizeof(int));
		cmsg = CMSG_NXTHDR(&hdr, cmsg);
		cmsg->cmsg_level = SOL_SOCKET;
		cmsg->cmsg_type = SCM_RIGHTS;
		cmsg->cmsg_len = CMSG_LEN(num_fds * sizeof(int));
		memcpy(CMSG_DATA(cmsg), fds, num_fds * sizeof(int));
	}
	do {
		n = sendmsg(sock, &hdr, MSG_NOSIGNAL);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EPIPE ? -ECONNRESET : -errno;
	return n == (ssize_t)sizeof(*msg) ? 0 : -EPROTO;
}

/* Moves descriptors out of a message: the first `room` of them to `got`, the rest are closed. */
static uint32_t
take_fds(struct msghdr *hdr, int *got, uint32_t room)
{
	uint32_t taken = 0;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(hdr); c != NULL; c = CMSG_NXTHDR(hdr, c)) {
		size_t count;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < count; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
			if (taken < room)
				got[taken++] = fd;
			else
				close(fd);
		}
	}
	return taken;
}

int
call_exchange(int sock, struct one_msg *msg, const int *fds, uint32_t num_fds, struct one_reply *reply,
	      int *got, uint32_t *num_got)
{
	union {
		char bytes[CMSG_SPACE(ONE_MSG_FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct iovec iov = {.iov_base = reply, .iov_len = sizeof(*reply)};
	struct msghdr hdr = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	uint32_t taken;
	ssize_t n;
	int error = send_request(sock, msg, fds, num_fds);

	if (error != 0)
		return error;
	do {
		n = recvmsg(sock, &hdr, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? -ETIMEDOUT : -errno;
	taken = take_fds(&hdr, got, num_got != NULL ? *num_got : 0);
	if (n == 0)
		error = -ECONNRESET;
	else if (n != (ssize_t)sizeof(*reply) || (hdr.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 ||
		 reply->type != msg->type || reply->seq != msg->seq)
		error = -EPROTO;
	if (error != 0) {
		while (taken > 0)
			close(got[--taken]);
	}
	if (num_got != NULL)
		*num_got = taken;
	return error;
}

static int
call(struct one_client *client, struct one_msg *msg, const int *fds, uint32_t num_fds,
     struct one_reply *reply, int *got, uint32_t *num_got)
{
	struct one_reply scrap;
	int error;

	if (num_fds > ONE_MSG_FDS)
		return -EINVAL;
	if (reply == NULL)
		reply = &scrap;
	/* Before the lock: in a forked child another thread of the parent may seem to hold it. */
	error = client_check(client);
	if (error != 0)
		return error;
	pthread_mutex_lock(&client->call_lock);
	error = client_check(client);
	if (error == 0) {
		msg->seq = ++client->seq;
		error = call_exchange(client->sock, msg, fds, num_fds, reply, got, num_got);
		/* Requests that cannot even be sent (too many descriptors in flight, no memory)
		 * leave the socket in step; anything else does not. */
		if (error != 0 && error != -ETOOMANYREFS && error != -ENOBUFS && error != -ENOMEM &&
		    error != -EBADF) {
			client_fail(client);
			error = -ECONNRESET;
		}
	}
	pthread_mutex_unlock(&client->call_lock);
	if (error == 0 && reply->error != 0 && one_telling)
		one_note_cause(reply->error, reply->subject, reply->value);
	else if (error != 0 && one_telling)
		one_note_cause(error, ONE_SUBJECT_NONE, 0);
	return error != 0 ? error : reply->error;
}

int
one_call(struct one_client *client, struct one_msg *msg, const int *fds, uint32_t num_fds,
	 struct one_reply *reply)
{
	return call(client, msg, fds, num_fds, reply, NULL, NULL);
}

int
one_call_fd(struct one_client *client, struct one_msg *msg, struct one_reply *reply, int *fd)
{
	uint32_t num = 1;
	int error;

	*fd = -1;
	error = call(client, msg, NULL, 0, reply, fd, &num);
	if (error != 0 && *fd >= 0) {
		close(*fd);
		*fd = -1;
	}
	return error;
}
