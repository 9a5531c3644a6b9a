/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests and replies on the control socket. */
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/internal.h"
#include "client/tell.h"

#define KEY_LOOKS 64   /* at an answer, between two times that the processor is given away, */
#define KEY_TURNS 1000 /* which is done so often before sleeping: */
#define KEY_SLEEP_MS 1

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
	/* Who has -ECONNRESET finds the attachment dead, though the watcher may be late.  Pairs with the
	 * acquire load in one_client_dead. */
	atomic_store_explicit(&client->dead, true, memory_order_release);
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
	else if (*(const char *)reply == '{') /* JSON, which the control socket speaks */
		error = -EPROTOTYPE;
	else if (n != (ssize_t)sizeof(*reply) || (hdr.msg_flags & MSG_TRUNC) != 0 ||
		 reply->type != msg->type || reply->seq != msg->seq)
		error = -EPROTO;
	else if ((hdr.msg_flags & MSG_CTRUNC) != 0) /* this process had no room for its descriptors */
		error = -EMFILE;
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
		/* Requests that cannot even be sent (too many descriptors in flight, no memory), and replies
		 * without their descriptors, leave the socket in step; anything else does not. */
		if (error != 0 && error != -ETOOMANYREFS && error != -ENOBUFS && error != -ENOMEM &&
		    error != -EBADF && error != -EMFILE) {
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
one_call_id(struct one_client *client, enum one_msg_type type, uint32_t id)
{
	struct one_msg msg = {.type = type, .id.id = id};

	return one_call(client, &msg, NULL, 0, NULL);
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

/* ---- keys, on the polling core ---- */

static void
ring_keys(struct one_client *client)
{
	uint64_t one = 1;

	/* Pairs with the engine's exchange in doorbell scanning. */
	atomic_store_explicit(&client->doorbells->keys, 1, memory_order_release);
	if (client->info.idle != ONE_IDLE_SLEEP)
		return;
	/* As in one_qp_wake. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&client->header->engine_asleep, memory_order_relaxed) != 0 &&
	    write(client->wake_fd, &one, sizeof(one)) < 0)
		return; /* a full counter is readable all the same */
}

/* The core may share this processor; and what it does before may take long. */
static int
await_key(struct one_client *client, uint32_t asked)
{
	struct pollfd end = {.fd = client->sock};

	for (uint32_t turn = 0;; turn++) {
		for (int i = 0; i < KEY_LOOKS; i++) {
			/* Pairs with the store in serve_keys. */
			if (atomic_load_explicit(&client->keys->answered, memory_order_acquire) == asked)
				return 0;
			one_cpu_relax();
		}
		if (turn < KEY_TURNS)
			sched_yield();
		else if (poll(&end, 1, KEY_SLEEP_MS) > 0)
			client_fail(client); /* hung up: nobody answers any more */
		if (client_check(client) != 0)
			return client_check(client);
	}
}

int
call_key(struct one_client *client, enum one_key_op op, uint32_t key, uint32_t next)
{
	struct one_keys *keys = client->keys;
	uint32_t asked = one_load_alone(&keys->asked) + 1;
	int error = client_check(client);

	if (error != 0)
		return error;
	one_store_alone(&keys->op, op);
	one_store_alone(&keys->key, key);
	one_store_alone(&keys->next, next);
	/* Pairs with the load in serve_keys. */
	atomic_store_explicit(&keys->asked, asked, memory_order_release);
	ring_keys(client);
	error = await_key(client, asked);
	if (error != 0)
		return error;
	return one_load_alone(&keys->refused) != 0 ? -EAGAIN : 0;
}
