/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of the control socket, a Unix SEQPACKET socket. A connection is one attachment. SO_PEERCRED gives
 * the user's identity. RSM applies the rights that come with each message (SCM_CREDENTIALS).
 *
 * The application sends struct one_msg of exactly sizeof(struct one_msg) bytes with at most ONE_MSG_FDS
 * descriptors; the data plane answers each with one struct one_reply of the same `seq`. Requests are carried
 * out one after the other, but QP_RTR and AH_CREATE let others pass while they wait for a neighbour. HELLO is
 * the first message. An application that sends more than ONE_CALLS_MAX requests before it receives replies
 * may lose its attachment. Unsolicited events are entries of a completion ring, never messages. End-of-file
 * on the socket, in either direction, ends the attachment.
 *
 * Ids (of PZs, CQs, QPs, ...) are per attachment, never 0, and not reused soon.
 */
#ifndef ONE_ABI_MESSAGE_H
#define ONE_ABI_MESSAGE_H

#include <stdint.h>

#include "ring.h"

#define ONE_ABI_VERSION 5u
#define ONE_MSG_MAGIC 0x31534e4fu
#define ONE_MSG_FDS 8u
#define ONE_CALLS_MAX 64u
#define ONE_SLOW_CALLS_MAX 48u /* QP_RTR and AH_CREATE among these, so that others find room */
#define ONE_SOCKET_DEFAULT "/run/oneside/oneside.sock"
#define ONE_SOCKET_ENV "ONESIDE_SOCKET"
#define ONE_PORT_NAME 32u
#define ONE_PORT_ADDRS_MAX 8u

enum one_msg_type {
	ONE_MSG_HELLO = 1,
	ONE_MSG_PZ_CREATE,
	ONE_MSG_PZ_FREE,
	ONE_MSG_CQ_CREATE,
	ONE_MSG_CQ_RESIZE,
	ONE_MSG_CQ_FREE,
	ONE_MSG_QP_CREATE,
	ONE_MSG_QP_MODIFY,
	ONE_MSG_QP_CONNECT,
	ONE_MSG_QP_DISCONNECT,
	ONE_MSG_QP_RESET,
	ONE_MSG_QP_FREE,
	ONE_MSG_LISTEN,
	ONE_MSG_UNLISTEN,
	ONE_MSG_CR_ACCEPT,
	ONE_MSG_CR_REJECT,
	ONE_MSG_CR_HANDOFF,
	ONE_MSG_REGION_ADD,
	ONE_MSG_REGION_REMOVE,
	ONE_MSG_MR_CREATE,
	ONE_MSG_MR_FREE,
	ONE_MSG_MW_CREATE,
	ONE_MSG_MW_FREE,
	ONE_MSG_SRQ_CREATE,
	ONE_MSG_SRQ_FREE,
	ONE_MSG_STAGING,
	ONE_MSG_RSM_PUBLISH,
	ONE_MSG_RSM_REPUBLISH,
	ONE_MSG_RSM_UNPUBLISH,
	ONE_MSG_RSM_CONNECT,
	ONE_MSG_RSM_DISCONNECT, /* id = the queue pair's; the reply comes after it is freed */
	ONE_MSG_RSM_TOPOLOGY,
	ONE_MSG_RSM_SIGNAL,
	ONE_MSG_RSM_MAP,
	ONE_MSG_SRQ_LIMIT,
	ONE_MSG_COPIES,
	ONE_MSG_QP_RTR,
	ONE_MSG_QP_RTS,
	ONE_MSG_QP_SET,
	ONE_MSG_QP_ERROR, /* from any state; the reply comes after all posted work is flushed */
	ONE_MSG_CHANNEL_OPEN,
	ONE_MSG_CHANNEL_CLOSE,
	ONE_MSG_PORT,
	ONE_MSG_AH_CREATE,
	ONE_MSG_AH_FREE,
	ONE_MSG_QP_DATAGRAM,
	ONE_MSG_SIDR_ASK,
	ONE_MSG_SIDR_ANSWER, /* frees the id */
	ONE_MSG_SIDR_FREE,
	ONE_MSG_MR_SWAP, /* swaps the keys of two regions without windows */
	ONE_MSG_SRQ_SWAP,
	ONE_MSG_QP_CONFIRM, /* ONE_CONN_STEPWISE: the application has taken ESTABLISHED; the peer may send */
	ONE_MSG_SOURCE,
	ONE_MSG_REGION_JOIN,
	ONE_MSG_MAX
};

/* Object or argument that caused one_reply.error. */
enum one_subject {
	ONE_SUBJECT_NONE = 0,
	ONE_SUBJECT_VERSION,
	ONE_SUBJECT_PORT,
	ONE_SUBJECT_PZ,
	ONE_SUBJECT_CQ_SEND,
	ONE_SUBJECT_CQ_RECV,
	ONE_SUBJECT_CQ_CONN,
	ONE_SUBJECT_QP,
	ONE_SUBJECT_SRQ,
	ONE_SUBJECT_LISTENER,
	ONE_SUBJECT_CR,
	ONE_SUBJECT_REGION,
	ONE_SUBJECT_MR,
	ONE_SUBJECT_MW,
	ONE_SUBJECT_SEGMENT,
	ONE_SUBJECT_ADDRESS,
	ONE_SUBJECT_LENGTH,
	ONE_SUBJECT_ACCESS,
	ONE_SUBJECT_COUNT,
	ONE_SUBJECT_QUOTA, /* -EDQUOT: `value` is the limit, one_reply.limit names what raises it */
	ONE_SUBJECT_MEMORY,
	ONE_SUBJECT_CHANNEL,
	ONE_SUBJECT_AH
};

/* Rights of a memory region or window: the values of DAT_MEM_PRIV_*. */
#define ONE_ACCESS_LOCAL_READ 0x01u
#define ONE_ACCESS_REMOTE_READ 0x02u
#define ONE_ACCESS_LOCAL_WRITE 0x10u
#define ONE_ACCESS_REMOTE_WRITE 0x20u
#define ONE_ACCESS_REMOTE_ATOMIC 0x40u
#define ONE_ACCESS_ALL 0x73u

enum one_kind { ONE_KIND_DAT = 1, ONE_KIND_RSM = 2, ONE_KIND_VERBS = 3 };
enum one_idle { ONE_IDLE_SPIN = 0, ONE_IDLE_YIELD = 1, ONE_IDLE_SLEEP = 2 };

struct one_hello {
	uint32_t magic;
	uint32_t version;
	uint32_t kind;            /* enum one_kind */
	char port[ONE_PORT_NAME]; /* name of the port in the configuration; "" = the first */
	char program[32];         /* for humans: shown by telemetry */
};

struct one_limits {
	uint32_t max_pz, max_cq, max_cq_entries, max_qp, max_qp_wr, max_sge;
	uint32_t max_listen, max_mr, max_mw, max_srq, max_srq_wr;
	uint32_t max_rd_atomic; /* per queue pair, each direction */
	uint32_t max_private_data;
	uint32_t max_segments; /* RSM export segments */
	uint32_t max_ah;       /* address handles */
	uint32_t max_channels; /* channels with a descriptor */
	uint32_t vectors;      /* completion vectors, that is, polling cores of the data plane */
	uint64_t max_mr_bytes; /* of one registration */
	uint64_t max_mr_total; /* of all registrations of an attachment */
	uint64_t max_message;
};

/* Comes with two descriptors: the arena, and the eventfd to write to when the engine sleeps. */
struct one_welcome {
	uint32_t version;
	uint32_t idle;    /* enum one_idle */
	uint32_t node_id; /* RSM node id, 0 if not configured */
	uint32_t port_index;
	char port[ONE_PORT_NAME];
	uint16_t family;
	uint16_t mtu;      /* path MTU of the port: 256..4096 */
	uint32_t async_cq; /* ring of asynchronous events, created by HELLO */
	uint8_t addr[16];  /* primary address, network order; IPv4 in the first four bytes */
	uint64_t arena_size;
	uint64_t async_cq_offset;
	uint32_t async_cq_log2;
	uint32_t async_cq_bundle; /* offset of its struct one_cq_bundle */
	struct one_limits limits;
};

struct one_cq_create {
	uint32_t entries; /* minimum, at least 1 */
	uint32_t vector;  /* below one_limits.vectors; 0: any */
};
struct one_cq_created {
	uint32_t cq;
	uint32_t log2;
	uint64_t offset;
	uint32_t bundle; /* offset of its struct one_cq_bundle */
};
struct one_cq_resize {
	uint32_t cq;
	uint32_t entries;
	uint32_t ring; /* number in the bundle: each ring is resized by its own request */
};                     /* reply: one_cq_created; the old ring ends with ONE_CQE_SWITCHED */

struct one_qp_create {
	uint32_t pz;                        /* 0: none yet (QP_MODIFY before connecting) */
	uint32_t send_cq, recv_cq, conn_cq; /* 0: events of that kind are not reported */
	uint32_t srq; /* 0: none; else of the same pz, and fixed for the queue pair's lifetime */
	uint32_t max_send_wr, max_recv_wr;
	uint32_t max_send_sge, max_recv_sge;
	uint32_t rd_atomic_in, rd_atomic_out;
	uint32_t flags; /* ONE_QP_* */
};
#define ONE_QP_RECV_SOLICITED 1u /* only solicited receives count as notifications */
#define ONE_QP_NOTIFY_END 2u     /* ONE_ASYNC_QP_ERROR whenever the connection ends */
#define ONE_QP_UD 4u             /* a datagram queue pair: no connection, no conn_cq */
#define ONE_QP_TIMEWAIT 8u       /* ONE_CONN_TIMEWAIT_EXIT, even if the queue pair is freed by then */
struct one_qp_created {
	uint32_t qp;
	uint32_t qpn;
	uint32_t doorbell; /* index for one_doorbell_ring */
	uint32_t sq_log2, rq_log2;
	uint32_t reserved;
	uint64_t shm, sq, rq; /* offsets: struct one_qp_shm, struct one_wqe[] */
};
struct one_qp_modify {
	uint32_t qp;
	struct one_qp_create to;
}; /* only in ONE_QP_IDLE; the numbers of entries cannot change */

/* Requested parameters of a connection: `given` names those that are set; the port supplies the others. */
struct one_conn_param {
	uint8_t given;         /* ONE_CONN_* */
	uint8_t rnr_retry;     /* 0..7, granted to the peer; at most what the port grants */
	uint8_t retry_count;   /* 0..7, for both sides; the connecting side decides */
	uint8_t ack_timeout;   /* code, 0..31; at least the port's */
	uint8_t traffic_class; /* of packets that this side sends */
	uint8_t access; /* ONE_ACCESS_REMOTE_*: limits what the peer may do with memory whose key allows it */
	uint16_t number;   /* chosen by the application for this connection: one_cqe.imm of its events */
	uint32_t known_as; /* not 0: report the QPN of this datagram queue pair of the attachment to the peer
			      instead */
};
#define ONE_CONN_RNR_RETRY 1u
#define ONE_CONN_RETRY_COUNT 2u
#define ONE_CONN_ACK_TIMEOUT 4u
#define ONE_CONN_TRAFFIC_CLASS 8u
#define ONE_CONN_ACCESS 16u
/* The application takes events in steps, as with rdma_cm: the active side sends its RTU at QP_CONFIRM, and a
 * disconnection that the application did not request leaves the queue pair as it is until QP_DISCONNECT. */
#define ONE_CONN_STEPWISE 32u

/* Asynchronous: the outcome is one ONE_CQE_CONNECT on the QP's conn_cq. Values of `service` below 65536 are
 * ports in the TCP port space of rdma_cm; larger ones are IB service ids. */
struct one_qp_connect {
	uint32_t qp;
	uint16_t family;
	uint16_t private_len;
	uint8_t addr[16];
	uint64_t service;
	uint64_t timeout_us; /* UINT64_MAX: until the transport gives up */
	struct one_conn_param param;
	uint32_t source;   /* own address: its number in struct one_port, from 1; 0: the data plane chooses */
	uint32_t listener; /* report this listener's port to the peer; 0: the data plane chooses */
	uint8_t private_data[ONE_PRIVATE_DATA_MAX];
};
struct one_qp_disconnect {
	uint32_t qp;
	uint32_t graceful;
};

/*
 * Out-of-band connection, without the CM. RTR: an idle queue pair serves the named peer and no other; RTS:
 * the queue pair also sends. Nothing is negotiated: the parameters are checked against the limits of the
 * attachment and of the port. ARP or ND resolves the peer before the reply comes: -EHOSTUNREACH,
 * -ENETUNREACH.
 */
struct one_qp_rtr {
	uint32_t qp;
	uint32_t peer_qpn;
	uint32_t recv_psn; /* of the peer's first request */
	uint32_t access;   /* ONE_ACCESS_REMOTE_*: what the peer may request */
	uint32_t flow_label;
	uint16_t path_mtu; /* 256..4096 */
	uint16_t family;
	uint8_t addr[16];
	uint8_t traffic_class;
	uint8_t hop_limit;     /* 0: 64 */
	uint8_t rd_atomic_in;  /* concurrent READs and atomics of the peer */
	uint8_t min_rnr_timer; /* code */
	uint32_t source;       /* as in one_qp_connect */
};
struct one_qp_rts {
	uint32_t qp;
	uint32_t send_psn;
	uint8_t timeout; /* code, 4.096 us x 2^n; 0: never give up */
	uint8_t retry_count;
	uint8_t rnr_retry;
	uint8_t rd_atomic_out;
};

/* Changes the settings named in `given` of a queue pair that serves its peer or receives datagrams (only
 * ONE_QP_SET_STOPPED applies to the latter). Stopped is IBTA's SQD: requests that have begun go on, others
 * wait in the ring. When the last begun request has ended, one_qp_shm.sq_draining becomes 0, and with
 * `notify` ONE_ASYNC_SQ_DRAINED follows. */
#define ONE_QP_SET_ACCESS 1u
#define ONE_QP_SET_MIN_RNR_TIMER 2u
#define ONE_QP_SET_STOPPED 4u
struct one_qp_settings {
	uint32_t access; /* ONE_ACCESS_REMOTE_*: what the peer may request from now on */
	uint8_t given;   /* ONE_QP_SET_* */
	uint8_t min_rnr_timer;
	uint8_t stopped, notify;
};
struct one_qp_set {
	uint32_t qp;
	struct one_qp_settings to;
};

/* Datagrams. An address handle names an address; ARP or ND resolves the next hop before the reply comes, as
 * for a connection. The reply's id goes into requests (one_ud_to()). QP_DATAGRAM makes an idle queue pair
 * receive (RTR), and then send (RTS); a repeated request changes the Q_Key. -EPERM: the Q_Key has the highest
 * bit set, which only management datagrams may have. */
struct one_ah_create {
	uint32_t pz; /* of the queue pairs that use the handle */
	uint32_t flow_label;
	uint16_t family;
	uint8_t traffic_class;
	uint8_t hop_limit; /* 0, 1: 64 */
	uint8_t addr[16];
	uint32_t source; /* as in one_qp_connect */
};
#define ONE_DATAGRAM_RTR 1u
#define ONE_DATAGRAM_RTS 2u
struct one_qp_datagram {
	uint32_t qp;
	uint32_t state; /* ONE_DATAGRAM_* */
	uint32_t qkey;
	uint32_t send_psn; /* of the first datagram */
};

/* SIDR resolution: finds the queue pair that receives datagrams for a service of rdma_cm's UDP port space
 * (0x1110000 + port). Asynchronous: the outcome is one ONE_CQE_SIDR on `cq`; SIDR_FREE frees the reply's id.
 * A listener on such a service gets ONE_CQE_SIDR_REQUEST, and answers with a datagram queue pair that
 * receives, or, qp = 0, with a refusal. */
struct one_sidr_ask {
	uint32_t cq;
	uint16_t family;
	uint16_t private_len; /* at most ONE_SIDR_PRIVATE_REQ */
	uint8_t addr[16];
	uint64_t service;
	uint8_t private_data[ONE_SIDR_PRIVATE_REQ];
	uint16_t source;                            /* as in one_qp_connect */
	uint8_t traffic_class_given, traffic_class; /* not given: from the configuration */
	uint32_t listener;                          /* as in one_qp_connect */
};
struct one_sidr_answer {
	uint32_t sidr;
	uint32_t qp;
	uint32_t private_len; /* at most ONE_SIDR_PRIVATE_REP */
	uint8_t private_data[ONE_SIDR_PRIVATE_REP];
};

struct one_listen {
	uint64_t service;  /* 0: a free port, ephemeral (32768..60999) if possible, else >= 1024 */
	uint32_t cq;       /* destination of ONE_CQE_REQUEST */
	uint32_t flags;    /* ONE_LISTEN_* */
	uint32_t listener; /* not 0: let this listener of LATER listen from now on, instead of creating one */
	uint16_t family;   /* AF_INET or AF_INET6: only at addresses of that family; 0: at all addresses */
	uint16_t source;   /* only at this address, as in one_qp_connect; 0: at all addresses */
};
#define ONE_LISTEN_ONCE 1u  /* closes itself at the first request (RSP) */
#define ONE_LISTEN_LATER 2u /* reserves the service; requests are refused as if nobody listened */
/* With LATER: shares the service with other listeners of this flag. While others exist, none of them can
 * begin to listen. */
#define ONE_LISTEN_SHARED 4u
struct one_listening {
	uint32_t listener;
	uint32_t reserved;
	uint64_t service;
};

struct one_cr_accept {
	uint32_t cr;
	uint32_t qp;
	uint32_t private_len;
	struct one_conn_param param;
	uint8_t private_data[ONE_PRIVATE_DATA_MAX];
};
/* The requester finds the private data in one_qp_shm.private_data, at ONE_CONN_PEER_REJECTED. */
struct one_cr_reject {
	uint32_t cr;
	uint16_t private_len;
	uint16_t unanswered; /* 1: the library refuses; the requester sees a port without a listener */
	uint8_t private_data[ONE_PRIVATE_DATA_MAX];
};
struct one_cr_handoff {
	uint32_t cr;
	uint32_t reserved;
	uint64_t service;
};

/* A region is shared memory that the data plane can map; one descriptor comes with the message. `size` is in
 * bytes, a multiple of the page size, from offset 0 of the file. ONE_REGION_SEALED: the file is a memfd with
 * F_SEAL_SHRINK (checked). */
struct one_region_add {
	uint64_t size;
	uint32_t flags;
	uint32_t reserved;
};
#define ONE_REGION_SEALED 1u
#define ONE_REGION_MAPPABLE 2u /* RSM: importers may map a segment that is published of this region */

/* A joined region is several files, mapped one after the other. Each message brings further files, with a
 * descriptor each; the reply is the region's id. Memory can be registered when `total` files of `size` bytes
 * together have come. Large pages need aligned addresses: the data plane maps the region at `va` modulo
 * `page`. */
struct one_region_file {
	uint64_t offset; /* in the file; offset and length are multiples of the file's page size */
	uint64_t length;
};
struct one_region_join {
	uint32_t region;    /* 0: a new region of `size`, `va`, `page`, `total`; else these are ignored */
	uint32_t num_files; /* in this message: 1 to ONE_MSG_FDS */
	uint64_t size;
	uint64_t va;
	uint64_t page; /* largest page size of all files: a power of two, at most ONE_REGION_PAGE_MAX */
	uint32_t total;
	uint32_t reserved;
	struct one_region_file file[ONE_MSG_FDS];
};
#define ONE_REGION_PAGE_MAX (1ull << 30)

/*
 * A memory region (uDAPL LMR, RSM segment or local handle) over the address range [va, va+length) of the
 * application. The given pieces of regions make up the range, in order (page-aligned offsets; the first piece
 * begins at the page of va). num_pieces 0: the memory is not shared; the application's copy thread moves it
 * (copy.h), after ONE_MSG_COPIES.
 *
 * The pieces cover exactly the pages of the range. If there are several, their files have pages of the
 * smallest size; a joined region may have larger pages, and is one piece. All pages must be allocated in the
 * files: -EFAULT (ONE_SUBJECT_ADDRESS, `value`: address of the first missing page) asks the application to
 * populate them, so that the application is charged.
 */
#define ONE_MR_PIECES 32u
struct one_mr_piece {
	uint32_t region;
	uint32_t reserved;
	uint64_t offset;
	uint64_t length;
};
/* Pages were put into a sealed region after memory of it was registered: previously populated pages may be
 * gone. */
#define ONE_MR_FRESH 1u
/* The key may be revoked and renewed (struct one_keys), if one_mr_created.renewable agrees. */
#define ONE_MR_RENEWABLE 2u
struct one_mr_create {
	uint32_t pz;
	uint32_t access; /* ONE_ACCESS_* */
	uint64_t va;
	uint64_t length; /* >= 1 */
	uint64_t shift; /* keys name the byte at `va` by va + shift, modulo 2^64: a multiple of the page size,
			   or such that va + shift is 0 */
	uint32_t num_pieces;
	uint32_t flags; /* ONE_MR_* */
	struct one_mr_piece piece[ONE_MR_PIECES];
};
struct one_mr_created {
	uint32_t mr;
	uint32_t lkey;
	uint32_t rkey;
	uint32_t renewable;
}; /* rkey 0: no remote right */

struct one_mr_swap {
	uint32_t mr, other;
};

/* A window. The upper part of `key` is random; the application chooses the low 8 bits anew for every
 * ONE_OP_BIND. */
struct one_mw_create {
	uint32_t pz;
};
struct one_mw_created {
	uint32_t mw;
	uint32_t key;
};

/* CHANNEL_OPEN: the reply has an id for one_cq_bundle.descriptor, and a descriptor to read packets of four
 * bytes from: the id of each completion queue whose arm was answered. The descriptor reaches end-of-file when
 * the attachment ends. */

/* With ONE_SUBJECT_QUOTA: the setting that raises the limit, a key of [limits] in oneside.conf(5) or a
 * resource of the data plane's process (ONE_LIMIT_*); "": the limit is fixed. */
#define ONE_LIMIT_MEMORY "memory"
#define ONE_LIMIT_MAPPINGS "vm.max_map_count"
#define ONE_LIMIT_DESCRIPTORS "LimitNOFILE"
struct one_limit {
	char key[32];
};

struct one_srq_create {
	uint32_t pz, max_wr, max_sge;
};
struct one_srq_created {
	uint32_t srq, log2;
	uint64_t shm, rq;
	uint32_t lanes;
	uint32_t reserved;
}; /* offsets: struct one_srq_shm with `lanes` lanes, struct one_wqe[] */
/* Requests ONE_ASYNC_SRQ_LIMIT, once, as soon as fewer than `limit` receives are left; 0: never. */
struct one_srq_limit {
	uint32_t srq, limit;
};

/* SRQ_SWAP: two queues of a zone exchange their rings and keep their indices. Before, the application copies
 * the receives that wait in the ring of `srq` to the other ring, under the same indices. No queue pair uses
 * `other`. */
struct one_srq_swap {
	uint32_t srq, other;
};

/* Arena memory of up to 1 MiB, registered as an MR with local rights, for bounce copies. */
struct one_staging {
	uint64_t size;
	uint32_t pz;
	uint32_t reserved;
}; /* pz: of the queue pairs that use it */
struct one_staged {
	uint64_t offset;
	uint64_t size;
	uint32_t lkey;
	uint32_t reserved;
}; /* sge.addr = offset */

/* COPIES: announces that the application has a copy thread. Repeated requests get the same answer. */
struct one_copies_made {
	uint64_t offset;
}; /* of struct one_copies */

/* PORT: describes one port; -ENODEV: no such port. */
struct one_port_query {
	uint32_t port;
};
struct one_port_addr {
	uint16_t family;
	uint16_t prefix; /* length in bits */
	uint8_t addr[16];
};
struct one_port {
	uint32_t num_ports;
	uint32_t mbps; /* of the link; 0: unknown */
	uint64_t hwaddr;
	char name[ONE_PORT_NAME];
	uint32_t link_up;
	uint32_t num_addrs; /* at most ONE_PORT_ADDRS_MAX */
	struct one_port_addr addr[ONE_PORT_ADDRS_MAX];
};

/* SOURCE: finds the own address from which packets to `addr` leave; -ENETUNREACH: no route. */
struct one_source_query {
	uint16_t family;
	uint16_t reserved;
	uint8_t addr[16];
};
struct one_source {
	uint32_t source; /* as in one_qp_connect */
	uint32_t bits; /* length of the prefix that matched; ONE_SOURCE_OWN: `addr` is an address of the port
			*/
};
#define ONE_SOURCE_OWN 129u

/* ---- RSM ---- */
#define ONE_RSM_ACL_MAX 64u
struct one_rsm_access {
	uint32_t node;
	uint32_t permission;
};
struct one_rsm_publish { /* PUBLISH: mr, segment, list; REPUBLISH: segment, list; UNPUBLISH: segment */
	uint32_t mr;
	uint32_t segment;            /* 0 in PUBLISH: the data plane chooses */
	uint32_t default_permission; /* for an empty list: 0777 & ~umask of the creator */
	uint32_t num_access;
	struct one_rsm_access access[ONE_RSM_ACL_MAX];
	uint32_t signal_cq; /* counts importers' signals (ring.h); 0: none */
	uint32_t flags;     /* ONE_RSM_MAPPABLE */
	/* PUBLISH: the copy thread copies the segment under the addresses from here on (copy.h), also after
	 * the exporter has moved it; 0: it does not. For a data plane that takes over and cannot map the
	 * file. */
	uint64_t copy_at;
};
/* The segment's file holds only the segment, and the segment leaves the file at unpublish. */
#define ONE_RSM_MAPPABLE 1u
struct one_rsm_published {
	uint32_t segment;
	uint32_t given;
}; /* given: UNPUBLISH: an importer got the file */

/* RSM_CONNECT carries one end of a new pair of sockets (AF_UNIX), which proves the sender's groups; without
 * it no groups count. The reply is a queue pair (one_qp_created) in ONE_QP_CONNECTING. ONE_CQE_RSM on its
 * conn_cq brings the outcome (status = RSMERR_*, 0 with rsm_addr, rsm_size and rsm_key in one_qp_shm), and
 * later the loss (RSMERR_CONN_ABORTED). */
struct one_rsm_connect {
	uint32_t node;
	uint32_t segment;
	uint32_t permission; /* 0400, 0200, 0600 */
	uint32_t cq;         /* for completions and the outcome */
	uint32_t max_send_wr;
	uint32_t flags;     /* ONE_RSM_LOOPBACK: only the own node */
	uint32_t pz;        /* of the local keys used with this import */
	uint32_t signal_cq; /* counts the exporter's signals; 0: none */
};
#define ONE_RSM_LOOPBACK 1u

/* one_qp_shm.rsm_flags: exporter and importer differ in byte order. */
#define ONE_RSM_SWAP 1u
/* one_qp_shm.rsm_flags: the exporter, on the same data plane, has withdrawn the segment: a mapping is a stale
 * copy. */
#define ONE_RSM_GONE 2u

/* RSM_SIGNAL: signals all importers of an own segment. An importer signals the exporter by ONE_OP_SEND_IMM on
 * the import. */
struct one_rsm_signal {
	uint32_t segment;
	uint32_t flags;
}; /* ONE_RSM_ONCE */
#define ONE_RSM_ONCE 1u

/* RSM_MAP: the reply carries a descriptor of the segment's file, opened with at most the requested rights.
 * RSMERR_MAP_FAILED: not on this host, or not mappable. */
struct one_rsm_map {
	uint32_t qp;
	uint32_t permission;
};
struct one_rsm_mapped {
	uint64_t offset;
	uint64_t length;
}; /* of the segment in the file */

/* RSM_TOPOLOGY: describes a local port and the nodes that are reached through it, up to ONE_RSM_PEERS per
 * reply, from `first` on; -ENODEV: no such port. */
#define ONE_RSM_PEERS 3u
#define ONE_RSM_PATH_DOWN 1u
#define ONE_RSM_PATH_UP 2u /* configured; not known whether the peer answers */
#define ONE_RSM_PATH_ACTIVE 3u
struct one_rsm_topology {
	uint32_t port;
	uint32_t first;
};
struct one_rsm_peer {
	uint32_t node;
	uint32_t state; /* ONE_RSM_PATH_* */
	uint64_t hwaddr;
	char name[ONE_PORT_NAME]; /* the peer's controller */
};
struct one_rsm_port {
	uint32_t num_ports; /* local ports */
	uint32_t num_peers; /* of this port */
	char name[ONE_PORT_NAME];
	uint64_t hwaddr;
	struct one_rsm_peer peer[ONE_RSM_PEERS];
};

struct one_id {
	uint32_t id;
}; /* *_FREE, QP_RESET, UNLISTEN, REGION_REMOVE, ... */

struct one_msg {
	uint32_t type; /* enum one_msg_type */
	uint32_t seq;  /* echoed */
	union {
		struct one_hello hello;
		struct one_id id;
		struct one_cq_create cq_create;
		struct one_cq_resize cq_resize;
		struct one_qp_create qp_create;
		struct one_qp_modify qp_modify;
		struct one_qp_connect qp_connect;
		struct one_qp_disconnect qp_disconnect;
		struct one_listen listen;
		struct one_cr_accept cr_accept;
		struct one_cr_reject cr_reject;
		struct one_cr_handoff cr_handoff;
		struct one_region_add region_add;
		struct one_region_join region_join;
		struct one_mr_create mr_create;
		struct one_mr_swap mr_swap;
		struct one_mw_create mw_create;
		struct one_srq_create srq_create;
		struct one_staging staging;
		struct one_rsm_publish rsm_publish;
		struct one_rsm_connect rsm_connect;
		struct one_rsm_topology rsm_topology;
		struct one_rsm_signal rsm_signal;
		struct one_rsm_map rsm_map;
		struct one_srq_limit srq_limit;
		struct one_srq_swap srq_swap;
		struct one_qp_rtr qp_rtr;
		struct one_qp_rts qp_rts;
		struct one_qp_set qp_set;
		struct one_ah_create ah_create;
		struct one_qp_datagram qp_datagram;
		struct one_sidr_ask sidr_ask;
		struct one_sidr_answer sidr_answer;
		struct one_port_query port_query;
		struct one_source_query source_query;
		uint8_t bytes[1016];
	};
};
_Static_assert(sizeof(struct one_msg) == 1024, "one_msg");

struct one_reply {
	uint32_t type;
	uint32_t seq;
	int32_t error;    /* 0 or -errno; RSM_*: -errno, or a positive RSMERR_* */
	uint32_t subject; /* enum one_subject, if error is not 0 */
	uint64_t value;   /* offending or limiting value, if error is not 0 */
	union {
		struct one_welcome welcome;
		struct one_id id;
		struct one_cq_created cq;
		struct one_qp_created qp;
		struct one_listening listening;
		struct one_mr_created mr;
		struct one_mw_created mw;
		struct one_srq_created srq;
		struct one_staged staged;
		struct one_copies_made copies;
		struct one_port port;
		struct one_source source;
		struct one_rsm_published rsm;
		struct one_rsm_port rsm_port;
		struct one_rsm_mapped rsm_mapped;
		struct one_limit limit;
		uint8_t bytes[232];
	};
};
_Static_assert(sizeof(struct one_reply) == 256, "one_reply");

#endif
