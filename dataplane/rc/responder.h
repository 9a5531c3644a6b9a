/* SPDX-License-Identifier: BSD-3-Clause */
/* Responder: requests of the peer and their replies. */
#ifndef DATAPLANE_RC_RESPONDER_H
#define DATAPLANE_RC_RESPONDER_H

#include "rc.h"
#include "work.h"

struct rc_scoreboard;

/* A READ or atomic of the peer, kept after its response for duplicates. */
struct rc_resource {
	uint32_t first;            /* wire PSN */
	uint32_t count;            /* PSNs; 0: unused */
	uint32_t start, next, end; /* the reply under way, relative to `first` */
	uint32_t rkey;
	uint32_t length;
	uint8_t opcode;
	union {
		uint64_t va;
		uint64_t found; /* atomics: the value before */
	};
};

enum rc_reply { RC_REPLY_NONE, RC_REPLY_ACK, RC_REPLY_NAK_SEQ, RC_REPLY_RNR, RC_REPLY_FATAL };

struct rc_responder {
	uint32_t epsn;
	uint32_t msn;
	uint32_t reply_psn;
	uint8_t reply; /* enum rc_reply: sent after the READ responses under way */
	uint8_t syndrome;
	uint8_t context;     /* RC_REQ_SEND or RC_REQ_WRITE: inside a message; 0: between messages */
	bool nak_sent;       /* this hole was reported */
	uint8_t closed;      /* RC_CLOSED_*: requests are not taken */
	bool missed;         /* requests were dropped; ask for them again when `closed` is 0 */
	bool stalled;        /* the next READ response waits for its payload */
	bool recv_held;      /* `recv` is taken and not completed */
	uint8_t recv_status; /* completion status of the held receive when this queue pair fails */
	bool established;
	uint8_t cnp_due;                  /* RC_CNP_* */
	uint8_t resources, resource_next; /* a power of two; index of the next one */
	uint8_t rd_max;
	uint8_t min_rnr_timer;
	uint32_t pending;     /* bitmap of resources with a reply under way; RC_PENDING_AGAIN */
	uint16_t fresh;       /* bitmap of resources whose reply under way is their first */
	uint32_t rkey;        /* WRITE in progress */
	uint32_t left, total; /* bytes missing and bytes placed of the message */
	uint64_t va;
	uint64_t cnp_at;
	struct rc_resource resource[RC_RD_ATOMIC_MAX];
	struct rc_scoreboard *scoreboard; /* NULL: nothing is held */
	struct recv_work recv;
};

/* rc_responder.pending: the scoreboard has READ responses to send again */
#define RC_PENDING_AGAIN 0x10000u

/* rc_responder.cnp_due */
#define RC_CNP_MARK 1u  /* reports a congestion mark */
#define RC_CNP_HELLO 2u /* carries our hello */

/* rc_responder.closed */
#define RC_CLOSED_FATAL 1u   /* enter RC_ERROR when the NAK is sent */
#define RC_CLOSED_PLACING 2u /* an atomic waits for its memory: other requests are dropped */
#define RC_CLOSED_BEHIND 4u  /* payload of earlier requests is not in place yet (landing.c) */

#define RC_SYNDROME_ACK 0x1Fu /* no credit limit */
#define RC_NAK_SEQ 0x60u
#define RC_NAK_INVALID 0x61u
#define RC_NAK_ACCESS 0x62u
#define RC_NAK_OPERATION 0x63u

/* Properties of a request opcode. */
enum {
	RC_REQ_START = 0x01,
	RC_REQ_END = 0x02,
	RC_REQ_SEND = 0x04,
	RC_REQ_WRITE = 0x08,
	RC_REQ_READ = 0x10,
	RC_REQ_ATOMIC = 0x20,
	RC_REQ_IMM = 0x40,
	RC_REQ_INV = 0x80
};

extern const uint8_t rc_request_kind[32];

void rc_request_input(struct rc_qp *qp, const struct wire_packet *packet, uint64_t now);
/* Execute a request with the expected PSN. */
void rc_request_execute(struct rc_qp *qp, const struct wire_packet *packet);
uint32_t rc_reply_output(struct rc_qp *qp, uint32_t budget, uint64_t now);
/* The READ or atomic that `psn` belongs to; NULL: no longer known. */
struct rc_resource *rc_resource_of(struct rc_qp *qp, uint32_t psn);
/* Refuse for good: a NAK with `syndrome` for `psn` follows the replies before it. While payload of earlier
 * requests is not in place, the request is dropped instead, since the NAK would acknowledge those. */
void rc_refuse(struct rc_qp *qp, uint8_t syndrome, uint32_t psn, enum one_status recv_status);
/* Refuse for good; payload of all requests before `psn` is in place. */
void rc_refuse_now(struct rc_qp *qp, uint8_t syndrome, uint32_t psn, enum one_status recv_status);
/* Completion of the receive in use, by the last packet of its message. */
struct completion rc_received(const struct rc_qp *qp, const struct wire_packet *packet, uint8_t kind);
/* React to a frame with a congestion mark. */
void rc_marked(struct rc_qp *qp, bool response, uint64_t now);
void rc_recv_complete(struct rc_qp *qp, const struct completion *c);

#endif
