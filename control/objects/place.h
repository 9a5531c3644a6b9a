/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses the polling core of a queue pair (doc/cores.md). */
#ifndef CONTROL_OBJECTS_PLACE_H
#define CONTROL_OBJECTS_PLACE_H

#include "control/objects/qp.h"

/* Chooses a core for a queue pair of QP_CREATE, unless it has one, and adds the queue pair there.  `near`:
 * the peer, if that is in this data plane; else NULL. */
void place_qp(struct qp *qp, struct qp *near);
/* Places the queue pair on the attachment's first core for good. */
void place_at_home(struct qp *qp);
/* Returns the client's lane of that number, with all rings that the queue pair needs; NULL: no memory. */
struct engine_client *place_lane(struct qp *qp, uint32_t number);
/* Counts a queue pair that another process has placed on its lane. */
void place_resumed(struct qp *qp);
/* Takes note that the queue pair is on another lane now. */
void place_moved(struct qp *qp, struct engine_client *lane);
/* Returns the core that the application asked for: the completion vector of the receives, else of the
 * requests; 0: any. */
uint32_t place_wish(const struct qp *qp);
/* Returns the number of queue pairs on a core. */
uint32_t place_count(uint32_t core);
/* Notes that a completion queue is used, for the completions of requests or for anything else. */
void place_use_cq(struct cq *cq, bool for_requests);
/* Uncounts a completion queue that is freed. */
void place_forget_cq(const struct cq *cq);
/* Uncounts a queue pair that is freed. */
void place_forget(const struct qp *qp);

#endif
