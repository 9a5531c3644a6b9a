/* SPDX-License-Identifier: BSD-3-Clause */
/* What is sent, and what is answered to it. */
#ifndef DATAPLANE_RC_REQUESTER_H
#define DATAPLANE_RC_REQUESTER_H

#include "rc.h"
#include "pool.h"

struct rc_scoreboard;

struct rc_requester {
	struct rc_node *head; /* oldest not completed; owns `una` */
	struct rc_node *cur;  /* owns `snd`; NULL: all is sent */
	struct rc_node *tail;
	/* Requests before `head` that are over but for READs among them whose payload is not in place. */
	struct rc_node *landing, *landing_tail;
	uint32_t una;  /* oldest PSN not acknowledged; of a READ: the next response missing */
	uint32_t snd;  /* next to send; falls back to `una` to send again */
	uint32_t max;  /* one past the newest ever sent */
	uint32_t post; /* next to assign */
	uint16_t posted;
	uint16_t window, threshold; /* packets that may be outstanding; end of slow start */
	uint16_t acked;             /* towards the next step of the window */
	uint16_t window_max;
	uint16_t sacked;                /* packets of those outstanding that are known to have arrived */
	uint8_t window_fraction, stage; /* 1/256 packets; round trips since the last CNP */
	uint8_t rd_out, rd_max;         /* READ requests and atomics sent and not answered */
	uint8_t retries, retry_count;
	uint8_t rnr_tries, rnr_retry;
	uint8_t backoff;
	uint8_t expiries;  /* of the timer since the peer was heard, up to RC_SILENT_EXPIRIES */
	bool ready;        /* rc_request_output may find something to do */
	bool starved;      /* there was no job for a response: others are dropped until rc_resume */
	bool bind_started; /* head is a BIND that is being carried out */
	bool tlp_allowed;  /* the newest packet may be sent again early, to ask what has arrived */
	bool recovering;   /* went back, and nothing was acknowledged since */
	uint8_t spurious;  /* enum rc_spurious */
	bool rtt_pending;
	bool cut;               /* window was cut, and cut_psn is not yet acknowledged */
	bool congested;         /* CNPs govern the window: */
	uint32_t alpha, target; /* average of round trips with a CNP, / 65536; 1/256 packets */
	uint32_t rtt_psn, cut_psn;
	uint32_t srtt, rttvar; /* ns; srtt 0: no sample yet */
	uint32_t min_rto;      /* ns: floor of the timers, by how late the peer has answered; */
	uint32_t late;         /* as it will be if it was late and nothing lost */
	uint64_t rtt_time;
	uint64_t timer;       /* RC_NEVER: nothing outstanding */
	uint64_t rnr_until;   /* RC_NEVER: not waiting */
	uint64_t progress_at; /* last progress, or last retry charged */
	uint64_t recover_at;  /* when we went back, or probed */
	uint64_t limit;       /* ns: upper bound of the retransmission time */
	bool forever;         /* the CM's timeout was 0 */
	bool overdrawn; /* a cut of the window left more in flight, which may have asked for no answer */
	uint32_t held;  /* sent when little may be in flight: it asked for an acknowledgement */
	struct rc_scoreboard *scoreboard; /* NULL: nothing is lost */
};

/* What the timer has made us do, while it is not known whether anything was lost. */
enum rc_spurious {
	RC_SPURIOUS_NONE,
	RC_SPURIOUS_TLP,       /* sent the newest packet again; */
	RC_SPURIOUS_WENT_BACK, /* or from the oldest on, */
	RC_SPURIOUS_PASSED     /* and an answer was for more than that */
};

/* ---- requester.c, response.c ---- */

uint32_t rc_request_output(struct rc_qp *qp, uint32_t budget, uint64_t now);
void rc_response_input(struct rc_qp *qp, const struct wire_packet *packet, uint64_t now);
/* Packet `psn` of `node` again, of a READ the responses [psn, psn + count); false: not now. */
bool rc_send_again(struct rc_qp *qp, struct rc_node *node, uint32_t psn, uint32_t count, uint64_t now);
/* All before `psn` is acknowledged. */
void rc_acknowledged(struct rc_qp *qp, uint32_t psn, uint64_t now);
/* The response for `una`. */
void rc_response_place(struct rc_qp *qp, const struct wire_packet *packet, uint32_t psn, uint64_t now);
/* The response for `una` is in place. */
void rc_responded(struct rc_qp *qp, struct rc_node *node, bool end_of_request, uint64_t now);
/* Send again from `una`. */
void rc_go_back(struct rc_qp *qp, uint64_t now);
/* Take the head off and report it; after those whose payload is not in place. */
void rc_retire(struct rc_qp *qp, enum one_status status);
/* Report the oldest request that waits for its payload to be in place. */
void rc_retire_landed(struct rc_qp *qp, enum one_status status);

/* ---- timer.c ---- */

uint64_t rc_rto(const struct rc_requester *rq);
/* `una` has advanced from `before`. */
void rc_progress(struct rc_qp *qp, uint32_t before, uint64_t now);
/* The loss that was suspected is real: a NAK reports it. */
void rc_lost(struct rc_requester *rq);
/* A round is about to be repeated; false: retries were used up, and the queue pair has failed. */
bool rc_charge(struct rc_qp *qp, uint64_t now);

/* ---- congestion.c ---- */

/* `acked` more are acknowledged, and the window is not at its maximum. */
void rc_window_grow(struct rc_qp *qp, uint32_t acked);
/* The path is congested, as a CNP or a mark says. */
void rc_congestion(struct rc_qp *qp);
/* Shrink the window, once per window of loss. */
void rc_window_cut(struct rc_requester *rq);
void rc_window_timeout(struct rc_requester *rq);

/* `lost` packets were sent again in one round trip. */
void rc_window_lost(struct rc_requester *rq, uint32_t lost);

/* ---- middle.c ---- */

/*
 * Packets from `psn` on with an opcode without extension headers, and a whole path MTU each of the memory at
 * `from`, which is checked and mapped; how many there were frames for.
 */
uint32_t rc_emit_middles(struct rc_qp *qp, uint8_t opcode, uint32_t psn, uint32_t count, const uint8_t *from);

#endif
