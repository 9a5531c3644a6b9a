/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <fcntl.h>
#include <mntent.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "control/setup/machine.h"
#include "daemon.h"

static const struct setup_machine *
read_memory(void)
{
	static struct setup_machine machine;

	memset(&machine, 0, sizeof(machine));
	machine.root = "";
	setup_memory_read(&machine);
	return &machine;
}

/* A process that maps such a file holds a lock on it. */
static uint64_t
left_in_file(int folder, const char *name)
{
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	uint64_t bytes = 0;
	struct stat st;

	if (fd < 0)
		return 0;
	if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0)
		bytes = (uint64_t)st.st_blocks * 512;
	close(fd);
	return bytes;
}

/* EAL names its files PREFIXmap_NUMBER. */
static uint64_t
left_in(const char *path, const char *prefix)
{
	DIR *folder = opendir(path);
	size_t len = strlen(prefix);
	struct dirent *entry;
	uint64_t bytes = 0;

	while (folder != NULL && (entry = readdir(folder)) != NULL)
		if (strncmp(entry->d_name, prefix, len) == 0 && strncmp(entry->d_name + len, "map_", 4) == 0)
			bytes += left_in_file(dirfd(folder), entry->d_name);
	if (folder != NULL)
		closedir(folder);
	return bytes;
}

uint64_t
hugepages_free(const char *prefix, const char *folder)
{
	uint64_t bytes = read_memory()->huge_free;
	const struct mntent *mount;
	FILE *mounts;

	if (folder != NULL)
		return bytes + left_in(folder, prefix);
	mounts = setmntent("/proc/mounts", "re");
	while (mounts != NULL && (mount = getmntent(mounts)) != NULL)
		if (strcmp(mount->mnt_type, "hugetlbfs") == 0)
			bytes += left_in(mount->mnt_dir, prefix);
	if (mounts != NULL)
		endmntent(mounts);
	return bytes;
}

bool
hugepages_mounted(void)
{
	return read_memory()->huge_mount[0] != '\0';
}
