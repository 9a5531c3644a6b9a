/* SPDX-License-Identifier: BSD-3-Clause */
/* DRR scheduler for users and their clients on a core (share.c), and the queue pairs polled in turns. */
#ifndef DATAPLANE_QP_SHARE_H
#define DATAPLANE_QP_SHARE_H

#include "dataplane/qp/qp.h"

/* Costs, in bytes that are copied in the same time. */
enum {
	SHARE_POLL = 64, /* poll of a queue pair's ring */
	SHARE_REQUEST = 256,
	SHARE_FRAME = 512,
	SHARE_WAKE = 16384,  /* a system call */
	SHARE_PACKET = 4096, /* payload of the longest frame */
	SHARE_ANSWERS = 4,   /* divisor: part of its turns' bytes with which a held user may answer READs */
	SHARE_QUANTUM = 32768,
	SHARE_FLIGHT = 1024 /* packets: at most this many in flight of one queue pair */
};
#define SHARE_UNBOUNDED (UINT64_MAX / 2)

/* Give all busy clients their turns. Returns 0 if none had anything to do. */
uint32_t share_run(struct core *core);
/* True until the turn under way has used up its credit. */
bool share_lasts(const struct core *core);
void share_leave(struct core *core, struct engine_client *client);
/* Poll a queue pair outside its turn, because its connection ends; charged like a poll in its turn. */
void share_poll(struct core *core, struct engine_qp *qp);
extern const struct timer_calls share_timer_calls;

/* Charge what was done for the client outside its turn. */
static inline void
share_charge(const struct core *core, struct engine_client *client, uint64_t cost)
{
	if (!core->drr.contended)
		return;
	client->share.credit -= (int64_t)cost;
	client->share.group->credit -= (int64_t)cost;
}

static inline void
share_flight(struct engine_qp *qp, uint32_t flight)
{
	qp->client->share.flight += flight - qp->flight;
	qp->client->core->drr.flight += flight - qp->flight;
	qp->flight = flight;
}
/* Returns the frames that may answer READs outside turns. */
static inline uint32_t
share_reads(const struct engine_qp *qp)
{
	const struct share_group *group = qp->client->share.group;
	int64_t frames;

	if (!group->held || group->answer_room <= 0)
		return 0;
	frames = group->answer_room / qp->attr.path_mtu + 1;
	return (uint32_t)RTE_MIN(frames, (int64_t)CORE_RUN_BUDGET);
}
static inline void
share_answered(struct engine_qp *qp, uint64_t bytes)
{
	struct share_group *group = qp->client->share.group;

	group->answer_room -= (int64_t)bytes;
	group->answered += bytes;
}
static inline void
share_join(struct core *core, struct engine_client *client)
{
	struct share_group *group = client->share.group;

	if (client->share.busy)
		return;
	client->share.busy = true;
	TAILQ_INSERT_TAIL(&group->busy, client, share.link);
	group->count++;
	if (unlikely(group->held))
		return;
	core->drr.clients++;
	if (group->queued)
		return;
	group->queued = true;
	TAILQ_INSERT_TAIL(&core->drr.busy, group, link);
	core->drr.groups++;
}

static inline void
qp_make_hot(struct core *core, struct engine_qp *qp)
{
	qp->empty_looks = 0;
	if (!(qp->lists & QP_IN_HOT) && !qp->client->faulty) {
		struct share *share = &qp->client->share;

		qp->lists |= QP_IN_HOT;
		qp->hot_at = share->hot_count;
		share->hot[share->hot_count++] = qp;
		core->hot_count++;
		share_join(core, qp->client);
	}
}

static inline void
qp_make_cold(struct core *core, struct engine_qp *qp)
{
	if (qp->lists & QP_IN_HOT) {
		struct share *share = &qp->client->share;

		qp->lists &= (uint8_t)~QP_IN_HOT;
		share->hot[qp->hot_at] = share->hot[--share->hot_count];
		share->hot[qp->hot_at]->hot_at = qp->hot_at;
		core->hot_count--;
	}
}

#endif
