/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs; post.h posts to them. attach.h has the rules for all calls. */
#ifndef CLIENT_QP_H
#define CLIENT_QP_H

#include "client/attach.h"

struct one_qp {
	struct one_client *client;
	uint32_t id;
	uint32_t qpn;
	uint32_t doorbell;
	uint32_t sq_log2, rq_log2;
	struct one_qp_shm *shm;
	struct one_wqe *sq, *rq;
	struct one_doorbells *doorbells; /* of the first lane: see one_qp_doorbells() */
	uint32_t last_doorbells;         /* largest valid offset of doorbells in the arena */
	struct one_arena *arena;
	int wake_fd;    /* eventfd; used only when `may_sleep` */
	bool may_sleep; /* idle mode sleep: fence, and check for a sleeping core after each doorbell */
	uint32_t max_send_wr, max_recv_wr;
	/* Send side and receive side: each is guarded by its own lock of the owner. */
	uint32_t sq_tail, sq_posted, sq_head_seen, sq_done_seen;
	uint32_t rq_tail, rq_posted, rq_head_seen, rq_done_seen;
};

/*
 * Creates a queue pair, not connected. [message]
 * Lifetime: until one_qp_free or one_detach; its completion rings and zone cannot be freed before.
 */
int one_qp_create(struct one_client *client, const struct one_qp_create *args, struct one_qp *qp);

/*
 * Takes over a queue pair that a reply describes (RSM_CONNECT).
 * Errno: -EPROTO: the reply makes no sense; the attachment is unchanged, and the caller must end it.
 */
int one_qp_attach(struct one_client *client, const struct one_qp_created *made, uint32_t max_send_wr,
		  uint32_t max_recv_wr, struct one_qp *qp);

/*
 * Empties the send ring, and keeps posted receives. [message]
 * Lock: both sides'.
 */
int one_qp_reset(struct one_qp *qp);

/*
 * Frees the queue pair, connected or not. [message]
 * Lock: both sides', or no thread posts any more.
 */
int one_qp_free(struct one_qp *qp);

/*
 * Returns the number of requests without completion, as far as the engine has published its progress. No
 * system call.
 * Lock: that side's.
 */
uint32_t one_send_outstanding(struct one_qp *qp);
uint32_t one_recv_outstanding(struct one_qp *qp);

/* Returns the receives that a queue pair with an SRQ has taken and not completed. Lock: none. */
uint32_t one_qp_held(const struct one_qp *qp);

#endif
