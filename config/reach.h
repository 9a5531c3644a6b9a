/* SPDX-License-Identifier: BSD-3-Clause */
/* From which port and address of a configuration another host is reached, and with which marks. */
#ifndef CONFIG_REACH_H
#define CONFIG_REACH_H

#include "config/config.h"

/* The marks of a connection of the user `uid` from `port` to `addr`: its peer's, else its user's, else its
 * port's, each for itself. */
struct config_marks config_marks_of(const struct config *config, const struct config_port *port, uid_t uid,
				    const struct config_addr *addr);

/*
 * The address of the port, by its index, from which packets to `addr` go: that whose prefix has it, or which
 * is on the link of the router of a route or of the gateway, which may be outside of all prefixes.  The
 * longest prefix wins.  -1: no way; else *bits is the length of that prefix, 0 for the gateway.
 */
int config_source(const struct config_port *port, const struct config_addr *addr, int *bits);
/* True when `addr` can be another host on a link of the port (config_may_be_gateway, of every address). */
bool config_may_be_router(const struct config_port *port, const struct config_addr *addr);
/* True when `addr` is one of the port's own. */
bool config_port_has(const struct config_port *port, const struct config_addr *addr);
/* The port that reaches an address, of those of that name if it is not "": where the longest prefix is; -1:
 * none. */
int config_port_to(const struct config *config, const struct config_addr *addr, const char *name);

#endif
