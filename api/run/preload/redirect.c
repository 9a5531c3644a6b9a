/* SPDX-License-Identifier: BSD-3-Clause */
/* Maps paths of presented files into the folder of oneside-run. */
#include "run/preload/redirect.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "run/run.h"

static bool
is_below(const char *path, const char *folder)
{
	size_t len = strlen(folder);

	return strncmp(path, folder, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

static bool
is_presented(const char *path)
{
	return (is_below(path, "/sys/class/infiniband") || is_below(path, "/dev/infiniband")) &&
	       strstr(path, "/..") == NULL;
}

const char *
redirect_path(const char *path, char buffer[PATH_MAX])
{
	const char *tree;
	int before = errno, len;

	if (path == NULL || path[0] != '/' || !is_presented(path))
		return path;
	tree = getenv(RUN_VARIABLE);
	if (tree == NULL)
		return path;
	len = snprintf(buffer, PATH_MAX, "%s%s", tree, path);
	/* A real device that appeared after the folder was created exists only at its own path. */
	if (len >= PATH_MAX || syscall(SYS_faccessat, AT_FDCWD, buffer, F_OK) != 0)
		buffer = NULL;
	errno = before;
	return buffer != NULL ? buffer : path;
}

void *
redirect_next(_Atomic(void *) *next, const char *name)
{
	/* Relaxed: all threads store the same value, and nothing else is published. */
	void *found = atomic_load_explicit(next, memory_order_relaxed);

	if (found == NULL) {
		found = dlsym(RTLD_NEXT, name);
		atomic_store_explicit(next, found, memory_order_relaxed);
	}
	return found;
}
