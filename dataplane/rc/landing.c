/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets that arrive for memory without mapping (bounce.h).
 *
 * A request is taken when its payload is in staging memory. It is executed, for its peer and its receiver,
 * when the application has copied the payload to its memory: only then is it acknowledged and its receive
 * completed. Later requests take the same path, wherever their memory is, so that none is seen before an
 * earlier one. Meanwhile RC_CLOSED_BEHIND is set. A request that cannot take this path (an atomic, a refused
 * one, one without a free copy job) is dropped, and asked for again when nothing waits.
 *
 * Responses go to staging memory likewise. A READ completes when all of its payload is in place, and requests
 * after it not before: rc_requester.landing lists those that are otherwise finished.
 */
#include "sg_list.h"

#include <errno.h>

/* Part of a message that is copied at once. */
struct landing {
	uint32_t first, end; /* PSNs */
	uint32_t access;
	bool asked;   /* an acknowledgement is requested */
	bool over;    /* the message ends here */
	bool deliver; /* the message completes a receive */
	uint8_t num;
	struct one_sge sge[ONE_MAX_SGE];
	struct completion c;
};
_Static_assert(sizeof(struct landing) <= BOUNCE_NOTE, "kept as a note");

static struct landing *
oldest_landing(const struct rc_qp *qp)
{
	return bounce_queue_oldest(&qp->party, BOUNCE_ARRIVED);
}

static bool
is_behind(const struct rc_qp *qp)
{
	return bounce_queued(&qp->party, BOUNCE_ARRIVED);
}

bool
rc_lands_before(const struct rc_qp *qp, uint32_t psn)
{
	return is_behind(qp) && rc_psn_diff(oldest_landing(qp)->first, psn) < 0;
}

void
rc_land_ask(struct rc_qp *qp)
{
	struct landing *landing = bounce_queue_newest(&qp->party, BOUNCE_ARRIVED);

	landing->asked = true;
}

/* ---- requests ---- */

static bool
begin_landing(struct rc_qp *qp, const struct rc_sg_list *list, const uint8_t *payload, uint32_t access)
{
	struct landing landing = {.first = qp->rsp.epsn, .access = access, .num = (uint8_t)list->num};
	int error;

	for (uint32_t i = 0; i < list->num; i++)
		landing.sge[i] = (struct one_sge){.addr = list->sge[i].va,
						  .len = list->sge[i].len,
						  .lkey = mem_key_of(list->sge[i].region)};
	error = bounce_queue_scatter(&qp->party, BOUNCE_ARRIVED, list->sge, list->num, payload, &landing,
				     sizeof(landing));
	if (error == -EFAULT)
		rc_refuse(qp, RC_NAK_OPERATION, qp->rsp.epsn, ONE_STATUS_LOCAL_PROTECTION);
	else if (error == -EAGAIN)
		rc_request_lost(qp);
	return error == 0;
}

/* Append the packet's payload to the newest landing, if it continues that message. */
static bool
extend_landing(struct rc_qp *qp, const struct wire_packet *packet, uint8_t kind,
	       const struct rc_sg_list *list)
{
	struct landing *landing;

	if (!is_behind(qp) || (kind & RC_REQ_START) != 0 || list->num != 1)
		return false;
	landing = bounce_queue_newest(&qp->party, BOUNCE_ARRIVED);
	if (!bounce_queue_extend(&qp->party, BOUNCE_ARRIVED, &list->sge[0], packet->payload))
		return false;
	landing->sge[0].len += list->sge[0].len;
	return true;
}

/* The pending reply becomes an ACK of all executed requests: the reply to an earlier packet might acknowledge
 * more than that, or less. */
static void
ack_executed(struct rc_responder *rs)
{
	if (rs->reply == RC_REPLY_NONE)
		return;
	rs->reply = RC_REPLY_ACK;
	rs->reply_psn = (rs->epsn - 1) & RC_PSN_MASK;
}

void
rc_land(struct rc_qp *qp, const struct wire_packet *packet, uint8_t kind, const struct rc_sg_list *list,
	uint32_t access)
{
	struct rc_responder *rs = &qp->rsp;
	struct landing *landing;

	if (!extend_landing(qp, packet, kind, list) && !begin_landing(qp, list, packet->payload, access))
		return;
	if (!(rs->closed & RC_CLOSED_BEHIND))
		ack_executed(rs);
	rs->closed |= RC_CLOSED_BEHIND;
	rs->total += packet->payload_len;
	rs->epsn = (rs->epsn + 1) & RC_PSN_MASK;
	rs->nak_sent = false;
	rs->context = kind & RC_REQ_END ? 0 : kind & (RC_REQ_SEND | RC_REQ_WRITE);
	landing = bounce_queue_newest(&qp->party, BOUNCE_ARRIVED);
	landing->end = rs->epsn;
	landing->asked |= packet->ack_request;
	if (!(kind & RC_REQ_END))
		return;
	landing->over = true;
	landing->deliver = (kind & (RC_REQ_SEND | RC_REQ_IMM)) != 0;
	if (landing->deliver) {
		landing->c = rc_received(qp, packet, kind);
		rs->recv_held = false;
	}
	bounce_queue_submit(&qp->party, BOUNCE_ARRIVED);
}

/* Place the mapped part of the oldest landing, with keys looked up again; false: the keys are revoked. */
static bool
place_mapped(struct rc_qp *qp, const struct landing *landing)
{
	struct mem_sge sges[ONE_MAX_SGE];

	for (uint32_t i = 0; i < landing->num; i++) {
		const struct one_sge *sge = &landing->sge[i];

		sges[i] = (struct mem_sge){mem_check(qp->env->mem, sge->lkey, qp->pz, qp->qpn,
						     landing->access, sge->addr, sge->len),
					   sge->addr, sge->len};
		if (sges[i].region == NULL)
			return false;
	}
	bounce_queue_place(&qp->party, BOUNCE_ARRIVED, sges, landing->num);
	return true;
}

/* The NAK acknowledges all before the landing. READs of the peer after it get no response. */
static void
refuse_landing(struct rc_qp *qp, uint8_t syndrome, uint32_t psn, enum one_status status)
{
	struct rc_responder *rs = &qp->rsp;

	for (uint32_t i = 0; i < rs->resources; i++)
		if (rc_psn_diff(rs->resource[i].first, psn) > 0)
			rs->pending &= ~(1u << i);
	rc_refuse_now(qp, syndrome, psn, status);
}

/* Make the oldest landing visible to peer and receiver; false: it is refused, and stays in the queue. */
static bool
execute_landing(struct rc_qp *qp, const struct landing *landing)
{
	bool writes = landing->access == ONE_ACCESS_REMOTE_WRITE;
	enum one_status status = writes ? ONE_STATUS_FLUSHED : ONE_STATUS_LOCAL_PROTECTION;

	if (bounce_queue_result(&qp->party, BOUNCE_ARRIVED) != 0) {
		refuse_landing(qp, RC_NAK_OPERATION, landing->first, status);
		return false;
	}
	if (!place_mapped(qp, landing)) {
		refuse_landing(qp, writes ? RC_NAK_ACCESS : RC_NAK_OPERATION, landing->first, status);
		return false;
	}
	if (landing->deliver && (landing->c.cqe_flags & ONE_CQE_INV) != 0 &&
	    !qp->env->invalidate(qp->env, qp, landing->c.imm)) {
		refuse_landing(qp, RC_NAK_OPERATION, (landing->end - 1) & RC_PSN_MASK, status);
		return false;
	}
	return true;
}

static void
retire_landing(struct rc_qp *qp)
{
	struct landing landing = *oldest_landing(qp);
	struct rc_responder *rs = &qp->rsp;

	bounce_queue_pop(&qp->party, BOUNCE_ARRIVED);
	if (landing.over)
		rs->msn = (rs->msn + 1) & RC_PSN_MASK;
	if (landing.asked) {
		rs->reply = RC_REPLY_ACK;
		rs->reply_psn = (landing.end - 1) & RC_PSN_MASK;
	}
	if (landing.deliver)
		qp->env->complete(qp->env, qp, &landing.c);
}

void
rc_land_done(struct rc_qp *qp)
{
	struct rc_responder *rs = &qp->rsp;

	while (bounce_queue_done(&qp->party, BOUNCE_ARRIVED) && !(rs->closed & RC_CLOSED_FATAL)) {
		if (!execute_landing(qp, oldest_landing(qp)))
			return;
		retire_landing(qp);
	}
	if (!is_behind(qp))
		rs->closed &= (uint8_t)~RC_CLOSED_BEHIND;
}

void
rc_land_flush(struct rc_qp *qp, enum one_status *status)
{
	while (is_behind(qp)) {
		struct landing landing = *oldest_landing(qp);

		bounce_queue_pop(&qp->party, BOUNCE_ARRIVED);
		if (!landing.deliver)
			continue;
		landing.c.status = (uint8_t)*status;
		landing.c.length = 0;
		landing.c.cqe_flags = 0;
		*status = ONE_STATUS_FLUSHED;
		qp->env->complete(qp->env, qp, &landing.c);
	}
}

/* ---- responses ---- */

/* Note of each access: the READ or atomic ends with it. */
struct landed {
	bool last;
};

bool
rc_land_response(struct rc_qp *qp, struct rc_node *node, const struct rc_sg_list *list, const uint8_t *src,
		 bool last)
{
	const struct landed none = {.last = false};
	struct landed *landed;
	int error = 0;

	if (list->num != 1 || !bounce_queue_extend(&qp->party, BOUNCE_LANDED, &list->sge[0], src))
		error = bounce_queue_scatter(&qp->party, BOUNCE_LANDED, list->sge, list->num, src, &none,
					     sizeof(none));
	qp->req.starved = error == -EAGAIN;
	if (error == -EFAULT)
		rc_fail(qp, node, ONE_STATUS_LOCAL_PROTECTION, RC_ERROR_REQUESTER);
	if (error != 0)
		return false;
	/* No order is needed within a READ: the application may read its data only after completion. */
	for (uint32_t i = 0; i < list->num; i++) {
		if (list->sge[i].region->base != NULL)
			mem_write(list->sge[i].region, list->sge[i].va, src, list->sge[i].len);
		src += list->sge[i].len;
	}
	if (last) {
		landed = bounce_queue_newest(&qp->party, BOUNCE_LANDED);
		landed->last = true;
		bounce_queue_submit(&qp->party, BOUNCE_LANDED);
	}
	return true;
}

/* Retire finished requests: if `whole`, the oldest READ that waits for its payload, and those around it that
 * wait for nothing. */
static void
retire_landed(struct rc_qp *qp, bool whole)
{
	struct rc_requester *rq = &qp->req;

	while (qp->state == RC_RTS && rq->landing != NULL) {
		bool waits = rc_is_rd(rq->landing->work.op);

		if (waits && !whole)
			return;
		whole = whole && !waits;
		rc_retire_landed(qp, ONE_STATUS_SUCCESS);
	}
}

/* Limit READs to half of the copy thread's jobs, so that responses find room. */
bool
rc_landing_is_full(const struct rc_qp *qp)
{
	const struct rc_requester *rq = &qp->req;
	uint64_t asked = (uint64_t)(rq->snd - rq->una) * qp->mtu;

	return asked + (uint64_t)bounce_queue_count(&qp->party, BOUNCE_LANDED) * BOUNCE_LEN >=
	       (uint64_t)ONE_COPIES * BOUNCE_LEN / 2;
}

void
rc_land_response_done(struct rc_qp *qp, uint64_t now)
{
	struct rc_requester *rq = &qp->req;

	while (qp->state == RC_RTS && bounce_queue_done(&qp->party, BOUNCE_LANDED)) {
		int error = bounce_queue_result(&qp->party, BOUNCE_LANDED);
		bool last = ((struct landed *)bounce_queue_oldest(&qp->party, BOUNCE_LANDED))->last;

		bounce_queue_pop(&qp->party, BOUNCE_LANDED);
		if (error != 0) {
			rc_fail(qp, rq->landing != NULL ? rq->landing : rq->head, ONE_STATUS_LOCAL_PROTECTION,
				RC_ERROR_REQUESTER);
			return;
		}
		if (last)
			retire_landed(qp, true);
	}
	if (qp->state != RC_RTS || !rq->starved)
		return;
	rq->starved = false;
	if (rq->una != rq->max && rq->rnr_until == RC_NEVER)
		rc_go_back(qp, now);
}
