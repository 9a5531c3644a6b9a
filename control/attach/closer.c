/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Descriptors that applications send, and how they are closed.
 *
 * close() may wait for the server behind a file (FUSE, NFS), and whoever sent the
 * descriptor may be that server: it waits for ever, and nothing ends that.  And the
 * last close() of plain memory frees its pages, seconds for some GiB.  So all of it
 * is closed by threads that nobody waits for:
 *
 *   one for sockets, whose close() waits for nobody once they are told not to
 *   linger; all connections of applications end there, so it must not be kept
 *
 *   one for each user that has sent something else.  What waits there stays open,
 *   so messages of a user with many of those are not read until some are closed,
 *   and when none is closed for a second the user's connections end.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "control/attach/closer.h"
#include "control/loop/loop.h"

#define WAITING_MAX 1024u /* of one user; or a part of all descriptors, */
#define WAITING_PART 16u  /* whichever is less */
#define UNREAD_MAX 1024   /* messages: more than sockets queue */
#define LOOK_NS (20 * NS_PER_MS)
/* That find nothing closed; time alone would blame a thread that had no processor. */
#define LOOKS 50u

struct closer {
	LIST_ENTRY(closer) link;
	uint32_t uid;
	int in;         /* of a pipe to the thread */
	uint32_t given; /* free-running */
	_Atomic uint32_t closed;
	uint32_t seen, looks; /* of closed, and since then */
	uint64_t looked_at;
};

struct start {
	struct closer *closer;
	int out;
};

static struct closer sockets = {.in = -1};
static LIST_HEAD(, closer) users = LIST_HEAD_INITIALIZER(users);

static void *
closer_main(void *arg)
{
	struct start start = *(struct start *)arg;
	uint32_t closed = 0;
	int fd;

	free(arg);
	while (read(start.out, &fd, sizeof(fd)) == (ssize_t)sizeof(fd)) {
		close(fd);
		/* Pairs with the acquire load in num_waiting: this may be the last that is seen of it here.
		 */
		atomic_store_explicit(&start.closer->closed, ++closed, memory_order_release);
	}
	close(start.out);
	return NULL;
}

static int
closer_start(struct closer *closer)
{
	struct start *start = malloc(sizeof(*start));
	pthread_attr_t attr;
	pthread_t thread;
	int ends[2], error;

	if (start == NULL)
		return -ENOMEM;
	if (pipe2(ends, O_CLOEXEC) != 0) {
		error = errno;
		free(start);
		return -error;
	}
	*start = (struct start){closer, ends[0]};
	closer->in = ends[1];
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	error = fcntl(ends[1], F_SETFL, O_NONBLOCK) != 0 ? errno
							 : pthread_create(&thread, &attr, closer_main, start);
	pthread_attr_destroy(&attr);
	if (error != 0) {
		close(ends[0]);
		close(ends[1]);
		closer->in = -1;
		free(start);
	}
	return -error;
}

int
closers_start(void)
{
	return closer_start(&sockets);
}

static uint32_t
num_waiting(const struct closer *closer)
{
	/* Pairs with the release store in closer_main. */
	return closer->given - atomic_load_explicit(&closer->closed, memory_order_acquire);
}

static void
look(struct closer *closer)
{
	/* Pairs with nothing: a count. */
	uint32_t closed = atomic_load_explicit(&closer->closed, memory_order_relaxed);

	if (control.now - closer->looked_at < LOOK_NS)
		return;
	closer->looked_at = control.now;
	closer->looks = closed == closer->seen ? closer->looks + 1 : 0;
	closer->seen = closed;
}

/* The threads of users who have nothing to close end. */
void
closers_poll(void)
{
	struct closer *closer, *next;

	for (closer = LIST_FIRST(&users); closer != NULL; closer = next) {
		next = LIST_NEXT(closer, link);
		look(closer);
		if (num_waiting(closer) > 0)
			continue;
		LIST_REMOVE(closer, link);
		close(closer->in);
		free(closer);
	}
}

uint64_t
closers_deadline(void)
{
	return LIST_EMPTY(&users) ? NEVER : control.now + LOOK_NS;
}

void
closers_stop(void)
{
	closers_poll();
	if (sockets.in >= 0)
		close(sockets.in); /* the thread ends and closes the other end */
	sockets.in = -1;
}

static struct closer *
find(uint32_t uid)
{
	struct closer *closer;

	LIST_FOREACH(closer, &users, link)
	if (closer->uid == uid)
		return closer;
	return NULL;
}

static struct closer *
closer_of(uint32_t uid)
{
	struct closer *closer = find(uid);

	if (closer != NULL)
		return closer;
	closer = calloc(1, sizeof(*closer));
	if (closer == NULL)
		return NULL;
	closer->uid = uid;
	if (closer_start(closer) != 0) {
		free(closer);
		return NULL;
	}
	LIST_INSERT_HEAD(&users, closer, link);
	return closer;
}

static bool
is_full(const struct closer *closer)
{
	uint64_t most = WAITING_MAX;
	struct rlimit limit;

	if (closer == NULL || num_waiting(closer) == 0)
		return false;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / WAITING_PART < most)
		most = limit.rlim_cur / WAITING_PART;
	return num_waiting(closer) >= most;
}

bool
closer_full(uint32_t uid)
{
	return is_full(find(uid));
}

bool
closer_stuck(uint32_t uid)
{
	const struct closer *closer = find(uid);

	return is_full(closer) && closer->looks >= LOOKS;
}

void
fd_discard(uint32_t uid, int fd)
{
	const struct linger at_once = {0};
	struct closer *closer;

	if (fd < 0)
		return;
	if (sockets.in < 0) { /* nobody is served any more */
		close(fd);
		return;
	}
	/* A connection with unsent data may be told to make its close() wait. */
	closer = setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)) == 0 ? &sockets
										       : closer_of(uid);
	if (closer != NULL && write(closer->in, &fd, sizeof(fd)) == (ssize_t)sizeof(fd)) {
		closer->given++;
		return;
	}
	log_of_others(warning, "a descriptor of uid %u stays open: there is no thread to close it\n", uid);
}

void
ancillary_discard(uint32_t uid, struct msghdr *header)
{
	for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(header); cmsg != NULL; cmsg = CMSG_NXTHDR(header, cmsg)) {
		size_t n = (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		if (cmsg->cmsg_level != SOL_SOCKET || cmsg->cmsg_type != SCM_RIGHTS)
			continue;
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof(int), sizeof(fd));
			fd_discard(uid, fd);
		}
	}
}

/*
 * Descriptors in messages that were not read would be closed with the socket, and
 * sockets among them may linger.  Not so of a user who has too many: files are not
 * waited for when they were never received.
 */
void
connection_close(uint32_t uid, int fd)
{
	union ancillary ancillary;
	char byte;

	shutdown(fd, SHUT_RDWR); /* it is told at once; and nothing more comes */
	for (int i = 0; i < UNREAD_MAX && !closer_full(uid); i++) {
		struct iovec iov = {&byte, sizeof(byte)};
		struct msghdr header = {.msg_iov = &iov,
					.msg_iovlen = 1,
					.msg_control = &ancillary,
					.msg_controllen = sizeof(ancillary.bytes)};

		if (recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0)
			break;
		ancillary_discard(uid, &header);
	}
	fd_discard(uid, fd);
}
