/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates, queries and destroys queue pairs.  qp_state.c has the transitions, post.c and wr.c the requests.
 */
#include <stdlib.h>
#include <string.h>

#include "client/lines.h"
#include "verbs/refused.h"
#include "verbs/device.h"
#include "verbs/event.h"
#include "verbs/qp.h"
#include "verbs/srq.h"

#define KNOWN_MASK (IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS)

void
qp_lock_rings(struct qp *qp)
{
	struct cq *a = TO(cq, qp->base.send_cq), *b = TO(cq, qp->base.recv_cq);

	cq_lock(a < b ? a : b);
	if (a != b)
		cq_lock(a < b ? b : a);
}

void
qp_unlock_rings(struct qp *qp)
{
	struct cq *a = TO(cq, qp->base.send_cq), *b = TO(cq, qp->base.recv_cq);

	cq_unlock(a);
	if (a != b)
		cq_unlock(b);
}

enum ibv_qp_state
qp_state(struct qp *qp)
{
	uint32_t state = atomic_load_explicit(&qp->state, memory_order_relaxed);

	/* INIT can become ERR as well, when a connection is refused.  Acquire: completions from before the
	 * error are visible in the rings. */
	if (state != IBV_QPS_RESET &&
	    atomic_load_explicit(&qp->ring.shm->state, memory_order_acquire) == ONE_QP_ERROR)
		return IBV_QPS_ERR;
	return state;
}

static int
check_cap(const struct one_limits *limits, const struct ibv_qp_cap *cap, bool has_srq)
{
	uint32_t sges = limits->max_sge < ONE_MAX_SGE ? limits->max_sge : ONE_MAX_SGE;
	int error = refused_range("init_attr->cap.max_send_wr", cap->max_send_wr, 0, limits->max_qp_wr);

	if (error == 0)
		error = refused_range("init_attr->cap.max_send_sge", cap->max_send_sge, 0, sges);
	if (error == 0)
		error = refused_range("init_attr->cap.max_inline_data", cap->max_inline_data, 0,
				      VERBS_INLINE_MAX);
	if (error == 0 && !has_srq)
		error = refused_range("init_attr->cap.max_recv_wr", cap->max_recv_wr, 0, limits->max_qp_wr);
	if (error == 0 && !has_srq)
		error = refused_range("init_attr->cap.max_recv_sge", cap->max_recv_sge, 0, sges);
	return error;
}

static int
check_init(const struct context *context, const struct ibv_qp_init_attr_ex *init)
{
	if ((init->comp_mask & ~(uint32_t)KNOWN_MASK) != 0)
		return refused_because(EOPNOTSUPP,
				       "init_attr->comp_mask = %#x: %#x is unsupported; leave it out",
				       init->comp_mask, init->comp_mask & ~(uint32_t)KNOWN_MASK);
	if (init->qp_type != IBV_QPT_RC && init->qp_type != IBV_QPT_UD)
		return refused_because(
			EOPNOTSUPP,
			"init_attr->qp_type = %u: supported are IBV_QPT_RC and IBV_QPT_UD; give one of these",
			(unsigned int)init->qp_type);
	if ((init->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && init->create_flags != 0)
		return refused_because(EOPNOTSUPP, "init_attr->create_flags = %#x: unsupported; give 0",
				       init->create_flags);
	if ((init->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || init->pd == NULL)
		return refused_because(EINVAL, "pd = 0: a queue pair needs a PD; give one from ibv_alloc_pd");
	if (init->send_cq == NULL || init->recv_cq == NULL)
		return refused_because(
			EINVAL, "init_attr->%s = 0: a queue pair needs both CQs; give one from ibv_create_cq",
			init->send_cq == NULL ? "send_cq" : "recv_cq");
	return check_cap(&context->info->limits, &init->cap, init->srq != NULL);
}

static int
make_ring(struct context *context, struct qp *qp, const struct ibv_qp_init_attr_ex *init)
{
	const struct ibv_qp_cap *cap = &init->cap;
	uint32_t depth = context->info->limits.max_rd_atomic;
	struct one_qp_create create = {
		.pz = TO(pd, init->pd)->id,
		.send_cq = TO(cq, init->send_cq)->ring.id,
		.recv_cq = TO(cq, init->recv_cq)->ring.id,
		.srq = init->srq != NULL ? TO(srq, init->srq)->ring.id : 0,
		.max_send_wr = cap->max_send_wr,
		.max_recv_wr = init->srq != NULL ? 0 : cap->max_recv_wr,
		.max_send_sge = cap->max_send_sge == 0 ? 1 : cap->max_send_sge,
		.max_recv_sge = cap->max_recv_sge == 0 || init->srq != NULL ? 1 : cap->max_recv_sge,
		.rd_atomic_in = depth,
		.rd_atomic_out = depth,
		/* The data plane's event becomes IBV_EVENT_QP_LAST_WQE_REACHED. */
		.flags = init->srq != NULL ? ONE_QP_NOTIFY_END : 0,
	};

	if (init->qp_type == IBV_QPT_UD)
		create.flags |= ONE_QP_UD;
	qp->create = create;
	return one_qp_create(context->client, &create, &qp->ring);
}

static void
fill_qp(struct qp *qp, struct ibv_context *base, struct ibv_qp_init_attr_ex *init)
{
	init->cap.max_send_sge += init->cap.max_send_sge == 0;
	init->cap.max_recv_sge += init->cap.max_recv_sge == 0 && init->srq == NULL;
	init->cap.max_inline_data = qp->room.base != NULL ? qp->room.size : ONE_INLINE_MAX;
	/* Both structures have the same layout up to comp_mask. */
	memcpy(&qp->init, init, offsetof(struct ibv_qp_init_attr_ex, comp_mask));
	qp->attr.cap = init->cap;
	qp->attr.qp_state = IBV_QPS_RESET;
	qp->base.context = base;
	qp->base.qp_context = init->qp_context;
	qp->base.pd = init->pd;
	qp->base.send_cq = init->send_cq;
	qp->base.recv_cq = init->recv_cq;
	qp->base.srq = init->srq;
	qp->base.handle = qp->ring.id;
	qp->base.qp_num = qp->ring.qpn;
	qp->base.state = IBV_QPS_RESET;
	qp->name.element.object = &qp->base;
	qp->name.element.id = qp->ring.id;
	qp->name.qpn = qp->ring.qpn;
	qp->name.ring = &qp->ring;
	qp->base.qp_type = init->qp_type;
	pthread_mutex_init(&qp->base.mutex, NULL);
	pthread_cond_init(&qp->base.cond, NULL);
}

static void
count_users(struct qp *qp, uint32_t by)
{
	atomic_fetch_add_explicit(&TO(pd, qp->base.pd)->users, by, memory_order_relaxed);
	atomic_fetch_add_explicit(&TO(cq, qp->base.send_cq)->users, by, memory_order_relaxed);
	atomic_fetch_add_explicit(&TO(cq, qp->base.recv_cq)->users, by, memory_order_relaxed);
	if (qp->base.srq != NULL)
		atomic_fetch_add_explicit(&TO(srq, qp->base.srq)->users, by, memory_order_relaxed);
}

static void
qp_release(struct qp *qp)
{
	inline_room_close(qp);
	wr_free(qp);
	free(qp);
}

static int
qp_make(struct context *context, struct qp *qp, const struct ibv_qp_init_attr_ex *init)
{
	const struct ibv_qp_cap *cap = &init->cap;
	int error = make_ring(context, qp, init);

	if (error == 0 && cap->max_inline_data > ONE_INLINE_MAX && cap->max_send_wr > 0) {
		error = inline_room_open(qp, TO(pd, init->pd)->id, cap->max_send_wr, cap->max_inline_data);
		if (error != 0)
			one_qp_free(&qp->ring);
	}
	return error == -EDQUOT ? ENOMEM : -error;
}

static struct ibv_qp *
create_qp(const char *function, struct ibv_context *base, struct ibv_qp_init_attr_ex *init)
{
	struct context *context = context_of(base);
	int error = check_init(context, init);
	struct qp *qp = error == 0 ? one_zalloc_lines(sizeof(*qp)) : NULL;

	if (error == 0)
		error = qp == NULL ? ENOMEM : qp_make(context, qp, init);
	if (error != 0) {
		if (qp != NULL)
			qp_release(qp);
		return refused_null(function, error, "context", base);
	}
	fill_qp(qp, base, init);
	count_users(qp, 1);
	qp_lock_rings(qp);
	atomic_store_explicit(&context->qps[qp->ring.id % ONE_QPS_MAX], &qp->name, memory_order_relaxed);
	qp_unlock_rings(qp);
	if ((init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0) {
		error = wr_setup(qp, init->send_ops_flags);
		if (error != 0) {
			ibv_destroy_qp(&qp->base);
			return refused_null(function, error, "context", base);
		}
	}
	return &qp->base;
}

struct ibv_qp *
qp_create_ex(struct ibv_context *base, struct ibv_qp_init_attr_ex *init)
{
	return create_qp("ibv_create_qp_ex", base, init);
}

struct ibv_qp *
ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct ibv_qp_init_attr_ex full = {.comp_mask = IBV_QP_INIT_ATTR_PD, .pd = pd};
	struct ibv_qp *qp;

	/* Both structures have the same layout up to comp_mask. */
	memcpy(&full, init, offsetof(struct ibv_qp_init_attr_ex, comp_mask));
	qp = create_qp("ibv_create_qp", pd->context, &full);
	if (qp != NULL)
		init->cap = full.cap;
	return qp;
}

struct ibv_qp_ex *
ibv_qp_to_qp_ex(struct ibv_qp *base)
{
	struct qp *qp = TO(qp, base);

	return qp->drafts != NULL ? &qp->ex : NULL;
}

/* True if the CM has connected the queue pair and the data plane shows the connection's values. */
static bool
is_shown(const struct qp *qp)
{
	const struct one_qp_shm *shm = qp->ring.shm;
	/* Acquire: pairs with the core's release store of the state, which follows all other values. */
	uint32_t state = atomic_load_explicit(&shm->state, memory_order_acquire);

	return atomic_load_explicit(&qp->by_cm, memory_order_relaxed) && state >= ONE_QP_CONNECTED &&
	       shm->family != 0;
}

static void
take_shown(const struct one_qp_shm *shm, struct ibv_qp_attr *attr)
{
	struct ibv_ah_attr *ah = &attr->ah_attr;

	attr->dest_qp_num = shm->remote_qpn;
	attr->sq_psn = shm->send_psn;
	attr->rq_psn = shm->recv_psn;
	attr->path_mtu = device_mtu_code(shm->path_mtu);
	attr->max_rd_atomic = (uint8_t)shm->rd_atomic_out;
	attr->max_dest_rd_atomic = (uint8_t)shm->rd_atomic_in;
	attr->timeout = shm->timeout;
	attr->min_rnr_timer = shm->min_rnr_timer;
	attr->retry_cnt = shm->retry_count;
	attr->rnr_retry = shm->rnr_retry;
	*ah = (struct ibv_ah_attr){.is_global = 1, .port_num = VERBS_PORT};
	ah->grh.sgid_index = shm->local != 0 ? shm->local - 1 : 0;
	ah->grh.flow_label = shm->flow_label;
	ah->grh.traffic_class = shm->traffic_class;
	ah->grh.hop_limit = shm->hop_limit;
	gid_of_address(shm->family, shm->remote_addr, &ah->grh.dgid);
}

int
ibv_query_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	struct qp *qp = TO(qp, base);

	*attr = qp->attr;
	if (is_shown(qp))
		take_shown(qp->ring.shm, attr);
	attr->qp_state = qp_state(qp);
	attr->cur_qp_state = attr->qp_state;
	/* Acquire: once the queue is drained, its completions are visible in the rings. */
	attr->sq_draining = attr->qp_state == IBV_QPS_SQD &&
			    atomic_load_explicit(&qp->ring.shm->sq_draining, memory_order_acquire) != 0;
	*init = qp->init;
	if ((mask & IBV_QP_STATE) != 0)
		base->state = attr->qp_state;
	return 0;
}

/* Hides the queue pair from threads that poll its CQs.  Compares before it clears: after the data plane freed
 * the id, another thread may have created a queue pair with the same index. */
static void
forget_name(struct context *context, struct qp *qp)
{
	struct qp_name *own = &qp->name;

	qp_lock_rings(qp);
	atomic_compare_exchange_strong_explicit(&context->qps[qp->ring.id % ONE_QPS_MAX], &own, NULL,
						memory_order_relaxed, memory_order_relaxed);
	qp_unlock_rings(qp);
}

int
ibv_destroy_qp(struct ibv_qp *base)
{
	struct qp *qp = TO(qp, base);
	struct context *context = context_of(base->context);
	int error = one_qp_free(&qp->ring);

	if (error != 0 && error != -ECONNRESET)
		return refused_explain("ibv_destroy_qp", -error, "qp", base);
	forget_name(context, qp);
	events_forget(context, &qp->name.element);
	element_acknowledged(&base->mutex, &base->cond, &base->events_completed,
			     qp->name.element.async_events);
	count_users(qp, (uint32_t)-1);
	pthread_cond_destroy(&base->cond);
	pthread_mutex_destroy(&base->mutex);
	qp_release(qp);
	return 0;
}

void
qp_fork_child(struct qp *qp)
{
	qp->send_lock = qp->recv_lock = (struct lock){.word = 0};
	pthread_mutex_init(&qp->base.mutex, NULL);
	pthread_cond_init(&qp->base.cond, NULL);
	wr_fork_child(qp);
}

int
ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
	/* The data plane places bytes in address order, the last byte of a write last. */
	return flags == 0 && (op == IBV_WR_RDMA_WRITE || op == IBV_WR_RDMA_WRITE_WITH_IMM);
}
