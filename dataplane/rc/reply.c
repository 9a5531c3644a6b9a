/* SPDX-License-Identifier: BSD-3-Clause */
/* Output of the responder: responses of READs and atomics in the order of the requests, then at most one ACK
 * or NAK, which covers all requests since the last one. */
#include "sg_list.h"

#include <errno.h>
#include <string.h>

#define SYNDROME_RNR 0x20u

/* Sets only the fields of an AETH packet. */
static bool
emit_aeth(struct rc_qp *qp, uint8_t opcode, uint32_t psn, uint8_t syndrome, uint64_t atomic_ack)
{
	struct wire_build b;

	b.opcode = opcode;
	b.solicited = false;
	b.ack_request = false;
	b.qpn = qp->peer_qpn;
	b.psn = psn & RC_PSN_MASK;
	b.syndrome = syndrome;
	b.msn = qp->rsp.msn;
	b.atomic_ack = atomic_ack;
	b.payload_len = 0;
	return rc_emit(qp, &b, NULL);
}

/* Take the payload from `flat`, or from the region if that is NULL. */
static bool
emit_read_response(struct rc_qp *qp, const struct rc_resource *resource, const struct mem_region *region,
		   uint64_t va, uint32_t len, const uint8_t *flat)
{
	struct rc_env *env = qp->env;
	bool first = resource->next == resource->start, last = resource->next + 1 == resource->end;
	struct wire_build b;
	uint8_t *frame, *payload;
	bool sealed = false;

	b.opcode = first  ? (last ? WIRE_READ_RESPONSE_ONLY : WIRE_READ_RESPONSE_FIRST)
		   : last ? WIRE_READ_RESPONSE_LAST
			  : WIRE_READ_RESPONSE_MIDDLE;
	frame = env->tx_begin(env, qp, wire_frame_len(&qp->template, b.opcode, len));
	if (unlikely(frame == NULL))
		return false;
	b.solicited = false;
	b.ack_request = false;
	b.qpn = qp->peer_qpn;
	b.psn = (resource->first + resource->next) & RC_PSN_MASK;
	b.syndrome = RC_SYNDROME_ACK;
	b.msn = qp->rsp.msn;
	b.payload_len = len;
	payload = wire_build(&qp->template, &b, frame);
	if (flat != NULL)
		memcpy(payload, flat, len);
	else if (len > RC_SHORT)
		sealed = wire_fill(&qp->template, frame, payload, mem_at(region, va), len);
	else if (len != 0)
		mem_read(region, va, payload, len);
	env->tx_end(env, qp, sealed);
	return true;
}

/* Response `next` of a READ cannot be sent: end the connection, or only the repetition. */
static RC_COLD void
abandon_read(struct rc_qp *qp, const struct rc_resource *resource, uint32_t bit, uint8_t syndrome)
{
	struct rc_responder *rs = &qp->rsp;

	if (rs->fresh & bit) {
		rc_refuse_now(qp, syndrome, resource->first + resource->next, ONE_STATUS_FLUSHED);
		rs->pending = 0;
	} else {
		rc_count(qp, RC_COUNT_DROP_REPLAY);
		rs->pending &= ~bit;
	}
}

/* Memory without mapping: read before a frame is begun, since reading takes time and may fail. */
static RC_COLD bool
respond_bounced(struct rc_qp *qp, const struct rc_resource *resource, const struct mem_region *region,
		uint64_t va, uint32_t len, uint32_t bit)
{
	const struct mem_sge sge = {region, va, len};
	uint32_t psn = resource->first + resource->next, count = 1;
	uint8_t bounce[RC_MTU_MAX];
	const uint8_t *data = bounce;
	int error = -ENOENT;

	if (bit != RC_PENDING_AGAIN)
		error = rc_ahead_response(qp, resource, &count, &data);
	if (error == -ENOENT) {
		data = bounce;
		error = bounce_gather(&qp->party, RC_BOUNCE_RESPOND_AGAIN, &sge, 1, bounce, psn);
	}
	if (error == -EAGAIN) {
		qp->rsp.stalled = true; /* until rc_resume() */
		return false;
	}
	if (error != 0) {
		abandon_read(qp, resource, bit, RC_NAK_OPERATION);
		return false;
	}
	if (!emit_read_response(qp, resource, region, va, len, data))
		return false;
	if (bit != RC_PENDING_AGAIN)
		rc_ahead_used(qp, BOUNCE_AHEAD_READ, psn + 1);
	return true;
}

/* Send one response of a READ. False: no frame, its payload is not there yet, or the READ was abandoned. */
static bool
respond_read(struct rc_qp *qp, const struct rc_resource *resource, uint32_t bit)
{
	uint32_t offset = resource->next * qp->mtu, len = resource->length - offset;
	uint64_t va = resource->va + offset;
	struct mem_region *region = NULL;

	if (len > qp->mtu)
		len = qp->mtu;
	if (likely(len != 0)) {
		region = mem_check(qp->env->mem, resource->rkey, qp->pz, qp->qpn, ONE_ACCESS_REMOTE_READ, va,
				   len);
		if (unlikely(region == NULL)) {
			abandon_read(qp, resource, bit, RC_NAK_ACCESS);
			return false;
		}
		if (unlikely(region->base == NULL))
			return respond_bounced(qp, resource, region, va, len, bit);
	}
	return emit_read_response(qp, resource, region, va, len, NULL);
}

/* Send middle responses of a READ, at most `most`. Returns their number; 0: send one by one. */
static uint32_t
respond_middles(struct rc_qp *qp, const struct rc_resource *resource, uint32_t most)
{
	uint32_t offset = resource->next * qp->mtu, n = resource->end - 1 - resource->next;
	uint64_t va = resource->va + offset;
	uint32_t psn = resource->first + resource->next;
	const struct mem_region *region;
	const uint8_t *from;

	if (n > most)
		n = most;
	if (resource->next == resource->start || n < 2)
		return 0;
	region = mem_check(qp->env->mem, resource->rkey, qp->pz, qp->qpn, ONE_ACCESS_REMOTE_READ, va,
			   n * qp->mtu);
	if (unlikely(region == NULL))
		return 0;
	if (likely(region->base != NULL))
		return rc_emit_middles(qp, WIRE_READ_RESPONSE_MIDDLE, psn, n, mem_at(region, va));
	if (rc_ahead_response(qp, resource, &n, &from) != 0)
		return 0;
	n = rc_emit_middles(qp, WIRE_READ_RESPONSE_MIDDLE, psn, n, from);
	rc_ahead_used(qp, BOUNCE_AHEAD_READ, psn + n);
	return n;
}

/* Send one response of a READ again; false: no frame, or its payload is not there yet. */
static RC_COLD bool
respond_again(struct rc_qp *qp)
{
	struct rc_responder *rs = &qp->rsp;
	uint32_t psn = rc_next_again(qp);
	const struct rc_resource *resource = rc_resource_of(qp, psn);
	struct rc_resource one;

	if (resource == NULL || resource->opcode != WIRE_READ_REQUEST) {
		rc_count(qp, RC_COUNT_DROP_REPLAY);
	} else {
		/* Each repeated response is sent as an own READ, whatever it was requested with. */
		one = *resource;
		one.start = one.next = (psn - one.first) & RC_PSN_MASK;
		one.end = one.next + 1;
		if (!respond_read(qp, &one, RC_PENDING_AGAIN) && (rs->pending & RC_PENDING_AGAIN))
			return false;
	}
	rs->pending |= RC_PENDING_AGAIN;
	rc_answered_again(qp);
	return true;
}

/* The oldest resource with a pending response: the ring's oldest entry is at resource_next. */
static uint32_t
oldest_pending(const struct rc_responder *rs)
{
	uint32_t from = rs->pending & ~((1u << rs->resource_next) - 1u);

	return (uint32_t)__builtin_ctz(from != 0 ? from : rs->pending);
}

static uint32_t
send_responses(struct rc_qp *qp, uint32_t budget)
{
	struct rc_responder *rs = &qp->rsp;
	uint32_t n = 0;

	while (rs->pending != 0 && n < budget) {
		struct rc_resource *resource;
		uint32_t i, bit, several;
		bool read;

		if (unlikely(rs->pending & RC_PENDING_AGAIN)) {
			if (!respond_again(qp))
				return n;
			n++;
			continue;
		}
		i = oldest_pending(rs);
		resource = &rs->resource[i];
		if (unlikely(rs->closed & RC_CLOSED_BEHIND) && rc_lands_before(qp, resource->first)) {
			rs->stalled = true; /* until rc_resume() */
			return n;
		}
		bit = 1u << i;
		read = resource->opcode == WIRE_READ_REQUEST;
		several = read ? respond_middles(qp, resource, budget - n) : 0;
		resource->next += several;
		if (several == 0 && qp->packed && rs->closed == 0)
			several = rc_respond_packed(qp, i, budget - n);
		if (several != 0) {
			n += several;
			continue;
		}
		if (!read) {
			if (!emit_aeth(qp, WIRE_ATOMIC_ACKNOWLEDGE, resource->first, RC_SYNDROME_ACK,
				       resource->found))
				return n;
		} else if (!respond_read(qp, resource, bit)) {
			if (rs->pending & bit)
				return n;
			continue;
		}
		n++;
		if (++resource->next == resource->end) {
			rs->pending &= ~bit;
			rs->fresh &= (uint16_t)~bit;
		}
	}
	return n;
}

/* Send a sequence NAK with the bitmap of packets held behind the hole; false: no frame. */
static RC_COLD bool
emit_report(struct rc_qp *qp)
{
	uint8_t map[RC_REPORT_MAX];
	struct wire_build b = {
		.opcode = WIRE_ACKNOWLEDGE,
		.qpn = qp->peer_qpn,
		.psn = qp->rsp.epsn,
		.syndrome = RC_NAK_SEQ,
		.msn = qp->rsp.msn,
		.payload_len = rc_report(qp, map),
	};

	return rc_emit(qp, &b, map);
}

/* Send the ACK or NAK; false: no frame. */
static bool
send_acknowledgement(struct rc_qp *qp)
{
	struct rc_responder *rs = &qp->rsp;
	uint8_t reply = rs->reply, syndrome = RC_SYNDROME_ACK;

	if (unlikely(reply != RC_REPLY_ACK))
		syndrome = reply == RC_REPLY_NAK_SEQ ? RC_NAK_SEQ
			   : reply == RC_REPLY_RNR   ? SYNDROME_RNR | rs->min_rnr_timer
						     : rs->syndrome;
	if (unlikely(reply == RC_REPLY_NAK_SEQ && rs->scoreboard != NULL)) {
		if (!emit_report(qp))
			return false;
	} else if (!emit_aeth(qp, WIRE_ACKNOWLEDGE, rs->reply_psn, syndrome, 0)) {
		return false;
	}
	rs->reply = RC_REPLY_NONE;
	switch (reply) {
	case RC_REPLY_ACK:
		rc_count(qp, RC_COUNT_ACK_SENT);
		break;
	case RC_REPLY_NAK_SEQ:
		rc_count(qp, RC_COUNT_NAK_SEQ_SENT);
		break;
	case RC_REPLY_RNR:
		rc_count(qp, RC_COUNT_RNR_SENT);
		break;
	default:
		rc_count(qp, RC_COUNT_NAK_INVALID_SENT + syndrome - RC_NAK_INVALID);
		rc_fail(qp, NULL, ONE_STATUS_FLUSHED, RC_ERROR_RESPONDER);
		break;
	}
	return true;
}

static RC_COLD uint32_t
emit_cnp(struct rc_qp *qp)
{
	struct wire_build b = {.opcode = WIRE_CNP, .qpn = qp->peer_qpn};

	if ((qp->rsp.cnp_due & RC_CNP_HELLO) != 0)
		return rc_hello_emit(qp) ? 1 : 0;
	if (!rc_emit(qp, &b, NULL))
		return 0;
	qp->rsp.cnp_due = 0;
	rc_count(qp, RC_COUNT_CNP_SENT);
	return 1;
}

/* True if the next reply due is a READ response. */
static bool
next_is_read(const struct rc_responder *rs)
{
	return (rs->pending & RC_PENDING_AGAIN) != 0 ||
	       rs->resource[oldest_pending(rs)].opcode == WIRE_READ_REQUEST;
}

uint32_t
rc_answer(struct rc_qp *qp, uint32_t reads)
{
	struct rc_responder *rs = &qp->rsp;
	uint32_t n = 0;

	if (qp->state != RC_RTS && qp->state != RC_RTR)
		return 0;
	if (rs->cnp_due)
		emit_cnp(qp);
	while (rs->pending != 0 && !rs->stalled) {
		bool read = next_is_read(rs);
		uint32_t most = read ? reads - n : 1, done = most != 0 ? send_responses(qp, most) : 0;

		if (done == 0)
			break;
		n += read ? done : 0;
	}
	if (rs->pending == 0 && rs->reply != RC_REPLY_NONE)
		send_acknowledgement(qp);
	return n;
}

uint32_t
rc_reply_output(struct rc_qp *qp, uint32_t budget, uint64_t now)
{
	struct rc_responder *rs = &qp->rsp;
	uint32_t n = 0;

	if (unlikely(rs->cnp_due) && budget > 0)
		n = emit_cnp(qp);
	if (rs->pending != 0) {
		/* A long READ leaves half of the frames to our own requests. */
		uint32_t share = qp->req.ready ? (budget + 1) / 2 : budget;

		n += send_responses(qp, share > n ? share - n : 0);
	}
	if (rs->pending == 0 && rs->reply != RC_REPLY_NONE && n < budget && send_acknowledgement(qp))
		n++;
	return n;
}
