/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packets from the middle of a message, one after the other.  They differ in PSN and payload; what they have
 * in common is looked up and made once for all that go out in one turn, or come in one burst.
 *
 * Coming in, a frame equal to the one before it up to the PSN (wire_parse_received), with a good ICRC and
 * just the next PSN, goes where that one ended: the key was checked for all that the message had to come.  A
 * run ends with the burst, before the core takes commands, so a key that has been withdrawn meanwhile counts
 * for nothing in the next burst, and its owner gets the answer only after that.  It ends with anything unlike
 * the one before, and with the last packet; there is none while packets are held behind a hole, through
 * memory without mapping, over lists of several sges, nor for frames that are marked for congestion.
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
