/* SPDX-License-Identifier: BSD-3-Clause */
/* Entries of engine_client.qps: queue pairs by doorbell, and lanes to which queue pairs have moved. */
#ifndef DATAPLANE_QP_DOORBELL_H
#define DATAPLANE_QP_DOORBELL_H

#include "dataplane/qp/qp.h"

/*
 * Returns the entry of a queue pair that has moved to `lane`, where its doorbell is rung from now on. The
 * entry on that lane is the queue pair, or leads to the lane of its next move, or is nothing once the queue
 * pair has ended. So forwarding always ends.
 */
static inline struct engine_qp *
doorbell_forward(const struct engine_client *lane)
{
	return (struct engine_qp *)((uintptr_t)lane | 1);
}

/* Returns the lane of such an entry; NULL: it is a queue pair, or nothing. */
static inline struct engine_client *
doorbell_lane(const struct engine_qp *entry)
{
	return ((uintptr_t)entry & 1) != 0 ? (struct engine_client *)((uintptr_t)entry & ~(uintptr_t)1)
					   : NULL;
}

#endif
