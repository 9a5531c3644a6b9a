/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * InfiniBand connection management (REQ, REP, RTU, REJ, MRA, DREQ, DREP) with
 * rdma_cm's private-data header, sans I/O: MADs and the time come in, MADs and
 * events go out.  No DPDK, no clock, no socket.  One thread.
 *
 * Both ends of a connection may be in the same struct cm (loopback): the
 * caller feeds what env->send gives it back into cm_input, later, not from
 * within the call.
 */
#ifndef CONTROL_CM_H
#define CONTROL_CM_H

#include <stdbool.h>
#include <stdint.h>

#include "dataplane/wire/wire.h"

#define CM_MAD_LEN 256u
#define CM_NEVER UINT64_MAX
#define CM_PRIVATE_REQ 92u /* without the IP header of rdma_cm; 56 with it */
#define CM_PRIVATE_REP 196u
#define CM_PRIVATE_REJ 148u

/* Private data of an application: with a REQ, beside what we announce; and with which answers we still can.
 */
#define CM_USER_PRIVATE_MAX 64u
#define CM_ANNOUNCED_REP 180u
#define CM_ANNOUNCED_REJ 132u

enum cm_reject {
	CM_REJ_NO_QP = 1,
	CM_REJ_NO_RESOURCES = 3,
	CM_REJ_TIMEOUT = 4,
	CM_REJ_UNSUPPORTED = 5,
	CM_REJ_INVALID_COMM_ID = 6,
	CM_REJ_INVALID_SERVICE_ID = 8,
	CM_REJ_INVALID_TRANSPORT = 9,
	CM_REJ_STALE = 10,
	CM_REJ_INVALID_GID = 12,
	CM_REJ_INVALID_MTU = 26,
	CM_REJ_INSUFFICIENT_RD_ATOMIC = 27,
	CM_REJ_CONSUMER = 28
};

struct cm;
struct cm_conn;
struct cm_listener;

/* How the peer's frames find the core that owns a queue pair: doc/steering.md.  All zero: nothing is said. */
struct cm_steering {
	uint8_t core;      /* its number + 1 */
	uint16_t udp_port; /* from which the peer is to send */
};

/* One end's half of a connection, as it goes into REQ or REP. */
struct cm_local {
	struct cm_steering steering; /* for oneside peers */
	uint32_t qpn;
	uint32_t psn;          /* the PSN the peer must send first */
	uint8_t rd_atomic_in;  /* responder resources */
	uint8_t rd_atomic_out; /* initiator depth */
	uint8_t rnr_retry;     /* asked of the peer */
	uint8_t retry_count;   /* REQ */
	uint8_t ack_timeout;   /* REQ: local ACK timeout code; REP: target ACK delay */
	bool srq;
	uint16_t path_mtu; /* REQ: 256..4096 */
	uint16_t link_mtu; /* to oneside ends: what the link carries, a multiple of 64; 0: that is not said */
};

struct cm_path {
	uint16_t port;
	struct wire_addr src, dst;
	uint32_t flow_label;
	uint8_t traffic_class;
	uint8_t hop_limit;
};

/* What comes from elsewhere than these two addresses is of something else, whatever ids it names. */
static inline bool
cm_path_same_ends(const struct cm_path *a, const struct cm_path *b)
{
	return wire_addr_equal(&a->src, &b->src) && wire_addr_equal(&a->dst, &b->dst);
}

/* What the other end said: with CM_REQUEST and CM_ESTABLISHED_ACTIVE. */
struct cm_remote {
	uint32_t qpn, psn;
	uint8_t rd_atomic_in, rd_atomic_out, rnr_retry, retry_count, ack_timeout;
	uint16_t path_mtu;
	uint16_t link_mtu;   /* as the peer announced it */
	struct cm_path path; /* REQ: the passive side's view: src is ours */
	uint64_t guid;
	uint64_t service_id;
	uint16_t ip_port; /* rdma_cm: the active side's port */
	bool rdma_cm;     /* REQ had the IP header */
	bool oneside;     /* the peer announced oneside, with */
	uint32_t capabilities;
	struct cm_steering steering;
	uint16_t private_len; /* exact between oneside ends, else the full area */
	uint8_t private_data[CM_PRIVATE_REP];
};

enum cm_event_type {
	CM_REQUEST = 1, /* passive: answer with cm_accept or cm_reject, now or later */
	CM_REPLY, /* active: REP came; put the QP to RTS, then cm_confirm() (sends RTU) or cm_reject() */
	CM_ESTABLISHED,   /* passive: RTU came, or cm_communication_established() was called */
	CM_REJECTED,      /* active: `reason`; passive after accept: the peer gave up */
	CM_UNREACHABLE,   /* active: no answer to REQ, or the path could not be resolved */
	CM_TIMED_OUT,     /* active: the caller's timeout passed first */
	CM_ACCEPT_FAILED, /* passive: no RTU in time, or the requester withdrew before cm_accept */
	CM_DISCONNECTED,  /* the peer disconnected, or our cm_disconnect was answered or given up */
	CM_GONE           /* TIMEWAIT over: the conn is freed after this call, its QPN may be reused */
};

struct cm_event {
	enum cm_event_type type;
	struct cm_conn *conn;
	struct cm_listener *listener;   /* CM_REQUEST */
	const struct cm_remote *remote; /* CM_REQUEST, CM_REPLY */
	uint16_t reason;                /* CM_REJECTED: enum cm_reject */
	const uint8_t *reject_data;     /* CM_REJECTED: CM_PRIVATE_REJ bytes */
	uint32_t refusal; /* CM_DISCONNECTED: how the peer refused a request of ours; 0: not known */
};

/* What oneside ends announce to each other; what both have holds. */
#define CM_CAPABILITY_SELECTIVE_REPEAT 0x1u /* sequence NAKs with a bitmap: doc/selective-repeat.md */
#define CM_CAPABILITY_YIELDS 0x2u           /* its cores share processors, and may answer late: likewise */
#define CM_CAPABILITY_STEERED 0x4u          /* sends from the UDP port that the peer names: doc/steering.md */
#define CM_MTU_UNIT 64u                     /* bytes: link_mtu is a multiple of it */
#define CM_CAPABILITY_PACKED 0x8u           /* frames with several requests: doc/packed.md */

/*
 * Events come from within cm_input, cm_timeout and cm_communication_established
 * only; every function below may be called from within one.  A conn lives until
 * CM_GONE, which is the last event of each, however it
 * ended: at once where nothing of it can still be on the wire, else after TIMEWAIT.
 */
struct cm_env {
	void (*send)(struct cm_env *env, const struct cm_path *path, const uint8_t mad[CM_MAD_LEN]);
	void (*event)(struct cm_env *env, const struct cm_event *event);
	/* Retransmissions on this path were not answered: it may lead astray.  May be NULL. */
	void (*silent)(struct cm_env *env, const struct cm_path *path);
	uint64_t (*random)(struct cm_env *env);
	uint64_t guid;             /* of this data plane: stable, nonzero */
	uint32_t capabilities;     /* CM_CAPABILITY_*, announced to oneside peers */
	uint32_t response_timeout; /* code, 4.096 us x 2^n: how long a peer may take; 20 */
	uint32_t max_retries;      /* of our REQ, REP, DREQ */
	uint64_t retry_interval;   /* ns between retransmissions towards oneside or unknown peers */
	uint32_t max_half_open;    /* requests not yet established: more are not answered */
};

struct cm *cm_new(struct cm_env *env);
void cm_free(struct cm *cm);

/* service_id as on the wire; rdma_cm's for TCP port p is CM_SERVICE_TCP(p). */
#define CM_SERVICE_TCP(port) (0x0000000001060000ull | (uint16_t)(port))
#define CM_SERVICE_RSM(segment) (0x6f6e000000000000ull | (uint32_t)(segment)) /* ours: RSM segments */
/* Addresses of ours at which a listener takes requests.  All zero: every address. */
struct cm_scope {
	bool only_v4, only_v6;
	bool only_addr;
	bool shared;           /* goes together with other shared scopes at the same addresses */
	struct wire_addr addr; /* with only_addr */
};
bool cm_scope_has(const struct cm_scope *scope, const struct wire_addr *addr);
/* A listener at that service and an address of `scope`, or at any for NULL; NULL: there is none. */
struct cm_listener *cm_find_listener(const struct cm *cm, uint64_t service_id, const struct cm_scope *scope);
/* The one that takes a request to the address `local`. */
struct cm_listener *cm_listener_at(const struct cm *cm, uint64_t service_id, const struct wire_addr *local);
/* NULL: one of these addresses is in use at that service, or no memory.  `scope` NULL: every address. */
struct cm_listener *cm_listen(struct cm *cm, uint64_t service_id, const struct cm_scope *scope, void *user);
/* A shared scope becomes an ordinary one: 0, or -EADDRINUSE while another listener has one of its addresses.
 */
int cm_listen_alone(struct cm *cm, struct cm_listener *listener);
void cm_unlisten(struct cm *cm, struct cm_listener *listener);
void *cm_listener_user(const struct cm_listener *listener);

struct cm_connect {
	uint64_t service_id;
	struct cm_local local;
	struct cm_path path;
	bool rdma_cm;     /* put the IP header first */
	uint16_t ip_port; /* our ephemeral port in it */
	uint64_t timeout; /* ns; CM_NEVER: until retries are used up */
	uint16_t private_len;
	uint8_t private_data[CM_PRIVATE_REQ];
};
struct cm_conn *cm_connect(struct cm *cm, const struct cm_connect *params, void *user, uint64_t now);
/* From now on its MADs have traffic class and flow label of `path`. */
void cm_conn_mark(struct cm_conn *conn, const struct cm_path *path);
/* Before cm_accept: as with a peer that has not announced oneside. */
void cm_conn_plain(struct cm_conn *conn);
int cm_accept(struct cm_conn *conn, const struct cm_local *local, const void *private_data, uint16_t len,
	      uint64_t now);
int cm_reject(struct cm_conn *conn, enum cm_reject reason, const void *private_data, uint16_t len,
	      uint64_t now);
int cm_confirm(struct cm_conn *conn, uint64_t now);
void cm_communication_established(struct cm_conn *conn, uint64_t now);
/* Before cm_disconnect: the DREQ tells a oneside peer which of its requests was refused (rc_refusal()). */
void cm_conn_refused(struct cm_conn *conn, uint32_t refusal);
/* DREQ, or whatever ends this conn in its state; CM_DISCONNECTED then CM_GONE follow. */
void cm_disconnect(struct cm_conn *conn, uint64_t now);

void *cm_user(const struct cm_conn *conn);
void cm_set_user(struct cm_conn *conn, void *user);

/*
 * A MAD that came in a frame to QP1.  reply_path is the way back: src is ours (the
 * frame's destination), dst the peer's (the frame's source).
 */
void cm_input(struct cm *cm, const struct cm_path *reply_path, const uint8_t *mad, uint32_t len,
	      uint64_t now);
uint64_t cm_deadline(const struct cm *cm);
void cm_timeout(struct cm *cm, uint64_t now); /* CM_TIMEOUTS at most */

#endif
