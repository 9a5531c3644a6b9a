/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Capabilities of peers connected out of band, where no CM carries them: doc/selective-repeat.md, "Out of
 * band".
 *
 * Two oneside ends derive the same UDP source port from their queue pair numbers. A frame from that port is
 * only a hint, but it makes an end send its hello, which other implementations take for a CNP. A hello asks
 * for another, secret port. The first frame from the requested port proves that the peer has the hello.
 */
#include "rc_internal.h"

#include <string.h>

#define HELLO_MOST 8u             /* sent without being asked: a peer that answers none is no oneside */
#define HELLO_INTERVAL 4000000ull /* ns between two of them */
#define HELLO_LATE 2048u          /* requests that may overtake a hello */
#define HELLO_ANSWER 1u           /* flag: the sender does not know yet whether its hello has arrived */

static const uint8_t hello_magic[4] = {'O', 'N', 'E', '1'};

/* Offsets in the data of a CNP. All else is 0. */
enum {
	HELLO_FLAGS = 4,
	HELLO_CAPABILITIES = 5, /* WIRE_CAPABILITY_* */
	HELLO_PORT = 6,         /* big-endian: UDP source port that the peer shall use */
	HELLO_NEXT = 8          /* big-endian: PSN of the sender's next request */
};

void
rc_hello_begin(struct rc_qp *qp, uint16_t udp_port)
{
	qp->hello_port = udp_port;
	qp->hello_left = HELLO_MOST;
	qp->hello_at = 0;
	qp->recognized = false;
}

static void
become_selective(struct rc_qp *qp)
{
	qp->selective = true;
	qp->req.tlp_allowed = true;
	qp->rsp.nak_sent = false; /* the next report says what is held */
}

/* A frame from the requested port: the peer has our hello. */
static void
confirm_peer(struct rc_qp *qp)
{
	/* Go-back-N first repeats what it has begun to repeat. */
	if (qp->req.recovering || qp->req.snd != qp->req.max)
		return;
	qp->udp_port = qp->hello_port;
	qp->hello_port = 0;
	if (qp->peer_selects && qp->env->scoreboards != NULL)
		become_selective(qp);
}

RC_COLD void
rc_hello_recognize(struct rc_qp *qp, const struct wire_packet *packet, uint64_t now)
{
	if (qp->recognized && packet->udp_src_port == qp->hello_port) {
		confirm_peer(qp);
		return;
	}
	if (packet->udp_src_port != qp->udp_port || qp->hello_left == 0 || now < qp->hello_at)
		return;
	qp->hello_at = now + HELLO_INTERVAL;
	qp->hello_left--;
	qp->rsp.cnp_due |= RC_CNP_HELLO;
}

static void
recognize_peer(struct rc_qp *qp, const uint8_t *data)
{
	struct rc_requester *rq = &qp->req;
	uint8_t capabilities = data[HELLO_CAPABILITIES];

	qp->recognized = true;
	qp->packed = (capabilities & WIRE_CAPABILITY_PACKED) != 0;
	qp->peer_selects = (capabilities & WIRE_CAPABILITY_SELECTIVE_REPEAT) != 0;
	if ((capabilities & WIRE_CAPABILITY_YIELDS) != 0)
		rq->min_rto = RC_MIN_RTO_MAX;
	if (rq->threshold == rq->cwnd_max)
		rq->threshold = RC_CWND_MAX;
	rq->cwnd_max = RC_CWND_MAX;
	rc_count(qp, RC_COUNT_RECOGNIZED);
	qp->env->recognized(qp->env, qp, (uint16_t)(load_be16(data + HELLO_PORT) | WIRE_UDP_SOURCE_MIN));
}

/* True if the PSN in the hello may be true. Only a queue pair in RTS has requests that a peer expects. */
static bool
is_near(const struct rc_qp *qp, const struct wire_packet *packet)
{
	const struct rc_requester *rq = &qp->req;
	uint32_t first;

	if (qp->state == RC_RTS) {
		first = rq->una - HELLO_LATE;
		return ((packet->psn - first) & RC_PSN_MASK) <= rq->max - first;
	}
	first = qp->rsp.epsn - HELLO_LATE;
	return ((load_be32(wire_cnp_data(packet) + HELLO_NEXT) - first) & RC_PSN_MASK) <=
	       HELLO_LATE + RC_AHEAD_MAX;
}

/* A host that does not see the frames has to guess a port and a PSN. */
static bool
is_of_peer(const struct rc_qp *qp, const struct wire_packet *packet)
{
	return (packet->udp_src_port == qp->udp_port || packet->udp_src_port == qp->hello_port) &&
	       is_near(qp, packet);
}

RC_COLD bool
rc_hello_input(struct rc_qp *qp, const struct wire_packet *packet)
{
	const uint8_t *data = wire_cnp_data(packet);

	if (memcmp(data, hello_magic, sizeof(hello_magic)) != 0)
		return false;
	/* No hello is expected if the CM has announced all, or if the program has chosen the port. */
	if ((qp->hello_port == 0 && !qp->recognized) || !is_of_peer(qp, packet))
		return true;
	if (!qp->recognized) {
		recognize_peer(qp, data);
		if (packet->udp_src_port == qp->hello_port)
			confirm_peer(qp);
	}
	if ((data[HELLO_FLAGS] & HELLO_ANSWER) != 0)
		qp->rsp.cnp_due |= RC_CNP_HELLO;
	return true;
}

RC_COLD bool
rc_hello_emit(struct rc_qp *qp)
{
	const struct wire_build b = {.opcode = WIRE_CNP, .qpn = qp->peer_qpn, .psn = qp->rsp.epsn};
	const struct rc_env *env = qp->env;
	uint8_t *frame = qp->env->tx_begin(qp->env, qp, wire_frame_len(&qp->template, b.opcode, 0)), *data;

	if (frame == NULL)
		return false;
	data = wire_build(&qp->template, &b, frame) - WIRE_CNP_DATA_LEN;
	memcpy(data, hello_magic, sizeof(hello_magic));
	data[HELLO_FLAGS] = qp->hello_port != 0 ? HELLO_ANSWER : 0;
	data[HELLO_CAPABILITIES] = WIRE_CAPABILITY_PACKED | WIRE_CAPABILITY_STEERED |
				   (env->scoreboards != NULL ? WIRE_CAPABILITY_SELECTIVE_REPEAT : 0) |
				   (env->yields ? WIRE_CAPABILITY_YIELDS : 0);
	store_be32(data + HELLO_NEXT, qp->req.max & RC_PSN_MASK);
	store_be16(data + HELLO_PORT, qp->hello_port != 0 ? qp->hello_port : qp->udp_port);
	qp->env->tx_end(qp->env, qp, false);
	qp->rsp.cnp_due &= (uint8_t)~RC_CNP_HELLO;
	return true;
}
