/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Variables for which oneside needs another value than the program's default.  The table programs.txt lists
 * them.  A variable that the user has set is not changed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/run.h"

#define LINE_MAX_BYTES 512
#define DEVICES "@DEVICES@" /* replaced by the list of devices and their ports: "p0:1,p1:1" */

int
run_set(const char *name, const char *value, bool show)
{
	if (show)
		printf("%s=%s\n", name, value);
	else if (setenv(name, value, 1) != 0)
		return -errno;
	return 0;
}

static void
list_devices(const struct run_ports *ports, char *text, size_t size)
{
	size_t len = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < ports->num && len < size; i++)
		len += (size_t)snprintf(text + len, size - len, "%s%s:1", i == 0 ? "" : ",",
					ports->port[i].name);
}

static int
set_variable(const struct run_ports *ports, const char *name, const char *value, bool show)
{
	char devices[RUN_PORTS_MAX * (ONE_PORT_NAME + 3)];
	const char *own = getenv(name);

	if (own != NULL) {
		if (show)
			printf("%s=%s # set by the user\n", name, own);
		return 0;
	}
	if (strcmp(value, DEVICES) == 0) {
		list_devices(ports, devices, sizeof(devices));
		value = devices;
	}
	return run_set(name, value, show);
}

/* Applies a line PROGRAM VERSIONS WHEN VARIABLE VALUE of the table; '#' begins a comment. */
static int
apply_line(const struct run_ports *ports, char *line, bool verbs_only, bool show)
{
	char *field[5], *next;
	size_t n = 0;

	for (char *word = strtok_r(line, " \t\n", &next); word != NULL && n < 5;
	     word = strtok_r(NULL, " \t\n", &next)) {
		if (word[0] == '#')
			break;
		field[n++] = word;
	}
	if (n == 0)
		return 0;
	if (n != 5 || (strcmp(field[2], "always") != 0 && strcmp(field[2], "only-verbs") != 0))
		return -EINVAL;
	if (strcmp(field[2], "only-verbs") == 0 && !verbs_only)
		return 0;
	return set_variable(ports, field[3], field[4], show);
}

int
run_set_variables(const struct run_ports *ports, bool verbs_only, bool show)
{
	char line[LINE_MAX_BYTES], *path = run_installed(run_settings);
	FILE *table = path == NULL ? NULL : fopen(path, "re");
	int error = table == NULL ? -errno : 0, number = 0;

	while (error == 0 && fgets(line, sizeof(line), table) != NULL) {
		number++;
		error = apply_line(ports, line, verbs_only, show);
	}
	if (error == -EINVAL)
		run_say("%s: line %d is not PROGRAM VERSIONS always|only-verbs VARIABLE VALUE; correct it",
			path, number);
	else if (error != 0)
		run_say("%s: %s; install oneside-verbs again", path == NULL ? run_settings : path,
			strerror(-error));
	if (table != NULL)
		fclose(table);
	free(path);
	return error;
}
