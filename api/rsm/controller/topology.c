/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The interconnect topology: collected from the data plane port by port, peers
 * by the handful, and packed into one block that the application frees.
 */
#include "rsm/controller/controller.h"

#include <stdlib.h>
#include <string.h>

#define PEERS_MAX 4096u

struct port {
	char name[ONE_PORT_NAME];
	uint64_t hwaddr;
	struct one_rsm_peer *peers;
	uint32_t num_peers;
};

static void
copy_name(char to[MAXNAMELEN], const char from[ONE_PORT_NAME])
{
	memset(to, 0, MAXNAMELEN);
	memcpy(to, from, strnlen(from, ONE_PORT_NAME - 1));
}

static int
ask(struct one_client *client, uint32_t port, uint32_t first, struct one_rsm_port *out)
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

static int
read_port(struct one_client *client, uint32_t index, struct port *port, uint32_t *num_ports)
{
	struct one_rsm_port answer;
	int error = ask(client, index, 0, &answer);

	if (error != 0)
		return error;
	*num_ports = answer.num_ports;
	memcpy(port->name, answer.name, sizeof(port->name));
	port->hwaddr = answer.hwaddr;
	port->num_peers = answer.num_peers;
	port->peers = calloc(port->num_peers + 1, sizeof(*port->peers));
	if (port->peers == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < port->num_peers; i += ONE_RSM_PEERS) {
		uint32_t n = port->num_peers - i;

		if (i > 0) {
			error = ask(client, index, i, &answer);
			if (error != 0)
				return error;
		}
		memcpy(&port->peers[i], answer.peer,
		       (n < ONE_RSM_PEERS ? n : ONE_RSM_PEERS) * sizeof(answer.peer[0]));
	}
	return 0;
}

static size_t
connections_size(const struct port *port)
{
	uint32_t extra = port->num_peers > 1 ? port->num_peers - 1 : 0;

	return sizeof(rsm_connections_t) + extra * sizeof(rsm_remote_cntlr_t);
}

static rsm_topology_t *
pack(uint32_t node, const struct port *ports, uint32_t num_ports)
{
	size_t size = sizeof(rsm_topology_t) + num_ports * sizeof(rsm_connections_t *);
	size_t offset = size;
	rsm_topology_t *topology;

	for (uint32_t i = 0; i < num_ports; i++)
		size += connections_size(&ports[i]);
	topology = calloc(1, size);
	if (topology == NULL)
		return NULL;
	topology->topology_hdr.local_nodeid = node;
	topology->topology_hdr.local_cntlr_count = num_ports;
	for (uint32_t i = 0; i < num_ports; i++) {
		rsm_connections_t *connections = (rsm_connections_t *)((uint8_t *)topology + offset);

		topology->connections[i] = connections;
		copy_name(connections->hdr.cntlr_name, ports[i].name);
		connections->hdr.local_hwaddr = ports[i].hwaddr;
		connections->hdr.remote_cntlr_count = (int)ports[i].num_peers;
		for (uint32_t j = 0; j < ports[i].num_peers; j++) {
			rsm_remote_cntlr_t *remote = &connections->remote_cntlr[0] + j;

			remote->remote_nodeid = ports[i].peers[j].node;
			remote->remote_hwaddr = ports[i].peers[j].hwaddr;
			remote->connection_state = ports[i].peers[j].state;
			copy_name(remote->remote_cntlrname, ports[i].peers[j].name);
		}
		offset += connections_size(&ports[i]);
	}
	return topology;
}

static int
collect(struct one_client *client, rsm_topology_t **out)
{
	struct port *ports = calloc(RSM_PORTS_MAX, sizeof(*ports));
	uint32_t num_ports = 1;
	int error = ports == NULL ? -ENOMEM : 0;

	for (uint32_t i = 0; error == 0 && i < num_ports; i++)
		error = read_port(client, i, &ports[i], &num_ports);
	if (error == 0) {
		*out = pack(one_client_info(client)->node_id, ports, num_ports);
		error = *out == NULL ? -ENOMEM : 0;
	}
	for (uint32_t i = 0; ports != NULL && i < RSM_PORTS_MAX; i++)
		free(ports[i].peers);
	free(ports);
	return error;
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
	if (error == 0) {
		error = collect(client, topology_data);
		one_detach(client);
	}
	if (error == 0)
		return RSM_SUCCESS;
	return error == -ENOMEM || error == -EDQUOT ? RSMERR_INSUFFICIENT_MEM : RSMERR_CTLR_NOT_PRESENT;
}

void
rsm_free_interconnect_topology(rsm_topology_t *topology_data)
{
	free(topology_data);
}
