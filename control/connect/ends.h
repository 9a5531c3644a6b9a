/* SPDX-License-Identifier: BSD-3-Clause */
/* The two addresses of an application's request, and the DSCP and flow label of its packets. */
#ifndef CONTROL_CONNECT_ENDS_H
#define CONTROL_CONNECT_ENDS_H

#include "control/attach/client.h"
#include "control/path/path.h"

/* A peer as an application names it.  `source`: number of our address to send from, 0 for any. */
struct conn_peer {
	uint16_t family;
	const uint8_t *addr;
	uint32_t source;
};
/* Fills the port and both addresses.  Returns 0, or the refusal. */
int conn_ends(struct client *client, const struct conn_peer *peer, struct cm_path *path);
/* Sets the DSCP and flow label that are configured for path->dst; a value not configured stays. */
void conn_mark(const struct path_port *port, const struct client *client, struct cm_path *path);

#endif
