/* SPDX-License-Identifier: BSD-3-Clause */
/* Prints a machine's inventory for whoever sets up a data plane. */
#include <string.h>

#include "control/onesidectl/setup.h"

#define MIB (1ull << 20)

static void
print_cpus(const cpu_set_t *set)
{
	const char *comma = "";

	for (unsigned int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		unsigned int last = cpu;

		if (!CPU_ISSET(cpu, set))
			continue;
		while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set))
			last++;
		printf("%s%u", comma, cpu);
		if (last > cpu)
			printf("-%u", last);
		comma = ",";
		cpu = last;
	}
}

/* Prints NUMA nodes if there are several. */
static void
print_nodes(const struct setup_machine *machine)
{
	const char *between = "\nNUMA nodes     ";

	for (unsigned int node = 0; node < SETUP_NODES && CPU_COUNT(&machine->node[1]) > 0; node++) {
		if (CPU_COUNT(&machine->node[node]) == 0)
			continue;
		printf("%s%u: ", between, node);
		print_cpus(&machine->node[node]);
		between = "; ";
	}
}

static void
print_machine(const struct setup_machine *machine)
{
	printf("Processors     ");
	print_cpus(&machine->cpus);
	if (CPU_COUNT(&machine->isolated) > 0) {
		printf(", isolated: ");
		print_cpus(&machine->isolated);
	}
	print_nodes(machine);
	printf("\nHugepages      %llu MiB free of %llu, %s\n", (unsigned long long)(machine->huge_free / MIB),
	       (unsigned long long)(machine->huge_bytes / MIB),
	       machine->huge_mount[0] != '\0' ? machine->huge_mount : "not mounted");
	printf("IOMMU          %s\n", machine->iommu ? "yes" : "no");
}

/* Prints, for example, "vfio, af_packet", the best method first. */
static void
print_modes(const struct setup_machine *machine, const struct setup_device *device)
{
	enum setup_mode best = setup_mode_best(machine, device);
	const char *comma = "";
	char why[SETUP_WHY];

	if (best != SETUP_MODES) {
		printf("%s", setup_mode_name(best));
		comma = ", ";
	}
	for (int mode = 0; mode < SETUP_MODES; mode++) {
		if (mode == (int)best || !setup_mode_fits(machine, device, (enum setup_mode)mode, why))
			continue;
		printf("%s%s", comma, setup_mode_name((enum setup_mode)mode));
		comma = ", ";
	}
	if (*comma == '\0')
		printf("none");
}

static void
print_addresses(const struct setup_machine *machine, const struct setup_iface *iface)
{
	char text[CONFIG_ADDR_TEXT];

	for (uint32_t i = 0; i < machine->addrs; i++)
		if (strcmp(machine->addr[i].iface, iface->name) == 0)
			printf("; %s", config_addr_text(&machine->addr[i].addr, true, text));
}

static void
print_device(const struct setup_machine *machine, const struct setup_device *device)
{
	const struct setup_nic *nic = device->nic;
	char lost[SETUP_NAME];
	const char *carried = setup_device_carries(machine, device, lost);

	printf("%-15s  %-12s  %-15s  ", device->iface != NULL ? device->iface->name : "-",
	       nic != NULL ? nic->pci : "-", nic != NULL && nic->driver[0] != '\0' ? nic->driver : "-");
	print_modes(machine, device);
	if (nic != NULL && nic->numa >= 0)
		printf("; node %d", nic->numa);
	if (nic != NULL && nic->companions[0] != '\0')
		printf("; in one IOMMU group with %s", nic->companions);
	if (device->iface != NULL)
		print_addresses(machine, device->iface);
	if (carried != NULL)
		printf("; %s carries %s", lost, carried);
	putchar('\n');
}

void
onesidectl_setup_show(const struct setup_machine *machine, const struct setup_files *files)
{
	const char *there = setup_files_there(files);

	print_machine(machine);
	printf("Configuration  %s%s\n", there != NULL ? there : files->conf,
	       there != NULL ? " exists" : " does not exist yet");
	printf("\n%-15s  %-12s  %-15s  %s\n", "INTERFACE", "PCI", "DRIVER", "BY");
	for (uint32_t i = 0; i < machine->nics; i++) {
		const struct setup_device device = {&machine->nic[i],
						    setup_iface_of(machine, machine->nic[i].pci)};

		print_device(machine, &device);
	}
	for (uint32_t i = 0; i < machine->ifaces; i++) {
		const struct setup_device device = {setup_nic_find(machine, machine->iface[i].pci),
						    &machine->iface[i]};

		if (machine->iface[i].ethernet &&
		    (device.nic == NULL || setup_iface_of(machine, device.nic->pci) != device.iface))
			print_device(machine, &device);
	}
	print_device(machine, &(const struct setup_device){NULL, NULL});
	if (machine->more)
		puts("Further devices or addresses are not listed.");
	putchar('\n');
}
