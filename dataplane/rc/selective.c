/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Selective repeat, where both ends have announced it.
 *
 * The responder holds requests that come behind a hole and executes them in
 * order once it is filled, so nothing that the standard says of order changes.
 * Its sequence NAK carries a bitmap of what it holds; the requester sends only
 * the holes again.  The requester holds READ responses behind a hole likewise,
 * and asks for the missing ones alone.
 *
 * What is held may be given up at any time: the bitmap is a hint.  The
 * requester forgets it, and goes back, whenever its timer expires.
 *
 * All this takes a board, of a bounded pool shared by the queue pairs of one
 * core; who gets none goes back as the standard has it.
 *
 * A hole is sent again once, and then not before something is reported that
 * was sent for the first time after that.
 */
#include "rc_internal.h"

#include <string.h>

#define WORD(psn) (((psn) & (RC_BOARD - 1)) / 64)
#define BIT(psn) (1ull << ((psn) % 64))

static inline bool
test(const uint64_t *map, uint32_t psn)
{
	return (map[WORD(psn)] & BIT(psn)) != 0;
}

/* ---- boards ---- */

size_t
rc_boards_size(uint32_t count)
{
	return sizeof(struct rc_boards) + (size_t)count * sizeof(struct rc_board);
}

struct rc_boards *
rc_boards_init(void *memory, uint32_t count)
{
	struct rc_boards *boards = memory;
	struct rc_board *board = (struct rc_board *)(boards + 1);

	TAILQ_INIT(&boards->used);
	for (uint32_t i = 0; i < count; i++) {
		board[i].next = boards->free;
		boards->free = &board[i];
	}
	return boards;
}

/* Nothing is held any more, nothing is known; the board stays where it is. */
static void
board_empty(struct rc_qp *qp, struct rc_board *board)
{
	for (uint32_t i = 0; board->holds > 0 && i < RC_BOARD; i++) {
		if (board->held[i] == NULL)
			continue;
		qp->env->release(qp->env, board->held[i]);
		board->held[i] = NULL;
		board->holds--;
	}
	memset(board->done, 0, sizeof(board->done));
	memset(board->again, 0, sizeof(board->again));
}

static void
board_put(struct rc_qp *qp, struct rc_board **place)
{
	struct rc_boards *boards = qp->env->boards;
	struct rc_board *board = *place;

	if (board == NULL)
		return;
	*place = NULL;
	if (place == &qp->req.board)
		qp->req.credit = 0;
	else
		qp->rsp.pending &= ~RC_PENDING_AGAIN;
	board_empty(qp, board);
	TAILQ_REMOVE(&boards->used, board, link);
	board->next = boards->free;
	boards->free = board;
}

/* The board at `place`, a new one if need be; NULL: none to be had. */
static struct rc_board *
board_get(struct rc_qp *qp, struct rc_board **place, uint64_t now)
{
	struct rc_boards *boards = qp->env->boards;
	struct rc_board *board = *place, *oldest;

	if (boards == NULL)
		return NULL;
	if (board == NULL) {
		/* Peers that never fill their holes do not keep all boards. */
		oldest = TAILQ_FIRST(&boards->used);
		if (boards->free == NULL && oldest != NULL && now - oldest->touched > RC_BOARD_IDLE)
			board_put(oldest->qp, oldest->place);
		board = boards->free;
		if (board == NULL)
			return NULL;
		boards->free = board->next;
		board->qp = qp;
		board->place = place;
		board->count = 0;
		*place = board;
	} else {
		TAILQ_REMOVE(&boards->used, board, link);
	}
	board->touched = now;
	TAILQ_INSERT_TAIL(&boards->used, board, link);
	return board;
}

void
rc_boards_drop(struct rc_qp *qp)
{
	board_put(qp, &qp->req.board);
	board_put(qp, &qp->rsp.board);
}

void
rc_forget_reports(struct rc_qp *qp)
{
	board_put(qp, &qp->req.board);
}

static bool
hold(struct rc_qp *qp, struct rc_board *board, const struct wire_packet *packet)
{
	const struct wire_packet **place = &board->held[packet->psn & (RC_BOARD - 1)];

	if (*place != NULL && (*place)->psn == packet->psn)
		return true;
	if (*place != NULL) { /* of a PSN that was skipped since */
		qp->env->release(qp->env, *place);
		*place = NULL;
		board->holds--;
	}
	*place = qp->env->hold(qp->env, packet);
	if (*place == NULL)
		return false;
	board->holds++;
	rc_count(qp, RC_COUNT_HELD);
	return true;
}

/* ---- responder ---- */

void
rc_hold_request(struct rc_qp *qp, const struct wire_packet *packet, uint32_t distance, uint64_t now)
{
	struct rc_responder *rs = &qp->rsp;
	struct rc_board *board;

	if (distance >= RC_BOARD)
		return;
	board = board_get(qp, &rs->board, now);
	if (board != NULL && hold(qp, board, packet))
		return;
	rc_count(qp, RC_COUNT_OUT_OF_SEQUENCE);
}

void
rc_held_requests(struct rc_qp *qp, uint64_t now)
{
	struct rc_responder *rs = &qp->rsp;
	uint32_t first = rs->epsn;
	bool held;

	/* Executing may end the connection, and with it the board. */
	while (rs->board != NULL && rs->board->holds > 0) {
		const struct wire_packet **place = &rs->board->held[rs->epsn & (RC_BOARD - 1)];
		const struct wire_packet *packet = *place;
		uint32_t epsn = rs->epsn;

		if (packet == NULL)
			break;
		*place = NULL;
		rs->board->holds--;
		if (packet->psn == epsn)
			rc_request_execute(qp, packet);
		qp->env->release(qp->env, packet);
		if (rs->epsn == epsn)
			break;
	}
	if (rs->board == NULL)
		return;
	held = rs->board->holds > 0;
	if (!held && rs->board->count == 0)
		board_put(qp, &rs->board);
	if (rs->epsn == first)
		return;
	/* Tell how far it is now, whatever the last packet asked for. */
	if (rs->reply == RC_REPLY_NONE || rs->reply == RC_REPLY_ACK || rs->reply == RC_REPLY_NAK_SEQ) {
		rs->reply = held ? RC_REPLY_NAK_SEQ : RC_REPLY_ACK;
		rs->reply_psn = held ? rs->epsn : (rs->epsn - 1) & RC_PSN_MASK;
	}
}

bool
rc_answer_again(struct rc_qp *qp, uint32_t psn, uint32_t count, uint64_t now)
{
	struct rc_responder *rs = &qp->rsp;
	struct rc_board *board;

	if (rc_psn_diff(rs->epsn, psn) > (int32_t)RC_BOARD)
		return false;
	board = board_get(qp, &rs->board, now);
	if (board == NULL)
		return false;
	if (board->count == 0 || rc_psn_diff(psn, board->cursor) < 0)
		board->cursor = psn;
	for (uint32_t end = psn + count; psn != end; psn++) {
		board->count += !test(board->again, psn);
		board->again[WORD(psn)] |= BIT(psn);
	}
	rs->pending |= RC_PENDING_AGAIN;
	return true;
}

uint32_t
rc_next_again(struct rc_qp *qp)
{
	struct rc_board *board = qp->rsp.board;

	while (!test(board->again, board->cursor))
		board->cursor =
			board->again[WORD(board->cursor)] == 0 ? (board->cursor | 63) + 1 : board->cursor + 1;
	return board->cursor & RC_PSN_MASK;
}

void
rc_answered_again(struct rc_qp *qp)
{
	struct rc_responder *rs = &qp->rsp;
	struct rc_board *board = rs->board;

	board->again[WORD(board->cursor)] &= ~BIT(board->cursor);
	board->cursor = (board->cursor + 1) & RC_PSN_MASK;
	if (--board->count > 0)
		return;
	rs->pending &= ~RC_PENDING_AGAIN;
	if (board->holds == 0)
		board_put(qp, &rs->board);
}

uint32_t
rc_report(const struct rc_qp *qp, uint8_t *map)
{
	const struct rc_board *board = qp->rsp.board;
	uint32_t base = qp->rsp.epsn + 1, len = 0, holds = board->holds;
	uint32_t bits = qp->mtu < RC_REPORT_MAX ? 8u * qp->mtu : RC_BOARD - 1;

	for (uint32_t i = 0; holds > 0 && i < bits; i++) {
		const struct wire_packet *packet = board->held[(base + i) & (RC_BOARD - 1)];

		if (packet == NULL)
			continue;
		holds--;
		if (packet->psn != ((base + i) & RC_PSN_MASK))
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

static uint32_t
chunk_end(const struct rc_node *node, uint32_t psn)
{
	uint32_t end;

	if (node->work.op != ONE_OP_READ)
		return psn + 1;
	end = node->first + ((psn - node->first) | (RC_CHUNK - 1)) + 1;
	return (int32_t)(end - node->end) < 0 ? end : node->end;
}

static void
set_credit(struct rc_requester *rq)
{
	rq->credit = (uint16_t)(rq->board->count < RC_CREDIT_MAX ? rq->board->count : RC_CREDIT_MAX);
}

static inline void
mark_done(struct rc_requester *rq, uint32_t psn)
{
	struct rc_board *board = rq->board;

	if (test(board->done, psn))
		return;
	board->done[WORD(psn)] |= BIT(psn);
	board->count++;
	board->news = true;
	if ((int32_t)(psn + 1 - board->high) > 0)
		board->high = psn + 1;
}

static inline void
mark_again(struct rc_requester *rq, uint32_t psn, uint16_t order)
{
	rq->board->again[WORD(psn)] |= BIT(psn);
	rq->board->sent_at[psn & (RC_BOARD - 1)] = rq->max;
	rq->board->order[psn & (RC_BOARD - 1)] = order;
}

static inline uint16_t
order_of(const struct rc_board *board, uint32_t psn)
{
	return test(board->again, psn) ? board->order[psn & (RC_BOARD - 1)] : 0;
}

/* A repeat of `order` would have been answered before the newest one that was. */
static inline bool
is_overtaken(const struct rc_board *board, uint32_t psn, uint16_t order)
{
	int16_t later = (int16_t)(board->answered_order - order);

	return order != 0 && (later > 0 || (later == 0 && (int32_t)(board->answered - psn) > 0));
}

/*
 * The answer of a repeat.  They come in order of the repeats: what READs ask for in
 * turn may be much behind, so it is these that tell that one was lost.
 */
static void
note_answer(struct rc_requester *rq, uint32_t psn)
{
	struct rc_board *board = rq->board;
	uint16_t order = order_of(board, psn), last = board->answered_order;
	uint32_t next = board->answered + 1;

	if (order == 0 || is_overtaken(board, psn, order))
		return;
	board->answered = psn;
	board->answered_order = order;
	if (order == last ? psn == next
			  : order == (uint16_t)(last + 1) && order_of(board, next) != last &&
				    order_of(board, psn - 1) != order)
		return;
	board->cursor = rq->una;
	board->retry = rq->max;
}

/* Sent again, and nothing that was sent later has been reported. */
static inline bool
is_under_way(struct rc_board *board, uint32_t psn)
{
	uint32_t sent_at = board->sent_at[psn & (RC_BOARD - 1)];

	if (!test(board->again, psn) || (int32_t)(board->high - sent_at) > 0 ||
	    is_overtaken(board, psn, order_of(board, psn)))
		return false;
	if ((int32_t)(board->retry - sent_at) > 0)
		board->retry = sent_at;
	return true;
}

/* A board, and in it the rounds of a loss that begins now. */
static struct rc_board *
begin(struct rc_qp *qp, uint64_t now)
{
	struct rc_requester *rq = &qp->req;
	bool is_new = rq->board == NULL;
	struct rc_board *board = board_get(qp, &rq->board, now);

	rc_lost(rq);
	if (board != NULL && is_new) {
		board->high = board->cursor = board->executed = rq->una;
		board->retry = board->round = rq->max;
		board->lost = 0;
		board->rescues = 0;
		board->answered_order = board->repeats;
	}
	return board;
}

/* Where sending goes on: nothing below `high` is sent in turn any more, only where it lacks. */
void
rc_skip_to(struct rc_requester *rq, uint32_t psn)
{
	struct rc_node *node = rq->head;

	if ((int32_t)(psn - rq->snd) <= 0)
		return;
	rq->snd = psn;
	rq->rd_out = 0;
	/* Nothing is sent before a BIND has been carried out: it has no PSN, and is not behind us. */
	for (; node != NULL && node->first != node->end && (int32_t)(psn - node->first) > 0;
	     node = node->next) {
		uint32_t at = (int32_t)(rq->una - node->first) > 0 ? rq->una : node->first;

		/* The rest of a chunk that is cut here will be asked for, and counted then. */
		for (;
		     rc_is_rd(node->work.op) && at != node->end && (int32_t)(psn - chunk_end(node, at)) >= 0;
		     at = chunk_end(node, at))
			rq->rd_out++;
		if ((int32_t)(psn - node->end) < 0)
			break;
	}
	rq->cur = node;
}

/*
 * How long nothing may be heard while holes are open: some of what was sent again
 * was lost, too, and there is nothing new to send whose report would tell.
 */
uint64_t
rc_rescue_time(const struct rc_requester *rq)
{
	uint64_t time = 3u * (uint64_t)rq->srtt + 4u * (uint64_t)rq->rttvar, rto = rc_rto(rq);

	return rq->srtt != 0 && rq->board->rescues < RC_RESCUES && time < rto ? time : rto;
}

/* The last packets are lost with nothing after them to tell, or the peer is slow: send but the newest again.
 */
bool
rc_probe(struct rc_qp *qp, uint64_t now)
{
	struct rc_requester *rq = &qp->req;

	if (!rq->probe || rq->board != NULL || rq->rnr_until != RC_NEVER || begin(qp, now) == NULL)
		return false;
	rq->probe = false;
	rq->doubt = RC_DOUBT_PROBED;
	rq->recover_at = now;
	rq->board->high = rq->max;
	rq->board->cursor = rq->max - 1;
	rq->board->retry = rq->una; /* the next report tells what to send */
	rq->board->rescues = RC_RESCUES;
	rq->timer = now + rc_rto(rq);
	rq->ready = true;
	return true;
}

bool
rc_rescue(struct rc_qp *qp, uint64_t now)
{
	struct rc_requester *rq = &qp->req;
	struct rc_board *board = rq->board;

	if (board == NULL || board->rescues == RC_RESCUES || rq->rnr_until != RC_NEVER)
		return false;
	board->rescues++;
	memset(board->again, 0, sizeof(board->again));
	board->cursor = rq->una;
	board->retry = rq->max;
	rq->timer = now + rc_rescue_time(rq);
	rq->ready = true;
	return true;
}

/* What was reported up to `high` is in the board: on with the next round, if this one is over. */
static void
account(struct rc_qp *qp, uint64_t now)
{
	struct rc_requester *rq = &qp->req;
	struct rc_board *board = rq->board;

	set_credit(rq);
	rc_skip_to(rq, board->high);
	if ((int32_t)(board->high - board->retry) > 0) {
		board->cursor = rq->una;
		board->retry = rq->max;
	}
	if ((int32_t)(board->high - board->round) > 0) {
		rc_window_lost(rq, board->lost);
		board->round = rq->max;
		board->lost = 0;
	}
	if (board->news)
		rq->timer = now + rc_rescue_time(rq);
	board->news = false;
	rq->ready = rq->rnr_until == RC_NEVER;
}

/* The peer has executed all before `psn`; what is not acknowledged by that are lost responses. */
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
	if ((int32_t)(psn - rq->board->high) > 0)
		rq->board->high = psn;
	if ((int32_t)(psn - rq->board->executed) > 0)
		rq->board->executed = psn;
}

bool
rc_missing(struct rc_qp *qp, uint32_t psn, uint64_t now)
{
	if (!qp->selective || qp->req.rnr_until != RC_NEVER || psn - qp->req.una >= RC_BOARD ||
	    begin(qp, now) == NULL)
		return false;
	mark_executed(&qp->req, psn);
	account(qp, now);
	return true;
}

bool
rc_report_input(struct rc_qp *qp, const struct wire_packet *packet, uint32_t psn, uint64_t now)
{
	struct rc_requester *rq = &qp->req;
	struct rc_node *node = rq->head;

	if (!qp->selective || packet->payload_len == 0 || packet->payload_len > RC_REPORT_MAX ||
	    rq->rnr_until != RC_NEVER || psn - rq->una >= RC_BOARD || begin(qp, now) == NULL)
		return false;
	mark_executed(rq, psn);
	for (uint32_t i = 0; i < 8 * packet->payload_len; i++) {
		uint32_t at = psn + 1 + i;

		if (at - rq->una >= rq->max - rq->una || at - rq->una >= RC_BOARD)
			break;
		if ((packet->payload[i / 8] >> i % 8 & 1) == 0)
			continue;
		while ((int32_t)(at - node->end) >= 0)
			node = node->next;
		if (!rc_is_rd(node->work.op)) {
			mark_done(rq, at);
			continue;
		}
		/* The request waits there for its turn: its responses are still to come. */
		for (uint32_t end = chunk_end(node, at); at != end; at++)
			mark_again(rq, at, 0);
		i = at - 1 - (psn + 1);
		if ((int32_t)(at - rq->board->high) > 0)
			rq->board->high = at;
	}
	account(qp, now);
	return true;
}

bool
rc_hold_response(struct rc_qp *qp, const struct wire_packet *packet, uint32_t psn, uint64_t now)
{
	struct rc_requester *rq = &qp->req;
	const struct rc_node *node = rq->head;

	if (!qp->selective || psn - rq->una >= RC_BOARD || begin(qp, now) == NULL)
		return false;
	while ((int32_t)(psn - node->end) >= 0)
		node = node->next;
	mark_executed(rq, rc_is_rd(node->work.op) ? psn + 1 : psn);
	if (psn != rq->una)
		note_answer(rq, psn);
	/* Placed when its turn comes; what cannot be held is asked for again. */
	if (rc_is_rd(node->work.op) && hold(qp, rq->board, packet))
		mark_done(rq, psn);
	account(qp, now);
	return true;
}

void
rc_held_responses(struct rc_qp *qp, uint64_t now)
{
	struct rc_requester *rq = &qp->req;

	/* Only over what is executed: the peer may give up what it holds, or have no receive for it. */
	while (qp->state == RC_RTS && rq->board != NULL && (int32_t)(rq->board->executed - rq->una) > 0 &&
	       test(rq->board->done, rq->una)) {
		const struct wire_packet **place = &rq->board->held[rq->una & (RC_BOARD - 1)];
		const struct wire_packet *packet = *place;
		uint32_t una = rq->una, psn = una;

		if (packet == NULL) {
			do
				psn++;
			while (psn != rq->board->executed && test(rq->board->done, psn) &&
			       rq->board->held[psn & (RC_BOARD - 1)] == NULL);
			rc_acknowledged(qp, psn, now);
		} else {
			*place = NULL;
			rq->board->holds--;
			rc_response_place(qp, packet, rq->una, now);
			qp->env->release(qp->env, packet);
		}
		if (rq->una != una)
			continue;
		/* It does not fit, or its place takes time to reach: what we remember is of no use. */
		rq->missed |= rq->placing;
		rc_forget_reports(qp);
	}
	if (rq->board != NULL && (int32_t)(rq->una - rq->board->high) >= 0)
		rc_forget_reports(qp);
}

void
rc_board_pass(struct rc_requester *rq, uint32_t before)
{
	struct rc_board *board = rq->board;

	for (uint32_t psn = before; psn != rq->una && psn - before < RC_BOARD; psn++) {
		note_answer(rq, psn);
		board->count -= test(board->done, psn);
		board->done[WORD(psn)] &= ~BIT(psn);
		board->again[WORD(psn)] &= ~BIT(psn);
	}
	if ((int32_t)(rq->una - board->cursor) > 0)
		board->cursor = rq->una;
	board->rescues = 0;
	if ((int32_t)(rq->una - board->high) > 0)
		board->high = rq->una;
	set_credit(rq);
}

uint32_t
rc_repair(struct rc_qp *qp, uint32_t budget, uint64_t now)
{
	struct rc_requester *rq = &qp->req;
	struct rc_board *board = rq->board;
	struct rc_node *node = rq->head;
	uint32_t n = 0;

	while (n < budget && (int32_t)(board->high - board->cursor) > 0) {
		uint32_t psn = board->cursor, end;

		if (psn % 64 == 0 && board->done[WORD(psn)] == UINT64_MAX) {
			board->cursor += 64;
			continue;
		}
		if (test(board->done, psn) || is_under_way(board, psn)) {
			board->cursor++;
			continue;
		}
		while ((int32_t)(psn - node->end) >= 0)
			node = node->next;
		end = psn + 1;
		while ((int32_t)(chunk_end(node, psn) - end) > 0 && !test(board->done, end))
			end++;
		if (!rc_send_again(qp, node, psn, end - psn, now))
			return n;
		board->lost += end - psn;
		if (++board->repeats == 0)
			board->repeats = 1;
		for (; psn != end; psn++)
			mark_again(rq, psn, board->repeats);
		board->cursor = end;
		n++;
	}
	return n;
}
