/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs of an attachment, and of its exported segments. */
#ifndef CONTROL_OBJECTS_QP_H
#define CONTROL_OBJECTS_QP_H

#include "control/base/acl.h"
#include "control/objects/objects.h"

struct conn;
struct pass_in;
struct pass_out;
struct qp_move;
struct segment;

/* A kind of queue pairs: of applications, of RSM imports, or of RSM exports. */
struct qp_kind {
	const char *name;
	bool created;     /* created by QP_CREATE: the application modifies, connects and frees it */
	uint32_t access;  /* upper limit of the peer's rights: ONE_ACCESS_REMOTE_* */
	bool endless_rnr; /* RNR retries never run out, whatever the port's configuration */
	void (*detach)(struct qp *qp);  /* ends the connection, without an event */
	void (*unhook)(struct qp *qp);  /* drops references to the queue pair; NULL: no references */
	void (*destroy)(struct qp *qp); /* NULL: nothing to do */
	/* Returns the entry for the owner in conn_cq. */
	struct one_cqe (*outcome)(const struct qp *qp, enum one_conn_event event, enum rsm_error rsm);
	bool ends_alone; /* no ring to report the end to: removed with its connection */
	/* Process the peer's private data in a REP and in a REJ.  NULL: the application gets the data
	 * unchanged. */
	enum rsm_error (*replied)(struct conn *conn);
	enum rsm_error (*rejected)(const struct conn *conn, uint16_t reason, const uint8_t *data);
	bool (*asked_again)(struct conn *conn, const uint8_t *data); /* a REJ: true if a REQ may follow */
	/* For a take-over; NULL: nothing to do.  Write what the record of every queue pair lacks; read it,
	 * before the core's part is made, and check that the queue pair is one of this kind; and continue the
	 * keep-alive of a connection.  Return 0 or -errno. */
	void (*write)(const struct qp *qp, struct pass_out *out);
	int (*read)(struct qp *qp, struct pass_in *in);
	int (*resumed)(struct conn *conn);
};

struct qp {
	struct object object;
	const struct qp_kind *kind;
	enum one_qp_state state;
	bool added;  /* a core has the queue pair, or gets it with the first command */
	bool placed; /* has a core, that of `lane` (place.h) */
	struct engine_client *lane;
	bool removing;
	struct qp_move *move;       /* to another core (qp_move.h); NULL: none */
	struct engine_move *frozen; /* for a take-over; NULL: not frozen */
	struct engine_qp *engine;
	struct engine_qp_config config;
	struct pz *pz; /* NULL: none yet; EXPORT: always NULL, and config.pz is its own */
	struct cq *send_cq, *recv_cq, *conn_cq;
	struct srq *srq; /* NULL: receives are its own */
	uint32_t rd_atomic_in, rd_atomic_out;
	uint32_t qkey;       /* for datagrams */
	uint64_t block_size; /* bytes in the arena, from config.shm on */
	struct conn *conn;
	uint16_t number;             /* set by the application for the last connection */
	bool timewait;               /* report the end of a connection's time-wait */
	struct drr_item bind;        /* bind of a window, for which the core waits */
	struct bind_wait *bind_wait; /* a bind to be reported to the core; NULL: none */
	/* IMPORT */
	uint32_t permission;
	/* EXPORT */
	struct segment *segment;
	struct mem_region *window;
	LIST_ENTRY(qp) segment_link;
};

/* ---- qp_object.c ---- */
int qp_create(struct client *client, const struct one_msg *msg);
int qp_modify(struct client *client, const struct one_msg *msg);
int qp_reset_request(struct client *client, const struct one_msg *msg);
/* Returns the most private data that the application may send in a message with room for `room` bytes. */
uint32_t qp_private_max(const struct client *client, uint32_t room);
/* Checks that queue pair `id` can be connected: it has a protection zone and no connection. Returns 0, or the
 * refusal. */
int qp_check_idle(struct client *client, uint32_t id);
/* Checks that queue pair `id` can begin or accept such a connection, with `private_len` bytes of private
 * data. Returns 0, or the refusal. */
int qp_connectable(struct client *client, uint32_t id, const struct one_conn_param *param,
		   uint32_t private_len, uint32_t room);
int qp_free(struct client *client, const struct one_msg *msg);
/* For other kinds of queue pairs.  qp_new() returns a busy one without rings, and qp_make_rings() allocates
 * its rings.  qp_add() takes references to the objects that the queue pair uses, and sends the queue pair to
 * the core, whose answer `done` gets.  A failing qp_add() destroys the queue pair. */
struct qp *qp_new(struct client *client, const struct qp_kind *kind);
int qp_make_rings(struct qp *qp);
int qp_add(struct qp *qp, command_done *done);
/* For a take-over: makes a queue pair with this id, without a kind; and, when its fields are set, what its
 * core owns.  qp_make_again() returns 0 or the refusal. */
struct qp *qp_new_as(struct client *client, uint32_t id);
int qp_make_again(struct qp *qp);
void qp_describe(struct client *client, const struct qp *qp); /* fills the reply under way */
/* Returns the configuration with the rings of `lane`. */
struct engine_qp_config qp_config_on(const struct qp *qp, const struct engine_client *lane);
/* Stores the lane's doorbells for the application. */
void qp_store_doorbells(struct qp *qp);
/* Adds a queue pair of QP_CREATE to the core of its lane. */
void qp_give_to_core(struct qp *qp);
/* Ends the busy state, and answers the request for the queue pair with 0 or -errno. */
void qp_answer(struct qp *qp, int error);
/* Ends the connection, removes the queue pair from its core, and then frees it.  `reply`: answers the request
 * under way at the end. */
void qp_remove(struct qp *qp, bool reply);
void qp_destroy(struct qp *qp);  /* call when no core has it, or none ever had */
void qp_withdraw(struct qp *qp); /* removes it from its core, at the client's end */
/* Reserve a number for a connection, until its time-wait is over: no new queue pair gets the number. */
void qpn_occupy(uint32_t qpn);
void qpn_vacate(uint32_t qpn);
bool qpn_in_use(uint32_t qpn);
/* Only writer of a queue pair's state; `why` is for the trace. */
void qp_state_set(struct qp *qp, enum one_qp_state to, const char *why);
/* Like qp_state_set(), and has the core store the state for the application. */
void qp_report_state(struct qp *qp, enum one_qp_state to, const char *why);
const char *qp_state_name(const struct qp *qp);
struct engine_command *qp_command(struct qp *qp, enum engine_command_type type, command_done *done,
				  void *object);
struct one_qp_shm *qp_shm(const struct qp *qp);

#endif
