/* SPDX-License-Identifier: BSD-3-Clause */
/* The installation of this program.  Each build of the program compiles this file with its own folders. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run/run.h"

const char run_libraries[] = RUN_LIBRARIES;
const char run_settings[] = RUN_SETTINGS;

/* Writes the program's folder to `path` and returns its length; 0 if /proc cannot be read. */
static size_t
read_own_folder(char path[PATH_MAX])
{
	ssize_t len = readlink("/proc/self/exe", path, PATH_MAX - 1);

	while (len > 0 && path[len - 1] != '/')
		len--;
	return len > 0 ? (size_t)len : 0;
}

char *
run_installed(const char *relative)
{
	char own[PATH_MAX], *path = NULL, *plain;
	int len = (int)read_own_folder(own);

	if (relative[0] == '/')
		return strdup(relative);
	if (asprintf(&path, "%.*s%s", len, own, relative) < 0)
		return NULL;
	plain = realpath(path, NULL);
	if (plain == NULL)
		return path;
	free(path);
	return plain;
}

static char *
join_folders(char *list)
{
	char *result = NULL, *longer, *next, *folder = strtok_r(list, ":", &next);

	for (; folder != NULL; folder = strtok_r(NULL, ":", &next)) {
		char *path = run_installed(folder);
		int len = asprintf(&longer, "%s%s%s", result == NULL ? "" : result, result == NULL ? "" : ":",
				   path == NULL ? folder : path);

		free(path);
		free(result);
		result = len < 0 ? NULL : longer;
		if (result == NULL)
			break;
	}
	return result;
}

bool
run_find(const char *folders, const char *name, int mode, char path[PATH_MAX])
{
	while (*folders != '\0') {
		size_t len = strcspn(folders, ":");

		snprintf(path, PATH_MAX, "%.*s/%s", (int)len, folders, name);
		if (access(path, mode) == 0)
			return true;
		folders += len + (folders[len] == ':');
	}
	return false;
}

char *
run_library_path(void)
{
	static const char *const needed[] = {"libibverbs.so.1", "librdmacm.so.1", RUN_PRELOADED};
	char *list = strdup(run_libraries), *path = list == NULL ? NULL : join_folders(list), found[PATH_MAX];

	free(list);
	/* Without one of them the program would silently use the system's libraries. */
	for (size_t i = 0; path != NULL && i < sizeof(needed) / sizeof(needed[0]); i++) {
		if (run_find(path, needed[i], R_OK, found))
			continue;
		run_say("%s is not in %s; install oneside-verbs, or call an installed oneside-run by its path",
			needed[i], path);
		free(path);
		path = NULL;
	}
	return path;
}
