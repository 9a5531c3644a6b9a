/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A lane: the part of an attachment that one of its cores serves (doc/cores.md).
 */
#ifndef DATAPLANE_QP_CLIENT_H
#define DATAPLANE_QP_CLIENT_H

#include "dataplane/qp/user.h"

/* Address handle: made and freed by the control thread, immutable in between. */
struct engine_ah {
	uint32_t id, pz;
	uint16_t port;
	bool loop; /* the destination is an address of this data plane */
	struct wire_template template;
	struct reap reap; /* control thread only */
};

/* The control thread stores each entry by itself; cores load them. */
struct ah_table {
	_Atomic(struct engine_ah *) slot[ONE_AHS_MAX];
};

/* Sockets of channels, indexed by the low half of the channel's id: descriptor + 1; 0: none. The core of the
 * first lane stores entries, and the cores of all lanes load them. */
#define CHANNEL_PLACES 65536u
struct channel_table {
	_Atomic int fd[CHANNEL_PLACES];
};

/* A request of struct one_keys in progress: see keys.c. */
struct keys_wait {
	enum {
		KEYS_IDLE,
		KEYS_SCAN,  /* until all doorbells are scanned */
		KEYS_BEGIN, /* until the work posted before has begun */
		KEYS_LANES, /* first lane: until the other lanes have begun theirs */
		KEYS_GRACE  /* first lane: until no core uses the key any more */
	} stage;
	uint32_t asked;         /* number of the request */
	bool ok;                /* KEYS_GRACE: the key was revoked */
	uint64_t token;         /* KEYS_GRACE: token of the grace period */
	uint32_t left;          /* queue pairs of share.hot not visited yet */
	uint64_t since;         /* core->now when the request was noticed */
	struct engine_qp *qp;   /* being visited; only compared, never dereferenced */
	uint32_t until, posted; /* sq_head, and rc_posted(), at which `qp` has begun */
	bool taken;
};

/* Scheduling of a lane on its core: see share.c. */
struct share {
	struct engine_qp **hot; /* queue pairs whose rings are polled, in no order */
	uint32_t hot_count;
	uint32_t hot_next;         /* index of the next one to poll */
	struct qp_list run;        /* queue pairs that have frames to emit */
	bool busy;                 /* in group->busy */
	struct share_group *group; /* the user's group on this core */
	uint32_t flight;           /* packets in flight on the lane's connections */
	int64_t credit; /* DRR deficit counter: cost that the turn may still cause; negative: overdrawn */
	TAILQ_ENTRY(engine_client) link;
};

struct engine_client {
	struct core *core;
	uint32_t number;            /* see engine_lane_number() */
	struct engine_client *home; /* first lane of the attachment, perhaps this one */
	/* Next of the other lanes; the list begins in the first lane and has no order. The control thread
	 * stores the links. */
	_Atomic(struct engine_client *) next_lane;
	uint8_t *arena;
	struct one_arena *header;
	struct one_doorbells *doorbells;
	struct one_channel *channels;
	struct one_keys *keys;
	uint32_t keys_answered; /* number of the request answered last */
	/* keys_ask: number of a request; the other lanes must begin the work posted before it. Stored by the
	 * first lane's core. keys_begun: number of the last request for which a lane has done so. Stored by
	 * that lane's core. */
	_Atomic uint32_t keys_ask, keys_begun;
	/* First lane only: queue pairs on their way between two lanes; and a request in progress. See move.c.
	 */
	_Atomic uint32_t moving;
	_Atomic bool keys_busy;
	struct keys_wait keys_wait;
	struct qp_list sending; /* queue pairs that left share.hot before all posted work was sent */
	uint32_t groups;        /* doorbell groups to scan, from the first on */
	bool faulty;            /* not served any more */
	uint32_t scan_next;     /* word of doorbell groups at which the next scan begins */
	struct share share;
	int wake_fd;
	_Atomic uint32_t *asleep;       /* in the arena: announces to the library that the core sleeps */
	struct engine_qp **qps;         /* indexed by doorbell; or a lane: see doorbell.h */
	_Atomic(struct ah_table *) ahs; /* first lane only; NULL: no address handle has been made */
	/* Stored by the core, loaded by engine_client_counts(): independent counters. */
	_Atomic uint64_t work, completions;
	struct event_node node;
	TAILQ_ENTRY(engine_client) link;
	TAILQ_HEAD(, engine_qp) quiescing; /* ordered by quiesce_mark */
	TAILQ_ENTRY(engine_client) quiesce_link;
	/* Stored by the control thread before it publishes a key of memory that the copy thread moves. */
	struct bounce *bounce;
	/* First lane only; NULL: no channel has been opened. */
	_Atomic(struct channel_table *) channel_table;
	/* control thread only */
	struct reap reap;
};

/* Increment a counter that only this core stores. */
static inline void
client_count(_Atomic uint64_t *counter)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/* True if [offset, offset + size) is aligned, and in an arena behind its header. */
static inline bool
client_owns(uint64_t offset, uint64_t size)
{
	return offset >= sizeof(struct one_arena) && offset % ONE_CACHE_LINE == 0 && size <= ONE_ARENA_SIZE &&
	       offset <= ONE_ARENA_SIZE - size;
}

/* Stop serving a client that broke the protocol, and report that once to the control thread. */
void client_fault(struct engine_client *client, enum one_fault fault);

#endif
