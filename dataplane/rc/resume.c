/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Continuation after an access to memory without mapping (bounce.h).
 *
 * A request or READ response to be sent changes no state before its payload is there: sending is tried again.
 * Arriving payload goes through landing.c. An atomic is kept with the access that carries it out; afterwards
 * it goes through its checks a second time, since the first time changed nothing. Requests after it are
 * dropped, and asked for again when the queue pair continues.
 */
#include "sg_list.h"

#include <string.h>

bool
rc_is_copying(const struct rc_qp *qp)
{
	const struct bounce_party *party = &qp->party;

	return party->starved != NULL || bounce_queued(party, BOUNCE_LANDED) ||
	       (bounce_queued(party, BOUNCE_AHEAD) && !bounce_queue_done(party, BOUNCE_AHEAD)) ||
	       (party->job[RC_BOUNCE_AGAIN] != NULL && !bounce_done(party, RC_BOUNCE_AGAIN));
}

RC_COLD void
rc_request_lost(struct rc_qp *qp)
{
	struct rc_responder *rs = &qp->rsp;

	rs->missed = true;
	/* Asking for it at once would not help. */
	rs->nak_sent = true;
	rc_count(qp, RC_COUNT_DROP_BOUNCED);
}

/* Handle a request while payload of earlier ones is not in place; true: the request is dropped, or held. */
static bool
waits_behind(struct rc_qp *qp, const struct wire_packet *packet, int32_t distance, uint64_t now)
{
	struct rc_responder *rs = &qp->rsp;

	if (distance < 0) {
		rc_count(qp, RC_COUNT_DUPLICATE);
		rc_land_ask(qp);
		return true;
	}
	if (distance > 0) {
		rs->missed = true;
		if (qp->selective)
			rc_hold_request(qp, packet, (uint32_t)distance, now);
		else
			rc_count(qp, RC_COUNT_OUT_OF_SEQUENCE);
		return true;
	}
	return false;
}

RC_COLD bool
rc_request_waits(struct rc_qp *qp, const struct wire_packet *packet, int32_t distance, uint64_t now)
{
	struct rc_responder *rs = &qp->rsp;

	if (rs->closed & RC_CLOSED_FATAL) {
		rc_count(qp, RC_COUNT_DROP_STATE);
		return true;
	}
	if (rs->closed & RC_CLOSED_BEHIND)
		return waits_behind(qp, packet, distance, now);
	if (qp->party.job[RC_BOUNCE_ATOMIC] == NULL) { /* job taken for another access: start again */
		rs->closed = 0;
		return false;
	}
	rs->missed |= distance > 0;
	rc_count(qp, RC_COUNT_DROP_BOUNCED);
	return true;
}

RC_COLD void
rc_atomic_deferred(struct rc_qp *qp, const struct wire_packet *packet)
{
	if (qp->party.job[RC_BOUNCE_ATOMIC] == NULL) {
		rc_request_lost(qp);
		return;
	}
	memcpy(bounce_note(&qp->party, RC_BOUNCE_ATOMIC), packet, sizeof(*packet));
	qp->rsp.closed |= RC_CLOSED_PLACING;
}

static void
resume_atomic(struct rc_qp *qp, uint64_t now)
{
	struct wire_packet packet;

	memcpy(&packet, bounce_note(&qp->party, RC_BOUNCE_ATOMIC), sizeof(packet));
	packet.payload = NULL; /* an atomic has none */
	qp->rsp.closed &= (uint8_t)~RC_CLOSED_PLACING;
	rc_request_input(qp, &packet, now);
	/* The atomic may have been refused before its outcome was used. */
	if (bounce_done(&qp->party, RC_BOUNCE_ATOMIC))
		bounce_cancel(&qp->party, RC_BOUNCE_ATOMIC);
}

/* Ask for requests that were dropped meanwhile. */
static void
ask_again(struct rc_qp *qp)
{
	struct rc_responder *rs = &qp->rsp;

	if (rs->closed != 0 || !rs->missed || (qp->state != RC_RTS && qp->state != RC_RTR))
		return;
	rs->missed = false;
	if (rs->reply != RC_REPLY_NONE && rs->reply != RC_REPLY_ACK)
		return;
	rs->nak_sent = true;
	rs->reply = RC_REPLY_NAK_SEQ; /* acknowledges all before it */
	rs->reply_psn = rs->epsn;
}

/* Discard chunks read ahead for packets that were meanwhile sent and answered in another way. */
static void
forget_ahead(struct rc_qp *qp)
{
	if (qp->req.cur == NULL) {
		bounce_queue_clear(&qp->party, BOUNCE_AHEAD);
		if (qp->req.scoreboard == NULL && bounce_done(&qp->party, RC_BOUNCE_AGAIN))
			bounce_cancel(&qp->party, RC_BOUNCE_AGAIN);
	}
	if (qp->rsp.pending != 0)
		return;
	bounce_queue_clear(&qp->party, BOUNCE_AHEAD_READ);
	if (bounce_done(&qp->party, RC_BOUNCE_RESPOND_AGAIN))
		bounce_cancel(&qp->party, RC_BOUNCE_RESPOND_AGAIN);
}

void
rc_resume(struct rc_qp *qp, uint64_t now)
{
	qp->rsp.stalled = false;
	if (qp->state == RC_RTS)
		qp->req.ready =
			(qp->req.cur != NULL || qp->req.scoreboard != NULL) && qp->req.rnr_until == RC_NEVER;
	rc_land_done(qp);
	if (bounce_done(&qp->party, RC_BOUNCE_ATOMIC))
		resume_atomic(qp, now);
	ask_again(qp);
	rc_land_response_done(qp, now);
	forget_ahead(qp);
}
