/* SPDX-License-Identifier: BSD-3-Clause */
/* Hugepages: reserved, free, and where mounted; and how much memory a data plane needs. */
#include <stdio.h>
#include <string.h>

#include "control/setup/files.h"
#include "control/setup/machine.h"

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
