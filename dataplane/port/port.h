/* SPDX-License-Identifier: BSD-3-Clause */
/* Ports: devices, their queues, the flow rules of their receive queues, and their links. */
#ifndef DATAPLANE_PORT_PORT_H
#define DATAPLANE_PORT_PORT_H

#include <string.h>

#include "dataplane/core/core.h"
#include "dataplane/port/kernel_side.h"
#include "dataplane/port/memif_rings.h"
#include "dataplane/port/rss.h"
#include "dataplane/port/xdp_sockets.h"

struct flow_rule {
	struct rte_flow *handle; /* NULL: unused */
	struct wire_addr src, dst;
	uint16_t udp_src_port;
	uint16_t queue;
	uint32_t users; /* queue pairs */
};

struct flow_table {
	struct flow_rule rule[FLOW_RULES];
	/* Read by cores and telemetry. */
	_Atomic bool open; /* the device accepts rules, and the table has room */
	_Atomic uint32_t count;
	_Atomic uint64_t made, refused;
};

extern int port_logtype;

struct port {
	struct engine_port_info info;
	uint16_t device; /* DPDK's number */
	uint16_t rx_queues, tx_queues;
	uint32_t room; /* bytes of a packet buffer for the port's frames, without headroom */
	bool interrupts;
	bool checks_ipv4; /* checks checksums of received IPv4 headers */
	bool started;
	/* link.c: `reconnects`: memif client, started again when its link is lost; `listens`: memif
	 * server. */
	bool reconnects, listens;
	/* Flags that cores check before a burst, PORT_FLAG_*; mostly 0. */
	_Atomic uint8_t flags;
	_Atomic bool handed_over; /* to DPDK's interrupt thread, which owns `started` meanwhile */
	uint64_t link_at, link_grace;
	uint64_t link_hurry, link_tried; /* end of frequent attempts; time of the last one */
	int multicast_fd; /* packet socket that is in the groups of neighbour discovery; -1: none */
	struct kernel_side kernel;
	struct xdp_sockets xdp;                                 /* of a device of af_xdp */
	char device_name[RTE_ETH_NAME_MAX_LEN], arguments[256]; /* as given to EAL */
	bool refused;  /* opening the device on the new interface failed, and was reported */
	bool replaced; /* the kernel's interface was deleted and recreated */
	struct engine_port_stats before; /* counters of the device before it was opened again */
	/* Frames of the control thread, and of cores without a queue of their own, to the core that has queue
	 * 0. */
	struct rte_ring *tx_ring;
	struct flow_table flows; /* control thread only */
	/* memif_rings.c: cores that have rings: own in the lower byte, the peer's in the upper byte. */
	_Atomic uint16_t rings;
	struct rss rss;    /* control thread only; all zero with one queue */
	uint8_t far_rings; /* maximum of the peer's cores with rings; 0: no memif */
};
extern struct port ports[CONFIG_PORTS_MAX];
extern uint32_t ports_num;

static inline bool
port_is_driven_by(const struct port *port, const char *driver)
{
	return strncmp(port->device_name, driver, strlen(driver)) == 0;
}

static inline bool
port_is_memif(const struct port *port)
{
	return port->reconnects || port->listens;
}

#define PORT_FLAG_PAUSED 1u /* leave the device alone */
#define PORT_FLAG_ESP 2u    /* some peers have an ESP policy */
#define PORT_FLAG_LOST 4u   /* leave the memif alone: its driver may be unmapping the peer's memory */
#define PORT_FLAG_AWAY (PORT_FLAG_PAUSED | PORT_FLAG_LOST)

/* Pairs with port_set_flag(): a core that finds the port not paused sees the started device. */
static inline uint8_t
port_flags(const struct port *port)
{
	return atomic_load_explicit(&port->flags, memory_order_acquire);
}

/* Pairs with the exchange in publish_rings(). */
static inline struct rings
port_rings(const struct port *port)
{
	uint16_t value = atomic_load_explicit(&port->rings, memory_order_acquire);

	return (struct rings){(uint8_t)value, (uint8_t)(value >> 8)};
}

/* Any thread: set or clear one flag of PORT_FLAG_*. */
static inline void
port_set_flag(struct port *port, uint8_t flag, bool on)
{
	/* Both pair with the load in port_flags(). */
	if (on)
		atomic_fetch_or_explicit(&port->flags, flag, memory_order_release);
	else
		atomic_fetch_and_explicit(&port->flags, (uint8_t)~flag, memory_order_release);
}

int ports_configure(char *why, size_t why_len); /* before the cores' buffers: sets engine.data_room */
int ports_start(char *why, size_t why_len);
void ports_stop(void); /* no frame arrives or leaves any more */
void ports_fini(void); /* memif servers are closed at the end of EAL: link.c */
/* Returns the port that has one of our addresses; NULL: the address is not ours. */
const struct port *port_by_addr(const struct wire_addr *addr);

/* reopen.c: update `info` with the state reported by device and kernel. */
void port_refresh(struct port *port);
bool port_link_is_up(const struct port *port); /* of the device; kernel interfaces: see info.link_up */
bool port_stats(struct port *port, struct engine_port_stats *out); /* any thread */
/* Has port_stats() count on from `stats`, whatever the device has counted so far. */
void port_inherit(struct port *port, const struct engine_port_stats *stats);
/* Open the device again on the interface that replaced its former one; no core is inside a burst. */
int port_reopen(struct port *port, char *why, size_t why_len);
/* True if the queues become free only some time after a process that had them has closed the device. */
bool port_awaits_queues(const struct port *port);
/* Calls port_reopen() when queues that another process has closed should be free, and again if they are not.
 */
int port_reopen_freed(struct port *port, char *why, size_t why_len);
/* Close the device, whose counters are kept, until port_reopen(); no core is inside a burst. Returns 0 or
 * -errno. */
int port_close(struct port *port);
/* port.c: configure an open device, and start its queues. */
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

/* ---- flow.c; control thread ---- */
void flows_init(struct port *port); /* call when the port is started */
void flows_fini(struct port *port);
/* Before the device is closed, and after it was opened again: rules that have users come back. */
void flows_suspend(struct port *port);
void flows_resume(struct port *port);
/* Returns the rule for frames from `src` and that UDP port to `dst`, an address of the port, for any queue;
 * NULL: none. */
struct flow_rule *flow_rule_find(struct port *port, const struct wire_addr *src, const struct wire_addr *dst,
				 uint16_t udp_src_port);
/* Returns the rule that leads those frames to receive queue `queue`, with one more user; NULL: refused, or
 * another queue has them. */
struct flow_rule *flow_rule_get(struct port *port, const struct wire_addr *src, const struct wire_addr *dst,
				uint16_t udp_src_port, uint16_t queue);
void flow_rule_put(struct port *port, struct flow_rule *rule); /* NULL is allowed */

/* ---- memif_listener.c ---- */
/* Closes the listening socket of a memif server, before its device is stopped and closed. */
void memif_close_listener(const struct port *port);

/* ---- link.c ---- */
/* On a DPDK thread: returns when no core is inside a burst that began before. On an lcore: returns at
 * once. */
void links_quiesce(void);
/* On DPDK's interrupt thread, before the driver learns that the peer of a memif has left: returns when no
 * core is inside a burst, or begins one until the driver is done. */
void link_lost(void);
void links_fini(void);                    /* call before the ports stop */
void link_stop(struct port *port);        /* for a memif */
void link_close(struct port *port);       /* the same, of one that has been started */
void link_quiesce(struct port *port);     /* call before the port is closed */
void port_stop_device(struct port *port); /* port.c */

/* ---- multicast.c ---- */
/* Neighbour discovery reaches a port with an IPv6 address by multicast: make the device deliver that. */
int port_multicast_join(struct port *port, char *why, size_t why_len);
void port_multicast_leave(struct port *port);

/* ---- memif_send.c ---- */
void memif_messages_pass(void); /* from now on handshakes on DPDK's interrupt thread pass through this file */

/* ---- tx.c ---- */
/* Destination of frames, `to`: a port; for a memif TX_TO(port, core of the peer). */
#define TX_TO(port, far) ((uint16_t)((port) | (uint32_t)(far) << 8))
#define TX_PORT(to) ((uint16_t)((to)&0xff))
#define TX_FAR(to) ((uint32_t)(to) >> 8)
struct rte_mbuf *tx_alloc(struct core *core);
int tx_init(struct core *core); /* after the ports' start; -ENOMEM */
bool tx_has_room(struct core *core, uint32_t to);
bool tx_at_once(struct core *core, uint32_t to); /* room without sending, and a spare buffer */
void tx_append(struct core *core, uint32_t to, struct rte_mbuf *m);
void tx_append_unsealed(struct core *core, uint32_t to, struct rte_mbuf *m); /* without its ICRC */
uint32_t tx_flush(struct core *core);                                        /* returns the frames moved */
void tx_free(struct core *core);

#endif
