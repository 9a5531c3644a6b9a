/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Closes descriptors that applications send, and their connections.
 *
 * close() may wait for the server behind a file (FUSE, NFS), for the peer of a connection that lingers, or
 * for descriptors that lie unread in the queue of a Unix socket; and the sender of the descriptor may control
 * what close() waits for.  The last close() of plain memory frees its pages, which takes seconds for some
 * GiB.  So each user has two workers for closing, and no user delays another:
 *
 *   "sent" closes the descriptors that the user has sent.  Some files never close, and nothing ends the
 *   wait.  Descriptors that wait for the thread stay open.  So messages of a user with many of them are
 *   not read until some are closed, and if none is closed for a second, the user's connections end.
 *
 *   "connections" closes the user's connections.  Descriptors that are unread in them are first handed to
 *   the other thread, unless too many wait there already: closing a file that was never received does
 *   not wait, and a signal ends the wait for a peer.
 *
 * A process with a copy of a connection can enable lingering again at the last moment.  So a thread that
 * closes nothing for a while is sent that signal.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/attach/reaper.h"
#include "control/attach/worker.h"
#include "control/base/loop.h"
#include "control/base/scm.h"

#define WAITING_MAX 1024u /* limit of a user's waiting descriptors, */
#define WAITING_PART 16u  /* or this part of all descriptors, if that is less */
#define UNREAD_MAX 1024   /* messages; sockets queue fewer */
#define LATE_PART 4u      /* part of all descriptors: accept none while more connections wait */
#define LOOK_NS (5 * NS_PER_MS)
/* Polls without a close after which a thread counts as stuck.  Elapsed time alone would count a thread that
 * had no processor. */
#define LOOKS 200u

struct closing {
	struct job job; /* first */
	int fd;
	bool is_connection;
	struct worker *sent; /* closes what lies unread in `fd`; a connection holds it */
};

/* Relaxed: set by reapers_start(), and read by workers that close, which may outlive reapers_stop(). */
static _Atomic uint32_t waiting_max;
static uint32_t late_at;
static bool started; /* holds the workers of this process's user, even without descriptors */

static uint32_t
num_waiting(const struct worker *worker)
{
	return atomic_load_explicit(&worker->waiting, memory_order_relaxed); /* a count, which may lag */
}

static bool
has_room(const struct worker *sent)
{
	return num_waiting(sent) < atomic_load_explicit(&waiting_max, memory_order_relaxed);
}

static int close_step(struct job *job);
static void close_done(struct job *job, int result);

/* False: the caller still owns `fd`.  Runs on the control thread, and on workers for connections. */
static bool
give_closing(struct worker *worker, struct worker *sent, int fd)
{
	struct closing *closing = malloc(sizeof(*closing));

	if (closing == NULL)
		return false;
	*closing = (struct closing){.job = {.step = close_step, .done = close_done},
				    .fd = fd,
				    .is_connection = worker != sent,
				    .sent = sent};
	lane_give(&worker->closings, &closing->job);
	return true;
}

/* ---- the workers' threads ---- */

static void
give_all(struct worker *sent, struct msghdr *header)
{
	struct scm_cursor cursor = {0};
	int fd;

	while (scm_next_fd(header, &cursor, &fd))
		if (!give_closing(sent, sent, fd))
			close(fd);
}

/* Hands descriptors that lie unread in a Unix socket to the worker for sent ones.  No further messages arrive
 * after the shutdown. */
static void
take_unread(struct worker *sent, int fd)
{
	const int on = 1;
	socklen_t len = sizeof(int);
	int domain = AF_UNSPEC, other;

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) != 0 || domain != AF_UNIX)
		return;
	shutdown(fd, SHUT_RDWR);
	/* Distinguishes an empty message from the end: a message has credentials. */
	setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	for (int i = 0; i < UNREAD_MAX && has_room(sent); i++) {
		union {
			char bytes[CMSG_SPACE(sizeof(struct ucred)) + sizeof(union ancillary)];
			struct cmsghdr align;
		} ancillary;
		char byte;
		struct iovec iov = {&byte, sizeof(byte)};
		struct msghdr header = {.msg_iov = &iov,
					.msg_iovlen = 1,
					.msg_control = &ancillary,
					.msg_controllen = sizeof(ancillary.bytes)};

		if (recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) < 0 || header.msg_controllen == 0)
			break;
		give_all(sent, &header);
	}
	/* A listening socket has connections, which have queues. */
	while (has_room(sent) && (other = accept4(fd, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		if (!give_closing(sent, sent, other))
			close(other);
}

static int
close_step(struct job *job)
{
	const struct closing *closing = (const struct closing *)job;
	const struct linger at_once = {0};

	take_unread(closing->sent, closing->fd);
	/* setsockopt() may block on the lock of the socket. */
	if (!closing->is_connection)
		setsockopt(closing->fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
	close(closing->fd);
	return 0;
}

/* ---- the control thread ---- */

static void
close_done(struct job *job, int result)
{
	struct closing *closing = (struct closing *)job;

	if (closing->is_connection)
		worker_release(closing->sent);
	free(closing);
}

/* Hands the descriptor to the user's worker of the kind.  False: the caller still owns `fd`. */
static bool
start_closing(uint32_t uid, enum worker_kind kind, int fd)
{
	struct worker *sent = worker_hold(uid, WORKER_SENT), *worker = worker_hold(uid, kind);
	bool given = sent != NULL && worker != NULL && give_closing(worker, sent, fd);

	if (worker != NULL)
		worker_release(worker);
	/* close_done() releases the other worker of a connection. */
	if (sent != NULL && !(given && worker != sent))
		worker_release(sent);
	return given;
}

static void
no_action(int number)
{
}

/* Returns one part of the limit of descriptors, at most `most`. */
static uint32_t
part_of_descriptors(uint32_t part, uint32_t most)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur / part > most)
		return most;
	return (uint32_t)(limit.rlim_cur / part);
}

int
reapers_start(void)
{
	const struct sigaction action = {.sa_handler = no_action}; /* no SA_RESTART: system calls return */

	atomic_store_explicit(&waiting_max, part_of_descriptors(WAITING_PART, WAITING_MAX),
			      memory_order_relaxed);
	late_at = part_of_descriptors(LATE_PART, UINT32_MAX);
	if (sigaction(WORKER_SIGNAL, &action, NULL) != 0)
		return -errno;
	started = reaper_hold(getuid()) == 0;
	return started ? 0 : -EAGAIN;
}

void
reapers_stop(void)
{
	if (started)
		reaper_release(getuid());
	started = false;
}

int
reaper_hold(uint32_t uid)
{
	struct worker *sent = worker_hold(uid, WORKER_SENT);

	if (sent != NULL && worker_hold(uid, WORKER_CONNECTIONS) != NULL)
		return 0;
	if (sent != NULL)
		worker_release(sent);
	return -EAGAIN;
}

void
reaper_release(uint32_t uid)
{
	worker_release(worker_find(uid, WORKER_CONNECTIONS));
	worker_release(worker_find(uid, WORKER_SENT));
}

static void
poll_worker(struct worker *worker)
{
	if (control.now - worker->looked_at < LOOK_NS)
		return;
	worker->looked_at = control.now;
	worker->looks = worker->finished == worker->seen && num_waiting(worker) > 0 ? worker->looks + 1 : 0;
	worker->seen = worker->finished;
	if (worker->looks > 0)
		pthread_kill(worker->thread, WORKER_SIGNAL);
}

/* Interrupts workers that have closed nothing since the last poll. */
void
reapers_poll(void)
{
	struct worker *worker;

	LIST_FOREACH(worker, &workers, link)
		if (worker->kind != WORKER_MEMORY)
			poll_worker(worker);
}

uint64_t
reapers_deadline(void)
{
	struct worker *worker;

	LIST_FOREACH(worker, &workers, link)
		if (worker->kind != WORKER_MEMORY && num_waiting(worker) > 0)
			return control.now + LOOK_NS;
	return NEVER;
}

bool
reapers_late(void)
{
	struct worker *worker;
	uint32_t n = 0;

	LIST_FOREACH(worker, &workers, link)
		if (worker->kind == WORKER_CONNECTIONS)
			n += num_waiting(worker);
	return n >= late_at;
}

bool
reaper_full(uint32_t uid)
{
	const struct worker *sent = worker_find(uid, WORKER_SENT);

	return sent != NULL && !has_room(sent);
}

bool
reaper_stuck(uint32_t uid)
{
	return reaper_full(uid) && worker_find(uid, WORKER_SENT)->looks >= LOOKS;
}

/* Lets a worker of this process's user close the descriptor where the user cannot have one. */
static void
close_later(uint32_t uid, enum worker_kind kind, const char *what, int fd)
{
	if (!start_closing(uid, kind, fd) && !(started && start_closing(getuid(), kind, fd)))
		log_of_user(uid, warning,
			    "event=close_failed what=%s uid=%u text=\"there is no thread to close it\"\n",
			    what, uid);
}

void
reaper_discard(uint32_t uid, int fd)
{
	if (fd >= 0)
		close_later(uid, WORKER_SENT, "descriptor", fd);
}

void
reaper_close_socket(uint32_t uid, int fd)
{
	shutdown(fd, SHUT_RDWR); /* the peer sees the end at once */
	close_later(uid, WORKER_CONNECTIONS, "connection", fd);
}
