/* SPDX-License-Identifier: BSD-3-Clause */
/* Index of connections by the peer's address and queue pair number (peer.c). */
#ifndef CONTROL_CONNECT_PEER_H
#define CONTROL_CONNECT_PEER_H

#include "control/connect/connect.h"

/* Call conn_peer_enter() once the peer's address and number are known, conn_peer_leave() at the end. */
void conn_peer_enter(struct conn *conn);
void conn_peer_leave(struct conn *conn);
/* True if a connection of another attachment leads to that queue pair. */
bool conn_peer_taken(const struct wire_addr *addr, uint32_t qpn, const struct client *client);
/* Call when the peer has confirmed `conn`: ends out-of-band connections of other attachments to that peer. */
void conn_peer_prevail(const struct conn *conn);

#endif
