/* SPDX-License-Identifier: BSD-3-Clause */
/* What an administrator does to attachments, to the data plane, and to its log. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/attach/client.h"
#include "control/connect/connect.h"
#include "control/ctl/internal.h"

void
ctl_client_kill(struct ctl_caller *caller, const struct ctl_request *request)
{
	bool by_pid = (request->given & CTL_M_PID) != 0;
	uint32_t killed = 0;
	struct client *client;

	TAILQ_FOREACH(client, &control.clients, link)
	{
		if (client->state > CLIENT_ATTACHED ||
		    (by_pid ? (uint32_t)client->pid != request->pid : client->number != request->client))
			continue;
		client_kill(client, 0, "an administrator has ended it");
		killed++;
	}
	if (killed == 0)
		ctl_refuse(
			caller,
			"%s %u: there is no such attachment; onesidectl show clients tells which there are",
			by_pid ? "pid" : "client", by_pid ? request->pid : request->client);
	else
		ctl_done(caller, "%u attachment%s ended", killed, killed == 1 ? " is" : "s are");
}

/* ---- drain ---- */

void
ctl_drain(struct ctl_caller *caller)
{
	control.draining = true;
	ctl_done(caller, "no attachment or connection begins any more; the data plane ends when the last "
			 "connection has");
}

bool
ctl_drained(void)
{
	const struct conn *conn;

	if (!control.draining)
		return false;
	TAILQ_FOREACH(conn, &control.conns, link)
	if (conn->state != CONN_OVER)
		return false;
	return true;
}

/* ---- log level ---- */

static int
find_level(const char *name)
{
	static const char *const names[] = {
		[RTE_LOG_EMERG] = "emergency", [RTE_LOG_ALERT] = "alert",     [RTE_LOG_CRIT] = "critical",
		[RTE_LOG_ERR] = "error",       [RTE_LOG_WARNING] = "warning", [RTE_LOG_NOTICE] = "notice",
		[RTE_LOG_INFO] = "info",       [RTE_LOG_DEBUG] = "debug",
	};

	for (int i = RTE_LOG_EMERG; i <= (int)RTE_LOG_DEBUG; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return -1;
}

/* How many of the kinds of messages that DPDK and we have registered have such a name. */
static uint32_t
count_types(const char *pattern)
{
	char *text = NULL, *save = NULL;
	size_t len = 0;
	uint32_t count = 0;
	FILE *file = open_memstream(&text, &len);

	if (file == NULL)
		return 0;
	rte_log_list_types(file, "");
	fclose(file);
	for (char *name = strtok_r(text, "\n", &save); name != NULL; name = strtok_r(NULL, "\n", &save))
		count += fnmatch(pattern, name, 0) == 0;
	free(text);
	return count;
}

void
ctl_log_level(struct ctl_caller *caller, const struct ctl_request *request)
{
	const char *pattern = (request->given & CTL_M_PATTERN) != 0 ? request->pattern : "oneside.*";
	int level = find_level(request->level);
	uint32_t types = count_types(pattern);

	if (level < 0)
		ctl_refuse(caller,
			   "level %s: there is no such level; write one of emergency, alert, critical, "
			   "error, warning, "
			   "notice, info, debug",
			   request->level);
	else if (types == 0)
		ctl_refuse(
			caller,
			"log %s: no kind of message has such a name; write as in oneside.control or 'lib.*'",
			pattern);
	else if (rte_log_set_level_pattern(pattern, (uint32_t)level) != 0)
		ctl_refuse(caller, "log %s: DPDK does not take this; write as in oneside.control or 'lib.*'",
			   pattern);
	else
		ctl_done(caller, "%s: %s and worse is logged", pattern, request->level);
}
