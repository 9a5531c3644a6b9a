/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The AF_XDP sockets of a device. DPDK's driver (22.11) leaves them open when the device is closed, and the
 * rings of their memory mapped, so that the queues of the interface stay taken until the process ends: no
 * other process could open the device, nor this one again.
 */
#ifndef DATAPLANE_PORT_XDP_SOCKETS_H
#define DATAPLANE_PORT_XDP_SOCKETS_H

#include <stdint.h>
#include <sys/types.h>

#define XDP_SOCKETS_MAX 128u

struct xdp_sockets {
	uint32_t num;
	struct {
		int fd;
		ino_t inode;
	} socket[XDP_SOCKETS_MAX];
};

/* Lists this process's AF_XDP sockets, but for those in `but` (NULL: none). */
void xdp_sockets_list(struct xdp_sockets *sockets, const struct xdp_sockets *but);
/* Closes those that are still open, and unmaps their rings; the list is empty then. No core uses them. */
void xdp_sockets_close(struct xdp_sockets *sockets);
/* Waits until the queues of sockets that have been closed are free, some 50 ms: the kernel frees them later.
 */
void xdp_await_queues(void);

#endif
