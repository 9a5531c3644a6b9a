/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the two halves of the state machine: what its user asks (cm.c), what comes in (cm_input.c). */
#ifndef CONTROL_CM_INTERNAL_H
#define CONTROL_CM_INTERNAL_H

#include <stddef.h>
#include <sys/queue.h>

#include "cm.h"
#include "cm_mad.h"
#include "cm_table.h"
#include "service.h"

#define CM_RETRIES_MAX 15u       /* what the field holds */
#define CM_EXTENSIONS_ACTIVE 15u /* MRAs honoured: our own request may wait for long, */
#define CM_EXTENSIONS_PASSIVE 3u /* a stranger's must not hold its place for ever */
#define CM_SERVICE_TIMEOUT 24u   /* code asked for by our MRA, and the longest granted to others */
#define CM_TIMEWAIT_CODE_MIN 17u /* twice a packet's lifetime, as all assume it: 0.54 s; */
#define CM_TIMEWAIT_CODE_MAX 20u /* a peer's ACK timeout does not hold us longer: 4.3 s */
#define CM_RESPONSE_CODE_MAX 21u /* nor does its response timeout: 8.6 s */

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
 * A DREQ leads from any state with both ids known to TIMEWAIT directly.  The
 * user's refusals lead to TIMEWAIT too, whose length may be 0: nothing is freed,
 * and no event is due, but by the timer.  The table of all edges is in cm_state.c.
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
	bool announced; /* the peer is a oneside end, and so were we */
	bool half_open; /* counted in cm->half_open */
	bool active;
	bool refused;     /* `mad` is the REJ that answered the peer: repeat it when he asks again */
	bool owed;        /* CM_DISCONNECTED is still to be raised */
	uint32_t refusal; /* our DREQ reports it */
	uint32_t local_id, remote_id;
	uint32_t local_qpn, remote_qpn;
	uint64_t remote_guid;
	uint64_t tid; /* of the REQ; REP, RTU, MRA and REJ repeat it */
	struct cm_path path;
	uint16_t path_mtu;
	uint32_t retries, extensions; /* retransmissions done, MRAs honoured */
	uint64_t connect_deadline;
	uint64_t interval_max;   /* between REPs to a peer that is no oneside end */
	uint64_t timewait;       /* ns */
	uint8_t mad[CM_MAD_LEN]; /* what the timer sends again */
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
	uint32_t half_open; /* of these, passive and not established */
};

static inline uint64_t
cm_code_ns(uint8_t code, uint8_t max)
{
	return 4096ull << (code < max ? code : max);
}

/*
 * Volume 1 of IBTA, 12.9.7 and 12.10: TIMEWAIT is as long as packets of the connection, and copies of its
 * MADs, may still be on their way, which is what the queue pair's ACK timeout says.  A REQ with the same id
 * is stale until then.  What the peer says it is can make it longer, not shorter: a copy of a REQ must not
 * become a request of its own.
 */
static inline uint64_t
cm_timewait_ns(uint8_t ack_timeout)
{
	if (ack_timeout < CM_TIMEWAIT_CODE_MIN)
		ack_timeout = CM_TIMEWAIT_CODE_MIN;
	return cm_code_ns(ack_timeout, CM_TIMEWAIT_CODE_MAX);
}

/* The only writer of a connection's state after cm_conn_new(); `why`: for the trace. */
void cm_conn_state_set(struct cm_conn *conn, enum cm_state to, const char *why);
/* In its first state: REQ_SENT or REQ_RCVD.  NULL: no memory. */
struct cm_conn *cm_conn_new(struct cm *cm, const struct cm_path *path, enum cm_state state);
/* Make it findable by what the peer calls itself. */
void cm_conn_set_remote(struct cm_conn *conn, uint32_t remote_id, uint32_t remote_qpn, uint64_t guid);
struct cm_conn *cm_find_local(const struct cm *cm, uint32_t local_id, const struct cm_path *path);
struct cm_conn *cm_find_remote(const struct cm *cm, uint32_t remote_id, uint64_t guid,
			       const struct cm_path *path);
struct cm_conn *cm_find_qpn(const struct cm *cm, uint32_t remote_qpn, uint64_t guid,
			    const struct cm_path *path);

void cm_emit(struct cm_conn *conn, enum cm_event_type type);
void cm_send(struct cm *cm, const struct cm_path *path, const struct cm_mad *mad);
void cm_conn_send(struct cm_conn *conn, struct cm_mad *mad, bool keep);
void cm_conn_send_kept(struct cm_conn *conn);
/* REJ of a connection that exists; reason 4 names us by our GUID. */
void cm_conn_send_rej(struct cm_conn *conn, enum cm_answered answers, uint16_t reason, const void *data,
		      uint16_t len);
void cm_conn_send_rtu(struct cm_conn *conn);
void cm_conn_timer(struct cm_conn *conn, uint64_t deadline);
void cm_conn_established(struct cm_conn *conn, const char *why);
void cm_conn_timewait(struct cm_conn *conn, const char *why, uint64_t length, uint64_t now);

#endif
