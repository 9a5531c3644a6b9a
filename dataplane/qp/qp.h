/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pairs, as their core sees them.
 */
#ifndef DATAPLANE_QP_QP_H
#define DATAPLANE_QP_QP_H

#include "dataplane/core/core.h"
#include "dataplane/qp/client.h"
#include "dataplane/qp/cq.h"
#include "dataplane/qp/srq.h"
#include "dataplane/rc/work.h"

struct flow_rule;

enum qp_phase {
	QP_OFF, /* not connected: the send ring is left alone */
	QP_RTR, /* serves the peer; the send ring is left alone */
	QP_RTS,
	QP_BROKEN /* whatever is posted is flushed */
};

struct engine_qp {
	/* looked at for every burst of work */
	struct one_wqe *sq;         /* NULL: none */
	uint32_t sq_head;           /* next slot */
	uint32_t sq_taken, sq_done; /* work requests; taken - done are unfinished */
	uint32_t max_send_wr;
	uint8_t sq_log2, rq_log2;
	uint8_t phase; /* enum qp_phase */
	bool local;
	bool pending; /* `work` waits for its turn */
	bool stopped; /* nothing more is taken from the ring */
	bool waiting; /* local transport: for the peer; off the hot list until a timer or the peer's doorbell
		       */
	bool hot, running;
	uint8_t empty_looks;
	bool streaming;        /* see qp_budget */
	uint64_t stream_until; /* its ring may be let alone until then */
	uint16_t port;
	uint16_t to; /* TX_TO: the port, and the far end's core that owns its peer, as far as is known */
	struct one_qp_shm *shm; /* NULL: none */
	uint32_t hot_at;        /* place in share.hot of its client */
	struct engine_client *client;
	struct core *core;
	struct engine_cq *send_cq, *recv_cq;
	struct rc_qp *rc;    /* NULL: datagrams, see ud.c */
	uint64_t sampled_at; /* cycles: when it was taken whose time is measured; 0: none */
	uint32_t sample;     /* sq_done when that one is complete */
	uint8_t sample_op;   /* enum one_op of it */

	struct one_wqe *rq;     /* NULL: none, or `srq` */
	struct engine_srq *srq; /* then rq_head is rq_taken */
	uint32_t rq_head, rq_taken, rq_done;
	uint32_t qpn, id, pz;
	struct rc_attr attr;

	struct work work;

	/* local transport: the message in `work` */
	uint32_t moved;      /* bytes copied */
	uint64_t wait_since; /* 0: not waiting */
	uint8_t wait_status; /* what the work fails by if it waits too long: why it waits */
	uint64_t wait_step;
	uint64_t wait_until;
	struct recv_work recv; /* taken for the peer's message in progress, if recv_taken */
	bool recv_taken;
	uint32_t qkey;  /* datagrams */
	uint64_t found; /* of an atomic that has been carried out, `moved` is 8 then, and not answered */
	struct reach_party reach;

	bool bind_pending, draining, established, recv_solicited, notify_end, loop, make_rts;
	bool stopping, stop_notify; /* stopped, and not all that was taken is done; and that is to be told */
	bool by_numbers;            /* goes to QP_RTS when it is told to, not with the peer's first packet */
	bool signals;               /* what comes is counted in recv_cq */
	bool signal_once;           /* to be sent: one that does not accumulate, */
	uint32_t signals_owed;      /* and those that do */
	struct work bind_work;
	bool settling; /* the bind completes when the copies before this mark (reach_mark) have ended */
	uint32_t settle_mark;
	TAILQ_ENTRY(engine_qp) settle_link;
	TAILQ_ENTRY(engine_qp) run_link;
	bool sending; /* in client->sending */
	TAILQ_ENTRY(engine_qp) sending_link;
	struct timer timer;
	_Atomic uint32_t heard;   /* rc_heard(), for the control thread */
	_Atomic uint32_t refusal; /* rc_refusal(), for it, too */
	/* For the control thread: when (engine_now) the peer was heard last from the MAC that frames go to.
	 */
	_Atomic uint64_t heard_there;
	uint64_t silent_at; /* the control thread is not told again before that its peer is silent */
	struct engine_cq *conn_cq, *async_cq;
	struct event_node node;
	uint32_t doorbell;
	uint32_t flight;  /* its part of share.flight */
	uint32_t strays;  /* frames that other cores received for it */
	uint64_t flow_at; /* no rule is asked for before */
	/* control thread */
	struct wire_addr flow_own;  /* the address of ours that the peer sends to */
	struct wire_addr flow_peer; /* all zero: no connection that has frames on a port */
	struct flow_rule *flow;
	struct reap reap;
} __rte_cache_aligned;

/* ---- qp.c ---- */
/* Take the next work request: 1, 0 (none), -1 (the client is faulty). */
int qp_pull(struct core *core, struct engine_qp *qp, struct work *work);
bool qp_take_recv(struct core *core, struct engine_qp *qp, struct recv_work *out);
int qp_signal(struct core *core, struct engine_qp *qp, uint32_t signal);
void qp_complete(struct core *core, struct engine_qp *qp, const struct completion *c);
/* Requests that have succeeded and have no completion. */
void qp_retired(struct core *core, struct engine_qp *qp, uint32_t count);
void qp_store_state(struct engine_qp *qp, enum one_qp_state state);
void qp_publish(struct engine_qp *qp); /* how far the rings have been taken */
/* The only writer of the phase after engine_qp_new(); `why`: for the trace. */
void qp_set_phase(struct engine_qp *qp, enum qp_phase to, const char *why);
void qp_flush_rings(struct core *core, struct engine_qp *qp);
/* Breaks by itself: flushes what is not flushed yet and tells the control thread. */
void qp_break(struct core *core, struct engine_qp *qp, enum rc_error error);
/* The control thread's flush: no event. */
void qp_flush(struct core *core, struct engine_qp *qp);
void qp_reset(struct core *core, struct engine_qp *qp);
void qp_established(struct core *core, struct engine_qp *qp);
void qp_poll(struct core *core, struct engine_qp *qp);
void qp_stop(struct core *core, struct engine_qp *qp, bool stopped, bool notify);
void qp_check_drained(struct core *core, struct engine_qp *qp);
void qp_forget(struct core *core, struct engine_qp *qp);
void qp_reached(void *core, void *qp); /* a reach_wake */
/* An event of the queue pair, after what it has completed. */
void qp_raise(struct core *core, struct engine_qp *qp, enum engine_event_type type, uint32_t value);
extern const struct timer_calls qp_timer_calls;

/* What may be changed until it is connected. */
static inline void
qp_configure(struct engine_qp *qp, const struct engine_qp_config *config)
{
	qp->pz = config->pz;
	qp->send_cq = config->send_cq;
	qp->recv_cq = config->recv_cq;
	qp->conn_cq = config->conn_cq;
	qp->async_cq = config->async_cq;
	qp->recv_solicited = config->recv_solicited;
	qp->notify_end = config->notify_end;
}

/* Slot `ahead` of the next one holds a request: only a look at the phase that ring_take acquires. */
static inline bool
qp_sq_ready(const struct engine_qp *qp, uint32_t ahead)
{
	uint32_t index = qp->sq_head + ahead;

	return ahead < (1u << qp->sq_log2) &&
	       atomic_load_explicit(&qp->sq[one_ring_slot(index, qp->sq_log2)].phase, memory_order_relaxed) ==
		       one_ring_phase(index, qp->sq_log2);
}

/* ---- doorbell.c ---- */
uint32_t doorbell_scan(struct core *core);

/* ---- keys.c ---- */
/* Whether a request is there, or waits. */
bool keys_scan(struct core *core, struct engine_client *client);
/* The queue pair leaves the hot list: it may not have sent yet what was posted. */
void keys_note(struct engine_qp *qp);
void keys_forget(struct engine_qp *qp);
/* Carries out the request that waits, if it can be now; `scanned`: all doorbells have been since keys_scan.
 */
void keys_go_on(struct core *core, struct engine_client *client, bool scanned);

/* ---- qpn.c ---- */
void qpn_publish(struct engine_qp *qp);
void qpn_withdraw(struct engine_qp *qp);
int qpn_reserve(uint32_t qpn, void *owner);
void qpn_release(uint32_t qpn);
int qpn_init(void);
void qpn_fini(void);

#endif
