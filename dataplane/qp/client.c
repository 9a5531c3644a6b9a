/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Faults of an attachment that a core detects.
 */
#include "dataplane/qp/client.h"

#include "dataplane/qp/cq.h"

void
client_fault(struct engine_client *client, enum one_fault fault)
{
	if (client->faulty)
		return;
	client->faulty = true;
	/* Pairs with the library's acquire load when it checks whether the attachment is alive. */
	atomic_store_explicit(&client->header->fault, fault, memory_order_release);
	cq_unstage(client->core);
	event_raise(client->core, &client->node, ENGINE_EVENT_FAULT, fault);
}
