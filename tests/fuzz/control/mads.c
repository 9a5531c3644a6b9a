/* SPDX-License-Identifier: BSD-3-Clause */
/* Connection management: hosts that connect and answer, and MADs in between that no host has sent, with ids
 * of the hosts or invented ones. Each connection ends with its last event, and nothing is left then. */
#include <stdlib.h>
#include <string.h>

#include "control/cm/cm_mad.h"
#include "tests/fuzz/base/records.h"
#include "tests/unit/control/cm/net.h"

#define CONNECTS_MAX 16 /* in one input */
#define TIME_LOG2_MAX 36u
#define FOREVER (3600 * SECOND)

static struct net *net;
static int connects;
static uint8_t next_fate;

static enum fate
fate(struct net *of, const struct host *from, const struct cm_mad *mad, int number)
{
	enum fate now = (enum fate)(next_fate % 4);

	next_fate = PASS;
	return now;
}

static struct end *
end_of(struct host *host, uint8_t which)
{
	struct end *end = host->ends;

	for (uint8_t i = 0; i < which % 4 && end != NULL && end->next != NULL; i++)
		end = end->next;
	return end;
}

static const struct cm_conn *
conn_of(struct host *host, uint8_t which)
{
	const struct end *end = end_of(host, which);

	return end != NULL ? end->conn : NULL;
}

static void
open_connection(struct bytes *record)
{
	static const uint64_t services[] = {CM_SERVICE_TCP(5000), CM_SERVICE_RSM(7), CM_SERVICE_TCP(5001),
					    99};
	int from = (int)record_number(record, 1) % HOSTS, to = (int)record_number(record, 1) % HOSTS;
	struct cm_connect params = net_params(net, from, to, services[record_number(record, 1) % 4]);

	if (connects++ == CONNECTS_MAX)
		return;
	params.private_len = (uint16_t)(record_number(record, 1) % (CM_USER_PRIVATE_MAX + 1));
	params.timeout = record_number(record, 1) % 4 == 1 ? SECOND : CM_NEVER;
	record_fill(record, params.private_data, params.private_len);
	net_connect_params(net, from, &params);
}

static void
fill_req(struct cm_mad *mad, int from, int to, struct bytes *record)
{
	struct cm_ip_header header = {4321, net->host[from].addr, net->host[to].addr};

	mad->req = (struct cm_req){
		.service_id = record_number(record, 1) % 4 == 1 ? CM_SERVICE_RSM(7) : CM_SERVICE_TCP(5000),
		.guid = net->host[record_number(record, 1) % 2 == 0 ? from : to].env.guid,
		.qpn = (uint32_t)record_number(record, 3),
		.psn = 0x333,
		.responder_resources = (uint8_t)record_number(record, 1),
		.initiator_depth = (uint8_t)record_number(record, 1),
		.remote_response_timeout = (uint8_t)record_number(record, 1) % 32,
		.local_response_timeout = 20,
		.ack_timeout = (uint8_t)record_number(record, 1) % 32,
		.retry_count = 7,
		.rnr_retry = 7,
		.max_cm_retries = 15,
		.pkey = 0xffff,
		.mtu = (uint8_t)(3 + record_number(record, 1)) % 8,
		.transport = (uint8_t)record_number(record, 1) % 4,
		.local_lid = 0xffff,
		.remote_lid = 0xffff,
		.hop_limit = 64,
	};
	memcpy(mad->req.local_gid, net->host[from].addr.gid, 16);
	memcpy(mad->req.remote_gid, net->host[to].addr.gid, 16);
	cm_ip_header_build(&header, mad->private_data);
}

/* Inputs a message that fits a connection of its receiver, as far as the record allows. */
static void
message(struct bytes *record)
{
	int from = (int)record_number(record, 1) % HOSTS, to = (int)record_number(record, 1) % HOSTS;
	uint8_t which = (uint8_t)record_number(record, 1), lie = (uint8_t)record_number(record, 1);
	const struct cm_conn *conn = conn_of(&net->host[to], which);
	struct cm_mad mad = {.attribute = (uint16_t)(CM_REQ + record_number(record, 1) % 7)};

	if (conn != NULL) {
		mad.tid = conn->tid;
		mad.remote_id = conn->local_id;
		mad.local_id = conn->remote_id;
		if (mad.attribute == CM_REP && conn->remote_id == 0)
			mad.local_id = 0x4444;
		for (int i = 0; i < HOSTS && (lie & 0x80) == 0; i++)
			if (memcmp(&net->host[i].addr, &conn->path.dst, sizeof(conn->path.dst)) == 0)
				from = i;
	}
	if ((lie & 1) != 0)
		mad.local_id = (uint32_t)record_number(record, 4);
	if ((lie & 2) != 0)
		mad.remote_id = (uint32_t)record_number(record, 4);
	if ((lie & 4) != 0)
		mad.tid = record_number(record, 8);
	switch (mad.attribute) {
	case CM_REQ:
		fill_req(&mad, from, to, record);
		if (mad.local_id == 0)
			mad.local_id = 0x1111;
		break;
	case CM_REP:
		mad.rep.qpn = (uint32_t)record_number(record, 3);
		mad.rep.guid = net->host[from].env.guid;
		mad.rep.responder_resources = (uint8_t)record_number(record, 1);
		mad.rep.initiator_depth = (uint8_t)record_number(record, 1);
		mad.rep.rnr_retry = 7;
		break;
	case CM_MRA:
		mad.mra.answers = (uint8_t)record_number(record, 1) % 4;
		mad.mra.service_timeout = (uint8_t)record_number(record, 1) % 32;
		break;
	case CM_REJ:
		mad.rej.answers = (uint8_t)record_number(record, 1) % 4;
		mad.rej.reason = (uint16_t)record_number(record, 2);
		mad.rej.info_len = (uint8_t)record_number(record, 1) % (CM_ARI_LEN + 1);
		break;
	case CM_DREQ:
		mad.remote_qpn =
			conn != NULL && (lie & 8) == 0 ? conn->local_qpn : (uint32_t)record_number(record, 3);
		break;
	default:
		break;
	}
	if (record->left > 0)
		record_fill(record, mad.private_data + (mad.attribute == CM_REQ ? CM_IP_HEADER_LEN : 0),
			    mad.attribute == CM_REQ ? 56 : 100);
	net_inject(net, from, to, &mad);
}

static void
raw(struct bytes *record)
{
	int from = (int)record_number(record, 1) % HOSTS, to = (int)record_number(record, 1) % HOSTS;
	struct cm_path path = net_path(net, to, from);
	uint32_t len = record_number(record, 1) % 8 == 7 ? (uint32_t)record_number(record, 1) : CM_MAD_LEN;
	uint8_t *bytes = malloc(len > 0 ? len : 1); /* of exact size, for AddressSanitizer */

	record_fill(record, bytes, len);
	cm_input(net->host[to].cm, &path, bytes, len, net->now);
	free(bytes);
}

static void
act(struct bytes *record)
{
	struct host *host = &net->host[record_number(record, 1) % HOSTS];
	struct end *end = end_of(host, (uint8_t)record_number(record, 1));
	struct cm_local local = net_local(host);
	struct cm_conn *conn = end != NULL ? end->conn : NULL;

	if (conn == NULL)
		return;
	switch (record_number(record, 1) % 5) {
	case 0:
		cm_accept(conn, &local, "accepted", 8, net->now);
		break;
	case 1:
		cm_reject(conn, CM_REJ_CONSUMER, "rejected", 8, net->now);
		break;
	case 2:
		cm_confirm(conn, net->now);
		break;
	case 3:
		cm_communication_established(conn, net->now);
		break;
	default:
		cm_disconnect(conn, net->now);
		break;
	}
}

static void
behave(struct bytes *record)
{
	struct host *host = &net->host[record_number(record, 1) % HOSTS];

	host->answer = (enum answer)(record_number(record, 1) % 3);
	host->confirm_later = record_number(record, 1) % 2 != 0;
	host->private_len = (uint16_t)(record_number(record, 1) % (CM_ANNOUNCED_REJ + 1));
	next_fate = (uint8_t)record_number(record, 1);
}

static void
disconnect_all(void)
{
	for (int i = 0; i < HOSTS; i++)
		for (struct end *end = net->host[i].ends; end != NULL; end = end->next)
			if (end->conn != NULL)
				cm_disconnect(end->conn, net->now);
	net_run(net, net->now + FOREVER);
}

static void
end_all(void)
{
	disconnect_all();
	disconnect_all(); /* also requests made meanwhile and not answered */
	if (!net_is_clean(net))
		fuzz_fail("a connection does not end");
	for (int i = 0; i < HOSTS; i++)
		for (struct end *end = net->host[i].ends; end != NULL; end = end->next)
			if (end->conn != NULL || end->reported[end->count - 1] != CM_GONE)
				fuzz_fail("the end of a connection is not reported");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const kinds[])(struct bytes *) = {open_connection, message, message, raw, act, behave};
	struct bytes input = {data, size}, record;

	net = net_new();
	net->fate = fate;
	connects = 0;
	next_fate = PASS;
	while (record_next(&input, &record)) {
		uint8_t kind = (uint8_t)record_number(&record, 1) % 8;

		if (kind < sizeof(kinds) / sizeof(kinds[0]))
			kinds[kind](&record);
		else
			net_run(net, net->now + (1ull << record_number(&record, 1) % TIME_LOG2_MAX));
	}
	end_all();
	net_free(net);
	return 0;
}
