/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints, shared receive queues, service points, connection requests. */
#ifndef DAT_BASE_EP_OBJECT_H_INTERNAL
#define DAT_BASE_EP_OBJECT_H_INTERNAL

#include "client/qp.h"
#include "client/srq.h"
#include "dat/base/evd_object.h"
#include "dat/base/memory_object.h"

struct srq {
	struct object o;  /* by its id */
	struct lock lock; /* posting, and what follows */
	struct one_srq q;
	DAT_COUNT max_recv_dtos, low_watermark;
	DAT_COUNT max_recv_iov;
	struct pz *pz;
};

/* What the library knows of an endpoint; the engine's word (one_qp_shm.state) counts in ACTIVE and ACCEPTED.
 */
enum ep_phase {
	EP_UNCONNECTED = 0,
	EP_CHANGING, /* a call that ends in another phase is under way */
	EP_RESERVED,
	EP_PASSIVE,
	EP_TENTATIVE,
	EP_ACTIVE,  /* connect was issued */
	EP_ACCEPTED /* accept was issued */
};

/* A work request that is under way: what a flush by the library needs. */
struct posted {
	uint64_t cookie;
	uint32_t key;  /* bind: the new key, else 0 */
	uint32_t slot; /* where it begins in its ring */
};

/* Rings of them, by qp.sq_posted and rq_posted. */
struct ep_logs {
	struct posted *send, *recv;
	uint32_t send_mask, recv_mask;
};

struct ep {
	struct object o; /* by the id of its queue pair */
	_Atomic uint32_t phase;
	_Atomic bool closing; /* disconnect was issued */
	/* Of its connection, or the one it may have next; and the last one whose end was taken off conn_evd.
	 * 16 bits. */
	_Atomic uint32_t number, ended;
	bool active; /* the connecting side of its connection */
	struct lock send_lock, recv_lock;
	struct one_qp qp;
	struct ep_logs logs;
	uint32_t max_send_iov, max_recv_iov, max_read_iov, max_write_iov;
	uint64_t max_message, max_rdma;
	struct pz *pz;
	_Atomic(const struct lmr *) last_lmr; /* of the last request: spares a lookup */
	bool may_unsignal_send, may_unsignal_recv;
	DAT_EP_ATTR attr;
	struct evd *recv_evd, *send_evd, *conn_evd;
	struct srq *srq;    /* where receives come from; NULL: the endpoint has its own */
	DAT_COUNT srq_dtos; /* receives that may complete here before any is taken off the EVD */
	/* ia.lock */
	struct sockaddr_storage remote;
	DAT_CONN_QUAL remote_qual;
	uint8_t private_data[ONE_PRIVATE_DATA_MAX];
};

/* A service point, public or reserved. */
struct sp {
	struct object o; /* by the id of its listener */
	DAT_CONN_QUAL qual;
	struct evd *evd;
	DAT_PSP_FLAGS flags; /* PSP */
	struct ep *ep;       /* RSP, until its request comes; ia.lock */
	DAT_EP_HANDLE ep_handle;
};

struct cr {
	struct object o;
	uint32_t id;
	struct ep *ep; /* supplied by the service point */
	bool reserved; /* by an RSP: the endpoint is the consumer's */
	DAT_CONN_QUAL qual;
	struct sockaddr_storage remote;
	uint16_t remote_port;
	uint16_t private_len;
	uint8_t private_data[ONE_PRIVATE_DATA_MAX];
};

/*
 * The phase.  EP_CHANGING is left by the thread that entered it.  ep_phase pairs with ep_set_phase and
 * ep_move: what was stored to the endpoint before a phase is seen with it.
 */
static inline uint32_t
ep_phase(const struct ep *ep)
{
	return atomic_load(&ep->phase);
}

static inline void
ep_set_phase(struct ep *ep, uint32_t phase)
{
	atomic_store(&ep->phase, phase);
}

/* False: the endpoint is not in that phase. */
static inline bool
ep_move(struct ep *ep, enum ep_phase from, enum ep_phase to)
{
	uint32_t expected = from;

	return atomic_compare_exchange_strong(&ep->phase, &expected, to);
}

/* What the engine says of the connection.  Pairs with its release store, which precedes the event. */
static inline uint32_t
ep_qp_state(const struct ep *ep)
{
	return atomic_load_explicit(&ep->qp.shm->state, memory_order_acquire);
}

#endif
