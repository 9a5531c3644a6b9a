/* SPDX-License-Identifier: BSD-3-Clause */
/* Interface between neigh.c (table and timers), neigh_claim.c (our own addresses) and neigh_frame.c (frame
 * formats). */
#ifndef CONTROL_NEIGH_INTERNAL_H
#define CONTROL_NEIGH_INTERNAL_H

#include <string.h>
#include <sys/queue.h>

#include "neigh.h"

#define NEIGH_ADDRS_MAX 128u
#define NEIGH_BUCKETS 4096u /* power of two */

/* Token bucket for replies and queries: prevents a host from making us flood a link. */
struct neigh_rate {
	uint64_t last;   /* ns */
	uint64_t credit; /* ns worth of frames */
};

LIST_HEAD(neigh_waiters, neigh_waiter);
struct neigh_entry;
TAILQ_HEAD(neigh_entries, neigh_entry);

struct neigh_entry {
	LIST_ENTRY(neigh_entry) hash;
	TAILQ_ENTRY(neigh_entry) order;
	struct neigh_entries *list;   /* the list that contains this entry */
	struct neigh_waiters waiters; /* non-empty only while INCOMPLETE or on `answering` */
	uint32_t asker;               /* valid while INCOMPLETE */
	struct wire_addr addr;
	enum neigh_state state; /* never STALE, which is derived from an old REACHABLE */
	uint16_t port;
	uint8_t mac[6];
	uint8_t queries;    /* number sent since the state was entered */
	bool suspected;     /* PROBE: the transport gets no answers from this neighbour */
	uint64_t asked;     /* time when the state was entered */
	uint32_t lost;      /* env->lost() when the state was entered */
	uint64_t confirmed; /* time of the latest answer or request from this neighbour */
	uint64_t next;      /* on `pending`: time of the next query or of giving up */
};
LIST_HEAD(neigh_bucket, neigh_entry);

/* The state of one of our own addresses. */
struct neigh_claim {
	uint64_t begun, next; /* next == NEIGH_NEVER: claimed, or the link is not up yet */
	uint32_t step;
	bool taken;                    /* another host used the address when the link came up */
	uint64_t defend_at, report_at; /* earliest times for the next defence and report */
	struct neigh_conflicts seen;   /* for the whole port; kept by its first address only */
};

/* An interface is one address of a port.  Each frame of a port goes to all its interfaces; each interface
 * answers for its own address.  In this folder `port` is the index of an interface; config.port is the index
 * of the DPDK port. */
struct neigh_iface {
	struct neigh_port config;
	bool v4;
	bool first_of_family;        /* first interface of its port and family: owns the link-local address */
	struct wire_addr link_local; /* IPv6 */
	struct neigh_claim claim;
	struct neigh_rate replies, echoes, queries, reports;
	/* Entries whose query is due and waits for the rate limit.  `first` (never queried) goes before
	 * `again`. */
	struct neigh_entries first, again;
};

struct neigh {
	struct neigh_env *env;
	struct {
		uint64_t malformed, queries, rate_limited;
	} stats;
	uint32_t seed;
	uint16_t num_ports;
	struct neigh_iface port[NEIGH_ADDRS_MAX];
	uint64_t deadline, rate_deadline; /* deadlines of `pending`, and of all `first` and `again` lists */
	uint64_t answer_deadline;         /* deadline of `answering` */
	struct neigh_entries free, idle, pending, answering; /* `idle` is in LRU order */
	uint32_t incomplete;                                 /* number of INCOMPLETE entries */
	struct neigh_bucket bucket[NEIGH_BUCKETS];
	struct neigh_entry entry[NEIGH_ENTRIES];
	uint8_t frame[NEIGH_FRAME_MAX]; /* buffer for the frame under construction */
};

/* neigh.c: called for received frames; addresses are unicast and on the link. */

/* An answer from `addr` arrived.  `solicited`: it answers our query. */
void neigh_answered(struct neigh *neigh, uint16_t port, const struct wire_addr *addr, const uint8_t mac[6],
		    bool solicited, uint64_t now);
/* A query for our address arrived from `addr`. */
void neigh_asked(struct neigh *neigh, uint16_t port, const struct wire_addr *addr, const uint8_t mac[6],
		 uint64_t now);
bool neigh_is_ours(const struct neigh_iface *iface, const struct wire_addr *addr);
/* True for a unicast address on this port's link that is not our own. */
bool neigh_is_on_link(const struct neigh_iface *iface, const struct wire_addr *addr);
/* True for any other host: an ARP sender may have an address of another network (RFC 826). */
bool neigh_may_ask(const struct neigh_iface *iface, const struct wire_addr *addr);
bool neigh_rate_ok(struct neigh *neigh, struct neigh_rate *rate, uint32_t per_second, uint64_t now);

/* neigh_claim.c */
bool neigh_is_probing(const struct neigh_iface *iface);
void neigh_conflict(struct neigh *neigh, uint16_t port, const uint8_t mac[6], uint64_t now);
uint64_t neigh_claim_deadline(const struct neigh *neigh);
void neigh_claim_timeout(struct neigh *neigh, uint64_t now);

/* neigh_frame.c: senders.  `mac` NULL: broadcast or multicast. */
void neigh_send_query(struct neigh *neigh, uint16_t port, const struct wire_addr *addr, const uint8_t *mac);
void neigh_send_probe(struct neigh *neigh, uint16_t port); /* asks who has our address */
void neigh_send_announcement(struct neigh *neigh, uint16_t port);

static inline bool
neigh_addr_link_local(const struct wire_addr *addr)
{
	return addr->gid[0] == 0xfe && (addr->gid[1] & 0xc0) == 0x80;
}

#endif
