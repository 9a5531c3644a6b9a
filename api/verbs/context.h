/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libibverbs over the client core: types that all of its rooms share.
 *
 * An ibv_context is an attachment to the port of its device.  Calls return errors as rdma-core does: NULL
 * with errno, -1 with errno, or a positive errno, as documented in each manual page.
 */
#ifndef VERBS_CONTEXT_H
#define VERBS_CONTEXT_H

#include <pthread.h>
#include <stdbool.h>

#include <infiniband/verbs.h>

#include "client/client.h"
#include "client/lock.h"

#define VERBS_PORT 1u

struct device {
	struct ibv_device base;
	uint64_t hwaddr;
	struct device *next;
};

/* The object of an event, named in rings by its id; embedded in the object. */
struct element {
	void *object; /* its ibv_cq, ibv_qp or ibv_srq */
	uint32_t id;
	uint32_t comp_events, async_events; /* events that the application got */
	uint32_t limit;                     /* SRQ: the armed limit, 0 after its event */
	struct element *next;
};

/* A queue pair, found by the id in an entry of a completion ring. */
struct qp_name {
	struct element element;
	struct one_qp *ring;
	uint32_t qpn;
	_Atomic uint32_t peer_qpn; /* relaxed: set before the first completion that reports it */
};

/* The peer of a queue pair that the application moves to RTS itself: see verbs_cm_expect() in cm.h. */
struct expected {
	uint32_t qpn, psn;
	struct expected *next;
};

struct context {
	struct verbs_context verbs;
	struct device *device;
	struct one_client *client;
	const struct one_welcome *info;
	uint32_t num_addrs; /* addresses of the port, which are its GID table */
	struct one_port_addr addr[ONE_PORT_ADDRS_MAX];
	pthread_mutex_t lock; /* guards the lists of elements, events and expected peers */
	struct element *cqs, *srqs;
	/* Indexed by id % ONE_QPS_MAX.  Stored with the locks of both CQs held: a thread that polls a CQ
	 * finds each queue pair whose completions are in the ring. */
	struct qp_name *_Atomic qps[ONE_QPS_MAX];
	/* async.c */
	int async_socket, async_event;
	uint16_t async_channel;
	struct one_cq async_cq;
	struct async_entry *async_first, **async_last; /* taken from the ring, but not by the application */
	bool fatal_reported;
	struct expected *expected;
	struct context *next; /* fork.c */
};

static inline struct context *
context_of(struct ibv_context *base)
{
	return (struct context *)(void *)((char *)base - offsetof(struct context, verbs.context));
}

#define TO(type, object) ((struct type *)(void *)(object))

/* ---- fork.c ---- */
/* After fork, calls on the parent's contexts and their objects fail with ECHILD in the child.  No such call
 * blocks, even if another thread of the parent held a lock when it forked. */
extern pthread_mutex_t verbs_lock; /* guards the lists of devices and contexts */
int verbs_watch_forks(void);       /* call before using the lock; idempotent; returns 0 or -errno */
void verbs_fork_add(struct context *context);
void verbs_fork_remove(struct context *context);

#endif
