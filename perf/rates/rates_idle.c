/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory and processor time of data planes, from the kernel's counters. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rates.h"
#include "perf/lib/report.h"

bool
process_memory(pid_t pid, struct process_memory *out)
{
	char path[64], line[256];
	FILE *file;
	uint64_t kb;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "r");
	if (file == NULL) {
		fprintf(stderr, "oneside-rates: --pid %d: %s\n", (int)pid, strerror(errno));
		return false;
	}
	memset(out, 0, sizeof(*out));
	while (fgets(line, sizeof(line), file) != NULL) {
		if (sscanf(line, "RssAnon: %" SCNu64, &kb) == 1)
			out->private_bytes += kb * 1024;
		else if (sscanf(line, "RssShmem: %" SCNu64, &kb) == 1)
			out->shared_bytes += kb * 1024;
	}
	fclose(file);
	return true;
}

/* Sums over all threads, since their start. */
struct process_cpu {
	uint64_t ns;    /* on a processor */
	uint64_t wakes; /* times that a thread was scheduled */
};

/* Sums run time and number of runs over the process's threads (proc(5), schedstat). */
static bool
process_cpu(pid_t pid, struct process_cpu *out)
{
	const struct dirent *entry;
	char path[64];
	DIR *tasks;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	tasks = opendir(path);
	if (tasks == NULL) {
		fprintf(stderr, "oneside-rates: --pid %d: %s\n", (int)pid, strerror(errno));
		return false;
	}
	memset(out, 0, sizeof(*out));
	while ((entry = readdir(tasks)) != NULL) {
		uint64_t ns = 0, waited = 0, runs = 0;
		FILE *file;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%.10s/schedstat", (int)pid, entry->d_name);
		file = fopen(path, "r");
		if (file == NULL)
			continue; /* the thread has ended */
		if (fscanf(file, "%" SCNu64 " %" SCNu64 " %" SCNu64, &ns, &waited, &runs) == 3) {
			out->ns += ns;
			out->wakes += runs;
		}
		fclose(file);
	}
	closedir(tasks);
	return true;
}

int
rates_idle_cpu(const struct rates_options *o)
{
	struct process_cpu before[RATES_PIDS], after;
	uint64_t start, passed;

	if (o->num_pids == 0) {
		fprintf(stderr, "oneside-rates: idle_cpu: which data plane? give --pid\n");
		return EXIT_FAILURE;
	}
	start = now_ns();
	for (uint32_t i = 0; i < o->num_pids; i++)
		if (!process_cpu(o->pid[i], &before[i]))
			return EXIT_FAILURE;
	sleep(o->seconds);
	passed = now_ns() - start;
	for (uint32_t i = 0; i < o->num_pids; i++) {
		double percent, wakes;

		if (!process_cpu(o->pid[i], &after))
			return EXIT_FAILURE;
		percent = 100.0 * (double)(after.ns - before[i].ns) / (double)passed;
		wakes = 1e9 * (double)(after.wakes - before[i].wakes) / (double)passed;
		if (o->json)
			printf("{\"test\":\"idle_cpu\",\"pid\":%d,\"seconds\":%.3f,\"percent\":%.4f,\"wakes_per_s\":%.0f}\n",
			       (int)o->pid[i], (double)passed / 1e9, percent, wakes);
		else
			printf(" idle_cpu: process %d used %.3f%% of a processor in %.1f s and woke %.0f times a second\n",
			       (int)o->pid[i], percent, (double)passed / 1e9, wakes);
	}
	return EXIT_SUCCESS;
}
