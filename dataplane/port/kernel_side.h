/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The kernel's interface behind a device of af_packet or af_xdp.  Their drivers say nothing, or too little,
 * of its link, its MTU, its MAC address and the frames that the kernel dropped for want of room in a receive
 * ring, so the kernel is asked.
 */
#ifndef DATAPLANE_KERNEL_SIDE_H
#define DATAPLANE_KERNEL_SIDE_H

#include <net/if.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_ethdev.h>

#define KERNEL_SOCKETS 64 /* queues of an af_packet device that are counted */

struct kernel_side {
	char name[IF_NAMESIZE];     /* "": the device has no such interface */
	unsigned int index;         /* of the interface that the driver's sockets are bound to */
	int socket[KERNEL_SOCKETS]; /* the driver's, of AF_PACKET */
	uint32_t num_sockets;
	_Atomic uint64_t lost; /* frames dropped by the kernel, as far as they have been asked for */
};

struct kernel_state {
	bool there;   /* an interface has the name, */
	bool same;    /* and is the one that the device was opened on */
	bool running; /* up, and with a carrier */
	uint16_t mtu;
	uint8_t mac[6];
};

/* Finds the interface behind a device, and the driver's sockets; `lost` goes on. */
void kernel_side_open(struct kernel_side *side, const struct rte_eth_dev_info *info);
/* Asks the kernel; false: it cannot be asked. */
bool kernel_side_look(const struct kernel_side *side, struct kernel_state *state);
/*
 * Returns the frames that the kernel has dropped since the start since a receive ring of af_packet was full.
 * The kernel forgets them when it is asked, so they are added up here; any thread, but the driver's sockets
 * are neither made nor closed meanwhile.
 */
uint64_t kernel_side_lost(struct kernel_side *side);

/* Calls `found` for each socket by which a driver of this process receives from interface `index`. */
void kernel_side_sockets(unsigned int index, void (*found)(void *context, int fd, int domain), void *context);

#endif
