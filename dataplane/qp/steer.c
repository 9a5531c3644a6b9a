/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flow rules lead a connection's frames to the receive queue of the core that owns its queue pair.
 *
 * RSS chooses a queue without regard to queue pairs. So frames may arrive at a core that has to hand them
 * over (rcio.c), and then all frames of that connection do. After FLOW_STRAYS of them the owner notifies the
 * control thread. If the port accepts rules (rte_flow), a rule for the connection's addresses and UDP ports
 * leads its frames to the right queue. A port is asked once whether it accepts such rules. A port that has
 * refused a rule is not asked again before another rule was removed. Without a rule the queue pair may move
 * to the core at which its frames arrive (control/connect/rebalance.c).
 *
 * Senders of frames must not control the device. A queue pair has at most one rule, none without a
 * connection, and only for its peer's address. A queue pair asks at intervals of FLOW_INTERVAL_NS. A port has
 * at most FLOW_RULES rules. Forged frames can at best move a rule to an unused UDP port, or the queue pair to
 * another core; each such move doubles the time until the next.
 *
 * Rules change only on the control thread.
 */
#include "dataplane/esp/esp.h"
#include "dataplane/port/port.h"
#include "dataplane/qp/transport.h"

/* ---- the owner's core ---- */

void
steer_ask(struct core *core, struct engine_qp *qp, const struct frame_info *info)
{
	const struct wire_packet *packet = &info->packet;
	const uint8_t *bth = packet->payload - wire_extension_len(packet->opcode) - WIRE_BTH_LEN;
	const uint8_t *udp = bth - sizeof(struct rte_udp_hdr);

	if (core->now < qp->flow_at || info->port != qp->port || qp->transport != QP_WIRE ||
	    (qp->state != RC_RTR && qp->state != RC_RTS) ||
	    memcmp(&packet->src, &qp->attr.path.dst, sizeof(packet->src)) != 0)
		return;
	/* A device sees no UDP port in ESP frames. */
	if (esp_encrypts(&packet->src))
		return;
	if (event_strays(core, qp, (uint16_t)(udp[0] << 8 | udp[1]), info->at))
		qp->flow_at = core->now + FLOW_INTERVAL_NS;
}

/* ---- the control thread ---- */

static void
forget_rule(struct engine_qp *qp)
{
	struct flow_rule *rule = qp->flow;

	qp->flow = NULL;
	flow_rule_put(&ports[qp->port], rule);
}

bool
steer_learn(struct engine_qp *qp, uint16_t udp_src_port)
{
	static const struct wire_addr none;
	struct port *port = &ports[qp->port];
	struct flow_rule *rule;

	/* The connection may have ended since the event. */
	if (memcmp(&qp->flow_peer, &none, sizeof(none)) == 0)
		return true;
	rule = flow_rule_find(port, &qp->flow_peer, &qp->flow_own, udp_src_port);
	if (rule != NULL && rule == qp->flow)
		return true; /* the rule does not help: some devices do not parse frames in a VLAN */
	/* Relaxed: only this thread stores it. */
	if (rule == NULL && !atomic_load_explicit(&port->flows.open, memory_order_relaxed))
		return false;
	forget_rule(qp); /* the peer's UDP port has changed */
	qp->flow = flow_rule_get(port, &qp->flow_peer, &qp->flow_own, udp_src_port,
				 (uint16_t)qp_core(qp)->index);
	return qp->flow != NULL;
}

void
steer_moved(struct engine_qp *qp)
{
	forget_rule(qp);
}

void
steer_command(const struct engine_command *command)
{
	struct engine_qp *qp = command->qp;

	switch (command->type) {
	case ENGINE_QP_CONNECT:
		if (!command->connection.local && port_by_addr(&command->connection.rc.path.dst) == NULL) {
			qp->flow_peer = command->connection.rc.path.dst;
			qp->flow_own = command->connection.rc.path.src;
		}
		break;
	case ENGINE_QP_FLUSH:
	case ENGINE_QP_RESET:
	case ENGINE_QP_REMOVE:
		memset(&qp->flow_peer, 0, sizeof(qp->flow_peer));
		forget_rule(qp);
		break;
	default:
		break;
	}
}
