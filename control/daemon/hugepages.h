/* SPDX-License-Identifier: BSD-3-Clause */
/* Hugepages that EAL will find. */
#ifndef DATAPLANE_HUGEPAGES_H
#define DATAPLANE_HUGEPAGES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Bytes of free hugepages, and of those that a killed process has left under this file prefix, in the
 * mounts of hugetlbfs or in `folder` (may be NULL): EAL removes these first.
 */
uint64_t hugepages_free(const char *prefix, const char *folder);

/* A hugetlbfs is mounted. */
bool hugepages_mounted(void);

#endif
