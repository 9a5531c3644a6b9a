/* SPDX-License-Identifier: BSD-3-Clause */
/* Lists in pages. A page ends when it has PAGE entries, or after LOOKS objects were examined; `next` is where
 * the following page begins. Objects that appear or vanish between pages may be missed or listed. */
#include <string.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_version.h>

#include "control/ctl/internal.h"
#include "control/rsm/rsm.h"
#include "control/takeover/takeover.h"

enum {
	PAGE = 32,
	LOOKS = 2048, /* objects examined for one page */
};

/* List under construction. */
struct list {
	struct fact_sink sink; /* writes into `entry` */
	const struct ctl_request *request;
	bool by_peer;
	struct wire_addr peer;
	json_t *entries, *entry; /* last entry; NULL: out of memory */
	uint32_t looked;
	bool more;
	uint64_t next;
};

struct list_kind {
	void (*fill)(struct list *list, const struct list_kind *kind);
	/* Objects in tables of attachments. `wanted` returns the object to show, or NULL to skip the slot. */
	enum object_kind table[2];
	uint32_t tables;
	const void *(*wanted)(const struct list *list, const void *object);
	show_object *sink;
	/* Numbered items. */
	uint32_t (*num)(void);
	bool (*is_wanted)(const struct list *list, uint32_t number); /* NULL: all are wanted */
	engine_report_fn *report_number;
	bool of_cores;
};

static void
add_number(struct fact_sink *sink, const char *name, uint64_t number)
{
	/* json_int_t is signed: a larger limit must not turn negative. */
	json_int_t most = number < INT64_MAX ? (json_int_t)number : INT64_MAX;

	json_object_set_new(((struct list *)sink)->entry, name, json_integer(most));
}

static void
add_text(struct fact_sink *sink, const char *name, const char *text)
{
	json_object_set_new(((struct list *)sink)->entry, name, json_string(text));
}

static void
entry_begin(struct list *list)
{
	list->entry = json_object();
	if (json_array_append_new(list->entries, list->entry) != 0)
		list->entry = NULL;
}

/* True: the page ends, and the next one begins at `here`. */
static bool
page_ends(struct list *list, uint64_t here)
{
	if (json_array_size(list->entries) < PAGE && list->looked++ < LOOKS)
		return false;
	list->more = true;
	list->next = here;
	return true;
}

static bool
is_port(const struct list *list, const char *name)
{
	return (list->request->given & CTL_M_PORT) == 0 || strcmp(list->request->port, name) == 0;
}

static bool
is_peer(const struct list *list, const struct wire_addr *addr)
{
	return !list->by_peer || memcmp(list->peer.gid, addr->gid, sizeof(addr->gid)) == 0;
}

static bool
is_wanted(const struct list *list, const struct client *client)
{
	const struct ctl_request *request = list->request;

	if ((request->given & CTL_M_PID) != 0 && request->pid != (uint32_t)client->pid)
		return false;
	if ((request->given & CTL_M_UID) != 0 && request->uid != client->uid)
		return false;
	return is_port(list, client->port != NULL ? client->port->info->name : "");
}

/* ---- attachments and their objects ---- */

/* Position in lists of objects: attachment, kind of object, slot. */
#define SLOT_BITS 17u
#define KIND_BITS 2u

static uint64_t
list_position(uint32_t client, uint32_t kind, uint32_t slot)
{
	return ((uint64_t)client << KIND_BITS | kind) << SLOT_BITS | slot;
}

static void
report_owner(struct fact_sink *sink, const struct client *client)
{
	add_number(sink, "client", client->number);
	add_number(sink, "pid", (uint64_t)client->pid);
	add_number(sink, "uid", client->uid);
	add_text(sink, "program", client->program);
}

static void
list_clients(struct list *list, const struct list_kind *kind)
{
	const struct client *client;

	TAILQ_FOREACH(client, &control.clients, link) {
		if (client->number < list->request->from || !is_wanted(list, client))
			continue;
		if (page_ends(list, client->number))
			return;
		entry_begin(list);
		add_number(&list->sink, "client", client->number);
		show_client(&list->sink, client);
	}
}

/* False: the page is full. */
static bool
list_table(struct list *list, const struct list_kind *kind, const struct client *client, uint32_t number)
{
	const struct table *table = &client->table[kind->table[number]];
	uint64_t begin = list_position(client->number, number, 0), from = list->request->from;
	uint32_t i = from > begin ? (uint32_t)(from - begin < table->size ? from - begin : table->size) : 0;

	for (; i < table->size; i++) {
		const void *object = table_at(table, i);
		if (page_ends(list, begin + i))
			return false;
		object = object != NULL ? kind->wanted(list, object) : NULL;
		if (object == NULL)
			continue;
		entry_begin(list);
		kind->sink(&list->sink, object);
		report_owner(&list->sink, client);
	}
	return true;
}

static void
list_objects(struct list *list, const struct list_kind *kind)
{
	const struct client *client;

	TAILQ_FOREACH(client, &control.clients, link) {
		if (!is_wanted(list, client))
			continue;
		for (uint32_t i = 0; i < kind->tables; i++)
			if (!list_table(list, kind, client, i))
				return;
	}
}

static const void *
any_object(const struct list *list, const void *object)
{
	return object;
}

static const void *
endpoint_wanted(const struct list *list, const void *object)
{
	const struct qp *qp = object;

	if (list->by_peer && (qp->conn == NULL || !is_peer(list, &qp->conn->path.dst)))
		return NULL;
	return qp;
}

/* Connection of a queue pair, or of a request that has no queue pair yet. */
static const void *
connection_wanted(const struct list *list, const void *object)
{
	const struct object *head = object;
	const struct conn *conn;

	if (head->kind == OBJECT_QP)
		conn = ((const struct qp *)object)->conn;
	else
		conn = ((const struct cr *)object)->conn;
	return conn != NULL && is_peer(list, &conn->path.dst) ? conn : NULL;
}

static const void *
published_segment(const struct list *list, const void *object)
{
	return ((const struct mr *)object)->segment;
}

/* ---- numbered items ---- */

static void
list_numbered(struct list *list, const struct list_kind *kind)
{
	uint32_t from = (uint32_t)(list->request->from < UINT32_MAX ? list->request->from : UINT32_MAX);

	for (uint32_t i = from, num = kind->num(); i < num; i++) {
		if (page_ends(list, i))
			return;
		if (kind->is_wanted != NULL && !kind->is_wanted(list, i))
			continue;
		entry_begin(list);
		if (kind->of_cores)
			add_number(&list->sink, "core", engine_core_lcore(i));
		kind->report_number(&list->sink, i);
	}
}

static uint32_t
num_peers(void)
{
	return control.config->num_peers;
}

static uint32_t
num_neighbours(void)
{
	return NEIGH_ENTRIES;
}

static bool
is_port_wanted(const struct list *list, uint32_t number)
{
	return is_port(list, engine_port(number)->name);
}

static bool
is_neighbour_wanted(const struct list *list, uint32_t index)
{
	struct neigh_info info;

	return neigh_get(control.neigh, index, control.now, &info) && is_peer(list, &info.addr) &&
	       is_port(list, path_port[info.port].info->name);
}

static bool
is_ipsec_wanted(const struct list *list, uint32_t index)
{
	struct wire_addr peer;

	engine_ipsec_peer(index, &peer);
	return is_peer(list, &peer);
}

static void
report_ipsec(struct fact_sink *sink, uint32_t index)
{
	struct wire_addr peer;

	engine_ipsec_peer(index, &peer);
	engine_report_ipsec(sink, index);
	add_text(sink, "peer", addr_text(&peer));
}

/* ---- */

static void
list_quota(struct list *list, const struct list_kind *kind)
{
	const struct quota_account *account;
	uint64_t i = 0;

	LIST_FOREACH(account, &control.quota.accounts, link) {
		if (i++ < list->request->from)
			continue;
		if (page_ends(list, i - 1))
			return;
		if ((list->request->given & CTL_M_UID) != 0 && list->request->uid != account->uid)
			continue;
		entry_begin(list);
		show_quota(&list->sink, account);
	}
}

static void
report_version(struct list *list, const struct list_kind *kind)
{
	const struct config *config = control.config;
	struct fact_sink *sink = &list->sink;

	entry_begin(list);
	add_text(sink, "version", ctl_source.version);
	add_text(sink, "dpdk", rte_version());
	add_number(sink, "abi", ONE_ABI_VERSION);
	add_number(sink, "pid", (uint64_t)getpid());
	add_number(sink, "uid", geteuid());
	add_number(sink, "uptime_s", (control.now - ctl_source.started) / NS_PER_S);
	if (takeover_stopped_ns() != 0)
		add_number(sink, "stopped_us", takeover_stopped_ns() / 1000);
	add_number(sink, "node", config->node);
	add_text(sink, "socket", config->socket);
	add_text(sink, "runtime_directory", rte_eal_get_runtime_dir());
	add_text(sink, "hugepages", rte_eal_has_hugepages() ? "yes" : "no");
	add_text(sink, "drains", control.draining ? "yes" : "no");
	add_number(sink, "cores", engine_num_cores());
	add_number(sink, "ports", path_num_ports);
	add_number(sink, "clients", control.quota.clients);
	add_number(sink, "clients_max", control.quota.max_clients);
	add_number(sink, "clients_ever", control.attached_ever);
}

#define OBJECTS(which, reported, count, ...)                                                         \
	{                                                                                            \
		.fill = list_objects, .wanted = which, .sink = reported, .tables = count, .table = { \
			__VA_ARGS__                                                                  \
		}                                                                                    \
	}
#define NUMBERED(count, which, reported)                                                           \
	{                                                                                          \
		.fill = list_numbered, .num = count, .is_wanted = which, .report_number = reported \
	}
#define OF_CORES(reported)                                                                                  \
	{                                                                                                   \
		.fill = list_numbered, .num = engine_num_cores, .report_number = reported, .of_cores = true \
	}

static const struct list_kind kinds[CTL_WHATS] = {
	[CTL_CLIENTS] = {.fill = list_clients},
	[CTL_ENDPOINTS] = OBJECTS(endpoint_wanted, show_qp, 1, OBJECT_QP),
	[CTL_CONNECTIONS] = OBJECTS(connection_wanted, show_connection, 2, OBJECT_QP, OBJECT_CR),
	[CTL_LISTENERS] = OBJECTS(any_object, show_listener, 1, OBJECT_LISTENER),
	[CTL_SEGMENTS] = OBJECTS(published_segment, show_segment, 1, OBJECT_MR),
	[CTL_MEMORY] = OBJECTS(any_object, show_mr, 1, OBJECT_MR),
	[CTL_PORTS] = NUMBERED(engine_num_ports, is_port_wanted, show_port),
	[CTL_PEERS] = NUMBERED(num_peers, NULL, show_peer),
	[CTL_NEIGHBOURS] = NUMBERED(num_neighbours, is_neighbour_wanted, show_neighbour),
	[CTL_CORES] = OF_CORES(show_core),
	[CTL_DROPS] = OF_CORES(engine_report_drops),
	[CTL_TRANSPORT] = OF_CORES(engine_report_transport),
	[CTL_QUOTA] = {.fill = list_quota},
	[CTL_IPSEC] = NUMBERED(engine_ipsec_count, is_ipsec_wanted, report_ipsec),
	[CTL_VERSION] = {.fill = report_version},
};

static json_t *
list_page(struct list *list)
{
	enum ctl_what what = list->request->what;
	json_t *answer;

	list->sink = (struct fact_sink){add_number, add_text};
	list->entries = json_array();
	kinds[what].fill(list, &kinds[what]);
	answer = json_pack("{s:o}", ctl_whats[what].name, list->entries);
	if (list->more)
		json_object_set_new(answer, "next", json_integer((json_int_t)list->next));
	return answer;
}

void
ctl_show(struct ctl_caller *caller, const struct ctl_request *request)
{
	struct list list = {.request = request, .by_peer = (request->given & CTL_M_PEER) != 0};
	struct config_addr peer;
	bool has_prefix;

	if (list.by_peer && (config_addr_parse(request->peer, &peer, &has_prefix) != 0 || has_prefix)) {
		ctl_refuse(caller, "peer %s: not an address; write an IPv4 or IPv6 address", request->peer);
		return;
	}
	if ((request->given & CTL_M_PORT) != 0 && path_port_by_name(request->port) == NULL) {
		ctl_refuse(caller, "port %s: no such port; see onesidectl show ports", request->port);
		return;
	}
	if (list.by_peer)
		addr_to_wire(peer.family, peer.bytes, &list.peer);
	ctl_answer(caller, list_page(&list));
}
