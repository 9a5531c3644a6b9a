/* SPDX-License-Identifier: BSD-3-Clause */
/* Administrator's changes of attachments, the data plane, and its log. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "control/attach/client.h"
#include "control/connect/connect.h"
#include "control/ctl/internal.h"
#include "control/takeover/takeover.h"

void
ctl_client_kill(struct ctl_caller *caller, const struct ctl_request *request)
{
	bool by_pid = (request->given & CTL_M_PID) != 0;
	uint32_t killed = 0;
	struct client *client;

	TAILQ_FOREACH(client, &control.clients, link) {
		if (client->state > CLIENT_ATTACHED ||
		    (by_pid ? (uint32_t)client->pid != request->pid : client->number != request->client))
			continue;
		client_kill(client, 0, "an administrator has ended it");
		killed++;
	}
	if (killed == 0)
		ctl_refuse(caller, "%s %u: no such attachment; see onesidectl show clients",
			   by_pid ? "pid" : "client", by_pid ? request->pid : request->client);
	else
		ctl_done(caller, "%u attachment%s ended", killed, killed == 1 ? " is" : "s are");
}

/* ---- moving queue pairs ---- */

void
ctl_move(struct ctl_caller *caller, const struct ctl_request *request)
{
	struct qp *qp = engine_qp_owner(request->qp);
	uint32_t core = 0;
	const char *why;

	while (core < engine_num_cores() && engine_core_lcore(core) != request->core)
		core++;
	if (core == engine_num_cores()) {
		ctl_refuse(caller, "core %u: no such polling core; see onesidectl show cores", request->core);
		return;
	}
	if (qp == NULL) {
		ctl_refuse(caller, "qp %#x: no such queue pair; see onesidectl show endpoints", request->qp);
		return;
	}
	why = conn_move(qp, core);
	if (why != NULL)
		ctl_refuse(caller, "qp %#x: not moved: %s", request->qp, why);
	else
		ctl_done(caller, "queue pair %#x moves to core %u; show endpoints has the result",
			 request->qp, request->core);
}

/* ---- drain ---- */

void
ctl_drain(struct ctl_caller *caller, const struct ctl_request *request)
{
	control.draining = true;
	ctl_done(
		caller,
		"draining: no new attachments or connections are accepted; the data plane ends after the last connection");
}

/* The connection becomes that of the take-over, whose messages follow the answer. */
void
ctl_take_over(struct ctl_caller *caller, const struct ctl_request *request)
{
	int fd;

	if (caller->cred.uid != 0 && caller->cred.uid != geteuid()) {
		ctl_refuse(caller, "take-over: only root or the data plane's own user may take over");
		return;
	}
	ctl_done(caller, "the take-over may begin");
	if (caller->gone)
		return;
	if (!ctl_upgrade_runs())
		ctl_reload_note_take_over();
	fd = ctl_give_away(caller);
	if (!takeover_ask(fd))
		close(fd);
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

#define OURS "oneside.*"

static uint32_t level_at_start, level_in_force; /* RTE_LOG_* level of oneside's own messages */

static void
set_level_in_force(uint32_t level)
{
	level_in_force = level;
	rte_log_set_level_pattern(OURS, level);
}

/* Keeps what `log level` set for single message types, unless the configuration's level changed. */
void
ctl_log_take_over(void)
{
	uint32_t level = ctl_source.config->log_level;

	if (level == 0)
		level = level_at_start;
	if (level != level_in_force)
		set_level_in_force(level);
}

void
ctl_log_open(void)
{
	level_at_start = level_in_force = (uint32_t)rte_log_get_level((uint32_t)control_logtype);
	if (ctl_source.config->log_level != 0)
		set_level_in_force(ctl_source.config->log_level);
}

/* Number of registered log types that match `pattern`. */
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
	const char *pattern = (request->given & CTL_M_PATTERN) != 0 ? request->pattern : OURS;
	uint32_t level = config_log_level(request->level), types = count_types(pattern);

	if (level == 0) {
		ctl_refuse(caller, "level %s: no such level; write one of " CONFIG_LOG_LEVELS,
			   request->level);
		return;
	}
	if (types == 0 || rte_log_set_level_pattern(pattern, level) != 0) {
		ctl_refuse(caller,
			   "log %s: no log type matches; write, for example, oneside.control or 'lib.*'",
			   pattern);
		return;
	}
	if (strcmp(pattern, OURS) == 0)
		ctl_source.config->log_level = level_in_force = level; /* until the next reload */
	ctl_done(caller, "%s: %s and worse is logged", pattern, request->level);
}
