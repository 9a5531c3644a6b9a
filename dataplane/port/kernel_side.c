/* SPDX-License-Identifier: BSD-3-Clause */
#include "kernel_side.h"

#include <dirent.h>
#include <linux/if_packet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#ifndef AF_XDP
#define AF_XDP 44
#endif

static bool
has_interface(const struct rte_eth_dev_info *info)
{
	return info->driver_name != NULL && (strcmp(info->driver_name, "net_af_packet") == 0 ||
					     strcmp(info->driver_name, "net_af_xdp") == 0);
}

static bool
ask_interface(int fd, struct ifreq *request, struct kernel_state *state)
{
	if (ioctl(fd, SIOCGIFFLAGS, request) != 0)
		return false;
	state->running = (request->ifr_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING);
	if (ioctl(fd, SIOCGIFMTU, request) != 0)
		return false;
	state->mtu = (uint16_t)RTE_MIN(request->ifr_mtu, UINT16_MAX);
	if (ioctl(fd, SIOCGIFHWADDR, request) != 0)
		return false;
	memcpy(state->mac, request->ifr_hwaddr.sa_data, sizeof(state->mac));
	return true;
}

bool
kernel_side_read(const struct kernel_side *side, struct kernel_state *state)
{
	struct ifreq request = {0};
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	*state = (struct kernel_state){0};
	if (fd < 0)
		return false;
	memcpy(request.ifr_name, side->name, sizeof(request.ifr_name));
	state->there = ioctl(fd, SIOCGIFINDEX, &request) == 0;
	state->same = state->there && (unsigned int)request.ifr_ifindex == side->index;
	/* The interface may disappear between two queries. */
	state->there = state->there && ask_interface(fd, &request, state);
	close(fd);
	return true;
}

/* Returns AF_PACKET or AF_XDP if `fd` is a socket by which a driver receives frames of interface `index`;
 * else 0. An AF_XDP socket does not reveal its interface, so each of those counts. */
static int
receiving_domain(int fd, unsigned int index)
{
	struct sockaddr_ll address = {0};
	socklen_t len = sizeof(int);
	int domain = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) != 0)
		return 0;
	if (domain == AF_XDP)
		return domain;
	len = sizeof(address);
	return domain == AF_PACKET && getsockname(fd, (struct sockaddr *)&address, &len) == 0 &&
			       address.sll_ifindex == (int)index && address.sll_protocol != 0
		       ? domain
		       : 0;
}

void
kernel_side_descriptors(void (*look)(void *context, int fd), void *context)
{
	const struct dirent *entry;
	DIR *dir = opendir("/proc/self/fd");

	while (dir != NULL && (entry = readdir(dir)) != NULL)
		if (entry->d_name[0] != '.' && atoi(entry->d_name) != dirfd(dir))
			look(context, atoi(entry->d_name));
	if (dir != NULL)
		closedir(dir);
}

struct sockets {
	unsigned int index;
	void (*found)(void *context, int fd, int domain);
	void *context;
};

static void
look_for_sockets(void *context, int fd)
{
	const struct sockets *sockets = context;
	int domain = receiving_domain(fd, sockets->index);

	if (domain != 0)
		sockets->found(sockets->context, fd, domain);
}

void
kernel_side_sockets(unsigned int index, void (*found)(void *context, int fd, int domain), void *context)
{
	struct sockets sockets = {index, found, context};

	kernel_side_descriptors(look_for_sockets, &sockets);
}

static void
note_socket(void *context, int fd, int domain)
{
	struct kernel_side *side = context;

	if (domain == AF_PACKET && side->num_sockets < KERNEL_SOCKETS)
		side->socket[side->num_sockets++] = fd;
}

void
kernel_side_open(struct kernel_side *side, const struct rte_eth_dev_info *info)
{
	side->name[0] = '\0';
	side->index = side->num_sockets = 0;
	if (!has_interface(info) || if_indextoname(info->if_index, side->name) == NULL)
		return;
	side->index = info->if_index;
	kernel_side_sockets(side->index, note_socket, side);
}

uint64_t
kernel_side_lost(struct kernel_side *side)
{
	for (uint32_t i = 0; i < side->num_sockets; i++) {
		struct tpacket_stats stats;
		socklen_t len = sizeof(stats);

		if (getsockopt(side->socket[i], SOL_PACKET, PACKET_STATISTICS, &stats, &len) == 0)
			atomic_fetch_add_explicit(&side->lost, stats.tp_drops, memory_order_relaxed);
	}
	return atomic_load_explicit(&side->lost, memory_order_relaxed);
}
