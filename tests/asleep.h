/* SPDX-License-Identifier: BSD-3-Clause */
/* Detects that a thread of the test sleeps in its wait. A fixed delay would not do: a busy machine may give
 * the thread no processor for long. */
#ifndef TESTS_ASLEEP_H
#define TESTS_ASLEEP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static inline bool
is_asleep(pid_t tid)
{
	char path[64], line[256] = "";
	const char *state;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	file = fopen(path, "re");
	if (file == NULL)
		return false;
	state = fgets(line, sizeof(line), file) != NULL ? strrchr(line, ')') : NULL;
	fclose(file);
	return state != NULL && strncmp(state, ") S", 3) == 0;
}

/* The thread itself stores *tid, before a call that sleeps once and nowhere else. */
static inline void
await_asleep(const _Atomic pid_t *tid)
{
	while (atomic_load(tid) == 0 || !is_asleep(atomic_load(tid)))
		usleep(1000);
}

#endif
