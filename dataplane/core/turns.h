/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose turn it is on a core: see dataplane/qp/share.c. */
#ifndef DATAPLANE_CORE_TURNS_H
#define DATAPLANE_CORE_TURNS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct core_turns {
	/* Users with clients that have queue pairs whose rings are looked at, or some with frames to make, in
	 * the order of their turns. */
	TAILQ_HEAD(, share_group) busy;
	uint32_t groups, clients; /* users there, and clients of theirs */
	bool contended;           /* there was more than one client in this loop */
	bool cut_short;           /* a client's turn ended, or did not begin, for want of credit */
	uint32_t look_budget;     /* requests of one queue pair in one loop, */
	uint32_t run_budget;      /* and frames that it makes before others' */
	uint32_t heaviest;        /* weight, of users at work in the last two rounds, */
	uint32_t heaviest_now;    /* and in this one */
	uint32_t tx_most;         /* frames behind for a port: with more, queue pairs wait */
	uint32_t flight;          /* packets in flight of all clients */
	uint32_t flight_most;     /* packets in flight of a client, in the turn under way */
	uint64_t frame_bytes;     /* of frames made */
	uint64_t cost;            /* of frames made and looks, see share_cost() */
	uint64_t cost_end;        /* of the turn under way */
};

#endif
