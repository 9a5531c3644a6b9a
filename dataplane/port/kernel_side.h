/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's interface behind a device of af_packet or af_xdp. Their drivers report too little about its
 * link, MTU and MAC address, and about frames that the kernel dropped because a receive ring was full. So
 * this file queries the kernel. */
#ifndef DATAPLANE_KERNEL_SIDE_H
#define DATAPLANE_KERNEL_SIDE_H

#include <net/if.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_ethdev.h>

#define KERNEL_SOCKETS 64 /* queues of an af_packet device whose drops are counted */

struct kernel_side {
	char name[IF_NAMESIZE];     /* "": the device has no such interface */
	unsigned int index;         /* interface that the driver's sockets are bound to */
	int socket[KERNEL_SOCKETS]; /* the driver's AF_PACKET sockets */
	uint32_t num_sockets;
	_Atomic uint64_t lost; /* frames dropped by the kernel, up to the last query */
};

struct kernel_state {
	bool there;   /* an interface of that name exists */
	bool same;    /* it is the interface on which the device was opened */
	bool running; /* up, with carrier */
	uint16_t mtu;
	uint8_t mac[6];
};

/* Find the interface behind a device, and the driver's sockets; `lost` continues. */
void kernel_side_open(struct kernel_side *side, const struct rte_eth_dev_info *info);
/* Query the kernel; false: the query failed. */
bool kernel_side_read(const struct kernel_side *side, struct kernel_state *state);
/* Returns the frames that the kernel has dropped since the start because a receive ring of af_packet was
 * full. A query resets the kernel's counters, so `lost` sums them up. Any thread, but the driver's sockets
 * must be neither opened nor closed meanwhile. */
uint64_t kernel_side_lost(struct kernel_side *side);

/* Call `look` for each descriptor of this process. */
void kernel_side_descriptors(void (*look)(void *context, int fd), void *context);

/* Call `found` for each socket by which a driver of this process receives from interface `index`. */
void kernel_side_sockets(unsigned int index, void (*found)(void *context, int fd, int domain), void *context);

#endif
