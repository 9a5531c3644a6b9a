/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Records of what the cores own. Each form lists the fields that the constructors of object.c do not set.
 * Lists, timers and pointers follow from them.
 */
#include "dataplane/engine/takeover.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rte_launch.h>

#include "dataplane/core/stats.h"
#include "dataplane/engine/loop.h"
#include "dataplane/port/port.h"
#include "dataplane/qp/doorbell.h"
#include "dataplane/qp/move.h"
#include "dataplane/qp/wake.h"
#include "dataplane/rc/params.h"

/* ---- forms ---- */

#define LANE(member) RECORD_FIELD(engine_client, member, RECORD_VALUE, 0, NULL)
static const struct record_field lane_fields[] = {
	RECORD_FIELD(engine_client, groups, RECORD_VALUE, ONE_QPS_MAX / ONE_DOORBELL_GROUP + 1, NULL),
	LANE(keys_answered),
	LANE(keys_ask),
	LANE(keys_begun),
	LANE(work),
	LANE(completions),
};
static RECORD_FORM(lane_form, RECORD_LANE_CORE, 1, lane_fields);

#define CQ(member) RECORD_FIELD(engine_cq, member, RECORD_VALUE, 0, NULL)
static const struct record_field cq_fields[] = {
	CQ(tail),           CQ(head_seen),
	CQ(base),           CQ(notify_tail),
	CQ(solicited_tail), CQ(reported_tail),
	CQ(arm_seen),       RECORD_FIELD(engine_cq, overflowed, RECORD_VALUE, 2, NULL),
	CQ(reports),        CQ(mark_begin),
	CQ(mark_end),       CQ(mark_count),
	CQ(mark_ring),      CQ(reports_sent),
};
static RECORD_FORM(cq_form, RECORD_CQ_CORE, 1, cq_fields);

static const struct record_field srq_fields[] = {
	RECORD_FIELD(engine_srq, taken, RECORD_VALUE, 0, NULL),
	RECORD_FIELD(engine_srq, limit, RECORD_VALUE, 0, NULL),
};
static RECORD_FORM(srq_form, RECORD_SRQ_CORE, 1, srq_fields);

#define QP(member) RECORD_FIELD(engine_qp, member, RECORD_VALUE, 0, NULL)
#define BELOW(member, end) RECORD_FIELD(engine_qp, member, RECORD_VALUE, end, NULL)
#define FLAG(member) BELOW(member, 2)
static const struct record_field qp_fields[] = {
	QP(sq_head),
	QP(sq_taken),
	QP(sq_done),
	BELOW(state, RC_ERROR + 1),
	BELOW(transport, QP_UD + 1),
	BELOW(request, QP_REQUEST_WAITS + 1),
	BELOW(send, QP_SEND_DRAINING + 1),
	BELOW(setup, QP_SETUP_DONE + 1),
	QP(to),
	QP(rq_head),
	QP(rq_taken),
	QP(rq_done),
	/* the connection */
	QP(attr.qpn),
	QP(attr.peer_qpn),
	QP(attr.pz),
	QP(attr.access),
	BELOW(attr.send_psn, 1u << 24),
	BELOW(attr.recv_psn, 1u << 24),
	BELOW(attr.path_mtu, UINT16_MAX),
	BELOW(attr.rd_atomic_in, RC_RD_ATOMIC_MAX + 1),
	BELOW(attr.rd_atomic_out, RC_RD_ATOMIC_MAX + 1),
	BELOW(attr.retry_count, 8),
	BELOW(attr.rnr_retry, 8),
	BELOW(attr.min_rnr_timer, 32),
	BELOW(attr.timeout, 32),
	QP(attr.hello_port),
	FLAG(attr.oneside_peer),
	FLAG(attr.selective),
	FLAG(attr.packed),
	FLAG(attr.peer_yields),
	QP(attr.path),
	FLAG(out_of_band),
	/* the message under way, by the local transport */
	QP(work),
	QP(moved),
	QP(wait_status),
	FLAG(is_apart),
	QP(recv),
	FLAG(recv_taken),
	QP(qkey),
	QP(found),
	/* RSM */
	QP(signals_owed), /* the peer limits what it counts */
	FLAG(signal_once),
	/* for the control thread */
	QP(heard),
	QP(refusal),
	QP(unacknowledged),
	QP(source_port),
	/* entries in other rings */
	FLAG(origin[0].known),
	QP(origin[0].flags),
	QP(origin[0].ring),
	QP(origin[0].count),
	QP(origin[0].seen),
	FLAG(origin[1].known),
	QP(origin[1].flags),
	QP(origin[1].ring),
	QP(origin[1].count),
	QP(origin[1].seen),
	FLAG(origin[2].known),
	QP(origin[2].flags),
	QP(origin[2].ring),
	QP(origin[2].count),
	QP(origin[2].seen),
};
static RECORD_FORM(qp_form, RECORD_QP_CORE, 1, qp_fields);

/* Counters of a core, with `hz` cycles a second. */
struct core_counters {
	uint64_t hz;
	struct engine_stats stats;
};

/* All counters are one field, so that none is forgotten. Another order of them needs another version. */
static const struct record_field core_fields[] = {
	RECORD_FIELD(core_counters, hz, RECORD_VALUE, 0, NULL),
	RECORD_FIELD(core_counters, stats, RECORD_VALUE, 0, NULL),
};
static RECORD_FORM(core_form, RECORD_CORE, 1, core_fields);

static const struct record_field port_fields[] = {
	{0, sizeof(struct engine_port_stats), RECORD_VALUE, 0, NULL},
};
static RECORD_FORM(port_form, RECORD_PORT, 1, port_fields);

static const struct record_context no_context;

/* ---- the old process ---- */

bool
engine_is_quiet(void)
{
	for (uint32_t i = 0; i < engine.num_cores; i++) {
		const struct core *core = engine.core[i];

		if (ring_used(core->commands) > 0 || ring_used(core->up) > 0 || core->unsent != NULL ||
		    !STAILQ_EMPTY(&core->backlog) || !TAILQ_EMPTY(&core->quiescing))
			return false;
	}
	return true;
}

bool
engine_lane_is_quiet(const struct engine_client *lane)
{
	return lane->keys_wait.stage == KEYS_IDLE && !lane->faulty &&
	       (lane->bounce == NULL || bounce_is_idle(lane->bounce));
}

/* True if the transport has state that only a record can hold. */
static bool
is_connected(const struct engine_qp *qp)
{
	return qp->transport != QP_UD && (qp->state == RC_RTR || qp->state == RC_RTS);
}

/* True if datagrams wait in staging memory, which no record holds: for the copy thread, or for a frame. */
static bool
has_datagrams(const struct engine_qp *qp)
{
	return qp->transport == QP_UD &&
	       (bounce_queued(&qp->bounce, BOUNCE_LEAVING) || bounce_queued(&qp->bounce, BOUNCE_ARRIVED));
}

int
engine_qp_freeze(struct engine_qp *qp, struct engine_move **move)
{
	struct engine_qp_config config = {.send_cq = qp->send_cq,
					  .recv_cq = qp->recv_cq,
					  .conn_cq = qp->conn_cq,
					  .async_cq = qp->async_cq};
	int error;

	*move = NULL;
	if (qp->bind != QP_BIND_NONE || qp->node.queued || has_datagrams(qp))
		return -EAGAIN;
	if (!is_connected(qp))
		return 0;
	*move = engine_move_new(qp, qp->client, &config);
	if (*move == NULL)
		return -ENOMEM;
	qp->move = *move;
	error = qp_freeze(qp_core(qp), *move);
	if (error == 0)
		return 0;
	qp->move = NULL;
	engine_move_free(*move);
	*move = NULL;
	return error;
}

void
engine_qp_unfreeze(struct engine_move *move)
{
	if (move == NULL)
		return;
	move->returns = true;
	/* The rings that the application takes first are named in the queue pair's own ring already, which
	 * may be full. */
	memset(move->after, 0, sizeof(move->after));
	/* The nodes in `frozen` are enough, and no ring needs an entry. */
	(void)qp_thaw(move->from.lane->core, move);
	move->qp->move = NULL;
	engine_move_free(move);
}

const char *
engine_port_obstacle(uint32_t port)
{
	if (port_is_driven_by(&ports[port], "net_bonding"))
		return "the members of a bond stay open until the process ends";
	return NULL;
}

void
engine_ports_close(void)
{
	bool awaits = false;

	for (uint32_t i = 0; i < ports_num; i++) {
		port_set_flag(&ports[i], PORT_FLAG_PAUSED, true);
		port_close(&ports[i]);
		awaits = awaits || port_awaits_queues(&ports[i]);
	}
	if (awaits)
		xdp_await_queues();
}

int
engine_ports_reopen(char *why, size_t why_len)
{
	int last = 0;

	for (uint32_t i = 0; i < ports_num; i++) {
		int error = port_reopen_freed(&ports[i], why, why_len);

		/* A port that did not open stays paused, and is opened again every second: link.c.  So is a
		 * memif without its peer, which is started again. */
		ports[i].replaced = error != 0;
		if (error == 0 && ports[i].started)
			port_set_flag(&ports[i], PORT_FLAG_PAUSED, false);
		else
			last = error;
	}
	return last;
}

/* At most as many as rings may hold, so that arriving frames do not keep the control thread here. */
#define DRAINED_MAX 65536u

static void
drain_queue(uint16_t device, uint16_t queue)
{
	struct rte_mbuf *frames[32];

	for (uint32_t n = 0; n < DRAINED_MAX; n += RTE_DIM(frames)) {
		uint16_t count = rte_eth_rx_burst(device, queue, frames, RTE_DIM(frames));

		rte_pktmbuf_free_bulk(frames, count);
		if (count == 0)
			return;
	}
}

void
engine_ports_drain(void)
{
	for (uint32_t i = 0; i < ports_num; i++)
		for (uint16_t queue = 0; queue < ports[i].rx_queues; queue++)
			drain_queue(ports[i].device, queue);
}

void
engine_counters_write(struct record_out *out)
{
	struct core_counters core = {.hz = engine_hz()};
	struct engine_port_stats port;

	for (uint32_t i = 0; i < engine.num_cores; i++) {
		engine_stats(i, &core.stats);
		record_put(out, &core_form, i, &core, &no_context);
	}
	for (uint32_t i = 0; i < ports_num; i++)
		if (port_stats(&ports[i], &port))
			record_put(out, &port_form, i, &port, &no_context);
}

void
engine_lane_write(const struct engine_client *lane, struct record_out *out)
{
	record_put(out, &lane_form, lane->number, lane, &no_context);
}

/* A queue pair has moved from lane `from` to lane `to`, by their numbers. */
struct forward {
	uint32_t from, to;
};

static void
write_forward(const struct engine_client *lane, uint32_t doorbell, struct record_out *out)
{
	const struct engine_client *to = doorbell_lane(lane->qps[doorbell]);
	struct forward *forward;

	if (to == NULL || to == lane) /* a frozen queue pair leads to its own lane */
		return;
	forward = record_append(out, RECORD_FORWARD, 1, doorbell, sizeof(*forward));
	if (forward != NULL)
		*forward = (struct forward){lane->number, to->number};
}

void
engine_forwards_write(const struct engine_client *home, struct record_out *out)
{
	for (const struct engine_client *lane = home; lane != NULL; lane = engine_lane_next(lane))
		for (uint32_t i = 0; i < lane->groups * ONE_DOORBELL_GROUP; i++)
			write_forward(lane, i, out);
}

void
engine_cq_write(const struct engine_cq *cq, struct record_out *out)
{
	record_put(out, &cq_form, cq->number, cq, &no_context);
}

int
engine_cq_last_report(const struct engine_cq *first)
{
	return first->last_report == NULL ? -1 : (int)first->last_report->number;
}

uint64_t
engine_lane_channels(const struct engine_client *lane)
{
	return (uint64_t)((uint8_t *)lane->channels - lane->arena);
}

uint64_t
engine_lane_keys(const struct engine_client *lane)
{
	return (uint64_t)((uint8_t *)lane->home->keys - lane->arena);
}

uint64_t
engine_lane_copies(const struct engine_client *lane)
{
	return lane->bounce == NULL ? 0 : (uint64_t)((uint8_t *)bounce_shm(lane->bounce) - lane->arena);
}

uint32_t
engine_lane_handed_over(const struct engine_client *lane)
{
	return lane->bounce == NULL ? 0 : bounce_handed_over(lane->bounce);
}

void
engine_srq_write(const struct engine_srq *srq, struct record_out *out)
{
	record_put(out, &srq_form, srq->id, srq, &no_context);
}

void
engine_qp_write(const struct engine_qp *qp, const struct engine_move *move, struct record_out *out)
{
	uint32_t size;
	void *at;

	record_put(out, &qp_form, qp->qpn, qp, &no_context);
	if (move == NULL || !qp_has_rc(qp))
		return;
	size = rc_record_size(move->frozen.count);
	at = record_append(out, RECORD_QP_RC, 1, qp->qpn, size);
	if (at != NULL)
		memcpy(at, move->record, size);
}

/* ---- the new process ---- */

static int
respond_alive(void *argument)
{
	return 1;
}

bool
engine_cores_respond(void)
{
	bool all = true;

	for (uint32_t i = 0; i < engine.num_cores; i++)
		all = rte_eal_remote_launch(respond_alive, NULL, engine.core[i]->lcore) == 0 && all;
	for (uint32_t i = 0; i < engine.num_cores; i++)
		all = rte_eal_wait_lcore(engine.core[i]->lcore) == 1 && all;
	return all;
}

/* Rounds up: the seconds that metrics compute from cycles must not decrease. */
static uint64_t
scale_cycles(uint64_t cycles, uint64_t hz)
{
	return (uint64_t)(((unsigned __int128)cycles * engine_hz() + hz - 1) / hz);
}

int
engine_core_read(const struct record *record)
{
	struct core_counters core;

	if (record->head.id >= CORE_MAX || record_get(record, &core_form, &core, &no_context) != 0 ||
	    core.hz == 0)
		return -EINVAL;
	/* DPDK measures the frequency anew in each process. */
	core.stats.busy_cycles = scale_cycles(core.stats.busy_cycles, core.hz);
	core.stats.idle_cycles = scale_cycles(core.stats.idle_cycles, core.hz);
	for (uint32_t i = 0; i < ENGINE_STAGE_MAX; i++)
		core.stats.stage_cycles[i] = scale_cycles(core.stats.stage_cycles[i], core.hz);
	stats_inherit(engine.core[record->head.id % engine.num_cores], &core.stats);
	return 0;
}

int
engine_port_read(const struct record *record)
{
	struct engine_port_stats stats;

	if (record->head.id >= ports_num || record_get(record, &port_form, &stats, &no_context) != 0)
		return -EINVAL;
	port_inherit(&ports[record->head.id], &stats);
	return 0;
}

bool
engine_lane_continue(struct engine_client *lane, uint64_t copies, uint32_t handed_over)
{
	if (copies == 0)
		return true;
	if (engine_client_bounce(lane, copies) == NULL)
		return false;
	bounce_continue(lane->bounce, handed_over);
	return true;
}

int
engine_lane_read(struct engine_client *lane, const struct record *record)
{
	int error =
		record->head.id != lane->number ? -EINVAL : record_get(record, &lane_form, lane, &no_context);

	return error != 0 ? error : loop_add_client(lane->core, lane);
}

/* Forwarding must end: see doorbell_forward(). */
static bool
leads_to(const struct engine_client *lane, uint32_t doorbell, const struct engine_client *to)
{
	while (lane != NULL && lane != to)
		lane = doorbell_lane(lane->qps[doorbell]);
	return lane == to;
}

int
engine_forward_read(struct engine_client *home, const struct record *record)
{
	struct engine_client *from, *to;
	struct forward forward;

	if (record->head.version != 1 || record->head.length != sizeof(forward) ||
	    record->head.id >= ONE_QPS_MAX)
		return -EINVAL;
	memcpy(&forward, record->bytes, sizeof(forward));
	from = engine_lane_find(home, forward.from);
	to = engine_lane_find(home, forward.to);
	if (from == NULL || to == NULL || leads_to(to, (uint32_t)record->head.id, from))
		return -EINVAL;
	from->qps[record->head.id] = doorbell_forward(to);
	return 0;
}

int
engine_cq_read(struct engine_cq *cq, const struct record *record)
{
	int error = record->head.id != cq->number ? -EINVAL : record_get(record, &cq_form, cq, &no_context);

	/* Entries may wait whose event the old process has not sent. */
	if (error == 0)
		cq_mark_used(cq->client->core, cq);
	return error;
}

void
engine_cq_set_last_report(struct engine_cq *first, struct engine_cq *last)
{
	first->last_report = last;
}

int
engine_srq_read(struct engine_srq *srq, const struct record *record)
{
	return record->head.id != srq->id ? -EINVAL : record_get(record, &srq_form, srq, &no_context);
}

static bool
sum_sges(const struct one_sge *sge, uint32_t num, uint64_t *sum)
{
	*sum = 0;
	for (uint32_t i = 0; i < num && num <= ONE_MAX_SGE; i++)
		*sum += sge[i].len;
	return num <= ONE_MAX_SGE;
}

/* The request that is taken has the form that wqe_to_work() gives it, for copies rely on its sums. */
static bool
request_is_valid(const struct engine_qp *qp)
{
	const struct work *work = &qp->work;
	uint64_t sum;

	if (qp->request == QP_REQUEST_NONE)
		return true;
	if (!sum_sges(work->sge, work->num_sge, &sum))
		return false;
	/* A malformed request completes with its status, and nothing else of it is used. */
	if (work->status != ONE_STATUS_SUCCESS)
		return true;
	if (work->op >= ONE_OP_FETCH_ADD)
		return work->op < ONE_OP_MAX;
	return qp->moved <= work->length &&
	       ((work->flags & ONE_WQE_INLINE) != 0 ? work->length <= ONE_INLINE_MAX : work->length == sum);
}

/* The local transport cuts the sges, not `length`, when a message begins. */
static bool
receive_is_valid(struct engine_qp *qp)
{
	struct recv_work *recv = &qp->recv;
	uint64_t sum;

	if (!qp->recv_taken)
		return true;
	if (!sum_sges(recv->sge, recv->num_sge, &sum) || sum > recv->length)
		return false;
	recv->length = (uint32_t)sum;
	return true;
}

/* True if the fields that limits alone do not check fit the queue pair and each other. */
static bool
state_is_valid(struct engine_qp *qp)
{
	bool datagrams = qp->rc == NULL, connected = qp->state == RC_RTR || qp->state == RC_RTS;

	if ((qp->transport == QP_UD) != datagrams || !request_is_valid(qp) || !receive_is_valid(qp))
		return false;
	if (datagrams || qp->state == RC_RESET)
		return true;
	/* The zone decides which keys the queue pair may use, so it is not read but that of its object. */
	return !connected || (qp->attr.qpn == qp->qpn && qp->attr.pz == qp->pz && qp->attr.path_mtu >= 256 &&
			      qp->attr.path_mtu % 64 == 0);
}

/* A queue pair that has failed has an RC transport without work, which drops all packets. */
static void
fail_again(struct engine_qp *qp)
{
	struct rc_attr attr = qp->attr;

	attr.path_mtu = RTE_MAX(attr.path_mtu, 256); /* it may have failed before it was connected */
	rc_connect(qp->rc, &attr, RC_RTS);
	rc_flush(qp->rc);
}

static int
read_transport(struct core *core, struct engine_qp *qp, const struct record *rc)
{
	bool expects = is_connected(qp) && qp_has_rc(qp);

	if (qp->rc != NULL && qp->state == RC_ERROR && qp_has_rc(qp))
		fail_again(qp);
	if (expects != (rc != NULL))
		return -EINVAL;
	if (!expects)
		return 0;
	if (rc->head.version != 1 || rc->head.id != qp->qpn ||
	    rc_record_check(rc->bytes, rc->head.length) != 0)
		return -EINVAL;
	if (rc_thaw(qp->rc, &qp->attr, rc->bytes, core->now) != 0)
		return -ENOMEM;
	if (rc_check_thawed(qp->rc) == 0)
		return 0;
	rc_reset(qp->rc);
	return -EINVAL;
}

int
engine_qp_read(struct engine_qp *qp, const struct record *record, const struct record *rc, bool added)
{
	struct core *core = qp_core(qp);
	int error = record->head.id != qp->qpn ? -EINVAL : record_get(record, &qp_form, qp, &no_context);

	if (error == 0 && !state_is_valid(qp))
		error = -EINVAL;
	/* The peer's core selects a ring of the port, which may have fewer rings now. */
	qp->to = TX_TO(qp->port, 0);
	if (error == 0)
		error = read_transport(core, qp, rc);
	if (error != 0 || !added)
		return error;
	qp_enter_lane(qp);
	qpn_publish(qp);
	return 0;
}

void
engine_qp_go_on(struct engine_qp *qp)
{
	if (is_connected(qp))
		qp_join_lane(qp_core(qp), qp);
	else if (qp->state != RC_RESET)
		qp_make_hot(qp_core(qp), qp);
	loop_repeat_qp(qp_core(qp), qp);
}

void
engine_channel_set(struct engine_client *client, uint32_t id, int fd)
{
	wake_by_socket(client, id, fd);
}
