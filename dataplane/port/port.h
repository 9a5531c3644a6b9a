/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports: devices, their queues, the flow rules of their receive queues, and their links. */
#ifndef DATAPLANE_PORT_PORT_H
#define DATAPLANE_PORT_PORT_H

#include "dataplane/core/core.h"
#include "dataplane/port/kernel_side.h"
#include "dataplane/port/memif_rings.h"
#include "dataplane/port/rss.h"

struct flow_rule {
	struct rte_flow *handle; /* NULL: the place is free */
	struct wire_addr src, dst;
	uint16_t udp_src_port;
	uint16_t queue;
	uint32_t users; /* queue pairs */
};

struct flow_table {
	struct flow_rule rule[FLOW_RULES];
	/* Read by cores and telemetry. */
	_Atomic bool open; /* the port takes rules, and more of them */
	_Atomic uint32_t count;
	_Atomic uint64_t made, refused;
};

extern int port_logtype;

struct port {
	struct engine_port_info info;
	uint16_t device; /* DPDK's number */
	uint16_t rx_queues, tx_queues;
	uint32_t room; /* of a packet buffer for its frames, without headroom */
	bool interrupts;
	bool checks_ipv4; /* checksums of headers received */
	bool started;
	/* link.c: memif's client, to be started again when its link is lost, and its server. */
	bool reconnects, listens;
	/* What cores have to mind of it before a burst: PORT_CARE_*; mostly 0. */
	_Atomic uint8_t care;
	_Atomic bool handed_over; /* to DPDK's interrupt thread, whose `started` is meanwhile */
	uint64_t link_at, link_grace;
	int multicast_fd; /* a packet socket that is a member of the groups of neighbour discovery; -1: none
			   */
	struct kernel_side kernel;
	char device_name[RTE_ETH_NAME_MAX_LEN], arguments[256]; /* as EAL was given them */
	bool refused;  /* and the device could not be opened on it, which was reported */
	bool replaced; /* the kernel's interface was deleted, and one of its name is there again */
	struct engine_port_stats before; /* counted by the device before it was opened again */
	/* Frames of the control thread, and of cores without a queue of their own, to the core
	 * that has queue 0. */
	struct rte_ring *tx_ring;
	struct flow_table flows; /* control thread */
	/* memif_rings.c: cores that have rings, of this end and (in the upper byte) of the far end. */
	_Atomic uint16_t rings;
	struct rss rss;    /* control thread; all zero with one queue */
	uint8_t far_rings; /* cores that a far end may have rings for; 0: no memif */
};
extern struct port ports[CONFIG_PORTS_MAX];
extern uint32_t ports_num;

#define PORT_CARE_PAUSED 1u /* leave the device alone */
#define PORT_CARE_ESP 2u    /* there are peers to whom policy matters */

/* Pairs with port_care: what the device was started with is there when it is not paused. */
static inline uint8_t
port_cares(const struct port *port)
{
	return atomic_load_explicit(&port->care, memory_order_acquire);
}

/* Pairs with the exchange in publish_rings. */
static inline struct rings
port_rings(const struct port *port)
{
	uint16_t value = atomic_load_explicit(&port->rings, memory_order_acquire);

	return (struct rings){(uint8_t)value, (uint8_t)(value >> 8)};
}

/* Any thread: one of PORT_CARE_*. */
static inline void
port_care(struct port *port, uint8_t care, bool on)
{
	/* Pair with port_cares. */
	if (on)
		atomic_fetch_or_explicit(&port->care, care, memory_order_release);
	else
		atomic_fetch_and_explicit(&port->care, (uint8_t)~care, memory_order_release);
}

int ports_configure(char *why, size_t why_len); /* before the cores' buffers: says how large they are */
int ports_start(char *why, size_t why_len);
void ports_stop(void); /* no frame comes or goes any more */
void ports_fini(void); /* servers of memif are left to the end of EAL: link.c */
/* The port that has an address of ours; NULL: it is not ours. */
const struct port *port_by_addr(const struct wire_addr *addr);

/* reopen.c: what the device and the kernel say of the port, into its `info`. */
void port_look(struct port *port);
bool port_stats(struct port *port, struct engine_port_stats *out); /* any thread */
/* Opens the device anew on the interface that replaced the one it had; no core is inside a burst. */
int port_reopen(struct port *port, char *why, size_t why_len);
/* port.c: configures an open device, and starts its queues. */
int port_configure(uint32_t index, char *why, size_t why_len);
int port_start_device(uint32_t index, char *why, size_t why_len);
/* True for an address of this port. */
static inline bool
port_has_addr(const struct port *port, const struct wire_addr *addr)
{
	uint32_t i = 0;

	while (i < port->info.num_addrs && !wire_addr_equal(&port->info.addr[i], addr))
		i++;
	return i < port->info.num_addrs;
}

/* ---- flow.c; the control thread ---- */
void flows_init(struct port *port); /* when it is started */
void flows_fini(struct port *port);
/* The rule for frames from `src` and that UDP port to `dst`, an address of the port's, whichever queue it
 * leads to; NULL: there is none. */
struct flow_rule *flow_rule_find(struct port *port, const struct wire_addr *src, const struct wire_addr *dst,
				 uint16_t udp_src_port);
/* The same, to receive queue `queue`, and one more user of it; NULL: refused, or they go to another queue. */
struct flow_rule *flow_rule_get(struct port *port, const struct wire_addr *src, const struct wire_addr *dst,
				uint16_t udp_src_port, uint16_t queue);
void flow_rule_put(struct port *port, struct flow_rule *rule); /* NULL: nothing */

/* ---- link.c ---- */
/* When a memif is configured: its driver frees what bursts use only when no core is inside one. */
void link_guard(const struct port *port, const struct rte_eth_dev_info *info);
/* On a thread of DPDK's: returns when no core is inside a burst that began before; at once on others. */
void links_quiesce(void);
void links_fini(void);             /* before the ports stop */
void link_stop(struct port *port); /* one that is memif's */

/* ---- multicast.c ---- */
/* Neighbour discovery asks a port with an IPv6 address by multicast: have the device deliver that. */
int port_multicast_join(struct port *port, char *why, size_t why_len);
void port_multicast_leave(struct port *port);

/* ---- memif_send.c ---- */
void memif_messages_pass(void); /* through this file, on DPDK's interrupt thread, from now on */

/* ---- tx.c ---- */
/* Where frames go: `to` is a port, and with a memif TX_TO(port, core of the far end). */
#define TX_TO(port, far) ((uint16_t)((port) | (uint32_t)(far) << 8))
#define TX_PORT(to) ((uint16_t)((to)&0xff))
#define TX_FAR(to) ((uint32_t)(to) >> 8)
struct rte_mbuf *tx_alloc(struct core *core);
int tx_init(struct core *core); /* after the ports' start; -ENOMEM */
bool tx_has_room(struct core *core, uint32_t to);
bool tx_at_once(const struct core *core, uint32_t to); /* the same without sending, and a buffer is there */
void tx_append(struct core *core, uint32_t to, struct rte_mbuf *m);
void tx_append_unsealed(struct core *core, uint32_t to, struct rte_mbuf *m); /* without its ICRC */
uint32_t tx_flush(struct core *core);                                        /* frames moved */
void tx_free(struct core *core);

#endif
