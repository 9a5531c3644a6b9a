/* SPDX-License-Identifier: BSD-3-Clause */
/* Moves a connected queue pair to another polling core (doc/cores.md). */
#ifndef CONTROL_OBJECTS_QP_MOVE_H
#define CONTROL_OBJECTS_QP_MOVE_H

#include "control/objects/qp.h"

/*
 * Begins the move of `qp` and, if it is not NULL, of `peer`, its peer on the same core, since a local
 * transfer is a copy only within one core. The log has the result. Returns NULL, or the reason for a refusal,
 * as the end of a sentence.
 */
const char *qp_move_begin(struct qp *qp, struct qp *peer, uint32_t core);
/* Returns the reason why such a queue pair cannot move now, as the end of a sentence; NULL: it may. */
const char *qp_move_refusal(const struct qp *qp);
/* The queue pair will be freed, or was reset. */
void qp_move_forget(struct qp *qp);
/* Moves whose queue pair was busy are tried again; NEVER: there is none. */
uint64_t qp_moves_deadline(void);
void qp_moves_poll(void);

#endif
