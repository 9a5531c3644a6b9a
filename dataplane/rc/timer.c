/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When to send again.
 *
 * One packet at a time is timed; what is sent again is never timed.  The
 * retransmission time is SRTT + 4 RTTVAR, at least 2 ms, doubled for each
 * expiry in a row, at most the CM's timeout.
 *
 * Expiries may come much faster than that timeout, so they are not what uses
 * up retries: a retry is charged when a round has to be repeated and the CM's
 * timeout has passed without progress since the last charge.  A peer is thus
 * given up after retry_count + 1 timeouts, as if we had waited each time.
 */
#include "rc_internal.h"

uint64_t
rc_rto(const struct rc_requester *rq)
{
	uint64_t rto = rq->srtt == 0 ? RC_RTO_START : (uint64_t)rq->srtt + 4u * (uint64_t)rq->rttvar;

	if (rto < (rq->probe ? RC_PROBE_FLOOR : RC_RTO_FLOOR))
		rto = rq->probe ? RC_PROBE_FLOOR : RC_RTO_FLOOR;
	rto <<= rq->backoff;
	return rto < rq->limit ? rto : rq->limit;
}

static void
sample(struct rc_requester *rq, uint64_t rtt)
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
rc_progress(struct rc_qp *qp, uint32_t before, uint64_t now)
{
	struct rc_requester *rq = &qp->req;

	rq->retries = 0;
	rq->rnr_tries = 0;
	rq->backoff = 0;
	rq->recovering = false;
	rq->probe = qp->selective;
	rq->rnr_until = RC_NEVER;
	rq->progress_at = now;
	if (rq->rtt_pending && (int32_t)(rq->una - rq->rtt_psn) > 0) {
		rq->rtt_pending = false;
		/* What had to be sent again tells nothing, nor what waited for that. */
		if (likely(rq->board == NULL))
			sample(rq, now - rq->rtt_time);
	}
	if (unlikely(rq->cut) && (int32_t)(rq->una - rq->cut_psn) >= 0)
		rq->cut = false;
	if (unlikely(rq->board != NULL))
		rc_board_pass(rq, before);
	if (rq->window < rq->window_max)
		rc_window_grow(qp, rq->una - before);
	if (unlikely((int32_t)(rq->snd - rq->una) < 0)) {
		/* What we had gone back to send again has arrived after all. */
		rq->snd = rq->una;
		rq->cur = rq->head;
	}
	rq->timer = rq->una == rq->max ? RC_NEVER : now + rc_rto(rq);
	rq->ready = rq->cur != NULL;
	if (unlikely(rq->board != NULL) && rq->una != rq->max) {
		rq->timer = now + rc_rescue_time(rq);
		rq->ready = true;
	}
}

bool
rc_charge(struct rc_requester *rq, uint64_t now)
{
	if (rq->forever || now - rq->progress_at < rq->limit)
		return true;
	if (rq->retries >= rq->retry_count)
		return false;
	rq->retries++;
	rq->progress_at = now;
	return true;
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
	rc_count(qp, RC_COUNT_TIMEOUT);
	if (!rc_charge(rq, now)) {
		rc_count(qp, RC_COUNT_RETRY_EXCEEDED);
		rc_fail(qp, rq->head, ONE_STATUS_RETRY_EXCEEDED, RC_ERROR_REQUESTER);
		return;
	}
	if (rc_probe(qp, now) || rc_rescue(qp, now))
		return;
	if (rq->backoff < RC_BACKOFF_MAX)
		rq->backoff++;
	rc_window_timeout(rq);
	rc_go_back(qp, now);
}
