/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Deterministic simulator of dataplane/rc in virtual time.
 *
 *   sim.c       one run: hosts, time, the order of events
 *   stops.c     hosts that stop for a while, or forever
 *   moves.c     queue pairs that move between the cores of their host
 *   network.c   frames in flight: loss, duplication, delay, corruption
 *   copies.c    memory without mapping
 *   workload.c  the work of each side, and the model of its results
 *   link.c      goodput over a modelled switch
 *   bars.c      minimum goodput over that switch
 *   bench.c     the cost of small operations, in real time
 *   main.c      arguments, many seeds
 *
 * The model. Each direction of a connection has a target area at the peer that nothing else writes, so its
 * contents after each work request are known in advance, and so are the values that atomics find. A READ may
 * also see data of later unfenced work. Messages arrive in order, at receives taken in order. When a
 * connection fails, work completed before has its exact effect, and later work may or may not have been
 * executed.
 */
#ifndef TESTS_SIM_SIM_H
#define TESTS_SIM_SIM_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dataplane/mem/bounce.h"
#include "tests/rc_env.h"

#include "common.h"

#define MAX_HOSTS 6u /* with --moves each host has two cores, like two hosts with the same addresses */
#define MAX_CONNS 4u
#define MAX_SIDES (2u * MAX_CONNS)
#define MAX_OPS 200u
#define POOL_NODES 256u
#define BOARDS 3u /* scoreboards of a host: fewer than its connections may need */
#define NEVER UINT64_MAX
#define US 1000ull
#define MS 1000000ull

struct sim;

enum poison {
	POISON_NONE,
	POISON_RKEY,  /* no such key */
	POISON_RANGE, /* beyond the region */
	POISON_RIGHT, /* key without the right */
	POISON_LKEY,  /* no such local key */
	POISON_MALFORMED,
	POISON_LONG,       /* message longer than the receive */
	POISON_RECV_LKEY,  /* receive with a bad key */
	POISON_ALIGN,      /* atomic on an odd address */
	POISON_INVALIDATE, /* key that may not be invalidated */
	POISON_BIND,
	POISON_REVOKE, /* the peer removes its key at some time */
	POISON_FLUSH,  /* this side is stopped at some time */
	POISON_MAX
};

struct op {
	struct work work;
	uint32_t target; /* offset in the peer's target area */
	uint8_t *effect; /* bytes stored there: work.length, or 8 for atomics; NULL: none */
	uint8_t *expect; /* READ, atomics: bytes found */
	bool message;    /* consumes a receive at the peer */
};

struct piece {
	uint32_t offset, len;
};

struct recv_plan {
	struct recv_work recv;
	const struct op *op; /* the message that the receive is for */
};

/* An area of memory surrounded by canaries. */
struct area {
	uint8_t *block, *base;
	uint8_t *model; /* expected contents */
	uint32_t len;
	struct mem_region region;
};

struct host {
	struct test_env env; /* first: callbacks get the host from it */
	struct sim *sim;
	struct wire_addr v4, v6;
	struct frame *inbox, **inbox_end;
	uint64_t poll_at;
	/* copies.c */
	struct one_copies *copies;
	uint32_t lane; /* of the application */
	struct bounce *bounce;
	struct bounce_list reaching;
	uint64_t copy_at; /* NEVER: no request is pending */
	uint32_t copied;
	/* stops.c */
	uint64_t away_from, away_until; /* time without a processor */
	uint64_t lost;                  /* part of that time that the host's clock has left out */
	uint32_t long_stops, timer_waits;
	bool in_turns, long_turns; /* shares its processor; with long turns */
	/* takeovers.c */
	uint32_t takeovers;        /* attempts left */
	uint64_t give_at, take_at; /* NEVER: not */
};

struct side {
	struct sim *sim;
	struct host *host;
	struct side *peer;
	struct rc_qp *qp;
	struct rc_attr attr;
	uint32_t index;
	struct area source, landing, receive, target;
	struct mem_region readable; /* the target, without the right to write */
	uint8_t *target_start;      /* the target's contents before all work */
	struct op op[MAX_OPS];
	uint32_t ops, posted, done, succeeded, depth;
	struct recv_plan recv[MAX_OPS];
	uint32_t recvs, recv_posted, recv_taken, recv_done, recv_slack;
	uint32_t poison_op;
	enum poison poison;
	uint8_t failed_status; /* of the first work request that failed */
	uint8_t recv_status;
	bool failed, stopped, revoked, unmapped;
	uint64_t next_post, next_recv, bind_at, stop_at, revoke_at, rtu_at;
	uint64_t busy_since; /* time since when work has been outstanding */
	/* moves.c */
	uint32_t moves;            /* attempts left */
	uint64_t move_at, thaw_at; /* NEVER: not */
	void *record;              /* frozen; NULL: it runs */
	uint32_t record_len;
	bool lossy; /* takeovers.c: frames for it are lost while it is frozen */
	struct rc_frozen frozen;
	struct host *from;
	struct frame *waiting, **waiting_end;
};

enum repeat { REPEAT_MIXED, REPEAT_SELECTIVE, REPEAT_GO_BACK };

extern const char *const repeat_names[3], *const stops_names[3];

/* Hosts that stop, on a network without loss. */
enum stops {
	STOPS_NONE,
	STOPS_PAUSE, /* each host stops at times, for less than its peers' patience */
	STOPS_VANISH /* one host vanishes at some time */
};

struct options {
	enum stops stops;
	bool moves;     /* queue pairs move between two cores of their host */
	bool takeovers; /* another process takes over all of a host */
	double loss;
	enum repeat repeat; /* loss recovery of connections between two oneside ends */
	bool verbose;
};

/* Behaviour of one run's network, drawn from the seed. */
struct weather {
	double loss, duplicate, corrupt, reorder, spike, starve;
	double held; /* not the network's: how often a host is held (RC_THROTTLED) */
	uint64_t delay, jitter, spike_delay, poll_jitter, copy_delay;
};

struct frame {
	struct frame *next;
	struct host *to;
	uint64_t at, order;
	uint32_t len;
	bool corrupted;
	uint8_t *bytes;
	uint8_t *original; /* the frame before its corruption */
	uint32_t original_len;
};

struct totals {
	uint64_t runs, frames, lost, corrupted, caught, duplicated, work, failures, gave_up, unprovoked,
		copied, moves, takeovers, rollbacks;
	uint64_t virtual_ms;
	uint64_t counter[RC_COUNT_MAX];
};

struct sim {
	uint64_t seed, random, now, order;
	const struct options *options;
	struct weather weather;
	struct host host[MAX_HOSTS];
	struct side *side[MAX_SIDES];
	uint32_t hosts, sides;
	struct mem_table *mem;
	struct frame **heap;
	uint32_t heap_len, heap_cap;
	struct totals *totals;
	uint64_t vanish_at; /* NEVER: no host vanishes */
};

void sim_run(uint64_t seed, const struct options *options, struct totals *totals);
_Noreturn void sim_fail(const struct sim *sim, const struct side *side, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void sim_log(const struct sim *sim, const struct side *side, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

uint64_t sim_random(struct sim *sim);
uint32_t sim_below(struct sim *sim, uint32_t n); /* 0..n-1 */
bool sim_chance(struct sim *sim, double p);

void bench_run(void);

/* copies.c */
/* `first`: the first core of a host, NULL: this is the first. */
void copies_open(struct host *host, struct host *first);
void copies_close(struct host *host);
void copies_unmap(struct host *host, struct area *area); /* call before the area's key is copied or used */
void copies_await(struct sim *sim, struct host *host);   /* schedules pending requests for host->copy_at */
void copies_run(struct sim *sim, struct host *host);

/* link.c: goodput over a modelled switch, in virtual time. */
struct link_run {
	uint32_t senders;
	uint16_t mtu;
	bool selective, read;
	bool unknown;        /* neither end has announced oneside, as with out-of-band connections */
	double loss;         /* probability for each frame */
	double buffer, mark; /* of the switch's port, bytes; `mark` is the ECN threshold */
	uint64_t rtt, time;  /* ns */
};

struct link_result {
	double goodput, least, jain; /* Gb/s: of all senders, of the slowest; Jain's index of fairness */
	uint64_t resent, timeouts, cnps, lost, dropped, marked;
	uint64_t late; /* drops in the second half of the time */
};
struct link_result link_simulate(const struct link_run *run);
/* Functions of bars.c print the goodput reached, and return false if it is too low. */
bool link_loss(void);
bool link_incast(void);

/* network.c */
void weather_draw(struct sim *sim);
void network_send(struct sim *sim, struct host *to, uint8_t *bytes, uint32_t len); /* frees `bytes` */
struct frame *network_next(const struct sim *sim);
struct frame *network_take(struct sim *sim);
void frame_free(struct frame *frame);
/* Parses like a data plane, after checking that the ICRC detects corruption. */
bool frame_parse(struct sim *sim, struct host *host, struct frame *frame, struct wire_packet *packet);

/* stops.c */
void stops_draw(struct sim *sim); /* call after the sides exist */
void stops_end(struct sim *sim);  /* ends the stops that are over by now */
bool stops_hold_timers(struct host *host);
/* Checks how long `side` has waited before it gave up its peer. */
void stops_check(const struct sim *sim, const struct side *side);

/* moves.c */
void moves_draw(struct sim *sim); /* call after the sides exist */
void moves_run(struct sim *sim, struct side *side);
uint64_t moves_next(const struct side *side);
/* Freezes a side, whose core is then the other one of its host. Returns 0; -EAGAIN or -ENOTCONN: nothing has
 * changed. */
int moves_freeze(struct sim *sim, struct side *side);
/* Thaws it on its core; false: the core has not enough nodes. */
bool moves_try(struct side *side);
/* Thaws it where it was frozen. */
void moves_return(struct sim *sim, struct side *side);
/* The side runs. */
void moves_end(struct sim *sim, struct side *side);
/* True if the frame waits for `side`, or was handed over to its core, another one than `host`. */
bool moves_take(struct side *side, const struct host *host, struct frame *frame);

/* takeovers.c */
void takeovers_draw(struct sim *sim); /* call after the sides exist */
void takeovers_run(struct sim *sim);
uint64_t takeovers_next(const struct sim *sim);

static inline bool
host_is_away(const struct host *host)
{
	return host->sim->now >= host->away_from && host->sim->now < host->away_until;
}

/* Time at which a host executes what is due at `time`. */
static inline uint64_t
host_due(const struct host *host, uint64_t time)
{
	return time != NEVER && time >= host->away_from && time < host->away_until ? host->away_until : time;
}

/* The clock of the host's transport. */
static inline uint64_t
host_now(const struct host *host)
{
	return host->sim->now - host->lost;
}

static inline uint64_t
side_deadline(const struct side *side)
{
	uint64_t deadline = rc_deadline(side->qp);

	return deadline == RC_NEVER ? NEVER : deadline + side->host->lost;
}

/* workload.c */
void workload_plan(struct sim *sim, struct side *side);
void workload_free(struct side *side);
void area_new(struct sim *sim, struct area *area, uint32_t len, uint32_t pz, uint32_t access);
void area_free(struct area *area);
void workload_send_done(struct sim *sim, struct side *side, const struct completion *c);
void workload_recv_done(struct sim *sim, struct side *side, const struct completion *c);
void workload_check_end(struct sim *sim, struct side *side);

#endif
