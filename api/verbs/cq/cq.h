/* SPDX-License-Identifier: BSD-3-Clause */
/* Completion queues. */
#ifndef VERBS_CQ_H
#define VERBS_CQ_H

#include "verbs/base/context.h"

struct cq {
	union {
		struct ibv_cq base;
		struct ibv_cq_ex ex;
	};
	struct one_cq ring;
	pthread_mutex_t lock;
	struct one_cqe *held; /* taken from the ring when a queue pair was reset: before all others */
	uint32_t held_at, held_count;
	struct ibv_wc wc; /* of start_poll, next_poll */
	_Atomic uint32_t users;
	struct element element;
};

/* ---- cq.c ---- */
struct ibv_cq_ex *cq_create_ex(struct ibv_context *base, struct ibv_cq_init_attr_ex *attr);

/* In a child after fork, whoever had its locks: it is the parent's. */
void cq_fork_child(struct cq *cq);

/* ---- poll.c ---- */
int cq_poll(struct ibv_cq *base, int num, struct ibv_wc *wc);
int cq_req_notify(struct ibv_cq *base, int solicited_only);
void cq_calls(struct ibv_cq_ex *ex);
/* One event by the CQ's channel for what has not been polled, or comes; ONE_ARM_FLAGS; with the lock held. */
void cq_arm(struct cq *cq, uint16_t flags);
/* Completions that have not been polled; with the lock held. */
uint32_t cq_waiting(struct cq *cq);
/* Forgets completions of a queue pair; with the lock held. */
int cq_purge(struct cq *cq, uint32_t qp_id);

/* ---- give.c ---- */
/* After a look that found nothing; without a lock. */
void give_away(void);

#endif
