/* SPDX-License-Identifier: BSD-3-Clause */
/* NICs: PCI devices of the class "network controller". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/setup/files.h"
#include "control/setup/machine.h"

#define CLASS_NETWORK 0x02u
#define CLASS_BRIDGE 0x06u

struct pci_reading {
	struct setup_machine *machine;
	const char *root;
	struct setup_nic *nic; /* whose group is looked at */
};

/* The base class, 0 when it is not known. */
static unsigned long
class_of(const char *root, const char *pci)
{
	char path[SETUP_PATH], text[32];

	setup_line(setup_path(path, root, "sys/bus/pci/devices/%s/class", pci), text, sizeof(text));
	return strtoul(text, NULL, 16) >> 16;
}

static void
add_companion(void *context, const char *pci)
{
	const struct pci_reading *reading = context;
	char *list = reading->nic->companions;
	size_t len = strlen(list), room = sizeof(reading->nic->companions);

	if (strcmp(pci, reading->nic->pci) == 0 || class_of(reading->root, pci) == CLASS_BRIDGE)
		return;
	if (len + strlen(pci) + 2 < room)
		snprintf(list + len, room - len, "%s%s", len > 0 ? " " : "", pci);
}

static int
numa_of(const char *root, const char *pci)
{
	char path[SETUP_PATH];
	uint64_t node =
		setup_number(setup_path(path, root, "sys/bus/pci/devices/%s/numa_node", pci), SETUP_NODES);

	return node < SETUP_NODES ? (int)node : -1;
}

static void
add_nic(void *context, const char *pci)
{
	struct pci_reading *reading = context;
	struct setup_machine *machine = reading->machine;
	struct setup_nic *nic = &machine->nic[machine->nics];
	char path[SETUP_PATH];

	if (strlen(pci) >= SETUP_NAME || class_of(reading->root, pci) != CLASS_NETWORK)
		return;
	if (machine->nics == SETUP_NICS) {
		machine->more = true;
		return;
	}
	machine->nics++;
	strcpy(nic->pci, pci);
	setup_link(setup_path(path, reading->root, "sys/bus/pci/devices/%s/driver", pci), nic->driver,
		   sizeof(nic->driver));
	setup_link(setup_path(path, reading->root, "sys/bus/pci/devices/%s/iommu_group", pci), nic->group,
		   sizeof(nic->group));
	nic->numa = numa_of(reading->root, pci);
	reading->nic = nic;
	if (nic->group[0] != '\0')
		setup_each(setup_path(path, reading->root, "sys/kernel/iommu_groups/%s/devices", nic->group),
			   add_companion, reading);
}

static void
note_iommu(void *context, const char *group)
{
	*(bool *)context = true;
}

void
setup_pci_read(struct setup_machine *machine, const char *root)
{
	struct pci_reading reading = {.machine = machine, .root = root};
	char path[SETUP_PATH];

	setup_each(setup_path(path, root, "sys/bus/pci/devices"), add_nic, &reading);
	setup_each(setup_path(path, root, "sys/kernel/iommu_groups"), note_iommu, &machine->iommu);
}
