/* SPDX-License-Identifier: BSD-3-Clause */
/* Flow rules lead the frames of a connection to a receive queue. qp/steer.c explains their purpose, and why
 * senders of frames do not make rules. Control thread only. */
#include <rte_flow.h>

#include "dataplane/port/port.h"

#define SAMPLE_UDP_PORT 0xc000u /* UDP port in the rule that tests whether the device accepts rules */

/* A rule without a handle may have users: while the device is closed, or if it refused the rule afterwards.
 */
static bool
is_unused(const struct flow_rule *rule)
{
	return rule->handle == NULL && rule->users == 0;
}

/* Create a rule for RoCE frames from `src` and that UDP port to `dst`. `handle` NULL: only ask whether the
 * device would accept the rule. */
static int
give_rule(const struct port *port, const struct wire_addr *src, const struct wire_addr *dst,
	  uint16_t udp_src_port, uint16_t queue, struct rte_flow **handle)
{
	const struct rte_flow_attr attr = {.ingress = 1};
	const struct rte_flow_item_udp udp = {.hdr.src_port = rte_cpu_to_be_16(udp_src_port),
					      .hdr.dst_port = RTE_BE16(WIRE_UDP_PORT)};
	const struct rte_flow_item_udp udp_mask = {.hdr.src_port = UINT16_MAX, .hdr.dst_port = UINT16_MAX};
	const struct rte_flow_item_ipv4 v4_mask = {.hdr.src_addr = UINT32_MAX, .hdr.dst_addr = UINT32_MAX};
	const struct rte_flow_action_queue to = {.index = queue};
	struct rte_flow_item_ipv4 v4 = {0};
	struct rte_flow_item_ipv6 v6 = {0}, v6_mask = {0};
	struct rte_flow_item pattern[] = {
		{.type = RTE_FLOW_ITEM_TYPE_ETH},
		{.type = RTE_FLOW_ITEM_TYPE_IPV4, .spec = &v4, .mask = &v4_mask},
		{.type = RTE_FLOW_ITEM_TYPE_UDP, .spec = &udp, .mask = &udp_mask},
		{.type = RTE_FLOW_ITEM_TYPE_END},
	};
	const struct rte_flow_action actions[] = {
		{.type = RTE_FLOW_ACTION_TYPE_QUEUE, .conf = &to},
		{.type = RTE_FLOW_ACTION_TYPE_END},
	};
	struct rte_flow_error error;

	if (wire_addr_is_v4(src)) {
		memcpy(&v4.hdr.src_addr, src->gid + 12, 4);
		memcpy(&v4.hdr.dst_addr, dst->gid + 12, 4);
	} else {
		memcpy(&v6.hdr.src_addr, src->gid, 16);
		memcpy(&v6.hdr.dst_addr, dst->gid, 16);
		memset(&v6_mask.hdr.src_addr, 0xff, 16);
		memset(&v6_mask.hdr.dst_addr, 0xff, 16);
		pattern[1] = (struct rte_flow_item){
			.type = RTE_FLOW_ITEM_TYPE_IPV6, .spec = &v6, .mask = &v6_mask};
	}
	if (handle == NULL)
		return rte_flow_validate(port->device, &attr, pattern, actions, &error);
	*handle = rte_flow_create(port->device, &attr, pattern, actions, &error);
	return *handle != NULL ? 0 : -1;
}

static void
set_open(struct flow_table *table, bool open)
{
	/* Relaxed: pairs with the load of telemetry, which orders nothing. */
	atomic_store_explicit(&table->open, open, memory_order_relaxed);
}

void
flows_init(struct port *port)
{
	if (port->rx_queues > 1)
		set_open(&port->flows,
			 give_rule(port, port->info.addr, port->info.addr, SAMPLE_UDP_PORT, 0, NULL) == 0);
}

struct flow_rule *
flow_rule_find(struct port *port, const struct wire_addr *src, const struct wire_addr *dst,
	       uint16_t udp_src_port)
{
	struct flow_table *table = &port->flows;

	for (uint32_t i = 0; i < FLOW_RULES; i++) {
		struct flow_rule *rule = &table->rule[i];

		if (rule->handle != NULL && rule->udp_src_port == udp_src_port &&
		    wire_addr_equal(&rule->src, src) && wire_addr_equal(&rule->dst, dst))
			return rule;
	}
	return NULL;
}

static struct flow_rule *
make_rule(struct port *port, const struct wire_addr *src, const struct wire_addr *dst, uint16_t udp_src_port,
	  uint16_t queue)
{
	struct flow_table *table = &port->flows;

	for (uint32_t i = 0; i < FLOW_RULES; i++) {
		struct flow_rule *rule = &table->rule[i];

		if (!is_unused(rule))
			continue;
		if (give_rule(port, src, dst, udp_src_port, queue, &rule->handle) != 0)
			break;
		rule->src = *src;
		rule->dst = *dst;
		rule->udp_src_port = udp_src_port;
		rule->queue = queue;
		rule->users = 0;
		/* Relaxed: read by telemetry only. */
		atomic_fetch_add_explicit(&table->count, 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&table->made, 1, memory_order_relaxed);
		return rule;
	}
	set_open(table, false);
	return NULL;
}

static void
end_rule(struct port *port, struct flow_rule *rule)
{
	struct rte_flow_error error;

	if (rule->handle == NULL)
		return;
	/* A rule that the device does not delete remains in the table, for the next queue pair with the same
	 * tuple. */
	if (rte_flow_destroy(port->device, rule->handle, &error) != 0)
		return;
	rule->handle = NULL;
	atomic_fetch_sub_explicit(&port->flows.count, 1, memory_order_relaxed); /* telemetry */
	set_open(&port->flows, true);
}

struct flow_rule *
flow_rule_get(struct port *port, const struct wire_addr *src, const struct wire_addr *dst,
	      uint16_t udp_src_port, uint16_t queue)
{
	struct flow_rule *rule = flow_rule_find(port, src, dst, udp_src_port);

	if (rule == NULL)
		rule = make_rule(port, src, dst, udp_src_port, queue);
	else if (rule->queue != queue)
		rule = NULL; /* shared with a queue pair of another core, which came first */
	if (rule == NULL) {
		/* Relaxed: read by telemetry only. */
		atomic_fetch_add_explicit(&port->flows.refused, 1, memory_order_relaxed);
		return NULL;
	}
	rule->users++;
	return rule;
}

void
flow_rule_put(struct port *port, struct flow_rule *rule)
{
	if (rule != NULL && --rule->users == 0)
		end_rule(port, rule);
}

void
flows_fini(struct port *port)
{
	for (uint32_t i = 0; i < FLOW_RULES; i++)
		if (port->flows.rule[i].handle != NULL)
			end_rule(port, &port->flows.rule[i]);
	set_open(&port->flows, false);
}

void
flows_suspend(struct port *port)
{
	struct rte_flow_error error;

	for (uint32_t i = 0; i < FLOW_RULES; i++) {
		struct flow_rule *rule = &port->flows.rule[i];

		if (rule->handle == NULL)
			continue;
		rte_flow_destroy(port->device, rule->handle, &error); /* if it fails, the device's end does */
		rule->handle = NULL;
		atomic_fetch_sub_explicit(&port->flows.count, 1, memory_order_relaxed); /* telemetry */
	}
}

void
flows_resume(struct port *port)
{
	for (uint32_t i = 0; i < FLOW_RULES; i++) {
		struct flow_rule *rule = &port->flows.rule[i];

		if (rule->users > 0 && give_rule(port, &rule->src, &rule->dst, rule->udp_src_port,
						 rule->queue, &rule->handle) == 0)
			/* Relaxed: read by telemetry only. */
			atomic_fetch_add_explicit(&port->flows.count, 1, memory_order_relaxed);
	}
}
