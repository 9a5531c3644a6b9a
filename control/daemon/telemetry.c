/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is attached, for people: /oneside/clients, qps, regions, segments, neighbours.
 *
 * DPDK calls from a thread of its own; the tables are the control thread's.  So
 * the question is put where the control thread finds it, and the asker waits.
 *
 *   /oneside/clients            every attachment; as many as an answer holds
 *   /oneside/qps,PID[,FIRST]    the queue pairs of all attachments of a process, some at a time;
 *                               likewise regions
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

#include <rte_telemetry.h>

#include "control/daemon/telemetry.h"
#include "control/rsm/rsm.h"
#include "control/show/show.h"
#include "dataplane/engine/tel.h"

#define ENTRIES 48u /* in one answer: it has 16 KiB */
#define WAIT_NS NS_PER_S
#define NO_MEMORY "no memory for the answer"

/* NULL, or why there is none. */
typedef const char *answer(const char *params, struct rte_tel_data *out);

static struct question {
	answer *answer;
	const char *params;
	struct rte_tel_data *out;
	const char *error;
	bool done;
} * pending;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t answered;
static struct watch watch;
static int wake_fd = -1;

/* ---- DPDK's thread ---- */

static int
ask(answer *fn, const char *params, struct rte_tel_data *out)
{
	struct question question = {.answer = fn,
				    .params = params == NULL ? "" : params,
				    .out = out,
				    .error = "the control thread does not answer"};
	const uint64_t one = 1;
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += WAIT_NS / NS_PER_S;
	pthread_mutex_lock(&lock);
	while (wake_fd >= 0 && pending != NULL)
		if (pthread_cond_timedwait(&answered, &lock, &end) != 0)
			break;
	if (wake_fd >= 0 && pending == NULL) {
		pending = &question;
		if (write(wake_fd, &one, sizeof(one)) == (ssize_t)sizeof(one))
			while (!question.done && pthread_cond_timedwait(&answered, &lock, &end) == 0)
				;
		if (pending == &question)
			pending = NULL;
	}
	pthread_mutex_unlock(&lock);
	return question.error == NULL ? 0 : tel_refuse(out, question.error);
}

/* ---- the control thread ---- */

static void
question_ready(struct watch *self, uint32_t events)
{
	uint64_t value;

	if (read(wake_fd, &value, sizeof(value)) != (ssize_t)sizeof(value))
		return;
	pthread_mutex_lock(&lock);
	if (pending != NULL) {
		rte_tel_data_start_dict(pending->out);
		pending->error = pending->answer(pending->params, pending->out);
		pending->done = true;
		pending = NULL;
		pthread_cond_broadcast(&answered);
	}
	pthread_mutex_unlock(&lock);
}

/* A dictionary of dictionaries: arrays of them are not among what the library takes. */
static int
add_entry(struct rte_tel_data *out, const char *kind, uint32_t number, struct telemetry_dictionary *entry)
{
	char name[32];

	snprintf(name, sizeof(name), "%s%" PRIu32, kind, number);
	return telemetry_add(out, name, entry);
}

static const char *
clients(const char *params, struct rte_tel_data *out)
{
	const struct client *client;

	if (tel_has(params))
		return TEL_NO_PARAMETERS;
	TAILQ_FOREACH(client, &control.clients, link) {
		struct telemetry_dictionary entry = telemetry_dictionary();

		if (entry.data == NULL)
			return NO_MEMORY;
		show_client(&entry.tell, client);
		if (add_entry(out, "client", client->number, &entry) != 0)
			break; /* as many as an answer holds */
	}
	return NULL;
}

/* A number and no more, or what follows it is a comma: then *next is behind that, else NULL. */
static bool
take_number(const char *text, uint32_t *number, const char **next)
{
	unsigned long value;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	value = strtoul(text, &end, 10);
	if (errno != 0 || value > UINT32_MAX || (*end != '\0' && *end != ','))
		return false;
	*number = (uint32_t)value;
	*next = *end == ',' ? end + 1 : NULL;
	return true;
}

/*
 * "PID[,FIRST]": the objects of one kind that the attachments of a process have, in the order of the
 * attachments, from number FIRST on.
 */
static const char *
objects(const char *params, struct rte_tel_data *out, enum object_kind kind, const char *name,
	show_object *fill)
{
	const struct client *client;
	uint32_t pid, first = 0, seen = 0;
	bool found = false;

	if (!take_number(params, &pid, &params) ||
	    (params != NULL && (!take_number(params, &first, &params) || params != NULL)))
		return "its parameters are PID[,FIRST]";
	TAILQ_FOREACH(client, &control.clients, link) {
		if ((uint32_t)client->pid != pid)
			continue;
		found = true;
		for (uint32_t i = 0; i < client->table[kind].size; i++) {
			const void *object = table_at(&client->table[kind], i);
			struct telemetry_dictionary entry;

			if (object == NULL || seen++ < first)
				continue;
			if (seen - first > ENTRIES)
				return NULL;
			entry = telemetry_dictionary();
			if (entry.data == NULL)
				return NO_MEMORY;
			entry.tell.number(&entry.tell, "client", client->number);
			fill(&entry.tell, object);
			if (add_entry(out, name, seen - 1, &entry) != 0)
				return NULL;
		}
	}
	return found ? NULL : "no attachment is of that process";
}

static const char *
qps(const char *params, struct rte_tel_data *out)
{
	return objects(params, out, OBJECT_QP, "qp", show_qp);
}

static const char *
regions(const char *params, struct rte_tel_data *out)
{
	return objects(params, out, OBJECT_MR, "mr", show_mr);
}

static const char *
segments(const char *params, struct rte_tel_data *out)
{
	const struct segment *segment;
	uint32_t first = 0, seen = 0;

	if (tel_has(params) && (!take_number(params, &first, &params) || params != NULL))
		return "its parameter is [FIRST]";
	LIST_FOREACH(segment, &control.segments, link) {
		struct telemetry_dictionary entry;

		if (seen++ < first)
			continue;
		if (seen - first > ENTRIES)
			break;
		entry = telemetry_dictionary();
		if (entry.data == NULL)
			return NO_MEMORY;
		show_segment(&entry.tell, segment);
		if (add_entry(out, "segment", segment->id, &entry) != 0)
			break;
	}
	return NULL;
}

static const char *
neighbours(const char *params, struct rte_tel_data *out)
{
	struct telemetry_dictionary entry = {.data = NULL};

	if (tel_has(params))
		return TEL_NO_PARAMETERS;
	for (uint32_t i = 0; i < NEIGH_ENTRIES; i++) {
		if (entry.data == NULL)
			entry = telemetry_dictionary();
		if (entry.data == NULL)
			return NO_MEMORY;
		if (!show_neighbour(&entry.tell, i))
			continue;
		if (add_entry(out, "neighbour", i, &entry) != 0)
			return NULL;
		entry.data = NULL;
	}
	if (entry.data != NULL)
		rte_tel_data_free(entry.data);
	return NULL;
}

#define COMMAND(name)                                                                          \
	static int name##_command(const char *cmd, const char *params, struct rte_tel_data *d) \
	{                                                                                      \
		return ask(name, params, d);                                                   \
	}
COMMAND(clients)
COMMAND(qps)
COMMAND(regions)
COMMAND(segments)
COMMAND(neighbours)

int
telemetry_init(void)
{
	static bool registered;
	pthread_condattr_t attr;
	int error;

	if (!registered) {
		pthread_condattr_init(&attr);
		pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
		pthread_cond_init(&answered, &attr);
		pthread_condattr_destroy(&attr);
	}
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wake_fd < 0)
		return -errno;
	watch.ready = question_ready;
	error = control_watch(wake_fd, &watch, EPOLLIN);
	if (error != 0 || registered)
		return error;
	registered = true;
	/* A registration that fails leaves that one command out. */
	rte_telemetry_register_cmd("/oneside/clients", clients_command, "Attachments. No parameters.");
	rte_telemetry_register_cmd("/oneside/qps", qps_command, "Queue pairs. Parameters: PID[,FIRST]");
	rte_telemetry_register_cmd("/oneside/regions", regions_command,
				   "Memory regions. Parameters: PID[,FIRST]");
	rte_telemetry_register_cmd("/oneside/segments", segments_command,
				   "Published RSM segments. Parameters: [FIRST]");
	rte_telemetry_register_cmd("/oneside/neighbours", neighbours_command, "Neighbours. No parameters.");
	return 0;
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
