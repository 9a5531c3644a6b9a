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

/* Selective repeat: what is known of the PSNs after a hole, in one direction. */
struct rc_scoreboard {
	struct rc_scoreboard *next; /* free */
	TAILQ_ENTRY(rc_scoreboard) link;
	struct rc_qp *qp;
	struct rc_scoreboard **place; /* where the queue pair has it */
	uint64_t touched;
	uint32_t holds; /* packets held */
	/* Responder: the next bit of `again` to answer.  Requester: before this PSN no hole can be sent
	 * again. */
	uint32_t cursor;
	uint32_t count; /* bits of `again` at the responder, of `done` at the requester */
	/* requester */
	uint32_t high;     /* one past the newest PSN reported */
	uint32_t executed; /* all before this one are known to be executed, not only held, at the peer */
	uint32_t retry;    /* until something after this PSN is reported: the oldest of `sent_at` */
	uint32_t round;    /* about a round trip: until something after this PSN is reported */
	uint32_t lost;     /* PSNs sent again in it */
	uint32_t answered; /* the newest repeat that has been answered: PSN, */
	uint16_t answered_order;
	uint16_t retransmits;
	uint8_t rescues; /* in a row, without progress */
	bool news;
	uint64_t done[RC_SCOREBOARD / 64]; /* executed or held at the peer; a response held here */
	uint64_t again[RC_SCOREBOARD /
		       64];              /* responder: READ responses to send again; requester: sent again, */
	uint32_t sent_at[RC_SCOREBOARD]; /* when this PSN was the next new one, */
	uint16_t order[RC_SCOREBOARD];   /* and as which repeat; 0: not repeated, but waiting at the peer */
	const struct wire_packet *held[RC_SCOREBOARD];
};
TAILQ_HEAD(rc_scoreboard_list, rc_scoreboard);

struct rc_scoreboards {
	struct rc_scoreboard *free;
	struct rc_scoreboard_list used; /* the longest without news first */
};

void rc_scoreboards_drop(struct rc_qp *qp);
/* The requester knows nothing of holes any more. */
void rc_forget_reports(struct rc_qp *qp);
/* Keep a request that came `distance` PSNs too early. */
void rc_hold_request(struct rc_qp *qp, const struct wire_packet *packet, uint32_t distance, uint64_t now);
/* Execute what was held, as far as it is in order now, after the request `psn`. */
void rc_held_requests(struct rc_qp *qp, uint32_t psn);
/* READ responses that are to be sent again, apart from those under way; false: go back. */
bool rc_answer_again(struct rc_qp *qp, uint32_t psn, uint32_t count, uint64_t now);
/* The next of them, while RC_PENDING_AGAIN is set; and it is settled. */
uint32_t rc_next_again(struct rc_qp *qp);
void rc_answered_again(struct rc_qp *qp);
/* The bitmap of what is held behind the expected PSN; its length, at most RC_REPORT_MAX. */
uint32_t rc_report(const struct rc_qp *qp, uint8_t *map);
/* A sequence NAK for `psn` with a bitmap; false: go back. */
bool rc_report_input(struct rc_qp *qp, const struct wire_packet *packet, uint32_t psn, uint64_t now);
/* All before `psn` was executed, but responses are missing; false: go back. */
bool rc_missing(struct rc_qp *qp, uint32_t psn, uint64_t now);
/* A response that comes too early; false: go back. */
bool rc_hold_response(struct rc_qp *qp, const struct wire_packet *packet, uint32_t psn, uint64_t now);
/* `una` goes on over what the scoreboard has. */
void rc_held_responses(struct rc_qp *qp, uint64_t now);
/* On with PSN `psn`, which is behind `snd`; what is before it counts as sent. */
void rc_skip_to(struct rc_requester *rq, uint32_t psn);
/* `una` has advanced from `before`. */
void rc_scoreboard_pass(struct rc_requester *rq, uint32_t before);
/* What the timer is set to while there are holes. */
uint64_t rc_rescue_time(const struct rc_requester *rq);
/* The timer has expired; false: go back. */
bool rc_tail_loss_probe(struct rc_qp *qp, uint64_t now);
bool rc_rescue(struct rc_qp *qp, uint64_t now);
uint32_t rc_repair(struct rc_qp *qp, uint32_t budget, uint64_t now);

#endif
