/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The core that libdat and librsm share: attachments to the data plane. Needs only libc.
 *
 * Other headers of this folder: cq.h completion rings, wait.h sleeping, qp.h queue pairs, post.h posting to
 * them, srq.h shared receive queues, mem.h registered memory.
 *
 * Common to the calls of all these headers, unless a call states otherwise:
 * Thread: calls on a struct one_client and one_mem_* are safe from all threads at once. A struct one_cq,
 * one_qp or one_srq is guarded by its owner; different ones may be used at the same time.
 * Lifetime: the caller owns the structs that calls fill in (struct one_cq, one_qp, one_srq, one_mr). They
 * hold the attachment's pointer and must not be used after one_detach. Calls keep no pointer that is passed
 * in.
 * Errno: calls return 0 or -errno; errno itself is undefined afterwards.
 *   -ECONNRESET  The data plane has ended, has found this attachment faulty, or has not run for 30 s while a
 *                request waited. Permanent: every later call returns the same, one_client_dead() is true, and
 *                all sleepers are woken.
 *   -ECHILD      After fork in the child: the attachment is the parent's. Only one_detach has an effect.
 *   -EPROTO      The reply makes no sense. The attachment is ended: -ECONNRESET from now on. Calls for
 *                which the attachment lives on say so.
 *
 * Calls marked [message] exchange one message with the data plane and block until the reply comes. They also
 * return the data plane's refusals (-EDQUOT, -ENOSPC, -EINVAL, -ENOENT, -EBUSY, -ENOMEM; see the message in
 * abi/message.h), and -ENOMEM, -ENOBUFS, -ETOOMANYREFS or -EBADF when the message could not be sent: then the
 * attachment lives on.
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

/* Call between two polls of a spinning loop. */
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
	const char *port;   /* NULL or "": the first port */
	enum one_kind kind;
	bool restarts; /* one_wait_sleep continues after signal handlers with SA_RESTART */
	/* Called at most once, when the attachment is lost; possibly before one_attach has returned, but
	 * after *out is set. NULL: no callback.
	 * Thread: the watcher thread, with all signals blocked and no lock held. Other attachments are
	 * notified of their loss only after the callback returns. The callback may call one_detach. */
	void (*lost)(void *user);
	void *user;
};

/* Returns the path of the data plane's socket that one_attach uses for one_attach.socket == `socket`.
 * Lifetime: `socket` itself, the environment's string, or a constant. */
const char *one_socket_path(const char *socket);

/* pthread_atfork(3) for callers that hold locks around calls of the core. The core's own handlers are already
 * registered, so `prepare` takes its locks before the core does. When `child` runs, all attachments are
 * foreign (-ECHILD). */
int one_at_fork(void (*prepare)(void), void (*parent)(void), void (*child)(void));

/* Attaches this process to the data plane, and starts the watcher thread with the first attachment. Blocks
 * until the data plane has answered: at most 10 s for the connection, and 10 s more for the reply. Lifetime:
 * *out lives until one_detach, args->user must live as long; the rest of `args` until the return. Errno:
 * -ENOENT, -ECONNREFUSED, -EACCES: no data plane at that socket, or not for this user; -ETIMEDOUT: no answer;
 * -ENAMETOOLONG: the path; -EPROTO: version mismatch; -ENODEV: no such port; -EDQUOT: too many attachments;
 * -ENOMEM, -EAGAIN, -EMFILE: this process lacks resources. */
int one_attach(const struct one_attach *args, struct one_client **out);

/* Ends the attachment and deregisters all its memory; the data plane frees all objects. Blocks until that
 * memory is private again, and until `lost` has returned (not on the watcher thread itself). Thread: no other
 * call on `client` runs or follows, and no thread sleeps on the attachment. */
void one_detach(struct one_client *client);

/* Returns the data plane's reply to the attachment: port, limits, idle mode.
 * Lifetime: that of the attachment; never changes. */
const struct one_welcome *one_client_info(const struct one_client *client);

/* Returns true if the attachment is lost. An acquire: if true, the caller sees the watcher thread's earlier
 * stores.
 * Thread: any, also signal handlers. */
bool one_client_dead(const struct one_client *client);

/* Sends a request and receives its reply. [message]
 * Thread: no cancellation point. A request that waits for a neighbour (QP_RTR, AH_CREATE) delays no other.
 * Lock: do not hold one that a completion waits for.
 * Lifetime: `fds` stay the caller's, at most ONE_MSG_FDS. `reply` may be NULL, and is undefined unless the
 * data plane has answered. msg->seq is overwritten.
 * Returns reply->error: 0, -errno, or RSMERR_* (> 0) for requests of librsm. */
int one_call(struct one_client *client, struct one_msg *msg, const int *fds, uint32_t num_fds,
	     struct one_reply *reply);

/* one_call for a request that names one object, and whose reply has no more than the error. [message] */
int one_call_id(struct one_client *client, enum one_msg_type type, uint32_t id);

/* one_call for a request whose reply brings a descriptor.
 * Lifetime: *fd is the caller's, close-on-exec; -1 when there is none or the request failed. */
int one_call_fd(struct one_client *client, struct one_msg *msg, struct one_reply *reply, int *fd);

/* Returns `size` bytes of the arena at an offset from the data plane; NULL: misaligned (ONE_CACHE_LINE), or
 * not completely inside.
 * Lifetime: that of the attachment, also when it is lost. */
void *one_client_span(const struct one_client *client, uint64_t offset, uint64_t size);

#endif
