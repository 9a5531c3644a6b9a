/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Priority of a process that has been replaced.  The last of its threads to end unmaps the memory of all
 * applications, which takes 45 ms for each GiB, and may be one of a polling core, whose processor the new
 * process's core needs.
 */
#include <dirent.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "daemon.h"

#define NICE_LAST 19

void
daemon_step_aside(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;
	cpu_set_t cpus;
	/* The control thread runs on processors without a polling core, if there are any. */
	bool known = sched_getaffinity(0, sizeof(cpus), &cpus) == 0;

	while (tasks != NULL && (task = readdir(tasks)) != NULL) {
		int tid = atoi(task->d_name);

		if (tid <= 0)
			continue;
		setpriority(PRIO_PROCESS, (id_t)tid, NICE_LAST); /* Linux: that thread only */
		if (known)
			sched_setaffinity(tid, sizeof(cpus), &cpus);
	}
	if (tasks != NULL)
		closedir(tasks);
}
