/* SPDX-License-Identifier: BSD-3-Clause */
/* Acknowledgements and events, from a core to the control thread: in one ring, in order. Nothing is lost when
 * the ring is full: events then wait in their objects, and no command is taken until all have been sent. So
 * the order holds, and the acknowledgement of a removal is the last message about its object. */
#include <sys/eventfd.h>

#include <rte_debug.h>

#include "core.h"

static bool
up_push(struct core *core, const struct up *up)
{
	return rte_ring_sp_enqueue_elem(core->up, (void *)(uintptr_t)up, sizeof(*up)) == 0;
}

void
event_notify_control(struct core *core)
{
	uint64_t sleep;

	core->wake_control = false;
	/* Pairs with the fence in engine_sleep_begin: either that function sees the queued entries, or this
	 * one sees the sleep. */
	atomic_thread_fence(memory_order_seq_cst);
	sleep = atomic_load_explicit(&engine.control_sleep, memory_order_relaxed);
	/* Each core writes once per sleep, independently of the others: a core that loses its processor
	 * before it writes must not delay the entries of other cores. */
	if (sleep == 0 || sleep == core->sleep_ended)
		return;
	core->sleep_ended = sleep;
	eventfd_write(engine.event_fd, 1);
}

void
event_raise(struct core *core, struct event_node *node, enum engine_event_type type, uint32_t value)
{
	struct up up = {.pointer = node->owner, .type = type, .value = value};

	core->wake_control = true;
	if (STAILQ_EMPTY(&core->backlog) && up_push(core, &up))
		return;
	node->pending |= (uint8_t)(1u << type);
	if (type == ENGINE_EVENT_FAILED || type == ENGINE_EVENT_FAULT)
		node->value = value;
	if (!node->queued) {
		node->queued = true;
		STAILQ_INSERT_TAIL(&core->backlog, node, link);
	}
}

bool
event_drain(struct core *core)
{
	struct event_node *node;

	while ((node = STAILQ_FIRST(&core->backlog)) != NULL) {
		while (node->pending != 0) {
			/* In the order in which events occur in a connection's life. */
			static const uint8_t order[] = {ENGINE_EVENT_ESTABLISHED, ENGINE_EVENT_BIND,
							ENGINE_EVENT_DRAINED, ENGINE_EVENT_FAILED,
							ENGINE_EVENT_FAULT};
			struct up up = {.pointer = node->owner, .value = node->value};

			for (size_t i = 0; i < RTE_DIM(order) && up.type == 0; i++)
				if (node->pending & 1u << order[i])
					up.type = order[i];
			if (!up_push(core, &up))
				return false;
			core->wake_control = true;
			node->pending &= (uint8_t) ~(1u << up.type);
		}
		STAILQ_REMOVE_HEAD(&core->backlog, link);
		node->queued = false;
	}
	return true;
}

/* Advice may be lost, and does not overtake waiting events. */
static bool
push_advice(struct core *core, const struct up *advice)
{
	if (!STAILQ_EMPTY(&core->backlog) || !up_push(core, advice))
		return false;
	core->wake_control = true;
	return true;
}

bool
event_strays(struct core *core, struct engine_qp *qp, uint16_t udp_src_port, uint8_t at)
{
	struct up up = {.pointer = qp, .type = UP_STRAYS, .value = (uint32_t)at << 16 | udp_src_port};

	return push_advice(core, &up);
}

bool
event_silent(struct core *core, void *owner)
{
	struct up up = {.pointer = owner, .type = ENGINE_EVENT_SILENT};

	return push_advice(core, &up);
}

void
event_acknowledge(struct core *core, struct engine_command *command)
{
	struct up up = {.pointer = command};

	if (!command->quiet)
		core->wake_control = true;
	/* The caller has made sure of room; only this core enqueues. */
	if (!up_push(core, &up))
		rte_panic("no room for an acknowledgement\n");
}
