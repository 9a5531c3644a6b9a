/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * InfiniBand connection management (REQ, REP, RTU, REJ, MRA, DREQ, DREP) with
 * rdma_cm's private-data header, sans I/O.  Input: MADs and the time.  Output: MADs
 * and events.  No DPDK, no clock, no socket.  One thread.
 *
 * Both ends of a connection may be in the same struct cm (loopback): the
 * caller passes the MADs of env->send to cm_input, after env->send has returned.
 */
#ifndef CONTROL_CM_H
#define CONTROL_CM_H

#include <stdbool.h>
#include <stdint.h>

#include "dataplane/wire/wire.h"

#define CM_MAD_LEN 256u
#define CM_NEVER UINT64_MAX
#define CM_PRIVATE_REQ 92u /* 56 with rdma_cm's IP header */
#define CM_PRIVATE_REP 196u
#define CM_PRIVATE_REJ 148u

/* Limits of an application's private data: in a REQ, next to our announcement; in a REP or REJ with an
 * announcement.
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

/* Leads the peer's frames to the core that owns the queue pair: doc/steering.md.  All zero: not announced. */
struct cm_steering {
	uint8_t core;      /* number of the core + 1 */
	uint16_t udp_port; /* source port that the peer shall use */
};

/* Parameters of one end, as sent in a REQ or REP. */
struct cm_local {
	struct cm_steering steering; /* for oneside peers */
	uint32_t qpn;
	uint32_t psn;          /* first PSN that the peer sends */
	uint8_t rd_atomic_in;  /* responder resources */
	uint8_t rd_atomic_out; /* initiator depth */
	uint8_t rnr_retry;     /* requested from the peer */
	uint8_t retry_count;   /* REQ */
	uint8_t ack_timeout;   /* REQ: local ACK timeout code; REP: target ACK delay */
	bool srq;
	uint16_t path_mtu; /* REQ: 256..4096 */
	uint16_t link_mtu; /* for oneside peers: payload that the link carries, a multiple of 64; 0: not
			      announced */
};

struct cm_path {
	uint16_t port;
	struct wire_addr src, dst;
	uint32_t flow_label;
	uint8_t traffic_class;
	uint8_t hop_limit;
};

/* A message belongs to a connection only between the same two addresses, whatever ids the message has. */
static inline bool
cm_path_same_ends(const struct cm_path *a, const struct cm_path *b)
{
	return wire_addr_equal(&a->src, &b->src) && wire_addr_equal(&a->dst, &b->dst);
}

/* Parameters from the peer's REQ (CM_REQUEST) or REP (CM_REPLY). */
struct cm_remote {
	uint32_t qpn, psn;
	uint8_t rd_atomic_in, rd_atomic_out, rnr_retry, retry_count, ack_timeout;
	uint16_t path_mtu;
	uint16_t link_mtu;   /* as the peer announced it */
	struct cm_path path; /* src is ours */
	uint64_t guid;
	uint64_t service_id;
	uint16_t ip_port; /* rdma_cm: the active side's port */
	bool rdma_cm;     /* REQ had the IP header */
	bool oneside;     /* the peer announced oneside; if not, capabilities and steering are 0 */
	uint32_t capabilities;
	struct cm_steering steering;
	uint16_t private_len; /* exact between oneside peers, else the size of the field */
	uint8_t private_data[CM_PRIVATE_REP];
};

enum cm_event_type {
	CM_REQUEST = 1,   /* passive: answer with cm_accept or cm_reject, now or later */
	CM_REPLY,         /* active: REP received; bring the QP to RTS, then call cm_confirm() (sends RTU) or
			     cm_reject() */
	CM_ESTABLISHED,   /* passive: RTU received, or cm_communication_established() was called */
	CM_REJECTED,      /* active: `reason`; passive after accept: the peer gave up */
	CM_UNREACHABLE,   /* active: no answer to the REQ */
	CM_TIMED_OUT,     /* active: the caller's timeout passed first */
	CM_ACCEPT_FAILED, /* passive: no RTU in time, or the requester withdrew before cm_accept */
	CM_DISCONNECTED,  /* the peer disconnected, or cm_disconnect() is done: answered, or timed out */
	CM_GONE /* TIMEWAIT is over: the conn is freed after the callback, and its QPN may be reused */
};

struct cm_event {
	enum cm_event_type type;
	struct cm_conn *conn;
	struct cm_listener *listener;   /* CM_REQUEST */
	const struct cm_remote *remote; /* CM_REQUEST, CM_REPLY */
	uint16_t reason;                /* CM_REJECTED: enum cm_reject */
	const uint8_t *reject_data;     /* CM_REJECTED: CM_PRIVATE_REJ bytes */
	uint32_t refusal; /* CM_DISCONNECTED: the refusal of a request of ours, as the peer reports
			     (rc_refusal()); 0: unknown */
	bool answered;    /* CM_DISCONNECTED: the peer has answered our first DREQ */
};

#define CM_MTU_UNIT 64u /* bytes: link_mtu is a multiple of CM_MTU_UNIT */

/* Only cm_input, cm_timeout and cm_communication_established raise events.  An event
 * callback may call every function below.  CM_GONE is the last event of each conn:
 * after TIMEWAIT, or at once if none of its packets can be on the wire. */
struct cm_env {
	void (*send)(struct cm_env *env, const struct cm_path *path, const uint8_t mad[CM_MAD_LEN]);
	void (*event)(struct cm_env *env, const struct cm_event *event);
	/* Retransmissions on this path got no answer: the next hop's MAC may be outdated.  May be NULL. */
	void (*silent)(struct cm_env *env, const struct cm_path *path);
	uint64_t (*random)(struct cm_env *env);
	uint64_t guid;             /* identifies this data plane: stable, nonzero */
	uint32_t capabilities;     /* WIRE_CAPABILITY_*, announced to oneside peers */
	uint32_t response_timeout; /* code, 4.096 us x 2^n: time for a peer's answer */
	uint32_t max_retries;      /* of our REQ, REP, DREQ */
	uint64_t retry_interval;   /* ns between retransmissions towards oneside or unknown peers */
	uint32_t max_half_open;    /* limit of requests not yet established: further ones are ignored */
};

struct cm *cm_new(struct cm_env *env);
void cm_free(struct cm *cm);

/* Service IDs as on the wire.  CM_SERVICE_TCP(p) is rdma_cm's ID for TCP port p. */
#define CM_SERVICE_TCP(port) (0x0000000001060000ull | (uint16_t)(port))
#define CM_SERVICE_RSM(segment) (0x6f6e000000000000ull | (uint32_t)(segment)) /* our RSM segments */
/* Local addresses at which a listener accepts requests.  All zero: every address. */
struct cm_scope {
	bool only_v4, only_v6;
	bool only_addr;
	bool shared;           /* may overlap with other shared scopes */
	struct wire_addr addr; /* with only_addr */
};
bool cm_scope_has(const struct cm_scope *scope, const struct wire_addr *addr);
/* Returns a listener at that service and an address of `scope` (NULL: any address), or NULL. */
struct cm_listener *cm_find_listener(const struct cm *cm, uint64_t service_id, const struct cm_scope *scope);
/* Returns the listener for requests to the address `local`, or NULL. */
struct cm_listener *cm_listener_at(const struct cm *cm, uint64_t service_id, const struct wire_addr *local);
/* `scope` NULL: every address.  Returns NULL without memory, or if an address is in use at that service. */
struct cm_listener *cm_listen(struct cm *cm, uint64_t service_id, const struct cm_scope *scope, void *user);
/* Makes a shared scope exclusive.  Returns 0, or -EADDRINUSE while another listener has one of the addresses.
 */
int cm_listen_alone(struct cm *cm, struct cm_listener *listener);
void cm_unlisten(struct cm *cm, struct cm_listener *listener);
void *cm_listener_user(const struct cm_listener *listener);

struct cm_connect {
	uint64_t service_id;
	struct cm_local local;
	struct cm_path path;
	bool rdma_cm;     /* private data begins with rdma_cm's IP header */
	uint16_t ip_port; /* our port in that header */
	uint64_t timeout; /* ns; CM_NEVER: until retries are used up */
	uint16_t private_len;
	uint8_t private_data[CM_PRIVATE_REQ];
};
struct cm_conn *cm_connect(struct cm *cm, const struct cm_connect *params, void *user, uint64_t now);
/* Sets the traffic class and flow label of further MADs to those of `path`. */
void cm_conn_mark(struct cm_conn *conn, const struct cm_path *path);
/* Call before cm_accept: treats the peer as one that has not announced oneside. */
void cm_conn_plain(struct cm_conn *conn);
int cm_accept(struct cm_conn *conn, const struct cm_local *local, const void *private_data, uint16_t len,
	      uint64_t now);
int cm_reject(struct cm_conn *conn, enum cm_reject reason, const void *private_data, uint16_t len,
	      uint64_t now);
int cm_confirm(struct cm_conn *conn, uint64_t now);
void cm_communication_established(struct cm_conn *conn, uint64_t now);
/* Call before cm_disconnect: the DREQ reports to a oneside peer which request was refused (rc_refusal()). */
void cm_conn_refused(struct cm_conn *conn, uint32_t refusal);
/* Sends a DREQ, or the message that ends the conn in its state.  CM_DISCONNECTED and then CM_GONE follow. */
void cm_disconnect(struct cm_conn *conn, uint64_t now);

/* ---- cm_pass.c: take-over ---- */
struct record;
struct record_out;
/* Writes the record of a connection. */
void cm_conn_write(const struct cm_conn *conn, struct record_out *out, uint64_t now);
/* Writes those of all connections without a user. */
void cm_rest_write(const struct cm *cm, struct record_out *out, uint64_t now);
/* Makes a connection of a record.  NULL: the record is not valid, its id is taken, or no memory. */
struct cm_conn *cm_conn_read(struct cm *cm, const struct record *record, void *user, uint64_t now);

/* ---- cm.c, cm_input.c ---- */
void *cm_user(const struct cm_conn *conn);
void cm_set_user(struct cm_conn *conn, void *user);

/* Processes a MAD that was received in a frame to QP1.  In `reply_path` src is ours
 * (the frame's destination) and dst the peer's (the frame's source). */
void cm_input(struct cm *cm, const struct cm_path *reply_path, const uint8_t *mad, uint32_t len,
	      uint64_t now);
uint64_t cm_deadline(const struct cm *cm);
void cm_timeout(struct cm *cm, uint64_t now); /* at most CM_TIMEOUTS timers */

#endif
