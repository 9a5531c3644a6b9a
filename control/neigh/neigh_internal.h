/* SPDX-License-Identifier: BSD-3-Clause */
/* Between neigh.c (the table and its timers), neigh_claim.c (our own addresses) and neigh_frame.c (what
 * frames look like). */
#ifndef CONTROL_NEIGH_INTERNAL_H
#define CONTROL_NEIGH_INTERNAL_H

#include <string.h>
#include <sys/queue.h>

#include "neigh.h"

#define NEIGH_ADDRS_MAX 128u
#define NEIGH_BUCKETS 4096u /* power of two */

/* Replies and queries per second, so that no host makes us flood a link. */
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
	struct neigh_entries *list;   /* that it is in */
	struct neigh_waiters waiters; /* while INCOMPLETE, and `answering` */
	uint32_t asker;               /* INCOMPLETE only */
	struct wire_addr addr;
	enum neigh_state state; /* STALE is never stored: REACHABLE and old */
	uint16_t port;
	uint8_t mac[6];
	uint8_t queries;    /* sent since the state was entered */
	bool suspected;     /* PROBE: frames to it are not answered */
	uint64_t asked;     /* when the state was entered, */
	uint32_t lost;      /* and how many frames had been lost by then */
	uint64_t confirmed; /* when it last answered or asked */
	uint64_t next;      /* pending: when to ask again or give up */
};
LIST_HEAD(neigh_bucket, neigh_entry);

/* The state of one of our own addresses. */
struct neigh_claim {
	uint64_t begun, next; /* NEIGH_NEVER: probed and announced, or the link has not come up */
	uint32_t step;
	bool taken;                    /* by another host, when the link came up */
	uint64_t defend_at, report_at; /* not before */
	struct neigh_conflicts seen;   /* by all addresses of the port; only its first address has it */
};

/*
 * An interface is one address of a port.  Every frame of a port is shown to all its interfaces; each answers
 * for its own address.  Within this room `port` is the index of an interface; config.port is the device's.
 */
struct neigh_iface {
	struct neigh_port config;
	bool v4;
	bool first_of_family;        /* of its port: answers for the link-local address */
	struct wire_addr link_local; /* IPv6 */
	struct neigh_claim claim;
	struct neigh_rate replies, echoes, queries, reports;
	/* Whose query is due, and waits for the rate: for the first time, which goes first, and again. */
	struct neigh_entries first, again;
};

struct neigh {
	struct neigh_env *env;
	struct neigh_stats stats;
	uint32_t seed;
	uint16_t num_ports;
	struct neigh_iface port[NEIGH_ADDRS_MAX];
	uint64_t deadline, rate_deadline; /* of `pending`; of a port's `first` and `again` */
	uint64_t answer_deadline;         /* of `answering` */
	struct neigh_entries free, idle, pending, answering; /* idle: least recently used first */
	uint32_t incomplete;                                 /* entries in that state */
	struct neigh_bucket bucket[NEIGH_BUCKETS];
	struct neigh_entry entry[NEIGH_ENTRIES];
	uint8_t frame[NEIGH_FRAME_MAX]; /* being built */
};

/* neigh.c, for what came in; addresses are on the link and unicast. */

/* `addr` answered: a query of ours, or (solicited false) without having been asked. */
void neigh_answered(struct neigh *neigh, uint16_t port, const struct wire_addr *addr, const uint8_t mac[6],
		    bool solicited, uint64_t now);
/* `addr` asked for us. */
void neigh_asked(struct neigh *neigh, uint16_t port, const struct wire_addr *addr, const uint8_t mac[6],
		 uint64_t now);
bool neigh_is_ours(const struct neigh_iface *iface, const struct wire_addr *addr);
/* A host on this port's link, other than ourselves. */
bool neigh_is_on_link(const struct neigh_iface *iface, const struct wire_addr *addr);
/* Another host, on this link or with an address of another network: it asks by this link (RFC 826). */
bool neigh_may_ask(const struct neigh_iface *iface, const struct wire_addr *addr);
bool neigh_rate_ok(struct neigh *neigh, struct neigh_rate *rate, uint32_t per_second, uint64_t now);

/* neigh_claim.c */
bool neigh_is_probing(const struct neigh_iface *iface);
void neigh_conflict(struct neigh *neigh, uint16_t port, const uint8_t mac[6], uint64_t now);
uint64_t neigh_claim_deadline(const struct neigh *neigh);
void neigh_claim_timeout(struct neigh *neigh, uint64_t now);

/* neigh_frame.c: sends; `mac` NULL asks everyone. */
void neigh_send_query(struct neigh *neigh, uint16_t port, const struct wire_addr *addr, const uint8_t *mac);
void neigh_send_probe(struct neigh *neigh, uint16_t port); /* asks who has our address */
void neigh_send_announcement(struct neigh *neigh, uint16_t port);

static inline bool
neigh_addr_link_local(const struct wire_addr *addr)
{
	return addr->gid[0] == 0xfe && (addr->gid[1] & 0xc0) == 0x80;
}

#endif
