/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs.  Posting is in post.h. */
#include <unistd.h>

#include "client/internal.h"
#include "client/post.h"

/*
 * Reads the engine's progress counters as far as they are plausible: they only move forward, and never past
 * what was posted.
 */
static void
refresh_side(uint32_t tail, uint32_t posted, _Atomic uint32_t *shm_head, _Atomic uint32_t *shm_done,
	     uint32_t *head_seen, uint32_t *done_seen)
{
	/* Acquire pairs with the engine's release stores: the engine no longer reads those slots. */
	uint32_t done = atomic_load_explicit(shm_done, memory_order_acquire);
	uint32_t head = atomic_load_explicit(shm_head, memory_order_acquire);

	if (posted - done <= posted - *done_seen)
		*done_seen = done;
	if (tail - head <= tail - *head_seen)
		*head_seen = head;
}

static void
refresh_send(struct one_qp *qp)
{
	refresh_side(qp->sq_tail, qp->sq_posted, &qp->shm->sq_head, &qp->shm->sq_done, &qp->sq_head_seen,
		     &qp->sq_done_seen);
}

static void
refresh_recv(struct one_qp *qp)
{
	refresh_side(qp->rq_tail, qp->rq_posted, &qp->shm->rq_head, &qp->shm->rq_done, &qp->rq_head_seen,
		     &qp->rq_done_seen);
}

bool
one_send_refresh(struct one_qp *qp, uint32_t slots)
{
	refresh_send(qp);
	return qp->sq_posted - qp->sq_done_seen < qp->max_send_wr &&
	       qp->sq_tail + slots - qp->sq_head_seen <= 1u << qp->sq_log2;
}

bool
one_recv_refresh(struct one_qp *qp, uint32_t slots)
{
	refresh_recv(qp);
	return qp->rq_posted - qp->rq_done_seen < qp->max_recv_wr &&
	       qp->rq_tail + slots - qp->rq_head_seen <= 1u << qp->rq_log2;
}

uint32_t
one_send_outstanding(struct one_qp *qp)
{
	refresh_send(qp);
	return qp->sq_posted - qp->sq_done_seen;
}

uint32_t
one_recv_outstanding(struct one_qp *qp)
{
	refresh_recv(qp);
	return qp->rq_posted - qp->rq_done_seen;
}

void
one_qp_wake(struct one_qp *qp, const struct one_doorbells *doorbells)
{
	const _Atomic uint32_t *asleep =
		doorbells == qp->doorbells ? &qp->arena->engine_asleep : &doorbells->engine_asleep;

	/* Pairs with the engine's fence between storing engine_asleep and its last poll of the doorbells:
	 * either the engine sees the doorbell, or this thread sees it asleep. */
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(asleep, memory_order_relaxed) != 0) {
		uint64_t one = 1;
		ssize_t n = write(qp->wake_fd, &one, sizeof(one));

		(void)n; /* a full counter is readable, too */
	}
}

int
one_qp_attach(struct one_client *client, const struct one_qp_created *made, uint32_t max_send_wr,
	      uint32_t max_recv_wr, struct one_qp *qp)
{
	memset(qp, 0, sizeof(*qp));
	if (made->sq_log2 > ONE_RING_LOG2_MAX || made->rq_log2 > ONE_RING_LOG2_MAX ||
	    made->doorbell >= ONE_QPS_MAX)
		return -EPROTO;
	qp->client = client;
	qp->id = made->qp;
	qp->qpn = made->qpn;
	qp->doorbell = made->doorbell;
	qp->sq_log2 = made->sq_log2;
	qp->rq_log2 = made->rq_log2;
	qp->shm = one_client_span(client, made->shm, sizeof(struct one_qp_shm));
	qp->sq = one_client_span(client, made->sq, sizeof(struct one_wqe) << made->sq_log2);
	qp->rq = one_client_span(client, made->rq, sizeof(struct one_wqe) << made->rq_log2);
	if (qp->shm == NULL || qp->sq == NULL || qp->rq == NULL)
		return -EPROTO;
	qp->doorbells = client->doorbells;
	qp->last_doorbells = (uint32_t)(client->info.arena_size - sizeof(struct one_doorbells));
	qp->arena = client->header;
	qp->wake_fd = client->wake_fd;
	qp->may_sleep = client->info.idle == ONE_IDLE_SLEEP;
	qp->max_send_wr = max_send_wr;
	qp->max_recv_wr = max_recv_wr;
	return 0;
}

int
one_qp_create(struct one_client *client, const struct one_qp_create *args, struct one_qp *qp)
{
	struct one_msg msg = {.type = ONE_MSG_QP_CREATE};
	struct one_reply reply;
	int error;

	msg.qp_create = *args;
	error = one_call(client, &msg, NULL, 0, &reply);
	if (error != 0)
		return error;
	error = one_qp_attach(client, &reply.qp, args->max_send_wr, args->max_recv_wr, qp);
	if (error != 0)
		client_fail(client);
	return error;
}

int
one_qp_reset(struct one_qp *qp)
{
	int error = one_call_id(qp->client, ONE_MSG_QP_RESET, qp->id);

	if (error != 0)
		return error;
	/* The engine has emptied the send ring: taken and completed requests are all there are. Receives that
	 * it kept are still between the counters of the receive ring. The acquires pair with the engine's
	 * release stores of its progress, which come before the reply. */
	qp->sq_head_seen = qp->sq_tail = atomic_load_explicit(&qp->shm->sq_head, memory_order_acquire);
	qp->sq_done_seen = qp->sq_posted = atomic_load_explicit(&qp->shm->sq_done, memory_order_acquire);
	refresh_recv(qp);
	return 0;
}

int
one_qp_free(struct one_qp *qp)
{
	return one_call_id(qp->client, ONE_MSG_QP_FREE, qp->id);
}
