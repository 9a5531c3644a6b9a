/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast frames for a port with an IPv6 address. Hosts query the address by its solicited-node group (RFC
 * 4861). An interface that is in no group drops those queries: NICs and macvlan filter.
 *
 * Drivers that receive from a kernel socket (af_packet, af_xdp) cannot set the filter of its interface. So a
 * packet socket of our own, which receives nothing, joins the groups.
 */
#include <errno.h>
#include <linux/if_packet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_ethdev.h>

#include "dataplane/port/port.h"

enum { MAC_LEN = 6 };

static int
add_member(int fd, unsigned int interface, const uint8_t mac[MAC_LEN])
{
	struct packet_mreq request = {
		.mr_ifindex = (int)interface, .mr_type = PACKET_MR_MULTICAST, .mr_alen = MAC_LEN};

	memcpy(request.mr_address, mac, MAC_LEN);
	return setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &request, sizeof(request)) == 0 ? 0 : -errno;
}

/* Join the solicited-node group of all addresses that end with `end`. */
static int
add_solicited(int fd, unsigned int interface, const uint8_t end[3])
{
	const uint8_t group[MAC_LEN] = {0x33, 0x33, 0xff, end[0], end[1], end[2]};

	return add_member(fd, interface, group);
}

/* Join the groups of all nodes, of the port's addresses, and of its link-local address, which ends like its
 * MAC. */
static int
add_groups(int fd, unsigned int interface, const struct engine_port_info *info)
{
	const uint8_t all_nodes[MAC_LEN] = {0x33, 0x33, 0, 0, 0, 1};
	int error = add_member(fd, interface, all_nodes);

	if (error == 0)
		error = add_solicited(fd, interface, info->mac + 3);
	for (uint32_t i = 0; i < info->num_addrs && error == 0; i++)
		if (!wire_addr_is_v4(&info->addr[i]))
			error = add_solicited(fd, interface, info->addr[i].gid + 13);
	return error;
}

static bool
has_ipv6(const struct engine_port_info *info)
{
	uint32_t i = 0;

	while (i < info->num_addrs && wire_addr_is_v4(&info->addr[i]))
		i++;
	return i < info->num_addrs;
}

static int
join_by_kernel(struct port *port, unsigned int interface)
{
	/* Protocol 0: the socket receives nothing. */
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), error;

	if (fd < 0)
		return -errno;
	error = add_groups(fd, interface, &port->info);
	if (error != 0) {
		close(fd);
		return error;
	}
	port->multicast_fd = fd;
	return 0;
}

/* A driver that supports neither has no filter: memif, ring. */
static int
join_by_driver(const struct port *port)
{
	int error = rte_eth_allmulticast_enable(port->device);

	if (error != 0)
		error = rte_eth_promiscuous_enable(port->device);
	return error == -ENOTSUP ? 0 : error;
}

static bool
receives_from_socket(const struct rte_eth_dev_info *info)
{
	return info->driver_name != NULL && info->if_index != 0 &&
	       (strcmp(info->driver_name, "net_af_packet") == 0 ||
		strcmp(info->driver_name, "net_af_xdp") == 0);
}

int
port_multicast_join(struct port *port, char *why, size_t why_len)
{
	struct rte_eth_dev_info info;
	int error;

	port_multicast_leave(port);
	if (!has_ipv6(&port->info))
		return 0;
	error = rte_eth_dev_info_get(port->device, &info);
	if (error == 0)
		error = receives_from_socket(&info) ? join_by_kernel(port, info.if_index)
						    : join_by_driver(port);
	if (error == 0)
		return 0;
	return config_refuse(
		why, why_len, error,
		"port %s: its device takes no multicast frames (%s), by which IPv6 hosts ask for its addresses; give it IPv4 addresses alone, or choose another driver",
		port->info.name, strerror(-error));
}

void
port_multicast_leave(struct port *port)
{
	if (port->multicast_fd >= 0)
		close(port->multicast_fd);
	port->multicast_fd = -1;
}
