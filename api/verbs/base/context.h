/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libibverbs over the client core: what all of its rooms know.
 *
 * An ibv_context is an attachment to the port that its device stands for.  Calls return what rdma-core's
 * do: NULL with errno, -1 with errno, or a positive errno, as the manual page of each says.
 */
#ifndef VERBS_CONTEXT_H
#define VERBS_CONTEXT_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>

#include "client/client.h"

#define VERBS_PORT 1u

struct device {
	struct ibv_device base;
	uint64_t hwaddr;
	uint32_t index;
	struct device *next;
};

/* What an event is about, which rings name by its id; part of the object. */
struct element {
	void *object; /* its ibv_cq, ibv_qp or ibv_srq */
	uint32_t id;
	uint32_t comp_events, async_events; /* got by the application */
	uint32_t limit;                     /* of an SRQ: armed, until its event */
	struct element *next;
};

/* A queue pair as entries of completion rings name it. */
struct qp_name {
	struct element element;
	struct one_qp *ring;
	uint32_t qpn;
	_Atomic uint32_t
		peer_qpn; /* relaxed: a completion that it is wanted for comes after the peer is known */
};

/* A peer of a queue pair that the application brings up itself: see verbs_cm_expect() in face/cm.h. */
struct expected {
	uint32_t qpn, psn;
	struct expected *next;
};

struct context {
	struct verbs_context verbs;
	struct device *device;
	struct one_client *client;
	const struct one_welcome *info;
	uint32_t num_addrs; /* of the port: the table of GIDs */
	struct one_port_addr addr[ONE_PORT_ADDRS_MAX];
	pthread_mutex_t lock; /* lists of elements, events, expected peers */
	struct element *cqs, *srqs;
	/* By the low half of its id; stored under the locks of its rings, so who polls one of them finds
	 * those whose completions are in there. */
	struct qp_name *_Atomic qps[ONE_QPS_MAX];
	/* event/async.c */
	int async_socket, async_event;
	uint16_t async_channel;
	struct one_cq async_cq;
	struct async_entry *async_first, **async_last; /* taken from the ring, not yet got */
	bool fatal_told;
	struct expected *expected;
	struct context *next; /* face/fork.c */
};

static inline struct context *
context_of(struct ibv_context *base)
{
	return (struct context *)(void *)((char *)base - offsetof(struct context, verbs.context));
}

#define TO(type, object) ((struct type *)(void *)(object))

#endif
