/* SPDX-License-Identifier: BSD-3-Clause */
/* Which paths lead elsewhere. */
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
	/* A real device that came after the folder was made is only at its own place. */
	if (len >= PATH_MAX || syscall(SYS_faccessat, AT_FDCWD, buffer, F_OK) != 0)
		buffer = NULL;
	errno = before;
	return buffer != NULL ? buffer : path;
}

void *
redirect_next(_Atomic(void *) *next, const char *name)
{
	/* No partner: whoever stores stores the same. */
	void *found = atomic_load_explicit(next, memory_order_relaxed);

	if (found == NULL) {
		found = dlsym(RTLD_NEXT, name);
		atomic_store_explicit(next, found, memory_order_relaxed);
	}
	return found;
}
