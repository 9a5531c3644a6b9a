/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: their states, and their work requests. */
#ifndef VERBS_QP_H
#define VERBS_QP_H

#include "verbs/cq/cq.h"
#include "verbs/mem/mem.h"

#define VERBS_INLINE_MAX 1024u /* beyond ONE_INLINE_MAX by way of memory of the queue pair */
/*
 * Who asks for some has at least this: UCX asks for 64, and takes a datagram that does not go inline for sent
 * when its peer's connection request comes, before it has been read (openucx/ucx#10423).
 */
#define VERBS_INLINE_ROOM 128u

/* A request of ibv_qp_ex that is being made. */
struct wr_draft {
	struct ibv_send_wr wr;
	uint32_t first_sge; /* in qp->draft_sges */
	uint32_t inline_at; /* in qp->draft_bytes */
};

/* Where inline data wait that do not fit into a request; base NULL: none. */
struct inline_room {
	uint8_t *base;
	size_t length;
	uint32_t size;        /* of a place */
	uint32_t count, next; /* places, and the one that is taken next */
	struct one_mr mr;
};

struct qp {
	union {
		struct ibv_qp base;
		struct ibv_qp_ex ex;
	};
	struct one_qp ring;
	struct qp_name name;
	pthread_mutex_t send_lock, recv_lock;
	struct one_qp_create create; /* as it was asked for */
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr; /* as set so far */
	_Atomic uint32_t state;  /* enum ibv_qp_state, as asked for: the data plane may have found an error */
	struct inline_room room;
	_Atomic bool by_cm; /* the CM has connected it, or RTR was asked for with what the CM says */
	/* wr.c */
	struct wr_draft *drafts;
	struct ibv_sge *draft_sges;
	uint8_t *draft_bytes;
	uint32_t num_drafts, num_sges, num_bytes, max_drafts;
	int draft_error;
};

/* ---- qp.c ---- */
struct ibv_qp *qp_create_ex(struct ibv_context *base, struct ibv_qp_init_attr_ex *attr);
/* What it is in, with what the data plane has found. */
enum ibv_qp_state qp_state(struct qp *qp);
/* In a child after fork, whoever had its locks: it is the parent's. */
void qp_fork_child(struct qp *qp);
/* Both rings of completions, which may be one. */
void qp_lock_rings(struct qp *qp);
void qp_unlock_rings(struct qp *qp);

/* ---- state.c ---- */
void qp_set_peer(struct qp *qp, uint32_t qpn);

/* ---- explain.c ---- */
/* A transition, with the attributes that it must and may have. */
struct transition {
	enum ibv_qp_state from, to;
	int required, optional;
};
/* EINVAL, whose reason is noted: there is no such transition (table entry NULL), or not with this mask. */
int qp_explain_transition(enum ibv_qp_state from, enum ibv_qp_state to, const struct transition *t, int mask);
/* EINVAL likewise: nothing is posted before the state `needed`. */
int qp_explain_state(struct qp *qp, const char *needed);

/* ---- post.c ---- */
int post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* All of the drafts, or none; with the lock held. */
int post_drafts(struct qp *qp);
/* One request without payload, which the caller has checked: 0, or an errno. */
int post_checked(struct qp *qp, const struct ibv_send_wr *wr);
int post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int inline_room_open(struct qp *qp, uint32_t pz, uint32_t count, uint32_t size); /* -errno */
void inline_room_close(struct qp *qp);

/* ---- bind.c ---- */
int bind_mw(struct ibv_qp *base, struct ibv_mw *mw, struct ibv_mw_bind *bind);
/* Of IBV_WR_BIND_MW and IBV_WR_LOCAL_INV: 0, or an errno. */
int bind_check(const struct qp *qp, const struct ibv_send_wr *wr);
void bind_put(struct qp *qp, struct one_wqe *wqe, const struct ibv_send_wr *wr);

/* ---- wr.c ---- */
int wr_setup(struct qp *qp, uint64_t send_ops);
void wr_free(struct qp *qp);
void wr_fork_child(struct qp *qp);

#endif
