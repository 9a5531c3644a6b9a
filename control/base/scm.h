/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors in the ancillary data of a message that was received from a Unix socket. */
#ifndef CONTROL_BASE_SCM_H
#define CONTROL_BASE_SCM_H

#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

/* All zero: before the first descriptor. */
struct scm_cursor {
	struct cmsghdr *cmsg;
	size_t at; /* of the next descriptor, from the beginning of `cmsg` */
};

/* Takes the next descriptor, which is the caller's then; false: there is none. */
static inline bool
scm_next_fd(struct msghdr *header, struct scm_cursor *cursor, int *fd)
{
	if (cursor->cmsg == NULL)
		cursor->cmsg = CMSG_FIRSTHDR(header);
	for (; cursor->cmsg != NULL; cursor->cmsg = CMSG_NXTHDR(header, cursor->cmsg), cursor->at = 0) {
		if (cursor->at == 0)
			cursor->at = CMSG_LEN(0);
		if (cursor->cmsg->cmsg_level != SOL_SOCKET || cursor->cmsg->cmsg_type != SCM_RIGHTS ||
		    cursor->at + sizeof(*fd) > cursor->cmsg->cmsg_len)
			continue;
		memcpy(fd, (char *)cursor->cmsg + cursor->at, sizeof(*fd));
		cursor->at += sizeof(*fd);
		return true;
	}
	return false;
}

#endif
