/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * After an access to memory without mapping (reach.h).
 *
 * What sends (a request, a READ response) has changed nothing when its payload is
 * not there yet: it is tried again.  A packet that came is kept with the access that
 * places its payload, and goes through its checks a second time when that is done;
 * nothing was changed by the first time.  Packets behind it are dropped: their
 * sender is told to repeat them when the queue pair goes on.
 */
#include "sg_list.h"

#include <string.h>

bool
rc_keep(struct rc_qp *qp, uint32_t slot, const struct wire_packet *packet)
{
	if (qp->party.job[slot] == NULL)
		return false;
	memcpy(reach_note(&qp->party, slot), packet, sizeof(*packet));
	return true;
}

static struct wire_packet
kept_packet(struct rc_qp *qp, uint32_t slot)
{
	struct wire_packet packet;

	memcpy(&packet, reach_note(&qp->party, slot), sizeof(packet));
	packet.payload = reach_data(&qp->party, slot);
	return packet;
}

RC_COLD bool
rc_request_missed(struct rc_qp *qp, int32_t distance)
{
	struct rc_responder *rs = &qp->rsp;

	if (rs->closed & RC_CLOSED_FATAL) {
		rc_count(qp, RC_COUNT_DROP_STATE);
		return true;
	}
	if (qp->party.job[RC_REACH_REQUEST] == NULL) { /* taken away for others: begin again */
		rs->closed = 0;
		return false;
	}
	rs->missed |= distance > 0;
	rc_count(qp, RC_COUNT_DROP_PARKED);
	return true;
}

RC_COLD bool
rc_response_missed(struct rc_qp *qp)
{
	struct rc_requester *rq = &qp->req;

	if (qp->party.job[RC_REACH_RESPONSE] == NULL) { /* as above */
		rq->placing = false;
		return false;
	}
	rq->missed = true;
	rc_count(qp, RC_COUNT_DROP_PARKED);
	return true;
}

RC_COLD void
rc_request_parked(struct rc_qp *qp, const struct wire_packet *packet)
{
	struct rc_responder *rs = &qp->rsp;

	if (rc_keep(qp, RC_REACH_REQUEST, packet))
		rs->closed |= RC_CLOSED_PLACING;
	else
		/* It will be sent again in time; to ask for it at once would not help. */
		rs->nak_sent = true;
}

static void
resume_request(struct rc_qp *qp, uint64_t now)
{
	struct wire_packet packet = kept_packet(qp, RC_REACH_REQUEST);
	struct rc_responder *rs = &qp->rsp;

	rs->closed &= (uint8_t)~RC_CLOSED_PLACING;
	rc_request_input(qp, &packet, now);
	/* It may have been refused before it came to the outcome. */
	if (reach_done(&qp->party, RC_REACH_REQUEST))
		reach_cancel(&qp->party, RC_REACH_REQUEST);
	if (rs->closed != 0 || !rs->missed)
		return;
	rs->missed = false;
	if (rs->reply == RC_REPLY_NONE || rs->reply == RC_REPLY_ACK) {
		rs->nak_sent = true;
		rs->reply = RC_REPLY_NAK_SEQ; /* acknowledges what is before it */
		rs->reply_psn = rs->epsn;
	}
}

static void
resume_response(struct rc_qp *qp, uint64_t now)
{
	struct wire_packet packet = kept_packet(qp, RC_REACH_RESPONSE);
	struct rc_requester *rq = &qp->req;

	rq->placing = false;
	rc_response_input(qp, &packet, now);
	if (reach_done(&qp->party, RC_REACH_RESPONSE))
		reach_cancel(&qp->party, RC_REACH_RESPONSE);
	if (qp->state == RC_RTS && !rq->placing && rq->missed) {
		rq->missed = false;
		if (rq->una != rq->max && rq->rnr_until == RC_NEVER)
			rc_go_back(qp, now);
	}
}

void
rc_resume(struct rc_qp *qp, uint64_t now)
{
	qp->rsp.stalled = false;
	if (qp->state == RC_RTS)
		qp->req.ready =
			(qp->req.cur != NULL || qp->req.scoreboard != NULL) && qp->req.rnr_until == RC_NEVER;
	if (reach_done(&qp->party, RC_REACH_REQUEST))
		resume_request(qp, now);
	if (reach_done(&qp->party, RC_REACH_RESPONSE))
		resume_response(qp, now);
	/* Sent and acknowledged in another way meanwhile. */
	if (qp->req.cur == NULL && qp->req.scoreboard == NULL && reach_done(&qp->party, RC_REACH_SEND))
		reach_cancel(&qp->party, RC_REACH_SEND);
	if (qp->rsp.pending == 0 && reach_done(&qp->party, RC_REACH_RESPOND))
		reach_cancel(&qp->party, RC_REACH_RESPOND);
}
