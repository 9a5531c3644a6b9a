/* SPDX-License-Identifier: BSD-3-Clause */
/* Routing to other hosts by the longest prefix of a port's addresses, routes and gateways; marks of
 * packets. */
#include "config/route.h"

static bool
is_router(const struct config_port *port, const struct config_addr *addr)
{
	for (uint32_t i = 0; i < CONFIG_GATEWAYS_MAX; i++)
		if (port->gateway[i].family != 0 && config_addr_equal(&port->gateway[i], addr))
			return true;
	for (uint32_t i = 0; i < CONFIG_ROUTES_MAX; i++)
		if (port->route[i].net.family != 0 && config_addr_equal(&port->route[i].via, addr))
			return true;
	return false;
}

/* Index of the port's first address of the family, or -1. */
static int
first_of_family(const struct config_port *port, uint16_t family)
{
	for (uint32_t i = 0; i < CONFIG_ADDRS_MAX; i++)
		if (port->addr[i].family == family)
			return (int)i;
	return -1;
}

/* Address with the longest prefix that contains `addr`, or -1. A router outside all prefixes is on the link
 * of the first address of its family, as a link-local router must be (control/neigh). */
static int
source_on_link(const struct config_port *port, const struct config_addr *addr)
{
	int best = -1;

	for (uint32_t i = 0; i < CONFIG_ADDRS_MAX; i++)
		if (config_on_link(&port->addr[i], addr) &&
		    (best < 0 || port->addr[i].prefix > port->addr[best].prefix))
			best = (int)i;
	return best < 0 && is_router(port, addr) ? first_of_family(port, addr->family) : best;
}

/* Router to `addr`; NULL: on link, or unreachable. */
static const struct config_addr *
router_to(const struct config_port *port, const struct config_addr *addr, int *bits)
{
	const struct config_addr *via = NULL;

	for (uint32_t i = 0; i < CONFIG_ROUTES_MAX; i++) {
		const struct config_route *route = &port->route[i];

		if (config_on_link(&route->net, addr) && route->net.prefix > *bits) {
			via = &route->via;
			*bits = route->net.prefix;
		}
	}
	for (uint32_t i = 0; i < CONFIG_GATEWAYS_MAX && *bits < 0; i++)
		if (port->gateway[i].family == addr->family) {
			via = &port->gateway[i];
			*bits = 0;
		}
	return via;
}

bool
config_may_be_router(const struct config_port *port, const struct config_addr *addr)
{
	for (uint32_t i = 0; i < CONFIG_ADDRS_MAX; i++)
		if (port->addr[i].family == addr->family && !config_may_be_gateway(&port->addr[i], addr))
			return false;
	return first_of_family(port, addr->family) >= 0;
}

int
config_source(const struct config_port *port, const struct config_addr *addr, int *bits)
{
	int source = source_on_link(port, addr);
	const struct config_addr *via;

	*bits = source < 0 ? -1 : port->addr[source].prefix;
	via = router_to(port, addr, bits);
	return via != NULL ? source_on_link(port, via) : source;
}

int
config_port_to(const struct config *config, const struct config_addr *addr, const char *name)
{
	int best = -1, best_bits = -1, bits;

	for (uint32_t i = 0; i < config->num_ports; i++) {
		if (name[0] != '\0' && strcmp(name, config->port[i].name) != 0)
			continue;
		if (config_source(&config->port[i], addr, &bits) < 0 || bits <= best_bits)
			continue;
		best = (int)i;
		best_bits = bits;
	}
	return best;
}

static void
take_marks(struct config_marks *to, const struct config_marks *from)
{
	if (from->dscp != CONFIG_NO_DSCP)
		to->dscp = from->dscp;
	if (from->flow_label != CONFIG_NO_FLOW_LABEL)
		to->flow_label = from->flow_label;
}

struct config_marks
config_marks_of(const struct config *config, const struct config_port *port, uid_t uid,
		const struct config_addr *addr)
{
	struct config_user user = config_user_of(config, uid);
	struct config_marks marks = port->marks;

	take_marks(&marks, &user.marks);
	for (uint32_t i = 0; i < config->num_peers; i++)
		if (config_addr_equal(&config->peer[i].addr, addr))
			take_marks(&marks, &config->peer[i].marks);
	return marks;
}

bool
config_port_has(const struct config_port *port, const struct config_addr *addr)
{
	for (uint32_t i = 0; i < CONFIG_ADDRS_MAX; i++)
		if (port->addr[i].family != 0 && config_addr_equal(&port->addr[i], addr))
			return true;
	return false;
}
