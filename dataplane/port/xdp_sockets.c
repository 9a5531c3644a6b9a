/* SPDX-License-Identifier: BSD-3-Clause */
#include "xdp_sockets.h"

#include <linux/membarrier.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel_side.h"

#ifndef AF_XDP
#define AF_XDP 44
#endif

/* Returns the inode of an AF_XDP socket; 0: the descriptor is none. */
static ino_t
inode_of(int fd)
{
	socklen_t len = sizeof(int);
	struct stat st;
	int domain;

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) == 0 && domain == AF_XDP &&
			       fstat(fd, &st) == 0
		       ? st.st_ino
		       : 0;
}

static bool
has_inode(const struct xdp_sockets *sockets, ino_t inode)
{
	for (uint32_t i = 0; i < sockets->num; i++)
		if (sockets->socket[i].inode == inode)
			return true;
	return false;
}

struct listing {
	struct xdp_sockets *sockets;
	const struct xdp_sockets *but;
};

static void
list_socket(void *context, int fd)
{
	const struct listing *listing = context;
	struct xdp_sockets *to = listing->sockets;
	ino_t inode = inode_of(fd);

	if (inode == 0 || to->num == XDP_SOCKETS_MAX ||
	    (listing->but != NULL && has_inode(listing->but, inode)))
		return;
	to->socket[to->num].fd = fd;
	to->socket[to->num++].inode = inode;
}

void
xdp_sockets_list(struct xdp_sockets *sockets, const struct xdp_sockets *but)
{
	struct listing listing = {sockets, but};

	sockets->num = 0;
	kernel_side_descriptors(list_socket, &listing);
}

static void
unmap_rings(const struct xdp_sockets *sockets)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long start, end, inode;
	char line[512], name[8];

	while (maps != NULL && fgets(line, sizeof(line), maps) != NULL)
		if (sscanf(line, "%lx-%lx %*s %*s %*s %lu %7s", &start, &end, &inode, name) == 4 &&
		    strcmp(name, "socket:") == 0 && has_inode(sockets, inode))
			munmap((void *)start, end - start);
	if (maps != NULL)
		fclose(maps);
}

void
xdp_sockets_close(struct xdp_sockets *sockets)
{
	uint32_t left = 0;

	/* Later versions of the driver close them. */
	for (uint32_t i = 0; i < sockets->num; i++)
		if (inode_of(sockets->socket[i].fd) == sockets->socket[i].inode)
			sockets->socket[left++] = sockets->socket[i];
	sockets->num = left;
	if (left > 0)
		unmap_rings(sockets);
	for (uint32_t i = 0; i < left; i++)
		close(sockets->socket[i].fd);
	sockets->num = 0;
}

/* The kernel frees a queue by a work item, which it queues when an RCU grace period has passed since the
 * socket was released. Each membarrier() takes a grace period; two have always sufficed. */
void
xdp_await_queues(void)
{
	const uint32_t grace_periods = 3, work_us = 5000, unknown_us = 50000;

	for (uint32_t i = 0; i < grace_periods; i++) {
		if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) != 0) {
			usleep(unknown_us);
			break;
		}
	}
	usleep(work_us);
}
