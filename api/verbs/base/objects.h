/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libibverbs over the client core: its objects.
 *
 * An ibv_context is an attachment to the port that its device stands for.  Calls return what rdma-core's
 * do: NULL with errno, -1 with errno, or a positive errno, as the manual page of each says.
 */
#ifndef VERBS_OBJECTS_H
#define VERBS_OBJECTS_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>

#include "client/client.h"

#define VERBS_PORT 1u
#define VERBS_GID_INDEX 0u
#define VERBS_INLINE_MAX 1024u /* beyond ONE_INLINE_MAX by way of memory of the queue pair */
/*
 * Who asks for some has at least this: UCX asks for 64, and takes a datagram that does not go inline for sent
 * when its peer's connection request comes, before it has been read (openucx/ucx#10423).
 */
#define VERBS_INLINE_ROOM 128u

struct device {
	struct ibv_device base;
	uint64_t hwaddr;
	uint32_t index;
	struct device *next;
};

struct context {
	struct verbs_context verbs;
	struct device *device;
	struct one_client *client;
	const struct one_welcome *info;
	pthread_mutex_t lock; /* lists of objects, events */
	struct cq *cqs;
	struct srq *srqs;
	/* By the low half of its id; stored under the locks of its rings, so who polls one of them finds
	 * those whose completions are in there. */
	struct qp *_Atomic qps[ONE_QPS_MAX];
	/* events.c */
	int async_socket, async_event;
	uint16_t async_channel;
	struct one_cq async_cq;
	struct async_entry *async_first, **async_last; /* taken from the ring, not yet got */
	bool fatal_told;
	_Atomic bool lost;
	struct cm_peer *cm_peers; /* cm.c */
};

struct pd {
	struct ibv_pd base;
	uint32_t id;
	_Atomic uint32_t users;
	struct pd *parent; /* of a parent domain: what it stands for; else NULL */
	struct td *td;     /* NULL: none */
};

struct ah {
	struct ibv_ah base;
	uint32_t id;
};

struct mr {
	struct ibv_mr base;
	struct one_mr mr;
	uint64_t iova;
	unsigned int access; /* enum ibv_access_flags */
};

struct mw {
	struct ibv_mw base;
	uint32_t id;
	pthread_mutex_t lock; /* type 1: the key, since each bind takes the next */
};

struct comp_channel {
	struct ibv_comp_channel base;
	uint16_t number;
	uint32_t id;
};

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
	uint32_t comp_events, async_events;
	_Atomic uint32_t users;
	struct cq *next;
};

struct srq {
	struct ibv_srq base;
	struct one_srq ring;
	pthread_mutex_t lock;
	uint32_t max_wr, max_sge, limit;
	uint32_t async_events;
	_Atomic uint32_t users;
	struct srq *next;
};

/* A request of ibv_qp_ex that is being made. */
struct wr_draft {
	struct ibv_send_wr wr;
	uint32_t first_sge; /* in qp->draft_sges */
	uint32_t inline_at; /* in qp->draft_bytes */
};

/* Where inline data wait that do not fit into a request; base NULL: none. */
struct inline_room {
	uint8_t *base;
	size_t length;
	uint32_t size; /* of a place */
	struct one_mr mr;
};

struct qp {
	union {
		struct ibv_qp base;
		struct ibv_qp_ex ex;
	};
	struct one_qp ring;
	pthread_mutex_t send_lock, recv_lock;
	struct one_qp_create create; /* as it was asked for */
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr; /* as set so far */
	_Atomic uint32_t state;  /* enum ibv_qp_state, as asked for: the data plane may have found an error */
	struct inline_room room;
	uint32_t async_events;
	bool by_cm; /* RTR and RTS were asked for with what the CM says: it connects */
	/* wr.c */
	struct wr_draft *drafts;
	struct ibv_sge *draft_sges;
	uint8_t *draft_bytes;
	uint32_t num_drafts, num_sges, num_bytes, max_drafts;
	int draft_error;
};

static inline struct context *
context_of(struct ibv_context *base)
{
	return (struct context *)(void *)((char *)base - offsetof(struct context, verbs.context));
}

#define TO(type, object) ((struct type *)(void *)(object))

#endif
