/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "files.h"
#include "raw.h"
#include "segments.h"

#define INDEX_MAX 65536u
#define BUCKETS 4096u

static char entries[8192] __attribute__((aligned(8)));

/* Index of the program's descriptors by file. The first lookup walks over the descriptors until the file is
 * found. The second one builds the index from all descriptors, since thousands of files may be mapped. */
struct index_entry {
	dev_t dev;
	uint64_t ino;
	int fd;
	uint32_t next; /* index plus 1; 0: none */
};

static struct {
	uint32_t lookups, num;
	uint32_t first[BUCKETS];
	struct index_entry *entry;
	uint64_t room; /* bytes */
} index_of_fds;

/* True if `fd` is the file, in memory, and open for reading and writing. */
static bool
is_usable_file(int fd, dev_t dev, uint64_t ino, uint64_t *size, uint64_t *page)
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
	*page = fs.f_type == HUGETLBFS_MAGIC ? (uint64_t)st.st_blksize : 0;
	return fs.f_type == TMPFS_MAGIC || fs.f_type == HUGETLBFS_MAGIC;
}

/* Calls `look` for each descriptor until `look` returns true. */
static bool
walk_fds(bool (*look)(int fd, void *user), void *user)
{
	int dir = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool found = false;
	long n;

	if (dir < 0)
		return false;
	while (!found && (n = raw_syscall(SYS_getdents64, dir, (long)entries, sizeof(entries), 0, 0)) > 0) {
		for (long at = 0; at < n && !found;) {
			const struct raw_dirent *entry = (const void *)(entries + at);

			/* "." and ".." become 0, a descriptor that is looked at anyway. */
			found = look(atoi(entry->name), user);
			at += entry->reclen;
		}
	}
	close(dir);
	return found;
}

/* ---- one file ---- */

struct wanted {
	dev_t dev;
	uint64_t ino;
	uint64_t *size, *page;
	int fd;
};

static bool
is_wanted(int fd, void *user)
{
	struct wanted *wanted = user;

	wanted->fd = fd;
	return is_usable_file(fd, wanted->dev, wanted->ino, wanted->size, wanted->page);
}

/* ---- many files ---- */

static bool
add_to_index(int fd, void *user)
{
	struct index_entry *entry;
	uint32_t *first;
	struct stat st;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || index_of_fds.num == INDEX_MAX ||
	    !cell_table_grow((void **)&index_of_fds.entry, &index_of_fds.room,
			     (index_of_fds.num + 1) * sizeof(*entry)))
		return false;
	first = &index_of_fds.first[st.st_ino % BUCKETS];
	entry = &index_of_fds.entry[index_of_fds.num++];
	*entry = (struct index_entry){.dev = st.st_dev, .ino = st.st_ino, .fd = fd, .next = *first};
	*first = index_of_fds.num;
	return false;
}

static void
index_make(void)
{
	memset(index_of_fds.first, 0, sizeof(index_of_fds.first));
	index_of_fds.num = 0;
	walk_fds(add_to_index, NULL);
}

static bool
index_find(struct wanted *wanted)
{
	for (uint32_t i = index_of_fds.first[wanted->ino % BUCKETS]; i != 0;) {
		const struct index_entry *entry = &index_of_fds.entry[i - 1];

		if (entry->dev == wanted->dev && entry->ino == wanted->ino && is_wanted(entry->fd, wanted))
			return true;
		i = entry->next;
	}
	return false;
}

void
shared_begin(void)
{
	index_of_fds.lookups = 0;
}

static int
search_file(struct wanted *wanted)
{
	uint32_t before = index_of_fds.lookups++;
	bool found;

	if (before == 1)
		index_make();
	found = before == 0 ? walk_fds(is_wanted, wanted) : index_find(wanted);
	return found ? wanted->fd : -ENOENT;
}

/* ---- files without a descriptor ---- */

/* The flags make opening harmless if the name belongs to something else by now (a device, a FIFO). */
static int
open_by_path(const char *path, dev_t dev, uint64_t ino, uint64_t *size, uint64_t *page)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return -ENOENT;
	if (is_usable_file(fd, dev, ino, size, page))
		return fd;
	close(fd);
	return -ENOENT;
}

int
shared_find_fd(dev_t dev, uint64_t ino, const char *path, bool *opened, uint64_t *size, uint64_t *page)
{
	struct wanted wanted = {.dev = dev, .ino = ino, .size = size, .page = page};
	int fd = search_file(&wanted);

	*opened = false;
	if (fd >= 0 || path[0] != '/')
		return fd;
	/* After shm_open, mmap and close the name still exists. */
	fd = open_by_path(path, dev, ino, size, page);
	*opened = fd >= 0;
	return fd;
}

int
shared_open(dev_t dev, uint64_t ino, int fd, const char *path, bool *opened)
{
	uint64_t size, page;

	*opened = false;
	if (fd >= 0)
		return is_usable_file(fd, dev, ino, &size, &page) ? fd : -ENOENT;
	if (path == NULL)
		return -ENOENT;
	fd = open_by_path(path, dev, ino, &size, &page);
	*opened = fd >= 0;
	return fd;
}
