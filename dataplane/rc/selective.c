/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selective repeat, if both ends have announced it.
 *
 * The responder holds requests that arrive behind a hole, and executes them in order once the hole is filled,
 * so the standard's rules of order still hold. Its sequence NAK carries a bitmap of the held packets; the
 * requester sends only the holes again. The requester holds READ responses behind a hole likewise, and asks
 * only for the missing ones.
 *
 * Held packets may be discarded at any time: the bitmap is a hint. The requester discards it, and goes back,
 * whenever its timer expires.
 *
 * A scoreboard is needed, from a bounded pool shared by the queue pairs of one core. A queue pair that gets
 * none goes back N, as in the standard.
 *
 * A hole is sent again once, and then not before a packet is reported that was sent for the first time after
 * that.
 */
#include "sg_list.h"

#include <string.h>

#define WORD(psn) (((psn) & (RC_SCOREBOARD - 1)) / 64)
#define BIT(psn) (1ull << ((psn) % 64))

static inline bool
bit_is_set(const uint64_t *map, uint32_t psn)
{
	return (map[WORD(psn)] & BIT(psn)) != 0;
}

/* ---- scoreboards ---- */

size_t
rc_scoreboards_size(uint32_t count)
{
	return sizeof(struct rc_scoreboards) + (size_t)count * sizeof(struct rc_scoreboard);
}

struct rc_scoreboards *
rc_scoreboards_init(void *memory, uint32_t count)
{
	struct rc_scoreboards *scoreboards = memory;
	struct rc_scoreboard *scoreboard = (struct rc_scoreboard *)(scoreboards + 1);

	TAILQ_INIT(&scoreboards->used);
	for (uint32_t i = 0; i < count; i++) {
		scoreboard[i].next = scoreboards->free;
		scoreboards->free = &scoreboard[i];
	}
	return scoreboards;
}

static void
let_go(struct rc_qp *qp, struct rc_scoreboard *scoreboard, const struct wire_packet **place)
{
	if (*place == NULL)
		return;
	qp->env->release(qp->env, *place);
	*place = NULL;
	scoreboard->holds--;
}

/* Release held packets and clear the bitmaps; the scoreboard stays with its queue pair. */
static void
scoreboard_empty(struct rc_qp *qp, struct rc_scoreboard *scoreboard)
{
	for (uint32_t i = 0; scoreboard->holds > 0 && i < RC_SCOREBOARD; i++)
		let_go(qp, scoreboard, &scoreboard->held[i]);
	memset(scoreboard->done, 0, sizeof(scoreboard->done));
	memset(scoreboard->again, 0, sizeof(scoreboard->again));
}

static void
scoreboard_put(struct rc_qp *qp, struct rc_scoreboard **place)
{
	struct rc_scoreboards *scoreboards = qp->env->scoreboards;
	struct rc_scoreboard *scoreboard = *place;

	if (scoreboard == NULL)
		return;
	*place = NULL;
	if (place == &qp->req.scoreboard)
		qp->req.sacked = 0;
	else
		qp->rsp.pending &= ~RC_PENDING_AGAIN;
	scoreboard_empty(qp, scoreboard);
	TAILQ_REMOVE(&scoreboards->used, scoreboard, link);
	scoreboard->next = scoreboards->free;
	scoreboards->free = scoreboard;
}

/* Returns the scoreboard at `place`, a new one if there is none; NULL: none is available. */
static struct rc_scoreboard *
scoreboard_get(struct rc_qp *qp, struct rc_scoreboard **place, uint64_t now)
{
	struct rc_scoreboards *scoreboards = qp->env->scoreboards;
	struct rc_scoreboard *scoreboard = *place, *oldest;

	if (scoreboards == NULL)
		return NULL;
	if (scoreboard == NULL) {
		/* Peers that never fill their holes must not keep all scoreboards. */
		oldest = TAILQ_FIRST(&scoreboards->used);
		if (scoreboards->free == NULL && oldest != NULL && now - oldest->touched > RC_SCOREBOARD_IDLE)
			scoreboard_put(oldest->qp, oldest->place);
		scoreboard = scoreboards->free;
		if (scoreboard == NULL)
			return NULL;
		scoreboards->free = scoreboard->next;
		scoreboard->qp = qp;
		scoreboard->place = place;
		scoreboard->count = 0;
		*place = scoreboard;
	} else {
		TAILQ_REMOVE(&scoreboards->used, scoreboard, link);
	}
	scoreboard->touched = now;
	TAILQ_INSERT_TAIL(&scoreboards->used, scoreboard, link);
	return scoreboard;
}

void
rc_scoreboards_drop(struct rc_qp *qp)
{
	scoreboard_put(qp, &qp->req.scoreboard);
	scoreboard_put(qp, &qp->rsp.scoreboard);
}

void
rc_forget_reports(struct rc_qp *qp)
{
	scoreboard_put(qp, &qp->req.scoreboard);
}

static bool
hold_packet(struct rc_qp *qp, struct rc_scoreboard *scoreboard, const struct wire_packet *packet)
{
	const struct wire_packet **place = &scoreboard->held[packet->psn & (RC_SCOREBOARD - 1)];

	/* The later frame wins: an earlier one may have been forged before the peer sent its own. */
	let_go(qp, scoreboard, place);
	*place = qp->env->hold(qp->env, qp->env->frame != NULL ? qp->env->frame : packet);
	if (*place == NULL)
		return false;
	scoreboard->holds++;
	rc_count(qp, RC_COUNT_HELD);
	return true;
}

/* ---- responder ---- */

/* True if the peer may have sent the packet `distance` PSNs after the expected one by now. */
static bool
may_be_sent(const struct rc_responder *rs, uint32_t distance)
{
	uint32_t most = RC_AHEAD_MAX + (rs->scoreboard != NULL ? rs->scoreboard->holds : 0);

	return distance < (most < RC_SCOREBOARD ? most : RC_SCOREBOARD);
}

void
rc_hold_request(struct rc_qp *qp, const struct wire_packet *packet, uint32_t distance, uint64_t now)
{
	struct rc_responder *rs = &qp->rsp;
	struct rc_scoreboard *scoreboard = NULL;

	if (may_be_sent(rs, distance))
		scoreboard = scoreboard_get(qp, &rs->scoreboard, now);
	if (scoreboard != NULL && hold_packet(qp, scoreboard, packet))
		return;
	rc_count(qp, RC_COUNT_OUT_OF_SEQUENCE);
}

/* Release packets held inside of the READ executed at `psn`: requests for parts of it that overtook it. */
static void
release_parts(struct rc_qp *qp, uint32_t psn)
{
	struct rc_scoreboard *scoreboard = qp->rsp.scoreboard;
	uint32_t count = (qp->rsp.epsn - psn) & RC_PSN_MASK;

	for (uint32_t i = 1; scoreboard != NULL && scoreboard->holds > 0 && i < count && i < RC_SCOREBOARD;
	     i++)
		let_go(qp, scoreboard, &scoreboard->held[(psn + i) & (RC_SCOREBOARD - 1)]);
}

void
rc_held_requests(struct rc_qp *qp, uint32_t psn)
{
	struct rc_responder *rs = &qp->rsp;
	uint32_t first = rs->epsn;
	const struct wire_packet *one;
	struct wire_packet inside;
	bool held;

	release_parts(qp, psn);
	/* Executing may end the connection, and so free the scoreboard. */
	while (rs->scoreboard != NULL && rs->scoreboard->holds > 0) {
		const struct wire_packet **place = &rs->scoreboard->held[rs->epsn & (RC_SCOREBOARD - 1)];
		const struct wire_packet *packet = *place;
		uint32_t epsn = rs->epsn;

		if (packet == NULL)
			break;
		*place = NULL;
		rs->scoreboard->holds--;
		one = rc_packet_of(packet, epsn, &inside);
		if (one != NULL)
			rc_request_execute(qp, one);
		qp->env->release(qp->env, packet);
		if (rs->epsn == epsn)
			break;
		release_parts(qp, epsn);
	}
	if (rs->scoreboard == NULL)
		return;
	held = rs->scoreboard->holds > 0;
	if (!held && rs->scoreboard->count == 0)
		scoreboard_put(qp, &rs->scoreboard);
	if (rs->epsn == first)
		return;
	if (rs->closed & RC_CLOSED_BEHIND) {
		rs->missed |= held;
		rc_land_ask(qp);
		return;
	}
	/* Report progress, whatever the last packet asked for. */
	if (rs->reply == RC_REPLY_NONE || rs->reply == RC_REPLY_ACK || rs->reply == RC_REPLY_NAK_SEQ) {
		rs->reply = held ? RC_REPLY_NAK_SEQ : RC_REPLY_ACK;
		rs->reply_psn = held ? rs->epsn : (rs->epsn - 1) & RC_PSN_MASK;
	}
}

bool
rc_answer_again(struct rc_qp *qp, uint32_t psn, uint32_t count, uint64_t now)
{
	struct rc_responder *rs = &qp->rsp;
	struct rc_scoreboard *scoreboard;

	if (rc_psn_diff(rs->epsn, psn) > (int32_t)RC_SCOREBOARD)
		return false;
	scoreboard = scoreboard_get(qp, &rs->scoreboard, now);
	if (scoreboard == NULL)
		return false;
	if (scoreboard->count == 0 || rc_psn_diff(psn, scoreboard->cursor) < 0)
		scoreboard->cursor = psn;
	for (uint32_t end = psn + count; psn != end; psn++) {
		scoreboard->count += !bit_is_set(scoreboard->again, psn);
		scoreboard->again[WORD(psn)] |= BIT(psn);
	}
	rs->pending |= RC_PENDING_AGAIN;
	return true;
}

uint32_t
rc_next_again(struct rc_qp *qp)
{
	struct rc_scoreboard *scoreboard = qp->rsp.scoreboard;

	while (!bit_is_set(scoreboard->again, scoreboard->cursor))
		scoreboard->cursor = scoreboard->again[WORD(scoreboard->cursor)] == 0
					     ? (scoreboard->cursor | 63) + 1
					     : scoreboard->cursor + 1;
	return scoreboard->cursor & RC_PSN_MASK;
}

void
rc_answered_again(struct rc_qp *qp)
{
	struct rc_responder *rs = &qp->rsp;
	struct rc_scoreboard *scoreboard = rs->scoreboard;

	scoreboard->again[WORD(scoreboard->cursor)] &= ~BIT(scoreboard->cursor);
	scoreboard->cursor = (scoreboard->cursor + 1) & RC_PSN_MASK;
	if (--scoreboard->count > 0)
		return;
	rs->pending &= ~RC_PENDING_AGAIN;
	if (scoreboard->holds == 0)
		scoreboard_put(qp, &rs->scoreboard);
}

uint32_t
rc_report(const struct rc_qp *qp, uint8_t *map)
{
	const struct rc_scoreboard *scoreboard = qp->rsp.scoreboard;
	uint32_t base = qp->rsp.epsn + 1, len = 0, holds = scoreboard->holds;
	uint32_t bits = qp->mtu < RC_REPORT_MAX ? 8u * qp->mtu : RC_SCOREBOARD - 1;

	for (uint32_t i = 0; holds > 0 && i < bits; i++) {
		const struct wire_packet *packet = scoreboard->held[(base + i) & (RC_SCOREBOARD - 1)];

		if (packet == NULL)
			continue;
		holds--;
		if (!rc_has_psn(packet, base + i))
			continue;
		while (len <= i / 8)
			map[len++] = 0;
		map[i / 8] |= (uint8_t)(1u << i % 8);
	}
	while ((len & 3) != 0)
		map[len++] = 0;
	return len;
}

/* ---- requester ---- */

static void
count_sacked(struct rc_requester *rq)
{
	rq->sacked =
		(uint16_t)(rq->scoreboard->count < RC_SACKED_MAX ? rq->scoreboard->count : RC_SACKED_MAX);
}

static inline void
mark_done(struct rc_requester *rq, uint32_t psn)
{
	struct rc_scoreboard *scoreboard = rq->scoreboard;

	if (bit_is_set(scoreboard->done, psn))
		return;
	scoreboard->done[WORD(psn)] |= BIT(psn);
	scoreboard->count++;
	scoreboard->news = true;
	if ((int32_t)(psn + 1 - scoreboard->high) > 0)
		scoreboard->high = psn + 1;
}

static inline void
mark_again(struct rc_requester *rq, uint32_t psn, uint16_t order)
{
	rq->scoreboard->again[WORD(psn)] |= BIT(psn);
	rq->scoreboard->sent_at[psn & (RC_SCOREBOARD - 1)] = rq->max;
	rq->scoreboard->order[psn & (RC_SCOREBOARD - 1)] = order;
}

static inline uint16_t
order_of(const struct rc_scoreboard *scoreboard, uint32_t psn)
{
	return bit_is_set(scoreboard->again, psn) ? scoreboard->order[psn & (RC_SCOREBOARD - 1)] : 0;
}

/* True if a repeat of `order` would have been answered before the newest answered one. */
static inline bool
is_overtaken(const struct rc_scoreboard *scoreboard, uint32_t psn, uint16_t order)
{
	int16_t later = (int16_t)(scoreboard->answered_order - order);

	return order != 0 && (later > 0 || (later == 0 && (int32_t)(scoreboard->answered - psn) > 0));
}

/* Record the answer to a repeat. Repeats are answered in the order they were sent, but responses to new READs
 * may come much later. So only a gap in that order shows a loss. */
static void
note_answer(struct rc_requester *rq, uint32_t psn)
{
	struct rc_scoreboard *scoreboard = rq->scoreboard;
	uint16_t order = order_of(scoreboard, psn), last = scoreboard->answered_order;
	uint32_t next = scoreboard->answered + 1;

	if (order == 0 || is_overtaken(scoreboard, psn, order))
		return;
	scoreboard->answered = psn;
	scoreboard->answered_order = order;
	if (order == last ? psn == next
			  : order == (uint16_t)(last + 1) && order_of(scoreboard, next) != last &&
				    order_of(scoreboard, psn - 1) != order)
		return;
	scoreboard->cursor = rq->una;
	scoreboard->retry = rq->max;
}

/* True if the PSN was sent again, and nothing sent later has been reported. */
static inline bool
is_under_way(struct rc_scoreboard *scoreboard, uint32_t psn)
{
	uint32_t sent_at = scoreboard->sent_at[psn & (RC_SCOREBOARD - 1)];

	if (!bit_is_set(scoreboard->again, psn) || (int32_t)(scoreboard->high - sent_at) > 0 ||
	    is_overtaken(scoreboard, psn, order_of(scoreboard, psn)))
		return false;
	if ((int32_t)(scoreboard->retry - sent_at) > 0)
		scoreboard->retry = sent_at;
	return true;
}

/* Returns the scoreboard; a new one starts the rounds of a loss that begins now. NULL: none is available. */
static struct rc_scoreboard *
begin_recovery(struct rc_qp *qp, uint64_t now)
{
	struct rc_requester *rq = &qp->req;
	bool is_new = rq->scoreboard == NULL;
	struct rc_scoreboard *scoreboard = scoreboard_get(qp, &rq->scoreboard, now);

	rc_lost(rq);
	if (scoreboard != NULL && is_new) {
		scoreboard->high = scoreboard->cursor = scoreboard->executed = rq->una;
		scoreboard->retry = scoreboard->round = rq->max;
		scoreboard->lost = 0;
		scoreboard->rescues = 0;
		scoreboard->answered_order = scoreboard->retransmits;
	}
	return scoreboard;
}

/* Sending continues at `psn`: PSNs below `high` are no longer sent in sequence, only to fill holes. */
void
rc_skip_to(struct rc_requester *rq, uint32_t psn)
{
	struct rc_node *node = rq->head;

	if ((int32_t)(psn - rq->snd) <= 0)
		return;
	rq->snd = psn;
	rq->rd_out = 0;
	/* A BIND has no PSN; nothing behind it is sent before it is carried out. */
	for (; node != NULL && node->first != node->end && (int32_t)(psn - node->first) > 0;
	     node = node->next) {
		uint32_t at = (int32_t)(rq->una - node->first) > 0 ? rq->una : node->first;

		/* The rest of a chunk that is cut here will be requested, and counted, later. */
		for (; rc_is_rd(node->work.op) && at != node->end &&
		       (int32_t)(psn - rc_chunk_end(node, at)) >= 0;
		     at = rc_chunk_end(node, at))
			rq->rd_out++;
		if ((int32_t)(psn - node->end) < 0)
			break;
	}
	rq->cur = node;
}

/* Longest silence while holes are open. After it, repeats were lost, too, and there is nothing new to send
 * whose report would show that. */
uint64_t
rc_rescue_time(const struct rc_requester *rq)
{
	uint64_t time = 3u * (uint64_t)rq->srtt + 4u * (uint64_t)rq->rttvar, rto = rc_rto(rq);

	return rq->srtt != 0 && rq->scoreboard->rescues < RC_RESCUES && time < rto ? time : rto;
}

/* Tail loss probe (cf. RFC 8985): the last packets are lost with nothing after them to show it, or the peer
 * is slow. Retransmit only the newest packet. */
bool
rc_tail_loss_probe(struct rc_qp *qp, uint64_t now)
{
	struct rc_requester *rq = &qp->req;

	if (!rq->tlp_allowed || rq->scoreboard != NULL || rq->rnr_until != RC_NEVER ||
	    begin_recovery(qp, now) == NULL)
		return false;
	rq->tlp_allowed = false;
	rq->rtt_pending = false; /* the answer may be for the repeat (Karn) */
	rq->spurious = RC_SPURIOUS_TLP;
	rq->recover_at = now;
	rq->scoreboard->high = rq->max;
	rq->scoreboard->cursor = rq->max - 1;
	rq->scoreboard->retry = rq->una; /* the next report decides what to send */
	rq->scoreboard->rescues = RC_RESCUES;
	rq->timer = now + rc_rto(rq);
	rq->ready = true;
	return true;
}

bool
rc_rescue(struct rc_qp *qp, uint64_t now)
{
	struct rc_requester *rq = &qp->req;
	struct rc_scoreboard *scoreboard = rq->scoreboard;

	if (scoreboard == NULL || scoreboard->rescues == RC_RESCUES || rq->rnr_until != RC_NEVER)
		return false;
	scoreboard->rescues++;
	memset(scoreboard->again, 0, sizeof(scoreboard->again));
	scoreboard->cursor = rq->una;
	scoreboard->retry = rq->max;
	rq->timer = now + rc_rescue_time(rq);
	rq->ready = true;
	return true;
}

/* Evaluate the scoreboard after reports up to `high`; start the next round if this one is over. */
static void
evaluate_reports(struct rc_qp *qp, uint64_t now)
{
	struct rc_requester *rq = &qp->req;
	struct rc_scoreboard *scoreboard = rq->scoreboard;

	count_sacked(rq);
	rc_skip_to(rq, scoreboard->high);
	if ((int32_t)(scoreboard->high - scoreboard->retry) > 0) {
		scoreboard->cursor = rq->una;
		scoreboard->retry = rq->max;
	}
	if ((int32_t)(scoreboard->high - scoreboard->round) > 0) {
		rc_cwnd_lost(rq, scoreboard->lost);
		scoreboard->round = rq->max;
		scoreboard->lost = 0;
	}
	if (scoreboard->news)
		rq->timer = now + rc_rescue_time(rq);
	scoreboard->news = false;
	rq->ready = rq->rnr_until == RC_NEVER;
}

/* The peer has executed all before `psn`: what that does not acknowledge are lost responses. */
static void
mark_executed(struct rc_requester *rq, uint32_t psn)
{
	struct rc_node *node = rq->head;
	uint32_t at = rq->una;

	while (node != NULL && (int32_t)(psn - at) > 0) {
		if ((int32_t)(at - node->end) >= 0) {
			node = node->next;
			continue;
		}
		if (rc_is_rd(node->work.op))
			at = node->end;
		else
			mark_done(rq, at++);
	}
	if ((int32_t)(psn - rq->scoreboard->high) > 0)
		rq->scoreboard->high = psn;
	if ((int32_t)(psn - rq->scoreboard->executed) > 0)
		rq->scoreboard->executed = psn;
}

bool
rc_missing(struct rc_qp *qp, uint32_t psn, uint64_t now)
{
	if (!qp->selective || qp->req.rnr_until != RC_NEVER || psn - qp->req.una >= RC_SCOREBOARD ||
	    begin_recovery(qp, now) == NULL)
		return false;
	mark_executed(&qp->req, psn);
	evaluate_reports(qp, now);
	return true;
}

bool
rc_report_input(struct rc_qp *qp, const struct wire_packet *packet, uint32_t psn, uint64_t now)
{
	struct rc_requester *rq = &qp->req;
	struct rc_node *node = rq->head;

	if (!qp->selective || packet->payload_len == 0 || packet->payload_len > RC_REPORT_MAX ||
	    rq->rnr_until != RC_NEVER || psn - rq->una >= RC_SCOREBOARD || begin_recovery(qp, now) == NULL)
		return false;
	mark_executed(rq, psn);
	for (uint32_t i = 0; i < 8 * packet->payload_len; i++) {
		uint32_t at = psn + 1 + i;

		if (at - rq->una >= rq->max - rq->una || at - rq->una >= RC_SCOREBOARD)
			break;
		if ((packet->payload[i / 8] >> i % 8 & 1) == 0)
			continue;
		while ((int32_t)(at - node->end) >= 0)
			node = node->next;
		if (!rc_is_rd(node->work.op)) {
			mark_done(rq, at);
			continue;
		}
		/* The peer holds the request of a READ: its responses are still to come. */
		for (uint32_t end = rc_chunk_end(node, at); at != end; at++)
			mark_again(rq, at, 0);
		i = at - 1 - (psn + 1);
		if ((int32_t)(at - rq->scoreboard->high) > 0)
			rq->scoreboard->high = at;
	}
	evaluate_reports(qp, now);
	return true;
}

bool
rc_hold_response(struct rc_qp *qp, const struct wire_packet *packet, uint32_t psn, uint64_t now)
{
	struct rc_requester *rq = &qp->req;
	const struct rc_node *node = rq->head;

	if (!qp->selective || psn - rq->una >= RC_SCOREBOARD || begin_recovery(qp, now) == NULL)
		return false;
	while ((int32_t)(psn - node->end) >= 0)
		node = node->next;
	mark_executed(rq, rc_is_rd(node->work.op) ? psn + 1 : psn);
	if (psn != rq->una)
		note_answer(rq, psn);
	/* The response is placed in order; one that cannot be held is asked for again. */
	if (rc_is_rd(node->work.op) && hold_packet(qp, rq->scoreboard, packet))
		mark_done(rq, psn);
	evaluate_reports(qp, now);
	return true;
}

void
rc_held_responses(struct rc_qp *qp, uint64_t now)
{
	struct rc_requester *rq = &qp->req;
	const struct wire_packet *one;
	struct wire_packet inside;

	/* Advance only over executed requests: the peer may discard held ones, or have no receive for
	 * them. */
	while (qp->state == RC_RTS && rq->scoreboard != NULL &&
	       (int32_t)(rq->scoreboard->executed - rq->una) > 0 &&
	       bit_is_set(rq->scoreboard->done, rq->una)) {
		const struct wire_packet **place = &rq->scoreboard->held[rq->una & (RC_SCOREBOARD - 1)];
		const struct wire_packet *packet = *place;
		uint32_t una = rq->una, psn = una;

		if (packet == NULL) {
			do
				psn++;
			while (psn != rq->scoreboard->executed && bit_is_set(rq->scoreboard->done, psn) &&
			       rq->scoreboard->held[psn & (RC_SCOREBOARD - 1)] == NULL);
			rc_acknowledged(qp, psn, now);
		} else {
			*place = NULL;
			rq->scoreboard->holds--;
			one = rc_packet_of(packet, una, &inside);
			if (one != NULL)
				rc_response_place(qp, one, una, now);
			qp->env->release(qp->env, packet);
		}
		if (rq->una != una)
			continue;
		/* The response does not fit, or there is no room for it now: the scoreboard is useless. */
		rc_forget_reports(qp);
	}
	if (rq->scoreboard != NULL && (int32_t)(rq->una - rq->scoreboard->high) >= 0)
		rc_forget_reports(qp);
}

void
rc_scoreboard_pass(struct rc_requester *rq, uint32_t before)
{
	struct rc_scoreboard *scoreboard = rq->scoreboard;

	for (uint32_t psn = before; psn != rq->una && psn - before < RC_SCOREBOARD; psn++) {
		note_answer(rq, psn);
		scoreboard->count -= bit_is_set(scoreboard->done, psn);
		scoreboard->done[WORD(psn)] &= ~BIT(psn);
		scoreboard->again[WORD(psn)] &= ~BIT(psn);
	}
	if ((int32_t)(rq->una - scoreboard->cursor) > 0)
		scoreboard->cursor = rq->una;
	scoreboard->rescues = 0;
	if ((int32_t)(rq->una - scoreboard->high) > 0)
		scoreboard->high = rq->una;
	count_sacked(rq);
}

uint32_t
rc_repair(struct rc_qp *qp, uint32_t budget, uint64_t now)
{
	struct rc_requester *rq = &qp->req;
	struct rc_scoreboard *scoreboard = rq->scoreboard;
	struct rc_node *node = rq->head;
	uint32_t n = 0;

	while (n < budget && (int32_t)(scoreboard->high - scoreboard->cursor) > 0) {
		uint32_t psn = scoreboard->cursor, end;

		if (psn % 64 == 0 && scoreboard->done[WORD(psn)] == UINT64_MAX) {
			scoreboard->cursor += 64;
			continue;
		}
		if (bit_is_set(scoreboard->done, psn) || is_under_way(scoreboard, psn)) {
			scoreboard->cursor++;
			continue;
		}
		while ((int32_t)(psn - node->end) >= 0)
			node = node->next;
		end = psn + 1;
		while ((int32_t)(rc_chunk_end(node, psn) - end) > 0 && !bit_is_set(scoreboard->done, end))
			end++;
		if (!rc_send_again(qp, node, psn, end - psn, now))
			return n;
		scoreboard->lost += end - psn;
		if (++scoreboard->retransmits == 0)
			scoreboard->retransmits = 1;
		for (; psn != end; psn++)
			mark_again(rq, psn, scoreboard->retransmits);
		scoreboard->cursor = end;
		n++;
	}
	return n;
}
