/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests and replies on the control socket. */
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "client/internal.h"
#include "client/explain.h"
#include "client/wait.h"

#define KEY_LOOKS 64   /* polls for an answer between two sched_yield() */
#define KEY_TURNS 1000 /* sched_yield() before the thread sleeps between polls */
#define KEY_SLEEP_MS 1

#define SILENCES_MAX (ONE_SILENCE_MAX_S / ONE_SILENCE_S)

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
	/* A thread that gets -ECONNRESET finds the attachment dead, and the reason printed, even if the
	 * watcher is late and the program ends at once. */
	client_mark_dead(client);
	shutdown(client->sock, SHUT_RDWR);
}

static int
send_request(int sock, struct one_msg *msg, const int *fds, uint32_t num_fds)
{
	union {
		char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(ONE_MSG_FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	/* The kernel would send the real ids, but the effective ones count. */
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

/* Takes the descriptors out of a message: stores the first `room` in `got`, closes the others. */
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

/* Receives one reply with up to ONE_MSG_FDS descriptors; -EAGAIN: none came within the socket's time
 * limit. */
static int
receive_reply(int sock, struct one_reply *reply, int *fds, uint32_t *num_fds)
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
	ssize_t n;

	*num_fds = 0;
	do {
		n = recvmsg(sock, &hdr, MSG_CMSG_CLOEXEC);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	*num_fds = take_fds(&hdr, fds, ONE_MSG_FDS);
	if (n == 0)
		return -ECONNRESET;
	if (*(const char *)reply == '{') /* JSON: the socket is a control socket */
		return -EPROTOTYPE;
	if (n != (ssize_t)sizeof(*reply) || (hdr.msg_flags & MSG_TRUNC) != 0)
		return -EPROTO;
	/* MSG_CTRUNC: this process had no room for the reply's descriptors. */
	return (hdr.msg_flags & MSG_CTRUNC) != 0 ? -EMFILE : 0;
}

/* Stores the first `room` descriptors in `got`; closes the others. */
static uint32_t
hand_over_fds(const int *fds, uint32_t num_fds, int *got, uint32_t room)
{
	uint32_t n = num_fds < room ? num_fds : room;

	for (uint32_t i = 0; i < n; i++)
		got[i] = fds[i];
	for (uint32_t i = n; i < num_fds; i++)
		close(fds[i]);
	return n;
}

int
call_exchange(int sock, struct one_msg *msg, struct one_reply *reply, int *got, uint32_t *num_got)
{
	int fds[ONE_MSG_FDS];
	uint32_t num_fds = 0;
	int error = send_request(sock, msg, NULL, 0);

	if (error == 0)
		error = receive_reply(sock, reply, fds, &num_fds);
	if ((error == 0 || error == -EMFILE) && (reply->type != msg->type || reply->seq != msg->seq))
		error = -EPROTO;
	*num_got = hand_over_fds(fds, num_fds, got, error == 0 ? *num_got : 0);
	return error == -EAGAIN ? -ETIMEDOUT : error;
}

/* ---- calls of several threads ---- */

/*
 * A request without its reply, on the stack of the thread that waits. Guarded by call_lock.
 *
 * Replies come in any order. One of the waiting threads receives for all: it delivers each reply to the call
 * with the reply's number, until its own reply has come. Then it wakes another thread to receive.
 */
struct pending_call {
	LIST_ENTRY(pending_call) link;
	uint32_t type, seq;
	struct one_reply *reply;
	int *fds;
	uint32_t num_fds; /* room in `fds`; then the number received */
	int error;        /* of the exchange */
	bool done;
	pthread_cond_t answered; /* signalled when `done`, or when no thread receives */
};

/* Returns true for requests that wait for a neighbour: the data plane lets others pass meanwhile. */
static bool
is_slow(uint32_t type)
{
	return type == ONE_MSG_QP_RTR || type == ONE_MSG_AH_CREATE;
}

static bool
has_room(const struct one_client *client, uint32_t type)
{
	return client->num_calls < ONE_CALLS_MAX &&
	       (!is_slow(type) || client->num_slow_calls < ONE_SLOW_CALLS_MAX);
}

static void
finish_call(struct pending_call *call, int error)
{
	LIST_REMOVE(call, link);
	call->error = error;
	call->done = true;
	pthread_cond_signal(&call->answered);
}

/* Passes a reply and its descriptors to its call; `error` is that of the exchange. -EPROTO: no call has this
 * number. */
static int
deliver_reply(struct one_client *client, const struct one_reply *reply, const int *fds, uint32_t num_fds,
	      int error)
{
	struct pending_call *call = LIST_FIRST(&client->calls);

	while (call != NULL && (call->seq != reply->seq || call->type != reply->type))
		call = LIST_NEXT(call, link);
	if (call == NULL) {
		hand_over_fds(fds, num_fds, NULL, 0);
		return -EPROTO;
	}
	*call->reply = *reply;
	call->num_fds = hand_over_fds(fds, num_fds, call->fds, error == 0 ? call->num_fds : 0);
	finish_call(call, error);
	return 0;
}

/* Called after ONE_SILENCE_S without a reply: returns 0 while the control thread shows signs of life. */
static int
note_silence(struct one_client *client)
{
	/* Pairs with the store in show_life(); only the value counts. */
	uint32_t alive = atomic_load_explicit(&client->header->control_alive, memory_order_relaxed);

	if (alive != client->alive_seen)
		client->silences = 0;
	client->alive_seen = alive;
	return ++client->silences < SILENCES_MAX ? 0 : -ETIMEDOUT;
}

/* Called with the lock held; releases the lock while it receives. */
static void
receive_for_all(struct one_client *client)
{
	struct one_reply reply;
	int fds[ONE_MSG_FDS];
	uint32_t num_fds;
	int error;

	client->receiving = true;
	pthread_mutex_unlock(&client->call_lock);
	error = receive_reply(client->sock, &reply, fds, &num_fds);
	pthread_mutex_lock(&client->call_lock);
	client->receiving = false;
	if (error == 0 || error == -EMFILE) {
		client->silences = 0;
		error = deliver_reply(client, &reply, fds, num_fds, error);
	} else {
		hand_over_fds(fds, num_fds, NULL, 0);
		error = error == -EAGAIN ? note_silence(client) : error;
	}
	if (error == 0)
		return;
	client_fail(client);
	while (!LIST_EMPTY(&client->calls))
		finish_call(LIST_FIRST(&client->calls), -ECONNRESET);
}

static void
await_reply(struct one_client *client, struct pending_call *call)
{
	while (!call->done) {
		if (client->receiving)
			pthread_cond_wait(&call->answered, &client->call_lock);
		else
			receive_for_all(client);
	}
	if (!client->receiving && !LIST_EMPTY(&client->calls))
		pthread_cond_signal(&LIST_FIRST(&client->calls)->answered);
}

/* Repeats a request until a full socket buffer empties, or the receiving thread finds the data plane dead. */
static int
send_all(int sock, struct one_msg *msg, const int *fds, uint32_t num_fds)
{
	int error;

	do {
		error = send_request(sock, msg, fds, num_fds);
	} while (error == -EAGAIN);
	return error;
}

/* Called with the lock held; releases the lock while it sends and waits. */
static int
exchange_pending(struct one_client *client, struct pending_call *call, struct one_msg *msg, const int *fds,
		 uint32_t num_fds)
{
	int error;

	call->seq = msg->seq = ++client->seq;
	LIST_INSERT_HEAD(&client->calls, call, link);
	pthread_mutex_unlock(&client->call_lock);
	error = send_all(client->sock, msg, fds, num_fds);
	pthread_mutex_lock(&client->call_lock);
	if (error == 0 || call->done) {
		await_reply(client, call);
		return call->error;
	}
	LIST_REMOVE(call, link);
	/* Requests that could not be sent (too many descriptors in flight, no memory) have changed
	 * nothing. */
	if (error == -ETOOMANYREFS || error == -ENOBUFS || error == -ENOMEM || error == -EBADF)
		return error;
	client_fail(client);
	return -ECONNRESET;
}

/* Waits for room, with the lock held: 0, -ECONNRESET, -ECHILD. Pair with release_call() in any case. */
static int
reserve_call(struct one_client *client, uint32_t type)
{
	while (!has_room(client, type) && client_check(client) == 0) {
		client->call_waiters++;
		pthread_cond_wait(&client->call_room, &client->call_lock);
		client->call_waiters--;
	}
	client->num_calls++;
	client->num_slow_calls += is_slow(type);
	return client_check(client);
}

static void
release_call(struct one_client *client, uint32_t type)
{
	client->num_calls--;
	client->num_slow_calls -= is_slow(type);
	if (client->call_waiters > 0)
		pthread_cond_broadcast(&client->call_room);
}

static int
call_locked(struct one_client *client, struct one_msg *msg, const int *fds, uint32_t num_fds,
	    struct one_reply *reply, int *got, uint32_t *num_got)
{
	struct pending_call call = {
		.type = msg->type, .reply = reply, .fds = got, .num_fds = num_got != NULL ? *num_got : 0};
	int error = reserve_call(client, msg->type);

	if (error == 0) {
		pthread_cond_init(&call.answered, NULL);
		error = exchange_pending(client, &call, msg, fds, num_fds);
		pthread_cond_destroy(&call.answered);
	}
	release_call(client, msg->type);
	if (num_got != NULL)
		*num_got = error == 0 ? call.num_fds : 0;
	return error;
}

static int
make_call(struct one_client *client, struct one_msg *msg, const int *fds, uint32_t num_fds,
	  struct one_reply *reply, int *got, uint32_t *num_got)
{
	struct one_reply scrap;
	int error, cancel;

	if (num_fds > ONE_MSG_FDS)
		return -EINVAL;
	if (reply == NULL)
		reply = &scrap;
	/* Checked before locking: in a forked child the lock may appear to be held by a thread of the
	 * parent. */
	error = client_check(client);
	if (error != 0)
		return error;
	/* A thread cancelled here would lose the replies of other threads. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	pthread_mutex_lock(&client->call_lock);
	error = call_locked(client, msg, fds, num_fds, reply, got, num_got);
	pthread_mutex_unlock(&client->call_lock);
	pthread_setcancelstate(cancel, NULL);
	if (error == 0 && reply->error != 0 && one_explaining)
		one_note_cause(reply->error, reply->subject, reply->value, &reply->limit);
	else if (error != 0 && one_explaining)
		one_note_cause(error, ONE_SUBJECT_NONE, 0, NULL);
	return error != 0 ? error : reply->error;
}

int
one_call(struct one_client *client, struct one_msg *msg, const int *fds, uint32_t num_fds,
	 struct one_reply *reply)
{
	return make_call(client, msg, fds, num_fds, reply, NULL, NULL);
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
	error = make_call(client, msg, NULL, 0, reply, fd, &num);
	if (error != 0 && *fd >= 0) {
		close(*fd);
		*fd = -1;
	}
	return error;
}

/* ---- keys, renewed by the polling core ---- */

static void
ring_keys(struct one_client *client)
{
	uint64_t one = 1;

	/* Pairs with the engine's exchange in doorbell scanning. */
	atomic_store_explicit(&client->doorbells->keys, 1, memory_order_release);
	if (client->info.idle != ONE_IDLE_SLEEP)
		return;
	/* Pairs with the engine's fence, as in one_qp_wake. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&client->header->engine_asleep, memory_order_relaxed) != 0 &&
	    write(client->wake_fd, &one, sizeof(one)) < 0)
		return; /* a full counter is readable, too */
}

/* Yields and then sleeps between polls: the core may share this processor, and its earlier work may take
 * long. */
static int
await_key(struct one_client *client, uint32_t asked)
{
	struct pollfd end = {.fd = client->sock};

	for (uint32_t turn = 0;; turn++) {
		for (int i = 0; i < KEY_LOOKS; i++) {
			/* Pairs with the store in answer_request() (qp/keys.c). */
			if (atomic_load_explicit(&client->keys->answered, memory_order_acquire) == asked)
				return 0;
			one_cpu_relax();
		}
		if (turn < KEY_TURNS)
			one_yield();
		else if (poll(&end, 1, KEY_SLEEP_MS) > 0)
			client_fail(client); /* hung up: no answer will come */
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
	/* Pairs with the load in notice_request. */
	atomic_store_explicit(&keys->asked, asked, memory_order_release);
	ring_keys(client);
	error = await_key(client, asked);
	if (error != 0)
		return error;
	return one_load_alone(&keys->refused) != 0 ? -EAGAIN : 0;
}
