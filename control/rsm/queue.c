/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs of RSM: an import has a send ring and no receives, an export has neither. */
#include <errno.h>
#include <stdlib.h>

#include "admit.h"
#include "control/rsm/rsm.h"

/* ---- imports ---- */

static struct one_cqe
import_outcome(const struct qp *qp, enum one_conn_event event, enum rsm_error rsm)
{
	return (struct one_cqe){.type = ONE_CQE_RSM,
				.status = (uint8_t)(rsm != RSM_OK ? rsm : import_error(event)),
				.object = qp->object.id,
				.flags = ONE_CQE_NOTIFY};
}

const struct qp_kind import_kind = {
	.name = "import",
	.endless_rnr = true,
	.detach = conn_detach,
	.outcome = import_outcome,
	.replied = import_reply,
	.rejected = import_rejected,
	.asked_again = import_prove,
	.read = import_read,
	.resumed = rsm_resumed,
};

int
import_qp_new(struct client *client, struct pz *pz, struct cq *cq, struct cq *signal_cq, uint32_t max_send_wr,
	      command_done *done, struct qp **out)
{
	uint32_t sq_log2 = 0;
	struct qp *qp;
	const struct one_limits *limits = &control.config->limits;
	int error = qp_ring_log2(client, limits->max_qp_wr, max_send_wr, limits->max_sge, &sq_log2);

	if (error != 0)
		return error;
	qp = qp_new(client, &import_kind);
	if (qp == NULL)
		return object_refuse_new(client, OBJECT_QP);
	qp->pz = pz;
	qp->send_cq = qp->conn_cq = cq;
	qp->recv_cq = signal_cq;
	qp->config.signals = true;
	qp->rd_atomic_out = control.config->limits.max_rd_atomic;
	qp->config.sq_log2 = sq_log2;
	qp->config.max_send_wr = max_send_wr;
	error = qp_make_rings(qp);
	if (error != 0) {
		object_free(qp);
		return error;
	}
	error = qp_add(qp, done);
	if (error == 0)
		*out = qp;
	return error;
}

/* ---- exports ---- */

/* Revokes the importer's key. */
void
export_drop_window(struct qp *qp)
{
	key_withdraw(qp->object.client, &qp->window);
}

static void
export_unhook(struct qp *qp)
{
	export_drop_window(qp);
	if (qp->segment != NULL) {
		LIST_REMOVE(qp, segment_link);
		qp->segment = NULL;
	}
}

static void
export_destroy(struct qp *qp)
{
	pz_number_free(qp->object.client, qp->config.pz);
	qp->object.client->exports--;
}

const struct qp_kind export_kind = {
	.name = "export",
	.access = ONE_ACCESS_REMOTE_READ | ONE_ACCESS_REMOTE_WRITE | ONE_ACCESS_REMOTE_ATOMIC,
	.endless_rnr = true,
	.detach = conn_detach,
	.unhook = export_unhook,
	.destroy = export_destroy,
	.outcome = conn_outcome,
	.ends_alone = true,
	.write = export_write,
	.read = export_read,
	.resumed = rsm_resumed,
};

static void
export_added(struct engine_command *command, void *object)
{
	struct qp *qp = object;

	qp->added = command->status == 0;
	if (!qp->added)
		log_error("event=queue_pair_refused qpn=%#x segment=%#x error=%d\n", qp->config.qpn,
			  qp->segment == NULL ? 0 : qp->segment->id, command->status);
}

/* Leave the exporter a quarter of its queue pairs for other uses. */
bool
export_has_room(const struct client *client)
{
	uint32_t max = client->table[OBJECT_QP].max;

	return client->exports < max - max / 4;
}

void
export_open(struct qp *qp, struct mem_region *window, uint32_t key)
{
	struct segment *segment = qp->segment;
	const struct mr *mr = segment->mr;

	*window = (struct mem_region){
		.key = key,
		.pz = qp->config.pz,
		.access = ((qp->permission & ACL_READ) != 0 ? ONE_ACCESS_REMOTE_READ : 0) |
			  ((qp->permission & ACL_WRITE) != 0 ? ONE_ACCESS_REMOTE_WRITE : 0),
		.qpn = qp->config.qpn,
		.va = mr->va,
		.shift = mr->entry->shift - mr->shift,
		.length = mr->length,
		.base = mr->entry->base,
		.bounce = mr->entry->bounce,
		.owner = qp,
	};
	mem_publish(engine_mem_table(), window);
	qp->window = window;
	LIST_INSERT_HEAD(&segment->exports, qp, segment_link);
}

/* The exporter's side of an import. The queue pair has no rings, and a protection zone with only one window,
 * so that the importer can access nothing else, whatever key it sends. */
int
export_qp_new(struct segment *segment, uint32_t permission, struct qp **out)
{
	struct client *client = segment->client;
	struct mem_region *window = calloc(1, sizeof(*window));
	struct qp *qp = window == NULL || !export_has_room(client) ? NULL : qp_new(client, &export_kind);
	struct quota_limit limit;
	uint32_t key;
	int error;

	if (qp == NULL) {
		free(window);
		return -ENOMEM;
	}
	qp->segment = segment;
	qp->permission = permission;
	qp->recv_cq = segment->signal_cq;
	qp->config.signals = true;
	qp->rd_atomic_in = control.config->limits.max_rd_atomic;
	qp->config.pz = pz_number_new(client, qp, &limit);
	key = qp->config.pz == 0 ? 0 : key_new(client, &limit);
	if (key == 0) {
		if (qp->config.pz != 0)
			pz_number_free(client, qp->config.pz);
		object_free(qp);
		free(window);
		return -EDQUOT;
	}
	client->exports++;
	error = qp_add(qp, export_added);
	if (error != 0) {
		key_free(client);
		free(window);
		return error;
	}
	export_open(qp, window, key);
	*out = qp;
	return 0;
}
