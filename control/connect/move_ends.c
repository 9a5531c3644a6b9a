/* SPDX-License-Identifier: BSD-3-Clause */
/* Moves of connections' queue pairs to other cores. */
#include "control/connect/connect.h"
#include "control/objects/qp_move.h"

/* Returns the peer that the queue pair names if it is of this data plane, else NULL. */
static struct qp *
own_peer(const struct qp *qp)
{
	const struct conn *conn = qp->conn;
	struct qp *peer;

	if (conn == NULL || path_own(&conn->path.dst) == NULL)
		return NULL;
	peer = engine_qp_owner(conn->peer_qpn);
	return peer != qp ? peer : NULL;
}

struct qp *
conn_own_peer(const struct qp *qp)
{
	struct qp *peer = own_peer(qp);

	/* Out of band, a program may name a queue pair that is connected elsewhere. */
	return peer != NULL && own_peer(peer) == qp ? peer : NULL;
}

const char *
conn_move(struct qp *qp, uint32_t core)
{
	struct qp *peer = own_peer(qp);

	/* The balance leaves it there for a while, also if somebody else has asked for the move. */
	if (qp->conn != NULL)
		balance_moved(&qp->conn->balance, control.now);
	/* The peer chooses its transport by the cores of both ends, and this end has chosen already. */
	if (peer != NULL && peer->state != ONE_QP_CONNECTED)
		return "its peer on this data plane is not connected";
	peer = conn_own_peer(qp);
	if (peer != NULL && engine_qp_core(peer->engine) != engine_qp_core(qp->engine))
		peer = NULL;
	if (peer != NULL)
		balance_moved(&peer->conn->balance, control.now);
	return qp_move_begin(qp, peer, core);
}
