/* SPDX-License-Identifier: BSD-3-Clause */
#include "net.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct flight {
	struct flight *next;
	uint64_t due;
	struct wire_addr from, to;
	uint8_t mad[CM_MAD_LEN];
};

uint64_t
net_random(struct net *net)
{
	net->seed ^= net->seed << 13;
	net->seed ^= net->seed >> 7;
	net->seed ^= net->seed << 17;
	return net->seed * 0x2545f4914f6cdd1dull;
}

static uint64_t
env_random(struct cm_env *env)
{
	return net_random(((struct host *)env)->net);
}

static void
fly(struct net *net, const struct cm_path *path, const uint8_t *mad, uint64_t due)
{
	struct flight *flight = calloc(1, sizeof(*flight)), **at = &net->flights;

	flight->due = due;
	flight->from = path->src;
	flight->to = path->dst;
	memcpy(flight->mad, mad, CM_MAD_LEN);
	while (*at != NULL && (*at)->due <= due)
		at = &(*at)->next;
	flight->next = *at;
	*at = flight;
}

static void
env_send(struct cm_env *env, const struct cm_path *path, const uint8_t mad[CM_MAD_LEN])
{
	struct host *host = (struct host *)env;
	struct net *net = host->net;
	enum fate fate = PASS;
	struct cm_mad parsed;

	if (cm_mad_parse(mad, CM_MAD_LEN, &parsed) != 0 || memcmp(&path->src, &host->addr, 16) != 0)
		abort();
	host->sent[parsed.attribute]++;
	if (net->fate != NULL)
		fate = net->fate(net, host, &parsed, net->sent);
	net->sent++;
	if (fate == LOSE || host->down)
		return;
	fly(net, path, mad, net->now + (fate == SLOW ? 20 * DELAY : DELAY));
	if (fate == TWICE)
		fly(net, path, mad, net->now + 3 * DELAY);
}

struct cm_local
net_local(struct host *host)
{
	return (struct cm_local){
		.qpn = host->next_qpn++,
		.psn = (uint32_t)net_random(host->net) & 0xffffff,
		.rd_atomic_in = 16,
		.rd_atomic_out = 8,
		.rnr_retry = 7,
		.retry_count = 6,
		.ack_timeout = 14,
		.path_mtu = 1024,
		.link_mtu = 1408,
	};
}

static struct end *
end_new(struct host *host, struct cm_conn *conn, bool active)
{
	struct end *end = calloc(1, sizeof(*end));

	end->host = host;
	end->conn = conn;
	end->active = active;
	end->next = host->ends;
	host->ends = end;
	return end;
}

static void
env_event(struct cm_env *env, const struct cm_event *event)
{
	struct host *host = (struct host *)env;
	struct end *end = cm_user(event->conn);
	uint64_t now = host->net->now;
	struct cm_local local;

	if (event->type == CM_REQUEST) {
		end = end_new(host, event->conn, false);
		cm_set_user(event->conn, end);
		if (cm_listener_user(event->listener) != host)
			abort();
	}
	if (end == NULL || end->conn != event->conn || end->count == TOLD_MAX)
		abort();
	end->when[end->count] = now;
	end->reported[end->count++] = event->type;
	if (event->remote != NULL)
		end->remote = *event->remote;
	switch (event->type) {
	case CM_REQUEST:
		if (host->answer == ANSWER_ACCEPT) {
			local = net_local(host);
			if (cm_accept(event->conn, &local, host->private_data, host->private_len, now) != 0)
				abort();
		} else if (host->answer == ANSWER_REJECT) {
			if (cm_reject(event->conn, CM_REJ_CONSUMER, host->private_data, host->private_len,
				      now) != 0)
				abort();
		}
		break;
	case CM_REPLY:
		if (!host->confirm_later && cm_confirm(event->conn, now) != 0)
			abort();
		break;
	case CM_REJECTED:
		end->reason = event->reason;
		memcpy(end->reject_data, event->reject_data, CM_PRIVATE_REJ);
		break;
	case CM_GONE:
		end->conn = NULL;
		break;
	default:
		break;
	}
}

struct net *
net_new(void)
{
	struct net *net = calloc(1, sizeof(*net));

	net->seed = 0x123456789abcdef;
	net->now = 77 * SECOND;
	for (int i = 0; i < HOSTS; i++) {
		struct host *host = &net->host[i];

		host->env = (struct cm_env){
			.send = env_send,
			.event = env_event,
			.random = env_random,
			.guid = 0x0200000000000001ull + (uint64_t)i,
			.capabilities = 0xb0u + (uint32_t)i,
			.response_timeout = 20,
			.max_retries = RETRIES,
			.retry_interval = INTERVAL,
			.max_half_open = 64,
		};
		host->net = net;
		memset(host->addr.gid + 10, 0xff, 2);
		memcpy(host->addr.gid + 12, (uint8_t[]){192, 0, 2, (uint8_t)(i + 1)}, 4);
		host->next_qpn = 0x1000u * (uint32_t)(i + 1);
		host->cm = cm_new(&host->env);
		cm_listen(host->cm, CM_SERVICE_TCP(5000), NULL, host);
		cm_listen(host->cm, CM_SERVICE_RSM(7), NULL, host);
	}
	return net;
}

void
net_free(struct net *net)
{
	struct flight *flight;
	struct end *end;

	while ((flight = net->flights) != NULL) {
		net->flights = flight->next;
		free(flight);
	}
	for (int i = 0; i < HOSTS; i++) {
		while ((end = net->host[i].ends) != NULL) {
			net->host[i].ends = end->next;
			free(end);
		}
		cm_free(net->host[i].cm);
	}
	free(net);
}

static void
deliver(struct net *net, const struct flight *flight)
{
	struct cm_path path = {.src = flight->to, .dst = flight->from, .hop_limit = 64};

	for (int i = 0; i < HOSTS; i++) {
		struct host *host = &net->host[i];

		if (memcmp(&host->addr, &flight->to, sizeof(flight->to)) != 0 || host->down)
			continue;
		host->received[flight->mad[17]]++;
		cm_input(host->cm, &path, flight->mad, CM_MAD_LEN, net->now);
	}
}

void
net_run(struct net *net, uint64_t until)
{
	for (;;) {
		uint64_t next = net->flights != NULL ? net->flights->due : CM_NEVER;
		struct flight *flight;

		for (int i = 0; i < HOSTS; i++)
			if (cm_deadline(net->host[i].cm) < next)
				next = cm_deadline(net->host[i].cm);
		if (next > until)
			break;
		if (next > net->now)
			net->now = next;
		while ((flight = net->flights) != NULL && flight->due <= net->now) {
			net->flights = flight->next;
			deliver(net, flight);
			free(flight);
		}
		for (int i = 0; i < HOSTS; i++)
			cm_timeout(net->host[i].cm, net->now);
	}
	net->now = until;
}

struct cm_path
net_path(struct net *net, int from, int to)
{
	return (struct cm_path){
		.src = net->host[from].addr,
		.dst = net->host[to].addr,
		.flow_label = 0x12345,
		.traffic_class = 0x68,
		.hop_limit = 64,
	};
}

struct cm_connect
net_params(struct net *net, int from, int to, uint64_t service_id)
{
	return (struct cm_connect){
		.service_id = service_id,
		.local = net_local(&net->host[from]),
		.path = net_path(net, from, to),
		.rdma_cm = service_is_ip(service_id),
		.ip_port = 0x9abc,
		.timeout = CM_NEVER,
	};
}

struct end *
net_connect_params(struct net *net, int from, const struct cm_connect *params)
{
	struct end *end = end_new(&net->host[from], NULL, true);

	end->conn = cm_connect(net->host[from].cm, params, end, net->now);
	return end;
}

struct end *
net_connect(struct net *net, int from, int to, uint64_t service_id)
{
	struct cm_connect params = net_params(net, from, to, service_id);

	return net_connect_params(net, from, &params);
}

void
net_inject(struct net *net, int from, int to, const struct cm_mad *mad)
{
	struct cm_path path = net_path(net, to, from);
	uint8_t bytes[CM_MAD_LEN];

	cm_mad_build(mad, bytes);
	cm_input(net->host[to].cm, &path, bytes, CM_MAD_LEN, net->now);
}

bool
end_has(const struct end *end, enum cm_event_type type)
{
	for (int i = 0; i < end->count; i++)
		if (end->reported[i] == type)
			return true;
	return false;
}

void
end_show(const struct end *end)
{
	static const char *const names[] = {
		"?",           "REQUEST",   "REPLY",         "ESTABLISHED",  "REJECTED",
		"UNREACHABLE", "TIMED_OUT", "ACCEPT_FAILED", "DISCONNECTED", "GONE"};

	fprintf(stderr, "%s end:", end->active ? "active" : "passive");
	for (int i = 0; i < end->count; i++)
		fprintf(stderr, " %s@%.3f", names[end->reported[i]], (double)end->when[i] / 1e9);
	fprintf(stderr, "\n");
}

bool
end_reported(const struct end *end, ...)
{
	va_list list;
	int i = 0, want;
	bool same = true;

	va_start(list, end);
	while ((want = va_arg(list, int)) != 0) {
		if (i >= end->count || (int)end->reported[i] != want)
			same = false;
		i++;
	}
	va_end(list);
	same = same && i == end->count;
	if (!same)
		end_show(end);
	return same;
}

bool
net_is_clean(const struct net *net)
{
	for (int i = 0; i < HOSTS; i++) {
		const struct cm *cm = net->host[i].cm;

		if (cm->count != 0 || cm->half_open != 0 || cm_heap_deadline(&cm->timers) != CM_NEVER ||
		    cm->by_local.count != 0 || cm->by_remote.count != 0 || cm->by_qpn.count != 0)
			return false;
	}
	return net->flights == NULL;
}

bool
net_ends_clean(struct net *net)
{
	net_run(net, net->now + LONG_ENOUGH);
	return net_is_clean(net);
}

int
net_setup(void **state)
{
	*state = net_new();
	return 0;
}

int
net_teardown(void **state)
{
	net_free(*state);
	return 0;
}
