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

enum qp_transport {
	QP_WIRE,  /* RC by a port */
	QP_LOOP,  /* RC to a queue pair on another core of this data plane */
	QP_LOCAL, /* RC to a queue pair on this core: memory is copied */
	QP_UD
};

/* The request in engine_qp.work. Its transitions are not in the trace: each message causes some. */
enum qp_request {
	QP_REQUEST_NONE,
	QP_REQUEST_TAKEN, /* waits for its turn */
	QP_REQUEST_WAITS  /* off the hot list until a timer, the peer's doorbell, or qp_bounced(); not with RC
			   */
};

/* Whether requests are taken from the send ring. */
enum qp_send {
	QP_SEND_OPEN,
	QP_SEND_STOPPED,         /* not taken, and those taken before have ended */
	QP_SEND_STOPPING,        /* not taken, and those taken before are unfinished */
	QP_SEND_STOPPING_NOTIFY, /* QP_SEND_STOPPING; an event reports the end of those taken before */
	QP_SEND_DRAINING         /* taken, and an event to the control thread reports the end of all */
};

/* A bind that the control thread carries out (bind.c). */
enum qp_bind {
	QP_BIND_NONE,
	QP_BIND_ASKED,
	QP_BIND_QUIESCING /* carried out; copies that began before quiesce_mark are under way */
};

/* Whether the application knows of the connection. Out of band it awaits a command, not a packet. */
enum qp_setup {
	QP_SETUP_AWAITED,
	QP_SETUP_HEARD, /* the peer's first packet has come: RC_RTS when the transport returns */
	QP_SETUP_DONE
};

/* Lists of its client that a queue pair is in. */
enum {
	QP_IN_HOT = 1,    /* share.hot: its rings are polled */
	QP_IN_RUN = 2,    /* share.run: it has frames to make */
	QP_IN_SENDING = 4 /* client.sending */
};

/* Entries that the application takes before later ones of the queue pair from other rings: see move.c. */
struct move_origin {
	bool known;     /* false: none */
	uint8_t flags;  /* ONE_CQE_* for ONE_CQE_AFTER: flags_of_entries() */
	uint32_t ring;  /* number of the ring that has the entries, for ONE_CQE_AFTER */
	uint64_t count; /* position after them in that ring */
	uint64_t seen;  /* newest_entry() of the present ring when the queue pair came */
};
#define MOVE_CQS 3u

struct engine_qp {
	/* used for every burst of work */
	struct one_wqe *sq;         /* NULL: none */
	uint32_t sq_head;           /* next slot */
	uint32_t sq_taken, sq_done; /* work requests; taken - done are unfinished */
	uint32_t max_send_wr;
	uint8_t sq_log2, rq_log2;
	/* A record of the queue pair holds these, numbers and attributes. */
	uint8_t state; /* enum rc_state; rc_state(rc) is the same between calls, or RC_RESET if QP_LOCAL */
	uint8_t transport; /* enum qp_transport; set before RC_RTR */
	uint8_t request;   /* enum qp_request */
	uint8_t send;      /* enum qp_send */
	uint8_t bind;      /* enum qp_bind */
	uint8_t setup;     /* enum qp_setup */
	/* The core derives these again. */
	uint8_t lists; /* QP_IN_* */
	uint8_t empty_looks;
	bool frozen; /* between qp_freeze() and qp_thaw() */
	uint16_t port;
	uint16_t to; /* TX_TO: port, and the core that owns the peer in its data plane, as far as known */
	uint64_t stream_until;  /* until then the ring may be left to fill; 0: see qp_budget() */
	struct one_qp_shm *shm; /* NULL: none */
	uint32_t hot_at;        /* index in share.hot of its client, if QP_IN_HOT */
	struct engine_client *client;
	/* The core that owns the queue pair: see qp_core(). */
	_Atomic(struct core *) core;
	struct engine_cq *send_cq, *recv_cq;
	struct rc_qp *rc;    /* NULL: QP_UD */
	uint64_t sampled_at; /* cycles when the sampled request was taken; 0: none */
	uint32_t sample;     /* sq_done when the sampled request is complete */
	uint8_t sample_op;   /* enum one_op of the sampled request */

	struct one_wqe *rq;     /* NULL: none, or `srq` */
	struct engine_srq *srq; /* if not NULL, rq_head equals rq_taken */
	uint32_t rq_head, rq_taken, rq_done;
	uint32_t qpn, id, pz;
	struct rc_attr attr;

	struct work work;

	/* local transport: the message in `work` */
	uint32_t moved;      /* bytes copied */
	uint64_t wait_since; /* 0: not waiting */
	uint8_t wait_status; /* reason for the wait: the work's status if it waits too long */
	uint64_t wait_step;
	uint64_t wait_until;
	bool is_apart;         /* a move has left the peer on another core, to which it belongs as well */
	struct recv_work recv; /* of the peer's message in progress, if recv_taken */
	bool recv_taken;
	uint32_t qkey;  /* datagrams */
	uint64_t found; /* result of an executed atomic that is not written home yet; `moved` is 8 */
	struct bounce_party bounce;

	bool recv_solicited, notify_end;
	bool out_of_band;      /* a command moves it to RC_RTS, not the peer's first packet */
	bool signals;          /* arriving signals are counted in recv_cq */
	bool signal_once;      /* to be sent: a signal that does not accumulate */
	uint32_t signals_owed; /* to be sent: accumulated signals */
	struct engine_bind bind_asked;
	uint32_t quiesce_mark; /* bounce_mark() */
	TAILQ_ENTRY(engine_qp) quiesce_link;
	TAILQ_ENTRY(engine_qp) run_link;
	TAILQ_ENTRY(engine_qp) sending_link;
	struct timer timer;
	_Atomic uint32_t heard;          /* for the control thread: engine_qp_heard() */
	_Atomic uint32_t refusal;        /* rc_refusal(), for the control thread */
	_Atomic uint32_t unacknowledged; /* rc_unacknowledged(), for the control thread */
	/* For the control thread: engine_now when the peer was last heard from the MAC that frames go to. */
	_Atomic uint64_t heard_there;
	/* For the control thread: UDP source port that a recognized peer asked for (rc_env.recognized); 0:
	 * none.
	 */
	_Atomic uint16_t source_port;
	uint64_t silent_at; /* a silent peer is not reported again before */
	struct engine_cq *conn_cq, *async_cq;
	struct event_node node;
	uint32_t doorbell;
	uint32_t flight;  /* this queue pair's part of share.flight */
	uint32_t strays;  /* frames that other cores received for it */
	uint64_t flow_at; /* no flow rule is requested before */
	struct move_origin origin[MOVE_CQS];
	/* Stored by the control thread only, from before ENGINE_QP_FREEZE to engine_move_over(); NULL: none.
	 */
	struct engine_move *move;
	/* control thread only */
	struct wire_addr flow_own;  /* our address, to which the peer sends */
	struct wire_addr flow_peer; /* all zero: no connection with frames on a port */
	struct flow_rule *flow;
	struct reap reap;
} __rte_cache_aligned;

static inline bool
qp_is_stopped(const struct engine_qp *qp)
{
	return qp->send >= QP_SEND_STOPPED && qp->send <= QP_SEND_STOPPING_NOTIFY;
}

/* True if the RC transport makes and takes the queue pair's frames. */
static inline bool
qp_has_rc(const struct engine_qp *qp)
{
	return qp->transport <= QP_LOOP;
}

/* Acquire: pairs with the release store in give_to(), after which the queue pair is the other core's. */
static inline struct core *
qp_core(const struct engine_qp *qp)
{
	return atomic_load_explicit(&qp->core, memory_order_acquire);
}

/* ---- qp.c ---- */
/* Take the next work request. Returns 1; 0: none; -1: the client is faulty. */
int qp_pull(struct core *core, struct engine_qp *qp, struct work *work);
bool qp_take_recv(struct core *core, struct engine_qp *qp, struct recv_work *out);
int qp_signal(struct core *core, struct engine_qp *qp, uint32_t signal);
void qp_complete(struct core *core, struct engine_qp *qp, const struct completion *c);
/* Finish `count` requests that succeeded and have no completion. */
void qp_retired(struct core *core, struct engine_qp *qp, uint32_t count);
void qp_store_state(struct engine_qp *qp, enum one_qp_state state);
void qp_publish(struct engine_qp *qp); /* stores how far the rings have been taken */
/* The only writer of the state after engine_qp_new(); `why` is for the trace. */
void qp_set_state(struct engine_qp *qp, enum rc_state to, const char *why);
void qp_flush_rings(struct core *core, struct engine_qp *qp);
/* Break because of an error: flush all work, and notify the control thread. */
void qp_break(struct core *core, struct engine_qp *qp, enum rc_error error);
/* Flush for the control thread, without an event to it. */
void qp_flush(struct core *core, struct engine_qp *qp);
void qp_reset(struct core *core, struct engine_qp *qp);
/* The only writer of the setup's state after engine_qp_new(). */
void qp_set_setup(struct engine_qp *qp, enum qp_setup to, const char *why);
/* Enter QP_SETUP_HEARD or QP_SETUP_DONE, and report the connection. */
void qp_established(struct core *core, struct engine_qp *qp, enum qp_setup to, const char *why);
void qp_poll(struct core *core, struct engine_qp *qp);
/* Take no more requests; `notify`: report the end of those taken. */
void qp_stop(struct core *core, struct engine_qp *qp, bool notify);
void qp_resume(struct core *core, struct engine_qp *qp, const char *why);
/* Report the end of all requests that are posted to the control thread. */
void qp_drain(struct core *core, struct engine_qp *qp);
/* The core makes no more frames of the queue pair, and no user's share or key waits for them. */
void qp_end_output(struct engine_qp *qp);
void qp_check_drained(struct core *core, struct engine_qp *qp);
void qp_forget(struct core *core, struct engine_qp *qp);
void qp_bounced(void *core, void *qp); /* a bounce_wake */
/* Report an event of the queue pair, after its completions. */
void qp_raise(struct core *core, struct engine_qp *qp, enum engine_event_type type, uint32_t value);
extern const struct timer_calls qp_timer_calls;

/* Set what may change until the queue pair is connected. */
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

/* True if the slot `ahead` of the next one holds a request. Only a hint: ring_take() acquires the phase. */
static inline bool
qp_sq_ready(const struct engine_qp *qp, uint32_t ahead)
{
	uint32_t index = qp->sq_head + ahead;

	return ahead < (1u << qp->sq_log2) &&
	       atomic_load_explicit(&qp->sq[one_ring_slot(index, qp->sq_log2)].phase, memory_order_relaxed) ==
		       one_ring_phase(index, qp->sq_log2);
}

/* ---- move.c ---- */
/* A frame for a frozen queue pair of this core. False: there is no room, and the caller frees the frame. */
bool qp_queue_frame(struct core *core, struct engine_qp *qp, struct rte_mbuf *m);

/* ---- doorbell.c ---- */
uint32_t doorbell_scan(struct core *core);

/* ---- keys.c ---- */
/* True if a request is there, or in progress. */
bool keys_scan(struct core *core, struct engine_client *client);
/* The queue pair leaves the hot list: remember it if posted work may be unsent. */
void keys_note(struct engine_qp *qp);
void keys_forget(struct engine_qp *qp);
/* Carry out the request in progress, if that is possible now; `scanned`: all doorbells were scanned after
 * keys_scan(). */
void keys_go_on(struct core *core, struct engine_client *client, bool scanned);

/* ---- qpn.c ---- */
void qpn_publish(struct engine_qp *qp);
void qpn_withdraw(struct engine_qp *qp);
int qpn_reserve(uint32_t qpn, void *owner);
void qpn_release(uint32_t qpn);
int qpn_init(void);
void qpn_populate(void); /* makes the pages of the tables present */
void qpn_fini(void);

#endif
