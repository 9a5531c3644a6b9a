/* SPDX-License-Identifier: BSD-3-Clause */
/* Moves of queue pairs between lanes, on the control thread: see dataplane/qp/move.c. */
#include <stdlib.h>

#include "dataplane/engine/move.h"
#include "dataplane/mem/slab.h"
#include "dataplane/qp/move.h"
#include "dataplane/rc/params.h"

/* A take-over makes one for each queue pair while the cores are stopped: the slab's pages are present. */
static struct engine_move *
move_alloc(size_t size)
{
	return size > SLAB_MAX ? calloc(1, size) : slab_alloc(size);
}

static uint32_t
record_bytes(const struct engine_qp *qp)
{
	/* An RSM exporter's queue pair has no rings, and at most one signal under way. */
	uint32_t requests = RTE_MAX(qp->max_send_wr, 1u);

	return qp->rc == NULL ? 0 : rc_record_size(RTE_MIN(requests, RC_POSTED_MAX));
}

uint32_t
engine_move_size(const struct engine_qp *qp)
{
	return (uint32_t)sizeof(struct engine_move) + record_bytes(qp);
}

struct engine_move *
engine_move_new(struct engine_qp *qp, struct engine_client *lane, const struct engine_qp_config *config)
{
	uint32_t size = record_bytes(qp);
	struct engine_move *move = move_alloc(sizeof(*move) + size);

	if (move == NULL)
		return NULL;
	move->qp = qp;
	move->size = size;
	/* No core changes these while no move is under way. */
	move->from.lane = qp->client;
	move->from.config = *config;
	move->from.config.send_cq = qp->send_cq;
	move->from.config.recv_cq = qp->recv_cq;
	move->from.config.conn_cq = qp->conn_cq;
	move->from.config.async_cq = qp->async_cq;
	move->to.lane = lane;
	move->to.config = *config;
	return move;
}

struct core *
engine_move_old_core(const struct engine_move *move)
{
	return move->from.lane->core;
}

bool
engine_move_holds(struct engine_command *command)
{
	struct engine_qp *qp = command->qp;

	if (command->type == ENGINE_QP_FREEZE) {
		qp->move = command->move;
		qp->move->waiting_end = &qp->move->waiting;
	}
	if (qp == NULL || qp->move == NULL || command->type == ENGINE_QP_FREEZE ||
	    command->type == ENGINE_QP_THAW || command->type == ENGINE_QP_MOVED)
		return false;
	command->next = NULL;
	*qp->move->waiting_end = command;
	qp->move->waiting_end = &command->next;
	return true;
}

bool
engine_move_over(struct engine_move *move)
{
	struct engine_qp *qp = move->qp;
	struct engine_command *command;
	bool moved = qp_core(qp) == move->to.lane->core;

	qp->move = NULL;
	if (moved) {
		move->from.lane->core->num_qps--;
		move->to.lane->core->num_qps++;
		steer_moved(qp);
	}
	while ((command = move->waiting) != NULL) {
		move->waiting = command->next;
		if (command->type == ENGINE_CQ_POST)
			command->cq = qp->conn_cq;
		engine_command(command);
	}
	return moved;
}

void
engine_move_free(struct engine_move *move)
{
	if (move != NULL && sizeof(*move) + move->size > SLAB_MAX)
		free(move);
	else
		slab_free(move);
}
