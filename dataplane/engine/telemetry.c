/* SPDX-License-Identifier: BSD-3-Clause */
/* Counters of cores and ports, for humans and programs: /oneside/cores, stages, drops, transport, ports. */
#include <inttypes.h>
#include <stdio.h>

#include <rte_telemetry.h>

#include "dataplane/engine/counters.h"
#include "dataplane/engine/telemetry_reply.h"
#include "dataplane/port/port.h"
#include "dataplane/wire/icrc.h"

static void
add_number(struct fact_sink *d, const char *name, uint64_t value)
{
	d->number(d, name, value);
}

/* Adds to `d` a dictionary filled by `fill` for number `number`. */
static int
add_dictionary(struct rte_tel_data *d, const char *name, engine_report_fn *fill, uint32_t number)
{
	struct telemetry_dictionary one = telemetry_dictionary();

	if (one.data == NULL)
		return -1;
	fill(&one.sink, number);
	telemetry_add(d, name, &one);
	return 0;
}

/* Adds a dictionary per core, named by the lcore's number. */
static int
for_each_core(struct rte_tel_data *d, engine_report_fn *fill)
{
	rte_tel_data_start_dict(d);
	for (uint32_t i = 0; i < engine.num_cores; i++) {
		char name[16];

		snprintf(name, sizeof(name), "%" PRIu32, engine_core_lcore(i));
		if (add_dictionary(d, name, fill, i) != 0)
			return -1;
	}
	return 0;
}

static void
fill_group(struct fact_sink *d, const struct engine_stats *stats, enum counter_group group)
{
	for (const struct counter *counter = counters; counter->name != NULL; counter++) {
		char name[RTE_TEL_MAX_STRING_LEN];

		if (counter->group != group || counter->unit == COUNTER_CYCLES || counter->unit == COUNTER_NS)
			continue;
		snprintf(name, sizeof(name), "%s%s", counter->name,
			 counter->unit == COUNTER_BYTES ? "_bytes" : "");
		add_number(d, name, counter_value(counter, stats));
	}
}

void
engine_report_core(struct fact_sink *d, uint32_t core)
{
	struct engine_stats stats;
	uint64_t cycles;

	engine_stats(core, &stats);
	cycles = stats.busy_cycles + stats.idle_cycles;
	add_number(d, "busy_cycles", stats.busy_cycles);
	add_number(d, "idle_cycles", stats.idle_cycles);
	fill_group(d, &stats, COUNTER_CORE);
	add_number(d, "busy_percent", cycles == 0 ? 0 : stats.busy_cycles / (cycles / 100 + 1));
	add_number(d, "gaps_ms", stats.gaps_ns / 1000000);
}

void
engine_report_drops(struct fact_sink *d, uint32_t core)
{
	struct engine_stats stats;

	engine_stats(core, &stats);
	fill_group(d, &stats, COUNTER_DROP);
}

void
engine_report_transport(struct fact_sink *d, uint32_t core)
{
	struct engine_stats stats;

	engine_stats(core, &stats);
	fill_group(d, &stats, COUNTER_TRANSPORT);
}

static void
report_stages(struct fact_sink *d, uint32_t core)
{
	struct engine_stats stats;
	static const char *const names[ENGINE_STAGE_MAX] = {
		[ENGINE_STAGE_COMMANDS] = "commands",   [ENGINE_STAGE_DRIVER_RX] = "driver_rx",
		[ENGINE_STAGE_INPUT] = "input",         [ENGINE_STAGE_INBOUND] = "inbound",
		[ENGINE_STAGE_DOORBELLS] = "doorbells", [ENGINE_STAGE_WORK] = "work",
		[ENGINE_STAGE_OUTPUT] = "output",       [ENGINE_STAGE_TIMERS] = "timers",
		[ENGINE_STAGE_PUBLISH] = "publish",     [ENGINE_STAGE_TX] = "driver_tx",
		[ENGINE_STAGE_OTHER] = "other",         [ENGINE_STAGE_IDLE] = "idle",
	};

	engine_stats(core, &stats);
	add_number(
		d, "on",
		atomic_load_explicit(&engine.time_stages, memory_order_relaxed)); /* of engine_time_stages */
	add_number(d, "hz", rte_get_tsc_hz());
	add_number(d, "busy_loops", stats.stage_loops);
	for (uint32_t i = 0; i < ENGINE_STAGE_MAX; i++)
		add_number(d, names[i], stats.stage_cycles[i]);
}

static int
on_stages(const char *command, const char *params, struct rte_tel_data *d)
{
	if (params != NULL && strcmp(params, "on") == 0)
		engine_time_stages(true);
	else if (params != NULL && strcmp(params, "off") == 0)
		engine_time_stages(false);
	else if (tel_has(params))
		return tel_refuse(d, "its parameter is on or off");
	return for_each_core(d, report_stages);
}

/* Handles cores, drops and transport. */
static int
on_cores(const char *command, const char *params, struct rte_tel_data *d)
{
	engine_report_fn *fill = strcmp(command, "/oneside/cores") == 0   ? engine_report_core
				 : strcmp(command, "/oneside/drops") == 0 ? engine_report_drops
									  : engine_report_transport;

	return tel_has(params) ? tel_refuse(d, TEL_NO_PARAMETERS) : for_each_core(d, fill);
}

void
engine_report_port(struct fact_sink *d, uint32_t number)
{
	const struct port *port = &ports[number];
	struct rings rings = port_rings(port);
	struct engine_port_stats stats;
	char mac[RTE_ETHER_ADDR_FMT_SIZE], name[RTE_ETH_NAME_MAX_LEN];

	rte_ether_format_addr(mac, sizeof(mac), (const struct rte_ether_addr *)port->info.mac);
	d->text(d, "mac", mac);
	add_number(d, "device", port->device);
	if (rte_eth_dev_get_name_by_port(port->device, name) == 0)
		d->text(d, "device_name", name);
	add_number(d, "mtu", port->info.mtu);
	add_number(d, "path_mtu", port->info.path_mtu);
	if (port->info.interface[0] != '\0') {
		d->text(d, "interface", port->info.interface);
		add_number(d, "interface_mtu", port->info.interface_mtu);
	}
	add_number(d, "rx_queues", port->far_rings > 0 ? rings.own * rings.far : port->rx_queues);
	add_number(d, "tx_queues", port->far_rings > 0 ? rings.own * rings.far : port->tx_queues);
	if (port->far_rings > 0) {
		add_number(d, "ring_cores", rings.own);
		add_number(d, "ring_far_cores", rings.far);
	}
	add_number(d, "checks_ipv4", port->checks_ipv4);
	d->text(d, "icrc", icrc->name);
	/* Relaxed: only reported. */
	add_number(d, "flow_rules_open", atomic_load_explicit(&port->flows.open, memory_order_relaxed));
	add_number(d, "flow_rules", atomic_load_explicit(&port->flows.count, memory_order_relaxed));
	add_number(d, "flow_rules_made", atomic_load_explicit(&port->flows.made, memory_order_relaxed));
	add_number(d, "flow_rules_refused", atomic_load_explicit(&port->flows.refused, memory_order_relaxed));
	if (!engine_port_stats(number, &stats))
		return;
	add_number(d, "rx_packets", stats.rx_packets);
	add_number(d, "tx_packets", stats.tx_packets);
	add_number(d, "rx_bytes", stats.rx_bytes);
	add_number(d, "tx_bytes", stats.tx_bytes);
	add_number(d, "rx_missed", stats.rx_missed);
	add_number(d, "rx_errors", stats.rx_errors);
	add_number(d, "tx_errors", stats.tx_errors);
	add_number(d, "rx_no_buffer", stats.rx_no_buffer);
}

static int
on_ports(const char *command, const char *params, struct rte_tel_data *d)
{
	if (tel_has(params))
		return tel_refuse(d, TEL_NO_PARAMETERS);
	rte_tel_data_start_dict(d);
	for (uint32_t i = 0; i < ports_num; i++)
		if (add_dictionary(d, ports[i].info.name, engine_report_port, i) != 0)
			return -1;
	return 0;
}

void
telemetry_register(void)
{
	rte_telemetry_register_cmd("/oneside/cores", on_cores,
				   "Counters of each polling core. No parameters");
	rte_telemetry_register_cmd(
		"/oneside/stages", on_stages,
		"Cycles of each stage of the cores' loops, counted while that is on. Parameters: [on|off]");
	rte_telemetry_register_cmd(
		"/oneside/drops", on_cores,
		"Frames and completions lost on each polling core, by reason. No parameters");
	rte_telemetry_register_cmd("/oneside/transport", on_cores,
				   "Counters of the RC transport on each polling core. No parameters");
	rte_telemetry_register_cmd("/oneside/ports", on_ports, "Ports and their counters. No parameters");
}
