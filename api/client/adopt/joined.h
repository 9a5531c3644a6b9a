/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CLIENT_JOINED_H
#define CLIENT_JOINED_H

#include "client/internal.h"
#include "segments.h"

/*
 * Creates a region joined of ADOPTED and FOREIGN segments in the given order, each of whole pages of its
 * file. At most ONE_MSG_FDS files opened by name are open at a time. Returns 0 and *id; or -errno, and no
 * region exists.
 */
int joined_add(struct one_client *client, const struct segment *segment, uint32_t count, uint32_t *id);

#endif
