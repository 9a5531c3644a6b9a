/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists of the control socket for DPDK's telemetry: /oneside/clients, qps, regions, segments, neighbours.
 * DPDK calls on threads of its own, which ask the control socket as onesidectl does, and convert the JSON
 * answer to dictionaries. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <jansson.h>
#include <rte_common.h>
#include <rte_telemetry.h>

#include "control/daemon/daemon.h"
#include "dataplane/engine/telemetry_reply.h"

#define WAIT_S 1
#define ANSWER_MAX 65536u /* bytes of an answer of the control socket */

static const struct command {
	const char *name, *what; /* `what`: name of the list at the control socket */
	const char *entry;       /* prefix of the name of each entry's dictionary */
	bool by_process;
	const char *help;
} commands[] = {
	{"/oneside/clients", "clients", "client", false, "Attachments. Parameters: [FIRST]"},
	{"/oneside/qps", "endpoints", "qp", true, "Queue pairs. Parameters: PID[,FIRST]"},
	{"/oneside/regions", "memory", "mr", true, "Memory regions. Parameters: PID[,FIRST]"},
	{"/oneside/segments", "segments", "segment", false, "RSM segments. Parameters: [FIRST]"},
	{"/oneside/neighbours", "neighbours", "neighbour", false, "Neighbours. Parameters: [FIRST]"},
};

static struct sockaddr_un ctl = {.sun_family = AF_UNIX};

/* Returns the control socket's answer, or NULL. Takes ownership of the request. */
static json_t *
ask_control(json_t *request)
{
	const struct timeval wait = {.tv_sec = WAIT_S};
	char *text = json_dumps(request, JSON_COMPACT), *answer = malloc(ANSWER_MAX);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	json_t *parsed = NULL;
	ssize_t n;

	json_decref(request);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof(wait));
	if (text != NULL && answer != NULL && connect(fd, (const struct sockaddr *)&ctl, sizeof(ctl)) == 0 &&
	    send(fd, text, strlen(text), MSG_NOSIGNAL) > 0 && (n = recv(fd, answer, ANSWER_MAX, 0)) > 0)
		parsed = json_loadb(answer, (size_t)n, 0, NULL);
	if (fd >= 0)
		close(fd);
	free(text);
	free(answer);
	return parsed;
}

/* Parses a number that ends at a comma or at the end of the text. *rest: the text after the comma, or
 * NULL. */
static bool
parse_number(const char *text, uint64_t most, json_int_t *number, const char **rest)
{
	uint64_t value;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	value = strtoull(text, &end, 10);
	*number = (json_int_t)value;
	*rest = *end == ',' ? end + 1 : NULL;
	return errno == 0 && value <= most && (*end == '\0' || *end == ',');
}

/* *pid is -1 for a list of all processes. */
static bool
parse_parameters(const struct command *command, const char *text, json_int_t *pid, json_int_t *first)
{
	*pid = -1;
	*first = 0;
	if (command->by_process) {
		if (!tel_has(text) || !parse_number(text, UINT32_MAX, pid, &text))
			return false;
		if (text == NULL)
			return true;
	} else if (!tel_has(text)) {
		return true;
	}
	return parse_number(text, INT64_MAX, first, &text) && text == NULL;
}

static json_t *
ask_page(const char *what, json_int_t pid, json_int_t first)
{
	json_t *request = json_pack("{s:s, s:s, s:I}", "command", "show", "what", what, "from", first);

	if (pid >= 0)
		json_object_set_new(request, "pid", json_integer(pid));
	return ask_control(request);
}

/* A page may have no entry although later ones have. */
static bool
has_process(json_int_t pid)
{
	json_int_t next = 0;
	bool found = false;

	do {
		json_t *page = ask_page("clients", pid, next);

		found = json_array_size(json_object_get(page, "clients")) > 0;
		next = json_integer_value(json_object_get(page, "next"));
		json_decref(page);
	} while (!found && next > 0);
	return found;
}

static void
add_entry(struct rte_tel_data *d, const char *prefix, uint64_t number, json_t *facts)
{
	struct telemetry_dictionary entry = telemetry_dictionary();
	const char *fact;
	char name[32];
	json_t *value;

	if (entry.data == NULL)
		return;
	json_object_foreach(facts, fact, value) {
		if (json_is_string(value))
			telemetry_text(&entry.sink, fact, json_string_value(value));
		else
			telemetry_number(&entry.sink, fact, (uint64_t)json_integer_value(value));
	}
	snprintf(name, sizeof(name), "%s%" PRIu64, prefix, number);
	telemetry_add(d, name, &entry);
}

/* Each entry advances the list's position by at least one, so its number exceeds those of earlier pages. */
static void
add_page(struct rte_tel_data *d, const struct command *command, json_int_t first, const json_t *page)
{
	const json_t *entries = json_object_get(page, command->what), *next = json_object_get(page, "next");

	rte_tel_data_start_dict(d);
	for (size_t i = 0; i < json_array_size(entries); i++)
		add_entry(d, command->entry, (uint64_t)first + i, json_array_get(entries, i));
	if (next != NULL)
		rte_tel_data_add_dict_uint(d, "next", (uint64_t)json_integer_value(next));
}

static int
answer_list(const char *name, const char *params, struct rte_tel_data *d)
{
	const struct command *command = commands;
	json_int_t pid, first;
	const char *error;
	json_t *page;

	while (strcmp(command->name, name) != 0)
		command++;
	if (!parse_parameters(command, params, &pid, &first))
		return tel_refuse(d, command->by_process ? "its parameters are PID[,FIRST]"
							 : "its parameter is [FIRST]");
	if (pid >= 0 && !has_process(pid))
		return tel_refuse(d, "that process has no attachment; see /oneside/clients");
	page = ask_page(command->what, pid, first);
	error = json_string_value(json_object_get(page, "error"));
	if (page == NULL || error != NULL)
		tel_refuse(d, page == NULL ? "the control thread does not answer" : error);
	else
		add_page(d, command, first, page);
	json_decref(page);
	return 0;
}

void
telemetry_init(const struct config *config)
{
	static bool registered;

	config_ctl_path(config, ctl.sun_path);
	/* A failed registration omits only that command. */
	for (size_t i = 0; i < RTE_DIM(commands) && !registered; i++)
		rte_telemetry_register_cmd(commands[i].name, answer_list, commands[i].help);
	registered = true;
}
