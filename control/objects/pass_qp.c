/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: frozen, written, read, and let go on. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/objects/pass.h"
#include "control/objects/place.h"
#include "dataplane/mem/slab.h"

/* Kinds by their numbers in records. */
#define KINDS 4u
#define RESERVED_SIZES 16u

static const struct qp_kind *
kind_at(uint64_t number)
{
	const struct qp_kind *const kinds[KINDS] = {NULL, attach_calls->endpoint, attach_calls->import,
						    attach_calls->export};

	return number < KINDS ? kinds[number] : NULL;
}

/* A kind without a number is named as one that no reader knows: the queue pair is refused. */
static uint64_t
name_kind(const void *pointer, const struct record_context *context)
{
	uint64_t number = 1;

	while (number < KINDS && kind_at(number) != pointer)
		number++;
	return number;
}

static void *
find_kind(uint64_t name, const struct record_context *context)
{
	return (void *)(uintptr_t)kind_at(name);
}

static const struct record_naming kind_naming = {name_kind, find_kind};

#define QP(member) RECORD_FIELD(qp, member, RECORD_VALUE, 0, NULL)
#define BELOW(member, end) RECORD_FIELD(qp, member, RECORD_VALUE, end, NULL)
#define FLAG(member) BELOW(member, 2)
#define OBJECT(member, kind) RECORD_FIELD(qp, member, RECORD_NAME, 0, &pass_object[OBJECT_##kind])

static const struct record_field qp_fields[] = {
	RECORD_FIELD(qp, kind, RECORD_NAME, 0, &kind_naming),
	BELOW(state, ONE_QP_ERROR + 1),
	FLAG(added),
	FLAG(placed),
	RECORD_FIELD(qp, lane, RECORD_NAME, 0, &pass_lane),
	QP(config.qpn),
	QP(config.shm),
	QP(config.sq),
	QP(config.rq),
	BELOW(config.sq_log2, ONE_RING_LOG2_MAX + 1),
	BELOW(config.rq_log2, ONE_RING_LOG2_MAX + 1),
	QP(config.max_send_wr),
	QP(config.max_recv_wr),
	FLAG(config.recv_solicited),
	FLAG(config.notify_end),
	FLAG(config.ud),
	OBJECT(pz, PZ),
	OBJECT(send_cq, CQ),
	OBJECT(recv_cq, CQ),
	OBJECT(conn_cq, CQ),
	OBJECT(srq, SRQ),
	QP(rd_atomic_in),
	QP(rd_atomic_out),
	QP(qkey),
	QP(block_size),
	QP(number),
	FLAG(timewait),
	QP(permission),
};
static RECORD_FORM(qp_form, RECORD_QP, 1, qp_fields);

/* ---- the old process ---- */

static int
freeze_qp(struct qp *qp)
{
	bool busy = qp->object.busy && !qp->kind->ends_alone; /* exports are always busy */

	if (qp->move != NULL || qp->removing || qp->bind_wait != NULL || busy)
		return -EAGAIN;
	return engine_qp_freeze(qp->engine, &qp->frozen);
}

/* Calls `step` for each queue pair until it fails. */
static int
for_all_qps(int (*step)(struct qp *qp))
{
	struct client *client;
	int error = 0;

	TAILQ_FOREACH(client, &control.clients, link) {
		const struct table *table = &client->table[OBJECT_QP];

		for (uint32_t i = 0; i < table->size && error == 0; i++)
			if (table_at(table, i) != NULL)
				error = step(table_at(table, i));
	}
	return error;
}

static int
unfreeze_qp(struct qp *qp)
{
	engine_qp_unfreeze(qp->frozen);
	qp->frozen = NULL;
	return 0;
}

static struct slab_use wanted[RESERVED_SIZES];

static int
count_size(struct qp *qp)
{
	uint32_t size = qp->conn == NULL ? 0 : engine_move_size(qp->engine);

	for (uint32_t i = 0; i < RESERVED_SIZES && size != 0; i++)
		if (wanted[i].count == 0 || wanted[i].size == size) {
			wanted[i].size = size;
			wanted[i].count++;
			break;
		}
	return 0;
}

void
qps_reserve(void)
{
	memset(wanted, 0, sizeof(wanted));
	for_all_qps(count_size);
	slab_reserve(wanted, RESERVED_SIZES);
}

int
qps_freeze(void)
{
	int error = for_all_qps(freeze_qp);

	if (error != 0)
		for_all_qps(unfreeze_qp);
	return error;
}

void
qps_unfreeze(void)
{
	for_all_qps(unfreeze_qp);
}

void
qps_write(struct client *client, struct pass_out *out)
{
	const struct table *table = &client->table[OBJECT_QP];

	for (uint32_t i = 0; i < table->size; i++) {
		struct qp *qp = table_at(table, i);

		if (qp == NULL)
			continue;
		record_put(&out->records, &qp_form, qp->object.id, qp, &out->context);
		if (qp->kind->write != NULL)
			qp->kind->write(qp, out);
		engine_qp_write(qp->engine, qp->frozen, &out->records);
	}
}

/* ---- the new process ---- */

static int
core_read(struct qp *qp, struct pass_in *in)
{
	struct record record, rc;
	bool has_rc;
	int error = pass_take(in, RECORD_QP_CORE, &record);

	if (error != 0)
		return error;
	has_rc = pass_is(in, RECORD_QP_RC);
	if (has_rc)
		pass_take(in, RECORD_QP_RC, &rc);
	error = engine_qp_read(qp->engine, &record, has_rc ? &rc : NULL, qp->added && qp->placed);
	return error == 0 ? 0 : pass_refuse(in, "queue pair %#x is not valid", qp->config.qpn);
}

/* Reads the fields, and what only the queue pair's kind has.  Queue pairs of RSM are on their home core, and
 * only exports have no rings. */
static int
fields_read(struct qp *qp, struct pass_in *in)
{
	uint64_t id;

	if (pass_get(in, &qp_form, qp, &id) != 0)
		return -EINVAL;
	if (qp->config.shm > ONE_ARENA_SIZE || qp->block_size > ONE_ARENA_SIZE - qp->config.shm)
		return pass_refuse(in, "queue pair %#x exceeds the arena", qp->config.qpn);
	if (qp->kind == NULL || (qp->config.shm == 0) != qp->kind->ends_alone ||
	    (!qp->kind->created && (!qp->placed || qp->lane != qp->object.client->engine)))
		return pass_refuse(in, "queue pair %#x has a wrong kind", qp->config.qpn);
	qp->config.signals = !qp->kind->created;
	return qp->kind->read == NULL ? 0 : qp->kind->read(qp, in);
}

/* A queue pair stores entries in the rings of its own lane. */
static bool
lane_has_rings(const struct qp *qp)
{
	struct client *client = qp->object.client;
	const struct engine_client *lane = qp->placed ? qp->lane : client->engine;
	const struct cq *const cqs[] = {client->async_cq, qp->send_cq, qp->recv_cq, qp->conn_cq};

	for (size_t i = 0; i < RTE_DIM(cqs); i++)
		if (lane == NULL || (cqs[i] != NULL && cq_engine(cqs[i], lane) == NULL))
			return false;
	return true;
}

static int
qp_read(struct client *client, struct pass_in *in)
{
	uint64_t id = in->record.head.id;
	struct qp *qp = qp_new_as(client, (uint32_t)id);
	uint32_t qpn;
	int error;

	if (qp == NULL)
		return pass_refuse(in, "queue pair %#llx: its id is taken, or its user is over a limit",
				   (unsigned long long)id);
	error = fields_read(qp, in);
	if (error != 0)
		return error;
	qpn = qp->config.qpn;
	if (!lane_has_rings(qp))
		return pass_refuse(in, "queue pair %#x is on a core where its queues have no rings", qpn);
	/* qp_make_again() frees a queue pair that it cannot make. */
	if ((qp->srq != NULL && qp->srq->pz != qp->pz) || qp_make_again(qp) != 0)
		return pass_refuse(in, "queue pair %#x is taken, or its rings exceed the arena", qpn);
	return core_read(qp, in);
}

int
qps_read(struct client *client, struct pass_in *in)
{
	return pass_each(client, in, RECORD_QP, qp_read);
}

void
qps_go_on(struct client *client)
{
	const struct table *table = &client->table[OBJECT_QP];

	for (uint32_t i = 0; i < table->size; i++) {
		struct qp *qp = table_at(table, i);

		if (qp != NULL && qp->added && qp->placed)
			engine_qp_go_on(qp->engine);
	}
}
