/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Neighbours: ARP, IPv6 neighbour discovery and echo replies, sans I/O.
 * Frames and the time (monotonic ns) come in; frames and answers go out.  No
 * DPDK, no clock, no socket.  One thread.
 *
 * An entry is learnt only from the answer to a query of ours or from a request addressed to us, never from
 * what passes by.  Whatever says that a known neighbour has another MAC only makes us ask it, where it was;
 * when it is silent, everyone.  Its MAC stays while the transport hears it there, or while frames are lost
 * that may be its answer.  Everything is allocated by neigh_new.
 */
#ifndef CONTROL_NEIGH_H
#define CONTROL_NEIGH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "dataplane/wire/wire.h" /* struct wire_addr */

#define NEIGH_NEVER UINT64_MAX
#define NEIGH_ENTRIES 4096u   /* over all ports */
#define NEIGH_FRAME_MAX 9234u /* longer echo requests are not answered */
#define NEIGH_ROUTES_MAX 16u  /* of one address */

struct neigh;

/* Packets to `net` go by the router `via`. */
struct neigh_route {
	struct wire_addr net, via;
	uint8_t prefix; /* bits of the family of `net` */
};

/* An address of a port; a port has one entry or several, each with its own table of neighbours. */
struct neigh_port {
	uint16_t port;
	uint8_t mac[6];
	struct wire_addr addr;
	uint8_t prefix; /* bits of the address's own family: 0..32 or 0..128 */
	bool has_gateway;
	struct wire_addr gateway;
	uint32_t num_routes; /* by routers that are asked for from this address */
	struct neigh_route route[NEIGH_ROUTES_MAX];
};

struct neigh_env {
	/* The frame is the callee's only during the call.  Must not call back into neigh. */
	void (*send)(struct neigh_env *env, uint16_t port, const uint8_t *frame, uint32_t len);
	/* A known neighbour answers from another MAC now: paths to `addr` should be renewed.  May be NULL, as
	 * the others below. */
	void (*changed)(struct neigh_env *env, uint16_t port, const struct wire_addr *addr,
			const uint8_t mac[6]);
	/* The transport has heard a peer by this next hop, from the MAC it is known by, in the last `ns`. */
	bool (*heard)(struct neigh_env *env, uint16_t port, const struct wire_addr *addr, uint64_t ns);
	/* Another host, at that MAC, has the port's address `addr`; every ten seconds at most for each. */
	void (*conflict)(struct neigh_env *env, uint16_t port, const struct wire_addr *addr,
			 const uint8_t mac[6]);
	/* Frames for neigh_input that were lost on the way to it. */
	uint32_t (*lost)(struct neigh_env *env);
	/* A router reports that a packet of ours from that UDP port to `dst` was longer than `mtu` bytes, its
	 * IP header among them.  May be NULL. */
	void (*too_big)(struct neigh_env *env, uint16_t port, const struct wire_addr *dst,
			uint16_t udp_src_port, uint32_t mtu);
};

/* status 0 and the next hop's MAC, or -EHOSTUNREACH (no answer). */
typedef void neigh_done(void *user, int status, const uint8_t mac[6]);

/* Who waits for an answer, in the memory of whoever it is: there may be any number. */
struct neigh_waiter {
	LIST_ENTRY(neigh_waiter) link;
	neigh_done *done;
	void *user;
	bool waits;
};

/* The addresses of a port are next to each other, the primary one first. */
struct neigh *neigh_new(struct neigh_env *env, const struct neigh_port *addrs, uint16_t num_addrs);
void neigh_free(struct neigh *neigh);
/* The link has come up: ask for each address of the port whether another host has it, and announce it if none
 * objects (RFC 5227, RFC 4862).  Goes on in neigh_timeout. */
void neigh_announce(struct neigh *neigh, uint16_t port, uint64_t now);
/* The port has another MAC address from now on; it is to be announced. */
void neigh_set_mac(struct neigh *neigh, uint16_t port, const uint8_t mac[6]);

#define NEIGH_NOBODY UINT32_MAX /* asks for the data plane itself */

/*
 * The MAC to send to for reaching `dst` from `port`: its own when it is on the link, the gateway's
 * otherwise, ours when `dst` is an address of this data plane.  Returns
 *   0              `mac` is filled; `done` will not be called
 *   -EINPROGRESS   waiter->done is called once, later, from neigh_input or neigh_timeout
 *   -ENETUNREACH   not on the link and no gateway, or the wrong family
 *   -EHOSTUNREACH  it has not answered just now
 *   -EINVAL        multicast, broadcast or unspecified
 *   -ENOBUFS       too many neighbours have not answered: in all, or three quarters of that for `asker`, a
 * uid `done` may call neigh_resolve and neigh_cancel.  `waiter`: set up, and not waiting; NULL: only ask.
 */
int neigh_resolve(struct neigh *neigh, uint16_t port, const struct wire_addr *dst, uint64_t now,
		  uint8_t mac[6], uint32_t asker, struct neigh_waiter *waiter);
/* What is known, without asking for what is not: 0, -ENOENT, or as above. */
int neigh_lookup(struct neigh *neigh, uint16_t port, const struct wire_addr *dst, uint64_t now,
		 uint8_t mac[6]);
/* The next hop on the way from `port` to `dst`: 0, or as above. */
int neigh_hop(const struct neigh *neigh, uint16_t port, const struct wire_addr *dst, struct wire_addr *hop);
/* Frames to `dst` are not answered: ask for its next hop anew, once a second at most; everyone already by the
 * second query. */
void neigh_suspect(struct neigh *neigh, uint16_t port, const struct wire_addr *dst, uint64_t now);
/* The port's own address from which packets to `dst` go: the length of the prefix that decides, or as above.
 */
int neigh_source(const struct neigh *neigh, uint16_t port, const struct wire_addr *dst,
		 struct wire_addr *src);
/* It waits no more, if it did. */
void neigh_cancel(struct neigh_waiter *waiter);

/* A frame that is not RoCE, from the Ethernet header on. */
void neigh_input(struct neigh *neigh, uint16_t port, const uint8_t *frame, uint32_t len, uint64_t now);

uint64_t neigh_deadline(const struct neigh *neigh);
void neigh_timeout(struct neigh *neigh, uint64_t now);

/* For telemetry and people. */
enum neigh_state {
	NEIGH_NONE = 0,
	NEIGH_INCOMPLETE,
	NEIGH_REACHABLE,
	NEIGH_STALE,
	NEIGH_PROBE,
	NEIGH_FAILED /* within neigh alone */
};
struct neigh_info {
	struct wire_addr addr;
	uint8_t mac[6];
	uint16_t port;
	enum neigh_state state;
};
/* Entry `index` (0..NEIGH_ENTRIES-1); false when that place is empty. */
bool neigh_get(const struct neigh *neigh, uint32_t index, uint64_t now, struct neigh_info *out);

/* Frames by which another host had an address of the port, and the last one's MAC. */
struct neigh_conflicts {
	uint64_t count;
	uint8_t mac[6];
};
const struct neigh_conflicts *neigh_conflicts(const struct neigh *neigh, uint16_t port);

struct neigh_stats {
	uint64_t malformed, queries, rate_limited;
};
const struct neigh_stats *neigh_stats(const struct neigh *neigh);

#endif
