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

#include "control/cm/service.h"
#include "control/daemon/telemetry.h"
#include "control/rsm/rsm.h"
#include "dataplane/compat/compat.h"
#include "dataplane/engine/tel.h"
#include "dataplane/mem/reach.h"

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

static void
add_text(struct rte_tel_data *d, const char *name, const char *text)
{
	rte_tel_data_add_dict_string(d, name, text);
}

static void
add_number(struct rte_tel_data *d, const char *name, uint64_t number)
{
	rte_tel_data_add_dict_uint(d, name, number);
}

static void
add_key(struct rte_tel_data *d, const char *name, uint32_t number)
{
	char text[16];

	snprintf(text, sizeof(text), "%#" PRIx32, number);
	rte_tel_data_add_dict_string(d, name, text);
}

/* A dictionary of dictionaries: arrays of them are not among what the library takes. */
static int
add_entry(struct rte_tel_data *out, const char *kind, uint32_t number, struct rte_tel_data *entry)
{
	char name[32];
	int error;

	snprintf(name, sizeof(name), "%s%" PRIu32, kind, number);
	error = rte_tel_data_add_dict_container(out, name, entry, 0);
	if (error != 0)
		rte_tel_data_free(entry);
	return error;
}

static struct rte_tel_data *
new_entry(void)
{
	struct rte_tel_data *entry = rte_tel_data_alloc();

	if (entry != NULL)
		rte_tel_data_start_dict(entry);
	return entry;
}

static const char *
client_state_text(enum client_state state)
{
	static const char *const text[] = {"connected", "attached",  "leaving",
					   "removing",  "quiescing", "gone"};

	return text[state];
}

static const char *
api_name(uint32_t kind)
{
	return kind == ONE_KIND_RSM ? "rsm" : kind == ONE_KIND_VERBS ? "verbs" : "dat";
}

static const char *
clients(const char *params, struct rte_tel_data *out)
{
	const struct client *client;

	if (tel_has(params))
		return TEL_NO_PARAMETERS;
	TAILQ_FOREACH(client, &control.clients, link)
	{
		struct rte_tel_data *d = new_entry();

		if (d == NULL)
			return NO_MEMORY;
		add_number(d, "pid", (uint64_t)client->pid);
		add_number(d, "uid", client->uid);
		add_text(d, "program", client->program);
		add_text(d, "state", client_state_text(client->state));
		add_text(d, "api", api_name(client->kind));
		add_text(d, "port", client->port != NULL ? client->port->info->name : "");
		if (client->engine != NULL)
			add_number(d, "core", engine_client_lcore(client->engine));
		add_number(d, "qps", client->table[OBJECT_QP].used);
		add_number(d, "cqs", client->table[OBJECT_CQ].used);
		add_number(d, "srqs", client->table[OBJECT_SRQ].used);
		add_number(d, "listeners", client->table[OBJECT_LISTENER].used);
		add_number(d, "requests_open", client->table[OBJECT_CR].used);
		add_number(d, "mrs", client->table[OBJECT_MR].used);
		add_number(d, "windows", client->table[OBJECT_MW].used);
		add_number(d, "segments", client->segments);
		add_number(d, "mapped_bytes", client->mapped);
		add_number(d, "arena_bytes", client->arena_charged);
		add_number(d, "copied_bytes", client->reach != NULL ? reach_bytes(client->reach) : 0);
		add_number(d, "calls", client->requests);
		if (add_entry(out, "client", client->number, d) != 0)
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
	void (*fill)(struct rte_tel_data *, const void *))
{
	const struct client *client;
	uint32_t pid, first = 0, seen = 0;
	bool found = false;

	if (!take_number(params, &pid, &params) ||
	    (params != NULL && (!take_number(params, &first, &params) || params != NULL)))
		return "its parameters are PID[,FIRST]";
	TAILQ_FOREACH(client, &control.clients, link)
	{
		if ((uint32_t)client->pid != pid)
			continue;
		found = true;
		for (uint32_t i = 0; i < client->table[kind].size; i++) {
			const void *object = table_at(&client->table[kind], i);
			struct rte_tel_data *d;

			if (object == NULL || seen++ < first)
				continue;
			if (seen - first > ENTRIES)
				return NULL;
			d = new_entry();
			if (d == NULL)
				return NO_MEMORY;
			add_number(d, "client", client->number);
			fill(d, object);
			if (add_entry(out, name, seen - 1, d) != 0)
				return NULL;
		}
	}
	return found ? NULL : "no attachment is of that process";
}

static void
fill_qp(struct rte_tel_data *d, const void *object)
{
	const struct qp *qp = object;

	add_key(d, "qpn", qp->config.qpn);
	add_number(d, "id", qp->object.id);
	add_text(d, "role", qp->kind->name);
	add_text(d, "state", qp_state_name(qp));
	if (qp->conn == NULL)
		return;
	add_text(d, "peer", addr_text(&qp->conn->path.dst));
	add_key(d, "peer_qpn", qp->conn->peer_qpn);
	add_number(d, "service", service_to_qual(qp->conn->service));
	add_number(d, "path_mtu", qp->conn->local.path_mtu);
	add_text(d, "kind", qp->conn->peer_oneside ? "oneside" : "foreign");
}

static const char *
qps(const char *params, struct rte_tel_data *out)
{
	return objects(params, out, OBJECT_QP, "qp", fill_qp);
}

/* A key that its application has revoked, and may renew, finds nothing. */
static const char *
way_of(const struct mr *mr)
{
	if (mr->entry == NULL)
		return "none";
	if (mem_lookup(engine_mem_table(), mem_key_of(mr->entry)) != mr->entry)
		return "kept";
	return mr->entry->base != NULL ? "mapped" : "copied";
}

static void
fill_mr(struct rte_tel_data *d, const void *object)
{
	const struct mr *mr = object;
	const struct mw *mw;
	uint64_t windows = 0;

	LIST_FOREACH(mw, &mr->windows, mr_link)
	windows++;
	add_number(d, "id", mr->object.id);
	add_number(d, "address", mr->va);
	add_number(d, "length", mr->length);
	add_key(d, "access", mr->access);
	add_text(d, "way", way_of(mr));
	add_number(d, "windows", windows);
}

static const char *
regions(const char *params, struct rte_tel_data *out)
{
	return objects(params, out, OBJECT_MR, "mr", fill_mr);
}

static const char *
segments(const char *params, struct rte_tel_data *out)
{
	const struct segment *segment;
	uint32_t first = 0, seen = 0;

	if (tel_has(params) && (!take_number(params, &first, &params) || params != NULL))
		return "its parameter is [FIRST]";
	LIST_FOREACH(segment, &control.segments, link)
	{
		struct rte_tel_data *d;
		const struct qp *qp;
		uint64_t imports = 0;

		if (seen++ < first)
			continue;
		if (seen - first > ENTRIES)
			break;
		d = new_entry();
		if (d == NULL)
			return NO_MEMORY;
		LIST_FOREACH(qp, &segment->exports, segment_link)
		imports++;
		add_key(d, "segment", segment->id);
		add_number(d, "pid", (uint64_t)segment->client->pid);
		add_number(d, "uid", segment->acl.uid);
		add_text(d, "port", segment->client->port->info->name);
		add_number(d, "length", segment->mr->length);
		add_number(d, "imports", imports);
		add_number(d, "access_entries", segment->acl.num);
		if (add_entry(out, "segment", segment->id, d) != 0)
			break;
	}
	return NULL;
}

static const char *
neighbours(const char *params, struct rte_tel_data *out)
{
	static const char *const states[] = {"none", "incomplete", "reachable", "stale", "probe"};
	struct neigh_info info;

	if (tel_has(params))
		return TEL_NO_PARAMETERS;
	for (uint32_t i = 0; i < NEIGH_ENTRIES; i++) {
		struct rte_tel_data *d;
		char mac[18];

		if (!neigh_get(control.neigh, i, control.now, &info))
			continue;
		d = new_entry();
		if (d == NULL)
			return NO_MEMORY;
		snprintf(mac, sizeof(mac), "%02x:%02x:%02x:%02x:%02x:%02x", info.mac[0], info.mac[1],
			 info.mac[2], info.mac[3], info.mac[4], info.mac[5]);
		add_text(d, "address", addr_text(&info.addr));
		add_text(d, "mac", mac);
		add_text(d, "port", path_port[info.port].info->name);
		add_text(d, "state", states[info.state]);
		if (add_entry(out, "neighbour", i, d) != 0)
			break;
	}
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
