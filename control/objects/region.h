/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CONTROL_REGION_H
#define CONTROL_REGION_H

#include <stdbool.h>
#include <stdint.h>

/*
 * May a client's descriptor be mapped for `size` bytes?  Asks no file system that
 * could let us wait.  -EBADF: not shared memory; -EPERM: not sealed against
 * shrinking; -EINVAL: size 0, no multiple of *page, or beyond the end.
 */
int region_check(int fd, uint64_t size, bool must_be_sealed, uint64_t *page);

#endif
