/* SPDX-License-Identifier: BSD-3-Clause */
#include "rx_wakeup.h"

#include <dirent.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#ifndef AF_XDP
#define AF_XDP 44
#endif

/* The socket by which a driver of the kernel's interfaces gets the frames of interface `index`. */
static bool
is_socket_of(int fd, uint32_t index)
{
	struct sockaddr_ll address = {0};
	socklen_t len = sizeof(int);
	int domain = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) != 0)
		return false;
	if (domain == AF_XDP) /* has no name to ask for its interface; a needless wake-up does no harm */
		return true;
	len = sizeof(address);
	return domain == AF_PACKET && getsockname(fd, (struct sockaddr *)&address, &len) == 0 &&
	       address.sll_ifindex == (int)index && address.sll_protocol != 0;
}

/* Edges only: the driver reads the socket's ring, and epoll reports no level that it leaves behind. */
static bool
watch(int epoll, int fd)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET};

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0 || errno == EEXIST;
}

static bool
has_socket(const struct rte_eth_dev_info *info)
{
	return info->driver_name != NULL && (strcmp(info->driver_name, "net_af_packet") == 0 ||
					     strcmp(info->driver_name, "net_af_xdp") == 0);
}

bool
rx_wakeup_watch(const struct rx_queue *queue, int epoll)
{
	struct rte_eth_dev_info info;
	const struct dirent *entry;
	bool any = false;
	DIR *dir;

	if (rte_eth_dev_info_get(queue->device, &info) != 0 || !has_socket(&info))
		return false;
	dir = opendir("/proc/self/fd");
	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		int fd = atoi(entry->d_name);

		if (entry->d_name[0] != '.' && fd != dirfd(dir) && is_socket_of(fd, info.if_index))
			any = watch(epoll, fd) || any;
	}
	if (dir != NULL)
		closedir(dir);
	return any;
}
