/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues. */
#ifndef VERBS_CQ_H
#define VERBS_CQ_H

#include "verbs/context.h"

struct cq {
	union {
		struct ibv_cq base;
		struct ibv_cq_ex ex;
	};
	struct one_cq ring;
	struct lock lock; /* taken by cq_lock() */
	/* lock_self() of the thread between start_poll and end_poll; 0: none.  Stored under the lock. */
	_Atomic uintptr_t poller;
	struct one_cqe *purged; /* entries that cq_purge() took from the ring: polled before the ring */
	uint32_t purged_at, purged_count;
	struct ibv_wc wc; /* the completion that start_poll or next_poll found */
	_Atomic uint32_t users;
	struct element element;
};

/* ---- cq.c ---- */
struct ibv_cq_ex *cq_create_ex(struct ibv_context *base, struct ibv_cq_init_attr_ex *attr);

/* Locks the CQ.  A thread that holds the lock between start_poll and end_poll may arm the CQ or destroy a
 * queue pair. */
static inline void
cq_lock(struct cq *cq)
{
	/* Relaxed: only the thread's own store can equal its id. */
	if (ONE_LIKELY(atomic_load_explicit(&cq->poller, memory_order_relaxed) != lock_self()))
		lock_take(&cq->lock);
}

static inline void
cq_unlock(struct cq *cq)
{
	/* Relaxed: see cq_lock(). */
	if (ONE_LIKELY(atomic_load_explicit(&cq->poller, memory_order_relaxed) != lock_self()))
		lock_drop(&cq->lock);
}

/* Resets the locks in a child after fork, because a thread of the parent may have held them. */
void cq_fork_child(struct cq *cq);

/* ---- poll.c ---- */
int cq_poll(struct ibv_cq *base, int num, struct ibv_wc *wc);
int cq_req_notify(struct ibv_cq *base, int solicited_only);
void cq_calls(struct ibv_cq_ex *ex);
/* Counts completions that have not been polled; the lock is held. */
uint32_t cq_waiting(struct cq *cq);
/* Drops completions of a queue pair; the lock is held.  Returns 0 or a positive errno. */
int cq_purge(struct cq *cq, uint32_t qp_id);

/* Called after an empty poll, without locks: may yield the processor. */
void give_away(void);

#endif
