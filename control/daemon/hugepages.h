/* SPDX-License-Identifier: BSD-3-Clause */
/* Hugepages available to EAL. */
#ifndef DATAPLANE_HUGEPAGES_H
#define DATAPLANE_HUGEPAGES_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Bytes of free hugepages, plus those that a killed process left under this file prefix, in the hugetlbfs
 * mounts or in `folder` (may be NULL). EAL removes the latter first.
 */
uint64_t hugepages_free(const char *prefix, const char *folder);

/* Is a hugetlbfs mounted? */
bool hugepages_mounted(void);

#endif
