/* SPDX-License-Identifier: BSD-3-Clause */
/* Who sends a request, as the kernel says. */
#ifndef CONTROL_ATTACH_IDENTITY_H
#define CONTROL_ATTACH_IDENTITY_H

#include <stdbool.h>
#include <sys/socket.h>

#include "control/base/acl.h"

/* The sender as the message has it; false: it has none. */
bool identity_take(struct msghdr *header, struct ucred *sender);
/*
 * Fills in the sender of the request under way with the groups that `fd`, a socket that it has just made,
 * proves.  Where there are too many for a request, the one in `acl` (NULL: of another node) matters.
 */
void identity_fill(struct acl_who *who, const struct ucred *sender, int fd, const struct acl *acl);
/* Whether `gid` is among the supplementary groups that the peer of the socket had when it connected. */
bool identity_in_group(int fd, gid_t gid);

#endif
