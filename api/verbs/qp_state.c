/* SPDX-License-Identifier: BSD-3-Clause */
/* Transitions of queue pairs (IBTA vol. 1, 10.3.1), with their required and optional attributes. */
#include <string.h>

#include "verbs/refused.h"
#include "verbs/device.h"
#include "verbs/qp.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define QKEY_PRIVILEGED 0x80000000u

#define KNOWN_ACCESS \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static const struct transition transitions[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, 0},
	{IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS},
	{IBV_QPS_INIT, IBV_QPS_RTR,
	 IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
		 IBV_QP_MIN_RNR_TIMER,
	 IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX},
	{IBV_QPS_RTR, IBV_QPS_RTS,
	 IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
	 IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
		 IBV_QP_PATH_MIG_STATE},
	{IBV_QPS_RTS, IBV_QPS_RTS, 0,
	 IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
		 IBV_QP_PATH_MIG_STATE},
	{IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
	{IBV_QPS_SQD, IBV_QPS_SQD, 0,
	 IBV_QP_PORT | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		 IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS |
		 IBV_QP_PKEY_INDEX | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE},
	{IBV_QPS_SQD, IBV_QPS_RTS, 0,
	 IBV_QP_CUR_STATE | IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER |
		 IBV_QP_PATH_MIG_STATE},
};

/* UD.  A failed request moves the queue pair to ERR: the state SQE does not exist. */
static const struct transition ud_transitions[] = {
	{IBV_QPS_RESET, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0},
	{IBV_QPS_INIT, IBV_QPS_INIT, 0, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY},
	{IBV_QPS_INIT, IBV_QPS_RTR, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
	{IBV_QPS_RTR, IBV_QPS_RTS, IBV_QP_SQ_PSN, IBV_QP_CUR_STATE | IBV_QP_QKEY},
	{IBV_QPS_RTS, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
	{IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
	{IBV_QPS_SQD, IBV_QPS_SQD, 0, IBV_QP_PKEY_INDEX | IBV_QP_QKEY},
	{IBV_QPS_SQD, IBV_QPS_RTS, 0, IBV_QP_CUR_STATE | IBV_QP_QKEY},
};

/* Returns 0, or EINVAL for a transition that the standard does not have. */
static int
check_transition(const struct transition *table, size_t count, enum ibv_qp_state from, enum ibv_qp_state to,
		 int mask)
{
	/* Every state has a transition to RESET and to ERR. */
	const struct transition always = {from, to, 0, 0};
	const struct transition *found = to == IBV_QPS_RESET || to == IBV_QPS_ERR ? &always : NULL;

	mask &= ~IBV_QP_STATE;
	for (const struct transition *t = table; t < table + count && found == NULL; t++)
		if (t->from == from && t->to == to)
			found = t;
	if (found != NULL && (mask & found->required) == found->required &&
	    (mask & ~(found->required | found->optional)) == 0)
		return 0;
	return qp_explain_transition(from, to, found, mask);
}

static int
check_access(unsigned int flags)
{
	if ((flags & ~(unsigned int)KNOWN_ACCESS) == 0)
		return 0;
	return refused_because(EINVAL, "attr->qp_access_flags = %#x: unknown rights %#x; leave those out",
			       flags, flags & ~(unsigned int)KNOWN_ACCESS);
}

static int
check_path(const struct context *context, const struct ibv_ah_attr *ah)
{
	uint8_t addr[16];
	int error = refused_range("attr->ah_attr.port_num", ah->port_num, VERBS_PORT, VERBS_PORT);

	if (error == 0)
		error = refused_range("attr->ah_attr.grh.sgid_index", ah->grh.sgid_index, 0,
				      context->num_addrs - 1);
	if (error == 0 && ah->is_global == 0)
		error = refused_because(
			EINVAL, "attr->ah_attr.is_global = 0: peers are addressed by GID; give 1, and grh");
	if (error == 0 && device_address(&ah->grh.dgid, addr) != context->addr[ah->grh.sgid_index].family)
		error = refused_because(
			EINVAL,
			"attr->ah_attr.grh.dgid = no IPv%d address, unlike the GID of sgid_index %u; give a GID from ibv_query_gid at the peer, or another sgid_index",
			context->addr[ah->grh.sgid_index].family == AF_INET6 ? 6 : 4, ah->grh.sgid_index);
	return error;
}

/* Checks the values of all attributes; their limits are the same for every transition. */
static int
check_values(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const struct one_welcome *info = context_of(qp->base.context)->info;
	int64_t depth = info->limits.max_rd_atomic;
	int error = 0;

#define RANGE(bit, field, least, most)         \
	if (error == 0 && (mask & (bit)) != 0) \
	error = refused_range("attr->" #field, attr->field, least, most)
	RANGE(IBV_QP_PKEY_INDEX, pkey_index, 0, 0);
	RANGE(IBV_QP_PORT, port_num, VERBS_PORT, VERBS_PORT);
	if (error == 0 && (mask & IBV_QP_ACCESS_FLAGS) != 0)
		error = check_access(attr->qp_access_flags);
	if (error == 0 && (mask & (IBV_QP_ALT_PATH | IBV_QP_PATH_MIG_STATE)) != 0)
		error = refused_because(
			EOPNOTSUPP,
			"attr_mask = %#x: path migration is unsupported; leave IBV_QP_ALT_PATH and IBV_QP_PATH_MIG_STATE out",
			(unsigned int)mask);
	if (error == 0 && (mask & IBV_QP_AV) != 0)
		error = check_path(context_of(qp->base.context), &attr->ah_attr);
	if (error == 0 && (mask & IBV_QP_QKEY) != 0 && (attr->qkey & QKEY_PRIVILEGED) != 0)
		error = refused_because(
			EPERM,
			"attr->qkey = %#x: Q_Keys with the highest bit are for management; give one below 0x80000000",
			attr->qkey);
	RANGE(IBV_QP_PATH_MTU, path_mtu, IBV_MTU_256, device_mtu_code(info->mtu));
	RANGE(IBV_QP_DEST_QPN, dest_qp_num, 0, 0xffffff);
	RANGE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic, 0, depth);
	RANGE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic, 0, depth);
	RANGE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer, 0, 31);
	RANGE(IBV_QP_TIMEOUT, timeout, 0, 31);
	RANGE(IBV_QP_RETRY_CNT, retry_cnt, 0, 7);
	RANGE(IBV_QP_RNR_RETRY, rnr_retry, 0, 7);
#undef RANGE
	return error;
}

/* Refuses changes that the standard allows in SQD, but the data plane does not. */
static int
check_settled(const struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const struct ibv_qp_attr *own = &qp->attr;

	if (((mask & IBV_QP_AV) != 0 && memcmp(&attr->ah_attr, &own->ah_attr, sizeof(own->ah_attr)) != 0) ||
	    ((mask & IBV_QP_TIMEOUT) != 0 && attr->timeout != own->timeout) ||
	    ((mask & IBV_QP_RETRY_CNT) != 0 && attr->retry_cnt != own->retry_cnt) ||
	    ((mask & IBV_QP_RNR_RETRY) != 0 && attr->rnr_retry != own->rnr_retry) ||
	    ((mask & IBV_QP_MAX_QP_RD_ATOMIC) != 0 && attr->max_rd_atomic != own->max_rd_atomic) ||
	    ((mask & IBV_QP_MAX_DEST_RD_ATOMIC) != 0 && attr->max_dest_rd_atomic != own->max_dest_rd_atomic))
		return refused_because(
			EOPNOTSUPP,
			"attr_mask = %#x: SQD cannot change path, timeout, retries and depths; give their current values",
			(unsigned int)mask);
	return 0;
}

void
qp_set_peer(struct qp *qp, uint32_t qpn)
{
	qp->attr.dest_qp_num = qpn;
	/* Pairs with the load in fill_wc(). */
	atomic_store_explicit(&qp->name.peer_qpn, qpn, memory_order_relaxed);
}

static void
take_values(struct qp *qp, const struct ibv_qp_attr *from, int mask)
{
	struct ibv_qp_attr *to = &qp->attr;

#define TAKE(bit, field)         \
	if ((mask & (bit)) != 0) \
	to->field = from->field
	TAKE(IBV_QP_PKEY_INDEX, pkey_index);
	TAKE(IBV_QP_PORT, port_num);
	TAKE(IBV_QP_ACCESS_FLAGS, qp_access_flags);
	TAKE(IBV_QP_QKEY, qkey);
	TAKE(IBV_QP_AV, ah_attr);
	TAKE(IBV_QP_PATH_MTU, path_mtu);
	TAKE(IBV_QP_RQ_PSN, rq_psn);
	TAKE(IBV_QP_SQ_PSN, sq_psn);
	TAKE(IBV_QP_MAX_DEST_RD_ATOMIC, max_dest_rd_atomic);
	TAKE(IBV_QP_MAX_QP_RD_ATOMIC, max_rd_atomic);
	TAKE(IBV_QP_MIN_RNR_TIMER, min_rnr_timer);
	TAKE(IBV_QP_TIMEOUT, timeout);
	TAKE(IBV_QP_RETRY_CNT, retry_cnt);
	TAKE(IBV_QP_RNR_RETRY, rnr_retry);
#undef TAKE
	to->sq_psn &= 0xffffff;
	if ((mask & IBV_QP_DEST_QPN) != 0)
		qp_set_peer(qp, from->dest_qp_num);
}

/* Changes settings of a queue pair that serves its peer.  Returns 0 or a positive errno. */
static int
send_settings(struct qp *qp, const struct one_qp_settings *settings)
{
	struct one_msg msg = {.type = ONE_MSG_QP_SET};
	int error;

	if (settings->given == 0)
		return 0;
	msg.qp_set.qp = qp->ring.id;
	msg.qp_set.to = *settings;
	error = one_call(qp->ring.client, &msg, NULL, 0, NULL);
	return error == -ENOTCONN ? EINVAL : -error;
}

/* Adds to `settings` the stop or start of the send queue, for transitions between RTS and SQD. */
static void
set_stopped(enum ibv_qp_state from, enum ibv_qp_state to, const struct ibv_qp_attr *attr, int mask,
	    struct one_qp_settings *settings)
{
	if (from == to || (from != IBV_QPS_SQD && to != IBV_QPS_SQD))
		return;
	settings->given |= ONE_QP_SET_STOPPED;
	settings->stopped = to == IBV_QPS_SQD;
	settings->notify = (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY) != 0 && attr->en_sqd_async_notify != 0;
}

/* Applies the attributes that can change while the queue pair serves its peer. */
static int
change_settings(struct qp *qp, enum ibv_qp_state from, enum ibv_qp_state to, const struct ibv_qp_attr *attr,
		int mask)
{
	struct one_qp_settings settings = {0};

	if ((mask & IBV_QP_ACCESS_FLAGS) != 0) {
		settings.given |= ONE_QP_SET_ACCESS;
		settings.access = mem_remote_access(attr->qp_access_flags);
	}
	if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) {
		settings.given |= ONE_QP_SET_MIN_RNR_TIMER;
		settings.min_rnr_timer = attr->min_rnr_timer;
	}
	set_stopped(from, to, attr, mask, &settings);
	return send_settings(qp, &settings);
}

static int
to_rtr(struct qp *qp, struct ibv_qp_attr *attr)
{
	struct context *context = context_of(qp->base.context);
	struct one_msg msg = {.type = ONE_MSG_QP_RTR};
	struct one_qp_rtr *rtr = &msg.qp_rtr;
	int error;

	rtr->qp = qp->ring.id;
	rtr->peer_qpn = attr->dest_qp_num;
	rtr->recv_psn = attr->rq_psn & 0xffffff;
	rtr->access = mem_remote_access(attr->qp_access_flags);
	rtr->flow_label = attr->ah_attr.grh.flow_label & 0xfffff;
	rtr->path_mtu = (uint16_t)(128u << attr->path_mtu);
	rtr->family = device_address(&attr->ah_attr.grh.dgid, rtr->addr);
	rtr->source = attr->ah_attr.grh.sgid_index + 1u;
	rtr->traffic_class = attr->ah_attr.grh.traffic_class;
	rtr->hop_limit = attr->ah_attr.grh.hop_limit;
	rtr->rd_atomic_in = attr->max_dest_rd_atomic;
	rtr->min_rnr_timer = attr->min_rnr_timer;
	error = one_call(context->client, &msg, NULL, 0, NULL);
	if (error == -EHOSTUNREACH)
		refused_because(
			ETIMEDOUT,
			"attr->ah_attr.grh.dgid = silent: no host answers for this address; check the peer's port, and [route] in oneside.conf(5)");
	/* Like the kernel: ETIMEDOUT for a neighbour that does not answer. */
	return error == -EHOSTUNREACH ? ETIMEDOUT : -error;
}

static int
to_rts(struct qp *qp, struct ibv_qp_attr *attr)
{
	struct one_msg msg = {.type = ONE_MSG_QP_RTS};
	struct one_qp_rts *rts = &msg.qp_rts;
	int error;

	rts->qp = qp->ring.id;
	rts->send_psn = attr->sq_psn & 0xffffff;
	rts->timeout = attr->timeout;
	rts->retry_count = attr->retry_cnt;
	rts->rnr_retry = attr->rnr_retry;
	rts->rd_atomic_out = attr->max_rd_atomic;
	error = one_call(qp->ring.client, &msg, NULL, 0, NULL);
	return error == -ENOTCONN ? EINVAL : -error;
}

static int
to_error(struct qp *qp)
{
	return -one_call_id(qp->ring.client, ONE_MSG_QP_ERROR, qp->ring.id);
}

/* Drops all requests, and their completions that were not polled. */
static int
to_reset(struct qp *qp)
{
	int error = to_error(qp);

	if (error == 0)
		error = -one_qp_reset(&qp->ring);
	if (error != 0)
		return error;
	qp_lock_rings(qp);
	error = cq_purge(TO(cq, qp->base.send_cq), qp->ring.id);
	if (error == 0 && qp->base.recv_cq != qp->base.send_cq)
		error = cq_purge(TO(cq, qp->base.recv_cq), qp->ring.id);
	qp_unlock_rings(qp);
	return error;
}

static bool
is_expected(struct context *context, uint32_t peer_qpn, uint32_t psn)
{
	struct expected *peer;

	pthread_mutex_lock(&context->lock);
	peer = context->expected;
	while (peer != NULL && (peer->qpn != peer_qpn || peer->psn != psn))
		peer = peer->next;
	pthread_mutex_unlock(&context->lock);
	return peer != NULL;
}

/* RTR of a queue pair that the CM connects.  If the CM has connected it already, with all rights, restricts
 * the rights now; otherwise the CM takes the rights of that time when it connects. */
static int
rtr_by_cm(struct qp *qp, unsigned int access)
{
	struct one_qp_settings settings = {.access = mem_remote_access(access), .given = ONE_QP_SET_ACCESS};

	/* Acquire: pairs with the core's store, which precedes the event that the application got. */
	if (atomic_load_explicit(&qp->ring.shm->state, memory_order_acquire) == ONE_QP_IDLE)
		return 0;
	return send_settings(qp, &settings);
}

static int
rc_move(struct qp *qp, enum ibv_qp_state from, enum ibv_qp_state to, struct ibv_qp_attr *attr, int mask)
{
	bool by_cm = atomic_load_explicit(&qp->by_cm, memory_order_relaxed);
	int error;

	if (from == IBV_QPS_INIT && to == IBV_QPS_RTR) {
		struct ibv_qp_attr all = *attr;

		if ((mask & IBV_QP_ACCESS_FLAGS) == 0)
			all.qp_access_flags = qp->attr.qp_access_flags;
		by_cm = is_expected(context_of(qp->base.context), attr->dest_qp_num, attr->rq_psn);
		atomic_store_explicit(&qp->by_cm, by_cm, memory_order_relaxed);
		return by_cm ? rtr_by_cm(qp, all.qp_access_flags) : to_rtr(qp, &all);
	}
	if (from < IBV_QPS_RTR)
		return 0;
	error = from == IBV_QPS_SQD ? check_settled(qp, attr, mask) : 0;
	if (error == 0)
		error = change_settings(qp, from, to, attr, mask);
	if (error == 0 && from == IBV_QPS_RTR && to == IBV_QPS_RTS && !by_cm)
		error = to_rts(qp, attr);
	return error;
}

/* ---- datagrams ---- */

static int
ud_request(struct qp *qp, enum ibv_qp_state to, const struct ibv_qp_attr *attr, int mask)
{
	struct one_msg msg = {.type = ONE_MSG_QP_DATAGRAM};
	int error;

	msg.qp_datagram.qp = qp->ring.id;
	msg.qp_datagram.state = to == IBV_QPS_RTR ? ONE_DATAGRAM_RTR : ONE_DATAGRAM_RTS;
	msg.qp_datagram.qkey = (mask & IBV_QP_QKEY) != 0 ? attr->qkey : qp->attr.qkey;
	msg.qp_datagram.send_psn = ((mask & IBV_QP_SQ_PSN) != 0 ? attr->sq_psn : qp->attr.sq_psn) & 0xffffff;
	error = one_call(qp->ring.client, &msg, NULL, 0, NULL);
	return error == -ENOTCONN ? EINVAL : -error;
}

static int
ud_move(struct qp *qp, enum ibv_qp_state from, enum ibv_qp_state to, const struct ibv_qp_attr *attr, int mask)
{
	struct one_qp_settings settings = {0};
	int error;

	if (to == IBV_QPS_INIT)
		return 0;
	error = ud_request(qp, to, attr, mask);
	set_stopped(from, to, attr, mask, &settings);
	return error != 0 ? error : send_settings(qp, &settings);
}

static int
modify_locked(struct qp *qp, struct ibv_qp_attr *attr, int mask)
{
	enum ibv_qp_state from = qp_state(qp), to = (mask & IBV_QP_STATE) != 0 ? attr->qp_state : from;
	bool ud = qp->base.qp_type == IBV_QPT_UD;
	int error;

	if ((mask & IBV_QP_CUR_STATE) != 0 && attr->cur_qp_state != from)
		return refused_range("attr->cur_qp_state", attr->cur_qp_state, from, from);
	error = ud ? check_transition(ud_transitions, COUNT(ud_transitions), from, to, mask)
		   : check_transition(transitions, COUNT(transitions), from, to, mask);
	if (error == 0)
		error = check_values(qp, attr, mask);
	if (error != 0)
		return error;
	if (to == IBV_QPS_RESET)
		error = from == IBV_QPS_RESET ? 0 : to_reset(qp);
	else if (to == IBV_QPS_ERR)
		error = to_error(qp);
	else
		error = ud ? ud_move(qp, from, to, attr, mask) : rc_move(qp, from, to, attr, mask);
	if (error != 0)
		return error;
	take_values(qp, attr, mask);
	atomic_store_explicit(&qp->state, to, memory_order_relaxed);
	return 0;
}

int
ibv_modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask)
{
	struct qp *qp = TO(qp, base);
	int error;

	lock_take(&qp->send_lock);
	lock_take(&qp->recv_lock);
	error = modify_locked(qp, attr, mask);
	if (error == 0)
		base->state = (enum ibv_qp_state)atomic_load_explicit(&qp->state, memory_order_relaxed);
	lock_drop(&qp->recv_lock);
	lock_drop(&qp->send_lock);
	return refused_explain("ibv_modify_qp", error == ECONNRESET ? EIO : error, "qp", base);
}
