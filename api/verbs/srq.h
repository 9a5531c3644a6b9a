/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared receive queues. */
#ifndef VERBS_SRQ_H
#define VERBS_SRQ_H

#include "verbs/context.h"

struct srq {
	struct ibv_srq base;
	struct one_srq ring;
	struct lock lock;
	uint32_t max_wr, max_sge;
	_Atomic uint32_t users;
	struct element element;
};

/* Resets the locks in a child after fork, because a thread of the parent may have held them. */
void srq_fork_child(struct srq *srq);
int srq_post_recv(struct ibv_srq *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

#endif
