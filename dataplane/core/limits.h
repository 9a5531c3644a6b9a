/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits of a polling core: the work of one loop, and the lengths of its queues. */
#ifndef DATAPLANE_CORE_LIMITS_H
#define DATAPLANE_CORE_LIMITS_H

enum {
	CORE_BURST = 32,         /* frames of one rx or tx burst */
	CORE_COMMANDS = 32,      /* commands handled in one loop */
	CORE_HOT_POLLS = 256,    /* queue pairs polled in one loop */
	CORE_WORK_BUDGET = 64,   /* work requests of one queue pair in one loop */
	CORE_STAGE = 16,         /* completions stored at once */
	CORE_STREAM = 8,         /* requests found by one poll that make a stream: see qp_budget */
	CORE_STREAM_NS = 400,    /* time that a stream's ring is left to fill */
	CORE_EMPTY_LOOKS = 64,   /* empty polls after which a queue pair has to ring its doorbell again */
	CORE_SCAN_INTERVAL = 16, /* loops between doorbell scans while some queue pair is hot */
	CORE_SCAN_NS = 2000,     /* limit of the time between these scans */
	CORE_SCAN_GROUPS = 4,    /* groups of doorbells of one client per scan */
	CORE_RUN_LOOKS = 128,    /* queue pairs that may emit in one loop */
	CORE_RUN_BUDGET = 16,    /* frames that each of them may emit in one turn */
	CORE_RUN_BYTES = 65536,  /* turns go on until this number of bytes is sent, or nothing more can be */
	CORE_TIMEOUTS = 64,      /* timers served in one loop */
	CORE_TAKES = 128,        /* receives taken before `--idle yield` lets the posting thread run */
	CORE_BOARDS = 32,        /* queue pairs in selective loss recovery at once */
	CORE_HOLDS = 4,          /* 1/CORE_HOLDS of a core's buffers may be held during recovery */
	CORE_COMMAND_RING = 4096,
	CORE_MAX = 64,
	CORE_UP_RESERVE = 8, /* entries in the ring to the control thread that one command may need */
	CORE_UP_RING = 8192,
	CORE_INBOUND_RING = 4096,
	CONTROL_FRAME_RING = 1024,
	NEIGH_FRAME_RING = 512,
	CONTROL_MBUFS = 1023,
	PORT_TX_RING = 1024,
	PORT_RINGS_MAX = 16, /* of a memif in each direction: DPDK's limit of queues per port */
	TX_BUFFER = 512,     /* frames that a core holds while a port is full */
	TX_HIGH = 256,       /* frames waiting for a port, above which queue pairs wait */
	TX_SHARED = 32, /* TX_HIGH if there are several clients: bounds the wait of each client's frames */
	INBOUND_HIGH = 3072,
	LOCAL_CHUNK = 65536,        /* bytes of one message that the local transport copies in one loop */
	LOCAL_CHUNK_LONG = 131072,  /* LOCAL_CHUNK while no other queue pair is hot */
	LOCAL_CHUNK_ALONE = 524288, /* LOCAL_CHUNK while there is also no other client */
	TIMER_SLOTS = 4096,
	TIMER_SHIFT = 12, /* a slot is 4.1 us */
	/* Bursts that drain the longest receive queue: they limit how long timers and commands wait. */
	DRAIN_BURSTS = CORE_INBOUND_RING / CORE_BURST,
	QPN_LOG2 = 18,
	FLOW_RULES = 128, /* per port */
	FLOW_STRAYS = 64  /* frames handed over by other cores before a flow rule is requested */
};
#define CORE_GAP_NS 4000000ull           /* counted at most between two loops: see loop_clock */
#define FLOW_INTERVAL_NS 10000000000ull  /* between two requests of one queue pair */
#define SILENT_INTERVAL_NS 1000000000ull /* between two reports of one queue pair that its peer is silent */
#define LOCAL_LOST_NS \
	500000000ull /* silence of a vanished peer after which work fails, unless control is faster */

#endif
