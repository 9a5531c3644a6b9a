/* SPDX-License-Identifier: BSD-3-Clause */
/* Source port and address to another host, and marks of its packets. */
#ifndef CONFIG_ROUTE_H
#define CONFIG_ROUTE_H

#include "config/config.h"

/* Marks of a connection of user `uid` from `port` to `addr`. Each mark comes from the peer, else the user,
 * else the port. */
struct config_marks config_marks_of(const struct config *config, const struct config_port *port, uid_t uid,
				    const struct config_addr *addr);

/* Index of the port's source address to `addr`: the address whose prefix contains it, or that is on the link
 * of the router of a route or of the gateway, which may be outside all prefixes. The longest prefix wins.
 * Returns -1 if unreachable; else *bits is the length of that prefix, 0 for the gateway. */
int config_source(const struct config_port *port, const struct config_addr *addr, int *bits);
/* True if `addr` can be another host on a link of the port (config_may_be_gateway() for every address). */
bool config_may_be_router(const struct config_port *port, const struct config_addr *addr);
/* True if `addr` is one of the port's own. */
bool config_port_has(const struct config_port *port, const struct config_addr *addr);
/* Port with the longest prefix to an address, or -1. If `name` is not "", only that port counts. */
int config_port_to(const struct config *config, const struct config_addr *addr, const char *name);

#endif
