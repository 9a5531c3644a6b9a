/* SPDX-License-Identifier: BSD-3-Clause */
/* Commands of the control thread, executed on the core of their object. */
#include <errno.h>

#include "dataplane/engine/loop.h"
#include "dataplane/port/port.h"
#include "dataplane/qp/doorbell.h"
#include "dataplane/qp/move.h"
#include "dataplane/qp/wake.h"

int
loop_add_client(struct core *core, struct engine_client *client)
{
	TAILQ_INSERT_TAIL(&core->clients, client, link);
	core->clients_count++;
	idle_watch(core, client);
	return 0;
}

static int
client_remove(struct core *core, struct engine_client *client)
{
	idle_forget(core, client);
	if (client->bounce != NULL)
		bounce_detach(client->bounce, qp_bounced, core);
	TAILQ_REMOVE(&core->clients, client, link);
	core->clients_count--;
	share_leave(core, client);
	return 0;
}

static int
qp_add(struct core *core, struct engine_qp *qp)
{
	const struct engine_qp *there = qp->client->qps[qp->doorbell];

	if (there != NULL && doorbell_lane(there) == NULL)
		return -EEXIST;
	qp_enter_lane(qp);
	qpn_publish(qp);
	return 0;
}

static int
qp_remove(struct core *core, struct engine_qp *qp)
{
	qp_forget(core, qp);
	qpn_withdraw(qp);
	if (qp->client->qps[qp->doorbell] == qp)
		qp->client->qps[qp->doorbell] = NULL;
	return 0;
}

static int
qp_modify(struct engine_qp *qp, const struct engine_qp_config *config)
{
	if (qp->state != RC_RESET)
		return -EISCONN;
	qp_configure(qp, config);
	memset(qp->origin, 0, sizeof(qp->origin)); /* of rings that it may not have any more */
	return 0;
}

static enum qp_transport
transport_to(const struct engine_connection *connection, bool here)
{
	if (connection->local && (here || !connection->out_of_band))
		return QP_LOCAL;
	return port_by_addr(&connection->rc.path.dst) != NULL ? QP_LOOP : QP_WIRE;
}

static int
qp_connect(struct core *core, struct engine_qp *qp, const struct engine_connection *connection)
{
	struct engine_qp *peer = engine_qp_find(connection->rc.peer_qpn);
	/* A take-over keeps lanes of one number on one core. */
	bool here = peer != NULL && qp_core(peer) == core && peer->client->number == qp->client->number;

	if (qp->state != RC_RESET)
		return -EISCONN;
	if (qp->transport == QP_UD || (connection->state != RC_RTR && connection->state != RC_RTS))
		return -EINVAL;
	qp->attr = connection->rc;
	qp->attr.qpn = qp->qpn;
	qp->pz = connection->rc.pz;
	qp->transport = (uint8_t)transport_to(connection, here);
	qp->to = TX_TO(qp->port,
		       connection->peer_core < ports[qp->port].far_rings ? connection->peer_core : 0);
	qp->silent_at = 0;
	/* Pairs with the load in engine_qp_heard_there: packets of an earlier peer do not count. */
	atomic_store_explicit(&qp->heard_there, 0, memory_order_relaxed);
	/* Pairs with the load in engine_qp_source_port: the same holds for what an earlier peer asked for. */
	atomic_store_explicit(&qp->source_port, 0, memory_order_relaxed);
	qp->out_of_band = connection->out_of_band;
	qp->is_apart = false;
	qp_set_state(qp, connection->state == RC_RTS ? RC_RTS : RC_RTR, "connected");
	if (qp_has_rc(qp))
		rc_connect(qp->rc, &qp->attr, connection->state);
	qp_store_state(qp, connection->state == RC_RTS ? ONE_QP_CONNECTED : ONE_QP_CONNECTING);
	if (qp->state == RC_RTS)
		qp_make_hot(core, qp);
	/* The local peer may have connected first and wait. */
	if (qp->transport == QP_LOCAL && here)
		local_kick(core, qp);
	return 0;
}

/* Sets the requester's part of the connection after the responder has started. */
static void
take_requester(struct engine_qp *qp, const struct rc_attr *attr)
{
	qp->attr.send_psn = attr->send_psn;
	qp->attr.rd_atomic_out = attr->rd_atomic_out;
	qp->attr.retry_count = attr->retry_count;
	qp->attr.rnr_retry = attr->rnr_retry;
	qp->attr.timeout = attr->timeout;
	if (qp_has_rc(qp))
		rc_set_requester(qp->rc, &qp->attr);
}

/* The report's number counts even if the queue pair has failed, or its peer's first packet has established
 * it. */
static void
report_established(struct core *core, const struct engine_qp *qp, const struct engine_command *command,
		   bool due)
{
	if (command->report.number != 0)
		cq_report(core, qp->conn_cq, due ? &command->event : NULL, &command->report);
}

static int
qp_rts(struct core *core, struct engine_qp *qp, const struct engine_command *command)
{
	bool awaited = qp->setup == QP_SETUP_AWAITED;

	if (qp->transport == QP_UD || (qp->state != RC_RTR && qp->state != RC_RTS)) {
		report_established(core, qp, command, false);
		return -ENOTCONN;
	}
	if (qp->state == RC_RTR) {
		if (qp->out_of_band)
			take_requester(qp, &command->connection.rc);
		qp_set_state(qp, RC_RTS, "established");
		if (qp_has_rc(qp))
			rc_set_rts(qp->rc);
	}
	if (awaited) {
		qp_set_setup(qp, QP_SETUP_DONE, "a command");
		qp_store_state(qp, ONE_QP_CONNECTED);
	}
	report_established(core, qp, command, awaited);
	qp_make_hot(core, qp);
	if (qp_has_rc(qp))
		rcio_after(core, qp);
	return 0;
}

static int
qp_datagram(struct core *core, struct engine_qp *qp, const struct engine_datagram *to)
{
	if (qp->transport != QP_UD || (to->state != RC_RTR && to->state != RC_RTS))
		return -EINVAL;
	if (qp->state == RC_ERROR)
		return -ENOTCONN;
	qp->qkey = to->qkey;
	if (to->state == RC_RTS && qp->state != RC_RTS) {
		qp->attr.send_psn = to->send_psn;
		qp_set_state(qp, RC_RTS, "datagrams");
		qp_store_state(qp, ONE_QP_CONNECTED);
		qp_make_hot(core, qp);
	} else if (qp->state == RC_RESET) {
		qp_set_state(qp, RC_RTR, "datagrams");
		qp_store_state(qp, ONE_QP_CONNECTING);
	}
	return 0;
}

static int
qp_set(struct core *core, struct engine_qp *qp, const struct one_qp_settings *to)
{
	bool stops = (to->given & ONE_QP_SET_STOPPED) != 0 && to->stopped != 0;

	/* A disconnect that drains the queue is not stopped any more. */
	if ((qp->state != RC_RTR && qp->state != RC_RTS) || (stops && qp->send == QP_SEND_DRAINING))
		return -ENOTCONN;
	if ((to->given & ONE_QP_SET_ACCESS) != 0)
		qp->attr.access = to->access;
	if ((to->given & ONE_QP_SET_MIN_RNR_TIMER) != 0)
		qp->attr.min_rnr_timer = to->min_rnr_timer;
	if (qp_has_rc(qp))
		rc_set_responder(qp->rc, &qp->attr);
	if (stops)
		qp_stop(core, qp, to->notify != 0);
	else if ((to->given & ONE_QP_SET_STOPPED) != 0)
		qp_resume(core, qp, "by the application");
	return 0;
}

static int
qp_path(struct core *core, struct engine_qp *qp, const struct wire_path *path)
{
	if (!qp_has_rc(qp) || qp->state == RC_RESET)
		return -ENOTCONN;
	rcio_set_path(qp, path);
	return 0;
}

static int
qp_end(struct core *core, struct engine_qp *qp, const struct engine_command *command)
{
	struct one_cqe event = command->event;

	/*
	 * Begins the requests posted earlier, as if the ring had been polled a moment before: where threads
	 * share a processor the core mostly finds the command together with the posts, and the command first.
	 */
	if (qp->state == RC_RTS)
		share_poll(core, qp);
	if (qp->state == RC_RTS && qp_has_rc(qp) && command->refusal != 0)
		rc_refused(qp->rc, command->refusal, core->now);
	if (qp->state == RC_ERROR && command->status_if_broken != 0)
		event.status = command->status_if_broken;
	qp_flush(core, qp);
	if (event.type != 0 && qp->conn_cq != NULL)
		cq_report(core, qp->conn_cq, &event, &command->report);
	return 0;
}

static int
execute_command(struct core *core, const struct engine_command *command)
{
	struct engine_qp *qp = command->qp;

	switch (command->type) {
	case ENGINE_CLIENT_ADD:
		return loop_add_client(core, command->client);
	case ENGINE_CLIENT_REMOVE:
		return client_remove(core, command->client);
	case ENGINE_CLIENT_SYNC:
	case ENGINE_CQ_ADD:
		return 0;
	case ENGINE_CQ_RESIZE:
		return cq_resize(core, command->cq, command->cq_config.offset, command->cq_config.log2);
	case ENGINE_CQ_REMOVE:
		cq_forget(core, command->cq);
		return 0;
	case ENGINE_CQ_POST:
		cq_report(core, command->cq, &command->event, &command->report);
		return 0;
	case ENGINE_QP_ADD:
		return qp_add(core, qp);
	case ENGINE_QP_MODIFY:
		return qp_modify(qp, &command->qp_config);
	case ENGINE_QP_CONNECT:
		return qp_connect(core, qp, &command->connection);
	case ENGINE_QP_DATAGRAM:
		return qp_datagram(core, qp, &command->datagram);
	case ENGINE_QP_RTS:
		return qp_rts(core, qp, command);
	case ENGINE_QP_SET:
		return qp_set(core, qp, &command->settings);
	case ENGINE_QP_STATE:
		/* A queue pair that has broken meanwhile only awaits its end. */
		if (qp->state != RC_ERROR)
			qp_store_state(qp, command->state);
		return 0;
	case ENGINE_QP_DRAIN:
		qp_drain(core, qp);
		return 0;
	case ENGINE_QP_FLUSH:
		return qp_end(core, qp, command);
	case ENGINE_QP_RESET:
		qp_reset(core, qp);
		return 0;
	case ENGINE_QP_REMOVE:
		return qp_remove(core, qp);
	case ENGINE_QP_FREEZE:
		return qp_freeze(core, command->move);
	case ENGINE_QP_THAW:
		return qp_thaw(core, command->move);
	case ENGINE_QP_MOVED:
		return qp_moved(core, command->move);
	case ENGINE_QP_BIND_DONE:
		return qp_bind_done(core, qp, command->ok, command->copies);
	case ENGINE_QP_PATH:
		return qp_path(core, qp, &command->path);
	case ENGINE_QP_SIGNAL:
		return qp_signal(core, qp, command->event.imm);
	case ENGINE_CHANNEL_FD:
		wake_by_socket(command->client, command->channel.id, command->channel.fd);
		return 0;
	case ENGINE_SRQ_ADD:
	case ENGINE_SRQ_REMOVE:
		return 0; /* reached only through its queue pairs */
	case ENGINE_SRQ_LIMIT:
		srq_set_limit(core, command->srq, command->limit);
		return 0;
	case ENGINE_SRQ_SWAP:
		srq_exchange_rings(command->srq, command->other_srq);
		return 0;
	}
	return -EINVAL;
}

/*
 * Processes frames that had arrived, or that another core had handed over, before a command was sent: the
 * NAK that ended a connection precedes the flush that it causes, and so does the last acknowledgement before
 * a disconnect, which another core may have received.
 */
static uint32_t
frames_before(struct core *core)
{
	uint32_t left, done = 0, bursts = 0;

	do
		done += rcio_receive(core);
	while (core->rx_more && ++bursts < DRAIN_BURSTS);
	/* Pairs with the release that ends an enqueue to the command ring. */
	atomic_thread_fence(memory_order_acquire);
	for (left = ring_used(core->inbound); left > 0;) {
		uint32_t n = rcio_inbound(core);

		if (n == 0)
			break;
		done += n;
		left -= RTE_MIN(n, left);
	}
	return done;
}

uint32_t
loop_commands(struct core *core)
{
	uint32_t done = 0, due = ring_used(core->commands), frames = 0;

	if (due == 0 && STAILQ_EMPTY(&core->backlog))
		return 0;
	if (due > 0)
		frames = frames_before(core);
	due = RTE_MIN(due, (uint32_t)CORE_COMMANDS);
	/* The backlog of events goes first; then commands, while the acknowledgement of a command and the
	 * events it raises fit the ring at once. So the order of event.c holds. */
	while (done < due && event_drain(core) && ring_used(core->up) < CORE_UP_RING - CORE_UP_RESERVE) {
		struct engine_command *command;

		if (rte_ring_sc_dequeue(core->commands, (void **)&command) != 0)
			break;
		command->status = execute_command(core, command);
		cq_unstage(core); /* publishes earlier completions before the acknowledgement */
		event_acknowledge(core, command);
		done++;
	}
	return done + frames;
}
