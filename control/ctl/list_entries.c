/* SPDX-License-Identifier: BSD-3-Clause */
#include "config/route.h"
#include "control/ctl/internal.h"

#include <inttypes.h>
#include <stdio.h>

#include "control/cm/service.h"
#include "control/objects/place.h"
#include "control/rsm/rsm.h"
#include "dataplane/mem/bounce.h"

static void
add_number(struct fact_sink *sink, const char *name, uint64_t number)
{
	sink->number(sink, name, number);
}

static void
add_text(struct fact_sink *sink, const char *name, const char *text)
{
	sink->text(sink, name, text);
}

static void
add_key(struct fact_sink *sink, const char *name, uint32_t number)
{
	char text[16];

	snprintf(text, sizeof(text), "%#" PRIx32, number);
	add_text(sink, name, text);
}

static void
add_mac(struct fact_sink *sink, const char *name, const uint8_t mac[6])
{
	char text[18];

	snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", mac[0], mac[1], mac[2], mac[3], mac[4],
		 mac[5]);
	add_text(sink, name, text);
}

static const char *
api_name(uint32_t kind)
{
	return kind == ONE_KIND_RSM ? "rsm" : kind == ONE_KIND_VERBS ? "verbs" : "dat";
}

/* Shares of a user, from the configuration; 0: no rate limit. */
static void
add_share(struct fact_sink *d, uid_t uid)
{
	struct config_user user = config_user_of(control.config, uid);

	add_number(d, "weight", user.weight);
	add_number(d, "max_ops", user.max_ops);
	add_number(d, "max_bytes", user.max_bytes);
}

static uint64_t
copied_bytes(const struct client *client)
{
	return client->bounce != NULL ? bounce_bytes(client->bounce) : 0;
}

void
show_client(struct fact_sink *d, const struct client *client)
{
	uint64_t work, completions;

	add_number(d, "pid", (uint64_t)client->pid);
	add_number(d, "uid", client->uid);
	add_text(d, "program", client->program);
	add_text(d, "state", client_state_name(client));
	add_text(d, "api", api_name(client->kind));
	add_text(d, "port", client->port != NULL ? client->port->info->name : "");
	if (client->engine != NULL) {
		engine_client_counts(client->engine, &work, &completions);
		add_number(d, "core", engine_client_lcore(client->engine));
		add_number(d, "work", work);
		add_number(d, "completions", completions);
	}
	add_number(d, "qps", client->table[OBJECT_QP].used);
	add_number(d, "cqs", client->table[OBJECT_CQ].used);
	add_number(d, "srqs", client->table[OBJECT_SRQ].used);
	add_number(d, "listeners", client->table[OBJECT_LISTENER].used);
	add_number(d, "requests_open", client->table[OBJECT_CR].used);
	add_number(d, "mrs", client->table[OBJECT_MR].used);
	add_number(d, "windows", client->table[OBJECT_MW].used);
	add_number(d, "segments", client->segments);
	add_number(d, "mapped_bytes", client->mapped);
	add_number(d, "arena_bytes", client->arena_charged);
	add_number(d, "copied_bytes", copied_bytes(client));
	add_number(d, "calls", client->requests);
	add_share(d, client->uid);
}

void
show_core(struct fact_sink *d, uint32_t core)
{
	engine_report_core(d, core);
	add_number(d, "lanes", engine_core_lanes(core));
	add_number(d, "qps", place_count(core));
}

void
show_qp(struct fact_sink *d, const void *object)
{
	const struct qp *qp = object;

	add_key(d, "qpn", qp->config.qpn);
	add_number(d, "id", qp->object.id);
	add_text(d, "role", qp->kind->name);
	add_text(d, "state", qp_state_name(qp));
	if (qp->placed)
		add_number(d, "core", engine_core_lcore(engine_qp_core(qp->engine)));
	if (qp->conn == NULL)
		return;
	add_text(d, "peer", addr_text(&qp->conn->path.dst));
	add_key(d, "peer_qpn", qp->conn->peer_qpn);
	add_number(d, "service", service_to_qual(qp->conn->service));
	add_number(d, "path_mtu", qp->conn->local.path_mtu);
	add_text(d, "kind", qp->conn->peer_oneside ? "oneside" : "foreign");
}

void
show_connection(struct fact_sink *d, const void *object)
{
	const struct conn *conn = object;

	add_text(d, "state", conn_state_name(conn));
	add_text(d, "side", conn->passive ? "passive" : "active");
	add_text(d, "port", conn->port->info->name);
	if (conn->qp != NULL) {
		add_key(d, "qpn", conn->qp->config.qpn);
		add_text(d, "role", conn->qp->kind->name);
	}
	add_text(d, "local", addr_text(&conn->path.src));
	add_text(d, "peer", addr_text(&conn->path.dst));
	add_key(d, "peer_qpn", conn->peer_qpn);
	add_mac(d, "peer_mac", conn->mac);
	add_number(d, "service", service_to_qual(conn->service));
	add_text(d, "by", conn->out_of_band ? "out_of_band" : "cm");
	add_number(d, "path_mtu", conn->local.path_mtu);
	add_number(d, "rd_atomic_in", conn->local.rd_atomic_in);
	add_number(d, "rd_atomic_out", conn->local.rd_atomic_out);
	add_text(d, "kind", conn->peer_oneside ? "oneside" : "foreign");
}

void
show_listener(struct fact_sink *d, const void *object)
{
	const struct listener *listener = object;

	add_number(d, "id", listener->object.id);
	add_text(d, "port", listener->object.client->port->info->name);
	add_number(d, "service", service_to_qual(listener->service));
	add_text(d, "state", listener->cm == NULL ? "ended" : listener->later ? "bound" : "listening");
	add_text(d, "address",
		 listener->scope.only_addr ? addr_text(&listener->scope.addr)
		 : listener->scope.only_v4 ? "any IPv4"
		 : listener->scope.only_v6 ? "any IPv6"
					   : "any");
	add_text(d, "takes", listener->once ? "one" : "all");
}

/* A key that the application revoked, and may renew, is not in the key table. */
static const char *
method_of(const struct mr *mr)
{
	if (mr->entry == NULL)
		return "none";
	if (mem_lookup(engine_mem_table(), mem_key_of(mr->entry)) != mr->entry)
		return "cached";
	return mr->entry->base != NULL ? "mapped" : "copied";
}

void
show_mr(struct fact_sink *d, const void *object)
{
	const struct mr *mr = object;
	const struct mw *mw;
	uint64_t windows = 0;

	LIST_FOREACH(mw, &mr->windows, mr_link)
		windows++;
	add_number(d, "id", mr->object.id);
	add_number(d, "address", mr->va);
	add_number(d, "length", mr->length);
	add_key(d, "access", mr->access);
	add_text(d, "method", method_of(mr));
	add_number(d, "windows", windows);
	add_number(d, "client_copied_bytes", copied_bytes(mr->object.client));
}

void
show_segment(struct fact_sink *d, const void *object)
{
	const struct segment *segment = object;
	const struct qp *qp;
	uint64_t imports = 0;

	LIST_FOREACH(qp, &segment->exports, segment_link)
		imports++;
	add_key(d, "segment", segment->id);
	add_number(d, "pid", (uint64_t)segment->client->pid);
	add_number(d, "uid", segment->acl.uid);
	add_text(d, "port", segment->client->port->info->name);
	add_number(d, "length", segment->mr->length);
	add_number(d, "imports", imports);
	add_number(d, "access_entries", segment->acl.num);
}

void
show_neighbour(struct fact_sink *d, uint32_t index)
{
	static const char *const states[] = {"none", "incomplete", "reachable", "stale", "probe"};
	struct neigh_info info;

	if (!neigh_get(control.neigh, index, control.now, &info))
		return;
	add_text(d, "address", addr_text(&info.addr));
	add_mac(d, "mac", info.mac);
	add_text(d, "port", path_port[info.port].info->name);
	add_text(d, "state", states[info.state]);
}

void
show_port(struct fact_sink *d, uint32_t number)
{
	const struct engine_port_info *info = engine_port(number);
	const struct neigh_conflicts *conflicts = neigh_conflicts(control.neigh, (uint16_t)number);
	char text[CONFIG_ADDRS_MAX * CONFIG_ADDR_TEXT] = "";
	size_t len = 0;

	add_text(d, "port", info->name);
	for (uint32_t i = 0; i < info->num_addrs && len < sizeof(text); i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s", i > 0 ? " " : "",
					addr_text(&info->addr[i]));
	add_text(d, "address", text);
	add_text(d, "link", info->link_up ? "up" : "down");
	add_number(d, "mbps", info->mbps);
	add_number(d, "conflicts", conflicts->count);
	add_mac(d, "conflict_mac", conflicts->mac);
	engine_report_port(d, number);
}

void
show_quota(struct fact_sink *d, const struct quota_account *account)
{
	static const char *const names[QUOTA_SERVICES] = {
		[QUOTA_KEYS] = "keys",         [QUOTA_ZONES] = "zones",       [QUOTA_QPNS] = "qps",
		[QUOTA_MAPPINGS] = "mappings", [QUOTA_CHANNELS] = "channels", [QUOTA_AHS] = "ahs",
		[QUOTA_MAPPABLE] = "mappable",
	};
	const struct quota *quota = &control.quota;
	char limit[32];

	add_number(d, "uid", account->uid);
	add_number(d, "clients", account->clients);
	add_number(d, "clients_max", quota->max_clients_per_uid);
	add_number(d, "bytes", account->bytes);
	add_number(d, "bytes_max", quota->max_bytes_per_uid);
	add_share(d, account->uid);
	for (int i = 0; i < QUOTA_SERVICES; i++) {
		uint32_t all = quota->max_common[i];

		add_number(d, names[i], account->common[i]);
		snprintf(limit, sizeof(limit), "%s_max", names[i]);
		add_number(d, limit, all - all / 4);
	}
}

void
show_peer(struct fact_sink *d, uint32_t number)
{
	const struct config_peer *peer = &control.config->peer[number];
	char text[CONFIG_ADDR_TEXT];
	int by = config_port_to(control.config, &peer->addr, peer->port);

	add_number(d, "node", peer->node);
	add_text(d, "address", config_addr_text(&peer->addr, false, text));
	add_text(d, "port", by >= 0 ? control.config->port[by].name : "");
	add_text(d, "secret", peer->secret[0] != NULL ? "yes" : "no");
}
