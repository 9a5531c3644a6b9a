/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Neighbours: ARP, IPv6 neighbour discovery and echo replies, sans I/O.  Input: frames and the time
 * (monotonic, ns).  Output: frames and answers.  No DPDK, no clock, no socket.  One thread.
 *
 * An entry is learnt only from the answer to our own query or from a request addressed to us, never from
 * overheard frames.  A frame that claims a new MAC for a known neighbour only triggers a query: first to the
 * known MAC, then, if no answer comes, by broadcast.  The known MAC stays valid while the transport still
 * receives from it, or while lost frames may include the neighbour's answer.  neigh_new allocates all memory.
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

/* Packets to `net` are sent to the router `via`. */
struct neigh_route {
	struct wire_addr net, via;
	uint8_t prefix; /* bits of the family of `net` */
};

/* An address of a port.  A port has one or more; each address has its own table of neighbours. */
struct neigh_port {
	uint16_t port;
	uint8_t mac[6];
	struct wire_addr addr;
	uint8_t prefix; /* bits of the address's own family: 0..32 or 0..128 */
	bool has_gateway;
	struct wire_addr gateway;
	uint32_t num_routes; /* routes whose router is resolved from this address */
	struct neigh_route route[NEIGH_ROUTES_MAX];
};

struct neigh_env {
	/* `frame` is valid during the call only.  The callee must not call neigh. */
	void (*send)(struct neigh_env *env, uint16_t port, const uint8_t *frame, uint32_t len);
	/* Optional, as are the callbacks below.  A known neighbour now answers from another MAC: renew the
	 * paths to `addr`. */
	void (*changed)(struct neigh_env *env, uint16_t port, const struct wire_addr *addr,
			const uint8_t mac[6]);
	/* True if the transport received a frame through this next hop, from its known MAC, in the last `ns`.
	 */
	bool (*heard)(struct neigh_env *env, uint16_t port, const struct wire_addr *addr, uint64_t ns);
	/* The host at `mac` uses the port's address `addr`.  Called at most every 10 s per address. */
	void (*conflict)(struct neigh_env *env, uint16_t port, const struct wire_addr *addr,
			 const uint8_t mac[6]);
	/* Number of frames lost before they reached neigh_input. */
	uint32_t (*lost)(struct neigh_env *env);
	/* A router reports that our packet from `udp_src_port` to `dst` exceeded `mtu` bytes, IP header
	 * included. */
	void (*too_big)(struct neigh_env *env, uint16_t port, const struct wire_addr *dst,
			uint16_t udp_src_port, uint32_t mtu);
};

/* `status`: 0, and `mac` is the next hop's, or -EHOSTUNREACH (no answer). */
typedef void neigh_done(void *user, int status, const uint8_t mac[6]);

/* A pending resolution.  The caller owns the memory, so the number of waiters has no limit. */
struct neigh_waiter {
	LIST_ENTRY(neigh_waiter) link;
	neigh_done *done;
	void *user;
	bool waits;
};

/* `addrs`: the addresses of a port are adjacent, the primary one first. */
struct neigh *neigh_new(struct neigh_env *env, const struct neigh_port *addrs, uint16_t num_addrs);
void neigh_free(struct neigh *neigh);
/* Call when the link comes up: probes each address of the port for another user, and announces the address if
 * no host objects (RFC 5227, RFC 4862).  neigh_timeout continues the sequence. */
void neigh_announce(struct neigh *neigh, uint16_t port, uint64_t now);
/* Sets the port's MAC address.  The caller then calls neigh_announce. */
void neigh_set_mac(struct neigh *neigh, uint16_t port, const uint8_t mac[6]);

#define NEIGH_NOBODY UINT32_MAX /* an asker that is the data plane itself */

/*
 * Resolves the next hop's MAC for `dst`: the MAC of `dst` on the link, the router's off the link, our own for
 * an address of this data plane.  Returns
 *   0              `mac` is filled; `done` will not be called
 *   -EINPROGRESS   waiter->done is called once, later, from neigh_input or neigh_timeout
 *   -ENETUNREACH   not on the link and no gateway, or the wrong family
 *   -EHOSTUNREACH  the next hop recently failed to answer
 *   -EINVAL        multicast, broadcast or unspecified
 *   -ENOBUFS       too many unanswered neighbours: the table is full, or `asker` (a uid) has 3/4 of it
 * `done` may call neigh_resolve and neigh_cancel.  `waiter`: initialized and not waiting, or NULL to send the
 * query without waiting.
 */
int neigh_resolve(struct neigh *neigh, uint16_t port, const struct wire_addr *dst, uint64_t now,
		  uint8_t mac[6], uint32_t asker, struct neigh_waiter *waiter);
/* Like neigh_resolve, without a query: -ENOENT if the MAC is not known. */
int neigh_lookup(struct neigh *neigh, uint16_t port, const struct wire_addr *dst, uint64_t now,
		 uint8_t mac[6]);
/* Finds the next hop from `port` to `dst`.  Returns 0 or an error of neigh_resolve. */
int neigh_hop(const struct neigh *neigh, uint16_t port, const struct wire_addr *dst, struct wire_addr *hop);
/* Call when frames to `dst` get no answer: queries its next hop again, at most once a second.  The second
 * query is already a broadcast. */
void neigh_suspect(struct neigh *neigh, uint16_t port, const struct wire_addr *dst, uint64_t now);
/* Selects the port's source address for packets to `dst`.  Returns the length of the matching prefix or an
 * error of neigh_resolve. */
int neigh_source(const struct neigh *neigh, uint16_t port, const struct wire_addr *dst,
		 struct wire_addr *src);
/* Ends the wait.  No effect if `waiter` does not wait. */
void neigh_cancel(struct neigh_waiter *waiter);

/* Processes a frame that is not RoCE.  `frame` starts with the Ethernet header. */
void neigh_input(struct neigh *neigh, uint16_t port, const uint8_t *frame, uint32_t len, uint64_t now);

uint64_t neigh_deadline(const struct neigh *neigh);
void neigh_timeout(struct neigh *neigh, uint64_t now);

/* Neighbour states as shown by telemetry and onesidectl. */
enum neigh_state {
	NEIGH_NONE = 0,
	NEIGH_INCOMPLETE,
	NEIGH_REACHABLE,
	NEIGH_STALE,
	NEIGH_PROBE,
	NEIGH_FAILED /* internal: never returned by neigh_get */
};
struct neigh_info {
	struct wire_addr addr;
	uint8_t mac[6];
	uint16_t port;
	enum neigh_state state;
};
/* Reads entry `index` (0..NEIGH_ENTRIES-1).  False if the entry is empty. */
bool neigh_get(const struct neigh *neigh, uint32_t index, uint64_t now, struct neigh_info *out);

/* Number of frames in which another host used an address of the port, and the MAC of the latest. */
struct neigh_conflicts {
	uint64_t count;
	uint8_t mac[6];
};
const struct neigh_conflicts *neigh_conflicts(const struct neigh *neigh, uint16_t port);
/* Has the port count on from `before`. */
void neigh_conflicts_inherit(struct neigh *neigh, uint16_t port, const struct neigh_conflicts *before);

#endif
