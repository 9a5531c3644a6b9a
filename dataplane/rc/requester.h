/* SPDX-License-Identifier: BSD-3-Clause */
/* Requester: state of sent requests and their responses. */
#ifndef DATAPLANE_RC_REQUESTER_H
#define DATAPLANE_RC_REQUESTER_H

#include "rc.h"
#include "pool.h"

struct rc_scoreboard;

struct rc_requester {
	struct rc_node *head; /* oldest not completed; owns `una` */
	struct rc_node *cur;  /* owns `snd`; NULL: all is sent */
	struct rc_node *tail;
	/* Requests before `head`, finished except that payload of READs among them is not in place. */
	struct rc_node *landing, *landing_tail;
	uint32_t una;  /* oldest unacknowledged PSN; in a READ: the next missing response */
	uint32_t snd;  /* next to send; set back to `una` to send again */
	uint32_t max;  /* one past the newest ever sent */
	uint32_t post; /* next to assign */
	uint16_t posted;
	uint16_t cwnd, threshold; /* packets that may be outstanding; end of slow start */
	uint16_t acked;           /* acknowledged packets, towards the next growth of the window */
	uint16_t cwnd_max;
	uint16_t sacked;              /* outstanding packets that are known to have arrived */
	uint8_t cwnd_fraction, stage; /* 1/256 packets; round trips since the last CNP */
	uint8_t rd_out, rd_max;       /* READ requests and atomics sent and not answered */
	uint8_t retries, retry_count;
	uint8_t rnr_tries, rnr_retry;
	uint8_t backoff;
	uint8_t expiries;  /* of the timer since the last sign of the peer, up to RC_SILENT_EXPIRIES */
	bool ready;        /* rc_request_output() may find something to do */
	bool starved;      /* no copy job was free for a response: drop responses until rc_resume() */
	bool bind_started; /* the head is a BIND that is being carried out */
	bool tlp_allowed;  /* a tail loss probe may be sent: the newest packet again, early */
	bool recovering;   /* went back, and nothing was acknowledged since */
	uint8_t spurious;  /* enum rc_spurious */
	bool rtt_pending;
	bool cut;               /* the window was cut, and cut_psn is not yet acknowledged */
	bool congested;         /* DCQCN governs the window, with alpha and target */
	uint32_t alpha, target; /* moving average of round trips with a CNP, / 65536; 1/256 packets */
	uint32_t rtt_psn, cut_psn;
	uint32_t srtt, rttvar; /* ns; srtt 0: no sample yet */
	uint32_t min_rto;      /* ns: floor of the timers, follows how late the peer answered */
	uint32_t late;         /* ns: min_rto to be, if the peer was late and nothing lost */
	uint64_t rtt_time;
	uint64_t timer;       /* RC_NEVER: nothing outstanding */
	uint64_t rnr_until;   /* RC_NEVER: not waiting */
	uint64_t progress_at; /* last progress, or last retry charged */
	uint64_t recover_at;  /* time of going back, or of the probe */
	uint64_t limit;       /* ns: upper limit of the retransmission time */
	bool forever;         /* the CM's timeout was 0 */
	bool overdrawn;       /* a cut of the window left more in flight, perhaps with no ACK requested */
	uint32_t held;        /* last PSN sent while little may be in flight: it requested an ACK */
	struct rc_scoreboard *scoreboard; /* NULL: nothing is known to be lost */
};

/* Reaction to an expiry, while loss is unconfirmed. */
enum rc_spurious {
	RC_SPURIOUS_NONE,
	RC_SPURIOUS_TLP,       /* sent the newest packet again */
	RC_SPURIOUS_WENT_BACK, /* went back to the oldest packet */
	RC_SPURIOUS_PASSED     /* went back, and then an answer covered more than was sent again */
};

/* ---- requester.c, response.c ---- */

/* Returns the number of PSNs; *status is the work request's error, if any. */
uint32_t rc_plan_psns(const struct rc_qp *qp, const struct work *work, enum one_status *status);
uint32_t rc_request_output(struct rc_qp *qp, uint32_t budget, uint64_t now);
void rc_response_input(struct rc_qp *qp, const struct wire_packet *packet, uint64_t now);
/* Send packet `psn` of `node` again; of a READ, request the responses [psn, psn + count). False: not possible
 * now. */
bool rc_send_again(struct rc_qp *qp, struct rc_node *node, uint32_t psn, uint32_t count, uint64_t now);
/* Acknowledge all before `psn`. */
void rc_acknowledged(struct rc_qp *qp, uint32_t psn, uint64_t now);
/* Place the response for `una`. */
void rc_response_place(struct rc_qp *qp, const struct wire_packet *packet, uint32_t psn, uint64_t now);
/* Send again from `una`. */
void rc_go_back(struct rc_qp *qp, uint64_t now);
/* Remove the head and report it, but not before requests that wait for their payload. */
void rc_retire(struct rc_qp *qp, enum one_status status);
/* Report the oldest request that waits for its payload to be in place. */
void rc_retire_landed(struct rc_qp *qp, enum one_status status);

/* ---- timer.c ---- */

uint64_t rc_rto(const struct rc_requester *rq);
/* Account for the advance of `una` from `before`. */
void rc_progress(struct rc_qp *qp, uint32_t before, uint64_t now);
/* Confirm a suspected loss: a NAK reports it. */
void rc_lost(struct rc_requester *rq);
/* Charge a retry, if due, before a round is repeated. False: retries were used up, and the queue pair has
 * failed. */
bool rc_charge(struct rc_qp *qp, uint64_t now);

/* ---- congestion.c ---- */

/* Grow the window: `acked` more packets are acknowledged. Call only while the window is below its maximum. */
void rc_cwnd_grow(struct rc_qp *qp, uint32_t acked);
/* React to congestion of the path, reported by a CNP or a mark. */
void rc_congestion(struct rc_qp *qp);
/* Shrink the window, once per window of loss. */
void rc_cwnd_cut(struct rc_requester *rq);
void rc_cwnd_timeout(struct rc_requester *rq);

/* Shrink the window: `lost` packets were sent again in one round trip. */
void rc_cwnd_lost(struct rc_requester *rq, uint32_t lost);

/* ---- middle.c ---- */

/* Emit middle packets from `psn` on, `opcode` without extension headers, each a whole path MTU of the memory
 * at `from`, which is checked and mapped. Returns the number of packets that found a frame. */
uint32_t rc_emit_middles(struct rc_qp *qp, uint8_t opcode, uint32_t psn, uint32_t count, const uint8_t *from);

#endif
