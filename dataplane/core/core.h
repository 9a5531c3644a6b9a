/* SPDX-License-Identifier: BSD-3-Clause */
/* What one polling core owns.  Fields are the owning core's alone unless a comment says otherwise. */
#ifndef DATAPLANE_CORE_CORE_H
#define DATAPLANE_CORE_CORE_H

#include <stdatomic.h>
#include <sys/queue.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_rcu_qsbr.h>
#include <rte_ring.h>

#include "dataplane/core/event.h"
#include "dataplane/core/limits.h"
#include "dataplane/core/process.h"
#include "dataplane/core/timer.h"
#include "dataplane/core/turns.h"
#include "dataplane/engine.h"
#include "dataplane/mem/reach.h"

TAILQ_HEAD(qp_list, engine_qp);

/* In the private area of every mbuf: what the core that received a frame has found out. */
struct frame_info {
	struct wire_packet packet;
	uint16_t port;
	bool parsed;   /* packet is valid */
	bool esp;      /* else: came by the port as ESP, from which it is still to be freed */
	uint32_t from; /* else, and no ESP: the queue pair of this data plane that has sent it */
	uint8_t far;   /* the far end's core: that sent it by a memif, or that it is to reach */
};

struct tx_queue {
	uint16_t first, count;
	struct rte_mbuf *frame[TX_BUFFER];
};

struct rx_queue {
	uint16_t port, device, queue;
	bool interrupt; /* the driver's */
	bool watched;   /* the socket that it receives from is in the core's epoll */
	bool rings;     /* of a memif: the core has a ring for each core of the far end */
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
	uint64_t now;      /* ns, of this loop; time off the processor is not counted: see loop_clock */
	uint64_t real_at;  /* the same of the clock that does not stop */
	uint64_t slept;    /* ns, of its own will, since */
	struct stage stage;
	struct engine_stats stats;
	uint64_t sample_at; /* of stats.work: then the next request is timed */
	uint32_t loop;
	bool timed;         /* this loop's stages are */
	bool timed_idle;    /* the loop before found nothing to do */
	uint32_t hot_count; /* queue pairs whose rings are looked at, of all clients */
	uint32_t clients_count;
	struct core_turns turns;
	uint64_t scan_at; /* cycles: the next look at the doorbells at the latest */
	/* In the order of their first entries since cq_publish. */
	STAILQ_HEAD(cq_list, engine_cq) dirty;
	struct reach_list reaching;
	TAILQ_HEAD(, engine_client) settling; /* with binds that wait for copies; see bind.c */
	TAILQ_HEAD(, engine_client) clients;
	STAILQ_HEAD(, event_node) backlog;
	bool tell_control;    /* entries for the control thread were queued in this loop */
	uint64_t sleep_ended; /* the sleep of the control thread that was ended from here last */

	struct rte_mbuf *rx_frame; /* being looked at */
	struct engine_qp *rx_qp;   /* had the frame before it, and rcio_after is still to come */
	uint8_t rx_far;            /* the far end's core that sent it; 0 but for memif */
	bool rx_from_there;        /* the first of its frames came from the MAC that its own go to */
	struct wire_seen seen;     /* and what is found in it */
	struct wire_move move;     /* payload of the frame before it */
	uint32_t holds, holds_max; /* frames kept by the transport until a hole is filled */
	struct rte_mbuf *tx_frame; /* between tx_begin and tx_end */
	uint32_t tx_unsealed;      /* frames appended whose ICRC is still to come */
	struct rte_mbuf *tx_seal[CORE_BURST];
	uint32_t tx_spares;
	struct rte_mbuf *tx_spare[CORE_BURST];
	struct tx_queue tx[CONFIG_PORTS_MAX];
	/* For memif: frames to the far end's cores after the first, and which of these queues have frames. */
	struct tx_queue *far_tx[CONFIG_PORTS_MAX];
	uint16_t far_busy[CONFIG_PORTS_MAX];
	uint64_t wake_mask; /* cores that were handed something in this loop */

	struct rx_queue rx[CONFIG_PORTS_MAX];
	uint32_t num_rx;

	uint64_t timer_tick;  /* slots before this one are done */
	uint32_t timer_waits; /* loops since they were looked at */
	bool rx_more;         /* a queue had as many frames as one loop takes */
	uint64_t timers;
	struct timer_list wheel[TIMER_SLOTS];

	uint64_t loop_at, idle_at; /* cycles: when this loop began, the one before ended */
	uint64_t published_at;
	uint64_t stage_mark;                     /* when the stage under way began */
	uint64_t stage_cycles[ENGINE_STAGE_MAX]; /* of this loop */
	/* --idle sleep; times in cycles */
	uint64_t found_at;              /* the last loop that found something began */
	uint64_t looked;                /* processor time of the loops since, which found nothing */
	uint64_t look_for;              /* `looked` of a core that falls asleep */
	uint64_t look_least, look_most; /* bounds of look_for */
	uint32_t naps;                  /* sleeps since found_at */
	/* --idle yield, and before sleeping; times in cycles */
	uint64_t gave_at;    /* when the processor was given away last */
	uint64_t give_after; /* how long it is kept while no other thread wants it */
	uint64_t least;      /* that giving it away took */
	bool gave;           /* after the loop before this one */
	bool shared;         /* others had it then */
	uint32_t takes;      /* receives taken since then; CORE_TAKES: there was none to take */
	uint32_t index, lcore;
	struct rte_mempool *pool;
	void *rc_memory, *scoreboards_memory;
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
	_Atomic uint64_t counted_until; /* real time; what passes after it without a loop will be a gap */
	/* control thread */
	uint32_t clients_held, qps_held;
	struct engine_command *unsent, **unsent_tail;
} __rte_cache_aligned;

static inline struct frame_info *
frame_info(struct rte_mbuf *m)
{
	return rte_mbuf_to_priv(m);
}

/* To another core's inbound ring, or its own; a frame that finds it full is counted and freed. */
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

/* What core->now will be. */
static inline uint64_t
core_time(const struct core *core)
{
	return core->now + (engine_now(rte_rdtsc()) - core->real_at);
}

#endif
