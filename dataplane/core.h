/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inside of the engine: what one polling core owns.  Fields are the owning
 * core's alone unless a comment says otherwise.
 */
#ifndef DATAPLANE_CORE_H
#define DATAPLANE_CORE_H

#include <stdatomic.h>
#include <sys/queue.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_rcu_qsbr.h>
#include <rte_ring.h>

#include "dma.h"
#include "engine.h"
#include "reach.h"

/* ---- limits ---- */
enum {
	CORE_BURST = 32,         /* frames of one rx or tx burst */
	CORE_COMMANDS = 32,      /* commands handled in one loop */
	CORE_HOT_LOOKS = 256,    /* queue pairs looked at in one loop */
	CORE_WORK_BUDGET = 64,   /* work requests of one queue pair in one loop */
	CORE_STAGE = 16,         /* completions stored in one go */
	CORE_STREAM = 8,         /* requests in one look that make a stream: see qp_budget */
	CORE_STREAM_NS = 400,    /* how long a stream's ring is left to fill */
	CORE_EMPTY_LOOKS = 64,   /* after so many a queue pair has to ring its doorbell again */
	CORE_SCAN_INTERVAL = 16, /* loops between looks at the doorbells while some queue pair is hot */
	CORE_RUN_LOOKS = 128,    /* queue pairs that may emit in one loop, */
	CORE_RUN_BUDGET = 16,    /* and frames that each may in one turn; */
	CORE_RUN_BYTES = 65536,  /* turns go on until so much has gone out, or nothing more can */
	CORE_TIMEOUTS = 64,      /* timers served in one loop */
	CORE_TAKES = 128,        /* receives taken before `--idle yield` lets who posts them run */
	CORE_BOARDS = 32,        /* queue pairs that recover from loss selectively at one time */
	CORE_HOLDS = 4,          /* of its buffers, one in so many may be kept meanwhile */
	CORE_COMMAND_RING = 4096,
	CORE_MAX = 64,
	CORE_UP_RESERVE = 8, /* places in the ring up that one command may need */
	CORE_UP_RING = 8192,
	CORE_INBOUND_RING = 4096,
	CONTROL_FRAME_RING = 1024,
	CONTROL_MBUFS = 1023,
	PORT_TX_RING = 1024,
	TX_BUFFER = 512, /* frames a core holds for a port that takes no more */
	TX_HIGH = 256,   /* more than these behind: queue pairs wait */
	INBOUND_HIGH = 3072,
	LOCAL_CHUNK = 65536,        /* bytes of one message that the local transport copies in one loop, */
	LOCAL_CHUNK_ALONE = 524288, /* and while no other queue pair is hot */
	TIMER_SLOTS = 4096,
	TIMER_SHIFT = 12,         /* a slot is 4.1 us */
	TIMER_DEFER_NS = 1000000, /* how long timers wait for what is in the receive queues */
	QPN_LOG2 = 18,
	FLOW_RULES = 128, /* of one port */
	FLOW_STRAYS = 64  /* frames that other cores had to hand over before a rule is asked for */
};
#define FLOW_INTERVAL_NS 10000000000ull /* between two times that one queue pair asks */
#define LOCAL_LOST_NS \
	500000000ull /* silence of a vanished peer before work fails, if control is not faster */

struct core;

/* Something that reports events to the control thread when the ring up was full. */
struct event_node {
	STAILQ_ENTRY(event_node) link;
	bool queued;
	uint8_t pending; /* bit per enum engine_event_type */
	uint32_t value;  /* of FAILED and FAULT */
	void *owner;
};

/* Element of the ring from a core to the control thread. */
struct up {
	void *pointer; /* the command acknowledged (type 0), or the event's owner */
	uint32_t type; /* enum engine_event_type; 0: acknowledgement; UP_STRAYS: for flow.c */
	uint32_t value;
};
#define UP_STRAYS UINT32_MAX

/* Freed by the control thread when every core has passed a quiescent state. */
struct reap {
	struct reap *next;
	uint64_t token;
	void *memory[2];
};

struct engine_client {
	struct core *core;
	void *owner;
	uint8_t *arena;
	struct one_arena *header;
	struct one_doorbells *doorbells;
	struct one_channel *channels;
	uint32_t groups; /* doorbell groups that have queue pairs, counted from the first */
	bool faulty;     /* served no more */
	int wake_fd;
	struct engine_qp **qps; /* by doorbell */
	struct event_node node;
	TAILQ_ENTRY(engine_client) link;
	/* Written by the control thread before any key leads there; read by the core when the client goes. */
	struct reach *reach;
	/* control thread */
	struct reap reap;
};

struct engine_cq {
	struct one_cqe *ring;
	struct one_cq_shm *shm;
	uint32_t tail, limit; /* limit: entries that fit */
	uint32_t head_seen;   /* the application's progress, checked */
	uint32_t log2;
	uint32_t notify_tail; /* index after the newest entry with ONE_CQE_NOTIFY */
	uint16_t arm_served;
	bool dirty, overflowed;
	SLIST_ENTRY(engine_cq) dirty_link;
	struct engine_client *client;
	struct engine_cq *async_cq;
	uint32_t id;
	void *owner;
	struct reap reap; /* control thread */
};

/* A receive ring of which the client's queue pairs take. */
struct engine_srq {
	struct one_wqe *rq;
	struct one_srq_shm *shm;
	uint32_t head; /* next slot */
	uint32_t log2;
	uint32_t taken, done; /* receives */
	uint32_t limit;       /* tell when fewer are left; 0: not armed */
	uint32_t id;
	struct engine_cq *async_cq;
	struct engine_client *client;
	void *owner;
	struct reap reap; /* control thread */
};

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
	bool waiting; /* local transport: for the peer; off the hot list until a timer or the peer's doorbell
		       */
	bool hot, running;
	uint8_t empty_looks;
	bool streaming;        /* see qp_budget */
	uint64_t stream_until; /* its ring may be let alone until then */
	bool faulty;
	uint16_t port;
	struct one_qp_shm *shm; /* NULL: none */
	uint32_t hot_at;        /* place in core->hot */
	struct engine_client *client;
	struct core *core;
	struct engine_cq *send_cq, *recv_cq;
	struct rc_qp *rc;

	struct one_wqe *rq;     /* NULL: none, or `srq` */
	struct engine_srq *srq; /* then rq_head is rq_taken */
	uint32_t rq_head, rq_taken, rq_done;
	uint32_t qpn, id, pz;
	struct rc_attr attr;

	struct work work;

	/* local transport: the message in `work` */
	uint32_t moved;      /* bytes copied, or handed to a DMA device */
	uint32_t copying;    /* copies that the device has not ended */
	uint64_t wait_since; /* 0: not waiting */
	uint8_t wait_status; /* what the work fails by if it waits too long: why it waits */
	uint64_t wait_step;
	uint64_t wait_until;
	struct recv_work recv; /* taken for the peer's message in progress, if recv_taken */
	bool recv_taken;
	uint64_t found; /* of an atomic that has been carried out, `moved` is 8 then, and not answered */
	struct reach_party reach;

	bool bind_pending, draining, established, recv_solicited, tell_end, loop, make_rts;
	bool signals;          /* what comes is counted in recv_cq */
	bool signal_once;      /* to be sent: one that does not accumulate, */
	uint32_t signals_owed; /* and those that do */
	struct work bind_work;
	TAILQ_ENTRY(engine_qp) run_link;
	TAILQ_ENTRY(engine_qp) timer_link;
	uint64_t timer_at; /* deadline queued; RC_NEVER: not in the wheel */
	uint32_t timer_slot;
	struct engine_cq *conn_cq, *async_cq;
	struct event_node node;
	uint32_t doorbell;
	uint32_t strays;  /* frames that other cores received for it */
	uint64_t flow_at; /* no rule is asked for before */
	void *owner;
	/* control thread */
	struct wire_addr flow_peer; /* all zero: no connection that has frames on a port */
	struct flow_rule *flow;
	struct reap reap;
} __rte_cache_aligned;

TAILQ_HEAD(qp_list, engine_qp);

/* In the private area of every mbuf: what the core that received a frame has found out. */
struct frame_info {
	struct wire_packet packet;
	uint16_t port;
	bool parsed; /* packet is valid */
};

struct tx_queue {
	uint16_t first, count;
	struct rte_mbuf *frame[TX_BUFFER];
};

struct rx_queue {
	uint16_t port, device, queue;
	bool interrupt;
};

/* See flow.c. */
struct flow_rule {
	struct rte_flow *handle; /* NULL: the place is free */
	struct wire_addr src;
	uint16_t udp_src_port;
	uint16_t queue;
	uint32_t users; /* queue pairs */
};

struct flow_table {
	struct flow_rule rule[FLOW_RULES];
	/* What cores ask and telemetry tells. */
	_Atomic bool open; /* the port takes rules, and more of them */
	_Atomic uint32_t count;
	_Atomic uint64_t made, refused;
};

struct port {
	struct engine_port_info info;
	uint16_t device; /* DPDK's number */
	uint16_t rx_queues, tx_queues;
	bool interrupts;
	bool checks_ipv4; /* checksums of headers received */
	bool started;
	/* link.c: the port must be started again when its link is lost. */
	bool reconnects;
	_Atomic bool paused;     /* cores leave the device alone */
	_Atomic bool restarting; /* on DPDK's interrupt thread, whose `started` is meanwhile */
	uint64_t link_at, link_grace;
	/* Frames of the control thread, and of cores without a queue of their own, to the core
	 * that has queue 0. */
	struct rte_ring *tx_ring;
	struct flow_table flows; /* control thread */
};

/* Completions of one queue pair on one ring, not stored there yet. */
struct stage {
	struct engine_qp *qp; /* NULL: nothing is staged */
	struct engine_cq *cq;
	uint32_t count;
	struct one_cqe entry[CORE_STAGE];
};

struct core {
	struct rc_env env; /* first: the transport hands it back */
	uint64_t now;      /* ns, of this loop */
	struct stage stage;
	struct engine_stats stats;
	uint32_t loop;
	bool timed;             /* this loop's stages are */
	bool timed_idle;        /* the loop before found nothing to do */
	struct engine_qp **hot; /* queue pairs whose rings are looked at, in no order; */
	uint32_t hot_count;
	uint32_t hot_next; /* and the place of the next one */
	struct qp_list run;
	SLIST_HEAD(, engine_cq) dirty;
	struct reach_list reaching;
	struct dma_channel *dma; /* NULL: the core makes all copies */
	TAILQ_HEAD(, engine_client) clients;
	STAILQ_HEAD(, event_node) backlog;
	bool tell_control; /* entries for the control thread were queued in this loop */

	struct rte_mbuf *rx_frame; /* being looked at */
	struct engine_qp *rx_qp;   /* had the frame before it, and rcio_after is still to come */
	struct wire_seen seen;     /* and what is found in it */
	struct wire_move move;     /* payload of the frame before it */
	uint32_t holds, holds_max; /* frames kept by the transport until a hole is filled */
	struct rte_mbuf *tx_frame; /* between tx_begin and tx_end */
	uint32_t tx_unsealed;      /* frames appended whose ICRC is still to come */
	struct rte_mbuf *tx_seal[CORE_BURST];
	uint32_t tx_spares;
	struct rte_mbuf *tx_spare[CORE_BURST];
	struct tx_queue tx[CONFIG_PORTS_MAX];
	uint64_t wake_mask; /* cores that were handed something in this loop */

	struct rx_queue rx[CONFIG_PORTS_MAX];
	uint32_t num_rx;

	uint64_t timer_tick; /* slots before this one are done */
	uint64_t timer_run_at;
	bool rx_more; /* a receive queue had as many frames as one loop takes */
	uint64_t timers;
	struct qp_list wheel[TIMER_SLOTS];

	uint64_t loop_at, idle_at; /* cycles: when this loop began, the one before ended */
	uint64_t published_at;
	uint64_t stage_mark;                     /* when the stage under way began */
	uint64_t stage_cycles[ENGINE_STAGE_MAX]; /* of this loop */
	uint32_t idle_loops;
	/* --idle yield; times in cycles */
	uint64_t gave_at;    /* when the processor was given away last */
	uint64_t give_after; /* how long it is kept while nobody wants it */
	uint64_t least;      /* that giving it away took */
	bool gave;           /* after the loop before this one */
	bool shared;         /* others had it then */
	uint32_t takes;      /* receives taken since then; CORE_TAKES: there was none to take */
	uint32_t index, lcore;
	struct rte_mempool *pool;
	void *rc_memory, *boards_memory;
	int epoll, rx_epoll;

	/* shared with the control thread and other cores */
	struct rte_ring *commands __rte_cache_aligned;
	struct rte_ring *up;
	struct rte_ring *inbound;
	int wake_fd;
	_Atomic bool asleep;
	_Atomic bool stop;
	_Atomic bool stopped;
	_Atomic uint64_t published[sizeof(struct engine_stats) / sizeof(uint64_t)];
	/* control thread */
	uint32_t clients_held, qps_held;
	struct engine_command *unsent, **unsent_tail;
} __rte_cache_aligned;

struct engine {
	const struct config *config;
	struct port port[CONFIG_PORTS_MAX];
	uint32_t num_ports;
	struct core *core[CORE_MAX];
	uint32_t num_cores;
	struct mem_table *mem;
	struct rte_rcu_qsbr *rcu;
	uint16_t data_room;              /* of the cores' mbufs, without headroom */
	struct rte_ring *control_frames; /* frames for the control thread */
	struct rte_mempool *control_pool;
	int event_fd;
	_Atomic bool control_asleep; /* and wants event_fd written; cleared by who does */
	uint64_t tsc_mult;           /* ns = tsc * mult >> 32 */
	_Atomic bool time_stages;
	bool running;
	struct reap *reap, **reap_tail; /* in the order of their tokens */
};
extern struct engine engine;

static inline uint64_t
engine_now(uint64_t tsc)
{
	return (uint64_t)(((unsigned __int128)tsc * engine.tsc_mult) >> 32);
}

/* Pairs with the stores in link.c: what the device was started with is there when it is not paused. */
static inline bool
port_usable(const struct port *port)
{
	return !atomic_load_explicit(&port->paused, memory_order_acquire);
}

/* Entries of a ring that other threads use: only a look. */
static inline uint32_t
ring_used(const struct rte_ring *ring)
{
	return __atomic_load_n(&ring->prod.tail, __ATOMIC_RELAXED) -
	       __atomic_load_n(&ring->cons.tail, __ATOMIC_RELAXED);
}

static inline struct frame_info *
frame_info(struct rte_mbuf *m)
{
	return rte_mbuf_to_priv(m);
}

/* ---- loop.c ---- */
uint32_t core_iterate(struct core *core); /* one loop; how much was done */
int core_main(void *core);

/* ---- command.c ---- */
uint32_t core_commands(struct core *core);

/* ---- event.c ---- */
void event_raise(struct core *core, struct event_node *node, enum engine_event_type type, uint32_t value);
bool event_drain(struct core *core);        /* true: nothing is left behind */
void event_tell_control(struct core *core); /* once per loop: what was queued is there */
/* Advice to flow.c; false: not now. */
bool event_strays(struct core *core, struct engine_qp *qp, uint16_t udp_src_port);
void event_acknowledge(struct core *core, struct engine_command *command);
/* A client that no honest library would be: served no more, the control thread is told once. */
void client_fault(struct engine_client *client, enum one_fault fault);

/* ---- cq.c ---- */
int cq_attach(struct engine_cq *cq, uint64_t offset, uint32_t log2);
int cq_resize(struct core *core, struct engine_cq *cq, uint64_t offset, uint32_t log2);
void cq_push(struct core *core, struct engine_cq *cq, const struct one_cqe *entry);
void cq_unstage(struct core *core); /* store what is staged */

/* `qp` completes something: its progress is told when the stage is stored. */
static inline void
cq_stage_qp(struct core *core, struct engine_qp *qp)
{
	if (core->stage.qp != qp) {
		cq_unstage(core);
		core->stage.qp = qp;
	}
}

/* A place for an entry of the queue pair staged, to be filled at once. */
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
void cq_count(struct core *core, struct engine_cq *cq, uint32_t signal); /* a ring as a counter */
void cq_publish(struct core *core); /* tails, fence, arms: once per loop */
void cq_forget(struct core *core, struct engine_cq *cq);

/* ---- qp.c ---- */
/* Take the next work request: 1, 0 (none), -1 (the client is faulty). */
int qp_pull(struct core *core, struct engine_qp *qp, struct work *work);
bool qp_take_recv(struct core *core, struct engine_qp *qp, struct recv_work *out);
bool qp_recv_ready(const struct engine_qp *qp);
int qp_signal(struct core *core, struct engine_qp *qp, uint32_t signal);
void qp_complete(struct core *core, struct engine_qp *qp, const struct completion *c);
void qp_store_state(struct engine_qp *qp, enum one_qp_state state);
void qp_publish(struct engine_qp *qp); /* how far the rings have been taken */
void qp_flush_rings(struct core *core, struct engine_qp *qp);
/* Breaks by itself: flushes what is not flushed yet and tells the control thread. */
void qp_break(struct core *core, struct engine_qp *qp, enum rc_error error);
/* The control thread's flush: no event. */
void qp_flush(struct core *core, struct engine_qp *qp);
void qp_reset(struct core *core, struct engine_qp *qp);
void qp_established(struct core *core, struct engine_qp *qp);
void qp_poll(struct core *core, struct engine_qp *qp);
void qp_check_drained(struct core *core, struct engine_qp *qp);
void qp_timeout(struct core *core, struct engine_qp *qp);
void qp_forget(struct core *core, struct engine_qp *qp);
void qp_reached(void *core, void *qp); /* a reach_wake */

static inline void
qp_make_hot(struct core *core, struct engine_qp *qp)
{
	qp->empty_looks = 0;
	if (!qp->hot && !qp->faulty) {
		qp->hot = true;
		qp->hot_at = core->hot_count;
		core->hot[core->hot_count++] = qp;
	}
}

static inline void
qp_make_cold(struct core *core, struct engine_qp *qp)
{
	if (qp->hot) {
		qp->hot = false;
		core->hot[qp->hot_at] = core->hot[--core->hot_count];
		core->hot[qp->hot_at]->hot_at = qp->hot_at;
	}
}

/* ---- srq.c ---- */
void srq_took(struct core *core, struct engine_srq *srq, uint32_t slots); /* a receive of so many slots */
void srq_set_limit(struct core *core, struct engine_srq *srq, uint32_t limit);
void srq_publish(struct engine_srq *srq); /* how many are done */

/* ---- wqe.c ---- */
/* Check the form of a slot copied from a ring; `ext` are its extension slots. */
void wqe_to_work(const struct one_wqe *wqe, const struct one_wqe_ext *ext, struct work *work);
void wqe_to_recv(const struct one_wqe *wqe, const struct one_wqe_ext *ext, struct recv_work *recv);

/* ---- doorbell.c ---- */
uint32_t doorbell_scan(struct core *core);

/* ---- local.c ---- */
void local_poll(struct core *core, struct engine_qp *qp, uint32_t budget);
void local_bind_done(struct core *core, struct engine_qp *qp, bool ok);
void local_kick(struct core *core, struct engine_qp *qp); /* something changed for who waits for qp */
/* Nothing is moved any more for it or by its peer to it. */
void local_leave(struct core *core, struct engine_qp *qp);

/* ---- rcio.c ---- */
void rcio_init(struct core *core);
void rcio_after(struct core *core, struct engine_qp *qp); /* after any call of the transport */
void rcio_poll(struct core *core, struct engine_qp *qp, uint32_t budget); /* new work */
uint32_t rcio_run(struct core *core);
uint32_t rcio_receive(struct core *core);
uint32_t rcio_inbound(struct core *core);

/* ---- tx.c ---- */
struct rte_mbuf *tx_alloc(struct core *core);
bool tx_has_room(struct core *core, uint32_t port);
void tx_append(struct core *core, uint32_t port, struct rte_mbuf *m);
void tx_append_unsealed(struct core *core, uint32_t port, struct rte_mbuf *m); /* without its ICRC */
uint32_t tx_flush(struct core *core);                                          /* frames moved */
void tx_free(struct core *core);

/* ---- timer.c ---- */
void timer_init(struct core *core);
void timer_set(struct core *core, struct engine_qp *qp, uint64_t deadline); /* earlier than the one queued */
void timer_cancel(struct core *core, struct engine_qp *qp);
void timer_run(struct core *core);
uint64_t timer_next(const struct core *core); /* ns; RC_NEVER: none */

/* ---- qpn.c ---- */
void qpn_publish(struct engine_qp *qp);
void qpn_withdraw(struct engine_qp *qp);
int qpn_reserve(uint32_t qpn);
void qpn_release(uint32_t qpn);
int qpn_init(void);
void qpn_fini(void);

/* ---- port.c ---- */
int ports_configure(char *why, size_t why_len); /* before the cores' buffers: says how large they are */
int ports_start(char *why, size_t why_len);
void ports_fini(void);
const struct port *port_by_addr(const struct wire_addr *addr);

/* ---- flow.c ---- */
void flows_init(struct port *port); /* when it is started */
void flows_fini(struct port *port);
void flow_command(const struct engine_command *command); /* before the core gets it */
void flow_learn(struct engine_qp *qp, uint16_t udp_src_port);
void flow_ask(struct core *core, struct engine_qp *qp, const struct frame_info *info);

/* Another core received a frame for the queue pair. */
static inline void
flow_strayed(struct core *core, struct engine_qp *qp, const struct frame_info *info)
{
	if (unlikely(++qp->strays % FLOW_STRAYS == 0))
		flow_ask(core, qp, info);
}

/* ---- link.c ---- */
void links_fini(void); /* before the ports are closed */

/* ---- idle.c ---- */
void idle(struct core *core, uint32_t done); /* after each loop */
void idle_wake(struct core *core);       /* from another thread, after something was queued for the core */
void idle_wake_peers(struct core *core); /* those of wake_mask */
int idle_init(struct core *core);
void idle_begin(void); /* on the core's own thread */
void idle_fini(struct core *core);
void idle_watch(struct core *core, struct engine_client *client);
void idle_forget(struct core *core, struct engine_client *client);

/* ---- stats.c ---- */
void stats_publish(struct core *core);
void stats_register(void);
void stages_begin(struct core *core, uint64_t tsc); /* of a loop */
void stages_end(struct core *core, bool busy);
void stage_charge(struct core *core, enum engine_stage stage);

/* What was done since the last call belongs to `stage`. */
static inline void
stage_end(struct core *core, enum engine_stage stage)
{
	if (unlikely(core->timed))
		stage_charge(core, stage);
}

/* So many cycles of the stage under way belong to another. */
static inline void
stage_within(struct core *core, enum engine_stage stage, uint64_t cycles)
{
	core->stage_cycles[stage] += cycles;
	core->stage_mark += cycles;
}

#endif
