/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moves of queue pairs between cores. The old core freezes a queue pair, the new one thaws it; commands wait
 * meanwhile (engine_move_new()), so the rest of the control thread notices nothing. A local connection's ends
 * move one after the other, and wait for each other in between. If the second cannot move, the first returns.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "control/objects/qp_move.h"
#include "control/objects/place.h"

#define TRIES 50u                /* to freeze a queue pair that is busy with a bind, a key, or copies */
#define RETRY_NS (2 * NS_PER_MS) /* between two tries; equal for all moves, so `waiting` is sorted */
#define ENDS 2u

struct qp_move {
	TAILQ_ENTRY(qp_move) link; /* in `waiting`, if `waits` */
	bool waits;
	uint64_t again_at;                  /* time of the next try, if `waits` */
	struct qp *end[ENDS];               /* NULL: none, or freed or reset meanwhile */
	struct engine_client *lane[ENDS];   /* to move to */
	struct engine_client *before[ENDS]; /* to return to */
	uint32_t at;                        /* end that moves now */
	uint32_t tries;
	bool returns; /* the second end has stayed, and the first moves back */
	struct engine_move *engine;
};

static TAILQ_HEAD(, qp_move) waiting = TAILQ_HEAD_INITIALIZER(waiting); /* earliest first */

static void freeze_end(struct qp_move *move);

void
qp_move_forget(struct qp *qp)
{
	struct qp_move *move = qp->move;

	qp->move = NULL;
	if (move == NULL)
		return;
	move->end[qp == move->end[1]] = NULL;
	if (move->waits && move->end[0] == NULL && move->end[1] == NULL) {
		TAILQ_REMOVE(&waiting, move, link);
		free(move);
	}
}

static void
finish_move(struct qp_move *move)
{
	for (uint32_t i = 0; i < ENDS; i++)
		if (move->end[i] != NULL)
			qp_move_forget(move->end[i]);
	free(move);
}

static void
next_end(struct qp_move *move)
{
	move->tries = 0;
	if (move->at == 0 && !move->returns) {
		move->at = 1;
		freeze_end(move);
	} else {
		finish_move(move);
	}
}

static void
wait_to_freeze(struct qp_move *move)
{
	move->waits = true;
	move->again_at = control.now + RETRY_NS;
	TAILQ_INSERT_TAIL(&waiting, move, link);
}

/* The queue pair stays where it is. */
static void
stay_on_core(struct qp_move *move, int error)
{
	struct qp *qp = move->end[move->at];

	if (qp != NULL)
		log_warning("event=queue_pair_stays qpn=%#x core=%u error=\"%s\"\n", qp->config.qpn,
			    engine_core_lcore(engine_lane_core(qp->lane)), strerror(-error));
	if (move->at == 0 || move->end[0] == NULL) {
		finish_move(move);
		return;
	}
	move->at = 0;
	move->tries = 0;
	move->returns = true;
	move->lane[0] = move->before[0];
	freeze_end(move);
}

/* There is no memory, or no room. The first end returns later, since its peer waits for it. */
static void
stay_or_retry(struct qp_move *move, int error)
{
	if (move->returns)
		wait_to_freeze(move);
	else
		stay_on_core(move, error);
}

static void
send_step(struct qp_move *move, struct qp *qp, enum engine_command_type type, command_done *done)
{
	struct engine_command *command = command_new(qp->object.client, type, done, move);

	command->qp = qp->engine;
	command->move = move->engine;
	command_send(command);
}

/* The old core has handed over all frames that it had received, so waiting commands come after these. */
static void
end_moved(struct engine_command *command, void *object)
{
	struct qp_move *move = object;
	struct qp *qp = move->end[move->at];
	bool moved = engine_move_over(move->engine);

	engine_move_free(move->engine);
	if (!moved) {
		stay_or_retry(move, -ENOBUFS);
		return;
	}
	place_moved(qp, move->lane[move->at]);
	log_info("event=queue_pair_moved qpn=%#x core=%u\n", qp->config.qpn,
		 engine_core_lcore(engine_lane_core(qp->lane)));
	next_end(move);
}

static void
end_thawed(struct engine_command *command, void *object)
{
	struct qp_move *move = object;
	struct qp *qp = move->end[move->at];

	if (command->status == 0)
		send_step(move, qp, ENGINE_QP_MOVED, end_moved);
	else /* the old core has the queue pair again, and cannot refuse it */
		send_step(move, qp, ENGINE_QP_THAW, end_thawed);
}

static void
end_frozen(struct engine_command *command, void *object)
{
	struct qp_move *move = object;
	struct qp *qp = move->end[move->at];
	bool again = command->status == -EAGAIN && (move->returns || ++move->tries < TRIES);

	if (command->status == 0) {
		send_step(move, qp, ENGINE_QP_THAW, end_thawed);
		return;
	}
	engine_move_over(move->engine);
	engine_move_free(move->engine);
	if (again)
		wait_to_freeze(move);
	else
		stay_on_core(move, command->status);
}

static void
freeze_end(struct qp_move *move)
{
	struct qp *qp = move->end[move->at];
	struct engine_qp_config config;

	if (qp == NULL || qp->removing || !client_alive(qp->object.client) ||
	    (move->returns && move->end[1] == NULL)) {
		if (move->at == 1 && qp == NULL)
			finish_move(move);
		else
			stay_on_core(move, -ENOTCONN);
		return;
	}
	config = qp_config_on(qp, move->lane[move->at]);
	move->engine = engine_move_new(qp->engine, move->lane[move->at], &config);
	if (move->engine == NULL) {
		stay_or_retry(move, -ENOMEM);
		return;
	}
	send_step(move, qp, ENGINE_QP_FREEZE, end_frozen);
}

uint64_t
qp_moves_deadline(void)
{
	return TAILQ_EMPTY(&waiting) ? NEVER : TAILQ_FIRST(&waiting)->again_at;
}

void
qp_moves_poll(void)
{
	struct qp_move *move;

	while ((move = TAILQ_FIRST(&waiting)) != NULL && move->again_at <= control.now) {
		TAILQ_REMOVE(&waiting, move, link);
		move->waits = false;
		freeze_end(move);
	}
}

const char *
qp_move_refusal(const struct qp *qp)
{
	if (!qp->kind->created)
		return "queue pairs of RSM stay on the first core of their attachment";
	if (qp->config.ud)
		return "queue pairs for datagrams stay where they are";
	if (qp->state != ONE_QP_CONNECTED || qp->removing || !client_alive(qp->object.client))
		return "it is not connected";
	return qp->move != NULL ? "it is moving already" : NULL;
}

/* Returns the reason why this end cannot get a lane on `core`. */
static const char *
prepare_end(struct qp_move *move, uint32_t i, struct qp *qp, uint32_t core)
{
	const char *why = qp_move_refusal(qp);

	if (why != NULL)
		return why;
	move->end[i] = qp;
	move->before[i] = qp->lane;
	move->lane[i] = place_lane(qp, core); /* ends that move together get lanes of one number */
	return move->lane[i] == NULL ? "there is no memory for its completion rings on that core" : NULL;
}

const char *
qp_move_begin(struct qp *qp, struct qp *peer, uint32_t core)
{
	struct qp_move *move;
	const char *why;

	if (qp->placed && engine_lane_core(qp->lane) == core)
		return "it is on that core already";
	move = calloc(1, sizeof(*move));
	if (move == NULL)
		return "no memory";
	why = prepare_end(move, 0, qp, core);
	if (why == NULL && peer != NULL)
		why = prepare_end(move, 1, peer, core);
	if (why != NULL) {
		free(move);
		return why;
	}
	for (uint32_t i = 0; i < ENDS; i++)
		if (move->end[i] != NULL)
			move->end[i]->move = move;
	freeze_end(move);
	return NULL;
}
