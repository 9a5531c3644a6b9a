/* SPDX-License-Identifier: BSD-3-Clause */
/* Hugepages: how many there are, how many are free, and where they are mounted. */
#include <stdio.h>
#include <string.h>

#include "control/setup/files.h"
#include "control/setup/machine.h"

#define POOLS "sys/kernel/mm/hugepages"
#define USUAL "/dev/hugepages" /* where the service has a folder of its own */

struct memory_reading {
	struct setup_machine *machine;
	const char *root;
};

static void
add_pool(void *context, const char *pool)
{
	struct memory_reading *reading = context;
	unsigned long long kib;
	char path[SETUP_PATH];
	uint64_t pages, free_pages;

	if (sscanf(pool, "hugepages-%llukB", &kib) != 1)
		return;
	pages = setup_number(setup_path(path, reading->root, POOLS "/%s/nr_hugepages", pool), 0);
	free_pages = setup_number(setup_path(path, reading->root, POOLS "/%s/free_hugepages", pool), 0);
	reading->machine->huge_bytes += pages * kib * 1024;
	reading->machine->huge_free += free_pages * kib * 1024;
}

/* "hugetlbfs /dev/hugepages hugetlbfs rw 0 0"; the usual place, else the first. */
static void
mount_line(void *context, char *line)
{
	char *found = context, place[128], type[32];

	if (sscanf(line, "%*s %127s %31s", place, type) == 2 && strcmp(type, "hugetlbfs") == 0 &&
	    place[strcspn(place, "\\\"'$`")] == '\0' && (*found == '\0' || strcmp(place, USUAL) == 0))
		strcpy(found, place);
}

void
setup_memory_read(struct setup_machine *machine, const char *root)
{
	struct memory_reading reading = {machine, root};
	char path[SETUP_PATH];

	setup_each(setup_path(path, root, POOLS), add_pool, &reading);
	setup_lines(setup_path(path, root, "proc/mounts"), mount_line, machine->huge_mount);
}
