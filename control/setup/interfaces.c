/* SPDX-License-Identifier: BSD-3-Clause */
/* Interfaces of the kernel, and what stands on them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/setup/files.h"
#include "control/setup/machine.h"

#define ARPHRD_ETHER_TYPE 1u
#define IFF_UP_FLAG 1u

struct iface_reading {
	struct setup_machine *machine;
	const char *root;
	struct setup_iface *iface; /* that carries something */
	bool changed;
};

/* Names go into lists of arguments and into a file for systemd: others than these are left alone. */
static bool
is_name(const char *name)
{
	size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:@-");

	return len > 0 && len < SETUP_NAME && name[len] == '\0';
}

static bool
is_pci(const char *root, const char *name)
{
	char path[SETUP_PATH], text[32];

	return strlen(name) < SETUP_NAME &&
	       setup_line(setup_path(path, root, "sys/bus/pci/devices/%s/class", name), text, sizeof(text));
}

/* The NIC: the interface's device, or for virtio the device that this is a function of. */
static void
find_pci(const char *root, struct setup_iface *iface)
{
	char path[SETUP_PATH], *target, *last;

	target = realpath(setup_path(path, root, "sys/class/net/%s/device", iface->name), NULL);
	for (int up = 0; target != NULL && up < 2 && (last = strrchr(target, '/')) != NULL;
	     up++, *last = '\0') {
		if (is_pci(root, last + 1)) {
			strcpy(iface->pci, last + 1);
			break;
		}
	}
	free(target);
}

static void
add_iface(void *context, const char *name)
{
	struct iface_reading *reading = context;
	struct setup_machine *machine = reading->machine;
	struct setup_iface *iface = &machine->iface[machine->ifaces];
	char path[SETUP_PATH], flags[32];

	if (!is_name(name) || strcmp(name, "lo") == 0)
		return;
	if (machine->ifaces == SETUP_IFACES) {
		machine->more = true;
		return;
	}
	machine->ifaces++;
	strcpy(iface->name, name);
	iface->mtu = (uint32_t)setup_number(setup_path(path, reading->root, "sys/class/net/%s/mtu", name), 0);
	iface->ethernet = setup_number(setup_path(path, reading->root, "sys/class/net/%s/type", name), 0) ==
			  ARPHRD_ETHER_TYPE;
	setup_line(setup_path(path, reading->root, "sys/class/net/%s/flags", name), flags, sizeof(flags));
	iface->up = (strtoul(flags, NULL, 16) & IFF_UP_FLAG) != 0;
	find_pci(reading->root, iface);
}

void
setup_interfaces_read(struct setup_machine *machine, const char *root)
{
	struct iface_reading reading = {.machine = machine, .root = root};
	char path[SETUP_PATH];

	setup_each(setup_path(path, root, "sys/class/net"), add_iface, &reading);
}

/* An entry of an interface's folder: "lower_eth0" is a link to what it stands on. */
static void
carry_down(void *context, const char *entry)
{
	struct iface_reading *reading = context;
	const struct setup_iface *upper = reading->iface;
	struct setup_iface *lower;

	if (strncmp(entry, "lower_", 6) != 0)
		return;
	lower = (struct setup_iface *)(uintptr_t)setup_iface_find(reading->machine, entry + 6);
	if (lower == NULL ||
	    ((lower->default_route || !upper->default_route) && (lower->session || !upper->session)))
		return;
	lower->default_route |= upper->default_route;
	lower->session |= upper->session;
	reading->changed = true;
}

void
setup_interfaces_carry(struct setup_machine *machine, const char *root)
{
	struct iface_reading reading = {.machine = machine, .root = root, .changed = true};
	char path[SETUP_PATH];

	while (reading.changed) {
		reading.changed = false;
		for (uint32_t i = 0; i < machine->ifaces; i++) {
			reading.iface = &machine->iface[i];
			if (reading.iface->default_route || reading.iface->session)
				setup_each(setup_path(path, root, "sys/class/net/%s", reading.iface->name),
					   carry_down, &reading);
		}
	}
}
