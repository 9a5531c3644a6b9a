/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work requests to request packets.
 *
 * All work posted and not completed is one list, oldest first; `cur` and `snd` are the position of sending in
 * it. No other state is kept per packet: its place in the message follows from its PSN, so going back only
 * sets these two. Whatever stops sending (window, fence, READ limit, RNR wait) clears `ready`; whatever may
 * end the stop sets `ready` again.
 */
#include "sg_list.h"

#include <errno.h>
#include <string.h>

const uint8_t rc_opcode[ONE_OP_MAX][RC_PLACES] = {
	[ONE_OP_SEND] = {WIRE_SEND_ONLY, WIRE_SEND_FIRST, WIRE_SEND_MIDDLE, WIRE_SEND_LAST},
	[ONE_OP_SEND_IMM] = {WIRE_SEND_ONLY_IMM, WIRE_SEND_FIRST, WIRE_SEND_MIDDLE, WIRE_SEND_LAST_IMM},
	[ONE_OP_SEND_INV] = {WIRE_SEND_ONLY_INV, WIRE_SEND_FIRST, WIRE_SEND_MIDDLE, WIRE_SEND_LAST_INV},
	[ONE_OP_WRITE] = {WIRE_WRITE_ONLY, WIRE_WRITE_FIRST, WIRE_WRITE_MIDDLE, WIRE_WRITE_LAST},
	[ONE_OP_WRITE_IMM] = {WIRE_WRITE_ONLY_IMM, WIRE_WRITE_FIRST, WIRE_WRITE_MIDDLE, WIRE_WRITE_LAST_IMM},
	[ONE_OP_READ] = {WIRE_READ_REQUEST},
	[ONE_OP_FETCH_ADD] = {WIRE_FETCH_ADD},
	[ONE_OP_CMP_SWAP] = {WIRE_COMPARE_SWAP},
};

/* Check the form of the work request. */
static enum one_status
check_form(const struct rc_qp *qp, const struct work *work)
{
	if (work->status != ONE_STATUS_SUCCESS)
		return work->status;
	if (work->op < ONE_OP_SEND || work->op > ONE_OP_BIND || work->num_sge > ONE_MAX_SGE)
		return ONE_STATUS_LOCAL_QP;
	if ((work->flags & ONE_WQE_INLINE) != 0 &&
	    (work->op > ONE_OP_WRITE_IMM || work->length > ONE_INLINE_MAX))
		return ONE_STATUS_LOCAL_QP;
	if (rc_is_rd(work->op) && (qp->req.rd_max == 0 || (work->op != ONE_OP_READ && work->num_sge != 1)))
		return ONE_STATUS_LOCAL_QP;
	if (work->op <= ONE_OP_READ && work->length > ONE_MESSAGE_MAX)
		return ONE_STATUS_LOCAL_LENGTH;
	return ONE_STATUS_SUCCESS;
}

static __attribute__((noinline)) uint32_t
plan_psns(const struct rc_qp *qp, const struct work *work, enum one_status *status)
{
	*status = check_form(qp, work);
	if (*status != ONE_STATUS_SUCCESS || work->op == ONE_OP_BIND)
		return 0;
	return work->op >= ONE_OP_FETCH_ADD ? 1 : rc_packets(qp, work->length);
}

/* True if the work request is valid and takes one packet. */
static inline bool
is_short(const struct rc_qp *qp, const struct work *work)
{
	return (uint8_t)(work->op - ONE_OP_SEND) <= ONE_OP_WRITE_IMM - ONE_OP_SEND &&
	       work->status == ONE_STATUS_SUCCESS && work->num_sge <= ONE_MAX_SGE &&
	       (work->flags & ONE_WQE_INLINE) == 0 && work->length <= qp->mtu;
}

uint32_t
rc_plan_psns(const struct rc_qp *qp, const struct work *work, enum one_status *status)
{
	*status = ONE_STATUS_SUCCESS;
	return is_short(qp, work) ? 1 : plan_psns(qp, work, status);
}

static void
copy_work(struct work *to, const struct work *from)
{
	memcpy(to, from, offsetof(struct work, sge));
	if (from->flags & ONE_WQE_INLINE)
		memcpy(to->inline_data, from->inline_data, sizeof(to->inline_data));
	else if (likely(from->num_sge <= 1)) /* includes an atomic's operands */
		memcpy(to->sge, from->sge, 2 * sizeof(to->sge[0]));
	else
		memcpy(to->sge, from->sge, sizeof(to->sge));
}

static inline bool
may_post(const struct rc_qp *qp)
{
	const struct rc_pool *pool = qp->env->pool;

	return likely(qp->req.posted < RC_POSTED_MAX && !rc_pool_denies(pool, qp->req.posted) &&
		      pool->free != NULL);
}

struct work *
rc_next_work(struct rc_qp *qp)
{
	return may_post(qp) ? &qp->env->pool->free->work : NULL;
}

int
rc_post(struct rc_qp *qp, const struct work *work, uint64_t now)
{
	struct rc_requester *rq = &qp->req;
	struct rc_pool *pool = qp->env->pool;
	enum one_status status = ONE_STATUS_SUCCESS;
	struct rc_node *node;
	uint32_t psns = 1;

	if (unlikely(qp->state != RC_RTS))
		return -ENOTCONN;
	/* Work in the place that rc_next_work() returned has passed may_post(). */
	if (!(likely(pool->free != NULL) && likely(work == &pool->free->work)) && !may_post(qp))
		return -EAGAIN;
	if (!likely(is_short(qp, work)))
		psns = plan_psns(qp, work, &status);
	if (unlikely(rq->post - rq->una > RC_POSTED_PSNS - psns))
		return -EAGAIN;
	node = rc_node_get(pool);
	if (work != &node->work)
		copy_work(&node->work, work);
	node->work.status = (uint8_t)status;
	node->next = NULL;
	node->first = rq->post;
	node->end = rq->post + psns;
	rq->post = node->end;
	if (rq->head == NULL) {
		rq->head = node;
		rq->progress_at = now;
	} else {
		rq->tail->next = node;
	}
	rq->tail = node;
	rq->posted++;
	if (rq->cur == NULL) {
		rq->cur = node;
		rq->ready = rq->rnr_until == RC_NEVER;
	}
	return 0;
}

/* Fail a work request when all before it have completed. */
static RC_COLD void
fail_in_turn(struct rc_qp *qp, struct rc_node *node)
{
	if (node == qp->req.head && qp->req.landing == NULL)
		rc_fail(qp, node, node->work.status, RC_ERROR_REQUESTER);
	else
		qp->req.ready = false;
}

static RC_COLD bool
local_error(struct rc_qp *qp, struct rc_node *node, enum one_status status)
{
	node->work.status = (uint8_t)status;
	fail_in_turn(qp, node);
	return false;
}

/* True: carried out at once, continue. */
static RC_COLD bool
start_bind(struct rc_qp *qp, struct rc_node *node)
{
	struct rc_requester *rq = &qp->req;

	if (node != rq->head || rq->landing != NULL || rq->bind_started) {
		rq->ready = false;
		return false;
	}
	rq->bind_started = true;
	rq->ready = false;
	qp->env->bind(qp->env, qp, &node->work);
	return qp->state == RC_RTS && !rq->bind_started;
}

void
rc_bind_done(struct rc_qp *qp, bool ok, uint64_t now)
{
	struct rc_requester *rq = &qp->req;

	if (qp->state != RC_RTS || !rq->bind_started)
		return;
	rq->bind_started = false;
	if (!ok) {
		rc_fail(qp, rq->head, ONE_STATUS_BIND_FAILED, RC_ERROR_REQUESTER);
		return;
	}
	rq->progress_at = now;
	rc_retire(qp, ONE_STATUS_SUCCESS);
	if (qp->state == RC_RTS)
		rq->ready = rq->cur != NULL;
}

/* Nothing of a message is sent unless all sges of its list may be read. */
static RC_COLD enum one_status
check_whole_list(const struct rc_qp *qp, const struct work *work)
{
	struct rc_sg_list list;

	return rc_resolve(qp, work->sge, work->num_sge, 0, work->length, ONE_ACCESS_LOCAL_READ, &list);
}

/* Copies one sge of 32 to 64 bytes inline; mem_read() copies shorter ones, as words. */
static inline void
gather_short(const struct rc_sg_list *list, uint8_t *dst)
{
	const struct mem_sge *sge = &list->sge[0];
	const uint8_t *src;

	if (list->num != 1 || sge->len - 32 > 32) {
		rc_gather(list, dst);
		return;
	}
	src = mem_at(sge->region, sge->va);
	memcpy(dst, src, 32);
	memcpy(dst + sge->len - 32, src + sge->len - 32, 32);
}

/* Send packet `snd` with `len` bytes from `flat`, or from `list` if that is NULL; false: no frame. */
static inline __attribute__((always_inline)) bool
emit_data(struct rc_qp *qp, struct rc_node *node, uint32_t place, uint32_t len, const uint8_t *flat,
	  const struct rc_sg_list *list, uint64_t now)
{
	const struct work *work = &node->work;
	struct rc_requester *rq = &qp->req;
	struct rc_env *env = qp->env;
	struct wire_build b;
	uint8_t *frame, *payload;
	bool sealed = false;

	b.opcode = rc_opcode[work->op][place];
	b.payload_len = len;
	b.qpn = qp->peer_qpn;
	b.solicited = false;
	b.ack_request = true;
	if (place == RC_ONLY || place == RC_LAST)
		b.solicited = work->op != ONE_OP_WRITE && (work->flags & ONE_WQE_SOLICITED) != 0;
	else
		b.ack_request = rc_asks_ack(qp, rq->snd);
	frame = env->tx_begin(env, qp, wire_head_for(&qp->head, &qp->template, &b));
	if (unlikely(frame == NULL))
		return false;
	b.psn = rq->snd & RC_PSN_MASK;
	b.remote_addr = work->remote_addr;
	b.rkey = work->rkey;
	b.dma_length = work->length;
	b.imm = work->imm;
	b.inv_key = work->imm;
	payload = wire_build_on(&qp->head, &b, frame);
	if (flat != NULL)
		memcpy(payload, flat, len);
	else if (len > RC_SHORT && list->num == 1)
		sealed = wire_fill(&qp->template, frame, payload,
				   mem_at(list->sge[0].region, list->sge[0].va), len);
	else
		gather_short(list, payload);
	env->tx_end(env, qp, sealed);
	rc_sent(qp, node, 1, now);
	return true;
}

/* `flat` is in the work request itself, or was read ahead. */
static __attribute__((noinline)) bool
emit_flat(struct rc_qp *qp, struct rc_node *node, uint32_t place, uint32_t len, const uint8_t *flat,
	  uint64_t now)
{
	return emit_data(qp, node, place, len, flat, NULL, now);
}

/* Memory without mapping: read before a frame is begun, since reading takes time and may fail. */
static RC_COLD bool
send_bounced(struct rc_qp *qp, struct rc_node *node, uint32_t place, uint32_t len,
	     const struct rc_sg_list *list, uint64_t now)
{
	bool in_order = qp->req.scoreboard == NULL;
	uint32_t psn = qp->req.snd, count = 1;
	uint8_t bounce[RC_MTU_MAX];
	const uint8_t *data = bounce;
	int error = -ENOENT;

	if (in_order)
		error = rc_ahead_request(qp, &count, &data);
	if (error == -ENOENT) {
		data = bounce;
		error = bounce_gather(&qp->party, RC_BOUNCE_AGAIN, list->sge, list->num, bounce, psn);
	}
	if (error == -EAGAIN) {
		qp->req.ready = false; /* until rc_resume() */
		return false;
	}
	if (error != 0)
		return local_error(qp, node, ONE_STATUS_LOCAL_PROTECTION);
	if (!emit_flat(qp, node, place, len, data, now))
		return false;
	if (in_order)
		rc_ahead_used(qp, BOUNCE_AHEAD, psn + 1);
	return true;
}

/* Send one packet of a SEND or WRITE; false: no frame is available, or the request failed. */
static inline __attribute__((always_inline)) bool
send_data(struct rc_qp *qp, struct rc_node *node, uint64_t now)
{
	const struct work *work = &node->work;
	uint32_t offset = (qp->req.snd - node->first) * qp->mtu, len = work->length - offset;
	uint32_t place = RC_ONLY;
	struct rc_sg_list list;
	enum one_status status;

	if (len > qp->mtu) {
		place = offset == 0 ? RC_FIRST : RC_MIDDLE;
		len = qp->mtu;
	} else if (offset != 0) {
		place = RC_LAST;
	}
	if (work->flags & ONE_WQE_INLINE)
		return emit_flat(qp, node, place, len, work->inline_data, now);
	status = rc_resolve(qp, work->sge, work->num_sge, offset, len, ONE_ACCESS_LOCAL_READ, &list);
	if (unlikely(place == RC_FIRST && work->num_sge > 1 && status == ONE_STATUS_SUCCESS))
		status = check_whole_list(qp, work);
	if (unlikely(status != ONE_STATUS_SUCCESS)) /* LOCAL_LENGTH: `length` is not the sum of the list */
		return local_error(qp, node,
				   status == ONE_STATUS_LOCAL_LENGTH ? ONE_STATUS_LOCAL_QP : status);
	if (unlikely(list.bounce))
		return send_bounced(qp, node, place, len, &list, now);
	return emit_data(qp, node, place, len, NULL, &list, now);
}

/* Send new middle packets of a message in one range of memory, at most `most`. Returns their number; 0: send
 * one by one. */
static __attribute__((noinline)) uint32_t
send_middles(struct rc_qp *qp, struct rc_node *node, uint32_t most, uint64_t now)
{
	const struct work *work = &node->work;
	struct rc_requester *rq = &qp->req;
	uint32_t index = rq->snd - node->first, n = node->end - 1 - rq->snd;
	struct rc_sg_list list;
	const uint8_t *from;

	if (n > most)
		n = most;
	if (n < 2 || rq->snd != rq->max || rc_is_rd(work->op) || work->num_sge != 1 ||
	    rc_resolve(qp, work->sge, 1, index * qp->mtu, n * qp->mtu, ONE_ACCESS_LOCAL_READ, &list) !=
		    ONE_STATUS_SUCCESS)
		return 0;
	if (likely(!list.bounce))
		from = mem_at(list.sge[0].region, list.sge[0].va);
	else if (rq->scoreboard != NULL || rc_ahead_request(qp, &n, &from) != 0)
		return 0;
	n = rc_emit_middles(qp, rc_opcode[work->op][RC_MIDDLE], rq->snd, n, from);
	if (n > 0)
		rc_sent(qp, node, n, now);
	if (unlikely(list.bounce))
		rc_ahead_used(qp, BOUNCE_AHEAD, rq->snd);
	return n;
}

/* Request the rest of a READ's chunk, or an atomic; `again` != 0: that many responses. */
static bool
send_rd(struct rc_qp *qp, struct rc_node *node, uint32_t again, uint64_t now)
{
	const struct work *work = &node->work;
	struct rc_requester *rq = &qp->req;
	uint32_t offset = (rq->snd - node->first) * qp->mtu, total = 8;
	uint32_t end = again != 0 ? rq->snd + again : rc_chunk_end(node, rq->snd);
	enum one_status status;
	struct rc_sg_list list;
	struct wire_build b;

	b.opcode = rc_opcode[work->op][RC_ONLY];
	if (again == 0 && rq->rd_out >= rq->rd_max) {
		rq->ready = false;
		return false;
	}
	if (work->op == ONE_OP_READ) {
		total = work->length;
		b.dma_length = end == node->end ? total - offset : (end - rq->snd) * qp->mtu;
	} else {
		b.swap_add = work->add_or_swap;
		b.compare = work->op == ONE_OP_FETCH_ADD ? 0 : work->compare;
	}
	status = rc_resolve(qp, work->sge, work->num_sge, 0, total, ONE_ACCESS_LOCAL_WRITE, &list);
	if (unlikely(status != ONE_STATUS_SUCCESS))
		return local_error(qp, node, status);
	if (unlikely(list.bounce) && again == 0 && rc_landing_is_full(qp)) {
		rq->ready = false;
		return false;
	}
	b.payload_len = 0;
	b.solicited = false;
	b.ack_request = true;
	b.qpn = qp->peer_qpn;
	b.psn = rq->snd & RC_PSN_MASK;
	b.remote_addr = work->remote_addr + offset;
	b.rkey = work->rkey;
	if (!rc_emit(qp, &b, NULL))
		return false;
	rq->rd_out += again == 0;
	qp->env->asked += work->op == ONE_OP_READ ? b.dma_length : 0;
	rc_sent(qp, node, end - rq->snd, now);
	return true;
}

RC_COLD bool
rc_send_again(struct rc_qp *qp, struct rc_node *node, uint32_t psn, uint32_t count, uint64_t now)
{
	struct rc_requester *rq = &qp->req;
	struct rc_node *cur = rq->cur;
	uint32_t snd = rq->snd;
	bool done;

	if (unlikely(node->work.status != ONE_STATUS_SUCCESS)) {
		fail_in_turn(qp, node);
		return false;
	}
	rq->snd = psn;
	rq->cur = node;
	if (rc_is_rd(node->work.op))
		done = send_rd(qp, node, count, now);
	else
		done = send_data(qp, node, now);
	if (qp->state == RC_RTS) {
		rq->snd = snd;
		rq->cur = cur;
	}
	return done;
}

static inline bool
is_fenced(const struct rc_requester *rq, const struct rc_node *node)
{
	return unlikely(node->work.flags & ONE_WQE_FENCE) && rq->snd == node->first &&
	       (rq->rd_out > 0 || rq->landing != NULL);
}

/* While less may be in flight than before: true if an outstanding packet is known to elicit a response. More
 * packets than are allowed now may be between two that request an ACK. */
static RC_COLD bool
awaits_answer(struct rc_requester *rq)
{
	const struct rc_node *head = rq->head;
	uint32_t flight = rq->snd - rq->una;

	if (flight >= RC_CWND_LEAST && (rc_is_rd(head->work.op) || head->end - rq->una <= flight ||
					rq->held - rq->una < flight || (rq->snd ^ rq->una) >= RC_ACK_EVERY))
		return true;
	rq->held = rq->snd;
	return false;
}

/* Packets that may leave now; 1 if a cut of the window left more in flight than allowed. */
static inline uint32_t
room_left(const struct rc_requester *rq, uint32_t room)
{
	uint32_t flight = rq->snd - rq->una;

	return flight < room ? room - flight : 1;
}

/* True if other requests follow this one, and no sent packet is suspected missing. */
static inline bool
may_pack(const struct rc_qp *qp, const struct rc_node *node)
{
	const struct rc_requester *rq = &qp->req;

	return qp->packed && node->next != NULL && rq->snd == rq->max && rq->scoreboard == NULL &&
	       qp->env->throttle == RC_UNTHROTTLED;
}

uint32_t
rc_request_output(struct rc_qp *qp, uint32_t budget, uint64_t now)
{
	struct rc_requester *rq = &qp->req;
	uint32_t n = 0;

	if (unlikely(rq->rnr_until != RC_NEVER)) {
		rq->ready = false;
		return 0;
	}
	if (unlikely(rq->scoreboard != NULL)) {
		n = rc_repair(qp, budget, now);
		if (qp->state != RC_RTS || !rq->ready || n >= budget)
			return n;
	}
	for (;;) {
		struct rc_node *node = rq->cur;
		uint32_t room = (uint32_t)rq->cwnd + rq->sacked;

		/* Check this first: a queue pair that has sent all with the last of the budget must not stay
		 * ready. */
		if (node == NULL) {
			rq->ready = false;
			break;
		}
		if (n >= budget)
			break;
		if (unlikely(node->work.status != ONE_STATUS_SUCCESS)) {
			fail_in_turn(qp, node);
			break;
		}
		if (unlikely(node->work.op == ONE_OP_BIND)) {
			if (!start_bind(qp, node))
				break;
			continue;
		}
		/* Skip only this queue pair: its client's packets in flight may be to a silent peer. */
		if (unlikely(qp->env->throttle != RC_UNTHROTTLED) && awaits_answer(rq))
			break;
		if (unlikely(qp->env->ask_end != 0) && node->work.op == ONE_OP_READ &&
		    qp->env->asked >= qp->env->ask_end)
			break;
		if ((rq->snd - rq->una >= room && (likely(!rq->overdrawn) || awaits_answer(rq))) ||
		    is_fenced(rq, node)) {
			rq->overdrawn = false;
			rq->ready = false;
			break;
		}
		if (rq->snd != node->first) {
			uint32_t left = room_left(rq, room), done;

			done = send_middles(qp, node, left < budget - n ? left : budget - n, now);
			n += done;
			if (done != 0)
				continue;
		}
		if (may_pack(qp, node) && rc_send_packed(qp, room_left(rq, room), now)) {
			n++;
			continue;
		}
		if (rc_is_rd(node->work.op) ? !send_rd(qp, node, 0, now) : !send_data(qp, node, now))
			break;
		n++;
	}
	return n;
}
