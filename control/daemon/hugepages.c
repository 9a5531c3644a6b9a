/* SPDX-License-Identifier: BSD-3-Clause */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hugepages.h"

#define POOLS "/sys/kernel/mm/hugepages"

/* The number in a small file; 0 when there is none. */
static uint64_t
number_in(const char *path)
{
	unsigned long long number = 0;
	FILE *file = fopen(path, "re");

	if (file != NULL && fscanf(file, "%llu", &number) != 1)
		number = 0;
	if (file != NULL)
		fclose(file);
	return number;
}

static uint64_t
free_in_pools(void)
{
	DIR *pools = opendir(POOLS);
	char path[PATH_MAX];
	uint64_t bytes = 0;
	struct dirent *entry;

	while (pools != NULL && (entry = readdir(pools)) != NULL) {
		unsigned long long kib;
		if (sscanf(entry->d_name, "hugepages-%llukB", &kib) != 1)
			continue;
		snprintf(path, sizeof(path), POOLS "/%s/free_hugepages", entry->d_name);
		bytes += number_in(path) * kib * 1024;
	}
	if (pools != NULL)
		closedir(pools);
	return bytes;
}

/* Who maps such a file has locked it. */
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

/* EAL's files are called PREFIXmap_NUMBER. */
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

/* The next mount of hugetlbfs, or NULL. */
static const char *
next_mount(FILE *mounts)
{
	struct mntent *mount;

	while (mounts != NULL && (mount = getmntent(mounts)) != NULL)
		if (strcmp(mount->mnt_type, "hugetlbfs") == 0)
			return mount->mnt_dir;
	return NULL;
}

uint64_t
hugepages_free(const char *prefix, const char *folder)
{
	uint64_t bytes = free_in_pools();
	FILE *mounts;

	if (folder != NULL)
		return bytes + left_in(folder, prefix);
	mounts = setmntent("/proc/mounts", "re");
	for (const char *path; (path = next_mount(mounts)) != NULL;)
		bytes += left_in(path, prefix);
	if (mounts != NULL)
		endmntent(mounts);
	return bytes;
}

bool
hugepages_mounted(void)
{
	FILE *mounts = setmntent("/proc/mounts", "re");
	bool found = next_mount(mounts) != NULL;

	if (mounts != NULL)
		endmntent(mounts);
	return found;
}
