/* SPDX-License-Identifier: BSD-3-Clause */
/* Chooses processors. Polling cores go near the NIC and onto isolated processors; the control thread, which
 * sleeps, shares one with other programs. */
#include <stdlib.h>

#include "control/setup/plan.h"

/* First processor of `set` from `cpu` on, in direction `step`; -1: none. */
static int
next_of(const cpu_set_t *set, int cpu, int step)
{
	for (; cpu >= 0 && cpu < CPU_SETSIZE; cpu += step)
		if (CPU_ISSET((unsigned int)cpu, set))
			return cpu;
	return -1;
}

static void
find_near(const struct setup_plan *plan, cpu_set_t *near)
{
	const struct setup_nic *nic = NULL;

	for (uint32_t i = 0; i < plan->ports && nic == NULL; i++)
		if (plan->port[i].device.nic != NULL && plan->port[i].device.nic->numa >= 0)
			nic = plan->port[i].device.nic;
	CPU_ZERO(near);
	if (nic != NULL)
		CPU_AND(near, &plan->machine->cpus, &plan->machine->node[nic->numa]);
}

/* Best processor left for polling. */
static int
take_polling(const struct setup_machine *machine, const cpu_set_t *near, const cpu_set_t *left)
{
	const cpu_set_t *const wanted[][2] = {
		{near, &machine->isolated}, {near, left}, {&machine->isolated, left}, {left, left}};
	int cpu = -1;

	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]) && cpu < 0; i++) {
		cpu_set_t set;

		CPU_AND(&set, wanted[i][0], wanted[i][1]);
		CPU_AND(&set, &set, left);
		cpu = next_of(&set, CPU_SETSIZE - 1, -1);
	}
	return cpu;
}

static int
take_control(const struct setup_machine *machine, const cpu_set_t *left)
{
	cpu_set_t shared;

	CPU_XOR(&shared, &machine->cpus, &machine->isolated);
	CPU_AND(&shared, &shared, left);
	return next_of(CPU_COUNT(&shared) > 0 ? &shared : left, 0, 1);
}

static int
compare_cpus(const void *a, const void *b)
{
	return (int)*(const unsigned int *)a - (int)*(const unsigned int *)b;
}

bool
setup_cores_choose(struct setup_plan *plan, char why[SETUP_WHY])
{
	cpu_set_t near, left = plan->machine->cpus;
	unsigned int there = (unsigned int)CPU_COUNT(&left);

	if (there < 2)
		return setup_refuse(
			why,
			"processors: this process may use %u; a data plane needs 2 (control thread and polling core); add processors, or run without taskset",
			there);
	if (plan->cores < 1 || plan->cores >= there)
		return setup_refuse(
			why, "--cores %u: %u processors, one of them for the control thread; write 1 to %u",
			plan->cores, there, there - 1);
	find_near(plan, &near);
	plan->control = (unsigned int)take_control(plan->machine, &left);
	CPU_CLR(plan->control, &left);
	for (uint32_t i = 0; i < plan->cores; i++) {
		plan->polling[i] = (unsigned int)take_polling(plan->machine, &near, &left);
		CPU_CLR(plan->polling[i], &left);
	}
	/* EAL's -l lists processors in ascending order. */
	qsort(plan->polling, plan->cores, sizeof(plan->polling[0]), compare_cpus);
	return true;
}
