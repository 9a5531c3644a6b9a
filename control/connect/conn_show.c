/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes a connection's attributes to the queue pair's part of the arena, before the application gets the
 * event. */
#include <string.h>

#include "control/cm/cm_mad.h"
#include "control/connect/connect.h"
#include "control/cm/service.h"

static void
show_transport(const struct conn *conn, const struct rc_attr *rc, struct one_qp_shm *shm)
{
	shm->send_psn = rc->send_psn;
	shm->recv_psn = rc->recv_psn;
	shm->flow_label = conn->path.flow_label;
	shm->path_mtu = (uint16_t)rc->path_mtu;
	shm->traffic_class = conn->path.traffic_class;
	shm->hop_limit = rc->path.ttl;
	shm->timeout = rc->timeout;
	shm->min_rnr_timer = rc->min_rnr_timer;
	shm->retry_count = rc->retry_count;
	shm->rnr_retry = rc->rnr_retry;
}

void
conn_show(const struct conn *conn, const struct rc_attr *rc)
{
	struct one_qp_shm *shm = qp_shm(conn->qp);
	const struct cm_remote *remote = &conn->setup->remote;
	uint16_t len;

	if (shm == NULL)
		return;
	shm->remote_port = conn->passive ? remote->ip_port : service_port(conn->service);
	shm->local_port = conn->passive ? service_port(conn->service) : conn->ip_port;
	shm->family = addr_from_wire(&conn->path.dst, shm->remote_addr);
	shm->local = (uint8_t)path_addr_number(conn->port, &conn->path.src);
	shm->remote_qpn = remote->qpn;
	shm->rd_atomic_in = conn->local.rd_atomic_in;
	shm->rd_atomic_out = conn->local.rd_atomic_out;
	show_transport(conn, rc, shm);
	if (conn->passive || !conn->qp->kind->created) {
		shm->private_len = 0;
		return;
	}
	len = remote->private_len < ONE_PRIVATE_DATA_MAX ? remote->private_len : ONE_PRIVATE_DATA_MAX;
	if (len > sizeof(remote->private_data))
		len = sizeof(remote->private_data);
	memcpy(shm->private_data, remote->private_data, len);
	shm->private_len = len;
}

/* Writes the private data of the peer's REJ, before the application gets the event. */
void
conn_show_refusal(const struct conn *conn, const uint8_t *data)
{
	struct one_qp_shm *shm = conn->qp->kind->created ? qp_shm(conn->qp) : NULL;
	uint32_t len;

	if (shm == NULL)
		return;
	len = data != NULL ? cm_announce_rej_parse(data) : 0;
	if (len > ONE_PRIVATE_DATA_MAX)
		len = ONE_PRIVATE_DATA_MAX;
	if (len > 0)
		memcpy(shm->private_data, data, len);
	shm->private_len = (uint16_t)len;
}
