/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints, shared receive queues, service points, connection requests. */
#ifndef DAT_BASE_EP_OBJECT_H_INTERNAL
#define DAT_BASE_EP_OBJECT_H_INTERNAL

#include "client/qp.h"
#include "client/srq.h"
#include "dat/evd_object.h"
#include "dat/memory_object.h"

struct srq {
	struct object o;  /* key: id of the SRQ */
	struct lock lock; /* guards q, max_recv_dtos and low_watermark */
	struct one_srq q;
	DAT_COUNT max_recv_dtos, low_watermark;
	DAT_COUNT max_recv_iov;
	struct pz *pz;
};

/* State of an endpoint as the library knows it.  In EP_ACTIVE and EP_ACCEPTED the data plane's
 * one_qp_shm.state decides. */
enum ep_phase {
	EP_UNCONNECTED = 0,
	EP_CHANGING, /* a call is under way, and sets another phase at its end */
	EP_RESERVED,
	EP_PASSIVE,
	EP_TENTATIVE,
	EP_ACTIVE,  /* connect was issued */
	EP_ACCEPTED /* accept was issued */
};

/* An outstanding work request: the fields that lost.c needs to flush it. */
struct posted {
	uint64_t cookie;
	uint32_t key;  /* bind: the new key, else 0 */
	uint32_t slot; /* receive: its first slot in the ring */
};

/* Rings of outstanding requests, indexed by qp.sq_posted and qp.rq_posted. */
struct ep_logs {
	struct posted *send, *recv;
	uint32_t send_mask, recv_mask;
};

struct ep {
	struct object o; /* key: id of the queue pair */
	_Atomic uint32_t phase;
	_Atomic bool closing; /* disconnect was issued */
	/* Connection numbers, 16 bits.  number: the present or the next connection.  ended: the last
	 * connection whose end was dequeued from conn_evd. */
	_Atomic uint32_t number, ended;
	bool active; /* this endpoint sent the connection request */
	struct lock send_lock, recv_lock;
	struct one_qp qp;
	struct ep_logs logs;
	uint32_t max_send_iov, max_recv_iov, max_read_iov, max_write_iov;
	uint64_t max_message, max_rdma;
	struct pz *pz;
	_Atomic(const struct lmr *) last_lmr; /* region of the last request; saves a lookup */
	bool may_unsignal_send, may_unsignal_recv;
	DAT_EP_ATTR attr;
	struct evd *recv_evd, *send_evd, *conn_evd;
	struct srq *srq;    /* source of receives; NULL: the endpoint has a receive queue of its own */
	DAT_COUNT srq_dtos; /* receives from the SRQ that may complete before any is dequeued from the EVD */
	/* guarded by ia.lock */
	struct sockaddr_storage remote;
	DAT_CONN_QUAL remote_qual;
	uint8_t private_data[ONE_PRIVATE_DATA_MAX];
};

/* Service point, public (PSP) or reserved (RSP). */
struct sp {
	struct object o; /* key: id of the listener */
	DAT_CONN_QUAL qual;
	struct evd *evd;
	DAT_PSP_FLAGS flags; /* PSP */
	struct ep *ep;       /* RSP: its endpoint until the request arrives; guarded by ia.lock */
	DAT_EP_HANDLE ep_handle;
};

struct cr {
	struct object o;
	uint32_t id;
	struct ep *ep; /* supplied by the service point */
	bool reserved; /* ep comes from an RSP and belongs to the consumer */
	DAT_CONN_QUAL qual;
	struct sockaddr_storage remote;
	uint16_t remote_port;
	uint16_t private_len;
	uint8_t private_data[ONE_PRIVATE_DATA_MAX];
};

/* Returns the phase.  Only the thread that entered EP_CHANGING leaves it.  Pairs with the stores in
 * ep_set_phase and ep_move: whoever sees a phase sees everything stored to the endpoint before it. */
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

/* False: the endpoint is not in phase `from`. */
static inline bool
ep_move(struct ep *ep, enum ep_phase from, enum ep_phase to)
{
	uint32_t expected = from;

	return atomic_compare_exchange_strong(&ep->phase, &expected, to);
}

/* The connection's state, as the data plane published it.  Pairs with the data plane's release store, which
 * precedes the event. */
static inline uint32_t
ep_qp_state(const struct ep *ep)
{
	return atomic_load_explicit(&ep->qp.shm->state, memory_order_acquire);
}

#endif
