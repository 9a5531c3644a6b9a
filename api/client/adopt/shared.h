/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors of the files of shared mappings that the application made. */
#ifndef CLIENT_SHARED_H
#define CLIENT_SHARED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Finds a descriptor, open for reading and writing, of a mapping's file in memory (memfd, tmpfs, hugetlbfs).
 * The descriptor is the application's own (closing a duplicate would drop the application's record locks), or
 * a new one opened by `path` if *opened. *page: the page size of a hugetlbfs file; else 0. Returns -ENOENT if
 * there is none. Requires ranges_lock.
 */
int shared_find_fd(dev_t dev, uint64_t ino, const char *path, bool *opened, uint64_t *size, uint64_t *page);
/* Begins a series of lookups: the index of earlier ones is not used any more. */
void shared_begin(void);
/* Returns `fd` if it is not negative and still the file's; if negative, a new descriptor opened by `path`
 * (NULL: none), with *opened. Returns -ENOENT if there is none. */
int shared_open(dev_t dev, uint64_t ino, int fd, const char *path, bool *opened);

#endif
