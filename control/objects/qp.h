/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs of an attachment, and of the segments it exports.
 */
#ifndef CONTROL_OBJECTS_QP_H
#define CONTROL_OBJECTS_QP_H

#include "control/base/acl.h"
#include "control/objects/objects.h"

struct conn;
struct segment;

/* What makes the queue pairs of applications, of imports and of exports different. */
struct qp_kind {
	const char *name;
	bool created;     /* by QP_CREATE: the application modifies, connects and frees it */
	uint32_t access;  /* what the peer may ask for at most: ONE_ACCESS_REMOTE_* */
	bool endless_rnr; /* a receiver that is not ready is no error, whatever the port is configured to */
	void (*detach)(struct qp *qp);  /* its connection ends by itself */
	void (*unhook)(struct qp *qp);  /* it is going: references to it are dropped; NULL: there are none */
	void (*destroy)(struct qp *qp); /* NULL: nothing to do */
	/* What its owner finds in conn_cq. */
	struct one_cqe (*outcome)(const struct qp *qp, enum one_conn_event event, enum rsm_error rsm);
	bool ends_alone; /* without a ring for its end: it is removed with its connection */
	/* The peer's private data in a REP and a REJ; NULL: the application's, as they are. */
	enum rsm_error (*replied)(struct conn *conn);
	enum rsm_error (*rejected)(const struct conn *conn, uint16_t reason, const uint8_t *data);
	bool (*asked_again)(struct conn *conn, const uint8_t *data); /* a REJ: ours is another REQ now */
};

struct qp {
	struct object object;
	const struct qp_kind *kind;
	enum one_qp_state state;
	bool added;  /* a core has it, or gets it with the first command */
	bool placed; /* see place.h; then */
	struct engine_client *lane;
	bool removing;
	struct engine_qp *engine;
	struct engine_qp_config config;
	struct pz *pz; /* NULL: none yet; EXPORT: none, config.pz is its own */
	struct cq *send_cq, *recv_cq, *conn_cq;
	struct srq *srq; /* NULL: it has receives of its own */
	uint32_t rd_atomic_in, rd_atomic_out;
	uint32_t qkey;       /* of datagrams */
	uint64_t block_size; /* in the arena, from config.shm on */
	struct conn *conn;
	uint16_t number;             /* the application's, of the last connection */
	bool timewait;               /* the end of a connection's time wait is told */
	struct turns_item bind;      /* of a window, which its core waits for */
	struct bind_wait *bind_wait; /* the same, carried out; NULL: none */
	/* IMPORT */
	uint32_t permission;
	/* EXPORT */
	struct segment *segment;
	struct mem_region *window;
	LIST_ENTRY(qp) segment_link;
};

/* ---- qp.c ---- */
int qp_create(struct client *client, const struct one_msg *msg);
int qp_modify(struct client *client, const struct one_msg *msg);
int qp_reset_request(struct client *client, const struct one_msg *msg);
/* So much private data the application may send with a message that has `room` for it. */
uint32_t qp_private_max(const struct client *client, uint32_t room);
/* 0, or the refusal: queue pair `id` can begin or accept such a connection with so much private data. */
int qp_connectable(struct client *client, uint32_t id, const struct one_conn_param *param,
		   uint32_t private_len, uint32_t room);
int qp_free(struct client *client, const struct one_msg *msg);
/* For other kinds: one that is busy and empty; its rings; and to the core, whose answer `done` gets.  What it
 * refers to is held from qp_add() on; if that fails it is destroyed. */
struct qp *qp_new(struct client *client, const struct qp_kind *kind);
int qp_make_rings(struct qp *qp);
int qp_add(struct qp *qp, command_done *done);
void qp_describe(struct client *client, const struct qp *qp); /* in the reply under way */
/* A queue pair of QP_CREATE, to the core of its lane. */
void qp_give_to_core(struct qp *qp);
/* It is not busy any more; 0 or -errno is the outcome of the request for it. */
void qp_answer(struct qp *qp, int error);
/* Lets go of its connection and of the core; freed when the core has let go.  `reply`: then answer the
 * client.
 */
void qp_remove(struct qp *qp, bool reply);
void qp_destroy(struct qp *qp);  /* never added, or no core has it any more */
void qp_withdraw(struct qp *qp); /* from the core, at the client's end */
/* Numbers that connections use, or used until their time-wait is over: no queue pair gets them. */
void qpn_hold(uint32_t qpn);
void qpn_let_go(uint32_t qpn);
bool qpn_held(uint32_t qpn);
/* The only writer of a queue pair's state; `why`: for the trace. */
void qp_state_set(struct qp *qp, enum one_qp_state to, const char *why);
/* The same, and by the core in the application's view. */
void qp_tell_state(struct qp *qp, enum one_qp_state to, const char *why);
const char *qp_state_name(const struct qp *qp);
struct engine_command *qp_command(struct qp *qp, enum engine_command_type type, command_done *done,
				  void *object);
struct one_qp_shm *qp_shm(const struct qp *qp);

#endif
