/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A lane: an attachment, as one of its cores sees it (doc/cores.md).
 */
#ifndef DATAPLANE_QP_CLIENT_H
#define DATAPLANE_QP_CLIENT_H

#include "dataplane/qp/user.h"

/* An address handle: made and freed by the control thread, not changed in between. */
struct engine_ah {
	uint32_t id, pz;
	uint16_t port;
	bool loop; /* to an address of this data plane */
	struct wire_template template;
	struct reap reap; /* control thread */
};

/* Written by the control thread, entry by entry. */
struct ah_table {
	_Atomic(struct engine_ah *) slot[ONE_AHS_MAX];
};

/* Sockets of channels, by the low half of the channel's id: the descriptor + 1, 0 for none.  The core of the
 * first lane stores them, and the cores of all lanes load them. */
#define CHANNEL_PLACES 65536u
struct channel_table {
	_Atomic int fd[CHANNEL_PLACES];
};

/* A request of struct one_keys that waits for requests posted before: see keys.c. */
struct keys_wait {
	enum {
		KEYS_IDLE,
		KEYS_SCAN,  /* the doorbells */
		KEYS_BEGIN, /* what was posted */
		KEYS_LANES, /* first lane: until the others have begun what was posted */
		KEYS_GRACE  /* first lane: until no core uses the key any more */
	} stage;
	uint32_t asked;         /* the number of the request */
	bool ok;                /* KEYS_GRACE: the key was revoked */
	uint64_t token;         /* KEYS_GRACE: of the grace period */
	uint32_t left;          /* queue pairs of share.hot not visited yet */
	uint64_t since;         /* core->now */
	struct engine_qp *qp;   /* visited now: only compared */
	uint32_t until, posted; /* its sq_head, and its place in rc, when it has begun */
	bool taken;
};

/* What it has to be served for, and what it may have of its core: see share.c. */
struct share {
	struct engine_qp **hot; /* queue pairs whose rings are looked at, in no order; */
	uint32_t hot_count;
	uint32_t hot_next;         /* and the place of the next one */
	struct qp_list run;        /* queue pairs that have frames to make */
	bool busy;                 /* in group->busy */
	struct share_group *group; /* of its user, on its core */
	uint32_t flight;           /* packets that its connections have in flight */
	int64_t credit; /* what its turn may still cost; below 0: what its last one took too much */
	TAILQ_ENTRY(engine_client) link;
};

struct engine_client {
	struct core *core;
	struct engine_client *home; /* the first lane of the attachment: which may be this one */
	/* The other lanes, in no order, from the first on.  Stored by the control thread. */
	_Atomic(struct engine_client *) next_lane;
	uint8_t *arena;
	struct one_arena *header;
	struct one_doorbells *doorbells;
	struct one_channel *channels;
	struct one_keys *keys;
	uint32_t keys_answered; /* the last request there */
	/* Number of the request whose predecessors in the rings other lanes are to begin: stored by the first
	 * lane's core.  keys_begun: stored by each of the others when it has. */
	_Atomic uint32_t keys_ask, keys_begun;
	struct keys_wait keys_wait;
	struct qp_list sending; /* queue pairs that left share.hot before all that was posted had been sent */
	uint32_t groups;        /* doorbell groups that have queue pairs, counted from the first */
	bool faulty;            /* served no more */
	uint32_t scan_next;     /* the word of groups with which the next look at its doorbells begins */
	struct share share;
	int wake_fd;
	_Atomic uint32_t *asleep;       /* where the library looks whether the core sleeps */
	struct engine_qp **qps;         /* by doorbell */
	_Atomic(struct ah_table *) ahs; /* of the first lane; NULL: there has been none */
	/* Stored by the core, loaded by engine_client_counts(): each number by itself. */
	_Atomic uint64_t work, completions;
	struct event_node node;
	TAILQ_ENTRY(engine_client) link;
	TAILQ_HEAD(, engine_qp) settling; /* in the order of their marks */
	TAILQ_ENTRY(engine_client) settle_link;
	/* Written by the control thread before any key leads there. */
	struct reach *reach;
	/* Of the first lane; NULL: no channel has been opened. */
	_Atomic(struct channel_table *) channel_table;
	/* control thread */
	struct reap reap;
};

/* One more, on its core, the only writer. */
static inline void
client_count(_Atomic uint64_t *counter)
{
	atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + 1,
			      memory_order_relaxed);
}

/* [offset, offset + size) is in an arena, aligned, and not in its header. */
static inline bool
client_owns(uint64_t offset, uint64_t size)
{
	return offset >= sizeof(struct one_arena) && offset % ONE_CACHE_LINE == 0 && size <= ONE_ARENA_SIZE &&
	       offset <= ONE_ARENA_SIZE - size;
}

/* A client that breaks the protocol: served no more, one event for the control thread. */
void client_fault(struct engine_client *client, enum one_fault fault);

#endif
