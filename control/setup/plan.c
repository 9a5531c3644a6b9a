/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/setup/plan.h"

#include <string.h>
#include <sys/socket.h>

#include "config/address.h"

#define MTU_LEAST 576u /* limits of the configuration */
#define MTU_MOST 9216u

/* IPv4 address of the kernel on the interface, or NULL. */
static const struct config_addr *
kernel_address(const struct setup_machine *machine, const struct setup_iface *iface)
{
	for (uint32_t i = 0; iface != NULL && i < machine->addrs; i++)
		if (machine->addr[i].addr.family == AF_INET &&
		    strcmp(machine->addr[i].iface, iface->name) == 0)
			return &machine->addr[i].addr;
	return NULL;
}

void
setup_plan_address(const struct setup_machine *machine, const struct setup_port *port,
		   struct config_addr *addr)
{
	const struct config_addr *kernel = kernel_address(machine, port->device.iface);

	memset(addr, 0, sizeof(*addr));
	if (port->mode == SETUP_VFIO && kernel != NULL)
		*addr = *kernel; /* the kernel loses the address with the interface */
	else if (port->mode == SETUP_MEMIF)
		*addr = (struct config_addr){AF_INET, 24, {192, 0, 2, port->client ? 2 : 1}};
}

/* ---- interfaces taken from the kernel ---- */

static bool
is_given(const struct setup_plan *plan, const char *iface)
{
	for (uint32_t i = 0; i < plan->givens; i++)
		if (strcmp(plan->given[i], iface) == 0)
			return true;
	return false;
}

static bool
check_taking(const struct setup_plan *plan, const struct setup_port *port, char why[SETUP_WHY])
{
	char iface[SETUP_NAME];
	const char *carried = setup_device_carries(plan->machine, &port->device, iface);

	if (!setup_mode_takes(port->mode) || carried == NULL || is_given(plan, iface))
		return true;
	return setup_refuse(
		why,
		"port %s: %s carries %s, and %s would take its frames from the kernel; choose --driver af_packet or another port, or give --take-away %s",
		setup_device_name(&port->device), iface, carried, setup_mode_name(port->mode), iface);
}

static bool
check_given(const struct setup_plan *plan, char why[SETUP_WHY])
{
	for (uint32_t i = 0; i < plan->givens; i++)
		if (setup_iface_find(plan->machine, plan->given[i]) == NULL &&
		    setup_nic_find(plan->machine, plan->given[i]) == NULL)
			return setup_refuse(
				why,
				"--take-away %s: this machine has no such interface or NIC; leave it out, or write the name of one",
				plan->given[i]);
	return true;
}

/* ---- ports ---- */

static bool
same_device(const struct setup_port *a, const struct setup_port *b)
{
	if (a->mode == SETUP_MEMIF || b->mode == SETUP_MEMIF)
		return a->mode == b->mode && strcmp(a->cable, b->cable) == 0;
	return (a->device.nic != NULL && a->device.nic == b->device.nic) ||
	       (a->device.iface != NULL && a->device.iface == b->device.iface);
}

static bool
check_mtu(const struct setup_port *port, char why[SETUP_WHY])
{
	const char *name = setup_device_name(&port->device);

	if (port->mtu != 0 && (port->mtu < MTU_LEAST || port->mtu > MTU_MOST))
		return setup_refuse(why, "port %s: mtu %u is out of range; write %u to %u", name, port->mtu,
				    MTU_LEAST, MTU_MOST);
	if ((port->mode == SETUP_AF_PACKET || port->mode == SETUP_AF_XDP) &&
	    port->mtu > port->device.iface->mtu)
		return setup_refuse(
			why,
			"port %s: mtu %u is more than the interface's %u; write a lower one, or raise the interface's by ip link set %s mtu %u",
			name, port->mtu, port->device.iface->mtu, name, port->mtu);
	return true;
}

static bool
check_cable(const struct setup_port *port, char why[SETUP_WHY])
{
	static const char fit[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-";

	if (port->mode != SETUP_MEMIF)
		return true;
	if (port->cable[0] != '/' || port->cable[strspn(port->cable, fit)] != '\0')
		return setup_refuse(
			why,
			"--cable %s: not a socket's path; write an absolute path of letters, digits and _.+-/, for example /run/oneside/cable",
			port->cable);
	return true;
}

/* Does the kernel still have the address when the data plane runs? Returns it, or NULL. */
static const struct setup_addr *
kernel_keeps(const struct setup_plan *plan, const struct setup_port *port, const struct config_addr *addr)
{
	const struct setup_addr *kernel = setup_addr_find(plan->machine, addr);
	const struct setup_iface *iface = port->device.iface;

	if (kernel != NULL && port->mode == SETUP_VFIO && iface != NULL &&
	    strcmp(kernel->iface, iface->name) == 0)
		return NULL;
	return kernel;
}

static bool
check_address(const struct setup_plan *plan, const struct setup_port *port, const struct config_addr *addr,
	      char why[SETUP_WHY])
{
	const char *name = setup_device_name(&port->device);
	const struct setup_addr *kernel;
	char text[CONFIG_ADDR_TEXT];

	config_addr_text(addr, true, text);
	if (!config_addr_is_host(addr))
		return setup_refuse(why,
				    "port %s: address %s is the network or its broadcast; choose a host's",
				    name, text);
	kernel = kernel_keeps(plan, port, addr);
	if (kernel != NULL)
		return setup_refuse(
			why,
			"port %s: the kernel has address %s, on %s; choose an unused one, or remove it there (ip addr del)",
			name, text, kernel->iface[0] != '\0' ? kernel->iface : "an interface");
	for (uint32_t i = 0; i < CONFIG_GATEWAYS_MAX; i++)
		if (port->gateway[i].family == addr->family &&
		    !config_may_be_gateway(addr, &port->gateway[i]))
			return setup_refuse(
				why,
				"port %s: the gateway cannot be another host on the link of address %s; name a router of the same address family",
				name, text);
	return true;
}

static bool
has_family(const struct setup_port *port, uint16_t family)
{
	const struct config_addr *addr;

	for (uint32_t i = 0; (addr = setup_port_addr(port, i)) != NULL; i++)
		if (addr->family == family)
			return true;
	return false;
}

static bool
check_addresses(const struct setup_plan *plan, const struct setup_port *port, char why[SETUP_WHY])
{
	const struct config_addr *on_link = kernel_address(plan->machine, port->device.iface), *addr;
	const char *name = setup_device_name(&port->device);
	char text[CONFIG_ADDR_TEXT];

	if (port->addr.family == 0)
		return setup_refuse(
			why,
			"port %s: the address is missing; give --address ADDRESS/PREFIX, one that is unused on the link%s%s",
			name, on_link != NULL ? " of " : "",
			on_link != NULL ? config_addr_text(on_link, true, text) : "");
	for (uint32_t i = 0; (addr = setup_port_addr(port, i)) != NULL; i++)
		if (!check_address(plan, port, addr, why))
			return false;
	for (uint32_t i = 0; i < CONFIG_GATEWAYS_MAX; i++)
		if (port->gateway[i].family != 0 && !has_family(port, port->gateway[i].family))
			return setup_refuse(
				why,
				"port %s: gateway %s: the port has no address of its family; add one by --address",
				name, config_addr_text(&port->gateway[i], false, text));
	return true;
}

/* Address of `port` that `other` has, too, or NULL. For a port with itself: an address given twice. */
static const struct config_addr *
common_address(const struct setup_port *port, const struct setup_port *other)
{
	const struct config_addr *one, *two;

	for (uint32_t i = 0; (one = setup_port_addr(port, i)) != NULL; i++)
		for (uint32_t j = 0; (two = setup_port_addr(other, j)) != NULL; j++)
			if (one != two && one->family != 0 && config_addr_equal(one, two))
				return one;
	return NULL;
}

static bool
check_port(const struct setup_plan *plan, uint32_t index, char why[SETUP_WHY])
{
	const struct setup_port *port = &plan->port[index];

	if (port->mode == SETUP_MODES)
		return setup_refuse(
			why,
			"port %s: no driver mode fits without taking an interface in use; choose another port, or give --driver and --take-away",
			setup_device_name(&port->device));
	if (!setup_mode_fits(plan->machine, &port->device, port->mode, why))
		return false;
	for (uint32_t i = 0; i < index; i++) {
		if (same_device(&plan->port[i], port))
			return setup_refuse(why, "port %s: given twice; leave one out",
					    setup_device_name(&port->device));
		if (common_address(port, &plan->port[i]) != NULL)
			return setup_refuse(
				why, "port %s: port %s has the same address; give each port its own",
				setup_device_name(&port->device), setup_device_name(&plan->port[i].device));
	}
	if (common_address(port, port) != NULL)
		return setup_refuse(why, "port %s: an address is given twice; leave one out",
				    setup_device_name(&port->device));
	return check_taking(plan, port, why) && check_mtu(port, why) && check_cable(port, why) &&
	       check_addresses(plan, port, why);
}

/* ---- peers ---- */

static bool
port_reaches(const struct setup_port *port, const struct config_addr *addr)
{
	const struct config_addr *own;

	for (uint32_t i = 0; (own = setup_port_addr(port, i)) != NULL; i++)
		if (config_on_link(own, addr))
			return true;
	for (uint32_t i = 0; i < CONFIG_GATEWAYS_MAX; i++)
		if (port->gateway[i].family == addr->family)
			return true;
	return false;
}

static bool
is_reached(const struct setup_plan *plan, const struct config_addr *addr)
{
	for (uint32_t i = 0; i < plan->ports; i++)
		if (port_reaches(&plan->port[i], addr))
			return true;
	return false;
}

static bool
is_own(const struct setup_port *port, const struct config_addr *addr)
{
	const struct config_addr *own;

	for (uint32_t i = 0; (own = setup_port_addr(port, i)) != NULL; i++)
		if (config_addr_equal(own, addr))
			return true;
	return false;
}

static bool
check_peer(const struct setup_plan *plan, uint32_t index, char why[SETUP_WHY])
{
	const struct config_peer *peer = &plan->peer[index];
	char text[CONFIG_ADDR_TEXT];

	config_addr_text(&peer->addr, false, text);
	if (plan->node == 0)
		return setup_refuse(why, "--peer %u: this host has no node; give --node N (1 to 63)",
				    peer->node);
	if (peer->node == plan->node)
		return setup_refuse(why, "--peer %u: this node's own id; give one of them another",
				    peer->node);
	for (uint32_t i = 0; i < plan->ports; i++)
		if (is_own(&plan->port[i], &peer->addr))
			return setup_refuse(why, "--peer %u: address %s is port %s's; write the peer's",
					    peer->node, text, setup_device_name(&plan->port[i].device));
	for (uint32_t i = 0; i < index; i++)
		if (plan->peer[i].node == peer->node || config_addr_equal(&plan->peer[i].addr, &peer->addr))
			return setup_refuse(
				why, "--peer %u: given twice, or with another peer's address; leave one out",
				peer->node);
	if (!is_reached(plan, &peer->addr))
		return setup_refuse(
			why,
			"--peer %u: no port reaches address %s; widen a port's prefix, or give a port a --gateway",
			peer->node, text);
	return true;
}

bool
setup_plan_check_ports(const struct setup_plan *plan, char why[SETUP_WHY])
{
	for (uint32_t i = 0; i < plan->ports; i++)
		if (!check_port(plan, i, why))
			return false;
	return true;
}

bool
setup_plan_check(struct setup_plan *plan, char why[SETUP_WHY])
{
	if (!check_given(plan, why) || !setup_plan_check_ports(plan, why))
		return false;
	for (uint32_t i = 0; i < plan->peers; i++)
		if (!check_peer(plan, i, why))
			return false;
	return setup_cores_choose(plan, why);
}
