/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Internals of the RC transport.
 *
 *   rc_qp.c      life of a queue pair, the pool, dispatch of packets
 *   requester.c  work requests to request packets
 *   response.c   response packets to completions; go-back-N
 *   responder.c  request packets: checks, execution, duplicates
 *   reply.c      READ responses, acknowledgements and NAKs to packets
 *   selective.c  packets held behind a hole, and sending only the holes again
 *   timer.c      retransmission time, retries
 *   congestion.c the congestion window
 *   middle.c     runs of packets from the middle of a message
 *   packed.c     several requests or responses in one frame
 *   hello.c      capabilities of peers connected out of band
 *   sg_list.c    local scatter/gather lists
 *   resume.c     after an access to memory without mapping (bounce.h)
 *   ahead.c      payload of such memory, read before its packets
 *   landing.c    packets that arrive for such memory
 *   record.c     freezing and thawing
 *
 * PSNs: the responder keeps the 24 bits of the wire. The requester counts in 32 bits, of which the low 24 go
 * on the wire, so that work which is posted but not sent compares correctly however long its messages are.
 * The PSN of a response is converted by its distance from `una`, which is below 2^23 for all that can be
 * outstanding.
 */
#ifndef DATAPLANE_RC_INTERNAL_H
#define DATAPLANE_RC_INTERNAL_H

#include "dataplane/mem/bounce.h"
#include "requester.h"
#include "responder.h"
#include "scoreboard.h"
#include "dataplane/wire/head.h"

struct rc_qp {
	struct rc_env *env;
	void *user;
	uint32_t qpn, peer_qpn;
	uint32_t pz, access;
	uint8_t state; /* enum rc_state */
	uint16_t mtu;
	uint16_t unacknowledged; /* rc_unacknowledged() */
	bool selective, packed;
	bool peer_selects;   /* the peer has announced selective repeat, and may know that this end does */
	bool recognized;     /* the peer's hello has arrived */
	uint8_t hello_left;  /* hellos that may still be sent without being asked */
	uint16_t hello_port; /* UDP source port that our hello asks for; 0: no hello, or the peer uses it */
	uint16_t udp_port;   /* UDP source port of the peer's frames; checked if `selective` */
	uint64_t hello_at;   /* no hello leaves before without being asked */
	struct wire_addr local, remote;
	struct wire_template template;
	struct wire_head head; /* cached headers of requests with data and of middle READ responses */
	struct rc_requester req;
	struct rc_responder rsp;
	struct bounce_party party;
};
_Static_assert(sizeof(struct rc_qp) <= 1536, "an idle queue pair stays small");

/* Enter RC_ERROR: `node` completes with `status`, all other work as FLUSHED; then call env->failed. */
void rc_fail(struct rc_qp *qp, struct rc_node *node, enum one_status status, enum rc_error error);

static inline void
rc_count(struct rc_qp *qp, enum rc_counter counter)
{
	qp->env->counter[counter]++;
}

/* Signed distance a - b of two wire PSNs. */
static inline int32_t
rc_psn_diff(uint32_t a, uint32_t b)
{
	return (int32_t)((a - b) << 8) >> 8;
}

/* Number of packets of a message of `len` bytes. */
static inline uint32_t
rc_packets(const struct rc_qp *qp, uint32_t len)
{
	return len <= qp->mtu ? 1 : (len - 1) / qp->mtu + 1;
}

/* True for READs and atomics: such a request occupies a resource of the peer until its response arrives. */
static inline bool
rc_is_rd(uint8_t op)
{
	return op == ONE_OP_READ || op == ONE_OP_FETCH_ADD || op == ONE_OP_CMP_SWAP;
}

/* PSN after the last packet that is requested together with `psn`. */
static inline uint32_t
rc_chunk_end(const struct rc_node *node, uint32_t psn)
{
	uint32_t end;

	if (node->work.op != ONE_OP_READ)
		return psn + 1;
	end = node->first + ((psn - node->first) | (RC_CHUNK - 1)) + 1;
	return (int32_t)(end - node->end) < 0 ? end : node->end;
}

/* True if a packet that does not end a message requests an ACK: every RC_ACK_EVERY packets, when the window
 * is used up, while requests are held back, and during recovery, to find out what was lost. */
static inline bool
rc_asks_ack(const struct rc_qp *qp, uint32_t psn)
{
	const struct rc_requester *rq = &qp->req;

	return (psn & (RC_ACK_EVERY - 1)) == RC_ACK_EVERY - 1 || psn + 1 - rq->una >= rq->cwnd ||
	       unlikely(qp->env->throttle != RC_UNTHROTTLED || rq->scoreboard != NULL);
}

/* Opcode of a request by its operation and the packet's place in the message; READs and atomics have RC_ONLY.
 */
enum rc_place { RC_ONLY, RC_FIRST, RC_MIDDLE, RC_LAST, RC_PLACES };
extern const uint8_t rc_opcode[ONE_OP_MAX][RC_PLACES];

/* Account for packets `snd`..`snd`+psns-1, just handed over; the last one is `node`'s. */
static inline void
rc_sent(struct rc_qp *qp, struct rc_node *node, uint32_t psns, uint64_t now)
{
	struct rc_requester *rq = &qp->req;

	if (likely(rq->snd == rq->max)) {
		if (!rq->rtt_pending) {
			rq->rtt_pending = true;
			rq->rtt_psn = rq->snd;
			rq->rtt_time = now;
		}
	} else {
		rc_count(qp, RC_COUNT_RETRANSMIT);
	}
	if (rq->timer == RC_NEVER) {
		rq->timer = now + rc_rto(rq);
		if (rq->una == rq->max)
			rq->progress_at = now;
	}
	rq->snd += psns;
	if ((int32_t)(rq->snd - rq->max) > 0)
		rq->max = rq->snd;
	if (rq->snd == node->end)
		rq->cur = node->next;
}

/* Send one frame with its payload from memory that does not change; false if no frame is available. */
static inline bool
rc_emit(struct rc_qp *qp, const struct wire_build *b, const uint8_t *payload)
{
	struct rc_env *env = qp->env;
	uint8_t *to,
		*frame = env->tx_begin(env, qp, wire_frame_len(&qp->template, b->opcode, b->payload_len));

	if (unlikely(frame == NULL))
		return false;
	to = wire_build(&qp->template, b, frame);
	if (payload != NULL)
		memcpy(to, payload, b->payload_len);
	env->tx_end(env, qp, false);
	return true;
}

/* Account for the execution of the expected packet. */
static inline void
rc_executed(struct rc_qp *qp, const struct wire_packet *packet, uint8_t kind)
{
	struct rc_responder *rs = &qp->rsp;

	if (packet->ack_request || rs->reply != RC_REPLY_NONE) {
		rs->reply = RC_REPLY_ACK;
		rs->reply_psn = rs->epsn;
	}
	rs->epsn = (rs->epsn + 1) & RC_PSN_MASK;
	rs->nak_sent = false;
	rs->context = kind & RC_REQ_END ? 0 : kind & (RC_REQ_SEND | RC_REQ_WRITE);
}

/* Account for the expected packet of a WRITE; its payload is in place. */
static inline void
rc_written(struct rc_qp *qp, const struct wire_packet *packet, uint8_t kind, uint32_t len)
{
	struct rc_responder *rs = &qp->rsp;

	rs->va += len;
	rs->left -= len;
	rs->total += len;
	rc_executed(qp, packet, kind);
}

/* ---- hello.c ---- */

void rc_hello_begin(struct rc_qp *qp, uint16_t udp_port);
/* Input any packet of the connection while `hello_port` is not 0. */
void rc_hello_recognize(struct rc_qp *qp, const struct wire_packet *packet, uint64_t now);
/* Input a CNP; false: it is no hello. */
bool rc_hello_input(struct rc_qp *qp, const struct wire_packet *packet);
/* Send the hello that is due; false: no frame is available. */
bool rc_hello_emit(struct rc_qp *qp);

/* ---- packed.c ---- */

/* Input a frame with several requests or responses. */
void rc_packed_input(struct rc_qp *qp, const struct wire_packet *frame, uint64_t now);
/* Send new requests from `cur` on, at most `most`, in one frame. False if fewer than two fit, or no frame is
 * available. */
bool rc_send_packed(struct rc_qp *qp, uint32_t most, uint64_t now);
/* Send responses from the resource `oldest` on, at most `most`, in one frame. Returns their number; 0 if
 * fewer than two fit, or no frame is available. */
uint32_t rc_respond_packed(struct rc_qp *qp, uint32_t oldest, uint32_t most);
/* Packet `psn` of a held packet or frame: `held` itself, or *inside, extracted from the frame; NULL if it has
 * another PSN. */
const struct wire_packet *rc_packet_of(const struct wire_packet *held, uint32_t psn,
				       struct wire_packet *inside);

static inline bool
rc_is_packed(const struct wire_packet *packet)
{
	return (packet->opcode & ~1u) == WIRE_PACKED_REQUESTS;
}

/* True if `held` is the packet `psn`, or a frame that contains it. */
static inline bool
rc_has_psn(const struct wire_packet *held, uint32_t psn)
{
	return ((psn - held->psn) & RC_PSN_MASK) < (rc_is_packed(held) ? held->count : 1u);
}

/* Start a run: up to `count` more packets may follow the current one; the first is placed at `to`. */
static inline void
rc_run_begin(struct rc_qp *qp, const struct wire_packet *packet, uint8_t *to, uint32_t count, bool responses)
{
	/* Packets marked for congestion start no run: each mark counts. */
	if (count > 0 && likely(!packet->congestion))
		qp->env->run = (struct rc_run){qp, to, count, responses};
}

#endif
