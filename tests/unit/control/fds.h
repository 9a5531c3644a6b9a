/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TEST_CONTROL_FDS_H
#define TEST_CONTROL_FDS_H

#include <dirent.h>
#include <stdint.h>

/* Returns a number that grows with each open descriptor of this process: only differences have a meaning. */
static inline uint32_t
count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	uint32_t n = 0;

	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n;
}

#endif
