/* SPDX-License-Identifier: BSD-3-Clause */
/* NICs: PCI devices of class "network controller". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/setup/machine.h"

#define CLASS_NETWORK 0x02u
#define CLASS_BRIDGE 0x06u

/* Base class, or 0 if unknown. */
static unsigned long
class_of(const struct setup_machine *machine, const char *pci)
{
	char text[32];

	setup_line(setup_path(machine, "sys/bus/pci/devices/%s/class", pci), text, sizeof(text));
	return strtoul(text, NULL, 16) >> 16;
}

/* Adds to the last NIC. */
static void
add_companion(void *context, const char *pci)
{
	struct setup_machine *machine = context;
	struct setup_nic *nic = &machine->nic[machine->nics - 1];
	char *list = nic->companions;
	size_t len = strlen(list), room = sizeof(nic->companions);

	if (strcmp(pci, nic->pci) == 0 || class_of(machine, pci) == CLASS_BRIDGE)
		return;
	if (len + strlen(pci) + 2 < room)
		snprintf(list + len, room - len, "%s%s", len > 0 ? " " : "", pci);
}

static void
add_nic(void *context, const char *pci)
{
	struct setup_machine *machine = context;
	struct setup_nic *nic = &machine->nic[machine->nics];
	uint64_t node;

	if (strlen(pci) >= SETUP_NAME || class_of(machine, pci) != CLASS_NETWORK)
		return;
	if (machine->nics == SETUP_NICS) {
		machine->more = true;
		return;
	}
	machine->nics++;
	strcpy(nic->pci, pci);
	setup_link(setup_path(machine, "sys/bus/pci/devices/%s/driver", pci), nic->driver,
		   sizeof(nic->driver));
	node = setup_number(setup_path(machine, "sys/bus/pci/devices/%s/numa_node", pci), SETUP_NODES);
	nic->numa = node < SETUP_NODES ? (int)node : -1;
	setup_each(setup_path(machine, "sys/bus/pci/devices/%s/iommu_group/devices", pci), add_companion,
		   machine);
}

static void
note_iommu(void *context, const char *group)
{
	*(bool *)context = true;
}

void
setup_pci_read(struct setup_machine *machine)
{
	setup_each(setup_path(machine, "sys/bus/pci/devices"), add_nic, machine);
	setup_each(setup_path(machine, "sys/kernel/iommu_groups"), note_iommu, &machine->iommu);
}
