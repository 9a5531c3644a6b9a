/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/setup/machine.h"

#include <string.h>

#include "config/address.h"

void
setup_machine_read(struct setup_machine *machine, const char *root)
{
	memset(machine, 0, sizeof(*machine));
	machine->root = root;
	setup_pci_read(machine);
	setup_interfaces_read(machine);
	setup_routes_read(machine);
	setup_sessions_read(machine);
	setup_interfaces_carry(machine);
	setup_processors_read(machine);
	setup_memory_read(machine);
}

struct setup_iface *
setup_iface_find(const struct setup_machine *machine, const char *name)
{
	for (uint32_t i = 0; i < machine->ifaces; i++)
		if (strcmp(machine->iface[i].name, name) == 0)
			return (struct setup_iface *)(uintptr_t)&machine->iface[i];
	return NULL;
}

const struct setup_iface *
setup_iface_of(const struct setup_machine *machine, const char *pci)
{
	for (uint32_t i = 0; i < machine->ifaces; i++)
		if (strcmp(machine->iface[i].pci, pci) == 0)
			return &machine->iface[i];
	return NULL;
}

const struct setup_nic *
setup_nic_find(const struct setup_machine *machine, const char *pci)
{
	for (uint32_t i = 0; i < machine->nics; i++)
		if (strcmp(machine->nic[i].pci, pci) == 0)
			return &machine->nic[i];
	return NULL;
}

const struct setup_addr *
setup_addr_find(const struct setup_machine *machine, const struct config_addr *addr)
{
	for (uint32_t i = 0; i < machine->addrs; i++)
		if (config_addr_equal(&machine->addr[i].addr, addr))
			return &machine->addr[i];
	return NULL;
}
