/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "raw.h"
#include "shared.h"

static char entries[8192] __attribute__((aligned(8)));

/* The right file, in memory, and writable. */
static bool
usable(int fd, dev_t dev, uint64_t ino, uint64_t *size, bool *huge)
{
	struct statfs fs;
	struct stat st;
	int flags;

	if (fstat(fd, &st) != 0 || st.st_dev != dev || st.st_ino != ino || !S_ISREG(st.st_mode))
		return false;
	flags = fcntl(fd, F_GETFL);
	if (flags < 0 || (flags & O_ACCMODE) != O_RDWR || fstatfs(fd, &fs) != 0)
		return false;
	*size = (uint64_t)st.st_size;
	*huge = fs.f_type == HUGETLBFS_MAGIC;
	return fs.f_type == TMPFS_MAGIC || fs.f_type == HUGETLBFS_MAGIC;
}

static int
search(dev_t dev, uint64_t ino, uint64_t *size, bool *huge)
{
	int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int found = -ENOENT;
	long n;

	if (dir < 0)
		return -errno;
	while (found < 0 &&
	       (n = raw_syscall(SYS_getdents64, dir, (long)entries, sizeof(entries), 0, 0)) > 0) {
		for (long at = 0; at < n && found < 0;) {
			const struct raw_dirent *entry = (const void *)(entries + at);
			int fd = atoi(entry->name); /* "." and "..": 0, which is looked at anyway */

			if (usable(fd, dev, ino, size, huge))
				found = fd;
			at += entry->reclen;
		}
	}
	close(dir);
	return found;
}

int
shared_find_fd(dev_t dev, uint64_t ino, const char *path, bool *opened, uint64_t *size, bool *huge)
{
	int fd = search(dev, ino, size, huge);

	*opened = false;
	if (fd >= 0 || path[0] != '/')
		return fd;
	/* shm_open, mmap, close: the name is still there.  Opening something else by that name (a
	 * device, a FIFO) must have no effect. */
	fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -ENOENT;
	if (!usable(fd, dev, ino, size, huge)) {
		close(fd);
		return -ENOENT;
	}
	*opened = true;
	return fd;
}
