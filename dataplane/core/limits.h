/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of a polling core: what one loop does at most, and how long its queues are. */
#ifndef DATAPLANE_CORE_LIMITS_H
#define DATAPLANE_CORE_LIMITS_H

enum {
	CORE_BURST = 32,         /* frames of one rx or tx burst */
	CORE_COMMANDS = 32,      /* commands handled in one loop */
	CORE_HOT_LOOKS = 256,    /* queue pairs looked at in one loop */
	CORE_WORK_BUDGET = 64,   /* work requests of one queue pair in one loop */
	CORE_STAGE = 16,         /* completions stored in one go */
	CORE_STREAM = 8,         /* requests in one look that make a stream: see qp_budget */
	CORE_STREAM_NS = 400,    /* how long a stream's ring is left to fill */
	CORE_EMPTY_LOOKS = 64,   /* after so many a queue pair has to ring its doorbell again */
	CORE_SCAN_INTERVAL = 16, /* loops between looks at the doorbells while some queue pair is hot, */
	CORE_SCAN_NS = 2000,     /* if they do not take longer than so; */
	CORE_SCAN_GROUPS = 4,    /* groups of doorbells of one client that one look goes through */
	CORE_RUN_LOOKS = 128,    /* queue pairs that may emit in one loop, */
	CORE_RUN_BUDGET = 16,    /* and frames that each may in one turn; */
	CORE_RUN_BYTES = 65536,  /* turns go on until so much has gone out, or nothing more can */
	CORE_TIMEOUTS = 64,      /* timers served in one loop */
	CORE_TAKES = 128,        /* receives taken before `--idle yield` lets the posting thread run */
	CORE_BOARDS = 32,        /* queue pairs that recover from loss selectively at one time */
	CORE_HOLDS = 4,          /* of its buffers, one in so many may be kept meanwhile */
	CORE_COMMAND_RING = 4096,
	CORE_MAX = 64,
	CORE_UP_RESERVE = 8, /* places in the ring up that one command may need */
	CORE_UP_RING = 8192,
	CORE_INBOUND_RING = 4096,
	CONTROL_FRAME_RING = 1024,
	NEIGH_FRAME_RING = 512,
	CONTROL_MBUFS = 1023,
	PORT_TX_RING = 1024,
	PORT_RINGS_MAX = 16, /* of a memif in each direction: DPDK counts so many queues of a port */
	TX_BUFFER = 512,     /* frames a core holds for a port that takes no more */
	TX_HIGH = 256,       /* more than these behind: queue pairs wait; */
	TX_SHARED = 32,      /* among several clients these: what one has to send waits behind no more */
	INBOUND_HIGH = 3072,
	LOCAL_CHUNK = 65536,        /* bytes of one message that the local transport copies in one loop, */
	LOCAL_CHUNK_LONG = 131072,  /* while no other queue pair is hot, */
	LOCAL_CHUNK_ALONE = 524288, /* and no other client is there */
	TIMER_SLOTS = 4096,
	TIMER_SHIFT = 12, /* a slot is 4.1 us */
	/* Loops that timers wait for what is in the receive queues: as many as the longest one takes. */
	TIMER_DEFER_LOOPS = CORE_INBOUND_RING / CORE_BURST,
	QPN_LOG2 = 18,
	FLOW_RULES = 128, /* of one port */
	FLOW_STRAYS = 64  /* frames that other cores had to hand over before a rule is asked for */
};
#define CORE_GAP_NS 4000000ull           /* between two loops; what is more was others' on our processor */
#define FLOW_INTERVAL_NS 10000000000ull  /* between two times that one queue pair asks */
#define SILENT_INTERVAL_NS 1000000000ull /* between two reports of one queue pair that its peer is silent */
#define LOCAL_LOST_NS \
	500000000ull /* silence of a vanished peer before work fails, if control is not faster */

#endif
