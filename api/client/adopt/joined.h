/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CLIENT_JOINED_H
#define CLIENT_JOINED_H

#include "client/internal.h"
#include "segments.h"

/*
 * A region that is joined of ADOPTED and FOREIGN segments, whole pages of theirs, one after the other.  Of
 * files that are opened by their names, ONE_MSG_FDS are open at a time.  0 and *id, or -errno and there is
 * none.
 */
int joined_add(struct one_client *client, const struct segment *segment, uint32_t count, uint32_t *id);

#endif
