/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs of packets from the middle of a message. They differ in PSN and payload; all else is looked up and
 * built once for all that leave in one rc_output(), or arrive in one burst.
 *
 * On input, a frame that equals the previous one up to the PSN (wire_parse_received), has a good ICRC and the
 * next PSN, is placed where that one ended: the key was checked for the rest of the message. A run ends with
 * the burst, before the core takes commands. So a revoked key is unusable in the next burst, and its owner
 * gets the answer only after that. A run also ends with a packet unlike the previous one, and with the last
 * packet. There are no runs while packets are held behind a hole, through memory without mapping, over lists
 * of several sges, or for frames marked for congestion.
 */
#include "sg_list.h"

uint32_t
rc_emit_middles(struct rc_qp *qp, uint8_t opcode, uint32_t psn, uint32_t count, const uint8_t *from)
{
	bool requests = rc_request_kind[opcode] != 0;
	struct rc_env *env = qp->env;
	struct wire_build b = {.opcode = opcode, .qpn = qp->peer_qpn, .payload_len = qp->mtu};
	uint32_t len = wire_head_for(&qp->head, &qp->template, &b), n;

	for (n = 0; n < count; n++, psn++, from += qp->mtu) {
		uint8_t *frame = env->tx_begin(env, qp, len), *payload;
		bool sealed;

		if (unlikely(frame == NULL))
			break;
		b.psn = psn;
		b.ack_request = requests && rc_asks_ack(qp, psn);
		payload = wire_build_on(&qp->head, &b, frame);
		sealed = wire_fill(&qp->template, frame, payload, from, qp->mtu);
		env->tx_end(env, qp, sealed);
	}
	return n;
}

bool
rc_input_again(struct rc_env *env, const struct wire_packet *packet, uint64_t now)
{
	struct rc_run *run = &env->run;
	struct rc_qp *qp = run->qp;

	if (qp == NULL || packet->psn != (run->responses ? qp->req.una & RC_PSN_MASK : qp->rsp.epsn))
		return false;
	rc_place_later(env, run->to, packet->payload, qp->mtu);
	run->to += qp->mtu;
	if (--run->left == 0)
		rc_run_end(env);
	if (!run->responses) {
		rc_written(qp, packet, RC_REQ_WRITE, qp->mtu);
	} else {
		qp->req.una++;
		rc_progress(qp, qp->req.una - 1, now);
	}
	return true;
}
