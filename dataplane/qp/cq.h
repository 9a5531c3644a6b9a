/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion rings, as their core sees them.
 */
#ifndef DATAPLANE_QP_CQ_H
#define DATAPLANE_QP_CQ_H

#include "dataplane/core/core.h"

struct engine_cq {
	struct one_cqe *ring;
	struct one_cq_shm *shm;
	struct one_cq_bundle *bundle; /* the completion queue that this ring belongs to */
	uint32_t tail, limit;         /* limit: entries that fit, one less than slots */
	uint32_t head_seen;           /* the application's progress, checked */
	uint32_t log2;
	uint32_t number;         /* of the ring in its bundle */
	uint64_t base;           /* entries stored when `tail` was 0 last, as of `head_seen`: cq_position() */
	uint32_t notify_tail;    /* index after the newest entry with ONE_CQE_NOTIFY */
	uint32_t solicited_tail; /* index after the newest entry with ONE_CQE_SOLICITED */
	uint32_t reported_tail;  /* tail when an event was sent last */
	uint64_t arm_seen;       /* last arm that was due: this core or another has answered it */
	bool dirty, overflowed;
	STAILQ_ENTRY(engine_cq) dirty_link;
	struct engine_client *client;
	struct engine_cq *async_cq;
	uint32_t id;
	uint32_t reports; /* number of the newest report executed */
	/* Newest run of ONE_CQE_AFTER without another entry in between (move.c): positions of its begin and
	 * end, and the ring and count that its last entry names. */
	uint64_t mark_begin, mark_end;
	uint64_t mark_count;
	uint32_t mark_ring;
	/* Control thread only. */
	struct reap reap;
	struct engine_cq *first;       /* ring 0 of the bundle */
	struct engine_cq *last_report; /* in ring 0: the ring of the bundle's newest report; NULL: none yet */
	uint32_t reports_sent;         /* number of the newest report sent to this ring */
};

/* Returns a ring's position: entries stored since it was made, without ONE_CQE_SWITCHED. */
static inline uint64_t
cq_position(const struct engine_cq *cq)
{
	return cq->base + cq->head_seen + (cq->tail - cq->head_seen);
}

/* `resumes`: the ring has entries, and a record the indices; else both are empty. */
int cq_attach(struct engine_cq *cq, uint64_t bundle, uint64_t offset, uint32_t log2, bool resumes);
int cq_resize(struct core *core, struct engine_cq *cq, uint64_t offset, uint32_t log2);
void cq_mark_used(struct core *core, struct engine_cq *cq); /* check the arm in this loop; NULL: no effect */
bool cq_fits_one(struct engine_cq *cq);                     /* for one entry */
void cq_push(struct core *core, struct engine_cq *cq, const struct one_cqe *entry);
/* Push an event of the control thread. The tail counts it at once, so before the command is answered. `entry`
 * NULL: only mark the place of an event that needs no entry. */
void cq_report(struct core *core, struct engine_cq *cq, const struct one_cqe *entry,
	       const struct engine_report *report);
/* Push an entry that notifies, for an event of `object`; `cq` NULL: no effect. */
void cq_notify(struct core *core, struct engine_cq *cq, uint32_t object, uint8_t type, uint8_t status);
void cq_unstage(struct core *core); /* store staged entries */

/* Call before `qp` completes work: its progress is published with the stage. */
static inline void
cq_stage_qp(struct core *core, struct engine_qp *qp)
{
	if (core->stage.qp != qp) {
		cq_unstage(core);
		core->stage.qp = qp;
	}
}

/* Returns a staged entry for the queue pair of the stage; the caller fills it at once. */
static inline struct one_cqe *
cq_stage(struct core *core, struct engine_cq *cq)
{
	struct stage *stage = &core->stage;

	if (stage->cq != cq || stage->count == CORE_STAGE) {
		struct engine_qp *qp = stage->qp;

		cq_unstage(core);
		stage->qp = qp;
		stage->cq = cq;
	}
	return &stage->entry[stage->count++];
}
void cq_count(struct core *core, struct engine_cq *cq, uint32_t signal); /* counts signals */
void cq_publish(struct core *core); /* once per loop: tails, fence, arms */
void cq_forget(struct core *core, struct engine_cq *cq);

#endif
