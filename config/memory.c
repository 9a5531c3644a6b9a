/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory available to this process: the least of the machine's and the limits of its cgroup and all
 * parents. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/internal.h"

/* Number in a file; UINT64_MAX if the file is missing or holds "max". */
static uint64_t
limit_in(const char *directory, const char *group, const char *name)
{
	unsigned long long limit;
	char path[PATH_MAX];
	FILE *file;
	int n;

	if (snprintf(path, sizeof(path), "%s%s/%s", directory, group, name) >= (int)sizeof(path))
		return UINT64_MAX;
	file = fopen(path, "re");
	if (file == NULL)
		return UINT64_MAX;
	n = fscanf(file, "%llu", &limit);
	fclose(file);
	return n == 1 ? (uint64_t)limit : UINT64_MAX;
}

/* Least limit of `group` and its parents. If the group's directory is invisible, as in a container without a
 * cgroup namespace, the mount itself is the container's group. */
static uint64_t
limit_of(const char *directory, const char *group, const char *name)
{
	uint64_t least = UINT64_MAX;
	char at[PATH_MAX], *slash;

	snprintf(at, sizeof(at), "%s", group);
	for (;;) {
		uint64_t limit = limit_in(directory, at, name);

		if (limit < least)
			least = limit;
		slash = strrchr(at, '/');
		if (slash == NULL)
			return least;
		*slash = '\0';
	}
}

/* Is "memory" among the controllers "cpu,memory"? */
static bool
has_controller(char *controllers, const char *name)
{
	const char *one;

	while ((one = strsep(&controllers, ",")) != NULL)
		if (strcmp(one, name) == 0)
			return true;
	return false;
}

/* Limit of cgroups: controller, and its files in versions 1 and 2. */
struct group_limit {
	const char *controller, *file1, *file2;
};

/* Result of a search: the least limit, and whether a group that can have one was named but its hierarchy is
 * not mounted. */
struct group_search {
	uint64_t least;
	bool member, mounted;
};

static void
search_hierarchy(const char *directory, const char *group, const char *name, struct group_search *search)
{
	char path[PATH_MAX];
	uint64_t limit = limit_of(directory, group, name);

	if (limit < search->least)
		search->least = limit;
	if (strcmp(group, "/") != 0)
		search->member = true;
	/* Each directory of a mounted hierarchy has this file. */
	if (snprintf(path, sizeof(path), "%s/cgroup.procs", directory) < (int)sizeof(path) &&
	    access(path, F_OK) == 0)
		search->mounted = true;
}

static struct group_search
search_groups(const char *root, const struct group_limit *which)
{
	struct group_search search = {.least = UINT64_MAX};
	char path[PATH_MAX], *line = NULL;
	size_t room = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
	file = fopen(path, "re");
	while (file != NULL && getline(&line, &room, file) > 0) {
		char *controllers = strchr(line, ':'), *group;

		group = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
		if (group == NULL)
			continue;
		*controllers++ = *group++ = '\0';
		group[strcspn(group, "\n")] = '\0';
		snprintf(path, sizeof(path), "%s/sys/fs/cgroup%s%s", root, *controllers == '\0' ? "" : "/",
			 *controllers == '\0' ? "" : which->controller);
		if (*controllers == '\0') /* version 2 */
			search_hierarchy(path, group, which->file2, &search);
		else if (has_controller(controllers, which->controller))
			search_hierarchy(path, group, which->file1, &search);
	}
	free(line);
	if (file != NULL)
		fclose(file);
	return search;
}

static const struct group_limit memory_limit = {"memory", "memory.limit_in_bytes", "memory.max"};

uint64_t
config_memory(const char *root)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	uint64_t machine = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 1ull << 30;
	uint64_t groups = search_groups(root, &memory_limit).least;

	return groups < machine ? groups : machine;
}

bool
config_memory_hidden(const char *root)
{
	struct group_search search = search_groups(root, &memory_limit);

	return search.member && !search.mounted;
}

uint64_t
config_huge_memory(const char *root)
{
	static const struct group_limit hugetlb = {"hugetlb", "hugetlb.2MB.limit_in_bytes",
						   "hugetlb.2MB.max"};

	return search_groups(root, &hugetlb).least;
}
