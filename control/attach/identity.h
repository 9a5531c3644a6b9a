/* SPDX-License-Identifier: BSD-3-Clause */
/* The sender of a request, as the kernel reports it. */
#ifndef CONTROL_ATTACH_IDENTITY_H
#define CONTROL_ATTACH_IDENTITY_H

#include <stdbool.h>
#include <sys/socket.h>

#include "control/base/acl.h"

/* Reads the sender from the credentials of a message.  False: the message has none. */
bool identity_take(struct msghdr *header, struct ucred *sender);
/* Fills `who` with the sender of the request under way, and with the groups that are proved by `fd`, a socket
 * that the sender has just made.  If a sender has more groups than fit, only membership in the group of `acl`
 * is recorded (NULL: another node has the access list). */
void identity_fill(struct acl_who *who, const struct ucred *sender, int fd, const struct acl *acl);
/* True if `gid` is among the supplementary groups that the socket's peer had when it connected. */
bool identity_in_group(int fd, gid_t gid);

#endif
