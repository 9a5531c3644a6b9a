/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: their states, and their work requests. */
#ifndef VERBS_QP_H
#define VERBS_QP_H

#include "verbs/cq.h"
#include "verbs/mem.h"

#define VERBS_INLINE_MAX 1024u /* bytes; beyond ONE_INLINE_MAX through memory of the queue pair */
/* Least max_inline_data, in bytes, if the application asks for more than ONE_INLINE_MAX.  UCX asks for 64,
 * and takes a datagram that is not inline for sent when its peer's connection request arrives, before the
 * datagram has been read (openucx/ucx#10423). */
#define VERBS_INLINE_ROOM 128u

/* A request of ibv_qp_ex between wr_start and wr_complete. */
struct wr_draft {
	struct ibv_send_wr wr;
	uint32_t first_sge; /* in qp->draft_sges */
	uint32_t inline_at; /* in qp->draft_bytes */
};

/* Memory for inline data that does not fit into a request; base is NULL without such memory. */
struct inline_room {
	uint8_t *base;
	size_t length;
	uint32_t size;        /* bytes of a slot */
	uint32_t count, next; /* number of slots, and the index of the next one */
	struct one_mr mr;
};

struct qp {
	union {
		struct ibv_qp base;
		struct ibv_qp_ex ex;
	};
	struct one_qp ring;
	struct qp_name name;
	struct lock send_lock, recv_lock;
	struct one_qp_create create; /* as requested */
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr; /* as set so far */
	_Atomic uint32_t state;  /* enum ibv_qp_state as requested; qp_state() adds the data plane's errors */
	struct inline_room room;
	_Atomic bool by_cm; /* the CM has connected it, or its RTR named a peer that the CM expects */
	/* wr.c */
	struct wr_draft *drafts;
	struct ibv_sge *draft_sges;
	uint8_t *draft_bytes;
	uint32_t num_drafts, num_sges, num_bytes, max_drafts;
	int draft_error;
};

/* ---- verbs_qp.c ---- */
struct ibv_qp *qp_create_ex(struct ibv_context *base, struct ibv_qp_init_attr_ex *attr);
/* Returns the state, which is ERR if the data plane found an error. */
enum ibv_qp_state qp_state(struct qp *qp);
/* Resets the locks in a child after fork, because a thread of the parent may have held them. */
void qp_fork_child(struct qp *qp);
/* Lock the send and receive CQ, which may be the same, in the order of their addresses. */
void qp_lock_rings(struct qp *qp);
void qp_unlock_rings(struct qp *qp);

/* ---- qp_state.c ---- */
void qp_set_peer(struct qp *qp, uint32_t qpn);

/* ---- explain_qp.c ---- */
/* A transition, with its required and optional attributes. */
struct transition {
	enum ibv_qp_state from, to;
	int required, optional;
};
/* Notes that the transition does not exist (`t` is NULL), or not with this mask.  Returns EINVAL. */
int qp_explain_transition(enum ibv_qp_state from, enum ibv_qp_state to, const struct transition *t, int mask);
/* Notes that posting requires the state `needed`.  Returns EINVAL. */
int qp_explain_state(struct qp *qp, const char *needed);

/* ---- post.c ---- */
int post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* Posts all drafts or none; the send lock is held. */
int post_drafts(struct qp *qp);
/* Posts one request without payload, which the caller has checked.  Returns 0 or a positive errno. */
int post_checked(struct qp *qp, const struct ibv_send_wr *wr);
int post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int inline_room_open(struct qp *qp, uint32_t pz, uint32_t count, uint32_t size); /* returns 0 or -errno */
void inline_room_close(struct qp *qp);

/* ---- bind.c ---- */
int bind_mw(struct ibv_qp *base, struct ibv_mw *mw, struct ibv_mw_bind *bind);
/* Checks IBV_WR_BIND_MW or IBV_WR_LOCAL_INV.  Returns 0 or a positive errno. */
int bind_check(const struct qp *qp, const struct ibv_send_wr *wr);
void bind_put(struct qp *qp, struct one_wqe *wqe, const struct ibv_send_wr *wr);

/* ---- wr.c ---- */
int wr_setup(struct qp *qp, uint64_t send_ops);
void wr_free(struct qp *qp);
void wr_fork_child(struct qp *qp);

#endif
