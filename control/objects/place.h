/* SPDX-License-Identifier: BSD-3-Clause */
/* On which polling core a queue pair is (doc/cores.md). */
#ifndef CONTROL_OBJECTS_PLACE_H
#define CONTROL_OBJECTS_PLACE_H

#include "control/objects/qp.h"

/* Gives a queue pair of QP_CREATE its core, unless it has one, and makes the core take it.  `near`: its peer,
 * if that is of this data plane; else NULL. */
void place_qp(struct qp *qp, struct qp *near);
/* The queue pair is on the attachment's first core for good. */
void place_at_home(struct qp *qp);
/* Queue pairs that have this core. */
uint32_t place_count(uint32_t core);
/* A queue pair that has a core is freed. */
void place_forget(const struct qp *qp);

#endif
