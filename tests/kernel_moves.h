/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether the kernel can find pinned pages, for tests of programs that rely on that. */
#ifndef TESTS_KERNEL_MOVES_H
#define TESTS_KERNEL_MOVES_H

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "client/adopt/aside.h"

/* True if the kernel has UFFDIO_MOVE, which refuses pinned pages: Linux 6.8. */
static inline bool
kernel_moves(void)
{
	struct uffdio_api api = {.api = UFFD_API, .features = FEATURE_MOVE};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */);
	bool moves = fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0;

	if (fd >= 0)
		close(fd);
	return moves;
}

#endif
