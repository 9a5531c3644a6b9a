/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "maps.h"
#include "pins.h"
#include "raw.h"

#ifndef AF_XDP
#define AF_XDP 44
#endif

static struct {
	bool known, possible, hidden;
} pins;

static char entries[8192] __attribute__((aligned(8)));

/* True for character devices whose drivers keep no page of a program: memory devices (/dev/null), terminals,
 * and of the miscellaneous devices (major 10) tun, fuse, kvm and vhost-net. */
static bool
device_is_harmless(dev_t dev)
{
	const unsigned int misc[] = {200, 229, 232, 238};
	unsigned int number = major(dev);

	if (number == 1 || number == 4 || number == 5 || (number >= 136 && number <= 143))
		return true;
	for (size_t i = 0; number == 10 && i < sizeof(misc) / sizeof(misc[0]); i++) {
		if (minor(dev) == misc[i])
			return true;
	}
	return false;
}

static bool
socket_pins(int fd)
{
	socklen_t size = sizeof(int);
	int domain = 0;

	return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_XDP;
}

/* False for file systems with the kernel's common direct I/O, which pins pages (iov_iter_extract_pages) since
 * Linux 6.5. Others may hold plain references, as NFS and Ceph do. */
static bool
direct_io_is_hidden(int fd)
{
	const unsigned long known[] = {EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC,
				       F2FS_SUPER_MAGIC, TMPFS_MAGIC,     BDEVFS_MAGIC};
	struct statfs fs;

	if (fstatfs(fd, &fs) != 0)
		return true;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if ((unsigned long)fs.f_type == known[i])
			return false;
	}
	return true;
}

static void
check_path(int fd)
{
	int flags = fcntl(fd, F_GETFL);
	struct stat st;

	if (fstat(fd, &st) != 0)
		return;
	if (S_ISBLK(st.st_mode) || (S_ISCHR(st.st_mode) && !device_is_harmless(st.st_rdev)))
		pins.possible = true;
	if (!S_ISREG(st.st_mode) || flags < 0 || (flags & O_DIRECT) == 0)
		return;
	pins.possible = true;
	pins.hidden = pins.hidden || direct_io_is_hidden(fd);
}

/* The link's text distinguishes most descriptors with one system call: "socket:[123]", "pipe:[123]",
 * "anon_inode:[io_uring]", "/memfd:name (deleted)", or the path of a file. */
static void
check_fd(int dir, const char *name)
{
	char link[64];
	long n = raw_syscall(SYS_readlinkat, dir, (long)name, (long)link, sizeof(link) - 1, 0);

	if (n <= 0)
		return;
	link[n] = '\0';
	if (strncmp(link, "socket:", 7) == 0)
		pins.possible = pins.possible || socket_pins(atoi(name));
	else if (link[0] != '/')
		pins.possible =
			pins.possible || strstr(link, "io_uring") != NULL || strstr(link, "vfio") != NULL;
	else if (strncmp(link, "/memfd:", 7) != 0)
		check_path(atoi(name));
}

static void
check_fds(void)
{
	int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	long n;

	pins.possible = dir < 0;
	pins.hidden = dir < 0;
	if (dir < 0)
		return;
	while ((n = raw_syscall(SYS_getdents64, dir, (long)entries, sizeof(entries), 0, 0)) > 0) {
		for (long at = 0; at < n;) {
			const struct raw_dirent *entry = (const void *)(entries + at);

			check_fd(dir, entry->name);
			at += entry->reclen;
		}
	}
	close(dir);
}

static void
look_once(void)
{
	if (pins.known)
		return;
	pins.known = true;
	check_fds();
	pins.possible = pins.possible || maps_pinned() != 0;
}

bool
pins_possible(void)
{
	look_once();
	return pins.possible;
}

bool
pins_hidden(void)
{
	look_once();
	return pins.hidden;
}

void
pins_forget(void)
{
	pins.known = false;
}
