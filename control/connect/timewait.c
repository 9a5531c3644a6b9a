/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Notifies an application that requests so (ONE_QP_TIMEWAIT, used by rdma_cm) of the end of a connection's
 * time-wait.  The queue pair and its ring may be gone by then, so the connection stores their ids.
 */
#include "control/connect/connect.h"

void
conn_timewait(struct conn *conn)
{
	struct qp *qp = conn->qp;

	if (conn->state != CONN_UP || conn->cm == NULL || qp == NULL || !qp->timewait ||
	    qp->conn_cq == NULL || qp->object.client->state != CLIENT_ATTACHED)
		return;
	conn->reported = qp->object.client;
	conn->reported_qp = qp->object.id;
	conn->reported_cq = qp->conn_cq->object.id;
	conn->reported_lane = qp->lane;
	LIST_INSERT_HEAD(&conn->reported->timewaits, conn, reported_link);
}

static struct client *
timewait_forget(struct conn *conn)
{
	struct client *client = conn->reported;

	if (client != NULL)
		LIST_REMOVE(conn, reported_link);
	conn->reported = NULL;
	return client;
}

void
conn_timewait_exit(struct conn *conn)
{
	struct client *client = timewait_forget(conn);
	struct cq *cq = client != NULL ? object_get(client, OBJECT_CQ, conn->reported_cq) : NULL;

	if (cq != NULL)
		cq_post(cq, conn->reported_lane,
			&(struct one_cqe){.type = ONE_CQE_CONNECT,
					  .status = ONE_CONN_TIMEWAIT_EXIT,
					  .object = conn->reported_qp,
					  .flags = ONE_CQE_NOTIFY});
}

bool
conns_leave(struct client *client)
{
	struct conn *conn;

	for (int i = 0; i < CLIENT_SLICE && (conn = LIST_FIRST(&client->timewaits)) != NULL; i++)
		timewait_forget(conn);
	return LIST_EMPTY(&client->timewaits);
}
