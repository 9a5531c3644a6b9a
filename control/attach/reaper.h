/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors that applications send, and how they are closed. */
#ifndef CONTROL_ATTACH_REAPER_H
#define CONTROL_ATTACH_REAPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define SCM_MAX 253u /* descriptors in a message: the kernel's limit */
/* Room for all that a message can have: those without room the kernel would close, on this thread. */
union ancillary {
	char bytes[CMSG_SPACE(SCM_MAX * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
	struct cmsghdr align;
};
int reapers_start(void);
void reapers_stop(void);
void reapers_poll(void);
uint64_t reapers_deadline(void);
/* The user has a connection: its threads are there until the last one is released, whatever descriptors are
 * left by then; -EAGAIN: there are none for them. */
int reaper_hold(uint32_t uid);
void reaper_release(uint32_t uid);
/* Both close what is of `uid` without waiting for it. */
void reaper_discard(uint32_t uid, int fd);
void reaper_close_socket(uint32_t uid, int fd); /* with what it has sent, unread */
/* So many of its descriptors are still to be closed that no more should be taken; */
bool reaper_full(uint32_t uid);
/* and they do not close, so that it is not to be served. */
bool reaper_stuck(uint32_t uid);
/* So many connections are still to be closed, of all users, that none should be accepted. */
bool reapers_late(void);

#endif
