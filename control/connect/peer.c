/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Index of connections by the peer's address and queue pair number, to find the attachment that a peer's
 * queue pair is connected to.
 *
 * A peer distinguishes two queue pairs of this data plane by sequence numbers alone: their frames have one
 * source address, and no frame names its sender.  So an attachment must not connect out of band to a queue
 * pair that another attachment's connection leads to.  If the peer itself names its partner, by the CM or as
 * a queue pair of this data plane, that connection prevails over earlier out-of-band ones.
 */
#include <string.h>

#include "control/connect/peer.h"

#define BUCKETS 16384u /* a power of two */

static LIST_HEAD(bucket, conn) table[BUCKETS];
static uint64_t secret; /* 0: not drawn yet; prevents numbers chosen for one bucket */

static struct bucket *
bucket_of(const struct wire_addr *addr, uint32_t qpn)
{
	uint64_t half[2];

	while (secret == 0)
		secret = control_random();
	memcpy(half, addr, sizeof(half));
	half[0] = (half[0] ^ half[1] ^ (uint64_t)qpn << 32 ^ secret) * 0x9e3779b97f4a7c15u;
	return &table[(half[0] ^ half[0] >> 32) * (secret | 1) >> 40 & (BUCKETS - 1)];
}

/* True if `conn` is of an attachment other than `client`, and leads to that queue pair. */
static bool
is_of_another(const struct conn *conn, const struct wire_addr *addr, uint32_t qpn,
	      const struct client *client)
{
	return conn->qp != NULL && conn->qp->object.client != client &&
	       client_alive(conn->qp->object.client) && conn->peer_qpn == qpn &&
	       wire_addr_equal(&conn->path.dst, addr);
}

void
conn_peer_enter(struct conn *conn)
{
	LIST_INSERT_HEAD(bucket_of(&conn->path.dst, conn->peer_qpn), conn, peer_link);
	conn->has_peer = true;
}

void
conn_peer_leave(struct conn *conn)
{
	if (conn->has_peer)
		LIST_REMOVE(conn, peer_link);
	conn->has_peer = false;
}

bool
conn_peer_taken(const struct wire_addr *addr, uint32_t qpn, const struct client *client)
{
	const struct conn *conn;

	LIST_FOREACH(conn, bucket_of(addr, qpn), peer_link) {
		if (is_of_another(conn, addr, qpn, client))
			return true;
	}
	return false;
}

void
conn_peer_prevail(const struct conn *conn)
{
	struct conn *other, *next = LIST_FIRST(bucket_of(&conn->path.dst, conn->peer_qpn));

	while ((other = next) != NULL) {
		next = LIST_NEXT(other, peer_link);
		/* An attempt that is still resolving is refused once resolved (oob.c). */
		if (other->out_of_band && other->state == CONN_UP &&
		    is_of_another(other, &conn->path.dst, conn->peer_qpn, conn->qp->object.client))
			conn_end(other, ONE_CONN_BROKEN, RSM_OK, false);
	}
}
