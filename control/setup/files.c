/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/setup/files.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE 1024

const char *
setup_path(char path[SETUP_PATH], const char *root, const char *format, ...)
{
	int len = snprintf(path, SETUP_PATH, "%s/", root);
	va_list args;

	va_start(args, format);
	if (len < 0 || (size_t)len >= SETUP_PATH ||
	    (size_t)vsnprintf(path + len, SETUP_PATH - (size_t)len, format, args) >= SETUP_PATH - (size_t)len)
		path[0] = '\0'; /* too long: nothing is there */
	va_end(args);
	return path;
}

bool
setup_line(const char *path, char *text, size_t room)
{
	FILE *file = fopen(path, "re");
	char line[LINE];
	bool fits = false;

	if (file != NULL && fgets(line, sizeof(line), file) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		fits = strlen(line) < room;
	}
	if (file != NULL)
		fclose(file);
	strcpy(text, fits ? line : "");
	return *text != '\0';
}

uint64_t
setup_number(const char *path, uint64_t otherwise)
{
	char text[32], *end;
	unsigned long long value;

	if (!setup_line(path, text, sizeof(text)) || text[0] < '0' || text[0] > '9')
		return otherwise;
	value = strtoull(text, &end, 10);
	return *end == '\0' ? value : otherwise;
}

bool
setup_link(const char *path, char *name, size_t room)
{
	char target[SETUP_PATH];
	ssize_t len = readlink(path, target, sizeof(target) - 1);
	const char *last;

	*name = '\0';
	if (len <= 0)
		return false;
	target[len] = '\0';
	last = strrchr(target, '/');
	last = last != NULL ? last + 1 : target;
	if (strlen(last) >= room)
		return false;
	strcpy(name, last);
	return *name != '\0';
}

static int
compare(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int
is_no_dot(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

void
setup_each(const char *path, void (*entry)(void *context, const char *name), void *context)
{
	struct dirent **list;
	int n = scandir(path, &list, is_no_dot, compare);

	for (int i = 0; i < n; i++) {
		entry(context, list[i]->d_name);
		free(list[i]);
	}
	if (n >= 0)
		free(list);
}

void
setup_lines(const char *path, void (*line)(void *context, char *line), void *context)
{
	FILE *file = fopen(path, "re");
	char text[LINE];

	while (file != NULL && fgets(text, sizeof(text), file) != NULL) {
		text[strcspn(text, "\n")] = '\0';
		line(context, text);
	}
	if (file != NULL)
		fclose(file);
}
