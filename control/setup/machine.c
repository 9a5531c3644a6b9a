/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/setup/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/address.h"

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

bool
setup_iface_has_address(const struct setup_machine *machine, const struct setup_iface *iface)
{
	for (uint32_t i = 0; iface != NULL && i < machine->addrs; i++)
		if (strcmp(machine->addr[i].iface, iface->name) == 0)
			return true;
	return false;
}

/* ---- processors: online, isolated from the kernel's scheduler, and near each memory node ---- */

void
setup_cpus_parse(const char *list, cpu_set_t *set)
{
	CPU_ZERO(set);
	while (*list >= '0' && *list <= '9') {
		char *end;
		unsigned long first = strtoul(list, &end, 10), last = first;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		for (unsigned long cpu = first; cpu <= last && cpu < CPU_SETSIZE; cpu++)
			CPU_SET(cpu, set);
		list = end + (*end == ',');
	}
}

static void
read_list(const char *path, cpu_set_t *set)
{
	char text[512];

	setup_line(path, text, sizeof(text));
	setup_cpus_parse(text, set);
}

static void
status_line(void *context, char *line)
{
	static const char name[] = "Cpus_allowed_list:";

	if (strncmp(line, name, sizeof(name) - 1) == 0)
		setup_cpus_parse(line + sizeof(name) - 1 + strspn(line + sizeof(name) - 1, " \t"), context);
}

static void
processors_read(struct setup_machine *machine)
{
	cpu_set_t online, isolated, allowed;

	read_list(setup_path(machine, "sys/devices/system/cpu/online"), &online);
	read_list(setup_path(machine, "sys/devices/system/cpu/isolated"), &isolated);
	CPU_ZERO(&allowed);
	setup_lines(setup_path(machine, "proc/self/status"), status_line, &allowed);
	CPU_AND(&machine->isolated, &online, &isolated);
	/* Affinity masks exclude isolated processors by default, but a process may move to them. */
	CPU_AND(&machine->cpus, &online, &allowed);
	CPU_OR(&machine->cpus, &machine->cpus, &machine->isolated);
	for (unsigned int node = 0; node < SETUP_NODES; node++)
		read_list(setup_path(machine, "sys/devices/system/node/node%u/cpulist", node),
			  &machine->node[node]);
}

/* ---- hugepages: reserved, free, and where mounted; and how much memory a data plane needs ---- */

#define POOLS "sys/kernel/mm/hugepages"
#define TABLES ((uint64_t)192 << 20) /* estimate of rings, tables and queue pairs */
#define NODE_BYTES 256u              /* size of an entry of the work pool */
#define MORE 700u                    /* size of a packet buffer beyond its frame */
#define USUAL "/dev/hugepages"       /* the service has its own folder there */

static void
add_pool(void *context, const char *pool)
{
	struct setup_machine *machine = context;
	unsigned long long kib;
	uint64_t pages, free_pages;

	if (sscanf(pool, "hugepages-%llukB", &kib) != 1)
		return;
	pages = setup_number(setup_path(machine, POOLS "/%s/nr_hugepages", pool), 0);
	free_pages = setup_number(setup_path(machine, POOLS "/%s/free_hugepages", pool), 0);
	machine->huge_bytes += pages * kib * 1024;
	machine->huge_free += free_pages * kib * 1024;
}

/* Handles "hugetlbfs /dev/hugepages hugetlbfs rw 0 0". Prefers the usual mount point to the first one. */
static void
mount_line(void *context, char *line)
{
	char *found = context, place[128], type[32];

	if (sscanf(line, "%*s %127s %31s", place, type) == 2 && strcmp(type, "hugetlbfs") == 0 &&
	    place[strcspn(place, "\\\"'$`")] == '\0' && (*found == '\0' || strcmp(place, USUAL) == 0))
		strcpy(found, place);
}

void
setup_memory_read(struct setup_machine *machine)
{
	setup_each(setup_path(machine, POOLS), add_pool, machine);
	setup_lines(setup_path(machine, "proc/mounts"), mount_line, machine->huge_mount);
}

uint64_t
setup_memory_tables(uint64_t cores, uint64_t work_pool)
{
	return TABLES + cores * work_pool * NODE_BYTES;
}

uint64_t
setup_memory_port(uint64_t cores, uint64_t mbufs, uint64_t room)
{
	return cores * mbufs * (room + MORE);
}

/* ---- all ---- */

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
	processors_read(machine);
	setup_memory_read(machine);
}
