/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors that applications send, their connections, and how both are closed.
 *
 * close() may wait for the server behind a file (FUSE, NFS), for the peer of a connection that lingers, or
 * for those that lie unread in the queue of a Unix socket, and the sender of the descriptor may be what it
 * waits for.  And the last close() of plain memory frees its pages, seconds for some GiB.  So all of it is
 * closed by threads of their own, two for each user, so that no other user is delayed:
 *
 *   one for what it has sent.  Some files never close, and nothing ends that.  What
 *   waits there stays open, so messages of a user with many of those are not read
 *   until some are closed, and when none is closed for a second the user's
 *   connections end.
 *
 *   one for its connections.  What they still hold is first handed to the other
 *   thread, unless that has too much already: files that were never received are
 *   not waited for when they are closed, and a wait for a peer ends by a signal.
 *
 * A process that keeps a copy of a connection can let it linger again at the last moment, so a
 * thread that closes nothing for a while is sent that signal, too.
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

#define WAITING_MAX 1024u /* of one user; or a part of all descriptors, */
#define WAITING_PART 16u  /* whichever is less */
#define UNREAD_MAX 1024   /* messages: more than sockets queue */
#define LATE_PART 4u /* of all descriptors: when so many connections are to be closed, none is accepted */
#define LOOK_NS (5 * NS_PER_MS)
/* That find nothing closed; time alone would blame a thread that had no processor. */
#define LOOKS 200u
#define WAKE_SIGNAL SIGURG /* used by nothing else, and ignored unless it is handled */

struct reaper;

/* A thread, and the pipe that it takes descriptors from. */
struct reaper_lane {
	struct reaper *reaper;
	int in; /* of the pipe; -1: there is no thread */
	pthread_t thread;
	_Atomic uint32_t given, closed; /* free-running */
	uint32_t seen, looks;           /* of closed, and since then */
	uint64_t looked_at;
};

struct reaper { /* of one user */
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
static struct reaper *own; /* of this process's user: there when no descriptor is left for another */
static uint32_t late_at;

/* ---- the threads ---- */

static uint32_t
num_waiting(const struct reaper_lane *lane)
{
	/* Pairs with the release store in lane_main, and comes first: a reader that finds nothing waiting
	 * sees all that the thread has handed on. */
	uint32_t closed = atomic_load_explicit(&lane->closed, memory_order_acquire);

	return atomic_load_explicit(&lane->given, memory_order_relaxed) - closed;
}

/* False: it stays the caller's. */
static bool
lane_give(struct reaper_lane *lane, int fd)
{
	/* Before the thread can count it as closed.  A thread that gives comes to its own release store,
	 * which num_waiting pairs with, only after this. */
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

/* What lies unread in a Unix socket goes to the thread for what its user has sent, and nothing more comes. */
static void
take_unread(struct reaper *reaper, int fd)
{
	const int on = 1;
	socklen_t len = sizeof(int);
	int domain = AF_UNSPEC, other;

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) != 0 || domain != AF_UNIX)
		return;
	shutdown(fd, SHUT_RDWR);
	/* Tells a message without bytes from the end: it has credentials. */
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
	/* One that listens has connections, which have queues. */
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
		if (n < 0) /* only interrupted */
			continue;
		take_unread(lane->reaper, fd);
		/* May block on the lock of the socket. */
		if (lane == &lane->reaper->sent)
			setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
		close(fd);
		/* Pairs with the acquire load in num_waiting: this may be the last that is seen of it here.
		 */
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

/* The thread ends, and closes its end of the pipe. */
static void
lane_stop(struct reaper_lane *lane)
{
	if (lane->in >= 0)
		close(lane->in);
	lane->in = -1;
}

/* ---- a user's ---- */

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
find(uint32_t uid)
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
	struct reaper *reaper = find(uid);

	return reaper != NULL ? reaper : reaper_new(uid);
}

/* Idle: what a connection's thread hands on is there when it has nothing any more. */
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
	const struct sigaction action = {.sa_handler = no_action}; /* and calls are not restarted */
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
look(struct reaper_lane *lane)
{
	/* Pairs with nothing: a count. */
	uint32_t closed = atomic_load_explicit(&lane->closed, memory_order_relaxed);

	if (control.now - lane->looked_at < LOOK_NS)
		return;
	lane->looked_at = control.now;
	lane->looks = closed == lane->seen && num_waiting(lane) > 0 ? lane->looks + 1 : 0;
	lane->seen = closed;
	/* Its thread is there, since it had something to close. */
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
	find(uid)->holders--;
}

/* The threads of users without connections and with nothing to close end. */
void
reapers_poll(void)
{
	struct reaper *reaper, *next;

	for (reaper = LIST_FIRST(&users); reaper != NULL; reaper = next) {
		next = LIST_NEXT(reaper, link);
		look(&reaper->sent);
		look(&reaper->connections);
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
	const struct reaper *reaper = find(uid);

	return reaper != NULL && num_waiting(&reaper->sent) >= reaper->most;
}

bool
reaper_stuck(uint32_t uid)
{
	const struct reaper *reaper = find(uid);

	return reaper_full(uid) && reaper->sent.looks >= LOOKS;
}

/* The user's own thread, or that of this process, which is always there. */
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
