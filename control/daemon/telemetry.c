/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lists of the control socket for DPDK's telemetry: /oneside/clients, qps, regions, segments, neighbours.
 * DPDK calls on its own thread, but the control thread owns the lists. The DPDK thread posts a question to
 * the control thread, waits, and converts the JSON answer to dictionaries.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>
#include <rte_telemetry.h>

#include "control/attach/client.h"
#include "control/ctl/ctl.h"
#include "control/ctl/request.h"
#include "control/daemon/daemon.h"
#include "dataplane/engine/telemetry_reply.h"

#define WAIT_S 1

static const struct command {
	const char *name;
	enum ctl_what what;
	const char *entry; /* prefix of the name of each entry's dictionary */
	bool by_process;
	const char *help;
} commands[] = {
	{"/oneside/clients", CTL_CLIENTS, "client", false, "Attachments. Parameters: [FIRST]"},
	{"/oneside/qps", CTL_ENDPOINTS, "qp", true, "Queue pairs. Parameters: PID[,FIRST]"},
	{"/oneside/regions", CTL_MEMORY, "mr", true, "Memory regions. Parameters: PID[,FIRST]"},
	{"/oneside/segments", CTL_SEGMENTS, "segment", false, "RSM segments. Parameters: [FIRST]"},
	{"/oneside/neighbours", CTL_NEIGHBOURS, "neighbour", false, "Neighbours. Parameters: [FIRST]"},
};

static struct question {
	struct ctl_request request;
	json_t *answer;
	const char *error; /* NULL when there is an answer */
} * pending;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t answered;
static struct watch watch;
static int wake_fd = -1;

/* ---- DPDK's thread ---- */

static void
ask_control(struct question *question)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += WAIT_S;
	question->error = "the control thread does not answer";
	pthread_mutex_lock(&lock);
	/* DPDK has a thread per caller: another thread's question may be pending. */
	while (pending != NULL && pthread_cond_timedwait(&answered, &lock, &end) == 0)
		;
	if (pending == NULL && wake_fd >= 0 && eventfd_write(wake_fd, 1) == 0)
		pending = question;
	while (pending == question && pthread_cond_timedwait(&answered, &lock, &end) == 0)
		;
	if (pending == question)
		pending = NULL;
	pthread_mutex_unlock(&lock);
}

/*
 * Parses a number that ends at a comma or at the end of the text. *rest: the text after the comma, or NULL.
 */
static bool
parse_number(const char *text, uint64_t most, uint64_t *number, const char **rest)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*number = strtoull(text, &end, 10);
	*rest = *end == ',' ? end + 1 : NULL;
	return errno == 0 && *number <= most && (*end == '\0' || *end == ',');
}

static bool
parse_parameters(const struct command *command, const char *text, struct ctl_request *request)
{
	uint64_t pid = 0;

	if (command->by_process) {
		if (!tel_has(text) || !parse_number(text, UINT32_MAX, &pid, &text))
			return false;
		request->given = CTL_M_PID;
		request->pid = (uint32_t)pid;
		if (text == NULL)
			return true;
	} else if (!tel_has(text)) {
		return true;
	}
	return parse_number(text, INT64_MAX, &request->from, &text) && text == NULL;
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
add_answer(struct rte_tel_data *d, const struct command *command, const struct question *question)
{
	const json_t *entries = json_object_get(question->answer, ctl_whats[command->what].name);
	const json_t *next = json_object_get(question->answer, "next");

	rte_tel_data_start_dict(d);
	for (size_t i = 0; i < json_array_size(entries); i++)
		add_entry(d, command->entry, question->request.from + i, json_array_get(entries, i));
	if (next != NULL)
		rte_tel_data_add_dict_uint(d, "next", (uint64_t)json_integer_value(next));
}

static int
answer_list(const char *name, const char *params, struct rte_tel_data *d)
{
	const struct command *command = commands;
	struct question question = {.answer = NULL};

	while (strcmp(command->name, name) != 0)
		command++;
	question.request.what = command->what;
	if (!parse_parameters(command, params, &question.request))
		return tel_refuse(d, command->by_process ? "its parameters are PID[,FIRST]"
							 : "its parameter is [FIRST]");
	ask_control(&question);
	if (question.error != NULL)
		return tel_refuse(d, question.error);
	add_answer(d, command, &question);
	json_decref(question.answer);
	return 0;
}

/* ---- the control thread ---- */

static bool
has_process(uint32_t pid)
{
	const struct client *client;

	TAILQ_FOREACH(client, &control.clients, link)
		if ((uint32_t)client->pid == pid)
			return true;
	return false;
}

static void
answer_question(struct question *question)
{
	if ((question->request.given & CTL_M_PID) != 0 && !has_process(question->request.pid)) {
		question->error = "that process has no attachment; see /oneside/clients";
		return;
	}
	question->answer = ctl_list(&question->request);
	question->error = question->answer == NULL ? "no memory for the answer" : NULL;
}

static void
question_ready(struct watch *self, uint32_t events)
{
	eventfd_t value;

	eventfd_read(wake_fd, &value);
	pthread_mutex_lock(&lock);
	if (pending != NULL)
		answer_question(pending);
	pending = NULL;
	pthread_cond_broadcast(&answered);
	pthread_mutex_unlock(&lock);
}

static void
register_commands(void)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&answered, &attr);
	pthread_condattr_destroy(&attr);
	/* A failed registration omits only that command. */
	for (size_t i = 0; i < RTE_DIM(commands); i++)
		rte_telemetry_register_cmd(commands[i].name, answer_list, commands[i].help);
}

int
telemetry_init(void)
{
	static bool registered;
	int error;

	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wake_fd < 0)
		return -errno;
	watch.ready = question_ready;
	error = control_watch(wake_fd, &watch, EPOLLIN);
	if (error == 0 && !registered)
		register_commands();
	registered |= error == 0;
	return error;
}

void
telemetry_fini(void)
{
	pthread_mutex_lock(&lock);
	if (wake_fd >= 0)
		close(wake_fd);
	wake_fd = -1;
	pthread_cond_broadcast(&answered);
	pthread_mutex_unlock(&lock);
}
