/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernel interfaces and the interfaces stacked on them. */
#include <net/if.h>
#include <net/if_arp.h>
#include <stdlib.h>
#include <string.h>

#include "control/setup/machine.h"

/* Names go to command lines and to a file for systemd: interfaces with other names are ignored. */
static bool
is_name(const char *name)
{
	size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:@-");

	return len > 0 && len < SETUP_NAME && name[len] == '\0';
}

static bool
is_pci(const struct setup_machine *machine, const char *name)
{
	char text[32];

	return strlen(name) < SETUP_NAME &&
	       setup_line(setup_path(machine, "sys/bus/pci/devices/%s/class", name), text, sizeof(text));
}

/* Finds the NIC: the interface's device, or for virtio its parent device. */
static void
find_pci(const struct setup_machine *machine, struct setup_iface *iface)
{
	char *target = realpath(setup_path(machine, "sys/class/net/%s/device", iface->name), NULL), *last;

	for (int up = 0; target != NULL && up < 2 && (last = strrchr(target, '/')) != NULL;
	     up++, *last = '\0') {
		if (is_pci(machine, last + 1)) {
			strcpy(iface->pci, last + 1);
			break;
		}
	}
	free(target);
}

static void
add_iface(void *context, const char *name)
{
	struct setup_machine *machine = context;
	struct setup_iface *iface = &machine->iface[machine->ifaces];
	char flags[32];

	if (!is_name(name) || strcmp(name, "lo") == 0)
		return;
	if (machine->ifaces == SETUP_IFACES) {
		machine->more = true;
		return;
	}
	machine->ifaces++;
	strcpy(iface->name, name);
	iface->mtu = (uint32_t)setup_number(setup_path(machine, "sys/class/net/%s/mtu", name), 0);
	iface->ethernet = setup_number(setup_path(machine, "sys/class/net/%s/type", name), 0) == ARPHRD_ETHER;
	setup_line(setup_path(machine, "sys/class/net/%s/flags", name), flags, sizeof(flags));
	iface->up = (strtoul(flags, NULL, 16) & IFF_UP) != 0;
	find_pci(machine, iface);
}

void
setup_interfaces_read(struct setup_machine *machine)
{
	setup_each(setup_path(machine, "sys/class/net"), add_iface, machine);
}

struct carrying {
	struct setup_machine *machine;
	const struct setup_iface *upper;
};

static void carry_down(void *context, const char *entry);

static void
mark_lower(struct setup_machine *machine, const struct setup_iface *upper)
{
	struct carrying carrying = {machine, upper};

	setup_each(setup_path(machine, "sys/class/net/%s", upper->name), carry_down, &carrying);
}

/* Handles an entry of an interface's folder: "lower_eth0" links to an interface below. */
static void
carry_down(void *context, const char *entry)
{
	const struct carrying *carrying = context;
	const struct setup_iface *upper = carrying->upper;
	struct setup_iface *lower;

	if (strncmp(entry, "lower_", 6) != 0)
		return;
	lower = setup_iface_find(carrying->machine, entry + 6);
	if (lower == NULL ||
	    ((lower->default_route || !upper->default_route) && (lower->session || !upper->session)))
		return;
	lower->default_route |= upper->default_route;
	lower->session |= upper->session;
	mark_lower(carrying->machine, lower);
}

void
setup_interfaces_carry(struct setup_machine *machine)
{
	for (uint32_t i = 0; i < machine->ifaces; i++)
		if (machine->iface[i].default_route || machine->iface[i].session)
			mark_lower(machine, &machine->iface[i]);
}
