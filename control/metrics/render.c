/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All metrics, in output order; doc/monitoring.md lists them.
 *
 * Labels have few values: cores, ports, kinds, reasons, and CLIENT_LABELS attachments.
 */
#include "control/metrics/render.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_version.h>

#include "dataplane/engine/counters.h"

static void
write_process(struct metrics_text *text, const struct metrics_snapshot *snapshot)
{
	metrics_family(text, "oneside_build", METRICS_INFO, "", "Versions of oneside and DPDK.");
	metrics_sample(text, 1, "version=\"%s\",dpdk=\"%s\"", ONESIDE_VERSION,
		       rte_version() + strlen("DPDK "));
	metrics_family(text, "oneside_start_time", METRICS_GAUGE, "seconds",
		       "Start of the data plane, in Unix time.");
	metrics_value(text, snapshot->started);
	metrics_family(text, "oneside_log_suppressed", METRICS_COUNTER, "",
		       "Log lines suppressed by rate limits.");
	metrics_value(text, snapshot->suppressed);
	metrics_family(text, "oneside_path_mtu_reports", METRICS_COUNTER, "",
		       "Reports and other signs that packets of a connection exceed the path MTU.");
	metrics_value(text, snapshot->path_mtu_reports);
}

/* ---- attachments and their objects ---- */

static void
write_objects(struct metrics_text *text, const struct metrics_snapshot *snapshot)
{
	static const char *const kinds[OBJECT_KINDS] = {
		[OBJECT_LISTENER] = "listener",        [OBJECT_CR] = "connection_request",
		[OBJECT_SIDR] = "resolution",          [OBJECT_QP] = "queue_pair",
		[OBJECT_SRQ] = "shared_receive_queue", [OBJECT_CQ] = "completion_ring",
		[OBJECT_CHANNEL] = "channel",          [OBJECT_AH] = "address_handle",
		[OBJECT_MW] = "memory_window",         [OBJECT_MR] = "memory_region",
		[OBJECT_REGION] = "mapping",           [OBJECT_PZ] = "protection_zone",
	};

	metrics_family(text, "oneside_attached", METRICS_COUNTER, "", "Attachments made.");
	metrics_value(text, snapshot->attached_ever);
	metrics_family(text, "oneside_users", METRICS_GAUGE, "", "Users with connections to the socket.");
	metrics_value(text, snapshot->users);
	metrics_family(text, "oneside_objects", METRICS_GAUGE, "", "Objects of all attachments, by kind.");
	for (uint32_t kind = 0; kind < OBJECT_KINDS; kind++)
		metrics_sample(text, snapshot->all.object[kind], "kind=\"%s\"", kinds[kind]);
	metrics_family(text, "oneside_registered", METRICS_GAUGE, "bytes",
		       "Memory registered by all attachments.");
	metrics_value(text, snapshot->all.mapped);
}

static void
write_resources(struct metrics_text *text, const struct metrics_snapshot *snapshot, const uint32_t *of,
		uint32_t attachments)
{
	static const char *const names[QUOTA_SERVICES] = {
		[QUOTA_KEYS] = "keys",
		[QUOTA_ZONES] = "protection_zones",
		[QUOTA_QPNS] = "queue_pairs",
		[QUOTA_MAPPINGS] = "mappings",
		[QUOTA_CHANNELS] = "channels",
		[QUOTA_AHS] = "address_handles",
		[QUOTA_MAPPABLE] = "mappable_files",
	};

	metrics_sample(text, attachments, "resource=\"attachments\"");
	for (uint32_t i = 0; i < QUOTA_SERVICES; i++)
		metrics_sample(text, of[i], "resource=\"%s\"", names[i]);
	for (uint32_t i = 0; i < snapshot->ports; i++) {
		metrics_sample(text, of[QUOTA_SERVICES + i], "resource=\"listeners\",port=\"%s\"",
			       snapshot->port[i].name);
		metrics_sample(text, of[QUOTA_REQUESTS + i], "resource=\"requests\",port=\"%s\"",
			       snapshot->port[i].name);
	}
}

static void
write_quota(struct metrics_text *text, const struct metrics_snapshot *snapshot)
{
	metrics_family(text, "oneside_resource_used", METRICS_GAUGE, "",
		       "Use of resources that all users share.");
	write_resources(text, snapshot, snapshot->quota.common, snapshot->quota.clients);
	metrics_family(text, "oneside_resource_limit", METRICS_GAUGE, "",
		       "Limit of resources that all users share; one user gets at most three quarters.");
	write_resources(text, snapshot, snapshot->quota.max_common, snapshot->quota.max_clients);
	metrics_family(text, "oneside_user_registered", METRICS_GAUGE, "bytes",
		       "Registered memory and arenas of the user with the most.");
	metrics_value(text, snapshot->user_bytes);
	metrics_family(text, "oneside_user_limit", METRICS_GAUGE, "bytes",
		       "Limit of registered memory and arenas per user (max_bytes_per_uid).");
	metrics_value(text, snapshot->quota.max_bytes_per_uid);
}

/* Users that the configuration does not name have weight 1 and no rate limit. */
static void
write_shares(struct metrics_text *text, const struct metrics_snapshot *snapshot)
{
	metrics_family(text, "oneside_user_weight", METRICS_GAUGE, "",
		       "Weight of a user that the configuration names; others have 1.");
	for (uint32_t i = 0; i < snapshot->shares; i++)
		metrics_sample(text, snapshot->user[i].weight, "uid=\"%u\"", snapshot->user[i].uid);
	metrics_family(text, "oneside_user_ceiling", METRICS_GAUGE, "",
		       "Rate limit per second of a user that the configuration names; 0: none.");
	for (uint32_t i = 0; i < snapshot->shares; i++) {
		metrics_sample(text, snapshot->user[i].max_ops, "uid=\"%u\",of=\"ops\"",
			       snapshot->user[i].uid);
		metrics_sample(text, snapshot->user[i].max_bytes, "uid=\"%u\",of=\"bytes\"",
			       snapshot->user[i].uid);
	}
}

/* ---- single attachments ---- */

#define CLIENT_LABELS_MAX 256u

static void
client_labels(const struct metrics_client *client, char out[CLIENT_LABELS_MAX])
{
	static const char *const apis[] = {
		[ONE_KIND_DAT] = "dat", [ONE_KIND_RSM] = "rsm", [ONE_KIND_VERBS] = "verbs"};
	char program[METRICS_LABEL(sizeof(client->program))];

	snprintf(out, CLIENT_LABELS_MAX,
		 "client=\"%u\",pid=\"%u\",uid=\"%u\",program=\"%s\",api=\"%s\",port=\"%s\"", client->number,
		 client->pid, client->uid, metrics_label(client->program, program, sizeof(program)),
		 apis[client->kind], client->port);
}

static void
write_clients_value(struct metrics_text *text, const struct metrics_snapshot *snapshot, size_t offset)
{
	char labels[CLIENT_LABELS_MAX];

	for (uint32_t i = 0; i < snapshot->clients; i++) {
		const struct metrics_client *client = &snapshot->client[i];

		client_labels(client, labels);
		metrics_sample(text, *(const uint64_t *)(const void *)((const char *)client + offset), "%s",
			       labels);
	}
	metrics_sample(text, *(const uint64_t *)(const void *)((const char *)&snapshot->others + offset),
		       "client=\"others\"");
}

static void
write_clients(struct metrics_text *text, const struct metrics_snapshot *snapshot)
{
	static const struct {
		const char *name, *unit, *help;
		enum metrics_type type;
		size_t offset;
	} values[] = {
		{"oneside_client_requests", "", "Control requests of an attachment.", METRICS_COUNTER,
		 offsetof(struct metrics_client, requests)},
		{"oneside_client_copied", "bytes", "Payload moved by the attachment's copy thread.",
		 METRICS_COUNTER, offsetof(struct metrics_client, copied)},
		{"oneside_client_registered", "bytes", "Memory registered by an attachment.", METRICS_GAUGE,
		 offsetof(struct metrics_client, mapped)},
		{"oneside_client_arena", "bytes", "Rings and staging memory of an attachment.", METRICS_GAUGE,
		 offsetof(struct metrics_client, arena)},
		{"oneside_client_queue_pairs", "", "Queue pairs of an attachment.", METRICS_GAUGE,
		 offsetof(struct metrics_client, object[OBJECT_QP])},
		{"oneside_client_memory_regions", "", "Memory regions of an attachment.", METRICS_GAUGE,
		 offsetof(struct metrics_client, object[OBJECT_MR])},
	};

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		metrics_family(text, values[i].name, values[i].type, values[i].unit, values[i].help);
		write_clients_value(text, snapshot, values[i].offset);
	}
}

static void
write_requests(struct metrics_text *text, const struct metrics_snapshot *snapshot)
{
	metrics_family(
		text, "oneside_request", METRICS_HISTOGRAM, "seconds",
		"Time from a control request's arrival to its answer; types never requested are omitted.");
	for (uint32_t type = 0; type < ONE_MSG_MAX; type++) {
		const struct latency *latency = &snapshot->latency[type];
		uint64_t any = 0;

		for (uint32_t i = 0; i < LATENCY_BUCKETS; i++)
			any |= latency->bucket[i];
		if (any != 0)
			metrics_histogram(text, latency, "request=\"%s\"", attach_calls->request[type].name);
	}
}

/* ---- ports ---- */

static void
write_port_facts(struct metrics_text *text, const struct metrics_snapshot *snapshot)
{
	metrics_family(text, "oneside_port_up", METRICS_GAUGE, "", "Whether the link is up.");
	for (uint32_t i = 0; i < snapshot->ports; i++)
		metrics_sample(text, snapshot->port[i].link_up, "port=\"%s\"", snapshot->port[i].name);
	metrics_family(text, "oneside_port_speed", METRICS_GAUGE, "bytes",
		       "Bytes a second of the link; 0: unknown.");
	for (uint32_t i = 0; i < snapshot->ports; i++)
		metrics_sample(text, (uint64_t)snapshot->port[i].mbps * 125000, "port=\"%s\"",
			       snapshot->port[i].name);
	metrics_family(text, "oneside_port_mtu", METRICS_GAUGE, "bytes", "Payload of an Ethernet frame.");
	for (uint32_t i = 0; i < snapshot->ports; i++)
		metrics_sample(text, snapshot->port[i].mtu, "port=\"%s\"", snapshot->port[i].name);
	metrics_family(text, "oneside_port_address_conflicts", METRICS_COUNTER, "",
		       "Frames of other hosts that use an address of the port.");
	for (uint32_t i = 0; i < snapshot->ports; i++)
		metrics_sample(text, snapshot->conflicts[i], "port=\"%s\"", snapshot->port[i].name);
}

static void
write_ports(struct metrics_text *text, const struct metrics_snapshot *snapshot)
{
	static const struct {
		const char *name, *unit, *help;
		size_t offset;
	} values[] = {
#define VALUE(name, unit, help, field) \
	{"oneside_port_" name, unit, help, offsetof(struct engine_port_stats, field)}
		VALUE("rx_packets", "", "Frames that the device received.", rx_packets),
		VALUE("tx_packets", "", "Frames that the device sent.", tx_packets),
		VALUE("rx", "bytes", "Bytes that the device received.", rx_bytes),
		VALUE("tx", "bytes", "Bytes that the device sent.", tx_bytes),
		VALUE("rx_missed", "", "Frames that the device dropped because cores polled too late.",
		      rx_missed),
		VALUE("rx_errors", "", "Frames that the device found damaged.", rx_errors),
		VALUE("tx_errors", "", "Frames that the device could not send.", tx_errors),
		VALUE("rx_no_buffer", "", "Times that the device found no free packet buffer.", rx_no_buffer),
#undef VALUE
	};
	struct engine_port_stats stats[CONFIG_PORTS_MAX];
	bool counts[CONFIG_PORTS_MAX];

	write_port_facts(text, snapshot);
	for (uint32_t i = 0; i < snapshot->ports; i++)
		counts[i] = engine_port_stats(i, &stats[i]);
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		metrics_family(text, values[i].name, METRICS_COUNTER, values[i].unit, values[i].help);
		for (uint32_t j = 0; j < snapshot->ports; j++)
			if (counts[j])
				metrics_sample(text,
					       *(const uint64_t *)(const void *)((const char *)&stats[j] +
										 values[i].offset),
					       "port=\"%s\"", snapshot->port[j].name);
	}
}

/* ---- cores ---- */

struct cores {
	uint32_t num;
	struct engine_stats *stats;
};

static void
write_counter(struct metrics_text *text, const struct counter *counter, const struct cores *cores)
{
	static const char *const units[] = {[COUNTER_EVENTS] = "",
					    [COUNTER_BYTES] = "bytes",
					    [COUNTER_CYCLES] = "seconds",
					    [COUNTER_NS] = "seconds"};
	char name[64];

	snprintf(name, sizeof(name), "oneside_core_%s", counter->name);
	metrics_family(text, name, METRICS_COUNTER, units[counter->unit], counter->help);
	for (uint32_t i = 0; i < cores->num; i++) {
		uint64_t value = counter_value(counter, &cores->stats[i]);

		if (counter->unit == COUNTER_CYCLES)
			value = (uint64_t)((unsigned __int128)value * NS_PER_S / engine_hz());
		if (counter->unit == COUNTER_CYCLES || counter->unit == COUNTER_NS)
			metrics_seconds(text, value, "core=\"%u\"", engine_core_lcore(i));
		else
			metrics_sample(text, value, "core=\"%u\"", engine_core_lcore(i));
	}
}

/* A family for all counters of a group; `label` distinguishes them. */
static void
write_group(struct metrics_text *text, const struct cores *cores, enum counter_group group, const char *label)
{
	for (uint32_t i = 0; i < cores->num; i++)
		for (const struct counter *counter = counters; counter->name != NULL; counter++)
			if (counter->group == group && !counter->stray)
				metrics_sample(text, counter_value(counter, &cores->stats[i]),
					       "core=\"%u\",%s=\"%s\"", engine_core_lcore(i), label,
					       counter->name);
}

/* Write one sum for all strays: single counters would reveal which queue pair numbers exist. */
static void
write_strays(struct metrics_text *text, const struct cores *cores)
{
	for (uint32_t i = 0; i < cores->num; i++) {
		uint64_t sum = 0;

		for (const struct counter *counter = counters; counter->name != NULL; counter++)
			sum += counter->stray ? counter_value(counter, &cores->stats[i]) : 0;
		metrics_sample(text, sum, "core=\"%u\",reason=\"no_queue_pair\"", engine_core_lcore(i));
	}
}

static void
write_completions(struct metrics_text *text, const struct cores *cores)
{
	metrics_family(
		text, "oneside_completion", METRICS_HISTOGRAM, "seconds",
		"Time from fetching a work request to its completion; samples one of 61 requests of a core.");
	_Static_assert(ENGINE_SAMPLE == 61, "the help text above names the interval");
	for (uint32_t i = 0; i < cores->num; i++)
		for (uint32_t op = 0; op < ENGINE_OPERATIONS; op++)
			metrics_histogram(text, &cores->stats[i].latency[op], "core=\"%u\",operation=\"%s\"",
					  engine_core_lcore(i), counters_operation[op]);
}

static void
write_cores(struct metrics_text *text)
{
	struct cores cores = {.num = engine_num_cores()};

	cores.stats = calloc(cores.num, sizeof(*cores.stats));
	if (cores.stats == NULL) {
		text->failed = true;
		return;
	}
	for (uint32_t i = 0; i < cores.num; i++)
		engine_stats(i, &cores.stats[i]);
	for (const struct counter *counter = counters; counter->name != NULL; counter++)
		if (counter->group == COUNTER_CORE)
			write_counter(text, counter, &cores);
	metrics_family(text, "oneside_drops", METRICS_COUNTER, "",
		       "Frames and completions dropped, by reason.");
	write_group(text, &cores, COUNTER_DROP, "reason");
	write_strays(text, &cores);
	metrics_family(text, "oneside_transport", METRICS_COUNTER, "", "Events of the RC transport.");
	write_group(text, &cores, COUNTER_TRANSPORT, "event");
	write_completions(text, &cores);
	free(cores.stats);
}

void
metrics_write(struct metrics_text *text, const struct metrics_snapshot *snapshot)
{
	write_process(text, snapshot);
	write_objects(text, snapshot);
	write_quota(text, snapshot);
	write_shares(text, snapshot);
	write_clients(text, snapshot);
	write_requests(text, snapshot);
	write_ports(text, snapshot);
	write_cores(text);
	metrics_end(text);
}
