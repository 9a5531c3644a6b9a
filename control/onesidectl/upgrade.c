/* SPDX-License-Identifier: BSD-3-Clause */
/* Command `onesidectl upgrade`: another version takes over from the data plane (doc/upgrade.md). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/onesidectl/onesidectl.h"

#define US_PER_MS 1000

static json_t *
ask_version(void)
{
	json_t *list = ask_list("version", NULL);
	json_t *facts = json_incref(json_array_get(json_object_get(list, "version"), 0));

	json_decref(list);
	ask_disconnect();
	return facts;
}

static void
print_done(const char *text)
{
	json_t *answer = json_pack("{s:s}", "done", text);

	if (!onesidectl_json(answer, JSON_INDENT(2)))
		puts(text);
	json_decref(answer);
}

/* The old process has closed the connection: the new one has taken over, or one of them has died. */
static void
report_process(json_int_t old)
{
	json_t *facts;
	json_int_t pid, us;
	char text[160];

	ask_wait();
	facts = ask_version();
	pid = columns_number(facts, "pid");
	us = columns_number(facts, "stopped_us");
	json_decref(facts);
	if (pid == old)
		onesidectl_fail("upgrade: process %" JSON_INTEGER_FORMAT
				" serves on, and closed the connection; see its log",
				old);
	if (us == 0)
		onesidectl_fail(
			"upgrade: process %" JSON_INTEGER_FORMAT
			" serves, but the old one died before it handed over: connections are lost; see the log",
			pid);
	snprintf(text, sizeof(text),
		 "process %" JSON_INTEGER_FORMAT " has taken over from process %" JSON_INTEGER_FORMAT
		 ", which stopped for %" JSON_INTEGER_FORMAT " ms",
		 pid, old, (us + US_PER_MS - 1) / US_PER_MS);
	print_done(text);
}

static int
upgrade_plane(json_t *request)
{
	json_t *facts = ask_version(), *answer;
	json_int_t old = columns_number(facts, "pid");
	int fd = ask_connect();

	json_decref(facts);
	ask_send(fd, request);
	answer = ask_answer_or_end(fd);
	close(fd);
	if (answer == NULL)
		report_process(old);
	else
		print_done(columns_text(answer, "done"));
	json_decref(answer);
	return EXIT_SUCCESS;
}

int
onesidectl_upgrade_run(int count, char **words)
{
	json_t *request = json_pack("{s:s}", "command", "upgrade");
	char folder[4096], path[8192];

	if (count > 1)
		onesidectl_misused("upgrade %s: unexpected word; write upgrade, or upgrade BINARY", words[1]);
	if (count == 1 && words[0][0] == '/') {
		word_text(request, "binary", words[0]);
	} else if (count == 1) {
		if (getcwd(folder, sizeof(folder)) == NULL)
			onesidectl_fail(
				"upgrade %s: this folder has no path; write a path that begins with /",
				words[0]);
		snprintf(path, sizeof(path), "%s/%s", folder, words[0]);
		word_text(request, "binary", path);
	}
	return upgrade_plane(request);
}

int
onesidectl_upgrade_or_reload(void)
{
	return upgrade_plane(json_pack("{s:s, s:b}", "command", "upgrade", "reload", 1));
}
