/* SPDX-License-Identifier: BSD-3-Clause */
/* State that the cores and the control thread share. */
#ifndef DATAPLANE_CORE_PROCESS_H
#define DATAPLANE_CORE_PROCESS_H

#include <stdatomic.h>

#include <rte_mempool.h>
#include <rte_rcu_qsbr.h>
#include <rte_ring.h>

#include "dataplane/core/limits.h"
#include "dataplane/mem/mem.h"

struct config;
struct core;

/* Memory that the control thread frees when every core has passed a quiescent state. */
struct reap {
	struct reap *next;
	uint64_t token;
	void *memory[4];
};

struct engine {
	const struct config *config;
	struct core *core[CORE_MAX];
	uint32_t num_cores;
	struct mem_table *mem;
	struct rte_rcu_qsbr *rcu;
	uint16_t data_room;              /* of the cores' mbufs, without headroom */
	struct rte_ring *control_frames; /* frames for the control thread */
	struct rte_ring *alive_frames;   /* keep-alive frames, apart so that the others cannot delay them */
	struct rte_ring *neigh_frames;   /* ARP and neighbour discovery, which no other frames crowd out */
	/* Frames that found neigh_frames full. Cores count; the control thread compares two readings. */
	_Atomic uint32_t neigh_lost;
	struct rte_mempool *control_pool;
	int event_fd;
	_Atomic uint64_t control_sleep; /* number of the control thread's current sleep, which a write to
					   event_fd ends; 0: awake */
	uint64_t control_sleeps;        /* last number of a sleep; used only by the control thread */
	uint64_t tsc_mult;              /* ns = tsc * mult >> 32 */
	uint64_t scan_cycles;           /* CORE_SCAN_NS */
	_Atomic bool time_stages;
	bool running;
	struct esp_change *ipsec;       /* prepared, and not yet in force */
	struct reap *reap, **reap_tail; /* in the order of their tokens */
};
extern struct engine engine;

static inline uint64_t
engine_now(uint64_t tsc)
{
	return (uint64_t)(((unsigned __int128)tsc * engine.tsc_mult) >> 32);
}

/* Returns the number of entries of a ring that other threads use. Relaxed: no entry is read because of the
 * number. Callers that decide on sleeping execute a fence first (idle.c). */
static inline uint32_t
ring_used(const struct rte_ring *ring)
{
	return __atomic_load_n(&ring->prod.tail, __ATOMIC_RELAXED) -
	       __atomic_load_n(&ring->cons.tail, __ATOMIC_RELAXED);
}

#endif
