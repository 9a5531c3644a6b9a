/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared receive queues, as their core sees them.
 */
#ifndef DATAPLANE_QP_SRQ_H
#define DATAPLANE_QP_SRQ_H

#include "dataplane/core/core.h"

/* Receive ring shared by queue pairs of one client. */
struct engine_srq {
	struct one_wqe *rq;
	struct one_srq_shm *shm;
	uint32_t head; /* next slot */
	uint32_t log2;
	uint32_t taken, done; /* receives */
	uint32_t limit;       /* report when fewer are left; 0: not armed */
	uint32_t id;
	struct engine_cq *async_cq;
	struct engine_client *client;
	struct reap reap; /* control thread only */
};

void srq_took(struct core *core, struct engine_srq *srq, uint32_t slots); /* took `slots` slots */
void srq_set_limit(struct core *core, struct engine_srq *srq, uint32_t limit);
void srq_exchange_rings(struct engine_srq *one, struct engine_srq *other);
void srq_publish(struct engine_srq *srq); /* stores `done` */

#endif
