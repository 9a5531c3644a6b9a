/* SPDX-License-Identifier: BSD-3-Clause */
/* Selective repeat (selective.c). */
#ifndef DATAPLANE_RC_SCOREBOARD_H
#define DATAPLANE_RC_SCOREBOARD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "params.h"

struct rc_qp;
struct rc_requester;
struct wire_packet;

/* State of the PSNs after a hole, in one direction. */
struct rc_scoreboard {
	struct rc_scoreboard *next; /* free list */
	TAILQ_ENTRY(rc_scoreboard) link;
	struct rc_qp *qp;
	struct rc_scoreboard **place; /* the queue pair's pointer to this scoreboard */
	uint64_t touched;
	uint32_t holds; /* packets held */
	/* Responder: next bit of `again` to answer. Requester: no hole before this PSN can be sent again. */
	uint32_t cursor;
	uint32_t count; /* bits set: in `again` at the responder, in `done` at the requester */
	/* requester only */
	uint32_t high;     /* one past the newest PSN reported */
	uint32_t executed; /* all before this PSN are known to be executed, not only held, at the peer */
	uint32_t retry; /* rescan for holes when a PSN after this one is reported; the oldest of `sent_at` */
	uint32_t round; /* about a round trip: ends when a PSN after this one is reported */
	uint32_t lost;  /* PSNs sent again in the round */
	uint32_t answered; /* PSN and order of the newest repeat that was answered */
	uint16_t answered_order;
	uint16_t retransmits;
	uint8_t rescues; /* in a row, without progress */
	bool news;
	uint64_t done[RC_SCOREBOARD / 64]; /* executed or held at the peer; response held here */
	uint64_t again[RC_SCOREBOARD /
		       64];              /* responder: READ responses to send again; requester: sent again */
	uint32_t sent_at[RC_SCOREBOARD]; /* rq->max when this PSN was sent again */
	uint16_t order[RC_SCOREBOARD]; /* number of that repeat; 0: not repeated, request held at the peer */
	const struct wire_packet *held[RC_SCOREBOARD];
};
TAILQ_HEAD(rc_scoreboard_list, rc_scoreboard);

struct rc_scoreboards {
	struct rc_scoreboard *free;
	struct rc_scoreboard_list used; /* longest without news first */
};

void rc_scoreboards_drop(struct rc_qp *qp);
/* Requester: discard all knowledge of holes. */
void rc_forget_reports(struct rc_qp *qp);
/* Hold a request that arrived `distance` PSNs too early. */
void rc_hold_request(struct rc_qp *qp, const struct wire_packet *packet, uint32_t distance, uint64_t now);
/* Execute held requests that are in order now, after the request `psn`. */
void rc_held_requests(struct rc_qp *qp, uint32_t psn);
/* Queue READ responses to be sent again, apart from those under way; false: go back. */
bool rc_answer_again(struct rc_qp *qp, uint32_t psn, uint32_t count, uint64_t now);
/* rc_next_again() returns the next such PSN, while RC_PENDING_AGAIN is set; rc_answered_again() marks it as
 * sent. */
uint32_t rc_next_again(struct rc_qp *qp);
void rc_answered_again(struct rc_qp *qp);
/* Write the bitmap of packets held after the expected PSN. Returns its length, at most RC_REPORT_MAX. */
uint32_t rc_report(const struct rc_qp *qp, uint8_t *map);
/* Input a sequence NAK for `psn` with a bitmap; false: go back. */
bool rc_report_input(struct rc_qp *qp, const struct wire_packet *packet, uint32_t psn, uint64_t now);
/* Requests before `psn` were executed, but responses are missing; false: go back. */
bool rc_missing(struct rc_qp *qp, uint32_t psn, uint64_t now);
/* Hold a response that arrived too early; false: go back. */
bool rc_hold_response(struct rc_qp *qp, const struct wire_packet *packet, uint32_t psn, uint64_t now);
/* Advance `una` over what the scoreboard has. */
void rc_held_responses(struct rc_qp *qp, uint64_t now);
/* Continue sending at `psn`, which is after `snd`; all before it counts as sent. */
void rc_skip_to(struct rc_requester *rq, uint32_t psn);
/* Account for the advance of `una` from `before`. */
void rc_scoreboard_pass(struct rc_requester *rq, uint32_t before);
/* Time for the timer while there are holes. */
uint64_t rc_rescue_time(const struct rc_requester *rq);
/* The timer has expired; false: go back. */
bool rc_tail_loss_probe(struct rc_qp *qp, uint64_t now);
bool rc_rescue(struct rc_qp *qp, uint64_t now);
uint32_t rc_repair(struct rc_qp *qp, uint32_t budget, uint64_t now);

#endif
