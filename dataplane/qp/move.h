/* SPDX-License-Identifier: BSD-3-Clause */
/* A queue pair on its way to another lane of its attachment: see move.c. */
#ifndef DATAPLANE_QP_MOVE_H
#define DATAPLANE_QP_MOVE_H

#include "dataplane/qp/transport.h"

/* A lane, and the rings of the queue pair there. */
struct move_place {
	struct engine_client *lane;
	struct engine_qp_config config;
};

/* Entries of a ring that the application takes before any of the queue pair's from the new lane's ring. */
struct move_after {
	struct engine_cq *cq; /* the new lane's ring; NULL: none, or the application has taken all */
	uint32_t ring;        /* the old lane's ring */
	uint64_t count;       /* its entries until now */
	uint8_t flags;        /* of ONE_CQE_AFTER */
};

/* The move belongs to the core that carries out a command with it, else to the control thread. */
struct engine_move {
	struct engine_qp *qp;
	struct move_place from, to;
	bool returns;    /* the new lane has refused the queue pair */
	bool has_frozen; /* `frozen` belongs to the old lane's core */
	struct rc_frozen frozen;
	struct move_after after[MOVE_CQS];
	/* Frames for the frozen queue pair, linked by frame_info.next, oldest first. */
	struct rte_mbuf *frames;
	struct rte_mbuf **frames_end;
	/* Control thread only: commands for the queue pair that wait, oldest first. */
	struct engine_command *waiting, **waiting_end;
	uint32_t size; /* bytes of the record */
	uint64_t record[];
};

/* On the old core. 0; -EAGAIN: try later; -EOPNOTSUPP, -ENOTCONN: not in this state. The queue pair stays
 * where it is unless 0 is returned. */
int qp_freeze(struct core *core, struct engine_move *move);
/* On the new core, or on the old one if that fails. -ENOBUFS: the queue pair is frozen, and the old core's.
 */
int qp_thaw(struct core *core, struct engine_move *move);
/* Let the lane find the queue pair by its doorbell. */
void qp_enter_lane(struct engine_qp *qp);
/* Let a connected queue pair go on in its lane. */
void qp_join_lane(struct core *core, struct engine_qp *qp);
/* On the old core, after the queue pair was thawed. */
int qp_moved(struct core *core, struct engine_move *move);

#endif
