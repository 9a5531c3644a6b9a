/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks what spans several keys, and looks up users. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "config/internal.h"
#include "config/route.h"

/* Headers of a full packet: IPv6, UDP, BTH, largest extension headers, ICRC. */
#define OVERHEAD 96u

struct config_user
config_user_of(const struct config *config, uid_t uid)
{
	for (uint32_t i = 0; i < config->num_users; i++)
		if (config->user[i].uid == uid)
			return config->user[i];
	return (struct config_user){.uid = uid, .weight = 1, .marks = CONFIG_NO_MARKS};
}

static int
validate_router(const struct config_port *port, const char *key, const struct config_addr *via, char *why,
		size_t why_len)
{
	char text[CONFIG_ADDR_TEXT];

	if (config_may_be_router(port, via))
		return 0;
	return config_refuse(
		why, why_len, -EINVAL,
		"port %s: %s %s cannot be another host on the link of its addresses; name a router of the family of one of them",
		port->name, key, config_addr_text(via, false, text));
}

static int
validate_routers(const struct config_port *port, char *why, size_t why_len)
{
	char text[CONFIG_ADDR_TEXT];
	int error = 0;

	if (port->gateway[1].family != 0 && port->gateway[0].family == port->gateway[1].family)
		return config_refuse(
			why, why_len, -EEXIST,
			"port %s: both gateways are of one family; keep one of each, and write route = NETWORK via ROUTER for others",
			port->name);
	for (uint32_t i = 0; i < CONFIG_GATEWAYS_MAX && error == 0; i++)
		if (port->gateway[i].family != 0)
			error = validate_router(port, "gateway", &port->gateway[i], why, why_len);
	for (uint32_t i = 0; i < CONFIG_ROUTES_MAX && error == 0; i++) {
		const struct config_route *route = &port->route[i];

		if (route->net.family == 0)
			break;
		error = validate_router(port, "route", &route->via, why, why_len);
		for (uint32_t j = 0; j < CONFIG_ADDRS_MAX && error == 0; j++)
			if (config_same_net(&port->addr[j], &route->net))
				error = config_refuse(
					why, why_len, -EEXIST,
					"port %s: route %s is the link of an address, where no router is needed; leave it out",
					port->name, config_addr_text(&route->net, true, text));
	}
	return error;
}

/* Refuses addresses shared by ports, and network or broadcast addresses. */
static int
validate_addresses(const struct config *config, uint32_t index, char *why, size_t why_len)
{
	const struct config_port *port = &config->port[index];
	char text[CONFIG_ADDR_TEXT];

	if (port->addr[0].family == 0)
		return config_refuse(
			why, why_len, -EINVAL,
			"port %s: it has no address; write address = 192.0.2.1/24 (or an IPv6 one)",
			port->name);
	for (uint32_t i = 0; i < CONFIG_ADDRS_MAX && port->addr[i].family != 0; i++) {
		config_addr_text(&port->addr[i], true, text);
		if (!config_addr_is_host(&port->addr[i]))
			return config_refuse(
				why, why_len, -EINVAL,
				"port %s: address %s is the network or its broadcast; choose a host's",
				port->name, text);
		for (uint32_t j = 0; j < index; j++)
			if (config_port_has(&config->port[j], &port->addr[i]))
				return config_refuse(
					why, why_len, -EEXIST,
					"port %s: address %s is port %s's already; give each its own",
					port->name, text, config->port[j].name);
	}
	return 0;
}

static int
validate_port(const struct config *config, uint32_t index, char *why, size_t why_len)
{
	const struct config_port *port = &config->port[index];
	int error = validate_addresses(config, index, why, why_len);

	if (error == 0)
		error = validate_routers(port, why, why_len);
	if (error != 0)
		return error;
	if (port->mtu != 0 && port->path_mtu != 0 && port->path_mtu + OVERHEAD > port->mtu)
		return config_refuse(
			why, why_len, -EINVAL,
			"port %s: path_mtu %u and its headers do not fit mtu %u; write mtu = %u or more, or leave path_mtu out",
			port->name, port->path_mtu, port->mtu, port->path_mtu + OVERHEAD);
	for (uint32_t i = 0; i < index; i++) {
		const struct config_port *other = &config->port[i];
		if (strcmp(other->name, port->name) == 0)
			return config_refuse(why, why_len, -EEXIST,
					     "port %s: two ports have this name; rename one", port->name);
		if ((port->device[0] == '\0') != (other->device[0] == '\0'))
			return config_refuse(
				why, why_len, -EINVAL,
				"port %s: some ports name a device and this or %s does not; write device = for all or for none",
				port->name, other->name);
		if (port->device[0] != '\0' && strcmp(port->device, other->device) == 0)
			return config_refuse(why, why_len, -EEXIST,
					     "port %s: device %s is port %s's already; give each its own",
					     port->name, port->device, other->name);
	}
	return 0;
}

static int
validate_peer(const struct config *config, uint32_t index, char *why, size_t why_len)
{
	const struct config_peer *peer = &config->peer[index];
	char text[CONFIG_ADDR_TEXT];

	if (config->node == 0)
		return config_refuse(why, why_len, -EINVAL,
				     "peer %u: this node itself has no id; write node = N (1 to 63, not %u)",
				     peer->node, peer->node);
	if (peer->node == config->node)
		return config_refuse(
			why, why_len, -EINVAL,
			"peer %u: this is this node's own id; give the peer, or this node, another",
			peer->node);
	if (peer->addr.family == 0)
		return config_refuse(why, why_len, -EINVAL,
				     "peer %u: it has no address; write address = 192.0.2.2", peer->node);
	config_addr_text(&peer->addr, false, text);
	if (peer->port[0] != '\0') {
		bool known = false;
		for (uint32_t i = 0; i < config->num_ports; i++)
			known |= strcmp(config->port[i].name, peer->port) == 0;
		if (!known)
			return config_refuse(
				why, why_len, -EINVAL,
				"peer %u: there is no port %s; write the NAME of a [port NAME], or leave port out",
				peer->node, peer->port);
	}
	for (uint32_t i = 0; i < config->num_ports; i++) {
		if (config_port_has(&config->port[i], &peer->addr))
			return config_refuse(why, why_len, -EINVAL,
					     "peer %u: address %s is our own port %s's; write the peer's",
					     peer->node, text, config->port[i].name);
	}
	for (uint32_t i = 0; i < index; i++) {
		if (config_addr_equal(&config->peer[i].addr, &peer->addr))
			return config_refuse(why, why_len, -EEXIST,
					     "peer %u: address %s is peer %u's already; give each its own",
					     peer->node, text, config->peer[i].node);
	}
	if (peer->secret[0] == NULL && peer->secret[1] != NULL)
		return config_refuse(
			why, why_len, -EINVAL,
			"peer %u: it has an old secret and none in use; write secret_file = PATH",
			peer->node);
	if (config_port_to(config, &peer->addr, peer->port) < 0)
		return config_refuse(
			why, why_len, -ENETUNREACH,
			"peer %u: no port reaches address %s; widen a port's prefix, or give a port a gateway",
			peer->node, text);
	return 0;
}

static bool
has_spi(const struct config_ipsec *ipsec, uint32_t spi)
{
	return spi != 0 && (ipsec->in.spi == spi || ipsec->in_next.spi == spi);
}

static int
validate_unique(const struct config *config, const struct config_ipsec *ipsec, char *why, size_t why_len)
{
	char text[CONFIG_ADDR_TEXT];

	if (ipsec->in.spi != 0 && ipsec->in.spi == ipsec->in_next.spi)
		return config_refuse(why, why_len, -EEXIST,
				     "ipsec %s: in and in_next have the same SPI; give each its own",
				     ipsec->name);
	for (const struct config_ipsec *other = config->ipsec; other < ipsec; other++) {
		if (config_addr_equal(&other->addr, &ipsec->addr))
			return config_refuse(why, why_len, -EEXIST,
					     "ipsec %s: address %s is that of ipsec %s; join the two",
					     ipsec->name, config_addr_text(&ipsec->addr, false, text),
					     other->name);
		if (has_spi(other, ipsec->in.spi) || has_spi(other, ipsec->in_next.spi))
			return config_refuse(why, why_len, -EEXIST,
					     "ipsec %s: it receives by an SPI of ipsec %s; give each its own",
					     ipsec->name, other->name);
	}
	return 0;
}

static int
validate_ipsec(const struct config *config, uint32_t index, char *why, size_t why_len)
{
	const struct config_ipsec *ipsec = &config->ipsec[index];

	if (ipsec->addr.family == 0)
		return config_refuse(why, why_len, -EINVAL,
				     "ipsec %s: it has no address; write address = 192.0.2.2", ipsec->name);
	if (!ipsec->plain && (ipsec->out.spi == 0 || ipsec->in.spi == 0))
		return config_refuse(why, why_len, -EINVAL,
				     "ipsec %s: it has no key to %s; write %s = SPI:FILE, or policy = plain",
				     ipsec->name, ipsec->out.spi == 0 ? "send" : "receive",
				     ipsec->out.spi == 0 ? "out" : "in");
	if (config_port_to(config, &ipsec->addr, ipsec->port) < 0)
		return config_refuse(
			why, why_len, -ENETUNREACH,
			"ipsec %s: no port reaches its address; widen a port's prefix, give a port a gateway, or correct port = NAME",
			ipsec->name);
	return validate_unique(config, ipsec, why, why_len);
}

static int
validate_sockets(const struct config *config, char *why, size_t why_len)
{
	char path[CONFIG_PATH_MAX];

	if (!config_ctl_path(config, path))
		return config_refuse(
			why, why_len, -ENAMETOOLONG,
			"ctl: its name beside socket %s is longer than a Unix socket's may be; choose ctl = PATH",
			config->socket);
	if (strcmp(path, config->socket) == 0)
		return config_refuse(why, why_len, -EINVAL,
				     "ctl %s: this is the attachments' socket; give each its own", path);
	if (config->metrics.family == AF_UNIX &&
	    (strcmp(config->metrics.path, path) == 0 || strcmp(config->metrics.path, config->socket) == 0))
		return config_refuse(why, why_len, -EINVAL, "metrics %s: this is %s; give each its own",
				     config->metrics.text,
				     strcmp(config->metrics.path, path) == 0 ? "the control socket"
									     : "the attachments' socket");
	return 0;
}

int
config_validate(const struct config *config, char *why, size_t why_len)
{
	int ret = validate_sockets(config, why, why_len);

	if (ret == 0 && config->num_ports == 0)
		return config_refuse(
			why, why_len, -EINVAL,
			"there is no port; write a [port NAME] section, or --port name=p0,device=net_memif0,address=192.0.2.1/24");
	for (uint32_t i = 0; i < config->num_ports && ret == 0; i++)
		ret = validate_port(config, i, why, why_len);
	for (uint32_t i = 0; i < config->num_peers && ret == 0; i++)
		ret = validate_peer(config, i, why, why_len);
	for (uint32_t i = 0; i < config->num_ipsec && ret == 0; i++)
		ret = validate_ipsec(config, i, why, why_len);
	return ret;
}
