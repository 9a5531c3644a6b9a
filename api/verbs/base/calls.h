/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of this room call of one another. */
#ifndef VERBS_CALLS_H
#define VERBS_CALLS_H

#include "gid.h"
#include "objects.h"

/* ---- devices.c ---- */
int port_query(struct one_client *client, uint32_t index, struct one_port *out);
__be64 guid_of(uint64_t hwaddr);

/* ---- query.c ---- */
int query_port(struct ibv_context *base, uint8_t port, struct ibv_port_attr *attr, size_t len);
int query_device_ex(struct ibv_context *base, const struct ibv_query_device_ex_input *input,
		    struct ibv_device_attr_ex *attr, size_t size);
static inline void
own_gid(const struct context *context, union ibv_gid *gid)
{
	gid_of_address(context->info->family, context->info->addr, gid);
}
/* The address a GID stands for on a port of `family`; false: none of that family. */
bool gid_address(const union ibv_gid *gid, uint16_t family, uint8_t addr[16]);
enum ibv_mtu mtu_code(uint16_t bytes);

/* ---- cq.c ---- */
struct ibv_cq_ex *create_cq_ex(struct ibv_context *base, struct ibv_cq_init_attr_ex *attr);
int poll_cq(struct ibv_cq *base, int num, struct ibv_wc *wc);
int req_notify_cq(struct ibv_cq *base, int solicited_only);
/* The next completion: 1, 0, or -1 when the data plane has gone. */
int cq_next(struct cq *cq, struct ibv_wc *wc);
/* Forgets completions of `qp`; with the lock held. */
int cq_purge(struct cq *cq, uint32_t qp_id);

/* ---- events.c ---- */
/* A channel with a descriptor, which is the caller's. -errno. */
int channel_open(struct context *context, uint16_t *number, uint32_t *id, int *fd);
int events_open(struct context *context);
void events_close(struct context *context);
void events_lost(void *context);
/* Events of an object that is being destroyed are not got any more. */
void events_forget(struct context *context, const void *object);
/* Until all that was got is acknowledged. */
void wait_acknowledged(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *done, uint32_t got);

/* ---- cm.c ---- */
/* rdma_init_qp_attr() has told of such a peer. */
bool cm_expects(struct context *context, uint32_t peer_qpn, uint32_t psn);

/* ---- state.c ---- */
uint32_t remote_access(unsigned int flags); /* ONE_ACCESS_REMOTE_* */

/* ---- qp.c ---- */
struct ibv_qp *create_qp_ex(struct ibv_context *base, struct ibv_qp_init_attr_ex *attr);
/* Both rings of a queue pair, which may be one. */
void lock_rings(struct qp *qp);
void unlock_rings(struct qp *qp);
/* What it is in, with what the data plane has found. */
enum ibv_qp_state qp_state(struct qp *qp);

/* ---- state.c ---- */
struct transition {
	enum ibv_qp_state from, to;
	int required, optional;
};
/* 0, or the errno of a transition that the standard does not have. */
int check_transition(const struct transition *table, size_t count, enum ibv_qp_state from,
		     enum ibv_qp_state to, int mask);
/* Of a queue pair that serves its peer: 0, or a positive errno. */
int qp_set(struct qp *qp, const struct one_qp_settings *settings);
/* Between RTS and SQD, as `to` and `from` are. */
void set_stopped(enum ibv_qp_state from, enum ibv_qp_state to, const struct ibv_qp_attr *attr, int mask,
		 struct one_qp_settings *settings);
int qp_to_error(struct qp *qp);
/* All work is forgotten, and what was completed of it. */
int qp_to_reset(struct qp *qp);

/* ---- give.c ---- */
/* After a look that found nothing; without a lock. */
void give_away(void);

/* ---- ud.c ---- */
int ud_modify(struct qp *qp, const struct ibv_qp_attr *attr, int mask);

/* ---- post.c ---- */
int post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* All of the drafts, or none; with the lock held. */
int post_drafts(struct qp *qp);
/* One request without payload, which the caller has checked: 0, or an errno. */
int post_checked(struct qp *qp, const struct ibv_send_wr *wr);
int post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int post_srq_recv(struct ibv_srq *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int inline_room_open(struct qp *qp, uint32_t pz, uint32_t count, uint32_t size); /* -errno */
void inline_room_close(struct qp *qp);

/* ---- domain.c ---- */
void domain_calls(struct verbs_context *verbs);

/* ---- mw.c ---- */
struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type);
int dealloc_mw(struct ibv_mw *base);
int bind_mw(struct ibv_qp *base, struct ibv_mw *mw, struct ibv_mw_bind *bind);
/* Of IBV_WR_BIND_MW and IBV_WR_LOCAL_INV: 0, or an errno. */
int check_bind(const struct qp *qp, const struct ibv_send_wr *wr);
void put_bind(struct qp *qp, struct one_wqe *wqe, const struct ibv_send_wr *wr);

/* ---- wr.c ---- */
int wr_setup(struct qp *qp, uint64_t send_ops);
void wr_free(struct qp *qp);

#endif
