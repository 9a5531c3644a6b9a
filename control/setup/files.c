/* SPDX-License-Identifier: BSD-3-Clause */
#include "control/setup/machine.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH 512
#define LINE 1024

const char *
setup_path(const struct setup_machine *machine, const char *format, ...)
{
	static _Thread_local char path[PATH];
	char below[PATH];
	va_list args;
	int len;

	va_start(args, format);
	len = vsnprintf(below, PATH, format, args);
	va_end(args);
	if (len >= PATH || snprintf(path, PATH, "%s/%s", machine->root, below) >= PATH)
		path[0] = '\0'; /* too long: use a path that does not exist */
	return path;
}

bool
setup_line(const char *path, char *text, size_t room)
{
	FILE *file = fopen(path, "re");
	char line[LINE];

	if (file == NULL || fgets(line, sizeof(line), file) == NULL)
		line[0] = '\0';
	if (file != NULL)
		fclose(file);
	line[strcspn(line, "\n")] = '\0';
	strcpy(text, strlen(line) < room ? line : "");
	return *text != '\0';
}

uint64_t
setup_number(const char *path, uint64_t otherwise)
{
	char text[32];
	uint64_t value;

	return setup_line(path, text, sizeof(text)) && config_number(text, &value) == 0 ? value : otherwise;
}

void
setup_link(const char *path, char *name, size_t room)
{
	char target[PATH];
	ssize_t len = readlink(path, target, sizeof(target) - 1);

	target[len > 0 ? len : 0] = '\0';
	strcpy(name, strlen(basename(target)) < room ? basename(target) : "");
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
	int n = scandir(path, &list, is_no_dot, alphasort);

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
