/* SPDX-License-Identifier: BSD-3-Clause */
/* Queue pairs: rings, numbers, and commands to their cores. */
#include <errno.h>
#include <stdlib.h>

#include "dataplane/base/state.h"
#include "control/objects/qp_move.h"
#include "control/objects/place.h"
#include "control/objects/qp.h"
#include "control/path/path.h"

#define QPN_TRIES 16

struct one_qp_shm *
qp_shm(const struct qp *qp)
{
	return qp->config.shm == 0 ? NULL
				   : (struct one_qp_shm *)(qp->object.client->arena.base + qp->config.shm);
}

struct engine_command *
qp_command(struct qp *qp, enum engine_command_type type, command_done *done, void *object)
{
	struct engine_command *command;

	if (!qp->placed)
		place_qp(qp, NULL);
	command = command_new(qp->object.client, type, done, object);
	command->qp = qp->engine;
	return command;
}

/* ---- state ---- */

static const char *const state_names[] = {
	[ONE_QP_IDLE] = "idle",       [ONE_QP_CONNECTING] = "connecting", [ONE_QP_CONNECTED] = "connected",
	[ONE_QP_CLOSING] = "closing", [ONE_QP_ERROR] = "error",
};

static const uint16_t state_next[] = {
	[ONE_QP_IDLE] = STATE_TO(ONE_QP_CONNECTING) | STATE_TO(ONE_QP_ERROR),
	[ONE_QP_CONNECTING] = STATE_TO(ONE_QP_CONNECTED) | STATE_TO(ONE_QP_ERROR),
	[ONE_QP_CONNECTED] = STATE_TO(ONE_QP_CLOSING) | STATE_TO(ONE_QP_ERROR),
	[ONE_QP_CLOSING] = STATE_TO(ONE_QP_ERROR),
	[ONE_QP_ERROR] = STATE_TO(ONE_QP_IDLE),
};

static const struct state_machine machine = {"queue pair", state_names, state_next};

void
qp_state_set(struct qp *qp, enum one_qp_state to, const char *why)
{
	state_transition(&machine, qp->config.qpn, qp->state, to, why);
	qp->state = to;
}

void
qp_report_state(struct qp *qp, enum one_qp_state to, const char *why)
{
	struct engine_command *command;

	qp_state_set(qp, to, why);
	if (!qp->placed && qp_shm(qp) != NULL) {
		/* No core stores the state yet.  Pairs with the library's acquire load. */
		atomic_store_explicit(&qp_shm(qp)->state, to, memory_order_release);
		return;
	}
	command = qp_command(qp, ENGINE_QP_STATE, NULL, NULL);
	command->state = to;
	command_send(command);
}

const char *
qp_state_name(const struct qp *qp)
{
	return state_names[qp->state];
}

/* ---- references ---- */

/* Takes references to the objects that the queue pair uses.  `by`: 1, or -1 to drop them. */
static void
hold_references(struct qp *qp, int by)
{
	struct cq *const cqs[] = {qp->send_cq, qp->recv_cq, qp->conn_cq};

	for (size_t i = 0; i < RTE_DIM(cqs); i++) {
		if (cqs[i] == NULL)
			continue;
		cqs[i]->object.users += by;
		if (by > 0)
			place_use_cq(cqs[i], cqs[i] == qp->send_cq);
	}
	if (qp->srq != NULL)
		qp->srq->object.users += by;
	if (qp->pz != NULL)
		qp->pz->object.users += by;
}

/* Returns the object, or NULL for id 0.  If there is no such object, *error becomes the refusal, unless one
 * is there. */
static void *
object_named(struct client *client, enum object_kind kind, uint32_t id, enum one_subject subject, int *error)
{
	void *object = id == 0 ? NULL : object_get(client, kind, id);

	if (id != 0 && object == NULL && *error == 0)
		*error = client_refuse(client, -EINVAL, subject, id);
	return object;
}

/* Fills `to` from the request, and takes no references. */
static int
resolve_request(struct client *client, const struct one_qp_create *args, struct qp *to)
{
	int error = 0;

	to->pz = object_named(client, OBJECT_PZ, args->pz, ONE_SUBJECT_PZ, &error);
	to->send_cq = object_named(client, OBJECT_CQ, args->send_cq, ONE_SUBJECT_CQ_SEND, &error);
	to->recv_cq = object_named(client, OBJECT_CQ, args->recv_cq, ONE_SUBJECT_CQ_RECV, &error);
	to->conn_cq = object_named(client, OBJECT_CQ, args->conn_cq, ONE_SUBJECT_CQ_CONN, &error);
	to->srq = object_named(client, OBJECT_SRQ, args->srq, ONE_SUBJECT_SRQ, &error);
	if (error != 0)
		return error;
	/* Receives of the SRQ are checked against the queue pair's zone. */
	if (to->srq != NULL && to->srq->pz != to->pz)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_PZ, args->pz);
	if ((args->flags & ~(ONE_QP_RECV_SOLICITED | ONE_QP_NOTIFY_END | ONE_QP_UD | ONE_QP_TIMEWAIT)) != 0)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_NONE, args->flags);
	if (args->rd_atomic_in > control.config->limits.max_rd_atomic ||
	    args->rd_atomic_out > control.config->limits.max_rd_atomic)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_COUNT,
				     control.config->limits.max_rd_atomic);
	to->rd_atomic_in = args->rd_atomic_in;
	to->rd_atomic_out = args->rd_atomic_out;
	to->config.recv_solicited = (args->flags & ONE_QP_RECV_SOLICITED) != 0;
	to->config.notify_end = (args->flags & ONE_QP_NOTIFY_END) != 0;
	to->timewait = (args->flags & ONE_QP_TIMEWAIT) != 0;
	return 0;
}

struct engine_qp_config
qp_config_on(const struct qp *qp, const struct engine_client *lane)
{
	struct engine_qp_config config = qp->config;

	config.send_cq = cq_engine(qp->send_cq, lane);
	config.recv_cq = cq_engine(qp->recv_cq, lane);
	config.conn_cq = cq_engine(qp->conn_cq, lane);
	config.async_cq = cq_engine(qp->object.client->async_cq, lane);
	config.srq = qp->srq == NULL ? NULL : qp->srq->engine;
	if (qp->pz != NULL)
		config.pz = qp->pz->number;
	return config;
}

static void
fill_config(struct qp *qp)
{
	qp->config = qp_config_on(qp, qp->placed ? qp->lane : qp->object.client->engine);
}

/* ---- making ---- */

int
qp_ring_log2(struct client *client, uint32_t max_wrs, uint32_t wrs, uint32_t sges, uint32_t *log2)
{
	const struct one_limits *limits = &control.config->limits;
	uint32_t slots;

	if (wrs > max_wrs)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_COUNT, max_wrs);
	if (sges > limits->max_sge || sges > ONE_MAX_SGE)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_COUNT, limits->max_sge);
	slots = wrs * one_wqe_slots(sges);
	if (slots > 1u << ONE_RING_LOG2_MAX)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_COUNT,
				     (1u << ONE_RING_LOG2_MAX) / one_wqe_slots(sges));
	for (*log2 = 0; 1u << *log2 < slots;)
		++*log2;
	return 0;
}

int
qp_make_rings(struct qp *qp)
{
	uint64_t sq = sizeof(struct one_qp_shm);
	uint64_t rq = sq + (sizeof(struct one_wqe) << qp->config.sq_log2);
	uint64_t size = rq + (sizeof(struct one_wqe) << qp->config.rq_log2);
	uint64_t offset;
	int error = client_alloc(qp->object.client, size, &offset);

	if (error != 0)
		return error;
	qp->block_size = size;
	qp->config.shm = offset;
	qp->config.sq = offset + sq;
	qp->config.rq = offset + rq;
	return 0;
}

/* Bitmap of the numbers that connections use, or that are in time-wait. */
static uint64_t in_use[(1u << 24) / 64];

void
qpn_occupy(uint32_t qpn)
{
	in_use[qpn / 64] |= 1ull << qpn % 64;
}

void
qpn_vacate(uint32_t qpn)
{
	in_use[qpn / 64] &= ~(1ull << qpn % 64);
}

bool
qpn_in_use(uint32_t qpn)
{
	return (in_use[qpn / 64] >> qpn % 64 & 1) != 0;
}

/* Returns a number that neither a queue pair nor a connection in time-wait has; 0: none was found. */
static uint32_t
qpn_new(void)
{
	for (int i = 0; i < QPN_TRIES; i++) {
		uint32_t qpn = engine_qpn_new();

		if (qpn == 0)
			break;
		if (!qpn_in_use(qpn))
			return qpn;
	}
	return 0;
}

static struct qp *
qp_init(struct client *client, const struct qp_kind *kind, struct qp *qp)
{
	if (qp == NULL)
		return NULL;
	qp->kind = kind;
	qp->config.owner = qp;
	qp->config.id = qp->object.id;
	qp->config.doorbell = table_index(qp->object.id);
	qp->config.port = client->port->index;
	return qp;
}

struct qp *
qp_new(struct client *client, const struct qp_kind *kind)
{
	return qp_init(client, kind, object_new(client, OBJECT_QP, sizeof(struct qp)));
}

struct qp *
qp_new_as(struct client *client, uint32_t id)
{
	return qp_init(client, NULL, object_new_as(client, OBJECT_QP, sizeof(struct qp), id));
}

/* Creates what a core will own, under the number in the configuration, or a new one (0), and takes
 * references.  Destroys the queue pair on failure. */
static int
qp_begin(struct qp *qp)
{
	struct client *client = qp->object.client;
	struct quota_limit limit;

	hold_references(qp, 1);
	qp->config = qp_config_on(qp, client->engine);
	if (quota_take(&control.quota, client->account, QUOTA_QPNS, 1, &limit) != 0) {
		qp_destroy(qp);
		return client_refuse_limit(client, &limit);
	}
	if (qp->config.qpn == 0)
		qp->config.qpn = qpn_new();
	if (qp->config.qpn != 0)
		qp->engine = engine_qp_new(client->engine, &qp->config);
	if (qp->engine == NULL) {
		quota_give(&control.quota, client->account, QUOTA_QPNS, 1);
		qp_destroy(qp);
		return client_refuse(client, -ENOMEM, ONE_SUBJECT_MEMORY, 0);
	}
	return 0;
}

int
qp_add(struct qp *qp, command_done *done)
{
	int error = qp_begin(qp);

	if (error != 0)
		return error;
	place_at_home(qp);
	command_send(qp_command(qp, ENGINE_QP_ADD, done, qp));
	return 0;
}

void
qp_describe(struct client *client, const struct qp *qp)
{
	client->reply.qp = (struct one_qp_created){
		.qp = qp->object.id,
		.qpn = qp->config.qpn,
		.doorbell = qp->config.doorbell,
		.sq_log2 = qp->config.sq_log2,
		.rq_log2 = qp->config.rq_log2,
		.shm = qp->config.shm,
		.sq = qp->config.sq,
		.rq = qp->config.rq,
	};
}

/* Commands reach the core in order, so QP_CREATE was answered without waiting for this acknowledgement. */
static void
qp_added(struct engine_command *command, void *object)
{
	struct qp *qp = object;

	if (command->status == 0)
		return;
	log_error("event=queue_pair_refused qpn=%#x error=%d\n", qp->config.qpn, command->status);
	qp->added = false;
	client_kill(qp->object.client, 0, "its core refuses a queue pair");
}

void
qp_store_doorbells(struct qp *qp)
{
	bool is_home = qp->lane == qp->object.client->engine;

	/* Relaxed: pairs with the load in one_qp_doorbells().  When the queue pair gets its first core, that
	 * core later stores a state in which requests may be posted.  Later the old core forwards. */
	atomic_store_explicit(&qp_shm(qp)->doorbells, is_home ? 0 : (uint32_t)engine_lane_doorbells(qp->lane),
			      memory_order_relaxed);
}

int
qp_make_again(struct qp *qp)
{
	bool placed = qp->placed;
	int error;

	qp->placed = false; /* uncounted, if qp_begin() fails */
	error = qp_begin(qp);
	if (error != 0)
		return error;
	qp->object.busy = qp->kind->ends_alone; /* the application has no id of an export */
	if (!placed)
		return 0;
	place_resumed(qp);
	fill_config(qp);
	engine_qp_place(qp->engine, qp->lane, &qp->config);
	return 0;
}

void
qp_give_to_core(struct qp *qp)
{
	fill_config(qp);
	engine_qp_place(qp->engine, qp->lane, &qp->config);
	qp_store_doorbells(qp);
	command_send(qp_command(qp, ENGINE_QP_ADD, qp_added, qp));
}

int
qp_create(struct client *client, const struct one_msg *msg)
{
	const struct one_qp_create *args = &msg->qp_create;
	uint32_t most = control.config->limits.max_qp_wr;
	struct qp *qp = qp_new(client, attach_calls->endpoint);
	int error;

	if (qp == NULL)
		return object_refuse_new(client, OBJECT_QP);
	qp->config.ud = (args->flags & ONE_QP_UD) != 0;
	qp->config.max_send_wr = args->max_send_wr;
	qp->config.max_recv_wr = args->max_recv_wr;
	error = resolve_request(client, args, qp);
	if (error == 0)
		error = qp_ring_log2(client, most, args->max_send_wr, args->max_send_sge,
				     &qp->config.sq_log2);
	if (error == 0)
		error = qp_ring_log2(client, most, args->max_recv_wr, args->max_recv_sge,
				     &qp->config.rq_log2);
	if (error == 0)
		error = qp_make_rings(qp);
	if (error != 0) {
		object_free(qp);
		return error;
	}
	error = qp_begin(qp);
	if (error != 0)
		return error;
	qp->added = true;
	qp->object.busy = false;
	qp_describe(client, qp);
	return 0;
}

/* ---- changing ---- */

void
qp_answer(struct qp *qp, int error)
{
	struct client *client = qp->object.client;

	qp->object.busy = false;
	client_reply(client, error == 0 ? 0 : client_refuse(client, error, ONE_SUBJECT_QP, qp->object.id));
}

struct modify {
	struct qp *qp;
	struct qp to; /* only the fields that qp_modify() changes */
};

/* Moves the references of `from` to `qp`.  Both have the same shared receive queue. */
static void
take_over(struct qp *qp, const struct qp *from)
{
	hold_references(qp, -1);
	qp->config = from->config;
	qp->pz = from->pz;
	qp->send_cq = from->send_cq;
	qp->recv_cq = from->recv_cq;
	qp->conn_cq = from->conn_cq;
	qp->rd_atomic_in = from->rd_atomic_in;
	qp->rd_atomic_out = from->rd_atomic_out;
	qp->timewait = from->timewait;
}

static void
qp_modified(struct engine_command *command, void *object)
{
	struct modify *modify = object;
	struct qp *qp = modify->qp;

	if (command->status == 0)
		take_over(qp, &modify->to);
	else
		hold_references(&modify->to, -1);
	free(modify);
	qp_answer(qp, command->status);
}

int
qp_modify(struct client *client, const struct one_msg *msg)
{
	const struct one_qp_modify *args = &msg->qp_modify;
	struct qp *qp = object_get(client, OBJECT_QP, args->qp);
	struct engine_command *command;
	struct modify *modify;
	int error;

	if (qp == NULL || !qp->kind->created)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_QP, args->qp);
	if (qp->state != ONE_QP_IDLE)
		return client_refuse(client, -EISCONN, ONE_SUBJECT_QP, qp->state);
	if (args->to.max_send_wr != qp->config.max_send_wr || args->to.max_recv_wr != qp->config.max_recv_wr)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_COUNT, qp->config.max_send_wr);
	if (((args->to.flags & ONE_QP_UD) != 0) != qp->config.ud)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_NONE, args->to.flags);
	modify = calloc(1, sizeof(*modify));
	if (modify == NULL)
		return client_refuse(client, -ENOMEM, ONE_SUBJECT_MEMORY, 0);
	modify->qp = qp;
	modify->to.object.client = client;
	modify->to.config = qp->config;
	modify->to.config.pz = 0;
	error = resolve_request(client, &args->to, &modify->to);
	if (error == 0 && modify->to.srq != qp->srq)
		error = client_refuse(client, -EINVAL, ONE_SUBJECT_SRQ, args->to.srq);
	if (error != 0) {
		free(modify);
		return error;
	}
	hold_references(&modify->to, 1);
	modify->to.placed = qp->placed;
	modify->to.lane = qp->lane;
	if (qp->placed && place_lane(&modify->to, engine_lane_number(qp->lane)) == NULL) {
		hold_references(&modify->to, -1);
		free(modify);
		return client_refuse(client, -ENOMEM, ONE_SUBJECT_MEMORY, 0);
	}
	fill_config(&modify->to);
	if (!qp->placed) {
		take_over(qp, &modify->to);
		free(modify);
		return 0;
	}
	qp->object.busy = true;
	command = qp_command(qp, ENGINE_QP_MODIFY, qp_modified, modify);
	command->qp_config = modify->to.config;
	command_send(command);
	return REQUEST_LATER;
}

static void
qp_was_reset(struct engine_command *command, void *object)
{
	struct qp *qp = object;

	if (command->status == 0) {
		qp_state_set(qp, ONE_QP_IDLE, "reset");
		qp_move_forget(qp); /* its next connection may be to a peer that has to move as well */
	}
	qp_answer(qp, command->status);
}

static void
start_reset(struct qp *qp)
{
	qp->kind->detach(qp);
	bind_forget(qp);
	command_send(qp_command(qp, ENGINE_QP_RESET, qp_was_reset, qp));
}

/* Runs after the core's earlier events: the state is up to date here. */
static void
reset_if_broken(struct engine_command *command, void *object)
{
	struct qp *qp = object;
	struct client *client = qp->object.client;

	if (client_alive(client) && qp->state == ONE_QP_ERROR) {
		start_reset(qp);
		return;
	}
	qp->object.busy = false;
	client_reply(client, client_refuse(client, -EISCONN, ONE_SUBJECT_QP, qp->state));
}

int
qp_reset_request(struct client *client, const struct one_msg *msg)
{
	uint32_t id = msg->id.id;
	struct qp *qp = object_get(client, OBJECT_QP, id);

	if (qp == NULL || !qp->kind->created)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_QP, id);
	if (qp->state == ONE_QP_IDLE)
		return 0;
	qp->object.busy = true;
	if (qp->state == ONE_QP_ERROR)
		start_reset(qp);
	else /* The application may see the error before this thread gets the event. */
		command_send(qp_command(qp, ENGINE_QP_SET, reset_if_broken, qp));
	return REQUEST_LATER;
}

/* ---- freeing ---- */

void
qp_withdraw(struct qp *qp)
{
	if (qp->added && qp->placed && !qp->removing)
		command_send(qp_command(qp, ENGINE_QP_REMOVE, NULL, NULL));
	qp->removing = true;
	bind_forget(qp);
}

void
qp_destroy(struct qp *qp)
{
	struct client *client = qp->object.client;

	place_forget(qp);
	qp_move_forget(qp);
	if (qp->engine != NULL) {
		engine_qp_free(qp->engine);
		quota_give(&control.quota, client->account, QUOTA_QPNS, 1);
	}
	hold_references(qp, -1);
	if (qp->kind->destroy != NULL)
		qp->kind->destroy(qp);
	if (qp->block_size != 0)
		client_free(client, qp->config.shm, qp->block_size);
	object_free(qp);
}

static void
qp_removed(struct engine_command *command, void *object)
{
	qp_destroy(object);
}

static void
qp_freed(struct engine_command *command, void *object)
{
	object_release(object);
}

void
qp_remove(struct qp *qp, bool reply)
{
	if (qp->removing)
		return;
	qp->removing = true;
	bind_forget(qp);
	qp->object.busy = true;
	if (qp->kind->unhook != NULL)
		qp->kind->unhook(qp);
	qp->kind->detach(qp);
	command_send(qp_command(qp, ENGINE_QP_REMOVE, reply ? qp_freed : qp_removed, qp));
}

uint32_t
qp_private_max(const struct client *client, uint32_t room)
{
	uint32_t max = control.config->limits.max_private_data;

	/* rdma_cm's limits are those of the messages; uDAPL has one limit for all messages. */
	return client->kind == ONE_KIND_VERBS ? room : max < CM_USER_PRIVATE_MAX ? max : CM_USER_PRIVATE_MAX;
}

int
qp_check_idle(struct client *client, uint32_t id)
{
	const struct qp *qp = object_get(client, OBJECT_QP, id);

	if (qp == NULL || !qp->kind->created || qp->config.ud)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_QP, id);
	if (qp->state != ONE_QP_IDLE || qp->conn != NULL)
		return client_refuse(client, -EISCONN, ONE_SUBJECT_QP, qp->state);
	if (qp->pz == NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_PZ, 0);
	return 0;
}

int
qp_connectable(struct client *client, uint32_t id, const struct one_conn_param *param, uint32_t private_len,
	       uint32_t room)
{
	const struct qp *qp = object_get(client, OBJECT_QP, id);
	uint32_t max = qp_private_max(client, room);
	int error = qp_check_idle(client, id);

	if (error != 0)
		return error;
	if (qp->conn_cq == NULL)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_CQ_CONN, 0);
	if (private_len > max)
		return client_refuse(client, -EMSGSIZE, ONE_SUBJECT_LENGTH, max);
	if (param->rnr_retry > 7 || param->retry_count > 7 || param->ack_timeout > 31)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_COUNT, param->given);
	if (param->known_as != 0) {
		const struct qp *known = object_get(client, OBJECT_QP, param->known_as);

		if (known == NULL || !known->config.ud)
			return client_refuse(client, -EINVAL, ONE_SUBJECT_QP, param->known_as);
	}
	return 0;
}

int
qp_free(struct client *client, const struct one_msg *msg)
{
	uint32_t id = msg->id.id;
	struct qp *qp = object_get(client, OBJECT_QP, id);

	if (qp == NULL || qp->kind->ends_alone)
		return client_refuse(client, -EINVAL, ONE_SUBJECT_QP, id);
	qp_remove(qp, true);
	return REQUEST_LATER;
}
