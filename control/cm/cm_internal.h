/* SPDX-License-Identifier: BSD-3-Clause */
/* Interface between cm.c (requests of the user, timers) and cm_input.c (received MADs). */
#ifndef CONTROL_CM_INTERNAL_H
#define CONTROL_CM_INTERNAL_H

#include <stddef.h>
#include <sys/queue.h>

#include "cm.h"
#include "cm_mad.h"
#include "cm_table.h"
#include "service.h"

#define CM_RETRIES_MAX 15u       /* largest value of the REQ's field */
#define CM_EXTENSIONS_ACTIVE 15u /* MRAs honoured for our own request, which may wait for long */
#define CM_EXTENSIONS_PASSIVE 3u /* MRAs honoured for a peer's request, which must not stay half-open */
#define CM_SERVICE_TIMEOUT 24u   /* code in our MRAs, and limit of the code in a peer's */
#define CM_TIMEWAIT_CODE_MIN 17u /* 0.54 s: twice the packet lifetime that implementations assume */
#define CM_TIMEWAIT_CODE_MAX 20u /* 4.3 s: limit of a peer's ACK timeout */
#define CM_RESPONSE_CODE_MAX 21u /* 8.6 s: limit of a peer's response timeout */

/*
 *  active                               passive
 *    REQ_SENT <-> MRA_REQ_RCVD            REQ_RCVD
 *        | REP                                | cm_accept: REP out
 *    REP_RCVD                             REP_SENT <-> MRA_REP_RCVD
 *        | cm_confirm: RTU out                | RTU, or first packet on the QP
 *        +-------------> ESTABLISHED <--------+
 *                            | cm_disconnect: DREQ out
 *                        DREQ_SENT
 *                            | DREP, DREQ, or given up
 *                        TIMEWAIT  --> freed
 *
 * A DREQ leads directly to TIMEWAIT from any state with both ids known.  So does a
 * refusal by the user.  TIMEWAIT may have length 0: only the timer frees a connection
 * and raises the events that a user's call causes.  cm_state.c has the table of all
 * transitions.
 */
enum cm_state {
	CM_STATE_REQ_SENT,
	CM_STATE_MRA_REQ_RCVD,
	CM_STATE_REP_RCVD,
	CM_STATE_REQ_RCVD,
	CM_STATE_REP_SENT,
	CM_STATE_MRA_REP_RCVD,
	CM_STATE_ESTABLISHED,
	CM_STATE_DREQ_SENT,
	CM_STATE_TIMEWAIT
};

struct cm_conn {
	struct cm *cm;
	LIST_ENTRY(cm_conn) all;
	struct cm_node by_local;  /* local_id */
	struct cm_node by_remote; /* remote_id, guid, address: from REQ or REP on */
	struct cm_node by_qpn;    /* remote_qpn, guid, address: until TIMEWAIT */
	struct cm_timer timer;
	void *user;
	enum cm_state state;
	bool announced; /* both ends are oneside and announced that */
	bool half_open; /* counted in cm->half_open */
	bool active;
	bool refused;     /* `mad` is the REJ sent to the peer: repeated if the peer retransmits */
	bool owed;        /* the timer has to raise CM_DISCONNECTED */
	uint32_t refusal; /* reported in our DREQ */
	uint32_t local_id, remote_id;
	uint32_t local_qpn, remote_qpn;
	uint64_t remote_guid;
	uint64_t tid; /* transaction id of the REQ, repeated in REP, RTU, MRA and REJ */
	struct cm_path path;
	uint16_t path_mtu;
	uint32_t retries, extensions; /* retransmissions done, MRAs honoured */
	uint64_t connect_deadline;
	uint64_t interval_max;   /* limit of the interval between REPs to a peer other than oneside */
	uint64_t timewait;       /* ns */
	uint8_t mad[CM_MAD_LEN]; /* retransmitted by the timer */
};

struct cm_listener {
	struct cm_node node;
	LIST_ENTRY(cm_listener) all;
	uint64_t service_id;
	struct cm_scope scope;
	void *user;
};

struct cm {
	struct cm_env *env;
	uint64_t secret[2];
	struct cm_table by_local, by_remote, by_qpn, listeners;
	struct cm_heap timers;
	LIST_HEAD(, cm_conn) conns;
	LIST_HEAD(, cm_listener) all_listeners;
	uint32_t count;     /* conns */
	uint32_t half_open; /* conns passive and not established, or refused and keeping their REJ */
};

static inline uint64_t
cm_code_ns(uint8_t code, uint8_t max)
{
	return 4096ull << (code < max ? code : max);
}

/* IBTA vol. 1, 12.9.7 and 12.10: TIMEWAIT lasts as long as packets of the connection, or copies of its MADs,
 * may be in flight, which the queue pair's ACK timeout gives.  Until then a REQ with the same id is stale.
 * The peer's ACK timeout can lengthen the minimum but not shorten it: a copy of a REQ must not be taken for a
 * new request. */
static inline uint64_t
cm_timewait_ns(uint8_t ack_timeout)
{
	if (ack_timeout < CM_TIMEWAIT_CODE_MIN)
		ack_timeout = CM_TIMEWAIT_CODE_MIN;
	return cm_code_ns(ack_timeout, CM_TIMEWAIT_CODE_MAX);
}

/* Only writer of a connection's state after cm_conn_new().  `why` is for the trace. */
void cm_conn_state_set(struct cm_conn *conn, enum cm_state to, const char *why);
/* `state`: REQ_SENT or REQ_RCVD.  Returns NULL without memory. */
struct cm_conn *cm_conn_new(struct cm *cm, const struct cm_path *path, enum cm_state state);
/* Stores the peer's ids and enters the conn into by_remote and by_qpn. */
void cm_conn_set_remote(struct cm_conn *conn, uint32_t remote_id, uint32_t remote_qpn, uint64_t guid);
/* Enters a connection, whose local id is set, into by_local.  False: the id is taken, or no memory. */
bool cm_conn_enter(struct cm *cm, struct cm_conn *conn);
struct cm_conn *cm_find_local(const struct cm *cm, uint32_t local_id, const struct cm_path *path);
struct cm_conn *cm_find_remote(const struct cm *cm, uint32_t remote_id, uint64_t guid,
			       const struct cm_path *path);
struct cm_conn *cm_find_qpn(const struct cm *cm, uint32_t remote_qpn, uint64_t guid,
			    const struct cm_path *path);

void cm_emit(struct cm_conn *conn, enum cm_event_type type);
void cm_send(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad);
void cm_conn_send(struct cm_conn *conn, struct cm_mad *mad, bool keep);
void cm_conn_send_again(struct cm_conn *conn);
/* Sends a REJ for an existing connection.  With reason 4 (timeout) the REJ carries our GUID. */
void cm_conn_send_rej(struct cm_conn *conn, enum cm_answered answers, uint16_t reason, const void *data,
		      uint16_t len);
void cm_conn_send_rtu(struct cm_conn *conn);
void cm_conn_timer(struct cm_conn *conn, uint64_t deadline);
void cm_conn_established(struct cm_conn *conn, const char *why);
void cm_conn_timewait(struct cm_conn *conn, const char *why, uint64_t length, uint64_t now);

#endif
