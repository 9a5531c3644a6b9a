/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors of shared mappings that the application made. */
#ifndef CLIENT_SHARED_H
#define CLIENT_SHARED_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A descriptor, open for reading and writing, of the file that a mapping belongs to, when it lives in
 * memory (memfd, tmpfs, hugetlbfs).  It is the application's own (closing a duplicate would drop its record
 * locks), or, *opened, a new one by `path`.  *page: of hugetlbfs, the size of its pages; else 0.  Under
 * ranges_lock.  -ENOENT: there is none.
 */
int shared_find_fd(dev_t dev, uint64_t ino, const char *path, bool *opened, uint64_t *size, uint64_t *page);
/* Before the descriptors of one or more mappings are looked for: what was found before counts no more. */
void shared_begin(void);
/* A descriptor of that file once more: `fd` if it still is one, or else, *opened, by `path` (or NULL). */
int shared_open(dev_t dev, uint64_t ino, int fd, const char *path, bool *opened);

#endif
