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
#include "sg_list.h"

#include <errno.h>
#include <string.h>

struct record {
	uint32_t count;   /* work requests */
	uint32_t current; /* index of rc_requester.cur; `count`: all work is sent */
	uint32_t state;   /* enum rc_state */
	uint32_t reserved;
};

struct record_work {
	uint32_t first, end;
	struct work work;
};

struct record_field {
	uint16_t offset, size;
	bool is_time; /* rc_qp: ns; record: relative to the moment of freezing, or RC_NEVER */
};

#define SIZE(member) sizeof(((struct rc_qp *)NULL)->member)
#define VALUE(member)                                               \
	{                                                           \
		offsetof(struct rc_qp, member), SIZE(member), false \
	}
#define TIME(member)                                               \
	{                                                          \
		offsetof(struct rc_qp, member), SIZE(member), true \
	}

static const struct record_field fields[] = {
	VALUE(req.una),         VALUE(req.snd),         VALUE(req.max),        VALUE(req.post),
	VALUE(req.window),      VALUE(req.threshold),   VALUE(req.acked),      VALUE(req.window_fraction),
	VALUE(req.window_max),  VALUE(selective),       VALUE(packed),         VALUE(peer_selects),
	VALUE(recognized),      VALUE(hello_left),      VALUE(hello_port),     VALUE(udp_port),
	TIME(hello_at),         VALUE(req.stage),       VALUE(req.rd_out),     VALUE(req.retries),
	VALUE(req.rnr_tries),   VALUE(req.backoff),     VALUE(req.expiries),   VALUE(req.ready),
	VALUE(req.tlp_allowed), VALUE(req.recovering),  VALUE(req.spurious),   VALUE(req.cut),
	VALUE(req.congested),   VALUE(req.alpha),       VALUE(req.target),     VALUE(req.cut_psn),
	VALUE(req.srtt),        VALUE(req.rttvar),      VALUE(req.min_rto),    VALUE(req.late),
	TIME(req.timer),        TIME(req.rnr_until),    TIME(req.progress_at), TIME(req.recover_at),
	VALUE(req.overdrawn),   VALUE(req.held),        VALUE(rsp.epsn),       VALUE(rsp.msn),
	VALUE(rsp.reply_psn),   VALUE(rsp.reply),       VALUE(rsp.syndrome),   VALUE(rsp.context),
	VALUE(rsp.nak_sent),    VALUE(rsp.closed),      VALUE(rsp.missed),     VALUE(rsp.recv_held),
	VALUE(rsp.recv_status), VALUE(rsp.established), VALUE(rsp.cnp_due),    VALUE(rsp.resource_next),
	VALUE(rsp.pending),     VALUE(rsp.fresh),       VALUE(rsp.rkey),       VALUE(rsp.left),
	VALUE(rsp.total),       VALUE(rsp.va),          TIME(rsp.cnp_at),      VALUE(rsp.resource),
	VALUE(rsp.recv),
};
#define FIELDS (sizeof(fields) / sizeof(fields[0]))

static uint32_t
fields_size(void)
{
	uint32_t size = 0;

	for (uint32_t i = 0; i < FIELDS; i++)
		size += fields[i].size;
	return size;
}

uint32_t
rc_record_size(uint32_t posted)
{
	return (uint32_t)(sizeof(struct record) + fields_size() + posted * sizeof(struct record_work));
}

/* ---- fields ---- */

/* Converts a time between a queue pair, whose core has the time `now`, and a record. */
typedef uint64_t convert_time(uint64_t time, uint64_t now);

static void
copy_field(void *to, const void *from, const struct record_field *field, convert_time *convert, uint64_t now)
{
	uint64_t time;

	memcpy(to, from, field->size);
	if (field->is_time) {
		memcpy(&time, to, sizeof(time));
		time = convert(time, now);
		memcpy(to, &time, sizeof(time));
	}
}

/* ---- freezing ---- */

/* Returns a time relative to `now`. */
static uint64_t
relative_time(uint64_t time, uint64_t now)
{
	return time == RC_NEVER ? RC_NEVER : time - now;
}

static uint8_t *
write_fields(const struct rc_qp *qp, uint8_t *at, uint64_t now)
{
	for (uint32_t i = 0; i < FIELDS; i++) {
		copy_field(at, (const uint8_t *)qp + fields[i].offset, &fields[i], relative_time, now);
		at += fields[i].size;
	}
	return at;
}

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
	return qp->req.landing != NULL || qp->req.bind_started || qp->party.job[RC_REACH_ATOMIC] != NULL ||
	       bounce_queued(&qp->party, BOUNCE_ARRIVED) || bounce_queued(&qp->party, BOUNCE_LANDED);
}

int
rc_freeze(struct rc_qp *qp, void *record, uint32_t size, struct rc_kept *kept, uint64_t now)
{
	struct record head = {.count = qp->req.posted, .state = qp->state};
	uint8_t *at = record;

	if (qp->state != RC_RTR && qp->state != RC_RTS)
		return -ENOTCONN;
	if (is_unfinished(qp))
		return -EAGAIN;
	if (size < rc_record_size(head.count))
		return -ENOBUFS;
	rc_run_end(qp->env);
	drop_held(qp, now);
	at = write_fields(qp, at + sizeof(head), now);
	head.current = write_work(&qp->req, at);
	memcpy(record, &head, sizeof(head));
	*kept = (struct rc_kept){qp->req.head, qp->req.tail, head.count};
	rc_init(qp, qp->env, qp->user);
	return 0;
}

void
rc_kept_free(struct rc_env *env, struct rc_kept *kept)
{
	if (kept->count > 0)
		rc_nodes_put(env->pool, kept->first, kept->last, kept->count);
	kept->count = 0;
}

/* ---- thawing ---- */

/* Returns the time by the new core's clock; the origins of the clocks of two cores differ. */
static uint64_t
absolute_time(uint64_t relative, uint64_t now)
{
	int64_t passed = -(int64_t)relative;

	if (relative == RC_NEVER)
		return RC_NEVER;
	return passed > 0 && (uint64_t)passed > now ? 0 : now + relative;
}

static const uint8_t *
read_fields(struct rc_qp *qp, const uint8_t *at, uint64_t now)
{
	for (uint32_t i = 0; i < FIELDS; i++) {
		copy_field((uint8_t *)qp + fields[i].offset, at, &fields[i], absolute_time, now);
		at += fields[i].size;
	}
	return at;
}

static void
read_work(struct rc_qp *qp, const struct record *head, const uint8_t *at)
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
	struct record head;

	memcpy(&head, at, sizeof(head));
	if (head.count > qp->env->pool->available)
		return -ENOBUFS;
	rc_connect(qp, attr, head.state);
	at = read_fields(qp, at + sizeof(head), now);
	read_work(qp, &head, at);
	return 0;
}
