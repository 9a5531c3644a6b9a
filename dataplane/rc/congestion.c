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
fine_window(const struct rc_requester *rq)
{
	return (uint32_t)rq->window << 8 | rq->window_fraction;
}

static void
set_fine_window(struct rc_requester *rq, uint32_t window)
{
	if (window < RC_WINDOW_LEAST << 8)
		window = RC_WINDOW_LEAST << 8;
	if (window >= (uint32_t)rq->window_max << 8) {
		window = (uint32_t)rq->window_max << 8;
		rq->congested = false;
	}
	rq->window = (uint16_t)(window >> 8);
	rq->window_fraction = (uint8_t)window;
}

RC_COLD void
rc_congestion(struct rc_qp *qp)
{
	struct rc_requester *rq = &qp->req;
	uint32_t window = fine_window(rq), flight = (rq->max - rq->una) << 8;

	if (qp->state != RC_RTS || rq->una == rq->max || rq->cut)
		return;
	rq->cut = true;
	rq->cut_psn = rq->max;
	if (!rq->congested) {
		rq->congested = true;
		rq->alpha = ALPHA_ONE;
		/* An unused part of the window is no evidence about the path. */
		if (flight < window)
			window = flight;
	} else {
		rq->alpha += (ALPHA_ONE - rq->alpha) >> ALPHA_SHIFT;
	}
	rq->target = window;
	set_fine_window(rq, window - (uint32_t)((uint64_t)window * rq->alpha / (2 * ALPHA_ONE)));
	rq->overdrawn = rq->max - rq->una >= rq->window;
	rq->threshold = rq->window;
	rq->stage = 0;
	rq->acked = 0;
}

/* A round trip without congestion, after one with congestion. */
static RC_COLD void
recover_window(struct rc_qp *qp)
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
	if (rq->target < fine_window(rq))
		rq->target = fine_window(rq);
	set_fine_window(rq, (fine_window(rq) + rq->target + 1) / 2);
}

void
rc_window_grow(struct rc_qp *qp, uint32_t acked)
{
	struct rc_requester *rq = &qp->req;
	uint32_t window = rq->window, sum;

	if (window < rq->threshold) {
		window += acked;
	} else {
		sum = rq->acked + acked;
		if (sum >= window) {
			sum = 0;
			if (rq->congested) {
				rq->acked = 0;
				if (!rq->cut)
					recover_window(qp);
				return;
			}
			window += (window >> 3) + 1;
		}
		rq->acked = (uint16_t)sum;
	}
	rq->window = (uint16_t)(window < rq->window_max ? window : rq->window_max);
}

void
rc_window_cut(struct rc_requester *rq)
{
	if (rq->cut)
		return;
	rq->cut = true;
	rq->cut_psn = rq->max;
	rq->window = rq->window / 2 > RC_WINDOW_MIN ? rq->window / 2 : RC_WINDOW_MIN;
	if (rq->window > rq->window_max)
		rq->window = rq->window_max;
	rq->threshold = rq->window;
	rq->acked = 0;
}

void
rc_window_timeout(struct rc_requester *rq)
{
	rc_window_cut(rq);
	rq->window = RC_WINDOW_TIMEOUT;
}

/* Random loss, as on cables, is no evidence about the path. Packets dropped by an overflowing queue must not
 * be offered to it again. */
void
rc_window_lost(struct rc_requester *rq, uint32_t lost)
{
	if (lost <= rq->window / RC_LOSS_RANDOM + 1u)
		return;
	rq->window =
		(uint16_t)(rq->window > lost + RC_WINDOW_TIMEOUT ? rq->window - lost : RC_WINDOW_TIMEOUT);
	rq->threshold = rq->window;
	rq->acked = 0;
}
