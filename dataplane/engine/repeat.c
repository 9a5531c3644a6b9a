/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending again after an interruption. All frames are lost while a link is down, and retransmission times
 * double meanwhile, so that the last one may end long after the link has come up. The control thread, which
 * notices the link, has each core send again at once.
 */
#include "dataplane/engine.h"
#include "dataplane/engine/loop.h"
#include "dataplane/qp/doorbell.h"
#include "dataplane/qp/transport.h"

void
loop_repeat_qp(struct core *core, struct engine_qp *qp)
{
	if (!qp_has_rc(qp) || (qp->state != RC_RTR && qp->state != RC_RTS))
		return;
	rc_repeat_lost(qp->rc, core->now);
	rcio_after(core, qp);
}

uint32_t
loop_repeat(struct core *core)
{
	/* Pairs with the addition in engine_port_repeat(): the link is up. */
	uint32_t links = atomic_exchange_explicit(&core->links_up, 0, memory_order_acquire);
	struct engine_client *client;

	TAILQ_FOREACH(client, &core->clients, link)
		for (uint32_t i = 0; i < client->groups * ONE_DOORBELL_GROUP; i++) {
			struct engine_qp *qp = client->qps[i];

			if (qp != NULL && doorbell_lane(qp) == NULL && (links & 1u << qp->port) != 0)
				loop_repeat_qp(core, qp);
		}
	return 1;
}

void
engine_port_repeat(uint32_t port)
{
	for (uint32_t i = 0; i < engine.num_cores; i++) {
		/* Pairs with the exchange in loop_repeat(). */
		atomic_fetch_or_explicit(&engine.core[i]->links_up, 1u << port, memory_order_release);
		idle_wake(engine.core[i]);
	}
}
