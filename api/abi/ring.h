/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared rings between an application and the data plane.
 *
 * Each ring is an array of fixed-size slots, a power of two of them, with a *phase* byte as the last byte of
 * each slot. The producer fills a slot and stores its phase last (release); the consumer loads the phase of
 * the slot it expects next (acquire). The phase of the first lap is 1, of the second 0, and so on: fresh
 * (zeroed) memory is an empty ring, and one cache line carries the phase and the data.
 *
 *   work ring        application -> engine   64-byte slots  (struct one_wqe)
 *   completion ring  engine -> application   32-byte slots  (struct one_cqe)
 *
 * Neither side uses an index in shared memory to walk memory: each keeps its own index and mask privately.
 * The only indices in shared memory are the consumer's progress counters, which the producer checks for
 * plausibility before it uses them.
 */
#ifndef ONE_ABI_RING_H
#define ONE_ABI_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define ONE_CACHE_LINE 64
#define ONE_RING_LOG2_MAX 18 /* 262144 slots in any ring */

#define ONE_ALIGNED(n) __attribute__((aligned(n)))

/* Phase byte of free-running slot index `index` in a ring of 2^log2 slots. */
static inline uint8_t
one_ring_phase(uint32_t index, uint32_t log2)
{
	return (uint8_t)(((index >> log2) & 1u) ^ 1u);
}

static inline uint32_t
one_ring_slot(uint32_t index, uint32_t log2)
{
	return index & ((1u << log2) - 1u);
}

/* ---- work ------------------------------------------------------------- */

enum one_op {
	ONE_OP_SEND = 1,
	ONE_OP_SEND_IMM,
	ONE_OP_SEND_INV,
	ONE_OP_WRITE,
	ONE_OP_WRITE_IMM,
	ONE_OP_READ,
	ONE_OP_FETCH_ADD,
	ONE_OP_CMP_SWAP,
	ONE_OP_BIND, /* memory window bind or unbind, carried out by the control thread */
	ONE_OP_RECV, /* only in receive rings */
	ONE_OP_MAX
};

#define ONE_WQE_SUPPRESS 0x01u   /* no completion when it succeeds */
#define ONE_WQE_UNSIGNALED 0x02u /* the completion lacks ONE_CQE_NOTIFY */
#define ONE_WQE_SOLICITED 0x04u  /* SE bit of the last packet */
#define ONE_WQE_FENCE 0x08u      /* start after all earlier READs and atomics are done */
#define ONE_WQE_INLINE 0x10u     /* payload is in the slot, sge unused (SEND*, WRITE*) */
#define ONE_WQE_FLAGS 0x1Fu

/* Flags of a BIND, next to its rights. A bind without a type lets peers invalidate the window, and all queue
 * pairs of the zone serve it. */
#define ONE_BIND_TYPE_1 0x100u     /* peers may not invalidate the window */
#define ONE_BIND_TYPE_2 0x200u     /* for this queue pair only; refused while the window is bound */
#define ONE_BIND_ZERO_BASED 0x400u /* addresses are offsets from the start of the range */
#define ONE_BIND_INVALIDATE 0x800u /* no range: invalidates the window's key, given in `rkey` */
#define ONE_BIND_FLAGS 0xf00u

#define ONE_MAX_SGE 8u
#define ONE_INLINE_MAX 24u
#define ONE_MESSAGE_MAX (1u << 31) /* bytes of one message, the limit of RoCE */

/* A local scatter/gather element. len 0: addr and lkey are ignored. */
struct one_sge {
	uint64_t addr; /* in the application's address space */
	uint32_t len;
	uint32_t lkey;
};
_Static_assert(sizeof(struct one_sge) == 16, "one_sge");

/*
 * A work request: one slot, followed by extension slots (struct one_wqe_ext, three sges each) when num_sge >
 * 1. The producer stores the phases of the extension slots before the phase of the first slot.
 *
 * Atomics: `add_or_swap` and, for CMP_SWAP, the value to compare with, low half in `length`, high half in
 * `imm`; `result` receives the 8 bytes found.
 *
 * A datagram queue pair (ONE_QP_UD) sends SEND and SEND_IMM of up to the path MTU: `remote_addr` is
 * one_ud_to(). `rkey` is the Q_Key; if its highest bit is set, the queue pair's own Q_Key is sent instead.
 */
struct one_wqe {
	uint8_t op;           /* enum one_op */
	uint8_t flags;        /* ONE_WQE_* */
	uint8_t num_sge;      /* 0..ONE_MAX_SGE; 0 with ONE_WQE_INLINE */
	uint8_t inline_len;   /* with ONE_WQE_INLINE: 0..ONE_INLINE_MAX */
	uint32_t length;      /* bytes of the message: the sum of the sges, or inline_len;
			       * READ: bytes to fetch, at most the sum of the sges;
			       * BIND: ONE_ACCESS_REMOTE_* of the window, and ONE_BIND_* */
	uint64_t cookie;      /* returned in the completion */
	uint64_t remote_addr; /* WRITE, READ, atomics */
	uint32_t rkey;        /* WRITE, READ, atomics; BIND: the window's new key */
	uint32_t imm;         /* immediate (opaque, as on the wire); SEND_INV: key to invalidate;
			       * BIND: upper half of the range's length */
	union {
		struct one_sge sge;                  /* sge 0; BIND: range of the window, length 0 unbinds */
		uint8_t inline_data[ONE_INLINE_MAX]; /* ONE_WQE_INLINE */
		struct {
			struct one_sge result;
			uint64_t add_or_swap;
		} atomic;
	};
	uint8_t reserved[7]; /* 0 */
	_Atomic uint8_t phase;
} ONE_ALIGNED(64);
_Static_assert(sizeof(struct one_wqe) == 64, "one_wqe");

#define ONE_SGE_PER_EXT 3u

struct one_wqe_ext {
	struct one_sge sge[ONE_SGE_PER_EXT];
	uint8_t reserved[15]; /* 0 */
	_Atomic uint8_t phase;
} ONE_ALIGNED(64);
_Static_assert(sizeof(struct one_wqe_ext) == 64, "one_wqe_ext");

/* Destination of a datagram: the address handle's id, and the QPN. */
static inline uint64_t
one_ud_to(uint32_t ah, uint32_t qpn)
{
	return (uint64_t)qpn << 32 | ah;
}
#define ONE_UD_AH(to) ((uint32_t)(to))
#define ONE_UD_QPN(to) ((uint32_t)((to) >> 32))
#define ONE_UD_OWN_QKEY 0x80000000u
#define ONE_AHS_MAX 16384u /* per attachment */

/* Bytes in front of a received datagram's payload: the IPv6 header, or 20 zeros and the IPv4 header. */
#define ONE_UD_GRH 40u

/* Slots taken by a work request of num_sge sges. */
static inline uint32_t
one_wqe_slots(uint32_t num_sge)
{
	return num_sge <= 1 ? 1 : 1 + (num_sge - 1 + ONE_SGE_PER_EXT - 1) / ONE_SGE_PER_EXT;
}
#define ONE_WQE_SLOTS_MAX (1 + (ONE_MAX_SGE - 1 + ONE_SGE_PER_EXT - 1) / ONE_SGE_PER_EXT)

/* ---- completions and other events --------------------------------------- */

enum one_cqe_type {
	ONE_CQE_SEND = 1,       /* SEND*, WRITE*, READ, atomics, according to `op` */
	ONE_CQE_RECV,           /* a receive; ONE_CQE_IMM, ONE_CQE_INV give the meaning of `imm` */
	ONE_CQE_RECV_WRITE_IMM, /* a receive consumed by WRITE with immediate */
	ONE_CQE_BIND,           /* imm: the new key; ONE_CQE_INV: an invalidation */
	ONE_CQE_CONNECT,        /* connection event: status = enum one_conn_event, object = QP,
				   imm = one_conn_param.number */
	ONE_CQE_REQUEST, /* connection request: object = listener, cookie = arena offset of one_cr_shm */
	ONE_CQE_ASYNC,   /* asynchronous event: status = enum one_async, which defines object */
	ONE_CQE_RSM,     /* outcome of ONE_MSG_RSM_CONNECT, or loss: status = RSMERR_*, object = import */
	ONE_CQE_SIDR, /* outcome of ONE_MSG_SIDR_ASK: object = its id, cookie = arena offset of one_sidr_shm,
		       * status = 0, IBTA's of a refusal, or ONE_SIDR_SILENCE */
	ONE_CQE_SIDR_REQUEST, /* request to a listener: object = listener, cookie = arena offset of
				 one_sidr_shm */
	ONE_CQE_SWITCHED,     /* last entry of a resized ring: continue in the new ring */
	ONE_CQE_AFTER, /* not for the application: entries of ring number `object` of the bundle come first,
			  until `cookie` of them have been taken, each counted since the ring was made, except
			  ONE_CQE_SWITCHED. A queue pair has moved from that ring to this one */
	ONE_CQE_AFTER_REPORT /* not for the application, before report number `length`, which may need no
				entry: reports of ring number `object` up to number `imm` come first */
};

/*
 * The events of the control thread, called reports, are numbered by their ring: `length` of the entry. All
 * reports of a bundle are taken in the order in which the control thread issued them: if the one before went
 * to another ring, ONE_CQE_AFTER_REPORT names it. An event of the core itself has the number 0, and belongs
 * to the report behind it. The number after UINT32_MAX is 1.
 */

/* Status of ONE_CQE_SEND, RECV, RECV_WRITE_IMM, BIND. */
enum one_status {
	ONE_STATUS_SUCCESS = 0,
	ONE_STATUS_FLUSHED,
	ONE_STATUS_LOCAL_LENGTH, /* message longer than the receive, or than its limit; READ longer than its
				    list */
	ONE_STATUS_LOCAL_QP,     /* malformed descriptor */
	ONE_STATUS_LOCAL_PROTECTION, /* local key, range, protection domain or right */
	ONE_STATUS_BAD_RESPONSE,
	ONE_STATUS_REMOTE_ACCESS,    /* NAK Remote Access Error */
	ONE_STATUS_REMOTE_OPERATION, /* NAK Remote Operational Error */
	ONE_STATUS_REMOTE_INVALID,   /* NAK Invalid Request */
	ONE_STATUS_RETRY_EXCEEDED,
	ONE_STATUS_RNR_EXCEEDED,
	ONE_STATUS_BIND_FAILED
};

enum one_conn_event {
	ONE_CONN_ESTABLISHED = 1,
	ONE_CONN_PEER_REJECTED,
	ONE_CONN_NON_PEER_REJECTED,
	ONE_CONN_ACCEPT_ERROR,
	ONE_CONN_DISCONNECTED,
	ONE_CONN_BROKEN,
	ONE_CONN_TIMED_OUT,
	ONE_CONN_UNREACHABLE,
	ONE_CONN_TIMEWAIT_EXIT /* all packets of the connection have left the network; with ONE_QP_TIMEWAIT */
};

enum one_async {
	ONE_ASYNC_CQ_OVERFLOW = 1, /* object = CQ */
	ONE_ASYNC_QP_ERROR, /* object = QP: failed by a bad access of its peer with nothing outstanding; with
			       ONE_QP_NOTIFY_END: the connection ended */
	ONE_ASYNC_SQ_DRAINED, /* object = QP: see ONE_MSG_QP_SET */
	ONE_ASYNC_SRQ_LIMIT,  /* object = SRQ: fewer receives are left than the limit of ONE_MSG_SRQ_LIMIT;
				 once */
	ONE_ASYNC_LINK_UP,    /* link of the attachment's port; object = 0; only for ONE_KIND_VERBS */
	ONE_ASYNC_LINK_DOWN
};

#define ONE_CQE_NOTIFY 0x01u /* counts as a notification: may wake a waiter */
#define ONE_CQE_IMM 0x02u
#define ONE_CQE_INV 0x04u
#define ONE_CQE_GRH 0x10u /* a datagram: `length` includes the ONE_UD_GRH bytes in front of its payload */
#define ONE_CQE_IPV4 \
	0x20u /* with ONE_CQE_GRH: the datagram came with an IPv4 header; else with an IPv6 header */
#define ONE_CQE_SOLICITED \
	0x08u /* a receive that its sender solicited, or an error: wakes a waiter armed for these only */

struct one_cqe {
	uint64_t cookie;
	uint32_t length; /* bytes moved, when status is SUCCESS; number of a report */
	uint32_t object; /* the QP's id, or as the type defines */
	uint32_t imm;
	uint8_t type;     /* enum one_cqe_type */
	uint8_t status;   /* defined by the type */
	uint8_t flags;    /* ONE_CQE_* */
	uint8_t op;       /* enum one_op of the work request */
	uint32_t src_qpn; /* of a datagram: the sender's QPN */
	uint8_t reserved[3];
	_Atomic uint8_t phase;
};
_Static_assert(sizeof(struct one_cqe) == 32, "one_cqe");

/* ---- headers in shared memory; each line has one writer ------------------ */

/*
 * A completion queue is a bundle of completion rings (doc/cores.md): each has one producer, the polling core
 * of some of its queue pairs, and all have one consumer. The first ring exists from the beginning.
 *
 * A ring is this header, then 2^log2 struct one_cqe.
 *
 * Waiting. The application loads the futex word of the channel to sleep on, stores the bundle's `arm`, then
 * that of each ring, executes a full fence, looks for entries and for new rings again, and sleeps. The engine
 * stores entries, executes a full fence (once per loop, not per entry), and loads the ring's `arm`; if it
 * differs from the last one seen and the ring's tail has passed arm.index, the engine exchanges the bundle's
 * arm for 0. The core whose exchange returns the same arm adds 1 to the channel's word and wakes it. The
 * bundle's arm also arms rings that were never armed themselves, from their first entry on.
 */
struct one_cq_shm {
	/* Written by the engine. */
	_Atomic uint32_t tail;    /* entries stored */
	_Atomic uint32_t reports; /* number of the newest report that is stored, or needed no entry */
	uint8_t pad0[56];
	/* Written by the application. */
	_Atomic uint32_t head; /* entries taken; the engine's check for room reads this */
	uint8_t pad1[60];
	_Atomic uint64_t arm; /* one_arm() */
	uint8_t pad2[56];
};
_Static_assert(sizeof(struct one_cq_shm) == 192, "one_cq_shm");

#define ONE_LANES_MAX 64u /* rings of a bundle, that is, polling cores of a data plane */

struct one_cq_bundle {
	/* Written by the control thread: number of rings. A ring is complete before it is counted, and
	 * counted before its core stores an entry. */
	_Atomic uint32_t rings;
	uint8_t pad0[60];
	/* one_cq_ring_place() of each ring but the first, when created. */
	_Atomic uint64_t place[ONE_LANES_MAX];
	/* Written by the application: one_arm() with index 0. The core that answers the arm exchanges it for
	 * 0. */
	_Atomic uint64_t arm;
	/* Written by the application before `arm`: an id of ONE_MSG_CHANNEL_OPEN; 0: none. */
	_Atomic uint32_t descriptor;
	uint8_t pad1[52];
};
_Static_assert(sizeof(struct one_cq_bundle) % ONE_CACHE_LINE == 0, "one_cq_bundle");

/* A ring's offset in the arena, a multiple of ONE_CACHE_LINE, combined with its log2. */
static inline uint64_t
one_cq_ring_place(uint64_t offset, uint32_t log2)
{
	return offset | log2;
}
#define ONE_CQ_RING_OFFSET(place) ((place) & ~(uint64_t)(ONE_CACHE_LINE - 1))
#define ONE_CQ_RING_LOG2(place) ((uint32_t)((place) & (ONE_CACHE_LINE - 1)))

/*
 * An arm requests: "Wake `channel` when an entry with NOTIFY has been stored and tail is past `index` (tail -
 * index > 0 as a signed difference)." seq 0: never armed. ONE_ARM_SOLICITED in `channel`: the entry must have
 * SOLICITED, and be past `index` itself. ONE_ARM_NEXT: the entry must be past `index` itself, and wakes even
 * if it has been taken meanwhile: one wake-up for each arm and entry. Both flags, ONE_ARM_ANY: each entry
 * past `index` wakes.
 *
 * If the bundle has a descriptor (one_cq_bundle.descriptor), the engine sends the completion queue's id, as
 * four bytes, to it before it wakes the futex word.
 */
#define ONE_ARM_SOLICITED 0x8000u
#define ONE_ARM_NEXT 0x4000u
#define ONE_ARM_FLAGS (ONE_ARM_SOLICITED | ONE_ARM_NEXT)
#define ONE_ARM_ANY ONE_ARM_FLAGS
static inline uint64_t
one_arm(uint16_t seq, uint16_t channel, uint32_t index)
{
	return (uint64_t)seq << 48 | (uint64_t)channel << 32 | index;
}
#define ONE_ARM_SEQ(a) ((uint16_t)((a) >> 48))
#define ONE_ARM_CHANNEL(a) ((uint16_t)((a) >> 32))
#define ONE_ARM_INDEX(a) ((uint32_t)(a))

/*
 * Signals (RSM). A ring may serve as a counter: nothing is stored in its slots, `tail` counts the signals
 * that arrived and `head` those taken. Waiting works as for entries. A signal is a SEND with immediate and no
 * payload; the immediate is one_signal(), big-endian on the wire. A signal that does not accumulate is
 * dropped while others wait to be taken. Therefore a taker executes a full fence before it reads the data
 * that the signal announces.
 */
#define ONE_SIGNALS_MAX (1u << 30) /* limit of signals not yet taken; further ones are dropped */

static inline uint32_t
one_signal(uint32_t count, bool once)
{
	return count << 1 | once;
}
#define ONE_SIGNAL_COUNT(s) ((s) >> 1)
#define ONE_SIGNAL_ONCE(s) (((s)&1u) != 0)

/* Connection state of a queue pair, as reported to the application. */
enum one_qp_state {
	ONE_QP_IDLE = 0,   /* receives may be posted */
	ONE_QP_CONNECTING, /* active or passive, outcome open */
	ONE_QP_CONNECTED,
	ONE_QP_CLOSING, /* graceful disconnect: draining */
	ONE_QP_ERROR    /* disconnected or broken: all work is flushed */
};

#define ONE_PRIVATE_DATA_MAX 256u

/* A queue pair. Its rings are elsewhere in the arena (ONE_MSG_QP_CREATE's reply). */
struct one_qp_shm {
	/* Written by the engine. */
	_Atomic uint32_t state;       /* enum one_qp_state; stored before the event that reports it */
	_Atomic uint32_t sq_draining; /* the send queue is stopped, and requests are still in progress */
	/* Written by the control thread, before the queue pair leaves ONE_QP_IDLE and after each move: arena
	 * offset of the lane's struct one_doorbells; 0: one_arena.doorbells. */
	_Atomic uint32_t doorbells;
	uint8_t pad0[52];         /* separates fields that every post reads from counters that change often */
	_Atomic uint32_t sq_head; /* slots of the send ring taken: the application may reuse them */
	_Atomic uint32_t sq_done; /* send work requests completed, suppressed or flushed */
	_Atomic uint32_t rq_head;
	_Atomic uint32_t rq_done;
	uint8_t pad1[48];
	/* Written by the control thread before the event that reports it. */
	uint16_t private_len; /* ESTABLISHED and PEER_REJECTED on the connecting side */
	uint16_t remote_port;
	uint16_t local_port;
	uint16_t family; /* AF_INET or AF_INET6 */
	uint8_t remote_addr[16];
	uint32_t rd_atomic_in; /* negotiated depth of READs and atomics */
	uint32_t rd_atomic_out;
	uint64_t rsm_addr; /* RSM import: base address of the segment at the exporter */
	uint64_t rsm_size; /* size of the segment */
	uint32_t rsm_key;  /* key of the segment */
	_Atomic uint32_t rsm_flags;
	uint8_t private_data[ONE_PRIVATE_DATA_MAX];
	uint32_t remote_qpn;
	uint32_t send_psn, recv_psn; /* of each side's first request */
	uint32_t flow_label;
	uint16_t path_mtu;
	uint8_t traffic_class, hop_limit;
	uint8_t timeout, min_rnr_timer; /* codes */
	uint8_t retry_count, rnr_retry;
	uint8_t local; /* own address, by its number in struct one_port */
	uint8_t pad2[47];
};
_Static_assert(sizeof(struct one_qp_shm) % ONE_CACHE_LINE == 0, "one_qp_shm");

/*
 * A shared receive queue. Its ring is elsewhere in the arena (ONE_MSG_SRQ_CREATE's reply). A queue pair that
 * uses it has no receives of its own; rq_head in the queue pair's one_qp_shm counts the receives it has
 * taken, rq_done those of them that are completed.
 */
struct one_srq_lane {
	/* Written by one polling core, or by several after a take-over. The sums over all lanes count. */
	_Atomic uint32_t head;  /* slots of the ring taken: the application may reuse as many */
	_Atomic uint32_t taken; /* receives taken by queue pairs */
	_Atomic uint32_t done;  /* receives taken, and completed or flushed */
	uint8_t pad0[52];
};
_Static_assert(sizeof(struct one_srq_lane) == ONE_CACHE_LINE, "one_srq_lane");

struct one_srq_shm {
	/* Written by the application. */
	_Atomic uint32_t posted; /* receives posted; stored before the phase of the newest */
	uint8_t pad0[60];
	struct one_srq_lane lane[]; /* for each polling core when the queue was made */
};
_Static_assert(sizeof(struct one_srq_shm) == ONE_CACHE_LINE, "one_srq_shm");

static inline uint64_t
one_srq_shm_size(uint32_t lanes)
{
	return sizeof(struct one_srq_shm) + lanes * (uint64_t)sizeof(struct one_srq_lane);
}

/* A connection request, filled in by the control thread before ONE_CQE_REQUEST. */
struct one_cr_shm {
	uint32_t cr; /* id for ONE_MSG_CR_* */
	uint16_t family;
	uint16_t remote_port;
	uint8_t remote_addr[16];
	uint64_t conn_qual;
	uint32_t rd_atomic_in;  /* READs and atomics that the requester may have in flight to us */
	uint32_t rd_atomic_out; /* READs and atomics that the requester serves at once */
	uint16_t private_len;
	uint16_t local; /* own address, by its number in struct one_port */
	uint8_t private_data[ONE_PRIVATE_DATA_MAX];
	uint32_t remote_qpn;
	uint8_t rnr_retry, retry_count; /* requested by the requester */
	uint8_t pad[14];
};
_Static_assert(sizeof(struct one_cr_shm) == 320, "one_cr_shm");

/* A SIDR request or its answer, filled in by the control thread before its event. */
#define ONE_SIDR_SILENCE 0xffu
#define ONE_SIDR_PRIVATE_REQ 180u
#define ONE_SIDR_PRIVATE_REP 136u
struct one_sidr_shm {
	uint32_t id; /* for ONE_MSG_SIDR_* */
	uint16_t family;
	uint16_t remote_port; /* of a request: where it comes from */
	uint8_t remote_addr[16];
	uint64_t service;
	uint32_t qpn, qkey; /* of an answer */
	uint16_t private_len;
	uint16_t local; /* own address, by its number in struct one_port */
	uint8_t private_data[ONE_SIDR_PRIVATE_REQ];
	uint8_t traffic_class; /* of an answer: the request's, and that of packets sent from now on */
	uint8_t pad[31];
};
_Static_assert(sizeof(struct one_sidr_shm) == 256, "one_sidr_shm");

/* ---- doorbells ------------------------------------------------------------ */

/*
 * Each lane, the polling core of some of an attachment's queue pairs, has its own doorbells: a byte for each
 * queue pair and a byte for each group of 64. After the phase of the slot the application stores 1 to the
 * QP's byte, then 1 to its group's byte (both release). The engine exchanges a nonzero group byte for 0
 * (acquire), then the nonzero bytes of that group, then polls the rings. A later post rings again, so no post
 * is lost, and neither side needs a fence.
 */
#define ONE_QPS_MAX 16384u /* per attachment */
#define ONE_DOORBELL_GROUP 64u

struct one_doorbells {
	_Atomic uint8_t keys; /* struct one_keys has a request; stored and exchanged like the other bytes */
	uint8_t pad0[7];
	_Atomic uint8_t group[ONE_QPS_MAX / ONE_DOORBELL_GROUP];
	_Atomic uint8_t qp[ONE_QPS_MAX];
	/* Written by the engine, as one_arena.engine_asleep: this lane's core sleeps. */
	_Atomic uint32_t engine_asleep;
	uint8_t pad1[52];
};
_Static_assert(sizeof(struct one_doorbells) % ONE_CACHE_LINE == 0, "one_doorbells");

static inline void
one_doorbell_ring(struct one_doorbells *db, uint32_t qp_index)
{
	/* Both pair with the engine's atomic_exchange in doorbell scanning. */
	atomic_store_explicit(&db->qp[qp_index], 1, memory_order_release);
	atomic_store_explicit(&db->group[qp_index / ONE_DOORBELL_GROUP], 1, memory_order_release);
}

#endif
