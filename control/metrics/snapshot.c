/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/metrics/render.h"

#include <stdio.h>
#include <string.h>

#include "control/path/path.h"
#include "dataplane/mem/bounce.h"

static void
name_client(const struct client *client, struct metrics_client *out)
{
	out->number = client->number;
	out->pid = (uint32_t)client->pid;
	out->uid = client->uid;
	out->kind = client->kind;
	snprintf(out->program, sizeof(out->program), "%s", client->program);
	snprintf(out->port, sizeof(out->port), "%s", client->port->info->name);
}

static void
add_client(const struct client *client, struct metrics_client *sum)
{
	sum->requests += client->requests;
	sum->copied += client->bounce != NULL ? bounce_bytes(client->bounce) : 0;
	sum->mapped += client->mapped;
	sum->arena += client->arena_charged;
	for (uint32_t kind = 0; kind < OBJECT_KINDS; kind++)
		sum->object[kind] += client->table[kind].used;
}

static void
take_clients(struct metrics_snapshot *out)
{
	const struct client *client;

	out->others.requests = client_totals.requests;
	out->others.copied = client_totals.copied;
	TAILQ_FOREACH(client, &control.clients, link) {
		struct metrics_client *to = &out->others;

		if (client->labelled && out->clients < CLIENT_LABELS) {
			to = &out->client[out->clients++];
			name_client(client, to);
		}
		add_client(client, to);
		add_client(client, &out->all);
	}
}

static void
take_quota(struct metrics_snapshot *out)
{
	const struct quota_account *account;

	out->quota = control.quota;
	LIST_INIT(&out->quota.accounts);
	LIST_FOREACH(account, &control.quota.accounts, link) {
		out->users++;
		if (account->bytes > out->user_bytes)
			out->user_bytes = account->bytes;
	}
}

void
metrics_snapshot_take(struct metrics_snapshot *out)
{
	memset(out, 0, sizeof(*out));
	out->attached_ever = control.attached_ever;
	out->suppressed = log_suppressed;
	out->path_mtu_reports = path_mtu_reports;
	take_clients(out);
	take_quota(out);
	out->shares = control.config->num_users;
	memcpy(out->user, control.config->user, sizeof(out->user));
	memcpy(out->latency, client_totals.latency, sizeof(out->latency));
	out->ports = path_num_ports;
	for (uint32_t i = 0; i < path_num_ports; i++) {
		out->port[i] = *path_port[i].info;
		/* cached by paths_poll(): no system call here */
		out->port[i].link_up = path_port[i].link_up;
		out->conflicts[i] = neigh_conflicts(control.neigh, (uint16_t)i)->count;
	}
}
