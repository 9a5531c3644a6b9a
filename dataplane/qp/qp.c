/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs: work from the shared rings, completions, and the end of a connection. The transports (rcio.c,
 * local.c, ud.c) build on this file.
 */
#include "dataplane/base/state.h"
#include "dataplane/qp/transport.h"
#include "dataplane/qp/wqe.h"

/*
 * Read a slot, which may change at any time, exactly once. The read is not atomic, so a compiler could assume
 * that slot and copy stay equal, and read the slot again for checks of the copy. The fence forbids that.
 */
static inline void
copy_once(void *copy, const void *slot, size_t len)
{
	memcpy(copy, slot, len);
	atomic_signal_fence(memory_order_seq_cst);
}

/*
 * Copy the request at free-running index `head` out of a ring, with its extension slots. Returns the number
 * of its slots; 0: no request. `ext` is filled for the number of sges that the slot claims. The claim becomes
 * invalid if it exceeds the ring, or if an extension slot was not stored before the first slot.
 */
static inline uint32_t
ring_take(const struct one_wqe *ring, uint32_t head, uint32_t log2, struct one_wqe *wqe,
	  struct one_wqe_ext ext[ONE_WQE_SLOTS_MAX - 1])
{
	const struct one_wqe *slot = &ring[one_ring_slot(head, log2)];
	uint32_t slots;

	/* Pairs with the application's release store of the phase. */
	if (atomic_load_explicit(&slot->phase, memory_order_acquire) != one_ring_phase(head, log2))
		return 0;
	copy_once(wqe, slot, sizeof(*wqe));
	if (likely(wqe->num_sge <= 1) || wqe->num_sge > ONE_MAX_SGE)
		return 1;
	slots = one_wqe_slots(wqe->num_sge);
	for (uint32_t i = 1; i < slots; i++) {
		const struct one_wqe *more = &ring[one_ring_slot(head + i, log2)];

		/* An honest application stores the phase of the first slot last, so the other slots are
		 * complete. */
		if (slots > 1u << log2 || atomic_load_explicit(&more->phase, memory_order_relaxed) !=
						  one_ring_phase(head + i, log2)) {
			wqe->num_sge = UINT8_MAX;
			return 1;
		}
		copy_once(&ext[i - 1], more, sizeof(ext[i - 1]));
	}
	return slots;
}

/* ---- signals of queue pairs that have no rings ---- */

static inline bool
signal_due(const struct engine_qp *qp)
{
	return (qp->signals_owed != 0 || qp->signal_once) && qp->sq_taken == qp->sq_done;
}

/* Take one message that stands for all signals due. At most one is under way. */
static __rte_noinline int
signal_pull(struct core *core, struct engine_qp *qp, struct work *work)
{
	bool once = qp->signals_owed == 0;

	if (!signal_due(qp))
		return 0;
	memset(work, 0, sizeof(*work));
	work->op = ONE_OP_SEND_IMM;
	work->flags = ONE_WQE_SUPPRESS;
	work->imm = rte_cpu_to_be_32(one_signal(once ? 1 : qp->signals_owed, once));
	qp->signals_owed = 0;
	qp->signal_once = false; /* dropped by the peer behind accumulated signals */
	qp->sq_taken++;
	core->stats.work++;
	client_count(&qp->client->work);
	return 1;
}

int
qp_signal(struct core *core, struct engine_qp *qp, uint32_t signal)
{
	if (qp->sq != NULL || qp->state == RC_ERROR)
		return -ENOTCONN;
	if (ONE_SIGNAL_ONCE(signal))
		qp->signal_once = true;
	else if (qp->signals_owed < ONE_SIGNALS_MAX)
		qp->signals_owed += ONE_SIGNAL_COUNT(signal);
	qp_make_hot(core, qp);
	return 0;
}

/* ---- how long requests take ---- */

/* Binds are not sampled: the control thread carries them out. */
static void
sample_begin(struct core *core, struct engine_qp *qp, uint8_t op)
{
	core->sample_at = core->stats.work - 1 + ENGINE_SAMPLE;
	if (qp->sampled_at != 0 || op == ONE_OP_BIND)
		return;
	qp->sample = qp->sq_taken;
	qp->sample_op = op;
	qp->sampled_at = rte_rdtsc();
}

static enum engine_operation
sample_operation(const struct engine_qp *qp, uint8_t op)
{
	switch (op) {
	case ONE_OP_WRITE:
	case ONE_OP_WRITE_IMM:
		return ENGINE_OPERATION_WRITE;
	case ONE_OP_READ:
		return ENGINE_OPERATION_READ;
	case ONE_OP_FETCH_ADD:
	case ONE_OP_CMP_SWAP:
		return ENGINE_OPERATION_ATOMIC;
	default:
		return qp->transport == QP_UD ? ENGINE_OPERATION_DATAGRAM : ENGINE_OPERATION_SEND;
	}
}

/* Requests complete in the order in which they were taken. */
static void
sample_end(struct core *core, struct engine_qp *qp, bool success)
{
	if ((int32_t)(qp->sq_done - qp->sample) < 0)
		return;
	if (success)
		latency_add(&core->stats.latency[sample_operation(qp, qp->sample_op)],
			    engine_now(rte_rdtsc() - qp->sampled_at));
	qp->sampled_at = 0;
}

static __rte_noinline int
too_many(struct engine_qp *qp)
{
	client_fault(qp->client, ONE_FAULT_RING);
	return -1;
}

static __rte_noinline int
sample_taken(struct core *core, struct engine_qp *qp, uint8_t op)
{
	sample_begin(core, qp, op);
	return 1;
}

static inline int
count_taken(struct core *core, struct engine_qp *qp, uint8_t op, uint32_t slots)
{
	/* The library counts, too: it never posts more than max_send_wr beyond the sq_done that was
	 * published. */
	if (unlikely(qp->sq_taken - qp->sq_done >= qp->max_send_wr))
		return too_many(qp);
	qp->sq_head += slots;
	qp->sq_taken++;
	client_count(&qp->client->work);
	if (unlikely(core->stats.work++ >= core->sample_at))
		return sample_taken(core, qp, op);
	return 1;
}

static __rte_noinline int
pull_any(struct core *core, struct engine_qp *qp, struct work *work)
{
	struct one_wqe wqe;
	struct one_wqe_ext ext[ONE_WQE_SLOTS_MAX - 1];
	uint32_t slots = ring_take(qp->sq, qp->sq_head, qp->sq_log2, &wqe, ext);

	if (slots == 0)
		return 0;
	wqe_to_work(&wqe, ext, work);
	return count_taken(core, qp, work->op, slots);
}

/* Rare cases are tail calls, so that the common case saves no registers for them. */
int
qp_pull(struct core *core, struct engine_qp *qp, struct work *work)
{
	const struct one_wqe *slot;
	uint8_t phase;

	if (unlikely(qp->sq == NULL))
		return signal_pull(core, qp, work);
	slot = &qp->sq[one_ring_slot(qp->sq_head, qp->sq_log2)];
	phase = one_ring_phase(qp->sq_head, qp->sq_log2);
	/* Pairs with the application's release store of the phase. */
	if (atomic_load_explicit(&slot->phase, memory_order_acquire) != phase)
		return 0;
	/* Not a plain request, or modified while it was read: copy the slot again. */
	if (!wqe_take_plain(slot, phase, work))
		return pull_any(core, qp, work);
	return count_taken(core, qp, work->op, 1);
}

/* Take a receive from the shared queue. The queue pair will complete or flush the receive. */
static bool
take_shared(struct core *core, struct engine_qp *qp, struct recv_work *out)
{
	struct srq_next next;
	struct one_wqe wqe;
	struct one_wqe_ext ext[ONE_WQE_SLOTS_MAX - 1];
	uint32_t slots;

	if (qp->client->faulty)
		return false;
	do {
		next = srq_find(qp->srq);
		slots = ring_take(next.ring, srq_slot(&next), next.log2, &wqe, ext);
		if (slots == 0 && srq_is_next(qp->srq, &next))
			return false;
	} while (slots == 0 || !srq_claim(core, qp, &next, slots));
	wqe_to_recv(&wqe, ext, out);
	out->flags = 0; /* posted without a queue pair: all completions notify */
	qp->rq_head = ++qp->rq_taken;
	/* Relaxed: the library only counts receives with rq_head. */
	if (qp->shm != NULL)
		atomic_store_explicit(&qp->shm->rq_head, qp->rq_head, memory_order_relaxed);
	return true;
}

bool
qp_take_recv(struct core *core, struct engine_qp *qp, struct recv_work *out)
{
	struct one_wqe wqe;
	struct one_wqe_ext ext[ONE_WQE_SLOTS_MAX - 1];
	uint32_t slots;

	if (unlikely(qp->signals)) {
		memset(out, 0, sizeof(*out)); /* length 0: nothing waits, payload is refused */
		return !qp->client->faulty;
	}
	if (qp->srq != NULL)
		return take_shared(core, qp, out);
	if (qp->rq == NULL || qp->client->faulty)
		return false;
	slots = ring_take(qp->rq, qp->rq_head, qp->rq_log2, &wqe, ext);
	if (slots == 0)
		return false;
	wqe_to_recv(&wqe, ext, out);
	qp->rq_head += slots;
	qp->rq_taken++;
	return true;
}

void
qp_publish(struct engine_qp *qp)
{
	if (qp->srq != NULL)
		srq_publish(qp->srq, qp);
	if (qp->shm == NULL)
		return;
	/* Pair with the library's acquire loads before it fills a slot again. */
	atomic_store_explicit(&qp->shm->sq_head, qp->sq_head, memory_order_release);
	atomic_store_explicit(&qp->shm->sq_done, qp->sq_done, memory_order_release);
	atomic_store_explicit(&qp->shm->rq_head, qp->rq_head, memory_order_release);
	atomic_store_explicit(&qp->shm->rq_done, qp->rq_done, memory_order_release);
}

void
qp_store_state(struct engine_qp *qp, enum one_qp_state state)
{
	if (qp->shm != NULL)
		/* Pairs with the library's acquire load. */
		atomic_store_explicit(&qp->shm->state, state, memory_order_release);
}

static inline void
stage_cqe(struct core *core, struct engine_qp *qp, struct engine_cq *cq, const struct completion *c,
	  uint8_t op, bool notify)
{
	struct one_cqe *entry = cq_stage(core, cq);

	entry->cookie = c->cookie;
	entry->length = c->length;
	entry->object = qp->id;
	entry->imm = c->imm;
	entry->src_qpn = c->src_qpn;
	entry->type = c->type;
	entry->status = c->status;
	entry->flags = c->cqe_flags | (notify ? ONE_CQE_NOTIFY : 0) |
		       (c->solicited || c->status != ONE_STATUS_SUCCESS ? ONE_CQE_SOLICITED : 0);
	entry->op = op;
}

/* Account for `count` finished requests. */
static inline void
send_done(struct core *core, struct engine_qp *qp, uint32_t count, bool success)
{
	cq_stage_qp(core, qp);
	qp->sq_done += count;
	if (unlikely(qp->sampled_at != 0))
		sample_end(core, qp, success);
	if (unlikely(qp->sq == NULL) && signal_due(qp))
		qp_make_hot(core, qp);
}

void
qp_retired(struct core *core, struct engine_qp *qp, uint32_t count)
{
	send_done(core, qp, count, true);
}

static inline void
complete_send(struct core *core, struct engine_qp *qp, const struct completion *c)
{
	bool error = c->status != ONE_STATUS_SUCCESS;

	send_done(core, qp, 1, !error);
	/* An error always completes, and always notifies. */
	if (qp->send_cq != NULL && (error || !(c->wqe_flags & ONE_WQE_SUPPRESS)))
		stage_cqe(core, qp, qp->send_cq, c, c->op, error || !(c->wqe_flags & ONE_WQE_UNSIGNALED));
}

static inline void
complete_recv(struct core *core, struct engine_qp *qp, const struct completion *c)
{
	if (unlikely(qp->signals)) {
		if (c->status == ONE_STATUS_SUCCESS && (c->cqe_flags & ONE_CQE_IMM) != 0 &&
		    qp->recv_cq != NULL)
			cq_count(core, qp->recv_cq, rte_be_to_cpu_32(c->imm));
		return;
	}
	cq_stage_qp(core, qp);
	qp->rq_done++;
	if (qp->srq != NULL)
		srq_done(qp->srq, qp, 1);
	if (qp->recv_cq != NULL)
		stage_cqe(core, qp, qp->recv_cq, c, ONE_OP_RECV,
			  c->status != ONE_STATUS_SUCCESS ||
				  (qp->recv_solicited ? c->solicited : !(c->wqe_flags & ONE_WQE_UNSIGNALED)));
}

void
qp_complete(struct core *core, struct engine_qp *qp, const struct completion *c)
{
	if (c->type == ONE_CQE_RECV || c->type == ONE_CQE_RECV_WRITE_IMM)
		complete_recv(core, qp, c);
	else
		complete_send(core, qp, c);
}

static void
flush_send(struct core *core, struct engine_qp *qp)
{
	struct completion c = qp_completion(&qp->work, ONE_STATUS_FLUSHED);

	c.length = 0;
	complete_send(core, qp, &c);
}

static void
flush_recv(struct core *core, struct engine_qp *qp, const struct recv_work *recv)
{
	struct completion c = {.cookie = recv->cookie, .type = ONE_CQE_RECV, .status = ONE_STATUS_FLUSHED};

	complete_recv(core, qp, &c);
}

/* Bounded by the number of slots, even if the application posts meanwhile. */
void
qp_flush_rings(struct core *core, struct engine_qp *qp)
{
	struct recv_work recv;

	if (qp->request != QP_REQUEST_NONE) {
		qp->request = QP_REQUEST_NONE;
		flush_send(core, qp);
	}
	for (uint32_t i = 0; qp->sq != NULL && i < 1u << qp->sq_log2 && qp_pull(core, qp, &qp->work) > 0; i++)
		flush_send(core, qp);
	if (qp->recv_taken) {
		qp->recv_taken = false;
		flush_recv(core, qp, &qp->recv);
	}
	for (uint32_t i = 0; qp->rq != NULL && i < 1u << qp->rq_log2 && qp_take_recv(core, qp, &recv); i++)
		flush_recv(core, qp, &recv);
}

void
qp_set_state(struct engine_qp *qp, enum rc_state to, const char *why)
{
	static const struct state_machine machine = {"queue pair on its core", rc_state_name, rc_state_next};

	state_transition(&machine, qp->qpn, qp->state, to, why);
	qp->state = (uint8_t)to;
}

static void
store_draining(struct engine_qp *qp, bool draining)
{
	if (qp->shm != NULL)
		/* Pairs with the library's acquire load. */
		atomic_store_explicit(&qp->shm->sq_draining, draining, memory_order_release);
}

static void
set_send(struct engine_qp *qp, enum qp_send to, const char *why)
{
	static const char *const names[] = {
		[QP_SEND_OPEN] = "open",         [QP_SEND_STOPPED] = "stopped",
		[QP_SEND_STOPPING] = "stopping", [QP_SEND_STOPPING_NOTIFY] = "stopping with an event",
		[QP_SEND_DRAINING] = "draining",
	};
	static const uint16_t next[] = {
		[QP_SEND_OPEN] = STATE_TO(QP_SEND_STOPPING) | STATE_TO(QP_SEND_STOPPING_NOTIFY) |
				 STATE_TO(QP_SEND_DRAINING),
		[QP_SEND_STOPPED] = STATE_TO(QP_SEND_OPEN),
		[QP_SEND_STOPPING] = STATE_TO(QP_SEND_OPEN) | STATE_TO(QP_SEND_STOPPED),
		[QP_SEND_STOPPING_NOTIFY] = STATE_TO(QP_SEND_OPEN) | STATE_TO(QP_SEND_STOPPED),
		[QP_SEND_DRAINING] = STATE_TO(QP_SEND_OPEN),
	};
	static const struct state_machine machine = {"send queue on its core", names, next};

	state_transition(&machine, qp->qpn, qp->send, to, why);
	qp->send = (uint8_t)to;
}

void
qp_stop(struct core *core, struct engine_qp *qp, bool notify)
{
	if (qp->send == QP_SEND_OPEN) {
		set_send(qp, notify ? QP_SEND_STOPPING_NOTIFY : QP_SEND_STOPPING, "by the application");
		store_draining(qp, true);
	}
	qp_check_drained(core, qp);
}

void
qp_resume(struct core *core, struct engine_qp *qp, const char *why)
{
	if (!qp_is_stopped(qp))
		return;
	set_send(qp, QP_SEND_OPEN, why);
	store_draining(qp, false);
	qp_make_hot(core, qp);
}

void
qp_drain(struct core *core, struct engine_qp *qp)
{
	qp_resume(core, qp, "disconnect");
	if (qp->send == QP_SEND_OPEN)
		set_send(qp, QP_SEND_DRAINING, "disconnect");
	if (qp->state == RC_RTS)
		qp_make_hot(core, qp); /* polled before the check: posted requests are still sent */
	else
		qp_check_drained(core, qp);
}

void
qp_end_output(struct engine_qp *qp)
{
	share_flight(qp, 0);
	keys_forget(qp);
	if (qp->lists & QP_IN_RUN) {
		qp->lists &= (uint8_t)~QP_IN_RUN;
		TAILQ_REMOVE(&qp->client->share.run, qp, run_link);
	}
}

/* End the connection: no more timers, and no more output. */
static void
qp_leave(struct core *core, struct engine_qp *qp, enum rc_state state, const char *why)
{
	timer_cancel(core, &qp->timer);
	if (qp->transport == QP_LOCAL)
		local_leave(core, qp);
	if (qp->transport == QP_UD)
		ud_leave(core, qp, state == RC_ERROR);
	qp_end_output(qp);
	qp_set_state(qp, state, why);
	qp->sampled_at = 0;
	if (qp->request == QP_REQUEST_WAITS)
		qp->request = QP_REQUEST_TAKEN;
	qp->wait_since = 0;
	qp_bind_leave(core, qp, why);
	qp_resume(core, qp, why);
	if (qp->send != QP_SEND_OPEN)
		set_send(qp, QP_SEND_OPEN, why);
	qp->moved = 0;
	if (qp->setup == QP_SETUP_HEARD)
		qp_set_setup(qp, QP_SETUP_DONE, why);
}

void
qp_raise(struct core *core, struct engine_qp *qp, enum engine_event_type type, uint32_t value)
{
	cq_unstage(core); /* store earlier completions first */
	event_raise(core, &qp->node, type, value);
}

void
qp_break(struct core *core, struct engine_qp *qp, enum rc_error error)
{
	uint32_t done = qp->sq_done + qp->rq_done;

	if (qp->state == RC_ERROR)
		return;
	qp_leave(core, qp, RC_ERROR, "broken");
	qp_store_state(qp, ONE_QP_ERROR);
	qp_flush_rings(core, qp);
	if (qp->notify_end || (error == RC_ERROR_RESPONDER && qp->sq_done + qp->rq_done == done))
		cq_notify(core, qp->async_cq, qp->id, ONE_CQE_ASYNC, ONE_ASYNC_QP_ERROR);
	qp_raise(core, qp, ENGINE_EVENT_FAILED, error);
}

void
qp_flush(struct core *core, struct engine_qp *qp)
{
	bool ends = qp->state != RC_ERROR && qp->state != RC_RESET;

	if (qp->state != RC_ERROR) {
		if (qp_has_rc(qp))
			rc_flush(qp->rc);
		qp_leave(core, qp, RC_ERROR, "flushed");
		qp_store_state(qp, ONE_QP_ERROR);
	}
	qp_flush_rings(core, qp);
	if (ends && qp->notify_end)
		cq_notify(core, qp->async_cq, qp->id, ONE_CQE_ASYNC, ONE_ASYNC_QP_ERROR);
}

/* Drop a receive that a message has taken. */
static void
forget_recv(struct engine_qp *qp)
{
	qp->recv_taken = false;
	if (qp->srq != NULL)
		srq_done(qp->srq, qp, qp->rq_taken - qp->rq_done);
	qp->rq_done = qp->rq_taken;
}

/* Drop sends, and a receive that a message has taken. Receives in the ring stay. */
void
qp_reset(struct core *core, struct engine_qp *qp)
{
	qp_leave(core, qp, RC_RESET, "reset");
	if (qp->transport != QP_UD) {
		rc_reset(qp->rc);
		qp->transport = QP_WIRE;
	}
	qp->sq_done = qp->sq_taken;
	for (uint32_t i = 0; qp->sq != NULL && i < 1u << qp->sq_log2 && qp_pull(core, qp, &qp->work) > 0; i++)
		qp->sq_done = qp->sq_taken;
	qp->request = QP_REQUEST_NONE;
	forget_recv(qp);
	if (qp->setup == QP_SETUP_DONE)
		qp_set_setup(qp, QP_SETUP_AWAITED, "reset");
	qp_publish(qp);
	qp_make_cold(core, qp);
	qp_store_state(qp, ONE_QP_IDLE);
}

void
qp_set_setup(struct engine_qp *qp, enum qp_setup to, const char *why)
{
	static const char *const names[] = {
		[QP_SETUP_AWAITED] = "awaited",
		[QP_SETUP_HEARD] = "heard",
		[QP_SETUP_DONE] = "done",
	};
	static const uint16_t next[] = {
		[QP_SETUP_AWAITED] = STATE_TO(QP_SETUP_HEARD) | STATE_TO(QP_SETUP_DONE),
		[QP_SETUP_HEARD] = STATE_TO(QP_SETUP_DONE),
		[QP_SETUP_DONE] = STATE_TO(QP_SETUP_AWAITED),
	};
	static const struct state_machine machine = {"setup of a queue pair", names, next};

	state_transition(&machine, qp->qpn, qp->setup, to, why);
	qp->setup = (uint8_t)to;
}

void
qp_established(struct core *core, struct engine_qp *qp, enum qp_setup to, const char *why)
{
	if (qp->setup != QP_SETUP_AWAITED)
		return;
	qp_set_setup(qp, to, why);
	qp_store_state(qp, ONE_QP_CONNECTED);
	cq_notify(core, qp->conn_cq, qp->id, ONE_CQE_CONNECT, ONE_CONN_ESTABLISHED);
	qp_raise(core, qp, ENGINE_EVENT_ESTABLISHED, 0);
}

static void
check_stopped(struct core *core, struct engine_qp *qp)
{
	bool notify = qp->send == QP_SEND_STOPPING_NOTIFY;

	if (qp->sq_taken != qp->sq_done)
		return;
	set_send(qp, QP_SEND_STOPPED, "nothing is under way");
	cq_unstage(core); /* store earlier completions first */
	store_draining(qp, false);
	if (notify)
		cq_notify(core, qp->async_cq, qp->id, ONE_CQE_ASYNC, ONE_ASYNC_SQ_DRAINED);
}

static bool
has_requests(const struct engine_qp *qp)
{
	return qp->request != QP_REQUEST_NONE || (qp->sq != NULL && qp_sq_ready(qp, 0)) ||
	       qp->bind != QP_BIND_NONE || (qp_has_rc(qp) && qp->state == RC_RTS && !rc_idle(qp->rc));
}

void
qp_check_drained(struct core *core, struct engine_qp *qp)
{
	if (qp->send < QP_SEND_STOPPING)
		return;
	if (qp->send != QP_SEND_DRAINING) {
		check_stopped(core, qp);
	} else if (!has_requests(qp)) {
		set_send(qp, QP_SEND_OPEN, "drained");
		qp_raise(core, qp, ENGINE_EVENT_DRAINED, 0);
	}
}

/*
 * Returns the number of requests that one poll may take; 0: poll later.
 *
 * A core that follows directly behind a producer takes each slot's cache line away while it is being written,
 * and both wait for cache lines most of the time. So if the last poll took many requests, this one takes only
 * a batch that is complete well ahead, and gives the ring time to fill. A single request, whose poster waits
 * for it, is found at once: its poll follows one that took few.
 */
static uint32_t
qp_budget(const struct core *core, const struct engine_qp *qp)
{
	uint32_t most = core->drr.poll_budget;

	if (qp->stream_until == 0 || qp->request != QP_REQUEST_NONE)
		return most;
	for (uint32_t n = most; n >= CORE_STREAM; n /= 2)
		if (qp_sq_ready(qp, n - 1))
			return n;
	return core->now < qp->stream_until ? 0 : RTE_MIN(most, (uint32_t)CORE_STREAM);
}

void
qp_poll(struct core *core, struct engine_qp *qp)
{
	uint32_t before = qp->sq_taken, budget;

	if (qp->client->faulty) {
		qp_make_cold(core, qp);
		return;
	}
	switch (qp->state) {
	case RC_RTS:
		budget = likely(!qp_is_stopped(qp)) ? qp_budget(core, qp) : qp->request != QP_REQUEST_NONE;
		if (budget == 0) {
			if (qp_is_stopped(qp)) {
				qp_check_drained(core, qp);
				qp_make_cold(core, qp);
			}
			return;
		}
		if (qp->transport == QP_LOCAL)
			local_poll(core, qp, budget);
		else if (qp->transport == QP_UD)
			ud_poll(core, qp, budget);
		else
			rcio_poll(core, qp, budget);
		break;
	case RC_ERROR:
		qp_flush_rings(core, qp);
		break;
	default:
		qp_make_cold(core, qp);
		return;
	}
	if (qp->send >= QP_SEND_STOPPING)
		qp_check_drained(core, qp);
	/* A queue pair without rings takes at most one signal in a poll, so it never streams. */
	qp->stream_until = qp->sq_taken - before >= CORE_STREAM ? core->now + CORE_STREAM_NS : 0;
	if (qp->sq_taken != before) {
		qp->empty_looks = 0;
		cq_stage_qp(core, qp); /* publishes sq_head even if nothing has completed */
		cq_unstage(core);
	} else if (qp->request == QP_REQUEST_NONE) {
		qp->empty_looks++;
	}
	if (qp->request == QP_REQUEST_WAITS || qp->empty_looks >= CORE_EMPTY_LOOKS) {
		keys_note(qp);
		qp_make_cold(core, qp);
	}
}

static uint64_t
qp_deadline(const struct timer *timer)
{
	const struct engine_qp *qp = container_of(timer, const struct engine_qp, timer);

	if ((qp->state != RC_RTR && qp->state != RC_RTS) || qp->client->faulty)
		return TIMER_NEVER;
	if (qp_has_rc(qp))
		return rc_deadline(qp->rc);
	return qp->transport == QP_LOCAL && qp->request == QP_REQUEST_WAITS ? qp->wait_until : TIMER_NEVER;
}

/* Continue after a wait, for a time or for memory. */
static void
go_on(struct core *core, struct engine_qp *qp, void (*go)(struct rc_qp *rc, uint64_t now))
{
	/* A late call must not wake the local transport during a bind: the bind would begin again. */
	if (qp->client->faulty || (qp->transport == QP_LOCAL && qp->bind != QP_BIND_NONE))
		return;
	if (!qp_has_rc(qp)) {
		if (qp->request == QP_REQUEST_WAITS)
			qp->request = QP_REQUEST_TAKEN;
		if (qp->transport == QP_UD)
			ud_resume(core, qp);
		qp_make_hot(core, qp);
		return;
	}
	go(qp->rc, core->now);
	if (unlikely(user_is_limited(qp->client->share.group->user)))
		rcio_answer(core, qp);
	rcio_after(core, qp);
}

static bool
is_silent(const struct engine_qp *qp)
{
	return qp->transport == QP_WIRE && rc_is_silent(qp->rc);
}

/* The control thread then resolves the next hop again. If the ring to it is full, the next expiry reports. */
static void
report_silence(struct core *core, struct engine_qp *qp)
{
	if (core->now >= qp->silent_at && event_silent(core, qp->node.owner))
		qp->silent_at = core->now + SILENT_INTERVAL_NS;
}

static void
qp_expire(struct core *core, struct timer *timer)
{
	struct engine_qp *qp = container_of(timer, struct engine_qp, timer);

	if (unlikely(qp->client->share.group->held))
		core->env.throttle = RC_STOPPED;
	go_on(core, qp, rc_timeout);
	core->env.throttle = RC_UNTHROTTLED;
	if (unlikely(qp->state == RC_RTS && is_silent(qp)))
		report_silence(core, qp);
}

const struct timer_calls qp_timer_calls = {.deadline = qp_deadline, .expire = qp_expire};

void
qp_forget(struct core *core, struct engine_qp *qp)
{
	qp_leave(core, qp, RC_RESET, "removed");
	if (qp->transport != QP_UD)
		rc_reset(qp->rc);
	if (qp->srq != NULL) {
		forget_recv(qp);
		srq_publish(qp->srq, qp);
	}
	qp_make_cold(core, qp);
}

/* A bounced access that the queue pair waited for has ended. */
void
qp_bounced(void *context, void *user)
{
	go_on(context, user, rc_resume);
}
