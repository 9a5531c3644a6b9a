/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs other programs, such as dpdk-dumpcap, with the arguments they need. */
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/onesidectl/onesidectl.h"

#define FRAME_MORE 200 /* dpdk-dumpcap's snapshot length exceeds the MTU by this many bytes */

void
onesidectl_command_add(struct onesidectl_command *command, const char *format, ...)
{
	va_list args;

	if (command->words == ONESIDECTL_WORDS)
		onesidectl_fail("%s: more than %d words", command->word[0], ONESIDECTL_WORDS);
	va_start(args, format);
	if (vasprintf(&command->word[command->words++], format, args) < 0)
		onesidectl_fail("out of memory");
	va_end(args);
}

void
onesidectl_command_start(struct onesidectl_command *command, const char *remedy)
{
	fflush(stdout);
	execvp(command->word[0], command->word);
	onesidectl_fail("%s: %s; %s", command->word[0], strerror(errno), remedy);
}

/* ---- capture ---- */

/* Returns the named port's object, or the first. */
static const json_t *
find_port(const json_t *ports, const char *name)
{
	const json_t *port;
	size_t i;

	json_array_foreach(ports, i, port) {
		if (name == NULL || strcmp(columns_text(port, "port"), name) == 0)
			return port;
	}
	if (name == NULL)
		onesidectl_fail("capture: the data plane has no ports; see its log");
	onesidectl_fail("port %s: no such port; see onesidectl show ports", name);
}

/* Ends the program with the reason if DPDK cannot capture from this data plane. */
static void
check_capture(const json_t *facts)
{
	const char *directory = columns_text(facts, "runtime_directory");
	char path[4096];

	if (strcmp(columns_text(facts, "hugepages"), "yes") != 0)
		onesidectl_fail(
			"capture: the data plane runs with --no-huge, but dpdk-dumpcap needs shared hugepages; start it with hugepages, or capture at the peer or at the kernel's interface");
	if (geteuid() != 0 && (json_int_t)geteuid() != columns_number(facts, "uid"))
		onesidectl_fail(
			"capture: dpdk-dumpcap accesses the data plane's memory; run as its user (uid %" JSON_INTEGER_FORMAT
			") or root",
			columns_number(facts, "uid"));
	snprintf(path, sizeof(path), "%s/mp_socket", directory);
	if (access(path, F_OK) != 0)
		onesidectl_fail(
			"capture: %s: %s: the data plane runs with --in-memory, or in another mount namespace; start it with --file-prefix=NAME instead",
			path, strerror(errno));
}

int
capture_run(int count, char **words)
{
	json_t *given = json_object(), *version, *ports;
	const json_t *facts, *port;
	struct onesidectl_command command = {.words = 0};
	char directory[4096];
	int i = 0;

	for (; i < count && strcmp(words[i], "--") != 0; i++)
		if (!word_filter(given, words[i], "port file"))
			onesidectl_misused(
				"capture %s: write port=NAME, file=FILE, or -- and options of dpdk-dumpcap",
				words[i]);
	version = ask_list("version", NULL);
	ports = ask_list("ports", NULL);
	facts = json_array_get(json_object_get(version, "version"), 0);
	port = find_port(json_object_get(ports, "ports"), json_string_value(json_object_get(given, "port")));
	check_capture(facts);
	snprintf(directory, sizeof(directory), "%s", columns_text(facts, "runtime_directory"));
	onesidectl_command_add(&command, "dpdk-dumpcap");
	onesidectl_command_add(&command, "--file-prefix=%s", basename(directory));
	/* EAL's folder is RUNTIME_DIRECTORY/dpdk/PREFIX; a service's differs from the caller's. */
	setenv("RUNTIME_DIRECTORY", dirname(dirname(directory)), 1);
	onesidectl_command_add(&command, "-i");
	onesidectl_command_add(&command, "%s", columns_text(port, "device_name"));
	onesidectl_command_add(&command, "-s");
	onesidectl_command_add(&command, "%" PRIu64, (uint64_t)columns_number(port, "mtu") + FRAME_MORE);
	if (json_object_get(given, "file") != NULL) {
		onesidectl_command_add(&command, "-w");
		onesidectl_command_add(&command, "%s", columns_text(given, "file"));
	}
	for (i++; i < count; i++)
		onesidectl_command_add(&command, "%s", words[i]);
	onesidectl_command_start(&command, "install it (Debian: dpdk-dev), of the data plane's DPDK version");
}
