/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared receive queues. attach.h has the rules for all calls.
 * Lock: the owner's around every call on a struct one_srq.
 */
#ifndef CLIENT_SRQ_H
#define CLIENT_SRQ_H

#include "client/attach.h"

struct one_srq {
	struct one_client *client;
	uint32_t id;
	uint32_t log2;
	uint32_t lanes;  /* of `shm` */
	uint32_t max_wr; /* of the ring; the owner may set a lower limit */
	struct one_srq_shm *shm;
	struct one_wqe *rq;
	uint32_t tail, posted, head_seen, done_seen;
};

/*
 * Creates a queue in the zone `pz` for `max_wr` receives of `max_sge` segments. [message]
 * Lifetime: until one_srq_free or one_detach.
 */
int one_srq_create(struct one_client *client, uint32_t pz, uint32_t max_wr, uint32_t max_sge,
		   struct one_srq *srq);

/*
 * Resizes a queue in use: receives and their order are kept. [message]
 * Errno: -EBUSY: more receives wait than the new ring has room for. After any error the queue is unchanged.
 */
int one_srq_resize(struct one_srq *srq, uint32_t pz, uint32_t max_wr, uint32_t max_sge);

/* Frees the queue.  [message]  -EBUSY: a queue pair uses it. */
int one_srq_free(struct one_srq *srq);

/*
 * Requests ONE_ASYNC_SRQ_LIMIT on the asynchronous ring, once, as soon as fewer than `limit` receives are
 * left; 0: never. [message]
 */
int one_srq_limit(struct one_srq *srq, uint32_t limit);

/*
 * Posts a receive. No system call.
 * Errno: -ENOSPC: `max` receives are posted and not completed, or the ring is full; -EINVAL: num_sge. Never
 * -ECONNRESET: receives posted to a lost attachment are never completed.
 */
int one_srq_post(struct one_srq *srq, uint32_t max, uint64_t cookie, const struct one_sge *sge,
		 uint32_t num_sge);

/*
 * Return the receives that no queue pair has taken, and those not completed, as far as the engine has
 * published its progress. No system call.
 */
uint32_t one_srq_available(const struct one_srq *srq);
uint32_t one_srq_outstanding(struct one_srq *srq);

#endif
