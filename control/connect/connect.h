/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections: attempts, listeners, connection requests.
 */
#ifndef CONTROL_CONNECT_CONNECT_H
#define CONTROL_CONNECT_CONNECT_H

#include "control/attach/client.h"
#include "control/cm/cm.h"
#include "control/connect/balance.h"
#include "control/objects/qp.h"
#include "control/path/path.h"

struct host;

struct listener {
	struct object object;
	struct cm_listener *cm; /* NULL: closed */
	uint64_t service;
	struct cm_scope scope;
	struct cq *cq;
	bool once;
	bool later; /* holds its service without accepting requests */
};

struct cr {
	struct object object;
	struct conn *conn;
	uint64_t shm; /* offset of struct one_cr_shm */
};

enum conn_state {
	CONN_WAITING,   /* until the QPN's time-wait is over, or the next attempt is due */
	CONN_RESOLVING, /* resolving the next hop's MAC */
	CONN_REQUESTED, /* active: REQ sent */
	CONN_STARTING,  /* active: REP received; RTU follows when the core is ready */
	CONN_OFFERED,   /* passive: the application has not answered yet */
	CONN_PREPARING, /* passive: REP follows when the core is ready */
	CONN_REPLIED,   /* passive: REP sent */
	CONN_UP,
	CONN_OVER /* the queue pair has had its last event; the CM's TIMEWAIT may still run */
};

/* Parameters that the two ends exchange, until connected. */
struct conn_setup {
	struct cm_remote remote;
	struct one_conn_param asked; /* requested by our application */
	uint16_t private_len;        /* ours */
	uint8_t private_data[CM_PRIVATE_REP];
	uint8_t claims[CM_PRIVATE_REQ]; /* RSM import: the claims in its first REQ */
};

struct conn {
	enum conn_state state;
	bool passive;
	struct path_port *port;
	struct cm_conn *cm; /* NULL: none yet, or gone */
	struct qp *qp;      /* NULL: not accepted yet, or released */
	struct cr *cr;
	uint32_t commands;         /* commands under way whose object is this conn */
	bool dead;                 /* in control.dead */
	struct conn_setup *setup;  /* NULL once established */
	struct rc_attr *exchanged; /* out of band: the exchanged attributes, until the core has them */
	bool out_of_band;          /* without the CM */
	bool stepwise;    /* ONE_CONN_STEPWISE; false once the application has ended the connection */
	bool unconfirmed; /* active: the RTU waits for QP_CONFIRM */
	struct suspended_request rtr; /* out_of_band: until the queue pair serves its peer */
	uint32_t peer_qpn;
	bool has_peer; /* in the index of peer.c */
	bool peer_oneside;
	bool peer_steered;                /* the peer sends from the port that we announce */
	struct cm_steering peer_steering; /* zero unless peer_steered */
	struct cm_local local;
	struct cm_path path;
	uint8_t mac[6];
	struct neigh_waiter waiter; /* RESOLVING */
	struct path_user path_user;
	uint64_t service;
	uint16_t ip_port;  /* the active side's */
	uint64_t deadline; /* of the attempt; NEVER */
	uint64_t retry_at; /* WAITING: next attempt; NEVER: when the QPN is free */
	struct cm_timer timer;
	uint32_t attempts;
	uint32_t qpn;                  /* in time-wait until CM_GONE */
	struct quota_account *charged; /* half-open: account whose share includes the conn; NULL: none */
	struct client
		*reported; /* notified at CM_GONE, with these ids of queue pair and ring; NULL: nobody */
	uint32_t reported_qp, reported_cq;
	struct engine_client *reported_lane;
	struct host *host;               /* keep-alive of an RSM connection */
	void (*over)(struct conn *conn); /* called at the end, once or more often; may be NULL */
	uint64_t incarnation;
	uint32_t heard;   /* engine_qp_heard() at the last poll */
	uint32_t refusal; /* the peer's refusal of a request of ours, as reported in the DREQ; 0: none */
	uint32_t unacknowledged; /* broken: engine_qp_unacknowledged() */
	struct balance_item balance;
	TAILQ_ENTRY(conn) link;
	LIST_ENTRY(conn) peer_link;
	LIST_ENTRY(conn) host_link;
	LIST_ENTRY(conn) reported_link; /* in client.timewaits */
};

/* ---- conn_state.c: only writer of a connection's state after conn_new(); `why` is for the trace ---- */
void conn_state_set(struct conn *conn, enum conn_state to, const char *why);
const char *conn_state_name(const struct conn *conn);

/* ---- conn.c ---- */
int qp_disconnect(struct client *client, const struct one_msg *msg);
struct conn *conn_new(struct path_port *port, bool passive);
/* Ends the connection of a queue pair that is being removed, without an event. */
void conn_detach(struct qp *qp);
/* Ends an attempt or a connection, and reports the end to the application once. */
void conn_end(struct conn *conn, enum one_conn_event event, enum rsm_error rsm, bool notify_peer);
/* Like conn_end(), but reports `if_broken` if the core has found the connection broken before. */
void conn_end_or(struct conn *conn, enum one_conn_event event, enum one_conn_event if_broken,
		 enum rsm_error rsm, bool notify_peer);
void conn_reject(struct conn *conn, enum cm_reject reason, const void *data, uint16_t len);
void conn_put(struct conn *conn); /* frees the conn when nothing refers to it */
void conn_free(struct conn *conn);
/* Counts a request that waits for an answer of the account's application.  False if there are too many. */
bool conn_charge(struct conn *conn, struct quota_account *account);
void conn_uncharge(struct conn *conn); /* once the answer is confirmed, or the conn over */
void conn_wait(struct conn *conn);     /* sets the timer: to the deadline, or to retry_at if earlier */
void conn_wait_no_more(struct conn *conn);
/* The queue pair number is held from the first call to the second. */
void conn_hold_qpn(struct conn *conn);
void conn_vacate_qpn(struct conn *conn);
/* Returns the event of an endpoint's connection. */
struct one_cqe conn_outcome(const struct qp *qp, enum one_conn_event event, enum rsm_error rsm);
/* conn_show.c: call before the event.  `rc`: the attributes for the core. */
void conn_show(const struct conn *conn, const struct rc_attr *rc);
/* True for an out-of-band connection whose program leaves the UDP source port to the data plane. */
bool conn_port_is_free(const struct conn *conn);
void conn_show_refusal(const struct conn *conn, const uint8_t *data);
/* Stores the next hop's MAC, and follows its changes from now on. */
void conn_resolved(struct conn *conn, const uint8_t mac[6]);
void conns_fini(void); /* call at the end, after all clients are gone */
void conns_poll(void); /* deadlines, retries, the dead */
uint64_t conns_deadline(void);
/* True if an open connection sends to `dst` from that UDP port.  Visits all connections. */
bool conn_sends(const struct path_port *port, const struct wire_addr *dst, uint16_t udp_src_port);
void qp_engine_event(struct qp *qp, const struct engine_event *event);

/* ---- timewait.c ---- */
/* Records the client to notify at the end of time-wait.  Call before the conn is over, while it has its queue
 * pair. */
void conn_timewait(struct conn *conn);
void conn_timewait_exit(struct conn *conn);
bool conns_leave(struct client *client); /* drops the client's notifications, some per call; true when done */

/* ---- establish.c ---- */
int qp_connect(struct client *client, const struct one_msg *msg);
int conn_confirm(struct client *client, const struct one_msg *msg);
void conn_start(struct conn *conn, struct qp *qp); /* begins an attempt of `qp` */
void conn_try(struct conn *conn);
void conn_event(struct cm_env *env, const struct cm_event *event);
extern const struct qp_kind conn_kind; /* endpoints */
/* Gives both ends one core, if they are of this data plane and one of them has no core yet. */
void conn_place_ends(struct conn *conn);
/* move_ends.c: begins the move of a queue pair, and of its peer if that is local, to another core.  Returns
 * NULL, or the reason for a refusal, as the end of a sentence. */
const char *conn_move(struct qp *qp, uint32_t core);
/* Returns the peer if it is of this data plane and connected to the queue pair, else NULL. */
struct qp *conn_own_peer(const struct qp *qp);
/* rebalance.c: moves connections away from busy polling cores, and to the core where their frames arrive. */
void conns_balance_poll(void);
uint64_t conns_balance_deadline(void);
void conn_follow(struct conn *conn, uint32_t core); /* the core of ENGINE_EVENT_STRAYS */
void conn_fill_path(const struct conn *conn, struct wire_path *path);

/* ---- oob.c: out-of-band connections ---- */
int qp_rtr(struct client *client, const struct one_msg *msg);
int qp_rts(struct client *client, const struct one_msg *msg);
int qp_error(struct client *client, const struct one_msg *msg);

/* ---- pass_conn.c: take-over ---- */
struct pass_in;
struct pass_out;
/* Returns the reason why a connection cannot be passed on now, as the end of a sentence; NULL: all can. */
const char *conns_obstacle(void);
void listeners_write(struct client *client, struct pass_out *out);
int listeners_read(struct client *client, struct pass_in *in);
void conns_write(struct pass_out *out); /* after all clients */
int conns_read(struct pass_in *in);

/* ---- settings.c ---- */
int qp_set(struct client *client, const struct one_msg *msg);

/* ---- accept.c ---- */
int listen_create(struct client *client, const struct one_msg *msg);
void listener_close(struct listener *listener);
/* Takes the service of a listener that another process has made.  Returns 0 or -errno. */
int listener_resume(struct listener *listener);
/* Returns 0 and, in *port, the port that the client's listener holds at the address `src`; or the refusal.
 * With id 0 *port is an ephemeral port that is not reserved. */
int listener_port(struct client *client, uint32_t id, const struct wire_addr *src, uint16_t *port);
int cr_accept(struct client *client, const struct one_msg *msg);
int cr_reject(struct client *client, const struct one_msg *msg);
int cr_handoff(struct client *client, const struct one_msg *msg);
void cr_offer(struct listener *listener, struct conn *conn);
void cr_destroy(struct cr *cr);

#endif
