/* SPDX-License-Identifier: BSD-3-Clause */
/* Presents an input as a file. */
#ifndef TESTS_FUZZ_FILE_H
#define TESTS_FUZZ_FILE_H

#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/base/records.h"

/* Returns the process's single file, with these contents from now on. */
static inline int
file_with(const uint8_t *data, size_t size)
{
	static int fd = -1;

	if (fd < 0)
		fd = memfd_create("input", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0) != 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
		fuzz_fail("no file in memory");
	return fd;
}

#endif
