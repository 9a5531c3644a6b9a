/* SPDX-License-Identifier: BSD-3-Clause */
/* Life of a queue pair, the pool of work nodes, and dispatch of packets in and out. */
#include "dataplane/base/state.h"
#include "sg_list.h"

#include <string.h>

#define NODE_ALIGN 64u

size_t
rc_pool_size(uint32_t count)
{
	return NODE_ALIGN + (1 + (size_t)count) * sizeof(struct rc_node);
}

struct rc_pool *
rc_pool_init(void *memory, uint32_t count)
{
	uintptr_t start = ((uintptr_t)memory + NODE_ALIGN - 1) & ~(uintptr_t)(NODE_ALIGN - 1);
	struct rc_pool *pool = (struct rc_pool *)start;
	struct rc_node *node = (struct rc_node *)(start + sizeof(struct rc_node));

	pool->free = NULL;
	pool->available = 0;
	pool->count = count;
	for (uint32_t i = count; i-- > 0;)
		rc_node_put(pool, &node[i]);
	return pool;
}

size_t
rc_qp_size(void)
{
	return sizeof(struct rc_qp);
}

void
rc_init(struct rc_qp *qp, struct rc_env *env, uint32_t lane, void *user)
{
	memset(qp, 0, sizeof(*qp));
	qp->env = env;
	qp->user = user;
	qp->party.user = user;
	qp->party.lane = lane;
	qp->state = RC_RESET;
	qp->req.timer = RC_NEVER;
	qp->req.rnr_until = RC_NEVER;
}

void *
rc_user(const struct rc_qp *qp)
{
	return qp->user;
}

enum rc_state
rc_state(const struct rc_qp *qp)
{
	return qp->state;
}

const char *const rc_state_name[] = {
	[RC_RESET] = "RESET",
	[RC_RTR] = "RTR",
	[RC_RTS] = "RTS",
	[RC_ERROR] = "ERROR",
};

const uint16_t rc_state_next[] = {
	[RC_RESET] = STATE_TO(RC_RESET) | STATE_TO(RC_RTR) | STATE_TO(RC_RTS) | STATE_TO(RC_ERROR),
	[RC_RTR] = STATE_TO(RC_RESET) | STATE_TO(RC_RTS) | STATE_TO(RC_ERROR),
	[RC_RTS] = STATE_TO(RC_RESET) | STATE_TO(RC_ERROR),
	[RC_ERROR] = STATE_TO(RC_RESET) | STATE_TO(RC_ERROR), /* flushed again */
};

bool
rc_packs(const struct rc_qp *qp)
{
	return qp->packed;
}

/* The only writer of the state after rc_init(). */
static void
set_state(struct rc_qp *qp, enum rc_state to, const char *why)
{
	static const struct state_machine machine = {"RC queue pair", rc_state_name, rc_state_next};

	state_transition(&machine, qp->qpn, qp->state, to, why);
	qp->state = (uint8_t)to;
}

static uint16_t
allowed_mtu(uint16_t mtu)
{
	if (mtu < RC_MTU_MIN)
		return RC_MTU_MIN;
	return mtu < RC_MTU_MAX ? mtu / RC_MTU_UNIT * RC_MTU_UNIT : RC_MTU_MAX;
}

void
rc_set_path(struct rc_qp *qp, const struct wire_path *path)
{
	qp->local = path->src;
	qp->remote = path->dst;
	wire_template_init(&qp->template, path);
	qp->head.shape = 0;
}

void
rc_set_requester(struct rc_qp *qp, const struct rc_attr *attr)
{
	struct rc_requester *rq = &qp->req;

	rq->una = attr->send_psn & RC_PSN_MASK;
	rq->snd = rq->una;
	rq->max = rq->una;
	rq->post = rq->una;
	rq->rd_max = attr->rd_atomic_out;
	rq->retry_count = attr->retry_count & 7;
	rq->rnr_retry = attr->rnr_retry & 7;
	rq->forever = (attr->timeout & 31) == 0;
	rq->limit = rq->forever ? RC_RTO_UNBOUNDED : 4096ull << (attr->timeout & 31);
}

void
rc_set_responder(struct rc_qp *qp, const struct rc_attr *attr)
{
	qp->access = attr->access;
	qp->rsp.min_rnr_timer = attr->min_rnr_timer & 31;
}

void
rc_connect(struct rc_qp *qp, const struct rc_attr *attr, enum rc_state state)
{
	struct rc_requester *rq = &qp->req;
	struct rc_responder *rs = &qp->rsp;

	rc_reset(qp);
	qp->qpn = attr->qpn;
	qp->peer_qpn = attr->peer_qpn;
	qp->pz = attr->pz;
	rc_set_responder(qp, attr);
	qp->mtu = allowed_mtu(attr->path_mtu);
	qp->selective = attr->selective && qp->env->scoreboards != NULL;
	qp->peer_selects = qp->selective;
	qp->packed = attr->packed && qp->selective;
	rc_set_path(qp, &attr->path);
	qp->udp_port = attr->path.udp_peer_port != 0 ? attr->path.udp_peer_port : attr->path.udp_src_port;
	rc_hello_begin(qp, attr->hello_port);

	rc_set_requester(qp, attr);
	rq->cwnd_max = attr->oneside_peer ? RC_CWND_MAX : RC_CWND_OTHER;
	rq->cwnd = (uint16_t)(RC_CWND_START / qp->mtu);
	if (rq->cwnd > rq->cwnd_max)
		rq->cwnd = rq->cwnd_max;
	rq->threshold = rq->cwnd_max;
	rq->tlp_allowed = qp->selective;
	/* A peer connected out of band has announced nothing yet: assume that it is like this end. */
	if (attr->peer_yields || qp->env->yields)
		rq->min_rto = RC_MIN_RTO_MAX;

	rs->epsn = attr->recv_psn & RC_PSN_MASK;
	rs->rd_max = attr->rd_atomic_in < RC_RD_ATOMIC_MAX ? attr->rd_atomic_in : RC_RD_ATOMIC_MAX;
	rs->resources = 1;
	/* Some peers round the granted depth up to a power of two. */
	while (rs->resources < rs->rd_max)
		rs->resources = (uint8_t)(rs->resources * 2);
	set_state(qp, state, "connected");
}

void
rc_set_rts(struct rc_qp *qp)
{
	if (qp->state == RC_RTR)
		set_state(qp, RC_RTS, "established");
}

bool
rc_idle(const struct rc_qp *qp)
{
	return qp->req.head == NULL && qp->req.landing == NULL;
}

uint32_t
rc_heard(const struct rc_qp *qp)
{
	return qp->req.una + qp->rsp.epsn;
}

uint32_t
rc_refusal(const struct rc_qp *qp)
{
	const struct rc_responder *rs = &qp->rsp;

	return rs->closed & RC_CLOSED_FATAL ? (uint32_t)rs->syndrome << 24 | (rs->reply_psn & RC_PSN_MASK)
					    : 0;
}

uint32_t
rc_unacknowledged(const struct rc_qp *qp)
{
	return qp->unacknowledged;
}

void
rc_refused(struct rc_qp *qp, uint32_t refusal, uint64_t now)
{
	const struct wire_packet nak = {.opcode = WIRE_ACKNOWLEDGE,
					.syndrome = (uint8_t)(refusal >> 24),
					.psn = refusal & RC_PSN_MASK};

	if (nak.syndrome >= RC_NAK_INVALID && nak.syndrome <= RC_NAK_OPERATION)
		rc_response_input(qp, &nak, now);
}

uint32_t
rc_flight(const struct rc_qp *qp)
{
	return qp->req.snd - qp->req.una;
}

bool
rc_goes_on(const struct rc_qp *qp)
{
	const struct rc_requester *rq = &qp->req;

	return qp->state == RC_RTS && rq->cur != NULL && rq->rnr_until == RC_NEVER && !rq->recovering &&
	       rq->backoff == 0;
}

uint32_t
rc_posted(const struct rc_qp *qp)
{
	return qp->req.post;
}

bool
rc_has_sent(const struct rc_qp *qp, uint32_t posted)
{
	return (int32_t)(qp->req.max - posted) >= 0;
}

/* Count each CNP alike, dropped or not: so the counter does not reveal which queue pair numbers exist. */
static RC_COLD void
drop_packet(struct rc_qp *qp, const struct wire_packet *packet, enum rc_counter why)
{
	rc_count(qp, packet->opcode == WIRE_CNP ? RC_COUNT_CNP_RECEIVED : why);
}

static RC_COLD void
other_input(struct rc_qp *qp, const struct wire_packet *packet)
{
	if (packet->opcode == WIRE_CNP) {
		rc_count(qp, RC_COUNT_CNP_RECEIVED);
		if (!rc_hello_input(qp, packet))
			rc_congestion(qp);
	} else {
		rc_count(qp, RC_COUNT_DROP_OPCODE);
	}
}

/* True if the frame has the two addresses of the connection. Peers with selective repeat derive their UDP
 * source port from the flow label of the REQ, which is random, or have drawn it for the peer
 * (doc/steering.md). A host that does not see the frames has to guess up to 14 bits more, so forged packets
 * are not held. */
static inline bool
is_of_connection(const struct rc_qp *qp, const struct wire_packet *packet)
{
	return wire_addr_equal(&packet->src, &qp->remote) && wire_addr_equal(&packet->dst, &qp->local) &&
	       (!qp->selective || packet->udp_src_port == qp->udp_port);
}

void
rc_input(struct rc_qp *qp, const struct wire_packet *packet, uint64_t now)
{
	rc_run_end(qp->env);
	if (unlikely(qp->state != RC_RTS && qp->state != RC_RTR)) {
		drop_packet(qp, packet, RC_COUNT_DROP_STATE);
		return;
	}
	if (unlikely(!is_of_connection(qp, packet))) {
		drop_packet(qp, packet, RC_COUNT_DROP_ADDRESS);
		return;
	}
	if (unlikely(qp->hello_port != 0))
		rc_hello_recognize(qp, packet, now);
	if (unlikely(packet->opcode >= 32)) {
		if ((qp->packed || qp->hello_port != 0) && rc_is_packed(packet))
			rc_packed_input(qp, packet, now);
		else
			other_input(qp, packet);
		return;
	}
	if (unlikely(packet->congestion))
		rc_marked(qp, rc_request_kind[packet->opcode] == 0, now);
	if (rc_request_kind[packet->opcode] != 0)
		rc_request_input(qp, packet, now);
	else if (packet->opcode >= WIRE_READ_RESPONSE_FIRST && packet->opcode <= WIRE_ATOMIC_ACKNOWLEDGE)
		rc_response_input(qp, packet, now);
	else
		rc_count(qp, RC_COUNT_DROP_OPCODE);
}

uint32_t
rc_output(struct rc_qp *qp, uint32_t budget, uint64_t now)
{
	uint32_t n = 0;

	if (unlikely(qp->state != RC_RTS && qp->state != RC_RTR))
		return 0;
	if ((qp->rsp.pending | qp->rsp.reply | (uint32_t)qp->rsp.cnp_due) != 0)
		n = rc_reply_output(qp, budget, now);
	if (qp->state == RC_RTS && qp->req.ready)
		n += rc_request_output(qp, budget - n, now);
	return n;
}

bool
rc_wants_output(const struct rc_qp *qp)
{
	const struct rc_responder *rs = &qp->rsp;

	if (unlikely(rs->stalled)) /* replies wait behind the one whose payload is not there yet */
		return (rs->cnp_due | qp->req.ready) != 0;
	return (rs->pending | rs->reply | (uint32_t)rs->cnp_due | (uint32_t)qp->req.ready) != 0;
}

/* Cancel timers, replies and output; the work stays in the list. */
static void
stop_output(struct rc_qp *qp)
{
	struct rc_requester *rq = &qp->req;
	struct rc_responder *rs = &qp->rsp;

	rq->cur = NULL;
	rq->ready = false;
	rq->bind_started = false;
	rq->timer = RC_NEVER;
	rq->rnr_until = RC_NEVER;
	rs->pending = 0;
	rs->reply = RC_REPLY_NONE;
	rs->cnp_due = 0;
	rs->stalled = false;
	rc_scoreboards_drop(qp);
}

/* Complete all work in order: `node` with `status`, the rest as FLUSHED. */
static void
flush_work(struct rc_qp *qp, const struct rc_node *node, enum one_status status)
{
	struct rc_responder *rs = &qp->rsp;
	enum one_status receive = rs->closed & RC_CLOSED_FATAL ? rs->recv_status : ONE_STATUS_FLUSHED;

	set_state(qp, RC_ERROR, "flushed");
	stop_output(qp);
	while (qp->req.landing != NULL)
		rc_retire_landed(qp, qp->req.landing == node ? status : ONE_STATUS_FLUSHED);
	while (qp->req.head != NULL)
		rc_retire(qp, qp->req.head == node ? status : ONE_STATUS_FLUSHED);
	rc_land_flush(qp, &receive);
	bounce_leave(&qp->party);
	if (rs->recv_held) {
		struct completion c = {
			.cookie = rs->recv.cookie,
			.type = ONE_CQE_RECV,
			.status = (uint8_t)receive,
			.op = ONE_OP_RECV,
			.wqe_flags = rs->recv.flags,
		};

		rc_recv_complete(qp, &c);
	}
}

RC_COLD void
rc_fail(struct rc_qp *qp, struct rc_node *node, enum one_status status, enum rc_error error)
{
	flush_work(qp, node, status);
	qp->env->failed(qp->env, qp, error);
}

void
rc_flush(struct rc_qp *qp)
{
	flush_work(qp, NULL, ONE_STATUS_FLUSHED);
}

void
rc_reset(struct rc_qp *qp)
{
	struct rc_requester *rq = &qp->req;
	struct rc_node *node;

	rc_scoreboards_drop(qp);
	while ((node = rq->landing) != NULL) {
		rq->landing = node->next;
		rc_node_put(qp->env->pool, node);
	}
	while ((node = rq->head) != NULL) {
		rq->head = node->next;
		rc_node_put(qp->env->pool, node);
	}
	bounce_leave(&qp->party);
	if (qp->state != RC_RESET)
		set_state(qp, RC_RESET, "reset");
	rc_init(qp, qp->env, qp->party.lane, qp->user);
}
