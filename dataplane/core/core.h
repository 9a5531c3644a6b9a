/* SPDX-License-Identifier: BSD-3-Clause */
/* State of one polling core. Only the owning core uses a field unless a comment states otherwise. */
#ifndef DATAPLANE_CORE_CORE_H
#define DATAPLANE_CORE_CORE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_rcu_qsbr.h>
#include <rte_ring.h>

#include "dataplane/core/limits.h"
#include "dataplane/core/process.h"
#include "dataplane/engine.h"
#include "dataplane/mem/bounce.h"

struct core;

/* ---- event.c: acknowledgements and events, from a core to the control thread ---- */
/* Events of an object that found the ring to the control thread full. */
struct event_node {
	STAILQ_ENTRY(event_node) link;
	bool queued;
	uint8_t pending; /* a bit per enum engine_event_type */
	uint32_t value;  /* of FAILED and FAULT */
	void *owner;
};

/* Element of the ring from a core to the control thread. */
struct up {
	void *pointer; /* the acknowledged command (type 0), or the event's owner */
	uint32_t type; /* enum engine_event_type; 0: acknowledgement; UP_STRAYS: for steer.c */
	uint32_t value;
};
#define UP_STRAYS UINT32_MAX

/* Store completions staged earlier first: see qp_raise() and cq_unstage(). */
void event_raise(struct core *core, struct event_node *node, enum engine_event_type type, uint32_t value);
bool event_drain(struct core *core);          /* true: nothing is left */
void event_notify_control(struct core *core); /* at most once per loop: announces queued entries */
/* Reports that frames of `qp` from that UDP port arrive at core `at`; false: not now. */
bool event_strays(struct core *core, struct engine_qp *qp, uint16_t udp_src_port, uint8_t at);
/* Reports that the peer of a connection is silent; `owner` is the queue pair's. False: the ring is full. */
bool event_silent(struct core *core, void *owner);
void event_acknowledge(struct core *core, struct engine_command *command);

/* ---- timer.c: timers of a core, embedded in the objects that they serve ---- */
#define TIMER_NEVER UINT64_MAX

struct timer_calls;

struct timer {
	TAILQ_ENTRY(timer) link;
	uint64_t at; /* ns, deadline queued; TIMER_NEVER: not in the wheel */
	const struct timer_calls *calls;
	uint32_t slot;
};
TAILQ_HEAD(timer_list, timer);

void timer_init(struct core *core);                                        /* initializes the wheel */
void timer_set(struct core *core, struct timer *timer, uint64_t deadline); /* no effect unless earlier */
void timer_cancel(struct core *core, struct timer *timer);

/* Called for a timer whose slot is due: deadline() returns its current deadline (TIMER_NEVER: none), expire()
 * acts if the deadline has passed. */
struct timer_calls {
	uint64_t (*deadline)(const struct timer *timer);
	void (*expire)(struct core *core, struct timer *timer);
};
void timer_run(struct core *core);
uint64_t timer_next(const struct core *core); /* ns; TIMER_NEVER: none */

/* State of the DRR scheduler of a core: see dataplane/qp/share.c. */
struct core_drr {
	/* Users whose clients have hot queue pairs or frames to emit, in the order of their turns. */
	TAILQ_HEAD(, share_group) busy;
	uint32_t groups, clients; /* busy users, and their busy clients */
	bool contended;           /* several clients were busy in this loop */
	bool cut_short;           /* a client's turn ended early, or did not begin, for want of credit */
	uint32_t poll_budget;     /* requests of one queue pair in one loop */
	uint32_t run_budget;      /* frames that a queue pair emits before others get a turn */
	uint32_t heaviest;        /* greatest weight among the users at work in the last two rounds */
	uint32_t heaviest_now;    /* greatest weight in this round */
	uint32_t tx_most;         /* frames waiting for a port, above which queue pairs wait */
	uint32_t flight;          /* packets in flight of all clients */
	uint32_t flight_most;     /* packets that a client may have in flight, in the current turn */
	uint64_t frame_bytes;     /* bytes of frames emitted */
	uint64_t cost;            /* cost of frames emitted and polls, see share_cost() */
	uint64_t cost_end;        /* value of `cost` at which the current turn ends */
};

TAILQ_HEAD(qp_list, engine_qp);

/* Private area of every mbuf: findings of the core that received the frame. */
struct frame_info {
	struct wire_packet packet;
	uint16_t port;
	bool parsed;           /* packet is valid */
	bool esp;              /* not parsed: arrived as ESP, and its ESP layer is not removed yet */
	uint32_t from;         /* not parsed and no ESP: QPN of the sender on this data plane */
	uint8_t far;           /* memif: the peer's core that sent the frame, or is to receive it */
	uint8_t at;            /* parsed: the core at which the frame arrived */
	struct rte_mbuf *next; /* engine_move.frames */
};

struct tx_queue {
	uint16_t first, count;
	struct rte_mbuf *frame[TX_BUFFER];
};

struct rx_queue {
	uint16_t port, device, queue;
	bool interrupt; /* the driver has an interrupt for the queue */
	bool watched;   /* the queue's socket is in the core's epoll set */
	bool rings;     /* of a memif: the core has a ring for each core of the peer */
};

/* Completions of one queue pair on one ring, not stored in the ring yet. */
struct stage {
	struct engine_qp *qp; /* NULL: nothing is staged */
	struct engine_cq *cq;
	uint32_t count;
	struct one_cqe entry[CORE_STAGE];
};

struct core {
	struct rc_env env; /* first: the transport passes a pointer to it back */
	uint64_t now;      /* ns, time of this loop; excludes time off the processor: see loop_clock */
	uint64_t real_at;  /* ns, time of this loop by the clock that does not stop */
	uint64_t slept;    /* ns slept voluntarily since real_at */
	struct stage stage;
	struct engine_stats stats;
	uint64_t sample_at; /* value of stats.work at which the next request is timed */
	uint32_t loop;
	bool timed;         /* the stages of this loop are timed */
	bool timed_idle;    /* the previous loop found nothing to do */
	uint32_t hot_count; /* queue pairs, of all clients, whose rings are polled */
	uint32_t clients_count;
	struct core_drr drr;
	uint64_t scan_at; /* cycles: latest time of the next doorbell scan */
	/* In the order of their first entries since cq_publish. */
	STAILQ_HEAD(cq_list, engine_cq) dirty;
	struct bounce_list reaching;
	TAILQ_HEAD(, engine_client) quiescing; /* clients with binds that wait for copies; see bind.c */
	TAILQ_HEAD(, engine_client) clients;
	STAILQ_HEAD(, event_node) backlog;
	bool wake_control;    /* entries for the control thread were queued in this loop */
	uint64_t sleep_ended; /* number of the last sleep of the control thread that this core ended */

	struct rte_mbuf *rx_frame; /* frame being processed */
	struct engine_qp *rx_qp;   /* queue pair of the previous frame, whose rcio_after is still to come */
	uint8_t rx_far;            /* the peer's core that sent the frame; 0 without memif */
	bool rx_from_there;        /* the first frame of rx_qp came from the MAC that rx_qp sends to */
	struct wire_seen seen;     /* findings about that frame */
	struct wire_move move;     /* payload of the previous frame */
	uint32_t holds, holds_max; /* frames that the transport holds until a hole is filled */
	struct rte_mbuf *tx_frame; /* between tx_begin and tx_end */
	uint32_t tx_unsealed;      /* frames appended that still need an ICRC */
	struct rte_mbuf *tx_seal[CORE_BURST];
	uint32_t tx_spares;
	struct rte_mbuf *tx_spare[CORE_BURST];
	struct tx_queue tx[CONFIG_PORTS_MAX];
	/* memif: frames for the peer's cores after the first, and a bitmap of the queues that have frames. */
	struct tx_queue *far_tx[CONFIG_PORTS_MAX];
	uint16_t far_busy[CONFIG_PORTS_MAX];
	uint64_t wake_mask; /* cores that were handed something in this loop */

	struct rx_queue rx[CONFIG_PORTS_MAX];
	uint32_t num_rx;

	uint64_t timer_tick;  /* slots before this one are done */
	uint32_t timer_waits; /* loops in a row that deferred the timers */
	bool rx_more;         /* a queue had as many frames as one loop takes */
	uint64_t timers;
	struct timer_list wheel[TIMER_SLOTS];

	uint64_t loop_at, idle_at; /* cycles: begin of this loop, end of the previous one */
	uint64_t published_at;
	uint64_t stage_mark;                     /* cycles: begin of the current stage */
	uint64_t stage_cycles[ENGINE_STAGE_MAX]; /* of this loop */
	/* For --idle sleep; times in cycles. */
	uint64_t found_at;              /* begin of the last loop that found something */
	uint64_t polled_in_vain;        /* processor time of the loops since found_at, which found nothing */
	uint64_t poll_for;              /* value of `polled_in_vain` at which the core falls asleep */
	uint64_t poll_least, poll_most; /* bounds of poll_for */
	uint32_t naps;                  /* sleeps since found_at */
	/* For --idle yield, and before sleeping; times in cycles. */
	uint64_t gave_at;    /* last time that the processor was yielded */
	uint64_t give_after; /* interval between yields while no other thread wants the processor */
	uint64_t least;      /* shortest duration of a yield */
	bool gave;           /* the core yielded after the previous loop */
	bool shared;         /* another thread ran during that yield */
	uint32_t takes;      /* receives taken since the last yield; CORE_TAKES: none was left to take */
	uint32_t index, lcore;
	struct rte_mempool *pool;
	void *rc_memory, *scoreboards_memory;
	int epoll, rx_epoll;

	/* Shared with the control thread and other cores. */
	struct rte_ring *commands __rte_cache_aligned;
	struct rte_ring *up;
	struct rte_ring *inbound;
	int wake_fd;
	_Atomic bool asleep;
	_Atomic bool stop;
	_Atomic bool stopped;
	_Atomic uint32_t links_up; /* a bit for each port whose link has come up: repeat.c */
	_Atomic uint64_t published[sizeof(struct engine_stats) / sizeof(uint64_t)];
	/* Counters of the processes before this one, which take-overs have passed on. */
	_Atomic uint64_t inherited[sizeof(struct engine_stats) / sizeof(uint64_t)];
	_Atomic uint64_t counted_until; /* real time up to which time counts; later time without a loop will
					   be a gap */
	/* Used only by the control thread. */
	uint32_t num_clients, num_qps;
	struct engine_command *unsent, **unsent_tail;
} __rte_cache_aligned;

static inline struct frame_info *
frame_info(struct rte_mbuf *m)
{
	return rte_mbuf_to_priv(m);
}

/* Passes a frame to another core's inbound ring, or to the own. If the ring is full, the frame is counted and
 * freed. */
static inline void
core_hand_over(struct core *core, struct core *to, struct rte_mbuf *m)
{
	if (rte_ring_mp_enqueue(to->inbound, m) != 0) {
		core->stats.drop_inbound++;
		rte_pktmbuf_free(m);
		return;
	}
	core->stats.handed_over++;
	if (to != core)
		core->wake_mask |= 1ull << to->index;
}

#endif
