/* SPDX-License-Identifier: BSD-3-Clause */
/* Processors: online, isolated from the kernel's scheduler, and near each memory node. */
#include <stdlib.h>
#include <string.h>

#include "control/setup/files.h"
#include "control/setup/machine.h"

/* Parses "0-3,8": ranges separated by commas. */
static void
parse_cpus(const char *list, cpu_set_t *set)
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
	parse_cpus(text, set);
}

static void
status_line(void *context, char *line)
{
	static const char name[] = "Cpus_allowed_list:";

	if (strncmp(line, name, sizeof(name) - 1) == 0)
		parse_cpus(line + sizeof(name) - 1 + strspn(line + sizeof(name) - 1, " \t"), context);
}

void
setup_processors_read(struct setup_machine *machine)
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
