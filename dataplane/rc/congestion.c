/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The congestion window: packets that may be in flight.
 *
 * Without congestion it doubles per round trip up to `threshold`, then grows by an eighth, up to a maximum
 * where it costs nothing. A round of go-back-N halves it. An expiry leaves a few packets to probe with: the
 * peer may just not have been scheduled; then its late acknowledgement covers everything, and only the probe
 * was sent twice. Selective repeat subtracts what was lost, if that is more than random.
 *
 * After a CNP, or a mark on a READ response, DCQCN governs the window, with round trips in place of its
 * timers. The window is cut by half of alpha, a moving average of the round trips that had a CNP. Then it
 * recovers half of the way to its former size in one round trip, then grows by two kilobytes per round trip,
 * then faster. Reaching the maximum ends that.
 */
#include "rc_internal.h"

#define ALPHA_ONE 65536u
#define ALPHA_SHIFT 4  /* g = 1/16 */
#define RECOVERY 1u    /* round trips */
#define HYPER 30u      /* round trips without congestion until growth becomes faster */
#define INCREASE 2048u /* bytes per round trip */

/* The window in 1/256 packets. */
static inline uint32_t
fine_cwnd(const struct rc_requester *rq)
{
	return (uint32_t)rq->cwnd << 8 | rq->cwnd_fraction;
}

static void
set_fine_cwnd(struct rc_requester *rq, uint32_t cwnd)
{
	if (cwnd < RC_CWND_LEAST << 8)
		cwnd = RC_CWND_LEAST << 8;
	if (cwnd >= (uint32_t)rq->cwnd_max << 8) {
		cwnd = (uint32_t)rq->cwnd_max << 8;
		rq->congested = false;
	}
	rq->cwnd = (uint16_t)(cwnd >> 8);
	rq->cwnd_fraction = (uint8_t)cwnd;
}

RC_COLD void
rc_congestion(struct rc_qp *qp)
{
	struct rc_requester *rq = &qp->req;
	uint32_t cwnd = fine_cwnd(rq), flight = (rq->max - rq->una) << 8;

	if (qp->state != RC_RTS || rq->una == rq->max || rq->cut)
		return;
	rq->cut = true;
	rq->cut_psn = rq->max;
	if (!rq->congested) {
		rq->congested = true;
		rq->alpha = ALPHA_ONE;
		/* An unused part of the window is no evidence about the path. */
		if (flight < cwnd)
			cwnd = flight;
	} else {
		rq->alpha += (ALPHA_ONE - rq->alpha) >> ALPHA_SHIFT;
	}
	rq->target = cwnd;
	set_fine_cwnd(rq, cwnd - (uint32_t)((uint64_t)cwnd * rq->alpha / (2 * ALPHA_ONE)));
	rq->overdrawn = rq->max - rq->una >= rq->cwnd;
	rq->threshold = rq->cwnd;
	rq->stage = 0;
	rq->acked = 0;
}

/* A round trip without congestion, after one with congestion. */
static RC_COLD void
recover_cwnd(struct rc_qp *qp)
{
	struct rc_requester *rq = &qp->req;
	uint32_t increase = (INCREASE << 8) / qp->mtu;

	rq->alpha -= rq->alpha >> ALPHA_SHIFT;
	if (rq->stage < UINT8_MAX)
		rq->stage++;
	if (rq->stage > HYPER)
		rq->target += (rq->stage - HYPER) * 4 * increase;
	else if (rq->stage > RECOVERY)
		rq->target += increase;
	if (rq->target < fine_cwnd(rq))
		rq->target = fine_cwnd(rq);
	set_fine_cwnd(rq, (fine_cwnd(rq) + rq->target + 1) / 2);
}

void
rc_cwnd_grow(struct rc_qp *qp, uint32_t acked)
{
	struct rc_requester *rq = &qp->req;
	uint32_t cwnd = rq->cwnd, sum;

	if (cwnd < rq->threshold) {
		cwnd += acked;
	} else {
		sum = rq->acked + acked;
		if (sum >= cwnd) {
			sum = 0;
			if (rq->congested) {
				rq->acked = 0;
				if (!rq->cut)
					recover_cwnd(qp);
				return;
			}
			cwnd += (cwnd >> 3) + 1;
		}
		rq->acked = (uint16_t)sum;
	}
	rq->cwnd = (uint16_t)(cwnd < rq->cwnd_max ? cwnd : rq->cwnd_max);
}

void
rc_cwnd_cut(struct rc_requester *rq)
{
	if (rq->cut)
		return;
	rq->cut = true;
	rq->cut_psn = rq->max;
	rq->cwnd = rq->cwnd / 2 > RC_CWND_MIN ? rq->cwnd / 2 : RC_CWND_MIN;
	if (rq->cwnd > rq->cwnd_max)
		rq->cwnd = rq->cwnd_max;
	rq->threshold = rq->cwnd;
	rq->acked = 0;
}

void
rc_cwnd_timeout(struct rc_requester *rq)
{
	rc_cwnd_cut(rq);
	rq->cwnd = RC_CWND_TIMEOUT;
}

/* Random loss, as on cables, is no evidence about the path. Packets dropped by an overflowing queue must not
 * be offered to it again. */
void
rc_cwnd_lost(struct rc_requester *rq, uint32_t lost)
{
	if (lost <= rq->cwnd / RC_LOSS_RANDOM + 1u)
		return;
	rq->cwnd = (uint16_t)(rq->cwnd > lost + RC_CWND_TIMEOUT ? rq->cwnd - lost : RC_CWND_TIMEOUT);
	rq->threshold = rq->cwnd;
	rq->acked = 0;
}
