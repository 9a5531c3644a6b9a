/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Retransmission times and retries.
 *
 * One packet at a time is timed, never a repeat (Karn). The retransmission time is SRTT + 4 RTTVAR, at least
 * 2 ms, doubled for each expiry in a row, at most the CM's timeout or half a second.
 *
 * A peer whose processor is busy answers late. An expiry is in doubt until it is known whether something was
 * lost. Two answers in a row that cover more than was sent again before them prove that nothing was; a single
 * one may cover requests that were held behind a hole, or repeat an answer that was lost. Then packets not
 * yet sent again are not sent again, and the timer's floor becomes twice the time that the answer took. The
 * floor halves with each expiry that was right. The floor starts at RC_MIN_RTO_MAX if an end shares its
 * processor: a scheduler's time slice there is longer than any round trip.
 *
 * Expiries may come much faster than the CM's timeout, so they do not use up retries. A retry is charged when
 * a round has to be repeated and the CM's timeout has passed without progress since the last charge. A peer
 * is thus given up after retry_count + 1 timeouts, as if we had waited each time.
 */
#include "sg_list.h"

uint64_t
rc_rto(const struct rc_requester *rq)
{
	uint64_t rto = rq->srtt == 0 ? RC_RTO_START : (uint64_t)rq->srtt + 4u * (uint64_t)rq->rttvar;
	uint32_t floor = rq->tlp_allowed ? RC_TLP_FLOOR : RC_RTO_FLOOR;

	if (floor < rq->min_rto)
		floor = rq->min_rto;
	if (rto < floor)
		rto = floor;
	rto <<= rq->backoff;
	if (rto > RC_RTO_MAX)
		rto = RC_RTO_MAX;
	return rto < rq->limit ? rto : rq->limit;
}

static void
sample_rtt(struct rc_requester *rq, uint64_t rtt)
{
	uint32_t r = rtt < RC_RTO_UNBOUNDED ? (uint32_t)rtt : (uint32_t)RC_RTO_UNBOUNDED;
	uint32_t error;

	if (r == 0)
		r = 1;
	if (rq->srtt == 0) {
		rq->srtt = r;
		rq->rttvar = r / 2;
		return;
	}
	error = r > rq->srtt ? r - rq->srtt : rq->srtt - r;
	rq->rttvar = rq->rttvar - rq->rttvar / 4 + error / 4;
	rq->srtt = rq->srtt - rq->srtt / 8 + r / 8;
	if (rq->srtt == 0)
		rq->srtt = 1;
}

void
rc_lost(struct rc_requester *rq)
{
	if (rq->spurious == RC_SPURIOUS_NONE)
		return;
	rq->spurious = RC_SPURIOUS_NONE;
	rq->min_rto /= 2;
}

/* The answer may be for the repeat, and the original lost. An answer that takes longer than a round trip from
 * the repeat proves nothing: the peer may have been late for both. */
static void
answered_repeat(struct rc_requester *rq, uint64_t now)
{
	if (now - rq->recover_at <= 2ull * rq->srtt + 4ull * rq->rttvar)
		rc_lost(rq);
	rq->spurious = RC_SPURIOUS_NONE;
}

/* An answer arrived, and no report of loss. */
static RC_COLD void
detect_spurious(struct rc_qp *qp, uint64_t now)
{
	struct rc_requester *rq = &qp->req;
	uint64_t waited = 2 * (now - rq->progress_at);
	bool late;

	if (rq->spurious == RC_SPURIOUS_TLP) {
		/* The probe's own answer takes a round trip, and covers the newest packet, too. */
		late = rq->una != rq->max || now - rq->recover_at < rq->srtt / 2;
		rc_forget_reports(qp);
	} else {
		late = (int32_t)(rq->una - rq->snd) > 0;
		if (late && rq->spurious == RC_SPURIOUS_WENT_BACK) {
			rq->spurious = RC_SPURIOUS_PASSED;
			rq->late = waited < RC_MIN_RTO_MAX ? (uint32_t)waited : RC_MIN_RTO_MAX;
			return;
		}
	}
	if (!late) {
		answered_repeat(rq, now);
		return;
	}
	if (rq->spurious == RC_SPURIOUS_PASSED) {
		rc_skip_to(rq, rq->max);
		if (rq->cwnd < rq->threshold)
			rq->cwnd = rq->threshold;
		waited = rq->late;
	}
	rq->spurious = RC_SPURIOUS_NONE;
	if (waited > rq->min_rto)
		rq->min_rto = waited < RC_MIN_RTO_MAX ? (uint32_t)waited : RC_MIN_RTO_MAX;
}

void
rc_progress(struct rc_qp *qp, uint32_t before, uint64_t now)
{
	struct rc_requester *rq = &qp->req;

	if (unlikely(rq->spurious != RC_SPURIOUS_NONE))
		detect_spurious(qp, now);
	rq->retries = 0;
	rq->rnr_tries = 0;
	rq->backoff = 0;
	rq->expiries = 0;
	rq->recovering = false;
	rq->tlp_allowed = qp->selective;
	rq->rnr_until = RC_NEVER;
	rq->progress_at = now;
	if (rq->rtt_pending && (int32_t)(rq->una - rq->rtt_psn) > 0) {
		rq->rtt_pending = false;
		/* Take no sample from a packet that was sent again, or that waited for one (Karn). */
		if (likely(rq->scoreboard == NULL))
			sample_rtt(rq, now - rq->rtt_time);
	}
	if (unlikely(rq->cut) && (int32_t)(rq->una - rq->cut_psn) >= 0)
		rq->cut = false;
	if (unlikely(rq->scoreboard != NULL))
		rc_scoreboard_pass(rq, before);
	/* While an expiry is in doubt, acknowledged packets may not be those sent again. */
	if (rq->cwnd < rq->cwnd_max && likely(rq->spurious == RC_SPURIOUS_NONE))
		rc_cwnd_grow(qp, rq->una - before);
	if (unlikely((int32_t)(rq->snd - rq->una) < 0)) {
		/* Packets that we had gone back to send again have arrived after all. */
		rq->snd = rq->una;
		rq->cur = rq->head;
	}
	rq->timer = rq->una == rq->max ? RC_NEVER : now + rc_rto(rq);
	rq->ready = rq->cur != NULL;
	if (unlikely(rq->scoreboard != NULL) && rq->una != rq->max) {
		rq->timer = now + rc_rescue_time(rq);
		rq->ready = true;
	}
}

static uint16_t
oldest_payload(const struct rc_qp *qp)
{
	const struct rc_node *node = qp->req.head;
	uint32_t left;

	if (node == NULL)
		return 0;
	left = node->work.length - (qp->req.una - node->first) * qp->mtu;
	return left < qp->mtu ? (uint16_t)left : qp->mtu;
}

bool
rc_charge(struct rc_qp *qp, uint64_t now)
{
	struct rc_requester *rq = &qp->req;

	if (rq->forever || now - rq->progress_at < rq->limit)
		return true;
	if (rq->retries >= rq->retry_count) {
		rc_count(qp, RC_COUNT_RETRY_EXCEEDED);
		qp->unacknowledged = oldest_payload(qp);
		rc_fail(qp, rq->head, ONE_STATUS_RETRY_EXCEEDED, RC_ERROR_REQUESTER);
		return false;
	}
	rq->retries++;
	rq->progress_at = now;
	return true;
}

bool
rc_is_silent(const struct rc_qp *qp)
{
	return qp->req.expiries == RC_SILENT_EXPIRIES;
}

uint64_t
rc_deadline(const struct rc_qp *qp)
{
	return qp->req.timer < qp->req.rnr_until ? qp->req.timer : qp->req.rnr_until;
}

void
rc_timeout(struct rc_qp *qp, uint64_t now)
{
	struct rc_requester *rq = &qp->req;

	if (qp->state != RC_RTS)
		return;
	if (rq->rnr_until <= now) {
		rq->rnr_until = RC_NEVER;
		rq->progress_at = now;
		rq->ready = rq->cur != NULL;
	}
	if (rq->timer > now)
		return;
	/* Either nothing can be sent again, or this end does not take responses: the peer is not to blame for
	 * the silence. */
	if (unlikely(qp->env->throttle == RC_STOPPED || rc_is_copying(qp))) {
		rq->progress_at = now;
		rq->timer = now + rc_rto(rq);
		return;
	}
	rc_count(qp, RC_COUNT_TIMEOUT);
	if (rq->expiries < RC_SILENT_EXPIRIES)
		rq->expiries++;
	if (!rc_charge(qp, now) || rc_tail_loss_probe(qp, now) || rc_rescue(qp, now))
		return;
	if (rq->backoff < RC_BACKOFF_MAX)
		rq->backoff++;
	rc_cwnd_timeout(rq);
	rc_go_back(qp, now);
	rq->spurious = RC_SPURIOUS_WENT_BACK;
}
