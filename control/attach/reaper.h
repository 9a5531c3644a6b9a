/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that close what applications have sent and opened: descriptors, and connections. */
#ifndef CONTROL_ATTACH_REAPER_H
#define CONTROL_ATTACH_REAPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define SCM_MAX 253u /* descriptors in a message: the kernel's limit */
/* Room for the most ancillary data of a message.  Descriptors without room would be closed by the kernel, on
 * this thread. */
union ancillary {
	char bytes[CMSG_SPACE(SCM_MAX * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
	struct cmsghdr align;
};
int reapers_start(void);
void reapers_stop(void);
void reapers_poll(void);
uint64_t reapers_deadline(void);
/* Counts a connection of the user, whose threads then exist until the last connection is released, even if no
 * descriptors are left meanwhile.  Returns 0, or -EAGAIN: the threads could not be started. */
int reaper_hold(uint32_t uid);
void reaper_release(uint32_t uid);
/* Both functions let a thread of `uid` close the descriptor, and do not wait for it. */
void reaper_discard(uint32_t uid, int fd);
void reaper_close_socket(uint32_t uid, int fd); /* also closes descriptors that lie unread in the socket */
/* True if the limit of descriptors that wait to be closed is reached: receive no more from the user. */
bool reaper_full(uint32_t uid);
/* True if, besides, no descriptor has been closed for about a second: do not serve the user. */
bool reaper_stuck(uint32_t uid);
/* True if so much is left to close, over all users, that no connection should be accepted. */
bool reapers_late(void);

#endif
