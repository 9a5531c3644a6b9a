/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An attachment: its socket, its requests, and its end.
 *
 * The end is one sequence of states, whatever the reason and the work under way:
 *
 *   LEAVING    no request is read; listeners, segments and connections are unhooked, so that peers are
 *              notified and nothing new arrives; waits for commands and jobs under way
 *   REMOVING   cores release queue pairs, rings and the client; waits for the cores
 *   QUIESCING  the socket is closed, unless client_kill() closed it; memory keys are removed; waits for
 *              a grace period
 *   GONE       objects are freed; waits for the user's worker, which unmaps memory and arena
 *
 * Each state visits all objects, in slices of at most CLIENT_SLICE objects: other users wait for one slice,
 * not for all objects of an attachment.  An object is unchanged until its unhooking, but nothing new begins
 * with it.
 *
 * The connection counts against its user until LEAVING.  The attachment and its resources count until they
 * are freed.  A HELLO that finds too many attachments waits for those that are ending, so that a program that
 * attaches and detaches fast is slowed down, not refused.
 *
 * Handlers and callbacks check client_alive() before they begin something new.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/attach/client.h"
#include "control/attach/identity.h"
#include "control/attach/reaper.h"
#include "control/attach/mapping.h"
#include "control/base/scm.h"
#include "dataplane/base/clock.h"
#include "dataplane/mem/bounce.h"

#define REPLY_FDS 2
#define ENDING_NS (NS_PER_MS / 10) /* poll interval while attachments end */

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77
#endif

#define CONTAINER(pointer, type, field) ((type *)(void *)((char *)(pointer)-offsetof(type, field)))

/* ---- requests ---- */

int
client_refuse(struct client *client, int error, enum one_subject subject, uint64_t value)
{
	client->reply.subject = subject;
	client->reply.value = value;
	return error;
}

int
client_refuse_limit(struct client *client, const struct quota_limit *limit)
{
	bool fixed = !config_can_raise(limit->key, limit->value);

	client->reply.limit = (struct one_limit){.key = ""};
	snprintf(client->reply.limit.key, sizeof(client->reply.limit.key), "%s", fixed ? "" : limit->key);
	return client_refuse(client, -EDQUOT, ONE_SUBJECT_QUOTA, limit->value);
}

bool
client_awaits_room(struct client *client)
{
	return quota_is_leaving(client->account) || attach_calls->reclaim(client->account);
}

int
client_fd(const struct client *client, uint32_t i)
{
	return i < client->num_fds ? client->fds[i] : -1;
}

int
client_take_fd(struct client *client, uint32_t i)
{
	int fd = client_fd(client, i);

	if (fd >= 0)
		client->fds[i] = -1;
	return fd;
}

static void
discard_fds(struct client *client)
{
	for (uint32_t i = 0; i < client->num_fds; i++)
		reaper_discard(client->uid, client->fds[i]);
	client->num_fds = 0;
}

/* The reply to HELLO also carries wake_fd. */
static void
add_fds(struct client *client, struct msghdr *header)
{
	const int fds[REPLY_FDS] = {client->reply_fd, client->wake_fd};
	size_t len = (client->msg.type == ONE_MSG_HELLO ? 2 : 1) * sizeof(int);
	struct cmsghdr *cmsg = header->msg_control;

	header->msg_controllen = CMSG_SPACE(len);
	cmsg->cmsg_level = SOL_SOCKET;
	cmsg->cmsg_type = SCM_RIGHTS;
	cmsg->cmsg_len = CMSG_LEN(len);
	memcpy(CMSG_DATA(cmsg), fds, len);
}

static void
drop_reply_fd(struct client *client)
{
	if (client->reply_fd >= 0)
		close(client->reply_fd);
	client->reply_fd = -1;
}

/* sendmsg() also runs what the application has set up for its end of the socket: a filter, epoll instances
 * that watch it, signals to a process group.  A call that takes longer than the highest cost of a request is
 * charged to the user. */
static bool
send_and_charge(struct client *client, const struct msghdr *header)
{
	uint64_t began = clock_thread(), us;
	bool sent =
		sendmsg(client->fd, header, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)sizeof(struct one_reply);

	us = (clock_thread() - began) / 1000;
	if (us > DRR_COST_MAX)
		drr_charge(&client->account->drr, us);
	return sent;
}

/* Sets whether epoll reports the socket's next request.  The socket's end is always reported. */
static void
watch_requests(struct client *client, bool wanted)
{
	struct epoll_event event = {.events = wanted ? EPOLLIN : 0, .data.ptr = &client->fd_watch};

	client->paused = !wanted;
	if (epoll_ctl(control.epoll, EPOLL_CTL_MOD, client->fd, &event) != 0)
		client_kill(client, 0, strerror(errno));
}

/* The socket has room for the reply: the library has at most ONE_CALLS_MAX requests without a reply. */
static void
send_reply(struct client *client, struct one_reply *reply, bool with_fds)
{
	union {
		char bytes[CMSG_SPACE(REPLY_FDS * sizeof(int))];
		struct cmsghdr align;
	} ancillary = {0};
	struct iovec iov = {reply, sizeof(*reply)};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &ancillary};
	struct one_limit limit = {.key = ""};

	if (reply->error != 0) {
		if (reply->subject == ONE_SUBJECT_QUOTA)
			limit = reply->limit;
		memset(reply->bytes, 0, sizeof(reply->bytes));
		reply->limit = limit;
	} else {
		reply->subject = ONE_SUBJECT_NONE;
		reply->value = 0;
	}
	if (with_fds)
		add_fds(client, &header);
	if (!send_and_charge(client, &header))
		client_kill(client, 0,
			    errno == EPIPE || errno == ECONNRESET ? NULL : "it does not take its replies");
}

/* Ends the request under way, so that the next one is read. */
static void
end_request(struct client *client)
{
	client_request_set(client, CLIENT_REQUEST_NONE);
	discard_fds(client);
	if (client->paused && client->state <= CLIENT_ATTACHED)
		watch_requests(client, true);
}

void
client_reply(struct client *client, int error)
{
	struct one_reply *reply = &client->reply;

	if (client->request != CLIENT_REQUEST_NONE)
		latency_add(&client_totals.latency[client->msg.type], clock_now() - client->asked_at);
	if (client->state <= CLIENT_ATTACHED) {
		reply->type = client->msg.type;
		reply->seq = client->msg.seq;
		reply->error = error;
		send_reply(client, reply, error == 0 && client->reply_fd >= 0);
		drop_reply_fd(client);
	}
	end_request(client);
}

void
client_suspend(struct client *client, struct suspended_request *suspended)
{
	*suspended = (struct suspended_request){client->msg.type, client->msg.seq, client->asked_at};
	client->suspended++;
	end_request(client);
}

void
client_reply_suspended(struct client *client, const struct suspended_request *suspended,
		       struct one_reply *reply)
{
	client->suspended--;
	latency_add(&client_totals.latency[suspended->type], clock_now() - suspended->asked_at);
	if (client->state > CLIENT_ATTACHED)
		return;
	reply->type = suspended->type;
	reply->seq = suspended->seq;
	send_reply(client, reply, false);
}

const struct attach_calls *attach_calls;
struct client_totals client_totals;

static int
dispatch_request(struct client *client)
{
	const struct one_msg *msg = &client->msg;
	request_handler *handler = msg->type < ONE_MSG_MAX ? attach_calls->request[msg->type].handler : NULL;

	if (handler != NULL)
		return handler(client, msg);
	client_kill(client, ONE_FAULT_PROTOCOL, "it sent a message of an unknown type");
	return REQUEST_LATER;
}

static void
serve_turn(struct drr_item *turn)
{
	struct client *client = CONTAINER(turn, struct client, turn);
	int error;

	memset(&client->reply, 0, sizeof(client->reply));
	client->starved = false;
	error = dispatch_request(client);
	if (error != REQUEST_LATER && client->starved)
		error = REQUEST_AGAIN;
	client->left = client->account->left;
	if (error == REQUEST_AGAIN)
		client_request_set(client, CLIENT_REQUEST_FAILED);
	else if (error != REQUEST_LATER)
		client_reply(client, error);
}

/* Returns the control thread's work for a request, in roughly microseconds.  A type without an entry takes
 * one or two. */
static uint32_t
cost_of(uint32_t type)
{
	static const uint8_t costs[ONE_MSG_MAX] = {
		[ONE_MSG_HELLO] = DRR_COST_MAX,      /* an arena, a thread */
		[ONE_MSG_REGION_ADD] = DRR_COST_MAX, /* mappings, and up to 64 KiB of pages */
		[ONE_MSG_REGION_JOIN] = DRR_COST_MAX,
		[ONE_MSG_STAGING] = DRR_COST_MAX,
		[ONE_MSG_MR_CREATE] = 4,
		[ONE_MSG_MR_SWAP] = 4,
		[ONE_MSG_CQ_CREATE] = 4, /* arena memory */
		[ONE_MSG_CQ_RESIZE] = 4,
		[ONE_MSG_SRQ_CREATE] = 4,
		[ONE_MSG_QP_CREATE] = 4,
		[ONE_MSG_QP_CONNECT] = 4, /* frames */
		[ONE_MSG_CR_ACCEPT] = 4,
		[ONE_MSG_RSM_PUBLISH] = 4,
		[ONE_MSG_RSM_CONNECT] = 8, /* a queue pair, and frames */
		[ONE_MSG_RSM_MAP] = 4,
		[ONE_MSG_CHANNEL_OPEN] = 4,
		[ONE_MSG_SIDR_ASK] = 4,
	};

	return type < ONE_MSG_MAX && costs[type] != 0 ? costs[type] : 2;
}

static void
wait_for_turn(struct client *client, uint32_t cost, void (*serve)(struct drr_item *turn))
{
	client->turn.cost = cost;
	client->turn.serve = serve;
	drr_wait(&control.drr, &client->account->drr, &client->turn);
}

static void
serve_slice(struct drr_item *turn)
{
	struct client *client = CONTAINER(turn, struct client, turn);
	bool (*slice)(struct client *) = client->slice;

	client->slice = NULL;
	if (!slice(client) && client->slice == NULL)
		client_slice(client, slice);
}

void
client_slice(struct client *client, bool (*slice)(struct client *client))
{
	client->slice = slice;
	wait_for_turn(client, DRR_COST_MAX, serve_slice);
}

/* Moves the descriptors of a message to client->fds.  False: there are more than ONE_MSG_FDS. */
static bool
take_fds(struct client *client, struct msghdr *header)
{
	struct scm_cursor cursor = {0};
	uint32_t num = 0;
	int fd;

	for (; scm_next_fd(header, &cursor, &fd); num++) {
		if (client->num_fds < ONE_MSG_FDS)
			client->fds[client->num_fds++] = fd;
		else
			reaper_discard(client->uid, fd);
	}
	return num <= ONE_MSG_FDS && (header->msg_flags & MSG_CTRUNC) == 0;
}

/* Stops reading the socket.  The end of the process is noticed meanwhile by its pidfd; without a pidfd, after
 * release_held(). */
static void
hold_reading(struct client *client)
{
	epoll_ctl(control.epoll, EPOLL_CTL_DEL, client->fd, NULL);
	client_request_set(client, CLIENT_REQUEST_HELD);
}

static void
release_held(struct client *client)
{
	int error;

	if (reaper_full(client->uid) && !reaper_stuck(client->uid))
		return;
	client_request_set(client, CLIENT_REQUEST_NONE);
	client->hello_deadline = control.now + CLIENT_HELLO_MS * NS_PER_MS;
	error = control_watch(client->fd, &client->fd_watch, EPOLLIN);
	if (error != 0)
		client_kill(client, 0, strerror(-error));
}

/* The socket is readable, or has ended, while a request is under way. */
static void
await_answer(struct client *client, uint32_t events)
{
	if ((events & (EPOLLHUP | EPOLLERR)) != 0)
		client_kill(client, 0, NULL);
	else
		watch_requests(client, false);
}

static void
client_ready(struct watch *watch, uint32_t events)
{
	struct client *client = CONTAINER(watch, struct client, fd_watch);
	union ancillary ancillary;
	struct ucred sender;
	struct iovec iov = {&client->msg, sizeof(struct one_msg)};
	struct msghdr header = {.msg_iov = &iov,
				.msg_iovlen = 1,
				.msg_control = &ancillary,
				.msg_controllen = sizeof(ancillary.bytes)};
	ssize_t n;

	if (client->state > CLIENT_ATTACHED || control.passing)
		return;
	if (client->request != CLIENT_REQUEST_NONE) {
		await_answer(client, events);
		return;
	}
	if (reaper_stuck(client->uid)) {
		client_kill(client, 0, "descriptors that its user has sent do not close");
		return;
	}
	if (reaper_full(client->uid)) {
		hold_reading(client);
		return;
	}
	n = recvmsg(client->fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (n < 0) {
		/* ECONNRESET: the process died with a reply unread. */
		if (errno != EAGAIN && errno != EINTR)
			client_kill(client, 0, errno == ECONNRESET ? NULL : strerror(errno));
		return;
	}
	if (!take_fds(client, &header)) {
		client_kill(client, ONE_FAULT_PROTOCOL, "it sent more descriptors than a message may have");
	} else if (n == 0) {
		client_kill(client, 0, NULL);
	} else if (!identity_take(&header, &sender)) {
		client_kill(client, ONE_FAULT_PROTOCOL, "its message has no credentials of the sender");
	} else if (n != (ssize_t)sizeof(struct one_msg) || (header.msg_flags & MSG_TRUNC) != 0) {
		client_kill(client, ONE_FAULT_PROTOCOL, "it sent a message of the wrong size");
	} else if ((client->msg.type == ONE_MSG_HELLO) != (client->state == CLIENT_CONNECTED)) {
		client_kill(client, ONE_FAULT_PROTOCOL, "its first message is not HELLO, or a later one is");
	} else {
		client_request_set(client, CLIENT_REQUEST_TAKEN);
		client->sender = sender;
		client->requests++;
		client->asked_at = clock_now();
		wait_for_turn(client, cost_of(client->msg.type), serve_turn);
	}
}

/* ---- beginning ---- */

/* The process that connected has ended.  Another process may still hold the socket. */
static void
process_ready(struct watch *watch, uint32_t events)
{
	if (!control.passing)
		client_kill(CONTAINER(watch, struct client, pid_watch), 0, NULL);
}

/*
 * Opens a pidfd of the process that connected, so that its death is noticed even while a child holds the
 * socket, and so that its pid names no other process.
 *
 * Kernels before 6.5 have no SO_PEERPIDFD.  There a process outside of the data plane's pid namespace has pid
 * 0, and no pidfd: its attachment ends with its socket.
 */
static int
open_process(struct client *client)
{
	socklen_t len = sizeof(client->pidfd);
	char path[32];
	struct stat st;

	if (getsockopt(client->fd, SOL_SOCKET, SO_PEERPIDFD, &client->pidfd, &len) == 0)
		return 0;
	client->pidfd = -1;
	if (errno != ENOPROTOOPT)
		return -errno;
	if (client->pid == 0)
		return 0;
	client->pidfd = (int)syscall(SYS_pidfd_open, client->pid, 0);
	if (client->pidfd < 0)
		return -errno;
	/* The kernel may have reused the pid since the connect. */
	snprintf(path, sizeof(path), "/proc/%d", (int)client->pid);
	if (stat(path, &st) != 0 || (st.st_uid != client->uid && st.st_uid != 0))
		return -ESRCH;
	return 0;
}

static int
identify_peer(struct client *client)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(client->fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0)
		return -errno;
	client->pid = cred.pid;
	client->uid = cred.uid;
	return client->pidfd >= 0 ? 0 : open_process(client);
}

/* Admits the connection to the quotas and the epoll set.  On failure `*why` is the cause or the remedy. */
static int
admit_connection(struct client *client, const char **why)
{
	int error = identify_peer(client);

	*why = error == -EMFILE || error == -ENFILE ? "raise LimitNOFILE"
						    : "its process has ended, or cannot be opened";
	if (error != 0)
		return error;
	*why = "descriptors that this user has sent do not close; end its programs";
	if (reaper_stuck(client->uid))
		return -EBUSY;
	*why = "no thread to close its descriptors; raise LimitNPROC, TasksMax or the memory limit";
	error = reaper_hold(client->uid);
	if (error != 0)
		return error;
	*why = "too many connections; end some, or raise max_clients or max_clients_per_uid";
	client->account = quota_connect(&control.quota, client->uid);
	if (client->account == NULL) {
		reaper_release(client->uid);
		return -EDQUOT;
	}
	*why = "raise fs.epoll.max_user_watches (sysctl)";
	error = client->pidfd >= 0 ? control_watch(client->pidfd, &client->pid_watch, EPOLLIN) : 0;
	return error != 0 ? error : control_watch(client->fd, &client->fd_watch, EPOLLIN);
}

/* The peer of an inherited socket must not see an end, since another process uses it. */
static void
close_socket(uint32_t uid, int fd, bool inherited)
{
	if (inherited)
		close(fd);
	else
		reaper_close_socket(uid, fd);
}

static void
turn_away(struct client *client, bool inherited, int error, const char *why)
{
	log_of_user(client->uid, warning, "event=connection_refused pid=%d uid=%u error=\"%s\" text=\"%s\"\n",
		    (int)client->pid, client->uid, strerror(-error), why);
	if (client->account != NULL) {
		quota_disconnect(&control.quota, client->account);
		user_leave(client->account);
		reaper_release(client->uid);
	}
	if (client->pidfd >= 0)
		close(client->pidfd);
	close_socket(client->uid, client->fd, inherited);
	free(client);
}

static uint32_t next_number;

void
client_take_number(struct client *client, uint32_t number)
{
	client->number = number;
	if (number >= next_number)
		next_number = number + 1;
}

struct client *
client_admit(int fd, int pidfd, bool inherited)
{
	struct client *client = calloc(1, sizeof(*client));
	const char *why;
	int error;

	if (client == NULL) {
		close_socket(getuid(), fd, inherited);
		if (pidfd >= 0)
			close(pidfd);
		return NULL;
	}
	client->fd = fd;
	client->number = next_number++;
	client->pidfd = pidfd;
	client->wake_fd = client->reply_fd = -1;
	client->fd_watch.ready = client_ready;
	client->pid_watch.ready = process_ready;
	client->hello_deadline = control.now + CLIENT_HELLO_MS * NS_PER_MS;
	LIST_INIT(&client->segment_list);
	LIST_INIT(&client->timewaits);
	TAILQ_INIT(&client->cached_regions);
	TAILQ_INIT(&client->renewable_mrs);
	for (int i = 0; i < OBJECT_KINDS; i++)
		table_init(&client->table[i], 0);
	error = admit_connection(client, &why);
	if (error != 0) {
		turn_away(client, inherited, error, why);
		return NULL;
	}
	TAILQ_INSERT_TAIL(&control.clients, client, link);
	return client;
}

void
client_accept(int fd)
{
	client_admit(fd, -1, false);
}

/* ---- the end ---- */

#define LOOKS 4096u /* table places visited per slice */

/* Performs the current state's step for an object.  False: its class has none. */
static bool
end_object(struct client *client, struct object *object)
{
	const struct object_class *class = &attach_calls->class[object->kind];

	if (client->state == CLIENT_LEAVING && class->unhook != NULL)
		class->unhook(object);
	else if (client->state == CLIENT_REMOVING && class->remove != NULL)
		class->remove(object, NULL);
	else if (client->state == CLIENT_QUIESCING && class->withdraw != NULL)
		class->withdraw(object);
	else if (client->state == CLIENT_GONE && class->destroy != NULL)
		class->destroy(object);
	else if (client->state == CLIENT_GONE)
		object_free(object);
	else
		return false;
	return true;
}

/* Processes a slice of the objects, in the order of enum object_kind.  True: all are done. */
static bool
end_objects(struct client *client)
{
	uint32_t looks = 0, objects = 0;

	for (; client->end_kind < OBJECT_KINDS; client->end_kind++, client->end_place = 0) {
		const struct table *table = &client->table[client->end_kind];

		for (; client->end_place < table->size; client->end_place++) {
			struct object *object = table_at(table, client->end_place);

			if (objects == CLIENT_SLICE || looks++ == LOOKS)
				return false;
			objects += object != NULL && end_object(client, object);
		}
	}
	return true;
}

static void
release_resources(struct client *client)
{
	for (int kind = 0; kind < OBJECT_KINDS; kind++)
		table_fini(&client->table[kind]);
	if (!client->labelled) {
		client_totals.requests += client->requests;
		client_totals.copied += client->bounce != NULL ? bounce_bytes(client->bounce) : 0;
	}
	if (client->engine != NULL)
		engine_client_free(client->engine);
	client->engine = NULL;
	client->bounce = NULL; /* freed with the engine's client */
	if (client->arena.base != NULL) {
		client->arena_mapping->base = client->arena.base;
		client->arena_mapping->len = client->arena.size;
		client->arena_mapping->empty = client->arena.size - client->arena.end;
		client->arena_mapping->charged = client->arena_charged;
		arena_leave(&client->arena);
		extents_fini(&client->extents);
		arena_slab_fini(&client->slabs);
	} else if (client->arena_charged != 0) { /* HELLO failed before the arena existed */
		quota_release_own(client->account, client->arena_charged);
	}
	if (client->arena_mapping != NULL)
		mapping_free(client->arena_mapping, false);
	if (client->wake_fd >= 0)
		close(client->wake_fd);
}

static void
remove_lanes(struct client *client)
{
	for (struct engine_client *lane = client->engine; lane != NULL; lane = engine_lane_next(lane)) {
		struct engine_command *command = command_new(client, ENGINE_CLIENT_REMOVE, NULL, NULL);

		command->client = lane;
		command_send(command);
	}
}

/* Ends the pass over the objects.  Commands are carried out in order and a grace period covers all keys, so
 * one wait is enough for all objects. */
static void
end_rest(struct client *client)
{
	if (client->state == CLIENT_REMOVING)
		remove_lanes(client);
	else if (client->state == CLIENT_QUIESCING)
		grace_defer(client, NULL, NULL);
	else if (client->state == CLIENT_GONE)
		release_resources(client);
}

static bool
end_slice(struct client *client)
{
	if (client->state == CLIENT_LEAVING && !attach_calls->leave(client))
		return false;
	if (!end_objects(client))
		return false;
	end_rest(client);
	return true;
}

static void
end_enter(struct client *client, enum client_state state, const char *why)
{
	client_state_set(client, state, why);
	client->end_kind = client->end_place = 0;
	client_slice(client, end_slice);
}

/* Closes the socket: the application reads end of file. */
static void
hang_up(struct client *client)
{
	if (client->fd >= 0)
		reaper_close_socket(client->uid, client->fd);
	client->fd = -1;
}

void
client_kill(struct client *client, uint32_t fault, const char *reason)
{
	const bool attached = client_alive(client);

	if (client->state > CLIENT_ATTACHED)
		return;
	if (reason != NULL)
		log_of_user(client->uid, notice,
			    "event=attachment_ended pid=%d program=\"%s\" uid=%u reason=\"%s\"\n",
			    (int)client->pid, client->program, client->uid, reason);
	else
		log_info("event=attachment_ended pid=%d program=\"%s\" uid=%u\n", (int)client->pid,
			 client->program, client->uid);
	/* Pairs with the library's acquire load, by which it checks that the attachment is alive. */
	if (fault != 0 && client->arena.base != NULL)
		atomic_store_explicit(&((struct one_arena *)client->arena.base)->fault, fault,
				      memory_order_release);
	quota_disconnect(&control.quota, client->account);
	drr_leave(&control.drr, &client->account->drr, &client->turn);
	end_enter(client, CLIENT_LEAVING, reason != NULL ? reason : "its process or its socket has gone");
	lane_cancel(&client->lane);
	discard_fds(client);
	/* close() would leave the socket in the epoll set if another process had a copy. */
	epoll_ctl(control.epoll, EPOLL_CTL_DEL, client->fd, NULL);
	if (client->pidfd >= 0) {
		epoll_ctl(control.epoll, EPOLL_CTL_DEL, client->pidfd, NULL);
		close(client->pidfd);
	}
	client->pidfd = -1;
	/* A live application that broke no rule of the socket sees the end when its cores have released it:
	 * completions of work carried out come first. */
	if (reason == NULL || fault == ONE_FAULT_PROTOCOL || !attached)
		hang_up(client);
	drop_reply_fd(client);
}

/* Enters the next state of the end, once the current one is done.  True: the client can be freed. */
static bool
client_step(struct client *client)
{
	if (client->state <= CLIENT_ATTACHED || client->slice != NULL || client->commands != 0 ||
	    client->jobs != 0)
		return false;
	if (client->state == CLIENT_LEAVING) {
		end_enter(client, CLIENT_REMOVING, "nothing is under way");
	} else if (client->state == CLIENT_REMOVING) {
		hang_up(client);
		end_enter(client, CLIENT_QUIESCING, "the core has removed its objects");
	} else if (client->state == CLIENT_QUIESCING) {
		end_enter(client, CLIENT_GONE, "the grace period has ended");
	} else {
		return true;
	}
	return false;
}

/* True if a request has no answer yet. */
static bool
has_requests(const struct client *client)
{
	return client_alive(client) && (client->request != CLIENT_REQUEST_NONE || client->suspended != 0);
}

/* Increments the counter by which the library sees progress: it gives up the data plane when the counter
 * stops (note_silence()). */
static void
show_life(struct client *client)
{
	struct one_arena *header = (struct one_arena *)client->arena.base;

	if (!has_requests(client) || control.now < client->shown_at)
		return;
	client->shown_at = control.now + NS_PER_S;
	/* Relaxed: pairs with the load in note_silence(), which compares only values. */
	atomic_fetch_add_explicit(&header->control_alive, 1, memory_order_relaxed);
}

static bool
awaits_hello(const struct client *client)
{
	return client->state == CLIENT_CONNECTED && client->request == CLIENT_REQUEST_NONE;
}

static bool
can_retry(const struct client *client)
{
	return client->request == CLIENT_REQUEST_FAILED && client->left != client->account->left &&
	       client->state <= CLIENT_ATTACHED;
}

void
clients_poll(void)
{
	struct client *client, *next;

	for (client = TAILQ_FIRST(&control.clients); client != NULL; client = next) {
		next = TAILQ_NEXT(client, link);
		if (client->request == CLIENT_REQUEST_HELD && client->state <= CLIENT_ATTACHED)
			release_held(client);
		else if (awaits_hello(client) && control.now >= client->hello_deadline)
			client_kill(client, ONE_FAULT_PROTOCOL, "it sent no HELLO in time");
		if (can_retry(client)) {
			client_request_set(client, CLIENT_REQUEST_TAKEN);
			wait_for_turn(client, cost_of(client->msg.type), serve_turn);
		}
		show_life(client);
		copies_poll(client);
		if (client_step(client)) {
			TAILQ_REMOVE(&control.clients, client, link);
			lane_close(&client->lane);
			if (client->arena_charged != 0)
				quota_detach(&control.quota, client->account);
			client_totals.labelled -= client->labelled;
			user_leave(client->account);
			reaper_release(client->uid);
			free(client);
		}
	}
}

uint64_t
clients_deadline(void)
{
	struct client *client;
	uint64_t deadline = NEVER;

	TAILQ_FOREACH(client, &control.clients, link) {
		if (awaits_hello(client) && client->hello_deadline < deadline)
			deadline = client->hello_deadline;
		if (can_retry(client))
			deadline = control.now;
		if (has_requests(client) && client->shown_at < deadline)
			deadline = client->shown_at;
		/* Quiet acknowledgements do not wake this thread, so poll for them. */
		if (client->state > CLIENT_ATTACHED && control.now + ENDING_NS < deadline)
			deadline = control.now + ENDING_NS;
		if (copies_deadline(client) < deadline)
			deadline = copies_deadline(client);
	}
	return deadline;
}
