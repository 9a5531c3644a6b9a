/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Freezing a queue pair into a record, and thawing it on another core (doc/cores.md).
 *
 * The record has no pointers: numbers as they are, times relative to the moment of freezing, work requests
 * under way in the order of posting. `fields` describes it once, for both directions. What rc_attr says is
 * not in the record, unless a hello may have changed it.
 *
 * Packets held behind a hole, and payload read ahead, are dropped, and the protocol repeats them. Payload on
 * its way to memory without mapping is acknowledged or completed soon: the queue pair is not frozen before.
 */
#include "dataplane/base/record.h"
#include "params.h"
#include "sg_list.h"

#include <errno.h>
#include <string.h>

struct record_start {
	uint32_t count;   /* work requests */
	uint32_t current; /* index of rc_requester.cur; `count`: all work is sent */
	uint32_t state;   /* enum rc_state */
	uint32_t reserved;
};

struct record_work {
	uint32_t first, end;
	struct work work;
};

#define VALUE(member) RECORD_FIELD(rc_qp, member, RECORD_VALUE, 0, NULL)
#define BELOW(member, end) RECORD_FIELD(rc_qp, member, RECORD_VALUE, end, NULL)
#define FLAG(member) BELOW(member, 2)
#define TIME(member) RECORD_FIELD(rc_qp, member, RECORD_TIME, 0, NULL)

static const struct record_field fields[] = {
	VALUE(req.una),
	VALUE(req.snd),
	VALUE(req.max),
	VALUE(req.post),
	VALUE(req.cwnd),
	VALUE(req.threshold),
	VALUE(req.acked),
	VALUE(req.cwnd_fraction),
	VALUE(req.cwnd_max),
	FLAG(selective),
	FLAG(packed),
	FLAG(peer_selects),
	FLAG(recognized),
	VALUE(hello_left),
	VALUE(hello_port),
	VALUE(udp_port),
	TIME(hello_at),
	VALUE(req.stage),
	VALUE(req.rd_out),
	VALUE(req.retries),
	VALUE(req.rnr_tries),
	BELOW(req.backoff, 32),
	VALUE(req.expiries),
	FLAG(req.ready),
	FLAG(req.tlp_allowed),
	FLAG(req.recovering),
	BELOW(req.spurious, RC_SPURIOUS_PASSED + 1),
	FLAG(req.cut),
	FLAG(req.congested),
	VALUE(req.alpha),
	VALUE(req.target),
	VALUE(req.cut_psn),
	VALUE(req.srtt),
	VALUE(req.rttvar),
	VALUE(req.min_rto),
	VALUE(req.late),
	TIME(req.timer),
	TIME(req.rnr_until),
	TIME(req.progress_at),
	TIME(req.recover_at),
	FLAG(req.overdrawn),
	VALUE(req.held),
	VALUE(rsp.epsn),
	VALUE(rsp.msn),
	VALUE(rsp.reply_psn),
	BELOW(rsp.reply, RC_REPLY_FATAL + 1),
	VALUE(rsp.syndrome),
	VALUE(rsp.context),
	FLAG(rsp.nak_sent),
	VALUE(rsp.closed),
	FLAG(rsp.missed),
	FLAG(rsp.recv_held),
	VALUE(rsp.recv_status),
	FLAG(rsp.established),
	VALUE(rsp.cnp_due),
	BELOW(rsp.resource_next, RC_RD_ATOMIC_MAX),
	VALUE(rsp.pending),
	VALUE(rsp.fresh),
	VALUE(rsp.rkey),
	VALUE(rsp.left),
	VALUE(rsp.total),
	VALUE(rsp.va),
	TIME(rsp.cnp_at),
	VALUE(rsp.resource),
	VALUE(rsp.recv),
};
static RECORD_FORM(form, 0, 1, fields);

uint32_t
rc_record_size(uint32_t posted)
{
	return (uint32_t)(sizeof(struct record_start) + record_size(&form) +
			  posted * sizeof(struct record_work));
}

/* ---- freezing ---- */

/* Returns the index of the first work request that is not sent; the number of all if there is none. */
static uint32_t
write_work(const struct rc_requester *rq, uint8_t *at)
{
	uint32_t current = rq->posted, i = 0;

	for (const struct rc_node *node = rq->head; node != NULL; node = node->next, i++) {
		struct record_work one = {.first = node->first, .end = node->end, .work = node->work};

		if (node == rq->cur)
			current = i;
		memcpy(at, &one, sizeof(one));
		at += sizeof(one);
	}
	return current;
}

/* Drop what the record cannot hold, so that the protocol repeats it. */
static void
drop_held(struct rc_qp *qp, uint64_t now)
{
	struct rc_responder *rs = &qp->rsp;
	bool reported = rs->scoreboard != NULL && rs->scoreboard->holds > 0;
	bool is_recovering = qp->req.scoreboard != NULL;

	rc_scoreboards_drop(qp);
	if (is_recovering)
		rc_go_back(qp, now);
	/* The peer counts held requests as arrived. A NAK without a bitmap has it repeat them at once. */
	if (reported && rs->closed == 0 && rs->reply <= RC_REPLY_NAK_SEQ) {
		rs->reply = RC_REPLY_NAK_SEQ;
		rs->reply_psn = rs->epsn;
	}
	bounce_leave(&qp->party);
	rc_resume(qp, now);
	qp->req.rtt_pending = false;
}

/* True if payload of this end is on its way to memory without mapping, or a bind is carried out. */
static bool
is_unfinished(const struct rc_qp *qp)
{
	return qp->req.landing != NULL || qp->req.bind_started || qp->party.job[RC_BOUNCE_ATOMIC] != NULL ||
	       bounce_queued(&qp->party, BOUNCE_ARRIVED) || bounce_queued(&qp->party, BOUNCE_LANDED);
}

int
rc_freeze(struct rc_qp *qp, void *record, uint32_t size, struct rc_frozen *frozen, uint64_t now)
{
	struct record_start head = {.count = qp->req.posted, .state = qp->state};
	uint8_t *at = record;

	if (qp->state != RC_RTR && qp->state != RC_RTS)
		return -ENOTCONN;
	if (is_unfinished(qp))
		return -EAGAIN;
	if (size < rc_record_size(head.count))
		return -ENOBUFS;
	rc_run_end(qp->env);
	drop_held(qp, now);
	record_write(&form, qp, at + sizeof(head), &(struct record_context){.now = now});
	at += sizeof(head) + record_size(&form);
	head.current = write_work(&qp->req, at);
	memcpy(record, &head, sizeof(head));
	*frozen = (struct rc_frozen){qp->req.head, qp->req.tail, head.count};
	rc_init(qp, qp->env, qp->party.lane, qp->user);
	return 0;
}

void
rc_frozen_free(struct rc_env *env, struct rc_frozen *frozen)
{
	if (frozen->count > 0)
		rc_nodes_put(env->pool, frozen->first, frozen->last, frozen->count);
	frozen->count = 0;
}

/* ---- thawing ---- */

static bool
work_is_valid(const struct work *work)
{
	/* A malformed request completes with its status, and nothing else of it is used. */
	return work->status != 0 || (work->num_sge <= ONE_MAX_SGE && work->op != 0 && work->op < ONE_OP_MAX);
}

static int
check_work(const struct record_start *head, const uint8_t *at)
{
	for (uint32_t i = 0; i < head->count; i++) {
		struct record_work one;

		memcpy(&one, at + i * sizeof(one), sizeof(one));
		if (!work_is_valid(&one.work))
			return -EINVAL;
	}
	return 0;
}

int
rc_record_check(const void *record, uint32_t length)
{
	const uint8_t *at = record;
	struct record_start head;
	struct rc_qp probe;

	if (length < rc_record_size(0))
		return -EINVAL;
	memcpy(&head, at, sizeof(head));
	if (head.count > RC_POSTED_MAX || length != rc_record_size(head.count) || head.current > head.count ||
	    (head.state != RC_RTR && head.state != RC_RTS))
		return -EINVAL;
	at += sizeof(head);
	if (record_read(&form, &probe, at, &(struct record_context){.now = 0}) != 0 ||
	    probe.rsp.recv.num_sge > ONE_MAX_SGE)
		return -EINVAL;
	return check_work(&head, at + record_size(&form));
}

static void
read_work(struct rc_qp *qp, const struct record_start *head, const uint8_t *at)
{
	struct rc_requester *rq = &qp->req;

	for (uint32_t i = 0; i < head->count; i++) {
		struct rc_node *node = rc_node_get(qp->env->pool);
		struct record_work one;

		memcpy(&one, at, sizeof(one));
		at += sizeof(one);
		*node = (struct rc_node){.first = one.first, .end = one.end, .work = one.work};
		if (rq->head == NULL)
			rq->head = node;
		else
			rq->tail->next = node;
		rq->tail = node;
		if (i == head->current)
			rq->cur = node;
	}
	rq->posted = (uint16_t)head->count;
}

int
rc_thaw(struct rc_qp *qp, const struct rc_attr *attr, const void *record, uint64_t now)
{
	const uint8_t *at = record;
	struct record_start head;

	memcpy(&head, at, sizeof(head));
	if (head.count > qp->env->pool->available)
		return -ENOBUFS;
	rc_connect(qp, attr, head.state);
	/* Fields within their limits: rc_freeze() wrote them, or rc_record_check() has read them. */
	record_read(&form, qp, at + sizeof(head), &(struct record_context){.now = now});
	read_work(qp, &head, at + sizeof(head) + record_size(&form));
	return 0;
}

void
rc_repeat_lost(struct rc_qp *qp, uint64_t now)
{
	struct rc_responder *rs = &qp->rsp;

	if (qp->state == RC_RTS && qp->req.una != qp->req.snd)
		rc_go_back(qp, now);
	/* A NAK for the next packet acknowledges all before, and has the peer send it; a peer without
	 * outstanding packets drops the NAK. */
	if (rs->established && rs->closed == 0 && rs->reply <= RC_REPLY_NAK_SEQ) {
		rs->reply = RC_REPLY_NAK_SEQ;
		rs->reply_psn = rs->epsn;
	}
}

/* ---- the consistency of what another process has written ---- */

static bool
is_within(uint32_t psn, uint32_t first, uint32_t end)
{
	return psn - first <= end - first;
}

/* A request that was refused when it was posted has no packets; another one may have failed since. */
static bool
node_is_valid(const struct rc_qp *qp, const struct rc_node *node)
{
	uint32_t psns = node->end - node->first;
	struct work work = node->work;
	enum one_status status;

	work.status = ONE_STATUS_SUCCESS;
	if (psns == 0 && node->work.status != ONE_STATUS_SUCCESS)
		return true;
	return psns == rc_plan_psns(qp, &work, &status) && status == ONE_STATUS_SUCCESS;
}

/* The requests follow one another, from the oldest that is not acknowledged to the newest. */
static bool
nodes_are_valid(const struct rc_qp *qp)
{
	const struct rc_requester *rq = &qp->req;
	uint32_t next = rq->head != NULL ? rq->head->first : rq->post;

	for (const struct rc_node *node = rq->head; node != NULL; node = node->next) {
		if (node->first != next || !node_is_valid(qp, node))
			return false;
		next = node->end;
	}
	return next == rq->post;
}

static bool
requester_is_valid(const struct rc_qp *qp)
{
	const struct rc_requester *rq = &qp->req;
	const struct rc_node *head = rq->head, *cur = rq->cur;

	if (rq->post - rq->una > RC_POSTED_PSNS || !is_within(rq->max, rq->una, rq->post) ||
	    !is_within(rq->snd, rq->una, rq->max) || rq->rd_out > rq->rd_max || rq->cwnd == 0 ||
	    rq->cwnd > rq->cwnd_max || rq->cwnd_max > RC_CWND_MAX)
		return false;
	/* The timer acts on what is outstanding. */
	if (rq->timer != RC_NEVER && rq->una == rq->max)
		return false;
	if (head == NULL ? rq->una != rq->post : !is_within(rq->una, head->first, head->end))
		return false;
	if (cur == NULL ? rq->snd != rq->post : !is_within(rq->snd, cur->first, cur->end))
		return false;
	return nodes_are_valid(qp);
}

static bool
resource_is_valid(const struct rc_qp *qp, const struct rc_resource *resource)
{
	uint8_t kind = resource->opcode < 32 ? rc_request_kind[resource->opcode] : 0;
	uint32_t count = (kind & RC_REQ_READ) != 0 ? rc_packets(qp, resource->length) : 1;

	return (kind & (RC_REQ_READ | RC_REQ_ATOMIC)) != 0 && resource->first <= RC_PSN_MASK &&
	       resource->count == count && resource->end <= count && resource->next <= resource->end &&
	       resource->start <= resource->next;
}

static bool
resources_are_valid(const struct rc_qp *qp)
{
	const struct rc_responder *rs = &qp->rsp;

	for (uint32_t i = 0; i < RC_RD_ATOMIC_MAX; i++) {
		const struct rc_resource *resource = &rs->resource[i];
		bool is_pending = (rs->pending >> i & 1) != 0;

		if ((resource->count != 0 || is_pending) && !resource_is_valid(qp, resource))
			return false;
	}
	return rs->resource_next < rs->resources && rs->pending >> rs->resources == 0 &&
	       rs->fresh >> rs->resources == 0;
}

static bool
responder_is_valid(const struct rc_qp *qp)
{
	const struct rc_responder *rs = &qp->rsp;
	bool in_send = rs->context == RC_REQ_SEND;

	if (rs->epsn > RC_PSN_MASK || rs->reply_psn > RC_PSN_MASK || (rs->closed & ~RC_CLOSED_FATAL) != 0 ||
	    (rs->context != 0 && !in_send && rs->context != RC_REQ_WRITE))
		return false;
	/* Payload of a SEND goes to the receive that is held. */
	if ((in_send && !rs->recv_held) || (rs->recv_held && in_send && rs->total > rs->recv.length))
		return false;
	return resources_are_valid(qp);
}

int
rc_check_thawed(const struct rc_qp *qp)
{
	return requester_is_valid(qp) && responder_is_valid(qp) ? 0 : -EINVAL;
}
