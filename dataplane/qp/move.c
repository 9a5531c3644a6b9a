/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moving a queue pair to another lane (doc/cores.md).
 *
 * The old core freezes the queue pair, and gives it away: from the release store of its core on, other cores
 * hand its frames to the new core, where they wait. The new core thaws it, and then processes those frames.
 * If the new core cannot, it gives the queue pair back, and the old core, which still has the nodes of the
 * work requests, thaws it. What is in memory and without a clock stays in struct engine_qp; the RC transport
 * crosses as a record (dataplane/rc/record.c).
 *
 * The application notices nothing. Its library may ring the old lane's doorbell, which that lane forwards.
 * Completions of one queue pair stay in order, though they come in two rings: an entry ONE_CQE_AFTER precedes
 * those in the new ring.
 *
 * A key must not be revoked before the work posted before has begun (keys.c), and a lane finds no queue pair
 * on its way. So the two exclude each other: each side stores its mark, then loads that of the other side. A
 * queue pair gives way. A request for a key keeps its mark, so that moves cannot delay it again and again.
 */
#include <errno.h>

#include "dataplane/qp/doorbell.h"
#include "dataplane/qp/move.h"

/* ---- freezing ---- */

static bool
begin_without_keys(struct engine_client *home)
{
	/* Both sequentially consistent: pairs with exclude_moves(). */
	atomic_fetch_add_explicit(&home->moving, 1, memory_order_seq_cst);
	if (!atomic_load_explicit(&home->keys_busy, memory_order_seq_cst))
		return true;
	atomic_fetch_sub_explicit(&home->moving, 1, memory_order_seq_cst);
	return false;
}

static void
end_without_keys(struct engine_client *home)
{
	/* Release: pairs with the load in exclude_moves(). The queue pair is in its new lane's lists. */
	atomic_fetch_sub_explicit(&home->moving, 1, memory_order_release);
}

static int
check_state(const struct engine_move *move)
{
	const struct engine_qp *qp = move->qp;
	bool stays = move->to.lane == move->from.lane; /* for a take-over */

	if (qp->transport == QP_UD || (!stays && (qp->shm == NULL || qp->signals)))
		return -EOPNOTSUPP;
	if ((qp->state != RC_RTR && qp->state != RC_RTS) || qp->client->faulty)
		return -ENOTCONN;
	return qp->bind != QP_BIND_NONE || qp->node.queued ? -EAGAIN : 0;
}

static int
freeze_transport(struct core *core, struct engine_move *move)
{
	struct engine_qp *qp = move->qp;
	int error;

	if (qp_has_rc(qp)) {
		error = rc_freeze(qp->rc, move->record, move->size, &move->frozen, core->now);
		move->has_frozen = error == 0;
		return error;
	}
	return local_freeze(core, qp);
}

/* Take the queue pair out of all lists of its core. Times by this core's clock begin anew. */
static void
leave_lists(struct core *core, struct engine_qp *qp)
{
	timer_cancel(core, &qp->timer);
	qp_end_output(qp);
	qp_make_cold(core, qp);
	qp->stream_until = 0;
	qp->silent_at = 0;
	qp->flow_at = 0;
	qp->strays = 0;
	qp->wait_since = 0;
	qp->wait_step = 0;
}

/* Returns the position after the newest entry that is not ONE_CQE_AFTER. */
static uint64_t
newest_entry(const struct engine_cq *cq)
{
	return cq_position(cq) == cq->mark_end ? cq->mark_begin : cq_position(cq);
}

/* After a resize, the application may still take entries of the ring before, until it takes one of this ring.
 */
static bool
is_taken(const struct engine_cq *cq, uint64_t count)
{
	/* Relaxed: pairs with the application's store. A wrong head harms only the application. */
	uint32_t head = atomic_load_explicit(&cq->shm->head, memory_order_relaxed);

	return (head != 0 || cq->base == 0) && cq_position(cq) - (cq->tail - head) >= count;
}

/*
 * Returns the flags that ONE_CQE_AFTER takes over from entries of the old ring. If the library arms while
 * such an entry waits, it rings the queue pair, on its new lane, where ONE_CQE_AFTER notifies in place of the
 * entry. An entry that an event has reported must not notify again: programs poll once for each event.
 */
static uint8_t
flags_of_entries(const struct engine_cq *cq)
{
	uint8_t flags = 0;

	if (cq->dirty) /* the user's ceiling delays the event, and this core will send it */
		return 0;
	if ((int32_t)(cq->notify_tail - cq->reported_tail) > 0)
		flags |= ONE_CQE_NOTIFY;
	if ((int32_t)(cq->solicited_tail - cq->reported_tail) > 0)
		flags |= ONE_CQE_SOLICITED;
	return flags;
}

/* A queue pair that moves on without a new entry names the same entries again: rings do not fill with
 * ONE_CQE_AFTER while an application sleeps. */
static void
note_entries(struct move_after *after, struct move_origin *origin, const struct engine_cq *from,
	     struct engine_cq *to)
{
	*after = (struct move_after){.cq = NULL};
	if (from == NULL)
		return;
	if (newest_entry(from) != origin->seen)
		*origin = (struct move_origin){.known = true,
					       .ring = from->number,
					       .count = newest_entry(from),
					       .flags = ONE_CQE_NOTIFY | ONE_CQE_SOLICITED};
	if (origin->ring == from->number && is_taken(from, origin->count))
		origin->known = false;
	origin->flags &= flags_of_entries(from);
	if (origin->known && origin->ring != to->number)
		*after = (struct move_after){to, origin->ring, origin->count, origin->flags};
}

static void
note_rings(struct engine_move *move)
{
	const struct engine_qp_config *from = &move->from.config, *to = &move->to.config;
	bool conn_alone = from->conn_cq != from->send_cq && from->conn_cq != from->recv_cq;
	struct move_origin *origin = move->qp->origin;

	note_entries(&move->after[0], &origin[0], from->send_cq, to->send_cq);
	note_entries(&move->after[1], &origin[1], from->recv_cq == from->send_cq ? NULL : from->recv_cq,
		     to->recv_cq);
	note_entries(&move->after[2], &origin[2], conn_alone ? from->conn_cq : NULL, to->conn_cq);
}

static void
note_arrival(struct engine_qp *qp)
{
	const struct engine_cq *cq[MOVE_CQS] = {qp->send_cq, qp->recv_cq, qp->conn_cq};

	for (uint32_t i = 0; i < MOVE_CQS; i++)
		if (cq[i] != NULL)
			qp->origin[i].seen = newest_entry(cq[i]);
}

/* Make the frozen queue pair the other core's. */
static void
give_to(struct engine_qp *qp, const struct move_place *place)
{
	qp->client = place->lane;
	qp->send_cq = place->config.send_cq;
	qp->recv_cq = place->config.recv_cq;
	qp->conn_cq = place->config.conn_cq;
	qp->async_cq = place->config.async_cq;
	qp->bounce.lane = place->lane->number;
	qp->frozen = true;
	/* Release: pairs with qp_core(). */
	atomic_store_explicit(&qp->core, place->lane->core, memory_order_release);
}

int
qp_freeze(struct core *core, struct engine_move *move)
{
	struct engine_qp *qp = move->qp;
	struct engine_client *lane = qp->client;
	int error = check_state(move);

	if (error != 0)
		return error;
	if (!begin_without_keys(lane->home))
		return -EAGAIN;
	cq_unstage(core);
	error = freeze_transport(core, move);
	if (error != 0) {
		end_without_keys(lane->home);
		return error;
	}
	leave_lists(core, qp);
	qp_publish(qp);
	cq_publish(core); /* events of this loop's entries come first: see flags_of_entries() */
	note_rings(move);
	lane->qps[qp->doorbell] = doorbell_forward(move->to.lane);
	give_to(qp, &move->to);
	return 0;
}

/* ---- frames that arrive meanwhile ---- */

bool
qp_queue_frame(struct core *core, struct engine_qp *qp, struct rte_mbuf *m)
{
	struct engine_move *move = qp->move;

	if (core->holds >= core->holds_max)
		return false;
	core->holds++;
	frame_info(m)->next = NULL;
	if (move->frames == NULL)
		move->frames_end = &move->frames;
	*move->frames_end = m;
	move->frames_end = &frame_info(m)->next;
	return true;
}

static struct rte_mbuf *
next_frame(struct core *core, struct engine_move *move)
{
	struct rte_mbuf *m = move->frames;

	if (m == NULL)
		return NULL;
	move->frames = frame_info(m)->next;
	core->holds--;
	return m;
}

/* ---- thawing ---- */

static int
thaw_transport(struct core *core, struct engine_move *move)
{
	struct engine_qp *qp = move->qp;

	if (!qp_has_rc(qp))
		return 0;
	rc_init(qp->rc, &core->env, qp->client->number, qp);
	return rc_thaw(qp->rc, &qp->attr, move->record, core->now);
}

static bool
rings_have_room(const struct engine_move *move)
{
	for (uint32_t i = 0; i < MOVE_CQS; i++)
		if (move->after[i].cq != NULL && !cq_fits_one(move->after[i].cq))
			return false;
	return true;
}

/* True if the newest ONE_CQE_AFTER names these entries, maybe with later ones. */
static bool
is_marked(const struct engine_cq *cq, const struct move_after *after)
{
	return cq->mark_end != 0 && cq->mark_ring == after->ring && cq->mark_count >= after->count;
}

static void
push_mark(struct core *core, const struct move_after *after)
{
	struct engine_cq *cq = after->cq;
	const struct one_cqe entry = {
		.type = ONE_CQE_AFTER, .object = after->ring, .cookie = after->count, .flags = after->flags};

	cq->mark_begin = newest_entry(cq);
	cq_push(core, cq, &entry);
	cq->mark_end = cq_position(cq);
	cq->mark_ring = after->ring;
	cq->mark_count = after->count;
}

static void
push_after(struct core *core, const struct engine_move *move)
{
	for (uint32_t i = 0; i < MOVE_CQS; i++) {
		const struct move_after *after = &move->after[i];
		const struct engine_cq *cq = after->cq;

		if (cq != NULL && !is_marked(cq, after))
			push_mark(core, after);
	}
}

void
qp_enter_lane(struct engine_qp *qp)
{
	struct engine_client *lane = qp->client;
	uint32_t group = qp->doorbell / ONE_DOORBELL_GROUP;

	lane->qps[qp->doorbell] = qp;
	if (lane->groups <= group)
		lane->groups = group + 1;
}

void
qp_join_lane(struct core *core, struct engine_qp *qp)
{
	qp_enter_lane(qp);
	if (qp->request == QP_REQUEST_WAITS)
		qp->request = QP_REQUEST_TAKEN;
	qp_make_hot(core, qp);
	if (qp->transport == QP_LOCAL)
		local_arrive(core, qp);
}

static void
return_frozen(struct core *core, struct engine_move *move)
{
	struct engine_qp *qp = move->qp;
	struct rte_mbuf *m;

	move->returns = true;
	memset(move->after, 0, sizeof(move->after));
	while ((m = next_frame(core, move)) != NULL)
		core_hand_over(core, move->from.lane->core, m);
	give_to(qp, &move->from);
}

int
qp_thaw(struct core *core, struct engine_move *move)
{
	struct engine_qp *qp = move->qp;
	struct rte_mbuf *m;

	if (move->returns)
		qp_moved(core, move); /* the nodes are enough */
	cq_unstage(core);             /* staged entries need room as well */
	if (!rings_have_room(move) || thaw_transport(core, move) != 0) {
		return_frozen(core, move);
		return -ENOBUFS;
	}
	push_after(core, move);
	note_arrival(qp);
	qp->frozen = false;
	qp_join_lane(core, qp);
	end_without_keys(qp->client->home);
	core->stats.moves += !move->returns;
	while ((m = next_frame(core, move)) != NULL)
		rcio_take(core, m);
	if (qp_has_rc(qp) && qp->state != RC_ERROR)
		rcio_after(core, qp);
	return 0;
}

int
qp_moved(struct core *core, struct engine_move *move)
{
	if (move->has_frozen)
		rc_frozen_free(&core->env, &move->frozen);
	move->has_frozen = false;
	return 0;
}
