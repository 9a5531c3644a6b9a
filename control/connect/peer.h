/* SPDX-License-Identifier: BSD-3-Clause */
/* Which attachment's connection leads to a queue pair of a peer (peer.c). */
#ifndef CONTROL_CONNECT_PEER_H
#define CONTROL_CONNECT_PEER_H

#include "control/connect/connect.h"

/* Its peer's address and number are known, or it is over. */
void conn_peer_enter(struct conn *conn);
void conn_peer_leave(struct conn *conn);
/* A connection of another attachment leads to that queue pair. */
bool conn_peer_taken(const struct wire_addr *addr, uint32_t qpn, const struct client *client);
/* The peer of `conn` has said that it is: connections of other attachments to it, made by numbers, end. */
void conn_peer_prevail(const struct conn *conn);

#endif
