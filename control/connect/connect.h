/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections: attempts, listeners, connection requests.
 */
#ifndef CONTROL_CONNECT_CONNECT_H
#define CONTROL_CONNECT_CONNECT_H

#include "control/attach/parked.h"
#include "control/cm/cm.h"
#include "control/objects/qp.h"
#include "control/path/path.h"

struct host;

struct listener {
	struct object object;
	struct cm_listener *cm; /* NULL: it listens no more */
	uint64_t service;
	struct cm_scope scope;
	struct cq *cq;
	bool once;
	bool later; /* its service is taken, and nobody is let in */
};

struct cr {
	struct object object;
	struct conn *conn;
	uint64_t shm; /* offset of struct one_cr_shm */
};

enum conn_state {
	CONN_WAITING,   /* for the QPN's last connection to be forgotten, or to try again */
	CONN_RESOLVING, /* asking for the next hop's MAC */
	CONN_REQUESTED, /* active: REQ is out */
	CONN_STARTING,  /* active: REP came; the core is prepared, then RTU */
	CONN_OFFERED,   /* passive: the application has not answered yet */
	CONN_PREPARING, /* passive: the core is prepared, then REP */
	CONN_REPLIED,   /* passive: REP is out */
	CONN_UP,
	CONN_OVER /* the queue pair has had its last event; CM's time-wait may still run */
};

/* What the two sides say to each other, until they are connected. */
struct conn_setup {
	struct cm_remote remote;
	struct one_conn_param asked; /* by our application */
	uint16_t private_len;        /* ours */
	uint8_t private_data[CM_PRIVATE_REP];
	uint8_t claims[CM_PRIVATE_REQ]; /* of an RSM import: what its first REQ says */
};

struct conn {
	enum conn_state state;
	bool passive;
	struct path_port *port;
	struct cm_conn *cm; /* NULL: none yet, or gone */
	struct qp *qp;      /* NULL: not accepted, or let go */
	struct cr *cr;
	uint32_t commands;         /* on their way with this conn as their object */
	bool dead;                 /* in the list of those to be freed */
	struct conn_setup *setup;  /* NULL once established */
	struct rc_attr *numbers;   /* what the applications have told each other, until the core has it */
	bool by_numbers;           /* without CM */
	bool stepwise;             /* ONE_CONN_STEPWISE; false once its application has ended it */
	bool unconfirmed;          /* active: the RTU waits for QP_CONFIRM */
	struct parked_request rtr; /* by_numbers, until the queue pair serves its peer */
	uint32_t peer_qpn;
	bool has_peer; /* entered by peer.c */
	bool peer_oneside;
	bool peer_steered;                /* sends from the port that we name */
	struct cm_steering peer_steering; /* zero unless it does */
	struct cm_local local;
	struct cm_path path;
	uint8_t mac[6];
	struct neigh_waiter waiter; /* RESOLVING */
	struct path_user path_user;
	uint64_t service;
	uint16_t ip_port;  /* the active side's */
	uint64_t deadline; /* of the attempt; NEVER */
	uint64_t retry_at; /* WAITING: not before; NEVER: when the QPN is free */
	struct cm_timer timer;
	uint32_t attempts;
	uint32_t qpn;                  /* in time-wait until CM_GONE */
	struct quota_account *charged; /* half-open: whose share of that it counts in; NULL: nobody's */
	struct client *told; /* who is told of that: by a queue pair's id, in a ring; NULL: nobody */
	uint32_t told_qp, told_cq;
	struct engine_client *told_lane;
	struct host *host;               /* keep-alive of an RSM connection */
	void (*over)(struct conn *conn); /* called when it is over, once or more often; may be NULL */
	uint64_t incarnation;
	uint32_t heard; /* engine_qp_heard() when it was looked at last */
	uint32_t
		refusal; /* how the peer has refused a request of ours, as its DREQ reports; 0: it does not */
	TAILQ_ENTRY(conn) link;
	LIST_ENTRY(conn) peer_link;
	LIST_ENTRY(conn) host_link;
	LIST_ENTRY(conn) told_link; /* of the client that is told */
};

/* ---- conn_state.c: the only writer of a connection's state after conn_new(); `why`: for the trace ---- */
void conn_state_set(struct conn *conn, enum conn_state to, const char *why);
const char *conn_state_name(const struct conn *conn);

/* ---- conn.c ---- */
int qp_disconnect(struct client *client, const struct one_msg *msg);
struct conn *conn_new(struct path_port *port, bool passive);
/* The queue pair goes: its connection ends by itself. */
void conn_detach(struct qp *qp);
/* The end of an attempt or a connection, reported to the application once. */
void conn_end(struct conn *conn, enum one_conn_event event, enum rsm_error rsm, bool notify_peer);
/* `if_broken` is reported instead if the core has found the connection broken before. */
void conn_end_or(struct conn *conn, enum one_conn_event event, enum one_conn_event if_broken,
		 enum rsm_error rsm, bool notify_peer);
void conn_reject(struct conn *conn, enum cm_reject reason, const void *data, uint16_t len);
void conn_put(struct conn *conn); /* frees it when nothing refers to it */
void conn_free(struct conn *conn);
/* A request that waits for an answer of this account's application; false: it has too many. */
bool conn_charge(struct conn *conn, struct quota_account *account);
void conn_uncharge(struct conn *conn); /* answered, and the answer confirmed, or over */
void conn_wait(struct conn *conn);     /* until its deadline, or retry_at if that comes first */
void conn_wait_no_more(struct conn *conn);
/* Its queue pair number is in time-wait until the second. */
void conn_hold_qpn(struct conn *conn);
void conn_let_go_qpn(struct conn *conn);
/* The event of an endpoint's connection. */
struct one_cqe conn_outcome(const struct qp *qp, enum one_conn_event event, enum rsm_error rsm);
/* conn_show.c: before its event; `rc` is what its core is told. */
void conn_show(const struct conn *conn, const struct rc_attr *rc);
void conn_show_refusal(const struct conn *conn, const uint8_t *data);
/* Its next hop has that MAC, and another from now on when the hop has. */
void conn_resolved(struct conn *conn, const uint8_t mac[6]);
void conns_fini(void); /* at the end, without clients */
void conns_poll(void); /* deadlines, retries, the dead */
uint64_t conns_deadline(void);
/* Does an open connection send to `dst` from that UDP port?  Looks at all connections. */
bool conn_sends(const struct path_port *port, const struct wire_addr *dst, uint16_t udp_src_port);
void qp_engine_event(struct qp *qp, const struct engine_event *event);

/* ---- timewait.c ---- */
/* Before a connection is over, while it has its queue pair: to whom the end of its time wait is told. */
void conn_timewait(struct conn *conn);
void conn_timewait_exit(struct conn *conn);
bool conns_leave(struct client *client); /* it is told no more; a slice of its end: true when it is over */

/* ---- establish.c ---- */
int qp_connect(struct client *client, const struct one_msg *msg);
int conn_confirm(struct client *client, const struct one_msg *msg);
void conn_start(struct conn *conn, struct qp *qp); /* an attempt of `qp` begins */
void conn_try(struct conn *conn);
void conn_event(struct cm_env *env, const struct cm_event *event);
extern const struct qp_kind conn_kind; /* endpoints */
/* Gives both ends one core, if they are of this data plane and one of them has no core yet. */
void conn_place_ends(struct conn *conn);
/* Both ends on one core: direct copies.  Each side asks the same, so both decide alike. */
bool conn_is_local(const struct conn *conn);
void conn_fill_path(const struct conn *conn, struct wire_path *path);

/* ---- numbers.c: without CM ---- */
/* To the request for which its core was asked something. */
void conn_qp_answer(struct qp *qp, int error);
int qp_rtr(struct client *client, const struct one_msg *msg);
int qp_rts(struct client *client, const struct one_msg *msg);
int qp_error(struct client *client, const struct one_msg *msg);

/* ---- settings.c ---- */
int qp_set(struct client *client, const struct one_msg *msg);

/* ---- accept.c ---- */
int listen_create(struct client *client, const struct one_msg *msg);
void listener_close(struct listener *listener);
/* The port that the client's listener holds at the address `src`: 0 and *port, or the refusal.  Id 0: *port
 * is an ephemeral port that nobody holds. */
int listener_port(struct client *client, uint32_t id, const struct wire_addr *src, uint16_t *port);
int cr_accept(struct client *client, const struct one_msg *msg);
int cr_reject(struct client *client, const struct one_msg *msg);
int cr_handoff(struct client *client, const struct one_msg *msg);
void cr_offer(struct listener *listener, struct conn *conn);
void cr_destroy(struct cr *cr);

#endif
