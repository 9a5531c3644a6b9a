/* SPDX-License-Identifier: BSD-3-Clause */
/* The two addresses of an application's request, and the DSCP and flow label of its packets. */
#include <errno.h>
#include <sys/socket.h>

#include "config/route.h"
#include "control/connect/ends.h"

int
conn_ends(struct client *client, const struct conn_peer *peer, struct cm_path *path)
{
	int error = -EAFNOSUPPORT;

	path->port = client->port->index;
	if (peer->family == AF_INET || peer->family == AF_INET6) {
		addr_to_wire(peer->family, peer->addr, &path->dst);
		error = path_source(client->port, peer->source, &path->dst, &path->src);
	}
	return error == 0 ? 0
			  : client_refuse(client, error, ONE_SUBJECT_ADDRESS,
					  error == -EINVAL ? peer->source : peer->family);
}

void
conn_mark(const struct path_port *port, const struct client *client, struct cm_path *path)
{
	struct config_addr to = {.family = 0};
	struct config_marks marks;

	to.family = addr_from_wire(&path->dst, to.bytes);
	marks = config_marks_of(control.config, port->config, client->uid, &to);
	if (marks.dscp != CONFIG_NO_DSCP)
		path->traffic_class = (uint8_t)(marks.dscp << 2);
	if (marks.flow_label != CONFIG_NO_FLOW_LABEL)
		path->flow_label = marks.flow_label;
}
