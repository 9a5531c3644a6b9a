/* SPDX-License-Identifier: BSD-3-Clause */
/* The two ends of what an application asks for. */
#ifndef CONTROL_CONNECT_ENDS_H
#define CONTROL_CONNECT_ENDS_H

#include "control/attach/client.h"
#include "control/path/path.h"

/* What an application says of a peer, and from which address of ours it is to be reached. */
struct conn_peer {
	uint16_t family;
	const uint8_t *addr;
	uint32_t source;
};
/* Fills the port and both addresses: 0, or the refusal. */
int conn_ends(struct client *client, const struct conn_peer *peer, struct cm_path *path);
/* What the configuration says of DSCP and flow label towards path->dst; what it leaves open stays. */
void conn_mark(const struct path_port *port, const struct client *client, struct cm_path *path);

#endif
