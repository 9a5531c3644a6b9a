/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * --namespace: mounts the presented files at their paths in /dev and /sys/class, for programs that call the
 * kernel without the C library.
 *
 * Neither folder is writable, so each is replaced by a tmpfs in which the original entries are mounted one by
 * one.  Without root a user namespace gives the right to mount, and maps the user to itself.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "run/run.h"

static int
write_map(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), error = 0;

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		error = -errno;
	if (fd >= 0)
		close(fd);
	return error;
}

static int
enter_user_namespace(void)
{
	unsigned uid = geteuid(), gid = getegid();
	char map[64];
	int error;

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
		return -errno;
	error = write_map("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "%u %u 1", uid, uid);
	error = error != 0 ? error : write_map("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "%u %u 1", gid, gid);
	return error != 0 ? error : write_map("/proc/self/gid_map", map);
}

/* Shows an entry of `from` under the same name in `to`: copies a link, mounts everything else. */
static int
copy_entry(const char *from, const char *to, const char *name)
{
	char old[PATH_MAX], new[PATH_MAX], target[PATH_MAX];
	struct stat status;
	ssize_t len;
	int fd;

	snprintf(old, sizeof(old), "%s/%s", from, name);
	snprintf(new, sizeof(new), "%s/%s", to, name);
	if (lstat(old, &status) != 0)
		return -errno;
	if (S_ISLNK(status.st_mode)) {
		len = readlink(old, target, sizeof(target) - 1);
		target[len < 0 ? 0 : len] = '\0';
		return len >= 0 && symlink(target, new) == 0 ? 0 : -errno;
	}
	if (S_ISDIR(status.st_mode)) {
		if (mkdir(new, 0755) != 0)
			return -errno;
	} else {
		fd = open(new, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		if (fd < 0)
			return -errno;
		close(fd);
	}
	return mount(old, new, NULL, MS_BIND | MS_REC, NULL) == 0 ? 0 : -errno;
}

static int
copy_entries(const char *from, const char *to, const char *except)
{
	DIR *dir = opendir(from);
	struct dirent *entry;
	int error = dir == NULL ? -errno : 0;

	while (error == 0 && (entry = readdir(dir)) != NULL)
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
		    strcmp(entry->d_name, except) != 0)
			error = copy_entry(from, to, entry->d_name);
	if (dir != NULL)
		closedir(dir);
	return error;
}

/* Mounts a file system at `place` with the entries of `place`, but "infiniband" as a link to `shown`. */
static int
mount_with_link(const char *place, const char *shown, const char *scratch)
{
	char entry[PATH_MAX];
	int error;

	if (mount("oneside", scratch, "tmpfs", MS_NOSUID, "mode=0755,size=1m") != 0)
		return -errno;
	error = copy_entries(place, scratch, "infiniband");
	snprintf(entry, sizeof(entry), "%s/infiniband", scratch);
	if (error == 0 && symlink(shown, entry) != 0)
		error = -errno;
	if (error == 0 && mount(scratch, place, NULL, MS_BIND | MS_REC, NULL) != 0)
		error = -errno;
	return error;
}

int
run_namespace(const char *tree)
{
	char scratch[PATH_MAX], shown[PATH_MAX];
	int error = 0;

	if (geteuid() != 0)
		error = enter_user_namespace();
	else if (unshare(CLONE_NEWNS) != 0)
		error = -errno;
	if (error == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		error = -errno;
	snprintf(scratch, sizeof(scratch), "%s/" RUN_SCRATCH, tree);
	snprintf(shown, sizeof(shown), "%s/sys/class/infiniband", tree);
	if (error == 0)
		error = mount_with_link("/sys/class", shown, scratch);
	snprintf(shown, sizeof(shown), "%s/dev/infiniband", tree);
	if (error == 0)
		error = mount_with_link("/dev", shown, scratch);
	if (error != 0)
		run_say("--namespace: %s: user or mount namespaces may not be made here; leave the option out, or run as root",
			strerror(-error));
	return error;
}
