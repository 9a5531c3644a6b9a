/* SPDX-License-Identifier: BSD-3-Clause */
/* The interconnect topology. The data plane answers one port per request, with at most ONE_RSM_PEERS
 * peers. */
#include "rsm/link.h"

#include <stdlib.h>
#include <string.h>

#define PEERS_MAX 4096u

static void
copy_name(char to[MAXNAMELEN], const char from[ONE_PORT_NAME])
{
	memcpy(to, from, strnlen(from, ONE_PORT_NAME - 1));
}

static int
port_request(struct one_client *client, uint32_t port, uint32_t first, struct one_rsm_port *out)
{
	struct one_msg msg = {.type = ONE_MSG_RSM_TOPOLOGY};
	struct one_reply reply;
	int error;

	msg.rsm_topology.port = port;
	msg.rsm_topology.first = first;
	error = one_call(client, &msg, NULL, 0, &reply);
	if (error != 0)
		return error;
	*out = reply.rsm_port;
	return out->num_ports > RSM_PORTS_MAX || out->num_peers > PEERS_MAX ? -EPROTO : 0;
}

static void
fill_peers(rsm_remote_cntlr_t *remote, const struct one_rsm_peer *peer, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		remote[i].remote_nodeid = peer[i].node;
		remote[i].remote_hwaddr = peer[i].hwaddr;
		remote[i].connection_state = peer[i].state;
		copy_name(remote[i].remote_cntlrname, peer[i].name);
	}
}

static int
read_port(struct one_client *client, uint32_t index, rsm_connections_t **out, uint32_t *num_ports)
{
	rsm_connections_t *connections;
	struct one_rsm_port answer;
	uint32_t num_peers;
	int error = port_request(client, index, 0, &answer);

	if (error != 0)
		return error;
	*num_ports = answer.num_ports;
	num_peers = answer.num_peers;
	connections = *out = calloc(1, sizeof(*connections) + num_peers * sizeof(rsm_remote_cntlr_t));
	if (connections == NULL)
		return -ENOMEM;
	copy_name(connections->hdr.cntlr_name, answer.name);
	connections->hdr.local_hwaddr = answer.hwaddr;
	connections->hdr.remote_cntlr_count = (int)num_peers;
	for (uint32_t i = 0; i < num_peers; i += ONE_RSM_PEERS) {
		uint32_t n = num_peers - i;

		if (i > 0)
			error = port_request(client, index, i, &answer);
		if (error != 0)
			return error;
		fill_peers(&connections->remote_cntlr[0] + i, answer.peer,
			   n < ONE_RSM_PEERS ? n : ONE_RSM_PEERS);
	}
	return 0;
}

static int
collect_ports(struct one_client *client, rsm_topology_t **out)
{
	rsm_topology_t *topology = calloc(1, sizeof(*topology) + RSM_PORTS_MAX * sizeof(rsm_connections_t *));
	uint32_t num_ports = 1;
	int error = topology == NULL ? -ENOMEM : 0;

	for (uint32_t i = 0; error == 0 && i < num_ports; i++)
		error = read_port(client, i, &topology->connections[i], &num_ports);
	if (error != 0) {
		rsm_free_interconnect_topology(topology);
		return error;
	}
	topology->topology_hdr.local_nodeid = one_client_info(client)->node_id;
	topology->topology_hdr.local_cntlr_count = num_ports;
	*out = topology;
	return 0;
}

int
rsm_do_get_interconnect_topology(rsm_topology_t **topology_data)
{
	struct one_attach attach = {.kind = ONE_KIND_RSM};
	struct one_client *client;
	int error;

	if (topology_data == NULL)
		return RSMERR_BAD_TOPOLOGY_PTR;
	error = one_attach(&attach, &client);
	if (error != 0)
		return rsm_refuse_attach("topology_data", "topology", error);
	error = collect_ports(client, topology_data);
	one_detach(client);
	if (error == 0)
		return RSM_SUCCESS;
	return error == -EPROTO ? RSMERR_CTLR_NOT_PRESENT : rsm_open_error(error);
}

void
rsm_free_interconnect_topology(rsm_topology_t *topology_data)
{
	for (uint32_t i = 0; topology_data != NULL && i < RSM_PORTS_MAX; i++)
		free(topology_data->connections[i]);
	free(topology_data);
}
