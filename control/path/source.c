/* SPDX-License-Identifier: BSD-3-Clause */
/* A port's own addresses: the port that has an address, and the source address for packets to a peer. */
#include <errno.h>

#include "control/path/path.h"

uint32_t
path_addr_number(const struct path_port *port, const struct wire_addr *addr)
{
	for (uint32_t i = 0; i < port->info->num_addrs; i++)
		if (wire_addr_equal(&port->info->addr[i], addr))
			return i + 1;
	return 0;
}

struct path_port *
path_own(const struct wire_addr *addr)
{
	for (uint32_t i = 0; i < path_num_ports; i++)
		if (path_addr_number(&path_port[i], addr) != 0)
			return &path_port[i];
	return NULL;
}

/* Returns 0, or -EAFNOSUPPORT if the port has no address of the family. */
static int
first_of_family(const struct path_port *port, const struct wire_addr *dst, struct wire_addr *src)
{
	for (uint32_t i = 0; i < port->info->num_addrs; i++)
		if (wire_addr_is_v4(&port->info->addr[i]) == wire_addr_is_v4(dst)) {
			*src = port->info->addr[i];
			return 0;
		}
	return -EAFNOSUPPORT;
}

static int
given_source(const struct path_port *port, uint32_t number, const struct wire_addr *dst,
	     struct wire_addr *src)
{
	if (number > port->info->num_addrs)
		return -EINVAL;
	*src = port->info->addr[number - 1];
	return wire_addr_is_v4(src) == wire_addr_is_v4(dst) ? 0 : -EAFNOSUPPORT;
}

int
path_source(const struct path_port *port, uint32_t number, const struct wire_addr *dst, struct wire_addr *src)
{
	if (number != 0)
		return given_source(port, number, dst, src);
	if (path_addr_number(port, dst) != 0)
		*src = *dst;
	else if (neigh_source(control.neigh, port->index, dst, src) < 0)
		/* No error here: resolving the next hop fails with the reason. */
		return first_of_family(port, dst, src);
	return 0;
}
