/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/takeover/common.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "control/attach/object.h"
#include "control/neigh/neigh.h"
#include "control/path/path.h"

/* ---- peers ---- */

/* A peer in the words of `onesidectl peer add`. */
struct added_peer {
	char address[CONFIG_ADDR_TEXT], port[ONE_PORT_NAME];
};

static const struct record_field peer_fields[] = {
	RECORD_FIELD(added_peer, address, RECORD_VALUE, 0, NULL),
	RECORD_FIELD(added_peer, port, RECORD_VALUE, 0, NULL),
};
static RECORD_FORM(peer_form, RECORD_PEER, 1, peer_fields);

static void
peers_write(struct pass_out *out)
{
	for (uint32_t i = 0; i < control.config->num_peers; i++) {
		const struct config_peer *peer = &control.config->peer[i];
		struct added_peer words = {.address = ""};

		if (!peer->added)
			continue;
		config_addr_text(&peer->addr, false, words.address);
		snprintf(words.port, sizeof(words.port), "%s", peer->port);
		record_put(&out->records, &peer_form, peer->node, &words, &out->context);
	}
}

/* True if the text ends within `size` bytes and can be printed. */
static bool
is_printable(const char *text, size_t size)
{
	size_t len = strnlen(text, size);

	for (size_t i = 0; i < len; i++)
		if (text[i] < ' ' || text[i] > '~')
			return false;
	return len < size;
}

/* The configuration of this process may have the node, too, and is newer. */
static int
peer_read(struct pass_in *in, struct config *config)
{
	struct added_peer words;
	char why[200];
	uint64_t node;
	int error;

	if (pass_get(in, &peer_form, &words, &node) != 0)
		return -EINVAL;
	if (node > UINT32_MAX || !is_printable(words.address, sizeof(words.address)) ||
	    !is_printable(words.port, sizeof(words.port)))
		return pass_refuse(in, "an added peer has no node, or no text for its address or port");
	error = config_peer_add(config, (uint32_t)node, words.address, words.port, why, sizeof(why));
	if (error == -EEXIST)
		return 0;
	if (error != 0 || config_validate(config, why, sizeof(why)) != 0)
		return pass_refuse(in, "%s; or write onesidectl peer remove %u", why, (uint32_t)node);
	return 0;
}

/* ---- counters ---- */

/* Counters of the control thread; those of attachments are of the ones that have ended. */
struct control_totals {
	uint64_t requests, copied;
	uint64_t suppressed, path_mtu_reports;
	struct latency latency[ONE_MSG_MAX];
};

#define TOTAL(member) RECORD_FIELD(control_totals, member, RECORD_VALUE, 0, NULL)
static const struct record_field totals_fields[] = {
	TOTAL(requests), TOTAL(copied), TOTAL(suppressed), TOTAL(path_mtu_reports), TOTAL(latency),
};
static RECORD_FORM(totals_form, RECORD_TOTALS, 1, totals_fields);

#define CONFLICTS(member) RECORD_FIELD(neigh_conflicts, member, RECORD_VALUE, 0, NULL)
static const struct record_field conflicts_fields[] = {CONFLICTS(count), CONFLICTS(mac)};
static RECORD_FORM(conflicts_form, RECORD_CONFLICTS, 1, conflicts_fields);

static void
totals_write(struct pass_out *out)
{
	struct control_totals totals = {.requests = client_totals.requests,
					.copied = client_totals.copied,
					.suppressed = log_suppressed,
					.path_mtu_reports = path_mtu_reports};

	memcpy(totals.latency, client_totals.latency, sizeof(totals.latency));
	record_put(&out->records, &totals_form, 0, &totals, &out->context);
	for (uint32_t i = 0; i < path_num_ports; i++)
		record_put(&out->records, &conflicts_form, i, neigh_conflicts(control.neigh, (uint16_t)i),
			   &out->context);
}

/* True if only requests that exist have been answered: metrics print their names. */
static bool
requests_exist(const struct latency *latency)
{
	static const struct latency none;

	for (uint32_t type = 0; type < ONE_MSG_MAX; type++)
		if (attach_calls->request[type].name == NULL &&
		    memcmp(&latency[type], &none, sizeof(none)) != 0)
			return false;
	return true;
}

static int
totals_read(struct pass_in *in)
{
	struct control_totals totals;
	uint64_t id;

	if (pass_get(in, &totals_form, &totals, &id) != 0)
		return -EINVAL;
	if (!requests_exist(totals.latency))
		return pass_refuse(in, "a request that does not exist has been answered");
	client_totals.requests = totals.requests;
	client_totals.copied = totals.copied;
	memcpy(client_totals.latency, totals.latency, sizeof(totals.latency));
	log_suppressed = totals.suppressed;
	path_mtu_reports = totals.path_mtu_reports;
	return 0;
}

static int
conflicts_read(struct pass_in *in)
{
	struct neigh_conflicts conflicts = {.count = 0};
	uint64_t port;

	if (pass_get(in, &conflicts_form, &conflicts, &port) != 0)
		return -EINVAL;
	if (port >= path_num_ports)
		return pass_refuse(in, "address conflicts of a port that is not there");
	neigh_conflicts_inherit(control.neigh, (uint16_t)port, &conflicts);
	return 0;
}

static int
counters_read(struct pass_in *in, enum record_type type, int (*read)(const struct record *record))
{
	struct record record;

	while (pass_is(in, type))
		if (pass_take(in, type, &record) != 0 || read(&record) != 0)
			return pass_refuse(in,
					   "counters are not valid, or of a core or port that is not there");
	return 0;
}

/* ---- all ---- */

void
takeover_common_write(struct pass_out *out)
{
	engine_counters_write(&out->records);
	totals_write(out);
	peers_write(out);
}

int
takeover_common_read(struct pass_in *in, struct config *config)
{
	int error = counters_read(in, RECORD_CORE, engine_core_read);

	if (error == 0)
		error = counters_read(in, RECORD_PORT, engine_port_read);
	if (error == 0)
		error = totals_read(in);
	while (error == 0 && pass_is(in, RECORD_CONFLICTS))
		error = conflicts_read(in);
	while (error == 0 && pass_is(in, RECORD_PEER))
		error = peer_read(in, config);
	return error;
}
