/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The shared core of libdat and librsm: attachment, rings, memory adoption and
 * waiting.  libc only.  Functions return 0 or -errno.
 *
 * After the data plane has gone, or has found this attachment faulty, every
 * call returns -ECONNRESET, one_client_dead() is true, and all sleepers have
 * been woken (a watcher thread sleeps on the socket for this).
 *
 * Thread safety: calls on a struct one_client and one_mem_* are safe from all
 * threads.  A struct one_cq or one_qp is its owner's to lock; different ones
 * may be used at the same time.
 */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "abi/arena.h"
#include "abi/message.h"
#include "abi/ring.h"

struct one_client;

/* ---- attachment ---- */

struct one_attach {
	const char *socket; /* NULL: $ONESIDE_SOCKET, else ONE_SOCKET_DEFAULT */
	const char *port;   /* NULL or "": the first */
	enum one_kind kind;
	bool restarts; /* one_wait_sleep goes on after signal handlers with SA_RESTART */
	/* Called once, from the watcher thread, when the attachment is lost; that may be before
	 * one_attach has returned (but *out is set). */
	void (*lost)(void *user);
	void *user;
};

/* Where one_attach looks for the data plane when args->socket is `socket`. */
const char *one_socket_path(const char *socket);

/* -ENOENT/-ECONNREFUSED: no data plane at that socket; -EPROTO: another version;
 * -ENODEV: no such port; -EDQUOT: too many attachments. */
int one_attach(const struct one_attach *args, struct one_client **out);
/* Ends the attachment: the data plane releases everything.  Deregisters all memory first. */
void one_detach(struct one_client *client);
const struct one_welcome *one_client_info(const struct one_client *client);
bool one_client_dead(const struct one_client *client);
/* In a child after fork: the attachment is the parent's; every call returns -ECHILD. */

/* One request and its reply; blocks until it comes.  Returns reply->error (<= 0, or RSMERR_* > 0). */
int one_call(struct one_client *client, struct one_msg *msg, const int *fds, uint32_t num_fds,
	     struct one_reply *reply);

/* The same for a request whose reply brings a descriptor: *fd, -1 when there is none. */
int one_call_fd(struct one_client *client, struct one_msg *msg, struct one_reply *reply, int *fd);

uint8_t *one_client_arena(const struct one_client *client);

/* ---- completion rings ---- */

struct one_cq {
	struct one_client *client;
	uint32_t id;
	uint32_t log2;
	uint32_t head;      /* next entry to take */
	uint32_t published; /* value of shm->head */
	struct one_cq_shm *shm;
	struct one_cqe *ring;
	uint16_t arm_seq;
	uint16_t arm_channel; /* where the last one_wait_arm sleeps */
	/*
	 * After a resize: the entries that were left in the old ring, as a ring in private memory that
	 * `ring` and `shm` point into (it ends with ONE_CQE_SWITCHED), and the shared ring that follows.
	 */
	void *backlog;
	struct one_cqe *next_ring;
	struct one_cq_shm *next_shm;
	uint32_t next_log2;
};

int one_cq_create(struct one_client *client, uint32_t entries, struct one_cq *cq);
/* The attachment's asynchronous ring, made at attach.  It ends with that: one_cq_forget instead of
 * one_cq_free. */
void one_cq_async(struct one_client *client, struct one_cq *cq);
void one_cq_forget(struct one_cq *cq);
/* In use: entries and their order are kept.  Wakes whoever sleeps on this ring, to arm anew. */
int one_cq_resize(struct one_cq *cq, uint32_t entries);
int one_cq_free(struct one_cq *cq);
/* Take one entry: 1, or 0 when there is none.  No system call. */
static inline int one_cq_poll(struct one_cq *cq, struct one_cqe *out);
/* Entries that can be taken now, counted up to `limit`. */
uint32_t one_cq_pending(const struct one_cq *cq, uint32_t limit);

/* ---- waiting ---- */

int one_channel_alloc(struct one_client *client, uint16_t *channel); /* never 0; -ENOSPC */
void one_channel_free(struct one_client *client, uint16_t channel);
void one_channel_wake(struct one_client *client, uint16_t channel); /* all sleepers */

/*
 * Sleep on `channel`.  Usage, with the caller's lock held around everything but
 * one_wait_sleep:
 *
 *   ticket = one_wait_begin(client, channel);       loads the word
 *   one_wait_arm(cq, channel, need);                for each ring: wake when `need` entries are there
 *   ... look at all sources again; if something is there, do not sleep ...
 *   error = one_wait_sleep(client, channel, ticket, deadline);
 *
 * deadline: CLOCK_MONOTONIC ns, UINT64_MAX for none.  0: woken (look again),
 * -ETIMEDOUT, -EINTR, -ECONNRESET, -ECHILD.
 *
 * one_wait_sleep spins for $ONESIDE_SPIN_US microseconds (20 if unset) before it
 * really sleeps; the engine then wakes it without a system call.
 */
uint32_t one_wait_begin(struct one_client *client, uint16_t channel);
void one_wait_arm(struct one_cq *cq, uint16_t channel, uint32_t need);
int one_wait_sleep(struct one_client *client, uint16_t channel, uint32_t ticket, uint64_t deadline);
uint64_t one_now_ns(void);

/* ---- queue pairs ---- */

struct one_qp {
	struct one_client *client;
	uint32_t id;
	uint32_t qpn;
	uint32_t doorbell;
	uint32_t sq_log2, rq_log2;
	struct one_qp_shm *shm;
	struct one_wqe *sq, *rq;
	struct one_doorbells *doorbells;
	struct one_arena *arena;
	int wake_fd;    /* eventfd; used only when `may_sleep` */
	bool may_sleep; /* idle mode sleep: fence and look after each doorbell */
	uint32_t max_send_wr, max_recv_wr;
	/* each direction is guarded by its caller */
	uint32_t sq_tail, sq_posted, sq_head_seen, sq_done_seen;
	uint32_t rq_tail, rq_posted, rq_head_seen, rq_done_seen;
};

int one_qp_create(struct one_client *client, const struct one_qp_create *args, struct one_qp *qp);
/* Takes over a queue pair described by a reply (RSM_CONNECT).  -EPROTO: the reply makes no sense. */
int one_qp_attach(struct one_client *client, const struct one_qp_created *made, uint32_t max_send_wr,
		  uint32_t max_recv_wr, struct one_qp *qp);
/* After ONE_MSG_QP_RESET: the rings start anew (receives still posted are kept; see engine). */
int one_qp_reset(struct one_qp *qp);
int one_qp_free(struct one_qp *qp);

/*
 * Post: reserve, fill the slot (and one_post_sge), commit.  reserve sets num_sge and nothing else
 * (the slot holds what an earlier request left), and returns NULL when max_send_wr requests are
 * unfinished or the ring is full (-ENOSPC for the caller) or num_sge is over ONE_MAX_SGE.  No system
 * call unless the engine sleeps.
 */
static inline struct one_wqe *one_send_reserve(struct one_qp *qp, uint32_t num_sge);
static inline void one_send_commit(struct one_qp *qp, struct one_wqe *wqe);
static inline struct one_wqe *one_recv_reserve(struct one_qp *qp, uint32_t num_sge);
static inline void one_recv_commit(struct one_qp *qp, struct one_wqe *wqe);
/* Piece i of the request being filled; finds the extension slot. */
static inline void one_post_sge(struct one_qp *qp, struct one_wqe *wqe, uint32_t i, uint64_t addr,
				uint32_t len, uint32_t lkey);
/* Outstanding requests, as far as the engine has told. */
uint32_t one_send_outstanding(struct one_qp *qp);
uint32_t one_recv_outstanding(struct one_qp *qp);

/* ---- shared receive queues ---- */

struct one_srq {
	struct one_client *client;
	uint32_t id;
	uint32_t log2;
	uint32_t max_wr; /* of the ring; the owner may want less */
	struct one_srq_shm *shm;
	struct one_wqe *rq;
	/* guarded by the caller */
	uint32_t tail, posted, head_seen, done_seen;
};

int one_srq_create(struct one_client *client, uint32_t pz, uint32_t max_wr, uint32_t max_sge,
		   struct one_srq *srq);
int one_srq_free(struct one_srq *srq); /* -EBUSY: a queue pair uses it */
/* ONE_ASYNC_SRQ_LIMIT, once, as soon as fewer than `limit` receives are left; 0: never. */
int one_srq_limit(struct one_srq *srq, uint32_t limit);
/* -ENOSPC: `max` receives are posted and not completed, or the ring is full; -EINVAL: num_sge. */
int one_srq_post(struct one_srq *srq, uint32_t max, uint64_t cookie, const struct one_sge *sge,
		 uint32_t num_sge);
/* As far as the engine has told: receives that no queue pair has taken, and those not completed. */
uint32_t one_srq_available(const struct one_srq *srq);
uint32_t one_srq_outstanding(struct one_srq *srq);
/* Receives that a queue pair of a shared queue has taken and not completed. */
uint32_t one_qp_held(const struct one_qp *qp);

/* ---- memory ---- */

struct one_mr {
	uint32_t id, lkey, rkey;
	uint64_t va, length;
	void *adopted; /* the process-wide ranges held by this registration */
};

/*
 * Registers [va, va+length).  Private anonymous memory is adopted in place: its
 * pages become a sealed memfd shared with the data plane, under the same
 * addresses, while other threads go on (see adopt.c).  Shared mappings are
 * passed on as they are where the process has a descriptor of them.  Memory that
 * is neither is copied by a thread of this library when the data plane asks for it
 * (copier.h), more slowly.
 *
 * -EFAULT: not mapped, or not readable (not writable with ONE_ACCESS_LOCAL_WRITE);
 * -EDQUOT, -ENOMEM, -EINVAL (length 0, wraps); -EOPNOTSUPP: it would have to be copied,
 * which the data plane does not want; -EPERM: nor may this process (seccomp).
 */
int one_mem_register(struct one_client *client, uint32_t pz, uint64_t va, uint64_t length, uint32_t access,
		     struct one_mr *mr);
/* The same, but small memory gets a file of its own as well, if it is not registered already. */
int one_mem_register_alone(struct one_client *client, uint32_t pz, uint64_t va, uint64_t length,
			   uint32_t access, struct one_mr *mr);
/*
 * From now on the file of this registration may be handed to others: no other
 * registration will share it (memory registered twice is copied then).  `writable` false: they can map it for
 * reading only, whatever they try. -EBUSY: it has other registrations, or holds other memory, or is not one
 * adopted piece, or could not be taken back.
 */
int one_mem_claim(struct one_client *client, struct one_mr *mr, bool writable);
/*
 * The pages leave the file: whoever was handed it keeps a copy of the past.  The
 * registration is of no use but to be deregistered.  -errno: for want of resources
 * they are still there.
 */
int one_mem_recall(struct one_client *client, struct one_mr *mr);
/*
 * Other memory, [va, va+mr->length), takes the place of a registration's: the file
 * and the data plane's keys stay, the contents become those of the new memory, and
 * the old memory becomes private with what was in it.  -EBUSY as above; -EFAULT:
 * the new memory is not private, mapped and writable.
 */
int one_mem_move(struct one_client *client, struct one_mr *mr, uint64_t va);
/* The last deregistration of a range turns it into private anonymous memory again, contents kept. */
int one_mem_deregister(struct one_client *client, struct one_mr *mr);

#include "client/inline.h"

#endif
