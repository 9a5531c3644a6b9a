/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The core that libdat and librsm share: attachments to the data plane.  libc only.
 *
 * The other headers of this folder: cq.h completion rings, wait.h sleeping, qp.h queue pairs, post.h
 * posting to them, srq.h shared receive queues, mem.h registered memory.
 *
 * Common to the calls of all of them, unless a call says otherwise:
 *
 * Thread: calls on a struct one_client and one_mem_* are safe from all threads at once.  A struct one_cq,
 * one_qp or one_srq is guarded by its owner; different ones may be used at the same time.
 * Lifetime: what a call fills in (a struct one_cq, one_qp, one_srq, one_mr) is the caller's memory; it
 * holds the attachment's pointer and is of no use after one_detach.  Pointers that are passed in are not
 * kept.
 * Errno: 0 or -errno is returned, errno itself is undefined afterwards.
 *   -ECONNRESET  The data plane has gone, has found this attachment faulty, or has not run for 30 s while a
 *                request waited.  It stays so: every later call says the same, one_client_dead() is true, and
 *                all sleepers are woken.
 *   -ECHILD      After fork in the child: the attachment is the parent's.  Only one_detach has an effect.
 *   -EPROTO      The answer makes no sense.  The attachment is ended: -ECONNRESET from now on.  Exceptions
 *                say so.
 * Calls marked [message] exchange one message with the data plane and block until the reply comes; they
 * also return what the data plane refuses with (-EDQUOT, -ENOSPC, -EINVAL, -ENOENT, -EBUSY, -ENOMEM; the
 * page of the message in abi/message.h), and -ENOMEM, -ENOBUFS, -ETOOMANYREFS or -EBADF when the message
 * could not be sent: the attachment lives on then.
 */
#ifndef CLIENT_ATTACH_H
#define CLIENT_ATTACH_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/arena.h"
#include "abi/message.h"
#include "abi/ring.h"
#include "client/order.h"

#define ONE_LIKELY(x) __builtin_expect(!!(x), 1)
#define ONE_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Between looks of a loop that spins. */
static inline void
one_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

struct one_client;

struct one_attach {
	const char *socket; /* NULL: $ONESIDE_SOCKET, else ONE_SOCKET_DEFAULT */
	const char *port;   /* NULL or "": the first */
	enum one_kind kind;
	bool restarts; /* one_wait_sleep goes on after signal handlers with SA_RESTART */
	/*
	 * Called at most once, when the attachment is lost; possibly before one_attach has returned, but
	 * after *out is set.  NULL: nothing is called.
	 * Thread: the watcher thread, with all signals blocked and no lock held; other attachments learn of
	 * their loss only when it has returned.  It may call one_detach.
	 */
	void (*lost)(void *user);
	void *user;
};

/*
 * The path of the data plane's socket for one_attach.socket == `socket`.
 * Lifetime: `socket` itself, the environment's string, or a constant.
 */
const char *one_socket_path(const char *socket);

/*
 * pthread_atfork(3) for who takes locks around calls of the core: the core's own handlers are there already,
 * so `prepare` takes its locks before the core does.  In `child` all attachments are foreign (-ECHILD) by
 * then.
 */
int one_at_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void));

/*
 * Attaches this process to the data plane, and starts the watcher thread with the first attachment.
 * Blocks until the data plane has answered: 10 s at most until it lets this process connect, and 10 s more.
 * Lifetime: *out lives until one_detach.  args->user until then, the rest of `args` until the return.
 * Errno: -ENOENT, -ECONNREFUSED, -EACCES: no data plane at that socket, or not for this user; -ETIMEDOUT: it
 * does not answer; -ENAMETOOLONG: the path; -EPROTO: another version; -ENODEV: no such port; -EDQUOT: too
 * many attachments; -ENOMEM, -EAGAIN, -EMFILE: this process has no room.
 */
int one_attach(const struct one_attach *args, struct one_client **out);

/*
 * Ends the attachment, deregisters all its memory; the data plane frees all objects.  Blocks until that
 * memory is private again, and until `lost` has returned (not on the watcher thread itself).
 * Thread: no other call on `client` runs or follows, and no thread sleeps on it.
 */
void one_detach(struct one_client *client);

/*
 * What the data plane said at the attachment: port, limits, idle mode.
 * Lifetime: that of the attachment; never changes.
 */
const struct one_welcome *one_client_info(const struct one_client *client);

/*
 * The attachment is lost.  An acquire: with true, what the watcher thread did before is seen.
 * Thread: any, also signal handlers.
 */
bool one_client_dead(const struct one_client *client);

/*
 * Sends a request and takes its reply.  [message]
 * Thread: no cancellation point.  A request that waits for a neighbour (QP_RTR, AH_CREATE) delays no other.
 * Lock: do not hold one that a completion waits for.
 * Lifetime: `fds` stay the caller's, at most ONE_MSG_FDS.  `reply` may be NULL, and is undefined unless the
 * data plane has answered.  msg->seq is overwritten. Returns reply->error: 0, -errno, or RSMERR_* (> 0) for
 * requests of librsm.
 */
int one_call(struct one_client *client, struct one_msg *msg, const int *fds, uint32_t num_fds,
	     struct one_reply *reply);

/* one_call for a request that names one object, and whose reply says no more than 0 or why not.  [message] */
int one_call_id(struct one_client *client, enum one_msg_type type, uint32_t id);

/*
 * one_call for a request whose reply brings a descriptor.
 * Lifetime: *fd is the caller's, close-on-exec; -1 when there is none or the request failed.
 */
int one_call_fd(struct one_client *client, struct one_msg *msg, struct one_reply *reply, int *fd);

/*
 * So much of the arena at an offset that the data plane said; NULL: it is not aligned (ONE_CACHE_LINE), or
 * not all inside. Lifetime: that of the attachment, also when it is lost.
 */
void *one_client_span(const struct one_client *client, uint64_t offset, uint64_t size);

#endif
