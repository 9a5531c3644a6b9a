/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Closes descriptors that applications send, and their connections.
 *
 * close() may wait for the server behind a file (FUSE, NFS), for the peer of a connection that lingers, or
 * for descriptors that lie unread in the queue of a Unix socket; and the sender of the descriptor may control
 * what close() waits for.  The last close() of plain memory frees its pages, which takes seconds for some
 * GiB.  So each user has two threads for closing, and no user delays another:
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
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/attach/reaper.h"
#include "control/loop/loop.h"

#define WAITING_MAX 1024u /* limit of a user's waiting descriptors, */
#define WAITING_PART 16u  /* or this part of all descriptors, if that is less */
#define UNREAD_MAX 1024   /* messages; sockets queue fewer */
#define LATE_PART 4u      /* part of all descriptors: accept none while more connections wait */
#define LOOK_NS (5 * NS_PER_MS)
/* Polls without a close after which a thread counts as stuck.  Elapsed time alone would count a thread that
 * had no processor. */
#define LOOKS 200u
#define WAKE_SIGNAL SIGURG /* not used otherwise, and ignored by default */

struct reaper;

/* A thread, and the pipe from which it reads descriptors. */
struct reaper_lane {
	struct reaper *reaper;
	int in; /* write end of the pipe; -1: no thread */
	pthread_t thread;
	_Atomic uint32_t given, closed; /* free-running */
	uint32_t seen, looks;           /* `closed` at the last poll; polls without a change since */
	uint64_t looked_at;
};

struct reaper { /* the threads of one user */
	LIST_ENTRY(reaper) link;
	uint32_t uid, most;
	uint32_t holders; /* connections of the user */
	struct reaper_lane sent, connections;
};

struct start {
	struct reaper_lane *lane;
	int out;
};

static LIST_HEAD(, reaper) users = LIST_HEAD_INITIALIZER(users);
static struct reaper *own; /* of this process's user: always exists, even without descriptors */
static uint32_t late_at;

/* ---- the threads ---- */

static uint32_t
num_waiting(const struct reaper_lane *lane)
{
	/* Pairs with the release in lane_main().  Loaded before `given`: a reader that finds nothing waiting
	 * sees all descriptors that the thread has handed on. */
	uint32_t closed = atomic_load_explicit(&lane->closed, memory_order_acquire);

	return atomic_load_explicit(&lane->given, memory_order_relaxed) - closed;
}

/* False: the caller still owns `fd`. */
static bool
lane_give(struct reaper_lane *lane, int fd)
{
	/* Increment before the thread can count the descriptor as closed.  A reaper thread that hands on a
	 * descriptor executes its own release, with which num_waiting() pairs, only afterwards. */
	atomic_fetch_add_explicit(&lane->given, 1, memory_order_relaxed);
	if (lane->in >= 0 && write(lane->in, &fd, sizeof(fd)) == (ssize_t)sizeof(fd))
		return true;
	atomic_fetch_sub_explicit(&lane->given, 1, memory_order_relaxed);
	return false;
}

static void
give_all(struct reaper_lane *lane, struct msghdr *header)
{
	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(header); cmsg != NULL; cmsg = CMSG_NXTHDR(header, cmsg)) {
		size_t n = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(fd));
			if (!lane_give(lane, fd))
				close(fd);
		}
	}
}

/* Hands descriptors that lie unread in a Unix socket to the thread for sent ones.  No further messages arrive
 * after the shutdown. */
static void
take_unread(struct reaper *reaper, int fd)
{
	const int on = 1;
	socklen_t len = sizeof(int);
	int domain = AF_UNSPEC, other;

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) != 0 || domain != AF_UNIX)
		return;
	shutdown(fd, SHUT_RDWR);
	/* Distinguishes an empty message from the end: a message has credentials. */
	setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	for (int i = 0; i < UNREAD_MAX && num_waiting(&reaper->sent) < reaper->most; i++) {
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
		give_all(&reaper->sent, &header);
	}
	/* A listening socket has connections, which have queues. */
	while (num_waiting(&reaper->sent) < reaper->most &&
	       (other = accept4(fd, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		if (!lane_give(&reaper->sent, other))
			close(other);
}

static void *
lane_main(void *arg)
{
	struct start start = *(struct start *)arg;
	struct reaper_lane *lane = start.lane;
	const struct linger at_once = {0};
	sigset_t wake;
	ssize_t n;
	int fd;

	free(arg);
	sigemptyset(&wake);
	sigaddset(&wake, WAKE_SIGNAL);
	pthread_sigmask(SIG_UNBLOCK, &wake, NULL);
	while ((n = read(start.out, &fd, sizeof(fd))) != 0) {
		if (n < 0) /* interrupted by WAKE_SIGNAL */
			continue;
		take_unread(lane->reaper, fd);
		/* setsockopt() may block on the lock of the socket. */
		if (lane == &lane->reaper->sent)
			setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
		close(fd);
		/* Pairs with the acquire load in num_waiting().  The control thread may free `lane` from here
		 * on. */
		atomic_fetch_add_explicit(&lane->closed, 1, memory_order_release);
	}
	close(start.out);
	return NULL;
}

static int
lane_start(struct reaper_lane *lane, struct reaper *reaper)
{
	struct start *start = malloc(sizeof(*start));
	pthread_attr_t attr;
	int ends[2], error;

	lane->reaper = reaper;
	lane->in = -1;
	if (start == NULL)
		return -ENOMEM;
	if (pipe2(ends, O_CLOEXEC) != 0) {
		error = errno;
		free(start);
		return -error;
	}
	*start = (struct start){lane, ends[0]};
	lane->in = ends[1];
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	error = fcntl(ends[1], F_SETFL, O_NONBLOCK) != 0
			? errno
			: pthread_create(&lane->thread, &attr, lane_main, start);
	pthread_attr_destroy(&attr);
	if (error != 0) {
		close(ends[0]);
		close(ends[1]);
		lane->in = -1;
		free(start);
	}
	return -error;
}

/* Ends the thread, which then closes its end of the pipe. */
static void
lane_stop(struct reaper_lane *lane)
{
	if (lane->in >= 0)
		close(lane->in);
	lane->in = -1;
}

/* ---- users ---- */

static struct reaper *
reaper_new(uint32_t uid)
{
	struct reaper *reaper = calloc(1, sizeof(*reaper));
	struct rlimit limit;

	if (reaper == NULL)
		return NULL;
	reaper->uid = uid;
	reaper->most = WAITING_MAX;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / WAITING_PART < reaper->most)
		reaper->most = (uint32_t)(limit.rlim_cur / WAITING_PART);
	if (lane_start(&reaper->sent, reaper) == 0) {
		if (lane_start(&reaper->connections, reaper) == 0) {
			LIST_INSERT_HEAD(&users, reaper, link);
			return reaper;
		}
		lane_stop(&reaper->sent);
	}
	free(reaper);
	return NULL;
}

static struct reaper *
reaper_find(uint32_t uid)
{
	struct reaper *reaper;

	LIST_FOREACH(reaper, &users, link)
		if (reaper->uid == uid)
			return reaper;
	return NULL;
}

static struct reaper *
reaper_of(uint32_t uid)
{
	struct reaper *reaper = reaper_find(uid);

	return reaper != NULL ? reaper : reaper_new(uid);
}

/* Loads `connections` first: its thread hands descriptors to `sent` before it counts a connection as closed.
 */
static bool
is_idle(const struct reaper *reaper)
{
	return num_waiting(&reaper->connections) == 0 && num_waiting(&reaper->sent) == 0;
}

static void
reaper_end(struct reaper *reaper)
{
	LIST_REMOVE(reaper, link);
	lane_stop(&reaper->connections);
	lane_stop(&reaper->sent);
	free(reaper);
}

static void
no_action(int number)
{
}

int
reapers_start(void)
{
	const struct sigaction action = {.sa_handler = no_action}; /* no SA_RESTART: system calls return */
	struct rlimit limit;

	late_at = UINT32_MAX;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / LATE_PART < late_at)
		late_at = (uint32_t)(limit.rlim_cur / LATE_PART);
	if (sigaction(WAKE_SIGNAL, &action, NULL) != 0)
		return -errno;
	own = reaper_of(getuid());
	return own == NULL ? -EAGAIN : 0;
}

void
reapers_stop(void)
{
	own = NULL;
	reapers_poll();
}

static void
lane_poll(struct reaper_lane *lane)
{
	/* Relaxed: only a count. */
	uint32_t closed = atomic_load_explicit(&lane->closed, memory_order_relaxed);

	if (control.now - lane->looked_at < LOOK_NS)
		return;
	lane->looked_at = control.now;
	lane->looks = closed == lane->seen && num_waiting(lane) > 0 ? lane->looks + 1 : 0;
	lane->seen = closed;
	/* The thread exists, since it has something to close. */
	if (lane->looks > 0)
		pthread_kill(lane->thread, WAKE_SIGNAL);
}

int
reaper_hold(uint32_t uid)
{
	struct reaper *reaper = reaper_of(uid);

	if (reaper == NULL)
		return -EAGAIN;
	reaper->holders++;
	return 0;
}

void
reaper_release(uint32_t uid)
{
	reaper_find(uid)->holders--;
}

/* Polls all threads, and ends those of users without connections and with nothing to close. */
void
reapers_poll(void)
{
	struct reaper *reaper, *next;

	for (reaper = LIST_FIRST(&users); reaper != NULL; reaper = next) {
		next = LIST_NEXT(reaper, link);
		lane_poll(&reaper->sent);
		lane_poll(&reaper->connections);
		if (reaper != own && reaper->holders == 0 && is_idle(reaper))
			reaper_end(reaper);
	}
}

uint64_t
reapers_deadline(void)
{
	struct reaper *reaper;

	LIST_FOREACH(reaper, &users, link)
		if (!is_idle(reaper) || (reaper != own && reaper->holders == 0))
			return control.now + LOOK_NS;
	return NEVER;
}

bool
reapers_late(void)
{
	struct reaper *reaper;
	uint32_t n = 0;

	LIST_FOREACH(reaper, &users, link)
		n += num_waiting(&reaper->connections);
	return n >= late_at;
}

bool
reaper_full(uint32_t uid)
{
	const struct reaper *reaper = reaper_find(uid);

	return reaper != NULL && num_waiting(&reaper->sent) >= reaper->most;
}

bool
reaper_stuck(uint32_t uid)
{
	const struct reaper *reaper = reaper_find(uid);

	return reaper_full(uid) && reaper->sent.looks >= LOOKS;
}

/* Hands the descriptor to the user's thread, or else to the one of this process's user, which always exists.
 */
static bool
give_to_any(struct reaper *reaper, bool sent, int fd)
{
	return (reaper != NULL && lane_give(sent ? &reaper->sent : &reaper->connections, fd)) ||
	       (own != NULL && lane_give(sent ? &own->sent : &own->connections, fd));
}

void
reaper_discard(uint32_t uid, int fd)
{
	if (fd >= 0 && !give_to_any(reaper_of(uid), true, fd))
		log_of_user(
			uid, warning,
			"event=close_failed what=descriptor uid=%u text=\"there is no thread to close it\"\n",
			uid);
}

void
reaper_close_socket(uint32_t uid, int fd)
{
	shutdown(fd, SHUT_RDWR); /* the peer sees the end at once */
	if (!give_to_any(reaper_of(uid), false, fd))
		log_of_user(
			uid, warning,
			"event=close_failed what=connection uid=%u text=\"there is no thread to close it\"\n",
			uid);
}
