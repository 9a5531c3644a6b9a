/* SPDX-License-Identifier: BSD-3-Clause */
/* State of the DRR scheduler of a core: see dataplane/qp/share.c. */
#ifndef DATAPLANE_CORE_TURNS_H
#define DATAPLANE_CORE_TURNS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct core_turns {
	/* Users whose clients have hot queue pairs or frames to emit, in the order of their turns. */
	TAILQ_HEAD(, share_group) busy;
	uint32_t groups, clients; /* busy users, and their busy clients */
	bool contended;           /* several clients were busy in this loop */
	bool cut_short;           /* a client's turn ended early, or did not begin, for want of credit */
	uint32_t look_budget;     /* requests of one queue pair in one loop */
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

#endif
