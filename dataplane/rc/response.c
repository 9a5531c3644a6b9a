/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Response packets at the requester.
 *
 * A response is examined only if its PSN is outstanding. Any response first acknowledges all before its PSN,
 * except READs and atomics, which only their own responses complete. If one of those has no response yet, its
 * response was lost, and we go back to it.
 *
 * READ responses are placed by PSN, not by opcode: some peers continue a restarted READ with MIDDLE, others
 * begin again with FIRST.
 */
#include "sg_list.h"

/* Timer codes of RNR NAKs in ns (spec 3.7). */
const uint32_t rc_rnr_ns[32] = {
	655360000, 10000,    20000,    30000,     40000,     60000,     80000,     120000,
	160000,    240000,   320000,   480000,    640000,    960000,    1280000,   1920000,
	2560000,   3840000,  5120000,  7680000,   10240000,  15360000,  20480000,  30720000,
	40960000,  61440000, 81920000, 122880000, 163840000, 245760000, 327680000, 491520000,
};

static inline void
report_completion(struct rc_qp *qp, struct rc_node *node, enum one_status status)
{
	struct completion c;

	qp->req.posted--;
	c.cookie = node->work.cookie;
	c.length = node->work.length;
	c.imm = 0;
	c.type = ONE_CQE_SEND;
	c.status = (uint8_t)status;
	c.op = node->work.op;
	c.wqe_flags = node->work.flags;
	c.cqe_flags = 0;
	c.solicited = 0;
	if (unlikely(c.op >= ONE_OP_FETCH_ADD)) {
		c.length = 8;
		if (c.op == ONE_OP_BIND)
			completion_of_bind(&c, &node->work);
	}
	if (status != ONE_STATUS_SUCCESS)
		c.length = 0;
	rc_node_put(qp->env->pool, node);
	qp->env->complete(qp->env, qp, &c);
}

static RC_COLD void
retire_later(struct rc_requester *rq, struct rc_node *node)
{
	node->next = NULL;
	if (rq->landing == NULL)
		rq->landing = node;
	else
		rq->landing_tail->next = node;
	rq->landing_tail = node;
}

void
rc_retire(struct rc_qp *qp, enum one_status status)
{
	struct rc_requester *rq = &qp->req;
	struct rc_node *node = rq->head;

	rq->head = node->next;
	__builtin_prefetch(node->next);
	if (rq->cur == node)
		rq->cur = node->next;
	if (unlikely(rq->landing != NULL || bounce_queued(&qp->party, BOUNCE_LANDED)) &&
	    status == ONE_STATUS_SUCCESS)
		retire_later(rq, node);
	else
		report_completion(qp, node, status);
}

RC_COLD void
rc_retire_landed(struct rc_qp *qp, enum one_status status)
{
	struct rc_requester *rq = &qp->req;
	struct rc_node *node = rq->landing;

	rq->landing = node->next;
	report_completion(qp, node, status);
}

/* True if the request was executed before `psn` and needs no completion. */
static inline bool
needs_no_completion(const struct rc_node *node, uint32_t psn)
{
	return (node->work.flags & ONE_WQE_SUPPRESS) != 0 && node->work.op <= ONE_OP_WRITE_IMM &&
	       node->first != node->end && (int32_t)(psn - node->end) >= 0;
}

/* Return leading requests that need no completion to the pool together. */
static inline void
retire_silent(struct rc_qp *qp, uint32_t psn)
{
	struct rc_requester *rq = &qp->req;
	struct rc_node *first = rq->head, *last = NULL, *node = first;
	uint32_t count = 0;
	bool current = false;

	if (unlikely(rq->landing != NULL))
		return;
	for (; node != NULL && needs_no_completion(node, psn); node = node->next) {
		current |= rq->cur == node;
		last = node;
		count++;
	}
	if (count == 0)
		return;
	rq->una = last->end;
	rq->head = node;
	if (unlikely(current))
		rq->cur = node;
	rq->posted = (uint16_t)(rq->posted - count);
	rc_nodes_put(qp->env->pool, first, last, count);
	qp->env->retired(qp->env, qp, count);
}

void
rc_go_back(struct rc_qp *qp, uint64_t now)
{
	struct rc_requester *rq = &qp->req;

	rc_forget_reports(qp);
	rq->snd = rq->una;
	rq->cur = rq->head;
	/* We never go back past a READ or atomic that lacks its response: none before `snd` is
	 * outstanding. */
	rq->rd_out = 0;
	rq->rtt_pending = false;
	rq->recovering = true;
	rq->recover_at = now;
	rq->spurious = RC_SPURIOUS_NONE;
	rq->timer = now + rc_rto(rq);
	rq->ready = rq->rnr_until == RC_NEVER;
}

/* All requests before `psn` have been executed. Returns true if that acknowledges everything before `psn`,
 * false if a READ or atomic lacks its response. */
static inline bool
advance_una(struct rc_qp *qp, uint32_t psn, uint64_t now)
{
	struct rc_requester *rq = &qp->req;
	uint32_t before = rq->una;
	struct rc_node *node;

	retire_silent(qp, psn);
	while ((node = rq->head) != NULL && rq->una != psn) {
		if (rc_is_rd(node->work.op) || node->first == node->end)
			break;
		if ((int32_t)(psn - node->end) < 0) {
			rq->una = psn;
			break;
		}
		rq->una = node->end;
		rc_retire(qp, ONE_STATUS_SUCCESS);
		retire_silent(qp, psn);
	}
	if (rq->una != before)
		rc_progress(qp, before, now);
	return rq->una == psn;
}

/* Repeat from `una`, unless the sign of loss may be an echo of the last time we did. */
static RC_COLD void
retransmit_oldest(struct rc_qp *qp, uint64_t now)
{
	struct rc_requester *rq = &qp->req;
	uint64_t echo = rq->srtt != 0 ? rq->srtt : RC_RTO_FLOOR;

	if (rq->rnr_until != RC_NEVER || (rq->recovering && now - rq->recover_at < echo))
		return;
	rc_lost(rq);
	if (!rc_charge(qp, now))
		return;
	rc_cwnd_cut(rq);
	rc_go_back(qp, now);
}

/* A response for `una` is missing, though all before `psn` was executed. */
static RC_COLD void
implied_nak(struct rc_qp *qp, uint32_t psn, uint64_t now)
{
	rc_count(qp, RC_COUNT_NAK_IMPLIED);
	if (!rc_missing(qp, psn, now))
		retransmit_oldest(qp, now);
}

static RC_COLD void
receiver_not_ready(struct rc_qp *qp, uint8_t code, uint64_t now)
{
	struct rc_requester *rq = &qp->req;

	if (rq->rnr_until != RC_NEVER)
		return;
	rc_count(qp, RC_COUNT_RNR_RECEIVED);
	if (rq->rnr_retry != 7 && rq->rnr_tries >= rq->rnr_retry) {
		rc_count(qp, RC_COUNT_RNR_EXCEEDED);
		rc_fail(qp, rq->head, ONE_STATUS_RNR_EXCEEDED, RC_ERROR_REQUESTER);
		return;
	}
	if (rq->rnr_tries < 7)
		rq->rnr_tries++;
	rc_go_back(qp, now);
	/* The peer is alive and makes us wait: no timer runs, no retry is charged. */
	rq->recovering = false;
	rq->backoff = 0;
	rq->expiries = 0;
	rq->retries = 0;
	rq->progress_at = now;
	rq->timer = RC_NEVER;
	rq->rnr_until = now + rc_rnr_ns[code];
	rq->ready = false;
}

/* The work request that owns `psn` has failed at the peer. */
static RC_COLD void
request_refused(struct rc_qp *qp, uint32_t psn, enum one_status status)
{
	struct rc_node *node = qp->req.head;

	while (node != NULL && (int32_t)(psn - node->end) >= 0)
		node = node->next;
	rc_count(qp, RC_COUNT_NAK_FATAL_RECEIVED);
	rc_fail(qp, node, status, RC_ERROR_REQUESTER);
}

static RC_COLD void
nak_input(struct rc_qp *qp, const struct wire_packet *packet, uint32_t psn, uint64_t now)
{
	static const enum one_status fatal[] = {0, ONE_STATUS_REMOTE_INVALID, ONE_STATUS_REMOTE_ACCESS,
						ONE_STATUS_REMOTE_OPERATION};
	uint8_t code = packet->syndrome & 31;

	if (code > 3)
		return;
	if (code == 0)
		rc_lost(&qp->req);
	advance_una(qp, psn, now);
	if (qp->state != RC_RTS)
		return;
	if (code != 0) {
		request_refused(qp, psn, fatal[code]);
		return;
	}
	rc_count(qp, RC_COUNT_NAK_SEQ_RECEIVED);
	if (!rc_report_input(qp, packet, psn, now))
		retransmit_oldest(qp, now);
}

/* The peer has executed all before `psn`. */
static void
executed_before(struct rc_qp *qp, uint32_t psn, uint64_t now)
{
	if (!advance_una(qp, psn, now) && qp->state == RC_RTS)
		implied_nak(qp, psn, now);
}

static void
acknowledge_input(struct rc_qp *qp, const struct wire_packet *packet, uint32_t psn, uint64_t now)
{
	switch (packet->syndrome >> 5) {
	case 0: /* ACK; credits are a hint that we do not need */
		executed_before(qp, psn + 1, now);
		break;
	case 1:
		if (!advance_una(qp, psn, now)) {
			if (qp->state == RC_RTS)
				implied_nak(qp, psn, now);
		} else if (qp->state == RC_RTS) {
			receiver_not_ready(qp, packet->syndrome & 31, now);
		}
		break;
	case 3:
		nak_input(qp, packet, psn, now);
		break;
	default: /* reserved */
		break;
	}
}

/* The head, if `psn` is its next missing response and it is of this kind. */
static struct rc_node *
expected_head(struct rc_qp *qp, const struct wire_packet *packet, uint32_t psn, bool read, uint64_t now)
{
	struct rc_node *node;

	if (!advance_una(qp, psn, now)) {
		if (qp->state == RC_RTS && !rc_hold_response(qp, packet, psn, now))
			implied_nak(qp, psn, now);
		return NULL;
	}
	node = qp->req.head;
	if (qp->state != RC_RTS || node == NULL || node->first == node->end || !rc_is_rd(node->work.op) ||
	    (node->work.op == ONE_OP_READ) != read) {
		rc_count(qp, RC_COUNT_DROP_RESPONSE);
		return NULL;
	}
	return node;
}

/* Account for the response for `una`, which is in place. */
static void
rc_responded(struct rc_qp *qp, struct rc_node *node, bool end_of_request, uint64_t now)
{
	struct rc_requester *rq = &qp->req;
	uint32_t before = rq->una++;

	/* A request that we went back over and have not repeated is not in rd_out. */
	if (end_of_request && (int32_t)(rq->snd - rq->una) >= 0 && rq->rd_out > 0)
		rq->rd_out--;
	if (rq->una == node->end)
		rc_retire(qp, ONE_STATUS_SUCCESS);
	if (qp->state == RC_RTS)
		rc_progress(qp, before, now);
}

static RC_COLD void
bad_response(struct rc_qp *qp, struct rc_node *node)
{
	rc_count(qp, RC_COUNT_BAD_RESPONSE);
	rc_fail(qp, node, ONE_STATUS_BAD_RESPONSE, RC_ERROR_REQUESTER);
}

/* Place `len` bytes of the response for `una`; `list` returns the destination. False: no copy job was free,
 * or the READ has failed. */
static inline bool
place_response(struct rc_qp *qp, struct rc_node *node, uint32_t offset, const uint8_t *src, uint32_t len,
	       bool last, struct rc_sg_list *list)
{
	const struct mem_sge *sge = &list->sge[0];
	enum one_status status =
		rc_resolve(qp, node->work.sge, node->work.num_sge, offset, len, ONE_ACCESS_LOCAL_WRITE, list);

	if (unlikely(status != ONE_STATUS_SUCCESS)) {
		rc_fail(qp, node, status, RC_ERROR_REQUESTER);
		return false;
	}
	if (unlikely(list->bounce || bounce_queued(&qp->party, BOUNCE_LANDED)))
		return rc_land_response(qp, node, list, src, qp->req.una + 1 == node->end);
	if (likely(list->num == 1))
		rc_place(qp, sge->region, sge->va, src, sge->len, last, qp->req.scoreboard);
	else
		rc_scatter(list, src);
	return true;
}

/* Start a run after response `index` of a READ, limited to one request's chunk and one range of memory. */
static inline void
response_run(struct rc_qp *qp, const struct wire_packet *packet, const struct rc_node *node, uint32_t index,
	     const struct rc_sg_list *list)
{
	const struct mem_sge *sge = &list->sge[0];
	uint32_t last = rc_chunk_end(node, node->first + index) - node->first - 1;
	uint32_t room = node->work.sge[0].len / qp->mtu;

	if (last > room)
		last = room;
	if (!list->bounce && last > index)
		rc_run_begin(qp, packet, mem_at(sge->region, sge->va) + qp->mtu, last - index - 1, true);
}

static void
read_response(struct rc_qp *qp, const struct wire_packet *packet, uint32_t psn, uint64_t now)
{
	struct rc_node *node = expected_head(qp, packet, psn, true, now);
	uint32_t index, offset, len;
	struct rc_sg_list list;
	bool last;

	if (node == NULL)
		return;
	index = psn - node->first;
	offset = index * qp->mtu;
	last = psn + 1 == node->end || (index & (RC_CHUNK - 1)) == RC_CHUNK - 1;
	len = psn + 1 == node->end ? node->work.length - offset : qp->mtu;
	/* With selective repeat parts of a chunk are repeated. A peer may begin with it before this end does.
	 */
	if (unlikely(packet->payload_len != len ||
		     (!qp->peer_selects && last != (packet->opcode == WIRE_READ_RESPONSE_LAST ||
						    packet->opcode == WIRE_READ_RESPONSE_ONLY)))) {
		bad_response(qp, node);
		return;
	}
	if (!place_response(qp, node, offset, packet->payload, len, last, &list))
		return;
	rc_responded(qp, node, last, now);
	if (packet->opcode == WIRE_READ_RESPONSE_MIDDLE && !last && node->work.num_sge == 1)
		response_run(qp, packet, node, index, &list);
}

static void
atomic_response(struct rc_qp *qp, const struct wire_packet *packet, uint32_t psn, uint64_t now)
{
	struct rc_node *node = expected_head(qp, packet, psn, false, now);
	struct rc_sg_list list;

	if (node == NULL)
		return;
	if (unlikely(packet->payload_len != 0)) {
		bad_response(qp, node);
		return;
	}
	if (place_response(qp, node, 0, (const uint8_t *)&packet->atomic_ack, 8, true, &list))
		rc_responded(qp, node, true, now);
}

/* A response names a PSN that has not been sent: the peer has taken a forged request. If the peer only holds
 * that request, all that was sent is executed, and the response counts. If the peer has executed it, our
 * packets with that PSN would pass for duplicates, acknowledged and lost: the connection ends. */
static RC_COLD void
answer_ahead(struct rc_qp *qp, const struct wire_packet *packet, uint32_t psn, uint64_t now)
{
	struct rc_requester *rq = &qp->req;
	uint32_t executed = psn + (packet->syndrome >> 5 == 0);

	if (!qp->selective || packet->opcode != WIRE_ACKNOWLEDGE || executed - rq->max > RC_AHEAD_MAX) {
		rc_count(qp, RC_COUNT_DROP_RESPONSE);
	} else if (executed == rq->max) {
		executed_before(qp, executed, now);
	} else {
		rc_count(qp, RC_COUNT_BAD_RESPONSE);
		rc_fail(qp, rq->head, ONE_STATUS_BAD_RESPONSE, RC_ERROR_REQUESTER);
	}
}

void
rc_acknowledged(struct rc_qp *qp, uint32_t psn, uint64_t now)
{
	advance_una(qp, psn, now);
}

void
rc_response_place(struct rc_qp *qp, const struct wire_packet *packet, uint32_t psn, uint64_t now)
{
	if (packet->opcode == WIRE_ATOMIC_ACKNOWLEDGE)
		atomic_response(qp, packet, psn, now);
	else
		read_response(qp, packet, psn, now);
}

void
rc_response_input(struct rc_qp *qp, const struct wire_packet *packet, uint64_t now)
{
	struct rc_requester *rq = &qp->req;
	uint32_t distance = (packet->psn - rq->una) & RC_PSN_MASK, psn = rq->una + distance;

	if (unlikely(qp->state != RC_RTS)) {
		rc_count(qp, RC_COUNT_DROP_STATE);
		return;
	}
	if (unlikely(rq->starved)) {
		rc_count(qp, RC_COUNT_DROP_BOUNCED);
		return;
	}
	if (unlikely(distance >= rq->max - rq->una))
		answer_ahead(qp, packet, psn, now);
	else if (packet->opcode == WIRE_ACKNOWLEDGE)
		acknowledge_input(qp, packet, psn, now);
	else
		rc_response_place(qp, packet, psn, now);
	if (unlikely(rq->scoreboard != NULL)) {
		rc_held_responses(qp, now);
		rc_run_end(qp->env);
	}
}
